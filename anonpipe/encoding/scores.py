"""Normal scores: a column carried by the ranks of its values, and released with the distribution that it had.

A value goes to its rank in its stratum, and from there to the quantile of the normal distribution. Whatever a method
makes of the scores, a released score goes to its rank among the released ones of the stratum, and from there to the
column's own quantile function (`anonpipe.encoding.quantiles`): the shape of the column does not depend on the method.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from scipy.special import ndtr, ndtri

from anonpipe.columns import Kind, Role, Rule
from anonpipe.encoding.cells import ColumnEncoder
from anonpipe.encoding.quantiles import Quantiles, Radix, coarsened
from anonpipe.encoding.rules import limits_of
from anonpipe.encoding.scan import Scan
from anonpipe.encoding.values import Grid
from anonpipe.errors import LOWER_K, InputError
from anonpipe.partition.strata import Strata
from anonpipe.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Ranks:
    """Where values stand among those that were counted, as positions from 0 to 1."""

    before: FloatArray  # Values below each bin, and all, shape (n_bins + 1,)
    at_low: FloatArray  # Values that are the smallest of each bin
    low: FloatArray  # The smallest of each
    high: FloatArray  # The largest of each
    hazards: FloatArray | None = None  # Scores of the bins of a survival time, ascending; else None. See `log_hazards`
    unit: float = 1.0  # Of these scores, in log cumulative hazards

    @classmethod
    def of(cls, found: Radix, log_hazard: LogHazard | None = None) -> Ranks:
        """The ranks of the values of one place, on the scale of the log cumulative hazard where that is given."""
        before = np.append(0, np.cumsum(found.counts)).astype(np.float64)
        scale = () if log_hazard is None else _standardised(log_hazard(found.means), found.counts)
        return cls(before, found.at_low.astype(np.float64), found.smallest, found.largest, *scale)

    @property
    def rows(self) -> float:
        """Values that were counted."""
        return float(self.before[-1])

    @property
    def constant(self) -> bool:
        """Whether there is one value only, or none."""
        return len(self.low) < 2 and bool((self.low == self.high).all())

    def positions(self, values: FloatArray, rng: np.random.Generator | None = None) -> FloatArray:
        """Positions of values, new ones between neighbours, NaN for NaN; equal ones at random, or in their middle."""
        at, equal, begin, width = self._places(values)
        share = 0.5 if rng is None else rng.random(len(values))
        shared = begin + np.where(width > 1.0, share, 0.5) * width
        low = np.append(self.low, np.inf)[at]
        span = np.append(np.where(self.high > self.low, self.high - self.low, 1.0), 1.0)[at]
        within = begin + np.clip((values - low) / span, 0.0, 1.0) * width
        ranks = np.where(equal, shared, np.where(values > low, np.maximum(within - 0.5, begin), begin))
        ranks = np.clip(ranks, 0.5, max(self.rows - 0.5, 0.5)) / max(self.rows, 1.0)
        return np.where(np.isnan(values), np.nan, ranks)

    def scores(self, values: FloatArray, rng: np.random.Generator | None = None) -> FloatArray:
        """Scores of some values, NaN for NaN; of a constant 0."""
        if self.constant:
            return np.where(np.isnan(values), np.nan, 0.0)
        positions = self.positions(values, rng)
        if self.hazards is None:
            return np.asarray(ndtri(positions))
        return np.interp(positions * self.rows, self._middles, self.hazards)  # NaN for NaN

    def _ranks_of(self, scores: FloatArray) -> FloatArray:
        if self.hazards is None:
            return np.asarray(ndtr(scores) * self.rows)
        return np.interp(scores, self.hazards, self._middles)

    @property
    def _middles(self) -> FloatArray:
        """The middle rank of each bin."""
        return np.asarray((self.before[1:] + self.before[:-1]) / 2.0)

    def sums(self, ranks: FloatArray) -> FloatArray:
        """The sum of the scores of the `ranks` lowest records, divided by the number of all records."""
        if self.hazards is None:
            return np.asarray(-np.exp(-np.square(ndtri(ranks / self.rows)) / 2.0) / np.sqrt(2.0 * np.pi))  # the density
        of_bins = np.append(0.0, np.cumsum(self.hazards * np.diff(self.before)))
        return np.asarray(np.interp(ranks, self.before, of_bins) / self.rows)

    def mean_scores(self, values: FloatArray) -> FloatArray:
        """The mean of the scores that records of each value get: what is left of them in the value, NaN for NaN."""
        if self.constant:
            return np.where(np.isnan(values), np.nan, 0.0)
        at, equal = self._places(values)[:2]
        mean = np.append(self._of_smallest, np.nan)[at]
        others = ~equal | np.isnan(values)
        mean[others] = self.scores(values[others])
        return mean

    @cached_property
    def _of_smallest(self) -> FloatArray:
        """The mean of the scores that records of the smallest value of each bin get."""
        low, high = (self.sums(edge) for edge in (self.before[:-1], self.before[:-1] + self.at_low))
        return np.asarray((high - low) * self.rows / np.maximum(self.at_low, 1.0))

    def ties(self, scores: FloatArray) -> FloatArray:
        """Rounded scores; those of one value that several records have are one number beyond all scores."""
        ranks = self._ranks_of(scores)
        at = np.clip(np.searchsorted(self.before, ranks, side="right") - 1, 0, max(len(self.at_low) - 1, 0))
        tied = (np.append(self.at_low, 0.0)[at] > 1.0) & (ranks < self.before[at] + np.append(self.at_low, 0.0)[at])
        return np.where(tied, 100.0 + at, np.round(scores, 6))

    def _places(self, values: FloatArray) -> tuple[IntArray, BoolArray, FloatArray, FloatArray]:
        """The bin of each value, whether it is its smallest, and the ranks that begin with it: from where, how many."""
        at = np.searchsorted(self.high, values, side="left")
        here = np.minimum(at, max(len(self.high) - 1, 0))
        if not len(self.high):
            return at, np.zeros(len(values), dtype=bool), np.zeros(len(values)), np.zeros(len(values))
        inside = (at == here) & (values >= self.low[here])
        equal = inside & (values == self.low[here])
        rest = self.before[here + 1] - self.before[here] - self.at_low[here]
        begin = self.before[at] + np.where(inside & ~equal, self.at_low[here], 0.0)
        return at, equal, begin, np.where(equal, self.at_low[here], np.where(inside, rest, 0.0))


# --- Survival times on the scale of the log cumulative hazard ---------------------------------------------------------
# In a model of proportional hazards the log cumulative hazard of a time is linear in the covariates, and its errors do
# not depend on them. Normal scores are not linear: masked by these, coefficients of Cox models shrink by 8 to 10 %.
# Times without event keep normal scores: they follow from dates where follow-up ends on one day.

LogHazard = Callable[[FloatArray], FloatArray]


def log_hazards(found: Radix, happened: BoolArray, k: int) -> LogHazard | None:
    """The log cumulative hazard by time (Nelson 1972, Aalen 1978) of all records; None with fewer than k events.

    `happened` says of each bin whether its times are of events. Half the hazard of the first k events is added, so that
    no single early event is far from all others.
    """
    times, at = np.unique(found.means, return_inverse=True)
    counts, events = (np.bincount(at, each) for each in (found.counts, np.where(happened, found.counts, 0)))
    at_risk = counts.sum() - np.append(0, np.cumsum(counts)[:-1])
    first = int(np.searchsorted(np.cumsum(events), k))
    if first == len(times):
        return None
    hazard = np.cumsum(events / at_risk)
    hazard = np.log(hazard + hazard[first] / 2.0)
    return lambda values: np.interp(values, times, hazard)


def _standardised(scores: FloatArray, counts: IntArray) -> tuple[FloatArray, float]:
    """Scores of mean 0 and variance 1, and their unit."""
    centred = scores - np.average(scores, weights=counts)
    unit = float(np.sqrt(np.average(np.square(centred), weights=counts))) or 1.0
    return centred / unit, unit


@dataclass(frozen=True, eq=False)
class ScoredColumn:
    """A column that is carried by normal scores."""

    name: str  # The column
    position: int  # Where it stands among the cells
    grid: Grid  # The values that may be released
    status: int | None  # Where the survival status stands by which a survival time is ranked; None for none
    classes: IntArray  # Those ranked together, by stratum and code of the status, shape (n_strata, n_codes)
    ranks: tuple[Ranks, ...]  # Of each class
    quantiles: tuple[Quantiles, ...]  # Likewise
    outliers: int = 0  # Records further from all released values than the range of these: top-coded, or in a mean of k

    @property
    def moved(self) -> tuple[float, float]:
        """How far top and bottom coding, and the bounds, move the mean, before rounding and whatever is drawn."""
        coded, clipped = (
            sum(each.rows * getattr(each, what) for each in self.quantiles) / max(1, self.rows)
            for what in ("coded", "clipped")
        )
        return coded, clipped

    @cached_property
    def released_moments(self) -> tuple[float, float]:
        """Mean and standard deviation (n - 1 in its denominator) of what is released, whatever is drawn."""
        # The n released scores of a class take the positions (i - 1/2) / n, each once. Which record gets which value is
        # drawn, and the values are not. What remains are records that are to be alike and share the middle of their
        # positions, and pieces of more points than are looked at here.
        values, records = map(np.concatenate, zip(*(each.at_ranks() for each in self.quantiles), strict=True))
        values, n = self.grid.round(values), max(1.0, float(records.sum()))
        mean = float(values @ records / n)
        return mean, float(np.sqrt(np.square(values - mean) @ records / max(1.0, n - 1.0)))

    def released_scores(self, strata: Sequence[int] | None = None) -> tuple[float, float, float]:
        """Mean and variance of the released values' mean scores, and their covariance with the released scores."""
        # In some strata or all; see `Ranks.mean_scores`. All three are known before any draw, as the release has as
        # many records of each value as the quantile function. Means of k or more records lie nearer to each other than
        # the scores of their ranks, above all those of few records.
        chosen = range(len(self.ranks)) if strata is None else np.unique(self.classes[list(strata)])
        of_values, own, records = [], [], []
        for at in chosen:
            values, counts = self.quantiles[at].at_ranks()
            ranks, released = self.ranks[at], float(max(1.0, counts.sum()))
            ends = ranks.sums(np.append(0.0, np.minimum(np.cumsum(counts) / released, 1.0)) * ranks.rows)
            of_values.append(ranks.mean_scores(self.grid.round(values)))
            own.append(np.diff(ends) * counts.sum() / np.maximum(counts, 1e-300))
            records.append(counts)
        means, own_all, weights = map(np.concatenate, (of_values, own, records))
        shares = weights / max(1.0, weights.sum())
        mean = float(means @ shares)
        centred = (means - mean) * weights / max(1.0, weights.sum() - 1.0)
        return mean, float(centred @ means), float(centred @ own_all)

    @property
    def rows(self) -> int:
        """Records that have a value."""
        return sum(each.rows for each in self.quantiles)

    def classes_of(self, cells: FloatArray, stratum: IntArray) -> IntArray:
        """The class of each record, shape (n_rows,)."""
        code = np.zeros(len(cells), dtype=np.int64) if self.status is None else cells[:, self.status].astype(np.int64)
        return np.asarray(self.classes[np.maximum(stratum, 0), code])

    def scores(
        self, values: FloatArray, cells: FloatArray, stratum: IntArray, rng: np.random.Generator | None = None
    ) -> FloatArray:
        """Scores of values, some of them filled ones; without `rng` the mean of the scores of equal values is used."""
        which, out = self.classes_of(cells, stratum), np.empty(len(values))
        for at, inside in _each(which):
            ranks, given = self.ranks[at], values[inside]
            out[inside] = ranks.mean_scores(given) if rng is None else ranks.scores(given, rng)
        return out

    def mean_scores(self, positions: FloatArray, at: int) -> FloatArray:
        """Mean scores of the values at some positions (0 to 1) of a class."""
        return self.ranks[at].mean_scores(self.grid.round(self.quantiles[at].at(positions)))

    def released(
        self, scores: FloatArray, which: IntArray, found: Radix, rng: np.random.Generator | None
    ) -> FloatArray:
        """Values of released scores, of which those of all records of each class were counted; NaN for NaN."""
        out = np.empty(len(scores))
        for at, inside in _each(which):
            positions = Ranks.of(found.at(at)).positions(scores[inside], rng)
            out[inside] = np.where(np.isnan(positions), np.nan, self.quantiles[at].at(np.nan_to_num(positions)))
        return self.grid.round(out)


