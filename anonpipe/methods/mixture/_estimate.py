"""Mixtures of normal or t components: what estimates keep to, covariances in six shapes, and the iteration."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
from scipy.special import digamma, gammaln

from anonpipe.errors import InputError, JobError
from anonpipe.kernels.mixture import Ellipsoids, common_shape, expectation, invert_factors, moments_by_group
from anonpipe.kernels.points import sort_groups
from anonpipe.moments import merge_all
from anonpipe.types import FloatArray, IntArray


def smoothed(weights: FloatArray, least: float) -> FloatArray:
    """Add one number to all weights and rescale, so that the smallest becomes `least` (eq. 3 and 4)."""
    # Weights stay in their order and all move towards 1 / G (Oganian & Domingo-Ferrer 2017, section 3).
    smallest = weights.min()
    if smallest >= least:
        return weights
    shift = (least - smallest) / (1.0 - least * len(weights))
    lifted: FloatArray = (weights + shift) / (1.0 + len(weights) * shift)
    # The smallest is `least` but for rounding, which must not leave it below.
    return np.maximum(lifted, least)


def constrained(weights: FloatArray, least: float) -> FloatArray:
    """The most likely weights among those of `least` or more."""
    # They maximise Σ N_g log π_g: an iteration with this rule cannot lower the likelihood; one with `smoothed` can.
    low = np.zeros(len(weights), dtype=np.bool_)
    bounded = weights
    while True:
        rest = weights[~low].sum()
        shrink = (1.0 - least * low.sum()) / rest if rest > 0 else 0.0
        bounded = np.where(low, least, weights * shrink)
        below = ~low & (bounded < least)
        if not below.any():
            return bounded
        low |= below


# Ways to lift weights to a bound, by name
RULES: dict[str, Callable[[FloatArray, float], FloatArray]] = {"published": smoothed, "constrained": constrained}


def least_weight(k: int, n_rows: int, parts: int, rule: str, called: str) -> float:
    """The least weight of each of so many components or classes: k of `n_rows` records, 0 for one part alone."""
    if rule not in RULES:
        raise JobError(f"unknown rule {rule!r} for bounded weights; known are: {', '.join(RULES)}")
    if parts < 1 or (parts > 1 and parts * k >= n_rows):
        raise JobError(
            f"{parts} {called} of {k} or more of {n_rows} records were asked for, and there must be fewer than "
            f"records / k; give 1 to {max(1, (n_rows - 1) // k)}, or a smaller k"
        )
    return k / n_rows if parts > 1 else 0.0


# --- The records of a mixture: its parameters, and what estimates must keep to ----------------------------------------

SHAPES = ("spherical", "diagonal", "tied", "eev", "vev", "full")  # Forms of the covariances; see `covariances`

DIAGONAL = ("spherical", "diagonal")  # Shapes whose covariances are diagonal


@dataclass(frozen=True)
class Constraints:
    """What the estimates of a mixture keep to."""

    shape: str  # One of `SHAPES`
    least_weight: float  # No component's weight falls below it: k / n (0: no bound)
    variances: FloatArray = field(repr=False)  # Spread of each column in the table, shape (width,), all positive
    # Records of covariance diag(variances) that every component is given besides its own, a small fraction of one: so
    # that no covariance is singular, whatever the records are
    prior_rows: float
    rule: str = "published"  # How weights are lifted to it, a name of `RULES`
    # Degrees of freedom of the components: infinite for normal ones, a positive number for t components, None where
    # each component's are estimated
    degrees: float | None = math.inf

    def parameters(self, groups: int) -> int:
        """Free parameters of a mixture of `groups` components, ν of eq. 6."""
        d, g = len(self.variances), groups
        ellipsoid = d * (d + 1) // 2
        covariances = {
            "spherical": 1,
            "diagonal": g * d,
            "tied": ellipsoid,
            "eev": g * ellipsoid - (g - 1) * d,
            "vev": g * ellipsoid - (g - 1) * (d - 1),
            "full": g * ellipsoid,
        }
        return g - 1 + g * d + covariances[self.shape] + (g if self.degrees is None else 0)


def constraints(
    k: int,
    n_rows: int,
    groups: int,
    variances: FloatArray,
    *,
    shape: str = "full",
    rule: str = "published",
    prior: float = 1e-6,
    degrees: float | None = math.inf,
) -> Constraints:
    """Check the options of a mixture and turn them into `Constraints`; `variances` has shape (width,)."""
    if shape not in SHAPES:
        raise JobError(f"unknown shape {shape!r} of a mixture; known are: {', '.join(SHAPES)}")
    if not 0 < prior < 1:
        raise JobError(f"the prior of a mixture is {prior}; give a share above 0 and below 1, such as 1e-6")
    if degrees is not None and not degrees > 0:
        raise JobError(f"degrees of freedom are {degrees}; give a positive number, or none to estimate them")
    least = least_weight(k, n_rows, groups, rule, "components")
    spread = np.where(variances > 0, variances, 1.0)
    return Constraints(shape, least, spread, prior * n_rows / groups, rule, degrees)


@dataclass(frozen=True, eq=False)
class Mixture:
    """A mixture of normal or t components."""

    weights: FloatArray  # Shape (n_groups,), sum 1
    means: FloatArray  # Shape (n_groups, width)
    covariances: FloatArray  # Shape (n_groups, width, width); of a t component its scale matrix
    degrees: FloatArray  # Shape (n_groups,); infinite for a normal component
    diagonal: bool = False  # Whether all covariances are diagonal

    @property
    def n_groups(self) -> int:
        """Number of components."""
        return len(self.weights)

    @cached_property
    def ellipsoids(self) -> Ellipsoids:
        """As the kernels take it."""
        width = self.means.shape[1]
        factors, half_logs, bad = invert_factors(self.covariances)
        if bad.any():
            raise InputError(
                f"{int(bad.sum())} of {self.n_groups} covariances of the mixture are not positive definite; "
                "drop columns that follow from others, or give a larger prior"
            )
        normal = np.isinf(self.degrees)
        v = np.where(normal, 1.0, self.degrees)
        tails = gammaln((v + width) / 2) - gammaln(v / 2) - width / 2 * np.log(v * math.pi)
        # Without a bound a weight may be 0: then no record is likely there.
        logs = np.log(self.weights, out=np.full(self.n_groups, -np.inf), where=self.weights > 0)
        constants = logs + np.where(normal, -width / 2 * math.log(2 * math.pi), tails) - half_logs
        return Ellipsoids(self.means, factors, constants, self.degrees, self.diagonal)


# --- Covariances of the components from their scatters, in six shapes -------------------------------------------------

_ITERATIONS = 200
_TOLERANCE = 1e-12


def covariances(scatters: FloatArray, counts: FloatArray, shape: str) -> FloatArray:
    """The most likely covariances Σ_g = λ_g D_g A_g D_g' of a shape.

    "spherical"  λ I: balls of one size
    "diagonal"   axes along the columns, all else free
    "tied"       one ellipsoid Σ for all
    "eev"        one volume λ and shape A, each its own orientation D_g
    "vev"        one shape A, each its own volume λ_g and orientation D_g
    "full"       no constraint

    Shapes: scatters (n_groups, width, width); counts (n_groups,).

    Notes
    -----
    For "vev", in λ_g and A by turns: with the logarithms of both as unknowns the likelihood is concave, so that the
    turns end in its only maximum.

    Where a scatter has equal eigenvalues, as those of few distinct records do, its orientation in "eev" and "vev" is
    any of many equally likely ones, and rounding decides; the lengths of the axes do not depend on it.

    The clusters "with equal shape but different orientation and volume" that the authors found in their larger table
    are "vev".

    References
    ----------
    Celeux and Govaert 1995, Pattern Recognition 28:781-793, doi:10.1016/0031-3203(94)00125-6, section 3; the names in
    small letters are their initials for equal and variable volume, shape and orientation.
    """
    groups, width = len(counts), scatters.shape[2]
    if shape == "spherical":
        variance = scatters.sum() / (width * counts.sum())
        return np.broadcast_to(np.eye(width) * variance, (groups, width, width)).copy()
    if shape == "diagonal":
        return np.asarray(np.einsum("gj,jh->gjh", scatters[:, 0] / counts[:, None], np.eye(width)))
    if shape == "tied":
        return np.broadcast_to(scatters.sum(axis=0) / counts.sum(), (groups, width, width)).copy()
    if shape == "full":
        return scatters / counts[:, None, None]
    # Ascending eigenvalues: the same place in every component is the same axis of the common shape.
    values, vectors = np.linalg.eigh(scatters)
    values = np.maximum(values, np.finfo(np.float64).tiny)
    sizes = _equal_volume(values, counts) if shape == "eev" else _own_volumes(values, counts)
    rotated: FloatArray = np.einsum("gjm,gm,ghm->gjh", vectors, sizes, vectors)
    return (rotated + rotated.transpose(0, 2, 1)) / 2


def _equal_volume(values: FloatArray, counts: FloatArray) -> FloatArray:
    """Eigenvalues λ a_j, the same for all."""
    return np.broadcast_to(values.sum(axis=0) / counts.sum(), values.shape)


def _own_volumes(values: FloatArray, counts: FloatArray) -> FloatArray:
    """Eigenvalues λ_g a_j with Π a_j = 1, by turns."""
    volumes, shape = common_shape(values, counts, _ITERATIONS, _TOLERANCE)
    return np.asarray(volumes[:, None] * shape)


# --- Degrees of freedom of t components -------------------------------------------------------------------------------

_LEAST, _MOST = 1.0, 200.0  # Range of estimated degrees of freedom; 200 is as good as normal

_FIRST = 30.0  # Degrees of freedom that an estimate starts from

_HALVINGS = 50


def _new_degrees(counts: FloatArray, tails: FloatArray, degrees: FloatArray, width: int) -> FloatArray:
    """The degrees of freedom (n_groups,) that maximise the expected likelihood (Peel & McLachlan 2000, section 7)."""
    # Bisection of log(ν/2) - ψ(ν/2) + 1 + Σ z (log u - u) / Σ z + ψ(b) - log(b) = 0, b = (ν_old + width) / 2. The left
    # side falls in ν: there is one solution, or none inside the range, and then its nearer end.
    half = (np.where(np.isinf(degrees), _FIRST, degrees) + width) / 2
    share = np.divide(tails, counts, out=np.full(len(counts), -1.0), where=counts > 0)
    constant = 1.0 + share + digamma(half) - np.log(half)
    low, high = np.full(len(counts), np.log(_LEAST)), np.full(len(counts), np.log(_MOST))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        v = np.exp(middle) / 2
        rising = np.log(v) - digamma(v) + constant > 0
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    return np.asarray(np.exp((low + high) / 2))


# --- The sums over records that an iteration needs; pieces of a table add up to the table's ---------------------------


@dataclass(frozen=True, eq=False)
class Statistics:
    """Sums over a piece's records: z posteriors (eq. 2), u the factor by which a t component weighs a record down."""

    rows: int  # Number of records
    log_likelihood: float  # Of these records, in the mixture that the posteriors are of
    # counts, heavy, tails: sums of z, z u and z (log u - u), shape (n_groups,)
    counts: FloatArray
    heavy: FloatArray
    tails: FloatArray
    sums: FloatArray  # Sums of z u (x - centre), shape (n_groups, width)
    # Sums of z u (x - centre)(x - centre)', shape (n_groups, width, width), or (n_groups, 1, width): their diagonals
    scatters: FloatArray
    # centres, degrees: means, shape (n_groups, width), and degrees of freedom, shape (n_groups,), of that mixture:
    # equal in all pieces
    centres: FloatArray
    degrees: FloatArray

    def merge(self, other: Self) -> Self:
        """Both pieces together; they must be of one mixture."""
        if not np.array_equal(self.centres, other.centres) or not np.array_equal(self.degrees, other.degrees):
            raise InputError("these sums are of two different mixtures; take all pieces with the same mixture")
        added = ("rows", "log_likelihood", "counts", "heavy", "tails", "sums", "scatters")
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in added})


