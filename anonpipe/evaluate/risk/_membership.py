"""Attack: does the distance to the release tell whether a person was in the original table."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, expit, fdtrc, logit, ndtr, ndtri  # `scipy.stats` takes a second to load

from anonpipe.errors import InputError
from anonpipe.evaluate.coding import Coding, spread
from anonpipe.evaluate.measurement import Audience, Figure, Measurement, Reason, Share, difference, wilson
from anonpipe.evaluate.risk._measure import (
    AttackData,
    EffectiveDimension,
    InferenceTask,
    Measured,
    RiskMeasure,
    require,
)
from anonpipe.evaluate.utility import auc
from anonpipe.types import FloatArray

FALSE_ALARMS = 0.01  # Share of persons outside that the careful attacker takes for members

_NOTE = (
    "The attacker knows a person's whole record and looks at its distance to the closest released one; "
    "a trained classifier, which is measured too, may do better."
)

_CARLINI = "Carlini et al. (2022), doi:10.1109/SP46214.2022.9833649"
_HOMER = "Homer et al. (2008), doi:10.1371/journal.pgen.1000167"

_AUC, _TRAINED, _TRACED, _COUNTED, _EXPECTED = (
    Figure(
        key,
        f"Membership inference by {by} (AUC)",
        "probability",
        source,
        Audience.ENOUGH,
        better="near baseline",
        baseline_is="guessing",
    )
    for key, by, source in (
        ("membership_auc", "distance", f"Yeom et al. (2018), doi:10.1109/CSF.2018.00027; {_CARLINI}"),
        ("membership.trained_auc", "a trained classifier", f"Shokri et al. (2017), doi:10.1109/SP.2017.41; {_CARLINI}"),
        ("membership.traced_auc", "means and covariances", f"{_HOMER}; Dwork et al. (2015), doi:10.1109/FOCS.2015.46"),
        ("membership.counted_auc", "counts of single values", f"{_HOMER}, of values in place of alleles"),
        ("membership.expected", "distance from the mean, expected", "Hotelling 1931; Tracy, Young & Mason 1992"),
    )
)
_ADVANTAGE = replace(
    _AUC,
    key="membership.advantage",
    title="Membership advantage: true less false positive rate",
    unit="share",
    better="lower",
    note=f"Threshold learnt on one half of the persons and used on the other, both ways. {_NOTE}",
)
_RECOGNISED = "Members recognised at a false positive rate of 1 %"
_AT_FEW_ALARMS = replace(_ADVANTAGE, key="membership.found_at_1_percent", title=_RECOGNISED, note=_NOTE)


def membership(members: npt.ArrayLike, held_out: npt.ArrayLike, *, of: int | None = None) -> tuple[Measurement, ...]:
    """Attack by distance to the closest released record.

    - `members`: that distance of records that the release was made from, shape (n,), in an order that means nothing.
    - `held_out`: that of records of the same population that it was not made from, shape (m,), likewise.
    - `of`: members that there are, of which these are a sample; None for all.

    The best threshold on the same persons would promise an advantage where there is none, so it is learnt on every
    second one of each side and used on the others, then the other way round (of equally good ones the smallest
    distance).
    """
    inside, outside = (np.asarray(side, dtype=np.float64) for side in (members, held_out))
    taken, alarms = 0, 0
    for half in (0, 1):
        threshold = _best_threshold(inside[half::2], outside[half::2])
        taken += int((inside[1 - half :: 2] <= threshold).sum())
        alarms += int((outside[1 - half :: 2] <= threshold).sum())
    n, m = len(inside), len(outside)
    sizes = min(n, m), n if of is None else of
    allowed = int(FALSE_ALARMS * m)  # others who may be accused
    hits = int((inside < np.sort(outside)[allowed]).sum()) if allowed else 0
    found, note = (hits / n, None) if allowed else (math.nan, f"Not defined: only {m} persons held out, 100 needed.")
    interval = wilson(hits, n) if allowed else (None, None)
    return (
        _distinguished(_AUC, auc(-inside, -outside), inside, outside, of, f"Against {m} persons held out. {_NOTE}"),
        _ADVANTAGE.measured(taken / n - alarms / m, *sizes, interval=difference((taken, n), (alarms, m)), baseline=0.0),
        _AT_FEW_ALARMS.measured(found, *sizes, interval=interval, baseline=FALSE_ALARMS, note=note),
    )


def _best_threshold(inside: FloatArray, outside: FloatArray) -> float:
    """Half-way from the distance with most members less others to the next; below all where none has a gain."""
    tried = np.unique(np.concatenate([inside, outside]))
    within, alarms = (np.searchsorted(np.sort(side), tried, side="right") for side in (inside, outside))
    # The difference of the shares in whole numbers, so that equal ones are equal.
    gain = within * len(outside) - alarms * len(inside)
    best = int(np.argmax(gain))
    if gain[best] <= 0:
        return -1.0
    return float(tried[best : best + 2].mean())


def _of_release(data: AttackData) -> Measured:
    held = require(data.held)
    of_all = data.released.nearest.distances[:, 0], held.nearest.distances[:, 0]
    attacks = [of_all] if data.mean_distances is None else [of_all, require(data.mean_distances)]
    found = [membership(members, others, of=data.rows) for members, others in attacks]
    by_distance = max(found, key=lambda figures: figures[0].value)
    guessed, others = data.guessed, (trained_membership, traced_membership, counted_membership)
    if isinstance(guessed, Reason):
        return by_distance
    return (*by_distance, *(attack(guessed, of=data.rows) for attack in others))


_FIGURES = (_AUC, _ADVANTAGE, _AT_FEW_ALARMS, _TRAINED, _TRACED, _COUNTED)
MEASURE = RiskMeasure("membership", "membership inference", _FIGURES, _of_release, counts_units=True)


# --- Attack: a classifier is trained to tell who was in the original table, by what the release says of each column ---
# A distance that is small among many like persons is large among few: who looks at one distance alone
# does not know where a person stands. Somebody who has records of both kinds learns it.

_FOLDS, _TREES = 5, 40
_WIDER = 1.5  # Square root of (1/5 + 1/4) / (1/5): how much wider intervals are as folds learn from each other


def signs(task: InferenceTask) -> FloatArray:
    """What the release shows of each record, as numbers for a classifier; shape (n_asked, 3 · n_columns).

    Of each column: how far its closest released record in all other columns is, by itself and as a share of the last of
    the close ones, and how far the closest one's value is from its own (in standard deviations of the released column;
    categories 0 or 1, and a null is as far as another category). Not where the record itself lies: by that two samples
    of one population differ, too.
    """
    columns, asked, found = [], np.concatenate([task.members, task.controls]), task.found
    for at in range(asked.shape[1]):
        own, guess = asked[:, at], found.values[:, at, 0]
        if at in task.categories:
            off = (own != guess).astype(np.float64)
        else:
            off = np.abs(own - guess) / (spread(task.released[:, at]) or 1.0)
        off = np.where(np.isnan(own) & np.isnan(guess), 0.0, np.where(np.isnan(off), 1.0, off))
        near, last = found.squared[:, at, 0], found.squared[:, at, -1]
        last = np.where(np.isfinite(last), last, near)
        columns += [np.sqrt(near), np.sqrt(np.divide(near, last, out=np.ones_like(near), where=last > 0)), off]
    return np.asarray(np.minimum(np.column_stack(columns), np.finfo(np.float32).max))


def trained_membership(task: InferenceTask, *, of: int | None = None, seed: int = 0) -> Measurement:
    """Tell members from held-out records by a forest, which has seen others of both.

    - `task`: five members and held-out records or more.
    - `of`, `seed`: members that there are, of which these are a sample; of the folds and the trees.

    Extremely randomised trees in five folds: each record is judged by trees that have not seen it, so that a release
    that tells nothing comes out at 0.5 but for chance. Both kinds weigh alike. Folds that learn from each other err
    together: DeLong's variance is taken 9/4 times, the correction for five folds.

    Nadeau & Bengio (2003), doi:10.1023/A:1024068626366 (folds); Geurts et al. (2006), doi:10.1007/s10994-006-6226-1
    (the trees).
    """
    from sklearn.ensemble import ExtraTreesClassifier
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    inside = np.repeat([True, False], [len(task.members), len(task.controls)])
    forest = ExtraTreesClassifier(_TREES, min_samples_leaf=5, class_weight="balanced", random_state=seed)
    folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=seed)
    scores = cross_val_predict(forest, signs(task), inside, cv=folds, method="predict_proba")[:, 1]
    note = (
        f"{len(task.members)} members and {len(task.controls)} held-out persons, in {_FOLDS} folds; each is judged by "
        "trees that have learnt from others. The attacker knows the whole record, and whether some others were in the "
        "table."
    )
    area = _widened(auc(scores[inside], scores[~inside]))
    return _distinguished(_TRAINED, area, task.members, task.controls, of, note)


def _distinguished(
    figure: Figure, area: Share, members: FloatArray, controls: FloatArray, of: int | None, note: str
) -> Measurement:
    """How well members are distinguished from held-out records."""
    sizes = min(len(members), len(controls)), len(members) if of is None else of
    return figure.measured(area.value, *sizes, interval=(area.low, area.high), baseline=0.5, note=note)


def _widened(area: Share) -> Share:
    """Ends of the interval, further away on the logit scale; as they are where that is infinite."""
    if min(area.value, area.low) <= 0 or max(area.value, area.high) >= 1:
        return area
    middle, ends = logit(area.value), logit(np.array([area.low, area.high]))
    low, high = expit(middle + _WIDER * (ends - middle))
    return Share(area.value, float(low), float(high))


# --- Attack: each person moves means and covariances of the table a little towards what that person has ---------------
# Who knows them in the population sees where those of the release lean. Columns count by pairs, of 40 columns 860.
_RIDGE = 0.05  # Added to the variances of components, in parts of their mean: rare categories have the smallest


def traced_membership(task: InferenceTask, *, of: int | None = None) -> Measurement:
    """Tell members from held-out records by how the release's means and covariances differ from those of others.

    Of two held-out records or more, and of so many members, of which these are a sample; None for all.

    A record's score is its mean inner product with released records, less that with the held-out ones, which stand for
    the population. The product is of what two records add to means and covariances of whitened features: normal scores
    and dummies. A held-out record is left out of its own comparison, and one of them for each member, so that a release
    that tells nothing comes out at 0.5 but for chance. These comparisons share records: DeLong's variance is taken 9/4
    times (of a tenth held out it is 2.2 times as large).
    """
    cells = [np.array(table, dtype=np.float64) for table in (task.released, task.members, task.controls)]
    for at in (at for at in range(cells[0].shape[1]) if at not in task.categories):
        known = np.sort(cells[0][~np.isnan(cells[0][:, at]), at])
        for table in cells:
            table[:, at] = normal_scores(table[:, at], known)
    coding = Coding.of(cells[0], np.concatenate(cells[1:]), task.categories)
    whole = [np.column_stack(coding.each(table)) for table in cells]
    centre, covariance = whole[0].mean(axis=0), np.atleast_2d(np.cov(whole[0].T))
    widths, axes = np.linalg.eigh(covariance)
    scale = np.sqrt(np.maximum(widths, 0.0) + _RIDGE * widths.mean() + np.finfo(float).tiny)
    made, inside, outside = ((table - centre) @ axes / scale for table in whole)
    count = len(outside)
    left_out = outside[np.arange(len(inside)) % count]

    def score(records: FloatArray, own: FloatArray) -> FloatArray:
        of_others = (count * _mean_product(records, outside) - _products(records, own)) / (count - 1)
        return _mean_product(records, made) - of_others

    note = (
        f"The attacker knows a person's whole record, and {count} others of the population, who were held out. "
        "Who knows the population's means and covariances exactly recognises more."
    )
    area = _widened(auc(score(inside, left_out), score(outside, outside)))
    return _distinguished(_TRACED, area, task.members, task.controls, of, note)


def normal_scores(values: FloatArray, known: FloatArray) -> FloatArray:
    """Normal quantiles of the values' ranks among sorted ones; null stays null."""
    ranks = 0.5 * (np.searchsorted(known, values, side="left") + np.searchsorted(known, values, side="right"))
    shares = np.clip((ranks + 0.5) / (len(known) + 1), 0.5 / (len(known) + 1), 1.0 - 0.5 / (len(known) + 1))
    return np.where(np.isnan(values), np.nan, ndtri(shares))


