"""Groups of a table in parts by a mixture: the steps from the points to the number of each record's group.

The steps are those of `anonpipe.methods.mixture.gaussian_mixture`, over parts:
principal components of the numbers, a mixture chosen and fitted on a sample,
the most likely component of each record, and the moves that bring every group
to k records. What follows keeps the moments of every group exactly, whatever
mixture the groups are of: no pass over the whole table is spent on its last
digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from anonpipe.errors import InputError, JobError
from anonpipe.methods.masking._latent_categories import category_codes, choose_categories, sharpened, starts_of
from anonpipe.methods.masking._sample import Sample
from anonpipe.methods.mixture import (
    Components,
    LatentClasses,
    Mixture,
    Movable,
    assign,
    check_sizes,
    fit,
    movable,
    moves,
    needs,
    numbering,
    on_sample,
    over,
    principal_components,
    relabel,
    select,
)
from anonpipe.moments import Moments
from anonpipe.rng import generator
from anonpipe.types import FloatArray, IntArray

SAMPLE_ROWS = 40_000  # Records that the mixture, and the latent classes, are fitted to

CHOICE_ROWS = 4_000  # Of them those that number and shape of the components, and the first estimates, are found on

# Numbers of components tried, those of the paper, until `IDLE` in turn do not raise the BIC of their short runs
NUMBERS_TRIED = range(2, 11)

IDLE = 2

SHAPES_TRIED = ("full", "vev")  # Shapes tried where none is asked for

_OUTWARD = 2.0

TOLERANCE = 1e-5  # A pass over the sample that changes the log-likelihood by less than this part is the last


@dataclass(frozen=True, eq=False)
class View:
    """What the mixture sees of the features."""

    # rows, width: records and columns of the table
    rows: int
    width: int
    numbers: IntArray  # The columns that are not of categories, shape (n_numbers,)
    inverse: FloatArray  # 1 over the standard deviation of each, 0 for a constant
    components: Components  # Principal components of the numbers in these units
    key: str  # Of the sample, hexadecimal

    @property
    def spread(self) -> FloatArray:
        """Standard deviation along each component, 1 where there is none, shape (n_components,)."""
        variances = self.components.variances
        return np.sqrt(np.where(variances > 0, variances, 1.0))

    def scores(self, features: FloatArray) -> FloatArray:
        """Coordinates of records along the components, of variance 1, shape (n_rows, n_components)."""
        scaled = features[:, self.numbers] * self.inverse
        return np.ascontiguousarray(self.components.scores(scaled) / self.spread)


@dataclass(frozen=True, eq=False)
class Counts:
    """Records of each group, shape (n_groups,)."""

    counts: IntArray

    def merge(self, other: Self) -> Self:
        """Both parts together."""
        return type(self)(self.counts + other.counts)


@dataclass(frozen=True, eq=False)
class Groups:
    """All that is known of the groups, and of the categories."""

    view: View  # What the mixture sees
    mixture: Mixture  # Fitted
    classes: LatentClasses | None  # The latent classes of the categories; None without categories
    # Records whose most likely component it is, shape (n_components,); None until they are counted
    counts: IntArray | None = None
    # sources, rows, targets: part, place and new component of each record that is moved
    sources: IntArray | None = None
    rows: IntArray | None = None
    targets: IntArray | None = None

    @property
    def sizes(self) -> IntArray:
        """Records of each group after the moves, shape (n_groups,)."""
        counts = np.zeros(0, dtype=np.int64) if self.counts is None else self.counts
        return counts[counts > 0]


def find_view(
    moments: Moments,
    *,
    params: object,
    rng: np.random.Generator,
    k: int,
    categories: tuple[tuple[int, ...], ...],
    variance_share: float,
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
        raise InputError(f"a table of {moments.n} records has no group of {k}; give a smaller k, or merge strata")
    scatter = moments.scatter[np.ix_(numbers, numbers)]
    spread = np.sqrt(np.diag(scatter) / moments.n)
    # A constant column may come out with a variance of rounding.
    varies = spread > 1e-12 * np.abs(moments.mean[numbers])
    inverse = np.divide(1.0, spread, out=np.zeros_like(spread), where=varies)
    scaled = Moments(moments.n, moments.mean[numbers] * inverse, scatter * np.outer(inverse, inverse))
    components = principal_components(scaled, variance_share)
    return View(moments.n, width, numbers, inverse, components, rng.bytes(16).hex())


def score_rows(part: FloatArray, *, params: View, rng: np.random.Generator) -> FloatArray:
    """The scores of each record, zeros in the channels that they do not fill, so that all strata have as many.

    Of equal values each stands at random in what they take up (`spread`): a
    normal component that found them at one place would have any likelihood,
    and groups would be made of values, as few records as k each.
    """
    out, apart = np.zeros((len(part), len(params.numbers))), np.array(part)
    for column in params.numbers:
        apart[:, column] = spread(part[:, column], rng)
    scores = params.scores(apart)
    out[:, : scores.shape[1]] = scores
    return out


def spread(column: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Values of which those that several records have lie evenly between halfway to the next lower and higher ones.

    Beyond the outermost value twice as far outward as inward: its records stand for a tail.

    Examples
    --------
    >>> spread(np.array([0.0, 0.0, 1.0, 3.0, 3.0]), np.random.default_rng(1)).round(2).tolist()
    [0.01, 0.45, 1.0, 4.79, 2.62]
    """
    values, at, counts = np.unique(column, return_inverse=True, return_counts=True)
    if len(values) < 2:
        return column
    half = np.diff(values) / 2.0
    below, above = np.append(_OUTWARD * half[0], half), np.append(half, _OUTWARD * half[-1])
    draw = rng.uniform(-1.0, 1.0, len(column))
    moved = draw * np.where(draw < 0.0, below[at], above[at])
    return np.asarray(np.where(counts[at] > 1, column + moved, column))


