"""How a CSV is written, found in the file: encoding and delimiter, marks in numbers, order of dates.

What the file does not tell for certain is a question, and never a guess: three digits behind every comma, no day after
the twelfth, bytes that are letters in more than one encoding.
"""

from __future__ import annotations

import codecs
import csv
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice, pairwise, product

import pyarrow as pa
import pyarrow.compute as pc

from anonpipe.errors import InputError
from anonpipe.job.csv_format import DELIMITERS, NULLS, THOUSANDS, CsvFormat, date_pattern, number_pattern
from anonpipe.source._csv import completed, head, raw_blocks, text_batches
from anonpipe.source._files import File, guarded

_SAMPLED = 2_000  # Rows that are looked at of each block of the file
_LINES = 200  # Lines of the header's neighbourhood that a delimiter must divide into equally many fields
_MOST_WORDS = 20_000  # Different words with bytes beyond ASCII that are kept to find the encoding
_NONE = ["-", "--", ".", "?", "n.a.", "n/a", "k.A.", "NaN", "None", "none", "#N/A", "#NV", "<NA>", "missing"]

Marks = tuple[str, str | None]  # Decimal mark and mark between thousands

# The plainest first: of marks that a file tells nothing of, none is proposed
_MARKS: list[Marks] = [
    *((point, None) for point in ".,"),
    *((point, mark) for mark, point in product(THOUSANDS, ".,") if mark != point),
]
_BETWEEN = (".", "/", "-")
_TIMES = ("", " %H:%M", " %H:%M:%S")
_ORDERS = ("%d{0}%m{0}%Y", "%m{0}%d{0}%Y", "%Y{0}%m{0}%d")

# In the order of how often they are met; of those that read the file's words alike the first is taken
_ENCODINGS = {
    "windows-1252": "Western Europe",
    "windows-1250": "Central Europe",
    "windows-1251": "Cyrillic",
    "cp850": "MS-DOS",
    "mac-roman": "old Macs",
}
_OLD = {"cp850", "mac-roman"}  # Their letters of Western Europe are among the bytes from 0x80 to 0xa5
_LOW = re.compile(rb"[\x80-\xa5]")
_WORD = re.compile(rb"[A-Za-z\x80-\xff]*[\x80-\xff][A-Za-z\x80-\xff]*")


@dataclass(frozen=True)
class FoundFormat:
    """How a file is written, and what it leaves open."""

    form: CsvFormat  # Where a question is open, one of its answers
    questions: dict[str, str] = field(default_factory=dict)  # Of keys of the job's input
    open: tuple[str, ...] = ()  # Columns whose numbers are read by the answer on the decimal mark


def find_format(files: Sequence[File]) -> FoundFormat:
    """How the CSVs of an input are written."""
    # All files are read twice as a stream: bytes for the encoding, and some rows of every block for numbers and dates.
    # A run reads all rows by what is found, and refuses values of another form.
    first, paths = files[0].path, [file.path for file in files]
    encoding, asked = _encoding(paths)
    marked = completed(first, CsvFormat(encoding=encoding))
    delimiter, between = _delimiter(first, marked)
    columns = _columns(paths, marked.model_copy(update={"delimiter": delimiter, "missing": [""]}))
    (decimal, thousands), doubt, by_answer = _marks([each for each in columns if each.is_number], delimiter)
    dates, order = _dates([each for each in columns if each.is_date])
    missing = _missing(columns)
    known = {"decimal": decimal, "thousands": thousands, "encoding": encoding, "dates": dates, "missing": missing}
    form = CsvFormat.model_validate(known)
    usual = "\t" if first.lower().endswith((".tsv", ".tsv.gz")) else ","
    if form.given() or delimiter != usual:
        form = form.model_copy(update={"delimiter": delimiter})
    return FoundFormat(form, asked | between | doubt | order | _codes(columns), by_answer)


# --- Encoding ---------------------------------------------------------------------------------------------------------


