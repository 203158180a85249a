"""Sections of the job on strata, sensitive columns, decoding, files and runs; the methods of a job that names none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from anonpipe.columns import Column, Kind, Role
from anonpipe.job.csv_format import CsvFormat
from anonpipe.methods.options import Options

_PROBABILITY_STEP = 0.001
_ENCRYPTED = ("tls://", "wss://")
_MEMORY = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([kmgtp]i?)b\s*", re.IGNORECASE)
_LEAST_MEMORY = 400 * 2**20
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def checked_path(given: str) -> str:
    """A path or URL as it was given; no file system and no terminal takes well to control characters."""
    if not given.strip() or _CONTROL.search(given):
        raise ValueError("a path or URL is not empty and holds no control characters")
    return given


class Input(CsvFormat):
    """The input, and how it is written where it is a CSV.

    `path` is a file, folder, glob or URL, or an SQL file; alone it can be given as a plain text. `last_row: record`
    says that the last row is a record, where it looks like a line of totals.
    """

    path: Annotated[str, AfterValidator(checked_path)]
    last_row: Literal["record"] | None = Field(
        default=None, description="What the last row is, where it looks like a line of totals."
    )


class StrataSettings(Options):
    """Records of different strata are never in one group.

    A `mask` has no groups: it masks each stratum as a table of its own, or with mask.scope `table` all strata together,
    whose partitions they then only cut. `small` applies either way.

    `by` lists columns that are released unchanged (roles survival_status, key, sensitive). `use_event` splits a
    survival status by event/censored instead of by its values. `small` says what becomes of a stratum of fewer than k
    records: `error`; `drop` its records; `merge` it into the largest stratum of the same event status, whose values its
    records then take. With a mask that makes synthetic records, `merge` and `drop` look at how many records covariances
    need; `anonpipe plan` says how many.
    """

    by: tuple[str, ...] = ()
    use_event: bool = False
    small: Literal["error", "merge", "drop"] = "error"


class SurveyDesign(Options):
    """How the sample was drawn, for standard errors that allow for it.

    `strata` and `cluster` name columns with role key, in `strata.by`: the strata of the design, and in them the primary
    sampling units (PSUs). Released in their place are `random_groups` random groups of the PSUs of each stratum (Wolter
    2007, Introduction to Variance Estimation, chapter 2), of two PSUs or more. Records are masked inside a group, so
    that groups differ as they did.

    `replicates` says whether replicate weights of the released groups are added: with `JKn` a column for each group, in
    which its records have the weight 0, and others of its stratum more (delete-a-group jackknife, Kott 2001, J. Off.
    Stat. 17:521-526).
    """

    strata: str
    cluster: str
    random_groups: int = Field(default=2, ge=2, le=1000)
    replicates: Literal["none", "JKn"] = "none"


class Partition(Options):
    """Coarse pre-clusters: the most records that one worker holds.

    `rows` is the aimed size of a partition; the number of partitions follows from it and the data alone, never from the
    workers. `sample_rows` records fit the splits.
    """

    rows: int = Field(default=200_000, ge=1_000)
    sample_rows: int = Field(default=50_000, ge=100)


class Sensitive(Options):
    """What columns with role sensitive ask of the groups; those in strata.by, one value per stratum, are left out.

    `combine` says how a grouping method that mixes sensitive values handles more than one: as one `compound`, or by one
    run per column whose results are averaged (`average`; Li & Sarkar 2013, section 8). `l_diversity` and `t_closeness`
    are held for every sensitive column by merging near groups: `diversity` counts `distinct` values or takes the
    exponential of their `entropy`; `closeness` is the `total_variation` between a group's and the table's shares, or,
    for values with an order, the earth mover's distance (`ordered`).
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

    `categories`: `calibrated` keeps each category's count inside the group (inside the partition for `centroid`, whose
    groups stay identical, and for a mask, which has no groups); `most_probable` and `sampled` are those of Lasko &
    Vinterbo 2010, III. `histogram` hands the group's own categories out at random, each column by itself (Gal 2014, on
    Aggarwal & Yu): what two columns have in common inside a group is lost. `probabilities` releases no category at all
    (Lasko & Vinterbo, III): in place of a masked categorical or binary column NAME stand columns NAME_CATEGORY of
    probabilities, and NAME_null where it has nulls, which add up to 1 in every row and whose means are the shares of
    the categories. They are multiples of `probability_step` (0.001 unless given). Ordinal columns and the nulls of
    numbers are decoded as by `calibrated`. `restore_survival_times` puts the group's true times back by rank (Gal 2014,
    Algorithm 2, d.ii): these are then true values of persons. `jitter_restored_times` is the largest uniform shift
    added to them, in the column's unit.
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
        """How cells are decoded; with probabilities, by calibration."""
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


