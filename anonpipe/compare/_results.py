"""Results of a comparison: averages over draws, Pareto front, recommended setting; as map, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import compress
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
from pydantic_core import to_jsonable_python

from anonpipe.compare._settings import Setting
from anonpipe.engine import TaskResult
from anonpipe.errors import JobError, OutputError
from anonpipe.files import write_atomic
from anonpipe.job.model import Job
from anonpipe.verify.catalogue import MEASURED

DISTRIBUTIONS = ("column_shapes", "pair_shapes", "survival_curves")
FURTHEST = "distributions.furthest"  # the worst of these
_SPLIT_HALF = (FURTHEST, *DISTRIBUTIONS)

# Default axes of the map: the first measure of each that has a value
DEFAULT_UTILITY = ("analyses.overlap", FURTHEST, "propensity.tree_ratio", "propensity.logistic_ratio")
DEFAULT_RISK = ("reidentification_rate",)


@dataclass(frozen=True)
class MeanFigure:
    """A measure of one setting, averaged over its draws."""

    mean: float
    error: float  # Standard error of that mean; NaN for one draw
    low: float | None  # Mean lower end of the 95 % intervals; None if the measure is exact
    high: float | None  # Mean upper end
    baseline: float | None  # Mean of the draws' baselines
    distance: float | None  # Mean absolute distance from the baseline, so that opposite signs do not cancel


@dataclass(frozen=True)
class Axis:
    """A measure as an axis; lower is better on every axis."""

    name: str
    title: str
    unit: str
    better: str  # `lower`, `higher` or `near baseline`
    limits: tuple[tuple[str, float], ...] = ()  # label and value of the job's limits on this axis
    disclosive: bool = True  # for the data steward only

    def loss(self, value: float, baseline: float | None = None) -> float:
        """A value of the measure as one of which less is better."""
        if self.better == "higher":
            return 1.0 - value if self.unit == "share" else -value
        if self.better == "near baseline":
            return abs(value - (baseline or 0.0))
        return value

    def of(self, figure: MeanFigure) -> float:
        """The loss of a setting."""
        if self.better == "near baseline" and figure.distance is not None:
            return figure.distance
        return self.loss(figure.mean, figure.baseline)

    @property
    def enough(self) -> float:
        """The loss that another sample of the same population may have: of less than it nobody is better off."""
        return 1.0 if self.name in _SPLIT_HALF else -math.inf

    @property
    def label(self) -> str:
        """What the axis shows, in words."""
        if self.better == "higher":
            return f"1 - {self.title}" if self.unit == "share" else f"- {self.title}"
        return f"{self.title}, distance from its baseline" if self.better == "near baseline" else self.title


@dataclass(frozen=True)
class SettingResult:
    """What became of one setting."""

    setting: Setting  # Which
    draws: int  # Trials that ended with a verdict
    passed: int  # Those of them in which all gates passed
    figures: Mapping[str, MeanFigure]  # By name of the measure; those without a value in some trial are left out
    failed: Mapping[str, str]  # Gates that failed in some trial, each with what was first measured
    problem: str | None  # Why there is nothing to measure; None where there is
    unforeseen: bool  # Whether that is an error, not what the setting asks of the input: it is tried again next time
    seconds: float  # Mean time of a trial

    @property
    def passes(self) -> bool:
        """Whether all gates passed in every trial."""
        return self.problem is None and self.draws > 0 and self.passed == self.draws


@dataclass(frozen=True)
class Study:
    """All settings side by side."""

    rows: tuple[SettingResult, ...]  # One a setting, in the order of the grid
    utility: Axis  # Of the map
    risk: Axis  # Of the map
    draws: int  # Trials of each setting
    titles: Mapping[str, str]  # By name of a measure, what it is, in words

    def place(self, row: SettingResult) -> tuple[float, float] | None:
        """Utility loss and risk of a setting; None where one of them is not defined."""
        if row.problem is not None or not {self.utility.name, self.risk.name} <= set(row.figures):
            return None
        return self.utility.of(row.figures[self.utility.name]), self.risk.of(row.figures[self.risk.name])

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the map should know."""
        found, (utility, risk) = [], (axis.name for axis in self.axes)
        if missing := [row for row in self.rows if row.problem is None and self.place(row) is None]:
            methods = ", ".join(dict.fromkeys(row.setting.method for row in missing))
            found.append(f"not on the map, as {utility} or {risk} is not defined for them: {methods}")
        if not self.risk.limits:
            gate = MEASURED.get(risk, next(iter(MEASURED.values())))
            how = f"gates.{gate.name}, as in --set gates.{gate.name}={gate.example:g}"
            others = f"limits can be set on {', '.join(MEASURED)}: {how}"
            found.append(
                f"the job sets no limit on {risk}, so that the choice rests on utility and the other gates: it tends "
                f"to the least protection; {f'set one by {how}' if gate.name == risk else others}"
            )
        return tuple(found)

    @property
    def axes(self) -> tuple[Axis, Axis]:
        """Utility and risk."""
        return (self.utility, self.risk)

    @property
    def of_passing(self) -> bool:
        """Whether the front is drawn through the settings that pass all gates; through all where none passes."""
        return any(row.passes and self.place(row) is not None for row in self.rows)

    @property
    def front_label(self) -> str:
        """What the front is, in words."""
        return f"Pareto front of {'the settings that pass all gates' if self.of_passing else 'all: none passes'}"

    @property
    def front(self) -> tuple[SettingResult, ...]:
        """Settings (if any, that pass all gates) than which no other is better on one axis and as good on the other."""
        eligible = [row for row in self.rows if row.passes or not self.of_passing]
        placed = [(place, row) for row in eligible if (place := self.place(row)) is not None]
        chosen = compress(placed, pareto([place for place, _ in placed]))
        return tuple(row for _, row in sorted(chosen, key=lambda one: one[0]))

    @property
    def choice(self) -> SettingResult | None:
        """The setting of least utility loss among those that pass all gates in all draws; None where none does.

        Of several with the same loss, or with none beyond `Axis.enough`, the one of least risk, then the first.
        """
        passing = [(place, at) for at, row in enumerate(self.rows) if row.passes and (place := self.place(row))]
        ranked = [(max(utility, self.utility.enough), risk, at) for (utility, risk), at in passing]
        return self.rows[min(ranked)[2]] if ranked else None

    @property
    def why(self) -> str:
        """For what the setting is chosen, in words."""
        place = None if self.choice is None else self.place(self.choice)
        if place is None or place[0] > self.utility.enough:
            return "least utility lost with all gates passed"
        return "least risk of all that pass the gates and are as near to the original as another sample would be"


