"""One measured figure, with all that a reader needs to judge it: its fixed words, and its values of one release."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from pydantic_core import to_jsonable_python
from scipy.special import betainccinv, betaincinv, gammaincinv, ndtri  # statsmodels and `scipy.stats` take seconds

from anonpipe.errors import AnonpipeError
from anonpipe.types import FloatArray

Better = Literal["lower", "higher", "near baseline"]

_NORMAL = -float(ndtri(0.025))


class Audience(StrEnum):
    """For whom a figure is, and on which condition (see `anonpipe.verify.output_control`).

    Each check and each measure says it of itself; what says nothing is for the steward. `OPEN` tells nothing of persons
    or of the original. `ENOUGH` is for recipients where it rests on enough records, `SEVERAL` where it is of several
    columns besides: the difference of one mean and the released mean are the original's. `STEWARD` never leaves the
    steward.
    """

    OPEN = "open"
    ENOUGH = "enough records"
    SEVERAL = "enough records and several columns"
    STEWARD = "steward"


@dataclass(frozen=True)
class Curve:
    """A figure that is a line: x and y of its points, and what the axes are."""

    # title, x_title, y_title: words for a picture
    title: str
    x_title: str
    y_title: str
    x: tuple[float, ...]  # Points of the release
    y: tuple[float, ...]  # Of equal length
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
    records: int  # Records that it was measured on
    of: int  # Records that there are; equal to `records`: no sample
    low: float | None = None  # Ends of its 95 % interval; None where the value is exact
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
    reason: Reason | None = None  # Why there is no figure, where its check tells that too

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
        return Measurement(
            name=self.key,
            title=self.title,
            value=value,
            unit=self.unit,
            better=self.better,
            source=self.source,
            records=records,
            of=records if of is None else of,
            low=interval[0],
            high=interval[1],
            baseline=baseline,
            baseline_is="" if baseline is None else self.baseline_is,
            note=self.note if note is None else note,
            audience=self.audience,
            **others,
        )


# A share that an attack gets right: for recipients, where nothing else is given
share_figure = partial(Figure, unit="share", audience=Audience.ENOUGH)


# --- Why something was not measured -----------------------------------------------------------------------------------


class Reason(StrEnum):
    """Why something was not measured, in words; what these name is in `Check.about`."""

    UTILITY_OFF = "measure.utility is off"
    RISK_OFF = "measure.risk is off"
    NO_ANALYSES = "the job lists none"
    PROBABILITIES = "released as probabilities (decode.categories)"
    ONLY_PROBABILITIES = "every masked column is released as probabilities"
    NO_HOLD_OUT = "no hold-out (measure.hold_out: default from 2,000 records on, of fewer 0.1, say)"
    ALL_IN_CLASSES = "no hold-out: disclosure.key counts all rows in classes of k, and none is left out"
    FEW_HELD = "the hold-out has fewer than {fewest} records that could be in the release; raise measure.hold_out"
    NO_LINK = (
        "no released record stands for one person or one group, so that no link is right or wrong; "
        "measured instead: closest records, prediction measures and, with measure.hold_out, membership and attribute "
        "inference"
    )
    NO_PAIRS = "a released row replaces no one record, so that there are no pairs to learn from"
    NO_GROUPS = "the mask forms no groups"
    NO_GROUP_SAMPLED = "no whole group is in the sample, as there are few; raise measure.queries"
    ONE_GROUP_SAMPLED = "fewer than two whole groups are in the sample, as there are few; raise measure.queries"
    AVERAGED = "several groupings are averaged, so that no record is in one group"
    AVERAGED_UNDEFINED = "several groupings are averaged, which the definition does not cover"
    ONE_COLUMN = "one feature column leaves nothing to recover from another"
    NO_TAILS = "no masked number or date has values that few records are beyond"
    NO_CELL = "no block of records was drawn to be assigned; with smaller partitions there are more"
    SPANNING = "groups lie in several partitions, and records are assigned inside of one"
    NO_CLASS = "no column with role sensitive can mix in a group"
    NO_STRATA = "the job has no strata"
    ALL_GUESSED = (
        "nearly all persons have one stratum, which is guessed correctly without the release, so that "
        "it discloses nothing more; take the column out of strata.by with role masked, look for more persons "
        "(measure.queries, and of a hold-out measure.hold_out), or set no gates.stratum_inference"
    )
    NO_SCENARIO = "the job names none (measure.scenarios)"
    UNITS = "it looks for rows, and units have several: a link to one row of a unit discloses the unit"
    UNITS_WITHOUT_CONTROL = (
        "other rows of a unit would be its control; give measure.hold_out, which holds out whole units"
    )
    ONLY_A_RUN = "it cannot be measured on two tables; only a run of anonpipe measures it"
    NO_PAIRING = "it is not known which released row was made from which original one (--paired: row by row)"
    NO_CONTROL = "no records were given that the release was not made from (--hold-out FILE)"
    FEW_DEGREES = "all rest on fewer than 2 degrees of freedom of the survey's design; give more design.random_groups"
    REFUSED = "{said}"
    WITHHELD = "these records do not allow it"


# --- 95 % intervals of shares: independent trials, trials in groups, and what a control leaves ------------------------


Ends = tuple[float, float] | tuple[None, None]  # Of an interval; None where there is none


class Share(NamedTuple):
    """A share, and the ends of its interval."""

    value: float
    low: float
    high: float

    def at_most(self, most: float) -> Self:
        """The same where no share can be larger."""
        return type(self)(*(min(each, most) for each in self))


def wilson(successes: float, trials: float) -> tuple[float, float]:
    """Wilson's 95 % interval of a share; (0, 1) for no trial. Wilson (1927), doi:10.1080/01621459.1927.10502953."""
    if trials <= 0:
        return 0.0, 1.0
    share, square = successes / trials, _NORMAL * _NORMAL
    part = 1 + square / trials
    middle = (share + square / (2 * trials)) / part
    reach = _NORMAL * math.sqrt(share * (1 - share) / trials + square / (4 * (trials * trials))) / part
    # Rounding must not leave the share outside.
    return max(0.0, min(share, middle - reach)), min(1.0, max(share, middle + reach))


