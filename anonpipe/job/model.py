"""The job: one model that reads YAML, CLI overrides and Prefect parameters alike.

Unknown keys are errors everywhere. What decides the released values (columns,
k, methods) is in the job's digest; paths, gates and `run` are not.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, Literal

import yaml
from pydantic import Field, ValidationError, create_model, field_validator, model_validator

from anonpipe.columns import Column, Kind, Role
from anonpipe.errors import JobError
from anonpipe.job.overrides import overridden
from anonpipe.job.plain_yaml import load_yaml
from anonpipe.methods.grouping import METHODS as GROUPINGS
from anonpipe.methods.masking import MASKERS
from anonpipe.methods.options import MethodOptions, Options
from anonpipe.methods.record import Masker, Method, Synthesizer, in_jobs, union_of
from anonpipe.methods.synthesis import METHODS as SYNTHESIZERS
from anonpipe.verify.catalogue import GATES, MEASURED, Gate

if TYPE_CHECKING:
    from anonpipe.evaluate.utility import Analysis
    from anonpipe.methods.grouping import GroupingOptions as Cluster
    from anonpipe.methods.masking import MaskOptions as Mask

    Synthesize = MethodOptions
else:
    Cluster, Synthesize, Mask = (union_of(known) for known in (GROUPINGS, SYNTHESIZERS, MASKERS))


class StrataSettings(Options):
    """Records of different strata are never in one group.

    A `mask` has no groups: it masks each stratum as a table of its own, or
    with mask.scope `table` all strata together, whose partitions they then
    only cut. `small` applies either way.

    `by` lists columns that are released unchanged (roles survival_status,
    key, sensitive). `use_event` splits a survival status by event/censored
    instead of by its values. `small` says what becomes of a stratum of fewer
    than k records: `error`; `drop` its records; `merge` it into the largest
    stratum of the same event status, whose values its records then take. With
    a mask whose records are of no person, `merge` and `drop` look at how many
    records covariances need; `anonpipe plan` says how many.
    """

    by: tuple[str, ...] = ()
    use_event: bool = False
    small: Literal["error", "merge", "drop"] = "error"


class Partition(Options):
    """Coarse pre-clusters: the most records that one worker holds.

    `rows` is the aimed size of a partition; the number of partitions follows
    from it and the data alone, never from the workers. `sample_rows` records
    fit the splits.
    """

    rows: int = Field(default=200_000, ge=1_000)
    sample_rows: int = Field(default=50_000, ge=100)


class Sensitive(Options):
    """What columns with role sensitive ask of the groups; those in strata.by, one value per stratum, are left out.

    `combine` says how a grouping method that mixes sensitive values handles more than
    one: as one `compound`, or by one run per column whose results are averaged
    (`average`; Li & Sarkar 2013, section 8). `l_diversity` and `t_closeness`
    are held for every sensitive column by merging near groups: `diversity`
    counts `distinct` values or takes the exponential of their `entropy`;
    `closeness` is the `total_variation` between a group's and the table's
    shares, or, for values with an order, the earth mover's distance (`ordered`).
    """

    combine: Literal["compound", "average"] = "compound"
    l_diversity: float | None = Field(default=None, gt=1)
    diversity: Literal["distinct", "entropy"] = "distinct"
    t_closeness: float | None = Field(default=None, gt=0, lt=1)
    closeness: Literal["total_variation", "ordered"] = "total_variation"

    @property
    def conditions(self) -> dict[str, Any]:
        """What groups must meet, as `anonpipe.methods.grouping.constrain_classes` takes it; empty for nothing."""
        asked: dict[str, Any] = {}
        if self.l_diversity is not None:
            asked |= {"l_diversity": self.l_diversity, "diversity": self.diversity}
        if self.t_closeness is not None:
            asked |= {"t_closeness": self.t_closeness, "distance": self.closeness}
        return asked

    @model_validator(mode="after")
    def _nothing_idle(self) -> Sensitive:
        for name, needs in (("diversity", "l_diversity"), ("closeness", "t_closeness")):
            if getattr(self, name) != type(self).model_fields[name].default and getattr(self, needs) is None:
                raise ValueError(f"{name} says how {needs} is measured: give {needs} too")
        return self


class Decode(Options):
    """How features become values again.

    `categories`: `calibrated` keeps each category's count inside the group
    (inside the partition for `centroid`, whose groups stay identical, and for
    a mask, which has no groups); `most_probable` and `sampled` are those of
    Lasko & Vinterbo 2010, III. `histogram` hands the group's own categories
    out at random, each column by itself (Gal 2014, on Aggarwal & Yu): what
    two columns have in common inside a group is lost. `probabilities` releases
    no category at all (Lasko & Vinterbo, III): in place of a masked
    categorical or binary column NAME stand columns NAME_CATEGORY of
    probabilities, and NAME_null where it has nulls, which add up to 1 in every
    row and whose means are the shares of the categories. They are multiples of
    `probability_step` (0.001 unless given). Ordinal columns and the nulls of
    numbers are decoded as by `calibrated`.
    `restore_survival_times` puts the group's true times back by rank (Gal
    2014, Algorithm 2, d.ii): these are then true values of persons.
    `jitter_restored_times` is the largest uniform shift added to them, in the
    column's unit.
    """

    categories: Literal["calibrated", "most_probable", "sampled", "histogram", "probabilities"] = "calibrated"
    restore_survival_times: bool = False
    jitter_restored_times: float = Field(default=0.0, ge=0)
    probability_step: float | None = Field(default=None, ge=1e-6, le=0.5)

    @model_validator(mode="before")
    @classmethod
    def _default_step(cls, content: Any) -> Any:
        if not isinstance(content, dict) or content.get("categories") != "probabilities":
            return content
        step = content.get("probability_step")
        return content | {"probability_step": _PROBABILITY_STEP if step is None else step}

    @property
    def of_cells(self) -> Literal["calibrated", "most_probable", "sampled", "histogram"]:
        """How cells are decoded; beside probabilities, by calibration."""
        return "calibrated" if self.categories == "probabilities" else self.categories

    @model_validator(mode="after")
    def _step_fits(self) -> Decode:
        step = self.probability_step
        if step is None:
            return self
        if self.categories != "probabilities":
            raise ValueError("probability_step needs decode.categories probabilities; remove it")
        if abs(1.0 / step - round(1.0 / step)) > 1e-6 / step:
            raise ValueError(
                f"probability_step is {step:g}, which 1 is no multiple of; give one over a whole number, such as 0.01"
            )
        return self


_PROBABILITY_STEP = 0.001


DEFAULT: Literal["default"] = "default"  # What a job says of a limit, or of the hold-out, that it leaves to anonpipe

# Usual share of the records that is set aside, of so many or more. The trained classifier tells members from 1,000
# others to 0.015 (a standard error), from 500 to 0.022: too near to the default limit of 0.6 not to refuse one honest
# release in some hundreds by chance.
HELD_OUT, HELD_OUT_OF = 0.05, 20_000


class _Gates(Options):
    """Limits that the release must meet, measured on the written rows; each is a record of `verify.catalogue`.

    Those on means and covariances are what decoding (steps, bounds, nulls) may
    add to the method's own error; covariances of categories that are released
    as probabilities are reported without a limit.

    Those on risk need `measure.risk`. `default` is the limit of a risk of which a
    job says nothing, and is held where the risk can be measured (`Job.limits`);
    null is no limit: it is measured then, and judged by nobody. The upper end
    of a 95 % interval is held against the limit.
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


