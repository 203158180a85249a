"""The area under the ROC curve with DeLong's interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, combinations_with_replacement, product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit, logit, ndtri, stdtrit

from anonpipe.environment import one_thread
from anonpipe.errors import InputError
from anonpipe.evaluate.measurement import Audience, Figure, Measurement, Share
from anonpipe.evaluate.utility._measure import UtilityMeasure
from anonpipe.evaluate.utility._models import Basis
from anonpipe.evaluate.utility._tables import BothColumns, Encoded, TypedTables, encoded
from anonpipe.types import BoolArray, FloatArray, IntArray

_Z = float(ndtri(0.975))


def auc(positives: npt.ArrayLike, negatives: npt.ArrayLike) -> Share:
    """Area under the ROC curve of finite scores: the chance that a positive scores higher, ties counting half.

    The 95 % interval is symmetric on the logit scale. The variance is DeLong's; where it is 0 the interval is extended
    by 3 / n of the smaller group, the rule of three. DeLong, DeLong & Clarke-Pearson (1988), Biometrics 44:837-845; by
    ranks as in Sun & Xu (2014), IEEE Signal Processing Letters 21:1389-1393.
    """
    from scipy.stats import rankdata

    high, low = (np.asarray(scores, dtype=np.float64).ravel() for scores in (positives, negatives))
    if min(len(high), len(low)) == 0:
        raise InputError(f"{len(high)} positive and {len(low)} negative scores were given; give one or more of both")
    if not (np.isfinite(high).all() and np.isfinite(low).all()):
        raise InputError("scores are not finite; leave out the records without one")
    m, n = len(high), len(low)
    ranks = rankdata(np.concatenate([high, low]))
    above = (ranks[:m] - rankdata(high)) / n  # share of negatives below each positive
    below = 1.0 - (ranks[m:] - rankdata(low)) / m
    value = float(above.mean())
    variance = (float(above.var(ddof=1)) / m if m > 1 else 0.0) + (float(below.var(ddof=1)) / n if n > 1 else 0.0)
    if variance > 0 and 0 < value < 1:
        reach = _Z * math.sqrt(variance) / (value * (1 - value))
        ends = expit(logit(value) + reach * np.array([-1.0, 1.0]))
        return Share(value, float(ends[0]), float(ends[1]))
    reach = 3.0 / min(m, n)
    return Share(value, max(0.0, value - reach), min(1.0, value + reach))


# --- Logistic regression of two outcomes to its maximum, on an orthonormal basis of the design ------------------------
# scikit-learn and statsmodels were tried on this basis, with normal, heavy-tailed and separated tables of 400 to
# 100,000 records. For the samples that are measured nearly all of the time is that of the basis, in all libraries.
# scikit-learn (`newton-cholesky`) stops with probabilities that are off by up to 2e-6, and `lbfgs` by 0.7 for heavy
# tails; statsmodels agrees to 3e-10, takes a third longer or more, and warns at every step of a separated table.
# Neither tells quasi-separation, which a reader of the measure must know of.

_SETTLED = 1e-9  # Largest change of a probability in the last pass
_GROWING = 0.1  # A linear predictor that moves by this much while no probability does is on its way to infinity
_ROUNDING = 1e-13  # The likelihood of a record is known to about this
_SHORTEST = 1e-6  # Steps are not halved below this share
_MOST_PASSES = 100


class LogisticFit(NamedTuple):
    """Fitted probabilities."""

    probabilities: FloatArray  # Shape (n_rows,)
    rank: int  # Independent columns of the design, the constant included
    # Whether the likelihood has no maximum, as some records are distinguished without error. Coefficients then grow for
    # ever; the probabilities have limits all the same, 0 and 1 for these records, and are given to about 1e-9.
    separated: bool


def fit_logistic(design: FloatArray, ones: BoolArray) -> LogisticFit:
    """Maximise the likelihood by Newton's method with halved steps, without any penalty."""
    # Fitted probabilities depend only on the span of the columns: by an orthonormal basis of the first independent
    # ones (pivoted QR) the equations of a step are as well conditioned as the weights p (1 - p) allow.
    basis = Basis.of(design, centred=False).columns
    sign = np.where(ones, -1.0, 1.0)
    predictor = np.full(len(ones), np.log(ones.sum() / (~ones).sum()))
    chances = expit(predictor)
    loss = _loss(predictor, sign)
    for _ in range(_MOST_PASSES):
        gradient = basis.T @ (ones - chances)
        curvature = basis.T @ (basis * (chances * expit(-predictor))[:, None])
        try:
            step = cho_solve(cho_factor(curvature, check_finite=False), gradient, check_finite=False)
        except np.linalg.LinAlgError:
            step = np.linalg.lstsq(curvature, gradient, rcond=None)[0]
        move = basis @ step
        new = expit(predictor + move)
        if np.abs(new - chances).max() <= _SETTLED:
            return LogisticFit(new, basis.shape[1], bool(np.abs(move).max() > _GROWING))
        worst, part = loss + _ROUNDING * len(ones), 1.0
        while (loss := _loss(predictor + part * move, sign)) > worst and part > _SHORTEST:
            part /= 2
        predictor = predictor + part * move
        chances = expit(predictor)
    raise InputError(
        f"a logistic regression on {basis.shape[1]} columns has not converged in {_MOST_PASSES} passes; "
        "leave out interactions, or columns with extreme values"
    )


