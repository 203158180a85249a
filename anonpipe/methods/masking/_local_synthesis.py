"""Groups of a table in parts by a mixture: the steps from the points to the number of each record's group."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field

from anonpipe.environment import one_thread
from anonpipe.errors import SMALLER_K_OF_MASK, InputError, JobError
from anonpipe.kernels.mixture import map_by_group
from anonpipe.methods import latent_classes as latent
from anonpipe.methods import mixture as mixtures
from anonpipe.methods.executor import Reduce, Rows, Step
from anonpipe.methods.masking._draws import Categories, DrawnSample, category_codes, dummies, fit_categories, starts_of
from anonpipe.methods.options import ScopedMaskOptions
from anonpipe.methods.record import Features, Masker
from anonpipe.moments import Expected, Moments, Summed
from anonpipe.rng import generator
from anonpipe.types import BoolArray, FloatArray, IntArray

SAMPLE_ROWS = 40_000  # Records that the mixture, and the latent classes, are fitted to
CHOICE_ROWS = 4_000  # Of them those that number and shape of the components, and the first estimates, are found on

# Numbers of components tried, those of the paper, until `_IDLE` in turn do not raise the BIC of their short runs
_NUMBERS_TRIED = range(2, 11)
_IDLE = 2
_MOST_COMPONENTS = 64  # On more records their number grows while the BIC rises, up to so many
_SHAPES_TRIED = ("full", "vev")  # Shapes tried where none is asked for

# Least records of a part of a component: so many times k, so many, and so many in the sample
_TIMES_K, _LEAST, _SAMPLED = 10, 400, 50
_COVARIANCES = 4e6  # Most entries in the covariances of all groups: parts are as large as that needs
_CLEARLY = 6.0  # Differences beyond those by chance, in roots of these: some 3 standard deviations

_OUTWARD = 2.0  # Reach of `spread` beyond the outermost values, in units of that inward


@dataclass(frozen=True, eq=False)
class View:
    """What the mixture sees of the features."""

    # rows, width: records and columns of the table
    rows: int
    width: int
    numbers: IntArray  # The columns that are not of categories, shape (n_numbers,)
    inverse: FloatArray  # 1 over the standard deviation of each, 0 for a constant
    components: mixtures.Components  # Principal components of the numbers in these units
    key: str  # Of the sample, hexadecimal

    def scores(self, features: FloatArray) -> FloatArray:
        """Coordinates of records along the components, of variance 1, shape (n_rows, n_components)."""
        scaled, variances = features[:, self.numbers] * self.inverse, self.components.variances
        spread = np.sqrt(np.where(variances > 0, variances, 1.0))
        return np.ascontiguousarray(self.components.scores(scaled) / spread)


@dataclass(frozen=True, eq=False)
class Divisions:
    """Trees that divide large components by categories: the first nodes are the components."""

    # Within a component covariances that differ by category are lost, and with them interactions in recipients' models.
    attributes: IntArray  # The attribute by which a node is divided, -1 for none, shape (n_nodes,)
    children: IntArray  # The node of each category, 0 for none, shape (n_nodes, n_categories)
    components: IntArray  # The component of each node, shape (n_nodes,)

    def leaves(self, labels: IntArray, original: FloatArray, categories: Categories) -> IntArray:
        """The leaf of records of these components."""
        nodes = labels
        while (by := self.attributes[nodes]).max(initial=-1) >= 0:
            nodes = nodes.copy()
            for at in np.unique(by[by >= 0]).tolist():
                here = by == at
                codes = category_codes(original[here], (categories[at],))[:, 0]
                nodes[here] = self.children[nodes[here], codes]
        return nodes

    def categories(self, attributes: int) -> IntArray:
        """The category in each attribute that all records of a node have, -1 for several, (n_nodes, n_attributes)."""
        found = np.full((len(self.attributes), attributes), -1)
        for node in np.flatnonzero(self.attributes >= 0).tolist():
            codes = np.flatnonzero(self.children[node])
            parts, first, many = np.unique(self.children[node, codes], return_index=True, return_counts=True)
            found[parts] = found[node]
            found[parts, self.attributes[node]] = np.where(many == 1, first, -1)
        return found


def divide(sample: DrawnSample, labels: IntArray, components: int, starts: IntArray, least: float) -> Divisions:
    """Divide components recursively by the attribute that covariances differ most by, into parts of `least` or more."""
    sizes, codes = np.diff(starts), sample.codes
    modes = np.array([np.bincount(each).argmax() for each in codes.T], dtype=np.int64)
    seen = np.ascontiguousarray(np.concatenate([sample.scores, codes == modes], axis=1))  # each column counts once
    attributes, owners = [-1] * components, list(range(components))
    children = [np.zeros(sizes.max(initial=1), dtype=np.int64) for _ in range(components)]
    rows = [np.flatnonzero(labels == component) for component in range(components)]
    for node, inside in enumerate(rows):  # grows
        found = _best_division(seen[inside], codes[inside], sizes, least)
        if found is None:
            continue
        attributes[node], parts = found
        children[node][: len(parts)] = len(rows) + parts
        own = parts[codes[inside, attributes[node]]]
        many = int(parts.max()) + 1
        rows += [inside[own == part] for part in range(many)]
        attributes, owners = attributes + [-1] * many, owners + [owners[node]] * many
        children += [np.zeros_like(children[0]) for _ in range(many)]
    return Divisions(np.array(attributes), np.array(children), np.array(owners))


def _best_division(seen: FloatArray, codes: IntArray, sizes: IntArray, least: float) -> tuple[int, IntArray] | None:
    """The attribute, and the part of each category; None where covariances clearly differ by none."""
    best, gain = None, 0.0
    for at, size in enumerate(sizes if len(seen) >= 2 * least else ()):
        parts = _parts(np.bincount(codes[:, at], minlength=size), least)
        if parts.any():
            others = np.delete(seen, seen.shape[1] - len(sizes) + at, axis=1)
            differences, chance = _differences(others, parts[codes[:, at]], len(sizes) - 1)
            if differences - chance > max(_CLEARLY * math.sqrt(chance), gain):
                best, gain = (at, parts), differences - chance
    return best


def _parts(counts: IntArray, least: float) -> IntArray:
    """The part of each category: its own with enough records; else that of all others, or of the largest category."""
    large = counts >= least
    if not large.any():
        return np.zeros(len(counts), dtype=np.int64)
    parts = np.cumsum(large) - 1
    others = large.sum() if counts[~large].sum() >= least else parts[counts.argmax()]
    return np.asarray(np.where(large, parts, others))


def _differences(seen: FloatArray, parts: IntArray, indicators: int) -> tuple[float, float]:
    """Sum of squared differences of the parts' covariances from the common ones, and what it is by chance.

    The last columns are `indicators`, whose variances follow from their means.
    """
    found = mixtures.group_statistics(seen, parts, int(parts.max()) + 1)
    common = found.scatters.sum(axis=0) / len(seen)
    spread = np.sqrt(np.diagonal(common))
    unit = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 1e-9)
    unit = np.outer(unit, unit)
    counted = np.ones_like(common)
    np.fill_diagonal(counted, np.arange(len(common)) < len(common) - indicators)
    apart = (found.scatters / found.counts[:, None, None] - common) * unit
    differences = found.counts @ np.einsum("gab,gab,ab->g", apart, apart, counted)
    # Of normal columns; n times the variance of a covariance is the product of the variances, plus its square.
    chance = (len(found.counts) - 1) * (counted * ((unit > 0.0) + np.square(common * unit))).sum()
    return float(differences), float(chance)


@dataclass(frozen=True, eq=False)
class ClassCounts(Summed):
    """Records of each node, shape (n_nodes,)."""

    counts: IntArray


@dataclass(frozen=True, eq=False)
class MixtureGroups:
    """All that is known of the groups, and of the categories."""

    view: View  # What the mixture sees
    mixture: mixtures.Mixture  # Fitted
    classes: latent.LatentClasses | None  # The latent classes of the categories; None without categories
    divisions: Divisions  # Of the components
    counts: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # Of nodes; empty until counted
    moved: mixtures.Moves | None = None  # The records that are moved to another component

    @property
    def sizes(self) -> IntArray:
        """Records of each group after the moves, shape (n_groups,)."""
        return self.counts[self.counts > 0]

    @property
    def of_components(self) -> IntArray:
        """Records of each component, shape (n_components,)."""
        return np.bincount(self.divisions.components, self.counts, self.mixture.n_groups).astype(np.int64)

    @property
    def known(self) -> IntArray:
        """Categories that all records of a group have, -1 for several, shape (n_groups, n_attributes)."""
        attributes = 0 if self.classes is None else len(self.classes.starts) - 1
        return self.divisions.categories(attributes)[self.counts > 0]

    def counted(self, counts: IntArray, whole: BoolArray) -> MixtureGroups:
        """With these counts of nodes, and some components undivided, shape (n_components,)."""
        nodes, components = self.divisions.components, len(whole)
        totals = np.bincount(nodes, counts, components).astype(np.int64)
        counts = np.where(whole[nodes], 0, counts)
        counts[:components] += np.where(whole, totals, 0)
        attributes = np.where(whole[nodes], -1, self.divisions.attributes)
        return replace(self, divisions=replace(self.divisions, attributes=attributes), counts=counts)


def _find_view(
    moments: Moments, *, rng: np.random.Generator, k: int, categories: Categories, variance_share: float
) -> View:
    """Principal components of the numbers, from the moments of all features."""
    width, coded = len(moments.mean), [column for columns in categories for column in columns]
    if len(set(coded)) != len(coded) or any(not 0 <= column < width for column in coded):
        raise JobError(
            f"categories name {len(coded)} of {width} columns; give numbers of columns that exist, each once"
        )
    numbers = np.setdiff1d(np.arange(width), coded)
    if len(numbers) == 0:
        raise JobError(
            "local_synthesis needs a column of numbers to form groups by, and all are categories; "
            "take another method, such as mdav with histogram"
        )
    if moments.n < k:
        raise InputError(
            f"a table of {moments.n} records has no group of {k}; merge strata, or take {SMALLER_K_OF_MASK}"
        )
    scatter = moments.scatter[np.ix_(numbers, numbers)]
    spread = np.sqrt(np.diag(scatter) / moments.n)
    # A constant column may come out with a variance of rounding.
    varies = spread > 1e-12 * np.abs(moments.mean[numbers])
    inverse = np.divide(1.0, spread, out=np.zeros_like(spread), where=varies)
    scaled = Moments(moments.n, moments.mean[numbers] * inverse, scatter * np.outer(inverse, inverse))
    components = mixtures.principal_components(scaled, variance_share)
    return View(moments.n, width, numbers, inverse, components, rng.bytes(16).hex())


def _score_rows(part: FloatArray, *, params: View, rng: np.random.Generator) -> FloatArray:
    """The scores of each record, zeros in the channels that they do not fill, so that all strata have as many."""
    # Equal values stand at random in what they take up (`spread`): a normal component of records at one place would
    # have any likelihood, and groups would be made of values, as few records as k each.
    out, untied = np.zeros((len(part), len(params.numbers))), np.array(part)
    for column in params.numbers:
        untied[:, column] = spread(part[:, column], rng)
    scores = params.scores(untied)
    out[:, : scores.shape[1]] = scores
    return out


def spread(column: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Values of which those that several records have lie evenly between halfway to the next lower and higher ones."""
    # Beyond the outermost value twice as far outward as inward: its records stand for a tail.
    values, at, counts = np.unique(column, return_inverse=True, return_counts=True)
    if len(values) < 2:
        return column
    half = np.diff(values) / 2.0
    below, above = np.append(_OUTWARD * half[0], half), np.append(half, _OUTWARD * half[-1])
    draw = rng.uniform(-1.0, 1.0, len(column))
    moved = draw * np.where(draw < 0.0, below[at], above[at])
    return np.asarray(np.where(counts[at] > 1, column + moved, column))


