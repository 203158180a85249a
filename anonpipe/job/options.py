"""What each method can be told: one model a method, told apart by its name.

The models of the grouping methods hold what the pipeline adds to every
method (blocks, refinement, distances) and the method's own options, under
the names that `anonpipe.methods.grouping.cluster` knows.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

# In the JSON schema only the default method may go unnamed, so that every set of options fits one method.
_METHOD_NAMED = ConfigDict(frozen=True, extra="forbid", json_schema_extra={"required": ["method"]})


class Options(BaseModel):
    """Options that nobody changes and that refuse unknown names."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _quick_for_true(value: Any) -> Any:
    return "quick" if value is True else value


Refine = Annotated[Literal[False, "quick", "normal", "thorough"], BeforeValidator(_quick_for_true)]
"""True and quick are the same job: they must draw the same noise."""


class Grouping(Options):
    """What every grouping method can be told.

    The method runs inside blocks of near records, `block_rows` at the most
    (null: in the whole partition at once).
    `refine` is the effort of the local search that follows (true is quick).
    `distance`: differences in standard deviations (`z_score`), or in parts of
    the column's declared bounds with 0/1 for equal and unequal categories
    (`range`). `response_weight` is the share that the survival time has in
    distances.
    """

    uses_classes: ClassVar[bool] = False

    block_rows: int | None = Field(default=2_000, ge=10)
    refine: Refine = "quick"
    distance: Literal["z_score", "range"] = "z_score"
    response_weight: float | None = Field(default=None, gt=0, lt=1)

    @property
    def effort(self) -> Literal["quick", "normal", "thorough"] | None:
        """How far the local search goes; None for none."""
        return self.refine or None

    @property
    def own(self) -> dict[str, Any]:
        """The method's own options."""
        return self.model_dump(exclude={"method", *Grouping.model_fields})


class Mdav(Grouping):
    """Maximum distance to average vector."""

    method: Literal["mdav"] = "mdav"


class Kmeans(Grouping):
    """Weighted k-means with small clusters filled up (Gal 2014, Algorithm 2, steps 2a to 2c).

    As published (`refine: false`) it fills nearly every cluster to exactly k
    from far away and loses about twice what `mdav` loses; the local search
    that follows by default brings it level.
    """

    model_config = _METHOD_NAMED
    method: Literal["kmeans"] = "kmeans"
    block_rows: int | None = Field(default=5_000, ge=10)
    iterations: int = Field(default=10, ge=1)
    response_weight: float | None = Field(default=0.5, gt=0, lt=1)


class Published(Grouping):
    """Published methods without options of their own; `anonpipe methods NAME` tells of each."""

    model_config = _METHOD_NAMED
    method: Literal[
        "mdav_generic",
        "mdav_1",
        "mdav_2",
        "md",
        "cbfs",
        "diameter_fixed",
        "pairwise_systematic",
        "tfrp_1",
        "tfrp_2",
        "dba_1",
        "dba_2",
        "optimal_univariate",
        "k_ward",
        "mu_approx",
        "mst",
        "mst_d",
        "condensation",
    ]


class Halving(Grouping):
    """Methods that halve the records again and again: fast enough for a whole partition at once."""

    model_config = _METHOD_NAMED
    method: Literal["kd_tree", "rhs", "spectral_rhs"]
    block_rows: int | None = Field(default=None, ge=10)


class VMdav(Grouping):
    """MDAV with groups that grow to up to 2k-1 records where near ones are at hand."""

    model_config = _METHOD_NAMED
    method: Literal["v_mdav"]
    gamma: float = Field(default=0.2, ge=0)


class Mhm(Grouping):
    """The best cut of the records put in an order by another heuristic."""

    model_config = _METHOD_NAMED
    method: Literal["mhm"]
    order: Literal["npn", "md", "mdav", "cbfs"] = "mdav"


class FuzzyCMeans(Grouping):
    """Fuzzy c-means, run with fewer and softer clusters until all have k records."""

    model_config = _METHOD_NAMED
    method: Literal["fuzzy_c_means"]
    fuzziness: float = Field(default=1.1, gt=1)
    step: float = Field(default=0.02, gt=0)
    shrink: float = Field(default=0.5, gt=0, lt=1)
    iterations: int = Field(default=20, ge=1)


class ByClass(Grouping):
    """What the methods share that mix the classes of role class; no local search follows, it would undo that."""

    uses_classes: ClassVar[bool] = True

    model_config = _METHOD_NAMED
    refine: Refine = False


