"""First groups of a sample by agglomeration, and number and shape of components by the BIC."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numba as nb
import numpy as np

from anonpipe.errors import InputError
from anonpipe.kernels.mixture import moments_by_group
from anonpipe.kernels.points import sort_groups
from anonpipe.methods.mixture._estimate import (
    DIAGONAL,
    Constraints,
    Fit,
    Mixture,
    Statistics,
    bic,
    constraints,
    fit,
    hard_statistics,
    m_step,
    over,
)
from anonpipe.types import FloatArray, IntArray


@nb.njit(cache=True, nogil=True)
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


@nb.njit(cache=True, nogil=True)
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


@nb.njit(cache=True, nogil=True)
def _join_groups(counts: FloatArray, means: FloatArray, scatters: FloatArray, prior: float) -> IntArray:
    """Join groups two by two so that Σ n log|(W + prior I) / (n + prior)| rises least, ties to the lower numbers."""
    groups, width = means.shape
    work = np.empty((width, width))
    terms = np.empty(groups)
    for a in range(groups):
        terms[a] = _joint_spread(a, a, counts, means, scatters, prior, work)
    rises = np.full((groups, groups), np.inf)
    for a in range(groups):
        for b in range(a):
            rises[a, b] = _joint_spread(b, a, counts, means, scatters, prior, work) - terms[a] - terms[b]
    where = np.arange(groups)
    levels = np.empty((groups, groups), dtype=np.int64)
    for left in range(groups, 1, -1):
        levels[left - 1] = where
        high, low = divmod(np.argmin(rises), groups)
        joint = counts[low] + counts[high]
        share = counts[low] / joint * counts[high]
        step = means[high] - means[low]
        for j in range(width):
            for h in range(width):
                scatters[low, j, h] += scatters[high, j, h] + share * step[j] * step[h]
        means[low] += step * (counts[high] / joint)
        counts[low], counts[high] = joint, 0.0
        rises[high] = np.inf
        rises[:, high] = np.inf
        where[where == high] = low
        terms[low] = _joint_spread(low, low, counts, means, scatters, prior, work)
        for b in range(groups):
            if b != low and counts[b] > 0.0:
                rise = _joint_spread(low, b, counts, means, scatters, prior, work) - terms[low] - terms[b]
                rises[max(low, b), min(low, b)] = rise
    levels[0] = where
    return levels


# --- First groups for a mixture: agglomeration of a sample ------------------------------------------------------------

# Records of unit covariance added to each scatter: groups of fewer records than columns have no determinant else
_PRIOR_ROWS = 0.1


def agglomerate(sample: FloatArray, most: int, starts: Iterable[int] = (50,)) -> list[IntArray]:
    """Groups of a sample for every number of groups from `most` down to 1, once for each of the `starts`."""
    # Ward's criterion joins records into so many small groups; from there the determinant criterion goes on, the
    # classification likelihood of ellipsoids (Fraley 1998, doi:10.1137/S1064827596311451), which is not defined for
    # single records. Where the change comes decides which maximum is found. Nothing is random, ties go to the lower
    # numbers.
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
        levels[groups - 1] = _in_order_of_rows(joined[min(groups, len(joined)) - 1][first])
    return levels


def _ward(tree: FloatArray | None, n_rows: int, groups: int) -> IntArray:
    """Ward's groups of the records, numbered 0 to `groups` - 1."""
    from scipy.cluster.hierarchy import fcluster

    if tree is None or groups >= n_rows:
        return np.arange(n_rows)
    return _in_order_of_rows(fcluster(tree, groups, "maxclust"))


