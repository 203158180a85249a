"""What the commands print: tables for a terminal, one JSON object for programs, one line for scripts.

rich is the only library of weight that is imported here, so that `--help` answers at once.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from enum import Enum
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table
from rich.text import Text

from anonpipe.errors import GateError, plural, printable, record_noun

if TYPE_CHECKING:
    from anonpipe.compare import Study
    from anonpipe.pipeline.outcome.publish import RunOutcome
    from anonpipe.report import Report
    from anonpipe.report.content import Compared, MeasureLine
    from anonpipe.two_tables import Evaluated
    from anonpipe.verify.verdict import Verdict

_COLOURS = {
    "TRIAL": "bold yellow",
    "RELEASED": "bold green",
    "NOT": "bold red",
    "failed:": "bold red",
    "remedy:": "cyan",
    "warning": "yellow",
}
_HEADINGS = {"published": "published as", "reference": "source", "cost": "cost", "sizes": "sizes", "keeps": "keeps"}
_LONG_HEADING = 16
SCREEN, _PLACES = 20, 3  # Lines of a terminal, and those with release, report and details
MOST_WARNINGS = 3  # That are shown without --details
_MOST_PAIRS = 12  # Rows of the table of correlations


class Form(Enum):
    """How a command tells its result."""

    TABLES = "tables"
    JSON = "json"
    QUIET = "quiet"


class Shown(Console):
    """A console on which names of columns, paths and texts of jobs cannot steer the terminal."""

    def render_str(self, text: str, **options: Any) -> Text:
        """The text with escapes in place of what steers."""
        return super().render_str(printable(text), **options)

    def on_broken_pipe(self) -> None:
        """Go on in silence: who reads has seen enough, and what was done keeps its exit code."""
        with contextlib.suppress(SystemExit):
            super().on_broken_pipe()


out = Shown(highlight=False)
err = Shown(stderr=True, highlight=False)


def say(label: str, text: str) -> None:
    """A labelled line on standard error, its text as it is."""
    err.print(f"{label} ", end="")
    err.print(text, markup=False, soft_wrap=True)


def line(text: str) -> None:
    """A line on standard output as it is: neither wrapped nor read as markup."""
    out.print(text, markup=False, soft_wrap=True)


def warn(text: str) -> None:
    """A warning on standard error."""
    say("[yellow]warning:[/]", text)


def as_json(content: Any) -> None:
    """One JSON value on standard output, in ASCII; what is no number becomes null."""
    from pydantic_core import to_jsonable_python

    sys.stdout.write(json.dumps(to_jsonable_python(content, inf_nan_mode="null"), indent=2) + "\n")
    sys.stdout.flush()


def plain_table(title: str, *columns: Column) -> Table:
    """A table without frames."""
    return Table(*columns, title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)


# --- a run ----------------------------------------------------------------------------------------------------------


def show_outcome(outcome: RunOutcome, form: Form, details: bool = False) -> None:
    """The summary of a run, or with `details` all checks; warnings; where report and release are.

    Of warnings on a release the urgent ones are in short and the rest a count, as all are in its report: in full by
    `details`, or without release or report.
    """
    refused = outcome.version is None and not outcome.trial
    in_full = details or form is Form.QUIET or refused or outcome.report is None
    for warning in outcome.warnings if in_full else ():
        warn(warning)
    if form is Form.QUIET:
        if outcome.version is not None or outcome.trial:
            line(outcome.version or outcome.summary[0])
        return
    room = SCREEN - _PLACES - len(outcome.summary)
    urgent = () if in_full else outcome.urgent[: max(1, min(MOST_WARNINGS, room))]
    show_summary([*outcome.summary, *_in_short(urgent, room)])
    if details:
        show_verdict(outcome.verdict)
    if outcome.version is not None:
        line(f"release  {_short(outcome.version)}")
    if outcome.report is not None:
        line(f"report   {_short(outcome.report)}")
    if not details:
        notes, rest = len(outcome.verdict.notes), 0 if in_full else len(outcome.warnings) - len(urgent)
        counted = ((rest, "more warning" if urgent else "warning"), (notes, "note"))
        parts = [plural(number, what) for number, what in counted if number]
        place = "in this internal report, or with --details" if outcome.report is not None else "with --details"
        line(f"details  {', '.join([*parts, 'all checks'])}: {place}")


def _in_short(warnings: Sequence[str], room: int) -> list[str]:
    """Warnings in as many lines of 80 columns as there is room for: three at most, and one each at least."""
    room = max(len(warnings), min(MOST_WARNINGS, room))
    lines: list[str] = []
    for at, warning in enumerate(warnings):
        own = (room - len(lines)) // (len(warnings) - at)
        wrapped = wrap(f"warning  {warning}", 80, subsequent_indent=" " * 9, break_on_hyphens=False)
        cut = wrapped[own - 1][:79] + "…" if len(wrapped) > own else ""
        lines += [*wrapped[: own - 1], cut] if cut else wrapped
    return lines


def show_summary(lines: Sequence[str]) -> None:
    """The lines of a summary; the first, and those of failures, in colour."""
    for text in lines:
        first, _, rest = text.partition(" ")
        colour = _COLOURS.get(first)
        out.print(f"[{colour}]{first}[/] " if colour else f"{first} ", end="")
        line(rest)


def _short(path: str) -> str:
    """A path relative to this folder, if it lies below."""
    return path.removeprefix(f"{os.getcwd()}/")


def outcome_content(outcome: RunOutcome, pruned: Iterable[str]) -> dict[str, Any]:
    """A run's end for programs."""
    return {
        "released": outcome.version is not None,
        "trial": outcome.trial,
        "exit_code": 0 if outcome.verdict.passed else GateError.exit_code,
        "version": outcome.version,
        "rows": outcome.rows,
        "again": outcome.facts.again or None,
        "seconds": {step: round(taken, 2) for step, taken in outcome.facts.times.items()},
        **outcome.verdict.in_words(),
        "remedies": outcome.remedies,
        "warnings": outcome.warnings,
        "report": outcome.report,
        "pruned": list(pruned),
    }


