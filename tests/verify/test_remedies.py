"""What the command line advises where a gate failed."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pyarrow as pa
import pytest

from anonpipe import cli, display
from anonpipe.errors import GateError
from anonpipe.evaluate.utility import auc
from anonpipe.verify.catalogue import KINDS
from anonpipe.verify.check import held
from anonpipe.verify.words import remedies
from tests import runs, small


def told(*keys: str, measured: float = 1.0, **about: bool) -> tuple[str, ...]:
    return remedies(tuple(held(key, measured, 0.5, about=about) for key in keys))


@pytest.mark.parametrize(
    ("key", "name", "words"),
    [
        ("covariance.keys", "covariance with key variables", "strata.by"),
        ("covariance.keys", "covariance (all but category probabilities) with key variables", "strata.by"),
        ("covariance", "covariance (all but category probabilities)", "finer step"),
        ("covariance.stratum", "covariance in each stratum", "wider bounds"),
        ("mean", "mean", "gates.mean"),
        (
            "mean.own_unit",
            "mean in original units (transformed columns)",
            "gates.mean_in_unit",
        ),
        (
            "variance.own_unit",
            "variance in original units (columns by normal scores)",
            "finer step",
        ),
        ("risk.reidentification_rate", "re-identification rate", "larger k"),
        ("risk.homogeneity", "homogeneity rate, worst sensitive variable", "l_diversity"),
    ],
)
def test_failed_gates_have_a_remedy(key, name, words):
    about = {"probabilities": "probabilities" in name}
    (line,) = told(key, **about)
    assert line.startswith(f"{name}: ") and words in line
    assert told(key, measured=0.1, **about) == ()
    (worst,) = remedies((held(key, 1.0, 0.5, columns=("visits",), about=about),))
    assert worst.startswith(f"{name}, most in column 'visits': ")


@pytest.mark.parametrize("key", ["risk.membership_auc", "risk.attribute_inference"])
def test_a_gate_that_fails_by_its_interval_alone_names_the_hold_out_that_would_do(key):
    (line,) = remedies((held(key, 0.62, 0.6, point=0.55, records=146, of=3_000),))
    assert "0.55, is within the limit" in line and "only 146 persons were held out" in line
    assert "about 287, 1.96 times as many" in line and "a larger k" in line
    (line,) = remedies((held(key, 0.72, 0.6, point=0.65, records=146, of=3_000),))
    assert "held out" not in line
    (line,) = remedies((held("risk.reidentification_rate", 0.1, 0.09, point=0.08, records=146, of=3_000),))
    assert "held out" not in line


def test_the_hold_out_that_would_do_would():
    """The area of as many persons as are advised is held with 95 % confidence below the limit."""
    rng = np.random.default_rng(0)
    few = auc(rng.normal(0.1, 1, 146), rng.normal(size=146))
    limit = few.value + 0.5 * (few.high - few.value)
    (line,) = remedies((held("risk.membership_auc", few.high, limit, point=few.value, records=146, of=3_000),))
    wanted = int(line.partition("about ")[2].partition(",")[0])
    ranks = np.random.default_rng(1).normal(size=(2, wanted))
    shift = np.sqrt(2) * NormalDist().inv_cdf(few.value)
    many = auc(ranks[0] + shift, ranks[1])
    assert many.high - many.value == pytest.approx(limit - few.value, rel=0.1)


MASKED = ("local_synthesis", "normal_scores")


@pytest.mark.parametrize("key", [key for key, kind in KINDS.items() if kind.remedy])
def test_no_remedy_names_what_is_on(key):
    """Nor a synthesizer to a job that forms no groups."""
    (line,) = remedies((held(key, 1.0 if not KINDS[key].at_least else 0.1, 0.5),), MASKED)
    _, _, advice = line.partition(": ")
    said = advice.partition(": transform: none")[0]
    assert not any(word in said for word in (*MASKED, "synthesize:", "refine"))
    assert len(advice) > 10


def visits(rows: int = 1_000) -> pa.Table:
    """Counts, five of six of them 0, beside an age and an income."""
    rng = np.random.default_rng(3)
    counts = rng.negative_binomial(0.6, 0.12, rows) * (rng.random(rows) < 0.25)
    age, income = rng.integers(18, 90, rows), rng.lognormal(10.0, 0.5, rows)
    return pa.table({"age": age, "visits": counts, "income": income})


def released_visits(folder, column=None, **changes):
    """How far the share of 0 is from the original's, and the smallest released count."""
    columns = small.unscored(
        {
            "age": {"kind": "integer", "bounds": [0, 120]},
            "visits": {"kind": "integer", "bounds": [0, 500]} | (column or {}),
            "income": {"kind": "continuous", "bounds": [0, None]},
        }
    )
    job = small.job(folder, visits(), columns, **changes)
    assert small.run(job).verdict.passed
    counts = small.released(job).column("visits").to_numpy()
    return abs((counts == 0).mean() - (visits().column("visits").to_numpy() == 0).mean()), counts.min()


