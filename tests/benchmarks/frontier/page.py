"""docs/frontier.md and its map, from its text (`page.md` beside this file) and the figures in data/frontier.csv.

    python -m tests.benchmarks.frontier.page

The benchmark writes a new `cells.csv`; copied to data/frontier.csv, this command puts it into both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from tests.benchmarks.frontier.criteria import judged
from tests.benchmarks.frontier.peers import BASELINES, DEEP, PEERS
from tests.benchmarks.frontier.show import HALVES, SHOWN, draw_map, title

ROOT = Path(__file__).resolve().parents[3]
FIGURES = ROOT / "data" / "frontier.csv"
PAGE = ROOT / "docs" / "frontier.md"
MAP = ROOT / "data" / "frontier.png"
TEXT = Path(__file__).with_name("page.md")
DEFAULT = "local_synthesis, normal scores"

WITHOUT_CRITERION = ("told_from_control", "pairs", "inference")
PRECISE = ("shapes", "linked", "copies", "broken")  # One digit more: their limits are close to all figures


def page(cells: pd.DataFrame) -> str:
    """The whole page."""
    own = cells[cells["method"] == DEFAULT]["outcome"]
    text = TEXT.read_text(encoding="utf-8")
    for name, value in {
        "met": str((own == "met").sum()),
        "criteria": str((own != "").sum()),
        "totals": totals(cells),
        "ranges": ranges(cells),
    }.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def read(path: Path = FIGURES) -> pd.DataFrame:
    """The stored cells, as text."""
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def cells(summary: pd.DataFrame) -> pd.DataFrame:
    """One row a setting and measure: mean, half of the interval, and whether the criterion is met."""
    rows = []
    for row, met in outcomes(summary):
        for measure in dict.fromkeys([*met, *WITHOUT_CRITERION]):
            if measure not in row or pd.isna(row[measure]):
                continue
            outcome = met.get(measure)
            decided = outcome is not None and row["method"] != HALVES
            rows.append(
                {name: str(row[name]) for name in ("table", "method")}
                | {"k": f"{row['k']:.0f}" if row["k"] else "", "refused": str(bool(row["refused"])).lower()}
                | {"measure": measure, **_rounded(row, measure)}
                | {"outcome": ("met" if outcome else "missed") if decided else ""}
            )
    return pd.DataFrame(rows)


def remeasured(summary: pd.DataFrame, stored: pd.DataFrame) -> pd.DataFrame:
    """Stored cells with those of what was measured again, judged by its halves, else by the stored ones."""
    now = summary.loc[summary["method"] == HALVES, "table"]
    halves = wide(stored[(stored["method"] == HALVES) & ~stored["table"].isin(now)])
    keys = ["table", "method", "k"]
    new = cells(pd.concat([summary, halves], ignore_index=True))
    new = dict(list(new[(new["method"] != HALVES) | new["table"].isin(now)].groupby(keys, sort=False)))
    kept = [new.pop(key, part) for key, part in stored.groupby(keys, sort=False)]
    return pd.concat([*kept, *new.values()], ignore_index=True)


def wide(cells: pd.DataFrame) -> pd.DataFrame:
    """A row a table and setting, as `show.summary` has them, from stored cells."""
    found = cells.pivot(index=["table", "method", "k", "refused"], columns="measure", values="value")
    found = found.loc[list(dict.fromkeys(found.index))].astype(float).reset_index()
    who = [kind_of_setting(method) for method in found["method"]]
    return found.assign(who=who, k=pd.to_numeric(found["k"]).fillna(0).astype(int), refused=found["refused"] == "true")


def kind_of_setting(method: str) -> str:
    """Whether it is a setting of anonpipe, a peer or a baseline."""
    return "baseline" if method in BASELINES else "peer" if method in PEERS | DEEP else "anonpipe"


def outcomes(summary: pd.DataFrame) -> Iterator[tuple[dict[str, Any], dict[str, bool | None]]]:
    """Each setting with the criteria that it meets; None for a measure that is missing."""
    for _, part in summary.groupby("table", sort=False):
        halves = part[part["method"] == HALVES]
        if halves.empty:
            continue
        baseline = halves.iloc[0].to_dict()
        for row in part.to_dict("records"):
            results = judged(row, baseline)
            yield row, {each.measure: None if each.outcome == "not measured" else each.passed for each in results}


def _rounded(row: Mapping[str, Any], measure: str) -> dict[str, str]:
    value, half = row[measure], row.get(f"{measure}_half")
    digits = 4 if measure in PRECISE else 3
    exact = pd.isna(half) or half < 0.5 * 10**-digits
    return {"value": f"{value:.{digits}f}", "half": "" if exact else f"{half:.{digits}f}"}


def totals(cells: pd.DataFrame) -> str:
    """On how many tables each setting meets each criterion."""
    decided = cells[cells["outcome"] != ""]
    measures = list(dict.fromkeys(decided["measure"]))
    lines = [_row("", [SHOWN[measure] for measure in measures]), _rule(len(measures))]
    for (method, k), part in decided.groupby(["method", "k"], sort=False):
        counts = [part[part["measure"] == measure]["outcome"] for measure in measures]
        shown = [f"{(count == 'met').sum()}/{len(count)}" if len(count) else "–" for count in counts]
        lines.append(_row(_title(method, k), shown))
    return "\n".join(lines)


def ranges(cells: pd.DataFrame) -> str:
    """Lowest and highest mean over the tables; and the share of tables whose gates refuse the setting."""
    measures = [measure for measure in dict.fromkeys(cells["measure"]) if measure not in WITHOUT_CRITERION]
    lines = [_row("", ["refused", *(SHOWN[measure] for measure in measures)]), _rule(len(measures) + 1)]
    for (method, k), own in cells.groupby(["method", "k"], sort=False):
        refused = own.drop_duplicates("table")["refused"]
        shown = [_range(own[own["measure"] == measure]["value"]) for measure in measures]
        lines.append(_row(_title(method, k), [f"{(refused == 'true').sum()}/{len(refused)}", *shown]))
    return "\n".join(lines)


def _range(values: pd.Series) -> str:
    if values.empty:
        return "–"
    low, high = min(values, key=float), max(values, key=float)
    return low if low == high else f"{low}–{high}"


def _title(method: str, k: str) -> str:
    return title({"method": method, "k": int(k) if k else 0, "refused": False})


def _row(name: str, shown: list[str]) -> str:
    return "| " + " | ".join([name, *shown]) + " |"


def _rule(columns: int) -> str:
    return "|---" * (columns + 1) + "|"


if __name__ == "__main__":
    PAGE.write_text(page(read()), encoding="utf-8")
    draw_map(wide(read()), MAP)
