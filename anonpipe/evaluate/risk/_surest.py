"""The surest of an intruder's guesses: those where the nearest released records agree, the nearer the surer."""

from __future__ import annotations

import math

import numpy as np

from anonpipe.types import FloatArray, IntArray

SHARES = (0.01, 0.05, 0.1)  # Shares of the guesses that are looked at by themselves

FEWEST = 5  # Fewer guesses than this are not looked at by themselves


def agreed(values: FloatArray, squared: FloatArray, allowed: float) -> tuple[FloatArray, IntArray]:
    """The value on which most of some neighbours agree, and how many do.

    Shapes: values, squared (n, count); returns (n,).

    Examples
    --------
    >>> guess, agree = agreed(np.array([[4.0, 1.0, 1.0]]), np.array([[0.0, 1.0, 2.0]]), 0.0)
    >>> guess.tolist(), agree.tolist()
    ([1.0], [2])
    """
    found, null = np.isfinite(squared), np.isnan(values)
    with np.errstate(invalid="ignore"):
        same = np.abs(values[:, :, None] - values[:, None, :]) <= allowed * (1 + 1e-9)
    same |= null[:, :, None] & null[:, None, :]
    counts = (same & found[:, :, None] & found[:, None, :]).sum(axis=2)
    best = counts.argmax(axis=1)
    rows = np.arange(len(values))
    return values[rows, best], counts[rows, best]


def by_sureness(agree: IntArray, squared: FloatArray) -> IntArray:
    """Numbers of the guesses, the surest first: those on which most agree, of these the nearer ones.

    Shapes: agree (n,); squared (n,).
    """
    return np.asarray(np.lexsort((squared, -agree)))


def surest(ordered: IntArray, share: float) -> IntArray:
    """That share of the guesses, in the order of `by_sureness`; one more than none, and no more than all."""
    return ordered[: max(1, min(len(ordered), math.ceil(share * len(ordered) - 1e-9)))]