COPY = "copy"  # The column that numbers the copies of a release


class Release(Options):
    """The written files: `file_rows` per file (in expectation), and `row_group_rows` per row group.

    `unit` says what becomes of the column with role unit. `pseudonym`: every unit comes out whole, with its rows, under
    a new number. Its rows are then laid side by side and masked as one record, in the order of the column `order` (a
    number or a date), without it in random order. Columns with `level: unit` have one value in a unit.

    `copies` above 1 releases so many synthetic copies of the same records as one table, with a column `copy` from 1:
    recipients analyse each by itself and join the results by `anonpipe.combine`, whose intervals account for the
    synthesis. All limits hold for each copy, and risks are those of an attacker who has all of them. Copies have draws
    of their own, and share groups, mixture and small counts: other groups of the same records could be subtracted.
    """

    unit: Literal["none", "pseudonym"] = "none"
    order: str | None = Field(default=None, description="The column that orders the rows of a unit.")
    copies: int = Field(default=1, ge=1, le=20)
    file_rows: int = Field(default=500_000, ge=1_000)
    row_group_rows: int = Field(default=131_072, ge=1_000)


class ReportSettings(Options):
    """Where internal reports go, which only the data steward may see, and the verdicts of failed runs.

    `internal` is a folder or URL outside the output. Without it they lie in the folder `steward` next to the releases,
    which only its owner can enter. An object store knows no such folder: all who read the releases there reads all of
    it. So there it is asked for.
    """

    internal: str | None = None


