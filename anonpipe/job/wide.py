"""The job of a table whose records are units: each with its rows side by side, and the number of its rows."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from anonpipe.columns import Column, Kind, Role
from anonpipe.errors import JobError
from anonpipe.job.model import Job, parse_job

ROWS = "rows of a unit"
MOST_COLUMNS = 150
_QUOTED = re.compile(r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`([^`\n]+)`|[^\W\d]\w*""")
_KEYWORDS = {"if", "then", "and", "or", "not", "in", "is", "null"}
_CONDITION = re.compile(r"\s*if\s+(.*\S)\s+then\s+(.*\S)\s*")


@dataclass(frozen=True)
class UnitLayout:
    """How rows of units lie side by side."""

    unit: str  # The column that names the unit
    order: str | None  # The column that orders the rows of a unit; None for a random order
    of_unit: tuple[str, ...]  # Released columns that a record has once
    of_row: tuple[str, ...]  # Those that it has as many times as the largest unit has rows
    numbers: tuple[int, ...]  # Numbers of rows that units have, ascending
    complete: tuple[str, ...]  # Of `of_row` the columns with a value in every row
    linked: bool = False  # Records are rows instead, and linked into units after the mask
    averaged: tuple[str, ...] = ()  # Of linked rows the columns whose mean in the unit is known

    @property
    def most(self) -> int:
        """Rows of the largest unit."""
        return self.numbers[-1]

    def wide_names(self, name: str) -> list[str]:
        """The columns side by side of a column that differs within a unit; else the column."""
        several = name in self.of_row and not self.linked
        return [row_name(name, at) for at in range(1, self.most + 1)] if several else [name]


def row_name(name: str, at: int) -> str:
    """The column of a unit's row, counted from 1."""
    return f"{name} (row {at})"


