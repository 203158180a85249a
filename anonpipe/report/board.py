"""The file for a release board: what was released, how it was protected, what was measured, and who signs.

The order is that of the stages of microdata release in Hundepool et al. (2012), *Statistical Disclosure Control*,
section 3.2: need, data and use, scenarios, methods, outcome. The lines to fill in follow what guidance for statistical
offices asks of a release (ONS, policy on social survey microdata). The board learns what the steward knows: internal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from html import escape
from itertools import compress
from operator import not_
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from anonpipe.errors import InputError, printable
from anonpipe.report.content import MeasureLine, MethodLine, Report
from anonpipe.report.figures import amount, span
from anonpipe.report.page import output_of, report_of_release, template
from anonpipe.rng import steward_secret
from anonpipe.storage import release, release_log, versions
from anonpipe.verify.words import shortened

if TYPE_CHECKING:
    from anonpipe.storage.versions import OutputPlace

_MOST = 25  # Rows of a table; a board reads pages, and the internal report has all
_LONG = 160  # Letters of a name or category that are shown

# What no figure shows; docs/threats.md, "Not promised", has the details
LIMITS = (
    "It is not differential privacy: no bound holds against every intruder. Counts of categories are exact.",
    "Overlapping releases that the steward allowed may tell more together than each of them alone.",
    "An intruder who knows the population's means and covariances exactly may recognise members of a small table.",
    "Many columns by normal scores with a small k may tell members by their values; no measure shows this yet.",
    "Columns released unchanged are protected by their counts only, those of disclosure.non_key by nothing.",
    "In groups a known record leads to its group, and to the right record with probability 1/n.",
    "Sums over few records are not secret; the largest share of a unit in its group is reported.",
    "Attacks that nobody has tried yet may succeed.",
)
# `values.h`: rare original values in the release
_RISKS = ("risk.", "values.h", "records.unchanged", "cells.exact", "keys.rare", "group.smallest", "alike.fewest")
_UTILITY = ("utility.", "analysis.", "mean", "covariance", "variance", "category_share", "null_share", "survival")
_OF_ORIGINAL = "the original itself"  # How references begin that are of the original as it is
# Of risk measures: what they say in plain words, for the table of risks before and after
_PLAIN = {
    "reidentification_rate": "records linked to their own released record",
    "membership_auc": "members distinguished from others (0.5: guessing)",
    "attribute_inference": "unknown values disclosed beyond held-out persons, worst column",
    "attribute_inference.success": "unknown values guessed right",
    "singling_out.one": "persons singled out by one column, beyond held-out ones",
    "singling_out.several": "persons singled out by several columns, beyond held-out ones",
    "linkability": "halves of a person's columns joined, beyond held-out ones",
    "stratum_inference": "stratum of a person disclosed",
    "strata.success": "strata guessed right",
}


def board_file(source: str, internal: str | None = None, key: Any = None) -> dict[str, bytes]:
    """The file for the board on a release, as `board.md` and `board.html`; the key is the steward's own by default."""
    release.refuse_withdrawn(source, internal)
    public = key or release.signing_key(steward_secret()).public_key()
    found = release.checked(source, public)
    if found.problems or found.manifest is None:
        lines = "".join(f"\n  {problem}" for problem in found.problems)
        raise InputError(
            f"the release at {source} is not what the steward signed, and gets no file for a board:{lines}"
        )
    if release_log.known_as_withdrawn(version := found.manifest["version"]):
        raise InputError(f"{source} is a copy of {version}, which was withdrawn; the board gets no file on it")
    where = release.place(output_of(found.where)[0], internal)
    report = report_of_release(source, internal)
    if [each.sha256 for each in report.files] != [each["sha256"] for each in found.manifest["files"]]:
        raise InputError(f"the internal report of {source} is of other files; give the place of its own by --internal")
    filled = _content(report, found.manifest, where) | {"fingerprint": release.fingerprint(public), "plain": _plain}
    markdown = re.sub(r"\n{3,}", "\n\n", template("board.md.jinja").render(filled)).strip() + "\n"
    return {"board.md": markdown.encode(), "board.html": template("board.html").render(filled).encode()}