def _loss(predictor: FloatArray, sign: FloatArray) -> float:
    """Minus the log-likelihood."""
    return float(np.logaddexp(0.0, sign * predictor).sum())


# --- Main effects and interactions of the columns of two tables, as the columns of one regression ---------------------


def _column_codes(table: FloatArray, categories: Sequence[int]) -> list[FloatArray]:
    """For each column the numbers that stand for it: a z-score, or a dummy for each category but the commonest."""
    coded = []
    for place in range(table.shape[1]):
        column = table[:, place]
        if place in categories:
            values, counts = np.unique(column, return_counts=True)
            others = np.delete(values, counts.argmax())
            coded.append((column[:, None] == others).astype(np.float64))
        elif (column == column[0]).all():
            coded.append(np.zeros((len(column), 0)))
        else:
            centred = column / 2 - (column / 2).mean()  # Halves, so that the difference of two huge numbers is finite
            centred /= np.abs(centred).max()
            coded.append((centred / centred.std())[:, None])
    return coded


def _numbers_of(terms: Sequence[Sequence[int]], coded: Sequence[FloatArray]) -> int:
    """Columns that the terms come to."""
    return sum(int(np.prod([coded[column].shape[1] for column in term])) for term in terms)


def design(terms: Sequence[Sequence[int]], coded: Sequence[FloatArray]) -> FloatArray:
    """The constant, then of each term the products of its columns, in z-scores; 0 where constant."""
    out = np.empty((len(coded[0]), 1 + _numbers_of(terms, coded)), order="F")
    out[:, 0] = 1.0
    at = 1
    for term in terms:
        for factors in product(*(coded[column].T for column in term)):
            values = np.prod(factors, axis=0)
            values = values - values.mean()
            spread = values.std()
            out[:, at] = values / spread if spread > 0 else 0.0
            at += 1
    return out


# --- Propensity scores by logistic regression -------------------------------------------------------------------------


@dataclass(frozen=True)
class Propensity:
    """The propensity measure of a release."""

    # U_p: mean squared difference of the fitted probability and the share c of released records; 0 (nothing tells them
    # apart) to c (1 - c), 1/4 for tables of equal size
    value: float
    expected: float  # Of records drawn again from the original's law: (rank - 1) (1 - c)² c / N of N in all
    # value / expected, the pMSE ratio: about 1 for such records, 2 for a second sample of the population, 0 for a copy;
    # NaN where no column varies
    ratio: float
    rank: int  # Independent columns of the regression, the constant included
    separated: bool  # Whether some records are distinguished without error: `value` is then a limit