def _each(which: IntArray) -> list[tuple[int, IntArray]]:
    """The classes that occur, and the rows of each."""
    order = np.argsort(which, kind="stable")
    first = np.flatnonzero(np.diff(which[order], prepend=-1))
    return list(zip(which[order][first].tolist(), np.split(order, first[1:]), strict=True)) if len(which) else []


@dataclass(frozen=True, eq=False)
class Counted:
    """What was counted of released scores, of each column that has them; `merge` adds those of another part."""

    columns: tuple[Radix, ...]  # Of each column, its places being classes

    def merge(self, other: Counted) -> Counted:
        """Both parts together."""
        return Counted(tuple(a.merge(b) for a, b in zip(self.columns, other.columns, strict=True)))


Thin = Callable[[Radix, str, int], Radix]  # The values of a column and class without those that are left out
Draws = Callable[[str, int], np.random.Generator]  # The generator of a column and class


@dataclass(frozen=True, eq=False)
class Scores:
    """All columns of a table that are carried by normal scores, and the strata inside which they are ranked."""

    columns: tuple[ScoredColumn, ...]
    strata: Strata

    @classmethod
    def fit(
        cls,
        cells: ColumnEncoder,
        scan: Scan,
        strata: Strata,
        k: int,
        minimum: str = "",
        thin: Thin | None = None,
        draws: Draws | None = None,
        least: Sequence[int] = (),
        rules: Sequence[Rule] = (),
        hazards: bool = False,
    ) -> Scores:
        """The scores of a scanned table, survival times by event where they were counted by status.

        `minimum` names k in messages. Quantile functions are of what `thin` leaves; `draws` places their records.
        `least` is k of each stratum, where strata differ. As many released records as original ones are on either side
        of what conditions among `rules` compare a column with: others would have to be repaired. With `hazards` the
        scores of times of events, in strata by status, are log cumulative hazards.
        """
        scored = [name for name in cells.names if name in scan.scored]
        of_strata = np.array(least or [k] * len(strata.rows))
        found = [
            _fitted(name, cells, scan, strata, k, minimum or f"k={k}", thin, draws, of_strata, rules, hazards)
            for name in scored
        ]
        return cls(tuple(found), strata)

    def by_position(self) -> Mapping[int, ScoredColumn]:
        """The columns by where they stand among the cells."""
        return {each.position: each for each in self.columns}

    def count(self, released: FloatArray, without: Sequence[int] = ()) -> Counted:
        """Count released scores, cells of which some columns (`without`) hold values already."""
        stratum = self.strata.assign(released)
        found = []
        for each in self.columns:
            there = ~np.isnan(released[:, each.position]) & (each.position not in without)
            which = each.classes_of(released, stratum)
            found.append(Radix.of(released[there, each.position], which[there]))
        return Counted(tuple(found))

    def ties(
        self, original: FloatArray, released: FloatArray, without: Sequence[int] = ()
    ) -> tuple[FloatArray, FloatArray]:
        """Cells of records before and after a method, in which equal numbers are unchanged ones."""
        # An unchanged score is decoded to a mean of k values, so that values cannot show that its record is still that
        # of one person. So scores are compared, those of one value being equal.
        stratum, original, released = self.strata.assign(original), original.copy(), released.copy()
        for each in self.columns:
            if each.position not in without:
                for at, inside in _each(each.classes_of(original, stratum)):
                    ranks, cells = each.ranks[at], (inside, each.position)
                    original[cells] = ranks.ties(ranks.scores(original[cells]))
                    released[cells] = ranks.ties(released[cells])
        return original, released

    def put_values(
        self, released: FloatArray, counted: Counted, rng: np.random.Generator | None, without: Sequence[int] = ()
    ) -> None:
        """Put values in the place of released scores; equal scores get different values only with a generator."""
        stratum = self.strata.assign(released)
        for each, found in zip(self.columns, counted.columns, strict=True):
            if each.position not in without:
                which = each.classes_of(released, stratum)
                released[:, each.position] = each.released(released[:, each.position], which, found, rng)


