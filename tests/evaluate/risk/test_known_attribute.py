"""Values recovered with a known group: by one attribute, and by all other members together."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.evaluate.risk import WholeGroups
from anonpipe.evaluate.risk import _known_attribute as attacks
from anonpipe.evaluate.risk._known_attribute import _GAINED_TOGETHER, closest_in_group
from anonpipe.kernels.points import sort_groups
from anonpipe.methods.synthesis import synthesize
from tests.naive import attacks as naive


def known_attribute(*groups, names=None, **options):
    return attacks.known_attribute(WholeGroups(*groups), names or named(groups), **options)


def collusion(*groups, **options):
    return attacks.collusion(WholeGroups(*groups), named(groups), **options)


def named(groups):
    return [f"column {at}" for at in range(groups[0].shape[1])]


@st.composite
def grouped(draw, widths=(2, 3, 5)):
    """(original, released, labels, k): whole groups, some with equal values or a constant column."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    k, width = draw(st.integers(1, 4)), draw(st.sampled_from(widths))
    sizes = rng.integers(k, 2 * k, size=draw(st.integers(1, 6)), endpoint=k == 1)
    labels = rng.permutation(np.repeat(np.arange(len(sizes)) * 3, sizes))
    original = rng.normal(size=(len(labels), width)) + labels[:, None] / 3
    if draw(st.booleans()):
        original = np.round(original)
    if draw(st.booleans()):
        original[:, -1] = 2.0
    return original, original + 0.3 * rng.normal(size=original.shape), labels, k


def exact(original, labels, seed=0):
    """Released with each group's mean and scatter, by the package's own method."""
    order, starts = sort_groups(np.unique(labels, return_inverse=True)[1])
    return synthesize(original, order, starts, "gaussian", rng=np.random.default_rng(seed))


def test_exact_moments_of_three_give_the_record_away():
    """One angle is free in a group of three; one attribute fixes it, up to a mirror image."""
    rng = np.random.default_rng(3)
    original, labels = rng.normal(size=(300, 4)), np.repeat(np.arange(100), 3)
    released = exact(original, labels)
    assert np.abs(released - original).max() > 0.1
    found = known_attribute(original, released, labels, guess="moments", tolerance=1e-6, rng=rng)
    assert found.share > 0.999
    # Rounding is magnified only where the two answers nearly meet.
    closer = known_attribute(original, released, labels, guess="moments", tolerance=1e-14, rng=rng)
    assert closer.share > 0.75
    assert found.elsewhere.share < 0.01 and found.mean.share < 0.01
    noisy = known_attribute(
        original, original + 0.5 * rng.normal(size=original.shape), labels, guess="moments", rng=rng
    )
    assert noisy.share < 0.5


def test_exact_moments_of_two_are_the_records():
    rng = np.random.default_rng(4)
    original, labels = rng.normal(size=(60, 3)), np.repeat(np.arange(30), 2)
    released = exact(original, labels)
    for guess in ("closest", "moments"):
        found = known_attribute(original, released, labels, guess=guess, tolerance=1e-9, rng=rng)
        assert found.share == 1.0 and found.interval == (None, None)


