"""How far the class shares of a group lie from those of the whole table.

Counts are whole numbers held as float64. Results are rounded to steps of
2^-40: equal distributions get equal figures whatever the order of the sums,
and rounding errors decide nothing where figures are compared.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from anonpipe.types import FloatArray

STEPS = 2.0**40


@nb.njit(cache=True, nogil=True)
def rounded(value: float) -> float:
    """The nearest multiple of 2^-40."""
    return float(np.rint(value * STEPS) / STEPS)


@nb.njit(cache=True, nogil=True)
def jensen_shannon(counts: FloatArray, total: float, shares: FloatArray) -> float:
    """Jensen-Shannon divergence in base 2 of counts / total from `shares`, 0 to 1.

    Li and Sarkar 2013, doi:10.1287/mnsc.1120.1584, definitions 1 and 2; a
    term of share 0 counts 0.
    """
    value = 0.0
    for c in range(shares.shape[0]):
        here = counts[c] / total
        there = shares[c]
        middle = (here + there) / 2.0
        if here > 0.0:
            value += here * np.log2(here / middle)
        if there > 0.0:
            value += there * np.log2(there / middle)
    return rounded(value / 2.0)


@nb.njit(cache=True, nogil=True)
def total_variation(counts: FloatArray, total: float, shares: FloatArray) -> float:
    """Half the sum of the differences of shares, 0 to 1: the earth mover's distance of unordered classes."""
    value = 0.0
    for c in range(shares.shape[0]):
        value += abs(counts[c] / total - shares[c])
    return rounded(value / 2.0)


@nb.njit(cache=True, nogil=True)
def ordered_distance(counts: FloatArray, total: float, shares: FloatArray) -> float:
    """Earth mover's distance of ordered classes, 0 to 1; from the first to the last class is 1.

    Li, Li and Venkatasubramanian 2007, doi:10.1109/ICDE.2007.367856, section 5.
    """
    if shares.shape[0] < 2:
        return 0.0
    value = 0.0
    moved = 0.0
    for c in range(shares.shape[0]):
        moved += counts[c] / total - shares[c]
        value += abs(moved)
    return rounded(value / (shares.shape[0] - 1))


@nb.njit(cache=True, nogil=True)
def entropy(counts: FloatArray, total: float) -> float:
    """Entropy of counts / total in natural units."""
    value = 0.0
    for c in range(counts.shape[0]):
        if counts[c] > 0.0:
            value -= counts[c] / total * np.log(counts[c] / total)
    return rounded(value)