_PERCENT = r"^[0-9]+([.][0-9]+)? ?%$"
_Percent = Annotated[str, Field(pattern=_PERCENT)]


class Scenario(Options):
    """What an intruder knows of a person: some released columns, and no others.

    Of a number `tolerance` says how far what he knows may be off: `{age: 2, income: 10%}`.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,40}$")
    knows: tuple[str, ...] = Field(min_length=1)
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


class Measure(Options):
    """What is measured of the release, besides the gates that every run has.

    `utility` and `risk` switch the measures on. Both tables are compared on a
    keyed sample of `rows` records; `queries` records are looked for in the
    whole release. `hold_out` is a share of the records that is set aside
    before anything is formed or learnt, and not released: the control of the
    attacks on membership and attributes; `default` is 0.05 of 20,000 records or
    more, and none of fewer, nor with `repeat.growing`. Of each of the `scenarios` the columns
    that an intruder knows are key variables: who is single in them, and who is
    linked by them. `sampling_fraction` is the share of the population that is in
    the table, for the journalist's risk.
    """

    utility: bool = True
    risk: bool = True
    rows: int = Field(default=50_000, ge=100)
    queries: int = Field(default=2_000, ge=50)
    hold_out: Annotated[float, Field(ge=0, le=0.5)] | Literal["default"] = DEFAULT
    scenarios: tuple[Scenario, ...] = Field(default=(), max_length=20)
    sampling_fraction: float | None = Field(default=None, gt=0, le=1)

    @property
    def held_out(self) -> float:
        """The share that is set aside; 0 as long as nobody knows of how many records (`Job.of_rows`)."""
        return 0.0 if self.hold_out == DEFAULT else self.hold_out

    @model_validator(mode="after")
    def _held_for_something(self) -> Measure:
        if self.scenarios and not self.risk:
            raise ValueError("measure.scenarios are measures of risk, and risk is off; remove them or switch it on")
        if self.sampling_fraction is not None and not self.scenarios:
            raise ValueError(
                "measure.sampling_fraction is for the journalist's risk of measure.scenarios, and there are none; "
                "name one, or remove it"
            )
        if self.held_out and not self.risk:
            raise ValueError("measure.hold_out sets records aside for measures of risk, and risk is off; set it to 0")
        return self


class AnalysisLimits(Options):
    """What may become of the coefficients of a model; see `anonpipe.evaluate.utility.CoefficientShares`.

    The first three are the largest shares of coefficients, `overlap` is the
    smallest mean overlap of confidence intervals. None is no limit.
    """

    changed_significance: float | None = Field(default=None, ge=0, le=1)
    changed_direction: float | None = Field(default=None, ge=0, le=1)
    outside: float | None = Field(default=None, ge=0, le=1)
    overlap: float | None = Field(default=None, ge=0, le=1)


class RecipientAnalysis(Options):
    """A model that the recipients mean to fit; see `anonpipe.evaluate.utility.Analysis`.

    It is fitted to both tables. With `limits`, it is a gate.
    """

    name: str = Field(min_length=1)
    model: Literal["linear", "logistic", "cox"]
    formula: str
    event: str | None = None
    subset: str | None = None
    limits: AnalysisLimits = AnalysisLimits()

    @model_validator(mode="after")
    def _holds_only_what_is_allowed(self) -> RecipientAnalysis:
        from anonpipe.evaluate.utility import check_analysis

        try:
            check_analysis(self.analysis)
        except JobError as error:
            problem = str(error)
        else:
            return self
        raise ValueError(problem)

    @property
    def analysis(self) -> Analysis:
        """As the measures take it."""
        from anonpipe.evaluate.utility import Analysis

        return Analysis(self.name, self.model, self.formula, self.event, self.subset)

    @property
    def declared(self) -> dict[str, float]:
        """The limits that are given."""
        return self.limits.model_dump(exclude_none=True)


class Release(Options):
    """The written files: rows per file (in expectation) and rows per row group."""

    file_rows: int = Field(default=500_000, ge=1_000)
    row_group_rows: int = Field(default=131_072, ge=1_000)


class ReportSettings(Options):
    """Where internal reports go, which only the data steward may see, and the verdicts of failed runs.

    `internal` is a folder or URL outside the output. Without it they lie in
    the folder `steward` beside the releases, which only its owner can enter.
    An object store knows no such folder: whoever reads the releases there
    reads all of it. So there it is asked for.
    """

    internal: str | None = None


class RunSettings(Options):
    """Where and how it runs; nothing here changes the result.

    `scheduler` is the address of a Dask scheduler, `tls://host:port`. At any
    other, whoever reaches it can run programs on the workers and read the
    rows: it is used only with `trust_network: true`. `staging` is a folder of
    this machine (or of a disk that all workers share). An input of more rows
    than `max_rows_per_byte` times its bytes is refused: a few bytes of
    Parquet can stand for a billion equal rows. What crashed runs left in the
    staging is deleted `keep_days` after their last step, at the start of the
    next run.
    """

    workers: int | None = Field(default=None, ge=1)
    scheduler: str | None = None
    memory_per_worker: str | None = None
    trust_network: bool = False
    staging: str | None = None
    retries: int = Field(default=2, ge=0)
    keep_days: float = Field(default=7.0, gt=0)
    max_rows_per_byte: float = Field(default=16.0, gt=0)

    @field_validator("staging")
    @classmethod
    def _a_folder(cls, staging: str | None) -> str | None:
        if staging is not None and "://" in staging:
            raise ValueError(
                f"run.staging is {staging!r}, and the rows in work lie in a folder of this machine; give its path"
            )
        return None if staging is None else _checked_path(staging)

    @model_validator(mode="after")
    def _nobody_listens(self) -> RunSettings:
        address = self.scheduler
        if address is not None and not address.startswith(_ENCRYPTED) and not self.trust_network:
            raise ValueError(
                f"run.scheduler is {address!r}: without TLS whoever reaches it can run programs on the workers and "
                "read the rows; give a tls:// address (deploy/README.md sets one up), or, on a network where you trust "
                "every machine and every user, run.trust_network: true"
            )
        if self.trust_network and (address is None or address.startswith(_ENCRYPTED)):
            raise ValueError("run.trust_network is for a run.scheduler without TLS; leave it out")
        return self

    @field_validator("memory_per_worker")
    @classmethod
    def _enough_memory(cls, given: str | None) -> str | None:
        if given is None:
            return None
        found = _MEMORY.fullmatch(given)
        if found is None:
            raise ValueError("give a number and its unit, such as 2GiB or 800 MB")
        if float(found[1]) * _UNITS[found[2].lower()] < _LEAST_MEMORY:
            raise ValueError(f"a worker needs {_LEAST_MEMORY // 2**20} MiB at least: so much before it has read a row")
        return given


_ENCRYPTED = ("tls://", "wss://")


_UNITS = {f"{prefix}{i}": (1024 if i else 1000) ** (at + 1) for at, prefix in enumerate("kmgtp") for i in ("", "i")}
_MEMORY = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([kmgtp]i?)b\s*", re.IGNORECASE)
_LEAST_MEMORY = 400 * 2**20
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def _checked_path(given: str) -> str:
    """A path or URL as it was given; no file system and no terminal takes well to control characters."""
    if not given.strip() or _CONTROL.search(given):
        raise ValueError("a path or URL is not empty and holds no control characters")
    return given


class Repeat(Options):
    """A release of persons of whom an earlier release tells, too.

    Two releases that share records without being equal disclose what changed,
    and are refused, unless `allow` says why this one may come out.

    `growing` is for a register that persons join and leave, or whose records
    change. It is then released again where, against every earlier release that
    is known, at least `min_changed` units (k unless more are asked for) or none
    differ in every column, and twice as many in all, among the records of
    every stratum; where no more than `max_overlapping` releases overlap. In every
    stratum counts of categories and nulls are rounded at random to multiples
    of `min_changed`, always the same way, one to three times as many records as
    that are written nowhere, and normal scores go back to the distribution of
    a sample of 95 %. It needs the column that names the unit (role unit, or a
    single identifier), whose values stay with the persons, one row of each,
    all columns that are released unchanged in `strata.by`, and strata of ten
    times `min_changed` records.
    """

    allow: str | None = Field(default=None, min_length=1, pattern=r"\S")
    growing: bool = False
    min_changed: int | None = Field(default=None, ge=2, le=1_000)
    max_overlapping: int = Field(default=20, ge=2)


@dataclass(frozen=True)
class ByGroups:
    """The methods of a job that replaces records group by group; see `Job`."""

    cluster: Cluster
    sensitive: Sensitive
    synthesize: Synthesize


class Job(Options):
    """Everything a run needs to know, as the steward writes it.

    Records are replaced in one of two ways: group by group (`cluster`,
    `sensitive`, `synthesize`; MDAV and micro-perturbation where one of them is
    given without the other), or by a `mask`, which works on the whole table
    (or each stratum) at once, and forms no groups. With a `mask` the other
    three are null. A job that gives none of the four is masked by local
    synthesis (by `spectral_swap` where no masked column is a number or a date),
    or replaced in groups where it asks for what only these have: a column of
    role `unit`, one that is released unchanged and is not in strata.by (the
    records that a mask draws would not go with it), times that are restored,
    `histogram`.

    k counts units. The column of role `unit` names them (persons, households,
    enterprises), and a unit may have several rows: no group then holds fewer
    than k of them. A single column of role `identifier` that repeats counts as
    one, too; where several have this role, none may. `rows_per_unit: many`
    asks for none of this: k then counts rows, and the verdict and the
    reports say that it protects no persons.
    """

    input: str
    output: str
    k: int = Field(ge=2)
    rows_per_unit: Literal["one", "many"] = "one"
    columns: dict[str, Column]
    strata: StrataSettings = StrataSettings()
    partition: Partition = Partition()
    cluster: Cluster | None = None
    sensitive: Sensitive | None = None
    synthesize: Synthesize | None = None
    mask: Mask | None = None
    decode: Decode = Decode()
    gates: Gates = Gates()
    measure: Measure = Measure()
    analyses: tuple[RecipientAnalysis, ...] = ()
    release: Release = Release()
    report: ReportSettings = ReportSettings()
    repeat: Repeat = Repeat()
    run: RunSettings = RunSettings()

    @model_validator(mode="before")
    @classmethod
    def _one_way(cls, content: Any) -> Any:
        if not isinstance(content, dict):
            return content
        if content.get("mask") is None and _leaves_it(content):
            return content | {"mask": {"method": _default_mask(content)}}
        if content.get("mask") is None:
            return content | {
                name: _with_method(content.get(name), default) for name, default in _DEFAULT_METHODS.items()
            }
        if given := [name for name in _DEFAULT_METHODS if content.get(name) is not None]:
            raise ValueError(
                f"mask works on the whole table and forms no groups: {', '.join(given)} would mean nothing; "
                f"leave out either mask or {' and '.join(given)}"
            )
        return content

    @field_validator("input", "output")
    @classmethod
    def _paths(cls, given: str) -> str:
        return _checked_path(given)

    @field_validator("columns")
    @classmethod
    def _some_columns(cls, columns: dict[str, Column]) -> dict[str, Column]:
        if not any(column.role.synthesized for column in columns.values()):
            raise ValueError("no column has role masked or survival_time: there is nothing to anonymise")
        for role in (Role.SURVIVAL_TIME, Role.SURVIVAL_STATUS, Role.UNIT):
            names = [name for name, column in columns.items() if column.role is role]
            if len(names) > 1:
                raise ValueError(f"{len(names)} columns have role {role.value} ({', '.join(names)}); one is allowed")
        return columns

    @model_validator(mode="after")
    def _consistent(self) -> Job:
        for name in self.strata.by:
            if name not in self.columns:
                raise ValueError(f"strata.by names {name!r}, which is not among the columns: {', '.join(self.columns)}")
            if not self.columns[name].role.unchanged:
                raise ValueError(
                    f"strata.by names {name!r}, whose role is {self.columns[name].role.value}; "
                    "strata need a column that is released unchanged (survival_status, key or sensitive)"
                )
        if self.strata.use_event and self.event_column not in self.strata.by:
            raise ValueError("strata.use_event needs the survival_status column in strata.by")
        if self.decode.restore_survival_times and self.time_column is None:
            raise ValueError("decode.restore_survival_times needs a column with role survival_time")
        if self.decode.jitter_restored_times and not self.decode.restore_survival_times:
            raise ValueError("decode.jitter_restored_times needs decode.restore_survival_times: true")
        return self

    @model_validator(mode="after")
    def _units_fit(self) -> Job:
        if self.rows_per_unit == "many" and self._named(Role.UNIT) is not None:
            raise ValueError(
                "rows_per_unit many says that k counts rows, and role unit that it counts units; leave out either"
            )
        if self.whole_units and self.unit_column is None:
            raise ValueError(
                "cluster.units: whole keeps all rows of a unit in one group: give the column that names the unit role "
                "unit, and leave out rows_per_unit: many"
            )
        return self

    @model_validator(mode="after")
    def _growth_can_be_counted(self) -> Job:
        if not self.repeat.growing:
            return self
        if self.unit_column is None:
            raise ValueError(
                "repeat.growing counts the persons who joined, left or changed: give the column that names them role "
                "unit, or role identifier to no other column, and leave out rows_per_unit: many"
            )
        if self.decode.restore_survival_times:
            raise ValueError(
                "repeat.growing does not go with decode.restore_survival_times, which releases true times: the "
                "difference of two releases would have those of single persons"
            )
        exact = self._unchanged_outside_strata
        if exact:
            raise ValueError(
                "repeat.growing rounds what is counted in each stratum, and of columns that are released unchanged and "
                f"are in no strata.by the counts would be exact: {', '.join(exact)}; mask or drop them, or put them "
                "into strata.by"
            )
        if self.repeat.min_changed is not None and self.repeat.min_changed < self.k:
            raise ValueError(f"repeat.min_changed is {self.repeat.min_changed}, and k={self.k}; give k or more")
        return self

    def of_rows(self, rows: int) -> Job:
        """The same for a table of so many rows, on which the default hold-out depends.

        Examples
        --------
        >>> job = parse_job({"input": "a", "output": "b", "k": 5, "columns": {"age": {"kind": "integer"}}})
        >>> job.of_rows(19_999).measure.hold_out, job.of_rows(20_000).measure.hold_out
        (0.0, 0.05)
        """
        if self.measure.hold_out != DEFAULT:
            return self
        some = self.measure.risk and rows >= HELD_OUT_OF and not self.repeat.growing
        limited = [name for name in self.gates.given if "hold_out" in MEASURED[name].needs]
        if limited and not some:
            why = "with repeat.growing" if self.repeat.growing else f"of {rows:,} rows, fewer than {HELD_OUT_OF:,},"
            raise JobError(
                f"gates.{limited[0]} needs records set aside, and {why} none are unless the job says so; give "
                "measure.hold_out, such as 0.05"
            )
        return self.model_copy(
            update={"measure": self.measure.model_copy(update={"hold_out": HELD_OUT if some else 0.0})}
        )

    @property
    def default_limits(self) -> dict[str, float]:
        """Of each measure that has one the limit where a job says nothing and has what the measure needs.

        No more than 0.09 linked is the European Medicines Agency's threshold
        for published records (Policy 0070); where records are replaced in
        groups of k, which stand for 1 / k and whose k has been chosen, it is
        that if it is more. A membership AUC of 0.6 is for masks, with or
        without a hold-out: what means and covariances tell is expected of any table.
        """
        measure = self.measure
        there = {"risk": measure.risk, "scenarios": bool(measure.scenarios), "strata": bool(self.strata.by)}
        there["hold_out"] = True  # of membership something is expected without one
        known = {name: each.default for name, each in MEASURED.items() if all(there.get(need) for need in each.needs)}
        found = {name: default for name, default in known.items() if default is not None}
        if self.mask is None or MASKERS[self.mask.method].identical_rows:
            found |= {name: max(found[name], 1.0 / self.k) for name in _OF_GROUPS if name in found}
            found.pop("membership_auc", None)
        return found

    @property
    def limits(self) -> dict[str, float | None]:
        """The limit of each measure: the job's own or the default; None for no limit."""
        default = {name: limit for name, limit in self.default_limits.items() if name in self.gates.at_default}
        return dict.fromkeys(MEASURED, None) | self.gates.given | default

    @property
    def fewest_changed(self) -> int | None:
        """Units that must differ from an earlier release, to multiples of which counts are rounded; None for any."""
        return (self.repeat.min_changed or self.k) if self.repeat.growing else None

    @model_validator(mode="after")
    def _reports_stay_with_the_steward(self) -> Job:
        place = self.report.internal
        if place is None and "://" in self.output and not self.output.startswith(_LOCAL):
            raise ValueError(
                f"output {self.output!r} is an object store, where recipients would find the internal reports too: "
                "give report.internal, a folder or URL that only stewards can read"
            )
        if place is not None and (_inside(place, self.output) or _inside(self.output, place)):
            raise ValueError(
                f"report.internal {place!r} and output {self.output!r} lie inside each other; give a place that "
                "recipients of the releases cannot read"
            )
        return self

    @model_validator(mode="after")
    def _probabilities_fit(self) -> Job:
        if self.decode.categories != "probabilities":
            return self
        if not self.as_probabilities:
            raise ValueError("decode.categories probabilities needs a masked column of kind categorical or binary")
        return self

    @model_validator(mode="after")
    def _cluster_fits(self) -> Job:
        if self.cluster is None:
            return self
        weight = self.cluster.response_weight
        explicit = weight is not None and weight != type(self.cluster).model_fields["response_weight"].default
        if explicit and self.time_column is None:
            raise ValueError("cluster.response_weight needs a column with role survival_time: the response")
        if self.cluster.distance == "range":
            for name, column in self.columns.items():
                if column.scored:
                    raise ValueError(
                        f"cluster.distance is range, and column {name!r} is masked by normal scores, which have no "
                        "range; take distance z_score, or transform: none"
                    )
                if column.role.synthesized and not column.kind.coded and None in column.numeric_bounds:
                    raise ValueError(
                        f"cluster.distance is range, and column {name!r} has no bounds; declare bounds: [low, high] "
                        "from the code book, or take distance z_score"
                    )
        return self

    @model_validator(mode="after")
    def _mask_fits(self) -> Job:
        if self.mask is None:
            return self
        if self.decode.restore_survival_times:
            raise ValueError(
                "decode.restore_survival_times restores times inside groups, and a mask has none; set it to false"
            )
        if self.decode.categories == "histogram":
            raise ValueError("decode.categories histogram permutes inside groups, and a mask has none; take another")
        masker = MASKERS[self.mask.method]
        problem = masker.decodings.get(self.decode.categories) or masker.check_columns(self.mask, self.columns)
        if problem is not None:
            raise ValueError(problem)
        return self

    @model_validator(mode="after")
    def _weights_count(self) -> Job:
        for name, column in self.columns.items():
            if column.weight != 1.0 and not column.role.synthesized:
                raise ValueError(
                    f"column {name!r} has a weight and role {column.role.value}: weights are for distances between "
                    "the columns that are masked; remove it"
                )
        return self

    @model_validator(mode="after")
    def _sensitive_fits(self) -> Job:
        if self.mask is not None:
            return self
        options, asked, synthesize = self.by_groups.cluster, self.by_groups.sensitive, self.by_groups.synthesize
        by_classes = GROUPINGS[options.method].classes
        needs_some = by_classes or bool(asked.conditions)
        if needs_some and not self.sensitive_columns:
            whose = f"cluster.method {options.method}" if by_classes else "sensitive.l_diversity or t_closeness"
            raise ValueError(f"{whose} needs a column with role sensitive that is not in strata.by")
        if by_classes and options.effort is not None:
            raise ValueError(
                f"cluster.refine does not look at sensitive values and would undo what {options.method} does; "
                "set it to false"
            )
        if asked.combine == "average":
            if not by_classes or len(self.sensitive_columns) < 2:
                raise ValueError(
                    "sensitive.combine: average needs a method that mixes sensitive values, and two columns to mix"
                )
            if not SYNTHESIZERS[synthesize.method].averages(synthesize):
                raise ValueError(
                    "sensitive.combine: average needs synthesize.method centroid, or micro_perturbation with form "
                    "independent: the moments of one group mean nothing where a record is in several"
                )
            if asked.conditions:
                raise ValueError("sensitive.combine: average has no single grouping to hold l_diversity or t_closeness")
        if asked.closeness == "ordered":
            for name in self.sensitive_columns:
                if self.columns[name].kind is Kind.CATEGORICAL:
                    raise ValueError(f"sensitive.closeness is ordered, and column {name!r} is categorical: no order")
        return self

    @model_validator(mode="after")
    def _analyses_fit(self) -> Job:
        names = [each.name for each in self.analyses]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"several analyses are called {', '.join(twice)}; give each a name of its own")
        for each in self.analyses:
            try:
                self.columns_of(each)
            except JobError as error:
                problem = str(error)
            else:
                continue
            raise ValueError(problem)
        return self

    @model_validator(mode="after")
    def _scenarios_fit(self) -> Job:
        names = [each.name for each in self.measure.scenarios]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"several scenarios are called {', '.join(twice)}; give each a name of its own")
        for each in self.measure.scenarios:
            where = f"measure.scenarios, {each.name!r}"
            if unknown := [name for name in each.knows if name not in self.columns]:
                raise ValueError(f"{where}: the job has no column {unknown[0]!r}; it has {', '.join(self.columns)}")
            if gone := [name for name in each.knows if name not in self.released]:
                raise ValueError(
                    f"{where}: {gone[0]!r} is not released (role {self.columns[gone[0]].role}), so that "
                    "nobody is found by it; leave it out"
                )
            if len(set(each.knows)) < len(each.knows):
                raise ValueError(f"{where}: a column is named twice in knows; name each once")
            if unknown := [name for name in each.tolerance if name not in each.knows]:
                what = "is not in its knows" if unknown[0] in self.columns else "is no column of the job"
                raise ValueError(
                    f"{where}: tolerance names {unknown[0]!r}, which {what}; it is for numbers and dates among "
                    f"{', '.join(each.knows)}"
                )
            if odd := [name for name in each.tolerance if self.columns[name].kind.coded]:
                raise ValueError(
                    f"{where}: tolerance is for numbers and dates, and {odd[0]!r} is "
                    f"{self.columns[odd[0]].kind.value}; leave it out"
                )
            if none := [
                name
                for name, (far, part) in zip(each.knows, each.tolerances, strict=True)
                if name in each.tolerance and not far + part > 0
            ]:
                raise ValueError(f"{where}: {none[0]!r} has tolerance 0; give more than 0, or leave it out")
        return self

    @model_validator(mode="after")
    def _gates_on_measures_fit(self) -> Job:
        limited = list(self.gates.given)
        masker = None if self.mask is None else MASKERS[self.mask.method]
        grouped = masker is None or masker.grouped or masker.identical_rows
        for name in limited:
            needs = MEASURED[name].needs
            for part in ("risk", "utility"):
                if part in needs and not getattr(self.measure, part):
                    off = f"measure.{part} is off; switch it on"
                    raise ValueError(f"gates.{name} limits a measure of {part}, and {off}")
            if "hold_out" in needs and not self.measure.hold_out:
                raise ValueError(f"gates.{name} needs records set aside; give measure.hold_out, such as 0.05")
            if "scenarios" in needs and not self.measure.scenarios:
                raise ValueError(
                    f"gates.{name} limits what a scenario finds, and the job names none; give measure.scenarios, "
                    "such as [{name: neighbour, knows: [age, sex]}]"
                )
            if "strata" in needs and not self.strata.by:
                raise ValueError(f"gates.{name} limits what is told of strata, and strata.by names none")
            if "survival" in needs and not self._follows_survival:
                raise ValueError(
                    f"gates.{name} limits differences of survival curves, and the job declares none; give columns the "
                    "roles survival_time and survival_status, or list a Cox model under analyses"
                )
            if "groups" in needs and masker is not None and not masker.identical_rows:
                raise ValueError(
                    f"gates.{name} limits what is told of groups, and mask {self.replacing.name} forms none; limit "
                    "membership_auc or attribute_inference instead, with measure.hold_out"
                )
            if "sensitive" in needs and not (grouped and self.sensitive_columns):
                raise ValueError(
                    f"gates.{name} needs groups, and a column with role sensitive that is not in strata.by"
                )
        return self

    @property
    def _follows_survival(self) -> bool:
        """Whether there can be survival curves to compare; a Cox model may turn out to have none."""
        declared = self.time_column is not None and self.event_column is not None
        return self.measure.utility and (declared or any(each.model == "cox" for each in self.analyses))

    @model_validator(mode="after")
    def _default_transforms(self) -> Job:
        """Say of each column by what it is masked where the job does not; last, as it depends on the methods."""
        default = {name: each.model_copy(update={"transform": "normal_scores"}) for name, each in self._unsaid.items()}
        self.columns.update(default)
        return self

    @model_validator(mode="after")
    def _growth_hides_who_joined_a_group(self) -> Job:
        method = self.replacing
        alike = method.identical_groups if isinstance(method, Synthesizer) else method.identical_rows
        plain = [name for name, column in self.columns.items() if column.can_be_scored and not column.scored]
        if self.repeat.growing and alike and plain:
            raise ValueError(
                f"repeat.growing does not go with {method.name} for numbers and dates on a scale of their own: the "
                "records of a group come out alike, and where one joins, two nights' means of the group give his "
                f"values: {', '.join(plain)}; give them transform: normal_scores, or take another method"
            )
        return self

    @property
    def _unsaid(self) -> dict[str, Column]:
        """Masked numbers and dates of which nothing is said, and that can be masked by normal scores."""
        own_scale = self.mask is not None and MASKERS[self.mask.method].own_scale
        by_range = self.cluster is not None and self.cluster.distance == "range"
        if own_scale or by_range:
            return {}
        return {name: column for name, column in self.columns.items() if column.can_be_scored and not column.transform}

    def columns_of(self, wanted: RecipientAnalysis) -> tuple[str, ...]:
        """The released columns that an analysis names."""
        from anonpipe.encoding.probabilities import column_name
        from anonpipe.evaluate.utility import columns_used

        known = list(self.released)
        for name in columns_used(wanted.analysis, known, conditions=False):
            if self.columns[name].kind is Kind.DATE:
                raise JobError(
                    f"analysis {wanted.name!r}: {name} is a date, and a formula takes numbers and categories; "
                    "add a column of days or years to the input"
                )
        used = columns_used(wanted.analysis, known)
        for name in used:
            if name in self.as_probabilities:
                levels = self.columns[name].levels or ("CATEGORY",)
                made = ", ".join(column_name(name, str(level)) for level in levels)
                raise JobError(
                    f"analysis {wanted.name!r}: {name} is not released as such, but as probabilities in columns "
                    f"{made}, which the input does not have, so that the model cannot be fitted to both; leave it out "
                    "of the model, or set decode.categories to calibrated"
                )
        return used

    @property
    def by_groups(self) -> ByGroups:
        """The methods of grouping."""
        if self.cluster is None or self.sensitive is None or self.synthesize is None:
            raise JobError("the job masks the whole table (mask) and forms no groups; ask for one or the other")
        return ByGroups(self.cluster, self.sensitive, self.synthesize)

    @property
    def sensitive_columns(self) -> tuple[str, ...]:
        """Columns with role sensitive whose values can mix in a group: not those that make the strata."""
        named = (name for name, column in self.columns.items() if column.role is Role.SENSITIVE)
        return tuple(name for name in named if name not in self.strata.by)

    @property
    def counted(self) -> tuple[str, ...]:
        """Columns whose combinations the scan counts: the strata, and sensitive ones where groups heed them."""
        held = self.cluster is not None and GROUPINGS[self.cluster.method].classes
        held = held or (self.sensitive is not None and bool(self.sensitive.conditions))
        mixed = self.sensitive_columns if held else ()
        return (*self.strata.by, *mixed)

    @property
    def scored_by(self) -> tuple[str, ...]:
        """Columns inside whose combinations values are ranked: the strata, and the survival status for the times."""
        scored = [column for column in self.columns.values() if column.scored]
        timed = any(column.role is Role.SURVIVAL_TIME for column in scored) and self.times_by_event
        own = (str(self.event_column),) if timed and self.event_column not in self.strata.by else ()
        return (*self.strata.by, *own) if scored else ()

    @property
    def times_by_event(self) -> bool:
        """Whether survival times are ranked by event: not where records of both come out as one and the same."""
        method = self.replacing
        alike = isinstance(method, Synthesizer) and method.identical_groups
        return self.event_column is not None and not alike

    @property
    def beside(self) -> tuple[str, ...]:
        """Columns that are released unchanged and that the masked ones are drawn given."""
        unchanged = [name for name, column in self.columns.items() if column.role.unchanged]
        return self.replacing.conditions_on(self.replacing_options, unchanged)

    @property
    def in_force(self) -> frozenset[str]:
        """What remedies need not name: the mask or `groups`; `normal_scores` where all columns that can, have it."""
        scored = all(column.scored for column in self.columns.values() if column.can_be_scored)
        how = {self.mask.method if self.mask is not None else "groups"} | ({"normal_scores"} if scored else set())
        return frozenset(how | ({"unchanged outside strata"} if self._unchanged_outside_strata else set()))

    @property
    def _unchanged_outside_strata(self) -> list[str]:
        return [name for name, column in self.released.items() if column.role.unchanged and name not in self.strata.by]

    @property
    def _groups_by_default(self) -> bool:
        """Whether groups have the methods of a job that names none."""
        return (
            self.mask is None
            and self.by_groups.cluster.method == "mdav"
            and self.by_groups.synthesize.method == "micro_perturbation"
        )

    @property
    def replacing(self) -> Synthesizer | Masker:
        """The record of the method that replaces records."""
        if self.mask is not None:
            return MASKERS[self.mask.method]
        return SYNTHESIZERS[self.by_groups.synthesize.method]

    @property
    def replacing_options(self) -> MethodOptions:
        """What the job tells this method."""
        return self.by_groups.synthesize if self.mask is None else self.mask

    @property
    def masks_strata(self) -> bool:
        """Whether each stratum is masked as a table of its own."""
        return self.mask is not None and self.mask.by_stratum

    @property
    def identifiers(self) -> tuple[str, ...]:
        """The columns that name persons."""
        return tuple(name for name, column in self.columns.items() if column.role.names_persons)

    @property
    def unit_column(self) -> str | None:
        """The column whose values are what k counts, should they repeat: that of role unit, or the only identifier."""
        if self.rows_per_unit == "many":
            return None
        declared, named = self._named(Role.UNIT), self.identifiers
        return declared if declared is not None or len(named) != 1 else named[0]

    @property
    def whole_units(self) -> bool:
        """Whether all rows of a unit stay in one group."""
        return self.cluster is not None and self.cluster.units == "whole"

    @property
    def unit_declared(self) -> bool:
        """Whether the job names the unit, so that it is known before the table is read."""
        return self._named(Role.UNIT) is not None

    @property
    def released(self) -> dict[str, Column]:
        """The columns of the release, in the job's order."""
        return {name: column for name, column in self.columns.items() if column.role.released}

    @property
    def as_probabilities(self) -> tuple[str, ...]:
        """Columns in whose place there are columns of probabilities."""
        if self.decode.categories != "probabilities":
            return ()
        kinds = (Kind.CATEGORICAL, Kind.BINARY)
        return tuple(name for name, column in self.columns.items() if column.role.synthesized and column.kind in kinds)

    @property
    def time_column(self) -> str | None:
        """The column with role survival_time."""
        return self._named(Role.SURVIVAL_TIME)

    @property
    def event_column(self) -> str | None:
        """The column with role survival_status."""
        return self._named(Role.SURVIVAL_STATUS)

    def _named(self, role: Role) -> str | None:
        return next((name for name, column in self.columns.items() if column.role is role), None)

    def warnings(self) -> list[str]:
        """What the steward should know before running; empty where all is declared."""
        found = []
        unbounded = [
            repr(name) + _open_side(*column.numeric_bounds)
            for name, column in self.released.items()
            if column.can_be_scored and not column.scored and None in column.numeric_bounds
        ]
        if unbounded:
            whose = f"column {unbounded[0]} has" if len(unbounded) == 1 else f"columns {', '.join(unbounded)} have"
            found.append(
                f"{whose} no bounds: synthetic values may lie outside what is possible; "
                "declare bounds: [low, high] from the code book, not from the data"
            )
        if self.decode.restore_survival_times:
            found.append("decode.restore_survival_times releases true survival times, the extremes included")
        if self._groups_by_default and (outside := self._unchanged_outside_strata):
            found.append(
                f"{', '.join(map(repr, outside))} released unchanged, and not in strata.by: so records are replaced in "
                "groups, whose records are linked more often than those of a mask. With strata.by naming all such "
                "columns (or role masked) and no method, local synthesis masks the table"
            )
        if told := self.replacing.warns(self.replacing_options):
            found.append(told)
        if "reidentification_rate" in self.gates.given and self.replacing.link == "none":
            found.append(
                "gates.reidentification_rate cannot be held, and nothing will be released: after mask "
                f"{self.replacing.name} no record stands for one person or group; limit membership_auc or "
                "attribute_inference instead, with measure.hold_out"
            )
        return found

    def digest(self) -> str:
        """SHA-256 of all that decides the released values: columns, k and methods.

        Not of paths, gates, measures and file sizes: a looser gate must not
        draw new noise for the same data; nor of what k is said to count. The share that is held out does
        decide.
        """
        held = (f"hold_out {self.measure.hold_out!r}",) if self.measure.held_out else ()
        of_no_value = (
            "input",
            "output",
            "run",
            "gates",
            "measure",
            "analyses",
            "release",
            "report",
            "rows_per_unit",
            "repeat",
        )
        rounded = () if self.fewest_changed is None else (f"counts rounded to {self.fewest_changed}",)
        return self._digest_without(*of_no_value, also=(*held, *rounded))

    def run_digest(self) -> str:
        """SHA-256 of everything but where it runs; two runs with the same one share their staging."""
        return self._digest_without("run")

    def _digest_without(self, *left_out: str, also: tuple[str, ...] = ()) -> str:
        content = self.model_dump(mode="json", exclude=set(left_out))
        if self.decode.probability_step is None:
            del content["decode"]["probability_step"]
        if content["cluster"] is not None and not self.whole_units:
            del content["cluster"]["units"]
        for column in content["columns"].values():
            # Where no default applies, an explicit `none` masks as an absent key does: the same noise
            if column["transform"] == "none":
                column["transform"] = None
            if column["extremes"] == "top_bottom_code":
                del column["extremes"]
            column["role"] = _DIGEST_ROLES.get(column["role"], column["role"])
        # The digest keys the noise, so its spelling stays when keys of the job are renamed
        content["classes"] = content.pop("sensitive", None)
        former_keys: list[tuple[dict[str, Any] | None, dict[str, str]]] = [
            (content["classes"], {"combine": "several"}),
            (content.get("repeat"), {"min_changed": "at_least", "max_overlapping": "at_most"}),
            *((scenario, {"tolerance": "within"}) for scenario in content.get("measure", {}).get("scenarios", ())),
        ]
        for section, spelling in former_keys:
            if section is not None:
                for key, former in spelling.items():
                    section[former] = section.pop(key)
        if content.get("mask") and "conditioning" in content["mask"]:
            content["mask"]["kept"] = content["mask"].pop("conditioning")
        text = "".join((json.dumps(content, sort_keys=True), *also))
        return hashlib.sha256(text.encode()).hexdigest()


