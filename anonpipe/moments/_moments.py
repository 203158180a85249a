"""Merging in a given order, and what the mergeable records share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

from anonpipe.errors import InputError
from anonpipe.kernels.groups import cross_products, mean_and_scatter, spread_sums, within_scatter
from anonpipe.types import FloatArray, IntArray


class _Mergeable(Protocol):
    def merge(self, other: Self) -> Self: ...


Statistic = TypeVar("Statistic", bound=_Mergeable)


def merge_all(parts: Sequence[Statistic]) -> Statistic:
    """Merge pieces in the given order."""
    if not parts:
        raise InputError("there are no moments to merge; give at least one piece")
    return reduce(lambda whole, part: whole.merge(part), parts)


def divide(a: npt.NDArray[Any], b: npt.NDArray[Any], empty: float = np.nan) -> FloatArray:
    """Divide a by b; `empty` where b is not positive."""
    result: FloatArray = np.divide(a, b, out=np.full(np.shape(a), empty), where=b > 0)
    return result


def as_table(features: FloatArray) -> FloatArray:
    """Two-dimensional `features` as float64 in C order."""
    if features.ndim != 2:
        raise InputError(f"records are given as a table of 2 dimensions, not {features.ndim}; reshape them")
    return np.ascontiguousarray(features, dtype=np.float64)


def same_width(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> None:
    """Refuse to merge statistics of different columns."""
    if a.shape != b.shape:
        raise InputError(f"moments of {len(a)} and {len(b)} columns do not merge; count the same columns everywhere")


# --- Number, mean and scatter of records, and of records in groups ----------------------------------------------------


@dataclass(frozen=True, eq=False)
class Moments:
    """Number, mean and scatter of records."""

    n: int  # Number of records
    mean: FloatArray  # Shape (width,); zeros where there are no records
    scatter: FloatArray  # Sum of outer products of the records less their mean, shape (width, width)

    @classmethod
    def of(cls, features: FloatArray) -> Self:
        """Count `features`, finite, shape (n_rows, width)."""
        mean, scatter = mean_and_scatter(as_table(features))
        return cls(len(features), mean, scatter)

    def merge(self, other: Self) -> Self:
        """Both pieces together (Chan, Golub & LeVeque 1979)."""
        same_width(self.mean, other.mean)
        n = self.n + other.n
        if self.n == 0 or other.n == 0:
            return self if other.n == 0 else other
        delta = other.mean - self.mean
        mean = self.mean + delta * (other.n / n)
        between = np.outer(delta, delta) * (self.n / n * other.n)
        return type(self)(n, mean, self.scatter + other.scatter + between)

    @property
    def covariance(self) -> FloatArray:
        """The scatter over n - 1; NaN for fewer than two records."""
        return self.scatter / (self.n - 1) if self.n > 1 else np.full_like(self.scatter, np.nan)


@dataclass(frozen=True, eq=False)
class GroupedMoments:
    """Moments of records in groups."""

    total: Moments  # Moments of all records
    within: FloatArray  # Scatter of the records about their group's mean, summed over groups, shape (width, width)
    groups: int  # Number of groups

    @classmethod
    def of(cls, features: FloatArray, order: IntArray, starts: IntArray) -> Self:
        """Count the groups `order[starts[g]:starts[g + 1]]` of `features`."""
        table = as_table(features)
        return cls(Moments.of(table), within_scatter(table, order, starts), len(starts) - 1)

    @classmethod
    def averaged(cls, features: FloatArray, centres: FloatArray) -> Self:
        """Moments of records whose group mean is an average over several groupings, each record a group of its own.

        `within` is the scatter that the centres lack, S_X - S_C. An average of projections shortens every direction, so
        it is positive semidefinite.

        Shapes: features, centres (n_rows, width).
        """
        total = Moments.of(as_table(features))
        return cls(total, total.scatter - Moments.of(as_table(centres)).scatter, len(features))

    def merge(self, other: Self) -> Self:
        """Both pieces together; no group may have records in both."""
        within = self.within + other.within
        return type(self)(self.total.merge(other.total), within, self.groups + other.groups)

    @property
    def between_scatter(self) -> FloatArray:
        """Scatter of the group means, each counted as often as its group has records."""
        return self.total.scatter - self.within


# --- How the covariances of the groups and their means lie: what standard errors, and tails beyond them, depend on ----


@dataclass(frozen=True, eq=False)
class GroupSpread:
    """Sums over groups that `limit_by_group` needs for noise with each group's own covariance.

    For each group let n be its records, u its mean less the mean of all records, W its scatter. All matrices have shape
    (width, width).
    """

    # n, mean: number and mean of all records
    n: int
    mean: FloatArray
    within: FloatArray  # Sum of W
    noise: FloatArray  # Sum of (W_jj W_hh + W_jh²) / n
    # square, product: sums of u_j² W_hh and of u_j u_h W_jh
    square: FloatArray
    product: FloatArray
    # linear, mixed: sums of u_j W_hh and of u_j W_jh; only needed to merge
    linear: FloatArray
    mixed: FloatArray
    largest: FloatArray  # Largest (√(W_jj W_hh) + |W_jh|) / 2n of a group: see `form_eigenvalue`

    @classmethod
    def of(cls, features: FloatArray, order: IntArray, starts: IntArray) -> Self:
        """Count the groups `order[starts[g]:starts[g + 1]]` of `features`."""
        grouped = GroupedMoments.of(features, order, starts)
        mean = grouped.total.mean
        return cls(grouped.total.n, mean, grouped.within, *spread_sums(as_table(features), order, starts, mean))

    def merge(self, other: Self) -> Self:
        """Both pieces together; no group may have records in both."""
        same_width(self.mean, other.mean)
        n = self.n + other.n
        mean = self.mean + (other.mean - self.mean) * (other.n / max(n, 1))
        a, b = self._about(mean), other._about(mean)
        names = ("within", "noise", "square", "product", "linear", "mixed")
        sums = {name: getattr(a, name) + getattr(b, name) for name in names}
        return type(self)(n, mean, **sums, largest=np.maximum(self.largest, other.largest))

    def _about(self, mean: FloatArray) -> Self:
        """The same sums with the groups' means taken about another point."""
        shift = self.mean - mean
        column, spread = shift[:, None], np.diag(self.within)[None, :]
        square = self.square + 2 * column * self.linear + column**2 * spread
        product = self.product + column * self.mixed.T + shift * self.mixed + column * shift * self.within
        linear = self.linear + column * spread
        mixed = self.mixed + column * self.within
        return type(self)(self.n, mean, self.within, self.noise, square, product, linear, mixed, self.largest)


