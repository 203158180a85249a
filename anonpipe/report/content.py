"""What a report holds: the schema of `report.json`, from which the page is drawn.

There are two versions. The `internal` one, for the data steward, holds everything that was measured. The `external` one
is built from what recipients may know: fields that only the steward may see are empty there, and `Report` refuses an
external report in which one of them is filled.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

FORMAT = "anonpipe-report-1"  # Changes when a reader of `report.json` has to

Audience = Literal["internal", "external"]


def _of_today(given: Any) -> Any:
    """An audience or the name of a measure as this version calls it; reports of earlier ones are read, too."""
    return {"releasable": "external", "membership.auc": "membership_auc"}.get(str(given), given)


Treatment = Literal[
    "synthetic", "unchanged", "number of the unit", "number of the copy", "end of an interval", "recoded",
    "probability of a category", "as probabilities", "not released", "replicate weight", "",
]  # fmt: skip

Outcome = Literal["passed", "failed", "not checked", "no limit set"]


class Part(BaseModel):
    """A part of a report: nobody changes it, and it has no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class CheckLine(Part):
    """A check of the verdict: what was measured, the limit, and the bytes it was measured on."""

    key: str = ""  # Stable between versions; reports of earlier ones have none
    name: str
    outcome: Outcome
    measured: str
    limit: str
    on: str
    mandatory: bool
    doubt: str = ""  # Why a figure that passed is uncertain, with its estimate


class Dial(Part):
    """One of the four figures at the head of a report, and the limit that it is held against."""

    key: str
    title: str
    shown: str  # The estimate with its unit
    sentence: str  # What it means
    estimate: float | None = None  # None where it was not evaluated, or recipients may not know it
    upper: float | None = None  # Upper end of its 95 % interval; None where there is none
    limit: float | None = None
    outcome: Outcome = "not checked"


class ColumnLine(Part):
    """A column: what it is and what was done with it."""

    name: str
    kind: str  # Empty for those that the input does not have
    treatment: Treatment
    limits: str
    identifies: bool = False  # Whether it names persons
    transform: str = ""  # Empty where there is none to speak of, and in reports of earlier versions


class RuleLine(Part):
    """A rule between columns: how many synthetic rows broke it before they were repaired, and how many written ones."""

    rule: str
    repaired: int
    broken: int


class UnitsPart(Part):
    """Units that are released whole, with their rows; None of the original for recipients, or where not defined."""

    column: str  # Holds their numbers
    sizes: tuple[tuple[int, int | None, int], ...]  # A number of rows; units that have so many originally, and released
    # By column, originally and released: correlation of a row with the next one; share of the variance between units;
    # correlation of differences from the unit's mean with the next ones
    columns: tuple[tuple[str, tuple[float | None, ...]], ...]
    # For the steward the columns that are not released, and whether each names persons
    unreleased: tuple[tuple[str, bool], ...] = ()
    linked: bool = False  # Measures are of rows, which were linked into units after the mask

    @property
    def line(self) -> str:
        """The released units in a line."""
        sizes = [(rows, units) for rows, _, units in self.sizes if units]
        units, ends = sum(units for _, units in sizes), " to ".join(dict.fromkeys(str(sizes[at][0]) for at in (0, -1)))
        return f"{units:,} of {ends} rows each, under new numbers in {self.column!r}"

    def without_original(self) -> UnitsPart:
        """What recipients may know, who can compute it."""
        sizes = tuple((rows, None, released) for rows, _, released in self.sizes if released)
        columns = tuple(
            (name, tuple(each if at % 2 else None for at, each in enumerate(figures))) for name, figures in self.columns
        )
        return self.model_copy(update={"sizes": sizes, "columns": columns, "unreleased": ()})


class MethodLine(Part):
    """A method of the run: where it is published, what it keeps, and how it was set."""

    step: str
    name: str
    published: str
    reference: str
    keeps: str = Field(validation_alias=AliasChoices("keeps", "promise"))
    options: tuple[tuple[str, str], ...]


class SizeLine(Part):
    """Groups of a range of sizes; a number under k is given as text."""

    smallest: int
    largest: int
    groups: int | str


