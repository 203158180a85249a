"""Measures through whole runs: what is found, what a failing analysis stops, what the hold-out is."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from anonpipe.encoding.row_hash import contents_of, row_lanes
from anonpipe.errors import JobError
from anonpipe.pipeline import run as pipeline
from anonpipe.pipeline.arrays import partition_cells, released_rows
from anonpipe.pipeline.context import Work
from anonpipe.pipeline.evaluation import samples, search
from anonpipe.pipeline.evaluation.known import known_features
from anonpipe.pipeline.evaluation.measures import load_assessment
from anonpipe.pipeline.evaluation.search import found_in
from anonpipe.pipeline.tasks.scan import held_rows
from anonpipe.rng import keyed, steward_secret
from anonpipe.verify import words
from tests import small

pytestmark = pytest.mark.secret("5e" * 32)

RISK = {"utility": False, "risk": True}
LOOSE = {"mean": 5.0, "covariance": 5.0, "covariance_with_keys": 5.0, "unchanged_record_rate": 1.0}
LOOSE |= dict.fromkeys(
    ("reidentification_rate", "scenario_risk", "stratum_inference", "membership_auc", "tail_linkage")
)
LOOSE |= dict.fromkeys(("attribute_inference", "singling_out", "linkability"))
COLUMNS = {
    "x": {"kind": "continuous"},
    "y": {"kind": "continuous"},
    "side": {"kind": "categorical", "role": "key"},
    "illness": {"kind": "binary", "role": "sensitive"},
}


def table(rows=600, seed=1):
    """Fives of records that lie far apart from all others; y follows x."""
    rng = np.random.default_rng(seed)
    five = np.arange(rows) // 5
    x = five * 10.0 + rng.normal(size=rows)
    shuffled = rng.permutation(rows)
    columns = {"x": x, "y": 2.0 * x + rng.normal(size=rows), "side": np.where(five % 2, "a", "b")}
    columns["illness"] = np.where(five % 3, "no", "yes")
    return pa.table({name: values[shuffled] for name, values in columns.items()})


PLAIN = small.unscored(COLUMNS)
"""Their values can be told to the last digit, which normal scores leave to nobody."""


def job(folder, data=None, columns=COLUMNS, **changes):
    changes = {"gates": LOOSE, "partition": {"rows": 1_000, "sample_rows": 500}, "strata": {"by": ["side"]}, **changes}
    return small.job(folder, table() if data is None else data, columns, **changes)


def analysis(**changes):
    return {"name": "slope", "model": "linear", "formula": "y ~ x + illness", **changes}


def looked(monkeypatch, look):
    """Look into the staging after the measures."""
    monkeypatch.setattr(pipeline, "MAPPED_STAGES", (*pipeline.MAPPED_STAGES, lambda run, _: look(run)))


def backwards(work, tasks, on_done):
    for task in reversed(tasks):
        on_done(work(task))


def test_groups_are_found_as_they_are(tmp_path, monkeypatch):
    """Fives far apart: every record finds its own five, of which each is equally likely, and each has one class."""
    given = job(
        tmp_path,
        columns=PLAIN,
        measure=RISK | {"queries": 200},
        cluster={"method": "mdav"},
        synthesize={"method": "centroid"},
    )
    seen = {}

    def look(run):
        work, fitted, cut = run.context.work, run.context.fitted, run.context.cut
        files = [path for path in (run.staging.root / "assessed").rglob("*") if path.is_file()]
        seen["open"] = [path for path in files if path.stat().st_mode & 0o077]
        seen["partitions"] = len(cut.partitions)
        cells = [released_rows(work, fitted, cut, at) for at in range(len(cut.partitions))]
        features = known_features(fitted, np.concatenate(cells))
        queries = samples.read_queries(work)
        distances = ((queries.features[:, None] - features[None]) ** 2).sum(axis=2)
        seen["same"] = np.allclose(np.sort(distances, axis=1)[:, :5], found_in(work, cut, "release").nearest.squared)

    with monkeypatch.context() as patch:
        looked(patch, look)
        verdict, found = pipeline.assess_only(given)
    assert seen["open"] == [] and seen["partitions"] == 2 and seen["same"]
    assert found.measurement("linkage.group").value == 1.0
    assert found.measurement("reidentification_rate").value == pytest.approx(0.2)
    assert found.measurement("sensitive.illness.homogeneity").value == 1.0
    assert found.measurement("linkage.group").of == 600 and found.measurement("linkage.group").records == 200
    told = {check.name: check for check in verdict.lines}
    assert told["homogeneity rate, worst sensitive variable"].outcome == "no limit set"
    assert {words.name(each.check) for each in found.not_checked} >= {
        "membership inference",
        "attribute inference",
        "utility",
    }
    assert small.stagings() == [] and not (tmp_path / "out").exists()
    monkeypatch.setattr(pipeline.engine, "in_process", lambda: contextlib.nullcontext(backwards))
    assert repr(pipeline.assess_only(given)[1]) == repr(found)


def test_a_mask_with_hardly_any_noise_gives_every_record_away(tmp_path):
    """Each query's own released row is told rightly through routing, masking and shuffling."""
    changes = {"mask": {"method": "noise", "amount": 1e-9}, "gates": LOOSE | {"reidentification_rate": 0.9}}
    given = job(tmp_path, columns=PLAIN, measure=RISK | {"queries": 200}, **changes)
    outcome = small.run(given)
    assert outcome.version is None
    (line,) = [check for check in outcome.verdict.lines if check.outcome == "failed"]
    assert line.name == "re-identification rate"
    assert " of 600 records" in line.on  # those asked, or all, who are assigned at once
    assert not list((tmp_path / "out").rglob("*.parquet")) and small.stagings() == []


