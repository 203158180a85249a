"""The unit of protection: a person, a household or an enterprise, which may have several rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anonpipe.encoding.identifiers import Repeats, keyed_values
from anonpipe.partition.unit_sets import Units

_SHIFT = np.uint64(11)


@dataclass(frozen=True)
class UnitColumn:
    """What k counts where units have several rows."""

    name: str  # The column that names the unit
    # rows, distinct, most: rows, units, and the rows of the unit with most
    rows: int
    distinct: int
    most: int
    sure: int  # Rows that hold k units, whichever rows they are: one more than the k - 1 units with most have

    @classmethod
    def of(cls, found: Repeats) -> UnitColumn:
        """The unit that repeats so often."""
        return cls(found.name, found.rows, found.distinct, found.most, 1 + sum(found.largest))

    def coarse(self, k: int) -> int:
        """`sure` for what recipients see: as it is, it would be a count of the rows of fewer than k units."""
        return doubled(k, self.sure)


def doubled(k: int, least: int) -> int:
    """The smallest of k, 2 k, 4 k and so on that is not below a number: how large it is, and no more.

    Examples
    --------
    >>> doubled(5, 5), doubled(5, 41), doubled(5, 54), doubled(5, 80)
    (5, 80, 80, 80)
    """
    rows = k
    while rows < least:
        rows *= 2
    return rows


def units_meaning(k: int) -> str:
    """What k means where units may have several rows, without a name or count of the data."""
    return (
        f"k={k} counts units (persons, households, enterprises), which may have several rows: no group, stratum, "
        f"category or combination of key variables is of fewer than {k} of them"
    )


def unit_line(unit: UnitColumn, k: int) -> str:
    """How `anonpipe plan` tells of the unit; counts for the steward."""
    return (
        f"column {unit.name!r}: {unit.rows:,} rows of {unit.distinct:,} units, up to {unit.most:,} rows each; k={k} "
        f"counts units. Distributions and other figures that count rows rest on {unit.sure:,} or more, which are of "
        f"{k} units whichever rows they are; for recipients, who are not told this number, on {unit.coarse(k):,}"
    )


def unit_numbers(name: str, array: pa.Array, key: bytes) -> Units:
    """A keyed number of 53 bits for the unit of each row, which a float holds; 0 where there is no value.

    Of 10^7 units two have one number in one table of 180. They then count as
    one, which asks for more of others, never for fewer.

    Examples
    --------
    >>> found = unit_numbers("id", pa.array(["a", "b", "a", None]), b"k" * 16)
    >>> bool(found[0] == found[2]), bool(found[0] == found[1]), int(found[3])
    (True, False, 0)
    """
    high, _, there = keyed_values(name, array, key, ("high",))
    numbers = np.zeros(len(array), dtype=np.uint64)
    numbers[there] = high >> _SHIFT
    return numbers
