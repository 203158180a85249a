"""What a proposal knows of a table: a bounded sample of its rows, and of each column what can be seen in them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anonpipe.columns import Scalar
from anonpipe.encoding.scan import TotalLine
from anonpipe.encoding.values import is_date, is_number, is_supported, numbers, of_days, plain, plain_type
from anonpipe.propose.names import REASONS, tell_life
from anonpipe.source import Source, read_batches
from anonpipe.types import BoolArray, FloatArray, IntArray

SAMPLE_ROWS = 50_000  # Rows that the guesses rest on
SAMPLE_PIECES = 16  # Places of the input, evenly spread, that the sample is read from: files are often sorted by time
_CSV_BATCH_ROWS = 4_096
FEW_CODES = 10  # Whole numbers with no more distinct values than this are taken for codes
MANY_CATEGORIES = 200
LARGEST = 1e100  # Greater numbers, infinity among them, count as null: their squares overflow


# --- Texts that stand for numbers or dates: how they are written, and how to convert them -----------------------------


@dataclass(frozen=True)
class TextFormat:
    """How texts are written."""

    # every, some: patterns: all texts meet the first, one or more the second
    every: str
    some: str
    reason: str  # What to tell the steward
    never_codes: bool = False  # Whether texts so written are no categories, however few they are
    date: bool = False  # Whether they stand for dates
    whole: bool = False  # Whether they are whole numbers, which may number persons


_FILE = Path(__file__).with_name("text_formats.toml").read_text(encoding="utf-8")
_FORMATS = tomllib.loads(_FILE.replace("NUMBER", tomllib.loads(_FILE)["number"]))
FORMS = tuple(TextFormat(**each) for each in _FORMATS["forms"])
MOSTLY = 0.9  # Share of the distinct texts, of ten or more, that have a form which a few others lack


def form_of(texts: pa.Array) -> TextFormat | None:
    """The first form that all of some distinct texts have; None for none."""
    texts = texts.drop_null()
    if not len(texts):
        return None
    for form in FORMS:
        if pc.all(pc.match_substring_regex(texts, form.every)).as_py() and (
            pc.any(pc.match_substring_regex(texts, form.some)).as_py()
        ):
            return form
    return None


def odd_texts(texts: pa.Array) -> str:
    """What to tell of texts of which nearly all are numbers or dates: how many are not; empty for others."""
    texts = texts.drop_null()
    beyond = pc.sum(pc.match_substring_regex(texts, _FORMATS["censored"])).as_py() or 0
    for what, form in _FORMATS["plain"].items():
        have = pc.sum(pc.match_substring_regex(texts, form)).as_py() or 0
        counts = {"censored": beyond * ("numbers" in what)}
        counts["odd"] = len(texts) - have - counts["censored"]
        if have < len(texts) >= 10 and have > beyond and len(texts) - counts["odd"] >= MOSTLY * len(texts):
            said = [REASONS[which].format(count=count) for which, count in counts.items() if count]
            return REASONS["odd texts"].format(have=have, count=len(texts), what=what, said=". ".join(said))
    return ""


# --- Columns ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Look:
    """What the sample shows of one column."""

    name: str
    type: pa.DataType
    # Natural units (days for dates), NaN where null or beyond `LARGEST`, shape (n_rows,); None where the values are no
    # numbers
    numbers: FloatArray | None
    codes: IntArray  # Position among the distinct values, -1 where null, shape (n_rows,)
    # distinct, filled: number of distinct values and of rows that are not null
    distinct: int
    filled: int
    odd: str = ""  # See `odd_texts`
    form: TextFormat | None = None  # How its texts are written where they stand for numbers or dates; None elsewhere
    days: bool = False  # Whether it holds texts of days, as 1990-01-31, and nothing else
    levels: tuple[Scalar, ...] = ()  # See `declared_order`
    life: bool | None = False  # What its few texts say of life or death, or of events; see `tell_life`

    def of_rows(self, kept: BoolArray) -> Look:
        """The same of some of the rows."""
        codes = np.unique(self.codes[kept], return_inverse=True)
        least = int(codes[0][:1].min(initial=0) < 0)  # Of nulls, whose code is -1
        found = codes[1].reshape(-1) - least
        numbers = None if self.numbers is None else self.numbers[kept]
        return replace(
            self, numbers=numbers, codes=found, distinct=len(codes[0]) - least, filled=int((found >= 0).sum())
        )

    @property
    def values(self) -> FloatArray:
        """The numbers; NaN in all rows where the values are none."""
        return np.full(len(self.codes), np.nan) if self.numbers is None else self.numbers

    @property
    def ordered(self) -> bool:
        """Whether it is a dictionary whose entries have an order."""
        return bool(pa.types.is_dictionary(self.type) and self.type.ordered)

    @property
    def date(self) -> bool:
        """Whether it holds dates or points in time."""
        return self.days or is_date(plain_type(self.type))

    @property
    def whole(self) -> bool:
        """Whether all numbers are whole."""
        present = self.values[~np.isnan(self.values)]
        return self.numbers is not None and bool((present == np.floor(present)).all())


def sample_of(source: Source, totals: TotalLine | None = None) -> pa.Table:
    """At most `SAMPLE_ROWS` rows, of evenly spread pieces of the input; a CSV is read whole, all rows into `totals`."""
    units = [[replace(unit, row_groups=(group,)) for group in unit.row_groups] or [unit] for unit in source.units]
    pieces = [piece for unit in units for piece in unit]  # row groups, each with rows; a CSV is one piece
    places = np.unique(np.linspace(0, len(pieces) - 1, min(SAMPLE_PIECES, len(pieces))).astype(int))
    batches: list[pa.RecordBatch] = []
    left = SAMPLE_ROWS
    for index, place in enumerate(places):
        wanted = left // (len(places) - index)
        piece = pieces[place]
        if not piece.row_groups:  # a CSV is read whole, to see the last rows of a sorted one too
            share = min(1.0, wanted / max(1, piece.rows))
            for _, batch in read_batches(source, piece, source.schema.names, _CSV_BATCH_ROWS):
                batches.append(batch.slice(0, max(1, int(batch.num_rows * share))))
                if totals is not None:
                    totals.add(batch)
            left -= wanted
            continue
        _, batch = next(read_batches(source, piece, source.schema.names, wanted))
        batches.append(batch.slice(0, wanted))
        left -= batches[-1].num_rows
    return pa.Table.from_batches(batches)


def look_at(table: pa.Table) -> list[Look]:
    """What each column of a sample shows."""
    return [_look(field.name, table.column(index)) for index, field in enumerate(table.schema)]


def _look(name: str, column: pa.ChunkedArray) -> Look:
    if not is_supported(column.type):
        return Look(name, column.type, None, np.full(len(column), -1, dtype=np.int64), 0, 0)
    values = pa.concat_arrays([plain(chunk) for chunk in column.chunks])
    encoded = pc.dictionary_encode(values)
    codes = np.asarray(pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False), dtype=np.int64)
    found, form, odd, days = None, None, "", False
    life: bool | None = False
    if pa.types.is_string(values.type):
        as_days, wrong = of_days(values)
        days = wrong == 0 and len(encoded.dictionary) > 0
        odd = "" if days else odd_texts(encoded.dictionary)
        form = None if days else form_of(encoded.dictionary)
        values = as_days if days else values
        life = len(encoded.dictionary) <= FEW_CODES and tell_life(encoded.dictionary.drop_null().to_pylist())
    if is_number(values.type) or is_date(values.type):
        found = numbers(values)
        found[np.abs(found) > LARGEST] = np.nan
    filled, levels = len(values) - values.null_count, declared_order(column)
    return Look(name, column.type, found, codes, len(encoded.dictionary), filled, odd, form, days, levels, life)


def declared_order(column: pa.ChunkedArray) -> tuple[Scalar, ...]:
    """The categories of an ordered dictionary, the lowest first, where they are the file's and not of its rows."""
    # A writer that stores the values themselves (Parquet without dictionaries) leaves the reader to number them as they
    # come: such an order is wrong, and tells of the first rows. So it is taken only where all pieces agree and the
    # values do not come in just this order. Other categories are released in the order of their names.
    if not (pa.types.is_dictionary(column.type) and column.type.ordered and column.num_chunks):
        return ()
    first = column.chunk(0)
    entries, coming = first.dictionary, pc.unique(first.indices.drop_null()).to_pylist()
    as_they_come = coming == list(range(len(coming)))
    alike = all(piece.dictionary.equals(entries) for piece in column.chunks)
    if as_they_come or not alike or len(entries) > MANY_CATEGORIES or entries.null_count:
        return ()
    return tuple(plain(entries).to_pylist())
