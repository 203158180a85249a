"""What a method tells of itself, in one record at the end of its file.

The job, the gates, the report and `compare` ask this record, never a method's name: a new method is a file.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import ModuleType
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import Field, TypeAdapter, ValidationError

from anonpipe.columns import Column
from anonpipe.errors import JobError
from anonpipe.methods.options import OF_THE_RUN, GroupingOptions, MethodOptions, ScopedMaskOptions, options_of
from anonpipe.moments import Expected, GroupedMoments, GroupSpread, NoiseScatter
from anonpipe.types import FloatArray

Scope = Literal["group", "stratum", "table"]
Link = Literal["person", "group", "none"]


@dataclass(frozen=True)
class Number:
    """A number among the features: its column's name, its place, how it was scaled, and whether on another scale."""

    name: str
    place: int
    mean: float
    sd: float
    transformed: bool


@dataclass(frozen=True)
class Features:
    """What a run tells a method of its table."""

    k: int  # The job's
    rows: int  # Records of the whole table
    width: int  # Columns of features
    conditioning: int = 0  # Columns of numbers that the features are drawn given; they follow them
    categories: tuple[tuple[int, ...], ...] = ()  # Places of the columns of each categorical attribute, in -1 and +1
    numbers: tuple[Number, ...] = ()  # The features that are numbers


@dataclass(frozen=True)
class Ends:
    """Ends of intervals, rounded to multiples of a step a column, counted from an origin; both in its unit."""

    steps: Mapping[str, float]
    origins: Mapping[str, float]


def nothing(*given: Any) -> None:
    """No objection."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """What every method tells. How it works stands at its function, and not there again what stands here."""

    function: Callable[..., Any]  # The method; its name is what the job calls it
    summary: str = ""  # What it does, in a sentence
    # What a job can tell it: a model whose field `method` is the name, and whose other fields are parameters of the
    # function or of the stages around it; by default one is made of summary and function. None for what no job names.
    options: type[MethodOptions] | None = MethodOptions
    base: type[MethodOptions] = MethodOptions  # The options that all such methods have
    published: str = ""  # Name in the literature; by default the summary is it
    reference: str  # DOI and place
    cost: str  # Time and memory, in n records of w columns
    forms: str | None = None  # The option of a few values that `compare` sets by `method:form`
    # `refuses(options, features)`: why the method cannot be had of such features, and what to do; None where it can
    refuses: Callable[[Any, Features], str | None] = nothing
    warns: Callable[[Any], str | None] = nothing  # `warns(options)`: what the steward should know of them before a run

    def __post_init__(self) -> None:
        if bool(self.summary) == (self.options is not MethodOptions):
            raise TypeError(f"{self.name}: give summary, or options (None for a method that no job names)")
        if self.summary:
            object.__setattr__(self, "options", options_of(self.function, self.summary, self.base))
            object.__setattr__(self, "published", self.published or self.summary.rstrip("."))
        if self.options is None:
            return
        if get_args(self.options.model_fields["method"].annotation) != (self.name,):
            raise TypeError(f"{self.options.__name__}.method must be Literal[{self.name!r}], the name of its function")
        if self.forms is not None and self.forms not in self.options.model_fields:
            raise TypeError(f"{self.options.__name__} has no field {self.forms!r}, which are to be its forms")
        for name, text in getattr(self, "about", {}).items():  # for editors and forms
            if name in self.options.model_fields:
                self.options.model_fields[name].description = text

    @property
    def name(self) -> str:
        """What the job calls it."""
        return str(getattr(self.function, "__name__", ""))

    @cached_property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """The function's, by name."""
        return dict(inspect.signature(self.function).parameters)

    @cached_property
    def _checks(self) -> dict[str, TypeAdapter[Any]]:
        """Of values of those parameters whose annotations say more than a type."""
        hints = get_type_hints(self.function, include_extras=True)
        return {name: TypeAdapter(hint) for name, hint in hints.items() if get_origin(hint) in (Annotated, Literal)}

    def misfit(self, given: Mapping[str, Any]) -> str:
        """What is wrong with values of options, by the annotations of the function; empty where nothing is."""
        for name, value in given.items():
            if name in self._checks:
                try:
                    self._checks[name].validate_python(value)
                except ValidationError as error:
                    return f"{self.name} was given {name}={value!r}: {error.errors()[0]['msg']}"
        return ""

    def own(self, options: MethodOptions) -> dict[str, Any]:
        """Those of the options that the function takes."""
        return options.model_dump(include=set(self.parameters))


