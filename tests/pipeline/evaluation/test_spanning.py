"""Groups, and sets of equal rows, whose records lie in several partitions; and what is guessed from a whole release."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest

from anonpipe.evaluate.measurement import Audience
from anonpipe.evaluate.risk import Ordered
from anonpipe.evaluate.risk._inference import attribute_inference
from anonpipe.evaluate.risk._singling_out import MANY
from anonpipe.methods.grouping import class_disclosure
from anonpipe.pipeline import run as pipeline
from anonpipe.pipeline.arrays import partition_cells, released_labels, released_rows
from anonpipe.pipeline.evaluation.known import coded_positions, known_features
from anonpipe.pipeline.evaluation.samples import read_guessed, read_predicates
from anonpipe.pipeline.evaluation.search import matches_in
from anonpipe.pipeline.outcome.evidence import group_sizes
from anonpipe.verify.output_control import group_size_histogram
from tests import small
from tests.evaluate.risk.tasks import task
from tests.pipeline.evaluation.test_assess import COLUMNS, LOOSE, RISK, looked
from tests.staged import beside_the_original

pytestmark = pytest.mark.secret("5e" * 32)

EQUAL = {"method": "generalize", "steps": {"x": 10, "y": 20}}
MIXTURE = {"method": "local_synthesis", "components": 3, "shape": "spherical", "classes": 2, "iterations": 3}
BY_NAME = sorted(COLUMNS)
"""The columns as they are worked on."""
LOOSEST = LOOSE | {"mean": 99.0, "category_share": 1.0, "covariance": 99.0, "covariance_with_keys": 99.0}
STRICTEST = {"singling_out": 0.0, "linkability": 0.0}


def table(rows=1_010, seed=3):
    """Two numbers in a few steps, a side and an illness that have to do with them."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 40, rows) + rng.random(rows)
    side, illness = x + 20 * rng.random(rows) > 30, x + 40 * rng.random(rows) > 20
    columns = {"x": x, "y": 2.0 * x + rng.normal(size=rows), "side": np.where(side, "a", "b")}
    return pa.table(columns | {"illness": np.where(illness, "yes", "no")})


def job(folder, **changes):
    partition = {"rows": 1_000, "sample_rows": 500}
    return small.job(folder, table(), COLUMNS, **({"gates": LOOSEST, "partition": partition} | changes))


def seen(monkeypatch, given):
    """The original and the released cells of all partitions, and what else a look into the staging gives."""
    found = {}

    def look(run):
        work, fitted, cut = (records := run.context).work, records.fitted, records.cut
        parts = range(len(cut.partitions))
        found["original"] = [partition_cells(work, fitted, cut, at) for at in parts]
        found["released"] = [beside_the_original(records, at, released_rows(work, fitted, cut, at)) for at in parts]
        found["features"] = [
            [known_features(fitted, cells) for cells in found[side]] for side in ("original", "released")
        ]
        if given.mask.method == "local_synthesis":
            labels = [released_labels(work, fitted, cut, at) for at in parts]
            found["groups"] = np.concatenate([beside_the_original(records, at, each) for at, each in enumerate(labels)])
            found["histogram"] = group_size_histogram(group_sizes(work, fitted, cut) or {}, given.k)
        found["guessed"], found["coded"] = read_guessed(work), coded_positions(fitted)

    with monkeypatch.context() as patch:
        looked(patch, look)
        _, assessment = pipeline.assess_only(given)
    return found, assessment


def test_equal_rows_are_groups_wherever_they_lie(tmp_path, monkeypatch):
    """Counted again from the released rows alone: all of them, without partitions."""
    found, assessment = seen(monkeypatch, job(tmp_path, mask=EQUAL, measure=RISK | {"queries": 1_010}))
    released = np.concatenate(found["released"])[:, [BY_NAME.index(name) for name in COLUMNS]]
    assert len(found["released"]) > 1
    assert len({each.title for each in assessment.risk}) == len(assessment.risk)
    equal = [(released[:, [0, 1, 2]] == row[[0, 1, 2]]).all(axis=1) for row in released]
    illness = released[:, 3]
    homogeneous = np.mean([len(set(illness[rows])) == 1 for rows in equal])
    assert assessment.measurement("sensitive.illness.homogeneity").value == pytest.approx(homogeneous)
    before, after = (np.concatenate(side) for side in found["features"])
    linked = []
    for own, query in enumerate(before):
        distances = ((after - query) ** 2).sum(axis=1)
        nearest = int(distances.argmin())
        linked.append(equal[own][nearest] / equal[own].sum())
        assert np.isclose(np.sort(distances)[0], distances[nearest])
    assert assessment.measurement("reidentification_rate").value == pytest.approx(np.mean(linked), abs=0.01)
    synthetic = [(released[:, [0, 1]] == row[[0, 1]]).all(axis=1).sum() for row in released]
    bound = assessment.measurement("probabilistic_k_anonymity.bound")
    assert min(synthetic) >= 5 and bound.value >= 1 / min(rows.sum() for rows in equal) - 1e-12
    assert 0 < assessment.measurement("known_attribute.mean").value <= 1