def show_verdict(verdict: Verdict) -> None:
    """The checks, what was not checked and why, and notes."""
    from anonpipe.verify.words import unmeasured

    out.print(verdict_table(verdict))
    for reason, names in unmeasured(verdict.checks).items():
        out.print(f"[yellow]not checked:[/] {escape(f'{names}: {reason}')}")
    for note in verdict.notes:
        out.print(f"[dim]note:[/] {escape(note)}")


def verdict_table(verdict: Verdict) -> Table:
    """The checks of a verdict as a table."""
    from anonpipe.verify import words

    colours = {"passed": "green", "failed": "bold red", "not checked": "yellow", "no limit set": "yellow"}
    short = (Column(heading, no_wrap=True) for heading in ("outcome", "measured", "limit"))
    table = plain_table(f"verdict: {verdict.word}", Column("check", overflow="fold"), *short)
    for check in verdict.checks:
        if words.reason_only(check):
            continue
        outcome = f"[{colours[check.outcome]}]{check.outcome.value}[/]"
        name = words.named(check) if check.blocks or check.point is not None else words.name(check)
        table.add_row(escape(name), outcome, words.measured(check, short=True), words.limit(check, short=True))
    return table


@contextlib.contextmanager
def progress_display(silent: bool = False, pieces: str = "") -> Iterator[Callable[[Any], None]]:
    """A live display of stages, pieces, rows/s and time left; silent when not on a terminal, or where asked.

    With `pieces`, what they are called, plain lines take its place where there is no terminal.
    """
    from rich import progress as rich

    texts = rich.TextColumn("{task.description:<11}"), rich.TextColumn("{task.fields[speed]:>16}")
    shown = texts[0], rich.BarColumn(bar_width=30), rich.MofNCompleteColumn(), texts[1]
    times = rich.TimeElapsedColumn(), rich.TimeRemainingColumn()
    tasks: dict[str, rich.TaskID] = {}
    with rich.Progress(*shown, *times, console=err, disable=silent or not err.is_terminal) as bars:

        def update(news: Any) -> None:
            if news.stage not in tasks:
                tasks[news.stage] = bars.add_task(news.stage, total=news.total, speed="")
            task = tasks[news.stage]
            elapsed = next(each.elapsed for each in bars.tasks if each.id == task) or 0.0
            speed = f"{news.rows / elapsed:,.0f} rows/s" if elapsed > 0.05 and news.rows else ""
            bars.update(task, completed=news.done, speed=speed)

        yield progress_lines(pieces) if pieces and not silent and not err.is_terminal else update


