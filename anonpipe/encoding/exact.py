"""Sums of floats without any rounding: the same whatever the order and the cut of the values."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anonpipe.types import FloatArray

_UNIT = 1130  # Sums are whole numbers of 2^-1130, of which every float is a multiple

_SPLIT = 2.0**27 + 1.0
_LOW_BITS = 26
_CHUNK = 2**20  # Values that are added as floats without rounding: 2^20 numbers of 27 bits stay far below 2^53


class Sums(NamedTuple):
    """The sum of values and of their squares, in units of 2^-1130."""

    total: int
    squares: int

    @classmethod
    def of(cls, values: FloatArray) -> Sums:
        """Of finite values, at most 1e150 in size.

        Examples
        --------
        >>> values = np.array([1e100, 1.0, -1e100])
        >>> Sums.of(values).moments(3)[0], Sums.of(values[::-1]) == Sums.of(values)
        (0.3333333333333333, True)
        """
        squares, rest = _squared(values)
        return cls(exact_sum(values), exact_sum(squares) + exact_sum(rest))

    def __add__(self, other: object) -> Sums:
        if not isinstance(other, Sums):
            return NotImplemented
        return Sums(self.total + other.total, self.squares + other.squares)

    def moments(self, count: int) -> tuple[float, float]:
        """Mean, and sum of squared deviations from it, rounded once; zeros for no value."""
        if not count:
            return 0.0, 0.0
        deviations = self.squares * count * 2**_UNIT - self.total**2
        return self.total / (count * 2**_UNIT), max(0, deviations) / (count * 4**_UNIT)


def _squared(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The square of each value, and what rounding left out of it (Veltkamp 1968, Dekker 1971)."""
    squares = values * values
    carried = _SPLIT * values
    high = carried - (carried - values)
    low = values - high
    return squares, ((high * high - squares) + 2.0 * high * low) + low * low


def exact_sum(values: FloatArray) -> int:
    """The sum of finite values in units of 2^-1130.

    Examples
    --------
    >>> exact_sum(np.array([0.1] * 10)) / 2**1130
    1.0
    """
    return sum(_chunk_sum(values[at : at + _CHUNK]) for at in range(0, len(values), _CHUNK))


def _chunk_sum(values: FloatArray) -> int:
    fractions, exponents = np.frexp(values)
    whole = np.ldexp(fractions, 53).astype(np.int64)
    lowest = int(exponents.min())
    places = exponents - lowest
    high = np.bincount(places, weights=(whole >> _LOW_BITS).astype(np.float64))
    low = np.bincount(places, weights=(whole & (2**_LOW_BITS - 1)).astype(np.float64))
    shift = lowest - 53 + _UNIT
    return sum(
        ((int(above) << _LOW_BITS) + int(below)) << (at + shift)
        for at, (above, below) in enumerate(zip(high, low, strict=True))
    )
