"""How many columns there are for what their moments tell, and how unequally far from the mean records lie in them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from anonpipe.types import FloatArray


class Width(NamedTuple):
    """Of a table's columns what decides how much their moments tell."""

    columns: int  # How many are linearly independent
    spread: float  # Variance of the records' squared Mahalanobis distances


def width_of(numbers: int, attributes: Iterable[FloatArray]) -> Width:
    """Of so many numbers, and of attributes the shares of whose categories these are, all taken for independent.

    Notes
    -----
    A normal number adds 1 to the mean of the squared distance and 2 to its variance. An attribute of q categories adds
    1 / s - 1 for who is in a category of share s: q - 1 on average, with a variance of the sum of 1 / s less q².

    Examples
    --------
    >>> import numpy as np
    >>> width_of(3, [np.array([0.5, 0.5]), np.array([0.9, 0.1])])
    Width(columns=5, spread=13.11111111111111)
    """
    there = [shares[shares > 0] for shares in attributes]
    columns = numbers + sum(len(shares) - 1 for shares in there)
    return Width(columns, 2.0 * numbers + sum(float((1.0 / shares).sum()) - len(shares) ** 2 for shares in there))