def progress_lines(pieces: str) -> Callable[[Any], None]:
    """A line when work begins, when pieces of it are done (not more often than once a second), and at its end."""
    begun, last_shown = time.monotonic(), -math.inf

    def show(news: Any) -> None:
        nonlocal last_shown
        now = time.monotonic()
        if now - last_shown >= 1.0 or news.done == news.total:
            last_shown = now
            done = f"{news.stage}: {news.done:,} of {news.total:,} {pieces} done, {now - begun:.0f} s"
            err.print(done, markup=False, soft_wrap=True)

    return show


def show_log(verbose: bool) -> None:
    """Print what the library logs on standard error, above the live display, where that is asked for."""
    logger = logging.getLogger("anonpipe")
    if verbose and not any(isinstance(handler, _Printed) for handler in logger.handlers):
        logger.addHandler(_Printed())
        logger.setLevel(logging.INFO)


class _Printed(logging.Handler):
    """Lines with the time of day."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record."""
        err.print(self.format(record), markup=False, soft_wrap=True)


# --- both tables side by side ---------------------------------------------------------------------------------------


def show_compared(report: Report, form: Form = Form.TABLES) -> None:
    """Figures of both tables: numbers, categories, and the correlations that changed most."""
    found = report.compared
    if found is None:
        return
    titles = {"column_shapes": "columns", "pair_shapes": "pairs of columns", "survival_curves": "survival curves"}
    measured = {one.name: one for one in report.utility if one.value is not None}
    chance = {title: measured[name] for name, title in titles.items() if name in measured}
    if form is Form.JSON:
        as_json(found.model_dump(mode="json") | {"split_half_ratio": {name: one.value for name, one in chance.items()}})
    elif form is Form.QUIET:
        for text in _largest(found, chance):
            line(text)
    else:
        what = record_noun(report.units is not None and not report.units.linked)
        held = f"{plural(found.held_out, what)} of the input {'was' if found.held_out == 1 else 'were'}"
        apart = f"; {held} held out and are in neither table" if found.held_out else ""
        line(f"{report.rows:,} released rows, compared with those that they replace{apart}")
        _show_tables(found, chance)
        if report.units is not None:
            line(f"units: {report.units.line}")
            for name, figures in report.units.columns:
                pairs = (f"{_four(figures[at])} -> {_four(figures[at + 1])}" for at in (0, 2, 4))
                line("  {}: correlation with the next row {}, share between units {}, within {}".format(name, *pairs))


def _show_tables(found: Compared, chance: dict[str, MeasureLine]) -> None:
    if found.numbers:
        out.print(_number_table(found))
    if found.shares:
        out.print(_share_table(found))
    if found.pairs:
        title = f"correlations that changed most ({found.pairs_compared:,} compared)"
        table = _figures_table(title, "pair", "original", "released", "change")
        for pair in found.pairs[:_MOST_PAIRS]:
            figures = (pair.original, pair.released, pair.released - pair.original)
            table.add_row(escape(f"{pair.first} ~ {pair.second}"), *(f"{value:+.3f}" for value in figures))
        out.print(table)
    if chance:
        title = "largest difference from the original, as a multiple of what chance allows (up to 1: no sign of any)"
        table = _figures_table(title, "among all", "release", "two halves of the original")
        for name, one in chance.items():
            table.add_row(name, _four(one.value), _four(one.baseline))
        out.print(table)
    if found.left_out:
        line(f"not compared here: {', '.join(found.left_out)}")


