"""Local synthesis as a job: groups that span partitions, gates on them, going on after a stop, and what is refused."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from anonpipe import anonymize
from anonpipe.errors import JobError
from anonpipe.methods.masking import _local_synthesis
from anonpipe.pipeline import run as pipeline
from anonpipe.pipeline.preview import preview
from tests import small
from tests.staged import steps_on_disk_and_in_memory

pytestmark = pytest.mark.secret("5e" * 32)

MASK = {"method": "local_synthesis", "components": 3, "shape": "full", "classes": 2, "iterations": 3}
GATES = {
    "mean": 0.5,
    "covariance": 1.0,
    "covariance_with_keys": 1.0,
    "category_share": 0.05,
    "unchanged_record_rate": 1.0,
}
GATES |= {"local_suppression_rate": 1.0}
OFF = {"utility": False, "risk": False}


COLUMNS = {
    "height": {"kind": "continuous", "bounds": [0, 400]},
    "weight": {"kind": "continuous", "bounds": [-200, 400]},
    "place": {"kind": "categorical"},
    "status": {"kind": "categorical", "role": "key"},
}


def people(rows, late=None, seed=0):
    """Numbers, a category that has to do with them, and a status by the first `rows - late` and the others."""
    rng = np.random.default_rng(seed)
    late = rows // 2 if late is None else late
    tall = rng.integers(0, 2, rows)
    height = rng.normal(160 + 20 * tall, 8)
    return {
        "height": height,
        "weight": 0.5 * height + rng.normal(0, 5, rows),
        "place": np.array(["north", "south", "west"])[(tall + rng.integers(0, 2, rows)) % 3],
        "status": np.array(["a"] * (rows - late) + ["b"] * late),
    }


def job_of(folder, data, columns=None, **changes):
    changes = {"mask": MASK, "gates": GATES, "k": 20, "measure": OFF, **changes}
    table = data if isinstance(data, str) else pa.table(data)
    return small.job(folder, table, columns or COLUMNS, partition={"rows": 1_000, "sample_rows": 500}, **changes)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Two partitions of the first status, one of the second."""
    return small.write_table(tmp_path_factory.mktemp("table"), pa.table(people(1_300, 150)))


def checks(outcome):
    return {check.name: check for check in outcome.verdict.lines}


def failed(outcome):
    return {name for name, check in checks(outcome).items() if check.outcome == "failed"}


def test_steps_on_disk_match_memory_and_groups_span_partitions(tmp_path, table, monkeypatch):
    """Each stratum by itself, with the key of its scope."""
    seen = []

    def look(run, _executor):
        found, wanted = steps_on_disk_and_in_memory(run.context)
        cut = run.context.cut
        seen.extend(zip(found, wanted, [cut.lengths[scope.inside] for scope in cut.scopes(True)], strict=True))

    at = pipeline.MAPPED_STAGES.index(pipeline.transform) + 1
    monkeypatch.setattr(pipeline, "MAPPED_STAGES", (*pipeline.MAPPED_STAGES[:at], look, *pipeline.MAPPED_STAGES[at:]))
    given = job_of(tmp_path, table, strata={"by": ["status"]})
    outcome = small.run(given)
    assert outcome.version and len(seen) == 2
    for found, wanted, _ in seen:
        assert np.array_equal(found, wanted)
    labels, parts = next((found[:, -1], parts) for found, _, parts in seen if len(parts) > 1)
    assert set(labels[: parts[0]]) & set(labels[parts[0] :])
    groups = sum(int(found[:, -1].max()) + 1 for found, _, _ in seen)
    assert any(f"formed {groups} groups across partitions" in note for note in outcome.verdict.notes)
    for name in (
        "smallest group",
        "mean in each group, deviation from its expected value",
        "covariance in each group, deviation from its expected value",
    ):
        assert checks(outcome)[name].outcome == "passed" and checks(outcome)[name].mandatory
    assert {
        "mean in each stratum, deviation from its expected value",
        "covariance in each stratum, deviation from its expected value",
    } <= set(checks(outcome))


def test_a_run_that_stopped_twice_goes_on_to_the_same_bytes(tmp_path, table):
    first = job_of(tmp_path / "whole", table)
    small.run(first)
    given = job_of(tmp_path / "stopped", table)
    assert small.run_with_stops(given, ("mask: sizes", "decode")).version
    assert small.hashes(given) == small.hashes(first)


def test_a_group_whose_moments_are_lost_publishes_nothing(tmp_path, table, monkeypatch):
    """What two groups exchange does not show in the table's means."""
    whole = _local_synthesis.settle

    def leaky(part, *, params):
        made = whole(part, params=params)
        one, other = (np.flatnonzero(made[:, -1] == g)[0] for g in (0, 1))
        made[[one, other], :-1] = made[[other, one], :-1]
        return made

    monkeypatch.setattr(_local_synthesis, "settle", leaky)
    outcome = small.run(job_of(tmp_path, table))
    assert outcome.version is None
    assert failed(outcome) == {
        "mean in each group, deviation from its expected value",
        "covariance in each group, deviation from its expected value",
    }


