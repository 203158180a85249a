import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.errors import InputError
from anonpipe.evaluate.risk import nearest
from anonpipe.evaluate.risk._membership import membership


def test_a_copy_is_recognised_and_a_fresh_sample_is_not():
    rng = np.random.default_rng(0)
    table, outside, fresh = (rng.normal(size=(400, 3)) for _ in range(3))
    by_release = []
    for release in (table, fresh):
        near = [nearest(release, who, 1).distances[:, 0] for who in (table, outside)]
        by_release.append(membership(*near))
    area, advantage, few = by_release[0]
    assert area.value == 1.0 and advantage.value > 0.95 and few.value == 1.0
    area, advantage, few = by_release[1]
    assert area.low < 0.5 < area.high
    assert advantage.low < 0.05 and abs(advantage.value) < 0.12
    assert few.low < 0.01 < few.high


def naive_advantage(inside, outside):
    """Threshold by trying each distance on one half, counted on the other half."""
    taken = alarms = 0
    for half in (0, 1):
        learn = [inside[half::2], outside[half::2]]
        tried = sorted({*learn[0], *learn[1]})
        best, threshold = 0, -1.0
        for at, d in enumerate(tried):
            shares = [Fraction(sum(x <= d for x in side), len(side)) for side in learn]
            gain = shares[0] - shares[1]
            if gain > best:
                best, threshold = gain, (d + tried[min(at + 1, len(tried) - 1)]) / 2
        taken += sum(x <= threshold for x in inside[1 - half :: 2])
        alarms += sum(x <= threshold for x in outside[1 - half :: 2])
    return taken / len(inside) - alarms / len(outside)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(2, 25), st.integers(2, 25))
def test_as_the_twin(seed, n, m):
    rng = np.random.default_rng(seed)
    inside, outside = rng.integers(0, 12, n) / 8, rng.integers(2, 16, m) / 8
    area, advantage, few = membership(inside, outside)
    pairs = [(a, b) for a in inside for b in outside]
    assert area.value == pytest.approx(sum((a < b) + (a == b) / 2 for a, b in pairs) / len(pairs))
    assert advantage.value == pytest.approx(naive_advantage(inside.tolist(), outside.tolist()))
    assert advantage.low <= advantage.value <= advantage.high
    assert math.isnan(few.value) and few.low is None
    assert "not defined" in few.note.lower()


def test_advantage_is_not_flattered_by_its_own_threshold():
    rng = np.random.default_rng(1)
    gains = [membership(rng.random(40), rng.random(40))[1].value for _ in range(150)]
    # The best threshold on the same persons would give 0.19 on average.
    assert np.mean(gains) == pytest.approx(0, abs=0.03)


def test_found_at_few_false_alarms():
    outside = np.arange(1, 201) / 10
    inside = np.r_[np.full(30, 0.05), np.full(70, 50.0)]
    area, advantage, few = membership(inside, outside, of=1000)
    # Two of 200 may be accused; the third closest is at 0.3.
    assert few.value == 0.3
    assert [membership(np.full(10, at), outside)[2].value for at in (0.29, 0.3)] == [1.0, 0.0]
    assert (area.baseline, advantage.baseline, few.baseline) == (0.5, 0.0, 0.01)
    assert few.low < 0.3 < few.high and area.of == 1000 and area.sampled


def test_equal_distances_tell_nothing():
    area, advantage, _ = membership(np.ones(50), np.ones(40))
    assert area.value == 0.5 and advantage.value == 0.0


def test_who_has_no_record_near_is_refused():
    with pytest.raises(InputError, match="scores are not finite"):
        membership([1.0, math.inf], [1.0, 2.0])