def _in_order_of_rows(labels: IntArray) -> IntArray:
    """Number groups in the order of their first records."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first)).astype(np.int64)[inverse]


# --- Number and shape of the components, by the Bayesian information criterion on a sample ----------------------------

SAMPLE_ROWS = 4_000  # Rows of a sample

TREE_ROWS = 2_000  # Of them those that first groups are made of, which takes 4 bytes for each pair

_START_PASSES = 10  # Passes from every start; only the likeliest then goes on

# Passes that shapes and numbers of components are compared after; then the best go on, in their order
_SHORT_PASSES = 25

_BEATEN = 3  # Candidates in turn that went on to their end and are not the best: then nobody else goes on

_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class Selection:
    """The mixture of the largest BIC, and all that were tried."""

    mixture: Mixture  # Fitted to the sample: the start for a fit to the whole table
    constraints: Constraints  # What it kept to, in numbers of the whole table
    runs: tuple[_Run, ...]  # In the order of shapes, then of numbers of groups


def evenly_spaced(n_rows: int, most: int = SAMPLE_ROWS) -> IntArray:
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
    rule: str = "published",
    prior: float = 1e-6,
    degrees: float | None = math.inf,
    starts: Iterable[int] = (50, 150, 450),
    idle: int | None = None,
    tolerance: float = 1e-5,
    iterations: int = 200,
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
    allowed = _allowed(wanted, k, n_rows, few)
    trees = agglomerate(few, allowed[-1], smalls)
    runs: list[_Run] = []
    for shape in shapes:
        latest: list[float] = []
        for groups in allowed:
            bounds = constraints(k, n_rows, groups, variances, shape=shape, rule=rule, prior=prior, degrees=degrees)
            here = on_sample(bounds, len(sample), n_rows)
            firsts = [tree[groups - 1] for tree in trees if tree[groups - 1].max() + 1 == groups]
            found = _likeliest(sample, few, firsts, here, (tolerance, iterations))
            if found is None:
                continue
            runs.append(_Run(bounds, here, found, len(sample)))
            latest.append(runs[-1].bic)
            if idle is not None and len(latest) - 1 - int(np.argmax(latest)) >= idle:
                break
    if not runs:
        raise InputError("no mixture was tried; name one or more shapes, and one or more numbers to start from")
    ended = race(runs, lambda run: run.bic, lambda run: run.ended(sample, tolerance, iterations), _BEATEN)
    best = max(ended, key=lambda run: run.bic)
    return Selection(best.fit.mixture, best.bounds, ended)


def race(
    candidates: Sequence[_T], criterion: Callable[[_T], float], go_on: Callable[[_T], _T], beaten: int
) -> tuple[_T, ...]:
    """The candidates of short runs, the promising ones after a long run.

    They go on in the order of their criterion until so many in turn have not become the best of those that went on.
    """
    ended, best, since = list(candidates), -math.inf, 0
    for at in sorted(range(len(ended)), key=lambda one: -criterion(candidates[one])):
        ended[at] = go_on(candidates[at])
        since = 0 if criterion(ended[at]) > best else since + 1
        best = max(best, criterion(ended[at]))
        if since == beaten:
            break
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

    def ended(self, sample: FloatArray, tolerance: float, iterations: int) -> _Run:
        """The same, fitted to its end."""
        return replace(self, fit=_longer(over([sample]), self.fit, self.here, tolerance, iterations))


def on_sample(bounds: Constraints, rows: int, n_rows: int) -> Constraints:
    """The constraints for `rows` of `n_rows` records: the prior keeps its share, not its number of records."""
    return replace(bounds, prior_rows=bounds.prior_rows * rows / n_rows)


def _allowed(numbers: Iterable[int], k: int, n_rows: int, few: FloatArray) -> list[int]:
    """Those of the numbers of components that the table and the distinct ones of a few records admit, else one."""
    distinct = len(np.unique(few, axis=0))
    return sorted({g for g in numbers if 1 <= g <= distinct and (g == 1 or g * k < n_rows)}) or [1]


def _likeliest(
    sample: FloatArray, few: FloatArray, firsts: list[IntArray], bounds: Constraints, limits: tuple[float, int]
) -> Fit | None:
    """The most likely of the short fits from several first groupings of `few`; None without any."""
    best: Fit | None = None
    seen: list[IntArray] = []
    expect, (tolerance, iterations) = over([sample]), limits
    for labels in firsts:
        if any(np.array_equal(labels, other) for other in seen):
            continue
        seen.append(labels)
        start = m_step(hard_statistics(few, labels, diagonal=bounds.shape in DIAGONAL), bounds)
        result = fit(expect, start, bounds, tolerance=tolerance, iterations=min(_START_PASSES, iterations))
        if best is None or result.log_likelihoods[-1] > best.log_likelihoods[-1]:
            best = result
    return best and _longer(expect, best, bounds, tolerance, min(_SHORT_PASSES, iterations))


def _longer(
    expect: Callable[[Mixture], Statistics], begun: Fit, bounds: Constraints, tolerance: float, iterations: int
) -> Fit:
    """The fit gone on with, up to so many passes in all."""
    passes = len(begun.log_likelihoods)
    if begun.converged or iterations <= passes:
        return begun
    # The pass that the run ended with is made once more: it goes on from its estimates.
    rest = fit(expect, begun.mixture, bounds, tolerance=tolerance, iterations=iterations - passes + 1)
    return replace(rest, log_likelihoods=begun.log_likelihoods[:-1] + rest.log_likelihoods)
