"""Mixtures of normal or t components: estimates, first groups and their number, and groups of k over tables in pieces.

scikit-learn's `GaussianMixture` has no bound on weights, no shape "vev" and no t components.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self, TypeVar

import numpy as np
from scipy.special import digamma, gammaln

from anonpipe.errors import LOWER_K, SMALLER_K, InputError, JobError
from anonpipe.kernels.compiled import kernel
from anonpipe.kernels.mixture import (
    Ellipsoids,
    choose_moves,
    common_shape,
    expectation,
    invert_factors,
    moments_by_group,
    most_likely,
    move_costs,
)
from anonpipe.kernels.points import by_first_row, places, sort_groups
from anonpipe.moments import Moments
from anonpipe.types import BoolArray, FloatArray, IntArray


def smoothed(weights: FloatArray, least: float) -> FloatArray:
    """Add one number to all weights and rescale, so that the smallest becomes `least` (eq. 3 and 4)."""
    # Weights stay in their order and all move towards 1 / G (Oganian & Domingo-Ferrer 2017, section 3).
    smallest = weights.min()
    if smallest >= least:
        return weights
    shift = (least - smallest) / (1.0 - least * len(weights))
    lifted: FloatArray = (weights + shift) / (1.0 + len(weights) * shift)
    return np.maximum(lifted, least)  # The smallest is `least` but for rounding, which must not leave it below


def least_weight(k: int, n_rows: int, parts: int, called: str) -> float:
    """The least weight of each of so many components or classes: k of `n_rows` records, 0 for one part alone."""
    if parts < 1 or (parts > 1 and parts * k >= n_rows):
        raise JobError(
            f"{parts} {called} of {k} or more of {n_rows} records were asked for, and there must be fewer than "
            f"records / k; give 1 to {max(1, (n_rows - 1) // k)}, or {SMALLER_K}"
        )
    return k / n_rows if parts > 1 else 0.0


SHAPES = ("spherical", "diagonal", "tied", "eev", "vev", "full")  # Forms of the covariances; see `covariances`
DIAGONAL = ("spherical", "diagonal")  # Shapes whose covariances are diagonal
_PRIOR = 1e-6  # Share of the records that the prior counts as


@dataclass(frozen=True)
class Constraints:
    """What the estimates of a mixture keep to."""

    shape: str  # One of `SHAPES`
    least_weight: float  # No component's weight falls below it: k / n (0: no bound)
    variances: FloatArray = field(repr=False)  # Spread of each column in the table, shape (width,), all positive
    # Records of covariance diag(variances) that every component is given besides its own, a small fraction of one: so
    # that no covariance is singular, whatever the records are
    prior_rows: float
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
    k: int, n_rows: int, groups: int, variances: FloatArray, *, shape: str = "full", degrees: float | None = math.inf
) -> Constraints:
    """What a mixture of so many groups of k or more keeps to; `variances` has shape (width,)."""
    least = least_weight(k, n_rows, groups, "components")
    return Constraints(shape, least, np.where(variances > 0, variances, 1.0), _PRIOR * n_rows / groups, degrees)


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


def covariances(scatters: FloatArray, counts: FloatArray, shape: str) -> FloatArray:
    """The most likely covariances Σ_g = λ_g D_g A_g D_g' of a shape.

    - "spherical": λ I, balls of one size; "diagonal": axes along the columns; "tied": one ellipsoid Σ for all
    - "eev": one volume λ and shape A, each its own orientation D_g; "vev": the same with its own volume λ_g
    - "full": no constraint

    Shapes: scatters (n_groups, width, width); counts (n_groups,).

    For "vev", in λ_g and A by turns: with the logarithms of both as unknowns the likelihood is concave, so that the
    turns end in its only maximum.

    Where a scatter has equal eigenvalues, as those of few distinct records do, its orientation in "eev" and "vev" is
    any of many equally likely ones, and rounding decides; the lengths of the axes do not depend on it.

    The clusters "with equal shape but different orientation and volume" of the authors' larger table are "vev".

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
    if shape == "eev":  # eigenvalues λ a_j, the same for all
        sizes = np.broadcast_to(values.sum(axis=0) / counts.sum(), values.shape)
    else:  # λ_g a_j with Π a_j = 1, by turns
        volumes, axis = common_shape(values, counts)
        sizes = np.asarray(volumes[:, None] * axis)
    rotated: FloatArray = np.einsum("gjm,gm,ghm->gjh", vectors, sizes, vectors)
    return (rotated + rotated.transpose(0, 2, 1)) / 2


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