def _largest(found: Compared, chance: dict[str, MeasureLine]) -> list[str]:
    """The largest change of each kind."""
    means = [
        (abs(one.mean_released - one.mean) / one.sd, one.name)
        for one in found.numbers
        if one.mean is not None and one.mean_released is not None and one.sd
    ]
    shares = [(abs(one.released - one.original), f"{one.column} = {one.category}") for one in found.shares]
    pairs = [(abs(one.released - one.original), f"{one.first} ~ {one.second}") for one in found.pairs[:1]]
    texts = []
    for what, unit, changes in (("mean", " sd", means), ("share", "", shares), ("correlation", "", pairs)):
        if changes:
            change, name = max(changes)
            texts.append(f"largest change of a {what}: {change:.3g}{unit}{f' ({name})' if change else ''}")
    if chance:
        each = ", ".join(f"{name} {_four(one.value)}" for name, one in chance.items())
        texts.append(f"largest differences as a multiple of what chance allows: {each}")
    return texts


def _figures_table(title: str, first: str, *headings: str) -> Table:
    """Names may wrap between words, figures never do."""
    figures = (Column(heading, justify="right", no_wrap=True) for heading in headings)
    table = plain_table(title, Column(first, overflow="fold", min_width=12), *figures)
    table.collapse_padding = True
    return table


def _number_table(found: Compared) -> Table:
    nulls = any(one.nulls or one.nulls_released for one in found.numbers)
    headings = ["mean", "released", "sd", "released", *(["nulls", "released"] if nulls else [])]
    table = _figures_table("numbers: original and release", "column", *headings)
    for one in found.numbers:
        means, spread = (one.mean, one.mean_released), (one.sd, one.sd_released)
        shown = [_four(value) for value in (*means, *spread)]
        if one.date:
            days = ["-" if day is None else str(date(1970, 1, 1) + timedelta(days=round(day))) for day in means]
            shown = [*days, *("-" if value is None else f"{value:.0f} d" for value in spread)]
        shares = [f"{value:.2%}" for value in (one.nulls, one.nulls_released)] if nulls else []
        table.add_row(escape(one.name), *shown, *shares)
    return table


