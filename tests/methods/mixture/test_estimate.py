import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.errors import InputError, JobError
from anonpipe.methods.mixture import SHAPES, Mixture, constraints, e_step, fit, hard_statistics, m_step
from tests.methods.mixture.data import KINDS, random_mixture, sample_of, table, tables
from tests.naive import mixture as naive

DIAGONAL = ("spherical", "diagonal")


def penalty(mixture, constraints):
    """What the prior takes off the log-likelihood."""
    factors = mixture.ellipsoids.factors
    logs = -2.0 * np.log(np.diagonal(factors, axis1=1, axis2=2)).sum()
    traces = (factors**2 * constraints.variances).sum()
    return float(constraints.prior_rows / 2 * (logs + traces))


def bounds_of(features, groups, k=1, prior=1e-6, **options):
    found = constraints(k, len(features), groups, features.var(axis=0), **options)
    return replace(found, prior_rows=prior * len(features) / groups)


def added(pieces):
    """The sums of all pieces."""
    names = ("rows", "log_likelihood", "counts", "heavy", "tails", "sums", "scatters")
    return replace(pieces[0], **{name: sum(getattr(piece, name) for piece in pieces) for name in names})


def assert_same(one, other, tolerance=1e-10):
    for name in ("weights", "means", "covariances", "degrees"):
        assert np.asarray(getattr(one, name)) == pytest.approx(
            np.asarray(getattr(other, name)), rel=tolerance, abs=tolerance
        )


@pytest.mark.parametrize("shape", ["spherical", "diagonal", "tied", "full"])
@pytest.mark.parametrize("degrees", [math.inf, 4.0])
@pytest.mark.parametrize("k", [1, 12])
def test_one_iteration_is_the_naive_one(shape, degrees, k):
    features = table(41, 3, seed=k)
    start = random_mixture(3, 3, seed=2, degrees=degrees, diagonal=shape in DIAGONAL)
    bounds = bounds_of(features, 3, k, shape=shape, degrees=degrees, prior=1e-3)
    statistics = e_step(features, start)
    new = m_step(statistics, bounds)
    weights, means, covariances, likelihood = naive.em_iteration(
        features,
        start.weights,
        start.means,
        start.covariances,
        start.degrees,
        k,
        shape,
        bounds.prior_rows,
        bounds.variances,
    )
    assert statistics.log_likelihood == pytest.approx(likelihood, rel=1e-12)
    assert new.weights == pytest.approx(np.array(weights), rel=1e-10)
    assert new.means == pytest.approx(np.array(means), rel=1e-10)
    assert new.covariances == pytest.approx(np.array(covariances), rel=1e-9, abs=1e-12)
    assert (abs(new.weights.min() - k / 41) < 1e-12) == (min(statistics.counts) < k)


@settings(deadline=None, max_examples=40)
@given(tables(least_rows=8), st.sampled_from(SHAPES), st.sampled_from([math.inf, 3.0]), st.data())
def test_any_split_gives_the_same_estimates(problem, shape, degrees, data):
    features, seed = problem
    before = features.copy()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(features)), max_size=4)))
    pieces = np.split(features, cuts)
    start = random_mixture(3, features.shape[1], seed, degrees=degrees, diagonal=shape in DIAGONAL)
    bounds = bounds_of(features, 3, 2, shape=shape, degrees=degrees)
    whole = e_step(features, start)
    merged = added([e_step(piece, start) for piece in pieces])
    assert (features == before).all()
    assert merged.rows == whole.rows
    assert merged.log_likelihood == pytest.approx(whole.log_likelihood, rel=1e-11)
    assert whole.counts.sum() == pytest.approx(len(features), rel=1e-12)
    one, other = m_step(merged, bounds), m_step(whole, bounds)
    if shape in ("eev", "vev"):
        # Orientations have no single answer where axes are equally long; lengths of axes have.
        one, other = (replace(m, covariances=np.linalg.eigvalsh(m.covariances)) for m in (one, other))
    assert_same(one, other, 1e-7 if shape == "vev" else 1e-8)  # that one iterates


def test_many_rows_and_tiles():
    mixture = random_mixture(5, 4, seed=1)
    features, _ = sample_of(mixture, 3_001, seed=1)
    merged = added([e_step(piece, mixture) for piece in np.array_split(features, 7)])
    whole = e_step(features, mixture)
    for name in ("counts", "sums", "scatters"):
        assert getattr(merged, name) == pytest.approx(getattr(whole, name), rel=1e-11, abs=1e-9)
    assert (e_step(features, mixture).scatters == whole.scatters).all()


@settings(deadline=None, max_examples=40)
@given(
    tables(least_rows=12),
    st.sampled_from(SHAPES),
    st.sampled_from([math.inf, 4.0, None]),
)
def test_the_penalised_likelihood_never_falls_without_a_bound(problem, shape, degrees):
    features, seed = problem
    bounds = replace(bounds_of(features, 2, 1, shape=shape, degrees=degrees, prior=1e-3), least_weight=0.0)
    labels = np.random.default_rng(seed).integers(0, 2, len(features))
    labels[:2] = 0, 1
    mixture = m_step(hard_statistics(features, labels, diagonal=shape in DIAGONAL), bounds)
    objective = -np.inf
    for _ in range(15):
        statistics = e_step(features, mixture)
        new = statistics.log_likelihood - penalty(mixture, bounds)
        assert new >= objective - 1e-8 * (1 + abs(new))
        objective = new
        mixture = m_step(statistics, bounds)


