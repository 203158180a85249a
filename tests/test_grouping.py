"""Grouping methods, class conditions and distances through the whole pipeline."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest

from anonpipe.errors import InputError, JobError
from anonpipe.methods.grouping import METHODS
from tests import small

pytestmark = pytest.mark.secret("5e" * 32)

COLUMNS = {
    "age": {"kind": "integer", "bounds": [0, 120]},
    "income": {"kind": "continuous", "bounds": [0, 1_000_000]},
    "ward": {"kind": "binary", "role": "key"},
    "illness": {"kind": "categorical", "role": "sensitive"},
    "stage": {"kind": "ordinal", "role": "sensitive", "levels": ["I", "II", "III"]},
}
GATES = {"mean": 1.0, "covariance": 1.0, "covariance_with_keys": 1.0, "unchanged_record_rate": 1.0}


def table(rows=1_500):
    """Income follows the illness, so that near records are alike in class."""
    rng = np.random.default_rng(5)
    illness = rng.choice(["flu", "gout", "mumps"], rows, p=[0.6, 0.3, 0.1])
    income = rng.lognormal(10.0, 0.3, rows) * np.where(illness == "flu", 1.0, 1.4)
    return pa.table(
        {
            "age": rng.integers(18, 90, rows),
            "income": income,
            "ward": rng.choice(["a", "b"], rows),
            "illness": illness,
            "stage": rng.choice(["I", "II", "III"], rows),
        }
    )


def job(folder, data=None, columns=COLUMNS, **changes):
    changes = {"gates": GATES, "partition": {"rows": 1_000, "sample_rows": 500}, **changes}
    return small.job(folder, table() if data is None else data, columns, **changes)


def checks(outcome, text):
    return [check for check in outcome.verdict.lines if text in check.name]


REFINED = ("mdav", "kd_tree", "mst", "optimal_univariate")


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method_runs_inside_partitions(tmp_path, method):
    columns, cluster = dict(COLUMNS), {"method": method}
    if method in ("optimal_univariate", "rhs"):  # the one takes one column, the other fails on many, and on ties
        columns |= {"age": {"kind": "integer", "role": "dropped"}}
    if method != "mdav":
        cluster["block_rows"] = 200
    if method not in REFINED and not METHODS[method].classes:
        cluster["refine"] = False  # takes as long as all the rest, of any groups the same
    given = job(tmp_path, table(1_100), columns, cluster=cluster)
    outcome = small.run(given)
    assert outcome.version, [check for check in outcome.verdict.lines if check.outcome == "failed"]
    assert checks(outcome, "smallest group")[0].outcome == "passed"
    assert small.released(given).num_rows == 1_100
    assert small.stagings() == []


def test_a_method_that_cannot_group_refuses_with_its_reason(tmp_path):
    for method, text in (("optimal_univariate", "mhm"), ("rhs", "spectral_rhs")):
        with pytest.raises((InputError, JobError), match=text):
            small.run(job(tmp_path, cluster={"method": method, "block_rows": 200, "refine": False}))
        assert small.left_behind(tmp_path) == []


@pytest.mark.parametrize("strata", [{}, {"by": ["ward"]}], ids=["whole", "strata"])
@pytest.mark.parametrize("method", ["mdav", "crest"])
def test_conditions_on_classes_are_met_and_held_as_gates(tmp_path, method, strata):
    classes = {"l_diversity": 2, "t_closeness": 0.35}
    outcome = small.run(job(tmp_path, cluster={"method": method}, sensitive=classes, strata=strata))
    assert outcome.version
    lines = checks(outcome, "l-diversity") + checks(outcome, "t-closeness")
    assert len(lines) == 4 and all(line.outcome == "passed" and line.mandatory for line in lines)
    assert any("'illness': 0.00 % of the records" in note for note in outcome.verdict.notes)


def test_entropy_and_ordered_distances(tmp_path):
    columns = {**COLUMNS, "illness": {"kind": "categorical", "role": "key"}}
    classes = {"l_diversity": 2.1, "diversity": "entropy", "t_closeness": 0.2, "closeness": "ordered"}
    outcome = small.run(job(tmp_path, columns=columns, sensitive=classes, gates={**GATES, "rows_under_k": 1_500}))
    assert [line.outcome for line in checks(outcome, "'stage'")] == ["passed", "passed"]
    plain = small.run(job(tmp_path, columns=columns, gates={**GATES, "rows_under_k": 1_500}))
    note = next(note for note in plain.verdict.notes if "'stage'" in note)
    assert re.search("fewest values in a group [12]", note)  # by the secret: scores of equal values are drawn


def test_unmeetable_conditions_are_refused_before_grouping(tmp_path):
    with pytest.raises(InputError, match=r"column 'illness': the whole table .* records of 3 classes; give at most 3"):
        small.run(job(tmp_path, sensitive={"l_diversity": 4}))
    data = table()
    gout = pa.array(["gout"] * 1_500)
    apart = data.set_column(
        3, "illness", pa.compute.if_else(pa.compute.equal(data["ward"], "a"), gout, data["illness"])
    )
    with pytest.raises(InputError, match=r"column 'illness': stratum [12] \(\d+ records\) .* t_closeness is 0.1"):
        small.run(job(tmp_path, apart, strata={"by": ["ward"]}, sensitive={"t_closeness": 0.1}))
    assert small.left_behind(tmp_path) == []


@pytest.mark.parametrize("synthesize", ["micro_perturbation", "centroid"])
def test_one_run_a_class_averaged(tmp_path, synthesize):
    given = job(
        tmp_path,
        cluster={"method": "crest", "block_rows": 300},
        sensitive={"combine": "average"},
        synthesize={"method": synthesize},
    )
    outcome = small.run(given)
    assert outcome.version
    assert all(line.outcome == "passed" for line in checks(outcome, "deviation from its expected value"))
    assert "averaged" in outcome.verdict.notes[0]
    single = small.run(job(tmp_path / "one", cluster={"method": "crest", "block_rows": 300}))
    assert "lower bound of any grouping with this k" in single.verdict.notes[0]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"cluster": {"method": "crest"}, "columns": {"age": COLUMNS["age"]}}, "needs a column with role sensitive"),
        ({"sensitive": {"l_diversity": 2}, "columns": {"age": COLUMNS["age"]}}, "needs a column with role sensitive"),
        ({"cluster": {"method": "crest", "refine": True}}, "would undo"),
        ({"sensitive": {"combine": "average"}}, "needs a method that mixes sensitive values"),
        (
            {"cluster": {"method": "crest"}, "sensitive": {"combine": "average"}, "synthesize": {"method": "gaussian"}},
            "centroid, or micro_perturbation",
        ),
        (
            {"cluster": {"method": "crest"}, "sensitive": {"combine": "average", "l_diversity": 2}},
            "no single grouping",
        ),
        ({"sensitive": {"diversity": "entropy"}}, "give l_diversity too"),
        ({"sensitive": {"t_closeness": 0.2, "closeness": "ordered"}}, "'illness' is categorical"),
        (
            {"cluster": {"distance": "range"}, "columns": {"age": {"kind": "integer"}}},
            "column 'age' has no bounds",
        ),
        ({"cluster": {"method": "crest", "gamma": 1}}, "unknown key"),
        ({"cluster": {"method": "mst_t_close", "t": 2}}, "less than or equal to 1"),
    ],
)
def test_jobs_that_contradict_themselves(tmp_path, changes, text):
    with pytest.raises(JobError, match=text):
        job(tmp_path, **changes)


def test_distances_by_range_group_otherwise(tmp_path):
    data = table()
    grouped = {}
    for distance in ("z_score", "range"):
        how = {"cluster": {"distance": distance}, "synthesize": {"method": "centroid"}}
        given = job(tmp_path / distance, data, columns=small.unscored(COLUMNS), **how)
        assert small.run(given).version
        grouped[distance] = small.released(given).to_pandas().groupby(["age", "income"]).size()
    spread = {distance: groups.index.get_level_values("age").nunique() for distance, groups in grouped.items()}
    # Within the bounds incomes differ by little and ages by much: ages are held together.
    assert spread["range"] > spread["z_score"]
