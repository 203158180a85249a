"""Degrees of freedom of t components."""

from __future__ import annotations

import numpy as np
from scipy.special import digamma

from anonpipe.types import FloatArray

LEAST, MOST = 1.0, 200.0  # Range of estimated degrees of freedom; 200 is as good as normal

FIRST = 30.0  # Degrees of freedom that an estimate starts from

_HALVINGS = 50


def new_degrees(counts: FloatArray, tails: FloatArray, degrees: FloatArray, width: int) -> FloatArray:
    """The degrees of freedom that maximise the expected likelihood, by bisection of its derivative.

    Solves log(ν/2) - ψ(ν/2) + 1 + Σ z (log u - u) / Σ z + ψ(b) - log(b) = 0,
    b = (ν_old + width) / 2, for each component. The left side falls in ν, so
    that there is one solution, or none inside the range: then its nearer end.

    Shapes: counts, tails (n_groups,); degrees (n_groups,).

    References
    ----------
    Peel and McLachlan 2000, Stat. Comput. 10:339-348,
    doi:10.1023/A:1008981510081, section 7.

    Examples
    --------
    >>> new_degrees(np.array([10.0]), np.array([-10.0]), np.array([np.inf]), 2).round(6).tolist()
    [32.0]
    """
    half = (np.where(np.isinf(degrees), FIRST, degrees) + width) / 2
    share = np.divide(tails, counts, out=np.full(len(counts), -1.0), where=counts > 0)
    constant = 1.0 + share + digamma(half) - np.log(half)
    low, high = np.full(len(counts), np.log(LEAST)), np.full(len(counts), np.log(MOST))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        v = np.exp(middle) / 2
        rising = np.log(v) - digamma(v) + constant > 0
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    return np.asarray(np.exp((low + high) / 2))
