"""Columns that stand in the names of folders: `year=2020/sex=f/part.parquet`, as Hive, Spark and pyarrow write them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ParamSpec, TypeVar
from urllib.parse import unquote

import pyarrow as pa

from anonpipe.errors import InputError
from anonpipe.source._model import Unit

P = ParamSpec("P")
T = TypeVar("T")

Keys = tuple[tuple[str, str | None], ...]  # Name and text of each, the outermost folder's first; None for null

_NULL = "__HIVE_DEFAULT_PARTITION__"
_KEY = re.compile(r"([^/=]+)=([^/]*)")
_HIDDEN = re.compile(r"(?<=/)([^/=\s]+=)[^/]*(?=/)")
_WHOLE = re.compile(r"(0|-?[1-9][0-9]{0,17})")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def keys_below(base: str, path: str) -> Keys:
    """The keys in the folders of a file below a folder.

    Examples
    --------
    >>> keys_below("data/run=3", "data/run=3/year=2020/place=St%20Ives/part.parquet")
    (('year', '2020'), ('place', 'St Ives'))
    """
    folders = path.removeprefix(base).split("/")[:-1]
    found = [match.groups() for folder in folders if (match := _KEY.fullmatch(folder))]
    return tuple((unquote(name), None if text in ("", _NULL) else unquote(text)) for name, text in found)


def is_key(folder: str) -> bool:
    """Whether the last folder of a path is one of a key."""
    return _KEY.fullmatch(folder.rstrip("/").rsplit("/", 1)[-1]) is not None


@dataclass(frozen=True)
class FolderKeys:
    """The columns that folders name: a field for each, and of each file their texts."""

    schema: pa.Schema
    texts: dict[str, tuple[str | None, ...]]

    @classmethod
    def of(cls, url: str, keys: dict[str, Keys]) -> FolderKeys:
        """Of the keys of each file, by its path.

        Whole numbers and ISO dates are such where all texts of a key are; a
        leading zero makes it a text, as in a CSV.
        """
        names = {tuple(name for name, _ in each) for each in keys.values()}
        if len(names) > 1:
            told = " and ".join(sorted("/".join(each) or "no key" for each in names)[:2])
            raise InputError(f"{url}: files lie in folders of different keys ({told}); give folders of one table")
        (ordered,) = names or {()}
        if len(set(ordered)) < len(ordered):
            raise InputError(f"{url}: a key stands twice in the folders of a file; rename the folders")
        texts = {path: tuple(text for _, text in each) for path, each in keys.items()}
        columns = zip(*texts.values(), strict=True)
        fields = [pa.field(name, _type(set(column))) for name, column in zip(ordered, columns, strict=True)]
        return cls(pa.schema(fields), texts)

    def added(self, url: str, schema: pa.Schema) -> pa.Schema:
        """The schema of the files with these columns at its end."""
        if twice := [name for name in self.schema.names if name in schema.names]:
            raise InputError(f"{url}: column {twice[0]!r} stands in the files and in the names of their folders")
        return pa.schema([*schema, *self.schema])

    def told(self, units: Sequence[Unit]) -> list[Unit]:
        """The units with the texts of their files."""
        return [replace(unit, keys=self.texts[unit.path]) for unit in units]


def _type(texts: set[str | None]) -> pa.DataType:
    known = {text for text in texts if text is not None}
    if known and all(_WHOLE.fullmatch(text) for text in known):
        return pa.int64()
    if known and all(_DATE.fullmatch(text) for text in known) and _are_dates(known):
        return pa.date32()
    return pa.string()


def _are_dates(texts: set[str]) -> bool:
    try:
        pa.array(sorted(texts)).cast(pa.date32())
    except pa.ArrowInvalid:
        return False
    return True


def with_keys(batch: pa.RecordBatch, names: Sequence[str], keys: pa.Schema, unit: Unit) -> pa.RecordBatch:
    """The named columns of a batch of a file, those included that its folders name."""
    texts = dict(zip(keys.names, unit.keys, strict=True))
    arrays = [
        pa.repeat(pa.scalar(texts[name], pa.string()), batch.num_rows).cast(keys.field(name).type)
        if name in texts
        else batch.column(name)
        for name in names
    ]
    return pa.record_batch(arrays, names=list(names))


def hiding(url: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function whose errors name paths; the values in them, which are data, are left out."""
    try:
        return function(*args, **kwargs)
    except InputError as error:
        problem = str(error)
    raise InputError(without_values(problem, url))


def hiding_each(batches: Iterator[T], url: str = "") -> Iterator[T]:
    """The same of what is read piece by piece."""
    end = object()
    while (batch := hiding(url, next, batches, end)) is not end:
        yield batch  # type: ignore[misc]


def without_values(text: str, url: str = "") -> str:
    """A message without the values of folders that were not given.

    Examples
    --------
    >>> without_values("in/run=3/place=Ely/part.parquet is empty", "in/run=3")
    'in/run=3/place=…/part.parquet is empty'
    """
    return _HIDDEN.sub(lambda found: found[0] if f"/{found[0]}/" in f"/{url}/" else f"{found[1]}…", text)