@dataclass(frozen=True, eq=False)
class Statistics:
    """Sums over records: z posteriors (eq. 2), u the factor by which a t component weighs a record down."""

    rows: int  # Number of records
    log_likelihood: float  # Of these records, in the mixture that the posteriors are of
    # counts, heavy, tails: sums of z, z u and z (log u - u), shape (n_groups,)
    counts: FloatArray
    heavy: FloatArray
    tails: FloatArray
    sums: FloatArray  # Sums of z u (x - centre), shape (n_groups, width)
    # Sums of z u (x - centre)(x - centre)', shape (n_groups, width, width), or (n_groups, 1, width): their diagonals
    scatters: FloatArray
    centres: FloatArray  # Means of that mixture, shape (n_groups, width)
    degrees: FloatArray  # Its degrees of freedom, shape (n_groups,)


def e_step(features: FloatArray, mixture: Mixture) -> Statistics:
    """Posterior probabilities of records (eq. 2), summed up; time n · n_groups · width²."""
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


def m_step(statistics: Statistics, constraints: Constraints) -> Mixture:
    """New estimates from the sums over all records: weights lifted to the bound, means, covariances, degrees."""
    # The prior is `prior_rows` records with covariance diag(variances) about the component's mean: iterations raise the
    # log-likelihood less prior_rows / 2 · Σ_g (log|Σ_g| + tr(Σ_g⁻¹ diag(variances))). A component without any records
    # becomes as wide as the table. Oganian & Domingo-Ferrer 2017, section 3; t: doi:10.1023/A:1008981510081.
    s = statistics
    weights = smoothed(s.counts / s.rows, constraints.least_weight)
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


def fit(
    features: FloatArray, start: Mixture, constraints: Constraints, *, tolerance: float = 1e-5, iterations: int = 200
) -> Fit:
    """Iterate expectation and maximisation until the log-likelihood settles."""
    # The penalised likelihood never falls, to rounding, while no weight is at the bound. With weights there it may, as
    # eq. 3 and 4 maximise nothing.
    mixture, likelihoods = start, list[float]()
    for step in range(iterations):
        statistics = e_step(features, mixture)
        likelihoods.append(statistics.log_likelihood)
        converged = step > 0 and abs(likelihoods[-1] - likelihoods[-2]) <= tolerance * (1.0 + abs(likelihoods[-1]))
        if converged or step + 1 == iterations:
            return Fit(mixture, tuple(likelihoods), converged)
        mixture = m_step(statistics, constraints)
    raise AssertionError("the last pass returns")


def bic(log_likelihood: float, parameters: int, n_rows: int) -> float:
    """Twice the log-likelihood less parameters · log(records): larger is better (eq. 6)."""
    return 2.0 * log_likelihood - parameters * float(np.log(n_rows))


# --- First groups of a sample by agglomeration ------------------------------------------------------------------------


@kernel
def _log_determinant(matrix: FloatArray) -> float:
    """Log determinant of a positive definite matrix, whose lower triangle is overwritten."""
    total = 0.0
    for j in range(matrix.shape[0]):
        for h in range(j + 1):
            entry = matrix[j, h]
            for m in range(h):
                entry -= matrix[j, m] * matrix[h, m]
            matrix[j, h] = entry / matrix[h, h] if h < j else math.sqrt(max(entry, 1e-300))
        total += 2.0 * math.log(matrix[j, j])
    return total


@kernel
def _joint_spread(
    a: int, b: int, counts: FloatArray, means: FloatArray, scatters: FloatArray, prior: float, work: FloatArray
) -> float:
    """Value of n log|(W + prior I) / (n + prior)| for the union of groups a and b, for a alone where a = b."""
    width = means.shape[1]
    count = counts[a] if a == b else counts[a] + counts[b]
    share = 0.0 if a == b else counts[a] / count * counts[b]
    for j in range(width):
        for h in range(j + 1):
            entry = scatters[a, j, h]
            if a != b:
                entry += scatters[b, j, h] + share * (means[b, j] - means[a, j]) * (means[b, h] - means[a, h])
            work[j, h] = (entry + (prior if j == h else 0.0)) / (count + prior)
    return float(count * _log_determinant(work))


@kernel
def _first_least(rises: FloatArray, row: int) -> int:
    """Column of the first least number of a row below the diagonal; 0 where there is none."""
    column = 0
    for b in range(1, row):
        if rises[row, b] < rises[row, column]:
            column = b
    return column