def _content(report: Report, manifest: Mapping[str, Any], where: OutputPlace) -> dict[str, Any]:
    """What `board.jinja` is filled with."""
    written = [each for each in report.columns if each.treatment != "not released"]
    risks = [_figures(each, _PLAIN[each.name]) for each in report.risk if each.name in _PLAIN]
    scenarios = [each for each in report.risk if each.name.startswith("scenarios.")]
    of_original = [each.baseline_is.startswith(_OF_ORIGINAL) for each in scenarios]
    lines, gone = release_log.history(where), versions.withdrawals(where)
    states = {each: "withdrawn" for each, *_, withdrawn in lines if withdrawn} | {manifest["version"]: "this version"}
    return {
        "report": report,
        "manifest": manifest,
        "most": _MOST,
        "limits": LIMITS,
        "risks": _RISKS,
        "utilities": _UTILITY,
        "listed": _listed,
        "bounded": _bounded,
        "held": partial(_held, report),
        "dials": lambda of: [dial.sentence for dial in report.dials if dial.key.startswith(of)],
        "columns": [(each.name, each.kind, each.treatment, each.transform) for each in written],
        "scenarios": list(dict.fromkeys(each.name.split(".")[1] for each in scenarios)),
        "methods": [_method(each) for each in report.methods],
        "groups": sum(each.groups for each in report.group_sizes if isinstance(each.groups, int)),
        "after": risks + [_figures(each, each.title) for each in compress(scenarios, of_original)],
        "before": [_figures(each, each.title) for each in compress(scenarios, map(not_, of_original))],
        "analyses": [
            (each.name, each.model, amount(dict(each.shares).get("outside"), "share"), each.problem or "")
            for each in report.analyses
        ],
        "missing": [f"{each.what}: {each.why}" for each in report.not_checked],
        "free": [f"{each.name}: {each.measured}" for each in report.checks if each.outcome == "no limit set"],
        "not_guaranteed": [each for each in report.not_guaranteed if "differential privacy" not in each],
        "releases": [(name, time[:10], f"{rows:,}", states.get(name, "")) for name, time, rows, _ in lines[-_MOST:]],
        "withdrawn": [f"{e['version']} was withdrawn on {e['time'][:10]}: {e['because']}" for e in gone[-_MOST:]],
        "logged": manifest["version"] in [name for name, *_ in lines],
        "overlaps": [e for e in report.notes if e.startswith((release_log.ALLOWED, release_log.HELD[:20]))],
    }


def _method(one: MethodLine) -> tuple[str, ...]:
    source = f"{one.published} ({one.reference})" if one.reference else one.published
    return one.step, one.name, source, "; ".join(f"{name}: {value}" for name, value in one.options)


def _held(report: Report, keys: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Checks of some keys: what was measured and its limit; figures that are zero but for rounding as such."""
    found = [each for each in report.checks if each.key.startswith(keys) and each.outcome != "not checked"]
    rows = [(each.name, each.measured, each.limit, each.doubt or each.outcome) for each in found]
    return [tuple(re.sub(r"-?\d(\.\d+)?e-\d+", "less than 0.0001", cell) for cell in row) for row in rows]


def _figures(one: MeasureLine, title: str) -> tuple[str, ...]:
    interval = "" if one.low is None else span(one.low, one.high, one.unit)
    before = "" if one.baseline is None else amount(one.baseline, one.unit)
    value = re.sub(r"^1 (\w+)s$", r"1 \1", amount(one.value, one.unit))
    return (title, value, interval, before, one.baseline_is)


def _listed(names: Iterable[str]) -> str:
    shown = [shortened(name, _LONG) for name in names]
    return ", ".join(shown[:_MOST]) + (f" and {len(shown) - _MOST:,} more" if len(shown) > _MOST else "")


def _bounded(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> dict[str, Any]:
    """A table of bounded length, and how many rows are left; columns in which no row has anything are left out."""
    used = [at for at in range(len(headings)) if at == 0 or any(row[at] for row in rows)]
    shown = [[shortened(row[at], _LONG) for at in used] for row in rows[:_MOST]]
    return {"headings": [headings[at] for at in used], "rows": shown, "left": max(0, len(rows) - _MOST)}


def _plain(text: str) -> Markup:
    """A text of Markdown without markup: on one line, marks escaped, and what could be HTML as entities."""
    line = re.sub(r"\s+", " ", printable(text)).strip()
    marked = re.sub(r"([\\`*_{}\[\]#|!~$])", r"\\\1", escape(line, quote=False))
    return Markup(re.sub(r"^([-+]|\d+[.)])(?= )", r"\\\1", marked))
