"""Loops of latent class regression: posteriors of classes, their sums, and draws of categories.

A class g has the prior probability softmax_g(slopes · (1, x)) at a record with numbers x, and for each categorical
column the probabilities of its categories; those of all columns lie one after another, column j from `starts[j]` on.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from itertools import pairwise

import numba as nb
import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from anonpipe.errors import InputError
from anonpipe.kernels.compiled import kernel
from anonpipe.kernels.groups import BLOCK, add_matrix, add_products
from anonpipe.kernels.points import largest
from anonpipe.methods.mixture import smoothed
from anonpipe.types import FloatArray, IntArray

_NEGLIGIBLE = -60.0  # Log probability below which a class counts as impossible: 1e-26


@kernel
def _softmax(logs: FloatArray) -> float:
    """Turn logs into probabilities in place, negligible ones to 0; returns the log of their sum before."""
    top, total = largest(logs), 0.0
    for g in range(logs.shape[0]):
        less = logs[g] - top
        logs[g] = math.exp(less) if less > _NEGLIGIBLE else 0.0
        total += logs[g]
    for g in range(logs.shape[0]):
        logs[g] /= total
    return float(top + math.log(total))


@kernel
def _with_one(record: FloatArray, x: FloatArray) -> None:
    """Write (1, numbers of the record)."""
    x[0] = 1.0
    for a in range(record.shape[0]):
        x[a + 1] = record[a]


@kernel
def _priors(x: FloatArray, slopes: FloatArray, out: FloatArray) -> None:
    """Write the logs of the classes' weights, but for a common number, at a record with the terms x = (1, numbers)."""
    for g in range(slopes.shape[1]):
        out[g] = slopes[0, g]
    for a in range(1, slopes.shape[0]):
        for g in range(slopes.shape[1]):
            out[g] += slopes[a, g] * x[a]


@kernel
def _add_shares(p: FloatArray, codes: IntArray, starts: IntArray, log_shares: FloatArray, z: FloatArray) -> None:
    """Write to `z` the sum of `p` and the logs of the shares that a record's categories have in each class."""
    for g in range(p.shape[0]):
        z[g] = p[g]
    for j in range(codes.shape[0]):
        shares = log_shares[starts[j] + codes[j]]
        for g in range(p.shape[0]):
            z[g] += shares[g]