def _fitted(
    name: str,
    cells: ColumnEncoder,
    scan: Scan,
    strata: Strata,
    k: int,
    minimum: str,
    thin: Thin | None,
    draws: Draws | None,
    of_strata: IntArray,
    rules: Sequence[Rule],
    hazards: bool,
) -> ScoredColumn:
    position = cells.names.index(name)
    codes = {each: scan.scored_codes[:, at] for at, each in enumerate(scan.scored_by)}
    index = np.zeros(len(scan.scored_codes), dtype=np.int64)
    for at, size in zip(strata.positions, strata.sizes, strict=True):
        index = index * size + codes[cells.names[at]]
    stratum = np.asarray(strata.stratum, dtype=np.int64)[index]
    status, happened = None, np.zeros(1, dtype=np.int64)
    if cells.columns[position].role is Role.SURVIVAL_TIME:  # ranked by the status, if the scan has counted by that
        roles = enumerate(zip(cells.names, cells.columns, strict=True))
        known = (at for at, (each, column) in roles if column.role is Role.SURVIVAL_STATUS and each in codes)
        status = next(known, None)
    if status is not None:
        happened = cells.event_codes(status)
    code = np.zeros(len(index), dtype=np.int64) if status is None else codes[cells.names[status]]
    outcomes = max(2, int(happened.max()) + 1)
    fine = np.arange(len(strata.rows))[:, None] * outcomes + happened  # of each stratum and code
    place = np.where(stratum < 0, -1, fine[np.maximum(stratum, 0), np.minimum(code, len(happened) - 1)])
    found = scan.scored[name].moved(place)
    by_time = None
    if hazards and status is not None and status in strata.positions:
        by_time = log_hazards(found, found.places % outcomes > 0, k)
    rows = np.bincount(found.places, found.counts, outcomes * len(strata.rows))
    classes = _joined(rows, of_strata, k, outcomes)
    if classes is None:
        spike = next((rule for rule in rules if rule.kind == "spike" and rule.gap == name), None)
        remedy = f"give it role dropped, or {LOWER_K}" if spike is None else f"remove spike from {spike.target!r}"
        raise InputError(f"column {name!r} has fewer than {minimum} values; {remedy}")
    (joined, least), grid = classes, cells.grid(position)
    found = found.moved(joined)
    # 0 is a bound where no value is on its other side: an outermost run may reach beyond its values
    low = max(grid.low, 0.0) if (found.smallest >= 0.0).all() else grid.low
    high = min(grid.high, 0.0) if (found.largest <= 0.0).all() else grid.high
    each = [found.at(at) for at in range(int(joined.max()) + 1)]
    kept = each if thin is None else [thin(one, name, at) for at, one in enumerate(each)]
    grid = coarsened(grid, reduce(Radix.merge, kept), k, cells.columns[position].kind is Kind.DATE)
    died = np.bincount(joined, np.where(np.arange(len(rows)) % outcomes > 0, rows, 0))
    of_events = 2 * died > np.bincount(joined, rows)
    keyed = (None if draws is None else draws(f"means {name}", at) for at in range(len(kept)))
    limits, stepped = [grid.end(*limit) for limit in limits_of(rules, name)], grid.step is not None
    quantiles = tuple(
        Quantiles.fit(one, few, low, high, stepped=stepped, rng=rng, limits=limits).smoothed(
            grid.step, len(scan.scored), rng, limits
        )
        for one, few, rng in zip(kept, least, keyed, strict=True)
    )
    return ScoredColumn(
        name,
        position,
        grid,
        status,
        joined[fine],
        tuple(Ranks.of(one, by_time if events else None) for one, events in zip(each, of_events, strict=True)),
        quantiles,
        _outliers(each, quantiles, grid),
    )


