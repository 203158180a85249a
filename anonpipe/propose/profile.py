"""What a proposal knows of a table: a bounded sample of its rows, and of each column what can be seen in them."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import yaml

from anonpipe.columns import Scalar
from anonpipe.encoding.scan import TotalLine
from anonpipe.encoding.values import is_date, is_number, is_supported, numbers, of_days, plain, plain_type
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
    for what, form in _FORMATS["plain"].items():
        have = pc.sum(pc.match_substring_regex(texts, form)).as_py() or 0
        odd = len(texts) - have
        if odd and len(texts) >= 10 and have >= MOSTLY * len(texts):
            return (
                f"CHECK: {have:,} of its {len(texts):,} distinct texts are {what}. Make the other {odd:,} nulls in the "
                "input (in a CSV: list them in input.missing), and run init again; else all texts are categories"
            )
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
    life: bool = False  # Whether its few texts say of persons that they live or died, or of events; see `tell_life`

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
    """At most `SAMPLE_ROWS` rows, from the beginnings of some evenly spread pieces of the input.

    All rows of files that are read whole, as a CSV is, are given to `totals`.
    """
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
    found, form, odd, days, life = None, None, "", False, False
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
    """The categories of an ordered dictionary, the lowest first, where they are the file's and not of its rows.

    A writer that stores the values themselves (Parquet without dictionaries) leaves the reader to number them as they
    come: such an order is wrong, and tells of the first rows. So it is taken only where all pieces agree and the values
    do not come in just this order. Other categories are released in the order of their names.
    """
    if not (pa.types.is_dictionary(column.type) and column.type.ordered and column.num_chunks):
        return ()
    first = column.chunk(0)
    entries, coming = first.dictionary, pc.unique(first.indices.drop_null()).to_pylist()
    as_they_come = coming == list(range(len(coming)))
    alike = all(piece.dictionary.equals(entries) for piece in column.chunks)
    if as_they_come or not alike or len(entries) > MANY_CATEGORIES or entries.null_count:
        return ()
    return tuple(plain(entries).to_pylist())


# --- Names of columns -------------------------------------------------------------------------------------------------

_WORDS: Mapping[str, Any] = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
_IDENTIFYING, _NO_SURVIVAL = frozenset(_WORDS["identifying"]), frozenset(_WORDS["no_survival"])
_UNIT_NUMBERS = frozenset(f"{unit}{number}" for unit in _WORDS["units"] for number in _WORDS["numbers"])
_PERSON_NAMES, _NAMES_ALONE = frozenset(_WORDS["person_names"]), frozenset(_WORDS["names_alone"])
_ONE_PERSON, _OF_A_NUMBER = frozenset(_WORDS["persons"]), frozenset(_WORDS["of_a_number"])
_ONE_UNIT = _ONE_PERSON.union(_WORDS["groups"])
_DEAD, _ALIVE = (frozenset(_WORDS["status"][state]) for state in ("dead", "alive"))

# For `has_word`, and in ranks for `rank_of`
TIME_NAMES, STATUS_NAMES = (tuple(map(tuple, _WORDS[what])) for what in ("times", "statuses"))
BIRTH_NAMES, POSTAL_NAMES, PUBLIC_DATES = (tuple(_WORDS[what]) for what in ("births", "postal", "public_dates"))
_WEIGHTS = {key: tuple(words) for key, words in _WORDS["weights"].items()}
_COUNTED = tuple(_WORDS["counts"]["counted"])
REASONS: Mapping[str, str] = _WORDS["reasons"]
SEEN_NAMES = (*_WORDS["seen"], *BIRTH_NAMES)


def names_unit(name: str) -> bool:
    """Whether a name says that the column names persons, in a word of its own or at the end of one (UTILITYID)."""
    words = words_of(name)
    together = (*words, *map("".join, pairwise(words)))  # patientno, and patient_no
    return bool(_IDENTIFYING & set(words)) or any(word in _UNIT_NUMBERS for word in together)


def holds_person_names(name: str) -> bool:
    """Whether a name says that the values are first names or surnames, which several persons share."""
    words = [word for word in words_of(name) if word not in ("de", "du", "of")]
    together = {*words, *map("".join, pairwise(words))}  # firstname, and first_name
    return bool(_PERSON_NAMES & together) or (len(words) == 1 and words[0] in _NAMES_ALONE)


def names_one_unit(name: str) -> bool:
    """Whether a name is a word for a person or a group of persons, and says of nothing else about them."""
    left = set(words_of(name)) - _OF_A_NUMBER
    return bool(left) and left <= _ONE_UNIT


def names_one_person(name: str) -> bool:
    """Whether a name is a word for a person, and says of nothing else about him."""
    return names_one_unit(name) and bool(set(words_of(name)) & _ONE_PERSON)


def words_of(name: str) -> list[str]:
    """The words of a column name, without accents and in lower case."""
    apart = unicodedata.normalize("NFKD", name.translate(_LETTERS))
    plain = "".join(letter for letter in apart if not unicodedata.combining(letter))
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", plain)]


_LETTERS = str.maketrans({"ß": "ss", "ø": "o", "Ø": "O", "æ": "ae", "Æ": "AE", "ł": "l", "Ł": "L", "đ": "d"})


def has_word(name: str, entries: tuple[str, ...]) -> bool:
    """Whether a word of the name begins with an entry, or is one that ends in $."""
    return any(word.startswith(entry) or f"{word}$" == entry for word in words_of(name) for entry in entries)


def names_weight(name: str) -> bool | None:
    """Whether a name says that a column is a survey weight; None where it may be that of a body."""
    if names_replicate(name):
        return False
    if has_word(name, _WEIGHTS["sure"]):
        return True
    either = has_word(name, _WEIGHTS["either"])
    return (True if has_word(name, _WEIGHTS["with"]) else None) if either else False


def names_count(name: str) -> bool:
    """Whether a name says that the values count something."""
    return words_of(name)[:1] in ([word] for word in _WORDS["counts"]["first"]) or has_word(name, _COUNTED)


def names_replicate(name: str) -> bool:
    """Whether a name says that a column is one of several replicate weights."""
    return has_word(name, _WEIGHTS["replicates"])


def tell_life(texts: Iterable[str]) -> bool:
    """Whether some of the texts say that a person lives or was censored, and others death or another event."""
    said = [set(words_of(text)) for text in texts]
    return any(words & _DEAD for words in said) and any(words & _ALIVE for words in said)


def rank_of(name: str, ranks: tuple[tuple[str, ...], ...]) -> int | None:
    """The first rank of which a word of the name has an entry; None without any."""
    if _NO_SURVIVAL & set(words_of(name)):
        return None
    return next((rank for rank, entries in enumerate(ranks) if has_word(name, entries)), None)


def best_of(names: list[str], ranks: tuple[tuple[str, ...], ...]) -> list[str]:
    """Those of the names whose words rank highest; none where no word is among them."""
    ranked = {name: rank for name in names if (rank := rank_of(name, ranks)) is not None}
    return [name for name, rank in ranked.items() if rank == min(ranked.values())]


def quoted(text: str) -> str:
    """A text as a quoted YAML scalar on one line."""
    return yaml.safe_dump(text, default_style='"', width=10**9, allow_unicode=True).rstrip("\n")


# --- A value that may stand for "unknown": one and the same, again and again, far away from all others ----------------

FEWEST_OTHERS = 10  # Distinct values that are no such codes, below which all may be codes
MOST_CODES = 3  # Codes at either end: not known, refused, does not apply
_NEIGHBOURS = 5  # Distinct values next to a well-known code, which has five times as many records as their mean

# Well-known codes: nines and the two numbers before, and days on which calendars and systems begin or end
_NINES = [10**digits - below for digits in range(1, 10) for below in (1, 2, 3)]
_CODES = [*_NINES, *(-code for code in _NINES), -1, 88, 888]
_DAYS = [
    (date.fromisoformat(f"{year:04}-{day}") - date(1970, 1, 1)).days
    for day, years in (
        ("01-01", (1, 1753, 1800, 1900, 1901, 1904, 1970)),
        ("12-31", (1899, 2099, 2199, 2999, 9999)),
        ("12-30", (1899,)),
        ("11-11", (1111,)),
    )
    for year in years
]


def codes_for_unknown(values: FloatArray, counts: IntArray, *, days: bool = False) -> dict[float, int]:
    """Numbers at the ends that may be codes for "unknown", and the records of each.

    Each of them occurs twice or more. Either the nearest other value is further away than all others are wide, or it
    is a well-known code with many more records than its neighbours.

    Shapes: values, counts (n_values,), values ascending.
    """
    known = np.isin(values, _DAYS if days else _CODES)
    for below, above in sorted(product(range(MOST_CODES + 1), repeat=2), key=sum)[:0:-1]:
        middle = slice(below, len(values) - above)
        outer = np.append(np.arange(below), np.arange(len(values) - above, len(values)))
        if len(values[middle]) < FEWEST_OTHERS or (counts[outer] < 2).any():
            continue
        ends = [(below - 1, slice(below, below + _NEIGHBOURS))] * (below > 0)
        ends += [(len(values) - above, slice(len(values) - above - _NEIGHBOURS, len(values) - above))] * (above > 0)
        width = values[middle][-1] - values[middle][0]
        far = all(min(abs(values[at] - values[next_])) > width for at, next_ in ends)
        if far or (known[outer].all() and all(counts[at] >= 5 * counts[next_].mean() for at, next_ in ends)):
            return dict(zip(values[outer].tolist(), counts[outer].tolist(), strict=True))
    return {}
