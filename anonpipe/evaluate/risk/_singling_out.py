"""Attack: a predicate that one released record alone meets is taken for true of one person alone.

The first criterion of the European guidance on anonymisation (Article 29 Working Party, opinion 05/2014, WP 216).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Self

import numpy as np

from anonpipe.evaluate.coding import null_as_code
from anonpipe.evaluate.measurement import Audience, Figure, Measurement, Share, beyond_control, exact, weighted_share
from anonpipe.evaluate.risk._measure import AttackData, Matches, Measured, PredicateMatches, RiskMeasure, require
from anonpipe.kernels.compiled import kernel
from anonpipe.types import FloatArray, IntArray

SEVERAL = 6  # Columns of a predicate on several

FEWEST = 40  # Attacks: where fewer predicates single out a released record, the others are attacks that failed;
# of so many failed ones the 95 % interval ends below the default limit

_KEPT = 5  # Predicates that are looked up in whole tables, for each one wanted

CONTROLS = 200_000  # Held-out records that predicates are held against, at most

MANY = 50  # Records that meet a predicate beyond which nobody asks how many

_MET = 3.0  # Predicates met by chance: of so many expected that none is met has a chance of 5 %

_SOURCE = (
    "Giomi, Boenisch, Wehmeyer & Tasnádi (2023), doi:10.56553/popets-2023-0055; "
    "Cohen & Nissim (2020), doi:10.1073/pnas.1914598117"
)


@dataclass(frozen=True, eq=False)
class Ordered:
    """Some records, column by column: cells with infinity for null, and the rows in ascending order of each."""

    cells: FloatArray
    orders: IntArray

    @classmethod
    def of(cls, cells: FloatArray) -> Self:
        """Of cells of shape (n_rows, n_columns), NaN for null."""
        filled = np.ascontiguousarray(null_as_code(cells).T)
        return cls(filled, np.argsort(filled, axis=1))


@dataclass(frozen=True, eq=False)
class Predicates:
    """Intervals of some columns, all of which hold: ends included, null is infinity."""

    columns: IntArray  # Which, shape (n_predicates, size)
    low: FloatArray  # Lower ends, of the same shape
    high: FloatArray  # Upper ends

    def matches(self, records: Ordered, most: int = MANY, offset: int = 0) -> Matches:
        """Which of some records meet each, counted to one more than `most`; `offset`: number of the first record."""
        counts, rows, _ = self._find(records, np.empty(0, dtype=np.int64), most)
        return Matches(counts, rows + offset * counts)

    def units(self, records: Ordered, units: IntArray) -> IntArray:
        """The units of the records that meet each, `MANY` + 1 at most, -1 for none: (n_predicates, `MANY` + 1)."""
        return self._find(records, units, MANY)[2]

    def _find(self, records: Ordered, units: IntArray, most: int) -> tuple[IntArray, IntArray, IntArray]:
        begins, ends = np.empty_like(self.columns), np.empty_like(self.columns)
        for column in np.unique(self.columns):
            values, here = records.cells[column, records.orders[column]], self.columns == column
            begins[here] = np.searchsorted(values, self.low[here], side="left")
            ends[here] = np.searchsorted(values, self.high[here], side="right")
        # The rarest interval first, then the next; those of the same two columns together, by where they begin
        rarest = np.argsort(ends - begins, axis=1, kind="stable")
        begins, ends, columns = (np.take_along_axis(each, rarest, axis=1) for each in (begins, ends, self.columns))
        low, high = (np.take_along_axis(each, rarest, axis=1) for each in (self.low, self.high))
        together = np.lexsort((begins[:, 0], columns[:, 1 % rarest.shape[1]], columns[:, 0]))
        return _find_met(records.cells, records.orders, together, begins, ends, columns, low, high, units, most)

    def __len__(self) -> int:
        return len(self.columns)

    def __getitem__(self, which: IntArray | slice) -> Self:
        return type(self)(self.columns[which], self.low[which], self.high[which])


def joined_units(parts: Iterable[IntArray]) -> Matches:
    """The units that meet each predicate in some of the parts: each counts once, whose number then stands for a row."""

    def join(one: IntArray, other: IntArray) -> IntArray:
        both = np.sort(np.concatenate([one, other], axis=1), axis=1)
        both[:, 1:][both[:, 1:] == both[:, :-1]] = -1
        return np.sort(both, axis=1)[:, -one.shape[1] :]

    found = reduce(join, parts)
    return Matches((found >= 0).sum(axis=1), np.maximum(found, 0).sum(axis=1))


_LARGEST = float(np.finfo(np.float64).max)


def _on_one_column(
    released: FloatArray, categories: Sequence[int], wanted: int, rng: np.random.Generator
) -> Predicates:
    """Predicates on one column: no larger than the smallest value, no smaller than the largest, null, or a rare value.

    Shapes: released (n_rows, n_columns).
    """
    ends: list[tuple[int, float, float]] = []
    rare: list[tuple[int, float, float]] = []
    for at, column in enumerate(null_as_code(released).T):
        values, counts = np.unique(column, return_counts=True)
        finite = values[np.isfinite(values)]
        if at not in categories and len(finite):
            ends += [(at, -_LARGEST, finite[0]), (at, finite[-1], _LARGEST)]
        if len(finite) < len(values):
            ends.append((at, np.inf, np.inf))
        rare += [(at, value, value) for value in values[(counts == 1) & np.isfinite(values)].tolist()]
    chosen = [rare[place] for place in rng.permutation(len(rare))[:wanted]]
    table = np.array([*ends, *chosen], dtype=np.float64).reshape(-1, 3)
    return Predicates(table[:, :1].astype(np.int64), table[:, 1:2], table[:, 2:])


def _on_several_columns(released: FloatArray, categories: Sequence[int], kept: int) -> Predicates:
    """Predicates on the columns in which a record is rarest, met by it alone of those given; the rarest first."""
    # Of a category or null these values; of numbers those as far from the median as its own, or further.
    records, width, n = Ordered.of(released), released.shape[1], len(released)
    coded = np.isin(np.arange(width), list(categories))[:, None] | np.isinf(records.cells)
    above = records.cells > _medians(released)[:, None]
    low, high = (np.where(coded | side, records.cells, end) for side, end in ((above, -_LARGEST), (~above, _LARGEST)))
    shares = np.empty_like(low)
    for at, order in enumerate(records.orders):
        first = np.searchsorted(records.cells[at, order], low[at], side="left")
        shares[at] = (np.searchsorted(records.cells[at, order], high[at], side="right") - first) / n
    rarest = np.argsort(shares, axis=0, kind="stable")[:SEVERAL]
    chances = np.take_along_axis(shares, rarest, axis=0).prod(axis=0)
    ends = (np.take_along_axis(each, rarest, axis=0) for each in (low, high))
    tried = Predicates(*(np.ascontiguousarray(each.T) for each in (rarest, *ends)))[np.argsort(chances, kind="stable")]
    alone = np.empty(0, dtype=np.int64)
    for begin in range(0, len(tried), kept):  # until there are enough
        counts = tried[begin : begin + kept].matches(records, 1).counts
        alone = np.append(alone, begin + np.flatnonzero(counts == 1))[:kept]
        if len(alone) == kept:
            break
    return tried[alone]


def _medians(cells: FloatArray) -> FloatArray:
    return np.array([np.median(finite) if len(finite := column[~np.isnan(column)]) else 0.0 for column in cells.T])


def outermost(released: FloatArray) -> FloatArray:
    """Of some records those with the smallest and the largest value of each column."""
    if not len(released):
        return released
    null = np.isnan(released)
    ends = np.where(null, np.inf, released).argmin(axis=0), np.where(null, -np.inf, released).argmax(axis=0)
    return np.asarray(released[np.unique(np.concatenate(ends))])


def candidates(
    sample: FloatArray, ends: FloatArray, of: int, categories: Sequence[int], wanted: int, rng: np.random.Generator
) -> dict[str, Predicates]:
    """Predicates of both sorts that may single out one of `of` released records; the whole release decides.

    Of a sample, which may be all, the `outermost` records are tried besides. Shapes: (n_sampled, n_columns),
    (n_outermost, n_columns).
    """
    released, kept = sample if len(sample) == of else np.concatenate([sample, ends]), _KEPT * wanted
    found = {"one": _on_one_column(released, categories, kept, rng)}
    if released.shape[1] > 1:
        found["several"] = _on_several_columns(released, categories, kept)
    return found


_FIGURES = {
    name: Figure(
        f"singling_out.{name}",
        f"Singling out (WP 216): {by}, above the hold-out",
        "share",
        _SOURCE,
        Audience.STEWARD,
        baseline_is="a release that says no more of its own persons than of others",
    )
    for name, by in (("one", "by one column"), ("several", "by several columns"))
}


@dataclass(frozen=True)
class SinglingOut:
    """How often what singles out a released record singles out a person."""

    attack: Share  # Share of the attacks that single out one record of the original, with its 95 % interval
    control: Share  # The same of a record that was held out, in an original in which it had been in another's place
    risk: Share  # (attack - control) / (1 - control), with its 95 % interval
    attacks: int  # Predicates that single out a released record
    undecided: bool  # Whether successes may be chance, and chance would let the hold-out meet fewer than `_MET`

    def measurement(self, name: str, met: PredicateMatches) -> Measurement:
        """What the release gives away, of predicates on `one` or on `several` columns."""
        few = f" Fewer than {FEWEST} are found: those wanting count as failed." if self.attacks < FEWEST else ""
        note = (
            f"Of {self.attacks} predicates that one released record alone meets {100 * self.attack.value:.1f} % "
            f"are met by one {met.whom} of the original alone, and by one of the {met.held} held out in an original's "
            f"place {100 * self.control.value:.1f} %: chance alone leads to as much as 37 %.{few}"
        )
        parts = (("members", self.attack.value), ("hold-out", self.control.value))
        value, interval = self.risk.value, (self.risk.low, self.risk.high)
        sizes = self.attacks, met.rows
        return _FIGURES[name].measured(value, *sizes, interval=interval, baseline=0.0, note=note, parts=parts)


def singling_out(met: PredicateMatches) -> SinglingOut:
    """Hold predicates that one released record alone meets against the original and against held-out records.

    *The control.* Whether one record of a table meets a predicate depends on how many there are, so that held-out
    records cannot be counted like the original, which has more: of another sample of the population anonymeter, which
    fits a curve to the difference, has been seen to find a risk of 0.17 to 0.20. Here each held-out record takes the
    place of one of the original. Were m of the n records, drawn at random, replaced by the m that were held out, a
    predicate would single out one of these if one of them meets it, and all others that do were replaced: with c in the
    original, with chance q(c) = C(n-c, m-c) / C(n, m). Of a predicate that has nothing to do with the persons of the
    release the original's records and the replaced ones are equally likely to be singled out, so that n/m times the
    mean of q(c) over predicates met once has the expectation of the attack's success. With as many held-out records as
    originals it is their plain rate.

    *Which predicates.* A predicate that a random record meets with a chance of one in n singles out 37 % of the time
    whatever is released; Cohen and Nissim ask for much smaller chances. Each record is tried by the columns in which it
    is rarest, so that chance leads to little, of which few held-out records tell enough.

    *What chance can do.* A predicate that a random record meets with chance w singles out one of n with n w
    (1-w)^(n-1), which is never above (1-1/n)^(n-1), 0.37: no control is taken for larger.

    *The interval.* One predicate is taken of each released record, the first: what singles out the same outlier is
    nearly one attack. Those that single out the same person count together, in the control by Fay and Feuer's interval.

    *Units of several rows.* A predicate that rows of one unit meet, however many, and of no other, singles out the
    unit: units take the place of records in the original and the control, each meeting what one of its rows meets.
    """
    from scipy.stats import hypergeom

    n, m = met.rows, met.held
    chosen = _one_of_each(met)
    attacks = max(len(chosen), min(FEWEST, met.wanted))
    right = chosen[met.original.counts[chosen] == 1]
    each = np.unique(met.original.rows[right], return_counts=True)[1]
    attack = _clustered(each, attacks) if len(chosen) else Share(0.0, 0.0, 0.0)
    alone = chosen[met.controls.counts[chosen] == 1]
    others = met.original.counts[alone]
    weights = n / m * hypergeom.pmf(others, n, others, m)
    persons = np.unique(met.controls.rows[alone], return_inverse=True)[1].reshape(-1)
    weight_per_person = np.bincount(persons, weights).astype(np.float64)  # of none numpy counts in whole numbers
    chance = (1.0 - 1.0 / n) ** (n - 1)
    control = weighted_share(weight_per_person, n / m, attacks).at_most(chance)
    undecided = attack.value > 0.0 and attack.low <= chance and chance * attacks * m / n < _MET
    return SinglingOut(attack, control, Share(*beyond_control(attack, control)), len(chosen), undecided)


def _one_of_each(met: PredicateMatches) -> IntArray:
    """The first predicate of each released record that alone meets one, as many as wanted."""
    once = np.flatnonzero(met.released.counts == 1)
    first = np.unique(met.released.rows[once], return_index=True)[1]
    return once[np.sort(first)[: met.wanted]]


def _clustered(counts: IntArray, trials: int) -> Share:
    """A share whose successes come in clusters of these sizes: as many fewer trials as each counts for."""
    total = int(counts.sum())
    each = float((counts**2).sum()) / total if total else 1.0
    return Share(total / trials, *exact(total / each, trials / each))


def _of_release(data: AttackData) -> Measured:
    """Both sorts; those on one column are only mentioned where the hold-out cannot tell them from chance."""
    found = {name: (singling_out(met), met) for name, met in require(data.singled).items()}
    measured = {name: each.measurement(name, met) for name, (each, met) in found.items()}
    if len(found) == 2 and found["one"][0].undecided:
        few = f"On one column only {found['one'][0].attacks} such predicates exist: too few to compare with chance."
        measured["several"] = replace(measured["several"], note=f"{measured['several'].note} {few}")
        del measured["one"]
    return list(measured.values())


# A predicate that all its rows meet, and those of no other unit, singles out a unit
MEASURE = RiskMeasure("singling_out", "singling out", tuple(_FIGURES.values()), _of_release, counts_units=True)


# --- Which records meet each of many predicates: intervals of some columns, all of which hold -------------------------


@kernel
def _find_met(
    cells: FloatArray,
    orders: IntArray,
    together: IntArray,
    begins: IntArray,
    ends: IntArray,
    columns: IntArray,
    low: FloatArray,
    high: FloatArray,
    units: IntArray,
    most: int,
) -> tuple[IntArray, IntArray, IntArray]:
    """Count records (or distinct units, where these are given), by those that meet each predicate's rarest interval."""
    # Shapes: cells, orders (n_columns, n_rows); together (n_predicates,); begins, ends and others (n_predicates, size),
    # the rarest first; units (n_rows,) or (0,); returns counts and sums of row numbers (n_predicates,), and the units
    # (n_predicates, most + 1), -1 for none.
    n, size = columns.shape
    counts, rows = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    found = np.empty((n, most + 1 if len(units) else 0), dtype=np.int64)
    found[:] = -1
    second, first, stop, other = np.empty(cells.shape[1]), 0, 0, 1 % size
    for place in range(n):
        q = together[place]
        order = orders[columns[q, 0]]
        if place == stop:  # the cells of the second column in this order, for all that overlap
            first, (stop, last) = begins[q, 0], _overlap(together, place, begins, ends, columns)
            for at in range(first, last):
                second[at - first] = cells[columns[q, other], order[at]]
        for at in range(begins[q, 0], ends[q, 0]):
            value, row = second[at - first], order[at]
            if value < low[q, other] or value > high[q, other] or not _meets(cells, row, columns[q], low[q], high[q]):
                continue
            if len(units):
                if _holds(found[q], counts[q], units[row]):
                    continue
                found[q, counts[q]] = units[row]
            counts[q] += 1
            rows[q] += row
            if counts[q] > most:
                break
    return counts, rows, found


@kernel
def _overlap(together: IntArray, place: int, begins: IntArray, ends: IntArray, columns: IntArray) -> tuple[int, int]:
    """Where predicates stop that begin as one does, in the same two columns, before others end; and where these end."""
    q, stop, other = together[place], place, 1 % columns.shape[1]
    last = ends[q, 0]
    while stop < len(together) and (stop == place or begins[together[stop], 0] < last):
        p = together[stop]
        if columns[p, 0] != columns[q, 0] or columns[p, other] != columns[q, other]:
            break
        last = max(last, ends[p, 0])
        stop += 1
    return stop, last


@kernel
def _holds(numbers: IntArray, count: int, number: int) -> bool:
    """Whether a number is among the first ones."""
    for at in range(count):  # noqa: SIM110 - compiled
        if numbers[at] == number:
            return True
    return False


@kernel
def _meets(cells: FloatArray, row: int, columns: IntArray, low: FloatArray, high: FloatArray) -> bool:
    """Whether a record lies in all intervals after the second."""
    for j in range(2, len(columns)):
        value = cells[columns[j], row]
        if value < low[j] or value > high[j]:
            return False
    return True
