"""One pass over the input: counts, moments, categories and a fingerprint, all mergeable.

A scan of a batch, of a unit or of the whole input has one form; merging
the parts in their order gives the whole.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from anonpipe.codec.values import as_dictionary, hashes, level_array, numbers, plain, plain_type, positions, present
from anonpipe.errors import InputError
from anonpipe.kernels.fingerprint import add_column, sum_rows
from anonpipe.schema import Column, Kind

if TYPE_CHECKING:
    from anonpipe.codec.cells import CellCodec

IntArray = npt.NDArray[np.int64]

MOST_CATEGORIES = 10_000
MOST_DUMMIES = 400
_MODULUS = 2**64


@dataclass(frozen=True, eq=False)
class ColumnScan:
    """What one column holds.

    Attributes
    ----------
    rows, nulls, infinite
        Counts; NaN counts as null.
    mean, m2
        Mean of the finite values in natural units, and the sum of squared
        deviations from it; of a column carried as codes, those of the codes.
    first, constant
        The first finite number, and whether there is no other value.
    outside
        Numbers beyond the declared bounds, or values not among the levels.
    categories, counts
        Of a column carried as codes: the distinct values in ascending order
        (or the declared levels in theirs) and the records of each; else None.
    """

    rows: int
    nulls: int
    infinite: int
    mean: float
    m2: float
    first: float
    constant: bool
    outside: int
    categories: pa.Array | None = None
    counts: IntArray | None = None

    @property
    def values(self) -> int:
        """Finite values that are there."""
        return self.rows - self.nulls - self.infinite

    @property
    def sd(self) -> float:
        """Standard deviation, with n - 1; 0 for a constant."""
        return 0.0 if self.constant or self.values < 2 else math.sqrt(self.m2 / (self.values - 1))

    @property
    def code_counts(self) -> IntArray:
        """Records of each code, the nulls last if there are any; empty for a column of numbers."""
        if self.counts is None:
            return np.empty(0, dtype=np.int64)
        return np.append(self.counts, self.nulls) if self.nulls else self.counts

    @property
    def occupied(self) -> IntArray:
        """The codes that occur, ascending."""
        return np.flatnonzero(self.code_counts)


@dataclass(frozen=True, eq=False)
class Scan:
    """What a batch, a unit or the whole input holds.

    Attributes
    ----------
    rows
        Number of records.
    fingerprint
        Two sums modulo 2^64 of the hashes of the rows, each bound to its
        place: equal for the same rows in the same order, whatever the file
        layout and the encoding.
    columns
        The released columns.
    strata_by, strata_codes, strata_rows
        Columns that make the strata, the combinations of their codes that
        occur (nulls: the number of categories), and the records of each;
        shapes (n_combinations, n_columns) and (n_combinations,).
    """

    rows: int
    fingerprint: tuple[int, int]
    columns: dict[str, ColumnScan]
    strata_by: tuple[str, ...] = ()
    strata_codes: IntArray = field(default_factory=lambda: np.empty((0, 0), dtype=np.int64))
    strata_rows: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def code_counts(self, name: str) -> IntArray:
        """Records of each code of a column, the nulls last if there are any, shape (n_codes,)."""
        return self.columns[name].code_counts

    def combination_counts(self, codec: CellCodec, names: Sequence[str]) -> IntArray:
        """Records of each combination of codes of the strata columns, in mixed radix order.

        Parameters
        ----------
        codec
            Fitted to this scan.
        names
            The strata columns, as the scan was told them.

        Returns
        -------
        numpy.ndarray
            int64, shape (product of the columns' numbers of codes,).
        """
        if tuple(names) != self.strata_by:
            raise ValueError("the scan was made for other strata columns; scan again")
        sizes = [codec.code_count(name) for name in names]
        index = np.zeros(len(self.strata_rows), dtype=np.int64)
        for position, size in enumerate(sizes):
            index = index * size + self.strata_codes[:, position]
        counts = np.zeros(math.prod(sizes), dtype=np.int64)
        np.add.at(counts, index, self.strata_rows)
        return counts

    def digest(self, schema: pa.Schema) -> str:
        """SHA-256 over content, row count, names and types of the scanned columns, in the schema's order.

        Encodings (dictionaries, large or view strings) do not change it.
        """
        content = [[name, str(plain_type(schema.field(name).type))] for name in schema.names if name in self.columns]
        text = json.dumps([self.rows, list(self.fingerprint), content])
        return hashlib.sha256(text.encode()).hexdigest()


def scan_batch(batch: pa.RecordBatch, columns: Mapping[str, Column], first_row: int, strata_by: Sequence[str]) -> Scan:
    """Scan consecutive rows.

    Parameters
    ----------
    batch
        The rows; columns that are not released are passed over.
    columns
        The job's columns.
    first_row
        Position of the first row in the whole input.
    strata_by
        Columns that make the strata.

    Raises
    ------
    InputError
        A column carried as codes has more than 10,000 categories.

    Examples
    --------
    >>> batch = pa.record_batch({"age": [30, 50, None], "sex": ["m", "f", "m"]})
    >>> columns = {"age": Column(kind="integer"), "sex": Column(kind="binary", role="kept")}
    >>> scan = scan_batch(batch, columns, 0, ["sex"])
    >>> scan.columns["age"].mean, scan.columns["age"].nulls, scan.code_counts("sex").tolist()
    (40.0, 1, [1, 2])
    """
    released = [name for name in batch.schema.names if name in columns and columns[name].role.released]
    lanes = np.zeros((batch.num_rows, 2), dtype=np.uint64)
    scans: dict[str, ColumnScan] = {}
    codes: dict[str, IntArray] = {}
    for name in released:
        array = batch.column(name)
        if columns[name].staged_as_codes:
            array = as_dictionary(array)
        add_column(lanes, *hashes(array), _seeds(name))
        if columns[name].staged_as_codes:
            scans[name], codes[name] = _scan_codes(name, array, columns[name])
        else:
            scans[name] = _scan_numbers(array, columns[name])
    sums = sum_rows(lanes, np.uint64(first_row))
    together = np.stack([codes[name] for name in strata_by], axis=1) if strata_by else np.empty((0, 0), dtype=np.int64)
    combinations, counts = _count_combinations(together, np.ones(len(together), dtype=np.int64))
    return Scan(batch.num_rows, (int(sums[0]), int(sums[1])), scans, tuple(strata_by), combinations, counts)


def _seeds(name: str) -> npt.NDArray[np.uint64]:
    """One number for each lane, from the column's name."""
    return np.frombuffer(hashlib.sha256(name.encode()).digest()[:16], dtype="<u8").astype(np.uint64)


def _scan_numbers(array: pa.Array, column: Column) -> ColumnScan:
    everything = numbers(array)
    values = everything[np.isfinite(everything)]
    nulls = int(np.isnan(everything).sum())
    mean = float(values.mean()) if len(values) else 0.0
    low, high = column.numeric_bounds
    outside = 0 if low is None else int((values < low).sum())
    outside += 0 if high is None else int((values > high).sum())
    return ColumnScan(
        rows=len(everything),
        nulls=nulls,
        infinite=len(everything) - nulls - len(values),
        mean=mean,
        m2=float(np.square(values - mean).sum()),
        first=float(values[0]) if len(values) else math.nan,
        constant=bool((values == values[:1]).all()),
        outside=outside,
    )


def _scan_codes(name: str, array: pa.Array, column: Column) -> tuple[ColumnScan, IntArray]:
    """The column's scan, and the code of each record (nulls and undeclared values: the number of categories)."""
    if column.levels is not None:
        categories = level_array(name, column.levels, array.type)
    else:
        used = np.unique(pc.drop_null(array.indices).to_numpy())
        categories = _ascending(plain(array.dictionary).take(pa.array(used)).unique().drop_null())
        _limit_categories(name, len(categories))
    codes = code_of(array, categories)
    counts = np.bincount(codes, minlength=len(categories) + 1)
    nulls = int(np.count_nonzero(~present(array)))
    return _coded_scan(categories, counts[:-1], nulls, int(counts[-1]) - nulls), codes


def code_of(array: pa.Array, categories: pa.Array) -> IntArray:
    """Position of each value among the categories; the number of categories for nulls and other values.

    Examples
    --------
    >>> code_of(pa.array(["b", None, "a"]), pa.array(["a", "b"])).tolist()
    [1, 2, 0]
    """
    array = as_dictionary(array)
    found = pc.index_in(plain(array.dictionary), value_set=categories, skip_nulls=True)
    of_values = np.append(positions(found, len(categories)), len(categories))
    return np.asarray(of_values[positions(array.indices, len(of_values) - 1)])


def _ascending(values: pa.Array) -> pa.Array:
    return values.take(pc.array_sort_indices(values))


def _limit_categories(name: str, count: int) -> None:
    if count > MOST_CATEGORIES:
        raise InputError(
            f"column {name!r} has more than {MOST_CATEGORIES:,} distinct values, too many for categories; "
            "drop it (role: dropped), coarsen it, or give it a numeric kind and role masked"
        )


def _coded_scan(categories: pa.Array, counts: IntArray, nulls: int, outside: int) -> ColumnScan:
    inside = int(counts.sum())
    codes = np.arange(len(counts))
    mean = float((codes * counts).sum() / inside) if inside else 0.0
    seen = np.flatnonzero(counts)
    return ColumnScan(
        rows=inside + nulls + outside,
        nulls=nulls,
        infinite=0,
        mean=mean,
        m2=float((np.square(codes - mean) * counts).sum()),
        first=float(seen[0]) if len(seen) else math.nan,
        constant=len(seen) <= 1,
        outside=outside,
        categories=categories,
        counts=counts.astype(np.int64),
    )


def _count_combinations(codes: IntArray, rows: IntArray) -> tuple[IntArray, IntArray]:
    if not len(codes):
        return codes, np.empty(0, dtype=np.int64)
    combinations, which = np.unique(codes, axis=0, return_inverse=True)
    counts = np.zeros(len(combinations), dtype=np.int64)
    np.add.at(counts, which.ravel(), rows)
    return combinations, counts


def merge_scans(scans: Sequence[Scan]) -> Scan:
    """The scan of all parts together, merged in the given order.

    Raises
    ------
    InputError
        There is no part, or a column has more than 10,000 categories.

    Examples
    --------
    >>> columns = {"age": Column(kind="integer")}
    >>> parts = [scan_batch(pa.record_batch({"age": part}), columns, at, []) for at, part in ((0, [1, 2]), (2, [6]))]
    >>> merge_scans(parts).columns["age"].mean
    3.0
    """
    if not scans:
        raise InputError("the input has no rows; give a table of at least k rows")
    merged = scans[0]
    for other in scans[1:]:
        merged = _merge(merged, other)
    return merged


def _merge(a: Scan, b: Scan) -> Scan:
    if a.strata_by != b.strata_by or list(a.columns) != list(b.columns):
        raise ValueError("the scans are of different columns")
    fingerprint = tuple((first + second) % _MODULUS for first, second in zip(a.fingerprint, b.fingerprint, strict=True))
    columns = {name: _merge_columns(name, a.columns[name], b.columns[name]) for name in a.columns}
    codes = np.concatenate([_recoded(part, columns) for part in (a, b)])
    combinations, counts = _count_combinations(codes, np.concatenate([a.strata_rows, b.strata_rows]))
    return Scan(a.rows + b.rows, (fingerprint[0], fingerprint[1]), columns, a.strata_by, combinations, counts)


def _recoded(part: Scan, merged: Mapping[str, ColumnScan]) -> IntArray:
    """The strata codes of a part in terms of the merged categories."""
    codes = part.strata_codes.copy()
    for position, name in enumerate(part.strata_by):
        new = code_of(part.columns[name].categories, merged[name].categories)
        codes[:, position] = np.append(new, len(merged[name].categories or ()))[codes[:, position]]
    return codes


def _merge_columns(name: str, a: ColumnScan, b: ColumnScan) -> ColumnScan:
    if a.categories is not None:
        return _merge_coded(name, a, b)
    mean, m2 = a.mean, a.m2
    values = a.values + b.values
    if b.values:
        delta = b.mean - a.mean
        mean = a.mean + delta * (b.values / values)
        m2 = a.m2 + b.m2 + delta * delta * (a.values * (b.values / values))
    return ColumnScan(
        rows=a.rows + b.rows,
        nulls=a.nulls + b.nulls,
        infinite=a.infinite + b.infinite,
        mean=mean,
        m2=m2,
        first=a.first if a.values else b.first,
        constant=a.constant and b.constant and (not a.values or not b.values or a.first == b.first),
        outside=a.outside + b.outside,
    )


def _merge_coded(name: str, a: ColumnScan, b: ColumnScan) -> ColumnScan:
    if a.categories.equals(b.categories):
        return _coded_scan(a.categories, a.counts + b.counts, a.nulls + b.nulls, a.outside + b.outside)
    categories = _ascending(pa.concat_arrays([a.categories, b.categories]).unique())
    _limit_categories(name, len(categories))
    counts = np.zeros(len(categories), dtype=np.int64)
    for part in (a, b):
        counts[code_of(part.categories, categories)] += part.counts
    return _coded_scan(categories, counts, a.nulls + b.nulls, a.outside + b.outside)


def write_scan(scan: Scan, path: str | Path) -> None:
    """Write a scan to a private file (mode 0600), whole or not at all."""
    path = Path(path)
    lists = {name: column.categories for name, column in scan.columns.items() if column.categories is not None}
    arrays = [pa.ListArray.from_arrays(pa.array([0, len(part)], pa.int32()), part) for part in lists.values()]
    content = {
        "rows": scan.rows,
        "fingerprint": list(scan.fingerprint),
        "columns": {name: _numbers_of(column) for name, column in scan.columns.items()},
        "strata": [list(scan.strata_by), scan.strata_codes.tolist(), scan.strata_rows.tolist()],
    }
    write_private(path, pa.table(arrays, names=list(lists)), {"scan": json.dumps(content)})


def _numbers_of(column: ColumnScan) -> dict[str, Any]:
    content = {name: getattr(column, name) for name in ColumnScan.__dataclass_fields__ if name != "categories"}
    return content | {"counts": None if column.counts is None else column.counts.tolist()}


def read_scan(path: str | Path) -> Scan:
    """Read what `write_scan` wrote."""
    table, metadata = read_private(Path(path))
    content = json.loads(metadata["scan"])
    columns = {}
    for name, parts in content["columns"].items():
        counts = None if parts["counts"] is None else np.array(parts["counts"], dtype=np.int64)
        categories = None if counts is None else table.column(name).chunk(0).flatten()
        columns[name] = ColumnScan(**(parts | {"counts": counts, "categories": categories}))
    by, codes, rows = content["strata"]
    lanes = content["fingerprint"]
    shaped = np.array(codes, dtype=np.int64).reshape(len(rows), len(by))
    return Scan(content["rows"], (lanes[0], lanes[1]), columns, tuple(by), shaped, np.array(rows, dtype=np.int64))


def write_private(path: Path, table: pa.Table, metadata: Mapping[str, str]) -> None:
    """An Arrow file that only its owner can read, renamed into place when complete."""
    draft = path.with_name(f".{path.name}.draft-{os.getpid()}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    table = table.replace_schema_metadata(dict(metadata))
    with os.fdopen(handle, "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    draft.replace(path)


def read_private(path: Path) -> tuple[pa.Table, dict[str, str]]:
    """Read what `write_private` wrote."""
    with pa.OSFile(str(path), "rb") as source:
        table = pa.ipc.open_file(source).read_all()
    return table, {key.decode(): value.decode() for key, value in table.schema.metadata.items()}


def point_width(column: Column, scanned: ColumnScan) -> int:
    """How many columns of points one column of the table takes; 0 where its values are not replaced.

    A number or an ordinal takes one, and one more for its nulls. A category
    takes one a category that occurs, but only one for two, and none for one.
    """
    if not column.role.synthesized:
        return 0
    if not column.kind.coded or column.kind is Kind.ORDINAL:
        return 1 + (scanned.nulls > 0)
    found = len(scanned.occupied)
    return {1: 0, 2: 1}.get(found, found)


def check_scan(scan: Scan, columns: Mapping[str, Column], k: int) -> list[str]:
    """Hold the input against the job.

    Returns
    -------
    list of str
        Warnings: names and counts, never a value.

    Raises
    ------
    InputError
        One line a problem.
    """
    problems = [] if scan.rows >= k else [f"the input has {scan.rows} rows, fewer than k={k}; lower k or add rows"]
    warnings: list[str] = []
    for name, scanned in scan.columns.items():
        problems += _problems(name, columns[name], scanned)
        warnings += _warnings(name, columns[name], scanned, k)
    dummies = sum(point_width(columns[name], part) for name, part in scan.columns.items() if part.counts is not None)
    if dummies > MOST_DUMMIES:
        problems.append(
            f"the masked categories make {dummies} columns of points, more than {MOST_DUMMIES}; "
            "drop or coarsen the columns with most categories"
        )
    if problems:
        raise InputError("\n".join(problems))
    return warnings


def _problems(name: str, column: Column, scanned: ColumnScan) -> list[str]:
    found = []
    if scanned.infinite:
        found.append(
            f"column {name!r} holds {_rows(scanned.infinite)} with an infinite value; replace them by nulls or drop it"
        )
    if column.role.synthesized and scanned.nulls == scanned.rows:
        found.append(f"column {name!r} holds nulls only, there is nothing to mask; give it role dropped")
    if column.missing == "error" and scanned.nulls:
        found.append(
            f"column {name!r} holds {_rows(scanned.nulls)} with a null, and the job says missing: error; "
            "mend the input or say missing: carry"
        )
    if column.levels is not None and scanned.outside:
        found.append(
            f"column {name!r} holds {_rows(scanned.outside)} whose value is not among its declared levels; "
            "mend the input or complete the levels"
        )
    if column.kind is Kind.BINARY and scanned.counts is not None and np.count_nonzero(scanned.counts) > 2:
        found.append(
            f"column {name!r} is declared binary and holds {np.count_nonzero(scanned.counts)} distinct values; "
            "declare it categorical or ordinal"
        )
    return found


def _warnings(name: str, column: Column, scanned: ColumnScan, k: int) -> list[str]:
    found = []
    if scanned.constant and scanned.values and not scanned.nulls:
        found.append(f"column {name!r} holds one value only: it is released as it is")
    if column.levels is None and scanned.outside:
        found.append(
            f"column {name!r} holds {_rows(scanned.outside)} outside its declared bounds; they are released inside"
        )
    if column.kind is Kind.ORDINAL and column.levels is None and pa.types.is_string(scanned.categories.type):
        found.append(f"column {name!r} is ordinal text without levels: its order is alphabetical; declare levels")
    rare = int(np.count_nonzero((scanned.code_counts > 0) & (scanned.code_counts < k)))
    if rare and column.role.unchanged:
        found.append(
            f"column {name!r} is released unchanged and has {_categories(rare)} with fewer than k={k} records: "
            "the gate on combinations of unchanged columns will fail; coarsen or mask it"
        )
    elif rare:
        found.append(f"column {name!r} has {_categories(rare)} with fewer than k={k} records; think of merging them")
    return found


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def _categories(count: int) -> str:
    return "1 category" if count == 1 else f"{count:,} categories"
