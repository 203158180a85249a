"""Moments of columns with nulls, pair by pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from anonpipe.kernels.group_moments import cross_products
from anonpipe.moments._merge import as_table, divide, same_width
from anonpipe.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class PairwiseMoments:
    """Sums over records with nulls (NaN): each pair of columns over the rows that have both.

    Raw sums, so columns should be centred and scaled beforehand, or digits
    are lost.
    """

    rows: int  # Number of records
    n: IntArray  # Rows in which both columns are present, int64, shape (width, width)
    sums: FloatArray  # Sum of column j over the rows that also have column h, shape (width, width)
    cross: FloatArray  # Sum of products of columns j and h, shape (width, width)

    @classmethod
    def of(cls, values: FloatArray) -> Self:
        """Count `values`, shape (n_rows, width), NaN where null.

        Examples
        --------
        >>> some = PairwiseMoments.of(np.array([[1.0, np.nan], [3.0, 5.0]]))
        >>> some.n.tolist(), some.mean.tolist(), some.null_share.tolist()
        ([[2, 1], [1, 1]], [2.0, 5.0], [0.0, 0.5])
        """
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
