"""One measured figure, with all that a reader needs to judge it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from pydantic_core import to_jsonable_python

from anonpipe.audience import Audience
from anonpipe.errors import AnonpipeError
from anonpipe.evaluate.utility._tables import Tables

Better = Literal["lower", "higher", "near baseline"]


@dataclass(frozen=True)
class Curve:
    """A figure that is a line: x and y of its points, and what the axes are."""

    # title, x_title, y_title: words for a picture
    title: str
    x_title: str
    y_title: str
    # x, y: points of the release; of equal length
    x: tuple[float, ...]
    y: tuple[float, ...]
    baseline: tuple[float, ...] = ()  # y of the reference at the same x; empty for none


@dataclass(frozen=True)
class Measurement:
    """A measure of risk or utility of one release."""

    name: str  # Its key, stable between versions: `reidentification_rate`
    title: str  # What it is, in words that a reader without the paper understands
    value: float  # The figure; NaN where it is not defined, and `note` says why
    unit: str  # Such as `share` (0 to 1), `sd`, `bits`; empty for a plain number
    better: Better  # Which direction is better for what it measures: less risk, or less harm to analyses
    source: str  # Paper, section and equation, or the tool's documentation
    # records, of: records that it was measured on, and that there are. Equal: no sample.
    records: int
    of: int
    # low, high: ends of its 95 % interval; None where the value is exact
    low: float | None = None
    high: float | None = None
    # baseline, baseline_is: the same figure without the release's fault or merit (chance, the original against itself,
    # a hold-out), and what it is; None for none
    baseline: float | None = None
    baseline_is: str = ""
    note: str = ""  # Terms left out, assumptions, what it does not show
    parts: tuple[tuple[str, float], ...] = ()  # The figure by column, pair or subgroup: names and values
    curves: tuple[Curve, ...] = ()  # Lines that belong to it
    # Who may see it. A figure that tells of the original what a recipient must not know (an original moment, a small
    # subset) is the steward's, and so is one of which nobody says anything.
    audience: Audience | None = None
    columns: int | None = None  # Of how many columns it is the figure; None where that does not matter
    worst: tuple[str, ...] = ()  # In which columns it is worst: for the steward, who sees it in the verdict

    def __post_init__(self) -> None:
        if (self.low is None) != (self.high is None):
            raise AnonpipeError(f"measure {self.name}: an interval has two ends; please report this")
        if (self.baseline is None) != (not self.baseline_is):
            raise AnonpipeError(f"measure {self.name}: give baseline and baseline_is together; please report this")

    @property
    def sampled(self) -> bool:
        """Whether only some of the records were measured."""
        return self.records < self.of

    def to_dict(self) -> dict[str, Any]:
        """As JSON-able content; what is not a number becomes null.

        Examples
        --------
        >>> Measurement("x", "X", float("nan"), "", "lower", "-", 1, 1).to_dict()["value"] is None
        True
        """
        content: dict[str, Any] = to_jsonable_python(self, inf_nan_mode="null")
        return content


# --- What a measure of utility tells of itself, in one record at the end of its file ----------------------------------


@dataclass(frozen=True)
class Measure:
    """One or several figures that are counted together.

    Direction, unit, source and audience stand in each `Measurement`.
    """

    # Their names, `family.figure`, in the order in which the function gives them. `compare` and gates know measures by
    # these.
    figures: tuple[str, ...]
    # `function(tables) -> list of Measurement`; `function(tables, rng)` where `draws`. It gives all figures of any
    # tables, NaN with the reason in `note` where there is nothing to measure.
    function: Callable[..., list[Measurement]]
    # Whether it samples or trains, and knows its own baseline. Others are counted on two halves of the original too,
    # which is their baseline, and on parts of the sample, from which their interval follows.
    draws: bool = False
    # Figures of which parts say nothing of the whole: in standard errors, or per cent of what may be near zero
    without_interval: tuple[str, ...] = ()

    def of(self, tables: Tables, rng: np.random.Generator | None = None) -> list[Measurement]:
        """The figures of two tables."""
        found = self.function(tables, rng) if self.draws else self.function(tables)
        if tuple(one.name for one in found) != self.figures:
            raise AnonpipeError(f"a measure gave other figures than {', '.join(self.figures)}; please report this")
        return found


# --- From a figure for each column or pair of columns to one measurement ----------------------------------------------

MOST_PARTS = 20  # Parts that a measurement lists, the largest first

LOST = math.inf  # Figure of a term that the original has, and the release has not

NO_NUMBERS = "there is no column of numbers or dates"

NO_MIX = "there are not a categorical column and one of numbers or dates"

Term = tuple[str, float]


def mean_of_terms(
    name: str,
    title: str,
    terms: Sequence[Term],
    *,
    unit: str,
    source: str,
    records: int,
    audience: Audience,
    nothing: str,
    note: str = "",
    middle: bool = False,
) -> Measurement:
    """The mean of some sizes of changes, of which less is better.

    Examples
    --------
    >>> terms = [("a", 1.0), ("b", 3.0), ("c", LOST)]
    >>> found = mean_of_terms("x", "X", terms, unit="", source="-", records=9, audience=Audience.ENOUGH, nothing="")
    >>> found.value, found.parts
    (2.0, (('b', 3.0), ('a', 1.0)))
    >>> found.note.split(". ")[0]
    'The mean of 2 parts; their median is 2'
    """
    kept = [(term, value) for term, value in terms if math.isfinite(value)]
    lost = sum(value == LOST for _, value in terms)
    left_out = len(terms) - len(kept) - lost
    values = np.array([value for _, value in kept])
    said = []
    if not terms:
        said.append(f"Not defined: {nothing}.")
    elif len(kept) > 1:
        mean, median = f"{values.mean():.3g}", f"{np.median(values):.3g}"
        told = f"median of {len(kept)} parts; their mean is {mean}"
        if not middle:
            told = f"mean of {len(kept)} parts; their median is {median}"
        said.append(f"The {told}.")
    if left_out:
        said.append(
            f"{left_out} of {len(terms)} terms left out: the original is constant, near zero, or has too few values."
        )
    if lost:
        said.append(
            f"{lost} of {len(terms)} terms {'is' if lost == 1 else 'are'} not defined in the release; "
            f"{'it is' if lost == 1 else 'they are'} not in the figure, which flatters the release."
        )
    if note:
        said.append(note)
    value = float("nan") if not kept else float(np.median(values) if middle else values.mean())
    return Measurement(
        name=name,
        title=title,
        value=value,
        unit=unit,
        better="lower",
        source=source,
        records=records,
        of=records,
        note=" ".join(said),
        parts=tuple(sorted(kept, key=lambda part: -part[1])[:MOST_PARTS]),
        audience=audience,
    )
