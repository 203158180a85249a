"""What a column is (`Kind`), what happens to it (`Role`), and its declared limits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

Scalar = bool | int | float | str
_TOP_CODED = (
    "Values of few records that stand far apart from all others were top- or bottom-coded before, unless the job "
    "keeps them: what was held against the original is without these"
)

# What became of a masked number or date by each `transform`, in words for recipients
TRANSFORMS: Mapping[str, str] = {
    "normal_scores": "masked by the normal scores of their ranks, and released with the distribution that they had "
    "(inside each stratum, survival times also by event): values that k or more records hold keep their shares, others "
    "are drawn around means of k or more neighbouring values. The mean is kept but for extremes that alone, or fewer "
    "than k that stand far apart from all others, would make up such a mean: they are top- or bottom-coded. That "
    "changes variance and ordinary correlations of long-tailed columns, whose ranks are correlated as before. Other "
    "means and covariances that were held against the original are those of the scores",
    "log": "masked by logarithms, whose means and covariances were held against the original's; of the values "
    "themselves only the mean was, and their distribution was not kept. " + _TOP_CODED,
    "none": "masked as they are: means and covariances were held against the original's, and the shape of the "
    "distribution was not kept. " + _TOP_CODED,
}


class Kind(StrEnum):
    """How a column's values behave in arithmetic."""

    CONTINUOUS = "continuous"
    INTEGER = "integer"
    ORDINAL = "ordinal"
    BINARY = "binary"
    CATEGORICAL = "categorical"
    DATE = "date"

    @property
    def coded(self) -> bool:
        """Whether values are handled as positions in a list of categories."""
        return self in (Kind.ORDINAL, Kind.BINARY, Kind.CATEGORICAL)

    @property
    def numeric(self) -> bool:
        """Whether values are numbers, and no dates."""
        return self in (Kind.CONTINUOUS, Kind.INTEGER)


class Role(StrEnum):
    """What the release does with a column."""

    IDENTIFIER = "identifier"
    UNIT = "unit"
    MASKED = "masked"
    SENSITIVE = "sensitive"
    SURVIVAL_TIME = "survival_time"
    SURVIVAL_STATUS = "survival_status"
    KEY = "key"
    SAMPLING_WEIGHT = "sampling_weight"
    REPLICATE_WEIGHT = "replicate_weight"
    DROPPED = "dropped"
    DERIVED = "derived"

    @property
    def released(self) -> bool:
        """Whether the column is in the release at all."""
        return self not in NOT_RELEASED

    @property
    def names_persons(self) -> bool:
        """Whether its values name persons, or whatever the unit is."""
        return self in (Role.IDENTIFIER, Role.UNIT)

    @property
    def synthesized(self) -> bool:
        """Whether its values are replaced by synthetic ones."""
        return self in (Role.MASKED, Role.SURVIVAL_TIME, Role.SAMPLING_WEIGHT, Role.DERIVED)

    @property
    def encoded(self) -> bool:
        """Whether synthetic values are made for it; those of a derived column follow from other columns, by a rule."""
        return self.synthesized and self is not Role.DERIVED

    @property
    def unchanged(self) -> bool:
        """Whether its true values are released, which makes it a key variable (quasi-identifier)."""
        return self.released and not self.synthesized


# Roles of columns that are not in the release, and need no kind
NOT_RELEASED = (Role.IDENTIFIER, Role.UNIT, Role.REPLICATE_WEIGHT, Role.DROPPED)


MOST_COUNTED = 100  # Between the bounds of whole numbers that weights are counted by


