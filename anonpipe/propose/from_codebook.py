"""What a proposal takes from a code book: kinds, bounds, levels, labels and units, where they agree with the table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from anonpipe.codebook import MOST_LEVELS, BookVariable, CodeBook
from anonpipe.columns import Kind, Scalar
from anonpipe.encoding.values import is_number, plain, plain_type
from anonpipe.errors import plural
from anonpipe.propose.guesses import Guess
from anonpipe.propose.names import quoted
from anonpipe.propose.profile import Look

if TYPE_CHECKING:
    import pyarrow as pa

_TRUE = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_OTHER_KIND = "CHECK: the code book says kind: {kind}, and the values are none"
_OTHER_LEVELS = "CHECK: {count:,} distinct values of the sample are no categories of the code book, which are left out"
_OUTSIDE = "CHECK: {count:,} values of the sample lie outside of the code book's bounds, and released ones will not"
_OTHER_BOUNDS = "CHECK: the bounds of the code book are not two ends in their order, and were left out"
_MISSING = (
    "CHECK: the code book has codes for missing values of {names}: make them nulls in the input (of a CSV: list them "
    "in input.missing)"
)


@dataclass(frozen=True)
class Taken:
    """What was taken from a code book."""

    text: str = ""  # In a line, for the steward
    missing: str = ""  # On columns with codes for missing values; empty without any


NOTHING = Taken()


def with_codebook(
    guesses: Mapping[str, Guess], looks: Sequence[Look], sample: pa.Table, book: CodeBook
) -> tuple[dict[str, Guess], Taken]:
    """The guesses with what a code book says of the columns, and what was taken from it."""
    known = {one.name: one for one in book.variables}
    found = {
        look.name: _described(guesses[look.name], look, sample.column(look.name), known[look.name])
        if look.name in known
        else guesses[look.name]
        for look in looks
    }
    booked = [each for each in found.values() if each.booked]
    counts = {
        "kinds": sum(each.kind_is_known for each in booked),
        "bounds": sum(each.bounds is not None for each in booked),
        "levels": sum(bool(each.levels) for each in booked),
        "labels": sum(bool(each.label) for each in booked),
        "units": sum(bool(each.unit_of_measure) for each in booked),
    }
    absent, other = len(found) - len(booked), len(known.keys() - found.keys())
    parts = [f"{what} of {plural(number, 'column')}" for what, number in counts.items() if number]
    text = f"From the code book: {', '.join(parts) or 'nothing'}"
    text += f"; it does not have {plural(absent, 'column')} of the table" * (absent > 0)
    text += f"; {plural(other, 'column')} of it are not in the table" * (other > 0)
    missing = [quoted(name) for name, one in known.items() if name in found and one.missing]
    return found, Taken(f"{text}.", _MISSING.format(names=", ".join(missing)) if missing else "")


def _described(guessed: Guess, look: Look, column: pa.ChunkedArray, one: BookVariable) -> Guess:
    """A guess with what the code book says of its column."""
    found = replace(guessed, booked=True, label=one.label[:1000], unit_of_measure=one.unit[:100])
    if not guessed.role.released:
        return found
    kind = one.kind or guessed.kind
    levels, strange = _levels(column, one) if kind.coded else ((), 0)
    if kind is Kind.BINARY and levels and len(levels) != 2:
        kind = Kind.CATEGORICAL
    if strange:
        found = found.noted(_OTHER_LEVELS.format(count=strange))
    if not _possible(kind, look) or (kind is Kind.ORDINAL and not levels):
        return found if strange or one.kind is None else found.noted(_OTHER_KIND.format(kind=kind.value))
    found = replace(found, kind=kind, kind_is_known=one.kind is not None)
    if kind.coded:
        return replace(found, step=None, levels=levels, ordered=kind is Kind.ORDINAL)
    step, bounds = one.step if one.step is not None else found.step, _bounds(one, kind)
    if outside := _outside(look, bounds) if bounds else one.bounds != (None, None):
        found = found.noted(_OTHER_BOUNDS if outside is True else _OUTSIDE.format(count=outside))
    return replace(found, bounds=bounds, levels=(), ordered=False, step=step)


def _outside(look: Look, bounds: tuple[Scalar | None, Scalar | None]) -> int:
    """How many sampled numbers lie outside of the bounds; of dates none is counted."""
    if look.numbers is None or look.date:
        return 0
    low, high = (
        end if bound is None else float(bound) for end, bound in zip((-math.inf, math.inf), bounds, strict=True)
    )
    return int(((look.numbers < low) | (look.numbers > high)).sum())


def _possible(kind: Kind, look: Look) -> bool:
    """Whether the values can be of a kind."""
    if kind is Kind.DATE:
        return look.date
    if kind is Kind.INTEGER:
        return look.numbers is not None and not look.date and look.whole
    if kind is Kind.CONTINUOUS:
        return look.numbers is not None and not look.date
    return kind is not Kind.BINARY or look.distinct <= 2


def _bounds(one: BookVariable, kind: Kind) -> tuple[Scalar | None, Scalar | None] | None:
    """The bounds, where they are numbers (or days) in their order."""
    low, high = one.bounds
    wanted: tuple[type, ...] = (str,) if kind is Kind.DATE else (int, float)
    if any(bound is not None and not isinstance(bound, wanted) for bound in one.bounds) or low == high:
        return None
    if low is not None and high is not None and not low < high:  # type: ignore[operator]
        return None
    return low, high


def _levels(column: pa.ChunkedArray, one: BookVariable) -> tuple[tuple[Scalar, ...], int]:
    """The categories as the column has them, by their codes or their labels; none where distinct values are others."""
    kind = plain_type(column.type)
    values = {value for chunk in column.chunks for value in pc.unique(plain(chunk)).to_pylist() if value is not None}
    kept = [level for level in one.levels if str(level) not in one.missing][:MOST_LEVELS]
    labelled = [one.texts.get(level, "") for level in kept]
    fewest = len(values)
    for given in (kept, labelled):
        levels = tuple(dict.fromkeys(level for each in given if (level := _of_type(each, kind)) is not None))
        strange = len(values - set(levels))
        if levels and not strange:
            return levels, 0
        fewest = min(fewest, strange)
    return (), fewest if one.levels else 0


def _of_type(level: Scalar, kind: pa.DataType) -> Scalar | None:
    """A category in the type of a column; None where it has none."""
    import pyarrow as pa

    if pa.types.is_boolean(kind):
        return level if isinstance(level, bool) else _TRUE.get(str(level).lower())
    if not is_number(kind):
        return str(level) or None
    try:
        value = float(level)
    except (ValueError, OverflowError):
        return None
    return int(value) if value.is_integer() else value if math.isfinite(value) else None