class RunSettings(Options):
    """Where and how it runs; nothing here changes the result.

    Inputs of up to 1.5 million cells run in the process itself, unless `workers` or `memory_per_worker` is given. Above
    that, as many workers start as there are cores. `scheduler` is the address of a Dask scheduler, `tls://host:port`.
    At any other, all who reach it can run programs on the workers and read the rows: it is used only with
    `trust_network` true. `staging` is a folder of this machine (or of a disk that all workers share). An input of more
    rows than `max_rows_per_byte` times its bytes is refused: a few bytes of Parquet can stand for a billion equal rows.
    What crashed runs left in the staging is deleted `keep_days` after their last step, at the start of the next run.
    """

    workers: int | None = Field(
        default=None, ge=1, description="Processes of the own cluster; one for each core unless given."
    )
    scheduler: str | None = None
    memory_per_worker: str | None = Field(default=None, description="Memory that a worker may take, such as 2GiB.")
    trust_network: bool = False
    staging: str | None = None
    retries: int = Field(default=2, ge=0, description="How often a task that failed on a worker is tried again.")
    keep_days: float = Field(default=7.0, gt=0)
    max_rows_per_byte: float = Field(default=16.0, gt=0)

    @field_validator("staging")
    @classmethod
    def _a_folder(cls, staging: str | None) -> str | None:
        if staging is not None and "://" in staging:
            raise ValueError(
                f"run.staging is {staging!r}, and the rows in work lie in a folder of this machine; give its path"
            )
        return None if staging is None else checked_path(staging)

    @model_validator(mode="after")
    def _nobody_listens(self) -> RunSettings:
        address = self.scheduler
        if address is not None and not address.startswith(_ENCRYPTED) and not self.trust_network:
            raise ValueError(
                f"run.scheduler is {address!r}: without TLS all who reach it can run programs on the workers and "
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


_UNITS = {f"{prefix}{i}": (1024 if i else 1000) ** (at + 1) for at, prefix in enumerate("kmgtp") for i in ("", "i")}


class Repeat(Options):
    """A release of persons of whom an earlier release tells, too.

    Two releases that share records without being equal disclose what changed, and are refused, unless `allow` says why
    this one may come out.

    `growing` is for a register that persons join and leave, or whose records change. It is then released again where,
    against every earlier release that is known, at least `min_changed` units (k unless more are asked for) or none
    differ in every column, and twice as many in all, among the records of every stratum; where no more than
    `max_overlapping` releases overlap. In every stratum counts of categories and nulls are rounded at random to
    multiples of `min_changed`, always the same way, one to three times as many records as that are written nowhere, and
    normal scores go back to the distribution of a sample of 95 %. It needs the column that names the unit (role unit,
    or a single identifier), whose values stay with the persons, one row of each, all columns that are released
    unchanged in `strata.by`, and strata of ten times `min_changed` records.
    """

    allow: str | None = Field(default=None, min_length=1, pattern=r"\S")
    growing: bool = False
    min_changed: int | None = Field(default=None, ge=2, le=1_000)
    max_overlapping: int = Field(default=20, ge=2)


# --- The methods of a job that names none -----------------------------------------------------------------------------

_DEFAULT_METHODS: dict[str, dict[str, str]] = {
    "cluster": {"method": "mdav"},
    "sensitive": {},
    "synthesize": {"method": "micro_perturbation"},
}

_UNCHANGED = [role for role in Role if role.unchanged]


def with_methods(content: dict[str, Any]) -> dict[str, Any]:
    """A job's content with one way of replacing records: a mask, or the three methods of groups."""
    given = [name for name in _DEFAULT_METHODS if content.get(name) is not None]
    if content.get("mask") is not None:
        if given:
            raise ValueError(
                f"mask works on the whole table and forms no groups: {', '.join(given)} would mean nothing; "
                f"leave out either mask or {' and '.join(given)}"
            )
        return content
    if content.get("disclosure") == {}:
        raise ValueError("disclosure has neither key nor recode; give one, or leave it out")
    if not given and content.get("disclosure") and set(masked := _masked(content)) <= {Role.SAMPLING_WEIGHT}:
        if masked:
            name = masked[Role.SAMPLING_WEIGHT]
            raise ValueError(
                f"no mask draws the survey weight {name!r}, as disclosure alone masks no column; give "
                f"columns.{name}.by (categories that decide it, of which it is then drawn), role: key with "
                "disclosure.non_key (released unchanged, and in no estimate of risk), or role: dropped"
            )
        return content | {"mask": {"method": "pram"}}
    if not given and not _needs_groups(content):
        method = "local_synthesis" if _masks_numbers(content) else "spectral_swap"  # as `anonpipe init` proposes
        return content | {"mask": {"method": method}}
    sections = {name: default for name, default in _DEFAULT_METHODS.items() if name not in given}
    sections |= {name: {**_DEFAULT_METHODS[name], **content[name]} for name in given if isinstance(content[name], dict)}
    return content | sections


def _needs_groups(content: Mapping[str, Any]) -> bool:
    """Whether a job that names no method asks for what only groups have."""
    decode, strata = (_entries(content.get(name)) for name in ("decode", "strata"))
    by = strata.get("by") if isinstance(strata.get("by"), list | tuple) else ()
    roles = {name: column.get("role", Role.MASKED) for name, column in _columns(content).items()}
    unchanged = any(role in _UNCHANGED and name not in (by or ()) for name, role in roles.items())
    units_of_categories = Role.UNIT in roles.values() and not _masks_numbers(content)
    restored = decode.get("restore_survival_times") or decode.get("categories") == "histogram"
    return bool(unchanged or units_of_categories or restored)


def _masks_numbers(content: Mapping[str, Any]) -> bool:
    """Whether some masked column is a number or a date."""
    return any(
        column.get("role", Role.MASKED) in (Role.MASKED, Role.SURVIVAL_TIME)
        and column.get("kind") in (Kind.CONTINUOUS, Kind.INTEGER, Kind.DATE)
        for column in _columns(content).values()
    )


def _masked(content: Mapping[str, Any]) -> dict[str, str]:
    """Roles for which synthetic values are made, each with a column."""
    roles = {name: each.get("role", Role.MASKED) for name, each in _columns(content).items() if not each.get("by")}
    return {role: name for name, own in roles.items() for role in Role if role.encoded and own == role}


def _columns(content: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {name: _entries(column) for name, column in _entries(content.get("columns")).items()}


def _entries(section: Any) -> Mapping[str, Any]:
    """What a section says; nothing where it is none, which other checks tell."""
    if isinstance(section, Options | Column):
        return section.model_dump()
    return section if isinstance(section, Mapping) else {}