def e_step(features: FloatArray, mixture: Mixture) -> Statistics:
    """Posterior probabilities of a piece of the table (eq. 2), summed up; time n · n_groups · width²."""
    likelihood, counts, heavy, tails, sums, scatters = expectation(features, mixture.ellipsoids)
    if not np.isfinite(likelihood):
        raise InputError(
            "some records are too far from every component for a density to be computed; "
            "scale the columns to unit variance, or cut values that are out of all bounds"
        )
    return Statistics(len(features), likelihood, counts, heavy, tails, sums, scatters, mixture.means, mixture.degrees)


def hard_statistics(features: FloatArray, labels: IntArray, *, diagonal: bool = False) -> Statistics:
    """The sums where each record belongs to one component for certain: what a first estimate is made of."""
    order, starts = sort_groups(labels)
    means, scatters = moments_by_group(features, order, starts)
    counts = np.diff(starts).astype(np.float64)
    if diagonal:
        scatters = np.ascontiguousarray(np.diagonal(scatters, axis1=1, axis2=2))[:, None, :]
    degrees = np.full(len(counts), np.inf)
    return Statistics(len(features), -np.inf, counts, counts, -counts, np.zeros_like(means), scatters, means, degrees)


# --- Estimating a mixture: the maximisation step, and the iteration over a table in pieces ----------------------------