class MstTClose(ByClass):
    """Minimum spanning tree, cut only where both parts stay `t`-close to the table's classes."""

    method: Literal["mst_t_close"]
    t: float = Field(default=0.25, gt=0, le=1)


class Crest(ByClass):
    """Class-restricted spanning tree (Li & Sarkar 2013): distance and class divergence weighed by `alpha`."""

    method: Literal["crest"]
    alpha: float = Field(default=0.5, ge=0, le=1)
    neighbours: int | None = Field(default=None, ge=2)


class CrestPartial(ByClass):
    """A plain spanning tree, cut where class divergence rises least for the length (their alpha of 1)."""

    method: Literal["crest_partial"]


class ClassMdav(ByClass):
    """MDAV whose groups weigh distance and class divergence by `alpha`."""

    method: Literal["class_mdav"]
    alpha: float = Field(default=0.5, ge=0, le=1)


class ClassKdTree(ByClass):
    """Median splits that weigh spread and class divergence by `alpha`."""

    method: Literal["class_kd_tree"]
    block_rows: int | None = Field(default=None, ge=10)
    alpha: float = Field(default=0.5, ge=0, le=1)


class Centroid(Options):
    """Every record of a group becomes the group's mean (categories: one shared category)."""

    model_config = _METHOD_NAMED
    method: Literal["centroid"] = "centroid"


class Gaussian(Options):
    """Normal records with the group's mean and scatter, exactly or on average; the same method as `pca`."""

    model_config = _METHOD_NAMED
    method: Literal["gaussian"] = "gaussian"
    moments: Literal["exact", "expected"] = "exact"


class Pca(Options):
    """Independent normal principal components per group (Gal 2014, Algorithm 3); the same method as `gaussian`."""

    model_config = _METHOD_NAMED
    method: Literal["pca"] = "pca"
    moments: Literal["exact", "expected"] = "exact"


class RMicrohybrid(Options):
    """Hybrid records: what the columns that are released unchanged explain stays, the rest of each group is rotated.

    Means, covariances, and covariances with the unchanged columns stay exact
    in every group. `rule` is the smallest k that is accepted: `argus` asks for
    2 w + u + 1, w and u being the columns of points of the masked and of the
    unchanged columns (`anonpipe plan` tells them), `rank` for u + 2. A record
    that alone in its group has a category of an unchanged column is explained
    whole and released as it is, whatever the rule: gates.share_as_they_were
    counts them, and strata.by of that column prevents them.
    """

    model_config = _METHOD_NAMED
    method: Literal["r_microhybrid"] = "r_microhybrid"
    rule: Literal["argus", "rank"] = "argus"


class MicroPerturbation(Options):
    """Group means plus noise of one covariance (Li & Sarkar 2013, eq. 11).

    `noise_scope`: one covariance a `stratum`, so that means and covariances
    are unbiased (or exact) inside every stratum; strata of few records beyond
    their groups (under 30, or twice the columns of points) share one. Or one
    of the whole `table`, which is right for the table and biased inside strata.
    """

    method: Literal["micro_perturbation"] = "micro_perturbation"
    form: Literal["independent", "centred", "published", "exact"] = "independent"
    noise_scope: Literal["table", "stratum"] = "stratum"


Cluster = Annotated[
    Mdav
    | Kmeans
    | Published
    | Halving
    | VMdav
    | Mhm
    | FuzzyCMeans
    | MstTClose
    | Crest
    | CrestPartial
    | ClassMdav
    | ClassKdTree,
    Field(discriminator="method"),
]
Synthesize = Annotated[Centroid | Gaussian | Pca | RMicrohybrid | MicroPerturbation, Field(discriminator="method")]


class Masking(Options):
    """What every mask can be told that learns from the table.

    `scope`: each `stratum` is masked as a table of its own, so that what the
    masked columns have to do with those of strata.by stays; or the `table` as
    one, whatever the strata. Relations with unchanged columns that are not in
    strata.by are lost either way, but for `kept` of data_shuffle.
    """

    scope: Literal["stratum", "table"] = "stratum"


class Noise(Masking):
    """Normal noise of `amount` times the data's variance, and the records shrunk so that the covariance stays."""

    model_config = _METHOD_NAMED
    method: Literal["noise"]
    amount: float = Field(default=0.15, gt=0, allow_inf_nan=False)
    form: Literal["expected", "centred", "exact"] = "expected"
    basis: Literal["spectral", "columns"] = "spectral"


