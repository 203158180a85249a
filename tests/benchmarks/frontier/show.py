"""Tables and the map, from what was judged."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from tests.benchmarks.frontier.criteria import judged
from tests.benchmarks.frontier.peers import BASELINES
from tests.benchmarks.frontier.settings import grid

HALVES = BASELINES[0]
SETTING = ["table", "who", "method", "k", "refused"]
SHOWN = {
    "shapes": "shapes", "worst_shape": "worst", "pairs": "pairs", "told_apart": "distinguishability",
    "told_from_control": "from control", "survival": "survival",
    "survival_by": "by category", "cox": "Cox, s.e.", "linked": "linked", "membership": "member", "copies": "copies",
    "membership_units": "member, units", "broken": "rules broken",
    "singling": "single 1", "singling_many": "single 4", "linkability": "linkable", "inference": "inferred",
}  # fmt: skip
"""Measures of the printed table, and their headings; the files hold all."""
_ACROSS = 5
"""Most panels beside one another."""
_MARKERS = "osD^vP*X<>ph8d"


def collect(folder: Path) -> pd.DataFrame:
    """A row a release: what it is, and its figures."""
    rows = []
    for told in sorted(folder.glob("*/releases/*.json")):
        about = json.loads(told.read_text())
        figures = {"linked": about.pop("linked", None)} | about.pop("figures", {})
        rows.append({"table": told.parts[-3], "k": None, "problem": ""} | about | figures)
    return pd.DataFrame(rows).drop(columns=["released", "original", "control"], errors="ignore")


def summary(figures: pd.DataFrame) -> pd.DataFrame:
    """Means over draws, and half their 95 % interval (`NAME_half`); a setting is refused where one draw is."""
    measures = [
        name for name in figures if figures[name].dtype.kind == "f" and name not in (*SETTING, "draw", "seconds")
    ]
    figures = figures.assign(
        **{name.replace("_error", "_squared_error"): figures[name] ** 2 for name in figures if name.endswith("_error")}
    )
    measures += [name for name in figures if name.endswith("_squared_error")]
    known = figures[figures["problem"].fillna("") == ""].copy()
    known["k"] = known["k"].fillna(0).astype(int)
    grouped = known.groupby(["table", "who", "method", "k"], sort=False)
    means = grouped[measures].mean()
    counts, spread = grouped[measures].count(), grouped[measures].std()
    half = spread * stats.t.ppf(0.975, np.maximum(counts - 1, 1)) / np.sqrt(counts)
    made = means.join(half.add_suffix("_half")).join(grouped["refused"].max())
    for attack in ("singling", "singling_many"):
        made[f"{attack}_surely"] = _surely(means, counts, attack)
    made = made.assign(draws=grouped.size()).reset_index()
    return made.sort_values(["table", "who", "method"], key=_places, kind="stable", ignore_index=True)


def _surely(means: pd.DataFrame, counts: pd.DataFrame, attack: str) -> pd.Series:
    """What an attack gains beyond the control, of all draws together, less the errors of both rates.

    One draw of three whose own interval misses zero is chance: of seven tables and two attacks one or two do.
    """
    who = [f"{attack}_attack", f"{attack}_control"]
    errors = np.sqrt(sum(means[f"{name}_squared_error"] for name in who) / counts[who[0]])
    return means[who[0]] - means[who[1]] - errors


def _places(values: pd.Series) -> pd.Series:
    """Methods in the order of the settings, with scores beside without; own ones before peers and baselines."""
    if values.name == "table":
        return values
    known = ["anonpipe", "peer", "baseline", *dict.fromkeys(setting.method for setting in grid())]
    return values.map({name: at for at, name in enumerate(known)}).fillna(len(known))


def text(made: pd.DataFrame, figures: pd.DataFrame) -> str:
    """The tables to be read: a part a table, with what could not be made."""
    return "\n".join(line for name, part in made.groupby("table", sort=False) for line in _part(name, part, figures))


def _part(name: str, part: pd.DataFrame, figures: pd.DataFrame) -> Iterable[str]:
    shown = [measure for measure in SHOWN if measure in part and part[measure].notna().any()]
    titles = [title(row) for row in part.to_dict("records")]
    width = max(map(len, titles))
    yield f"\n{name}: means of {part['draws'].max()} draws, ± half a 95 % interval; (r): refused by the usual gates"
    yield " " * width + "".join(f"{SHOWN[measure]:>15}" for measure in shown)
    for told, row in zip(titles, part.to_dict("records"), strict=True):
        yield f"{told:<{width}}" + "".join(f"{_cell(row, measure):>15}" for measure in shown)
    failed = figures[(figures["table"] == name) & (figures["problem"].fillna("") != "")]
    for row in failed.drop_duplicates(["method", "k"]).to_dict("records"):
        yield f"{title(row)}: not made. {row['problem']}"


def title(row: Mapping[str, Any]) -> str:
    """A setting's name, its k, and whether the usual gates refuse it."""
    k = row["k"]
    return row["method"] + (f", k={k:.0f}" if k == k and k else "") + (" (r)" if row["refused"] else "")


def _cell(row: dict[str, Any], measure: str) -> str:
    value, half = row[measure], row[f"{measure}_half"]
    return "–" if pd.isna(value) else f"{value:.3f}" + ("" if pd.isna(half) else f" ±{half:.3f}")


