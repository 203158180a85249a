"""Number, mean and scatter of records, and of records in groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from anonpipe.kernels.group_moments import mean_and_scatter, within_scatter
from anonpipe.moments._merge import as_table, same_width
from anonpipe.types import FloatArray, IntArray


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
        """Both pieces together (Chan, Golub & LeVeque 1979).

        Examples
        --------
        >>> a, b = Moments.of(np.array([[0.0], [2.0]])), Moments.of(np.array([[4.0], [6.0]]))
        >>> a.merge(b).scatter.tolist()
        [[20.0]]
        """
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
        """Count the groups `order[starts[g]:starts[g + 1]]` of `features`.

        Examples
        --------
        >>> features = np.array([[0.0], [2.0], [4.0], [6.0]])
        >>> grouped = GroupedMoments.of(features, np.arange(4), np.array([0, 2, 4]))
        >>> grouped.within.tolist(), grouped.between_scatter.tolist()
        ([[4.0]], [[16.0]])
        """
        table = as_table(features)
        return cls(Moments.of(table), within_scatter(table, order, starts), len(starts) - 1)

    @classmethod
    def averaged(cls, features: FloatArray, centres: FloatArray) -> Self:
        """Moments of records whose group mean is an average over several groupings, each record a group of its own.

        `within` is the scatter that the centres lack, S_X - S_C. An average of
        projections shortens every direction, so it is positive semidefinite.

        Shapes: features, centres (n_rows, width).

        Examples
        --------
        >>> features = np.array([[0.0], [2.0], [4.0], [6.0]])
        >>> GroupedMoments.averaged(features, np.array([[1.0], [2.0], [4.0], [5.0]])).within.tolist()
        [[10.0]]
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
