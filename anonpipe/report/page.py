"""The page of a report: one file of HTML, with its style and pictures inside and nothing fetched."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from anonpipe.errors import InputError, plural, printable
from anonpipe.files import templates
from anonpipe.report import figures, words
from anonpipe.report.content import FORMAT, Report
from anonpipe.storage import release
from anonpipe.storage.versions import OutputPlace
from anonpipe.verify.catalogue import MEASURED
from anonpipe.verify.words import figure_text

if TYPE_CHECKING:
    import pyarrow as pa
    from jinja2 import Template

_HERE = Path(__file__).parent
_MOST_PAIRS = 12
_GIVE = "give the report.json that a run of this version wrote"

_IN_WORDS = {
    "changed_significance": "coefficients whose significance changed",
    "changed_direction": "significant coefficients that lost significance or changed direction",
    "outside": "coefficients outside the original's 95 % interval",
    "overlap": "mean overlap of the two 95 % intervals",
}


def render(report: Report) -> str:
    """Draw a report as a page."""
    changes = figures.changes(report.correlations)[:_MOST_PAIRS] if report.correlations else []
    patterns = [
        name for gate in MEASURED.values() if "risk" in gate.needs for name in (*gate.figures, *gate.other_attackers)
    ]
    attacks = {one.name for one in report.risk if any(fnmatchcase(one.name, pattern) for pattern in patterns)}
    return template("page.html").render(report=report, changes=changes, share_titles=_IN_WORDS, attack_figures=attacks)


def cell(report: Report, remedies: Sequence[str], first: Sequence[tuple[str, Any]], head: pa.Table | None) -> str:
    """Draw a report as the output of a notebook's cell: what a reader looks for first."""
    rows = None if head is None else list(zip(*(column.to_pylist() for column in head.columns), strict=True))
    names = [] if head is None else head.column_names
    return template("cell.html").render(report=report, remedies=remedies, first=first, head=rows, names=names)


def read_report(path: Path) -> Report:
    """Read `report.json`."""
    with contextlib.suppress(OSError):
        return _parsed(path.read_bytes(), str(path))
    raise InputError(f"{path} cannot be read; {_GIVE}")


def _parsed(content: bytes, path: str) -> Report:
    with contextlib.suppress(ValidationError):
        return Report.model_validate_json(content)
    raise InputError(f"{path} is no report of the form {FORMAT}; {_GIVE}")


def output_of(version: OutputPlace) -> tuple[str, str]:
    """The output that a version folder lies in, and the version's name; links of a disk are followed."""
    root = os.path.realpath(version.root) if version.local else version.root.rstrip("/")
    folder, _, name = root.rpartition("/")
    return OutputPlace(version.filesystem, folder.rpartition("/")[0]).url(), name


def report_of_release(output: str, internal: str | None) -> Report:
    """The steward's report of a release: the current one of an output folder, or that of a version folder."""
    url, name = output_of(release.resolve(output))
    where = release.place(url, internal).steward
    file = f"{name}-report.json"
    with contextlib.suppress(OSError):
        return _parsed(where.filesystem.cat_file(where.path(file)), where.url(file))
    raise InputError(f"the report of release {name} is not at {where.url(file)}; run again, or give the file itself")


def documents(report: Report) -> dict[str, bytes]:
    """A report as files: `report.json`, and the page drawn from it."""
    return {"report.json": report.model_dump_json(indent=1).encode(), "report.html": render(report).encode()}


@cache
def template(name: str) -> Template:
    """A page of this folder; what is filled in is escaped."""
    environment = templates(
        _HERE, autoescape=True, finalize=lambda value: printable(value) if type(value) is str else value
    )
    environment.globals["figures"] = figures
    environment.globals["counted"] = plural
    environment.filters |= {"percent": figures.percent, "number": figures.number}
    environment.filters |= {"transforms": words.transforms, "figure_of": figure_text}
    return environment.get_template(name)
