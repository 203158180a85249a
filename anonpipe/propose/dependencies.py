"""Columns that follow from others: copies, lines, parts of dates, classes, and spans between two others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations, product
from typing import TypeVar

import numpy as np

from anonpipe.propose.names import BIRTH_NAMES, REASONS, SEEN_NAMES, STATUS_NAMES, TIME_NAMES, has_word, quoted, rank_of
from anonpipe.propose.profile import FEW_CODES, MANY_CATEGORIES, Look
from anonpipe.types import FloatArray, IntArray

T = TypeVar("T")
CLASS_ROWS = 10  # A class of a number has this many rows in its second largest category at least; less may be chance
ENOUGH_ROWS = 20  # Fewer rows than this tell nothing about uniqueness or dependence
THIN_ROWS = 1_000  # Rows of the first, quick look for a dependence
# Share of the rows of a number in which a date is known, too, or the number is not taken for a part of it
NEARLY_ALL = 0.95
SAME_CORRELATION = 0.99999
_SAME_UNIT = 1e-3  # Slopes as near to 1 are of columns in one unit, whose difference is a quantity
DAYS_IN = {"days": 1.0, "months": 30.4375, "years": 365.25}


def derived(looks: list[Look]) -> dict[str, str]:
    """Columns that follow from other columns, with the reason; what they follow from is never among them."""
    # In this order, among the columns still left: linear copies of a number or date; parts of a date; classes, each
    # category of which covers an interval of a number of its own; last digits; of two dates and the time between them
    # one date; of the year of a date, a year of birth and an age the age.
    found: dict[str, str] = {}
    for search in (_copies, _date_parts, _classes, _remainders, _intervals, _ages):
        for name, reason in search([look for look in looks if look.name not in found]):
            found.setdefault(name, reason)
    return found


def _copies(looks: list[Look]) -> Iterator[tuple[str, str]]:
    """Of two linearly dependent columns the one that is no date, else the later one."""
    numeric = [look for look in looks if look.numbers is not None and look.distinct > 2]
    gone: set[str] = set()
    for one, other in combinations(sorted(numeric, key=lambda look: not look.date), 2):
        if one.name in gone or other.name in gone or not _found(_line, one, other):
            continue
        apart = not _is_copy(*_together(one, other))
        if apart and _is_order(one, other):
            continue
        gone.add(other.name)
        reason = REASONS["difference" if apart else "copy"]
        yield other.name, reason.format(one=quoted(one.name), other=quoted(other.name))


def _is_copy(x: FloatArray, y: FloatArray) -> bool:
    """Whether numbers of the same unit differ by a constant, to rounding; others by a line (`_line`)."""
    # How wide a year of arrivals is says nothing of the hours from arrival to departure.
    slope = float(np.cov(x, y)[0, 1] / x.var(ddof=1))
    if abs(slope - 1.0) > _SAME_UNIT:
        return True
    rest = np.abs(y - x - np.median(y - x))
    steps = sum(float(np.diff(np.unique(values)).min()) for values in (x, y))
    return bool(np.quantile(rest, NEARLY_ALL) <= steps + 1e-6 * np.ptp(np.quantile(y, [0.25, 0.75])))


def _is_order(one: Look, other: Look) -> bool:
    """Whether one day is never before the other, nor there without it: a rule of their order keeps the difference."""
    nulls = np.isnan([one.values, other.values]).astype(np.int8)
    one_way = np.ptp(nulls[0] - nulls[1]) < 2 and np.ptp(np.sign(np.subtract(*_together(one, other)))) < 2
    return bool(one_way and all(look.date and look.whole for look in (one, other)))


def _line(x: FloatArray, y: FloatArray) -> bool:
    dx, dy = x - x.mean(), y - y.mean()
    xx, xy, yy = float(dx @ dx), float(dx @ dy), float(dy @ dy)
    if xx <= 0 or yy <= 0 or xy * xy <= SAME_CORRELATION**2 * xx * yy:
        return False
    low, high = np.quantile(y, [0.25, 0.75])
    return bool(np.median(np.abs(dy - dx * (xy / xx))) <= 0.01 * (high - low))


def _found(test: Callable[..., T], *looks: Look, share: float = 0.5) -> T | None:
    """What a test finds in few rows and then in all, without nulls, if these are enough of the last column's."""
    few = _together(*map(_thin, looks))
    if len(few[0]) < 2 or not test(*few):
        return None
    known = _together(*looks)
    return test(*known) if len(known[0]) >= max(ENOUGH_ROWS, share * looks[-1].filled) else None