class Column(BaseModel):
    """One column as the job declares it."""

    # A form made from the schema (of a Prefect deployment) asks for no kind either; where it counts, this model does.
    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, json_schema_extra={"required": []}
    )

    kind: Kind
    """How its values behave; of role identifier, unit or dropped it says nothing and can be left out."""
    role: Role = Role.MASKED
    """What the release does with it. Role `unit` names what k counts: the person, household or enterprise, of which
    there may be several rows; it is not released. Role `sampling_weight` is the survey weight: how many persons of the
    population a record stands for. It is released as a number above 0, with its sum in every stratum. Role
    `replicate_weight` is not released: such weights tell the sampling unit of each original record."""
    bounds: tuple[float | str | None, float | str | None] | None = None
    """Smallest and largest permissible value, or null for no limit on that side; in the column's unit, ISO dates for
    kind `date`. Declared, never taken from the data: an observed extreme is one person's true value. No time until an
    event is below 0: a column with role `survival_time` has the lower bound 0 unless another is declared."""
    step: float | None = Field(default=None, gt=0)
    """Released values are multiples of `step` counted from zero (days for kind `date`). 1 for integers and dates unless
    given: of points in time the time of day (UTC) is then lost. 0.0416666666667 keeps hours."""
    levels: tuple[Scalar, ...] | None = None
    """The permissible categories; for kind `ordinal`, in ascending order."""
    level: Literal["unit"] | None = None
    """`unit`: the column has one value in all rows of a unit, and so it has in the release, with `release.unit:
    pseudonym`."""
    label: str | None = Field(default=None, max_length=1000)
    """What the column says, in words for recipients: stands in the manifest, the code book and exports with labels."""
    unit_of_measure: str | None = Field(default=None, max_length=100)
    """The unit of its numbers, such as mm or EUR, for the manifest and the code book; values are not changed by it."""
    event: tuple[Scalar, ...] | None = None
    """For role `survival_status`: the values that mean that the event happened; all others are censored."""
    competing: tuple[Scalar, ...] = ()
    """For role `survival_status`: the values that mean another event, after which this one cannot happen, such as
    death of another cause. Compared are then cumulative incidences (Aalen & Johansen 1978), of either event."""
    by: tuple[str, ...] = ()
    """For role `sampling_weight`: categorical columns that the weight depends on, such as region and size, or whole
    numbers with bounds at most 100 apart. A released weight is then one of those of its released categories: theirs
    where they have only one, else at random one of the means of k or more. Without, the weight is masked as other
    numbers are."""
    calibrate: tuple[str, ...] = ()
    """For role `sampling_weight`: such columns for each of whose categories the released weights add up to the
    sum in the original (iterative proportional fitting, Deming & Stephan 1940), of k or more records each."""
    spike: float | None = Field(default=None, allow_inf_nan=False)
    """Of a masked number without nulls: a value that many records have, as costs have 0. Whether a record has it is
    masked apart from the other values, as nulls are (a semicontinuous variable, in two parts), so that its share by
    category is kept. Without, it is one of the values in their order. Nothing of this holds for `cluster`, for masks on
    the values' own scale, for units that are released whole, and for columns that a rule computes."""
    missing: Literal["carry", "error"] = "carry"
    """`carry`: nulls are information, masked and released as nulls again; `error`: a null is refused."""
    weight: float = Field(default=1.0, ge=0)
    """Multiplies the column's squared differences in grouping distances; a survey weight is a role instead."""
    transform: Literal["normal_scores", "log", "none"] | None = None
    """`normal_scores`: the column is masked by the normal scores of its ranks inside each stratum (a survival time also
    by event), and released with the distribution that it had there: values of k or more records keep their shares,
    others are means of k or more. What methods keep of means and covariances holds for the scores. Local synthesis has
    log cumulative hazards as scores of times of events, if the status is in `strata.by`. `log`: it is
    masked by its natural logarithm, for positive values with a long tail to the right (Lasko & Vinterbo 2010, section
    IV.A). The lower bound must be declared, above 0, or 0 with a step, which is then added to every value before.
    What methods keep of means and covariances holds for the logarithms. `none`: the values as they are. A job that
    says nothing has `normal_scores`, and `none` where its methods need the column's own scale (`mask: generalize`,
    whose intervals are of the unit; distances in parts of the range)."""
    extremes: Literal["top_bottom_code", "keep"] = "top_bottom_code"
    """Of a column with transform `none` or `log`. `top_bottom_code`: values of fewer than k records that stand apart
    from all others, and that the mean of any k records would disclose, are replaced by the next value before anything
    else is done, in each stratum. `keep`: nothing is replaced."""

    @model_validator(mode="before")
    @classmethod
    def _kind_where_it_counts(cls, content: Any) -> Any:
        if isinstance(content, dict) and content.get("role") in NOT_RELEASED:
            return {"kind": Kind.CATEGORICAL} | content
        return content

    @field_validator("bounds", "step", "weight", "spike", mode="before")
    @classmethod
    def _no_truth_values(cls, given: Any, info: ValidationInfo) -> Any:
        if any(isinstance(value, bool) for value in (given if isinstance(given, list | tuple) else [given])):
            raise ValueError(f"{info.field_name} takes numbers; yes, no, true and false are none in YAML")
        return given

    @model_validator(mode="after")
    def _consistent(self) -> Column:
        if self.kind.coded and (self.bounds is not None or self.step is not None):
            raise ValueError(f"bounds and step belong to numbers and dates, not to kind {self.kind.value}; use levels")
        if not self.kind.coded and self.levels is not None:
            raise ValueError(f"levels belong to ordinal, binary and categorical columns, not to {self.kind.value}")
        if self.levels is not None and not self.levels:
            raise ValueError("levels is empty: list the permissible categories; of kind ordinal, the lowest first")
        if self.levels is not None and len(set(self.levels)) != len(self.levels):
            raise ValueError("levels holds a category twice")
        if self.kind is Kind.BINARY and self.levels is not None and len(self.levels) != 2:
            raise ValueError(f"a binary column has two levels, not {len(self.levels)}")
        self._check_role()
        if self.spike is not None and (self.role not in (Role.MASKED, Role.DERIVED) or not self.kind.numeric):
            raise ValueError("spike is for masked columns of kind continuous or integer; remove it")
        low, high = self.numeric_bounds
        given = [each for each in (low, self.spike, high) if each is not None]
        if self.bounds is not None and low is not None and high is not None and low >= high:
            raise ValueError("bounds are given as [low, high] with low < high")
        if self.kind is Kind.INTEGER and not all(map(float.is_integer, given)):
            raise ValueError("bounds and spike of kind integer are whole; correct them, or write kind: continuous")
        if given != sorted(given):
            raise ValueError("the spike lies outside the bounds; correct either")
        self._check_transform()
        return self

    def _check_role(self) -> None:
        if (self.event is not None) != (self.role is Role.SURVIVAL_STATUS):
            raise ValueError("event goes with role survival_status: list there the values that mean the event happened")
        if self.event is not None and not self.event:
            raise ValueError("event is empty: list the values that mean the event happened")
        if self.competing and self.event is None:
            raise ValueError("competing goes with role survival_status: list there the values of competing events")
        if shared := set(self.competing) & set(self.event or ()):
            raise ValueError(f"event and competing share {len(shared)} value{'s'[: len(shared) > 1]}; list each in one")
        if (self.by or self.calibrate) and self.role is not Role.SAMPLING_WEIGHT:
            raise ValueError("by and calibrate go with role sampling_weight; give the weight this role")
        of_numbers = self.role in (Role.SURVIVAL_TIME, Role.SAMPLING_WEIGHT)
        if of_numbers and not self.kind.numeric:
            raise ValueError(f"a {self.role.value} column is continuous or integer")

    def _check_transform(self) -> None:
        if self.extremes == "keep" and (self.transform not in ("none", "log") or not self.can_be_scored):
            raise ValueError("extremes: keep is for masked numbers and dates with transform none or log; remove it")
        if self.scored and not self.can_be_scored:
            raise ValueError("transform normal_scores is for numbers and dates that are masked; remove it")
        if self.transform != "log":
            return
        if not self.encoded or not self.kind.numeric:
            raise ValueError("transform log is for continuous and integer columns that are masked; remove it")
        low = self.numeric_bounds[0]
        if low is None or low < 0 or (low == 0 and self.resolution is None):
            raise ValueError(
                "transform log needs a lower bound in bounds: above 0, or 0 together with a step, which is added to "
                "every value so that 0 has a logarithm"
            )

    @property
    def encoded(self) -> bool:
        """Whether synthetic values are made for it: not for a weight that is drawn by categories."""
        return self.role.encoded and not self.by

    @property
    def can_be_scored(self) -> bool:
        """Whether the column can be masked by normal scores: numbers and dates that are masked."""
        return self.encoded and not self.kind.coded

    @property
    def scored(self) -> bool:
        """Whether the column is masked by the normal scores of its ranks."""
        return self.transform == "normal_scores"

    @property
    def codes_extremes(self) -> bool:
        """Whether dominant extremes are top- or bottom-coded before masking; normal scores code them later."""
        return self.can_be_scored and not self.scored and self.extremes == "top_bottom_code"

    @property
    def offset(self) -> float | None:
        """What is added to a value before its logarithm is taken; None where none is."""
        if self.transform != "log":
            return None
        return 0.0 if self.numeric_bounds[0] else float(self.resolution or 0.0)

    @property
    def numeric_bounds(self) -> tuple[float | None, float | None]:
        """The bounds as numbers (days since 1970-01-01 for dates); of survival times and weights 0 is the lower one."""
        low, high = (None, None) if self.bounds is None else (self._bound(value) for value in self.bounds)
        never_negative = self.role in (Role.SURVIVAL_TIME, Role.SAMPLING_WEIGHT)
        return (0.0 if low is None and never_negative else low), high

    def _bound(self, value: float | str | None) -> float | None:
        if value is None:
            return None
        if self.kind is Kind.DATE:
            try:
                return float((date.fromisoformat(str(value)) - date(1970, 1, 1)).days)
            except ValueError:
                raise ValueError("bounds of a date column are ISO dates such as 1990-01-31") from None
        if isinstance(value, str):
            raise ValueError(f"bounds of a {self.kind.value} column are numbers")
        return float(value)

    @property
    def without_spike(self) -> Column:
        """The column of the values other than its spike, which is null where they are missing."""
        low, high = self.numeric_bounds
        if low is not None and low == self.spike and (high is None or low + (self.resolution or 0.0) < high):
            low += self.resolution or 0.0
        kept = self.model_dump(include={"kind", "step", "weight", "extremes", "transform"})
        return Column(**kept, bounds=None if self.bounds is None else (low, high))

    @property
    def resolution(self) -> float | None:
        """The step that released values obey: the declared one, or 1 for integers and dates."""
        if self.step is not None:
            return self.step
        return 1.0 if self.kind in (Kind.INTEGER, Kind.DATE) else None

    @property
    def countable(self) -> bool:
        """Whether weights are counted by its values: codes, or few whole numbers as their bounds say."""
        low, high = self.numeric_bounds if self.kind is Kind.INTEGER else (None, None)
        few = low is not None and high is not None and high - low <= MOST_COUNTED
        return self.staged_as_codes or few

    @property
    def staged_as_codes(self) -> bool:
        """Whether values are carried as category codes: coded kinds, and all that is released unchanged."""
        return self.kind.coded or self.role.unchanged


