"""Groups out of a mixture: the most likely component of each record, repaired to k records a group.

The bound on weights bounds groups on average only; the moves of the repair are the same for every split of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from anonpipe.errors import InputError, JobError
from anonpipe.kernels.mixture import choose_moves, invert_factors, moments_by_group, most_likely, move_costs
from anonpipe.kernels.points import sort_groups
from anonpipe.methods.mixture._estimate import Mixture
from anonpipe.moments import Moments
from anonpipe.types import BoolArray, FloatArray, IntArray

_NUMBERS = 1 << 20  # Costs held at a time (8 MiB)

_FIRST_ROWS = 1 << 12  # Rows looked at first, to learn what is dear


def assign(features: FloatArray, mixture: Mixture) -> IntArray:
    """The component of the largest weight · density of each record, int64, shape (n_rows,); ties to the lower."""
    return most_likely(features, mixture.ellipsoids)


def needs(counts: IntArray, k: int) -> tuple[IntArray, IntArray]:
    """Records that each group lacks (none where it is empty), and records that each can spare; shape (n_groups,)."""
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
    """The cheapest records of a partition to move into each group that lacks some; `counts` has shape (n_groups,)."""
    # As many of each donor as it can spare and as are lacking in all: more cannot be moved, so that the choice of
    # `moves` is that of all records at hand. Memory: 40 bytes for each lacking group, times the records of these
    # donors.
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
        costs = move_costs(features, rows, labels, targets, mixture.ellipsoids)
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
    """New numbers 0, 1, ... of the groups that have records; -1 for the others."""
    kept = counts > 0
    return np.where(kept, np.cumsum(kept) - 1, -1)


def check_sizes(counts: IntArray, k: int) -> None:
    """Raise InputError where a group has records, but fewer than k."""
    under = int(((counts > 0) & (counts < k)).sum())
    if under:
        raise InputError(f"{under} of {len(counts)} groups have fewer than {k} records; repair them before synthesis")


# --- Principal components before a mixture of many columns ------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Components:
    """The directions along which a table spreads most."""

    mean: FloatArray  # Of the table, shape (width,)
    axes: FloatArray  # Orthonormal columns, by falling variance, shape (width, kept)
    variances: FloatArray  # Of the table along them, shape (kept,)
    kept: float  # Their share of the table's total variance

    def scores(self, features: FloatArray) -> FloatArray:
        """Coordinates of records along the axes, shape (n_rows, number of axes)."""
        return np.ascontiguousarray((features - self.mean) @ self.axes)


def principal_components(moments: Moments, share: float) -> Components:
    """As few principal components as hold this share of the variance."""
    # The other variance has no say in who is grouped with whom, and nothing of it is lost: `affine_maps` of the records
    # in all columns keep every group's means and covariances whole.
    if not 0 < share <= 1:
        raise JobError(f"the share of variance to keep is {share}; give a number above 0 and at most 1, such as 0.95")
    values, vectors = np.linalg.eigh(moments.scatter)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    total = values.sum()
    if not total > 0:
        return Components(moments.mean, np.ascontiguousarray(vectors[:, :1]), np.zeros(1), 1.0)
    cumulated = np.cumsum(values) / total
    positive = int((values > values[0] * len(values) * np.finfo(np.float64).eps).sum())
    number = min(int(np.searchsorted(cumulated, share * (1 - 1e-12))) + 1, positive)
    axes = vectors[:, :number]
    largest = np.abs(axes).argmax(axis=0)
    axes = axes * np.where(axes[largest, np.arange(number)] < 0, -1.0, 1.0)
    return Components(
        moments.mean, np.ascontiguousarray(axes), values[:number] / moments.n, float(cumulated[number - 1])
    )


# --- Normal records with exactly the moments of their group, for groups that span partitions --------------------------
# Every partition sums up its records, and normal draws for them (`group_statistics`); both merge. `affine_maps` makes
# of them, for each group, the map that takes the draws to the mean and scatter of the records.

_DEPENDENT = 1e-13  # Draws whose variance along some axis is under this part of the largest are dependent

_RANK = 1e-12  # Eigenvalues of a group's correlation matrix below this, times its width, count as 0

_NARROW = 1e-5  # A correlation matrix with an eigenvalue between 0 and this leaves draws of categories no room


@dataclass(frozen=True, eq=False)
class GroupStatistics:
    """Count, mean and scatter of every group."""

    counts: IntArray  # Shape (n_groups,)
    means: FloatArray  # Shape (n_groups, width); zeros for a group without records
    scatters: FloatArray  # Shape (n_groups, width, width)

    def merge(self, other: Self) -> Self:
        """Both pieces together (Chan, Golub & LeVeque 1979), group by group."""
        if self.means.shape != other.means.shape:
            raise InputError(
                f"statistics of {self.means.shape[0]} groups and {self.means.shape[1]} columns do not merge with those "
                f"of {other.means.shape[0]} and {other.means.shape[1]}; take all pieces with the same two numbers"
            )
        counts = self.counts + other.counts
        total = np.maximum(counts, 1)
        # An empty piece adds nothing, and its zeros for means must not count either.
        steps = np.where((self.counts > 0)[:, None], other.means - self.means, other.means)
        means = np.where((self.counts > 0)[:, None], self.means, 0.0) + steps * (other.counts / total)[:, None]
        weight = self.counts / total * other.counts
        scatters = self.scatters + other.scatters + np.einsum("g,gj,gh->gjh", weight, steps, steps)
        return type(self)(counts, means, scatters)

    def grown(self, groups: int) -> Self:
        """The same with more groups, which have no records here."""
        more = groups - len(self.counts)
        return type(self)(
            np.pad(self.counts, (0, more)),
            np.pad(self.means, ((0, more), (0, 0))),
            np.pad(self.scatters, ((0, more), (0, 0), (0, 0))),
        )


def group_statistics(features: FloatArray, labels: IntArray, groups: int) -> GroupStatistics:
    """Count, mean and scatter of each of `groups` groups in a partition."""
    order, starts = sort_groups(labels)
    missing = groups + 1 - len(starts)
    if missing < 0:
        raise InputError(f"there are labels above {groups - 1}, the last of {groups} groups; give the number of all")
    starts = np.concatenate([starts, np.full(missing, starts[-1])])
    means, scatters = moments_by_group(features, order, starts)
    return GroupStatistics(np.diff(starts), means, scatters)


@dataclass(frozen=True, eq=False)
class AffineMaps:
    """For each group g the map of its draws z: targets_g + matrices_g (z - origins_g)."""

    # origins, targets: means of the draws and of the records, shape (n_groups, width)
    origins: FloatArray
    targets: FloatArray
    matrices: FloatArray  # Shape (n_groups, width, width)
    ranks: IntArray  # Rank of each group's scatter, shape (n_groups,)
    # Groups whose records hardly vary in some direction, as where all but two have zeros, shape (n_groups,): draws that
    # are not normal cannot be corrected there without blowing up what they have of it
    narrow: BoolArray


def affine_maps(records: GroupStatistics, draws: GroupStatistics) -> AffineMaps:
    """Maps that give the draws of each group the mean and the scatter of its records."""
    # With the records' scatter D V Λ V' D, D their standard deviations and Λ the r positive eigenvalues, and L the
    # Cholesky factor of the scatter of the draws' first r coordinates, the map is D V Λ^½ L⁻¹ on these. r is at most
    # the records less 1, so that L exists; a constant column stays constant. Moments are met to 1e-16 times the
    # condition number of the draws' scatter: to 1e-9 of standard deviations from twice as many records as columns on.
    width = records.means.shape[1]
    scale, values, vectors, used = _principal(records, draws)
    roots = scale[:, :, None] * vectors * np.sqrt(np.where(used, values, 0.0))[:, None, :]
    # Coordinates past the rank are cut off the draws: there the factor is that of the identity.
    both = used[:, :, None] & used[:, None, :]
    factors, _, bad = invert_factors(np.where(both, draws.scatters, np.eye(width)))
    if bad.any():
        raise InputError(
            "the draws of some groups are dependent; draw from an independent generator for each partition"
        )
    matrices = np.einsum("gjm,gmh->gjh", roots, factors)
    return AffineMaps(
        draws.means, records.means, np.ascontiguousarray(matrices), used.sum(axis=1), _is_narrow(values, used)
    )


def correcting_maps(records: GroupStatistics, draws: GroupStatistics) -> AffineMaps:
    """Maps that give draws of nearly the right moments exactly those of the records, and change them little."""
    # With D, V, Λ as in `affine_maps` and M = Λ^-½ V' D⁻¹ S D⁻¹ V Λ^-½ of the draws' scatter S, the map is D V Λ^½ M^-½
    # Λ^-½ V' D⁻¹: the identity on the records' span where the draws have their scatter already. So draws that are not
    # normal, such as categories in -1 and +1, stay nearly what they are.
    scale, values, vectors, used = _principal(records, draws)
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    roots = np.sqrt(np.where(used, values, 1.0))
    down = np.where(used[:, :, None], (vectors * inverse[:, :, None] / roots[:, None, :]).transpose(0, 2, 1), 0.0)
    whitened = np.einsum("gmj,gjh,glh->gml", down, draws.scatters, down)
    # Outside the rank the identity stands, so that every matrix has a root.
    whitened += np.einsum("gm,ml->gml", ~used, np.eye(used.shape[1]))
    spread, axes = np.linalg.eigh((whitened + whitened.transpose(0, 2, 1)) / 2)
    if (spread[:, 0] <= _DEPENDENT * spread[:, -1]).any():
        raise InputError(
            "the draws of a group lie in fewer directions than its records; raise k, or mask fewer columns"
        )
    settled = np.einsum("gmr,gr,glr->gml", axes, 1.0 / np.sqrt(spread), axes)
    up = scale[:, :, None] * vectors * np.where(used, roots, 0.0)[:, None, :]
    matrices = np.einsum("gjm,gml,glh->gjh", up, settled, down)
    return AffineMaps(
        draws.means, records.means, np.ascontiguousarray(matrices), used.sum(axis=1), _is_narrow(values, used)
    )


def _is_narrow(values: FloatArray, used: BoolArray) -> BoolArray:
    return np.asarray(np.where(used, values, 1.0).min(axis=1, initial=1.0) < _NARROW)


def _principal(
    records: GroupStatistics, draws: GroupStatistics
) -> tuple[FloatArray, FloatArray, FloatArray, BoolArray]:
    """Of each group standard deviations, falling eigenvalues and vectors of the correlation, and which are positive."""
    if not np.array_equal(records.counts, draws.counts):
        raise InputError("draws and records differ in the sizes of their groups; draw with the final labels")
    width = records.means.shape[1]
    scale = np.sqrt(np.maximum(np.diagonal(records.scatters, axis1=1, axis2=2), 0.0))
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    values, vectors = np.linalg.eigh(records.scatters * inverse[:, :, None] * inverse[:, None, :])
    values, vectors = values[:, ::-1], vectors[:, :, ::-1]
    ranks = np.minimum((values > _RANK * width).sum(axis=1), np.maximum(records.counts - 1, 0))
    return scale, values, vectors, np.arange(width) < ranks[:, None]