def test_what_is_advised_for_counts_with_many_zeros_keeps_them(tmp_path, monkeypatch):
    """Wider bounds, which keep the mean too, release counts below 0."""
    monkeypatch.setenv("ANONPIPE_SECRET", runs.SECRET)  # how many zeros are lost is a matter of the draw
    (line,) = told("mean")
    assert "transform: log" in line and "synthesize: {method: pca, moments: expected}" in line
    plain, least = released_visits(tmp_path / "plain")
    assert plain > 0.02 and least == 0
    assert released_visits(tmp_path / "wide", {"bounds": [-200, 700]})[1] < 0
    for remedy in (
        {"column": {"transform": "normal_scores"}},
        {"column": {"transform": "log", "step": 1}},
        {"synthesize": {"method": "pca", "moments": "expected"}},
    ):
        moved, least = released_visits(tmp_path / str(remedy), **remedy)
        assert moved < plain / 2 and least >= 0


def test_counts_that_are_taken_for_categories_keep_more_as_numbers(tmp_path):
    """The remedy that is printed leads to smaller deviations."""
    rng = np.random.default_rng(4)
    ill = rng.random(800) < 0.15
    stays = np.where(ill, 1 + rng.poisson(1.0, 800).clip(max=3), 0)
    visits = rng.poisson(0.5 + stays).clip(max=4)
    table = pa.table({"age": np.where(ill, 70, 50) + rng.integers(-20, 20, 800), "stays": stays, "visits": visits})
    (line,) = remedies((held("covariance", 1.0, 0.5),), MASKED)
    assert "kind: integer" in line
    off = {}
    for kind in ("categorical", "integer"):
        columns = {"age": {"kind": "integer"}} | dict.fromkeys(("stays", "visits"), {"kind": kind})
        job = small.job(tmp_path / kind, table, columns, mask={"method": "local_synthesis"})
        off[kind] = next(check.measured for check in small.run(job).verdict.checks if check.key == "covariance")
    assert off["integer"] < 0.01 < 0.02 < off["categorical"]


def test_what_has_no_remedy_and_what_is_said_once():
    assert told("expectation.mean", "expectation.covariance.stratum", "rows.lost") == ()
    assert len(told("mean", "mean.stratum", "covariance")) == 2
    missing = held("risk.reidentification_rate", None, 0.1)
    assert missing.outcome == "failed" and remedies((missing,)) == ()


def test_a_failed_run_prints_remedies(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(display, "out", display.Console(highlight=False, width=80))
    table = small.plain_table(300)
    place = pa.array(["hermitage", *table.column("place").to_pylist()[1:]])  # a category of one person
    job = small.job(tmp_path, table.set_column(2, "place", place), gates={"local_suppression_rate": 0})
    outcome = small.run(job)
    with pytest.raises(GateError):
        cli._finish(job, outcome, None)
    shown = capsys.readouterr().out
    assert "remedy: join rare categories in the input" in shown
