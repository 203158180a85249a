"""What cells hold, column by column, and what they must hold after the scan of the input.

A chunk of the staging that is gone reads as nulls, and moments of the damaged
cells agree with a release that is made of them: only the scan has seen the
input itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from anonpipe.encoding.cells import ColumnEncoder
from anonpipe.encoding.columns import Numbers, pooled
from anonpipe.encoding.scan import Scan
from anonpipe.partition.strata import Strata
from anonpipe.types import FloatArray, IntArray

_ROUNDING = 1e-11


@dataclass(frozen=True, eq=False)
class Tally:
    """What some rows hold; columns are those of the cells, in their order."""

    rows: int  # How many there are
    # n, mean, m2: of each column carried as numbers how many are there, their mean and the sum of squared deviations
    # from it; zeros for other columns
    n: FloatArray
    mean: FloatArray
    m2: FloatArray
    # Of each column carried as codes, by position, the records of each code, nulls last. A column is left out where it
    # is not known.
    codes: dict[int, IntArray]

    @classmethod
    def of(cls, cells: FloatArray, encoder: ColumnEncoder) -> Self:
        """Count cells, shape (n_rows, n_columns)."""
        width = len(encoder.names)
        n, mean, m2, codes = np.zeros(width), np.zeros(width), np.zeros(width), {}
        for position, name in enumerate(encoder.names):
            column = cells[:, position]
            if name in encoder.categories:
                missing = len(encoder.categories[name])
                found = np.where(np.isnan(column), missing, column)
                some = (found >= 0) & (found <= missing)  # others, which no scan has seen, are in no count
                codes[position] = np.bincount(found[some].astype(np.int64), minlength=missing + 1)
                continue
            values = column[~np.isnan(column)]
            n[position] = len(values)
            mean[position] = values.mean() if len(values) else 0.0
            m2[position] = np.square(values - mean[position]).sum()
        return cls(len(cells), n, mean, without_rounding(n, mean, m2), codes)

    def merge(self, other: Self) -> Self:
        """Both pieces together."""
        parts = np.stack([[self.n, self.mean, self.m2], [other.n, other.mean, other.m2]])
        n, mean, m2 = (each[0] for each in pooled(np.zeros(2, dtype=np.int64), 1, *parts.transpose(1, 0, 2)))
        known = self.codes.keys() & other.codes.keys()
        return type(self)(
            self.rows + other.rows, n, mean, m2, {at: self.codes[at] + other.codes[at] for at in sorted(known)}
        )


def expected_tallies(
    scan: Scan, encoder: ColumnEncoder, strata: Strata, by: Sequence[str]
) -> tuple[Tally, list[Tally], dict[int, IntArray]]:
    """What the routed rows of the table, and of each stratum, must hold."""
    dropped = strata.dropped > 0
    counted = [name for name in scan.counted_by if name in encoder.names]
    stratum, recoded = placed(scan, encoder, strata, by)
    parts = []
    for at, rows in enumerate(strata.rows):
        inside = stratum == at
        numbers = _numbers(scan, encoder, inside)
        codes = {encoder.names.index(name): _codes(scan, encoder, recoded, name, inside) for name in counted}
        parts.append(Tally(rows, *numbers, codes))
    kept = stratum >= 0
    numbers = _numbers(scan, encoder, kept if dropped else None)
    codes = {encoder.names.index(name): _codes(scan, encoder, recoded, name, kept) for name in counted}
    alone = {
        position: np.append(np.asarray(scan.columns[name].counts), scan.columns[name].nulls)
        for position, name in enumerate(encoder.names)
        if name in encoder.categories and name not in counted
    }
    table = Tally(sum(strata.rows), *numbers, codes if dropped else codes | alone)
    return table, parts, alone if dropped else {}


def placed(scan: Scan, encoder: ColumnEncoder, strata: Strata, by: Sequence[str]) -> tuple[IntArray, IntArray]:
    """Of each counted combination its stratum (-1: dropped), and its codes after small strata were merged."""
    if not len(scan.counted_rows):
        return np.zeros(1, dtype=np.int64), np.empty((1, 0), dtype=np.int64)
    recoded = scan.counted_codes.copy()
    index = np.zeros(len(recoded), dtype=np.int64)
    places = [scan.counted_by.index(name) for name in by]
    for place, size in zip(places, strata.sizes, strict=True):
        index = index * size + recoded[:, place]
    stratum, target = np.asarray(strata.stratum)[index], np.asarray(strata.recoded)[index]
    for place, size in reversed(list(zip(places, strata.sizes, strict=True))):
        recoded[:, place] = target % size
        target = target // size
    return stratum, recoded


def _numbers(scan: Scan, encoder: ColumnEncoder, inside: npt.NDArray[np.bool_] | None) -> Numbers:
    """How many numbers, their means and squares, of some combinations, or of the whole input; zeros for codes."""
    found = np.zeros((3, len(encoder.names)))
    for position, name in enumerate(encoder.names):
        if name in encoder.categories:
            continue
        column = scan.columns[name]
        if inside is None or not scan.counted_by:
            found[:, position] = column.values, column.mean, column.m2
        else:
            chosen = [part[inside] for part in scan.by_combination[name]]
            merged = pooled(np.zeros(len(chosen[0]), dtype=np.int64), 1, *chosen)
            found[:, position] = [float(part[0]) for part in merged]
    return found[0], found[1], without_rounding(*found)


def without_rounding(n: FloatArray, mean: FloatArray, m2: FloatArray) -> FloatArray:
    """Squared deviations, those of columns of one value exactly zero: sums of such a column leave a rest of rounding.

    Deviations under 1e-11 of the mean are rounding errors of sums, however
    these were made, and no scale to measure others by.

    Examples
    --------
    >>> without_rounding(np.array([4642.0, 4.0]), np.array([1995.99726, 2.0]), np.array([1.7e-16, 8.0])).tolist()
    [0.0, 8.0]
    """
    return np.where(m2 > n * np.square(_ROUNDING * mean), m2, 0.0)


def _codes(scan: Scan, encoder: ColumnEncoder, recoded: IntArray, name: str, inside: npt.NDArray[np.bool_]) -> IntArray:
    """Records of each code of a counted column, nulls last, in some combinations."""
    codes = recoded[inside, scan.counted_by.index(name)]
    size = len(encoder.categories[name]) + 1
    return np.bincount(codes, weights=scan.counted_rows[inside], minlength=size).astype(np.int64)
