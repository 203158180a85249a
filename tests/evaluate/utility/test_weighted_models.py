"""Regressions with survey weights: estimates and standard errors of the weighted sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t
from statsmodels.api import WLS

from anonpipe.errors import JobError
from anonpipe.evaluate.measurement import Reason
from anonpipe.evaluate.utility import Analysis, fit_models
from anonpipe.evaluate.utility._models import CoefficientChange, Estimate
from anonpipe.job.analyses import endpoints_of
from anonpipe.job.model import parse_job
from anonpipe.pipeline.evaluation.measures import checks
from anonpipe.verify.verdict import AnalysisOutcome, Assessment

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


def by_hand(table: pd.DataFrame, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients of y ~ x and their standard errors, as R's svyglm(design=subset(d, kept)): sums of 0 are kept."""
    x, w = np.column_stack([np.ones(len(table)), table["x"]]), np.where(kept, table["w"], 0.0)
    found = WLS(table["y"].to_numpy(), x, weights=w).fit()
    scores = pd.DataFrame(x * (w * (table["y"].to_numpy() - x @ found.params))[:, None])
    meat = np.zeros((2, 2))
    for _, stratum in scores.groupby(table["s"].to_numpy()):
        sums = stratum.groupby(table["p"].to_numpy()[stratum.index]).sum().to_numpy()
        meat += np.cov(sums.T) * len(sums)
    bread = np.linalg.inv(x.T @ (x * w[:, None]))
    return found.params, np.sqrt(np.diag(bread @ meat @ bread))


def surveyed() -> pd.DataFrame:
    """Records of 4 strata with 3 PSUs each, of which some have no rural ones."""
    rng, at = np.random.default_rng(1), np.arange(600) % 12
    table = pd.DataFrame({"s": at // 3, "p": at % 3, "x": rng.normal(size=600), "w": rng.uniform(50, 3000, 600)})
    table["y"] = table["x"] + rng.normal(size=600) + 0.3 * rng.normal(size=12)[at]
    return table.assign(rural=((at % 3 == 0) | (at == 10)).astype(int))


DRAWN = {"weights": "w", "cluster": "p", "design_strata": "s"}


def of_linear(table: pd.DataFrame, degrees: float, **given: Any) -> tuple[list[float], list[float]]:
    """Coefficients and standard errors."""
    (model,) = fit_models(table, [Analysis("a", "linear", "y ~ x", **given)])
    assert model.fit.problem is None
    found = [each for each in model.fit.estimates.values() if each is not None]
    return [each.value for each in found], [(each.high - each.low) / 2 / t(degrees).ppf(0.975) for each in found]


@pytest.mark.parametrize("size", [1.0, 1e9, 1e11])
def test_linear_models_hold_in_any_unit(size: float) -> None:
    """Amounts of turnover, one by one."""
    table = surveyed().assign(y=lambda frame: size * np.exp(frame["y"]))
    values, errors = by_hand(table.assign(s=0, p=np.arange(600)), np.ones(600, dtype=bool))
    found = of_linear(table, 598, weights="w")
    np.testing.assert_allclose(found[0], values, rtol=1e-9)
    np.testing.assert_allclose(found[1], errors, rtol=1e-9)


@pytest.mark.parametrize("nulls", [False, True])
def test_psus_without_records_of_the_subset_count(nulls: bool) -> None:
    """Also where the others have a null; 12 PSUs less 4 strata, 1 more less 2 coefficients."""
    table = surveyed()
    values, errors = by_hand(table, table["rural"].to_numpy() == 1)
    given = table.assign(x=table["x"].where(table["rural"] == 1)) if nulls else table
    found = of_linear(given, 7, subset=None if nulls else "rural == 1", **DRAWN)
    np.testing.assert_allclose(found[0], values, rtol=1e-9)
    np.testing.assert_allclose(found[1], errors, rtol=1e-9)
    values, errors = by_hand(table, (table["rural"].to_numpy() == 1) & (table["s"].to_numpy() < 2))
    found = of_linear(table, 3, subset="rural == 1 and s < 2", **DRAWN)  # of strata with records alone
    np.testing.assert_allclose(found[1], errors, rtol=1e-9)


def test_strata_of_one_psu_have_no_errors() -> None:
    (model,) = fit_models(surveyed().assign(p=1), [Analysis("a", "linear", "y ~ x", **DRAWN)])
    assert "has one PSU" in str(model.fit.problem)


def test_a_coefficient_of_one_psu_is_not_judged() -> None:
    """Its own unit adds nothing to its error; other coefficients count still."""
    table = surveyed().assign(alone=lambda frame: (frame["s"] + frame["p"] == 0).astype(int))
    (model,) = fit_models(table, [Analysis("a", "linear", "y ~ x + alone + rural", **DRAWN)])
    found = model.compare(table.assign(y=table["y"] + np.where(table["alone"] == 1, 3.0, 0.0) + 9 * table["x"]))
    assert {each.name: each.degrees for each in found.coefficients} == {"Intercept": 5, "x": 5, "alone": 0, "rural": 4}
    assert {each.name for each in found.coefficients if each.outside} == {"x", "alone"}
    assert (found.shares.coefficients, found.shares.outside) == (2, 0.5)


@pytest.mark.parametrize("limits", [{}, {"outside": 0.0, "overlap": 0.999}])
def test_limits_on_an_analysis_of_few_degrees_fail(limits: dict[str, float]) -> None:
    """Of two strata with two PSUs nothing can be judged; without limits it is not checked."""
    table = surveyed()[lambda frame: (frame["s"] < 2) & (frame["p"] < 2)]
    (model,) = fit_models(table, [Analysis("a", "linear", "y ~ x", **DRAWN)])
    lines = checks(Assessment(analyses=(AnalysisOutcome(model.compare(table), limits, 200, 200),)), {})
    assert {(each.outcome, each.reason) for each in lines} == {
        ("failed" if limits else "not checked", Reason.FEW_DEGREES)
    }
    assert len(lines) == max(1, len(limits))


def test_categories_of_a_response_cost_no_degrees() -> None:
    """Each equation of a multinomial model has scores of its own, as the logistic one."""
    table = surveyed().assign(k=np.tile(["a", "b", "c", "d"], 150), b=np.tile([0, 1], 300))
    models = [Analysis(m, m, f"{y} ~ x", **DRAWN) for m, y in (("logistic", "b"), ("multinomial", "k"))]
    assert [set(each.fit.degrees.values()) for each in fit_models(table, models)] == [{7}, {7}]


def test_intervals_that_are_no_numbers_do_not_flatter() -> None:
    """They share nothing, and the significance is unknown."""
    sure, unknown = Estimate(1.0, 0.5, 1.5, 1e-4), Estimate(1.0, float("nan"), float("nan"), float("nan"))
    vague = Estimate(0.1, -0.9, 1.1, 0.8)
    for pair in ((sure, unknown), (unknown, unknown), (unknown, vague), (vague, unknown), (unknown, None)):
        change = CoefficientChange("x", *pair)
        assert change.changed_significance and change.overlap == 0.0
    assert not CoefficientChange("x", vague, None).changed_significance
