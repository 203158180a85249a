"""One measured figure, with all that a reader needs to judge it: its fixed words, and its values of one release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pydantic_core import to_jsonable_python

from anonpipe.audience import Audience
from anonpipe.errors import AnonpipeError

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
    # Who may see it. A figure that discloses what a recipient must not know of the original (a moment, a small
    # subset) is the steward's, and so is one without an audience.
    audience: Audience | None = None
    columns: int | None = None  # Of how many columns it is the figure; None where that does not matter
    worst: tuple[str, ...] = ()  # In which columns it is worst: for the steward, who sees it in the verdict
    then: tuple[tuple[str, ...], ...] = ()  # The columns, or pairs, that follow it: for the steward

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
        """As JSON-able content; what is not a number becomes null."""
        content: dict[str, Any] = to_jsonable_python(self, inf_nan_mode="null")
        return content


@dataclass(frozen=True)
class Figure:
    """The fixed words of a figure: declared once with its measure, the same for every release."""

    # key, title, unit, source, audience, better: as `Measurement` has them
    key: str
    title: str
    unit: str
    source: str
    audience: Audience
    better: Better = "lower"
    baseline_is: str = ""  # What the baseline is, where there is one
    note: str = ""  # What holds wherever it is defined
    undefined: str = ""  # Why it is not, where it is not

    def measured(
        self,
        value: float,
        records: int,
        of: int | None = None,
        *,
        interval: tuple[float, float] | tuple[None, None] = (None, None),
        baseline: float | None = None,
        note: str | None = None,
        **others: Any,
    ) -> Measurement:
        """The figure of a release: `of` is `records`, `note` the figure's own by default; others as `Measurement`."""
        words = {name: getattr(self, name) for name in ("title", "unit", "better", "source")}
        return Measurement(
            name=self.key,
            value=value,
            records=records,
            of=records if of is None else of,
            low=interval[0],
            high=interval[1],
            baseline=baseline,
            baseline_is="" if baseline is None else self.baseline_is,
            note=self.note if note is None else note,
            audience=self.audience,
            **words,
            **others,
        )
