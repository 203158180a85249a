"""Texts that stand for numbers or dates: how they are written, and how to convert them."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

_AS_TEXT = "looks like numbers that are stored as text; convert them (in a query: CAST(name AS REAL)) and write kind:"
_NUMBER = r"[+-]?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?"


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


FORMS = (
    TextFormat(
        rf"^\s*{_NUMBER}\s*$",
        r"^\s*[+-]?\d{1,3}(,\d{3})+(\.\d+)?\s*$",
        "CHECK: looks like numbers with commas between thousands; take the commas out (in a query: "
        "CAST(REPLACE(name, ',', '') AS REAL)) and write kind: continuous, role: masked; if they are decimal commas, "
        "convert them to points",
        never_codes=True,
    ),
    TextFormat(
        r"^\s*[+-]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?\s*$",
        r",",
        "CHECK: looks like numbers with decimal commas; convert them to decimal points and write role: masked, or, if "
        "they are codes, kind: categorical, role: masked",
        never_codes=True,
    ),
    TextFormat(
        r"^\s*[+-]?\d+([.,]\d+)?\s*$",
        r",",
        "CHECK: some of its numbers have decimal commas and others points; write them one way in the input and role: "
        "masked",
        never_codes=True,
    ),
    TextFormat(
        rf"^\s*[€$£]?\s*{_NUMBER}\s*[€$£%]?\s*$",
        r"[€$£%]",
        "CHECK: looks like numbers with a sign of currency or per cent; take the sign out and write kind: continuous, "
        "role: masked",
    ),
    TextFormat(
        rf"^\s*{_NUMBER}\s*$",
        r"\.",
        f"CHECK: {_AS_TEXT} continuous, role: masked",
    ),
    TextFormat(
        r"^\s*[+-]?\d+\s*$",
        r"",
        f"CHECK: {_AS_TEXT} integer, role: masked; if they are codes, classify them first",
        whole=True,
    ),
    TextFormat(
        r"^\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}",
        r"",
        "CHECK: looks like dates with times that are stored as text; cut them to the day (in a query: "
        "SUBSTR(name, 1, 10)) and write kind: date, role: masked",
        date=True,
    ),
    TextFormat(
        r"^\s*\d{1,4}\s*[./-]\s*\d{1,2}\s*[./-]\s*\d{1,4}\s*$",
        r"",
        "CHECK: looks like dates that are not written as 1990-01-31; convert them and write kind: date, role: masked",
        date=True,
    ),
)


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


_PLAIN = {
    "whole numbers": r"^\s*[+-]?\d+\s*$",
    "numbers": rf"^\s*{_NUMBER}\s*$",
    "numbers with decimal commas": r"^\s*[+-]?\d+(,\d+)?\s*$",
    "days as 31.12.2020": r"^\d{1,2}([./-])\d{1,2}[./-]\d{4}$",
    "days": r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$",
}
MOSTLY = 0.9  # Share of the distinct texts, of ten or more, that have a form which a few others lack


def odd_texts(texts: pa.Array) -> str:
    """What to tell of texts of which nearly all are numbers or dates: how many are not; empty for others."""
    texts = texts.drop_null()
    for what, form in _PLAIN.items():
        have = pc.sum(pc.match_substring_regex(texts, form)).as_py() or 0
        odd = len(texts) - have
        if odd and len(texts) >= 10 and have >= MOSTLY * len(texts):
            return (
                f"CHECK: {have:,} of its {len(texts):,} distinct texts are {what}. Make the other {odd:,} nulls in the "
                "input (in a CSV: list them in input.missing), and run init again; else all texts are categories"
            )
    return ""