@kernel
def _keep_least(rises: FloatArray, least: IntArray, low: int, high: int) -> None:
    """Find the least of each row again where it may be another, after rows and columns `low` and `high` changed."""
    for a in range(low, rises.shape[0]):
        if a in (low, high) or least[a] in (low, high):
            least[a] = _first_least(rises, a)
        elif rises[a, low] < rises[a, least[a]] or (rises[a, low] == rises[a, least[a]] and low < least[a]):
            least[a] = low


@kernel
def _join_two(low: int, high: int, counts: FloatArray, means: FloatArray, scatters: FloatArray) -> None:
    """Put the records of group `high` into group `low`."""
    width, joint = means.shape[1], counts[low] + counts[high]
    share, step = counts[low] / joint * counts[high], np.empty(means.shape[1])
    for j in range(width):
        step[j] = means[high, j] - means[low, j]
    for j in range(width):
        for h in range(width):
            scatters[low, j, h] += scatters[high, j, h] + share * step[j] * step[h]
        means[low, j] += step[j] * (counts[high] / joint)
    counts[low], counts[high] = joint, 0.0


@kernel
def _join_groups(counts: FloatArray, means: FloatArray, scatters: FloatArray, prior: float) -> IntArray:
    """Join groups two by two so that Σ n log|(W + prior I) / (n + prior)| rises least, ties to the lower numbers."""
    groups, width = means.shape
    work, terms = np.empty((width, width)), np.empty(groups)
    for a in range(groups):
        terms[a] = _joint_spread(a, a, counts, means, scatters, prior, work)
    rises = np.empty((groups, groups))
    rises[:] = np.inf
    for a in range(groups):
        for b in range(a):
            rises[a, b] = _joint_spread(b, a, counts, means, scatters, prior, work) - terms[a] - terms[b]
    levels, least = np.empty((groups, groups), dtype=np.int64), np.empty(groups, dtype=np.int64)
    for a in range(groups):
        levels[groups - 1, a], least[a] = a, _first_least(rises, a)
    for left in range(groups - 1, 0, -1):
        high = 1
        for a in range(2, groups):
            if rises[a, least[a]] < rises[high, least[high]]:
                high = a
        low = least[high]
        _join_two(low, high, counts, means, scatters)
        for a in range(groups):
            rises[high, a] = rises[a, high] = np.inf
            levels[left - 1, a] = low if levels[left, a] == high else levels[left, a]
        terms[low] = _joint_spread(low, low, counts, means, scatters, prior, work)
        for b in range(groups):
            if b != low and counts[b] > 0.0:
                rise = _joint_spread(low, b, counts, means, scatters, prior, work) - terms[low] - terms[b]
                rises[max(low, b), min(low, b)] = rise
        _keep_least(rises, least, low, high)
    return levels


_PRIOR_ROWS = 0.1  # Records of unit covariance added to each scatter: few records have no determinant else


