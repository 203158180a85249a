"""Loops of latent class regression: posteriors of classes, their sums, and draws of categories.

A class g has the prior probability softmax_g(slopes · (1, x)) at a record with
numbers x, and for each categorical column the probabilities of its categories;
those of all columns lie one after another, column j from `starts[j]` on.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from anonpipe.types import FloatArray, IntArray

NEGLIGIBLE = -60.0
"""Log probability below which a class counts as impossible: 1e-26."""


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
def _priors(features: FloatArray, i: int, slopes: FloatArray, out: FloatArray) -> None:
    for g in range(slopes.shape[0]):
        out[g] = slopes[g, 0]
        for j in range(features.shape[1]):
            out[g] += slopes[g, j + 1] * features[i, j]


@nb.njit(cache=True, nogil=True)
def _joint(priors: FloatArray, codes: IntArray, starts: IntArray, log_shares: FloatArray, out: FloatArray) -> None:
    """Write the logs of prior times probability of one record's categories, class by class."""
    for g in range(priors.shape[0]):
        out[g] = priors[g]
        for j in range(codes.shape[0]):
            out[g] += log_shares[g, starts[j] + codes[j]]


@nb.njit(cache=True, nogil=True)
def class_sums(
    features: FloatArray,
    codes: IntArray,
    starts: IntArray,
    slopes: FloatArray,
    log_shares: FloatArray,
) -> tuple[float, FloatArray, FloatArray, FloatArray]:
    """The sums over records that the next estimates need.

    Parameters
    ----------
    features
        Shape (n_rows, width).
    codes
        Shape (n_rows, n_columns), column j from 0 to starts[j + 1] - starts[j] - 1.
    starts
        Shape (n_columns + 1,).
    slopes
        Shape (n_classes, 1 + width).
    log_shares
        Log probabilities of the categories, shape (n_classes, starts[-1]).

    Returns
    -------
    likelihood : float
    posteriors : float64, shape (n_classes,)
        Sums of the posterior probabilities z.
    tables : float64, shape (n_classes, starts[-1])
        Sums of z over the records of each category.
    gradient : float64, shape (n_classes, 1 + width)
        Sums of (z - p) (1, x), p the prior probabilities.
    """
    n, width = features.shape
    classes, terms = slopes.shape[0], width + 1
    posteriors, tables = np.zeros(classes), np.zeros((classes, starts[-1]))
    gradient = np.zeros((classes, terms))
    p, z, x = np.empty(classes), np.empty(classes), np.ones(terms)
    likelihood = 0.0
    for i in range(n):
        x[1:] = features[i]
        _priors(features, i, slopes, p)
        _joint(p, codes[i], starts, log_shares, z)
        # z starts from the unnormalised priors, so the log of their sum goes off again.
        likelihood += _softmax(z) - _softmax(p)
        for g in range(classes):
            if z[g] > 0.0:
                posteriors[g] += z[g]
                for j in range(codes.shape[1]):
                    tables[g, starts[j] + codes[i, j]] += z[g]
            for a in range(terms):
                gradient[g, a] += (z[g] - p[g]) * x[a]
    return likelihood, posteriors, tables, gradient


@nb.njit(cache=True, nogil=True)
def weighted_rows(features: FloatArray, slopes: FloatArray, out: FloatArray) -> None:
    """Write p_g (1, x) of every record for all classes one after another, shape (n_rows, n_classes · (1 + width))."""
    classes, terms = slopes.shape
    p = np.empty(classes)
    for i in range(features.shape[0]):
        _priors(features, i, slopes, p)
        _softmax(p)
        for g in range(classes):
            out[i, g * terms] = p[g]
            for j in range(1, terms):
                out[i, g * terms + j] = p[g] * features[i, j - 1]


@nb.njit(cache=True, nogil=True)
def draw_classes(
    features: FloatArray, starts: IntArray, slopes: FloatArray, shares: FloatArray, uniforms: FloatArray
) -> IntArray:
    """Categories of new records: a class from its prior, then each column from the class.

    `uniforms` has one number for the class and one for each column, shape
    (n_rows, 1 + n_columns), from 0 to less than 1.
    """
    n, columns = features.shape[0], starts.shape[0] - 1
    p = np.empty(slopes.shape[0])
    codes = np.empty((n, columns), dtype=np.int64)
    for i in range(n):
        _priors(features, i, slopes, p)
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
