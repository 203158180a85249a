"""Assignment of all at once through whole runs: as done with the released rows, and held by the gate."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from anonpipe.pipeline import run as pipeline
from anonpipe.pipeline.arrays import partition_cells, released_labels, released_rows
from anonpipe.pipeline.evaluation.known import known_features
from anonpipe.pipeline.evaluation.samples import read_queries
from anonpipe.verify.catalogue import Reason
from tests import small
from tests.pipeline.evaluation.test_assess import LOOSE, RISK, looked
from tests.pipeline.evaluation.test_strata import COLUMNS, table

pytestmark = pytest.mark.secret("5e" * 32)

NOISE = {"mask": {"method": "noise", "amount": 0.3}}
GROUPS = {"cluster": {"method": "mdav"}, "synthesize": {"method": "micro_perturbation"}}


def job(folder, **changes):
    changes = {"gates": LOOSE, "measure": RISK | {"queries": 700}, "partition": {"rows": 1_000}, **changes}
    return small.job(folder, table(), COLUMNS, **changes)


@pytest.mark.parametrize("methods", [NOISE, GROUPS])
def test_as_who_has_the_released_rows(tmp_path, monkeypatch, methods):
    seen = {}

    def look(run):
        work, fitted, cut = run.context.work, run.context.fitted, run.context.cut
        (before,), (after,) = ([read(work, fitted, cut, 0)] for read in (partition_cells, released_rows))
        labels = released_labels(work, fitted, cut, 0)
        ours, theirs = known_features(fitted, before), known_features(fitted, after)
        keys = [fitted.cells.names.index(name) for name in ("side", "status")]
        asked = read_queries(work)
        right = total = 0.0
        for block in np.unique(before[:, keys], axis=0):
            rows, found = (np.flatnonzero((side[:, keys] == block).all(axis=1)) for side in (before, after))
            apart = ((ours[rows][:, None] - theirs[found][None]) ** 2).sum(axis=2)
            for person, record in zip(*linear_sum_assignment(apart), strict=True):
                (query,) = np.flatnonzero(asked.own_original == rows[person])
                if labels is None:
                    right += asked.own_row[query] == found[record]
                else:
                    same = (after[:, keys] == block).all(axis=1) & (labels == asked.own_group[query])
                    right += (labels[found[record]] == asked.own_group[query]) / same.sum()
            total += len(rows)
        seen["share"], seen["all"] = right / total, total

    with monkeypatch.context() as patch:
        looked(patch, look)
        verdict, found = pipeline.assess_only(job(tmp_path, **methods))
    one = found.measurement("linkage.assigned")
    assert seen["all"] == one.records == one.of == 700 and one.low is None
    assert one.value == pytest.approx(seen["share"]) and one.value > 0.02
    (line,) = [each for each in verdict.checks if each.key == "risk.reidentification_rate"]
    attackers = (
        "reidentification_rate",
        "rank_linkage.first",
        "mahalanobis_linkage.first",
        "linkage.assigned",
    )
    assert line.measured == pytest.approx(max(each.value for each in found.risk if each.name in attackers))


def test_limit_broken_by_assignment_alone_stops_release(tmp_path):
    found = pipeline.assess_only(job(tmp_path / "a", **GROUPS))[1]
    nearest, assigned = (found.measurement(name).value for name in ("reidentification_rate", "linkage.assigned"))
    assert nearest < assigned
    gates = LOOSE | {"reidentification_rate": (nearest + assigned) / 2}
    outcome = small.run(job(tmp_path / "b", **GROUPS, gates=gates))
    assert [check.key for check in outcome.verdict.checks if check.outcome == "failed"] == [
        "risk.reidentification_rate"
    ]


def test_where_records_cannot_be_assigned_it_is_told_why(tmp_path):
    spanning = job(tmp_path / "a", mask=small.QUICK)
    outcomes = [pipeline.assess_only(each)[1] for each in (spanning, job(tmp_path / "b", mask={"method": "synthesis"}))]
    told = [
        {each.check.reason for each in one.not_checked if each.check.key == "unmeasured.assignment"} for one in outcomes
    ]
    assert told == [{Reason.SPANNING}, {Reason.NO_LINK}]


def test_large_tables_may_have_no_cell_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr("anonpipe.pipeline.evaluation.samples.ASSIGNED", 0)
    found = pipeline.assess_only(job(tmp_path, **GROUPS))[1]
    assert Reason.NO_CELL in [each.check.reason for each in found.not_checked]
