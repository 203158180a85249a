"""Prediction distance, ambiguity and uncertainty, held against what a table of other persons would tell."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from anonpipe.errors import InputError
from anonpipe.evaluate.measurement import Audience, Curve, Figure, Share, share_figure, wilson
from anonpipe.evaluate.risk._measure import AttackData, Measured, RiskMeasure
from anonpipe.evaluate.risk._nearest import Nearest
from anonpipe.evaluate.utility import auc
from anonpipe.types import BoolArray, FloatArray

NEAREST = 5  # Matches between which the intruder wavers
MARGIN = 0.05  # Excess of a cumulative share that counts as equal

_FEWEST = 10  # Right and wrong matches from which on all three measures together can be judged

_WORDS = {  # Of each measure what it is, and its axis
    "distance": ("Prediction distance", "distance to the closest released record, in standard deviations a column"),
    "ambiguity": ("Prediction ambiguity", "distance to the closest over distance to the k-th closest"),
    "uncertainty": ("Prediction uncertainty", "variance among the k closest, in squared standard deviations"),
}
MEASURES = tuple(_WORDS)
_PAPER = "Lasko & Vinterbo 2010, doi:10.1109/TKDE.2009.88, section "
_TELLS = "1: who sees the measure knows which matches are right; 0.5: no better than a coin."

_EXCESSES = {
    name: share_figure(
        f"lasko.{name}",
        f"{words}: records predicted better by the release than by others' records",
        source=f"{_PAPER}II.A",
    )
    for name, (words, _) in _WORDS.items()
}
_MATCH_RATE = share_figure(
    "lasko.match_rate",
    "Records whose closest released record",
    source=f"{_PAPER}IV.C",
    note="Says little alone: what matters is whether right matches can be distinguished from wrong ones.",
)
_AREAS = {
    name: Figure(
        f"lasko.match_auc_{name}",
        f"{words}: AUC of right against wrong matches",
        "",
        f"{_PAPER}IV.C",
        Audience.ENOUGH,
        baseline_is="a coin",
        note=_TELLS + (" Logistic regression, each record judged by a model of others." if name == "together" else ""),
    )
    for name, (words, _) in (_WORDS | {"together": ("All three measures", "")}).items()
}


class Predictions(NamedTuple):
    """The three measures of each record, each of shape (n_queries,)."""

    distance: FloatArray
    ambiguity: FloatArray
    uncertainty: FloatArray


def predictions(found: Nearest, k: int = NEAREST) -> Predictions:
    """How well the k nearest of some other records, with their values, predict each record; the authors take k = 5.

    - Distance: to the nearest, over the root of the number of columns (eq. 1).
    - Ambiguity: distance of the nearest over that of the k-th. Where k records equal the query, 0 ("an exact match to
      some record") and 1 ("a tie among k records") both apply. It is 1 here: it "represents the difficulty in selecting
      the best match", and uncertainty and distance, both 0, tell the rest.
    - Uncertainty: variance of each column among the k nearest, averaged over columns; over k, as these are all there
      is, no sample.
    """
    if (found.rows[:, :k] < 0).any():
        raise InputError(f"there are fewer than {k} records to search; the measures of prediction need that many")
    assert found.values is not None  # as it was asked for
    near = found.distances
    furthest = near[:, k - 1]
    ambiguity = np.divide(near[:, 0], furthest, out=np.ones(len(near)), where=furthest > 0)
    # From the nearest one, so that records that are the same have a variance of exactly 0.
    uncertainty = (found.values[:, :k] - found.values[:, :1]).var(axis=1).mean(axis=1)
    return Predictions(near[:, 0] / found.values.shape[2] ** 0.5, ambiguity, uncertainty)


def excesses(found: Nearest, reference: Nearest, k: int = NEAREST) -> tuple[Excess, ...]:
    """How much smaller each of `MEASURES` is of the release than of a reference.

    - `found`: the k or more nearest released records of the original records looked for, with their values, on
      standardised columns.
    - `reference`: those of the same records among the originals, each without itself; or those of these records in a
      table of other persons of the same number of records as the release.

    Where all three distributions are no smaller than those of the reference, the release seems to tell no more of its
    subjects than a table of others would: evidence, not proof. Centroids have an uncertainty of 0 by design and never
    meet it there. A smaller reference table lies further off by itself, and flatters the release.
    """
    sides = zip(predictions(found, k), predictions(reference, k), _WORDS.values(), strict=True)
    return tuple(excess(values, others, MARGIN, *words) for values, others, words in sides)


def telling(found: Nearest, matched: BoolArray, k: int = NEAREST) -> tuple[Share, ...]:
    """How well each measure, and last all three together, tell right matches from wrong ones.

    All three together is what the authors suspect to be better but did not try: a logistic regression of right on the
    three, by ranks, in five folds.
    """
    ours = predictions(found, k)
    if matched.all() or not matched.any():
        return (_UNKNOWN,) * (len(ours) + 1)
    return (*(auc(-values[matched], -values[~matched]) for values in ours), _together(ours, matched))


_UNKNOWN = Share(float("nan"), float("nan"), float("nan"))


def _together(measures: Predictions, matched: BoolArray) -> Share:
    """Area under the curve of a logistic regression on all three, each record judged by a model of other folds."""
    if min(int(matched.sum()), int((~matched).sum())) < _FEWEST:
        return _UNKNOWN
    from scipy.stats import rankdata
    from sklearn.linear_model import LogisticRegression

    ranks = rankdata(np.column_stack(measures), axis=0) / len(matched) - 0.5
    fold = np.empty(len(matched), dtype=np.int64)  # Right and wrong ones are dealt out evenly, in their order
    for side in (matched, ~matched):
        fold[side] = np.arange(int(side.sum())) % 5
    scores = np.empty(len(matched))
    for at in range(5):
        model = LogisticRegression(C=100.0, max_iter=1_000).fit(ranks[fold != at], matched[fold != at])
        # Without the constant, which differs between folds and would order records by fold.
        scores[fold == at] = ranks[fold == at] @ model.coef_[0]
    return auc(scores[matched], scores[~matched])


def _of_release(data: AttackData) -> Measured:
    """The excess of each measure with its curves, the match rate, and the areas under the curve."""
    near, sizes = data.released.nearest, (len(data.released.nearest.rows), data.rows)
    sampled, found = sizes[0] < sizes[1], []
    for figure, each in zip(_EXCESSES.values(), excesses(near, data.original.nearest), strict=True):
        verdict = "within" if each.value <= MARGIN else "beyond"
        note = (
            "Largest excess of the cumulative share over that of the reference (the original without the record "
            f"itself); {verdict} the margin of {MARGIN:g} that is tolerated (p = {each.p:.2g} for no more "
            f"than it). Median {each.median:.3g}, of the reference {each.reference_median:.3g}; k = {NEAREST}."
        )
        interval = (each.low, each.high) if sampled else (None, None)
        found.append(figure.measured(each.value, *sizes, interval=interval, note=note, curves=(each.curve,)))
    if (matched := _matched(data)) is None:
        return found
    right, what = int(matched.sum()), "comes from their own group" if data.own_row is None else "is their own"
    rate = replace(_MATCH_RATE, title=f"{_MATCH_RATE.title} {what}")
    interval = wilson(right, sizes[0]) if sampled else (None, None)
    found.append(rate.measured(right / sizes[0], *sizes, interval=interval))
    unknown = f"Not defined: {right} of {sizes[0]} matches are right, and some of both kinds are needed."
    for figure, area in zip(_AREAS.values(), telling(near, matched), strict=True):
        interval, why = ((area.low, area.high), None) if np.isfinite(area.value) else ((None, None), unknown)
        found.append(figure.measured(area.value, *sizes, interval=interval, baseline=0.5, note=why))
    return found


def _matched(data: AttackData) -> BoolArray | None:
    """Whether the nearest released record is the own, or of the own group, where something says so."""
    near = data.released
    if data.own_row is not None:
        return np.asarray((near.nearest.rows[:, 0] == data.own_row) & (data.own_row >= 0))
    if data.own_group is None or near.groups is None:
        return None
    return np.asarray((near.groups[:, 0] == data.own_group) & (data.own_group >= 0))


_FIGURES = (*_EXCESSES.values(), _MATCH_RATE, *_AREAS.values())
MEASURE = RiskMeasure("lasko", "prediction distance, ambiguity and uncertainty", _FIGURES, _of_release)


# --- How much smaller the values of a release are than those of a reference: a one-sided test with a margin -----------

_POINTS = 101  # Points of a curve


@dataclass(frozen=True)
class Excess:
    """How much smaller a measure is in a release than in the reference."""

    # Largest excess of the cumulative share of the release over that of the reference, 0 to 1: the one-sided
    # Kolmogorov-Smirnov statistic
    value: float
    # Probability of so large a statistic, or of a smaller one, where the true excess is no more than the margin. Large
    # is good.
    p: float
    low: float  # Ends of an interval of 95 % or more of the true excess
    high: float
    median: float  # Of the measure
    reference_median: float
    curve: Curve  # Cumulative shares


def excess(values: FloatArray, reference: FloatArray, margin: float, title: str = "", axis: str = "") -> Excess:
    """One-sided test that a measure is no smaller than its reference, shapes (n,) and (m,), but for a margin.

    Under an excess of `margin` or less, a statistic of d is no more probable than one of d - margin under equality,
    which gives p = exp(-2 (d - margin)² n m / (n + m)) (Smirnov). The interval holds for samples that depend on each
    other, as with leave-one-out: it adds and takes off the band of either curve (Dvoretzky, Kiefer & Wolfowitz, with
    Massart's constant).

    Conover (1999), Practical Nonparametric Statistics, 3rd ed., section 6.3; Massart (1990), Annals of Probability
    18:1269-1283, doi:10.1214/aop/1176990746.
    """
    from scipy.stats import ecdf, ks_2samp

    # Its own p-value knows no margin.
    value = float(ks_2samp(values, reference, alternative="greater", method="asymp").statistic)
    n, m = len(values), len(reference)
    p = float(np.exp(-2.0 * max(0.0, value - margin) ** 2 * n * m / (n + m)))
    # Two one-sided bands for each end, 5 % over all four.
    band = float(sum((np.log(4.0 / 0.05) / (2.0 * size)) ** 0.5 for size in (n, m)))
    end = max(float(np.quantile(values, 0.99)), float(np.quantile(reference, 0.99)))
    x = np.linspace(0.0, end, _POINTS)
    before, after = (tuple(ecdf(side).cdf.evaluate(x).tolist()) for side in (reference, values))
    curve = Curve(title, axis, "cumulative share of records", tuple(x.tolist()), after, before)
    middle, their_middle = float(np.median(values)), float(np.median(reference))
    return Excess(value, p, max(0.0, value - band), min(1.0, value + band), middle, their_middle, curve)
