"""The distribution of a column as it may be released: values of k or more records, and means of runs of k or more.

Nothing of fewer than k records leaves it: neither a value nor an extreme, nor
a mean that one record makes up most of, or few that stand apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from anonpipe.encoding._runs_kernel import cut_runs, run_means
from anonpipe.encoding.radix import Radix
from anonpipe.types import BoolArray, FloatArray, IntArray

# How near, in parts of its distance from the run below (or above), others may come to a record's value: the p of the p
# % rule (Hundepool et al. 2012, section 4.2.2). And to the sum of fewer than k that stand apart, all others being at
# less than so many parts of their distance: a dominance rule, of 1 / 1.1 for any number below k.
DOMINANCE = 0.1

FEWEST = 3  # Records that a run has at least, where k is smaller: the mean of two tells each of them the other

# How far pieces leave the straight line where no step is declared, in parts of half their length
BEND = 0.01 * (math.sqrt(5.0) - 1.0) / 2.0


@dataclass(frozen=True, eq=False)
class Quantiles:
    """A quantile function of pieces that are straight, or nearly so."""

    edges: IntArray  # Ranks at which pieces begin, and the number of records, shape (n_pieces + 1,)
    centres: FloatArray  # The mean of each piece: the value of an atom
    halves: FloatArray  # Half the length of each: a piece rises from centre - half to centre + half; 0 for atoms
    # How far the mean of the pieces is from that of the values inside the bounds: what drawing in extremes, and joining
    # few records to an atom, have moved
    drawn: float
    clipped: float  # How far that mean is from the one of all values
    # `BEND`, or 0 for straight pieces. Values that lie evenly, such as days in years, would else come back as they
    # were: means of neighbours are neighbours. An irrational part of a piece's length is none of their distances.
    bend: float = 0.0

    @classmethod
    def fit(
        cls, found: Radix, k: int, low: float = -np.inf, high: float = np.inf, *, stepped: bool = True
    ) -> Quantiles:
        """Those of the values of one place, k or more.

        Values with k or more records are atoms. Those between atoms are cut
        into runs of k or more (`FEWEST` for smaller k), which have the mean of their records and
        rise to both sides of it by half the distance to the nearer neighbour:
        so the function ascends, and every run keeps its mean. Fewer than k between
        atoms count as the nearest atom: a mean over them and records of the
        atom, whose value is known, would be a mean over them alone. An extreme
        that makes up most of a run's mean is drawn in, and so are fewer than k that do and stand apart (`DOMINANCE`).

        Examples
        --------
        >>> values = np.array([0, 0, 0, 1, 2, 3, 4, 5, 1e9])
        >>> found = Quantiles.fit(Radix.of(values), 3)
        >>> found.centres.tolist(), found.halves.tolist(), found.edges.tolist()
        ([0.0, 2.0, 3.5], [0.0, 0.75, 0.75], [0, 3, 6, 9])
        >>> found.at(np.array([0.1, 0.5, 1.0])).round(6).tolist()
        [0.0, 2.0, 4.25]
        """
        counts, values, atom = _atoms(found, k)
        if not len(counts):
            return cls(np.array([0, 0]), np.zeros(1), np.zeros(1), 0.0, 0.0)
        inside = np.clip(values, low, high)
        least = max(k, FEWEST)
        piece, is_atom = cut_runs(counts, inside, atom, least)
        starts = np.append(np.flatnonzero(np.diff(piece, prepend=-1)), len(piece))
        centres, distance = run_means(counts, inside, starts, is_atom, least, DOMINANCE).T.copy()
        centres[piece[atom]] = inside[atom]
        edges = np.append(0, np.cumsum(np.add.reduceat(counts, starts[:-1])))
        halves = _halves(centres, is_atom, low, high)
        if len(centres) == 1:  # a uniform distribution whose records are as far from their mean
            halves = np.maximum(np.minimum(2.0 * distance, np.minimum(centres - low, high - centres)), 0.0)
        drawn = float((np.diff(edges) * centres).sum() - (counts * inside).sum()) / int(edges[-1])
        clipped = float((counts * (inside - values)).sum()) / int(edges[-1])
        return cls(edges, centres, halves, drawn, clipped, 0.0 if stepped else BEND)

    @property
    def rows(self) -> int:
        """Records that it is of."""
        return int(self.edges[-1])

    @property
    def mean(self) -> float:
        """Of what it releases, before rounding."""
        return float(np.diff(self.edges) @ self.centres / max(1, self.rows))

    def at_ranks(self, most: int = 64) -> tuple[FloatArray, FloatArray]:
        """Values at its ranks, ascending, and the records that each stands for: of a piece at most so many, evenly.

        Examples
        --------
        >>> values, records = Quantiles.fit(Radix.of(np.array([0, 0, 0, 1, 2, 3, 4, 5, 6])), 3).at_ranks()
        >>> values.round(3).tolist(), records.tolist()
        ([0.0, 1.333, 2.0, 2.667, 4.0, 5.0, 6.0], [3.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
        """
        records = np.diff(self.edges)
        points = np.where(self.halves > 0.0, np.clip(records, 1, most), 1)
        piece = np.repeat(np.arange(len(points)), points)
        number = np.arange(len(piece)) - np.repeat(np.cumsum(points) - points, points)
        return self._in_piece(piece, (number + 0.5) / points[piece]), (records / points)[piece]

    def at(self, positions: FloatArray) -> FloatArray:
        """The values at some positions from 0 to 1, shape (n,)."""
        ranks = np.clip(positions, 0.0, 1.0) * self.rows
        middles = np.rint(2.0 * ranks) / 2.0  # of positions (i - 1/2) / n, but for rounding: steps must not follow that
        ranks = np.where(np.abs(ranks - middles) < 1e-6, middles, ranks)
        piece = np.clip(np.searchsorted(self.edges, ranks, side="right") - 1, 0, len(self.centres) - 1)
        width = np.maximum(np.diff(self.edges), 1)
        return self._in_piece(piece, (ranks - self.edges[piece]) / width[piece])

    def _in_piece(self, piece: IntArray, share: FloatArray) -> FloatArray:
        """Values in some pieces, so far (0 to 1) from where these begin.

        The bend is 0 at both ends, nowhere between at any middle of three or
        more equal parts, and adds up to 0 over these: the mean of the piece
        stays, and its values ascend.
        """
        turn = 2.0 * np.pi * share
        bent = self.bend * (np.cos(2.0 * turn) - np.cos(turn)) if self.bend else 0.0
        return np.asarray(self.centres[piece] + self.halves[piece] * (2.0 * share - 1.0 + bent))


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


def _halves(centres: FloatArray, atom: BoolArray, low: float, high: float) -> FloatArray:
    """Half the distance to the nearer neighbour, inside the bounds; 0 for atoms, and where there is no neighbour."""
    gaps = np.diff(centres) / 2.0
    nearer = np.minimum(np.append(np.inf, gaps), np.append(gaps, np.inf))
    inside = np.minimum(np.minimum(nearer, centres - low), high - centres)
    return np.where(atom, 0.0, np.maximum(inside, 0.0))
