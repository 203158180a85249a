"""What a job measures of its release, and its gates: risks, utility, scenarios of an intruder, recipients' analyses."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, create_model, field_validator, model_validator

from anonpipe.errors import JobError
from anonpipe.methods.options import Options
from anonpipe.verify.catalogue import GATES, MEASURED, Gate

DEFAULT: Literal["default"] = "default"  # What a job says of a limit, or of the hold-out, that it leaves to anonpipe


class _Gates(Options):
    """Limits that the release must meet, measured on the written rows; each is a record of `verify.catalogue`.

    Those on means and covariances are what decoding (steps, bounds, nulls) may add to the method's own error;
    covariances of categories that are released as probabilities are reported without a limit.

    Those on risk need `measure.risk`. `default` is the limit of a risk of which a job says nothing, and is held where
    the risk can be measured (`Job.limits`); null is no limit: it is measured then, and judged by nobody. The upper end
    of a 95 % interval is held against the limit; a default one allows for the wide interval of few records.
    """

    @model_validator(mode="before")
    @classmethod
    def _numbers(cls, content: Any) -> Any:
        """A limit is a number that something can be beyond: YAML reads yes and on as true, which would count as 1."""
        for name, limit in content.items() if isinstance(content, dict) else ():
            if isinstance(limit, bool):
                raise ValueError(
                    f"{name} is {str(limit).lower()}, as which YAML reads yes, no, on and off; give a number"
                )
            if isinstance(limit, float) and not math.isfinite(limit):
                raise ValueError(f"{name} is {limit:g}; give a number that is reached")
        return content

    @property
    def of_every_run(self) -> dict[str, float]:
        """The limits on what every run measures."""
        return {name: getattr(self, name) for name in GATES if name not in MEASURED}

    @property
    def given(self) -> dict[str, float]:
        """The limits of measures that the job gives a number."""
        every = {name: getattr(self, name) for name in MEASURED}
        return {name: limit for name, limit in every.items() if limit is not None and limit != DEFAULT}

    @property
    def at_default(self) -> tuple[str, ...]:
        """Measures whose limit is the default one."""
        return tuple(name for name in MEASURED if getattr(self, name) == DEFAULT)


def _field(gate: Gate) -> Any:
    """A gate as a field of the job."""
    bounds = {"ge": gate.least, "gt": gate.above, "le": gate.most}
    given: Any = {name: bound for name, bound in bounds.items() if bound is not None}
    if not gate.figures:
        return type(gate.default), Field(default=gate.default, description=gate.meaning, **given)
    number: Any = Annotated[float, Field(**given)]
    if gate.default is None:
        return number | None, Field(default=None, description=gate.meaning)
    return number | Literal["default"] | None, Field(default=DEFAULT, description=gate.meaning)


if TYPE_CHECKING:
    Gates = _Gates
else:
    Gates = create_model(
        "Gates",
        __base__=_Gates,
        __module__=__name__,
        __doc__=_Gates.__doc__,
        **{n: _field(g) for n, g in GATES.items()},
    )

if TYPE_CHECKING:
    from anonpipe.evaluate.utility import Analysis

# --- What is measured -------------------------------------------------------------------------------------------------

# Default shares of held-out records, of tables with so many rows or more, the largest first. Of 2,000 a
# tenth tells an area under the curve of 0.6 from one of 0.5 by five standard errors (0.02), a twentieth by three.
HELD_OUT = {20_000: 0.05, 2_000: 0.1}


def usual_hold_out(rows: int) -> float:
    """The share of held-out records where the job does not say; of few 0."""
    return next((share for least, share in HELD_OUT.items() if rows >= least), 0.0)


_PERCENT = r"^[0-9]+([.][0-9]+)? ?%$"
_Percent = Annotated[str, Field(pattern=_PERCENT)]


class Scenario(Options):
    """What an intruder knows of a person: some released columns, and no others.

    Of a number `tolerance` says how far what he knows may be off: `{age: 2, income: 10%}`.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,40}$", description="What reports call the scenario.")
    knows: tuple[str, ...] = Field(min_length=1, description="Released columns that the intruder knows.")
    tolerance: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)] | _Percent] = Field(default_factory=dict)

    @field_validator("tolerance", mode="before")
    @classmethod
    def _numbers_or_shares(cls, tolerance: Any) -> Any:
        """In words of the job: the model's own tell of both forms, each by itself."""
        for name, far in tolerance.items() if isinstance(tolerance, dict) else ():
            number = isinstance(far, int | float) and not isinstance(far, bool)
            if not (number and 0 < far < math.inf) and not (isinstance(far, str) and re.fullmatch(_PERCENT, far)):
                raise ValueError(
                    f"of {name!r} {far!r} was given; it takes a number above 0, in the unit of the column (of a date "
                    "days), or a part of the value, such as 10%"
                )
        return tolerance

    @property
    def tolerances(self) -> list[tuple[float, float]]:
        """Of each column known how far it may be off, and in parts of the value."""
        given = (self.tolerance.get(name, 0.0) for name in self.knows)
        return [(0.0, float(each.rstrip(" %")) / 100) if isinstance(each, str) else (each, 0.0) for each in given]

    @property
    def described(self) -> tuple[str, ...]:
        """What is known, in words."""
        limits = {
            name: f" within {limit if isinstance(limit, str) else format(limit, 'g')}"
            for name, limit in self.tolerance.items()
        }
        return tuple(name + limits.get(name, "") for name in self.knows)


