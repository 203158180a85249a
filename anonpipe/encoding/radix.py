"""A histogram of numbers that forgets in which order, and in which parts, they came: mergeable, of bounded size.

Every float has a whole number of 64 bits in the same order, its key. Numbers
whose keys agree but for their lowest bits, so many as the histogram's level,
share a bin. Bins are fine where numbers are dense, and as long as there are
few distinct numbers each has a bin of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import reduce

import numpy as np
import numpy.typing as npt

from anonpipe.types import BoolArray, FloatArray, IntArray

Keys = npt.NDArray[np.uint64]

MOST_BINS = 2**15  # Bins that a histogram has at most, those of all its places together: 2 MB

_SIGN = np.uint64(1 << 63)
_HIGHEST = 63  # The coarsest level: numbers below and from zero


def keys_of(values: FloatArray) -> Keys:
    """The keys of finite numbers, in whose order the numbers are; 0.0 and -0.0 have one.

    Examples
    --------
    >>> keys = keys_of(np.array([-2.5, -0.0, 0.0, 5e-324]))
    >>> np.diff(keys.astype(object)).tolist()[1:], values_of(keys).tolist()
    ([0, 1], [-2.5, 0.0, 0.0, 5e-324])
    """
    bits = (np.asarray(values, dtype=np.float64) + 0.0).view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def values_of(keys: Keys) -> FloatArray:
    """The numbers of some keys."""
    return np.where(keys & _SIGN, keys ^ _SIGN, ~keys).view(np.float64)


@dataclass(frozen=True, eq=False)
class Radix:
    """How many numbers there are in each bin at each place (a stratum, say); bins ascend inside ascending places.

    Level and bins are a function of the numbers alone, as a set with
    repetitions: the level is the least at which there are `MOST_BINS` bins or
    fewer. Proof: let d(L) be the number of bins that all numbers make at level L.
    It falls as L grows, and bins of a coarser level are made of whole bins of a
    finer one. No part makes more bins than the whole, so that no part's level is
    above that of the whole, and the whole's bins can be put together from
    those of parts, at any level from the highest of the parts' levels on.
    Below this one the whole makes as many bins as that part or more, too many:
    the least level that is looked for from there on is the least of all.
    What a bin holds (a count, extremes, records at the lower, a sum modulo
    2^64) is added or compared without rounding, in any order.
    """

    level: int  # Low bits of the keys that are not looked at; 63 at the most
    places: IntArray  # Of each bin, shape (n_bins,)
    counts: IntArray  # Numbers in it
    # low, high: the smallest and largest key in it: the same for one value
    low: Keys
    high: Keys
    at_low: IntArray  # Numbers that have the smallest
    sums: Keys  # Of the keys, modulo 2^64

    @classmethod
    def of(cls, values: FloatArray, places: IntArray | None = None, most: int = MOST_BINS) -> Radix:
        """The histogram of finite numbers, each at its place.

        Examples
        --------
        >>> found = Radix.of(np.array([2.0, 0.0, 2.0, -0.0, 7.0]))
        >>> found.smallest.tolist(), found.counts.tolist(), found.level
        ([0.0, 2.0, 7.0], [2, 2, 1], 0)
        """
        keys, at = keys_of(values), np.zeros(len(values), dtype=np.int64)
        if places is None:
            keys = np.sort(keys)
        else:
            order = np.lexsort((keys, places))
            keys, at = keys[order], np.asarray(places, dtype=np.int64)[order]
        ones = np.ones(len(keys), dtype=np.int64)
        return _bins(cls(0, at, ones, keys, keys, ones, keys), most)

    @classmethod
    def merged(cls, parts: Iterable[Radix], most: int = MOST_BINS) -> Radix:
        """The histogram of all parts together; of none, that of no number."""
        return reduce(lambda whole, part: whole.merge(part, most), parts, cls.of(np.empty(0)))

    def merge(self, other: Radix, most: int = MOST_BINS) -> Radix:
        """The histogram of both together."""
        both = (np.concatenate([getattr(part, name) for part in (self, other)]) for name in _ARRAYS)
        return _bins(Radix(max(self.level, other.level), *both)._sorted, most)

    def moved(self, places: IntArray) -> Radix:
        """The histogram with other places: `places` says of each old one which; numbers at -1 are left out."""
        moved = replace(self, places=np.asarray(places, dtype=np.int64)[self.places])
        return _bins(moved._where(moved.places >= 0)._sorted, len(self.counts))

    def at(self, place: int) -> Radix:
        """What there is at one place."""
        return self._where(self.places == place)

    def thinned(self, without: int, rng: np.random.Generator) -> Radix:
        """The histogram without some numbers at random; of a bin of several values they are taken for its mean.

        Examples
        --------
        >>> found = Radix.of(np.array([2.0, 2.0, 2.0, 5.0, 7.0])).thinned(2, np.random.default_rng(0))
        >>> found.total, found.smallest.tolist(), found.counts.tolist(), found.at_low.tolist()
        (3, [2.0, 5.0, 7.0], [1, 1, 1], [1, 1, 1])
        """
        gone = rng.multivariate_hypergeometric(self.counts, without)
        lowest = rng.hypergeometric(self.at_low, self.counts - self.at_low, gone)
        lowest = np.where(self.exact, gone, np.minimum(lowest, np.maximum(self.at_low - 1, 0)))
        keys = np.where(self.exact, self.low, keys_of(self.means))
        left = replace(
            self,
            counts=self.counts - gone,
            at_low=self.at_low - lowest,
            sums=self.sums - gone.astype(np.uint64) * keys,
        )
        return left._where(left.counts > 0)

    def _where(self, which: BoolArray | IntArray) -> Radix:
        return Radix(self.level, *(getattr(self, name)[which] for name in _ARRAYS))

    @property
    def _sorted(self) -> Radix:
        """Its bins, which may be any entries, in their order; a stable sort is quick where parts are in theirs."""
        order = np.argsort(self.low, kind="stable")
        if self.places.any():
            order = order[np.argsort(self.places[order], kind="stable")]
        return self._where(order)

    @property
    def total(self) -> int:
        """Numbers in all."""
        return int(self.counts.sum())

    @property
    def exact(self) -> BoolArray:
        """Which bins hold one value only."""
        return np.asarray(self.low == self.high)

    @property
    def smallest(self) -> FloatArray:
        """The smallest number of each bin."""
        return values_of(self.low)

    @property
    def largest(self) -> FloatArray:
        """The largest."""
        return values_of(self.high)

    @property
    def means(self) -> FloatArray:
        """The mean of each bin.

        Numbers are a linear function of their keys between two powers of two,
        and no bin reaches further at levels up to 52; in the few that are
        wider, or hold so many that the sum of their keys may have turned over, the mean
        is that of the extremes.
        """
        low, high = self.smallest, self.largest
        offsets = self.sums - self.counts.astype(np.uint64) * self.low  # modulo 2^64, as both are
        span = np.maximum((self.high - self.low).astype(np.float64), 1.0)
        known = self.counts.astype(np.float64) * span < 2.0**63
        share = np.where(known & (self.level <= 52), offsets.astype(np.float64) / (self.counts * span), 0.5)
        return np.where(self.exact, low, low * (1.0 - share) + high * share)


_ARRAYS = tuple(each.name for each in fields(Radix))[1:]


def _bins(entries: Radix, most: int) -> Radix:
    """Bins of sorted entries, at the least level from theirs on at which there are no more than `most`."""
    if not len(entries.low):
        return replace(entries, level=0)
    apart = _bits(entries.low[1:] ^ entries.low[:-1])
    apart[entries.places[1:] != entries.places[:-1]] = 64
    bins = len(entries.low) - np.cumsum(np.bincount(apart, minlength=65))  # at each level: joined are the others
    level = max(entries.level, min(_HIGHEST, int(np.argmax(bins <= most))))
    first = np.append(0, 1 + np.flatnonzero(apart > level))
    low = entries.low[first]
    lowest = np.repeat(low, np.diff(np.append(first, len(entries.low))))
    return Radix(
        level,
        entries.places[first],
        np.add.reduceat(entries.counts, first),
        low,
        np.maximum.reduceat(entries.high, first),
        np.add.reduceat(np.where(entries.low == lowest, entries.at_low, 0), first),
        np.add.reduceat(entries.sums, first),
    )


def _bits(keys: Keys) -> IntArray:
    """How many bits each has up to the highest that is set: halves are taken, as a float of 64 bits may round up."""
    high, low = (keys >> np.uint64(32)).astype(np.float64), (keys & np.uint64(0xFFFFFFFF)).astype(np.float64)
    return np.where(high > 0, 32 + np.frexp(high)[1], np.frexp(low)[1]).astype(np.int64)
