import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.errors import InputError, JobError
from anonpipe.evaluate.risk import closest_record, nearest


def test_hand_made():
    near = np.column_stack([np.arange(1.0, 101), np.full(100, 200.0)])
    found = closest_record(near, near * 2, reference_is="twice")
    # The lower order statistic: position 0.05 · 99 is between the fifth and the sixth value.
    assert (found.low_tail, found.median, found.ratio) == (5.0, 50.5, 0.5)
    assert found.nearness == pytest.approx(50.5 / 200) and found.equal == 0.0
    names = [m.name for m in found.measurements()]
    assert names == [f"closest_record.{key}" for key in ("p5", "p5_ratio", "median", "equal", "nndr")]
    tail = found.measurements()[0]
    assert (tail.value, tail.baseline, tail.baseline_is, tail.low) == (5.0, 10.0, "twice", None)
    assert "No evidence of privacy by itself" in tail.note and len(tail.curves) == 1
    assert tail.curves[0].y[2] == 5.0 and tail.curves[0].baseline[2] == 10.0


def test_a_copy_a_centroid_and_a_fresh_sample():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(500, 3))
    own = nearest(table, table, 2, without=np.arange(500)).distances
    made = {
        "copy": table,
        "centroids": np.repeat(table.reshape(100, 5, 3).mean(axis=1), 5, axis=0),
        "fresh": rng.normal(size=(500, 3)),
    }
    found = {
        name: closest_record(nearest(release, table, 2).distances, own, reference_is="leave-one-out")
        for name, release in made.items()
    }
    assert (found["copy"].equal, found["copy"].ratio, found["copy"].nearness) == (1.0, 0.0, 0.0)
    # Five equal centroids: none stands out.
    assert found["centroids"].nearness == 1.0
    assert found["fresh"].ratio == pytest.approx(1, abs=0.35)
    assert found["fresh"].median == pytest.approx(found["fresh"].reference_median, rel=0.15)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(1, 60))
def test_laws(seed, n):
    rng = np.random.default_rng(seed)
    near = np.sort(rng.integers(0, 9, (n, 2)) / 4, axis=1)
    before = near.copy()
    found = closest_record(near, near, reference_is="itself", of=n + 1)
    ordered = sorted(near[:, 0])
    assert found.low_tail == ordered[int(0.05 * (n - 1))]
    assert found.equal == found.reference_equal == sum(x == 0 for x in ordered) / n
    assert math.isnan(found.ratio) if found.low_tail == 0 else found.ratio == 1
    assert found.low_tail_interval[0] <= found.low_tail <= found.low_tail_interval[1]
    assert 0 <= found.nearness <= 1 and list(found.curve.y) == sorted(found.curve.y)
    half = closest_record(near / 2, near, reference_is="twice")
    assert half.low_tail == found.low_tail / 2 and half.nearness == found.nearness
    assert (near == before).all()


def test_the_interval_covers():
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(200):
        near = np.sort(rng.random((300, 2)), axis=1)
        low, high = closest_record(near, near, reference_is="itself", of=10**6).low_tail_interval
        # The smaller of two uniform numbers is below 1 - √0.95 with 5 %.
        inside += low <= 1 - 0.95**0.5 <= high
    assert inside >= 182


def test_no_ratio_to_nothing():
    found = closest_record([[1.0, 2.0]], [[0.0, 0.0]], reference_is="copies")
    ratio = found.measurements()[1]
    assert math.isnan(ratio.value) and ratio.note.startswith("Not defined") and found.reference_nearness == 1.0


def test_what_is_refused():
    good = [[1.0, 2.0]]
    for bad in ([1.0, 2.0], [[1.0]], [[2.0, 1.0]], [[-1.0, 1.0]], [[1.0, float("inf")]], np.empty((0, 2))):
        with pytest.raises(InputError, match="distances"):
            closest_record(bad, good, reference_is="-")
        with pytest.raises(InputError, match="reference distances"):
            closest_record(good, bad, reference_is="-")
    with pytest.raises(JobError, match="of=0"):
        closest_record(good, good, reference_is="-", of=0)
