"""The nearest records of each query: exact, ties included, in parts that can be merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anonpipe.errors import InputError, JobError
from anonpipe.evaluate.risk._nearest_kernel import search_nearest
from anonpipe.evaluate.risk._nearest_scan import scan_nearest
from anonpipe.kernels.features import LARGEST
from anonpipe.types import FloatArray, IntArray

# Queries after which a tree is judged, and that it pays where one leaf in so many is looked into
_TRIAL, _USEFUL = 64, 4

# Queries from which a tree is tried: building it costs as much as scanning the points for a third of them
_BUILD = 4_000


@dataclass(frozen=True)
class Nearest:
    """The nearest records of each query, nearest first, ties by row number."""

    squared: FloatArray  # Squared distances, shape (n_queries, count); inf where there are fewer than `count` records
    rows: IntArray  # Row numbers of the records, of the same shape; -1 where there are fewer
    # The records themselves, shape (n_queries, count, width), NaN where there are fewer; None where they were not asked
    # for
    values: FloatArray | None = None

    @property
    def distances(self) -> FloatArray:
        """Euclidean distances, shape (n_queries, count)."""
        return np.sqrt(self.squared)

    def first(self, count: int) -> Nearest:
        """The `count` nearest alone."""
        values = None if self.values is None else self.values[:, :count]
        return Nearest(self.squared[:, :count], self.rows[:, :count], values)


def nearest(
    features: npt.ArrayLike,
    queries: npt.ArrayLike,
    count: int,
    *,
    offset: int = 0,
    without: npt.ArrayLike | None = None,
    values: bool = False,
) -> Nearest:
    """The `count` records of `features` that are nearest to each query, by Euclidean distance.

    Parameters
    ----------
    features
        Finite numbers, shape (n_rows, width): all records or a part of them.
    queries
        Finite numbers, shape (n_queries, width).
    count
        How many to find, 1 or more.
    offset
        Number of the first row of `features` in the whole; it is added to the
        row numbers.
    without
        For each query the number in the whole of one row that it must not
        find, such as itself, or -1; shape (n_queries,).
    values
        Whether to keep the found records too.

    Returns
    -------
    Nearest
        To put parts together, see `merge_nearest`.

    Notes
    -----
    Squares are added column by column, so that a distance has the same bits
    wherever its record stands and however the table is cut.

    All are compared with all where queries are few; otherwise a tree is built
    and given up where it does not pay, as with many columns. Both find the
    same. Time grows with n_rows · n_queries · width, or with less. Memory beside
    the result: a few hundred kilobytes, or with a tree twice that of the points.

    Raises
    ------
    InputError
        `features` or `queries` are no finite tables of the same columns.
    JobError
        `count` or `without` is not as described.

    Examples
    --------
    >>> found = nearest([[0.0], [3.0], [5.0]], [[3.0], [4.0]], 2)
    >>> found.rows.tolist(), found.distances.tolist()
    ([[1, 2], [1, 2]], [[0.0, 2.0], [1.0, 1.0]])
    """
    features, queries = table(features, "records"), table(queries, "queries")
    if features.shape[1] != queries.shape[1]:
        raise InputError(f"records have {features.shape[1]} columns and queries {queries.shape[1]}; give both the same")
    if count < 1:
        raise JobError(f"count is {count}; give 1 or more")
    own = np.full(len(queries), -1) if without is None else np.asarray(without, dtype=np.int64)
    if own.shape != (len(queries),):
        raise JobError(f"without has shape {own.shape} for {len(queries)} queries; give one row number a query")
    # A row of another part cannot be found here.
    here = np.where((own >= offset) & (own < offset + len(features)), own - offset, -1)
    rows, squared = np.empty((len(queries), count), dtype=np.int64), np.empty((len(queries), count))
    answered = 0
    if len(queries) >= _BUILD:
        answered = search_nearest(features, queries, here, rows, squared, _TRIAL, _USEFUL)
    rest = slice(answered, None)
    scan_nearest(features, queries[rest], here[rest], rows[rest], squared[rest])
    kept = _values(features, rows) if values else None
    return Nearest(squared, np.where(rows >= 0, rows + offset, -1), kept)


def _values(features: FloatArray, rows: IntArray) -> FloatArray:
    if not len(features):
        return np.full((*rows.shape, features.shape[1]), np.nan)
    return np.where(rows[..., None] >= 0, features[rows], np.nan)


def merge_nearest(parts: Sequence[Nearest], count: int | None = None) -> Nearest:
    """The nearest records of the whole from those of its parts; the order of the parts does not matter.

    Parameters
    ----------
    parts
        Results for the same queries, found with offsets so that no row number
        is in two of them.
    count
        How many to keep; as many as the longest part has where not given.

    Raises
    ------
    JobError
        There are no parts, they are of different queries, or only some hold
        values.

    Examples
    --------
    >>> left = nearest([[0.0], [3.0]], [[2.0]], 2)
    >>> right = nearest([[1.0]], [[2.0]], 2, offset=2)
    >>> merge_nearest([left, right]).rows.tolist()
    [[1, 2]]
    """
    if not parts:
        raise JobError("no parts were given to merge; give one or more")
    if len({len(part.rows) for part in parts}) > 1 or len({part.values is None for part in parts}) > 1:
        raise JobError("parts to merge must be of the same queries, all with values or all without")
    squared, rows = (
        np.concatenate(arrays, axis=1) for arrays in zip(*((p.squared, p.rows) for p in parts), strict=True)
    )
    order = np.lexsort((np.where(rows < 0, np.iinfo(np.int64).max, rows), squared), axis=1)
    order = order[:, : max(part.rows.shape[1] for part in parts) if count is None else count]
    kept = [part.values for part in parts if part.values is not None]
    return Nearest(
        np.take_along_axis(squared, order, axis=1),
        np.take_along_axis(rows, order, axis=1),
        np.take_along_axis(np.concatenate(kept, axis=1), order[..., None], axis=1) if kept else None,
    )


@dataclass(frozen=True)
class Scale:
    """Where a column's zero and unit lie, for distances in standard deviations."""

    # means, deviations: of each column, shape (width,); a deviation of 0 counts as 1
    means: FloatArray
    deviations: FloatArray

    @classmethod
    def of(cls, features: npt.ArrayLike) -> Scale:
        """Means and standard deviations (over n) of a table; exactly 0 for a constant column.

        Examples
        --------
        >>> Scale.of([[1.0, 7.0], [3.0, 7.0]]).apply([[2.0, 8.0]]).tolist()
        [[0.0, 1.0]]
        """
        features = table(features, "records")
        if not len(features):
            raise InputError("there are 0 records to take a scale from; give one or more")
        constant = (features == features[0]).all(axis=0)
        return cls(features.mean(axis=0), np.where(constant, 0.0, features.std(axis=0)))

    def apply(self, features: npt.ArrayLike) -> FloatArray:
        """Numbers of the same columns as z-scores on this scale."""
        features = table(features, "records")
        if features.shape[1] != len(self.means):
            raise InputError(f"there are {features.shape[1]} columns for a scale of {len(self.means)}; give the same")
        return (features - self.means) / np.where(self.deviations > 0, self.deviations, 1.0)


def table(features: npt.ArrayLike, name: str) -> FloatArray:
    """A finite float64 table in C order."""
    features = np.ascontiguousarray(features, dtype=np.float64)
    if features.ndim != 2 or features.shape[1] == 0:
        raise InputError(f"the {name} have shape {features.shape}; give rows and one column or more")
    if features.size and not (features.min() >= -LARGEST and features.max() <= LARGEST):
        raise InputError(f"the {name} hold NaN, infinity or numbers above 1e100 in size; fill nulls and scale first")
    return features
