"""Checks in words: the one place where a check becomes text, for terminal, reports, artifacts and manifest."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import ceil, isfinite, isinf, isnan
from string import Formatter
from typing import TYPE_CHECKING, Any

from anonpipe.errors import plural
from anonpipe.job.wide import TIMES
from anonpipe.verify.catalogue import MEASURED, Check, CheckKind, Outcome, Scope, Withheld, Words, kind_of

if TYPE_CHECKING:
    from anonpipe.verify.verdict import Verdict


@dataclass(frozen=True)
class Line:
    """A check in words."""

    # key, outcome, mandatory: the check's
    key: str
    name: str  # What was checked
    outcome: Outcome
    measured: str  # With its unit
    limit: str  # With its unit
    on: str  # Which rows or bytes it was measured on, and in which column it is worst
    mandatory: bool

    def to_dict(self) -> dict[str, Any]:
        """As JSON-able content."""
        return asdict(self) | {"outcome": self.outcome.value}


NOT_MEASURED = "not measured"

_WHERE = {Scope.STRATUM: " in each stratum", Scope.GROUP: " in each group"}

_SHORT = {"standard errors": "s.e."}  # Units as a table has them that is to fit in 80 columns


class _Filled(Formatter):
    """Templates of the catalogue: `{files:written file}` is a number of files, as `2 written files`."""

    def get_value(self, key: int | str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return kwargs.get(str(key), "?")  # as in a verdict of another version

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec[:1].isalpha():
            return f"{_number(value)} {format_spec}{'' if value == 1 else 's'}"
        return _number(value) if format_spec == "," else str(super().format_field(value, format_spec))


def line(check: Check) -> Line:
    """A check in words."""
    return Line(check.key, name(check), check.outcome, measured(check), limit(check), on(check), check.mandatory)


def name(check: Check) -> str:
    """What was checked; the key of a check that this version does not know."""
    return check.key if check.kind is None else _filled(check.kind.title, check)


def on(check: Check) -> str:
    """Which rows or bytes it was measured on, and in which column it is worst."""
    if check.kind is None or (check.measured is None and check.withheld is None):
        return "-"
    return ", ".join(filter(None, [_filled(check.kind.on, check), worst_in(check)]))


def worst_in(check: Check) -> str:
    """In which column, or pair, a check is nearest to its limit, and what was measured there; empty without one."""
    if not check.columns:
        return ""
    point = "" if check.point in (None, check.measured) else f", where {_number(check.point)} was measured"
    return f"most in column{'s' if len(check.columns) > 1 else ''} {' and '.join(map(repr, check.columns))}{point}"


def content(check: Check) -> dict[str, Any]:
    """A check as JSON-able content for the steward: its words, and the numbers behind them."""
    numbers = {"value": check.measured, "bound": check.limit}
    finite = {name: value if value is not None and isfinite(value) else None for name, value in numbers.items()}
    return line(check).to_dict() | finite | {"unit": check.unit, "columns": list(check.columns)}


def named(check: Check) -> str:
    """What was checked, and in which column it is worst."""
    return ", ".join(filter(None, [name(check), worst_in(check)]))


def measured(check: Check, short: bool = False) -> str:
    """The figure with its unit, or what stands in its place."""
    k, units = check.about.get("k"), check.about.get("whom") == "units"
    if units and check.withheld in (Withheld.FEW_ROWS, Withheld.FEW_OF_SHARE):
        return f"rows that may be of fewer than {k} units"
    if check.withheld is Withheld.FEW_ROWS:
        return f"fewer than {k}"
    if check.withheld is Withheld.FEW_OF_SHARE:
        return f"fewer than {k} rows"
    if check.withheld is not None:
        return "within the limit" if check.outcome is Outcome.PASSED else "not reported"
    if check.measured is None:
        return NOT_MEASURED
    unit = _SHORT.get(check.unit, check.unit) if short else check.unit
    if isnan(check.measured) or (check.limit is None and isinf(check.measured)):
        return "not defined"
    beyond = check.limit if check.outcome is Outcome.FAILED else None
    return f"{figure_beyond(check.measured, beyond)} {unit}".strip()


def limit(check: Check, short: bool = False) -> str:
    """The limit with its unit, in a table without; where nothing was measured, the reason."""
    if check.reason is not None:
        return _Filled().vformat(check.reason.value, (), check.about)
    if check.limit is None or check.kind is None:
        return "no limit"
    way = "at least" if check.kind.at_least else "at most"
    return f"{way} {_number(check.limit)} {'' if short else check.unit}".strip()


def remedies(checks: tuple[Check, ...], on: Collection[str] = ("groups",)) -> tuple[str, ...]:
    """What to do beyond `on` (`Job.in_force`) about each failed check with a known remedy; the same advice once."""
    found: dict[str, str] = {}
    for check in checks:
        if check.outcome is Outcome.FAILED and check.measured is not None and check.kind and check.kind.remedy:
            about = {*on, "times"} if TIMES in check.columns else set(on)
            rows = tuple(f"{key.removeprefix('gaps of ')} (row " for key in on if key.startswith("gaps of "))
            about |= {"gaps"} if any(column.startswith(rows) for column in check.columns) else set()
            about |= {"small strata"} if "strata" in on and check.kind.scope is Scope.STRATUM else set()
            found.setdefault(_of_wide_interval(check) + advice_of(check.kind, about), named(check))
    return tuple(f"{name}: {advice}" for advice, name in found.items())


def advice_of(kind: CheckKind, on: Collection[str]) -> str:
    """What to do where a check fails in a job that has `on` already."""
    if "recoded" in on and (kind.key.startswith("risk.") or not isinstance(kind.remedy, str)):
        return _recoded_otherwise(kind, on)
    return kind.remedy if isinstance(kind.remedy, str) else kind.remedy(on)


def _recoded_otherwise(kind: CheckKind, on: Collection[str]) -> str:
    """Advice where key variables are recoded, and other columns released unchanged or drawn by PRAM."""
    finer = kind.key.partition(".")[0] not in ("risk", "records", "cells")
    retain = f"a {'higher' if finer else 'lower'} mask.retain, " * ("pram" in on)
    if finer:
        return f"{retain}finer levels in disclosure.recode, or fewer keys, which suppress less"
    return f"{retain}coarser levels in disclosure.recode (or base, top), a larger k, or a column less (role: dropped)"


def _of_wide_interval(check: Check) -> str:
    """What a larger hold-out would do, where only the interval is beyond the limit: it makes that narrower."""
    gate = None if check.kind is None else check.kind.gate
    end, point, most, persons = check.measured, check.point, check.limit, check.records
    if gate is None or "hold_out" not in gate.needs or end is None or point is None or most is None or not persons:
        return ""
    if point >= most or check.about.get("end", "upper") != "upper":
        return ""
    times = ((end - point) / (most - point)) ** 2
    return (
        f"what was measured, {_number(point)}, is within the limit; its interval is wide, as it rests on {persons:,} "
        f"records. With about {ceil(times * persons):,}, {_number(times)} times as many, the same figure would pass "
        "(measure.hold_out and measure.queries); else "
    )


def unmeasured(checks: tuple[Check, ...]) -> dict[str, str]:
    """Of each reason why something was not measured, what was not."""
    found: dict[str, str] = {}
    for check in checks:
        if reason_only(check):
            why = limit(check)
            found[why] = f"{found[why]}, {name(check)}" if why in found else name(check)
    return found


def reason_only(check: Check) -> bool:
    """Whether a check holds no figure, but the reason why there is none."""
    return check.measured is None and check.reason is not None and not check.blocks


def _filled(words: Words, check: Check) -> str:
    given: Mapping[str, Any] = {
        **check.about,
        "records": check.records,
        "of": check.of,
        "where": _WHERE.get(check.kind.scope, "") if check.kind else "",
    }
    return _Filled().vformat(words if isinstance(words, str) else words(check.about), (), given)


def figure_beyond(value: float, limit: float | None) -> str:
    """A figure, with as many digits as it takes to differ from the limit that it is beyond."""
    digits = range(4, 17) if limit not in (None, value) and _number(value) == _number(limit) else ()
    return next((text for at in digits if float(text := f"{value:.{at}g}") != limit), _number(value))


def _number(value: Any) -> str:
    if not isinstance(value, (int, float)):
        return "?"
    return f"{int(value):,}" if float(value).is_integer() and abs(value) < 1e15 else f"{value:.3g}"


# --- The summary: a verdict on one screen, with the same lines in the terminal, in Prefect and in a notebook ----------

AGAIN = "rows of {} under a new number: nothing more is disclosed"
RISKS = ("reidentification_rate", "membership_auc", "attribute_inference", "singling_out")
UTILITIES = ("column_shapes", "pair_shapes", "survival_curves", "distinguishability")
WIDTH = 80
_LABEL = 38  # characters of the first column; the table has 78
_MOST_FAILURES = 12  # lines of a refusal below the first three: with places and next command 20 in all
_DOUBT = "?"  # After the limit of a check that is uncertain
_NAMED = ("attribute_inference", "stratum_inference")  # figures of one column, which the summary names


@dataclass(frozen=True)
class RunFacts:
    """What was done to the table, for the summary."""

    methods: str  # mask, or grouping and synthesis
    strata: tuple[str, ...] = ()
    held_out: float = 0.0  # share of the records
    copies: int = 1  # of the release, which are all counted by its rows
    times: Mapping[str, float] = field(default_factory=dict)  # seconds of each step of the run
    units: str = ""  # those that are released whole, in a line each
    recoded: str = ""  # the columns that disclosure control changed, in a line each
    again: str = ""  # the version with the same rows


def headline(verdict: Verdict, rows: int, facts: RunFacts) -> str:
    """Whether the table was released, in one line."""
    if verdict.passed:
        of = " of the units" if facts.units else ""
        held = f" ({100 * facts.held_out:.3g} %{of} held out)" if facts.held_out else ""
        return _timed(f"RELEASED {rows_in_copies(rows, facts.copies)}{held}", facts.times)
    return f"NOT RELEASED: {len(verdict.failed)} of {len(verdict.checks)} checks failed"


def rows_in_copies(rows: int, copies: int) -> str:
    """The rows of a release, of each of its copies where there are several."""
    each = "" if rows % copies == 0 else "about "
    return f"{copies} copies of {each}{plural(rows // copies, 'row')}" if copies > 1 else plural(rows, "row")


def _timed(text: str, times: Mapping[str, float]) -> str:
    """A text with the seconds of all steps, and by name of the longest that there is room for."""
    if not times:
        return text
    text = f"{text} in {sum(times.values()):.0f} s"
    named = [f"{step} {times[step]:.0f} s" for step in sorted(times, key=lambda each: -times[each]) if times[step] >= 1]
    longer = (f"{text}: {', '.join(named[:most])}" for most in range(len(named), 0, -1))
    return next((each for each in longer if len(each) <= WIDTH), text)


def counts(verdict: Verdict) -> str:
    """How the checks came out."""
    outcomes = Counter(check.outcome for check in verdict.checks if not reason_only(check))
    missing = sum(map(reason_only, verdict.checks))
    unlimited = outcomes[Outcome.NO_LIMIT]
    text = f"{outcomes[Outcome.PASSED]} passed, {len(verdict.failed)} failed, {unlimited} without a limit"
    return text + (f"; {missing} not evaluated" if missing else "")


def _method_line(verdict: Verdict, facts: RunFacts) -> str:
    """Methods, groups and strata."""
    smallest = next((check for check in verdict.checks if check.key in ("group.smallest", "alike.fewest")), None)
    parts = [facts.methods]
    if smallest is not None and smallest.measured is not None:
        groups = smallest.about.get("groups")
        size = f"{int(smallest.measured):,}"
        known = isinstance(groups, int)
        parts.append(f"{groups:,} groups (smallest {size})" if known else f"smallest group {size} {smallest.unit}")
    if facts.strata:
        parts.append(f"strata: {', '.join(facts.strata)}")
    return "; ".join(parts)


def figures(verdict: Verdict) -> list[tuple[str, list[tuple[str, str, str, str]]]]:
    """Four risks and four utilities: label, estimate, 95 % upper limit and limit of each."""
    checks = {check.key: check for check in verdict.checks}
    return [
        (part, [_row(name, checks.get(f"{part}.{name}")) for name in names])
        for part, names in (("risk", RISKS), ("utility", UTILITIES))
    ]


def _row(name: str, check: Check | None) -> tuple[str, str, str, str]:
    """A figure as text; shares as percentages."""
    kind = kind_of(name)
    label = str(kind.title)
    unit = kind.unit if kind.unit.startswith("×") else ""
    if check is None or check.measured is None or check.measured != check.measured:
        return label, "not evaluated", "", "-" if check is None else figure_text(check.limit, name)
    if name in _NAMED and check.columns:
        # Estimate and upper end may be of two columns, for which there is no room here
        label = f"{label.partition(',')[0]} ({check.columns[0] if len(check.columns) == 1 else 'worst columns'})"
    estimate = check.measured if check.point is None else check.point
    upper = "" if check.high is None else figure_text(check.high, name)
    upper = "expected" if check.about.get("end") == "expected" else upper
    mark = " failed" if check.outcome is Outcome.FAILED else f" {_DOUBT}" if check.uncertain else ""
    label = label if len(label) <= _LABEL - 2 else label[: _LABEL - 4] + "…)"
    return label, f"{figure_text(estimate, name)} {unit}".strip(), upper, figure_text(check.limit, name) + mark


def figure_text(value: float | None, key: str) -> str:
    """A figure of a gate, or of its check: a share in per cent, anything else with three digits."""
    if value is None:
        return "-"
    name = key.rpartition(".")[2]
    is_share = "auc" not in name and kind_of(name).unit in ("", "of attacks") and "risk" in MEASURED[name].needs
    if not is_share:
        return f"{value:.3g}"
    percent = 100 * value
    return f"{percent:.2g} %" if abs(percent) < 1 else f"{percent:.3g} %"


def table(verdict: Verdict) -> list[str]:
    """The figures as lines of 78 characters; without a section of which nothing was evaluated."""
    lines = []
    for part, rows in figures(verdict):
        if all(estimate == "not evaluated" for _, estimate, _, _ in rows):
            lines.append(f"{part}: not evaluated")
            continue
        lines.append(f"{part:<{_LABEL}}{'estimate':>18}{'95 % upper':>13}{'limit':>9}")
        lines += [f"  {label:<{_LABEL - 2}}{value:>18}{upper:>13}{limit:>9}" for label, value, upper, limit in rows]
    return lines


def failures(verdict: Verdict, remedies: Sequence[str], most: int = _MOST_FAILURES) -> list[str]:
    """Failed checks with figure and limit, then remedies, wrapped; the rest of more than `most` lines as a count."""
    failed = [
        f"failed: {name(check)} {measured(check)} ({limit(check)})"
        + (f", worst: {', '.join(check.columns)}" if check.columns else "")
        for check in verdict.failed
    ]
    only = len(failed) == 1
    advice = [f"remedy: {remedy.partition(': ')[2] if only else remedy}" for remedy in remedies]
    entries = [
        textwrap.wrap(text, WIDTH, subsequent_indent=" " * 8, break_on_hyphens=False) for text in failed + advice
    ]
    if sum(map(len, entries)) <= most:
        return [line for entry in entries for line in entry]
    room = max(1, (most - 1 - 2 * len(failed)) // max(1, len(advice)))  # lines of a remedy
    lines: list[str] = []
    for shown, entry in enumerate(entries):
        own = 2 if shown < len(failed) else room
        short = entry if len(entry) <= own else [*entry[: own - 1], f"{entry[own - 1][: WIDTH - 1]}…"]
        if len(lines) + len(short) > most - 1:
            return [*lines, f"more     {len(entries) - shown} failures and remedies: --details, or the report"]
        lines += short
    return [*lines, "more     remedies in full: --details, or the report"]


def shortened(text: str, most: int = WIDTH) -> str:
    """A text of so many characters at most, by default on one line of the terminal."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def first_lines(verdict: Verdict, rows: int, facts: RunFacts) -> list[str]:
    """The first lines of a run's summary: headline, verdict, method and counts."""
    method, word = _method_line(verdict, facts), verdict.word.replace(" uncertain:", f" uncertain ({_DOUBT}):")
    return [
        headline(verdict, rows, facts),
        *(textwrap.wrap(f"verdict  {word}", WIDTH, subsequent_indent=" " * 9) if verdict.passed else []),
        shortened(f"method   {method}"),
        f"checks   {counts(verdict)}",
        *([f"units    {facts.units}"] if facts.units and verdict.passed else []),
        *([shortened(f"recoded  {facts.recoded}")] if facts.recoded else []),
        *([f"again    {AGAIN.format(facts.again)}"] if facts.again and verdict.passed and facts.copies == 1 else []),
    ]
