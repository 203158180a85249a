"""Groups counted part by part are those of the table, and records drawn for the lower bound a fair share."""

from __future__ import annotations

from functools import partial, reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.encoding.scan import SCAN_RECORDS
from anonpipe.errors import DamagedError, InputError
from anonpipe.methods.executor import Reduce, Rows
from anonpipe.methods.grouping import class_disclosure, information_loss_bound
from anonpipe.methods.synthesis import METHODS
from anonpipe.moments import GroupedMoments
from anonpipe.pipeline.arrays import RECORDS
from anonpipe.pipeline.outcome.evidence import COUNTED
from anonpipe.pipeline.procedure.group_steps import (
    FEWEST,
    GroupedPart,
    GroupingChoice,
    GroupLayout,
    Synthesis,
    group_steps,
    sampled_rows,
    synthesis_steps,
)
from anonpipe.storage.records import from_bytes, to_bytes
from anonpipe.verify import verdict
from tests.in_memory import run_steps

KEY = b"k" * 16
K = 3


def layout(**changes):
    given = {"k": K, "width": 2, "conditioning": 0, "shares": (np.array([0.5, 0.5]),), "n_sensitive": 1}
    return GroupLayout(**(given | changes))


def chosen(rows):
    record = METHODS["micro_perturbation"]
    options = record.options(method="micro_perturbation", form="exact")
    return Synthesis(record, options, record.own(options), record.guarantee(options), rows)


def table(parts, seed):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(size=(sum(parts), 2)), rng.integers(0, 2, (sum(parts), 1))], axis=1)


def learnt(features, steps, parts, strata):
    """What the step that counts has learnt, and the channels that it saw."""
    seen = []

    def look(part, *, params, rng):
        seen.append((part, params))
        return part

    at = max(at for at, step in enumerate(steps) if isinstance(step, Reduce))
    run_steps(features, (*steps[: at + 1], Rows("look", look)), key=KEY, parts=parts, strata=strata)
    return seen[0][1], [part for part, _ in seen]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(40, 60), min_size=1, max_size=3), st.integers(0, 10**6))
def test_what_parts_count_is_what_the_table_has(parts, seed):
    features, strata = table(parts, seed), sorted(at % 2 for at in range(len(parts)))
    asked = GroupingChoice("mdav", {"block_rows": None}, None, {})
    own = layout()
    steps = (*group_steps(own, asked, np.ones(2)), *synthesis_steps(own, chosen(sum(parts))))
    groups, seen = learnt(features, steps, parts, strata)
    labels, before = [], 0
    for part in seen:
        labels.append(part[:, -1].astype(int) + before)
        before = labels[-1].max() + 1
    whole, every = np.concatenate(labels), np.concatenate(seen)
    sizes = np.bincount(whole)
    assert groups.tallied_sizes.tolist() == sorted(sizes.tolist()) and groups.smallest == sizes.min()
    order = np.argsort(whole, kind="stable")
    moments = GroupedMoments.of(every[:, :2], order, np.concatenate([[0], np.cumsum(sizes)]))
    assert np.allclose(groups.whole.grouped.within, moments.within)
    told = class_disclosure(whole, every[:, 2].astype(int), np.array([0.5, 0.5]))
    assert groups.whole.classes[0].homogeneous_share == pytest.approx(told.homogeneous_share)
    assert groups.loss_bound(K).percent == pytest.approx(information_loss_bound(every[:, :2], K))
    assert len(groups.factors) == len(set(groups.scopes.tolist()))


def test_exact_noise_of_parts_has_the_scatter_that_groups_lost():
    """Also over parts of which each draws its own: the covariance of the stratum comes out, to rounding."""
    parts, strata = [60, 45, 80], [0, 0, 1]
    features, own = table(parts, 3), layout()
    asked = GroupingChoice("mdav", {"block_rows": None}, "quick", {})
    steps = (*group_steps(own, asked, np.ones(2)), *synthesis_steps(own, chosen(sum(parts))))
    made = run_steps(features, steps, key=KEY, parts=parts, strata=strata)
    for rows in (slice(0, 105), slice(105, 185)):
        assert np.allclose(np.cov(made[rows, :2].T), np.cov(features[rows, :2].T), rtol=1e-9, atol=1e-12)
        assert np.allclose(made[rows, :2].mean(axis=0), features[rows, :2].mean(axis=0))


def test_missing_numbers_are_filled_from_the_groups():
    """A number that is missing stands at the mean while groups form, and then takes a value of records near it."""
    rng = np.random.default_rng(5)
    near = rng.normal(size=90)
    hole = rng.random(90) < 0.3
    features = np.stack([np.where(hole, 0.0, 10 * near), np.where(hole, 1.0, -1.0), near], axis=1)
    own = layout(width=3, shares=(), n_sensitive=0, numbers=((0, 1), (2, None)))
    made = run_steps(
        features,
        group_steps(own, GroupingChoice("mdav", {"block_rows": None}, None, {}), np.ones(3)),
        key=KEY,
        parts=[90],
    )
    assert set(made[hole, 0]) <= set(features[~hole, 0]) and np.array_equal(made[~hole, 0], features[~hole, 0])
    assert np.array_equal(made[:, 1:3], features[:, 1:3])


@pytest.mark.parametrize("bad", [-1, 9, 2**60])
def test_labels_that_name_no_groups_are_refused(bad):
    part = np.zeros((9, 4))
    part[4, -1] = bad
    with pytest.raises(DamagedError, match="groups are not of the 9 records"):
        GroupedPart.of(part, layout())


def test_a_group_under_k_is_refused():
    part = np.zeros((9, 4))
    part[:2, -1] = 1
    with pytest.raises(InputError, match="fewer than k=3"):
        GroupedPart.of(part, layout())


def test_small_tables_are_measured_whole_large_ones_by_share():
    rng = np.random.default_rng(1)
    assert sampled_rows(400, 4_000, rng).tolist() == list(range(400))
    drawn = [sampled_rows(1_001, 1_001_000, rng) for _ in range(1_000)]
    assert all(len(set(rows.tolist())) == len(rows) and (rows < 1_001).all() for rows in drawn)
    assert sum(map(len, drawn)) == pytest.approx(FEWEST, rel=0.3)


def test_records_of_two_kinds_have_two_names():
    for kinds in (RECORDS, COUNTED, SCAN_RECORDS, verdict.RECORDS):
        assert len({kind.__name__ for kind in kinds}) == len(set(kinds))


def test_what_was_learnt_of_groups_survives_the_disk():
    features, own = table([50], 2), layout()
    steps = (
        *group_steps(own, GroupingChoice("mdav", {"block_rows": None}, None, {}), np.ones(2)),
        *synthesis_steps(own, chosen(50)),
    )
    groups, _ = learnt(features, steps, [50], [0])
    again = from_bytes(to_bytes(groups), RECORDS)
    assert np.array_equal(again.factor(0), groups.factor(0)) and again.loss_bound(K) == groups.loss_bound(K)
    merged = reduce(lambda one, two: one.merge(two), (partial(from_bytes, to_bytes(groups), RECORDS)().counts[0],) * 2)
    assert merged.groups.sum() == 2 * groups.whole.groups.sum()
