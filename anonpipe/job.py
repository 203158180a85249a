"""The job: one model that reads YAML, CLI overrides and Prefect parameters alike.

Unknown keys are errors everywhere. What decides the released values (columns,
k, methods) is in the job's digest; paths, gates and `run` are not.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from anonpipe.errors import JobError
from anonpipe.options import Cluster, Mdav, MicroPerturbation, Options, Synthesize, names_of
from anonpipe.schema import Column, Kind, Role


class Strata(Options):
    """Records of different strata are never in one group.

    `by` lists columns that are released unchanged (roles survival_status,
    kept, class). `use_event` splits a survival status by event/censored
    instead of by its values. `small` says what becomes of a stratum of fewer
    than k records: `error`; `drop` its records; `merge` it into the largest
    stratum of the same event status, whose values its records then take.
    """

    by: tuple[str, ...] = ()
    use_event: bool = False
    small: Literal["error", "merge", "drop"] = "error"


class Partition(Options):
    """Coarse pre-clusters: the largest piece that one worker holds.

    `rows` is the aimed size of a partition; the number of partitions follows
    from it and the data alone, never from the workers. `sample_rows` records
    fit the splits.
    """

    rows: int = Field(default=200_000, ge=1_000)
    sample_rows: int = Field(default=50_000, ge=100)


class Classes(Options):
    """What columns with role class ask of the groups; those in strata.by, one value a stratum, are left out.

    `several` says how a grouping method that uses classes handles more than
    one: as one `compound`, or by one run a column whose results are averaged
    (`average`; Li & Sarkar 2013, section 8). `l_diversity` and `t_closeness`
    are held for every class column by merging near groups: `diversity` counts
    `distinct` classes or takes the exponential of their `entropy`; `closeness`
    is the `total_variation` between a group's and the table's shares, or, for
    classes with an order, the earth mover's distance (`ordered`).
    """

    several: Literal["compound", "average"] = "compound"
    l_diversity: float | None = Field(default=None, gt=1)
    diversity: Literal["distinct", "entropy"] = "distinct"
    t_closeness: float | None = Field(default=None, gt=0, lt=1)
    closeness: Literal["total_variation", "ordered"] = "total_variation"

    @property
    def conditions(self) -> dict[str, Any]:
        """What groups must meet, as `anonpipe.cluster.constrain_classes` takes it; empty for nothing."""
        asked: dict[str, Any] = {}
        if self.l_diversity is not None:
            asked |= {"l_diversity": self.l_diversity, "diversity": self.diversity}
        if self.t_closeness is not None:
            asked |= {"t_closeness": self.t_closeness, "distance": self.closeness}
        return asked

    @model_validator(mode="after")
    def _nothing_idle(self) -> Classes:
        for name, needs in (("diversity", "l_diversity"), ("closeness", "t_closeness")):
            if getattr(self, name) != type(self).model_fields[name].default and getattr(self, needs) is None:
                raise ValueError(f"{name} says how {needs} is measured: give {needs} too")
        return self


class Decode(Options):
    """How points become values again.

    `categories`: `calibrated` keeps each category's count inside the group
    (inside the partition for `centroid`, whose groups stay identical);
    `most_probable` and `sampled` are those of Lasko & Vinterbo 2010, III.
    `restore_survival_times` puts the group's true times back by rank (Gal
    2014, Algorithm 2, d.ii): these are then true values of persons.
    `jitter_restored_times` is the largest uniform shift added to them, in the
    column's unit.
    """

    categories: Literal["calibrated", "most_probable", "sampled"] = "calibrated"
    restore_survival_times: bool = False
    jitter_restored_times: float = Field(default=0.0, ge=0)


class Gates(Options):
    """Limits that the release must meet, measured on the written rows.

    `mean` is in standard deviations of the original column, `covariance` in
    products of two of them; both are what decoding (steps, bounds, nulls) may
    add to the method's own error. `covariance_unchanged` is the same for pairs
    of a synthetic and an unchanged column. `category_share` and `null_share`
    are differences of shares. `rows_under_k` is the number of rows whose combination of unchanged columns
    may occur fewer than k times. `share_as_they_were` is the share of rows
    that may equal, in all synthetic columns, an original row of their group
    which fewer than k persons share. `suppressed_share` is the share of rows
    that suppression of rare categories may change in one column.
    """

    mean: float = Field(default=0.02, gt=0)
    covariance: float = Field(default=0.05, gt=0)
    covariance_unchanged: float = Field(default=0.1, gt=0)
    category_share: float = Field(default=0.005, gt=0)
    null_share: float = Field(default=0.005, gt=0)
    rows_under_k: int = Field(default=0, ge=0)
    share_as_they_were: float = Field(default=0.01, ge=0)
    suppressed_share: float = Field(default=0.05, ge=0)


class Release(Options):
    """The written files: rows a file (in expectation) and rows a row group."""

    file_rows: int = Field(default=500_000, ge=1_000)
    row_group_rows: int = Field(default=131_072, ge=1_000)


class Run(Options):
    """Where and how it runs; nothing here changes the result."""

    workers: int | None = Field(default=None, ge=1)
    scheduler: str | None = None
    memory_per_worker: str | None = None
    staging: str | None = None
    retries: int = Field(default=2, ge=0)


class Job(Options):
    """Everything a run needs to know, as the steward writes it."""

    input: str
    output: str
    k: int = Field(ge=2)
    columns: dict[str, Column]
    strata: Strata = Strata()
    partition: Partition = Partition()
    cluster: Cluster = Mdav()
    classes: Classes = Classes()
    synthesize: Synthesize = MicroPerturbation()
    decode: Decode = Decode()
    gates: Gates = Gates()
    release: Release = Release()
    run: Run = Run()

    @field_validator("cluster", "synthesize", mode="before")
    @classmethod
    def _default_method(cls, options: Any, info: ValidationInfo) -> Any:
        if isinstance(options, dict) and "method" not in options:
            return {"method": {"cluster": "mdav", "synthesize": "micro_perturbation"}[str(info.field_name)], **options}
        return options

    @field_validator("columns")
    @classmethod
    def _some_columns(cls, columns: dict[str, Column]) -> dict[str, Column]:
        if not any(column.role.synthesized for column in columns.values()):
            raise ValueError("no column has role masked or survival_time: there is nothing to anonymise")
        for role in (Role.SURVIVAL_TIME, Role.SURVIVAL_STATUS):
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
                    "strata need a column that is released unchanged (survival_status, kept or class)"
                )
        if self.strata.use_event and self.event_column not in self.strata.by:
            raise ValueError("strata.use_event needs the survival_status column in strata.by")
        if self.decode.restore_survival_times and self.time_column is None:
            raise ValueError("decode.restore_survival_times needs a column with role survival_time")
        if self.decode.jitter_restored_times and not self.decode.restore_survival_times:
            raise ValueError("decode.jitter_restored_times needs decode.restore_survival_times: true")
        weight = self.cluster.response_weight
        unusual = weight is not None and weight != type(self.cluster).model_fields["response_weight"].default
        if unusual and self.time_column is None:
            raise ValueError("cluster.response_weight needs a column with role survival_time: the response")
        if self.cluster.block_rows is not None and self.cluster.block_rows < 3 * self.k:
            raise ValueError(f"cluster.block_rows is {self.cluster.block_rows}; give at least 3*k = {3 * self.k}")
        return self

    @model_validator(mode="after")
    def _ranges_known(self) -> Job:
        if self.cluster.distance == "range":
            for name, column in self.columns.items():
                if column.role.synthesized and not column.kind.coded and None in column.numeric_bounds:
                    raise ValueError(
                        f"cluster.distance is range, and column {name!r} has no bounds; declare bounds: [low, high] "
                        "from the code book, or take distance z_score"
                    )
        return self

    @model_validator(mode="after")
    def _classes_fit(self) -> Job:
        options, classes = self.cluster, self.classes
        needs_some = options.uses_classes or bool(classes.conditions)
        if needs_some and not self.class_columns:
            whose = f"cluster.method {options.method}" if options.uses_classes else "classes.l_diversity or t_closeness"
            raise ValueError(f"{whose} needs a column with role class that is not in strata.by")
        if options.uses_classes and options.effort is not None:
            raise ValueError(
                f"cluster.refine does not look at classes and would undo what {options.method} does; set it to false"
            )
        if classes.several == "average":
            form = getattr(self.synthesize, "form", None)
            if not options.uses_classes or len(self.class_columns) < 2:
                raise ValueError("classes.several: average needs a method that uses classes, and two class columns")
            if self.synthesize.method != "centroid" and form != "independent":
                raise ValueError(
                    "classes.several: average needs synthesize.method centroid, or micro_perturbation with form "
                    "independent: the moments of one group mean nothing where a record is in several"
                )
            if classes.conditions:
                raise ValueError("classes.several: average has no single grouping to hold l_diversity or t_closeness")
        if classes.closeness == "ordered":
            for name in self.class_columns:
                if self.columns[name].kind is Kind.CATEGORICAL:
                    raise ValueError(f"classes.closeness is ordered, and column {name!r} is categorical: no order")
        return self

    @property
    def class_columns(self) -> tuple[str, ...]:
        """Columns with role class whose classes can mix in a group: not those that make the strata."""
        named = (name for name, column in self.columns.items() if column.role is Role.CLASS)
        return tuple(name for name in named if name not in self.strata.by)

    @property
    def counted(self) -> tuple[str, ...]:
        """Columns whose combinations the scan counts: the strata, and the classes where groups depend on them."""
        mixed = self.class_columns if self.cluster.uses_classes or self.classes.conditions else ()
        return (*self.strata.by, *mixed)

    @property
    def released(self) -> dict[str, Column]:
        """The columns of the release, in the job's order."""
        return {name: column for name, column in self.columns.items() if column.role.released}

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
            repr(name)
            for name, column in self.released.items()
            if column.role.synthesized and not column.kind.coded and None in column.numeric_bounds
        ]
        if unbounded:
            whose = f"column {unbounded[0]} has" if len(unbounded) == 1 else f"columns {', '.join(unbounded)} have"
            found.append(
                f"{whose} no bounds: synthetic values may lie outside what is possible; "
                "declare bounds: [low, high] from the code book, not from the data"
            )
        if self.decode.restore_survival_times:
            found.append("decode.restore_survival_times releases true survival times, the extremes included")
        if isinstance(self.synthesize, MicroPerturbation) and self.synthesize.form == "published":
            found.append(
                "synthesize.form 'published' is biased: variances come out too large (use independent or centred)"
            )
        return found

    def digest(self) -> str:
        """SHA-256 of all that decides the released values: columns, k and methods.

        Not of paths, gates and file sizes: a looser gate must not draw new
        noise for the same data.
        """
        return self._digest_without("input", "output", "run", "gates", "release")

    def run_digest(self) -> str:
        """SHA-256 of everything but where it runs; two runs with the same one share their staging."""
        return self._digest_without("run")

    def _digest_without(self, *left_out: str) -> str:
        content = self.model_dump(mode="json", exclude=set(left_out))
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def parse_job(content: Any) -> Job:
    """Check a mapping (from YAML, JSON or Prefect) and return the job.

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
        problems = [_explain(item) for item in error.errors(include_url=False, include_context=False)]
        problems = list(dict.fromkeys(problems))
    raise JobError("the job is not valid:\n" + "\n".join(f"  {line}" for line in problems))


_SCALARS = ("bool", "int", "float", "str")  # of these a message for each would come
_PLAIN_WORDS = {
    "extra_forbidden": "unknown key; remove it or mend its spelling",
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
        methods = {"cluster": Cluster, "synthesize": Synthesize}
        return f"{where}: unknown method; known are: {', '.join(names_of(methods[where]))}"
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
    except OSError:
        raise JobError(
            f"the job file {path} cannot be read; make one with: anonpipe init data.parquet > {path}"
        ) from None
    except UnicodeDecodeError:
        raise JobError(f"the job file {path} is no text in UTF-8; save it as UTF-8") from None
    try:
        content = yaml.load(text, Loader=_JobLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" at line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "it cannot be parsed"
    else:
        for dotted, value in (overrides or {}).items():
            _put(content, dotted, value)
        return parse_job(content)
    raise JobError(f"the job file {path} is not valid YAML{line}: {problem}")


class _JobLoader(yaml.SafeLoader):
    """YAML that refuses a key given twice, which the standard loader silently drops, and leaves dates as text."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key is no plain word", key_node.start_mark)
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is given twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