def agglomerate(sample: FloatArray, most: int, starts: Iterable[int] = (50,)) -> list[IntArray]:
    """Groups of a sample for every number of groups from `most` down to 1, once for each of the `starts`."""
    # Ward's criterion joins records into so many small groups; from there the determinant criterion goes on, the
    # classification likelihood of ellipsoids (Fraley 1998, doi:10.1137/S1064827596311451), which is not defined for
    # single records. Where the change comes decides which maximum is found. Ties go to the lower numbers.
    from scipy.cluster.hierarchy import linkage

    spread = sample.std(axis=0)
    scaled = (sample - sample.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    small_groups = [max(most, small) for small in starts]
    tree = linkage(scaled, "ward") if min(small_groups, default=0) < len(scaled) > 1 else None
    return [_levels(scaled, _ward(tree, len(scaled), groups), most) for groups in small_groups]


def _levels(scaled: FloatArray, first: IntArray, most: int) -> IntArray:
    """The small groups joined by the determinant criterion."""
    order, starts = sort_groups(first)
    means, scatters = moments_by_group(scaled, order, starts)
    joined = _join_groups(np.diff(starts).astype(np.float64), means, scatters, _PRIOR_ROWS)
    levels = np.empty((most, len(scaled)), dtype=np.int64)
    for groups in range(1, most + 1):
        # Ward's tree has fewer groups than asked for where records are equal.
        levels[groups - 1] = by_first_row(joined[min(groups, len(joined)) - 1][first])
    return levels


def _ward(tree: FloatArray | None, n_rows: int, groups: int) -> IntArray:
    """Ward's groups of the records, numbered 0 to `groups` - 1."""
    from scipy.cluster.hierarchy import fcluster

    if tree is None or groups >= n_rows:
        return np.arange(n_rows)
    return by_first_row(fcluster(tree, groups, "maxclust"))


# --- Number and shape of the components, by the Bayesian information criterion on a sample ----------------------------

TREE_ROWS = 2_000  # Rows of the sample that first groups are made of, which takes 4 bytes for each pair
_START_PASSES = 10  # Passes from every start; only the likeliest then goes on

SHORT_PASSES = 25  # Passes after which shapes and numbers of components are compared; the best go on, in their order
LONG_PASSES = 200  # The most that a run takes in all
TOLERANCE = 1e-5  # A pass that changes the log-likelihood by less than this part is the last
_BEATEN = 3  # Candidates in turn that went on to their end and are not the best: then nobody else goes on

_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class Selection:
    """The mixture of the largest BIC, and all that were tried."""

    mixture: Mixture  # Fitted to the sample: the start for a fit to the whole table
    constraints: Constraints  # What it kept to, in numbers of the whole table
    runs: tuple[_Run, ...]  # In the order of shapes, then of numbers of groups


def evenly_spaced(n_rows: int, most: int) -> IntArray:
    """At most `most` row numbers out of `n_rows`, evenly spaced."""
    size = min(n_rows, most)
    return np.arange(size) * n_rows // max(size, 1)


def select(
    sample: FloatArray,
    k: int,
    n_rows: int,
    *,
    numbers: Iterable[int] = range(2, 11),
    shapes: Iterable[str] = ("full", "vev"),
    degrees: float | None = math.inf,
    starts: Iterable[int] = (50, 150, 450),
    idle: int | None = None,
) -> Selection:
    """Fit every number and shape of components to a sample (sample_rows, width) and take the one of the largest BIC."""
    # Each starts from several groupings: all take a few passes, the likeliest some more (Biernacki, Celeux & Govaert
    # 2003, doi:10.1016/S0167-9473(02)00163-6), and by BIC the best go on to their end (`race`). The BIC is that of the
    # sample: it favours fewer components than the table's; scaled up, it would count its overfit many times.
    if len(sample) == 0:
        raise InputError("the sample for choosing a mixture has no rows; give some hundred")
    variances = sample.var(axis=0)
    wanted, smalls = list(numbers), list(dict.fromkeys(starts))
    few = np.ascontiguousarray(sample[evenly_spaced(len(sample), max(TREE_ROWS, *wanted, 0))])
    distinct = len(np.unique(few, axis=0))
    allowed = sorted({g for g in wanted if 1 <= g <= distinct and (g == 1 or g * k < n_rows)}) or [1]
    trees = agglomerate(few, allowed[-1], smalls)
    runs: list[_Run] = []
    for shape in shapes:
        latest: list[float] = []
        for groups in allowed:
            bounds = constraints(k, n_rows, groups, variances, shape=shape, degrees=degrees)
            run = _short_run(sample, few, [tree[groups - 1] for tree in trees], bounds, groups, n_rows)
            if run is None:
                continue
            runs.append(run)
            latest.append(run.bic)
            if idle is not None and len(latest) - 1 - int(np.argmax(latest)) >= idle:
                break
    if not runs:
        raise InputError("no mixture was tried; name one or more shapes, and one or more numbers to start from")
    ended = race(runs, lambda run: run.bic, lambda run: run.ended(sample), _BEATEN)
    best = max(ended, key=lambda run: run.bic)
    return Selection(best.fit.mixture, best.bounds, ended)


def grow(sample: FloatArray, begun: Selection, k: int, n_rows: int, *, most: float) -> Selection:
    """The mixture chosen on few records fitted on to more, or by half more components while their BIC rises."""
    # The BIC of few records favours fewer components than that of all: what differs within them would be lost.
    asked, numbers = begun.constraints, [begun.mixture.n_groups]
    while (larger := math.ceil(1.5 * numbers[-1])) <= most:
        numbers.append(larger)
    here, variances = on_sample(asked, len(sample), n_rows), sample.var(axis=0)
    short = fit(sample, begun.mixture, here, tolerance=TOLERANCE, iterations=SHORT_PASSES)
    runs = [_Run(asked, here, short, len(sample))]
    few = np.ascontiguousarray(sample[evenly_spaced(len(sample), TREE_ROWS)])
    (tree,) = agglomerate(few, numbers[-1], (150,))
    for groups in numbers[1:]:
        bounds = constraints(k, n_rows, groups, variances, shape=asked.shape, degrees=asked.degrees)
        run = _short_run(sample, few, [tree[groups - 1]], bounds, groups, n_rows)
        if run is None or run.bic <= runs[-1].bic:
            break
        runs.append(run)
    return Selection(runs[-1].fit.mixture, runs[-1].bounds, tuple(runs))


def race(
    candidates: Sequence[_T], criterion: Callable[[_T], float], go_on: Callable[[_T], _T], beaten: int
) -> tuple[_T, ...]:
    """The candidates of short runs, the promising ones after a long run."""
    # They go on in the order of their criterion until so many in turn have not become the best of those that went on.
    ended, best, since = list(candidates), -math.inf, 0
    for at in sorted(range(len(ended)), key=lambda one: -criterion(candidates[one])):
        if since == beaten:
            break
        ended[at] = go_on(candidates[at])
        since = 0 if criterion(ended[at]) > best else since + 1
        best = max(best, criterion(ended[at]))
    return tuple(ended)


@dataclass(frozen=True, eq=False)
class _Run:
    """The fit of a shape and number so far: what it keeps to on the table and on the sample."""

    bounds: Constraints
    here: Constraints
    fit: Fit
    rows: int

    @property
    def bic(self) -> float:
        return bic(self.fit.log_likelihoods[-1], self.bounds.parameters(self.fit.mixture.n_groups), self.rows)

    def ended(self, sample: FloatArray) -> _Run:
        """The same, fitted to its end."""
        return replace(self, fit=_longer(sample, self.fit, self.here, LONG_PASSES))


def on_sample(bounds: Constraints, rows: int, n_rows: int) -> Constraints:
    """The constraints for `rows` of `n_rows` records: the prior keeps its share, not its number of records."""
    return replace(bounds, prior_rows=bounds.prior_rows * rows / n_rows)


def _short_run(
    sample: FloatArray, few: FloatArray, firsts: list[IntArray], bounds: Constraints, groups: int, n_rows: int
) -> _Run | None:
    """The likeliest of the short fits from several groupings of `few`; None where none has so many groups."""
    here = on_sample(bounds, len(sample), n_rows)
    distinct = {labels.tobytes(): labels for labels in firsts if labels.max() + 1 == groups}.values()
    summed = (hard_statistics(few, labels, diagonal=bounds.shape in DIAGONAL) for labels in distinct)
    fits = [fit(sample, m_step(one, here), here, tolerance=TOLERANCE, iterations=_START_PASSES) for one in summed]
    if not fits:
        return None
    best = max(fits, key=lambda one: one.log_likelihoods[-1])
    return _Run(bounds, here, _longer(sample, best, here, SHORT_PASSES), len(sample))


def _longer(sample: FloatArray, begun: Fit, bounds: Constraints, iterations: int) -> Fit:
    """The fit gone on with, up to so many passes in all."""
    passes = len(begun.log_likelihoods)
    if begun.converged or iterations <= passes:
        return begun
    # The pass that the run ended with is made once more: it goes on from its estimates.
    rest = fit(sample, begun.mixture, bounds, tolerance=TOLERANCE, iterations=iterations - passes + 1)
    return replace(rest, log_likelihoods=begun.log_likelihoods[:-1] + rest.log_likelihoods)


# --- Groups: the most likely component of each record, repaired to k records a group ----------------------------------
# The bound on weights bounds groups on average only; the moves of the repair are the same for every split of the rows.

_NUMBERS = 1 << 20  # Costs held at a time (8 MiB)
_FIRST_ROWS = 1 << 12  # Rows looked at first, to learn what is dear


def assign(features: FloatArray, mixture: Mixture) -> IntArray:
    """The component of the largest weight · density of each record, int64, shape (n_rows,); ties to the lower."""
    return most_likely(features, mixture.ellipsoids)


def needs(counts: IntArray, k: int) -> tuple[IntArray, IntArray]:
    """Records that each group lacks (none where it is empty), and records that each can spare; shape (n_groups,)."""
    lacking = np.where(counts > 0, np.maximum(k - counts, 0), 0)
    spare = np.maximum(counts - k, 0)
    if lacking.sum() > spare.sum():
        groups = int((counts > 0).sum())
        raise InputError(
            f"{int(counts.sum())} records do not fill {groups} groups of {k}; fit fewer components, or {LOWER_K}"
        )
    return lacking, spare


@dataclass(frozen=True, eq=False)
class Movable:
    """Records that may move into groups under k, and what that costs; one entry for a record and a group."""

    costs: FloatArray  # Log(weight · density) in the record's own group less that in the new one
    targets: IntArray  # The new group
    donors: IntArray  # The record's own group
    sources: IntArray  # The partition
    rows: IntArray  # The record's number in it
    # Entries kept for each pair of target and donor, shape (n_groups,), by donor: what it can spare, but not more than
    # is lacking in all
    most: IntArray

    def merge(self, other: Self) -> Self:
        """Both together, the cheapest of each pair of target and donor."""
        costs, targets, donors, sources, rows = (
            np.concatenate([getattr(part, name) for part in (self, other)])
            for name in ("costs", "targets", "donors", "sources", "rows")
        )
        order = np.lexsort((rows, sources, costs, donors, targets))
        sizes = np.unique(targets * len(self.most) + donors, return_counts=True)[1]  # entries of each pair
        kept = order[places(sizes)[1] < self.most[donors[order]]]
        return type(self)(costs[kept], targets[kept], donors[kept], sources[kept], rows[kept], self.most)

    def limits(self, targets: IntArray) -> FloatArray:
        """The dearest cost in each list that is full, infinite for the others; shape (n_targets, n_groups)."""
        groups = len(self.most)
        pair = np.searchsorted(targets, self.targets) * groups + self.donors
        full = np.bincount(pair, minlength=len(targets) * groups).reshape(-1, groups) >= self.most
        dearest = np.full(len(targets) * groups, -np.inf)
        np.maximum.at(dearest, pair, self.costs)
        return np.where(full, dearest.reshape(-1, groups), np.inf)


def movable(
    features: FloatArray, labels: IntArray, mixture: Mixture, counts: IntArray, k: int, source: int = 0
) -> Movable:
    """The cheapest records of a partition to move into each group that lacks some; `counts` has shape (n_groups,)."""
    # As many of each donor as it can spare and as are lacking in all: more cannot be moved, so that the choice of
    # `moves` is that of all records at hand. Memory: 40 bytes a lacking group and donor record.
    lacking, spare = needs(counts, k)
    most, targets = np.minimum(spare, lacking.sum()), np.flatnonzero(lacking)
    none = np.zeros(0, dtype=np.int64)
    found = Movable(np.zeros(0), none, none, none, none, most)
    if len(targets) == 0:
        return found
    candidates = np.flatnonzero(spare[labels] > 0)
    limits = np.full((len(targets), len(counts)), np.inf)
    low, step = 0, _FIRST_ROWS
    while low < len(candidates):
        rows = candidates[low : low + step]
        costs = move_costs(features, rows, labels, targets, mixture.ellipsoids)
        # Dearer than a full list of its pair: cannot be kept.
        entry, target = np.nonzero(costs <= limits[:, labels[rows]].T)
        kept = rows[entry]
        sources = np.full(len(entry), source, dtype=np.int64)
        found = found.merge(Movable(costs[entry, target], targets[target], labels[kept], sources, kept, most))
        limits = found.limits(targets)
        low, step = low + step, min(2 * step, max(1, _NUMBERS // len(targets)))
    return found


@dataclass(frozen=True, eq=False)
class Moves:
    """Records that change their group, shape (n_moves,) each."""

    sources: IntArray  # The partition
    rows: IntArray  # The record's number in it
    targets: IntArray  # The new group
    donors: IntArray  # The old one

    def applied(self, labels: IntArray, source: int = 0) -> IntArray:
        """The labels of a partition after its own moves."""
        own, new = self.sources == source, labels.copy()
        new[self.rows[own]] = self.targets[own]
        return new


def moves(found: Movable, counts: IntArray, k: int) -> Moves:
    """Which records move where: the cheapest first, while the group lacks some and the donor can spare some."""
    lacking, spare = needs(counts, k)
    order = np.lexsort((found.rows, found.sources, found.targets, found.costs))
    records = np.unique(np.stack([found.sources, found.rows]), axis=1, return_inverse=True)[1].ravel()
    made = order[choose_moves(records[order], found.targets[order], found.donors[order], lacking, spare)]
    return Moves(found.sources[made], found.rows[made], found.targets[made], found.donors[made])


def numbering(counts: IntArray) -> IntArray:
    """New numbers 0, 1, ... of the groups that have records; -1 for the others."""
    kept = counts > 0
    return np.where(kept, np.cumsum(kept) - 1, -1)


def check_sizes(counts: IntArray, k: int) -> None:
    """Raise InputError where a group has records, but fewer than k."""
    under = int(((counts > 0) & (counts < k)).sum())
    if under:
        raise InputError(f"{under} of {len(counts)} groups have fewer than {k} records; repair them before synthesis")


@dataclass(frozen=True, eq=False)
class Components:
    """The directions along which a table spreads most."""

    mean: FloatArray  # Of the table, shape (width,)
    axes: FloatArray  # Orthonormal columns, by falling variance, shape (width, kept)
    variances: FloatArray  # Of the table along them, shape (kept,)

    def scores(self, features: FloatArray) -> FloatArray:
        """Coordinates of records along the axes, shape (n_rows, number of axes)."""
        return np.ascontiguousarray((features - self.mean) @ self.axes)


def principal_components(moments: Moments, share: float) -> Components:
    """As few principal components as hold this share of the variance."""
    # The other variance has no say in who is grouped with whom, and nothing of it is lost: `affine_maps` of the records
    # in all columns keep every group's means and covariances whole.
    values, vectors = np.linalg.eigh(moments.scatter)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    total = values.sum()
    if not total > 0:
        return Components(moments.mean, np.ascontiguousarray(vectors[:, :1]), np.zeros(1))
    cumulated = np.cumsum(values) / total
    positive = int((values > values[0] * len(values) * np.finfo(np.float64).eps).sum())
    number = min(int(np.searchsorted(cumulated, share * (1 - 1e-12))) + 1, positive)
    axes = vectors[:, :number]
    largest = np.abs(axes).argmax(axis=0)
    axes = axes * np.where(axes[largest, np.arange(number)] < 0, -1.0, 1.0)
    return Components(moments.mean, np.ascontiguousarray(axes), values[:number] / moments.n)


# --- Normal records with exactly the moments of their group, for groups that span partitions --------------------------
# Every partition sums up its records, and normal draws for them (`group_statistics`); both merge. `affine_maps` makes
# of them, for each group, the map that takes the draws to the mean and scatter of the records.

_DEPENDENT = 1e-13  # Draws whose variance along some axis is under this part of the largest are dependent
_RANK = 1e-12  # Eigenvalues of a group's correlation matrix below this, times its width, count as 0
_NARROW = 1e-5  # A correlation matrix with an eigenvalue between 0 and this leaves draws of categories no room


@dataclass(frozen=True, eq=False)
class GroupStatistics:
    """Count, mean and scatter of every group."""

    counts: IntArray  # Shape (n_groups,)
    means: FloatArray  # Shape (n_groups, width); zeros for a group without records
    scatters: FloatArray  # Shape (n_groups, width, width)

    def merge(self, other: Self) -> Self:
        """Both pieces together (Chan, Golub & LeVeque 1979), group by group."""
        if self.means.shape != other.means.shape:
            raise InputError(
                f"statistics of {self.means.shape[0]} groups and {self.means.shape[1]} columns do not merge with those "
                f"of {other.means.shape[0]} and {other.means.shape[1]}; take all pieces with the same two numbers"
            )
        counts = self.counts + other.counts
        total = np.maximum(counts, 1)
        # An empty piece adds nothing, and its zeros for means must not count either.
        steps = np.where((self.counts > 0)[:, None], other.means - self.means, other.means)
        means = np.where((self.counts > 0)[:, None], self.means, 0.0) + steps * (other.counts / total)[:, None]
        weight = self.counts / total * other.counts
        scatters = self.scatters + other.scatters + np.einsum("g,gj,gh->gjh", weight, steps, steps)
        return type(self)(counts, means, scatters)

    def grown(self, groups: int) -> Self:
        """The same with more groups, which have no records here."""
        more = groups - len(self.counts)
        return type(self)(
            np.pad(self.counts, (0, more)),
            np.pad(self.means, ((0, more), (0, 0))),
            np.pad(self.scatters, ((0, more), (0, 0), (0, 0))),
        )


def group_statistics(features: FloatArray, labels: IntArray, groups: int) -> GroupStatistics:
    """Count, mean and scatter of each of `groups` groups in a partition."""
    order, starts = sort_groups(labels)
    missing = groups + 1 - len(starts)
    if missing < 0:
        raise InputError(f"there are labels above {groups - 1}, the last of {groups} groups; give the number of all")
    starts = np.concatenate([starts, np.full(missing, starts[-1])])
    means, scatters = moments_by_group(features, order, starts)
    return GroupStatistics(np.diff(starts), means, scatters)


@dataclass(frozen=True, eq=False)
class AffineMaps:
    """For each group g the map of its draws z: targets_g + matrices_g (z - origins_g)."""

    origins: FloatArray  # Means of the draws, shape (n_groups, width)
    targets: FloatArray  # Means of the records, likewise
    matrices: FloatArray  # Shape (n_groups, width, width)
    ranks: IntArray  # Rank of each group's scatter, shape (n_groups,)
    # Groups whose records hardly vary in some direction, as where all but two have zeros, shape (n_groups,): draws that
    # are not normal cannot be corrected there without blowing up what they have of it
    narrow: BoolArray


def affine_maps(records: GroupStatistics, draws: GroupStatistics) -> AffineMaps:
    """Maps that give the draws of each group the mean and the scatter of its records."""
    # With the records' scatter D V Λ V' D, D their standard deviations and Λ the r positive eigenvalues, and L the
    # Cholesky factor of the scatter of the draws' first r coordinates, the map is D V Λ^½ L⁻¹ on these. r is at most
    # the records less 1, so that L exists; a constant column stays constant. Moments are met to 1e-16 times the
    # condition number of the draws' scatter: to 1e-9 of standard deviations from twice as many records as columns on.
    width = records.means.shape[1]
    scale, values, vectors, used = _principal(records, draws)
    roots = scale[:, :, None] * vectors * np.sqrt(np.where(used, values, 0.0))[:, None, :]
    # Coordinates past the rank are cut off the draws: there the factor is that of the identity.
    both = used[:, :, None] & used[:, None, :]
    factors, _, bad = invert_factors(np.where(both, draws.scatters, np.eye(width)))
    if bad.any():
        raise InputError(
            "the draws of some groups are dependent; draw from an independent generator for each partition"
        )
    return _maps(records, draws, np.einsum("gjm,gmh->gjh", roots, factors), values, used)


def correcting_maps(records: GroupStatistics, draws: GroupStatistics) -> AffineMaps:
    """Maps that give draws of nearly the right moments exactly those of the records, and change them little."""
    # With D, V, Λ as in `affine_maps` and M = Λ^-½ V' D⁻¹ S D⁻¹ V Λ^-½ of the draws' scatter S, the map is D V Λ^½ M^-½
    # Λ^-½ V' D⁻¹: the identity on the records' span where the draws have their scatter already. So draws that are not
    # normal, such as categories in -1 and +1, stay nearly what they are.
    scale, values, vectors, used = _principal(records, draws)
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    roots = np.sqrt(np.where(used, values, 1.0))
    down = np.where(used[:, :, None], (vectors * inverse[:, :, None] / roots[:, None, :]).transpose(0, 2, 1), 0.0)
    whitened = down @ draws.scatters @ down.transpose(0, 2, 1)
    # Outside the rank the identity stands, so that every matrix has a root.
    whitened += np.einsum("gm,ml->gml", ~used, np.eye(used.shape[1]))
    spread, axes = np.linalg.eigh((whitened + whitened.transpose(0, 2, 1)) / 2)
    if (spread[:, 0] <= _DEPENDENT * spread[:, -1]).any():
        raise InputError(
            "the draws of a group lie in fewer directions than its records; raise k, or mask fewer columns"
        )
    settled = np.einsum("gmr,gr,glr->gml", axes, 1.0 / np.sqrt(spread), axes)
    up = scale[:, :, None] * vectors * np.where(used, roots, 0.0)[:, None, :]
    return _maps(records, draws, up @ settled @ down, values, used)


def _maps(
    records: GroupStatistics, draws: GroupStatistics, matrices: FloatArray, values: FloatArray, used: BoolArray
) -> AffineMaps:
    narrow = np.asarray(np.where(used, values, 1.0).min(axis=1, initial=1.0) < _NARROW)
    return AffineMaps(draws.means, records.means, np.ascontiguousarray(matrices), used.sum(axis=1), narrow)


def _principal(
    records: GroupStatistics, draws: GroupStatistics
) -> tuple[FloatArray, FloatArray, FloatArray, BoolArray]:
    """Of each group standard deviations, falling eigenvalues and vectors of the correlation, and which are positive."""
    if not np.array_equal(records.counts, draws.counts):
        raise InputError("draws and records differ in the sizes of their groups; draw with the final labels")
    width = records.means.shape[1]
    scale = np.sqrt(np.maximum(np.diagonal(records.scatters, axis1=1, axis2=2), 0.0))
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    values, vectors = np.linalg.eigh(records.scatters * inverse[:, :, None] * inverse[:, None, :])
    values, vectors = values[:, ::-1], vectors[:, :, ::-1]
    ranks = np.minimum((values > _RANK * width).sum(axis=1), np.maximum(records.counts - 1, 0))
    return scale, values, vectors, np.arange(width) < ranks[:, None]