def pareto(places: Sequence[tuple[float, float]]) -> list[bool]:
    """Whether nothing is better on one axis and at least as good on the other."""
    values = np.asarray(places, dtype=np.float64).reshape(-1, 2)
    dominated = [bool(((values <= one).all(axis=1) & (values < one).any(axis=1)).any()) for one in values]
    return [not each for each in dominated]


def summarise(
    job: Job,
    settings: Sequence[Setting],
    results: Sequence[tuple[int, TaskResult]],
    problems: Mapping[int, str],
    axes: tuple[str | None, str | None] = (None, None),
) -> Study:
    """Average the trials of each setting."""
    of = [[result for which, result in results if which == at] for at in range(len(settings))]
    rows = tuple(_row(setting, of[at], problems.get(at)) for at, setting in enumerate(settings))
    measured = [result for _, result in results if result["problem"] is None]
    figures = {name: one for result in measured for name, one in result["measures"].items()}
    if not figures:
        reasons = dict.fromkeys(row.problem for row in rows if row.problem is not None)
        listed = "".join(f"\n  {reason}" for reason in reasons)
        raise JobError(f"no setting could be measured:{listed or ' the job measures neither utility nor risk'}")
    defined = {name for row in rows for name in row.figures}
    utility, risk = (
        _axis(what, asked, usual, measured, figures, defined, job)
        for what, asked, usual in zip(("utility", "risk"), axes, (DEFAULT_UTILITY, DEFAULT_RISK), strict=True)
    )
    return Study(
        rows, utility, risk, max(map(len, of)), {name: str(one["title"]) for name, one in sorted(figures.items())}
    )