def test_mixture_groups_tell_classes_and_sizes(tmp_path, monkeypatch):
    given = job(tmp_path, k=20, mask=MIXTURE, measure=RISK | {"queries": 100}, gates=LOOSEST | {"homogeneity": 1})
    found, assessment = seen(monkeypatch, given)
    illness = np.concatenate(found["original"])[:, BY_NAME.index("illness")].astype(int)
    told = class_disclosure(found["groups"], illness)
    assert assessment.measurement("sensitive.illness.homogeneity").value == pytest.approx(told.homogeneous_share)
    assert assessment.measurement("sensitive.illness.chi_square").value == pytest.approx(told.chi_square)
    linkage = assessment.measurement("reidentification_rate")
    assert linkage.of == 1_010 and linkage.high
    sizes = np.bincount(found["groups"])
    assert found["histogram"] == [{"from": sizes.min(), "to": sizes.max(), "groups": "fewer than 20"}]


def test_columns_are_guessed_from_the_whole_release(tmp_path, monkeypatch):
    """As from all released rows in one table."""
    given = job(tmp_path, mask={"method": "noise", "amount": 0.1}, measure=RISK | {"hold_out": 0.2, "queries": 60})
    found, assessment = seen(monkeypatch, given)
    released = np.concatenate(found["released"])
    guessed = found["guessed"]
    assert len(guessed.released) == len(released) and len(guessed.members) <= 60 and len(guessed.controls) > 30
    tables, columns = (released, guessed.members, guessed.controls), [BY_NAME.index("x"), BY_NAME.index("y")]
    whole = attribute_inference(task(*tables, found["coded"], columns=columns), of=len(released))
    told = assessment.measurement("attribute_inference")
    assert told.value == whole.worst.risk and told.of == len(released)


def test_predicates_are_held_against_both_whole_tables(tmp_path, monkeypatch):
    """As in one table each, whose rows have the same numbers: of what is in the staging."""
    given = job(tmp_path, mask={"method": "noise", "amount": 0.1}, measure=RISK | {"hold_out": 0.2, "queries": 60})
    alone, rows = {}, []

    def look(run):
        work, fitted, cut = (records := run.context).work, records.fitted, records.cut
        rows.append(cut.rows)
        for where, read in {"release": released_rows, "original": partition_cells}.items():
            cells = np.concatenate([read(work, fitted, cut, at) for at in range(len(cut.partitions))])
            for name, each in read_predicates(work).items():
                found, whole = matches_in(work, cut, where, name), each.matches(Ordered.of(cells[:, : len(BY_NAME)]))
                few = whole.counts <= MANY
                assert (found.counts[few] == whole.counts[few]).all() and (found.counts[~few] > MANY).all()
                assert (found.rows[few] == whole.rows[few]).all()
                alone[where, name] = int((found.counts == 1).sum())

    with monkeypatch.context() as patch:
        looked(patch, look)
        _, assessment = pipeline.assess_only(given)
    assert len(alone) == 4 and alone["release", "several"] > 10
    told = {one.name: one for one in assessment.risk}
    held = int(re.search(r"by one of the (\d+) held out", told["singling_out.several"].note)[1])
    assert 2 * 60 < held <= 0.3 * rows[0]  # all of them, not those looked for alone
    assert told["singling_out.several"].audience is Audience.STEWARD and told["linkability"].of == rows[0]
    strict = small.run(job(tmp_path / "strict", mask=given.mask, measure=given.measure, gates=LOOSEST | STRICTEST))
    failed = {check.key for check in strict.verdict.checks if check.outcome.value == "failed"}
    assert strict.version is None and {"risk.singling_out", "risk.linkability"} <= failed


def test_a_limit_that_nothing_can_be_held_against_says_what_can(tmp_path):
    given = job(
        tmp_path, mask={"method": "spectral_swap"}, measure=RISK, gates=LOOSEST | {"reidentification_rate": 0.1}
    )
    assert any("gates.reidentification_rate cannot be held" in warning for warning in given.warnings())
    outcome = small.run(given)
    assert outcome.version is None
    failed = [check.name for check in outcome.verdict.lines if check.outcome == "failed"]
    assert [name for name in failed if name == "re-identification rate"] == ["re-identification rate"]
    assert any(
        "gates.membership_auc" in note and "reidentification_rate failed" in note for note in outcome.verdict.notes
    )
    reasons = [check.limit for check in outcome.verdict.lines if check.name == "record linkage by distances"]
    assert "no released record stands for one person" in reasons[0]
