"""What was done, what that guarantees and what it does not, in sentences."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anonpipe.columns import TRANSFORMS
from anonpipe.encoding.identifiers import many_rows, units_meaning
from anonpipe.errors import plural
from anonpipe.files import templates
from anonpipe.job.model import Job
from anonpipe.job.wide import row_name
from anonpipe.methods.grouping import METHODS as CLUSTERERS
from anonpipe.methods.masking import MASKERS
from anonpipe.methods.synthesis import METHODS as SYNTHESIZERS
from anonpipe.report.content import CheckLine, ColumnLine, Dial, MethodLine, Treatment, UnitsPart
from anonpipe.verify import words as checks_in_words
from anonpipe.verify.catalogue import GATES, Check, kind_of
from anonpipe.verify.verdict import Verdict, reservations

if TYPE_CHECKING:
    from jinja2 import Environment


def methods(job: Job) -> tuple[MethodLine, ...]:
    """The methods of a job in the order of their work."""
    known: tuple[tuple[str, Any, Any], ...] = (
        ("grouping", job.cluster, CLUSTERERS),
        ("replacing records, group by group", job.synthesize, SYNTHESIZERS),
        ("masking", job.mask, MASKERS),
    )
    if not job.replaces:
        return (MethodLine(step="no column is masked", name="", published="", reference="", keeps="", options=()),)
    lines = [_method(step, options, registry) for step, options, registry in known if options is not None]
    decoding = {"step": "decoding", "name": "", "published": "", "reference": "", "keeps": ""}
    return (*lines, MethodLine(**decoding, options=_set_options(job.decode)))


def _method(step: str, options: Any, registry: Any) -> MethodLine:
    record = registry.get(options.method)
    form = getattr(options, "form", None) or getattr(options, "moments", None)
    keeps = getattr(record, "keeps", "")
    keeps = _of_form(keeps, form) if form else keeps
    texts = {"published": record.published, "reference": record.reference, "keeps": keeps}
    return MethodLine(step=step, name=options.method, options=_set_options(options), **texts)


def _of_form(keeps: str, form: str) -> str:
    """Of what a method of several forms keeps, what is said of one form."""
    found = re.search(rf"(?:^|; ){re.escape(form)}: (.*?)(?=; \w+: |$)", keeps)
    return found.group(1) if found else keeps


def _set_options(options: Any) -> tuple[tuple[str, str], ...]:
    """Options as the job file writes them; what is switched off is left out."""
    content = options.model_dump(mode="json", exclude={"method"})
    return tuple((name, _value(value)) for name, value in content.items() if value not in (None, False, 0.0, [], {}))


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_value(each)}" for name, each in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def coefficient(name: str) -> str:
    """The name of a coefficient, with codes that are whole numbers as such."""
    return re.sub(r"\[((?:T\.)?-?\d+)\.0\]", r"[\1]", name)


_EXPECTED = " Expected from the means and covariances that are kept; attacks stand under Risk."
_HALVES = "differs {} times as much as chance allows between random halves."
_LINKS = "An attacker who has the original{less} links {} of the records."
_MEMBERS = "An attacker picks the member of the table out of two persons with probability {} (0.5 is guessing)."
_ENDS = {"upper": "up to ", "lower": "at least "}  # Of an interval without its estimate
# Figures at the head of a report: check, title, and the sentence of a figure
_DIALS = (
    ("risk.reidentification_rate", "Re-identification", _LINKS),
    ("risk.membership_auc", "Membership", _MEMBERS),
    ("utility.column_shapes", "Columns", f"The worst column {_HALVES}"),
    ("utility.pair_shapes", "Pairs of columns", f"The worst pair of columns {_HALVES}"),
)


def dials(checks: Sequence[Check], unknown: Sequence[str] = ()) -> tuple[Dial, ...]:
    """The four figures at the head of a report, as far as these checks tell them.

    `unknown` are columns that attacks do not take an intruder to know: those with role sensitive.
    """
    by_key, less = {check.key: check for check in checks}, f", but not {', '.join(unknown)}," if unknown else ""
    return tuple(_dial(by_key.get(key), title, sentence, less) for key, title, sentence in _DIALS)


def _dial(check: Check | None, title: str, sentence: str, less: str) -> Dial:
    if check is not None and check.withheld is not None:
        outcome = f"{checks_in_words.measured(check)}; {checks_in_words.limit(check)}: {check.outcome.value}."
        return Dial(key="", title=title, shown="–", sentence=outcome[:1].upper() + outcome[1:])
    if check is None or check.measured is None or not math.isfinite(check.measured):
        why = "Not evaluated." if check is None else f"Not evaluated: {checks_in_words.limit(check)}."
        return Dial(key="", title=title, shown="–", sentence=why)
    estimate = check.measured if check.point is None or not math.isfinite(check.point) else check.point
    shown, end = checks_in_words.figure_text(estimate, check.key), str(check.about.get("end"))
    end_only = _ENDS.get(end, "") if check.point is None else ""
    meaning = sentence.format(end_only + shown, less=less) + _EXPECTED * (end == "expected")
    numbers = {"estimate": estimate, "upper": check.high, "limit": check.limit}
    return Dial(key=check.key, title=title, outcome=check.outcome.value, shown=shown, sentence=meaning, **numbers)


_BY = {"normal_scores": "normal scores", "log": "logarithms", "none": "values"}


def transforms(columns: Sequence[ColumnLine]) -> tuple[str, ...]:
    """What became of the masked numbers and dates, in a sentence for each way in which they were masked."""
    named = {key: [line.name for line in columns if line.transform == word] for key, word in _BY.items()}
    return tuple(f"{', '.join(names)}: {TRANSFORMS[key]}." for key, names in named.items() if names)


def columns(
    job: Job, written: Mapping[str, Mapping[str, Any]], external: bool, units: UnitsPart | None = None
) -> tuple[ColumnLine, ...]:
    """The columns of the files, without declared limits for recipients; for the steward those of the input, too."""
    declared = {name: job.columns.get(name, job.columns.get(row_name(name, 1))) for name in written}
    lines = [
        ColumnLine(
            name=name,
            kind=facts.get("kind", ""),
            treatment=facts["treatment"],
            limits="" if external or declared[name] is None else _limits(declared[name]),
            transform=_BY.get(facts.get("transform", ""), ""),
        )
        for name, facts in written.items()
    ]
    if external:
        return tuple(lines)
    if units is not None:  # the job is that of records that are units
        gone: dict[str, Any] = {"kind": "", "treatment": "not released", "limits": ""}
        return (*lines, *(ColumnLine(name=name, identifies=own, **gone) for name, own in units.unreleased))
    computed = {rule.gap: f"auxiliary, masked in place of {rule.target}; " for rule in job.parsed_rules}
    for name, column in job.as_given.items():
        if name not in written:
            known = column.role.released and name not in computed
            treatment: Treatment = "as probabilities" if known else "not released"
            kind, limits, identifies = column.kind.value, _limits(column), column.role.names_persons
            limits = computed.get(name, "") + limits
            lines.append(ColumnLine(name=name, kind=kind, treatment=treatment, limits=limits, identifies=identifies))
    return tuple(lines)


def _limits(column: Any) -> str:
    texts = []
    if column.bounds is not None:
        low, high = ("no limit" if bound is None else str(bound).removesuffix(".0") for bound in column.bounds)
        texts.append(f"{low} to {high}")
    if column.step is not None:
        texts.append(f"steps of {column.step:g}")
    if column.levels is not None:
        texts.append(f"{len(column.levels)} declared levels")
    return ", ".join(texts)


def guarantees(job: Job, grouped: bool, identical: bool, units: bool = False) -> tuple[str, ...]:
    """What a release of this job guarantees; every sentence stands for a gate."""
    forms = {"grouped": grouped, "identical": identical, "units": units}
    return _sentences("guaranteed.jinja", job=job, wider=_wider(job), units_meaning=units_meaning(job.k), **forms)


@cache
def _templates() -> Environment:
    """Texts with a sentence in each line; line breaks in what is filled in are kept apart from these."""
    return templates(Path(__file__).parent, finalize=lambda value: str(value).replace("\n", "\0"))


def _sentences(template: str, **given: Any) -> tuple[str, ...]:
    text = _templates().get_template(template).render(given)
    return tuple(line.replace("\0", "\n") for line in text.split("\n") if line)


def _wider(job: Job) -> list[str]:
    """What the steward allows beyond the defaults, so that nobody takes these gates for the default ones."""
    texts = []
    for name, limit in (job.gates.of_every_run | job.gates.given).items():
        default, least = job.default_limits.get(name, GATES[name].default), kind_of(name).at_least
        if default is not None and (limit < default if least else limit > default):
            texts.append(f"{GATES[name].limited} {limit:g} (default {default:g})")
    return texts


def not_guaranteed(job: Job, grouped: bool, identical: bool, not_kept: Sequence[str] = ()) -> tuple[str, ...]:
    """What nobody should read into it; `not_kept` are columns that have lost their mean and sum."""
    unchanged = [name for name, column in job.columns.items() if column.role.unchanged]
    facts = {"grouped": grouped, "identical": identical, "unchanged": unchanged, "not_kept": not_kept}
    return _sentences("not_guaranteed.jinja", job=job, many_rows=many_rows(job.k), **facts)


def apart(constant: Sequence[str]) -> tuple[str, ...]:
    """What becomes of units that have several rows; `constant` are columns with one value in all rows of a unit."""
    differ = f"In the original all rows of a unit have one value of {', '.join(constant)}; here they differ."
    rows = "Rows of one unit do not belong together, and no column says which they were: do not analyse whole units."
    return (rows, differ) if constant else (rows,)


def headline(verdict: Verdict, rows: str, checks: Sequence[CheckLine]) -> str:
    """The verdict in a sentence, and which risks have no limit or were not measured."""
    if verdict.passed:
        free = reservations(verdict, apart=True)
        unsure = "".join(f" {text[:1].upper()}{text[1:]}." for text in verdict.uncertain)
        missing = f" Not measured: {', '.join(verdict.unmeasured)}." if verdict.unmeasured else ""
        return f"Released: {rows}. No check failed{free}.{unsure}{missing}"
    failed = sum(check.outcome == "failed" for check in checks)
    what = f"{failed} of {plural(len(checks), 'check')} failed" if failed else "a mandatory check is missing"
    return f"Nothing was released: {what}."


def kept(passed: bool, checks: Sequence[CheckLine]) -> str:
    """The verdict on two tables in a sentence."""
    carried_out = sum(check.outcome in ("passed", "failed") for check in checks)
    if not carried_out:
        return "Nothing was held against a limit; see what was measured."
    if passed:
        return f"Every limit that was looked at is kept ({carried_out})."
    failed = sum(check.outcome == "failed" for check in checks)
    return f"{failed} of {plural(carried_out, 'limit')} not kept."


def summary(checks: Sequence[CheckLine]) -> tuple[str, ...]:
    """What failed or is missing, then how many checks passed, failed, have no limit, and were not evaluated."""
    failed = (
        f"Failed: {check.name}. Measured: {check.measured}; allowed: {check.limit}."
        for check in checks
        if check.outcome == "failed"
    )
    open_ones = (check for check in checks if check.outcome == "not checked" and check.mandatory)
    missing = (f"Missing: {check.name}, which may not be left out." for check in open_ones)
    of = Counter(check.outcome for check in checks)
    counts = f"{plural(of['passed'], 'check')} passed, {of['failed']} failed, {of['no limit set']} without a limit"
    return (*failed, *missing, counts + (f"; {of['not checked']} not evaluated." if of["not checked"] else "."))
