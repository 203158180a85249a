"""Which units (persons, households, enterprises) there are at each place, counted up to a number that is enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from anonpipe.errors import LARGER_STRATA, LOWER_K, InputError
from anonpipe.types import BoolArray, FloatArray, IntArray

Units = npt.NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class UnitSets:
    """The units of each place, of those with many the lowest `most` numbers: mergeable, and exact below `most`.

    Numbers of units are keyed hashes. Two that agree are counted as one: so units are never too many.
    """

    most: int  # Units of a place that are kept
    places: IntArray  # Of pairs in ascending order, each once, the place, shape (n,)
    units: Units  # The unit, shape (n,)

    @classmethod
    def of(cls, places: IntArray, units: Units, most: int) -> UnitSets:
        """The units of some records, each at its place."""
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
        """The same with other places: `places` says of each old one which; units at -1 are left out."""
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


MOST_COMBINATIONS = 100_000


@dataclass(frozen=True)
class Strata:
    """Which stratum each combination of codes belongs to."""

    positions: tuple[int, ...]  # Where the strata columns stand among the cells
    sizes: tuple[int, ...]  # Number of codes of each of them
    stratum: tuple[int, ...]  # Stratum of each combination (mixed radix of the codes), -1 for dropped
    recoded: tuple[int, ...]  # The combination whose codes its records take; itself unless it was merged
    rows: tuple[int, ...]  # Records of each stratum
    dropped: int  # Records of dropped small strata
    least: str = ""  # Which strata are small, in words: those under k=5, under k=5 units, or under what a method needs

    def assign(self, cells: FloatArray) -> IntArray:
        """The stratum of each record, shape (n_rows,); -1 for records to be dropped."""
        return np.asarray(self.stratum, dtype=np.int64)[self._combinations(cells)]

    def recode(self, cells: FloatArray) -> None:
        """Give the records of merged strata the codes of the stratum they joined, in place."""
        target = np.asarray(self.recoded, dtype=np.int64)[self._combinations(cells)]
        for position, size in zip(reversed(self.positions), reversed(self.sizes), strict=True):
            cells[:, position] = target % size
            target //= size

    def codes(self) -> list[tuple[int, ...] | None]:
        """Of each stratum the codes that all of its records have, in the order of `positions`; None for several."""
        own: dict[int, list[int]] = {}
        for at, stratum in enumerate(self.stratum):
            if self.recoded[at] == at:
                own.setdefault(stratum, []).append(at)
        single = (own[at][0] if len(own[at]) == 1 else None for at in range(len(self.rows)))
        return [None if at is None else tuple(map(int, np.unravel_index(at, self.sizes))) for at in single]

    def _combinations(self, cells: FloatArray) -> IntArray:
        index = np.zeros(len(cells), dtype=np.int64)
        for position, size in zip(self.positions, self.sizes, strict=True):
            index = index * size + cells[:, position].astype(np.int64)
        return index


def build_strata(
    counts: IntArray,
    positions: Sequence[int],
    sizes: Sequence[int],
    k: int,
    small: Literal["error", "merge", "drop"],
    event: tuple[int, IntArray] | None,
    by_event: bool,
    names: Sequence[str],
    needed: tuple[int, str] | None = None,
    units: UnitSets | None = None,
    lower_k: str = LOWER_K,
    larger: str = LARGER_STRATA,
) -> Strata:
    """Turn counts of code combinations into strata of at least k records; counts (prod(sizes),)."""
    least, minimum = needed if needed is not None and needed[0] > k else (k, f"k={k}")
    if units is not None:
        minimum = f"k={k} units"
    combinations = np.arange(len(counts))
    happened = np.zeros(len(counts), dtype=np.int64)
    base: IntArray = combinations.copy()
    if event is not None:
        codes = np.array(np.unravel_index(combinations, tuple(sizes)))
        happened = event[1][codes[event[0]]]
        if by_event:
            canonical = codes.copy()
            outcomes, first = np.unique(event[1], return_index=True)
            canonical[event[0]] = first[np.searchsorted(outcomes, happened)]
            base = np.asarray(np.ravel_multi_index(tuple(canonical), tuple(sizes)))
    rows = np.bincount(base, weights=counts, minlength=len(counts)).astype(np.int64)
    is_small = (rows > 0) & (rows < least)
    if units is not None:
        is_small |= (rows > 0) & (units.moved(base).counts(len(rows)) < k)
    if is_small.any() and (small == "error" or is_small[rows > 0].all()):
        raise InputError(_small_message(names, rows, is_small, minimum, lower_k, larger))
    target = np.where(rows > 0, combinations, -1)
    recoded = combinations.copy()
    for tiny in np.flatnonzero(is_small):
        target[tiny] = -1
        if small == "merge":
            target[tiny] = _host(int(tiny), rows, is_small, happened, names, minimum, lower_k)
            best = np.flatnonzero(base == target[tiny])
            recoded[base == tiny] = best[np.argmax(counts[best])]
    final = target[base]
    kept = np.unique(final[(final >= 0) & (counts > 0)])
    stratum = np.where((final >= 0) & (counts > 0), np.searchsorted(kept, final), -1)
    sums = np.bincount(stratum[stratum >= 0], weights=counts[stratum >= 0], minlength=len(kept)).astype(int)
    if not len(kept):
        raise InputError(
            f"no stratum of {_joined(names)} has {_whom(minimum)}; take fewer strata columns, or {lower_k}"
        )
    return Strata(
        tuple(positions),
        tuple(sizes),
        tuple(stratum.tolist()),
        tuple(recoded.tolist()),
        tuple(sums.tolist()),
        int(counts[stratum < 0].sum()),
        minimum,
    )


def _host(
    tiny: int, rows: IntArray, is_small: BoolArray, happened: IntArray, names: Sequence[str], minimum: str, lower_k: str
) -> int:
    """The largest stratum with the same event status; the first of equals."""
    fit = (rows > 0) & ~is_small & (happened == happened[tiny])
    if not fit.any():
        raise InputError(
            f"a stratum of {_joined(names)} ({rows[tiny]} records) has fewer than {_whom(minimum)}, and no stratum of "
            "the same event status to be merged into has as many; set strata.small: drop, take fewer strata columns, "
            f"or {lower_k}"
        )
    return int(np.argmax(np.where(fit, rows, -1)))


def _small_message(
    names: Sequence[str], rows: IntArray, is_small: BoolArray, minimum: str, lower_k: str, larger: str
) -> str:
    strata, small = int((rows > 0).sum()), rows[is_small]
    if len(small) == strata:
        each = "the only stratum" if strata == 1 else f"each of the {strata} strata"
        remedy = lower_k if minimum.startswith("k=") else "mask fewer columns"
        return (
            f"{each} of {_joined(names)} has fewer than {_whom(minimum)}: the largest has {rows.max()} of {rows.sum()} "
            f"records; take fewer or coarser strata columns, or {remedy}"
        )
    many = "1 stratum has" if len(small) == 1 else f"{len(small)} strata have"
    in_all = "1 row" if small.sum() == 1 else f"{small.sum()} rows"
    return f"{many} fewer than {_whom(minimum)} in column {_joined(names)} ({in_all} in all); {larger}, or {lower_k}"


def _whom(minimum: str) -> str:
    """What is counted: units, or what a method needs, where that is said; else records."""
    return f"{minimum} records" if minimum.startswith("k=") and not minimum.endswith("units") else minimum


def _joined(names: Sequence[str]) -> str:
    return " x ".join(repr(name) for name in names) or "the table"