def m_step(statistics: Statistics, constraints: Constraints) -> Mixture:
    """New estimates from the sums over all records: weights lifted to the bound, means, covariances, degrees."""
    # The prior is `prior_rows` records with covariance diag(variances) about the component's mean: iterations raise the
    # log-likelihood less prior_rows / 2 · Σ_g (log|Σ_g| + tr(Σ_g⁻¹ diag(variances))). A component without any records
    # becomes as wide as the table. Oganian & Domingo-Ferrer 2017, section 3; t: doi:10.1023/A:1008981510081.
    s = statistics
    weights = RULES[constraints.rule](s.counts / s.rows, constraints.least_weight)
    steps = np.divide(s.sums, s.heavy[:, None], out=np.zeros_like(s.sums), where=s.heavy[:, None] > 0)
    diagonal = constraints.shape in DIAGONAL
    prior = constraints.prior_rows * constraints.variances
    if diagonal:
        scatters = s.scatters - (s.sums * steps)[:, None, :]
        scatters = np.maximum(scatters, 0.0) + prior
    else:
        scatters = s.scatters - np.einsum("gj,gh->gjh", s.sums, steps)
        scatters = scatters + np.diag(prior)
    shaped = covariances(scatters, s.counts + constraints.prior_rows, constraints.shape)
    if constraints.degrees is None:
        degrees = _new_degrees(s.counts, s.tails, s.degrees, s.centres.shape[1])
    else:
        degrees = np.full(len(weights), float(constraints.degrees))
    return Mixture(weights, s.centres + steps, shaped, degrees, diagonal)


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted mixture."""

    mixture: Mixture  # The last estimates
    log_likelihoods: tuple[float, ...]  # Before each step, the last one that of `mixture`
    converged: bool  # Whether the iteration ended because it no longer changed


def over(pieces: Iterable[FloatArray]) -> Callable[[Mixture], Statistics]:
    """The expectation step over pieces of a table that can be gone through again and again, such as a list."""
    return lambda mixture: merge_all([e_step(piece, mixture) for piece in pieces])


def fit(
    expect: Callable[[Mixture], Statistics],
    start: Mixture,
    constraints: Constraints,
    *,
    tolerance: float = 1e-5,
    iterations: int = 200,
) -> Fit:
    """Iterate expectation and maximisation until the log-likelihood settles."""
    # The penalised likelihood never falls, to rounding, while no weight is at the bound, nor with the rule
    # "constrained". With the published rule (eq. 3 and 4), which is not a maximum of anything, it may fall.
    if not tolerance > 0 or iterations < 1:
        raise JobError(f"tolerance {tolerance} and {iterations} iterations; give a positive number and 1 or more")
    mixture, likelihoods = start, list[float]()
    for step in range(iterations):
        statistics = expect(mixture)
        likelihoods.append(statistics.log_likelihood)
        converged = step > 0 and abs(likelihoods[-1] - likelihoods[-2]) <= tolerance * (1.0 + abs(likelihoods[-1]))
        if converged or step + 1 == iterations:
            return Fit(mixture, tuple(likelihoods), converged)
        mixture = m_step(statistics, constraints)
    raise AssertionError("the last pass returns")


def bic(log_likelihood: float, parameters: int, n_rows: int) -> float:
    """Twice the log-likelihood less parameters · log(records): larger is better (eq. 6)."""
    return 2.0 * log_likelihood - parameters * float(np.log(n_rows))