def _thin(look: Look) -> Look:
    """The column in about `THIN_ROWS` evenly spread rows: what fails there needs no second look."""
    step = max(1, len(look.codes) // THIN_ROWS)
    return replace(look, numbers=None if look.numbers is None else look.numbers[::step], codes=look.codes[::step])


def _together(*looks: Look) -> tuple[FloatArray, ...]:
    """The numbers of the rows where none of the columns is null."""
    present = ~np.isnan([look.values for look in looks]).any(axis=0)
    return tuple(look.values[present] for look in looks)


def _date_parts(looks: list[Look]) -> Iterator[tuple[str, str]]:
    """Numbers that are the month, the day, the weekday or the quarter of a date (years are classes)."""
    dates = [look for look in looks if look.date]
    parts = [look for look in looks if look.numbers is not None and look.whole and not look.date]
    for part, date in product(parts, dates):
        if name := _found(_part, date, part, share=NEARLY_ALL):
            yield part.name, REASONS["part"].format(part=name, date=quoted(date.name))


def _part(days: FloatArray, values: FloatArray) -> str:
    """Which part of the dates the values are, counted from any number; empty if none."""
    if np.ptp(values) == 0:  # any constant is a part of one month
        return ""
    stamps = np.floor(days).astype("datetime64[D]")
    months = stamps.astype("datetime64[M]").astype(np.int64)
    found = {
        "month": months % 12,
        "quarter": months % 12 // 3,
        "day of the month": (stamps - stamps.astype("datetime64[M]")).astype(np.int64),
        "day of the year": (stamps - stamps.astype("datetime64[Y]")).astype(np.int64),
        "weekday": (stamps.astype(np.int64) + 3) % 7,
    }
    return next((name for name, part in found.items() if np.ptp(values - part) == 0), "")


def _classes(looks: list[Look]) -> Iterator[tuple[str, str]]:
    """Categories (also years and other whole numbers) that are intervals of a number or date."""
    finest = sorted((look for look in looks if look.numbers is not None), key=lambda look: -look.distinct)
    places = {look.name: place for place, look in enumerate(looks)}
    for coarse in looks:
        sizes = np.bincount(coarse.codes[coarse.codes >= 0])
        if not 2 <= coarse.distinct <= MANY_CATEGORIES or np.sort(sizes)[-2] < CLASS_ROWS:
            continue
        for fine in finest:
            years = not fine.date and fine.whole and fine.values.min() >= 1900 and fine.values.max() <= 2100
            # of two with as many values the first stays, or the year of a text such as 2019/20
            later = places[coarse.name] > places[fine.name] or (coarse.numbers is None and years)
            if (coarse.distinct, not later) < (fine.distinct, True) and is_class(coarse, fine):
                columns = sum(np.array_equal(fine.codes < 0, look.codes < 0) for look in looks)
                # one of two categories is there where the number is null, the other one where it is not
                sides = [np.array_equal(fine.codes < 0, coarse.codes == code) for code in (0, 1)]
                of_nulls = coarse.distinct == 2 and any(sides)
                if of_nulls and columns > 1:  # a question before others
                    continue
                reason = "says whether {} is null" if of_nulls else "a class of {}"
                yield coarse.name, reason.format(quoted(fine.name))
                break


def _remainders(looks: list[Look]) -> Iterator[tuple[str, str]]:
    """Whole numbers that are what a division of another one leaves, such as the minutes of 1430."""
    whole = [look for look in looks if look.numbers is not None and look.whole and not look.date and look.distinct > 2]
    for rest, number in product(whole, whole):
        if rest.distinct < number.distinct and (divisor := _found(_divisor, number, rest, share=NEARLY_ALL)):
            yield rest.name, f"{quoted(number.name)} modulo {divisor}"


def _divisor(number: FloatArray, rest: FloatArray) -> int:
    """The number whose multiples the differences are, if the rest is below it; 0 if there is none."""
    if not np.abs([number, rest]).max() < 2.0**53:  # above, floats skip whole numbers
        return 0
    divisor = int(np.gcd.reduce((number - rest).astype(np.int64)))
    return divisor if 0 <= rest.min() < rest.max() < divisor else 0


def is_class(coarse: Look, fine: Look) -> bool:
    """Whether each category lies in an interval of its own; nulls of the number count as its lowest value."""
    # A column such as sex that says where births are null is more than that; so is who died, next to dates of death, or
    # to dates of the last contact, of which the living have one: the end of follow-up.
    codes, values = _pairs(coarse, fine)
    of_its_own = has_word(coarse.name, SEEN_NAMES) or coarse.life or rank_of(coarse.name, STATUS_NAMES) is not None
    if of_its_own and any(len(np.unique(values[codes == code])) == 1 for code in np.unique(codes)):
        return False
    return all(_disjoint(*_pairs(*looks)) for looks in ((_thin(coarse), _thin(fine)), (coarse, fine)))


def _pairs(coarse: Look, fine: Look) -> tuple[IntArray, FloatArray]:
    """Codes and numbers of the rows that have a category."""
    present = coarse.codes >= 0
    return coarse.codes[present], np.where(np.isnan(fine.values), -np.inf, fine.values)[present]


def _disjoint(codes: IntArray, values: FloatArray) -> bool:
    order = np.lexsort((codes, values))
    ends = np.flatnonzero(np.diff(codes[order]))  # one fewer than categories, and between two values
    apart = values[order][ends] < values[order][ends + 1]
    return bool(len(ends) < max(1, len(np.unique(codes))) and apart.all())


def _intervals(looks: list[Look]) -> Iterator[tuple[str, str]]:
    """Of two dates and the time between them, one date."""
    dates = [look for look in looks if look.date]
    spans = [look for look in looks if look.numbers is not None and not look.date and look.distinct > 2]
    pairs = combinations(dates, 2)
    triples = [found for pair in pairs for span in spans if (found := _between(span, *pair)) is not None]
    uses = {date.name: sum(date.name in (triple[1].name, triple[2].name) for triple in triples) for date in dates}
    gone: set[str] = set()
    for span, begin, end, unit in sorted(triples, key=lambda triple: rank_of(triple[0].name, TIME_NAMES) is None):
        if begin.name in gone or end.name in gone:
            continue
        drop = _dispensable(span, begin, end, uses)
        kept = end if drop is begin else begin
        gone.add(drop.name)
        yield drop.name, f"follows from {quoted(kept.name)} and {quoted(span.name)}, the {unit} between"


def _between(span: Look, one: Look, other: Look) -> tuple[Look, Look, Look, str] | None:
    """The span, the ends in order, and the unit, if it is the time between two dates, to rounding."""
    if (unit := _found(_unit, one, other, span)) is None:
        return None
    first, second, _ = _together(one, other, span)
    begin, end = (one, other) if np.median(second - first) >= 0 else (other, one)
    # Days that a rule computes are no reason: a date that goes takes its order to others with it. Births go anyway.
    ruled = np.array_equal(span.values, end.values - begin.values, equal_nan=True)
    return None if ruled and not has_word(begin.name, BIRTH_NAMES) else (span, begin, end, unit)


def _unit(first: FloatArray, second: FloatArray, x: FloatArray) -> str | None:
    """The unit in which `x` is the time between two days, however rounded; None where it is none."""
    for unit, length in DAYS_IN.items():
        rest = x - np.abs(second - first) / length
        low, high = np.quantile(rest, [0.005, 0.995])
        if high - low <= 1.1 and rest.std() < 0.2 * x.std():
            return unit
    return None


def _dispensable(span: Look, begin: Look, end: Look, uses: dict[str, int]) -> Look:
    """The date to give up: a birth, the end of a survival time, else the one less often needed."""
    births = [date for date in (begin, end) if has_word(date.name, BIRTH_NAMES)]
    if births or rank_of(span.name, TIME_NAMES) is not None:
        return [*births, end][0]
    if uses[begin.name] != uses[end.name]:
        return begin if uses[begin.name] < uses[end.name] else end
    first, last = _together(begin, end)
    return begin if np.median(last - first) > 15 * DAYS_IN["years"] else end


def _ages(looks: list[Look]) -> Iterator[tuple[str, str]]:
    """Of two whole numbers that add up to the year of a date, the smaller: the age of a year of birth."""
    whole = [look for look in looks if look.whole and not look.date and look.distinct > FEW_CODES]
    for date in (look for look in looks if look.date):
        for one, other in combinations(whole, 2):
            if _found(_is_year, date, one, other, share=0.0):
                age, birth = sorted((one, other), key=lambda look: float(np.nanmedian(look.values)))
                yield age.name, f"the year of {quoted(date.name)} less {quoted(birth.name)}"


def _is_year(days: FloatArray, one: FloatArray, other: FloatArray) -> bool:
    years = np.floor(days).astype("datetime64[D]").astype("datetime64[Y]").astype(np.int64) + 1970
    return bool(np.ptp(years) > 0 and (years == one + other).all())
