"""The job of a table whose records are rows, each with the row before; after the mask they are linked into units."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from anonpipe.columns import Kind, Role
from anonpipe.errors import JobError
from anonpipe.job.model import Job, parse_job
from anonpipe.job.wide import MOST_COLUMNS, ROWS, UnitLayout, levels_of

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


def end_and_length(job: Job, of_row: Collection[str]) -> tuple[str, str] | None:
    """The columns in which rows end and of their lengths, where a rule says that an end is order plus length."""
    order = str(job.release.order)
    for rule in job.parsed_rules if order in job.columns and whole_gaps(job, order) else ():
        length = next((name for name, _ in rule.terms if name != order), order)
        whole = {length, rule.target} <= set(of_row) and job.columns[length].kind is Kind.INTEGER
        if rule.kind == "linear" and whole and dict(rule.terms) == {order: 1.0, length: 1.0} and not rule.constant:
            return rule.target, length
    return None


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
    why = "rows are masked one by one, each with the row before, and then linked into units"
    roles = [name for name, column in job.released.items() if column.role not in (Role.MASKED, Role.DERIVED)]
    for what, there in (
        (f"role {job.columns[roles[0]].role.value}" if roles else "", roles),
        ("strata.by", job.strata.by),
        ("analyses", job.analyses),
    ):
        if there:
            raise JobError(f"release.unit: pseudonym does not go with {what} here: {why}; leave that out")
    for rule in job.parsed_rules:
        if layout.end and set(rule.names) == {layout.order, layout.length, layout.end}:
            continue  # which are computed together after the link
        tests = (*rule.when, *rule.then)
        of_nulls = bool(tests) and all("null" in each.operator for each in tests if each.column == layout.length)
        placed = {layout.order, layout.end} if of_nulls else {layout.order, layout.end, layout.length}
        moved = {name for name in rule.names if name in placed.union(layout.of_unit)}
        if moved and len(set(rule.names)) > 1 and not set(rule.names) <= set(layout.of_unit):
            raise JobError(
                f"rule {rule.text!r} ties {min(moved)!r} to columns that come of other records: {why}; leave the rule "
                "out, and a column that it derives"
            )