def _scores(part: FloatArray, view: View) -> FloatArray:
    return np.ascontiguousarray(part[:, : len(view.components.variances)])


def _draw_sample(
    part: FloatArray, *, params: View, place: int, original: FloatArray, categories: Categories
) -> DrawnSample:
    """A part's records that may be in the sample."""
    rng = generator(bytes.fromhex(params.key), "sample", place)
    return DrawnSample.of(_scores(part, params), category_codes(original, categories), SAMPLE_ROWS, params.rows, rng)


def choose(
    sample: DrawnSample,
    *,
    params: View,
    k: int,
    categories: Categories,
    components: int | None,
    shape: str | None,
    tails: str,
    classes: int | None,
    iterations: int,
) -> MixtureGroups:
    """The mixture, by BIC on the first records of the sample and fitted to all of it, and latent classes likewise."""
    few = sample.first(CHOICE_ROWS)
    least = max(_TIMES_K * k, _LEAST, params.rows * params.width**2 / _COVARIANCES)
    # Both at once: strata are few, and one takes longer than the others
    with one_thread(), ThreadPoolExecutor(1) as thread:
        given = few, sample, starts_of(categories), k, params.rows, classes
        of_categories = thread.submit(fit_categories, *given) if categories else None
        chosen = mixtures.select(
            few.scores,
            k,
            params.rows,
            numbers=_NUMBERS_TRIED if components is None else [min(components, max(1, (params.rows - 1) // k))],
            shapes=_SHAPES_TRIED if shape is None else [shape],
            degrees=math.inf if tails == "gaussian" else None,
            idle=_IDLE,
        )
        mixture = chosen.mixture
        if len(sample.keys) > len(few.keys):
            if components is None:
                most = min(_MOST_COMPONENTS, params.rows / least)
                chosen = mixtures.grow(sample.scores, chosen, k, params.rows, most=most)
            bounds = mixtures.on_sample(chosen.constraints, len(sample.keys), params.rows)
            mixture = mixtures.fit(
                sample.scores, chosen.mixture, bounds, tolerance=mixtures.TOLERANCE, iterations=iterations
            ).mixture
    share, labels = len(sample.keys) / params.rows, mixtures.assign(sample.scores, mixture)
    divisions = divide(sample, labels, mixture.n_groups, starts_of(categories), max(least * share, _SAMPLED))
    return MixtureGroups(params, mixture, None if of_categories is None else of_categories.result(), divisions)


def _assign_rows(part: FloatArray, *, params: MixtureGroups) -> FloatArray:
    """The scores, and the most likely component of each record."""
    labels = mixtures.assign(_scores(part, params.view), params.mixture)
    return np.concatenate([part, labels[:, None].astype(np.float64)], axis=1)


def _count_repair(
    part: FloatArray, *, params: MixtureGroups, place: int, original: FloatArray, k: int, categories: Categories
) -> ClassCounts | mixtures.Movable:
    """First the records of each node; then, where components have too few, those that may move there."""
    labels = _labels(part)
    if not len(params.counts):
        leaves = params.divisions.leaves(labels, original, categories)
        return ClassCounts(np.bincount(leaves, minlength=len(params.divisions.attributes)))
    return mixtures.movable(_scores(part, params.view), labels, params.mixture, params.of_components, k, place)


def _repair(counted: ClassCounts | mixtures.Movable, *, params: MixtureGroups, k: int) -> MixtureGroups:
    """The counts, and the moves once they are asked for; components that records leave or come to are undivided."""
    components = params.mixture.n_groups
    if isinstance(counted, ClassCounts):
        few = (counted.counts > 0) & (counted.counts < k)
        return params.counted(counted.counts, np.bincount(params.divisions.components, few, components) > 0)
    moved = mixtures.moves(counted, params.of_components, k)
    came, left = (np.bincount(each, minlength=components) for each in (moved.targets, moved.donors))
    whole = params.counted(params.counts, came + left > 0)
    counts = whole.counts.copy()
    counts[:components] += came - left
    mixtures.check_sizes(counts, k)
    return replace(whole, counts=counts, moved=moved)


def _repair_again(params: MixtureGroups, k: int) -> bool:
    """Whether records must move that have not."""
    return params.moved is None and bool(mixtures.needs(params.of_components, k)[0].any())


def group_rows(
    part: FloatArray, *, params: MixtureGroups, place: int, original: FloatArray, categories: Categories
) -> FloatArray:
    """The scores, and the final group of each record, 0 to the number of groups less 1."""
    labels = _labels(part)
    if params.moved is not None:
        labels = params.moved.applied(labels, place)
    leaves = params.divisions.leaves(labels, original, categories)
    final = mixtures.numbering(params.counts)[leaves].astype(np.float64)
    return np.concatenate([part[:, :-1], final[:, None]], axis=1)


def _labels(part: FloatArray) -> IntArray:
    return part[:, -1].astype(np.int64)


# --- Records drawn again group by group, the groups being those of a mixture; groups span the parts of the table ------

# Part of a normal draw that is added to each drawn category, so that a group's draws vary wherever its records do
_BLUR = 0.1
_AT_ONCE = 16_384  # Rows whose categories are blurred at once: arrays of all take hundreds of MiB


@dataclass(frozen=True, eq=False)
class RecordsAndDraws(Summed):
    """Statistics of the records of each group, and of the draws for them."""

    records: mixtures.GroupStatistics
    draws: mixtures.GroupStatistics

    @classmethod
    def of(cls, records: FloatArray, draws: FloatArray, labels: IntArray, groups: int | None = None) -> Self:
        """Count a part; `groups` as many as its largest label asks for, if not given."""
        many = int(labels.max(initial=-1)) + 1 if groups is None else groups
        features = np.ascontiguousarray(records)
        return cls(mixtures.group_statistics(features, labels, many), mixtures.group_statistics(draws, labels, many))

    def grown(self, groups: int) -> Self:
        """The same with more groups, which have no records here."""
        return type(self)(self.records.grown(groups), self.draws.grown(groups))


@dataclass(frozen=True, eq=False)
class Drawing:
    """How to draw."""

    view: View  # What the latent classes see of the numbers
    classes: latent.LatentClasses | None  # Of the categories; None without categories
    known: IntArray  # See `MixtureGroups.known`
    records: mixtures.GroupStatistics  # Statistics of the groups that are to be kept
    maps: mixtures.AffineMaps  # From the present draws to these


class LocalSynthesisOptions(ScopedMaskOptions):
    """The records of every group of a mixture replaced by draws with exactly the group's means and covariance.

    Groups of k or more, and of more records than feature columns, are few and
    large and span partitions; strata have mixtures of their own. `components`
    (null: by BIC 2 to 10, up to 64 of more than 4,000 records), their `shape` (null: full or vev by BIC) and `tails`
    (t: for outliers) say which mixture; `variance_share` below 1 fits it to so many principal components of the
    numbers; `classes` are the latent classes of the categories (null: by BIC);
    `iterations` are the most passes over the sample for the fit. Components of many records are divided by categories.
    """

    method: Literal["local_synthesis"]
    scope: Literal["stratum"] = "stratum"
    components: int | None = Field(default=None, ge=1)
    shape: Literal["spherical", "diagonal", "tied", "eev", "vev", "full"] | None = None
    tails: Literal["gaussian", "t"] = "gaussian"
    variance_share: float = Field(default=1.0, gt=0, le=1)
    classes: int | None = Field(default=None, ge=1)
    iterations: int = Field(default=50, ge=1)


def local_synthesis(
    *,
    k: Annotated[int, Field(ge=1)],
    categories: Categories = (),
    components: Annotated[int | None, Field(ge=1)] = None,
    shape: Annotated[Literal["spherical", "diagonal", "tied", "eev", "vev", "full"] | None, Field()] = None,
    tails: Literal["gaussian", "t"] = "gaussian",
    variance_share: Annotated[float, Field(gt=0, le=1)] = 1.0,
    classes: Annotated[int | None, Field(ge=1)] = None,
    iterations: Annotated[int, Field(ge=1)] = 50,
) -> tuple[Step, ...]:
    """Steps that draw the records of every group of a mixture again, with exactly the group's means and covariance.

    A mixture of normal or t components, whose weights do not fall below k / n, is fitted to the numbers; each record
    goes to its most likely component, and the cheapest ones move to components under k. The numbers of a group are
    drawn from the normal law, whatever the tails, the categories given the new numbers by latent classes; then an
    affine map a group gives numbers and dummies of categories together the mean and the covariance of the group's
    records, whatever the `variance_share`.

    Where covariances differ by category, components are divided by it, recursively, while parts have 400 records,
    10 k and 50 of the sample: the paper's groups grow with the table, and what differs within them is lost.

    The authors use the latent classes as they are; what categories have to do with each other and with the numbers is
    then right as far as the model is. The map that follows here makes it exactly right, before decoding, and changes
    little where the model fits: draws stay near -1 and +1.

    Mixture and latent classes are fitted to a random sample of 40,000 records, or to all if they are fewer; number and
    shape come from 4,000 of them, and first groups from 2,000, as these take memory by their square. Then the number
    of components grows by half while the BIC of the whole sample rises, with 400 records each and 10 k: of few records
    the BIC favours fewer. Every record is assigned, and every group's moments are those of all its records. What the
    sample costs: of a made table of 400,000 records of eight numbers 99 % go to the component that a fit to all of them
    would have given; the log-density of new records is 0.007 a record lower (that of the choice on 4,000: 0.088), in a
    ninth of the time.
    """
    numbers: dict[str, Any] = {"k": k, "components": components, "classes": classes, "iterations": iterations}
    view = partial(_find_view, k=k, categories=categories, variance_share=variance_share)
    sample = partial(_draw_sample, categories=categories)
    choice = partial(choose, categories=categories, shape=shape, tails=tails, **numbers)
    count = partial(_count_repair, k=k, categories=categories)
    groups: tuple[Step, ...] = (
        Reduce("moments", Moments.of, view),
        Rows("scores", _score_rows, channels=lambda given, params: len(params.numbers)),
        Reduce("mixture", sample, choice, costly=True),
        Rows("components", _assign_rows, channels=lambda given, params: given + 1),
        Reduce("sizes", count, partial(_repair, k=k), partial(_repair_again, k=k)),
        Rows("groups", partial(group_rows, categories=categories)),
    )
    draws: tuple[Step, ...] = (
        Rows("draw", _draw_normal, channels=lambda given, params: params.view.width + 1, redrawn=True),
        Reduce("group moments", _count_both, _first_maps),
        Rows("synthesize", partial(_synthesize, categories=categories)),
        Reduce("moments of draws", _count_draws, _last_maps),
        Rows("settle", settle),
        # Where the first correction was a large one its rounding shows; the second is next to nothing.
        Reduce("moments once more", _count_draws, _last_maps),
        Rows("settle once more", settle),
    )
    return (*groups, *draws)


def _draw_normal(part: FloatArray, *, params: MixtureGroups, rng: np.random.Generator) -> FloatArray:
    """A normal draw for each feature column, and the label after them."""
    return np.concatenate([rng.standard_normal((len(part), params.view.width)), part[:, -1:]], axis=1)


def _apart(part: FloatArray) -> tuple[FloatArray, IntArray]:
    """Draws, and labels."""
    return np.ascontiguousarray(part[:, :-1]), _labels(part)


def _count_both(part: FloatArray, *, params: MixtureGroups, original: FloatArray) -> RecordsAndDraws:
    """Statistics of the groups' records and of their draws."""
    draws, labels = _apart(part)
    return RecordsAndDraws.of(original[:, : params.view.width], draws, labels, len(params.sizes))


def _first_maps(counted: RecordsAndDraws, *, params: MixtureGroups) -> Drawing:
    """The maps that make normal records of the draws."""
    maps = mixtures.affine_maps(counted.records, counted.draws)
    return Drawing(params.view, params.classes, params.known, counted.records, maps)


def _mapped(part: FloatArray, maps: mixtures.AffineMaps) -> tuple[FloatArray, IntArray]:
    draws, labels = _apart(part)
    out = np.empty_like(draws)
    map_by_group(draws, labels, maps.origins, maps.matrices, maps.targets, out)
    return out, labels


def _synthesize(part: FloatArray, *, params: Drawing, rng: np.random.Generator, categories: Categories) -> FloatArray:
    """Normal records with the moments of their group; their categories drawn given their numbers."""
    made, labels = _mapped(part, params.maps)
    if params.classes is not None:
        codes = latent.draw_categories(params.view.scores(made), params.classes, params.known[labels], rng=rng)
        coded = [column for columns in categories for column in columns]
        normal, targets = made[:, coded], params.maps.targets[:, coded]
        dummies(codes, categories, made)
        for low in range(0, len(made), _AT_ONCE):
            rows = slice(low, low + _AT_ONCE)
            blurred = made[rows, coded] + _BLUR * (normal[rows] - targets[labels[rows]])
            narrow = params.maps.narrow[labels[rows]][:, None]
            made[rows, coded] = np.where(narrow, normal[rows], blurred)  # normal draws have the moments already
    return np.concatenate([made, part[:, -1:]], axis=1)


def _count_draws(part: FloatArray, *, params: Drawing) -> mixtures.GroupStatistics:
    """Statistics of the groups' new records."""
    return mixtures.group_statistics(*_apart(part), len(params.records.counts))


def _last_maps(draws: mixtures.GroupStatistics, *, params: Drawing) -> Drawing:
    """The maps that take away what categories, and rounding, have changed in the moments."""
    return replace(params, maps=mixtures.correcting_maps(params.records, draws))


def settle(part: FloatArray, *, params: Drawing) -> FloatArray:
    """The features of the new records, and the label after them."""
    return np.concatenate([_mapped(part, params.maps)[0], part[:, -1:]], axis=1)


def _of_table(options: LocalSynthesisOptions, features: Features) -> dict[str, Any]:
    """The job's k and its categories."""
    # Groups of fewer than two records more than columns: exact moments keep draws in the span of the records, so that
    # part of such a record gives away the rest.
    return {"k": max(features.k, features.width + 2), "categories": features.categories}


def _without_numbers(options: LocalSynthesisOptions, features: Features) -> str | None:
    """Why categories alone cannot be masked so."""
    if len({column for columns in features.categories for column in columns}) < features.width:
        return None
    return (
        "local_synthesis needs a column of numbers to form groups by, and all masked columns are categories; take "
        "mask.method spectral_swap, or give whole numbers kind: integer"
    )


METHOD = Masker(
    function=local_synthesis,
    options=LocalSynthesisOptions,
    published="local synthesis in the groups of a mixture (hybrid data)",
    reference="Oganian & Domingo-Ferrer (2017), Transactions on Data Privacy 10, sections 3, 5 and 6",
    cost="time n · c · w² for each of up to `iterations` passes, c components of w numbers, and seconds for "
    "the choice on a sample; memory: one part three times, and 2,000² numbers",
    about={
        "k": "smallest size of a group; in a job its k, or two more than its feature columns",
        "categories": "columns of each categorical attribute, in -1 and +1; none by default, in a job all",
        "components": "number of components; by default that of the largest BIC, 2 to 10, or up to 64 of more than "
        "4,000 records",
        "shape": f"of their covariances: {', '.join(mixtures.SHAPES)}; by default full or vev, by BIC",
        "tails": "'gaussian' (default), or 't': components whose degrees of freedom are estimated",
        "variance_share": "of the numbers, that the principal components keep which groups are formed by; 1 by "
        "default, less for many columns",
        "classes": "number of latent classes of the categories; by default that of the largest BIC up to 16",
        "iterations": "most passes over its sample for the mixture, 50 by default",
    },
    redraws=True,
    keeps="means and covariance of every group exact, and so those of the table; groups of k or more, few and "
    "large; synthetic records; shapes that are not normal inside a group are lost",
    expect=lambda moments, **options: Expected.exactly(moments.covariance),
    link="group",
    grouped=True,
    learns=(
        mixtures.Components,
        ClassCounts,
        MixtureGroups,
        Divisions,
        latent.LatentClasses,
        mixtures.Mixture,
        mixtures.Movable,
        mixtures.Moves,
        DrawnSample,
        View,
        mixtures.AffineMaps,
        RecordsAndDraws,
        Drawing,
        mixtures.GroupStatistics,
    ),
    follows=_of_table,
    refuses=_without_numbers,
)
