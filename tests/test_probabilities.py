"""Categories released as probabilities by a whole run: what is written, verified, told and refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from anonpipe import anonymize
from anonpipe.errors import JobError
from anonpipe.job.model import parse_job
from anonpipe.report import read_report
from anonpipe.storage import release
from tests import small

pytestmark = pytest.mark.secret("5e" * 32)

COLUMNS = {
    "id": {"kind": "integer", "role": "identifier"},
    "age": {"kind": "integer", "bounds": [0, 120]},
    "site": {"kind": "categorical"},
    "smoker": {"kind": "binary"},
    "status": {"kind": "binary", "role": "key"},
}
NAMES = ["age", "site_breast", "site_lung", "site_null", "smoker_False", "smoker_True", "status"]
DECODE = {"categories": "probabilities"}
GATES = {"unchanged_record_rate": 1.0, "covariance": 0.5, "covariance_with_keys": 1.0}
METHODS = [
    {"synthesize": {"method": "centroid"}},
    {"mask": {"method": "spectral_swap"}},
]


def people(rows=600):
    rng = np.random.default_rng(0)
    age = rng.integers(20, 90, rows)
    site = np.where(rng.random(rows) < age / 110, "lung", "breast")
    return pa.table(
        {
            "id": np.arange(rows),
            "age": age,
            "site": pa.array(site, mask=rng.random(rows) < 0.1),
            "smoker": rng.random(rows) < 0.05,
            "status": np.where(rng.random(rows) < 0.5, "a", "b"),
        }
    )


def job(**changes):
    return {"k": 5, "columns": COLUMNS, "decode": DECODE, "measure": small.OFF, **changes}


def line(verdict, name):
    return next(check for check in verdict.lines if check.name == name)


def check_release(table, original):
    assert table.column_names == NAMES and len(table) == len(original)
    site = original["site"].to_pylist()
    wanted = [site.count("breast"), site.count("lung"), site.count(None)]
    smokers = sum(original["smoker"].to_pylist())
    wanted += [len(site) - smokers, smokers]
    made = np.stack([table[name].to_numpy() for name in NAMES[1:6]], axis=1)
    assert np.allclose(made.mean(axis=0), np.array(wanted) / len(site), atol=3e-4)  # smokers 5 %, not 29 %
    assert np.allclose(made[:, :3].sum(axis=1), 1) and np.allclose(made[:, 3:].sum(axis=1), 1)
    assert np.allclose(made * 1000, np.rint(made * 1000), atol=1e-9) and made.min() >= 0 and made.max() <= 1


@pytest.mark.parametrize("method", METHODS, ids=lambda method: str(next(iter(method.values()))["method"]))
def test_methods_release_probabilities(method):
    original = people()
    table, verdict, _ = anonymize(original, job(**method, gates=GATES))
    assert verdict.passed
    check_release(table, original)
    assert float(line(verdict, "category shares").measured) < 0.001
    told = line(verdict, "covariance of category probabilities with other columns")
    assert told.outcome.value == "no limit set" and float(told.measured.split()[0]) > 0.02
    assert line(verdict, "covariance (all but category probabilities)").mandatory
    assert any("released as probabilities" in note and "site, smoker" in note for note in verdict.notes)


def test_the_whole_run(tmp_path):
    """With all measures: the manifest names the columns, and what was not measured is said."""
    original = people()
    measure = {"rows": 300, "queries": 300, "hold_out": 0.1}
    decode, analyses = (
        DECODE | {"probability_step": 0.01},
        [{"name": "m", "model": "linear", "formula": "age ~ status"}],
    )
    options = {"decode": decode, "measure": measure, "gates": GATES, "analyses": analyses}
    wanted = small.job(tmp_path, original, COLUMNS, **options)
    outcome = small.run(wanted)
    assert outcome.version and release.check(wanted.output) == []
    manifest = release.read_manifest(release.resolve(wanted.output))
    assert list(manifest["columns"]) == [entry["name"] for entry in manifest["schema"]] == NAMES
    told = read_report(Path(outcome.version) / "_report.json")
    assert [line.name for line in told.columns] == NAMES
    assert {line.treatment for line in told.columns} >= {"probability of a category"}
    assert manifest["columns"]["site_null"] == {
        "treatment": "probability of a category", "column": "site", "category": None,
    }  # fmt: skip
    assert manifest["methods"]["decode"]["probability_step"] == 0.01
    released = small.released(wanted)
    assert set(np.unique(np.rint(released["site_lung"].to_numpy() * 100) / 100)) == set(
        np.unique(released["site_lung"].to_numpy())
    )
    unmeasured = [check.name for check in outcome.verdict.lines if check.measured == "not measured"]
    assert "utility of the columns site, smoker" in unmeasured
    for start in ("re-identification rate", "attribute inference", "analysis 'm'"):
        assert any(check.name.startswith(start) for check in outcome.verdict.lines)


def test_a_wrong_share_fails(monkeypatch):
    """Without calibration the 5 % become 29 %, and the gates say so."""
    monkeypatch.setattr("anonpipe.encoding.probabilities.calibrated_probabilities", lambda chances, *_: chances)
    table, verdict, _ = anonymize(
        people(), job(synthesize={"method": "centroid"}, gates={"unchanged_record_rate": 1.0})
    )
    assert table is None
    failed = {check.name for check in verdict.lines if check.outcome.value == "failed"}
    assert {"mean", "category shares"} <= failed


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mask": {"method": "generalize"}}, "generalize makes middles of intervals"),
        ({"mask": {"method": "data_shuffle"}}, "data_shuffle gives every column its own values"),
        ({"mask": {"method": "sequential_regression"}}, "sequential_regression draws categories"),
        ({"columns": {"age": {"kind": "integer"}}}, "needs a masked column of kind categorical or binary"),
        ({"decode": {"categories": "calibrated", "probability_step": 0.01}}, "remove it"),
        ({"decode": DECODE | {"probability_step": 0.3}}, "one over a whole number"),
        (
            {"analyses": [{"name": "m", "model": "linear", "formula": "age ~ smoker"}]},
            "analysis 'm': smoker is not released.*columns smoker_CATEGORY",
        ),
    ],
)
def test_refused_before_any_work(changes, words):
    with pytest.raises(JobError, match=words):
        parse_job({"input": "a", "output": "b", **job(**changes)})


def test_declared_levels_are_named_in_the_refusal():
    columns = COLUMNS | {"site": {"kind": "categorical", "levels": ["lung", "breast"]}}
    analyses = [{"name": "m", "model": "linear", "formula": "age ~ site"}]
    with pytest.raises(JobError, match="columns site_lung, site_breast"):
        parse_job({"input": "a", "output": "b", **job(columns=columns, analyses=analyses)})


def test_the_step_decides_the_values_and_is_0_001_unless_given():
    made = {
        parse_job({"input": "a", "output": "b", **job(decode=decode)}).digest()
        for decode in (DECODE, DECODE | {"probability_step": 0.01}, {})
    }
    assert len(made) == 3
    declared = parse_job({"input": "a", "output": "b", **job(decode=DECODE | {"probability_step": 0.001})})
    assert declared == parse_job({"input": "a", "output": "b", **job()})