def test_the_published_bound_can_lower_the_likelihood():
    rng = np.random.default_rng(0)
    sizes = [150, 40, 10]
    features = np.concatenate([30.0 * g + rng.normal(size=(size, 1)) for g, size in enumerate(sizes)])
    labels = np.repeat([0, 1, 2], sizes)
    bounds = bounds_of(features, 3, 30)
    free = replace(bounds, least_weight=0.0)
    settled = fit(features, m_step(hard_statistics(features, labels), free), free, tolerance=1e-13).mixture
    before = e_step(features, settled)
    bounded = m_step(before, bounds)
    assert bounded.weights.min() == pytest.approx(30 / 200) and bounded.weights.min() >= bounds.least_weight
    assert e_step(features, bounded).log_likelihood < before.log_likelihood - 0.1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_degenerate_tables_give_finite_estimates(kind, shape):
    features = table(41, 4, seed=3, kind=kind)
    labels = np.arange(41) % 4
    bounds = bounds_of(features, 4, 10, shape=shape)  # n is one above groups · k
    start = m_step(hard_statistics(features, labels, diagonal=shape in DIAGONAL), bounds)
    result = fit(features, start, bounds, iterations=60)
    assert np.isfinite(result.log_likelihoods).all()
    assert np.isfinite(result.mixture.covariances).all()
    assert (np.linalg.eigvalsh(result.mixture.covariances) > 0).all()
    assert result.mixture.weights.min() >= 10 / 41
    assert result.mixture.weights.sum() == pytest.approx(1)


def test_component_without_records_becomes_as_wide_as_table():
    features = table(50, 2, seed=1)
    bounds = bounds_of(features, 2)
    far = Mixture(
        np.array([0.5, 0.5]), np.array([[0.0, 0.0], [1e4, 1e4]]), np.stack([np.eye(2)] * 2), np.full(2, np.inf)
    )
    statistics = e_step(features, far)
    assert statistics.counts.tolist() == [50.0, 0.0]
    assert m_step(statistics, bounds).covariances[1] == pytest.approx(np.diag(features.var(axis=0)))


@pytest.mark.parametrize("shape", ["full", "vev"])
def test_a_known_mixture_is_found(shape):
    truth = random_mixture(3, 2, seed=8, apart=6.0)
    if shape == "vev":
        turned = truth.covariances[0][::-1, ::-1]
        truth = replace(truth, covariances=np.stack([truth.covariances[0], 2 * turned, 0.5 * turned]))
    features, labels = sample_of(truth, 6_000, seed=4)
    bounds = bounds_of(features, 3, 50, shape=shape)
    rough = np.where(np.random.default_rng(0).random(6_000) < 0.7, labels, (labels + 1) % 3)
    result = fit(features, m_step(hard_statistics(features, rough), bounds), bounds, tolerance=1e-9)
    assert result.converged
    assert result.mixture.weights == pytest.approx(truth.weights, abs=0.03)
    assert result.mixture.means == pytest.approx(truth.means, abs=0.15)
    assert result.mixture.covariances == pytest.approx(truth.covariances, abs=0.3)


def test_t_components_find_their_tails():
    truth = random_mixture(2, 2, seed=3, degrees=4.0, apart=6.0)
    features, labels = sample_of(truth, 12_000, seed=5)
    bounds = bounds_of(features, 2, 50, degrees=None)
    start = m_step(hard_statistics(features, labels), bounds)
    result = fit(features, start, bounds, tolerance=1e-9, iterations=400)
    assert result.mixture.degrees == pytest.approx(4.0, rel=0.25)
    assert result.mixture.covariances == pytest.approx(truth.covariances, rel=0.15, abs=0.15)
    normal = fit(features, start, bounds_of(features, 2, 50))
    assert result.log_likelihoods[-1] > normal.log_likelihoods[-1] + 100


def test_normal_data_give_many_degrees_of_freedom():
    features = np.random.default_rng(0).normal(size=(4_000, 2))
    bounds = bounds_of(features, 1, 5, degrees=None)
    start = m_step(hard_statistics(features, np.zeros(4_000, dtype=np.int64)), bounds)
    assert fit(features, start, bounds, tolerance=1e-10, iterations=500).mixture.degrees[0] > 30


def test_large_offsets_cost_no_digits():
    features = table(200, 3, seed=1)
    labels = np.arange(200) % 2
    bounds = bounds_of(features, 2, 10)

    def run(shift):
        return fit(features + shift, m_step(hard_statistics(features + shift, labels), bounds), bounds).mixture

    assert run(1e6).covariances == pytest.approx(run(0.0).covariances, rel=1e-6, abs=1e-7)


def test_what_is_refused():
    features = table(30, 2, seed=1)
    with pytest.raises(JobError, match="give 1 to 2, or a smaller k"):
        bounds_of(features, 3, 10)
    assert bounds_of(features, 1, 30).least_weight == 0.0
    one = random_mixture(2, 2, seed=1)
    with pytest.raises(InputError, match="too far"):
        e_step(features * 1e200, one)
    flat = Mixture(np.ones(1), np.zeros((1, 2)), np.ones((1, 2, 2)), np.full(1, np.inf))
    with pytest.raises(InputError, match="not positive definite"):
        e_step(features, flat)


def test_number_of_parameters():
    features = table(50, 3, seed=1)
    # Weights 2, means 9; covariances as in Celeux and Govaert 1995, table 1.
    for shape, count in (("spherical", 1), ("diagonal", 9), ("tied", 6), ("eev", 12), ("vev", 14), ("full", 18)):
        assert bounds_of(features, 3, 2, shape=shape).parameters(3) == 11 + count
    assert bounds_of(features, 3, 2, degrees=None).parameters(3) == 11 + 18 + 3