def propensity(
    old: FloatArray, new: FloatArray, terms: Sequence[Sequence[int]], *, categories: Sequence[int] = ()
) -> Propensity:
    """Propensity score measure: both tables are stacked, and which is which is regressed on the columns.

    `terms` are main effects and interactions of columns, `categories` those of which none has powers. There are fewer
    columns of the regression than records. Shapes: (n_rows, width) and (n_released, width), finite.

    Equation 11 takes 1/2 off the fitted probability, for tables of equal size; in general it is the share c of released
    records, with which it was first published. Without powers a column that differs in its spread only is not noticed.

    The likelihood has no penalty, and no maximum where records are distinguished without error; fitted probabilities
    still converge, and so does U_p. Dependent columns are left out, which changes no probability.

    Of two independent samples N·U_p is χ² / 4 with rank - 1 degrees of freedom if c = 1/2. A release made from the
    original differs from it by its own sampling error only, half of that variance: hence `expected`.
    """
    total, share = len(old) + len(new), len(new) / (len(old) + len(new))
    columns = design(terms, _column_codes(np.concatenate([old, new]), categories))
    fit = fit_logistic(columns, np.arange(total) >= len(old))
    value = float(np.mean((fit.probabilities - share) ** 2))
    expected = (fit.rank - 1) * (1 - share) ** 2 * share / total
    return Propensity(value, expected, value / expected if expected > 0 else float("nan"), fit.rank, fit.separated)


# --- Propensity scores by a classification tree -----------------------------------------------------------------------


@dataclass(frozen=True)
class TreePropensity:
    """The propensity measure with a tree."""

    value: float  # pMSE: as of `Propensity`, with the share of released records in a record's leaf
    expected: float  # Its mean with the labels permuted: what the tree finds where there is nothing to find
    ratio: float  # value / expected; about 1 where tables cannot be distinguished. NaN where no column varies.
    # low, high: ends of the 95 % interval of the ratio that the number of permutations leaves; `high` is infinite where
    # even no chance finding is possible
    low: float
    high: float
    leaves: int  # Of the tree


_LEAF, _MOST_LEAVES, _PERMUTATIONS = 20, 100, 10


def tree_propensity(old: FloatArray, new: FloatArray, *, rng: np.random.Generator) -> TreePropensity:
    """Propensity score mean squared error by CART, against its expectation by permutation.

    A tree has at most 100 leaves, the most useful splits first, of 20 records or more. Codes of categories will do: two
    splits take out any one. Shapes: (n_rows, width) and (n_released, width), finite.

    A tree finds gaps, repeated values and cut-off tails, and structure in noise; no formula says how much, so that its
    ratio is to the same tree on permuted labels, both judged on the records that they were grown on, as published. The
    expectation holds for two independent samples: a release made from these very records may have a ratio below 1.
    """
    from sklearn.tree import DecisionTreeClassifier

    # Places among the different values of a column: the same splits, and no precision lost to float32
    both = np.column_stack([np.unique(column, return_inverse=True)[1] for column in np.concatenate([old, new]).T])
    both = both.astype(np.float32)
    ones = np.arange(len(both)) >= len(old)
    share = len(new) / len(both)

    def grown(labels: BoolArray) -> tuple[float, int]:
        tree = DecisionTreeClassifier(
            min_samples_leaf=_LEAF, max_leaf_nodes=_MOST_LEAVES, random_state=int(rng.integers(2**31))
        ).fit(both, labels)
        places = tree.apply(both)
        counts = np.bincount(places)
        chances = np.bincount(places, weights=labels) / np.maximum(counts, 1)
        return float((counts * (chances - share) ** 2).sum() / len(both)), int(tree.get_n_leaves())

    value, leaves = grown(ones)
    chance = np.array([grown(rng.permutation(ones))[0] for _ in range(_PERMUTATIONS)])
    expected = float(chance.mean())
    if expected == 0:
        return TreePropensity(value, 0.0, float("nan"), float("nan"), float("nan"), leaves)
    reach = float(stdtrit(_PERMUTATIONS - 1, 0.975)) * float(chance.std(ddof=1)) / np.sqrt(_PERMUTATIONS)
    high = value / (expected - reach) if expected > reach else float("inf")
    return TreePropensity(value, expected, value / expected, value / (expected + reach), high, leaves)


# --- How well a boosted forest, trained on some records, tells the others of the release from those of the original ---

_LEAST_RECORDS = 20  # Of either table: half of them to train on, half to judge by
_TREES = 60  # Of at most 31 leaves each


