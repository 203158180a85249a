"""The job of a table whose records are units: each with its rows side by side, and the number of its rows."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anonpipe.columns import Column, Role, Rule
from anonpipe.errors import JobError
from anonpipe.job.model import Job, parse_job
from anonpipe.job.rules import KEYWORDS

ROWS = "rows of a unit"
TIMES = "times of a unit"
MOST_COLUMNS = 150
_QUOTED = re.compile(r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`([^`\n]+)`|[^\W\d]\w*""")
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
    timed: bool = False  # Whether a category says at which times a unit has rows: their order and number follow
    empty: tuple[str, ...] = ()  # Columns side by side that are null in the release, as few units have a value
    # Whether each row lies at a masked share of the way from the order's lower bound to the next row, or to the upper
    # bound, and not at a masked gap after the row before
    by_shares: bool = False
    end: str | None = None  # Of linked rows that do not overlap: the column in which a row ends
    length: str = ""  # And that of its length
    counted: tuple[str, ...] = ()  # Of `of_unit` columns that are the number of a unit's rows

    @property
    def most(self) -> int:
        """Rows of the largest unit."""
        return self.numbers[-1]

    def wide_names(self, name: str) -> list[str]:
        """The columns side by side, but for empty ones, of a column that differs within a unit; else the column."""
        return [side for side in self.every_name(name) if side not in self.empty]

    def every_name(self, name: str) -> list[str]:
        """`wide_names` with the empty ones."""
        several = name in self.of_row and not self.linked
        return [row_name(name, at) for at in range(1, self.most + 1)] if several else [name]


def row_name(name: str, at: int) -> str:
    """The column of a unit's row, counted from 1."""
    return f"{name} (row {at})"


def name_of_rows(name: str) -> str:
    """The column that lies side by side, of one of these; else the same."""
    return re.sub(r" \(row \d+\)$", "", name)


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
    if layout.timed:
        added.append(([TIMES], {"kind": "categorical", "label": f"Times of a unit's rows ({layout.order})"}))
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


def without_values(conditions: Sequence[Rule], empty: set[str]) -> set[str]:
    """Of columns without a value in some row of the units, those that no condition needs there, as it holds anyway."""

    def holds(rule: Rule) -> bool:
        never_met = any({test.column, test.other} & empty and test.operator != "null" for test in rule.when)
        return never_met or all(test.column in empty and test.operator == "null" for test in rule.then)

    needed = {name for rule in conditions if empty.intersection(rule.names) and not holds(rule) for name in rule.names}
    return without_values(conditions, empty - needed) if needed & empty else empty


def _of_rows(job: Job, layout: UnitLayout) -> list[str]:
    """The rules of the job, those on columns that differ within a unit once for each row; none on empty columns."""
    texts: list[str] = []
    for text in job.rules:
        for at in range(1, layout.most + 1):
            renamed = _renamed(text, layout, at)
            if any(f"`{side}`" in renamed for side in layout.empty):
                continue
            if renamed != text and at > layout.numbers[0] and (found := _CONDITION.fullmatch(renamed)):
                renamed = f"if {found[1]} and `{ROWS}` in {_numbers(layout, at)} then {found[2]}"
            texts.append(renamed)
    return list(dict.fromkeys(texts))


def _renamed(text: str, layout: UnitLayout, at: int) -> str:
    """A rule for the columns of one row of a unit."""

    def other(found: re.Match[str]) -> str:
        name = found[1] or found[0]
        if found[1] is None and name in KEYWORDS:
            return name
        return f"`{row_name(name, at)}`" if name in layout.of_row else found[0]

    return _QUOTED.sub(other, text)


_SIDE = re.compile(r"`([^`\n]+) \(row \d+\)`")
_ORDER = re.compile(r"(.+?)(?: \(row \d+\))? ([<>]=) (.+?)(?: \(row \d+\))?")
_SHARE = re.compile(r"`(.+) \(row \d+\)` \+ 0 <= `\1 \(row \d+\)`")
_WITH_NUMBER = re.compile(rf" and `{ROWS}` in \[[\d, ]+\]")


def rule_of_rows(text: str) -> str | None:
    """A rule as it is for single rows; None for those by which a record has the rows that it says, in order."""
    if text.startswith((f"if `{ROWS}` in ", f"`{TIMES}` -> ")) or _SHARE.fullmatch(text):
        return None
    if "`" not in text and (found := _ORDER.fullmatch(text)):
        return None if found[1] == found[3] else " ".join(found.groups())
    return _WITH_NUMBER.sub("", _SIDE.sub(lambda side: side[1] if side[1].isidentifier() else f"`{side[1]}`", text))


def _structure(job: Job, layout: UnitLayout) -> list[str]:
    """Rules by which a record has the rows that it says, and these are in order."""
    texts = []
    columns: Mapping[str, Column] = job.columns
    computed = {rule.target for rule in job.parsed_rules if rule.derives and not rule.gap}  # there with its operands
    if layout.timed:
        names = layout.wide_names(str(layout.order))
        texts += [f"`{TIMES}` -> `{name}`" for name in (ROWS, *names)]
        computed.add(str(layout.order))
    elif layout.order in layout.of_row and layout.most > 1:
        names = [f"`{name}`" for name in layout.wide_names(str(layout.order))]
        shares = [f"{one} + 0 <= {other}" for one, other in itertools.pairwise(names)]  # a limit, as it has a sum
        texts += shares if layout.by_shares else [" <= ".join(names)]
    masked = [name for name in layout.of_row if columns[name].role.synthesized and name not in computed]
    for at in range(layout.numbers[0] + 1, layout.most + 1):
        there = [f"`{row_name(name, at)}` is not null" for name in masked if name in layout.complete]
        absent = [f"`{side}` is null" for name in masked if (side := row_name(name, at)) not in layout.empty]
        fewer = [number for number in layout.numbers if number < at]
        if there:
            texts.append(f"if `{ROWS}` in {_numbers(layout, at)} then {' and '.join(there)}")
        if absent:
            texts.append(f"if `{ROWS}` in {fewer} then {' and '.join(absent)}")
    return texts


def _numbers(layout: UnitLayout, at: int) -> list[int]:
    """The numbers of rows of units that have a row of this number."""
    return [number for number in layout.numbers if number >= at]
