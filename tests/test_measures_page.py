"""The table of docs/measures.md has every check, limit and figure; `python docs/tables.py` writes it again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from anonpipe.evaluate import risk, utility
from anonpipe.verify.catalogue import GATES, KINDS, UNMEASURED

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE = (DOCS / "measures.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    for line in PAGE.splitlines()
    if line.startswith("| `")
]
FIGURES = [
    *(name for measure in risk.MEASURES for name in measure.keys),
    *(name for measure in utility.MEASURES for name in measure.keys),
]


def names(cell):
    """`a.(b, c)` are `a.b` and `a.c`; `mean, .group` are `mean` and `mean.group`."""
    family, inside, members = cell.strip("`").partition("(")
    if inside:
        return {family + name for name in members.strip(")").split(", ")}
    first, *others = family.split(", ")
    return {first, *(first + end for end in others)}


NAMED = {name for row in ROWS if len(row) == 5 for name in names(row[0])}


def test_every_figure_has_a_row():
    assert set(FIGURES) - NAMED == set()


def test_every_check_has_a_row():
    gated = {kind.key for kind in KINDS.values() if kind.gate is not None}
    assert set(KINDS) - gated - set(UNMEASURED) - NAMED == set()


def test_no_row_is_of_something_else():
    assert NAMED - set(FIGURES) - set(KINDS) - {f"gates.{name}" for name in GATES} == set()


@pytest.mark.parametrize("gate", GATES)
def test_default_limits(gate):
    limit = "none" if GATES[gate].default is None else f"{GATES[gate].default:g}"
    limits = [row[3] for row in ROWS if len(row) == 5 and (row[0] == f"`gates.{gate}`" or f"`{gate}`" in row[3])]
    assert limits
    assert all(f"`{gate}`: {limit}" in shown or shown == limit for shown in limits)


def test_gates_that_pages_name_exist():
    pages = [*DOCS.glob("*.md"), DOCS.parent / "README.md", DOCS.parent / "CHANGELOG.md"]
    named = {name for page in pages for name in re.findall(r"gates\.([a-z_]+)", page.read_text(encoding="utf-8"))}
    assert named - set(GATES) == set()