def _row(setting: Setting, results: Sequence[TaskResult], problem: str | None) -> SettingResult:
    reasons = [result["problem"] for result in results if result["problem"] is not None]
    measured = [result for result in results if result["problem"] is None]
    names = dict.fromkeys(name for result in measured for name in result["measures"])
    return SettingResult(
        setting=setting,
        draws=len(measured),
        passed=sum(bool(result["passed"]) for result in measured),
        figures={name: figure for name in names if (figure := _figure(name, measured)) is not None},
        failed={name: text for result in reversed(measured) for name, text in result["failed"]},
        problem=reasons[0] if problem is None and reasons else problem,
        unforeseen=any(not result["final"] for result in results),
        seconds=float(np.mean([result["seconds"] for result in measured])) if measured else math.nan,
    )


def _figure(name: str, results: Sequence[TaskResult]) -> MeanFigure | None:
    """The average over draws; None where a draw has no value."""
    figures = [result["measures"].get(name, {}) for result in results]
    values = [one.get("value") for one in figures]
    if not values or None in values:
        return None
    error = float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan
    ends = [[one[end] for one in figures] for end in ("low", "high", "baseline")]
    away = [None if base is None else abs(value - base) for value, base in zip(values, ends[2], strict=True)]
    means = (None if None in each else float(np.mean(each)) for each in (*ends, away))
    return MeanFigure(float(np.mean(values)), error, *means)


def _axis(
    what: str,
    asked: str | None,
    usual: Sequence[str],
    measured: Sequence[TaskResult],
    figures: Mapping[str, Any],
    defined: set[str],
    job: Job,
) -> Axis:
    own = [name for result in measured for name in result[what]]
    if asked is not None and asked not in defined:
        raise JobError(f"--{what} is {asked!r}, which was not measured; there are: {', '.join(sorted(defined))}")
    name = asked or next((name for name in (*usual, *own) if name in defined), None)
    if name is None:
        raise JobError(
            f"the job measures no {what}: give measure.{what}: true in the job, or name a measure by --{what}"
        )
    one = figures[name]
    axis = Axis(name, one["title"], one["unit"], one["better"], disclosive=bool(one.get("disclosive", True)))
    return replace(axis, limits=tuple((text, axis.loss(end, one["baseline"])) for text, end in _limits(name, job)))


def _limits(name: str, job: Job) -> list[tuple[str, float]]:
    """What the job allows of a measure: its gates on risk, and the limits of its analyses."""
    limit = job.limits.get(name)
    found = [] if limit is None else [(f"gates.{name}", limit)]
    prefix, _, share = name.rpartition(".")
    asked = [one for one in job.analyses if prefix in ("analyses", f"analysis.{one.name}")]
    given = {one.declared[share] for one in asked if share in one.declared}
    whose = "limit of each analysis" if prefix == "analyses" else "limit of this analysis"
    return found + [(whose, limit) for limit in sorted(given)]


# --- The risk-utility map: each setting a point, each method a curve over k -------------------------------------------

Place = tuple[float, float]

WIDE_RANGE = 30.0  # An axis whose largest value is so many times its smallest is logarithmic
_MARKERS = "osD^vP*X<>ph8d"