def levels_of(job: Job) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Released columns with one value in a unit, and the others."""
    of_unit = tuple(name for name, column in job.released.items() if column.level == "unit")
    gone = {*of_unit, *job.differences}
    return of_unit, tuple(name for name in job.released if name not in gone)


def wide_job(job: Job, layout: UnitLayout) -> Job:
    """The job for records that are units; every column as it was declared, and each rule for every row."""
    content = job.model_dump(mode="json", exclude={"release": {"unit", "order"}})
    columns: dict[str, Any] = {layout.unit: {"role": Role.IDENTIFIER}}
    added = [([ROWS], {"kind": "categorical", "label": f"Rows of a unit ({layout.unit})"})]
    for name in (*layout.of_unit, *layout.of_row):
        declared = content["columns"][name] | {"level": None, "missing": "carry"}
        if job.columns[name].role is Role.DERIVED:
            declared["role"] = Role.MASKED
        added.append((layout.wide_names(name), declared))
    for names, declared in added:
        if twice := columns.keys() & set(names):
            raise JobError(f"release.unit: pseudonym needs the name {min(twice)!r}, which a column has; rename that")
        columns |= dict.fromkeys(names, declared)
    if quoted := [name for name in columns if "`" in name]:  # by which rules quote names
        raise JobError(f"release.unit: pseudonym takes no column with a ` in its name; rename {quoted[0]!r}")
    content |= {"columns": columns, "rows_per_unit": "one", "rules": [*_of_rows(job, layout), *_structure(job, layout)]}
    given = content["input"] if isinstance(content["input"], dict) else {"path": content["input"]}
    content["input"] = given | {"last_row": "record"}  # the last unit is none that the input has last
    content["release"]["file_rows"] = max(1_000, job.release.file_rows // layout.most)
    for scenario in content["measure"]["scenarios"]:  # an intruder knows the first row
        scenario["knows"] = [layout.wide_names(name)[0] for name in scenario["knows"]]
        scenario["tolerance"] = {layout.wide_names(name)[0]: far for name, far in scenario["tolerance"].items()}
    return parse_job(content)


def fits_side_by_side(job: Job, most: int, units: int) -> bool:
    """Whether records are of few enough columns, and units can say something of these."""
    of_unit, of_row = levels_of(job)
    wide = len(of_unit) + most * sum(job.columns[name].role.synthesized for name in of_row)
    return wide <= min(MOST_COLUMNS, units // 2)


def _of_rows(job: Job, layout: UnitLayout) -> list[str]:
    """The rules of the job, those on columns that differ within a unit once for each row."""
    texts: list[str] = []
    for text in job.rules:
        for at in range(1, layout.most + 1):
            renamed = _renamed(text, layout, at)
            if renamed != text and at > layout.numbers[0] and (found := _CONDITION.fullmatch(renamed)):
                renamed = f"if {found[1]} and `{ROWS}` in {_numbers(layout, at)} then {found[2]}"
            texts.append(renamed)
    return list(dict.fromkeys(texts))


def _renamed(text: str, layout: UnitLayout, at: int) -> str:
    """A rule for the columns of one row of a unit."""

    def other(found: re.Match[str]) -> str:
        name = found[1] or found[0]
        if found[1] is None and name in _KEYWORDS:
            return name
        return f"`{row_name(name, at)}`" if name in layout.of_row else found[0]

    return _QUOTED.sub(other, text)


_SIDE = re.compile(r"`([^`\n]+) \(row \d+\)`")
_ORDER = re.compile(r"(.+?)(?: \(row \d+\))? ([<>]=) (.+?)(?: \(row \d+\))?")
_WITH_NUMBER = re.compile(rf" and `{ROWS}` in \[[\d, ]+\]")


def rule_of_rows(text: str) -> str | None:
    """A rule as it is for single rows; None for those by which a record has the rows that it says, in order."""
    if text.startswith(f"if `{ROWS}` in "):
        return None
    if "`" not in text and (found := _ORDER.fullmatch(text)):
        return None if found[1] == found[3] else " ".join(found.groups())
    return _WITH_NUMBER.sub("", _SIDE.sub(lambda side: side[1] if side[1].isidentifier() else f"`{side[1]}`", text))


def _structure(job: Job, layout: UnitLayout) -> list[str]:
    """Rules by which a record has the rows that it says, and these are in order."""
    texts = []
    columns: Mapping[str, Column] = job.columns
    computed = {rule.target for rule in job.parsed_rules if rule.derives and not rule.gap}  # there with its operands
    if layout.order in layout.of_row and layout.most > 1:
        texts.append(" <= ".join(f"`{name}`" for name in layout.wide_names(str(layout.order))))
    masked = [name for name in layout.of_row if columns[name].role.synthesized and name not in computed]
    for at in range(layout.numbers[0] + 1, layout.most + 1):
        there = [f"`{row_name(name, at)}` is not null" for name in masked if name in layout.complete]
        absent = [f"`{row_name(name, at)}` is null" for name in masked]
        fewer = [number for number in layout.numbers if number < at]
        if there:
            texts.append(f"if `{ROWS}` in {_numbers(layout, at)} then {' and '.join(there)}")
        if absent:
            texts.append(f"if `{ROWS}` in {fewer} then {' and '.join(absent)}")
    return texts


def _numbers(layout: UnitLayout, at: int) -> list[int]:
    """The numbers of rows of units that have a row of this number."""
    return [number for number in layout.numbers if number >= at]


# --- Records that are rows, each with the row before; after the mask they are linked into units -----------------------

ROW = "row of the unit"
PART = "part of the unit"
FIRST, EARLY, LATE = "first", "early", "late"
LATE_FROM = 4  # The first row that is late
FILE_ROWS = 50_000  # Of a file at least: each is linked by itself, and of few rows units get other numbers of rows


def before_name(name: str) -> str:
    """The column of the row before."""
    return f"{name} (row before)"


def mean_name(name: str) -> str:
    """The column of a unit's mean."""
    return f"{name} (unit mean)"


def gap_name(name: str) -> str:
    """The column of the difference from the row before."""
    return f"{name} (gap)"


def unpublished(layout: UnitLayout, gaps: bool = False) -> frozenset[str]:
    """Columns of linked records that no published row holds; `gaps`: and those that are there as differences."""
    names = {PART, *map(before_name, layout.of_row), *map(mean_name, layout.averaged)}
    return frozenset(names | ({gap_name(layout.order)} if gaps and layout.order else set()) if layout.linked else ())