_DIGEST_ROLES = {"sensitive": "class", "key": "kept"}

# Shares of records that are linked, of which groups of k stand for 1 / k
_OF_GROUPS = ("reidentification_rate", "scenario_risk")

_LOCAL = ("file://", "local://")


def _inside(inner: str, outer: str) -> bool:
    """Whether a path or URL is another, or below it."""
    parts = [PurePosixPath(url if "://" in url else os.path.abspath(url)) for url in (inner, outer)]
    return parts[0].is_relative_to(parts[1])


def _open_side(low: float | None, high: float | None) -> str:
    """On which side there is no bound, where there is one on the other."""
    if low is None:
        return "" if high is None else " (below)"
    return " (above)"


_DEFAULT_METHODS: dict[str, dict[str, str]] = {
    "cluster": {"method": "mdav"},
    "sensitive": {},
    "synthesize": {"method": "micro_perturbation"},
}


def _leaves_it(content: Mapping[str, Any]) -> bool:
    """Whether a job that names no method leaves it to anonpipe: not where it asks for what only groups have."""
    if any(content.get(name) is not None for name in _DEFAULT_METHODS):
        return False
    columns, decode, strata = (_entries(content.get(name)) for name in ("columns", "decode", "strata"))
    roles = {name: _entries(column).get("role", Role.MASKED) for name, column in columns.items()}
    by = strata.get("by") if isinstance(strata.get("by"), list | tuple) else ()
    groups = any(role == Role.UNIT or (role in _UNCHANGED and name not in (by or ())) for name, role in roles.items())
    return not (groups or decode.get("restore_survival_times") or decode.get("categories") == "histogram")