_JobLoader.yaml_constructors = {
    **_JobLoader.yaml_constructors,
    "tag:yaml.org,2002:timestamp": _JobLoader.construct_yaml_str,
}


def parse_setting(setting: str) -> tuple[str, Any]:
    """The dotted key and the value of a `key=value`, the value read as in a job file.

    Raises
    ------
    JobError
        It is not of this form, or its value is no YAML.

    Examples
    --------
    >>> parse_setting("cluster.refine=false")
    ('cluster.refine', False)
    """
    key, separator, text = setting.partition("=")
    problem = not separator or not all(key.split("."))
    value = None
    try:
        value = yaml.load(text, Loader=_JobLoader)
    except yaml.YAMLError:
        problem = True
    if problem:
        raise JobError(f"--set takes key=value, such as --set k=10 or --set cluster.method=kmeans, not {setting!r}")
    return key, value


def _put(content: Any, dotted: str, value: Any) -> None:
    *path, last = dotted.split(".")
    for part in path:
        if not isinstance(content, dict):
            break
        content = content.setdefault(part, {})
    if not isinstance(content, dict):
        raise JobError(f"cannot set {dotted}: {'.'.join(path)} is not a mapping in the job")
    content[last] = value


def kind_help() -> str:
    """The kinds and roles on one line each, for messages and comments."""
    return f"kind: {', '.join(Kind)}\nrole: {', '.join(Role)}"