class Picture(Part):
    """A column before and after."""

    name: str
    kind: str
    treatment: Treatment  # Empty of two tables: nobody knows what was done with it
    # Of the bins of numbers and dates (days since 1970-01-01); None for an open end. Empty for categories.
    edges: tuple[float | None, ...] = ()
    labels: tuple[str, ...] = ()  # Of categories; empty for numbers
    # original, released: share of the records with a value in each bin or category, 0 to 1; of all with `of_all_rows`
    original: tuple[float, ...]
    released: tuple[float, ...]
    nulls_original: float | None = None  # Null share; None where it is not reported
    nulls_released: float | None = None
    note: str = ""  # What is not drawn
    of_all_rows: bool = False  # Of all records, also those without a value; else of a sample of those with one


class Panel(Part):
    """Survival curves of all records, or of a group; see `anonpipe.evaluate.utility.SurvivalPanel`."""

    column: str
    group: str
    times: tuple[float, ...]
    original: tuple[float, ...]
    released: tuple[float, ...]
    records: int


class SurvivalPart(Part):
    """Survival curves before and after, of one time and status; `name` is empty for those of the columns' roles.

    With competing events these are cumulative incidences.
    """

    name: str
    time: str
    status: str
    panels: tuple[Panel, ...]
    left_out: int = 0
    competing: bool = False


class Correlations(Part):
    """Correlations of every pair of variables; the original's for the steward only. None: not defined."""

    names: tuple[str, ...]
    original: tuple[tuple[float | None, ...], ...] | None
    released: tuple[tuple[float | None, ...], ...]


class NumberLine(Part):
    """A column of numbers or dates (days since 1970-01-01) in both tables; None: not defined."""

    name: str
    date: bool
    mean: float | None
    mean_released: float | None
    sd: float | None
    sd_released: float | None
    nulls: float
    nulls_released: float


class ShareLine(Part):
    """A category in both tables, as a share of all rows."""

    column: str
    category: str
    original: float
    released: float


class PairLine(Part):
    """A correlation in both tables."""

    first: str
    second: str
    original: float
    released: float


class Compared(Part):
    """Both tables side by side, of all records: for the steward only."""

    numbers: tuple[NumberLine, ...]  # Means, standard deviations and shares of nulls
    shares: tuple[ShareLine, ...]  # The commonest categories of each column, none of fewer than k original records
    pairs: tuple[PairLine, ...]  # Correlations that changed most, the largest change first, of numbers and these
    pairs_compared: int  # How many correlations there are
    left_out: tuple[str, ...] = ()  # Columns of too many categories to be measured, released unchanged
    held_out: int = 0  # Rows of the input that are in neither table
    categories: dict[str, int] = {}  # Of each column in `shares` the categories that k original records or more hold


class CurveLine(Part):
    """A figure that is a line, and its reference."""

    title: str
    x_title: str
    y_title: str
    x: tuple[float | None, ...]
    y: tuple[float | None, ...]
    baseline: tuple[float | None, ...] = ()


class MeasureLine(Part):
    """A measure of risk or utility; see `anonpipe.evaluate.measurement.Measurement`, whose fields these are."""

    name: Annotated[str, BeforeValidator(_of_today)]
    title: str
    value: float | None
    unit: str
    better: Literal["lower", "higher", "near baseline"]
    source: str
    records: int
    of: int
    low: float | None = None
    high: float | None = None
    baseline: float | None = None
    baseline_is: str = ""
    note: str = ""
    parts: tuple[tuple[str, float | None], ...] = ()
    curves: tuple[CurveLine, ...] = ()
    disclosive: bool = False


class Interval(Part):
    """A coefficient, the ends of its 95 % interval, and p of the test that it is 0."""

    value: float | None
    low: float | None
    high: float | None
    p: float | None


class Coefficient(Part):
    """A coefficient of an analysis before (for the steward only) and after; None: it has none there."""

    name: str
    original: Interval | None
    released: Interval | None
    # Variance between the copies of the release over the mean of their own, b / u; None of one copy, where nobody knows
    added: float | None = None


class AnalysisPart(Part):
    """An analysis of the recipients, fitted to the release and (for the steward) to the original.

    `shares` are those of `anonpipe.evaluate.utility.CoefficientShares`, over all coefficients but the intercept; None
    where there is nothing to share.
    """

    name: str
    model: str
    formula: str
    event: str | None
    subset: str | None
    weights: str | None = None
    others: dict[str, str] = {}  # Columns that it takes besides its formula, by what they are
    records: int
    of: int
    rows_original: int | None
    rows_released: int
    problem: str | None
    limits: tuple[tuple[str, float], ...]
    shares: tuple[tuple[str, float | None], ...]
    coefficients: tuple[Coefficient, ...]
    copies: int = 1  # Of the release; the coefficients are those of the one that is worst


