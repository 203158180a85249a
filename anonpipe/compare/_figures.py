"""From the trials to one line a setting: averages over draws, the Pareto front, and the setting to take."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anonpipe.compare._settings import Setting
from anonpipe.compare._trial import BESIDE_CHANCE, FURTHEST
from anonpipe.engine import TaskResult
from anonpipe.errors import JobError
from anonpipe.job.model import Job
from anonpipe.verify.catalogue import MEASURED

USUAL_UTILITY = ("analyses.overlap", FURTHEST, "propensity.tree_ratio", "propensity.logistic_ratio")
# What the map shows unless asked otherwise: the first of these that was measured
USUAL_RISK = ("reidentification_rate",)


@dataclass(frozen=True)
class Figure:
    """A measure of one setting, averaged over its draws."""

    mean: float  # Of the draws
    error: float  # Standard error of the mean over draws; NaN for one draw
    # low, high: mean ends of the draws' 95 % intervals (of the records that were sampled); None where the measure is
    # exact
    low: float | None
    high: float | None
    baseline: float | None  # Mean of the draws' baselines; None for none
    # Mean of the draws' distances from their baselines: draws on either side do not make up for each other. None
    # without baselines.
    distance: float | None


@dataclass(frozen=True)
class Axis:
    """A measure as an axis on which less is better."""

    # name, title, unit: the measure's
    name: str
    title: str
    unit: str
    better: str  # The measure's: `lower`, `higher` or `near baseline`
    limits: tuple[tuple[str, float], ...] = ()  # What the job allows at most, on this axis; what each limit is
    disclosive: bool = True  # Whether the figures tell of the original what only the steward may know

    def loss(self, value: float, baseline: float | None = None) -> float:
        """A value of the measure as one of which less is better.

        Examples
        --------
        >>> Axis("o", "overlap", "share", "higher").loss(0.75)
        0.25
        """
        if self.better == "higher":
            return 1.0 - value if self.unit == "share" else -value
        if self.better == "near baseline":
            return abs(value - (baseline or 0.0))
        return value

    def of(self, figure: Figure) -> float:
        """The loss of a setting."""
        if self.better == "near baseline" and figure.distance is not None:
            return figure.distance
        return self.loss(figure.mean, figure.baseline)

    @property
    def enough(self) -> float:
        """The loss that another sample of the same population may have: of less than it nobody is better off."""
        return 1.0 if self.name in BESIDE_CHANCE else -math.inf

    @property
    def label(self) -> str:
        """What the axis shows, in words."""
        if self.better == "higher":
            return f"1 - {self.title}" if self.unit == "share" else f"- {self.title}"
        return f"{self.title}, distance from its baseline" if self.better == "near baseline" else self.title


@dataclass(frozen=True)
class Row:
    """What became of one setting."""

    setting: Setting  # Which
    # draws, passed: trials that ended with a verdict, and those in which all gates passed
    draws: int
    passed: int
    figures: Mapping[str, Figure]  # By name of the measure; those without a value in some trial are left out
    failed: Mapping[str, str]  # Gates that failed in some trial, each with what was first measured
    problem: str | None  # Why there is nothing to measure; None where there is
    # Whether that is an error, and not what the setting asks of the input: it is tried again the next time
    unforeseen: bool
    seconds: float  # Mean time of a trial

    @property
    def passes(self) -> bool:
        """Whether all gates passed in every trial."""
        return self.problem is None and self.draws > 0 and self.passed == self.draws


@dataclass(frozen=True)
class Study:
    """All settings side by side."""

    rows: tuple[Row, ...]  # One a setting, in the order of the grid
    # utility, risk: the axes of the map
    utility: Axis
    risk: Axis
    draws: int  # Trials of each setting
    titles: Mapping[str, str]  # By name of a measure, what it is, in words

    def place(self, row: Row) -> tuple[float, float] | None:
        """Utility loss and risk of a setting; None where one of them is not defined."""
        if row.problem is not None or not {self.utility.name, self.risk.name} <= set(row.figures):
            return None
        utility, risk = (axis.of(row.figures[axis.name]) for axis in self.axes)
        return (utility, risk)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the map should know."""
        found = []
        missing = [row for row in self.rows if row.problem is None and self.place(row) is None]
        if missing:
            methods = ", ".join(dict.fromkeys(row.setting.method for row in missing))
            found.append(
                f"not on the map, as {self.utility.name} or {self.risk.name} is not defined for them: {methods}"
            )
        if not self.risk.limits:
            found.append(
                f"the job sets no limit on {self.risk.name}, so that the choice rests on utility and the other gates: "
                f"it tends to the least protection; {_limit_to_set(self.risk.name)}"
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
    def front(self) -> tuple[Row, ...]:
        """Settings than which no other is better on one axis and as good on the other; the least loss first.

        Of those that pass all gates; of all where none passes.
        """
        eligible = [row for row in self.rows if row.passes or not self.of_passing]
        placed = [(place, row) for row in eligible if (place := self.place(row)) is not None]
        chosen = [pareto([place for place, _ in placed])[at] for at in range(len(placed))]
        return tuple(row for (_, row), on in sorted(zip(placed, chosen, strict=True), key=lambda p: p[0][0]) if on)

    @property
    def choice(self) -> Row | None:
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


def _limit_to_set(risk: str) -> str:
    """How to limit a risk, or that only others have limits."""
    gate = MEASURED.get(risk, next(iter(MEASURED.values())))
    how = f"gates.{gate.name}, as in --set gates.{gate.name}={gate.example:g}"
    return f"set one by {how}" if gate.name == risk else f"limits can be set on {', '.join(MEASURED)}: {how}"


def pareto(places: Sequence[tuple[float, float]]) -> list[bool]:
    """Whether nothing is better on one axis and at least as good on the other.

    Examples
    --------
    >>> pareto([(0, 3), (1, 1), (2, 2), (1, 1), (0, 4)])
    [True, True, False, True, False]
    """
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
    of: dict[int, list[TaskResult]] = {at: [] for at in range(len(settings))}
    for at, result in results:
        of[at].append(result)
    rows = tuple(_row(setting, of[at], problems.get(at)) for at, setting in enumerate(settings))
    measured = [result for _, result in results if result["problem"] is None]
    told = {name: one for result in measured for name, one in result["measures"].items()}
    if not told:
        reasons = dict.fromkeys(row.problem for row in rows if row.problem is not None)
        listed = "".join(f"\n  {reason}" for reason in reasons)
        raise JobError(f"no setting could be measured:{listed or ' the job measures neither utility nor risk'}")
    defined = {name for row in rows for name in row.figures}
    utility, risk = (
        _axis(what, asked, usual, measured, told, defined, job)
        for what, asked, usual in zip(("utility", "risk"), axes, (USUAL_UTILITY, USUAL_RISK), strict=True)
    )
    draws = max(len(found) for found in of.values())
    return Study(rows, utility, risk, draws, {name: str(one["title"]) for name, one in sorted(told.items())})


def _row(setting: Setting, results: Sequence[TaskResult], problem: str | None) -> Row:
    reasons = [result["problem"] for result in results if result["problem"] is not None]
    measured = [result for result in results if result["problem"] is None]
    if problem is None and reasons:
        problem = reasons[0]
    failed = {name: text for result in reversed(measured) for name, text in result["failed"]}
    names = dict.fromkeys(name for result in measured for name in result["measures"])
    figures = {name: figure for name in names if (figure := _figure(name, measured)) is not None}
    return Row(
        setting=setting,
        draws=len(measured),
        passed=sum(bool(result["passed"]) for result in measured),
        figures=figures,
        failed=failed,
        problem=problem,
        unforeseen=any(not result["final"] for result in results),
        seconds=float(np.mean([result["seconds"] for result in measured])) if measured else math.nan,
    )


def _figure(name: str, results: Sequence[TaskResult]) -> Figure | None:
    """The average over draws; None where a draw has no value."""
    told = [result["measures"].get(name) for result in results]
    values = [one["value"] for one in told if one is not None and one["value"] is not None]
    if len(values) < len(results):
        return None
    error = float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan
    away = [abs(one["value"] - one["baseline"]) for one in told if one is not None and one["baseline"] is not None]
    distance = float(np.mean(away)) if len(away) == len(values) else None
    low, high, baseline = (_mean_of(told, end) for end in ("low", "high", "baseline"))
    return Figure(float(np.mean(values)), error, low, high, baseline, distance)


def _mean_of(told: Sequence[Any], key: str) -> float | None:
    values = [one[key] for one in told if one[key] is not None]
    return float(np.mean(values)) if len(values) == len(told) else None


def _axis(
    what: str,
    asked: str | None,
    usual: Sequence[str],
    measured: Sequence[TaskResult],
    told: Mapping[str, Any],
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
    one = told[name]
    axis = Axis(name, one["title"], one["unit"], one["better"], disclosive=bool(one.get("disclosive", True)))
    limits = tuple((text, axis.loss(limit, one["baseline"])) for text, limit in _limits(name, job))
    return Axis(axis.name, axis.title, axis.unit, axis.better, limits, axis.disclosive)


def _limits(name: str, job: Job) -> list[tuple[str, float]]:
    """What the job allows of a measure: its gates on risk, and the limits of its analyses."""
    limit = job.limits.get(name)
    found = [] if limit is None else [(f"gates.{name}", limit)]
    prefix, _, share = name.rpartition(".")
    asked = [one for one in job.analyses if prefix in ("analyses", f"analysis.{one.name}")]
    given = {one.declared[share] for one in asked if share in one.declared}
    whose = "limit of each analysis" if prefix == "analyses" else "limit of this analysis"
    return found + [(whose, limit) for limit in sorted(given)]