class RelativeSurvival(Options):
    """Relative survival, that of the records over that of a population: a measure of utility.

    `life_table`: a CSV with columns age (whole years) and qx (probability of death within a year), and year and sex
    where it has these. `age`, `sex`, `year`: released columns that tell these of a record at the start of follow-up;
    `year` is a number or a date. `time_unit`: of the column with role survival_time.
    """

    life_table: str
    age: str
    sex: str | None = None
    year: str | None = None
    time_unit: Literal["days", "months", "years"] = "months"

    @property
    def columns(self) -> dict[str, str]:
        """The columns named, by what they tell."""
        given = {"age": self.age, "sex": self.sex, "year": self.year}
        return {what: name for what, name in given.items() if name is not None}


class Measure(Options):
    """What is measured of the release, besides the gates that every run has.

    `utility` and `risk` switch the measures on. Without `risk` a mask that keeps something of each person or value, as
    noise does, is released only where `allow` says why it need not be measured. Both tables are compared on a
    keyed sample of `rows` records; `queries` records are looked for in the
    whole release. `hold_out` is the share of held-out records
    before anything is formed or learnt, and not released: the control of the
    attacks on membership and attributes; `default` is 0.05 of 20,000 records or
    more, 0.1 of 2,000 or more, and none of fewer, nor with `repeat.growing`. Of each of the `scenarios` the columns
    that an intruder knows are key variables: who is single in them, and who is
    linked by them. `sampling_fraction` is the share of the population that is in
    the table, for the journalist's risk. `relative_survival` compares it, by a population's life table.
    """

    utility: bool = True
    risk: bool = True
    allow: str | None = Field(default=None, min_length=1, pattern=r"\S")
    rows: int = Field(default=50_000, ge=100)
    queries: int = Field(default=2_000, ge=50)
    hold_out: Annotated[float, Field(ge=0, le=0.5)] | Literal["default"] = DEFAULT
    scenarios: tuple[Scenario, ...] = Field(default=(), max_length=20)
    sampling_fraction: float | None = Field(default=None, gt=0, le=1)
    relative_survival: RelativeSurvival | None = None

    @property
    def held_out(self) -> float:
        """The held-out share; 0 while the number of records is unknown (`Job.of_rows`)."""
        return 0.0 if self.hold_out == DEFAULT else self.hold_out

    @model_validator(mode="after")
    def _held_for_something(self) -> Measure:
        if self.scenarios and not self.risk:
            raise ValueError(
                "measure.scenarios are measures of risk, and risk is off; remove them "
                "(--set 'measure.scenarios=[]') or switch it on"
            )
        if self.allow is not None and self.risk:
            raise ValueError("measure.allow says why risk need not be measured, and it is; remove one of both")
        if self.held_out and not self.risk:
            raise ValueError("measure.hold_out sets records aside for measures of risk, and risk is off; set it to 0")
        return self


class AnalysisLimits(Options):
    """What may become of the coefficients of a model; see `anonpipe.evaluate.utility.CoefficientShares`.

    Largest shares of the coefficients: `changed_significance`, `changed_direction` and `outside` the original's 95 %
    interval. `overlap` is the smallest mean overlap of confidence intervals. None is no limit.
    """

    changed_significance: float | None = Field(default=None, ge=0, le=1)
    changed_direction: float | None = Field(default=None, ge=0, le=1)
    outside: float | None = Field(default=None, ge=0, le=1)
    overlap: float | None = Field(default=None, ge=0, le=1)


class RecipientAnalysis(Options):
    """A model that the recipients mean to fit; see `anonpipe.evaluate.utility.Analysis`.

    It is fitted to both tables. With `limits`, it is a gate.
    """

    name: str = Field(min_length=1, description="What reports call the analysis.")
    model: Literal[
        "linear", "logistic", "cox", "poisson", "negative_binomial", "ordinal", "multinomial", "mixed"
    ] = Field(description="The kind of regression.")  # fmt: skip
    formula: str = Field(description="Response and terms, as in R: income ~ age + region.")
    event: str | None = Field(default=None, description="Of a Cox model: which records have the event, as a condition.")
    subset: str | None = Field(default=None, description="The records that it is fitted to: a condition on columns.")
    weights: bool | None = Field(
        default=None,
        description="Whether it takes the column with role sampling_weight. All models do where there is one, unless "
        "this is false; mixed ones never do.",
    )
    exposure: str | None = Field(
        default=None, description="Of counts: the column of what they are of, as person-years."
    )
    groups: str | None = Field(default=None, description="Of a mixed model: the column of the random intercept.")
    strata: str | None = Field(default=None, description="Of a Cox model: the column whose values have own hazards.")
    entry: str | None = Field(default=None, description="Of a Cox model: the column of times from which at risk.")
    limits: AnalysisLimits = AnalysisLimits()

    @model_validator(mode="after")
    def _holds_only_what_is_allowed(self) -> RecipientAnalysis:
        from anonpipe.evaluate.utility import check_analysis

        try:
            check_analysis(self.analysis)
        except JobError as error:
            raise ValueError(str(error)) from None
        return self

    @property
    def analysis(self) -> Analysis:
        """As the measures take it."""
        from anonpipe.evaluate.utility import Analysis

        others = {name: getattr(self, name) for name in ("exposure", "groups", "strata", "entry")}
        return Analysis(self.name, self.model, self.formula, self.event, self.subset, **others)

    @property
    def declared(self) -> dict[str, float]:
        """The limits that are given."""
        return self.limits.model_dump(exclude_none=True)
