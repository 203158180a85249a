"""One measured figure, with all that a reader needs to judge it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pydantic_core import to_jsonable_python

from anonpipe.audience import Audience
from anonpipe.errors import AnonpipeError

Better = Literal["lower", "higher", "near baseline"]


@dataclass(frozen=True)
class Curve:
    """A figure that is a line: x and y of its points, and what the axes are.

    Attributes
    ----------
    title, x_title, y_title
        Words for a picture.
    x, y
        Points of the release; of equal length.
    baseline
        y of the reference at the same x; empty for none.
    """

    title: str
    x_title: str
    y_title: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    baseline: tuple[float, ...] = ()


@dataclass(frozen=True)
class Measurement:
    """A measure of risk or utility of one release.

    Attributes
    ----------
    name
        Its key, stable between versions: `linkage.first`.
    title
        What it is, in words that a reader without the paper understands.
    value
        The figure; NaN where it is not defined, and `note` says why.
    unit
        Such as `share` (0 to 1), `sd`, `bits`; empty for a plain number.
    better
        Which direction is better for what it measures: less risk, or less
        harm to analyses.
    source
        Paper, section and equation, or the tool's documentation.
    low, high
        Ends of its 95 % interval; None where the value is exact.
    baseline, baseline_is
        The same figure without the release's fault or merit (chance, the
        original against itself, a hold-out), and what it is; None for none.
    records, of
        Records that it was measured on, and that there are. Equal: no sample.
    note
        Terms left out, assumptions, what it does not show.
    parts
        The figure by column, pair or subgroup: names and values.
    curves
        Lines that belong to it.
    audience
        Who may see it. A figure that tells of the original what a recipient
        must not know (an original moment, a small subset) is the steward's,
        and so is one of which nobody says anything.
    columns
        Of how many columns it is the figure; None where that does not matter.
    worst
        In which columns it is worst: for the steward, who sees it in the verdict.
    """

    name: str
    title: str
    value: float
    unit: str
    better: Better
    source: str
    records: int
    of: int
    low: float | None = None
    high: float | None = None
    baseline: float | None = None
    baseline_is: str = ""
    note: str = ""
    parts: tuple[tuple[str, float], ...] = ()
    curves: tuple[Curve, ...] = ()
    audience: Audience | None = None
    columns: int | None = None
    worst: tuple[str, ...] = ()

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