def masked_rows(job: Job, layout: UnitLayout) -> list[str]:
    """Masked columns that differ within a unit, without the one that orders its rows."""
    return [name for name in layout.of_row if name != layout.order and job.columns[name].role.encoded]


def linked_job(job: Job, layout: UnitLayout) -> Job:
    """The job for records that are rows; columns and rules as they were declared, with facts of unit and row before."""
    _check_linked(job, layout)
    content = job.model_dump(mode="json", exclude={"release": {"unit", "order"}})
    columns = {layout.unit: content["columns"][layout.unit]}
    columns |= {name: content["columns"][name] | {"level": None} for name in (*layout.of_unit, *layout.of_row)}
    place = {"kind": "integer", "bounds": [1, layout.most]}
    added: dict[str, Any] = {
        ROWS: place | {"label": f"Rows of a unit ({layout.unit})"},
        ROW: place,
        PART: {"kind": "categorical", "role": Role.KEY},
    }
    if layout.order in layout.of_row:
        column = job.columns[layout.order]
        kind = "integer" if whole_gaps(job, layout.order) else "continuous"
        added[gap_name(layout.order)] = {"kind": kind, "bounds": [0, None], "step": column.step}
    for name in masked_rows(job, layout):
        added[before_name(name)] = columns[name] | {"missing": "carry", "label": None}
    for name in layout.averaged:
        bounds = [0, 1] if job.columns[name].kind.coded else list(job.columns[name].numeric_bounds)
        added[mean_name(name)] = {"kind": "continuous", "bounds": bounds}
    if twice := columns.keys() & added.keys():
        raise JobError(f"release.unit: pseudonym needs the name {min(twice)!r}, which a column has; rename that")
    content |= {"columns": columns | added, "strata": {"by": [PART]}}
    content["release"]["file_rows"] = max(FILE_ROWS, job.release.file_rows)
    given = content["input"] if isinstance(content["input"], dict) else {"path": content["input"]}
    content["input"] = given | {"last_row": "record"}
    return parse_job(content)


def whole_gaps(job: Job, order: str) -> bool:
    """Whether differences of the column that orders rows are whole numbers (days of dates)."""
    column = job.columns[order]
    return column.kind in (Kind.INTEGER, Kind.DATE) and (column.step or 1.0) % 1.0 == 0.0


def check_linked_width(job: Job, averaged: Collection[str], units: int) -> None:
    """Refuse records of more columns than can be masked, or than units can say something of."""
    of_unit, of_row = levels_of(job)
    width = len(of_unit) + 2 * sum(job.columns[name].role.encoded for name in of_row) + len(averaged) + 2
    most = min(MOST_COLUMNS, units // 2)
    if width > most:
        raise JobError(
            f"release.unit: pseudonym cannot lay the rows of units side by side, and rows with their row before have "
            f"{width} columns; at most {most} are possible (half as many as there are units, {units:,}); drop columns, "
            "give those with one value in a unit level: unit, or release rows without release.unit: pseudonym"
        )


def _check_linked(job: Job, layout: UnitLayout) -> None:
    """Refuse what holds for single records, and not for rows that are linked after the mask."""
    why = "rows of units this long are masked one by one, each with the row before, and then linked"
    roles = [name for name, column in job.released.items() if column.role not in (Role.MASKED, Role.DERIVED)]
    for what, there in (
        (f"role {job.columns[roles[0]].role.value}" if roles else "", roles),
        ("strata.by", job.strata.by),
        ("analyses", job.analyses),
    ):
        if there:
            raise JobError(f"release.unit: pseudonym does not go with {what} here: {why}; leave that out")
    for rule in job.parsed_rules:
        moved = {name for name in rule.names if name in layout.of_unit or name == layout.order}
        if moved and len(set(rule.names)) > 1 and not set(rule.names) <= set(layout.of_unit):
            raise JobError(
                f"rule {rule.text!r} ties {min(moved)!r} to columns that come of other records: {why}; leave the rule "
                "out, and a column that it derives"
            )