def _products(records: FloatArray, others: FloatArray) -> FloatArray:
    """Inner products, row by row, of what records and others add to means and covariances of whitened features."""
    together = (records * others).sum(axis=1)
    squares = (records**2).sum(axis=1) + (others**2).sum(axis=1)
    return np.asarray(together + 0.5 * (together**2 - squares + records.shape[1]))


def _mean_product(records: FloatArray, others: FloatArray) -> FloatArray:
    """The mean of `_products` of each record with all others."""
    second = others.T @ others / len(others)
    squares = (records**2).sum(axis=1) + np.trace(second)
    quadratic = ((records @ second) * records).sum(axis=1)
    return np.asarray(records @ others.mean(axis=0) + 0.5 * (quadratic - squares + records.shape[1]))


# --- Attack: where counts of single values are kept, each column has one more of a member's own values ----------------
_BESIDE = 32  # Released values on either side that tell how many are to be expected of a value
_FINE = 1 / 8  # Of the distance to the last of them: how near others count as the value itself


def counted_membership(task: InferenceTask, *, of: int | None = None) -> Measurement:
    """Tell members from held-out records by how many released values lie close to theirs, column by column.

    Parameters as in `traced_membership`, of which held-out records are not needed to attack. A record's score adds up,
    over columns of numbers, the logarithm of the share that the 64 values around its own have in the middle eighth.
    """
    asked = np.concatenate([task.members, task.controls])
    scores = np.zeros(len(asked))
    for at, values in enumerate(task.released.T):
        known = np.sort(values[~np.isnan(values)])
        if at not in task.categories and len(known) > 2 * _BESIDE:
            scores += _excess(known, asked[:, at])
    area = auc(scores[: len(task.members)], scores[len(task.members) :])
    note = "The attacker knows a person's whole record, and nobody else."
    return _distinguished(_COUNTED, area, task.members, task.controls, of, note)