def test_an_analysis_is_a_gate(tmp_path):
    kept = job(tmp_path / "kept", measure=small.OFF, analyses=[analysis(limits={"changed_direction": 0.0})])
    outcome = small.run(kept)
    assert outcome.version is not None
    manifest = (Path(outcome.version) / "_manifest.json").read_text()
    assert "slope" in manifest and "estimates" not in manifest
    lost = {"mask": {"method": "noise", "amount": 50.0, "form": "expected"}, "decode": {"categories": "sampled"}}
    limits = {"overlap": 0.999, "outside": 0.0}
    outcome = small.run(job(tmp_path / "lost", measure=small.OFF, analyses=[analysis(limits=limits)], **lost))
    assert outcome.version is None
    failed = [check.name for check in outcome.verdict.lines if check.outcome == "failed"]
    assert failed and all(name.startswith("analysis 'slope'") for name in failed)
    assert not list((tmp_path / "lost" / "out").rglob("*.parquet"))
    verdict = json.loads((tmp_path / "lost" / "out" / "failed-verdict.json").read_text())
    assert failed == [check["name"] for check in verdict["checks"] if check["outcome"] == "failed"]


def test_what_original_does_not_allow_is_told_without_release(tmp_path):
    data = small.plain_table(300)
    odd = {"name": "odd", "model": "linear", "formula": "income ~ age", "subset": "age > 1000"}
    given = small.job(tmp_path, data, analyses=[odd])
    with pytest.raises(JobError, match="'odd' cannot be fitted to the original") as caught:
        small.run(given)
    assert small.CANARY not in str(caught.value) and str(small.CANARY_NUMBER) not in str(caught.value)
    assert small.left_behind(tmp_path) == []


def held_of(data, job):
    """Which rows a run of the job would hold out."""
    key = keyed(steward_secret(), "start", job.digest())
    return held_rows(
        key, job.measure.hold_out, contents_of((row_lanes(each, job.columns) for each in data.to_batches()), key)
    )


def test_of_equal_rows_a_fair_share_is_held_out(tmp_path):
    few = small.job(tmp_path, "data.parquet", {"place": {"kind": "categorical"}}, measure=RISK | {"hold_out": 0.2})
    data = pa.table({"place": ["north", "south"] * 1000})
    held = held_of(data, few)
    order = np.random.default_rng(0).permutation(2000)
    again = held_of(data.take(order), few)
    north = np.arange(2000) % 2 == 0
    assert 140 < (held & north).sum() < 260 and 140 < (held & ~north).sum() < 260
    assert (held & north).sum() == (again & north[order]).sum()


def test_held_out_rows_are_in_no_release(tmp_path, monkeypatch):
    """They hold a category and numbers that no other row has."""
    columns = small.unscored(small.COLUMNS)
    named = small.job(tmp_path, "data.parquet", columns, measure=RISK | {"hold_out": 0.2})
    rng = np.random.default_rng(4)
    odd = np.arange(1200) % 2 == 0
    data = pa.table(
        {
            "age": rng.integers(18, 90, len(odd)),
            "income": np.where(odd, 1e3, 10.0) + rng.normal(size=len(odd)),
            "place": np.where(np.arange(len(odd)) % 4 == 0, "held", rng.choice(["north", "south"], len(odd))),
        }
    )
    data = data.filter(held_of(data, named) == odd)  # of the odd ones those held out, of the others the others
    held, rows = held_of(data, named), data.num_rows
    assert 80 < held.sum() < 160
    given = small.job(tmp_path, data, columns, measure=RISK | {"hold_out": 0.2}, gates=LOOSE)
    assert given.digest() == named.digest()
    seen = {}
    looked(monkeypatch, lambda run: seen.update(found=load_assessment(run.context.work), cut=run.context.cut))
    outcome = small.run(given)
    released = small.released(given)
    assert released.num_rows == rows - held.sum() == seen["cut"].rows
    assert set(released.column("place").to_pylist()) == {"north", "south"}
    assert max(released.column("income").to_pylist()) < 100
    (line,) = [check for check in outcome.verdict.lines if check.name.startswith("rows lost")]
    assert line.outcome == "passed" and "hold-out" in line.name
    assert any(f"{held.sum()} of {rows:,} rows were held out" in note for note in outcome.verdict.notes)
    assert seen["found"].measurement("membership_auc").value == 1.0  # nobody else is as far from the release


