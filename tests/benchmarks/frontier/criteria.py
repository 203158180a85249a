"""What the default must satisfy on every table, and how close it comes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Figures = Mapping[str, float]
"""Means over draws, by the name of the measure."""


@dataclass(frozen=True)
class Criterion:
    """A limit on a figure.

    Attributes
    ----------
    measure
        Whose figure is shown.
    value
        The figure, from those of the setting and those of two halves of the original.
    limit
        From those of two halves.
    at_least
        Whether the limit is the least that passes.
    """

    title: str
    measure: str
    value: Callable[[Figures, Figures], float]
    limit: Callable[[Figures], float]
    at_least: bool = False

    def judge(self, figures: Figures, halves: Figures) -> Judged:
        value, limit = self.value(figures, halves), self.limit(halves)
        margin = value - limit if self.at_least else limit - value
        return Judged(self.title, self.measure, value, limit, margin, bool(margin >= 0))


@dataclass(frozen=True)
class Judged:
    """A criterion on a table; `margin` is negative where it is not met, NaN where nothing was measured."""

    title: str
    measure: str
    value: float
    limit: float
    margin: float
    passed: bool

    @property
    def outcome(self) -> str:
        return "not measured" if math.isnan(self.margin) else "passed" if self.passed else "failed"


def _of(name: str) -> Callable[[Figures, Figures], float]:
    return lambda figures, _: figures.get(name, math.nan)


def _halves(name: str) -> Callable[[Figures], float]:
    return lambda halves: halves.get(name, math.nan)


CRITERIA = (
    Criterion("column shapes", "shapes", _of("shapes"), lambda _: 0.995, at_least=True),
    Criterion(
        "told apart (AUC), distance from two halves",
        "told_apart",
        lambda figures, halves: abs(figures.get("told_apart", math.nan) - halves.get("told_apart", math.nan)),
        lambda _: 0.05,
    ),
    Criterion("survival error, overall", "survival", _of("survival"), _halves("survival")),
    Criterion("survival error, worst category", "survival_by", _of("survival_by"), _halves("survival_by")),
    Criterion("re-identification", "linked", _of("linked"), lambda _: 0.01),
    Criterion("membership (AUC)", "membership", _of("membership"), lambda _: 0.52),
    Criterion("singling out, one column: low end beyond control", "singling", _of("singling_surely"), lambda _: 0.0),
    Criterion(
        "singling out, four columns: low end beyond control",
        "singling_many",
        _of("singling_many_surely"),
        lambda _: 0.0,
    ),
    Criterion("exact copies", "copies", _of("copies"), _halves("copies")),
    Criterion("membership of whole units (AUC)", "membership_units", _of("membership_units"), lambda _: 0.52),
    Criterion("rows that break a rule", "broken", _of("broken"), lambda _: 0.0),
)

OF_SOME_TABLES = ("survival", "survival_by", "membership_units", "broken")


def judged(figures: Figures, halves: Figures) -> list[Judged]:
    """All criteria that apply to a table: of survival, units and rules only what two halves of it have, too.

    Examples
    --------
    >>> one = judged({"shapes": 0.99}, {"told_apart": 0.5})[0]
    >>> one.outcome, round(one.margin, 3)
    ('failed', -0.005)
    """
    found = [criterion.judge(figures, halves) for criterion in CRITERIA]
    left_out = {name for name in OF_SOME_TABLES if math.isnan(halves.get(name, math.nan))}
    return [one for one in found if one.measure not in left_out]
