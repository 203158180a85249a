"""The file for a release board: what was released, how it was protected, what was measured, and who signs.

The order is that of the stages of microdata release in Hundepool et al. (2012), *Statistical Disclosure Control*,
section 3.2: need, data and use, scenarios, methods, outcome. The lines to fill in follow what guidance for statistical
offices asks of a release (ONS, policy on social survey microdata). The board learns what the steward knows: internal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from anonpipe.errors import InputError, plural, printable
from anonpipe.report.content import CheckLine, MeasureLine, Report
from anonpipe.report.figures import amount
from anonpipe.report.page import output_of, report_of_release, template
from anonpipe.rng import steward_secret
from anonpipe.storage import release, release_log

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
    "Columns released unchanged are protected by their counts only.",
    "In groups a known record leads to its group, and to the right record with probability 1/n.",
    "Sums over few records are not secret; the largest share of a unit in its group is reported.",
    "Attacks that nobody has tried yet may succeed.",
)
_RISKS = (
    "risk.",
    "values.h",  # rare original values in the release
    "records.unchanged",
    "cells.exact",
    "keys.rare",
    "group.smallest",
    "alike.fewest",
)
_UTILITY = ("utility.", "analysis.", "mean", "covariance", "variance", "category_share", "null_share", "survival")
_OF_ORIGINAL = "the original itself"  # How references begin that are of the original as it is
# Of risk measures: what they say in plain words, for the table of risks before and after
_PLAIN = {
    "reidentification_rate": "records linked to their own released record",
    "membership.auc": "members distinguished from others (0.5: guessing)",
    "attribute_inference": "unknown values disclosed beyond held-out persons, worst column",
    "attribute_inference.success": "unknown values guessed right",
    "singling_out.one": "persons singled out by one column, beyond held-out ones",
    "singling_out.several": "persons singled out by several columns, beyond held-out ones",
    "linkability": "halves of a person's columns joined, beyond held-out ones",
    "stratum_inference": "stratum of a person disclosed",
    "strata.success": "strata guessed right",
}


# A part of a section: a text, a list, or {"fill": a line to fill in}, {"command": …}, {"headings": …, "rows": …}
Part = str | tuple[str, ...] | Mapping[str, Any]


def board_file(source: str, internal: str | None = None, key: Any = None) -> dict[str, bytes]:
    """The file for the board on a release, as `board.md` and `board.html`.

    Parameters
    ----------
    source
        Output folder of a run, for its current version, or the folder of a version.
    internal
        Where internal reports lie, if the job says so.
    key
        Public key that the release must be signed by; the steward's own if not given.

    Raises
    ------
    InputError
        Where the version was withdrawn, does not match its manifest or is signed by another key, where its internal
        report is missing, or is one of other files.
    """
    output, name = release_log.named_version(source)
    for each in release_log.withdrawals(release.place(output, internal)) if name is not None else ():
        if each["version"] == name:
            raise InputError(
                f"{name} was withdrawn on {each['time'][:10]}; there is no file for the board of it any more"
            )
    public = key or release.signing_key(steward_secret()).public_key()
    found = release.checked(source, public)
    if found.problems or found.manifest is None:
        lines = "".join(f"\n  {problem}" for problem in found.problems)
        raise InputError(
            f"the release at {source} is not what the steward signed, and gets no file for a board:{lines}"
        )
    where = release.place(output_of(found.where)[0], internal)
    report = report_of_release(source, internal)
    if [each.sha256 for each in report.files] != [each["sha256"] for each in found.manifest["files"]]:
        raise InputError(f"the internal report of {source} is of other files; give the place of its own by --internal")
    titled = _sections(report, found.manifest, where, release.fingerprint(public))
    sections = [(title, tuple(parts)) for title, parts in titled]
    filled = {"report": report, "version": found.manifest["version"], "sections": sections}
    markdown = template("board.md.jinja").render(plain=_plain, **filled).rstrip() + "\n"
    return {"board.md": markdown.encode(), "board.html": template("board.html").render(filled).encode()}


def _sections(
    report: Report, manifest: Mapping[str, Any], where: OutputPlace, fingerprint: str
) -> Iterator[tuple[str, Iterable[Part]]]:
    """The file, section by section."""
    yield (
        "Purpose and legal basis",
        (
            {"fill": "Purpose of the release"},
            {"fill": "Legal basis"},
            {"fill": "Why less detail, or access on site, is not enough"},
            {"fill": "Responsible department and person"},
        ),
    )
    yield "Data and population", _data(report, manifest)
    yield (
        "Type of release",
        (
            {"fill": "☐ public use   ☐ scientific use, by contract   ☐ secure use only"},
            {"fill": "Recipients, and what their contract forbids (linking, passing on)"},
            f"Version {manifest['version']} of {manifest['created'][:10]}: {plural(len(report.files), 'file')}, "
            f"{sum(each.bytes for each in report.files):,} bytes, made by anonpipe {report.anonpipe}.",
        ),
    )
    yield "Disclosure scenarios and key variables", _scenarios(report)
    left_out = [each.name for each in report.columns if each.treatment == "not released"]
    yield (
        "Direct identifiers",
        (
            f"Not in the release, neither masked nor hashed: {_listed(left_out) or 'no column; the input had none'}.",
            *(
                f"Checked on the written files: {each.name}: {each.measured} ({each.outcome})."
                for each in _of(report, ("columns.forbidden",))
            ),
        ),
    )
    yield "Methods", _methods(report)
    yield "Risk, before and after", _risk(report)
    yield "Utility and information loss", _utility(report)
    yield "Residual risk, and what was not measured", _residual(report)
    rest = tuple(each for each in report.not_guaranteed if "differential privacy" not in each)
    yield "Known limits of the method", (LIMITS, "What this release does not guarantee:", rest)
    yield "Earlier releases", _history(report, manifest, where)
    yield (
        "How to check the files",
        (
            "Recipients check that the files are those that were signed. They have the public key from the steward, "
            "not from where the files lie:",
            {"command": "anonpipe verify FOLDER --key steward.pub"},
            f"SHA-256 of the public key: {fingerprint}",
        ),
    )
    roles = ("Data steward", "Methodologist", "Data protection officer", "Chair of the board")
    yield (
        "Decision",
        (
            {"fill": "☐ approved   ☐ approved with conditions   ☐ refused"},
            {"fill": "Conditions, and date of the next review"},
            {"headings": ("role", "name", "date", "signature"), "rows": [(role, "", "", "") for role in roles]},
        ),
    )


def _data(report: Report, manifest: Mapping[str, Any]) -> Iterator[Part]:
    yield {"fill": "Population, reference period, and whether the data are a sample or all of it"}
    whom = "units of several rows" if report.k_of_units else "records"
    held = manifest.get("held_out")
    columns = plural(len(manifest["schema"]), "column")
    yield f"Input: {report.source}. Released: {report.rows:,} rows of {columns}; k counts {whom}."
    if held:
        yield f"{100 * held:g} of 100 were held out at random as a control for the attacks, and are in no release."
    written = [each for each in report.columns if each.treatment != "not released"]
    rows = [(each.name, each.kind, each.treatment, each.transform) for each in written]
    yield from _table(("column", "kind", "values in the release", "masked by"), rows)


def _scenarios(report: Report) -> Iterator[Part]:
    unchanged = [each.name for each in report.columns if each.treatment == "unchanged"]
    yield (
        "The attacks below take an intruder who knows a person's original values in all columns, or in all but one, "
        "and has the release with its documents."
    )
    strata = _listed(report.strata) or "none"
    yield f"Key variables released unchanged: {_listed(unchanged) or 'none'}. Strata: {strata}."
    named = dict.fromkeys(each.name.split(".")[1] for each in report.risk if each.name.startswith("scenarios."))
    if named:
        yield f"Scenarios of the job, of what others may know of a person: {_listed(named)}; figures follow below."
    else:
        yield "The job names no scenario of what neighbours or other files may know (measure.scenarios)."
    yield {"fill": "Other files that could be linked, and why the scenarios cover them"}


def _methods(report: Report) -> Iterator[Part]:
    rows = []
    for each in report.methods:
        source = f"{each.published} ({each.reference})" if each.reference else each.published
        settings = "; ".join(f"{name}: {value}" for name, value in each.options)
        rows.append((each.step, each.name, source, settings))
    yield from _table(("step", "method", "source", "settings"), rows)
    sizes = report.group_sizes
    numbers = sum(each.groups for each in sizes if isinstance(each.groups, int))
    grouped = (
        f"; {plural(numbers, 'group')} of {sizes[0].smallest:,} to {sizes[-1].largest:,} records" if numbers else ""
    )
    yield f"k = {report.k}{grouped}."
    yield report.guarantees


def _risk(report: Report) -> Iterator[Part]:
    yield tuple(dial.sentence for dial in report.dials if dial.key.startswith("risk."))
    yield (
        "What was held against a limit. Of a figure with an interval the end that counts is shown: the upper one, "
        "unless few held-out persons make it wide. AUC: 0.5 is guessing, 1 is certain."
    )
    yield from _table(("check", "measured", "limit", "outcome"), _held(report, _RISKS))
    yield (
        "Before protection, a person whose values no other record has would be linked for certain. The table has what "
        "an intruder reaches with the release, and the reference: what is reached without it, or of persons not in it."
    )
    rows = [_figures(each, _PLAIN.get(each.name, each.title)) for each in report.risk if each.name in _PLAIN]
    scenarios = [each for each in report.risk if each.name.startswith("scenarios.")]
    rows += [_figures(each, each.title) for each in scenarios if each.baseline_is.startswith(_OF_ORIGINAL)]
    yield from _table(("risk", "with the release", "95 % interval", "reference", "what the reference is"), rows)
    before = [_figures(each, each.title) for each in scenarios if not each.baseline_is.startswith(_OF_ORIGINAL)]
    if before:
        yield "The original before protection, by what an intruder of a scenario knows:"
        yield from _table(("scenario", "the original", "95 % interval", "threshold", "whose threshold"), before)


def _utility(report: Report) -> Iterator[Part]:
    yield tuple(dial.sentence for dial in report.dials if dial.key.startswith("utility."))
    yield (
        "sd: standard deviations of the column. × split-half: up to 1 the release is no further from the original than "
        "another sample of the same population usually is. AUC: 0.5 means that nobody can distinguish the two."
    )
    yield from _table(("check", "measured", "limit", "outcome"), _held(report, _UTILITY))
    if report.analyses:
        kept = ("analysis", "model", "coefficients outside the original's 95 % interval", "problem")
        shown = [
            (each.name, each.model, amount(dict(each.shares).get("outside"), "share"), each.problem or "")
            for each in report.analyses
        ]
        yield from _table(kept, shown)


def _residual(report: Report) -> Iterator[Part]:
    missing = tuple(f"{each.what}: {each.why}" for each in report.not_checked)
    free = tuple(f"{each.name}: {each.measured}" for each in report.checks if each.outcome == "no limit set")
    yield "Not measured:" if missing else "Everything that can be measured here was measured."
    yield missing[:_MOST]
    if free:
        yield "Measured, and held against no limit:"
        yield free[:_MOST]
    if report.warnings:
        yield "Warnings to the steward:"
        yield report.warnings[:_MOST]
    yield {"fill": "Why the board takes the rest of the risk, and what is done about it"}


def _history(report: Report, manifest: Mapping[str, Any], where: OutputPlace) -> Iterator[Part]:
    lines, name = release_log.history(where), manifest["version"]
    states = {each: "withdrawn" for each, *_, gone in lines if gone} | {name: "this version"}
    rows = [(each, time[:10], f"{records:,}", states.get(each, "")) for each, time, records, _ in lines[-_MOST:]]
    yield from _table(("version", "date", "records of the original", "state"), rows)
    gone = release_log.withdrawals(where)
    yield tuple(f"{each['version']} was withdrawn on {each['time'][:10]}: {each['because']}" for each in gone[-_MOST:])
    overlaps = tuple(each for each in report.notes if each.startswith((release_log.ALLOWED, release_log.HELD[:20])))
    if name not in [each for each, *_ in lines]:
        yield "This version is not in the release log: whether it overlaps with earlier releases was not looked at."
    yield overlaps or "No overlap with an earlier release was found." * (name in [each for each, *_ in lines])


def _of(report: Report, keys: tuple[str, ...]) -> list[CheckLine]:
    """The checks of some keys that were carried out or have no limit."""
    return [each for each in report.checks if each.key.startswith(keys) and each.outcome != "not checked"]


def _held(report: Report, keys: tuple[str, ...]) -> list[tuple[str, ...]]:
    """What was measured and its limit; figures that are zero but for rounding as such."""
    rows = [(each.name, each.measured, each.limit, each.outcome) for each in _of(report, keys)]
    return [tuple(re.sub(r"-?\d(\.\d+)?e-\d+", "less than 0.0001", cell) for cell in row) for row in rows]


def _figures(one: MeasureLine, title: str) -> tuple[str, ...]:
    unit = "" if one.unit == "probability" else one.unit
    interval = "" if one.low is None else f"{amount(one.low, unit)} to {amount(one.high, unit)}"
    before = "" if one.baseline is None else amount(one.baseline, unit)
    value = re.sub(r"^1 (\w+)s$", r"1 \1", amount(one.value, unit))
    return (title, value, interval, before, one.baseline_is)


def _listed(names: Iterable[str]) -> str:
    shown = [_short(name) for name in names]
    return ", ".join(shown[:_MOST]) + (f" and {len(shown) - _MOST:,} more" if len(shown) > _MOST else "")


def _table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Iterator[Part]:
    """A table of bounded length; columns in which no row has anything are left out."""
    used = [at for at in range(len(headings)) if at == 0 or any(row[at] for row in rows)]
    shown = [[_short(row[at]) for at in used] for row in rows[:_MOST]]
    if shown:
        yield {"headings": [headings[at] for at in used], "rows": shown}
    if len(rows) > _MOST:
        yield f"{len(rows) - _MOST:,} more stand in the internal report."


def _short(text: str) -> str:
    return text if len(text) <= _LONG else f"{text[: _LONG - 1]}…"


def _plain(text: str) -> Markup:
    """A text of Markdown without markup: on one line, marks escaped, and what could be HTML as entities."""
    line = re.sub(r"\s+", " ", printable(text)).strip()
    marked = re.sub(r"([\\`*_{}\[\]#|!~$])", r"\\\1", escape(line, quote=False))
    return Markup(re.sub(r"^([-+]|\d+[.)])(?= )", r"\\\1", marked))
