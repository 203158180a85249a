import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.evaluate.risk import nearest
from anonpipe.evaluate.risk._closest_record import closest_record


def figures(distances, reference, **options):
    """By the last part of their names."""
    near, other = np.asarray(distances), np.asarray(reference)
    measured = closest_record(near, other, **{"of": len(near)} | options)
    return {one.name.removeprefix("closest_record."): one for one in measured}


def test_hand_made():
    near = np.column_stack([np.arange(1.0, 101), np.full(100, 200.0)])
    found = figures(near, near * 2)
    # The lower order statistic: position 0.05 · 99 is between the fifth and the sixth value.
    assert (found["p5"].value, found["median"].value, found["p5_ratio"].value) == (5.0, 50.5, 0.5)
    assert found["nndr"].value == pytest.approx(50.5 / 200) and found["equal"].value == 0.0
    assert list(found) == ["p5", "p5_ratio", "median", "equal", "nndr"]
    tail = found["p5"]
    assert (tail.value, tail.baseline, tail.baseline_is, tail.low) == (
        5.0,
        10.0,
        "the original, leaving each record out",
        None,
    )
    assert "No evidence of privacy by itself" in tail.note and len(tail.curves) == 1
    assert tail.curves[0].y[2] == 5.0 and tail.curves[0].baseline[2] == 10.0


def test_a_copy_a_centroid_and_a_fresh_sample():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(500, 3))
    own = nearest(table, table, 2, without=np.arange(500)).distances
    releases = {
        "copy": table,
        "centroids": np.repeat(table.reshape(100, 5, 3).mean(axis=1), 5, axis=0),
        "fresh": rng.normal(size=(500, 3)),
    }
    found = {name: figures(nearest(release, table, 2).distances, own) for name, release in releases.items()}
    assert [found["copy"][key].value for key in ("equal", "p5_ratio", "nndr")] == [1.0, 0.0, 0.0]
    # Five equal centroids: none stands out.
    assert found["centroids"]["nndr"].value == 1.0
    assert found["fresh"]["p5_ratio"].value == pytest.approx(1, abs=0.35)
    assert found["fresh"]["median"].value == pytest.approx(found["fresh"]["median"].baseline, rel=0.15)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(1, 60))
def test_laws(seed, n):
    rng = np.random.default_rng(seed)
    near = np.sort(rng.integers(0, 9, (n, 2)) / 4, axis=1)
    before = near.copy()
    found = figures(near, near, of=n + 1)
    ordered, tail, equal, ratio = sorted(near[:, 0]), found["p5"], found["equal"], found["p5_ratio"].value
    assert tail.value == ordered[int(0.05 * (n - 1))]
    assert equal.value == equal.baseline == sum(x == 0 for x in ordered) / n
    assert math.isnan(ratio) if tail.value == 0 else ratio == 1
    assert tail.low <= tail.value <= tail.high and equal.low <= equal.value <= equal.high
    (curve,) = tail.curves
    assert 0 <= found["nndr"].value <= 1 and list(curve.y) == sorted(curve.y)
    half = figures(near / 2, near)
    assert half["p5"].value == tail.value / 2 and half["nndr"].value == found["nndr"].value
    assert (near == before).all()


def test_the_interval_covers():
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(200):
        near = np.sort(rng.random((300, 2)), axis=1)
        tail = figures(near, near, of=10**6)["p5"]
        # The smaller of two uniform numbers is below 1 - √0.95 with 5 %.
        inside += tail.low <= 1 - 0.95**0.5 <= tail.high
    assert inside >= 182


def test_no_ratio_to_nothing():
    found = figures([[1.0, 2.0]], [[0.0, 0.0]])
    ratio = found["p5_ratio"]
    assert math.isnan(ratio.value) and ratio.note.startswith("Not defined") and found["nndr"].baseline == 1.0