def draw_map(study: Study) -> bytes:
    """The map as PNG.

    Filled marks pass all gates in all draws, hollow ones do not. Bars are the 95 % interval of the risk (or, where the
    measure has none, two standard errors over draws) and two standard errors of the utility loss. A dotted line is the
    mean baseline, dashed lines are limits, grey steps the Pareto front (of settings that pass all gates, if any does).
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 6.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    placed = [(row, place) for row in study.rows if (place := study.place(row)) is not None]
    _draw_methods(axes, study, placed)
    if front := [place for row in study.front if (place := study.place(row)) is not None]:
        label = fill(study.front_label, 34)
        axes.step(*zip(*front, strict=True), where="post", color="0.6", linewidth=5, alpha=0.35, label=label, zorder=1)
    _draw_lines(axes, study, [row for row, _ in placed])
    _draw_choice(axes, study)
    _scales(axes, study, [place for _, place in placed])
    axes.set_xlabel(fill(study.utility.label, 80) + "\nless utility lost is further left")
    axes.set_ylabel(fill(study.risk.label, 80))
    draws = "one draw" if study.draws == 1 else f"{study.draws} draws"
    title = f"{len(placed)} of {len(study.rows)} settings, {draws} each; filled: passes all gates; numbers are k"
    axes.set_title(title, fontsize=10, loc="left")
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=130, metadata={"Software": None})
    return out.getvalue()


def _draw_methods(axes: Any, study: Study, placed: Sequence[tuple[SettingResult, Place]]) -> None:
    from matplotlib import colormaps

    colours = colormaps["tab20"].colors  # type: ignore[attr-defined]
    methods = list(dict.fromkeys(row.setting.method for row in study.rows))
    for at, method in enumerate(methods):
        colour, mark = colours[(2 * at + at // 10) % 20], _MARKERS[at % len(_MARKERS)]
        curve = sorted((row.setting.k, place, row) for row, place in placed if row.setting.method == method)
        if not curve:
            axes.plot([], [], mark, color=colour, markerfacecolor="none", label=f"{method}: not on the map")
            continue
        x, y = zip(*(place for _, place, _ in curve), strict=True)
        axes.plot(x, y, "-", marker=mark, markersize=7, color=colour, linewidth=1, alpha=0.6, label=method)
        for k, place, row in curve:
            inside = colour if row.passes else "white"
            bars = {"xerr": _two_errors(row.figures[study.utility.name].error), "yerr": _bar(study.risk, row, place[1])}
            marked = {"marker": mark, "markersize": 7, "color": colour, "markerfacecolor": inside}
            axes.errorbar(*place, **bars, **marked, elinewidth=0.8, linestyle="none", zorder=3)
            axes.annotate(str(k), place, xytext=(4, 4), textcoords="offset points", fontsize=7, color="0.25")


def _two_errors(error: float) -> float:
    return 2.0 * error if math.isfinite(error) else 0.0


def _bar(axis: Axis, row: SettingResult, value: float) -> list[list[float]]:
    """Lengths of the bar below and above the point."""
    figure = row.figures[axis.name]
    if figure.low is None or figure.high is None or axis.better == "near baseline":
        return [[_two_errors(figure.error)]] * 2
    ends = sorted(axis.loss(end) for end in (figure.low, figure.high))
    return [[max(0.0, value - ends[0])], [max(0.0, ends[1] - value)]]


def _draw_lines(axes: Any, study: Study, rows: Iterable[SettingResult]) -> None:
    baselines = [row.figures[study.risk.name].baseline for row in rows]
    known = [one for one in baselines if one is not None]
    if known and study.risk.better == "lower":
        axes.axhline(sum(known) / len(known), color="0.4", linestyle=":", linewidth=1, label="risk: baseline (mean)")
    for name, limit in study.risk.limits:
        axes.axhline(limit, color="tab:red", linestyle="--", linewidth=1, label=f"risk: {name}")
    if math.isfinite(study.utility.enough):
        axes.axvline(study.utility.enough, color="0.4", linestyle=":", linewidth=1, label="utility: another sample")
    for name, limit in study.utility.limits:
        axes.axvline(limit, color="tab:purple", linestyle="--", linewidth=1, label=f"utility: {name}")


def _draw_choice(axes: Any, study: Study) -> None:
    choice = study.choice
    place = None if choice is None else study.place(choice)
    if choice is None or place is None:
        axes.plot([], [], " ", label="no setting passes all gates")
        return
    circle = {"markersize": 17, "markerfacecolor": "none", "markeredgecolor": "black"}
    axes.plot(*place, "o", **circle, label=f"choice: {choice.setting.method}, k={choice.setting.k}", zorder=2)


def _scales(axes: Any, study: Study, places: Sequence[Place]) -> None:
    for at, (axis, which) in enumerate(zip(study.axes, ("x", "y"), strict=True)):
        values = [place[at] for place in places]
        if values and min(values) > 0 and max(values) / min(values) > WIDE_RANGE:
            getattr(axes, f"set_{which}scale")("log")
            getattr(axes, f"{which}axis").set_major_formatter("{x:g}")  # no powers of ten
        elif values and axis.unit == "share" and min(values) >= 0:
            getattr(axes, f"set_{which}lim")(left=0.0) if which == "x" else axes.set_ylim(bottom=0.0)


# --- A study as files: a table for programs (CSV, JSON), and lines for people -----------------------------------------

TABLE, CONTENT, MAP = "compare.csv", "compare.json", "compare.png"


def write_study(study: Study, folder: Path) -> tuple[Path, Path, Path]:
    """Write table, content and map into a folder, readable by their owner only: they tell of the original."""
    paths = (folder / TABLE, folder / CONTENT, folder / MAP)
    contents = (_table_text(study).encode(), json.dumps(to_dict(study), indent=2).encode(), draw_map(study))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in zip(paths, contents, strict=True):
            write_atomic(path, content)
    except OSError:
        raise OutputError(f"the folder {folder} cannot be written; give --out a folder that you may write") from None
    return paths


def _table_text(study: Study) -> str:
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
        first = (row.setting.method, row.setting.k, row.draws, row.passed, _text(loss), _text(risk), *marks)
        cells = [_text(getattr(row.figures.get(name), part, None)) for name in names for part in parts]
        writer.writerow([*first, _text(row.seconds), row.problem or "", _failed(row), *cells])
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
        "choice": None if choice is None else _named(choice.setting) | {"why": study.why},
        "settings": [
            {
                **_named(row.setting),
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


def _named(setting: Setting) -> dict[str, Any]:
    return {"method": setting.method, "k": setting.k, "set": list(setting.overrides)}


def cells(study: Study, row: SettingResult) -> tuple[str, str, str, str, str]:
    """A setting as words for a table: method, k, gates, utility loss, risk.

    The last two hold two standard errors over draws, the last also the interval and in round brackets the baseline.
    """
    gates = "pass" if row.passes else "fail"
    if row.problem is not None:
        gates = "error" if row.unforeseen else "not feasible"
    elif 0 < row.passed < row.draws:
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
    away = "(..): the baseline, which an attacker reaches without the release"
    marks = {
        "±: two standard errors over draws": any(math.isfinite(figure.error) for figure in figures),
        "[..]: the 95 % interval": any(figure.low is not None for figure in risks),
        away: any(figure.baseline is not None for figure in risks),
    }
    found = [text for text, shown in marks.items() if shown]
    return (*(["; ".join(found)] if found else []), *([f"bold: {study.front_label}"] if study.front else []))


def _in_words(axis: Axis, figure: MeanFigure | None) -> str:
    """Mean and two standard errors over draws, as the map has them."""
    if figure is None:
        return "-"
    text = f"{axis.of(figure):.3g}"
    return text + (f" ±{2 * figure.error:.2g}" if math.isfinite(figure.error) else "")


def reasons(study: Study) -> tuple[str, ...]:
    """What kept settings from passing, one line a reason, with the settings: methods and their k."""
    found: dict[str, dict[str, list[str]]] = {}
    for row in study.rows:
        texts = [row.problem] if row.problem is not None else [f"failed: {name}" for name in row.failed]
        for text in dict.fromkeys(texts):
            found.setdefault(text, {}).setdefault(row.setting.method, []).append(str(row.setting.k))
    groups = {text: (f"{method} k={','.join(ks)}" for method, ks in who.items()) for text, who in found.items()}
    return tuple(f"{text} - {'; '.join(who)}" for text, who in groups.items())


def why(row: SettingResult) -> str:
    """Why a setting is not feasible or which gates failed; empty for neither."""
    return row.problem if row.problem is not None else _failed(row)


def _failed(row: SettingResult) -> str:
    return "; ".join(f"{name}: {measured}" for name, measured in row.failed.items())
