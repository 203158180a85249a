"""A small picture of each column, from counts of the sample that `init` reads: no bar holds fewer than k units."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from markupsafe import Markup

from anonpipe.columns import NOT_RELEASED, Kind, Role
from anonpipe.evaluate.utility import Binning, distributions
from anonpipe.evaluate.utility._pictures import Distribution
from anonpipe.evaluate.utility._tables import BothColumns, TypedTables
from anonpipe.job.csv_format import CsvFormat
from anonpipe.propose.profile import FEW_CODES, Look, look_at, sample_of
from anonpipe.report.figures import closed, place_of, tag
from anonpipe.source import found_format, opened, read_batches

WIDTH, HEIGHT, _AXIS = 180, 62, 46


@dataclass(frozen=True)
class Pictures:
    """What the sample shows."""

    rows: int  # of the whole table
    sampled: int
    by_column: Mapping[str, tuple[Markup, str]]  # Picture, and what there is to say of it


def pictures(content: Mapping[str, Any]) -> Pictures:
    """The pictures of a job's columns; those of its last few inputs are kept, as long as the files are the same."""
    path, form = input_of(content)
    k, columns = content.get("k"), content["columns"]
    roles = {str(name): column.get("role") for name, column in columns.items() if isinstance(column, dict)}
    hidden = frozenset(name for name, role in roles.items() if role in NOT_RELEASED)
    named = [[name for name, role in roles.items() if role == each] for each in (Role.UNIT, Role.IDENTIFIER)]
    unit = next((names[0] for names in named if len(names) == 1), None)  # which k counts, should it repeat
    stamp = (stat.st_mtime_ns, stat.st_size) if os.path.exists(path) and (stat := os.stat(path)) else None
    return _drawn(path, form, stamp, k if type(k) is int and k > 1 else 2, unit, hidden)


def input_of(content: Mapping[str, Any]) -> tuple[str, CsvFormat | None]:
    """Path of the input and how it is written; None where the job has open questions."""
    given = content.get("input")
    if not isinstance(given, dict):
        return str(given), CsvFormat()
    path = str(given.get("path"))
    try:
        return path, CsvFormat.model_validate({key: value for key, value in given.items() if key != "path"})
    except ValueError:
        return path, None


def first_rows(content: Mapping[str, Any], count: int) -> tuple[list[str], list[list[Any]]]:
    """Names and values of the first rows: original data, for a steward who asks."""
    path, form = input_of(content)
    with opened(path, form=form or found_format(path).form) as source:
        _, batch = next(read_batches(source, source.units[0], rows=count))
        table = batch.slice(0, count)
        values = [["" if each is None else str(each) for each in column.to_pylist()] for column in table.columns]
        return list(table.schema.names), [list(row) for row in zip(*values, strict=True)]


@lru_cache(maxsize=8)
def _drawn(
    path: str, form: CsvFormat | None, _stamp: tuple[int, int] | None, k: int, unit: str | None, hidden: frozenset[str]
) -> Pictures:
    """The pictures of an input; time and size of its file tell whether it is still the same."""
    with opened(path, form=form or found_format(path).form) as source:
        sample, rows = sample_of(source), source.rows
    looks = {look.name: look for look in look_at(sample)}
    several = 1
    if unit in looks and (codes := looks[unit].codes[looks[unit].codes >= 0]).size:
        several = int(np.bincount(codes).max())  # so many rows may be of one unit
    least = k * several
    drawn = {
        name: (Markup(""), "not released") if name in hidden else _picture(look, least) for name, look in looks.items()
    }
    return Pictures(rows, sample.num_rows, drawn)


def _picture(look: Look, least: int) -> tuple[Markup, str]:
    if look.numbers is not None and (look.date or look.distinct > FEW_CODES):
        kind = Kind.DATE if look.date else Kind.INTEGER if look.whole else Kind.CONTINUOUS
        column = BothColumns(look.name, kind, look.numbers, look.numbers)
    else:  # numbered: what the categories are is not shown
        kind = Kind.CATEGORICAL
        codes = np.where(look.codes < 0, np.nan, look.codes)
        levels = tuple(map(str, range(1, look.distinct + 1)))
        column = BothColumns(look.name, kind, codes, codes, levels)
    rows = len(look.codes)
    found = distributions(TypedTables((column,), rows, rows, False, least), Binning(least))[0]
    share = 1 - look.filled / max(rows, 1)
    missing = ", few missing" if found.original_nulls is None else f", {share:.0%} missing" if share else ""
    if not found.original:
        return Markup(""), f"no picture: {found.note}{missing}"
    what = (
        f"{look.distinct:,} categories"
        if found.labels
        else f"{kind.value} values"
        if kind is not Kind.DATE
        else "dates"
    )
    words = f"{what}{missing}"
    drawing = _bars(found) if found.labels else _steps(found)
    box = {"viewBox": f"0 0 {WIDTH} {HEIGHT}", "role": "img", "aria_label": words, "focusable": "false"}
    return tag("svg", drawing, **box), words


def _steps(found: Distribution) -> Markup:
    edges = closed(found.edges)
    heights = [
        count / max(high - low, 1e-300) for count, (low, high) in zip(found.original, pairwise(edges), strict=True)
    ]
    span, top = max(edges[-1] - edges[0], 1e-300), max(heights)
    x = [4 + (edge - edges[0]) / span * (WIDTH - 8) for edge in edges]
    y = [_AXIS - height / top * (_AXIS - 4) for height in heights]
    path = "".join(f"V{height:.1f}H{end:.1f}" for height, end in zip(y, x[1:], strict=True))
    inner = [edge for edge in found.edges if edge is not None]
    ends = [(inner[0], "start", 4), (inner[-1], "end", WIDTH - 4)] if len(inner) > 1 else []
    texts = [tag("text", place_of(edge, found.kind), x=at, y=HEIGHT - 3, text_anchor=where) for edge, where, at in ends]
    return Markup("").join([tag("path", d=f"M4 {_AXIS}{path}V{_AXIS}Z", class_="original"), *texts])


def _bars(found: Distribution) -> Markup:
    wide, top = (WIDTH - 8) / len(found.original), max(found.original)
    bars = []
    for at, (label, count) in enumerate(zip(found.labels, found.original, strict=True)):
        high = count / top * (_AXIS - 4)
        other = "baseline" if label == "(other)" else "original"
        x, width = 4 + at * wide, max(1.0, wide * 0.85)
        bars.append(tag("rect", class_=other, x=x, y=_AXIS - high, width=width, height=high))
    return Markup("").join(bars)