def discriminator(
    old: FloatArray, new: FloatArray, *, rng: np.random.Generator, categories: Sequence[int] = (), paired: bool = False
) -> Share:
    """Area under the ROC curve of boosted trees on records that they have not seen: 0.5 is chance, 1 certainty.

    `categories` are places of the columns that are codes from 0 to 249. With `paired`, row i of the release replaces
    row i of the original, and both are in the same half: apart, a value that the release keeps would be learned as the
    original's and judged as the release's. DeLong's interval takes the judged records as independent. Below 0.5 is
    chance, or a value that is unique in either table. Shapes: (n_rows, width), (n_released, width), 20 rows or more.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    train, judge = _halves(len(old), rng)
    other_train, other_judge = (train, judge) if paired else _halves(len(new), rng)
    codes, seed = list(categories) or None, int(rng.integers(2**31))
    model = HistGradientBoostingClassifier(
        max_iter=_TREES, early_stopping=False, categorical_features=codes, random_state=seed
    )
    labels = np.repeat([0, 1], [len(train), len(other_train)])
    # On cores that are in use its threads, idle most of the time on so few records, wait for one another and lose time.
    with one_thread():
        model.fit(np.concatenate([old[train], new[other_train]]), labels)
        return auc(model.decision_function(new[other_judge]), model.decision_function(old[judge]))


def _halves(rows: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    order = rng.permutation(rows)
    return np.sort(order[: rows // 2]), np.sort(order[rows // 2 :])


_MOST_PAIRS = 20  # Of numbers, those with the largest rank correlations
_LINES, _ON_LINES = 500, 500  # Lines through two records that are tried, and records that they are tried on
_NEAR = 8  # One in so many records lies near the line that is taken
_LOST, _CERTAIN = 0.05, 3.0  # Share of records that left a line, beyond so many standard errors, that is named


class _Relation(NamedTuple):
    """Of two numbers, the strip along a line in which an eighth of the original records lies, and their ratio."""

    x: BothColumns
    y: BothColumns
    slope: float
    low: float
    high: float

    def distances(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """How far records lie from the line, along y, shape (n_rows,)."""
        return y - self.slope * x

    def features(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """Distances from the line, and the ratio, NaN where it has none, shape (n_rows, 2)."""
        return np.column_stack([self.distances(x, y), np.divide(y, x, out=np.full(len(x), np.nan), where=x != 0)])

    def lost(self) -> float:
        """The share of the records that have left the strip, less what it may be by chance."""
        sides = self.distances(self.x.old, self.y.old), self.distances(self.x.new, self.y.new)
        inside = [(self.low <= side) & (side <= self.high) for side in sides]
        chance = _CERTAIN * math.sqrt(sum(1.0 / len(side) for side in sides) / _NEAR)
        return float(inside[0].mean() - inside[1].mean()) - chance


def relations(tables: TypedTables, rng: np.random.Generator) -> list[_Relation]:
    """The pairs of numbers that are most related, with their lines: sums, differences and changes of unit are such."""
    numbers = [each for each in tables.numbers if each.name not in tables.differences and len(np.unique(each.old)) > 2]
    if len(numbers) < 2:
        return []
    related = np.abs(np.corrcoef([np.unique(column.old, return_inverse=True)[1].reshape(-1) for column in numbers]))
    known = np.array([~np.isnan(column.old) for column in numbers])
    divisors = known & (np.array([column.old for column in numbers]) != 0)
    together = divisors @ known.T.astype(np.float64)  # 0 where filters of a survey exclude each other: without a ratio
    pairs = [pair for pair in combinations(range(len(numbers)), 2) if together[pair] >= 2 * _NEAR]
    most = sorted(pairs, key=lambda pair: -related[pair])[:_MOST_PAIRS]
    return [_relation(numbers[one], numbers[other], rng) for one, other in most]


def _relation(x: BothColumns, y: BothColumns, rng: np.random.Generator) -> _Relation:
    """The line through two records that an eighth of the others is nearest to, against pairs of numbers by chance."""
    # Least quantile of squares by elemental lines: Rousseeuw (1984), JASA 79:871-880, for an eighth in place of half.
    points = np.unique(np.column_stack([x.old, y.old])[~np.isnan(x.old + y.old)], axis=0)
    points = points[rng.permutation(len(points))[:_ON_LINES]]
    found = _Relation(x, y, 0.0, -math.inf, math.inf)
    for _ in range(2 if len(points) >= 2 * _NEAR else 0):  # of all records, and of those near the line found first
        off, width = found.distances(*points.T), found.high - found.low
        near = points[(off >= found.low - width) & (off <= found.high + width)]
        found = _best_line(points, near, found, rng)
    return found


def _best_line(points: FloatArray, through: FloatArray, so_far: _Relation, rng: np.random.Generator) -> _Relation:
    """The best of lines through two points of some, and of the line so far; of all points, shape (n, 2)."""
    run, rise = (through[rng.integers(len(through), size=_LINES)] - through[rng.integers(len(through), size=_LINES)]).T
    slopes = np.append(np.divide(rise, run, out=np.zeros(len(run)), where=run != 0), so_far.slope)
    low, width = _narrowest(points[:, 1] - slopes[:, None] * points[:, 0])
    by_chance = _narrowest(rng.permutation(points[:, 1]) - slopes[:, None] * points[:, 0])[1]
    best = int(np.divide(width, by_chance, out=np.ones(len(width)), where=(slopes != 0) & (by_chance > 0)).argmin())
    return so_far._replace(slope=float(slopes[best]), low=float(low[best]), high=float(low[best] + width[best]))


def _narrowest(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Begin and width of the shortest interval with one in `_NEAR` of the values, by row, shapes (n_lines,)."""
    ordered = np.sort(values, axis=1)
    inside = values.shape[1] // _NEAR
    widths = ordered[:, inside:] - ordered[:, :-inside]
    at = widths.argmin(axis=1)[:, None]
    return np.take_along_axis(ordered, at, axis=1)[:, 0], np.take_along_axis(widths, at, axis=1)[:, 0]


