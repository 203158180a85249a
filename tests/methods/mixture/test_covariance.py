import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.methods.mixture import SHAPES, covariances


def problem(seed, groups=3, width=3):
    rng = np.random.default_rng(seed)
    roots = rng.normal(size=(groups, width, width + 2)) * rng.uniform(0.2, 3, size=(groups, 1, 1))
    return np.einsum("gjm,ghm->gjh", roots, roots), rng.uniform(1, 40, groups)


def fitted(scatters, counts, shape):
    if shape in ("spherical", "diagonal"):
        scatters = np.diagonal(scatters, axis1=1, axis2=2)[:, None, :]
    return covariances(scatters, counts, shape)


def likelihood(sigma, scatters, counts):
    logs = np.linalg.slogdet(sigma)[1]
    return -0.5 * float((counts * logs).sum() + np.einsum("gjh,ghj->", np.linalg.inv(sigma), scatters))


def random_of_shape(shape, rng, groups, width):
    """Any covariances of the shape."""

    def rotation():
        return np.linalg.qr(rng.normal(size=(width, width)))[0]

    if shape == "spherical":
        return np.broadcast_to(np.eye(width) * rng.uniform(0.1, 5), (groups, width, width))
    if shape == "diagonal":
        return rng.uniform(0.1, 5, size=(groups, 1, width)) * np.eye(width)
    axes = rng.uniform(0.1, 5, width)
    volumes = rng.uniform(0.1, 3, groups) if shape in ("vev", "full") else np.ones(groups)
    turns = [rotation()] * groups if shape == "tied" else [rotation() for _ in range(groups)]
    return np.array(
        [
            d * (t * (rng.uniform(0.1, 5, width) if shape == "full" else axes)) @ t.T
            for d, t in zip(volumes, turns, strict=True)
        ]
    )


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(SHAPES))
def test_no_other_covariances_of_the_shape_are_more_likely(seed, shape):
    scatters, counts = problem(seed)
    best = fitted(scatters, counts, shape)
    rng = np.random.default_rng(seed)
    at_best = likelihood(best, scatters, counts)
    for _ in range(5):
        other = random_of_shape(shape, rng, *scatters.shape[:2])
        assert at_best >= likelihood(other, scatters, counts) - 1e-9
    # Near by, too: the same shape scaled a little.
    for factor in (0.999, 1.001):
        assert at_best >= likelihood(best * factor, scatters, counts) - 1e-9


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_freer_shapes_are_more_likely(seed):
    scatters, counts = problem(seed)
    value = {shape: likelihood(fitted(scatters, counts, shape), scatters, counts) for shape in SHAPES}
    for tight, free in (
        ("spherical", "tied"),
        ("spherical", "diagonal"),
        ("tied", "eev"),
        ("eev", "vev"),
        ("vev", "full"),
        ("diagonal", "full"),
    ):
        assert value[free] >= value[tight] - 1e-9


def test_shapes_are_what_they_say():
    scatters, counts = problem(5, groups=4, width=3)
    values = {shape: np.linalg.eigvalsh(fitted(scatters, counts, shape)) for shape in SHAPES}
    assert np.ptp(values["spherical"]) < 1e-12
    assert np.ptp(values["tied"], axis=0) == pytest.approx(0, abs=1e-9)
    assert np.ptp(values["eev"], axis=0) == pytest.approx(0, abs=1e-9)
    ratio = values["vev"] / values["vev"][:, :1]
    assert np.ptp(ratio, axis=0) == pytest.approx(0, abs=1e-9)
    assert np.ptp(values["vev"][:, 0]) > 1e-3
    assert np.ptp(values["full"] / values["full"][:, :1], axis=0).max() > 1e-3
    own = np.linalg.eigh(scatters)[1]
    turned = np.einsum("gmj,gmn,gnh->gjh", own, fitted(scatters, counts, "vev"), own)
    assert np.abs(turned * (1 - np.eye(3))).max() < 1e-9
