"""The tables of docs/frontier.md: each criterion on each table, for every setting, tool and baseline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from tests.benchmarks.frontier.criteria import judged
from tests.benchmarks.frontier.show import HALVES, SHOWN, title

BESIDE = ("told_from_control", "pairs", "inference")
"""Measures without a criterion, shown beside those that have one."""
CLOSE = ("shapes", "linked", "copies")
"""Measures with a digit more, as their limits are near all figures."""


def page(made: pd.DataFrame) -> str:
    """Markdown: a part a table, then how many of the tables each setting satisfies by criterion."""
    parts = [_part(str(name), part) for name, part in made.groupby("table", sort=False)]
    return "\n\n".join([*parts, _totals(made)]) + "\n"


def outcomes(made: pd.DataFrame) -> Iterator[tuple[dict[str, Any], dict[str, bool | None]]]:
    """Each setting with what it meets by measure; None what was not measured or is its own baseline."""
    for _, part in made.groupby("table", sort=False):
        halves = part[part["method"] == HALVES]
        if halves.empty:
            continue
        limits = _named(halves.iloc[0])
        for row in map(_named, (one for _, one in part.iterrows())):
            found = judged(row, limits)
            yield row, {one.measure: None if one.outcome == "not measured" else one.passed for one in found}


def _named(row: pd.Series) -> dict[str, Any]:
    return {str(name): value for name, value in row.items()}


def _part(name: str, part: pd.DataFrame) -> str:
    found = list(outcomes(part))
    measures = [*dict.fromkeys(measure for _, met in found for measure in met), *BESIDE]
    measures = [measure for measure in measures if measure in part and part[measure].notna().any()]
    lines = [f"### {name}", "", _row("", [SHOWN[measure] for measure in measures]), _rule(len(measures))]
    lines += [_row(title(row), [_cell(row, measure, met) for measure in measures]) for row, met in found]
    return "\n".join(lines)


def _cell(row: Mapping[str, Any], measure: str, met: Mapping[str, bool | None]) -> str:
    """Mean over draws and half its interval; bold where the criterion is not met."""
    value, half = row[measure], row[f"{measure}_half"]
    if pd.isna(value):
        return "–"
    digits = 4 if measure in CLOSE else 3
    told = f"{value:.{digits}f}" + ("" if pd.isna(half) or half < 0.5 * 10**-digits else f" ±{half:.{digits}f}")
    return f"**{told}**" if met.get(measure) is False and row["method"] != HALVES else told


def _totals(made: pd.DataFrame) -> str:
    """Of how many tables each setting meets which criterion, with the tables that it misses."""
    found = list(outcomes(made))
    measures = list(dict.fromkeys(measure for _, met in found for measure in met))
    settings = dict.fromkeys((row["method"], row["k"]) for row, _ in found if row["method"] != HALVES)
    lines = ["### Tables on which a criterion is met", "", _row("", [SHOWN[one] for one in measures])]
    lines.append(_rule(len(measures)))
    for method, k in settings:
        own = [met for row, met in found if (row["method"], row["k"]) == (method, k)]
        cells = [[met[one] for met in own if met.get(one) is not None] for one in measures]
        told = [f"{sum(map(bool, cell))} of {len(cell)}" if cell else "–" for cell in cells]
        lines.append(_row(title({"method": method, "k": k, "refused": False}), told))
    return "\n".join(lines)


def _row(name: str, cells: list[str]) -> str:
    return "| " + " | ".join([name, *cells]) + " |"


def _rule(columns: int) -> str:
    return "|---" * (columns + 1) + "|"