def one_a_number(given: int, params: View) -> int:
    """Channels of `score_rows`."""
    return len(params.numbers)


def _scores(part: FloatArray, view: View) -> FloatArray:
    return np.ascontiguousarray(part[:, : len(view.components.variances)])


def draw_sample(
    part: FloatArray, *, params: View, place: int, original: FloatArray, categories: tuple[tuple[int, ...], ...]
) -> Sample:
    """A part's records that may be in the sample."""
    rng = generator(bytes.fromhex(params.key), "sample", place)
    return Sample.of(_scores(part, params), category_codes(original, categories), SAMPLE_ROWS, params.rows, rng)


def choose(
    sample: Sample,
    *,
    params: View,
    rng: np.random.Generator,
    k: int,
    categories: tuple[tuple[int, ...], ...],
    components: int | None,
    shape: str | None,
    tails: str,
    classes: int | None,
    iterations: int,
) -> Groups:
    """A mixture whose number and shape of components are chosen by BIC, and the latent classes in the same way.

    Chosen on the first records of the sample, fitted to all of it. A number of
    components that is asked for and too large for the records is lowered to
    what they hold.
    """
    most = max(1, (params.rows - 1) // k)
    few = sample.first(CHOICE_ROWS)
    chosen = select(
        few.scores,
        k,
        params.rows,
        numbers=NUMBERS_TRIED if components is None else [min(components, most)],
        shapes=SHAPES_TRIED if shape is None else [shape],
        degrees=math.inf if tails == "gaussian" else None,
        idle=IDLE,
    )
    larger = len(sample.keys) > len(few.keys)
    mixture = chosen.mixture
    if larger:
        bounds = on_sample(chosen.constraints, len(sample.keys), params.rows)
        mixture = fit(over([sample.scores]), mixture, bounds, tolerance=TOLERANCE, iterations=iterations).mixture
    if not categories:
        return Groups(params, mixture, None)
    latent, keep = choose_categories(few.scores, few.codes, starts_of(categories), k, params.rows, classes)
    if larger:
        latent = sharpened(sample.scores, sample.codes, latent, keep)
    return Groups(params, mixture, latent)


def assign_rows(part: FloatArray, *, params: Groups, rng: np.random.Generator) -> FloatArray:
    """The scores, and the most likely component of each record."""
    labels = assign(_scores(part, params.view), params.mixture)
    return np.concatenate([part, labels[:, None].astype(np.float64)], axis=1)


def one_more(given: int, params: object) -> int:
    """One channel more: the label."""
    return given + 1


def count_repair(part: FloatArray, *, params: Groups, place: int, k: int) -> Counts | Movable:
    """First the records of each component; then, where some have too few, those that may move there."""
    labels = _labels(part)
    if params.counts is None:
        return Counts(np.bincount(labels, minlength=params.mixture.n_groups))
    return movable(_scores(part, params.view), labels, params.mixture, params.counts, k, place)


def repair(counted: Counts | Movable, *, params: Groups, rng: np.random.Generator, k: int) -> Groups:
    """The counts, and the moves once they are asked for."""
    if isinstance(counted, Counts):
        return replace(params, counts=counted.counts)
    assert params.counts is not None
    sources, rows, targets = moves(counted, params.counts, k)
    donors = _donors(counted, sources, rows)
    counts = params.counts + np.bincount(targets, minlength=len(params.counts))
    counts -= np.bincount(donors, minlength=len(params.counts))
    check_sizes(counts, k)
    return replace(params, counts=counts, sources=sources, rows=rows, targets=targets)


def _donors(found: Movable, sources: IntArray, rows: IntArray) -> IntArray:
    """The component that each moved record comes from."""
    whose = dict(zip(zip(found.sources.tolist(), found.rows.tolist(), strict=True), found.donors.tolist(), strict=True))
    moved = zip(sources.tolist(), rows.tolist(), strict=True)
    return np.array([whose[record] for record in moved], dtype=np.int64)


def repair_again(params: Groups, k: int) -> bool:
    """Whether records must move that have not."""
    return params.targets is None and params.counts is not None and bool(needs(params.counts, k)[0].any())


def group_rows(part: FloatArray, *, params: Groups, rng: np.random.Generator, place: int) -> FloatArray:
    """The scores, and the final group of each record, 0 to the number of groups less 1."""
    labels = _labels(part)
    if params.sources is not None and params.rows is not None and params.targets is not None:
        labels = relabel(labels, (params.sources, params.rows, params.targets), place)
    assert params.counts is not None
    final = numbering(params.counts)[labels].astype(np.float64)
    return np.concatenate([part[:, :-1], final[:, None]], axis=1)


def _labels(part: FloatArray) -> IntArray:
    return part[:, -1].astype(np.int64)


# What these steps leave on disk
RECORDS: tuple[type[Any], ...] = (Components, Counts, Groups, LatentClasses, Mixture, Movable, Sample, View)
