"""The table's counts of categories shared out among partitions."""

from __future__ import annotations

import numpy as np

from anonpipe.types import FloatArray, IntArray

_ROUNDS = 100
_SMALLEST = 1e-6


def share_out(mass: FloatArray, totals: IntArray, sizes: IntArray) -> IntArray:
    """Whole counts near a mass, with given totals of categories and given sizes of partitions.

    The mass is fitted to both margins by iterative proportions, which keep
    its odds ratios, and rounded one partition after the other: what one gets
    too much of, the next gets less.

    Shapes: mass (n_partitions, q); totals (q,); sizes (n_partitions,); returns (n_partitions, q).

    Examples
    --------
    >>> share_out(np.array([[3.0, 1.0], [1.0, 3.0]]), np.array([6, 2]), np.array([4, 4])).tolist()
    [[4, 0], [2, 2]]
    """
    if totals.sum() != sizes.sum() or (totals < 0).any():
        raise ValueError("counts of categories and sizes of partitions do not add up to the same")
    fitted = _fitted(mass, totals, sizes)
    counts, left, carried = np.zeros(mass.shape, dtype=np.int64), totals.astype(np.int64), np.zeros(len(totals))
    for partition, size in enumerate(sizes):
        wanted = fitted[partition] + carried
        counts[partition] = _rounded(wanted, left, int(size))
        left = left - counts[partition]
        carried = wanted - counts[partition]
    return counts


def _fitted(mass: FloatArray, totals: IntArray, sizes: IntArray) -> FloatArray:
    """The mass scaled by rows and columns until both sums are right, or nearly."""
    fitted = np.maximum(mass, _SMALLEST * np.maximum(sizes, 1)[:, None]) * (totals > 0)
    for _ in range(_ROUNDS):
        fitted = fitted * np.divide(totals, fitted.sum(axis=0), out=np.zeros(len(totals)), where=totals > 0)
        rows = fitted.sum(axis=1)
        fitted = fitted * np.divide(sizes, rows, out=np.zeros(len(sizes)), where=rows > 0)[:, None]
    return np.asarray(fitted)


def _rounded(wanted: FloatArray, left: IntArray, size: int) -> IntArray:
    """Whole numbers near `wanted`, none above what is left, of sum `size`; the largest remainders are rounded up."""
    counts = np.minimum(np.floor(np.maximum(wanted, 0.0)).astype(np.int64), left)
    while (missing := size - int(counts.sum())) != 0:
        if missing > 0:
            able = counts < left
            first = np.argsort(np.where(able, counts - wanted, np.inf), kind="stable")[: min(missing, int(able.sum()))]
            counts[first] += 1
        else:
            able = counts > 0
            first = np.argsort(np.where(able, wanted - counts, np.inf), kind="stable")[: min(-missing, int(able.sum()))]
            counts[first] -= 1
    return counts
