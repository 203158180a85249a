"""Limits on what groups tell: who is led to one, what its members and one attribute give away, Lasko's standard."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest

from anonpipe.errors import JobError
from anonpipe.evaluate.measurement import beyond
from anonpipe.pipeline.evaluation.measures import load_assessment
from anonpipe.pipeline.run import to_the_end, verify
from anonpipe.verify.catalogue import Outcome
from tests import small

pytestmark = pytest.mark.secret("5e" * 32)

GATES = {
    "group_linkage": "linkage.group",
    "prediction_excess": "lasko.distance",
    "known_attribute": "known_attribute.gained",
    "collusion": "collusion.gained",
}
COLUMNS = {name: {"kind": "continuous", "transform": "none"} for name in "abc"}
OPEN = {"mean": 9.0, "covariance": 9.0, "unchanged_record_rate": 1.0, "reidentification_rate": None}


def table(rows: int = 300) -> pa.Table:
    rng = np.random.default_rng(3)
    return pa.table({name: rng.normal(size=rows) for name in "abc"})


def job(folder: Path, gates: dict[str, float], **changes):
    return small.job(
        folder, table(), COLUMNS, gates=OPEN | gates, **{"measure": {"utility": False, "hold_out": 0.0}, **changes}
    )


@cache
def measured(synthesize: str = "pca"):
    """What a run of exact moments (or of centroids) has measured, and its checks under limits that nothing meets."""
    with TemporaryDirectory() as folder:
        limits = dict.fromkeys(GATES, 0.0)
        return to_the_end(
            job(Path(folder), limits, synthesize={"method": synthesize}),
            False,
            lambda _: None,
            "ignore",
            lambda run: (load_assessment(run.context.work).measured, verify(run)),
        )


@pytest.mark.parametrize("name", GATES)
def test_each_is_held_against_the_upper_end_of_its_worst_figure(name):
    figures, verdict = measured()
    (line,) = [check for check in verdict.checks if check.key == f"risk.{name}"]
    assert line.outcome is Outcome.FAILED
    worst = max(
        each.value if each.high is None else each.high
        for each in figures
        if each.name == GATES[name]
        or (name == "group_linkage" and each.name == "rank_linkage.group")
        or (name == "prediction_excess" and each.name in ("lasko.ambiguity", "lasko.uncertainty"))
    )
    assert line.measured == worst > 0.05


def test_exact_sums_reveal_last_member_centroids_are_certain():
    by_pca, by_centroid = (
        {check.key: check.measured for check in measured(method)[1].checks} for method in ("pca", "centroid")
    )
    assert by_pca["risk.collusion"] == pytest.approx(1.0)
    assert by_centroid["risk.prediction_excess"] == 1.0 > by_pca["risk.prediction_excess"]


def test_limit_that_is_met_passes_and_without_one_no_line(tmp_path):
    outcome = small.run(job(tmp_path, {"collusion": 1.0, "known_attribute": 1.0}))
    keys = {check.key: check.outcome for check in outcome.verdict.checks}
    assert outcome.version is not None
    assert keys["risk.collusion"] is keys["risk.known_attribute"] is Outcome.PASSED
    assert not {"risk.group_linkage", "risk.prediction_excess"} & set(keys)


@pytest.mark.parametrize("name", ["group_linkage", "known_attribute", "collusion"])
def test_a_mask_forms_no_groups_to_be_limited(tmp_path, name):
    with pytest.raises(JobError, match=rf"gates\.{name} limits what is disclosed of groups, and mask \w+ forms none"):
        job(tmp_path, {name: 0.5}, mask={"method": "synthesis"})


def test_a_mask_is_held_to_the_standard_of_prediction(tmp_path):
    outcome = small.run(
        job(tmp_path, {"prediction_excess": 0.0, "tail_linkage": None}, mask={"method": "noise", "amount": 0.01})
    )
    assert outcome.version is None
    assert [check.key for check in outcome.verdict.failed] == ["risk.prediction_excess"]


def test_what_was_not_measured_fails_its_limit(tmp_path):
    one, gates = {"a": COLUMNS["a"]}, OPEN | {"known_attribute": 1.0}
    outcome = small.run(small.job(tmp_path, table().select(["a"]), one, gates=gates, measure={"utility": False}))
    assert [check.key for check in outcome.verdict.failed] == ["risk.known_attribute"]


def test_what_a_baseline_gives_is_nothing_gained():
    assert beyond(0.4, (0.3, 0.6), 0.4) == (0.0, (pytest.approx(-1 / 6), pytest.approx(1 / 3)))
    assert np.isnan(beyond(1.0, (None, None), 1.0)[0])