def exact(successes: float, trials: float, tail: float = 0.025) -> tuple[float, float]:
    """Interval of a share that errs with a chance of no more than `tail` on either side.

    Holds for few trials and shares near 0 and 1 too, where Wilson's is too short far out in the tails.

    Clopper & Pearson (1934), doi:10.1093/biomet/26.4.404.
    """
    failures = trials - successes
    low = float(betaincinv(successes, failures + 1, tail)) if successes else 0.0
    return low, float(betainccinv(successes + 1, failures, tail)) if failures else 1.0


def exact_share(successes: int, trials: int, tail: float = 0.025) -> Share:
    """A share with its interval of `exact`."""
    return Share(successes / trials, *exact(successes, trials, tail))


def weighted_share(weights: FloatArray, largest: float, trials: int) -> Share:
    """A share whose successes count differently, each seldom.

    Successes are taken for Poisson, of each weight: with equal weights the interval is the exact one of their number.

    Fay & Feuer (1997), Statistics in Medicine 16:791-801.
    """
    total, squares = float(weights.sum()), float((weights**2).sum())
    more, their_squares = total + largest, squares + largest**2
    low = squares / (2 * total) * 2 * gammaincinv(total**2 / squares, 0.025) if total > 0 else 0.0
    high = their_squares / (2 * more) * 2 * gammaincinv(more**2 / their_squares, 0.975)
    return Share(total / trials, float(low) / trials, float(high) / trials)


def beyond_control(attack: Share, control: Share) -> tuple[float, float, float]:
    """Of what cannot be had of the control the share that is had of members: (risk, low, high).

    (attack - control) / (1 - control), 1 less the ratio of the shares of failures, whose intervals are joined on the
    logarithmic scale.

    Giomi, Boenisch, Wehmeyer & Tasnádi (2023), doi:10.56553/popets-2023-0055, section 3; Donner & Zou (2012), Stat.
    Methods Med. Res. 21:347-359 (ratios of shares).
    """
    if control.value == 1.0:
        return math.nan, math.nan, math.nan
    ratio = (1 - attack.value) / (1 - control.value)
    # How far the ratio may lie above and below, in logarithms; nothing wrong among members bounds it by the shares.
    above, below = (1 - attack.low) / (1 - control.high), 0.0
    if attack.value < 1.0:
        most, least = (
            math.log((1 - end) / (1 - attack.value)) if end < 1.0 else -math.inf for end in (attack.low, attack.high)
        )
        fewest, more = (math.log((1 - end) / (1 - control.value)) for end in (control.high, control.low))
        above, below = ratio * math.exp(math.hypot(most, fewest)), ratio * math.exp(-math.hypot(least, more))
    return 1 - ratio, 1 - above, 1 - below


def beyond(share: float, interval: Ends, baseline: float) -> tuple[float, Ends]:
    """Of what a baseline does not give the share that is had, and its interval where the share has one.

    The baseline is taken as it was measured; NaN where it gives everything.
    """
    if baseline == 1.0:
        return math.nan, (None, None)
    value, *ends = ((end - baseline) / (1.0 - baseline) for end in (share, *interval) if end is not None)
    return value, (ends[0], ends[1]) if ends else (None, None)


def difference(first: tuple[int, int], second: tuple[int, int]) -> tuple[float, float]:
    """95 % interval of the difference of two independent shares (Newcombe 1998, Stat. Med. 17:873-890, method 10)."""
    (p, (low, high)), (q, (least, most)) = ((hits / n, wilson(hits, n)) for hits, n in (first, second))
    return p - q - math.sqrt((p - low) ** 2 + (most - q) ** 2), p - q + math.sqrt((q - least) ** 2 + (high - p) ** 2)


def grouped_share(hits: npt.ArrayLike, trials: npt.ArrayLike) -> tuple[float, float, float]:
    """A share whose trials come in groups: (share, low, high).

    Trials of one group hit or miss together, so that their number says little. Wilson's interval is taken with the
    number of independent trials that would have the variance between groups (of a ratio: total hits / total trials), at
    most the number of trials, and the number of groups where all or none hit.

    Shapes: hits, trials (n_groups,).
    """
    hit, tried = np.asarray(hits, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    groups, total = len(tried), float(tried.sum())
    if not total:
        return math.nan, 0.0, 1.0
    share = float(hit.sum()) / total
    effective = float(groups)
    if groups > 1 and 0 < share < 1:
        left = hit - share * tried
        variance = groups / (groups - 1) * float(left @ left) / total**2
        effective = min(total, share * (1 - share) / variance) if variance > 0 else total
    return share, *wilson(share * effective, effective)