def _four(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _share_table(found: Compared) -> Table:
    table = _figures_table("categories: share of all rows", "column, category", "original", "released")
    for name in dict.fromkeys(one.column for one in found.shares):
        lines = [one for one in found.shares if one.column == name]
        every = found.categories.get(name, len(lines))
        of_all = f" ({len(lines)} of {every:,})" if len(lines) < every else ""
        table.add_row(f"[bold]{escape(name)}[/]{of_all}")
        for one in lines:
            table.add_row(f"  {escape(one.category)}", f"{one.original:.2%}", f"{one.released:.2%}")
    return table


# --- any two tables -------------------------------------------------------------------------------------------------


def show_evaluated(found: Evaluated, form: Form) -> None:
    """What two tables tell: checks, measures, the recipients' analyses, and what was not measured."""
    from anonpipe.report.build import analysis_part, figure

    assessed = found.assessment
    figures = {"utility": [figure(one) for one in assessed.utility], "risk": [figure(one) for one in assessed.risk]}
    analyses = [analysis_part(one) for one in assessed.shown]
    if form is Form.JSON:
        content = {"rows": dict(zip(("original", "release"), found.rows, strict=True)), "columns": found.columns}
        content |= {"not_compared": found.left_out, **found.verdict.in_words(), "warnings": found.warnings}
        as_json(content | figures | {"analyses": analyses})
        return
    for warning in found.warnings:
        warn(warning)
    if form is Form.QUIET:
        return
    before, after = found.rows
    line(f"{after:,} released rows, compared with {before:,} original ones, {len(found.columns)} columns")
    for name, each in figures.items():
        if each:
            out.print(_measures_table(name, each))
    for part in analyses:
        listed = ", ".join(f"{name.replace('_', ' ')} {_four(value)}" for name, value in part.shares)
        line(f"analysis {part.name!r}: {part.problem or listed}")
    show_verdict(found.verdict)


def _measures_table(title: str, figures: list[MeasureLine]) -> Table:
    table = plain_table(f"{title}: figure (95 % interval), and what chance or no release would give")
    table.add_column("measure", overflow="fold", min_width=28)
    table.add_column("figure", justify="right", overflow="fold", max_width=32)
    table.add_column("baseline", justify="right", no_wrap=True)
    for one in figures:
        ends = "" if one.low is None and one.high is None else f" ({_four(one.low)} to {_four(one.high)})"
        table.add_row(escape(one.title), f"{_four(one.value)} {one.unit}".strip() + ends, _four(one.baseline))
    return table


# --- methods --------------------------------------------------------------------------------------------------------


def methods_table(title: str, registry: Mapping[str, Any]) -> Table:
    """A registry as a table."""
    folded = (Column(heading, overflow="fold") for heading in ("published as", "source"))
    table = plain_table(title, Column("method", no_wrap=True), *folded)
    for name, record in registry.items():
        table.add_row(name, escape(record.published), escape(record.reference.split(",")[0]))
    return table


def method_table(title: str, record: Any) -> Table:
    """All that is known of a method."""
    table = Table(title=f"{title}: {record.name}", title_justify="left", box=None, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    content = method_content(title, record)
    options, needs = content.pop("options"), content.pop("needs", None)
    for key, heading in _HEADINGS.items():
        if key in content:
            table.add_row(heading, escape(content[key]))
    if needs is not None:
        table.add_row("needs", escape(", ".join(needs) or "nothing but the features"))
    for name, text in options.items():
        table.add_row("option", escape(f"{name}: {text}"))
    if not options:
        table.add_row("options", "none of its own" if title == "cluster.method" else "none")
    return table


def method_content(title: str, record: Any) -> dict[str, Any]:
    """All that is known of a method, for programs."""
    entry = {"key": title, "name": record.name}
    entry |= {name: getattr(record, name) for name in ("published", "reference", "cost")}
    if title == "cluster.method":
        needs = ["a sensitive column"] if record.classes else []
        return entry | {"sizes": record.sizes, "needs": needs, "options": dict(record.about)}
    options = {} if record.name == "histogram" else dict(record.about)  # a job has this rule in one form
    return entry | {"keeps": record.keeps, "options": options}


# --- settings side by side ------------------------------------------------------------------------------------------


def _heading(name: str) -> str:
    r"""A long name of a figure on lines that end between its words."""
    return escape(re.sub(r"(?<=[._])(?=.)", "\n", name) if len(name) > _LONG_HEADING else name)


def show_study(study: Study, job: str, settings: Iterable[str]) -> None:
    """The table of a comparison, why settings failed, and the setting to take."""
    from anonpipe.compare import cells, legend, reasons

    first = Column("method", overflow="fold"), Column("k", justify="right"), Column("gates", no_wrap=True)
    axes = (Column(_heading(axis.name), overflow="fold") for axis in study.axes)
    table, front = plain_table("settings", *first, *axes), study.front
    for row in study.rows:
        style = "bold green" if row is study.choice else "bold" if any(row is one for one in front) else None
        table.add_row(*map(escape, cells(study, row)), style=style)
    out.print(table)
    labels, notes = (f"{axis.name}: {axis.label}" for axis in study.axes), (f"note: {note}" for note in study.notes)
    for text in (*legend(study), *labels, *reasons(study), *notes):
        line(text)
    if study.choice is None:
        line("no setting passes all gates")
        return
    chosen = study.choice.setting
    given = " ".join(f"--set {shlex.quote(text)}" for text in (*settings, *chosen.overrides))
    line(f"{study.why}: {chosen.method}, k={chosen.k}")
    line(f"to release it: anonpipe run {shlex.quote(job)} {given}")
