"""Loops of latent class regression: posteriors of classes, their sums, and draws of categories.

A class g has the prior probability softmax_g(slopes · (1, x)) at a record with
numbers x, and for each categorical column the probabilities of its categories;
those of all columns lie one after another, column j from `starts[j]` on.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from anonpipe.kernels.group_moments import BLOCK, add_products
from anonpipe.types import FloatArray, IntArray

NEGLIGIBLE = -60.0  # Log probability below which a class counts as impossible: 1e-26


@nb.njit(cache=True, nogil=True)
def _softmax(logs: FloatArray) -> float:
    """Turn logs into probabilities in place, negligible ones to 0; returns the log of their sum before."""
    top = logs.max()
    total = 0.0
    for g in range(logs.shape[0]):
        less = logs[g] - top
        logs[g] = math.exp(less) if less > NEGLIGIBLE else 0.0
        total += logs[g]
    for g in range(logs.shape[0]):
        logs[g] /= total
    return float(top + math.log(total))


@nb.njit(cache=True, nogil=True)
def _priors(x: FloatArray, slopes: FloatArray, out: FloatArray) -> None:
    """Write the logs of the classes' weights, but for a common number, at a record with the terms x = (1, numbers)."""
    for g in range(slopes.shape[1]):
        out[g] = slopes[0, g]
    for a in range(1, slopes.shape[0]):
        for g in range(slopes.shape[1]):
            out[g] += slopes[a, g] * x[a]


@nb.njit(cache=True, nogil=True)
def class_sums(
    features: FloatArray,
    codes: IntArray,
    starts: IntArray,
    slopes: FloatArray,
    log_shares: FloatArray,
    curvature: bool,
) -> tuple[float, FloatArray, FloatArray, FloatArray, FloatArray]:
    """The sums over records that the next estimates need.

    Everything that is of one class is stored class by class in the innermost
    place, so that the compiler handles several classes at once.

    Shapes: log_shares (starts[-1], n_classes).
    """
    n = features.shape[0]
    terms, classes = slopes.shape
    posteriors, tables = np.zeros(classes), np.zeros((starts[-1], classes))
    gradient = np.zeros((terms, classes))
    pairs = terms * (terms + 1) // 2 if curvature else 0
    products = np.zeros((pairs, classes + classes * (classes + 1) // 2))
    left, right = np.zeros((BLOCK, pairs)), np.zeros((BLOCK, products.shape[1]))
    block = np.zeros(products.shape)
    p, z, x = np.empty(classes), np.empty(classes), np.ones(terms)
    likelihood = 0.0
    for i in range(n):
        x[1:] = features[i]
        _priors(x, slopes, p)
        z[:] = p
        for j in range(codes.shape[1]):
            shares = log_shares[starts[j] + codes[i, j]]
            for g in range(classes):
                z[g] += shares[g]
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
            right[at, :classes] = p
            _pairs(p, right[at, classes:])
            if at == BLOCK - 1 or i == n - 1:
                left[at + 1 :] = 0.0
                block[:] = 0.0
                add_products(left, right, block, nb.boolean(False))
                products += block
    return likelihood, posteriors, tables, gradient, products


@nb.njit(cache=True, nogil=True)
def _pairs(values: FloatArray, out: FloatArray) -> None:
    """Write the products of two of the values, row by row of an upper triangle."""
    at = 0
    for a in range(values.shape[0]):
        for b in range(a, values.shape[0]):
            out[at] = values[a] * values[b]
            at += 1


@nb.njit(cache=True, nogil=True)
def draw_classes(
    features: FloatArray, starts: IntArray, slopes: FloatArray, shares: FloatArray, uniforms: FloatArray
) -> IntArray:
    """Categories of new records: a class from its prior, then each column from the class.

    `slopes` as `class_sums` takes them, `shares` of shape (n_classes, starts[-1]).
    `uniforms` has one number for the class and one for each column, shape
    (n_rows, 1 + n_columns), from 0 to less than 1.
    """
    n, columns = features.shape[0], starts.shape[0] - 1
    p, x = np.empty(slopes.shape[1]), np.ones(slopes.shape[0])
    codes = np.empty((n, columns), dtype=np.int64)
    for i in range(n):
        x[1:] = features[i]
        _priors(x, slopes, p)
        _softmax(p)
        g = _pick(p, uniforms[i, 0])
        for j in range(columns):
            codes[i, j] = _pick(shares[g, starts[j] : starts[j + 1]], uniforms[i, j + 1])
    return codes


@nb.njit(cache=True, nogil=True)
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