def test_larger_groups_give_less_away():
    rng = np.random.default_rng(5)
    original = rng.normal(size=(360, 3))
    shares = []
    for size in (2, 3, 4, 10):
        labels = np.repeat(np.arange(360 // size), size)
        shares.append(known_attribute(original, exact(original, labels), labels, guess="moments", rng=rng).share)
    assert shares[0] > 0.99 and shares[1] > 0.99
    assert shares[1] > 2 * shares[2] > 2 * shares[3]


def test_nothing_but_the_mean():
    """Of centroids both guesses know the mean only; the baseline of another group is worse."""
    rng = np.random.default_rng(6)
    labels = np.repeat(np.arange(50), 4)
    original = rng.normal(size=(200, 2)) * 0.01 + 10 * rng.normal(size=(50, 2))[labels]
    centroids = original.reshape(50, 4, 2).mean(axis=1)[labels]
    found = [known_attribute(original, centroids, labels, guess=g, rng=rng) for g in ("closest", "moments", "mean")]
    assert [each.share for each in found] == [1.0, 1.0, 1.0]
    assert found[0].elsewhere.share < 0.1 and found[0].mean.share < 0.1
    measured = found[0].measurement()
    assert measured.value == 1.0 and measured.baseline == found[0].better.share < 0.1
    assert [name for name, _ in measured.parts] == ["column 0", "column 1"]


def test_rounding_is_no_direction():
    """Records that are equal but for rounding, and a column that hardly varies, leave the mean to guess."""
    rng = np.random.default_rng(9)
    labels = np.repeat(np.arange(40), 5)
    original = 3 + rng.normal(size=(200, 4))
    means = original.reshape(40, 5, 4).mean(axis=1)[labels]
    nearly = means * (1 + 1e-16 * rng.integers(-2, 3, means.shape))
    with np.errstate(all="raise"):
        found = known_attribute(original, nearly, labels, guess="moments", tolerance=0.5, rng=rng)
        flat = means + [1.0, 1.0, 1.0, 1e-14] * rng.normal(size=means.shape)
        known_last = known_attribute(original, flat, labels, guess="moments", tolerance=0.5, rng=rng).parts[3][1]
    assert found.share == (np.abs(means - original) <= 0.5).mean()
    assert found.share == known_attribute(original, means, labels, guess="mean", tolerance=0.5, rng=rng).share
    rest = flat.reshape(40, 5, 4).mean(axis=1)[labels, :3]
    assert known_last == (np.abs(rest - original[:, :3]) <= 0.5).mean()


@settings(deadline=None, max_examples=25)
@given(grouped(), st.sampled_from([0.0, 0.05, 0.3, 1.0]))
def test_as_the_twins(problem, tolerance):
    original, released, labels, _ = problem
    before = original.copy(), released.copy()
    made = {
        guess: known_attribute(
            original, released, labels, guess=guess, tolerance=tolerance, rng=np.random.default_rng(0)
        )
        for guess in ("closest", "moments")
    }
    rows = original.tolist(), released.tolist(), labels.tolist()
    assert made["closest"].share == pytest.approx(naive.share_by_closest(*rows, tolerance))
    if tolerance:
        assert made["moments"].share == pytest.approx(naive.share_by_moments(*rows, tolerance), abs=0.02)
    for found in made.values():
        assert found.share == pytest.approx(np.mean([share for _, share in found.parts]))
        (curve,) = found.measurement().curves
        assert list(curve.y) == sorted(curve.y) and curve.y[0] >= 0 and curve.y[-1] <= 1
        if tolerance in curve.x:
            assert curve.y[curve.x.index(tolerance)] == pytest.approx(found.share)
        assert (found.elsewhere is None) == (len(set(labels.tolist())) == 1)
    assert (original == before[0]).all() and (released == before[1]).all()


@settings(deadline=None, max_examples=20)
@given(grouped(), st.integers(0, 2**32 - 1))
def test_order_inside_groups_is_nothing_tolerance_only_helps(problem, seed):
    original, released, labels, _ = problem
    rng = np.random.default_rng(seed)
    mixed = released.copy()
    for g in np.unique(labels):
        mixed[labels == g] = rng.permutation(released[labels == g])
    for guess in ("closest", "moments"):
        first, second, wider = (
            known_attribute(original, table, labels, guess=guess, tolerance=t, rng=np.random.default_rng(1))
            for table, t in ((released, 0.2), (mixed, 0.2), (released, 0.4))
        )
        assert first.share == pytest.approx(second.share)
        assert wider.share >= first.share
    assert collusion(original, released, labels).share == collusion(original, mixed, labels).share


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_closest_in_group_as_the_twin(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    n, groups = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 4))
    where = np.r_[np.arange(groups), rng.integers(0, groups, n)]
    values = rng.integers(-3, 4, len(where)).astype(float)
    asked, asked_groups = rng.integers(-5, 6, 15) / 2, rng.integers(0, groups, 15)
    found = closest_in_group(values, where, asked, asked_groups)
    for value, g, row in zip(asked, asked_groups, found, strict=True):
        assert row == naive.closest_guess(values[:, None], naive.members(where.tolist(), g), 0, value)


def test_noise_over_true_means_leaves_the_means():
    rng = np.random.default_rng(10)
    labels = np.repeat(np.arange(200), 3)
    original = 4 * rng.normal(size=(200, 3))[labels] + 0.05 * rng.normal(size=(600, 3))
    means = original.reshape(200, 3, 3).mean(axis=1)[labels]
    drawn = rng.normal(size=(200, 3, 3))
    released = means + (drawn - drawn.mean(axis=1, keepdims=True)).reshape(600, 3)
    shares = {
        guess: known_attribute(original, released, labels, guess=guess, rng=rng).share
        for guess in ("closest", "moments", "mean")
    }
    assert shares["mean"] > 0.9 and max(shares["closest"], shares["moments"]) < 0.5


def test_a_sample_has_an_interval_and_the_whole_none():
    rng = np.random.default_rng(7)
    original, labels = rng.normal(size=(60, 2)), np.repeat(np.arange(20), 3)
    released = original + 0.1 * rng.normal(size=original.shape)
    whole = known_attribute(original, released, labels, rng=np.random.default_rng(0), names=["a", "b"])
    sample = known_attribute(original, released, labels, rng=np.random.default_rng(0), of=600)
    assert whole.interval == (None, None) and sample.share == whole.share
    low, high = sample.interval
    assert 0 <= low < sample.share < high <= 1
    assert whole.parts[0][0] == "a"
    assert collusion(original, released, labels).measurement().low is None
    assert collusion(original, released, labels, of=61).measurement().low is not None


def test_intervals_hold_the_share_of_all_groups():
    """95 of 100 samples of groups, give or take: the share over all groups lies inside."""
    rng = np.random.default_rng(8)
    original, labels = rng.normal(size=(3000, 3)), np.repeat(np.arange(1000), 3)
    released = original + (0.02 + 0.3 * rng.random(1000))[labels][:, None] * rng.normal(size=original.shape)
    true = known_attribute(original, released, labels, rng=rng).share
    inside = 0
    for _ in range(60):
        rows = np.isin(labels, rng.choice(1000, 50, replace=False))
        found = known_attribute(original[rows], released[rows], labels[rows], rng=rng, of=3000)
        inside += found.interval[0] <= true <= found.interval[1]
    assert inside >= 52


@settings(deadline=None, max_examples=25)
@given(grouped(widths=(1, 3)))
def test_as_the_twin(problem):
    original, released, labels, _ = problem
    found = collusion(original, released, labels, tolerance=0.25)
    rows = original.tolist(), released.tolist(), labels.tolist()
    assert (found.share, found.mean.share) == pytest.approx(naive.share_by_collusion(*rows, 0.25))
    assert found.share == pytest.approx(np.mean([share for _, share in found.parts]))


@pytest.mark.parametrize("method", ["centroid", "gaussian"])
def test_exact_sums_give_the_last_one_away(method):
    rng = np.random.default_rng(0)
    original, labels = rng.normal(size=(200, 3)), np.repeat(np.arange(20), 10)
    drawn = {} if method == "centroid" else {"moments": "exact"}
    released = synthesize(original, *sort_groups(labels), method, rng=rng, **drawn)
    found = collusion(original, released, labels, tolerance=1e-9)
    assert found.share == 1.0 and collusion(original, released, labels, tolerance=1e-12).share == 1.0
    assert found.mean.share < 0.01
    measured, gained = found.measurement(), found.gained(_GAINED_TOGETHER)
    assert measured.value == 1.0 and measured.baseline == found.mean.share and measured.low is None
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


def test_large_groups_take_no_longer_than_other_guesses():
    """A regression in each group serves all its records: per record it took as long again as the group is wide."""
    rng = np.random.default_rng(4)
    groups = rng.normal(size=(800, 120)), rng.normal(size=(800, 120)), np.arange(800) % 2
    seconds = {}
    for guess in ("closest", "moments"):
        begun = time.thread_time()
        known_attribute(*groups, guess=guess, rng=rng)
        seconds[guess] = time.thread_time() - begun
    assert seconds["moments"] < 5 * seconds["closest"]