def test_utility_of_a_copy_by_a_mask(tmp_path):
    """Hardly any noise changes hardly anything, and the pairs lie row by row."""
    given = job(
        tmp_path,
        table(200),
        PLAIN,
        mask={"method": "noise", "amount": 1e-12},
        measure={"utility": True, "risk": False},
    )
    _, found = pipeline.assess_only(given)
    assert found.measurement("loss.il1s").value < 1e-3
    assert found.measurement("bias.means").value < 1e-3
    assert {words.name(each.check) for each in found.not_checked} >= {"disclosure risk (linkage and attribute attacks)"}


def test_averaged_groupings_have_no_groups_to_find(tmp_path):
    columns = COLUMNS | {
        "illness": {"kind": "binary", "role": "sensitive"},
        "side": {"kind": "categorical", "role": "sensitive"},
    }
    given = small.job(
        tmp_path,
        table(300),
        columns,
        gates=LOOSE,
        cluster={"method": "crest"},
        sensitive={"combine": "average"},
        synthesize={"method": "centroid"},
        measure=RISK,
    )
    _, found = pipeline.assess_only(given)
    reasons = {words.name(each.check): words.limit(each.check) for each in found.not_checked}
    assert "several" in reasons["attack through a known attribute"]
    assert found.measurement("sensitive.side.homogeneity").records == 300


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"analyses": [analysis(formula="y ~ weight")]}, "names weight, which is no column here"),
        ({"analyses": [analysis(), analysis()]}, "several analyses are called slope"),
        ({"analyses": [analysis(model="cox")]}, "event goes with model cox"),
        ({"analyses": [analysis(limits={"overlap": 2})]}, "analyses.0.limits.overlap"),
        ({"gates": {"membership_auc": 0.6}, "measure": RISK | {"hold_out": 0.0}}, "give measure.hold_out"),
        ({"gates": {"reidentification_rate": 0.1}, "measure": small.OFF}, "measure.risk is off"),
        ({"gates": {"homogeneity": 0.1}, "mask": {"method": "noise"}}, "needs groups"),
        ({"measure": {"risk": False, "hold_out": 0.1}}, "set it to 0"),
        ({"measure": {"hold_out": 0.9}}, "measure.hold_out"),
    ],
)
def test_a_job_that_cannot_be_judged_is_refused_before_any_work(tmp_path, changes, text):
    with pytest.raises(JobError, match=text):
        job(tmp_path, "data.parquet", **({"measure": RISK} | changes))


def test_measures_and_limits_draw_no_new_noise(tmp_path):
    plain = job(tmp_path, "data.parquet")
    other = job(tmp_path, "data.parquet", measure=RISK | {"rows": 500}, analyses=[analysis()])
    held = job(tmp_path, "data.parquet", measure=RISK | {"hold_out": 0.1})
    assert plain.digest() == other.digest() != held.digest()
    assert plain.run_digest() != other.run_digest()


def test_original_rows_of_partition_lie_beside_released_ones(tmp_path, monkeypatch):
    """Unchanged columns are equal row by row, whatever the shuffling, and masked ones are not."""
    seen = {}

    def look(run):
        records = run.context
        kept = run.staging.read_record("assessed/sample-0.record")
        original, released = kept["model_original"], kept["model_released"]
        named = [records.fitted.cells.names.index(name) for name in ("illness", "x", "y")]
        whole = records.call(partition_cells, 0)[:, named]
        seen["all"] = np.array_equal(original, whole)
        seen["equal"] = [bool(np.array_equal(original[:, at], released[:, at])) for at in range(3)]

    looked(monkeypatch, look)
    given = job(tmp_path, measure=small.OFF, analyses=[analysis()], partition={"rows": 5_000, "sample_rows": 500})
    pipeline.assess_only(given)
    assert seen == {"all": True, "equal": [True, False, False]}


def test_a_run_that_stopped_amid_the_measures_goes_on(tmp_path, monkeypatch):
    given = job(tmp_path, measure=small.OFF, analyses=[analysis(limits={"changed_direction": 0.0})])

    def stop(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "save_assessment", stop)
        with pytest.raises(KeyboardInterrupt):
            small.run(given)
    news = []
    outcome = pipeline.execute(given, resume=True, cluster=False, on_progress=news.append)
    assert outcome.version is not None and small.stagings() == []
    done = {item.stage: item.done for item in reversed(news)}
    assert done["measure"] == 1 and done["decode"] >= 1  # nothing was left to do of them


class _Left:
    """A staging of one copy that notes what is read."""

    copy = 1

    def __init__(self):
        self.asked = []

    def read_record(self, name):
        self.asked.append(name)
        return {"name": name}


@pytest.mark.parametrize("module", [search, samples])
def test_partition_leftovers_are_read_once_a_run_no_others(module):
    one, other = _Left(), _Left()
    for staging in (one, other, one):
        found = list(module._files(Work(staging), SimpleNamespace(partitions=range(2))))
        assert [file["name"] for file in found] == one.asked
    assert one.asked == other.asked and len(set(one.asked)) == len(one.asked) == 2