class Unchecked(Part):
    """What was not checked, and why."""

    what: str
    why: str


class FileLine(Part):
    """A released file."""

    name: str
    rows: int
    bytes: int
    sha256: str


class Report(Part):
    """A whole report."""

    format: Literal["anonpipe-report-1"] = "anonpipe-report-1"
    of: Literal["a run", "two tables"] = "a run"
    trial: bool = False  # Whether nothing was to be published
    audience: Annotated[Audience, BeforeValidator(_of_today)]
    created: str  # UTC
    anonpipe: str  # Version of the program
    # passed, headline, summary: the verdict, in words
    passed: bool
    headline: str
    summary: tuple[str, ...]
    k: int  # Smallest group
    k_of_units: bool = False
    rows: int  # Released, in all copies
    copies: int = 1
    strata: tuple[str, ...]
    partitions: int
    # source, output, version: where the data came from and went to; for the steward only
    source: str | None = None
    output: str | None = None
    version: str | None = None
    job: str | None = None  # `Job.digest` of the job, likewise; None in reports of earlier versions
    methods: tuple[MethodLine, ...]
    columns: tuple[ColumnLine, ...]
    rules: tuple[RuleLine, ...] = ()  # Empty without rules, and in reports of earlier versions
    units: UnitsPart | None = None  # Where units are released whole
    guarantees: tuple[str, ...] = Field(validation_alias=AliasChoices("guarantees", "promises"))
    not_guaranteed: tuple[str, ...] = Field(validation_alias=AliasChoices("not_guaranteed", "limits_of_promise"))
    checks: tuple[CheckLine, ...]
    dials: tuple[Dial, ...] = ()  # Empty in reports of earlier versions
    group_sizes: tuple[SizeLine, ...] = ()  # Empty where a mask forms no groups
    pictures: tuple[Picture, ...] = ()
    correlations: Correlations | None = None
    pictured: int = 0  # Records that pictures and correlations were measured on; 0 for none
    survival: tuple[SurvivalPart, ...] = ()  # Survival curves before and after; empty in reports of earlier versions
    # Figures of both tables, of all records; for the steward only, and None in reports of earlier versions
    compared: Compared | None = None
    utility: tuple[MeasureLine, ...] = ()
    risk: tuple[MeasureLine, ...] = ()
    analyses: tuple[AnalysisPart, ...] = ()
    not_checked: tuple[Unchecked, ...] = ()  # What was not
    files: tuple[FileLine, ...] = ()  # What was released; empty where nothing was
    warnings: tuple[str, ...] = ()  # For the steward only
    notes: tuple[str, ...] = ()  # For the steward only
    remedies: tuple[str, ...] = ()  # What to do about failed checks; for the steward only

    @model_validator(mode="after")
    def _nothing_disclosed(self) -> Report:
        if self.audience == "internal":
            return self
        for_the_steward = ("source", "output", "version", "job", "warnings", "notes", "remedies")
        empty = {name: getattr(self, name) for name in for_the_steward} | {
            "a disclosive measure": [figure.name for figure in (*self.utility, *self.risk) if figure.disclosive],
            "figures of the original": self.compared is not None,
            "original correlations": self.correlations and self.correlations.original,
            "rows_original": [one.name for one in self.analyses if one.rows_original is not None],
            "original coefficients": [c.name for one in self.analyses for c in one.coefficients if c.original],
            "the overlap of intervals": [one.name for one in self.analyses if "overlap" in dict(one.shares)],
            "columns that are not released": [c.name for c in self.columns if c.treatment == "not released"],
            "units of the original": self.units and self.units != self.units.without_original(),
            "declared limits": [c.name for c in self.columns if c.limits],
            "counts before suppression": [p.name for p in self.pictures if p.of_all_rows],
            "a closed end": [p.name for p in self.pictures if p.edges and {p.edges[0], p.edges[-1]} != {None}],
        }
        if filled := [name for name, content in empty.items() if content]:
            raise ValueError(f"an external report may not hold {', '.join(filled)}; please report this")
        return self
