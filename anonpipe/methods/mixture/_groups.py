"""Groups out of a mixture: the most likely component of each record, repaired to k records a group.

The bound on the weights bounds what components hold on average, not what the
most likely component of each record comes to: groups may still fall under k.
Then the records that fit nearly as well there are moved in.

Over partitions: each labels its records (`assign`) and counts them; from the
summed counts each reports its cheapest movable records (`movable`); the merged
reports decide the moves (`moves`), each partition makes its own (`relabel`),
and counts once more. The moves are the same for every split of the rows,
except between records of exactly equal cost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from anonpipe.errors import InputError, JobError
from anonpipe.kernels.mixture import choose_moves, most_likely, move_costs
from anonpipe.methods.mixture._estimate import fit, over
from anonpipe.methods.mixture._model import Mixture
from anonpipe.methods.mixture._select import SAMPLE_ROWS, evenly_spaced, select
from anonpipe.types import FloatArray, IntArray

_NUMBERS = 1 << 20  # Costs held at a time (8 MiB)

_FIRST_ROWS = 1 << 12  # Rows looked at first, to learn what is dear


def assign(features: FloatArray, mixture: Mixture) -> IntArray:
    """The component of the largest weight · density of each record, int64, shape (n_rows,); ties to the lower.

    Examples
    --------
    >>> two = Mixture(np.full(2, 0.5), np.array([[0.0], [9.0]]), np.ones((2, 1, 1)), np.full(2, np.inf))
    >>> assign(np.array([[1.0], [8.0], [4.5]]), two).tolist()
    [0, 1, 0]
    """
    return most_likely(features, *mixture.arguments)


def needs(counts: IntArray, k: int) -> tuple[IntArray, IntArray]:
    """Records that each group lacks, and records that each can spare; shape (n_groups,).

    A group without records lacks none: it is dropped (`numbering`).

    Examples
    --------
    >>> [part.tolist() for part in needs(np.array([7, 2, 0]), 3)]
    [[0, 1, 0], [4, 0, 0]]
    """
    lacking = np.where(counts > 0, np.maximum(k - counts, 0), 0)
    spare = np.maximum(counts - k, 0)
    if lacking.sum() > spare.sum():
        groups = int((counts > 0).sum())
        raise InputError(
            f"{int(counts.sum())} records do not fill {groups} groups of {k}; fit fewer components, or give a smaller k"
        )
    return lacking, spare


@dataclass(frozen=True, eq=False)
class Movable:
    """Records that may move into groups under k, and what that costs; one entry for a record and a group."""

    costs: FloatArray  # Log(weight · density) in the record's own group less that in the new one
    # targets, donors: the new group and the record's own
    targets: IntArray
    donors: IntArray
    # sources, rows: the partition and the record's number in it
    sources: IntArray
    rows: IntArray
    # Entries kept for each pair of target and donor, shape (n_groups,), by donor: what it can spare, but not more than
    # is lacking in all
    most: IntArray

    @classmethod
    def none(cls, most: IntArray) -> Self:
        """No entries."""
        empty = np.zeros(0, dtype=np.int64)
        return cls(np.zeros(0), empty, empty, empty, empty, most)

    def merge(self, other: Self) -> Self:
        """Both together, the cheapest of each pair of target and donor."""
        pairs = zip(self._columns(), other._columns(), strict=True)
        costs, targets, donors, sources, rows = (np.concatenate(pair) for pair in pairs)
        order = np.lexsort((rows, sources, costs, donors, targets))
        pair = np.stack([targets[order], donors[order]])
        new = np.ones(len(order), dtype=np.bool_)
        new[1:] = (pair[:, 1:] != pair[:, :-1]).any(axis=0)
        begins = np.flatnonzero(new)
        rank = np.arange(len(order)) - np.repeat(begins, np.diff(np.append(begins, len(order))))
        kept = order[rank < self.most[donors[order]]]
        return type(self)(costs[kept], targets[kept], donors[kept], sources[kept], rows[kept], self.most)

    def limits(self, targets: IntArray) -> FloatArray:
        """The dearest cost in each list that is full, infinite for the others; shape (n_targets, n_groups)."""
        groups = len(self.most)
        pair = np.searchsorted(targets, self.targets) * groups + self.donors
        full = np.bincount(pair, minlength=len(targets) * groups).reshape(-1, groups) >= self.most
        dearest = np.full(len(targets) * groups, -np.inf)
        np.maximum.at(dearest, pair, self.costs)
        return np.where(full, dearest.reshape(-1, groups), np.inf)

    def _columns(self) -> tuple[npt.NDArray[np.generic], ...]:
        return self.costs, self.targets, self.donors, self.sources, self.rows


def movable(
    features: FloatArray, labels: IntArray, mixture: Mixture, counts: IntArray, k: int, source: int = 0
) -> Movable:
    """The cheapest records of a partition to move into each group that lacks some.

    As many of each donor as it can spare and as are lacking in all: more cannot
    be moved, so that the choice of `moves` is that of all records at hand.
    Memory: 40 bytes for each group that lacks some, times the records of these
    donors; few, where the mixture suits the table.

    Shapes: counts (n_groups,).
    """
    lacking, spare = needs(counts, k)
    most, targets = np.minimum(spare, lacking.sum()), np.flatnonzero(lacking)
    found = Movable.none(most)
    if len(targets) == 0:
        return found
    candidates = np.flatnonzero(spare[labels] > 0)
    limits = np.full((len(targets), len(counts)), np.inf)
    low, step = 0, _FIRST_ROWS
    while low < len(candidates):
        rows = candidates[low : low + step]
        costs = move_costs(features, rows, labels, targets, *mixture.arguments)
        # Dearer than a full list of its pair: cannot be kept.
        entry, target = np.nonzero(costs <= limits[:, labels[rows]].T)
        kept = rows[entry]
        sources = np.full(len(entry), source, dtype=np.int64)
        found = found.merge(Movable(costs[entry, target], targets[target], labels[kept], sources, kept, most))
        limits = found.limits(targets)
        low, step = low + step, min(2 * step, max(1, _NUMBERS // len(targets)))
    return found


def moves(found: Movable, counts: IntArray, k: int) -> tuple[IntArray, IntArray, IntArray]:
    """Which records move where: the cheapest first, while the group lacks some and the donor can spare some."""
    lacking, spare = needs(counts, k)
    order = np.lexsort((found.rows, found.sources, found.targets, found.costs))
    sources, rows, targets = found.sources[order], found.rows[order], found.targets[order]
    records = np.unique(np.stack([sources, rows]), axis=1, return_inverse=True)[1].ravel()
    chosen = choose_moves(records, targets, found.donors[order], lacking, spare)
    return sources[chosen], rows[chosen], targets[chosen]


def relabel(labels: IntArray, moved: tuple[IntArray, IntArray, IntArray], source: int = 0) -> IntArray:
    """The labels of a partition after its own moves."""
    sources, rows, targets = moved
    new = labels.copy()
    new[rows[sources == source]] = targets[sources == source]
    return new


def numbering(counts: IntArray) -> IntArray:
    """New numbers 0, 1, ... of the groups that have records; -1 for the others.

    Examples
    --------
    >>> numbering(np.array([5, 0, 7])).tolist()
    [0, -1, 1]
    """
    kept = counts > 0
    return np.where(kept, np.cumsum(kept) - 1, -1)


def check_sizes(counts: IntArray, k: int) -> None:
    """Raise InputError where a group has records, but fewer than k."""
    under = int(((counts > 0) & (counts < k)).sum())
    if under:
        raise InputError(f"{under} of {len(counts)} groups have fewer than {k} records; repair them before synthesis")


# --- The groups of a table in memory by a mixture, from choosing it to the repaired labels ----------------------------


def repaired(features: FloatArray, mixture: Mixture, k: int) -> IntArray:
    """Groups of k or more: the most likely component of each record, then the cheapest moves.

    Examples
    --------
    >>> two = Mixture(np.full(2, 0.5), np.array([[0.0], [9.0]]), np.ones((2, 1, 1)), np.full(2, np.inf))
    >>> repaired(np.array([[0.0], [1.0], [2.0], [3.0], [8.0]]), two, 2).tolist()
    [0, 0, 0, 1, 1]
    """
    labels = assign(features, mixture)
    counts = np.bincount(labels, minlength=mixture.n_groups)
    labels = relabel(labels, moves(movable(features, labels, mixture, counts, k), counts, k))
    return numbering(counts)[labels]


def gaussian_mixture(
    features: FloatArray,
    k: int,
    *,
    rng: np.random.Generator,
    least_groups: int = 2,
    most_groups: int = 10,
    shapes: Sequence[str] = ("full", "vev"),
    rule: str = "published",
    degrees: float | None = math.inf,
) -> IntArray:
    """Group records by the most likely component of a mixture with bounded weights.

    Number and shape of the components are those of the largest BIC on an
    evenly spaced sample of 4,000 records, or on all if they are fewer; then
    the mixture is fitted to all, every record goes to its most likely
    component, and components with fewer than k records take the cheapest of
    others, by the difference of their log densities. A component that no
    record goes to is dropped.

    Shapes: features (n_rows, width).

    Notes
    -----
    The authors bound the weights, eq. 3 and 4, and say that groups then have k
    records. The bound is one on the posterior probabilities on average; the
    records that are most likely in a component can be fewer, hence the repair.

    Their table of 2,800 thyroid patients has 1,947 with all five numbers and
    the sex known and an age below 400, which is what their six clusters add up
    to. For six components the best of several starts ends in clusters of
    nearly the printed sizes; seven and eight have a larger BIC still, which
    their single start did not find.

    References
    ----------
    Oganian and Domingo-Ferrer 2017, Trans. Data Privacy 10:61-81, section 3.

    Examples
    --------
    >>> features = np.concatenate([np.arange(8.0), 100 + np.arange(8.0)])[:, None]
    >>> gaussian_mixture(features, 4, rng=np.random.default_rng(0), most_groups=2).tolist()
    [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1]
    """
    if least_groups < 1 or most_groups < least_groups:
        raise JobError(f"{least_groups} to {most_groups} components were asked for; give 1 or more, the least first")
    sample = np.ascontiguousarray(features[evenly_spaced(len(features))])
    chosen = select(
        sample,
        k,
        len(features),
        numbers=range(least_groups, most_groups + 1),
        shapes=shapes,
        rule=rule,
        degrees=degrees,
    )
    mixture = chosen.mixture
    if len(features) > SAMPLE_ROWS:
        mixture = fit(over([features]), mixture, chosen.constraints).mixture
    return repaired(features, mixture, k)