def _excess(known: FloatArray, values: FloatArray) -> FloatArray:
    """How dense sorted values are close to some values, against around them, as logarithms; 0 for nulls."""
    place = np.searchsorted(known, values)
    ends = known[np.maximum(place - _BESIDE, 0)], known[np.minimum(place + _BESIDE - 1, len(known) - 1)]
    far = np.minimum(np.abs(values - ends[0]), np.abs(ends[1] - values))
    near, around = (
        np.searchsorted(known, values + reach, side="right") - np.searchsorted(known, values - reach)
        for reach in (_FINE * far, far)
    )
    return np.where(far > 0.0, np.log((near + 0.5) / (around * _FINE + 0.5)), 0.0)


# --- Attack that needs no neighbours: who is in the table lies nearer to its own mean, in its own covariance ----------
# A covariance of p columns that n records have made is narrower along each of these than along others, and a release
# that keeps it hands that on, whatever its records are. What is gained by it follows from n, p and categories' shares.

_GRID = 2_000  # Quantiles of the members' distances over which their chance is averaged: exact to 0.0002


def membership_from_moments(rows: int, width: EffectiveDimension) -> float:
    """Chance that a member is nearer to the mean of the table, in its covariance, than a person who is not in it.

    Of 2 or more records, whose moments these are, in one column or more: the area under the curve, 0.5 to 1; 1 where so
    few records determine the columns.

    *Numbers.* Of normal data a squared Mahalanobis distance of one of n records to the mean and covariance of all of
    them is (n - 1)² / n times a Beta(p / 2, (n - p - 1) / 2), that of another record p (n - 1) (n + 1) / (n (n - p))
    times an F(p, n - p). For large n the area is about Φ(p^1.5 / (2 n)).

    *Categories.* Who is not in the table is further away by d² / n, d being the squared distance, so that the area is
    0.5 + ∫ f(d)² d² / n to the first order: little where few records, those of rare categories, have most of the
    distance, and much where all are equally far, as with halves. f is taken for a gamma law of mean p and of the
    variance of `width`, to which 2 p² / n comes as the covariance is not known exactly; the normal law's argument of Φ
    is multiplied by the ratio of this integral to its own.

    Hotelling (1931), doi:10.1214/aoms/1177732979; Tracy, Young & Mason (1992), Journal of Quality Technology 24:88-95.
    """
    columns = width.columns
    if rows < 2 or columns < 1:
        raise InputError(f"moments of {rows} records in {columns} columns; give 2 or more, in 1 or more")
    if rows <= columns + 1:
        return 1.0
    at = (np.arange(_GRID) + 0.5) / _GRID
    inside = (rows - 1) ** 2 / rows * betaincinv(columns / 2, (rows - columns - 1) / 2, at)
    scale = columns * (rows - 1) * (rows + 1) / (rows * (rows - columns))
    normal = float(np.clip(fdtrc(columns, rows - columns, inside / scale).mean(), 0.5, 1.0 - 1e-12))
    unsure = 2.0 * columns**2 / rows
    ratio = math.exp(_overlap(columns, width.spread + unsure) - _overlap(columns, 2.0 * columns + unsure))
    return float(ndtr(ratio * ndtri(normal)))


