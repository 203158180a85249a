"""Which units (persons, households, enterprises) there are at each place, counted up to a number that is enough."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from anonpipe.types import BoolArray, IntArray

Units = npt.NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class UnitSets:
    """The units of each place, of those with many the lowest `most` numbers: mergeable, and exact below `most`.

    Numbers of units are keyed hashes. Two that agree are counted as one: so
    units are never too many.
    """

    most: int  # Units of a place that are kept
    # places, units: pairs, each once, in ascending order, shape (n,)
    places: IntArray
    units: Units

    @classmethod
    def of(cls, places: IntArray, units: Units, most: int) -> UnitSets:
        """The units of some records, each at its place.

        Examples
        --------
        >>> found = UnitSets.of(np.array([0, 0, 0, 2]), np.array([7, 7, 9, 7], dtype=np.uint64), 5)
        >>> found.counts(3).tolist()
        [2, 0, 1]
        """
        order = np.argsort(units, kind="stable")
        return cls.of_ascending(np.asarray(places)[order], units[order], most)

    @classmethod
    def of_ascending(cls, places: IntArray, units: Units, most: int) -> UnitSets:
        """The same of records whose units ascend already."""
        narrow = places.astype(np.int16) if len(places) and places.max() < 2**15 else places  # sorted by digits
        order = np.argsort(narrow, kind="stable")
        places, units = np.asarray(places, dtype=np.int64)[order], units[order]
        first = np.append(True, (np.diff(places) != 0) | (units[1:] != units[:-1]))[: len(places)]
        places, units = places[first], units[first]
        begins = np.flatnonzero(np.append(True, np.diff(places) != 0))[: len(places)]
        rank = np.arange(len(places)) - np.repeat(begins, np.diff(np.append(begins, len(places))))
        return cls(most, places[rank < most], units[rank < most])

    @classmethod
    def none(cls, most: int) -> UnitSets:
        """No units."""
        return cls(most, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint64))

    def merge(self, other: UnitSets) -> UnitSets:
        """Both together."""
        places, units = (
            np.concatenate([getattr(each, name) for each in (self, other)]) for name in ("places", "units")
        )
        return UnitSets.of(places, units, self.most)

    def moved(self, places: IntArray) -> UnitSets:
        """The same with other places: `places` says of each old one which; units at -1 are left out.

        Examples
        --------
        >>> found = UnitSets.of(np.array([0, 1, 1]), np.array([7, 7, 9], dtype=np.uint64), 5)
        >>> found.moved(np.array([0, 0])).counts(1).tolist()
        [2]
        """
        moved = np.asarray(places, dtype=np.int64)[self.places]
        return UnitSets.of(moved[moved >= 0], self.units[moved >= 0], self.most)

    def at(self, which: BoolArray) -> UnitSets:
        """What there is at some places."""
        kept = which[self.places]
        return replace(self, places=self.places[kept], units=self.units[kept])

    def counts(self, size: int) -> IntArray:
        """Units at each place, `most` for more, shape (size,)."""
        return np.bincount(self.places, minlength=size)

    def together(self, which: BoolArray) -> int:
        """Units of some places together, `most` for more."""
        return min(self.most, len(np.unique(self.at(which).units)))
