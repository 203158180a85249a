from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.methods.masking import intervals
from tests.in_memory import mask
from tests.methods.grouping.data import grouping_problems
from tests.methods.masking.tables import correlated, run, splits
from tests.naive import mask as naive


def labels_of(found):
    """Group of each record."""
    labels = np.empty(len(found.order), dtype=np.int64)
    labels[found.order] = np.repeat(np.arange(len(found.starts) - 1), np.diff(found.starts))
    return labels


@given(problem=grouping_problems(), strict=st.booleans())
@settings(max_examples=120, deadline=None)
def test_groups_are_those_of_the_twin(problem, strict):
    features, k = problem
    found = intervals(features, k, cuts="strict" if strict else "relaxed")
    groups = [found.order[a:b].tolist() for a, b in zip(found.starts[:-1], found.starts[1:], strict=True)]
    assert sorted(groups) == sorted(naive.mondrian(features.tolist(), k, strict))


@given(problem=grouping_problems(), strict=st.booleans())
@settings(max_examples=80, deadline=None)
def test_record_once_in_group_of_k_whose_interval_is_tight(problem, strict):
    features, k = problem
    before = features.copy()
    found = intervals(features, k, cuts="strict" if strict else "relaxed")
    assert np.array_equal(features, before)
    assert np.array_equal(np.sort(found.order), np.arange(len(features)))
    sizes = np.diff(found.starts)
    assert sizes.min() >= k
    for a, b in zip(found.starts[:-1], found.starts[1:], strict=True):
        rows = found.order[a:b]
        assert (found.low[rows] == features[rows].min(axis=0)).all()
        assert (found.high[rows] == features[rows].max(axis=0)).all()
        if not strict:
            assert b - a < 2 * k or (features[rows] == features[rows[0]]).all()
    assert np.bincount(labels_of(found)).tolist() == sizes.tolist()


@given(problem=grouping_problems())
@settings(max_examples=50, deadline=None)
def test_strict_cuts_do_not_part_equal_records(problem):
    features, k = problem
    labels = labels_of(intervals(features, k, cuts="strict"))
    _, same = np.unique(features, axis=0, return_inverse=True)
    for number in range(same.max() + 1):
        assert len(set(labels[same.ravel() == number])) == 1


@given(problem=grouping_problems(), data=st.data())
@settings(max_examples=60, deadline=None)
def test_the_release_is_k_anonymous_in_any_split(problem, data):
    features, k = problem
    parts = data.draw(splits(len(features), least=k))
    for release in ("midpoint", "interval"):
        masked = run(features, "generalize", parts, k=k, release=release)
        _, counts = np.unique(masked, axis=0, return_counts=True)
        assert counts.min() >= k


@given(
    problem=grouping_problems(),
    step=st.sampled_from([0.0, 0.1, 0.25, 1.0, 7.0]),
    origin=st.sampled_from([0.0, 0.3, -2.0]),
)
@settings(max_examples=80, deadline=None)
def test_widened_intervals_hold_their_records_and_end_on_steps(problem, step, origin):
    features, k = problem
    width = features.shape[1]
    plain = intervals(features, k)
    found = intervals(features, k, steps=(step,) * width, origin=(origin,) * width)
    assert np.array_equal(labels_of(found), labels_of(plain))
    assert (found.low <= plain.low).all() and (found.high >= plain.high).all()
    if step == 0:
        assert np.array_equal(found.low, plain.low) and np.array_equal(found.high, plain.high)
        return
    assert (plain.low - found.low < step * (1 + 1e-9)).all() and (found.high - plain.high < step * (1 + 1e-9)).all()
    for ends in (found.low, found.high):
        counts = (ends - origin) / step
        assert np.abs(counts - np.rint(counts)).max() <= 1e-12 * max(1.0, np.abs(counts).max())


def test_wide_intervals_are_suppressed_and_no_others():
    features = correlated(200, 3)
    share = 0.2
    plain, found = intervals(features, 5), intervals(features, 5, suppress_above=share)
    wide = plain.high - plain.low > share * np.ptp(features, axis=0)
    assert 0 < wide.sum() < wide.size
    assert np.array_equal(np.isnan(found.low), wide) and np.array_equal(np.isnan(found.middle), wide)
    assert np.array_equal(found.high[~wide], plain.high[~wide])


@pytest.mark.parametrize("release", ["midpoint", "interval"])
def test_channels_are_those_of_the_intervals(release):
    features = correlated(60, 2)
    found = intervals(features, 4)
    masked = mask(features, "generalize", rng=np.random.default_rng(0), k=4, release=release)
    wanted = found.middle if release == "midpoint" else np.concatenate([found.low, found.high], axis=1)
    assert np.array_equal(masked, wanted)


def test_the_range_of_a_column_is_that_of_all_parts():
    """Cut in parts, a column that is narrow in one part and wide in the table is not widest there."""
    rng = np.random.default_rng(6)
    features = rng.uniform(size=(80, 2))
    features[:40, 0] *= 0.01
    masked = run(features, "generalize", [40, 40], k=20)
    assert len(np.unique(masked[:40, 1])) == 2 and np.ptp(masked[:40, 0]) < 0.01
    upper = masked[:40][features[:40, 1] > np.median(features[:40, 1])]
    assert len(np.unique(upper[:, 1])) == 1