def _outliers(found: Sequence[Radix], released: Sequence[Quantiles], grid: Grid) -> int:
    """See `ScoredColumn.outliers`; values outside the bounds count as these."""
    ends = [(float((q.centres - q.halves).min()), float((q.centres + q.halves).max())) for q in released if q.rows]
    least, most = min(low for low, _ in ends), max(high for _, high in ends)
    width = most - least
    if width <= 0.0:
        return 0
    outside = 0
    for one in found:
        above = np.minimum(one.smallest, grid.high) - most > width
        below = least - np.maximum(one.largest, grid.low) > width
        outside += int(one.counts[above | below].sum())
    return outside


def _joined(
    rows: FloatArray | IntArray, of_strata: IntArray, k: int, outcomes: int
) -> tuple[IntArray, list[int]] | None:
    """The class of each stratum and outcome, and k of each class; None where all together are few."""
    # Few values join their stratum's most frequent outcome, or the largest class. A class of several strata needs the
    # table's k; where that leaves it with too few, there is one class.
    of_stratum, places = rows.reshape(-1, outcomes), np.arange(len(rows))
    most = places[::outcomes, None] + of_stratum.argmax(axis=1, keepdims=True)
    own = np.where(of_stratum < of_strata[:, None], most, places.reshape(-1, outcomes)).ravel()
    sums = np.bincount(own, rows, len(rows))
    if sums.sum() < k:
        return None
    own = np.where(sums[own] < of_strata[own // outcomes], int(np.argmax(sums)), own)
    joined = np.unique(own, return_inverse=True)[1].reshape(-1)
    there = [np.unique(places[(joined == at) & (rows > 0)] // outcomes) for at in range(int(joined.max()) + 1)]
    least = [int(of_strata[strata[0]]) if len(strata) == 1 else k for strata in there]
    if (np.bincount(joined, rows) < least).any():
        return np.zeros_like(joined), [k]
    return joined, least
