"""The verdict on one screen: the same lines in the terminal, in Prefect and in a notebook."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from anonpipe.verify import words
from anonpipe.verify.catalogue import MEASURED, kind_of
from anonpipe.verify.check import Check, Outcome
from anonpipe.verify.verdict import Verdict

RISKS = ("reidentification_rate", "membership_auc", "attribute_inference", "singling_out")
UTILITIES = ("column_shapes", "pair_shapes", "survival_curves", "distinguishability")
WIDTH = 80
_LABEL = 38  # characters of the first column; the table has 78
_MOST_FAILURES = 12  # lines of a refusal below the first three: with places and next command 20 in all
_NAMED = ("attribute_inference", "stratum_inference")  # figures of one column, which the summary names


@dataclass(frozen=True)
class RunFacts:
    """What was done to the table, for the summary."""

    methods: str  # mask, or grouping and synthesis
    strata: tuple[str, ...] = ()
    held_out: float = 0.0  # share of the records


def headline(verdict: Verdict, rows: int, held_out: float = 0.0) -> str:
    """Whether the table was released, in one line.

    Examples
    --------
    >>> from anonpipe.verify.check import held
    >>> headline(Verdict((held("mean", 0.01, 0.02),)), 47_516, 0.05)
    'RELEASED 47,516 rows (5 % held out)'
    >>> headline(Verdict((held("mean", 0.03, 0.02),)), 47_516)
    'NOT RELEASED: 1 of 1 checks failed'
    """
    if verdict.passed:
        held = f" ({100 * held_out:.3g} % held out)" if held_out else ""
        return f"RELEASED {rows:,} rows{held}"
    return f"NOT RELEASED: {len(verdict.failed)} of {len(verdict.checks)} checks failed"


def counts(verdict: Verdict) -> str:
    """How the checks came out.

    Examples
    --------
    >>> from anonpipe.verify.check import held
    >>> counts(Verdict((held("mean", 0.01, 0.02), held("covariance.probabilities", 0.1, None))))
    '1 passed, 0 failed, 1 without a limit'
    """
    outcomes = Counter(check.outcome for check in verdict.checks if not words.reason_only(check))
    missing = sum(map(words.reason_only, verdict.checks))
    unlimited = outcomes[Outcome.NO_LIMIT]
    text = f"{outcomes[Outcome.PASSED]} passed, {len(verdict.failed)} failed, {unlimited} without a limit"
    return text + (f"; {missing} not evaluated" if missing else "")


def method_line(verdict: Verdict, facts: RunFacts) -> str:
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
    """Four risks and four utilities: label, estimate, 95 % upper limit and limit of each.

    Examples
    --------
    >>> from anonpipe.verify.check import held
    >>> check = held("risk.membership_auc", 0.527, 0.6, point=0.509)
    >>> figures(Verdict((check,)))[0][1][1]
    ('membership inference (AUC)', '0.509', '0.527', '0.6')
    """
    checks = {check.key: check for check in verdict.checks}
    sections = []
    for part, names in (("risk", RISKS), ("utility", UTILITIES)):
        rows = [_row(name, checks.get(f"{part}.{name}")) for name in names]
        sections.append((part, rows))
    return sections


def _row(name: str, check: Check | None) -> tuple[str, str, str, str]:
    """A figure as text; shares as percentages."""
    kind = kind_of(name)
    label = str(kind.title)
    unit = kind.unit if kind.unit.startswith("×") else ""
    if check is None or check.measured is None or check.measured != check.measured:
        return label, "not evaluated", "", "-" if check is None else _number(check.limit, name)
    if name in _NAMED and check.columns:
        label = f"{label.partition(',')[0]} ({check.columns[0]})"
    estimate = check.measured if check.point is None else check.point
    upper = "" if check.point is None else _number(check.measured, name)
    mark = " failed" if check.outcome is Outcome.FAILED else ""
    return _cut(label), f"{_number(estimate, name)} {unit}".strip(), upper, _number(check.limit, name) + mark


def _cut(label: str) -> str:
    return label if len(label) <= _LABEL - 2 else label[: _LABEL - 4] + "…)"


def _number(value: float | None, name: str) -> str:
    if value is None:
        return "-"
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
        f"failed: {words.name(check)} {words.measured(check)} ({words.limit(check)}){_columns(check)}"
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
        short = _shortened(entry, 2 if shown < len(failed) else room)
        if len(lines) + len(short) > most - 1:
            return [*lines, f"more     {len(entries) - shown} failures and remedies: --details, or the report"]
        lines += short
    return [*lines, "more     remedies in full: --details, or the report"]


def _shortened(lines: list[str], most: int) -> list[str]:
    """The first lines, with dots where more follow."""
    return lines if len(lines) <= most else [*lines[: most - 1], f"{lines[most - 1][: WIDTH - 1]}…"]


def _end_cut(text: str) -> str:
    """A text that fits beside a label of nine characters."""
    return text if len(text) <= WIDTH - 9 else f"{text[: WIDTH - 10]}…"


def _columns(check: Check) -> str:
    return f", worst: {', '.join(check.columns)}" if check.columns else ""


def summary_lines(verdict: Verdict, rows: int, facts: RunFacts, remedies: Sequence[str] = ()) -> list[str]:
    """The summary of a run: headline, method, counts, then figures of a release or the failures of a refusal."""
    head = [
        headline(verdict, rows, facts.held_out),
        f"method   {_end_cut(method_line(verdict, facts))}",
        f"checks   {counts(verdict)}",
    ]
    return head + (table(verdict) if verdict.passed else failures(verdict, remedies))