@kernel
def _class_sums(
    features: FloatArray, codes: IntArray, starts: IntArray, slopes: FloatArray, log_shares: FloatArray, curvature: bool
) -> tuple[float, FloatArray, FloatArray, FloatArray, FloatArray]:
    """The sums over records that the next estimates need; `log_shares` has shape (starts[-1], n_classes)."""
    # What is of one class is stored in the innermost place, so that the compiler handles several classes at once.
    n = features.shape[0]
    terms, classes = slopes.shape
    posteriors, tables = np.zeros(classes), np.zeros((starts[-1], classes))
    gradient = np.zeros((terms, classes))
    pairs = terms * (terms + 1) // 2 if curvature else 0
    products = np.zeros((pairs, classes + classes * (classes + 1) // 2))
    left, right = np.zeros((BLOCK, pairs)), np.zeros((BLOCK, products.shape[1]))
    block = np.zeros(products.shape)
    p, z, x = np.empty(classes), np.empty(classes), np.empty(terms)
    likelihood = 0.0
    for i in range(n):
        _with_one(features[i], x)
        _priors(x, slopes, p)
        _add_shares(p, codes[i], starts, log_shares, z)
        # z starts from the unnormalised priors, so the log of their sum goes off again.
        likelihood += _softmax(z) - _softmax(p)
        for g in range(classes):
            posteriors[g] += z[g]
        for j in range(codes.shape[1]):
            table = tables[starts[j] + codes[i, j]]
            for g in range(classes):
                table[g] += z[g]
        for a in range(terms):
            for g in range(classes):
                gradient[a, g] += (z[g] - p[g]) * x[a]
        if curvature:
            at = i % BLOCK
            _pairs(x, left[at])
            for g in range(classes):
                right[at, g] = p[g]
            _pairs(p, right[at, classes:])
            if at == BLOCK - 1 or i == n - 1:
                left[at + 1 :] = 0.0
                block[:] = 0.0
                add_products(left, right, block, nb.boolean(False))
                add_matrix(block, products)
    return likelihood, posteriors, tables, gradient, products


@kernel
def _pairs(values: FloatArray, out: FloatArray) -> None:
    """Write the products of two of the values, row by row of an upper triangle."""
    at = 0
    for a in range(values.shape[0]):
        for b in range(a, values.shape[0]):
            out[at] = values[a] * values[b]
            at += 1


@kernel
def _draw_classes(
    features: FloatArray, starts: IntArray, slopes: FloatArray, shares: FloatArray, draws: FloatArray, codes: IntArray
) -> None:
    """Draw codes that are -1: a class given the others, then each from it; uniform draws (n_rows, 1 + n_columns)."""
    n, columns = features.shape[0], starts.shape[0] - 1
    p, x = np.empty(slopes.shape[1]), np.empty(slopes.shape[0])
    for i in range(n):
        _with_one(features[i], x)
        _priors(x, slopes, p)
        for j in range(columns):
            if codes[i, j] >= 0:
                for g in range(p.shape[0]):
                    p[g] += math.log(shares[g, starts[j] + codes[i, j]])
        _softmax(p)
        g = _pick(p, draws[i, 0])
        for j in range(columns):
            if codes[i, j] < 0:
                codes[i, j] = _pick(shares[g, starts[j] : starts[j + 1]], draws[i, j + 1])


@kernel
def _pick(shares: FloatArray, uniform: float) -> int:
    """The category in which `uniform` falls; the last of positive share where rounding leaves it past the end."""
    sum_so_far = 0.0
    last = 0
    for c in range(shares.shape[0]):
        if shares[c] > 0.0:
            last = c
            sum_so_far += shares[c]
            if uniform < sum_so_far:
                return c
    return last


_MOST_FOR_NEWTON = 512  # Largest number of classes times (1 + width) for which second derivatives are summed
_LEAST_PIVOT = 1e-7  # Of a Cholesky factor, relative to its largest one: below, its solution is noise
_DRAWS = 1 << 20  # Draws held at a time (8 MiB)

# Half of it, times the sum of squared slopes (not the intercepts), is taken off the log-likelihood: where the numbers
# separate the classes the slopes would grow for ever
RIDGE = 0.01
PRIOR_ROWS = 0.01  # Records with the table's category shares given to each class, so that no probability is 0


@dataclass(frozen=True, eq=False)
class LatentClasses:
    """Classes that explain the categorical columns."""

    # Class g has the weight softmax_g(slopes · (1, x)) at a record with the numbers x; shape (n_classes, 1 + width), of
    # mean 0 over the classes
    slopes: FloatArray
    # Probability of each category in each class, the columns one after another, shape (n_classes, n_categories)
    shares: FloatArray
    starts: IntArray  # Column j is `shares[:, starts[j]:starts[j + 1]]`; shape (n_columns + 1,)


@dataclass(frozen=True, eq=False)
class ClassStatistics:
    """Sums over records; z is the posterior, p the prior probability of a class."""

    rows: int  # Number of records
    log_likelihood: float
    posteriors: FloatArray  # Sums of z, shape (n_classes,)
    tables: FloatArray  # Sums of z over the records of each category, shape (n_classes, n_categories)
    totals: FloatArray  # Number of records of each category, shape (n_categories,)
    gradient: FloatArray  # Sums of (z - p) (1, x), shape (n_classes, 1 + width)
    # terms, squares: sums of (1, x), shape (1 + width,), and of (1, x)(1, x)'
    terms: FloatArray
    squares: FloatArray
    # Sums of (p_g [g = h] - p_g p_h) (1, x)(1, x)', in blocks, minus the second derivatives; shape (0, 0) if not wanted
    hessian: FloatArray


def class_e_step(features: FloatArray, codes: IntArray, classes: LatentClasses) -> ClassStatistics:
    """Posterior probabilities of the classes, summed up (eq. 12 and 14)."""
    n = len(codes)
    totals = count_categories(codes, np.zeros(n, dtype=np.int64), 1, classes.starts)[0]
    curvature = classes.slopes.size <= _MOST_FOR_NEWTON
    slopes, shares = np.ascontiguousarray(classes.slopes.T), np.ascontiguousarray(np.log(classes.shares).T)
    likelihood, posteriors, tables, gradient, products = _class_sums(
        features, codes, classes.starts, slopes, shares, curvature
    )
    hessian = _hessian(products, *slopes.shape) if curvature else np.zeros((0, 0))
    terms = np.concatenate([[float(n)], features.sum(axis=0)])
    squares = np.empty((len(terms), len(terms)))
    squares[0], squares[:, 0] = terms, terms
    squares[1:, 1:] = np.einsum("ij,ih->jh", features, features)
    return ClassStatistics(n, likelihood, posteriors, tables.T, totals, gradient.T, terms, squares, hessian)


def _hessian(products: FloatArray, terms: int, classes: int) -> FloatArray:
    """Sums of (p_g [g = h] - p_g p_h) (1, x)(1, x)' in blocks (g, h), from those of `_class_sums`."""
    (a, b), (g, h), each = np.triu_indices(terms), np.triu_indices(classes), np.arange(classes)
    pairs, summed = np.empty((len(products), classes, classes)), np.empty((terms, terms, classes, classes))
    pairs[:, g, h] = pairs[:, h, g] = -products[:, classes:]
    pairs[:, each, each] += products[:, :classes]
    summed[a, b] = summed[b, a] = pairs
    return summed.transpose(2, 0, 3, 1).reshape(classes * terms, classes * terms)


def lifted(statistics: ClassStatistics, least: float) -> tuple[FloatArray, FloatArray]:
    """Mean weights p*new of the classes, `least` or more (eq. 14, 3 and 4), and what that adds to every record's z."""
    # Equation 15 as printed adds (p*new - p*old) / n to z, whose mean then does not reach p*new. The closest that
    # reaches it is z plus the whole difference. Sums over a category that come out below 0 count as 0.
    old = statistics.posteriors / statistics.rows
    new = smoothed(old, least)
    return new, new - old


def class_m_step(
    statistics: ClassStatistics, classes: LatentClasses, least: float, *, newton: bool = True
) -> LatentClasses:
    """New shares, and slopes one Newton step on, or one by Böhning's bound (1992, doi:10.1007/BF00048682)."""
    # The bound, without `newton` or with too many slopes, is one on second derivatives: it cannot lower the likelihood.
    s = statistics
    _, difference = lifted(s, least)
    tables = np.maximum(s.tables + difference[:, None] * s.totals, 0.0)
    shares = _shares(tables, s.totals, classes.starts)
    penalty = RIDGE * np.concatenate([[0.0], np.ones(len(s.terms) - 1)])
    gradient = s.gradient + np.outer(difference, s.terms) - penalty * classes.slopes
    # Adding one number to the same slope of all classes changes nothing; steps have mean 0 over the classes.
    gradient -= gradient.mean(axis=0)
    groups, terms = gradient.shape
    step: FloatArray
    if newton and s.hessian.size:
        idle = np.kron(np.full((groups, groups), 1.0 / groups), s.squares)
        curved = s.hessian + np.diag(np.tile(penalty, groups)) + idle
        step = _solved(curved, gradient.ravel()).reshape(groups, terms)
    else:
        step = np.asarray(np.linalg.lstsq(s.squares / 2 + np.diag(penalty), gradient.T, rcond=None)[0]).T
    slopes = classes.slopes + step
    return LatentClasses(slopes - slopes.mean(axis=0), shares, classes.starts)


def _solved(curved: FloatArray, gradient: FloatArray) -> FloatArray:
    """The Newton step; of all solutions the shortest where terms follow from one another."""
    with contextlib.suppress(LinAlgError):
        factor = cho_factor(curved, lower=True)
        pivots = np.diagonal(factor[0])
        if pivots.min() > _LEAST_PIVOT * pivots.max():
            return np.asarray(cho_solve(factor, gradient), dtype=np.float64)
    return np.asarray(np.linalg.lstsq(curved, gradient, rcond=None)[0], dtype=np.float64)


def _shares(tables: FloatArray, totals: FloatArray, starts: IntArray) -> FloatArray:
    """Category shares in each class, with `PRIOR_ROWS` records of the table's shares in each."""
    shares = np.empty_like(tables)
    for low, high in pairwise(starts):
        # A category that the table has not is given a billionth of a record, to have a logarithm.
        overall = np.maximum(totals[low:high], 1e-9)
        part = tables[:, low:high] + PRIOR_ROWS * overall / overall.sum()
        shares[:, low:high] = part / part.sum(axis=1, keepdims=True)
    return shares


def first_classes(tables: FloatArray, counts: FloatArray, starts: IntArray, width: int) -> LatentClasses:
    """A start whose classes are groups of records; tables (n_groups, n_categories), counts (n_groups,)."""
    slopes = np.zeros((len(counts), 1 + width))
    slopes[:, 0] = np.log(counts) - np.log(counts).mean()
    return LatentClasses(slopes, _shares(tables, tables.sum(axis=0), starts), starts)


def count_categories(codes: IntArray, labels: IntArray, groups: int, starts: IntArray) -> FloatArray:
    """Records of each group in each category, shape (groups, starts[-1])."""
    if codes.ndim != 2 or codes.shape[1] != len(starts) - 1:
        raise InputError(f"categories of {len(starts) - 1} columns are needed, not an array of shape {codes.shape}")
    if codes.size and (codes.min() < 0 or (codes.max(axis=0) >= np.diff(starts)).any()):
        raise InputError("some codes are negative or above the last category; code each column from 0, nulls too")
    total = int(starts[-1])
    tables = np.zeros(groups * total)
    for j, low in enumerate(starts[:-1]):
        tables += np.bincount(labels * total + low + codes[:, j], minlength=groups * total)
    return tables.reshape(groups, total)


@dataclass(frozen=True, eq=False)
class ClassFit:
    """Fitted classes; `log_likelihoods` of each kept pass, the last that of `classes`."""

    classes: LatentClasses
    log_likelihoods: tuple[float, ...]
    converged: bool


def fit_classes(
    features: FloatArray,
    codes: IntArray,
    start: LatentClasses,
    least: float,
    *,
    tolerance: float = 1e-6,
    iterations: int = 200,
) -> ClassFit:
    """Iterate until the log-likelihood settles; a safe step replaces a Newton step that lowers it (eq. 12-15)."""
    classes, statistics = start, class_e_step(features, codes, start)
    likelihoods, converged, passes = [statistics.log_likelihood], False, 1
    while passes < iterations and not converged:
        new = class_m_step(statistics, classes, least)
        after, passes = class_e_step(features, codes, new), passes + 1
        slack = tolerance * (1.0 + abs(likelihoods[-1]))
        if not after.log_likelihood >= likelihoods[-1] - slack and passes < iterations:
            new = class_m_step(statistics, classes, least, newton=False)
            after, passes = class_e_step(features, codes, new), passes + 1
        converged = abs(after.log_likelihood - likelihoods[-1]) <= slack
        classes, statistics = new, after
        likelihoods.append(after.log_likelihood)
    return ClassFit(classes, tuple(likelihoods), converged)


def draw_categories(
    features: FloatArray, classes: LatentClasses, known: IntArray | None = None, *, rng: np.random.Generator
) -> IntArray:
    """Categories for synthetic numbers: a class by its weight there, then each column by the class's shares.

    Categories of `known` that are not -1, shape (n_rows, n_columns), stay; the weights are those given them.
    """
    columns, slopes = len(classes.starts) - 1, np.ascontiguousarray(classes.slopes.T)
    step = max(1, _DRAWS // (1 + columns))
    codes = np.full((len(features), columns), -1) if known is None else known.copy()
    for low in range(0, len(features), step):
        piece = features[low : low + step]
        uniforms = rng.random((len(piece), 1 + columns))
        _draw_classes(piece, classes.starts, slopes, classes.shares, uniforms, codes[low : low + step])
    return codes