# --- Which parts of a table get noise of one covariance: strata, of which small ones share theirs ---------------------

LEAST_FREE = 30  # Records beyond the groups that noise of an own covariance takes, whatever the number of columns


def least_free(width: int) -> int:
    """Records beyond the groups that noise of an own covariance takes: 30, or twice the feature columns."""
    return max(LEAST_FREE, 2 * width)


def noise_scopes(grouped: Sequence[GroupedMoments]) -> list[int]:
    """The scope of each stratum: those that share a scope share the covariance of their noise.

    A stratum of N records in G groups is a scope of its own where N - G is at least 30 and twice the number of columns.
    With fewer, the noise would lie in the span of a handful of records, and say which they are: such strata are one
    scope together, which the smallest of the others join, one by one, until there are enough.
    """
    return scopes_of([max(each.total.n - each.groups, 0) for each in grouped], len(grouped[0].total.mean))


def scopes_of(free: Sequence[int], width: int) -> list[int]:
    """The same from the records that each stratum has beyond its groups, and the number of columns."""
    least = least_free(width)
    rising = sorted(range(len(free)), key=lambda at: (free[at], at))
    shared: list[int] = []
    for at in rising:
        if free[at] >= least and (not shared or sum(free[one] for one in shared) >= least):
            break
        shared.append(at)
    keys = [-1 if at in shared else at for at in range(len(free))]
    order = list(dict.fromkeys(keys))
    return [order.index(key) for key in keys]


def together(parts: Sequence[Statistic], scopes: Sequence[int]) -> list[Statistic]:
    """Merge what was counted of the strata of each scope, in their order."""
    every = sorted(set(scopes))
    return [merge_all([part for part, own in zip(parts, scopes, strict=True) if own == scope]) for scope in every]


# --- Moments of columns with nulls, pair by pair ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PairwiseMoments:
    """Sums over records with nulls (NaN): each pair of columns over the rows that have both.

    Raw sums, so columns should be centred and scaled beforehand, or digits are lost.
    """

    rows: int  # Number of records
    n: IntArray  # Rows in which both columns are present, int64, shape (width, width)
    sums: FloatArray  # Sum of column j over the rows that also have column h, shape (width, width)
    cross: FloatArray  # Sum of products of columns j and h, shape (width, width)

    @classmethod
    def of(cls, values: FloatArray) -> Self:
        """Count `values`, shape (n_rows, width), NaN where null."""
        table = as_table(values)
        present = ~np.isnan(table)
        filled = np.where(present, table, 0.0)
        holed = np.flatnonzero(~present.all(axis=0))
        marks = np.ascontiguousarray(np.column_stack([np.ones(len(table)), present[:, holed]]))
        counts = cross_products(np.ascontiguousarray(present, dtype=np.float64), marks)
        totals = cross_products(filled, marks)
        place = np.zeros(table.shape[1], dtype=np.int64)
        place[holed] = np.arange(1, len(holed) + 1)
        n = np.rint(counts[:, place]).astype(np.int64)
        return cls(len(table), n, totals[:, place], cross_products(filled, filled))

    def merge(self, other: Self) -> Self:
        """Both pieces together."""
        same_width(self.n, other.n)
        rows = self.rows + other.rows
        return type(self)(rows, self.n + other.n, self.sums + other.sums, self.cross + other.cross)

    @property
    def mean(self) -> FloatArray:
        """Mean over each column's non-nulls, shape (width,); NaN for a column of nulls."""
        return divide(np.diag(self.sums), np.diag(self.n))

    @property
    def covariance(self) -> FloatArray:
        """Pairwise complete covariance over n - 1; NaN where fewer than two rows have both columns."""
        centred = self.cross - self.sums * divide(self.sums.T, self.n)
        return divide(centred, self.n - 1)

    @property
    def null_share(self) -> FloatArray:
        """Share of nulls in each column, shape (width,)."""
        return 1.0 - divide(np.diag(self.n), np.full(len(self.n), self.rows))
