"""Regressions with survey weights: estimates and standard errors of the weighted sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from anonpipe.errors import JobError
from anonpipe.evaluate.utility import Analysis, fit_models
from anonpipe.job.analyses import endpoints_of
from anonpipe.job.model import parse_job

JOB: dict[str, Any] = {
    "input": "a.parquet",
    "output": "out",
    "k": 5,
    "columns": {
        "x": {"kind": "continuous"},
        "y": {"kind": "continuous"},
        "dead": {"kind": "binary"},
        "w": {"kind": "continuous", "role": "sampling_weight"},
    },
}


def drawn(seed: int, rows: int = 600) -> pd.DataFrame:
    """A sample in which those with a high response are drawn more often, and have lower weights."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=20 * rows)
    y = 1.0 + 0.5 * x + rng.normal(size=len(x))
    chance = np.clip(np.exp(0.7 * y) / 50, 0.005, 0.5)
    chosen = rng.random(len(x)) < chance * rows / chance.sum()
    weights = chance.sum() / rows / chance[chosen]
    return pd.DataFrame({"x": x, "y": y, "b": (y > 1).astype(int)})[chosen].assign(w=weights)


@pytest.mark.parametrize("weights", [None, "w"])
def test_a_category_of_one_outcome_has_no_fit(weights: str | None) -> None:
    table = drawn(1).assign(ward=lambda frame: np.where(frame["b"] & (frame["x"] > 0), "a", "b"))
    (fitted,) = fit_models(table, [Analysis("a", "logistic", "b ~ x + ward", weights=weights)])
    assert "may separate the outcomes" in str(fitted.fit.problem)


def test_weights_undo_the_selection_and_intervals_hold() -> None:
    """The slope of the population is in about 95 % of the intervals; without weights the intercept is far off."""
    weighted, plain = Analysis("w", "linear", "y ~ x", weights="w"), Analysis("p", "linear", "y ~ x")
    inside, off = 0, []
    for seed in range(20):
        one, other = fit_models(drawn(seed), [weighted, plain])
        slope, intercept = one.fit.estimates["x"], other.fit.estimates["Intercept"]
        assert slope is not None and intercept is not None
        inside += slope.low <= 0.5 <= slope.high
        off.append(intercept.value - 1.0)
    assert inside >= 16 and np.mean(off) > 0.3


def test_jobs_take_weights_by_default_where_they_can() -> None:
    """Not in mixed models, nor where the analysis declines; asking without the role is refused."""
    analyses = [
        {"name": "a", "model": "linear", "formula": "y ~ x"},
        {"name": "b", "model": "linear", "formula": "y ~ x", "weights": False},
        {"name": "c", "model": "mixed", "formula": "y ~ x", "groups": "dead"},
        {"name": "d", "model": "cox", "formula": "y ~ x", "event": "dead == 1"},
        {"name": "e", "model": "cox", "formula": "y ~ x", "event": "dead == 1", "weights": False},
    ]
    job = parse_job(JOB | {"analyses": analyses})
    assert [job.analysis_of(each).weights for each in job.analyses] == ["w", None, None, "w", None]
    assert [each.weight for each in endpoints_of(job)] == ["w", ""]
    assert job.columns_of(job.analyses[0]) == ("x", "y", "w")
    columns = {name: column for name, column in JOB["columns"].items() if name != "w"}
    with pytest.raises(JobError, match="no column has role sampling_weight"):
        parse_job(JOB | {"columns": columns, "analyses": [analyses[0] | {"weights": True}]})
    with pytest.raises(JobError, match="survey weights go with linear, logistic"):
        parse_job(JOB | {"analyses": [analyses[2] | {"weights": True}]})


def test_outcomes_told_apart_have_no_weighted_fit() -> None:
    """As without weights."""
    table = drawn(2)
    table["b"] = (table["x"] > 0).astype(int)
    (fitted,) = fit_models(table, [Analysis("a", "logistic", "b ~ x", weights="w")])
    assert fitted.fit.problem is not None and "did not converge" in fitted.fit.problem
    (odd,) = fit_models(table.assign(w=0.0), [Analysis("a", "linear", "y ~ x", weights="w")])
    assert odd.fit.problem is not None and "survey weights" in odd.fit.problem