_UNCHANGED = [role for role in Role if role.unchanged]


def _default_mask(content: Mapping[str, Any]) -> str:
    """That of `anonpipe init`: by a mixture, or where no masked column is a number or a date in the spectral basis."""
    columns = [_entries(column) for column in _entries(content.get("columns")).values()]
    masked = [each for each in columns if each.get("role", Role.MASKED) in (Role.MASKED, Role.SURVIVAL_TIME)]
    numbers = any(each.get("kind") in (Kind.CONTINUOUS, Kind.INTEGER, Kind.DATE) for each in masked)
    return "local_synthesis" if numbers else "spectral_swap"


def _entries(section: Any) -> Mapping[str, Any]:
    """What a section says; nothing where it is none, which other checks tell."""
    if isinstance(section, Options | Column):
        return section.model_dump()
    return section if isinstance(section, Mapping) else {}


def _with_method(options: Any, default: dict[str, str]) -> Any:
    """The options of a section, with what is default where they do not say it."""
    if options is None:
        return default
    return {**default, **options} if isinstance(options, dict) else options


def parse_job(content: Any) -> Job:
    """Check a mapping (from YAML, JSON or Prefect) and return the job.

    Parameters
    ----------
    content
        Keys and values.

    Raises
    ------
    JobError
        With one line a problem: where, what is allowed, what to do.
    """
    if not isinstance(content, dict):
        raise JobError("the job is not a mapping of keys to values; start from: anonpipe init data.parquet > job.yaml")
    try:
        return Job.model_validate(content)
    except ValidationError as error:
        problems = list(
            dict.fromkeys(_explain(item) for item in error.errors(include_url=False, include_context=False))
        )
    raise JobError("the job is not valid:\n" + "\n".join(f"  {line}" for line in problems))


