"""The input as an immutable description: its files, their units of work, and its schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class Unit:
    """A run of consecutive rows that one task reads.

    Attributes
    ----------
    index
        Its number, in the order of the rows.
    path
        The file's local path or URL.
    format
        `parquet`, `csv`, or `statistics` for SPSS, Stata and SAS.
    row_groups
        The file's row groups in it, for Parquet.
    first_row, rows
        Where it begins in the whole input, and its number of rows.
    keys
        Texts of the columns that the file's folders name; see `Source.keys`.
    """

    index: int
    path: str
    format: str
    row_groups: tuple[int, ...]
    first_row: int
    rows: int
    keys: tuple[str | None, ...] = ()


@dataclass(frozen=True)
class Labels:
    """What a file of SPSS, Stata or SAS says of a column.

    Attributes
    ----------
    text
        What the column is; empty for nothing.
    codes
        Of a column that is read as its labels, the value that each label stands for.
    """

    text: str = ""
    codes: Mapping[str, float | str] = field(default_factory=dict)


@dataclass(frozen=True)
class Source:
    """An input that was opened and found readable.

    Attributes
    ----------
    units
        In the order of the rows.
    schema
        Of every file and the keys of its folders, without metadata.
    rows, bytes
        Of all files together.
    paths, stamps
        The files, and what tells a changed file (time of change or entity tag).
    delimiter
        Between the fields of a CSV.
    pandas_types
        Of each column that pandas reads in a nullable type of its own, this type.
    keys
        Columns that stand in the names of folders, and not in the files.
    labels
        Of columns that a file of SPSS, Stata or SAS has labels of.
    """

    units: tuple[Unit, ...]
    schema: pa.Schema
    rows: int
    bytes: int
    paths: tuple[str, ...]
    stamps: tuple[str, ...]
    delimiter: str = ","
    pandas_types: dict[str, str] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    labels: Mapping[str, Labels] = field(default_factory=dict)

    def identity(self) -> dict[str, Any]:
        """JSON-able content that changes when a file is changed, added or taken away."""
        return {
            "paths": list(self.paths),
            "stamps": list(self.stamps),
            "rows": self.rows,
            "bytes": self.bytes,
            "schema": self.schema.to_string(),
        }
