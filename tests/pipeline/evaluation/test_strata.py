"""The attack on strata through whole runs, held against a literal one."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from anonpipe.errors import JobError
from anonpipe.evaluate.risk import MEASURES, StratumGuesses
from anonpipe.job.model import parse_job
from anonpipe.pipeline import run as pipeline
from anonpipe.pipeline.arrays import partition_cells, released_labels, released_rows
from anonpipe.pipeline.evaluation.measures import checks
from anonpipe.pipeline.evaluation.samples import read_queries
from anonpipe.pipeline.preview import preview
from anonpipe.pipeline.tasks.scan import held_cells
from anonpipe.verify import words
from anonpipe.verify.catalogue import Reason
from anonpipe.verify.verdict import Assessment, NotChecked
from tests import small
from tests.pipeline.evaluation.test_assess import LOOSE, RISK, looked

pytestmark = pytest.mark.secret("5e" * 32)

COLUMNS = {
    "x": {"kind": "continuous", "transform": "none"},  # the literal attack is in units of the values
    "y": {"kind": "continuous", "transform": "none"},
    "side": {"kind": "categorical", "role": "key"},
    "status": {"kind": "binary", "role": "key"},
}


def table(rows=700, seed=3):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    status = np.where(x + rng.normal(size=rows) > 0, "dead", "alive")
    columns = {"x": x, "y": rng.normal(size=rows), "side": rng.choice(["a", "b"], rows), "status": status}
    return pa.table(columns)


def job(folder, **changes):
    changes = {"gates": LOOSE, "partition": {"rows": 1_000, "sample_rows": 500}, **changes}
    return small.job(folder, table(), COLUMNS, **({"strata": {"by": ["status"]}} | changes))


def closest(known, asked, without=None):
    """The row of the closest record of each asked, by loops over both; ties go to the first."""
    found = []
    for at, one in enumerate(asked):
        distances = [((one - other) ** 2).sum() for other in known]
        if without is not None:
            distances[without[at]] = np.inf
        found.append(int(np.argmin(distances)))
    return np.array(found)


@pytest.mark.parametrize("hold_out", [0.0, 0.1])
@pytest.mark.parametrize("strata", [["status"], ["status", "side"]])
def test_as_a_literal_attack(tmp_path, monkeypatch, strata, hold_out):
    given = job(tmp_path, strata={"by": strata}, measure=RISK | {"queries": 60, "hold_out": hold_out})
    seen = {}

    def look(run):
        work, fitted, cut = run.context.work, run.context.fitted, run.context.cut
        places = range(len(cut.partitions))
        before = np.concatenate([partition_cells(work, fitted, cut, at) for at in places])
        after = np.concatenate([released_rows(work, fitted, cut, at) for at in places])
        groups = np.concatenate([released_labels(work, fitted, cut, at) for at in places])
        queries = read_queries(work)
        names = fitted.cells.names
        at = {name: names.index(name) for name in COLUMNS}
        deviations = {name: before[:, at[name]].std() for name in ("x", "y")}

        def features(cells):
            """Numbers in deviations of the original; the side with variance 1, unless a stratum."""
            kept = [cells[:, at[name]] / deviations[name] for name in ("x", "y")]
            if "side" not in strata:
                kept.append(cells[:, at["side"]] / before[:, at["side"]].std())
            return np.column_stack(kept)

        own = before[queries.own_original]
        near = closest(features(after), features(own))
        other = closest(features(before), features(own), queries.own_original)
        held = held_cells(work, fitted)
        seen["linked"] = (groups[near] == queries.own_group).mean()
        for name in strata:
            truth = own[:, at[name]]
            controls = before[other, at[name]] == truth
            if len(held):
                controls = after[closest(features(after), features(held)), at[name]] == held[:, at[name]]
            seen[name] = (after[near, at[name]] == truth).mean(), controls.mean()

    with monkeypatch.context() as patch:
        looked(patch, look)
        verdict, found = pipeline.assess_only(given)
    risk, success = found.measurement("stratum_inference"), found.measurement("strata.success")
    expected = {name: (seen[name][0] - seen[name][1]) / (1 - seen[name][1]) for name in strata}
    assert dict(risk.parts) == pytest.approx(expected) and risk.value == pytest.approx(max(expected.values()))
    assert dict(success.parts) == pytest.approx({name: seen[name][0] for name in strata})
    assert f"of {100 * seen['linked']:.1f} % of the persons" in success.note
    assert seen["linked"] > 0.1 and "100.0 % of these have its" in success.note  # groups lie inside strata
    (line,) = [each for each in verdict.checks if each.key == "risk.stratum_inference"]
    assert line.outcome.value == "no limit set" and line.measured == risk.high


def test_a_status_that_is_synthesised_too_is_no_longer_known(tmp_path):
    columns = COLUMNS | {"status": {"kind": "binary"}}
    outcome = pipeline.assess_only(
        small.job(tmp_path, table(), columns, strata={"by": ["side"]}, measure=RISK | {"queries": 60}, gates=LOOSE)
    )[1]
    assert dict(outcome.measurement("stratum_inference").parts).keys() == {"side"}
    kept = pipeline.assess_only(job(tmp_path, strata={}, measure=RISK | {"queries": 60}))[1]
    assert [each.check.reason for each in kept.not_checked if each.check.key == "unmeasured.strata"] == [
        Reason.NO_STRATA
    ]


def test_it_is_a_gate(tmp_path):
    refused = small.run(job(tmp_path / "a", measure=RISK, gates=LOOSE | {"stratum_inference": 0.05}))
    assert refused.version is None
    (failed,) = [check for check in refused.verdict.checks if check.outcome.value == "failed"]
    assert failed.key == "risk.stratum_inference" and failed.columns == ("status",)
    assert small.run(job(tmp_path / "b", measure=RISK, gates=LOOSE | {"stratum_inference": 1.0})).version is not None


def test_nearly_constant_status_is_unmeasurable_and_plan_says(tmp_path):
    """Six of 700, of whom hardly one is looked for: no figure, but why there is none and what to do."""
    rare = table().set_column(3, "status", [["dead"] * 6 + ["alive"] * 694])
    asked = {"gates": LOOSE | {"stratum_inference": 0.85}, "measure": RISK | {"queries": 50}}
    (told,) = preview(small.job(tmp_path, rare, COLUMNS, strata={"by": ["status"]}, **asked)).warnings[-1:]
    assert "will be refused: gates.stratum_inference" in told and "'status'" in told and "role: masked" in told
    enough = preview(job(tmp_path / "b", **asked)).warnings
    assert not [line for line in enough if "stratum_inference" in line]

    guesses = StratumGuesses(np.ones(50, bool), np.ones(50, bool), None, 1.0, held=False)
    (measure,) = [each for each in MEASURES if each.key == "strata"]
    assert measure.of(SimpleNamespace(strata={"status": guesses}, rows=700)) is Reason.ALL_GUESSED
    found = Assessment(not_checked=(NotChecked("unmeasured.strata", Reason.ALL_GUESSED),))
    lines = checks(found, {"stratum_inference": 0.85})
    assert [words.measured(line) for line in lines] == ["not measured"] * 2
    (why,) = words.unmeasured(lines)
    assert "nearly all persons have one stratum" in why and "take the column out of strata.by with role masked" in why


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gates": {"stratum_inference": 0.3}}, "remove it, too, or name strata.by"),
        ({"gates": {"survival_curves": 1}}, "the job declares none"),
        ({"gates": {"column_shapes": 1}, "measure": {"utility": False}}, "measure.utility is off"),
        ({"gates": {"column_shapes": 0}}, "greater than 0"),
    ],
)
def test_limits_that_mean_nothing_are_refused(changes, message):
    with pytest.raises(JobError, match=message):
        parse_job({"input": "-", "output": "-", "k": 5, "columns": {"x": {"kind": "continuous"}}} | changes)
