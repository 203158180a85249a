"""A histogram of numbers that forgets in which order, and in which parts, they came: mergeable, of bounded size.

Every float has a whole number of 64 bits in the same order, its key. Numbers whose keys agree but for their lowest
bits, so many as the histogram's level, share a bin. Bins are fine where numbers are dense, and as long as there are few
distinct numbers each has a bin of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from anonpipe.encoding.values import Grid
from anonpipe.kernels.compiled import kernel
from anonpipe.kernels.points import dot, places
from anonpipe.types import BoolArray, FloatArray, IntArray

Keys = npt.NDArray[np.uint64]

MOST_BINS = 2**15  # Bins that a histogram has at most, those of all its places together: 2 MB

_SIGN = np.uint64(1 << 63)
_HIGHEST = 63  # The coarsest level: numbers below and from zero


def keys_of(values: FloatArray) -> Keys:
    """The keys of finite numbers, in whose order the numbers are; 0.0 and -0.0 have one."""
    bits = (np.asarray(values, dtype=np.float64) + 0.0).view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def values_of(keys: Keys) -> FloatArray:
    """The numbers of some keys."""
    return np.where(keys & _SIGN, keys ^ _SIGN, ~keys).view(np.float64)


@dataclass(frozen=True, eq=False)
class Radix:
    """How many numbers there are in each bin at each place (a stratum, say); bins ascend inside ascending places.

    Level and bins are a function of the numbers alone: the level is the least at which there are `MOST_BINS` bins or
    fewer. Proof: bins of a coarser level are made of whole bins of a finer one, and no part makes more bins than the
    whole. So no part's level is above that of the whole, whose bins can be put together from those of parts; below the
    highest of the parts' levels the whole makes too many bins. What a bin holds (a count, extremes, records at the
    lower, a sum modulo 2^64) is added or compared without rounding, in any order.
    """

    level: int  # Low bits of the keys that are not looked at; 63 at the most
    places: IntArray  # Of each bin, shape (n_bins,)
    counts: IntArray  # Numbers in it
    low: Keys  # The smallest key in it
    high: Keys  # The largest; the same for one value
    at_low: IntArray  # Numbers that have the smallest
    sums: Keys  # Of the keys, modulo 2^64

    @classmethod
    def of(cls, values: FloatArray, places: IntArray | None = None, most: int = MOST_BINS) -> Radix:
        """The histogram of finite numbers, each at its place."""
        keys, at = keys_of(values), np.zeros(len(values), dtype=np.int64)
        if places is None:
            keys = np.sort(keys)
        else:
            order = np.lexsort((keys, places))
            keys, at = keys[order], np.asarray(places, dtype=np.int64)[order]
        ones = np.ones(len(keys), dtype=np.int64)
        return _bins(cls(0, at, ones, keys, keys, ones, keys), most)

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
        """The histogram without some numbers at random; of a bin of several values they are taken for its mean."""
        gone = rng.multivariate_hypergeometric(self.counts, without)
        lowest = rng.hypergeometric(self.at_low, self.counts - self.at_low, gone)
        lowest = np.where(self.exact, gone, np.minimum(lowest, np.maximum(self.at_low - 1, 0)))
        keys = np.where(self.exact, self.low, keys_of(self.means))
        left = replace(
            self, counts=self.counts - gone, at_low=self.at_low - lowest, sums=self.sums - gone.astype(np.uint64) * keys
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
        """The mean of each bin."""
        # Numbers are a linear function of their keys between two powers of two, and no bin reaches further at levels up
        # to 52; in the few that are wider, or whose sum of keys may have turned over, the mean is that of the extremes.
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


# --- The distribution of a column as it may be released: values of k or more records, and means of runs of k or more --
# Nothing of fewer than k records leaves it: neither a value nor an extreme, nor a mean that one record makes up most
# of, or few that stand apart.

# How near, in parts of its distance from the run below (or above), others may come to a record's value: the p of the p
# % rule (Hundepool et al. 2012, section 4.2.2). And to the sum of fewer than k that stand apart, all others being at
# less than so many parts of their distance: a dominance rule, of 1 / 1.1 for any number below k.
DOMINANCE = 0.1
FEWEST = 3  # Records that a run has at least, where k is smaller: with the mean of two, each of them knows the other

_POINTS = 512  # Most values of a piece in `Quantiles.at_ranks`

_HEAPED, _ON_STEPS = 0.95, 0.99  # Shares of records that have a value of k records, and that lie on coarser steps
_WHOLE = 2.0**53  # Steps beyond which whole numbers of them have no exact float
_CENTURY = 36_525  # In days; how far heaps go beyond the dates, if the bounds do
_IN_EVERY_MONTH = 27  # Days after the first of a month that every month has
_LONGEST_MONTH = 31
FEW_VALUES = 12  # A column of so few values keeps the count of each, as a category does
FEW_RECORDS = 32  # An atom of fewer may lose its value where no step is declared
# Records for each block of each column, where blocks can be so few: who knows the population then has an area of 0.6
RECORDS_PER_COUNT = 8
_WINDOWS = 64  # Of equally many records, inside which the places of records are drawn
_KNOTS = 8192  # Most places that are drawn: those of ranks between lie evenly
_STEPS = 6  # Of Newton's method for the powers of blocks
TAIL = 8  # Times the records of the next block further out that a block of a tail has, at most
PENALTY = 3.0  # What a block of all records would have to add to the log-likelihood

# How far pieces leave the straight line where no step is declared, in parts of half their length
BEND = 0.01 * (math.sqrt(5.0) - 1.0) / 2.0


@dataclass(frozen=True, eq=False)
class Quantiles:
    """A quantile function of pieces that are straight, nearly so, or powers."""

    edges: IntArray  # Ranks at which pieces begin, and the number of records, shape (n_pieces + 1,)
    centres: FloatArray  # The mean of each piece: the value of an atom
    halves: FloatArray  # Half the length of each: a straight one rises from centre - half to centre + half; 0 for atoms
    coded: float  # How far top and bottom coding, and joining few records to an atom, move the mean inside the bounds
    clipped: float  # How far the bounds move the mean of all values
    # `BEND`, or 0 for straight pieces. Values that lie evenly, such as days in years, would else come back as they
    # were: means of neighbours are neighbours. An irrational part of a piece's length is none of their distances.
    bend: float = 0.0
    powers: FloatArray | None = None  # Of the share of its length that a piece has risen, about 1/2 to 2; None for 1
    seed: int | None = None  # Of the places of records in pieces (`_knots`); None where they lie evenly

    @classmethod
    def fit(
        cls,
        found: Radix,
        k: int,
        low: float = -np.inf,
        high: float = np.inf,
        *,
        stepped: bool = True,
        rng: np.random.Generator | None = None,
        limits: Sequence[float] = (),
    ) -> Quantiles:
        """Those of the values of one place, k or more.

        Values with k or more records are atoms. Those between atoms are cut into runs of k or more (`FEWEST` for
        smaller k), which have the mean of their records and rise to both sides of it by half the distance to the nearer
        neighbour: so the function ascends, and every run keeps its mean. Fewer than k between atoms count as the
        nearest atom: a mean over them and records of the atom, whose value is known, would be a mean over them alone.
        An extreme that makes up most of a run's mean is top- or bottom-coded, and so are fewer than k that do and stand
        apart (`DOMINANCE`). With a generator the means are moved at random (`_moves`). Pieces end at `limits`, on both
        sides of which there are enough records.
        """
        counts, values, atom = _atoms(found, k)
        if not len(counts):
            return cls(np.array([0, 0]), np.zeros(1), np.zeros(1), 0.0, 0.0)
        inside = np.clip(values, low, high)
        least = max(k, FEWEST)
        ends = np.unique(np.array([-np.inf, *limits, np.inf]))
        piece, is_atom = cut_runs(counts, inside, atom, least, np.searchsorted(values, ends[1:-1], side="right"))
        starts = np.append(np.flatnonzero(np.diff(piece, prepend=-1)), len(piece))
        centres, distance = run_means(counts, inside, starts, is_atom, least, DOMINANCE).T.copy()
        centres[piece[atom]] = inside[atom]
        edges = np.append(0, np.cumsum(np.add.reduceat(counts, starts[:-1])))
        above = np.searchsorted(ends[1:-1], centres) + 1
        own = np.maximum(ends[above - 1], low), np.minimum(ends[above], high)
        if rng is not None:
            centres += _moves(centres, is_atom, distance, np.diff(edges), own, rng)
        # Half the distance to the nearer neighbour, inside the bounds; 0 for atoms, and where there is no neighbour
        gaps, inner = np.diff(centres) / 2.0, np.minimum(centres - own[0], own[1] - centres)
        nearer = np.minimum(np.append(np.inf, gaps), np.append(gaps, np.inf))
        halves = np.where(is_atom, 0.0, np.maximum(np.minimum(nearer, inner), 0.0))
        if len(centres) == 1:  # a uniform distribution whose records are as far from their mean
            halves = np.maximum(np.minimum(2.0 * distance, inner), 0.0)
        coded = float((np.diff(edges) * centres).sum() - (counts * inside).sum()) / int(edges[-1])
        clipped = float((counts * (inside - values)).sum()) / int(edges[-1])
        return cls(edges, centres, halves, coded, clipped, 0.0 if stepped else BEND)

    def smoothed(
        self,
        step: float | None = None,
        columns: int = 1,
        rng: np.random.Generator | None = None,
        limits: Sequence[float] = (),
    ) -> Quantiles:
        """The same with neighbouring pieces joined into blocks where their densities differ by chance alone.

        Counts of small pieces tell members: of p columns with pieces of r records, an intruder who knows the population
        has the area Φ(sqrt(p / 2r)). Blocks are those of Scargle et al. (2013, equation 19) for pieces in place of
        events, with a penalty for blocks of few records (Dümbgen & Spokoiny 2001). A block keeps its records and their
        mean, and ends where its pieces end. Few values stay, and without a step so do atoms that tell little: of four
        records for each of the table's `columns`, or more. No block has pieces on both sides of one of the `limits`.
        """
        n = len(self.centres)
        if n < 2 or (n <= FEW_VALUES and not self.halves.any()):
            return self
        low, high = self._ends(step, columns)
        cells, widths = np.zeros(2 * n - 1, dtype=np.int64), np.zeros(2 * n - 1)  # pieces, and what is empty between
        cells[::2], widths[::2], widths[1::2] = np.diff(self.edges), high - low, np.maximum(low[1:] - high[:-1], 0.0)
        shares = widths / widths.sum()
        if not (np.isfinite(shares).all() and shares[::2].all()):  # numbers at the ends of what a float can distinguish
            return self
        ends = np.searchsorted(self.centres, limits, side="right")
        for times, tails in ((1, self._tails()), (1, []), (2, []), (4, [])):
            found = (_blocks(cells, shares, times * PENALTY) + 1) // 2
            begins = np.unique(np.concatenate([found, tails, ends])).astype(np.int64)
            begins = begins[begins < n]
            if RECORDS_PER_COUNT * columns * len(begins) <= self.rows:
                break
        joined = self._joined(begins, low, high)
        return joined if rng is None else replace(joined, bend=0.0, seed=int(rng.integers(2**63)))

    def _ends(self, step: float | None, columns: int) -> tuple[FloatArray, FloatArray]:
        """Where each piece begins and ends, atoms too: they have their step to themselves."""
        gaps = np.diff(self.centres) / 2.0
        nearer = np.minimum(np.append(np.inf, gaps), np.append(gaps, np.inf))
        if step:
            own = np.minimum(nearer, step / 2.0)
        else:  # of many records next to nothing, so that they stay atoms
            own = np.where(np.diff(self.edges) >= max(FEW_RECORDS, 4 * columns), 1e-9 * nearer, nearer)
        reach = np.where(self.halves > 0.0, self.halves, own)
        low, high = self.centres - reach, self.centres + reach
        if not step:  # no rounding brings back what lies beyond an outermost atom
            low[0] += 0.0 if self.halves[0] else reach[0]
            high[-1] -= 0.0 if self.halves[-1] else reach[-1]
        return low, high

    def _joined(self, begins: IntArray, low: FloatArray, high: FloatArray) -> Quantiles:
        """The pieces from each begin to the next as one, with their records and mean."""
        ends, counts = np.append(begins[1:], len(low)) - 1, np.diff(self.edges)
        first = self.centres[begins]
        beyond = np.add.reduceat(counts * (self.centres - first.repeat(ends - begins + 1)), begins)
        centres = first + beyond / np.add.reduceat(counts, begins)
        single = begins == ends
        below, above = centres - low[begins], high[ends] - centres
        below, above = np.minimum(below, 2.0 * above), np.minimum(above, 2.0 * below)
        return replace(
            self,
            edges=np.append(self.edges[begins], self.edges[-1]),
            centres=np.where(single, first, centres),
            halves=np.where(single, self.halves[begins], (below + above) / 2.0),
            powers=np.divide(above, below, out=np.ones(len(begins)), where=~single),
        )

    def _tails(self) -> IntArray:
        """Pieces that begin 1, 8, 64, … pieces from either end: in tails a rank moves normal scores far."""
        least = int(self.edges[1])
        ranks = least * TAIL ** np.arange(1 + int(math.log(max(1.0, self.rows / (2.0 * least)), TAIL)))
        return np.searchsorted(self.edges, np.concatenate([ranks, self.rows - ranks]))

    @property
    def rows(self) -> int:
        """Records that it is of."""
        return int(self.edges[-1])

    @property
    def mean(self) -> float:
        """Of what it releases, before rounding."""
        return float(np.diff(self.edges) @ self.centres / max(1, self.rows))

    def at_ranks(self) -> tuple[FloatArray, FloatArray]:
        """Values at its ranks, ascending, and the records that each stands for; up to `_POINTS` of a piece, evenly."""
        piece, share, points = self._points()
        return self._in_piece(piece, share), (np.diff(self.edges) / points)[piece]

    def _points(self) -> tuple[IntArray, FloatArray, IntArray]:
        """Pieces and shares of their length of evenly spaced points, and how many each piece has: 1 for an atom."""
        points = np.where(self.halves > 0.0, np.clip(np.diff(self.edges), 1, _POINTS), 1)
        piece, number = places(points)
        return piece, self._drawn(piece, (number + 0.5) / points[piece]), points

    def _drawn(self, piece: IntArray, share: FloatArray) -> FloatArray:
        """Where records at some shares (0 to 1) of the ranks of their piece lie in it."""
        if self.seed is None:
            return share
        low, high = (self._place(self.edges[side].astype(np.float64)) for side in (slice(None, -1), slice(1, None)))
        at = self._place(self.edges[piece] + share * np.diff(self.edges)[piece])
        return np.clip((at - low[piece]) / np.maximum(high - low, 1e-300)[piece], 0.0, 1.0)

    def _place(self, ranks: FloatArray) -> FloatArray:
        """Where records of some ranks lie among all."""
        scaled = ranks * ((len(self._knots) - 1) / max(1, self.rows))
        at = np.minimum(scaled.astype(np.int64), len(self._knots) - 2)
        return np.asarray(self._knots[at] + (scaled - at) * np.diff(self._knots)[at])

    @cached_property
    def _knots(self) -> FloatArray:
        """Places of evenly spaced ranks, drawn as order statistics of uniform draws in windows of many ranks."""
        # So counts of values inside a window vary as those of a sample do, and a distribution function moves by about a
        # tenth of its sampling error.
        knots = max(1, min(self.rows, _KNOTS))
        gaps = np.random.default_rng(self.seed).gamma(self.rows / knots, size=knots)
        begins = np.unique(np.arange(_WINDOWS) * knots // _WINDOWS)
        length = np.diff(np.append(begins, knots))
        return np.append(0.0, np.cumsum(gaps * np.repeat(length / np.add.reduceat(gaps, begins), length)))

    def at(self, positions: FloatArray) -> FloatArray:
        """The values at some positions from 0 to 1, shape (n,)."""
        ranks = np.clip(positions, 0.0, 1.0) * self.rows
        middles = np.rint(2.0 * ranks) / 2.0  # of positions (i - 1/2) / n, but for rounding: steps must not follow that
        ranks = np.where(np.abs(ranks - middles) < 1e-6, middles, ranks)
        piece = np.clip(np.searchsorted(self.edges, ranks, side="right") - 1, 0, len(self.centres) - 1)
        width = np.maximum(np.diff(self.edges), 1)
        return self._in_piece(piece, self._drawn(piece, (ranks - self.edges[piece]) / width[piece]))

    def _in_piece(self, piece: IntArray, share: FloatArray) -> FloatArray:
        """Values in some pieces, at a `share` (0 to 1) of their length."""
        # The bend is 0 at both ends, nowhere between at any middle of three or more equal parts, and adds up to 0 over
        # these: the mean of the piece stays, and its values ascend.
        turn = 2.0 * np.pi * share
        bent = self.bend * (np.cos(2.0 * turn) - np.cos(turn)) if self.bend else 0.0
        if self.powers is None:
            risen = 2.0 * share - 1.0
        else:
            risen = 2.0 * (share ** self._risen[piece] - self._mean_rises[piece])
        return np.asarray(self.centres[piece] + self.halves[piece] * (risen + bent))

    @cached_property
    def _mean_rises(self) -> FloatArray:
        """The mean of the shares that each piece has risen by, over its records."""
        assert self.powers is not None
        if self.seed is not None:  # see `_risen`
            return np.asarray(1.0 / (1.0 + self.powers))
        piece, share, points = self._points()
        rises = np.add.reduceat(share ** self.powers[piece], np.cumsum(points) - points)
        return np.where(self.powers == 1.0, 0.5, rises / points)

    @cached_property
    def _risen(self) -> FloatArray:
        """The powers, such that pieces keep their mean wherever their records are drawn (Newton's method)."""
        assert self.powers is not None
        powers = self.powers
        if self.seed is None:
            return powers
        piece, share, points = self._points()
        starts, logarithms = np.cumsum(points) - points, np.log(share)
        for _ in range(_STEPS):
            rises = share ** powers[piece]
            slopes = np.add.reduceat(rises * logarithms, starts)
            short = points * self._mean_rises - np.add.reduceat(rises, starts)
            powers = np.clip(powers + short / slopes, 0.25, 4.0)
        return powers


# --- What numbers lie on: a run's mean is no value between those that all records have -------------------------------


def coarsened(grid: Grid, found: Radix, k: int, dates: bool = False) -> Grid:
    """The grid with the coarser steps, or the heaps, that nearly all records lie on; `dates` may be of months."""
    found = found.moved(np.zeros(int(found.places.max(initial=0)) + 1, dtype=np.int64))  # the whole table
    often = found.exact & (found.counts >= k)  # what fewer have decides nothing
    values = found.smallest[often & (found.smallest >= grid.low) & (found.smallest <= grid.high)]
    if dates and found.total >= k and (heaps := _of_months(found, often, grid)) is not None:
        return replace(grid, heaps=np.union1d(heaps, values))
    if grid.step == 1.0 and found.total >= k and (heaps := _of_clock(found, k, grid)) is not None:
        return replace(grid, heaps=np.union1d(heaps, values), none_between=True)
    gaps, times = np.diff(values), 1
    if grid.step and len(values) > FEW_VALUES and np.ptp(values) < _WHOLE * grid.step:
        times = int(np.gcd.reduce(np.rint(gaps / grid.step).astype(np.int64)))
    if grid.step and times > 1:
        step = times * grid.step
        origin = grid.origin + float(np.fmod(values[0] - grid.origin, step))
        off = Grid(step, -np.inf, np.inf, origin).round(found.smallest) - found.smallest
        if _nearly_all(found.exact & (np.abs(off) < 1e-6 * step), found):
            grid = replace(grid, step=step, origin=origin, declared=grid)
    heaped = len(values) > 1 and found.counts[often].sum() >= _HEAPED * found.total
    return replace(grid, heaps=values) if heaped and np.median(gaps) > 1.5 * (grid.step or 0.0) else grid


def _of_months(found: Radix, often: BoolArray, grid: Grid) -> FloatArray | None:
    """The same day of all months, quarters or years, or their last one, if nearly all dates are on it; else None.

    Few of k records may be others, such as the day on which a study ended; shape of `often`: (n_bins,).
    """
    days = np.floor(found.smallest).astype(np.int64)
    whole = found.exact & (days == found.smallest)
    for later in (0, 1):  # days are counted from the first of their month, or of the next one
        months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) + later
        day = days - _first_days(months)
        most = _commonest(day, found)
        on, others = whole & (day == most), often & (day != most)
        if (later == 0 and most > _IN_EVERY_MONTH) or on.sum() < 3 or others.sum() > FEW_VALUES:
            continue
        for apart in (12, 6, 3, 2, 1):
            residue = _commonest(months % apart, found)
            if _nearly_all((on & (months % apart == residue)) | others, found):
                low, high = max(grid.low, days[0] - _CENTURY), min(grid.high, days[-1] + _CENTURY)
                ends = np.array([low, high]).astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
                every = np.arange(ends[0] // apart * apart + residue, ends[1] + 2, apart)
                heaps = (_first_days(every) + most).astype(np.float64)
                heaps = heaps[(heaps >= low) & (heaps <= high)]
                return heaps if len(heaps) > 1 else None
    return None


def _of_clock(found: Radix, k: int, grid: Grid) -> FloatArray | None:
    """Times of day, written as 1430, if nearly all whole numbers are some, of the minutes of k records; else None."""
    hours, minutes = np.divmod(found.smallest, 100.0)
    times = found.exact & (hours >= 0) & (hours <= 24) & (minutes < 60)
    several = np.count_nonzero(times) > FEW_VALUES and np.ptp(hours[times]) > 2
    if not several or minutes[times].max() <= _LONGEST_MONTH or not _nearly_all(times, found):
        return None
    often = np.flatnonzero(np.bincount(minutes[times].astype(np.int64), found.counts[times]) >= k)
    apart = int(np.gcd.reduce(often)) or 1
    apart = apart if _nearly_all(times & (minutes % apart == 0), found) else 1
    every = (100.0 * np.arange(24)[:, None] + np.arange(0, 60, apart)).ravel()
    return np.asarray(every[(every >= grid.low) & (every <= grid.high)])


def _first_days(months: IntArray) -> IntArray:
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def _commonest(numbers: IntArray, found: Radix) -> int:
    """The number that most records have."""
    return int(np.argmax(np.bincount(numbers - numbers.min(), found.counts))) + int(numbers.min())


def _nearly_all(which: BoolArray, found: Radix) -> bool:
    return bool(found.counts[which].sum() >= _ON_STEPS * found.total)


def _atoms(found: Radix, k: int) -> tuple[IntArray, FloatArray, BoolArray]:
    """Counts and values, ascending, and which of them have k records; a bin may have such a value at its low end."""
    heaped = ~found.exact & (found.at_low >= k)
    rest = found.counts - np.where(heaped, found.at_low, 0)
    others = (found.counts * found.means - np.where(heaped, found.at_low * found.smallest, 0.0)) / rest
    at = np.flatnonzero(heaped)
    counts = np.insert(rest, at, found.at_low[at])
    values = np.insert(np.where(found.exact, found.smallest, others), at, found.smallest[at])
    atom = np.insert(found.exact & (found.counts >= k), at, True)
    return counts, values, atom


def _moves(
    centres: FloatArray,
    atom: BoolArray,
    distance: FloatArray,
    records: IntArray,
    bounds: tuple[FloatArray, FloatArray],
    rng: np.random.Generator,
) -> FloatArray:
    """How far each mean is moved: uniformly, about half the standard error that the mean of such a run has."""
    # With exact means an intruder who knows all but one of the values of a run has the last. A move is at most a
    # quarter of the distance to a neighbour, so means stay in order.
    gaps = np.diff(centres)
    room = np.minimum(np.append(np.inf, gaps), np.append(gaps, np.inf))
    room = np.minimum(
        np.where(np.isinf(room), 2.0 * distance, room), 2.0 * np.minimum(centres - bounds[0], bounds[1] - centres)
    )
    most = np.maximum(room, 0.0) / np.sqrt(np.maximum(2.0 * records, 16.0))
    return np.where(atom, 0.0, rng.uniform(-1.0, 1.0, len(centres)) * most)


# --- Sorted values cut into runs of at least so many records, each with a mean that discloses nobody -----------------


@kernel
def cut_runs(
    counts: IntArray, values: FloatArray, atom: BoolArray, least: int, starts: IntArray
) -> tuple[IntArray, BoolArray]:
    """The piece that each value belongs to; counts, values (n_values,); a run begins at `starts` where two are left."""
    n = counts.shape[0]
    piece, is_atom = np.empty(n, dtype=np.int64), np.zeros(n, dtype=np.bool_)
    pieces, at = 0, 0
    while at < n:
        if atom[at]:
            is_atom[pieces] = True
            piece[at] = pieces
            pieces += 1
            at += 1
            continue
        end, there = at, 0
        while end < n and not atom[end]:
            there += counts[end]
            end += 1
        for start in starts:
            if at < start < end:
                held = counts[at:start].sum()
                if held >= least and there - held >= least:
                    there, end = held, start
                    break
        if there < least and (at > 0 or end < n):
            for each in range(at, end):
                below = end == n or (at > 0 and values[each] - values[at - 1] <= values[end] - values[each])
                piece[each] = pieces - 1 if below else pieces
            at = end
            continue
        held = 0
        while at < end:
            piece[at] = pieces
            held += counts[at]
            there -= counts[at]
            at += 1
            if held >= least and there >= least:
                pieces += 1
                held = 0
        pieces += 1
    return piece, is_atom[:pieces]


@kernel
def _apart(counts: IntArray, excess: FloatArray, width: float, fewer: int, share: float) -> int:
    """How many of the first values are of records, fewer than `fewer`, that stand apart and make up the total."""
    # Those after them have together less than `share` of what they have, which would disclose their sum. All are so far
    # out that the next, and the length of the next run, are less than `share` of it. Any run's largest records have
    # most of its excess, where its smallest is by chance at the border: without the second half k - 1 of 5 exponential
    # values would count in one table of ten.
    total = dot(counts, excess)
    held, records, found = 0.0, 0, 0
    for at in range(counts.shape[0] - 1):
        held += counts[at] * excess[at]
        records += counts[at]
        rest = total - held
        far = share * excess[at] > max(width, excess[at + 1])
        if records < fewer and far and excess[at + 1] > 0.0 and rest < share * held:
            found = at + 1
    return found


@kernel
def _capped(counts: IntArray, excess: FloatArray, width: float, fewer: int, share: float) -> float:
    """The largest excess that a run may count, by the p % rule and `_apart`; `excess` descends, none is below 0."""
    # Setting the j largest to the j-th (j = 1 changes nothing) is safe where those after the (j+1)-th have together at
    # least `share` of what the j count for: the holder of the (j+1)-th, who takes his own away, is still that far from
    # the j-th. Where no j is safe, all count as less than the smallest; where that is 0, and somebody's value, as the
    # second. Those apart count as one that is not.
    apart = _apart(counts, excess, width, fewer, share)
    total, records = dot(counts, excess), counts.sum()
    before, number = 0.0, 0
    for at in range(counts.shape[0]):
        for one in range(min(counts[at], 3)):  # what three share is as safe as it will be
            j = number + one + 1
            after = excess[at] if one + 1 < counts[at] else excess[at + 1] if at + 1 < counts.shape[0] else 0.0
            rest = total - before - (one + 1) * excess[at] - after
            if at >= apart and j <= records - 2 and rest >= share * j * excess[at]:
                return float(excess[at])
        before += counts[at] * excess[at]
        number += counts[at]
    if excess[-1] > 0.0:
        return float(excess[-1] / 2.0)
    return float(excess[max(apart, 0 if counts[0] > 1 else 1)])


@kernel
def run_means(
    counts: IntArray, values: FloatArray, starts: IntArray, atom: BoolArray, fewer: int, share: float
) -> FloatArray:
    """Mean of each run, dominant extremes coded, and mean distance of its records from it; starts (n_pieces + 1,)."""
    out = np.zeros((atom.shape[0], 2))
    for piece in range(atom.shape[0]):
        if atom[piece]:
            continue
        begin, end = starts[piece], starts[piece + 1]
        c, v = counts[begin:end], values[begin:end]
        first, last = begin == 0, end == values.shape[0]  # without a neighbour, the distance of an end is unknown
        coded = v - v[0]
        # Values from `upper` on are compared with a point below, those before `lower` with one above; less v[0], as all
        upper, lower, width, most, few = 0, end - begin, 0.0, fewer, fewer
        below, above = 0.0, 0.0
        if first and last:  # without a second run to compare widths with: most of a side are not apart
            # From the middle: an extreme at the other end would make all others look as far out as the first
            upper, lower = _median(c), _median(c) + 1
            below = above = coded[upper]
            most, few = min(fewer, (c[upper:].sum() + 1) // 2), min(fewer, (c[:lower].sum() + 1) // 2)
        if not first:
            below, width = values[begin - 1] - v[0], values[begin - 1] - values[starts[piece - 1]]
        if last or not first:
            excess = np.maximum(coded[upper:][::-1] - below, 0.0)  # the largest first
            coded = np.minimum(coded, below + _capped(c[upper:][::-1].copy(), excess, width, most, share))
        if not last:
            above, width = values[end] - v[0], values[starts[piece + 2] - 1] - values[end]
        if first or not last:
            excess = np.maximum(above - coded[:lower], 0.0)
            coded = np.maximum(coded, above - _capped(c[:lower], excess, width, few, share))
        records = c.sum()
        mean = dot(c, coded) / records
        out[piece, 0] = v[0] + mean
        out[piece, 1] = dot(c, np.abs(coded - mean)) / records
    return out


@kernel
def _median(counts: IntArray) -> int:
    """The first value up to which there are half of the records."""
    wanted, at = (counts.sum() + 1) // 2, 0
    reached = counts[0]
    while reached < wanted:
        at += 1
        reached += counts[at]
    return at


@kernel
def _blocks(counts: IntArray, widths: FloatArray, penalty: float) -> IntArray:
    """Where blocks of the most likely density begin; counts, widths (n_cells,)."""
    # Each block of m of the n records costs `penalty` and log(n / m), as there are n / m places for one of its size. A
    # begin from which no later end can be the best is not tried again (Killick et al. 2012).
    n = counts.shape[0]
    records, length = np.zeros(n + 1, dtype=np.int64), np.zeros(n + 1)
    for at in range(n):
        records[at + 1], length[at + 1] = records[at] + counts[at], length[at] + widths[at]
    most = math.log(records[n])
    best, begin = np.zeros(n + 1), np.zeros(n + 1, dtype=np.int64)
    tried, value, some = np.empty(n, dtype=np.int64), np.empty(n), 0
    for end in range(1, n + 1):
        tried[some] = end - 1
        some += 1
        best[end] = -np.inf
        for at in range(some):
            here = tried[at]
            held = records[end] - records[here]
            value[at] = best[here]
            if held > 0:
                value[at] += held * math.log(held / max(length[end] - length[here], 1e-300))
            if value[at] - penalty + 1e-6 < best[end]:  # no block costs less than the penalty; most are not looked at
                continue
            cost = penalty + most
            if held > 0:
                cost -= math.log(held)
            if value[at] - cost > best[end]:
                best[end], begin[end] = value[at] - cost, here
        left = 0
        for at in range(some):
            if value[at] + most >= best[end]:
                tried[left] = tried[at]
                left += 1
        some = left
    blocks, end = np.empty(n, dtype=np.int64), n
    number = n
    while end > 0:
        number -= 1
        end = int(begin[end])
        blocks[number] = end
    return blocks[number:]
