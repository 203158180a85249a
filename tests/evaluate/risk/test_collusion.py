import numpy as np
import pytest
from hypothesis import given, settings

from anonpipe.evaluate.risk._known_attribute import _GAINED_TOGETHER, collusion
from anonpipe.kernels.points import sort_groups
from anonpipe.methods.synthesis import synthesize
from tests.evaluate.risk.test_known_attribute import grouped
from tests.naive import attacks as naive


@settings(deadline=None, max_examples=25)
@given(grouped(widths=(1, 3)))
def test_as_the_twin(problem):
    original, released, labels, _ = problem
    found = collusion(original, released, labels, tolerance=0.25)
    rows = original.tolist(), released.tolist(), labels.tolist()
    assert (found.share, found.from_mean) == pytest.approx(naive.share_by_collusion(*rows, 0.25))
    assert found.share == pytest.approx(np.mean([share for _, share in found.parts]))


@pytest.mark.parametrize("method", ["centroid", "gaussian"])
def test_exact_sums_give_the_last_one_away(method):
    rng = np.random.default_rng(0)
    original, labels = rng.normal(size=(200, 3)), np.repeat(np.arange(20), 10)
    drawn = {} if method == "centroid" else {"moments": "exact"}
    released = synthesize(original, *sort_groups(labels), method, rng=rng, **drawn)
    found = collusion(original, released, labels, tolerance=1e-9)
    assert found.share == 1.0 and collusion(original, released, labels, tolerance=1e-12).share == 1.0
    assert found.from_mean < 0.01
    measured, gained = found.measurement(), found.gained(_GAINED_TOGETHER)
    assert measured.value == 1.0 and measured.baseline == found.from_mean and measured.low is None
    assert gained.value == 1.0 and gained.baseline == 0.0 and gained.low is None


def test_independent_noise_does_not():
    rng = np.random.default_rng(1)
    original, labels = rng.normal(size=(900, 2)), np.repeat(np.arange(300), 3)
    means = original.reshape(300, 3, 2).mean(axis=1)[labels]
    released = means + rng.normal(size=means.shape)
    found = collusion(original, released, labels)
    # The sum of three draws has a variance of 3.
    assert found.share == pytest.approx(0.046, abs=0.02)
    near, far = (collusion(original, released, labels, tolerance=(0.6745 + off) * 3**0.5).share for off in (-0.1, 0.1))
    assert near < 0.5 < far