def _encoding(paths: Sequence[str]) -> tuple[str | None, dict[str, str]]:
    """None for UTF-8, and for UTF-16 whose mark says so."""
    words: set[bytes] = set()
    valid = True
    for path in paths:
        decoder = codecs.getincrementaldecoder("utf-8")()
        for at, block in enumerate(raw_blocks(path)):
            if at == 0 and block[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                return None, {}
            if at == 0 and (wide := _without_mark(block)):
                return wide, {}
            try:
                valid = valid and decoder.decode(block) is not None
            except UnicodeDecodeError:
                valid = False
            if len(words) < _MOST_WORDS:
                words.update(islice(set(_WORD.findall(block)), _MOST_WORDS))
    return (None, {}) if valid else _of_words(words)


def _without_mark(block: bytes) -> str | None:
    """UTF-16 without its mark: of the characters of Latin alphabets every other byte is zero."""
    odd, even = block[1:4096:2].count(0), block[:4096:2].count(0)
    half = min(len(block), 4096) // 2
    return "utf-16-le" if odd > 0.5 * half > even else "utf-16-be" if even > 0.5 * half > odd else None


def _of_words(words: set[bytes]) -> tuple[str | None, dict[str, str]]:
    """The encoding in which all words are words; a question where several read them as different ones."""
    as_utf8, low = sum(map(_is_utf8, words)), any(map(_LOW.search, words))
    read = {each: texts for each in _ENCODINGS if (low or each not in _OLD) and (texts := _read(words, each))}
    if as_utf8 > (len(words) / 2 if read else 0):
        return None, {}  # but for a few bytes, whose line the reader tells
    if not read:
        return "windows-1252", {"encoding": "No encoding that is often met reads all its letters as such"}
    first, *others = read
    others = [each for each in others if read[each] != read[first]]
    names = " or ".join(f'"{each}" ({_ENCODINGS[each]})' for each in [first, *others])
    return first, {"encoding": f"Its letters beyond ASCII are letters in each of these: {names}"} if others else {}


def _read(words: set[bytes], encoding: str) -> list[str] | None:
    """The words in an encoding; None where something in them is no letter, or letters of two alphabets meet."""
    texts = []
    for word in sorted(words):
        try:
            text = word.decode(encoding)
        except UnicodeDecodeError:
            return None
        inner = text.strip("".join(each for each in set(text) if _ends_word(each)))
        alphabets = {unicodedata.name(each, "?").split()[0] for each in inner}
        if not all(unicodedata.category(each).startswith("L") for each in inner) or len(alphabets) > 1:
            return None
        if any(each.isupper() and before.islower() for before, each in pairwise(inner)):
            return None
        texts.append(text)
    return texts


def _ends_word(character: str) -> bool:
    """Whether a character stands before or after words: quotes, signs of currency, spaces, degrees."""
    kind = unicodedata.category(character)
    return kind[0] in "PZ" or kind == "Sc" or character in "°²³±µ®™×½¼¾"


def _is_utf8(word: bytes) -> bool:
    try:
        return bool(word.decode())
    except UnicodeDecodeError:
        return False


# --- Delimiter --------------------------------------------------------------------------------------------------------


def _delimiter(path: str, form: CsvFormat) -> tuple[str, dict[str, str]]:
    """The mark that divides the first lines into equally many fields, the most of them."""
    lines = head(path, form.encoding).splitlines(keepends=True)[: _LINES + 1]
    counted = {mark: _field_counts(lines[:-1] or lines, mark) for mark in DELIMITERS}
    fields = {mark: max(each) for mark, each in counted.items() if len(each) == 1 and max(each) > 1}
    if not fields:
        return str(form.delimiter), {}
    shown = " and ".join(map(repr, fields))
    asked = {"delimiter": f"The marks {shown} each divide all lines into equally many fields"}
    return max(fields, key=lambda mark: fields[mark]), asked if len(fields) > 1 else {}


def _field_counts(lines: list[str], mark: str) -> set[int]:
    """How many fields the lines have that are not empty; none where the mark cuts a name in quotes."""
    try:
        first, *rows = csv.reader(lines, delimiter=mark)
    except (csv.Error, ValueError):
        return set()
    return set() if '"' in "".join(first) else {len(row) for row in (first, *rows)} - {0}


# --- Numbers and dates ------------------------------------------------------------------------------------------------


@dataclass
class _Column:
    """Of one column the marks and the order of dates that all of its texts allow so far."""

    name: str
    seen: bool = False
    missing: set[str] = field(default_factory=set)  # Its texts that elsewhere mean a missing value
    capitals: bool = True  # Whether all others are two capitals, as codes of countries are
    marks: set[Marks] = field(default_factory=lambda: set(_MARKS))
    dates: dict[str, set[str]] = field(default_factory=lambda: {mark: set(_ORDERS) for mark in _BETWEEN})
    times: set[str] = field(default_factory=set)

    @property
    def is_number(self) -> bool:
        """Whether all texts are numbers, with one mark or another."""
        return self.seen and bool(self.marks)

    @property
    def is_date(self) -> bool:
        """Whether all texts are days."""
        return self.seen and any(self.dates.values())

    @property
    def open(self) -> bool:
        """Whether more texts can tell more."""
        return bool(self.marks) or any(self.dates.values())

    def note(self, texts: pa.Array) -> None:
        """Texts of some rows."""
        texts = texts.unique().drop_null()
        absent = pc.is_in(texts, pa.array([*NULLS, *_NONE]))
        self.missing.update(texts.filter(absent).to_pylist())
        texts = texts.filter(pc.invert(absent))
        self.seen = self.seen or len(texts) > 0
        self.capitals = self.capitals and (not len(texts) or _all(texts, "^[A-Z]{2}$"))
        if not len(texts) or not self.open:
            return
        self.marks = {each for each in self.marks if _all(texts, number_pattern(*each))}
        for mark, orders in self.dates.items():
            for order in tuple(orders):
                patterns = {time: date_pattern(f"{order.format(mark)}{time}") for time in _TIMES}
                if not _all(texts, "|".join(patterns.values())):
                    orders.discard(order)
                    continue
                matched = {time: pc.match_substring_regex(texts, each) for time, each in patterns.items()}
                self.times |= {time for time, each in matched.items() if pc.any(each).as_py()}


def _all(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())


def _columns(paths: Sequence[str], form: CsvFormat) -> list[_Column]:
    """What some rows of every block of the files say of each column."""
    columns: list[_Column] = []
    for batch in (batch for path in paths for batch in _read_blocks(path, form)):
        columns = columns or [_Column(name) for name in batch.schema.names]
        for known, column in zip(columns, batch.columns, strict=False):  # other headers are refused later
            known.note(column)
    return columns


def _read_blocks(path: str, form: CsvFormat) -> Iterator[pa.RecordBatch]:
    """Rows from the beginning and the end of each block, as far as they can be read: a run tells where they cannot."""
    blocks, half = text_batches(path, form), _SAMPLED // 2
    with suppress(InputError):
        while (batch := guarded(path, "is no readable CSV", next, blocks, None)) is not None:
            yield batch.slice(0, half)
            if batch.num_rows > half:
                yield batch.slice(max(half, batch.num_rows - half))


def _missing(columns: Sequence[_Column]) -> list[str] | None:
    """The default texts for missing values, with those that stand among numbers and dates, and among no categories."""
    values = [each for each in columns if each.is_number or each.is_date]
    others = {text for each in columns if each not in values for text in each.missing}
    found = {text for each in values for text in each.missing} - others - {*NULLS}
    return [*NULLS, *sorted(found)] if found else None


def _codes(columns: Sequence[_Column]) -> dict[str, str]:
    """A question on NA, which is Namibia where the other texts are codes of countries."""
    names = [each.name for each in columns if each.seen and each.capitals and "NA" in each.missing]
    text = 'NA stands among codes of two capitals in {}: missing: [""] if it is a code, missing: ["", NA] if not'
    return {"missing": text.format(", ".join(map(repr, names)))} if names else {}


def _marks(columns: Sequence[_Column], delimiter: str) -> tuple[Marks, dict[str, str], tuple[str, ...]]:
    """The marks in numbers; where they can be read in two ways, a question and the columns that it concerns."""
    telling = [each for each in columns if len(each.marks) < len(_MARKS)]
    if not telling:
        return (".", None), {}, ()
    allowed = Counter(each for column in telling for each in column.marks)
    most = max(allowed.values())
    common = [each for each in _MARKS if allowed[each] == most]
    if delimiter == "," and (".", None) in common:
        return (".", None), {}, ()
    plain = [each for each in common if each[1] is None or (each[0], None) not in common]
    doubtful = [mark for mark in ".," if any(one[0] == mark == two[1] for one, two in product(plain, plain))]
    if not doubtful:
        return plain[0], {}, ()
    mark = doubtful[0]
    readings = next(each for each in plain if each[0] == mark), next(each for each in plain if each[1] == mark)
    held = " and every ".join("comma" if each == "," else "point" for each in doubtful)
    first, second = (f'decimal: "{one}"' + (f' and thousands: "{two}"' if two else "") for one, two in readings)
    names = tuple(each.name for each in telling if each.marks.issuperset(readings))
    asked = (
        f"Every {held} in a number stands before three digits. Is 1{mark}234 a little more than one, or more than a "
        f"thousand? For the first write {first}, for the second {second}. Kind and step follow from the answer in "
        f"{', '.join(map(repr, names))}: see there"
    )
    return readings[0], {"decimal": asked}, names


def _dates(columns: Sequence[_Column]) -> tuple[tuple[str, ...], dict[str, str]]:
    """How days are written, and a question where no day is after the twelfth."""
    found: list[str] = []
    other: list[str] = []  # The same with the month first where both are possible
    for mark in _BETWEEN:
        own = [each for each in columns if each.dates[mark]]
        allowed = Counter(order for each in own for order in each.dates[mark])
        common = [order for order in _ORDERS if own and allowed[order] == max(allowed.values())]
        if not common or (mark == "-" and common[0] == _ORDERS[2]):  # 1990-01-31 is read anyway
            continue
        times = {time for each in own if common[0] in each.dates[mark] for time in each.times}
        for patterns, order in ((found, common[0]), (other, common[-1])):
            patterns += [order.format(mark) + time for time in _TIMES if time in times]
    if found == other:
        return tuple(found), {}
    first, second = (json.dumps(each if len(each) > 1 else each[0]) for each in (found, other))
    return tuple(found), {
        "dates": "No date has a day after the twelfth, so that the order of day and month is open: write "
        f"dates: {first} if the day comes first, dates: {second} if the month does"
    }