def test_a_group_under_k_publishes_nothing(tmp_path, table, monkeypatch):
    whole = _local_synthesis.group_rows

    def leaky(part, *, params, place, original, categories):
        made = whole(part, params=params, place=place, original=original, categories=categories)
        if place == 0:
            made[:3, -1] = len(params.sizes) - 1  # three records that the last group is made of
        return made

    monkeypatch.setattr(_local_synthesis, "group_rows", leaky)
    groups = _local_synthesis.MixtureGroups
    monkeypatch.setattr(groups, "sizes", property(lambda self: np.append(self.counts, 3)))
    monkeypatch.setattr(groups, "known", property(lambda self: np.full((len(self.sizes), 9), -1)))
    outcome = small.run(job_of(tmp_path, table))
    assert outcome.version is None and "smallest group" in failed(outcome)


def nowhere(table):
    """All heights of the second stratum missing."""
    return {**table, "height": pa.array(table["height"], mask=table["status"] == "b")}


AWKWARD = {
    "constant": lambda t: {**t, "height": np.full(len(t["status"]), 170.0)},
    "collinear": lambda t: {**t, "weight": 2 * t["height"] - 100},
    "missing in a group": nowhere,
    "duplicates": lambda t: {name: values[np.arange(len(values)) // 4 * 4] for name, values in t.items()},
}


@pytest.mark.parametrize(("kind", "tails"), [*zip(AWKWARD, ["gaussian", "t"] * 2, strict=True)])
def test_awkward_tables(tmp_path, kind, tails):
    """Promised moments are kept; strata of 40 = 2k, of which each has a group or two."""
    table = AWKWARD[kind](people(80, 40))
    mask = {"method": "local_synthesis", "tails": tails, "classes": 2}
    outcome = small.run(job_of(tmp_path, table, strata={"by": ["status"]}, mask=mask))
    assert outcome.version, failed(outcome)


@pytest.mark.parametrize("rows", [40, 41, 78])
def test_strata_of_k_records_and_a_few_more(tmp_path, rows):
    given = job_of(tmp_path, people(rows), strata={"by": ["status"]}, mask={**MASK, "components": None})
    outcome = small.run(given)
    assert outcome.version, failed(outcome)
    assert "2 groups across partitions" in checks(outcome)["smallest group"].on
    assert small.released(given).num_rows == rows


def test_what_a_user_is_told(tmp_path, table):
    text = "\n".join(preview(job_of(tmp_path, table)).lines())
    assert (
        re.search("local_synthesis of (the whole table|each stratum), groups of at least 20", text)
        and "no groups" not in text
    )
    of_few = small.run(job_of(tmp_path, table, k=2, mask={"method": "local_synthesis"})).verdict.checks
    smallest = next(check.measured for check in of_few if check.key == "group.smallest")
    assert smallest >= 7, "two more than feature columns, or who knows part of a record solves for the rest"
    with pytest.raises(
        JobError, match=r"has 6 records, and mask\.method local_synthesis needs 7 for 5 feature columns"
    ):
        preview(job_of(tmp_path / "few", people(6, 3) | {"place": ["x", "x", "y", "y", "z", "z"]}, k=2))
    with pytest.raises(JobError, match="stratum"):
        job_of(tmp_path, table, mask={**MASK, "scope": "table"})
    only_places = {"place": {"kind": "categorical"}, "status": {"kind": "categorical", "role": "key"}}
    places = pa.table(people(80)).select(["place", "status"])
    with pytest.raises(JobError, match="needs a column of numbers"):
        preview(job_of(tmp_path, places, only_places))


def test_stratum_too_small_for_covariances_joins_and_plan_says(tmp_path):
    """Of 8 records: more than k, but the gates of a run of their own would refuse what decoding makes of them."""
    merged = {"by": ["status"], "small": "merge"}
    limits = {"unchanged_record_rate": 1.0, "local_suppression_rate": 1.0}
    job = job_of(tmp_path, people(600, 8), k=5, strata=merged, gates=limits)
    reason = "8 records move to larger strata in 'status', as their own are under 100, which local_synthesis needs"
    assert any(reason in warning for warning in preview(job).warnings)
    assert small.run(job).verdict.passed
    assert small.released(job)["status"].to_pylist() == ["a"] * 600


def test_without_merging_a_stratum_stays_on_its_own(tmp_path):
    job = job_of(tmp_path, people(600, 30), k=5, strata={"by": ["status"]})
    assert [rows for _, rows in preview(job).strata] == [570, 30]


def test_an_ordinal_with_nulls_keeps_its_associations():
    """Values under nulls count neither in the wanted covariances nor in those of the release: 0.7 came out as 0.94."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=2_000)
    level = np.clip(np.rint(4 + 0.8 * x + 0.8 * rng.normal(size=2_000)), 0, 8)
    frame = pd.DataFrame({"x": x, "level": np.where(rng.random(2_000) < 0.5, level, np.nan)})
    kinds = {"x": {"kind": "continuous"}, "level": {"kind": "ordinal"}}
    job = {"k": 5, "columns": kinds, "gates": {"covariance": 9.0}}
    release = anonymize(frame, job).table
    assert abs(release.corr().loc["x", "level"] - frame.corr().loc["x", "level"]) < 0.06
