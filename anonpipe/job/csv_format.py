"""How a CSV is written: a section of the job, and the patterns of its numbers and dates."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import field_validator, model_validator

from anonpipe.methods.options import Options

NULLS = ["", "NA", "N/A", "NULL", "null", "NaN", "nan"]  # Fields that mean a missing value, where nothing is said
TRUTHS = (("false", "true"), ("False", "True"), ("FALSE", "TRUE"))
DELIMITERS = (",", ";", "\t", "|")
THOUSANDS = (".", ",", " ", "'", "\u2019", "\u00a0", "\u202f")
QUESTION = "?"  # What `anonpipe init` writes where the file does not tell, and the job is refused with

_PARTS = {
    "d": r"0?[1-9]|[12]\d|3[01]",
    "m": r"0?[1-9]|1[0-2]",
    "Y": r"\d{4}",
    "H": r"[01]?\d|2[0-3]",
    "M": r"[0-5]\d",
    "S": r"[0-5]\d",
}
_PATTERN = re.compile(r"%[dmY]([^%A-Za-z0-9])%[dmY]\1%[dmY]([ T]%H:%M(:%S)?)?")
_ANSWERS = {
    "delimiter": "the mark between fields, such as ;",
    "decimal": "the decimal mark, . or , (and thousands: the mark between thousands, where there is one)",
    "encoding": "the encoding, such as windows-1252",
    "dates": 'how days are written, such as "%d.%m.%Y" (day first) or "%m.%d.%Y" (month first)',
    "missing": 'the texts that mean a missing value, as a list: [""], or ["", NA]',
}


class CsvFormat(Options):
    """How a CSV is written.

    `delimiter` stands between the fields (found in the header unless given), `decimal` in numbers, `thousands` between
    their thousands. `encoding` is one that Python knows: UTF-8 unless given, or UTF-16 where the file begins with its
    mark. `missing` lists the texts that mean a missing value in every column, in place of the default ones (empty, NA,
    N/A, NULL, null, NaN, nan). `dates` lists how days and times are written besides 1990-01-31, in the letters of
    strptime: "%d.%m.%Y", "%m/%d/%Y %H:%M".
    """

    delimiter: str | None = None
    decimal: Literal[".", ","] = "."
    thousands: Literal[".", ",", " ", "'", "\u2019", "\u00a0", "\u202f"] | None = None
    encoding: str | None = None
    missing: tuple[str, ...] | None = None
    dates: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _answered(cls, content: Any) -> Any:
        if not isinstance(content, dict):
            return content
        asked = [key for key in _ANSWERS if content.get(key) == QUESTION]
        asked += ["dates"] if content.get("dates") == [QUESTION] else []
        if asked:
            answers = "; ".join(f"{key}: {_ANSWERS[key]}" for key in asked)
            raise ValueError(f'"{QUESTION}" is a question that anonpipe init could not answer; write there {answers}')
        if isinstance(content.get("dates"), str):
            content = content | {"dates": [content["dates"]]}
        if isinstance(content.get("missing"), list | tuple):
            content = content | {"missing": [_text(each) for each in content["missing"]]}
        return content

    @field_validator("delimiter")
    @classmethod
    def _one_byte(cls, given: str | None) -> str | None:
        given = {"tab": "\t", "\\t": "\t"}.get(given or "", given)
        if given is not None and (len(given) != 1 or not given.isascii() or given.isalnum() or given in '"\r\n\0'):
            raise ValueError("give one character that is neither letter, digit nor quote, such as ; or tab")
        return given

    @field_validator("encoding")
    @classmethod
    def _known(cls, given: str | None) -> str | None:
        try:
            "".encode(given or "utf-8")
        except (LookupError, ValueError):
            raise ValueError(
                "is no encoding that Python knows; give one such as utf-8, windows-1252 or utf-16"
            ) from None
        return given

    @field_validator("dates")
    @classmethod
    def _patterns(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for each in given:
            if not _PATTERN.fullmatch(each) or sorted(re.findall("%([dmY])", each)) != ["Y", "d", "m"]:
                raise ValueError(
                    "write day, month and year with one mark between them, and a time after them if there is one, "
                    'such as "%d.%m.%Y" or "%m/%d/%Y %H:%M" (years have four digits)'
                )
        orders: dict[str, str] = {}
        for each in given:
            if orders.setdefault(each[2], each[:8]) != each[:8]:
                raise ValueError(f"two orders with the mark {each[2]} between: no day tells which it is; give one")
        return given

    @model_validator(mode="after")
    def _marks_differ(self) -> CsvFormat:
        if self.decimal == self.thousands:
            raise ValueError("decimal and thousands are the same mark; give two different marks")
        if self.delimiter is not None and self.delimiter == self.decimal != ",":
            raise ValueError("delimiter and decimal are the same mark; change one")
        return self

    @property
    def nulls(self) -> list[str]:
        """Fields that mean a missing value."""
        return NULLS if self.missing is None else list(self.missing)

    def given(self) -> dict[str, Any]:
        """What is not the default, as a job has it."""
        return self.model_dump(include=set(CsvFormat.model_fields), exclude_defaults=True)

    @property
    def delimiter_or_comma(self) -> str:
        """The mark between fields that are written."""
        return self.delimiter or ","


DEFAULT_FORMAT = CsvFormat()


def number_pattern(decimal: str, thousands: str | None, whole: bool = False) -> str:
    """A regular expression of numbers with these marks."""
    digits = r"\d+" if thousands is None else rf"(\d+|[1-9]\d{{0,2}}({re.escape(thousands)}\d{{3}})+)"
    point = re.escape(decimal)
    rest = "" if whole else rf"({point}\d*)?([eE][-+]?\d+)?"
    bare = "" if whole else rf"|{point}\d+([eE][-+]?\d+)?"
    return rf"^\s*[-+]?({digits}{rest}{bare})\s*$"


def date_pattern(pattern: str, named: bool = False) -> str:
    """A regular expression of the texts that a pattern of strptime writes."""
    parts = re.split("%(.)", pattern)
    marks, letters = parts[::2], parts[1::2]
    groups = (f"(?P<{letter}>{_PARTS[letter]})" if named else f"({_PARTS[letter]})" for letter in letters)
    middle = "".join(group + re.escape(mark) for group, mark in zip(groups, marks[1:], strict=True))
    return rf"^\s*{middle}\s*$"


def _text(given: Any) -> str:
    if isinstance(given, str):
        return given
    if given is None or isinstance(given, bool) or not isinstance(given, int | float):
        raise ValueError('missing: write texts in quotes, such as "NULL"')
    return str(given)
