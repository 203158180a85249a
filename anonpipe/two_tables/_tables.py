"""Reading two or three tables as cells of the same columns."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anonpipe.columns import Column, Kind, Role
from anonpipe.encoding.cells import ColumnEncoder
from anonpipe.encoding.scan import Scan, merge_scans, scan_batch
from anonpipe.encoding.values import is_date, is_number, is_supported, plain, plain_type
from anonpipe.errors import InputError
from anonpipe.job.model import Job
from anonpipe.propose.propose import guess_columns
from anonpipe.source import Source, opened, read_batches
from anonpipe.storage.release import place, resolve
from anonpipe.storage.versions import POINTER, VERSIONS, exists
from anonpipe.types import FloatArray, IntArray


@dataclass(frozen=True)
class Named:
    """An opened table and what it is called in messages: its path."""

    url: str
    source: Source

    @property
    def rows(self) -> int:
        """All of its rows."""
        return self.source.rows

    def type(self, name: str) -> pa.DataType:
        """Of a column, whatever its encoding."""
        return plain_type(self.source.schema.field(name).type)


@dataclass(frozen=True, eq=False)
class Tables:
    """Tables of the same columns."""

    # original, release: as they were given
    original: Named
    release: Named
    held: Named | None  # Records that the release was not made from; None for none
    columns: dict[str, Column]  # What is compared: kind, and levels where they are declared. All count as masked.
    masked: tuple[str, ...]  # Those of them whose values the release replaces, as far as that is known; else all
    sensitive: tuple[str, ...]  # Those that an intruder wants to learn, and does not know
    left_out: dict[str, str]  # Other columns of either table, and why they are not compared
    encoder: ColumnEncoder  # From columns to cells, of the categories of all tables

    @property
    def coded(self) -> list[int]:
        """Places of the columns whose cells are codes."""
        return [at for at, name in enumerate(self.encoder.names) if name in self.encoder.categories]

    def cells(self, table: Named) -> Iterator[tuple[int, FloatArray]]:
        """Position of the first row, and cells of the columns, batch by batch."""
        for first, batch in _batches(table, self.original, list(self.columns), self.columns):
            yield first, self.encoder.to_cells(batch)

    def rows(self, table: Named, *positions: IntArray) -> list[FloatArray]:
        """Cells of some rows, in the order of the table, for each of some ascending positions."""
        width = len(self.encoder.names)
        found: list[list[FloatArray]] = [[np.empty((0, width))] for _ in positions]
        for first, cells in self.cells(table):
            for each, wanted in zip(found, positions, strict=True):
                low, high = np.searchsorted(wanted, [first, first + len(cells)])
                each.append(cells[wanted[low:high] - first])
        return [np.concatenate(each) for each in found]


@contextlib.contextmanager
def open_tables(original: str, release: str, held: str | None, job: Job | None) -> Iterator[Tables]:
    """Open the tables, settle which columns are compared and as what, and see all their categories."""
    declared = None if job is None else job.columns
    urls = (original, _of_run(release), *([held] if held else []))
    with contextlib.ExitStack() as stack:
        yield _tables([Named(url, stack.enter_context(opened(url, declared))) for url in urls], job)


def _tables(given: Sequence[Named], job: Job | None) -> Tables:
    first, second, control = given[0], given[1], given[2] if len(given) > 2 else None
    known = guess_columns(first.source) if job is None else dict(job.columns)
    left_out = _left_out(first, second, known)
    names = sorted(name for name in known if name in first.source.schema.names and name not in left_out)
    if not names:
        raise InputError(f"{first.url} and {second.url} have no column in common that can be compared")
    columns = {name: _as_compared(known[name]) for name in names}
    for other in given[1:]:
        _check_types(first, other, columns)
    scan = merge_scans(
        scan_batch(batch, columns, at, []) for each in given for at, batch in _batches(each, first, names, columns)
    )
    _check_values(scan, columns)
    masked = tuple(name for name in names if job is not None and known[name].role.synthesized)
    schema = pa.schema([(name, first.type(name)) for name in names])
    encoder = ColumnEncoder.fit(schema, columns, scan)
    sensitive = tuple(name for name in names if known[name].role is Role.SENSITIVE)
    return Tables(first, second, control, columns, masked or tuple(names), sensitive, left_out, encoder)


def _of_run(url: str) -> str:
    """The current version, where the output folder of a run is given; anything else as it is."""
    where = place(url)
    if not where.filesystem.isdir(where.root) or not exists(where, POINTER):
        return url
    return f"{url.rstrip('/')}/{VERSIONS}/{os.path.basename(resolve(url).root)}"


def _as_compared(known: Column) -> Column:
    """Kind, and the order of an ordinal; other categories are those that the tables hold, declared or not."""
    return Column(kind=known.kind, levels=known.levels if known.kind is Kind.ORDINAL else None)


def _left_out(original: Named, release: Named, known: Mapping[str, Column]) -> dict[str, str]:
    """Columns that are not compared, and why."""
    before, after = original.source.schema.names, release.source.schema.names
    found = {name: "not in the original" for name in after if name not in before}
    for name in before:
        if name not in after:
            found[name] = "not in the release"
        elif name not in known:
            found[name] = "not in the job, or of too many different texts"
        elif not known[name].role.released:
            found[name] = f"its role is {known[name].role.value}"
        elif not is_supported(original.source.schema.field(name).type):
            found[name] = "of a type that has no measures"
    return found


_CODED, _DAYS = ("texts", "truth values"), ("texts", Kind.DATE)


def _what(kind: pa.DataType) -> str:
    if is_date(kind):
        return "dates"
    return "numbers" if is_number(kind) else "truth values" if pa.types.is_boolean(kind) else "texts"


def _check_types(first: Named, other: Named, columns: Mapping[str, Column]) -> None:
    for name, column in columns.items():
        if name not in other.source.schema.names:
            raise InputError(f"{other.url} does not have column {name!r}; give a table of the same columns")
        told, found = (_what(table.type(name)) for table in (first, other))
        if told != found or (told in _CODED and not column.kind.coded and (told, column.kind) != _DAYS):
            raise InputError(
                f"column {name!r} holds {told} in {first.url} and {found} in {other.url}, as kind {column.kind.value}; "
                "write both tables with one type, or correct the job"
            )


def _batches(
    table: Named, like: Named, names: Sequence[str], columns: Mapping[str, Column]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The columns in one order, codes in the type that the first table has."""
    for unit in table.source.units:
        for first, batch in read_batches(table.source, unit, names):
            arrays = [_as_type(table.url, name, plain(batch.column(name)), like.type(name), columns) for name in names]
            yield first, pa.record_batch(arrays, names=list(names))


def _as_type(url: str, name: str, array: pa.Array, kind: pa.DataType, columns: Mapping[str, Column]) -> pa.Array:
    if array.type == kind or not columns[name].kind.coded:
        return array
    try:
        return array.cast(kind)
    except pa.ArrowException:  # whose text quotes a value
        pass
    raise InputError(f"column {name!r} of {url} holds codes that are no {kind}, as they are in the original")


def _check_values(scan: Scan, columns: Mapping[str, Column]) -> None:
    for name, found in scan.columns.items():
        if found.infinite:
            raise InputError(f"column {name!r} holds {found.infinite:,} infinite values; replace them")
        if found.outside and columns[name].kind is Kind.ORDINAL:
            raise InputError(
                f"column {name!r} holds {found.outside:,} values that are not among its levels; correct them in the job"
            )