@dataclass(frozen=True, kw_only=True)
class Grouping(Method):
    """A method that forms groups.

    `function(features, k, *, rng, **options) -> labels`. Its keyword-only parameters besides `rng`, `classes` and
    `class_shares` are its options.
    """

    sizes: str = "k to 2k-1"  # What group sizes it gives, in words
    # The largest group as a function of k, None where there is no limit. Most published methods leave none of 2k: it
    # could be split and lose less
    largest: Callable[[int], int] | None = lambda k: 2 * k - 1
    about: Mapping[str, str] = field(default_factory=dict)  # What each of its options is for
    draws: bool = False  # Whether the groups depend on `rng`
    classes: bool = False  # Whether it takes `classes`, codes (n_rows,), and `class_shares`, those of the table
    base: type[MethodOptions] = GroupingOptions

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.options is not None and set(self.about) != set(self.takes):
            raise TypeError(f"about of {self.name} tells of {sorted(self.about)}; give each of {sorted(self.takes)}")

    def check(self, given: Mapping[str, Any]) -> None:
        """Refuse unknown options, and values beyond the limits and alternatives of annotations."""
        if unknown := next((name for name in given if name not in self.takes), None):
            allowed = ", ".join((*self.takes, "block_rows"))
            raise ValueError(f"{self.name} has no option {unknown!r}; allowed are {allowed}")
        if misfit := self.misfit(given):
            raise ValueError(misfit)

    @property
    def takes(self) -> tuple[str, ...]:
        """Names of the options that `cluster` passes on."""
        parameters = self.parameters.values()
        return tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in OF_THE_RUN)


@dataclass(frozen=True)
class Guarantee:
    """What a synthesizer guarantees of means and covariances, before decoding."""

    # The smallest part of the table of which it holds: mean and covariance of each `group` exactly; or what `expect`
    # says of each `stratum`, or of the `table` alone
    scope: Scope
    # `expect(grouped, spread)`: the expected moments, and their standard errors, of parts of a table together.
    # `grouped` holds the moments of each part in its groups, `spread` what `needs_spread` asks for.
    expect: Callable[[Sequence[GroupedMoments], Sequence[GroupSpread] | None], Expected]
    needs_spread: bool = False  # Whether the standard errors follow from the covariance of each group


@dataclass(frozen=True)
class Noise:
    """Noise of one covariance for a stratum, for small strata together, or for the table."""

    # `factor(options, grouped, drawn)`: the argument `factor` of the synthesizer, from their moments in their groups
    factor: Callable[[Any, GroupedMoments, NoiseScatter | None], FloatArray]
    # `draws_first(options)`: whether that depends on the draws, which are then counted (`drawn`) in a pass of their own
    draws_first: Callable[[Any], bool] = lambda options: False


@dataclass(frozen=True, kw_only=True)
class Replacing(Method):
    """A method that replaces records."""

    keeps: str  # What is kept, and what is not protected
    about: Mapping[str, str] = field(default_factory=dict)  # What each parameter is for that is no sequence of records
    # `conditions_on(options, unchanged)`: which of the unchanged columns the records are drawn given
    conditions_on: Callable[[Any, Sequence[str]], tuple[str, ...]] = lambda options, unchanged: ()
    # `follows(options, features)`: arguments that follow from the table
    follows: Callable[[Any, Features], dict[str, Any]] = lambda options, features: {}

    @property
    def required(self) -> tuple[str, ...]:
        """Those of the parameters in `about` that have no default."""
        return tuple(name for name, p in self.parameters.items() if name in self.about and p.default is p.empty)

    def check(self, given: Mapping[str, Any]) -> None:
        """Refuse unknown and missing arguments, and values beyond the limits and alternatives of annotations."""
        names = set(given)
        known = ", ".join(self.about) or "none"
        if unknown := sorted(names - set(self.about)):
            raise JobError(f"{self.name} has no option {', '.join(unknown)}; its options: {known}")
        if missing := [name for name in self.required if name not in names]:
            raise JobError(f"{self.name} needs the option {', '.join(missing)}; its options: {known}")
        if misfit := self.misfit(given):
            raise JobError(misfit)