_SCALARS = ("bool", "int", "float", "str")  # of these a message for each would come
_PLAIN_WORDS = {
    "extra_forbidden": "unknown key; remove it or correct its spelling",
    "missing": "is missing; add it",
    "tuple_type": "takes a list, as in [one, two]",
    "too_long": "the list is too long",
    "dict_type": "takes a mapping of keys to values",
    "model_type": "takes a mapping of keys to values",
    "model_attributes_type": "takes a mapping of keys to values",
    "union_tag_not_found": "takes a mapping of keys to values",
}


def _explain(item: Any) -> str:
    path = [str(part) for part in item["loc"]]
    if path and path[-1] in _SCALARS:
        return f"{'.'.join(path[:-1])}: takes one value: a number, a text, a date or true/false"
    where = ".".join(path) or "job"
    if item["type"] in _PLAIN_WORDS:
        return f"{where}: {_PLAIN_WORDS[item['type']]}"
    if item["type"] == "union_tag_invalid":
        known: dict[str, Mapping[str, Method]] = {"cluster": GROUPINGS, "synthesize": SYNTHESIZERS, "mask": MASKERS}
        return f"{where}: unknown method; known are: {', '.join(in_jobs(known[where]))}"
    return f"{where}: {item['msg'].removeprefix('Value error, ')}"