def criteria_table(made: pd.DataFrame, method: str, k: int) -> pd.DataFrame:
    """Every criterion on every table for a setting."""
    rows = []
    for name, part in made.groupby("table", sort=False):
        own = part[(part["who"] == "anonpipe") & (part["method"] == method) & (part["k"] == k)]
        halves = part[part["method"] == HALVES]
        if not own.empty and not halves.empty:
            found = judged(*({str(key): value for key, value in one.iloc[0].items()} for one in (own, halves)))
            rows += [
                {"table": name, "method": method, "k": k, "refused": bool(own["refused"].iloc[0])}
                | {"criterion": one.title, "value": one.value, "limit": one.limit, "margin": one.margin}
                | {"outcome": one.outcome}
                for one in found
            ]
    return pd.DataFrame(rows)


def criteria_of_all(made: pd.DataFrame) -> pd.DataFrame:
    """The criteria of all settings of anonpipe, one below the other."""
    settings = made[made["who"] == "anonpipe"][["method", "k"]].drop_duplicates().itertuples(index=False)
    return pd.concat([criteria_table(made, method, k) for method, k in settings], ignore_index=True)


def criteria_text(found: pd.DataFrame) -> str:
    """Those of the first setting in full, and how many every setting meets."""
    method, k = found[["method", "k"]].iloc[0]
    own = found[(found["method"] == method) & (found["k"] == k)]
    lines = [f"\ncriteria, {method}, k={k} (margin below 0: not met)"]
    for row in own.to_dict("records"):
        figures = "".join(f"{row[name]:>10.4f}" for name in ("value", "limit", "margin"))
        lines.append(f"{row['table']:<14} {row['criterion']:<52}{figures}  {row['outcome']}")
    lines.append(f"\n{'criteria met, of all tables':<48}{'met':>6}{'of':>6}  tables whose gates refuse it")
    for (name, size), part in found.groupby(["method", "k"], sort=False):
        refused = ", ".join(part[part["refused"]]["table"].unique())
        met = int((part["outcome"] == "passed").sum())
        lines.append(f"{f'{name}, k={size}':<48}{met:>6}{len(part):>6}  {refused}")
    return "\n".join(lines)


def draw_map(made: pd.DataFrame, path: Path) -> None:
    """Risk against lost utility, a panel a table: what the nearest released row tells of membership, and how far
    columns and pairs of columns are from the original.

    Left and down is better. Filled marks pass the usual gates, hollow ones are
    refused, numbers are k; crosses are other tools, and stars baselines.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    tables = list(dict.fromkeys(made["table"]))
    rows = -(-len(tables) // _ACROSS)
    columns = -(-len(tables) // rows)
    figure = Figure(figsize=(3.6 * columns + 0.4, 3.3 * rows + 1.5), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).ravel()
    marks = _marks(made)
    for axes, name in zip(panels, tables, strict=False):
        part = made[made["table"] == name]
        axes.axhline(0.5, color="0.6", linestyle=":", linewidth=1, zorder=0)
        _panel(axes, part, 1 - part[["shapes", "pairs"]].mean(axis=1), part["membership"], marks)
        axes.set_title(name, fontsize=10, loc="left")
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels[len(tables) :]:
        axes.set_axis_off()
    for axes in panels[max(0, len(tables) - columns) : len(tables)]:
        axes.set_xlabel("1 - mean of shapes and pairs", fontsize=9)
        axes.tick_params(labelbottom=True)
    for axes in panels[::columns]:
        axes.set_ylabel("membership (AUC)", fontsize=9)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(columns, 3), frameon=False, fontsize=9)
    figure.savefig(path, dpi=110, metadata={"Software": None})


def _marks(made: pd.DataFrame) -> dict[str, tuple[Any, str]]:
    """Colour and mark of every method, the same in all panels."""
    from matplotlib import colormaps

    colours = colormaps["tab20"].colors  # type: ignore[attr-defined]
    found: dict[str, tuple[Any, str]] = {}
    for who, marks in (("anonpipe", _MARKERS), ("peer", "xX+P"), ("baseline", "*1")):
        for at, name in enumerate(dict.fromkeys(made[made["who"] == who]["method"])):
            colour = colours[(2 * at + at // 10) % 20] if who == "anonpipe" else "black" if who == "peer" else "0.45"
            found[str(name)] = colour, marks[at % len(marks)]
    return found


def _panel(axes: Any, part: pd.DataFrame, x: pd.Series, y: pd.Series, marks: dict[str, tuple[Any, str]]) -> None:
    part = part.assign(x=x, y=y)
    for name, (colour, mark) in marks.items():
        rows: Sequence[dict[str, Any]] = part[part["method"] == name].sort_values("k").to_dict("records")
        places = [(row["x"], row["y"]) for row in rows]
        own = bool(rows) and rows[0]["who"] == "anonpipe"
        axes.plot(
            *zip(*places, strict=True) if places else ([], []), "-", marker=mark, color=colour, alpha=0.5, label=name
        )
        for row, place in zip(rows, places, strict=True):
            face = colour if not own or not row["refused"] else "white"
            axes.plot(*place, mark, color=colour, markerfacecolor=face, markersize=8, zorder=3)
            if own:
                axes.annotate(f"{row['k']}", place, xytext=(4, 4), textcoords="offset points", fontsize=7, color="0.25")