# --- Propensity by regression and tree, and the discriminator, on typed tables ----------------------------------------

MOST_RECORDS = 10_000  # Of either table, for the measures that train a classifier
_MOST_REGRESSION_TERMS = 200  # Columns of a regression with interactions; with more, it has main effects only
_RECORDS_A_TERM = 10  # Records of both tables that a column of the regression needs

_CODING = (
    "Nulls at the mean, with a column that tells them; all but the ten most frequent categories of a column are one."
)

_LOGISTIC = Figure(
    "propensity.logistic", "Propensity score by logistic regression (U_p)", "",
    "Oganian & Domingo-Ferrer (2017), eq. 11; Woo, Reiter, Oganian & Karr (2009)", Audience.SEVERAL,
    baseline_is="expected of records drawn again from the original",
)  # fmt: skip
_LOGISTIC_RATIO = replace(
    _LOGISTIC,
    key="propensity.logistic_ratio",
    title="Propensity score by logistic regression, over its expectation",
    source="Snoke, Raab, Nowok, Dibben & Slavkovic (2018), doi:10.1111/rssa.12358",
    baseline_is="records drawn again from the original; another sample of the population has 2",
)
_TREE = replace(
    _LOGISTIC_RATIO,
    key="propensity.tree",
    title="Propensity score by a classification tree (pMSE, CART)",
    baseline_is="the same tree with labels permuted",
)
_TREE_RATIO = replace(
    _TREE, key="propensity.tree_ratio", title="Propensity score by a classification tree, over its expectation"
)
_BOOSTED = Figure(
    "distinguishability",
    "Distinguishability of unseen records by boosted trees (AUC)", "",
    "Lopez-Paz & Oquab (2017), ICLR; interval: DeLong et al. (1988), Biometrics 44:837-845", Audience.SEVERAL,
    better="near baseline", baseline_is="chance",
    note="Trained on half of the records, judged on the other. Sees ratios and lines of related numbers, rounding and "
    f"repeated records too. {_CODING}",
)  # fmt: skip