# --- Rules between columns


@dataclass(frozen=True)
class Comparison:
    """A condition on one column of a row."""

    column: str
    operator: str  # `==`, `!=`, `<`, `<=`, `>`, `>=`, `in`, `not in`, `null` or `not null`
    values: tuple[Scalar, ...] = ()  # What it is compared with; days since 1970-01-01 for dates
    other: str = ""  # The column that it is compared with in place of values


@dataclass(frozen=True)
class RuleFactor:
    """A sum of a constant and multiples of columns, which a product takes once: times it, or divided by it."""

    terms: tuple[tuple[str, float], ...]
    constant: float
    divides: bool = False


@dataclass(frozen=True)
class Rule:
    """One rule of a job.

    `linear`: the target is a constant plus multiples of other columns, at `ends` where that lies beyond.
    `product`: the target is a constant times and divided by `factors`; of `terms` the number is the column's power.
    `order`: the target lies `gap` after (sign 1) or before (sign -1) the first of `terms` that is there.
    `spike`: the target is `gap`, or the constant where that is missing, as `Column.spike` says.
    `share`: the target lies between 0 and the only term, and is `gap` times it; `ratio`: without an upper end.
    `limit`: the target is at most the sum of a `linear` rule, and lies `gap` of the way there from its lower bound.
    `lookup`: the target is a function of the only term. `pairs`: only pairs of both that occur are released.
    `condition`: where all of `when` hold, all of `then` hold.
    """

    text: str
    kind: Literal["linear", "product", "order", "spike", "share", "ratio", "limit", "lookup", "pairs", "condition"]
    target: str = ""
    terms: tuple[tuple[str, float], ...] = ()
    constant: float = 0.0
    dates: float = 0.0  # How often a date is in the constant, as days since 1970-01-01
    factors: tuple[RuleFactor, ...] = ()
    gap: str = ""  # The column of differences, shares or ratios
    ends: tuple[float, float] = (-math.inf, math.nan)  # Bounds of a target with a limit, or of a sum; NaN for none
    slack: float = 0.0  # How far above a limit rounded operands may bring the target
    step: float = 0.0  # On which differences lie; 0 for whole numbers and for any
    sign: int = 1
    when: tuple[Comparison, ...] = ()
    then: tuple[Comparison, ...] = ()

    @property
    def derives(self) -> bool:
        """Whether its target is computed from other columns."""
        return self.kind not in ("pairs", "condition")

    @property
    def quotient(self) -> tuple[str, str] | None:
        """Numerator and divisor, if it computes a multiple of the ratio of two columns."""
        powers = {power: name for name, power in self.terms}
        is_ratio = self.kind == "product" and len(self.factors) == len(self.terms) == 2 and powers.keys() == {1.0, -1.0}
        return (powers[1.0], powers[-1.0]) if is_ratio else None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the table that it names."""
        tested = [name for test in (*self.when, *self.then) for name in (test.column, test.other)]
        return tuple(dict.fromkeys(filter(None, [self.target, *(name for name, _ in self.terms), *tested])))
