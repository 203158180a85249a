"""Joining groups by the determinants of their covariances."""

from __future__ import annotations

import math

import numba as nb
import numpy as np

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
def join_groups(counts: FloatArray, means: FloatArray, scatters: FloatArray, prior: float) -> IntArray:
    """Join groups two by two so that Σ n log|(W + prior I) / (n + prior)| rises least, ties to the lower numbers.

    Shapes: counts, means, scatters (n_groups,).
    """
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
