"""A study as files: a table for programs (CSV, JSON), and lines for people."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from anonpipe.compare._figures import Axis, Figure, Row, Study
from anonpipe.compare._map import draw_map
from anonpipe.errors import OutputError
from anonpipe.files import write_atomic

TABLE, CONTENT, MAP = "compare.csv", "compare.json", "compare.png"


def write_study(study: Study, folder: Path) -> tuple[Path, Path, Path]:
    """Write table, content and map into a folder, readable by their owner only: they tell of the original."""
    paths = (folder / TABLE, folder / CONTENT, folder / MAP)
    contents = (table_text(study).encode(), json.dumps(to_dict(study), indent=2).encode(), draw_map(study))
    failed = False
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in zip(paths, contents, strict=True):
            write_atomic(path, content)
    except OSError:
        failed = True
    if failed:
        raise OutputError(f"the folder {folder} cannot be written; give --out a folder that you may write")
    return paths


def table_text(study: Study) -> str:
    """The study as CSV: one line a setting; of every measure its mean, standard error, interval and baseline."""
    names = [name for name in study.titles if any(name in row.figures for row in study.rows)]
    parts = ("mean", "error", "low", "high", "baseline")
    heads = ["method", "k", "draws", "passed", "utility_loss", "risk", "pareto", "chosen"]
    heads += ["seconds", "problem", "failed"]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*heads, *(f"{name} {part}" for name in names for part in parts)])
    front, choice = {id(row) for row in study.front}, study.choice
    for row in study.rows:
        loss, risk = study.place(row) or (math.nan, math.nan)
        marks = (int(id(row) in front), int(row is choice))
        told = (row.setting.method, row.setting.k, row.draws, row.passed, _text(loss), _text(risk), *marks)
        cells = [_text(getattr(row.figures.get(name), part, None)) for name in names for part in parts]
        writer.writerow([*told, _text(row.seconds), row.problem or "", _failed(row), *cells])
    return out.getvalue()


def _text(value: float | None) -> str:
    return "" if value is None or not math.isfinite(value) else f"{value:.6g}"


def to_dict(study: Study) -> dict[str, Any]:
    """The study as JSON-able content; what is no number becomes null."""
    front, choice = {id(row) for row in study.front}, study.choice
    content = {
        "utility": asdict(study.utility) | {"axis": study.utility.label},
        "risk": asdict(study.risk) | {"axis": study.risk.label},
        "draws": study.draws,
        "notes": list(study.notes),
        "titles": dict(study.titles),
        "choice": None
        if choice is None
        else {"method": choice.setting.method, "k": choice.setting.k}
        | {"set": list(choice.setting.overrides), "why": study.why},
        "settings": [
            {
                "method": row.setting.method,
                "k": row.setting.k,
                "set": list(row.setting.overrides),
                "draws": row.draws,
                "passed": row.passed,
                "failed": dict(row.failed),
                "problem": row.problem,
                "seconds": row.seconds,
                "place": study.place(row),
                "pareto": id(row) in front,
                "measures": row.figures,
            }
            for row in study.rows
        ],
    }
    plain: dict[str, Any] = to_jsonable_python(content, inf_nan_mode="null")
    return plain


def cells(study: Study, row: Row) -> tuple[str, str, str, str, str]:
    """A setting as words for a table: method, k, gates, utility loss, risk.

    The last two hold two standard errors over draws, the last also the
    interval and in round brackets the baseline.
    """
    gates = "pass" if row.passes else "fail"
    if row.problem is not None:
        gates = "error" if row.unforeseen else "not feasible"
    if row.problem is None and 0 < row.passed < row.draws:
        gates = f"{row.passed} of {row.draws}"
    utility, risk = (_in_words(axis, row.figures.get(axis.name)) for axis in study.axes)
    known = row.figures.get(study.risk.name)
    if known is not None and study.risk.better == "lower":
        risk += f" [{known.low:.3g}, {known.high:.3g}]" if known.low is not None else ""
        risk += f" ({known.baseline:.2g})" if known.baseline is not None else ""
    return row.setting.method, str(row.setting.k), gates, utility, risk


def legend(study: Study) -> tuple[str, ...]:
    """What the marks in a table of `cells` mean, of those that are in it."""
    figures = [row.figures[axis.name] for axis in study.axes for row in study.rows if axis.name in row.figures]
    risks = [row.figures[study.risk.name] for row in study.rows if study.risk.name in row.figures]
    risks = risks if study.risk.better == "lower" else []
    marks = {
        "±: two standard errors over draws": any(math.isfinite(figure.error) for figure in figures),
        "[..]: the 95 % interval": any(figure.low is not None for figure in risks),
        "(..): the baseline, what an attacker has without the release's fault": any(
            figure.baseline is not None for figure in risks
        ),
    }
    found = [text for text, shown in marks.items() if shown]
    return (*(["; ".join(found)] if found else []), *([f"bold: {study.front_label}"] if study.front else []))


def _in_words(axis: Axis, figure: Figure | None) -> str:
    """Mean and two standard errors over draws, as the map has them."""
    if figure is None:
        return "-"
    text = f"{axis.of(figure):.3g}"
    return text + (f" ±{2 * figure.error:.2g}" if math.isfinite(figure.error) else "")


def reasons(study: Study) -> tuple[str, ...]:
    """What kept settings from passing, one line a reason, with the settings: methods and their k."""
    found: dict[str, dict[str, list[int]]] = {}
    for row in study.rows:
        texts = [row.problem] if row.problem is not None else [f"gate {name}" for name in row.failed]
        for text in dict.fromkeys(texts):
            found.setdefault(text, {}).setdefault(row.setting.method, []).append(row.setting.k)
    return tuple(
        f"{text} - " + "; ".join(f"{method} k={','.join(map(str, ks))}" for method, ks in who.items())
        for text, who in found.items()
    )


def why(row: Row) -> str:
    """Why a setting is not feasible or which gates failed; empty for neither."""
    return row.problem if row.problem is not None else _failed(row)


def _failed(row: Row) -> str:
    return "; ".join(f"{name}: {measured}" for name, measured in row.failed.items())