def _classifiers(tables: TypedTables, rng: np.random.Generator) -> list[Measurement]:
    """Five figures of how well records of the two tables are distinguished, on at most 10,000 records of either."""
    # Of one or two columns, such a figure can be solved for a share or a mean of the original.
    part = tables.sample(MOST_RECORDS, rng)
    both, records = encoded(part), min(part.rows, part.released)
    columns = len(part.columns)
    range_note = "0 to 0.25 for tables of equal size."

    fit, note = _fitted(both)
    if fit and not np.isfinite(fit.ratio):
        note = f"No ratio: no column varies. {note}"
    value, expected, ratio = (fit.value, fit.expected, fit.ratio) if fit else (math.nan, None, math.nan)
    measurements = [
        _LOGISTIC.measured(value, records, baseline=expected, note=f"{range_note} {note}", columns=columns),
        _LOGISTIC_RATIO.measured(ratio, records, baseline=1.0, note=note, columns=columns),
    ]

    tree = tree_propensity(both.old, both.new, rng=rng)
    defined = math.isfinite(tree.ratio)
    note = f"{tree.leaves} leaves of {_LEAF} records or more; expectation of {_PERMUTATIONS} permutations."
    if not defined:
        note = f"No ratio: too few records for a leaf of {_LEAF}, or no column varies. {note}"
    interval = (tree.low, tree.high) if defined else (None, None)
    remark = f"The interval is that of the permutations. {note}"
    note = f"{range_note} {note} {_CODING}"
    measurements += [
        _TREE.measured(tree.value, records, baseline=tree.expected, note=note, columns=columns),
        _TREE_RATIO.measured(tree.ratio, records, interval=interval, baseline=1.0, note=remark, columns=columns),
    ]

    if records < _LEAST_RECORDS:
        note = f"Not defined: it takes {_LEAST_RECORDS} records of either table."
        return [*measurements, _BOOSTED.measured(math.nan, records, baseline=0.5, note=note, columns=columns)]
    related = relations(part, rng)
    old = np.hstack([both.old, *(each.features(each.x.old, each.y.old) for each in related)])
    new = np.hstack([both.new, *(each.features(each.x.new, each.y.new) for each in related)])
    area = discriminator(old, new, rng=rng, categories=both.categories, paired=part.paired)
    lost = ((each.lost(), each.x.name, each.y.name) for each in related)
    most, *names = max(lost, key=lambda each: each[0], default=(0.0, "", ""))
    worst = tuple(names) if most > _LOST else ()
    interval = (area.low, area.high)
    return [
        *measurements,
        _BOOSTED.measured(area.value, records, interval=interval, baseline=0.5, worst=worst, columns=columns),
    ]


def _fitted(both: Encoded) -> tuple[Propensity | None, str]:
    """The regression with the most interactions that the records allow, and what it holds."""
    width = both.old.shape[1]
    numbers = [place for place in range(width) if place not in both.categories]
    stacked = np.concatenate([both.old, both.new])
    coded = _column_codes(stacked, both.categories)
    mains = [(place,) for place in range(width)]
    pairs = combinations_with_replacement(range(width), 2)
    products = [pair for pair in pairs if pair[0] != pair[1] or pair[0] in numbers]
    of_numbers = [pair for pair in products if set(pair) <= set(numbers)]
    choices: list[tuple[Sequence[tuple[int, ...]], str]] = [
        ([*mains, *products], "Main effects, squares and products of two columns."),
        ([*mains, *of_numbers], "Main effects, squares and products of two numbers."),
        (mains, "Main effects only."),
    ]
    for terms, what in choices:
        wide = _numbers_of(terms, coded)
        if wide * _RECORDS_A_TERM > len(stacked) or (wide > _MOST_REGRESSION_TERMS and terms is not mains):
            continue
        try:
            fit = propensity(both.old, both.new, terms, categories=both.categories)
        except InputError:  # it does not settle
            continue
        separation = " Some records are distinguished without error." if fit.separated else ""
        return fit, f"{what}{separation} {_CODING}"
    return None, "Not defined: too few records for the columns, or the regression does not converge."


CLASSIFIERS = UtilityMeasure((_LOGISTIC, _LOGISTIC_RATIO, _TREE, _TREE_RATIO, _BOOSTED), _classifiers, draws=True)