@dataclass(frozen=True, kw_only=True)
class Synthesizer(Replacing):
    """A method that replaces the records of groups.

    `function(features, order, starts, *, rng, **options) -> new features`; without `rng` where it draws nothing.
    """

    guarantee: Callable[[Any], Guarantee] | None  # `guarantee(options)`: what is guaranteed of means and covariances
    noise: Noise | None = None  # The noise whose `factor` it takes; None for none
    identical_rows: bool = False  # Whether all synthesized values of a group become equal
    # `averages(options)`: whether it makes sense of groups of one record each, the mean of the means of several groups
    # that the record is in
    averages: Callable[[Any], bool] = lambda options: False
    takes: Literal["features", "codes"] = "features"  # `features`, float64, or `codes` of categories, int64
    link: ClassVar[Link] = "group"  # What a released record stands for
    grouped: ClassVar[bool] = False  # Whether groups span partitions; those of `cluster` do not
    row_for_row: ClassVar[bool] = True  # Whether a released row is of the group of the original row of its number

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.guarantee is None and self.options is not None:
            raise TypeError(f"{self.name} can be asked for in jobs and guarantees nothing; give its guarantee")

    @property
    def draws(self) -> bool:
        """Whether it draws."""
        return "rng" in self.parameters

    @property
    def redraws(self) -> bool:
        """Whether copies of a release are independent draws."""
        return self.draws and not self.identical_rows and self.options is not None


@dataclass(frozen=True, kw_only=True)
class Masker(Replacing):
    """A method that masks a whole table, without groups made beforehand. `function(**options) -> steps`."""

    # `expect(moments, **options) -> Expected`, the moments to expect and their standard errors, or None with options
    # for which they are not known. None for methods that promise nothing of the covariance.
    expect: Callable[..., Expected | None] | None
    # What a released record stands for: the `person` whose record it was made from, a `group` of k or more, or neither
    link: Link
    base: type[MethodOptions] = ScopedMaskOptions
    exact_columns: bool = False  # Whether the values of each column are kept exactly with the default options
    # Whether what it releases is of the columns' own scale, such as ends of intervals, and means nothing of scores: a
    # job that says nothing then masks values as they are
    own_scale: bool = False
    identical_rows: bool = False  # Whether rows of a part are equal in groups of k or more, by default options
    # Whether it forms groups of the option k or more, which span the parts, and keeps the means and the covariance of
    # each exactly; the steps then leave the number of each row's group as the last channel
    grouped: bool = False
    # Whether the columns of the option `categories` come out as scores with mean and variance of the indicators, to be
    # cut into categories, and not as indicators
    returns_category_scores: bool = False
    redraws: bool = False  # Whether copies of a release are independent draws, from its step that is `redrawn` on
    # Whether it permutes along axes, so that `expect` takes the largest size of a record along each, as `largest`
    permutes: bool = False
    decodings: Mapping[str, str] = field(default_factory=dict)  # Ways to decode that mean nothing after it, and why
    # `check_columns(options, columns)`: what is wrong with options that name columns, as the job declares them; or None
    check_columns: Callable[[Any, Mapping[str, Column]], str | None] = nothing
    # `ends(options)`: how the ends of intervals are released, which come out as all low, then all high ones; or None
    ends: Callable[[Any], Ends | None] = nothing
    # Records that its steps count and learn, dataclasses of arrays, numbers and each other, which lie on disk between
    # two steps; `Moments` is known
    learns: tuple[type, ...] = ()

    @property
    def row_for_row(self) -> bool:
        """Whether a released row is made from, and replaces, the original row of its number."""
        return self.link == "person"

    def steps(self, **options: Any) -> tuple[Any, ...]:
        """The steps for these options."""
        self.check(options)
        made: tuple[Any, ...] = self.function(**options)
        return made


def no_dummies(method: str, does: str) -> str:
    """Why categories cannot be released as probabilities after a mask."""
    return (
        f"decode.categories probabilities needs masked dummies between the categories, and mask.method {method} "
        f"{does}; take another mask, or categories calibrated"
    )


Kind = TypeVar("Kind", bound=Method)


def by_name(kind: type[Kind], modules: Iterable[ModuleType]) -> dict[str, Kind]:
    """The records of modules by name: each holds one as `METHOD`, or a family as `METHODS`."""
    records: dict[str, Kind] = {}
    for module in modules:
        for record in getattr(module, "METHODS", (getattr(module, "METHOD", None),)):
            if not isinstance(record, kind):
                raise TypeError(f"{module.__name__} ends with no METHOD = {kind.__name__}(...)")
            if record.name in records:
                raise TypeError(f"two methods are called {record.name}")
            records[record.name] = record
    return records


def in_jobs(records: Mapping[str, Method]) -> tuple[str, ...]:
    """Names of those that a job can ask for."""
    return tuple(name for name, record in records.items() if record.options is not None)


def union_of(records: Mapping[str, Method]) -> Any:
    """The options of any of the methods that a job can ask for, discriminated by `method`."""
    models = tuple(record.options for record in records.values() if record.options is not None)
    return Annotated[Union[models], Field(discriminator="method")]  # noqa: UP007