def _overlap(mean: float, variance: float) -> float:
    """Logarithm of ∫ f(d)² d² of a gamma law."""
    shape, scale = mean**2 / variance, variance / mean
    return math.log(scale) + math.lgamma(2 * shape + 1) - (2 * shape + 1) * math.log(2) - 2 * math.lgamma(shape)


def columns_for_membership(rows: int, width: EffectiveDimension, most: float) -> int:
    """The most columns, of the same mean spread, whose moments tell members from others by no more than `most`."""

    def expected(columns: int) -> float:
        spread = width.spread * columns / width.columns
        return membership_from_moments(rows, EffectiveDimension(columns, spread))

    return bisect_right(range(1, width.columns + 1), most, key=expected)


def rows_for_membership(width: EffectiveDimension, most: float) -> int:
    """The fewest records whose moments tell members from others by no more than `most`, above 0.5."""
    low, high = width.columns + 1, width.columns + 2
    while membership_from_moments(high, width) > most:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if membership_from_moments(middle, width) > most else (low, middle)
    return high


def _from_moments(data: AttackData) -> Measured | Reason:
    rows, width = require(data.moments)
    if width.columns < 1:
        return Reason.ONE_COLUMN
    note = (
        f"Expected, not attacked: of {width.columns} independent columns and {rows} records, whose means and "
        "covariances are kept. Of several strata that are masked by themselves, the smallest."
    )
    return (_EXPECTED.measured(membership_from_moments(max(2, rows), width), data.rows, baseline=0.5, note=note),)


MOMENTS = RiskMeasure(
    "moments",
    "membership inference from preserved means and covariances",
    (_EXPECTED,),
    _from_moments,
    counts_units=True,  # of as many independent records
)
