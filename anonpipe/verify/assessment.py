"""What was measured of a release beside its gates, as records that a file can hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from anonpipe.audience import Audience
from anonpipe.errors import JobError
from anonpipe.evaluate.measurement import Curve, Measurement
from anonpipe.evaluate.reason import Reason
from anonpipe.evaluate.utility import Analysis, CoefficientChange, Estimate, ModelComparison, ModelFit
from anonpipe.verify.catalogue import About
from anonpipe.verify.check import Check, unmeasured


@dataclass(frozen=True)
class NotChecked:
    """Something that nobody measured, and why."""

    key: str  # What, one of `catalogue.UNMEASURED`
    reason: Reason  # Why
    about: About = field(default_factory=dict)  # What the words of both name

    @property
    def check(self) -> Check:
        """As a check that was not made."""
        return unmeasured(self.key, self.reason, about=self.about)


@dataclass(frozen=True)
class AnalysisOutcome:
    """What became of a recipient's model."""

    comparison: ModelComparison  # The fits to both tables. It tells the original's estimates, and is for the steward.
    limits: Mapping[str, float]  # What the job declares, by name of the share; empty for nothing
    # records, of: records that the model was given, and that are released
    records: int
    of: int


@dataclass(frozen=True)
class Assessment:
    """All that was measured of one release for risk and utility, in the order of a report."""

    utility: tuple[Measurement, ...] = ()
    risk: tuple[Measurement, ...] = ()
    analyses: tuple[AnalysisOutcome, ...] = ()
    not_checked: tuple[NotChecked, ...] = ()

    @property
    def measured(self) -> tuple[Measurement, ...]:
        """All measures."""
        return (*self.utility, *self.risk)

    def measurement(self, name: str) -> Measurement:
        """The measure of this name."""
        known = {each.name: each for each in self.measured}
        if name not in known:
            raise JobError(f"no measure is called {name!r}; measured were: {', '.join(sorted(known)) or 'none'}")
        return known[name]

    def __add__(self, other: object) -> Assessment:
        """Both together, this one's first.

        Examples
        --------
        >>> one = Assessment(not_checked=(NotChecked("unmeasured.membership", Reason.NO_HOLD_OUT),))
        >>> len((one + Assessment() + one).not_checked)
        2
        """
        if not isinstance(other, Assessment):
            return NotImplemented
        parts = ((getattr(one, each.name) for one in (self, other)) for each in fields(Assessment))
        return Assessment(*(first + second for first, second in parts))


# What a staged assessment is made of
RECORDS = (
    Assessment,
    Measurement,
    Curve,
    AnalysisOutcome,
    ModelComparison,
    Analysis,
    CoefficientChange,
    ModelFit,
    Estimate,
    NotChecked,
    Audience,
    Reason,
)
