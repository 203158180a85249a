"""The largest and the smallest numbers at each place: exact, mergeable in any order and cut, of bounded size."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from anonpipe.types import FloatArray, IntArray

# Numbers that are kept from either end where units may have several rows: how many of these count is not known yet
_OF_UNITS = 1_000


def most_for(k: int, several: bool) -> int:
    """How many numbers are kept from either end of each place; twice of what `most_kept` says, and one more."""
    return _OF_UNITS if several else 2 * max(k, 3) + 1


def most_kept(most: int) -> int:
    """How many outermost records can be looked at, with as many beside them."""
    return (most - 1) // 2


@dataclass(frozen=True, eq=False)
class Outermost:
    """Some numbers from either end of each place (a stratum, say); those of fewer than twice as many all.

    The largest of all parts together are among the largest of each: so nothing depends on cut and order.
    """

    most: int  # How many from either end
    counts: IntArray  # Numbers at each place, shape (n_places,)
    # places, values: those that are kept: values ascend inside ascending places
    places: IntArray
    values: FloatArray

    @classmethod
    def of(cls, values: FloatArray, places: IntArray, size: int, most: int) -> Outermost:
        """Of numbers at places 0 to size - 1.

        Examples
        --------
        >>> found = Outermost.of(np.array([3.0, 1.0, 9.0, 4.0, 5.0]), np.zeros(5, dtype=np.int64), 1, 2)
        >>> found.at(0).tolist(), found.counts.tolist()
        ([1.0, 3.0, 5.0, 9.0], [5])
        """
        return cls(most, np.bincount(places, minlength=size), places, values + 0.0)._thinned()

    def merge(self, other: Outermost) -> Outermost:
        """Both together; their places are the same."""
        both = (np.concatenate([getattr(part, name) for part in (self, other)]) for name in ("places", "values"))
        return Outermost(self.most, self.counts + other.counts, *both)._thinned()

    def moved(self, places: IntArray, size: int) -> Outermost:
        """The same at other places, 0 to size - 1: `places` says of each old one which; -1 is left out."""
        kept = places >= 0
        counts = np.zeros(size, dtype=np.int64)
        np.add.at(counts, places[kept], self.counts[kept])
        at = places[self.places]
        return replace(self, counts=counts, places=at[at >= 0], values=self.values[at >= 0])._thinned()

    def at(self, place: int) -> FloatArray:
        """What is kept at one place, ascending."""
        low, high = np.searchsorted(self.places, [place, place + 1])
        return self.values[low:high]

    def _thinned(self) -> Outermost:
        """Sorted, and without those that are not outermost."""
        order = np.lexsort((self.values, self.places))
        places, number = self.places[order], np.arange(len(order))
        begin, end = np.searchsorted(places, places, side="left"), np.searchsorted(places, places, side="right")
        kept = (number - begin < self.most) | (end - number <= self.most)
        return replace(self, places=places[kept], values=self.values[order][kept])