def load_job(path: str | Path, overrides: dict[str, Any] | None = None) -> Job:
    r"""Read a YAML job file; `overrides` maps dotted keys (`cluster.method`) to values.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "job.yaml"
    >>> _ = path.write_text("input: a.parquet\noutput: out\nk: 5\ncolumns: {age: {kind: integer}}")
    >>> load_job(path, {"k": 10}).k
    10
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except IsADirectoryError:
        raise JobError(f"{path} is a folder, and not a job file; give the file, such as job.yaml") from None
    except OSError:
        raise JobError(
            f"the job file {path} cannot be read; make one with: anonpipe init data.parquet > {path}"
        ) from None
    except UnicodeDecodeError:
        raise JobError(f"the job file {path} is no text in UTF-8; save it as UTF-8") from None
    try:
        content = load_yaml(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" at line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "it cannot be parsed"
        if "'" in problem and not _JOB_KEY.search(text):  # a table, it may be, and no message quotes its values
            problem = f"it has no key of a job either. {_NO_JOB}"
    else:
        if isinstance(content, dict) and content and not _KEYS & set(content):
            raise JobError(f"{path} has no key of a job. {_NO_JOB}")
        return parse_job(overridden(content, overrides or {}))
    raise JobError(f"the job file {path} is not valid YAML{line}: {problem}")


_KEYS = frozenset(Job.model_fields)
_JOB_KEY = re.compile(rf"^({'|'.join(sorted(_KEYS))})\s*:", re.MULTILINE)
_NO_JOB = "Give the job file, not the data; make one with: anonpipe init data.parquet > job.yaml"