class DataShuffle(Masking):
    """Every masked column keeps its values, averaged over k or more neighbours by rank, in another order.

    Values that k or more records hold stay as they are; others are released
    as means of k to 2k - 1 neighbours, or as the nearest common value.

    `kept` names columns that are released unchanged and that the order is
    drawn given: what the masked columns have to do with them stays on
    average. Relations to unchanged columns that are not named are lost.
    """

    model_config = _METHOD_NAMED
    method: Literal["data_shuffle"]
    kept: tuple[str, ...] = ()


class SpectralSwap(Masking):
    """Every principal component permuted by itself."""

    model_config = _METHOD_NAMED
    method: Literal["spectral_swap"]
    basis: Literal["spectral", "columns"] = "spectral"


class Synthesis(Masking):
    """Every principal component drawn anew."""

    model_config = _METHOD_NAMED
    method: Literal["synthesis"]
    basis: Literal["spectral", "columns"] = "spectral"
    draw: Literal["normal", "quantiles"] = "normal"


class Suppression(Masking):
    """Principal components of at most `share` of the variance, and cells far `outside`, put at the mean."""

    model_config = _METHOD_NAMED
    method: Literal["suppression"]
    basis: Literal["spectral", "columns"] = "spectral"
    share: float = Field(default=0.05, ge=0, lt=1)
    outside: float | None = Field(default=None, gt=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _something(self) -> Suppression:
        if self.share == 0 and self.outside is None:
            raise ValueError("share 0 without outside suppresses nothing; give one of them")
        return self


class SequentialRegression(Masking):
    """Each masked column drawn from its regression on those before it, logistic for categories and nulls."""

    model_config = _METHOD_NAMED
    method: Literal["sequential_regression"]
    rounds: int = Field(default=1, ge=1)
    parameters: Literal["estimated", "drawn"] = "estimated"
    penalty: float = Field(default=1e-3, gt=0, allow_inf_nan=False)


class LocalSynthesis(Options):
    """The records of every group of a mixture drawn anew, with exactly the group's means and covariance.

    Groups of k or more, few and large, span partitions; strata have mixtures
    of their own. `components` (null: 2 to 10 by BIC), their `shape` (null: full
    or vev by BIC) and `tails` (t: for outliers) say which mixture;
    `variance_share` below 1 fits it to so many principal components of the
    numbers; `classes` are the latent classes of the categories (null: by BIC);
    `iterations` are the most passes over the sample for the fit.
    """

    model_config = _METHOD_NAMED
    method: Literal["local_synthesis"]
    scope: Literal["stratum"] = "stratum"
    components: int | None = Field(default=None, ge=1)
    shape: Literal["spherical", "diagonal", "tied", "eev", "vev", "full"] | None = None
    tails: Literal["gaussian", "t"] = "gaussian"
    variance_share: float = Field(default=1.0, gt=0, le=1)
    classes: int | None = Field(default=None, ge=1)
    iterations: int = Field(default=50, ge=1)


class Generalize(Options):
    """The middle of the interval that at least k records of a partition share, in all masked columns.

    `steps` widens the intervals of numbers and dates, named, to multiples of
    a step in the column's unit (days for dates), counted from `origin` (0, or
    1970-01-01, unless given). Without it middles are made of true values.
    `release`: `midpoint` alone, or the `interval` too, as two more columns
    NAME_from and NAME_to beside each masked number and date, ends included.
    The ends of all columns then need steps, wider than the column's own:
    others would be true values of persons.
    """

    model_config = _METHOD_NAMED
    method: Literal["generalize"]
    release: Literal["midpoint", "interval"] = "midpoint"
    cuts: Literal["relaxed", "strict"] = "relaxed"
    steps: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]] | None = None
    origin: dict[str, Annotated[float, Field(allow_inf_nan=False)]] | None = None

    @model_validator(mode="after")
    def _origins_have_steps(self) -> Generalize:
        if idle := set(self.origin or {}) - set(self.steps or {}):
            raise ValueError(f"origin is given for {', '.join(sorted(idle))} without steps; give both")
        return self


Mask = Annotated[
    Noise | DataShuffle | SpectralSwap | Synthesis | Suppression | SequentialRegression | LocalSynthesis | Generalize,
    Field(discriminator="method"),
]


def names_of(union: Any) -> tuple[str, ...]:
    """The methods of `Cluster`, `Synthesize` or `Mask`.

    Examples
    --------
    >>> names_of(Synthesize)
    ('centroid', 'gaussian', 'pca', 'r_microhybrid', 'micro_perturbation')
    """
    members = union.__origin__.__args__
    return tuple(name for member in members for name in member.model_fields["method"].annotation.__args__)
