"""Prediction distance, ambiguity and uncertainty, held against what a table of other persons would tell."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from anonpipe.errors import InputError, JobError
from anonpipe.evaluate.measurement import Audience, Curve, Figure, Measurement, wilson
from anonpipe.evaluate.risk._measure import AttackData, Measured, RiskMeasure
from anonpipe.evaluate.risk._nearest import Nearest
from anonpipe.evaluate.utility import Auc, auc
from anonpipe.types import BoolArray, FloatArray

_FEWEST = 10  # Right and wrong matches from which on all three measures together can be judged

_WORDS = {  # Of each measure what it is, and its axis
    "distance": (
        "Prediction distance",
        "distance to the closest released record, in standard deviations a column",
    ),
    "ambiguity": ("Prediction ambiguity", "distance to the closest over distance to the k-th closest"),
    "uncertainty": (
        "Prediction uncertainty",
        "variance among the k closest, in squared standard deviations",
    ),
}
MEASURES = tuple(_WORDS)
_PAPER = "Lasko & Vinterbo 2010, doi:10.1109/TKDE.2009.88, section "
_TELLS = "1: who sees the measure knows which matches are right; 0.5: no better than a coin."

_EXCESSES = {
    name: Figure(
        f"lasko.{name}",
        f"{words}: records predicted better by the release than by others' records",
        "share",
        f"{_PAPER}II.A",
        Audience.ENOUGH,
    )
    for name, (words, _) in _WORDS.items()
}
_MATCH_RATE = Figure(
    "lasko.match_rate",
    "Records whose closest released record",
    "share",
    f"{_PAPER}IV.C",
    Audience.ENOUGH,
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


def predictions(found: Nearest, k: int = 5) -> Predictions:
    """How well the k nearest of some other records, with their values, predict each record; the authors take k = 5.

    - Distance: to the nearest, over the root of the number of columns (eq. 1).
    - Ambiguity: distance of the nearest over that of the k-th. Where k records equal the query, 0 ("an exact match to
      some record") and 1 ("a tie among k records") both apply. It is 1 here: it "represents the difficulty in selecting
      the best match", and uncertainty and distance, both 0, tell the rest.
    - Uncertainty: variance of each column among the k nearest, averaged over columns; over k, as these are all there
      is, no sample.
    """
    if k < 2:
        raise JobError(f"k is {k}; give 2 or more")
    if found.values is None or found.values.shape[1] < k:
        raise InputError(f"fewer than {k} nearest records, or not their values, were searched; search {k} with values")
    if (found.rows[:, :k] < 0).any():
        raise InputError(f"there are fewer than {k} records to search; the measures of prediction need that many")
    near = found.distances
    furthest = near[:, k - 1]
    ambiguity = np.divide(near[:, 0], furthest, out=np.ones(len(near)), where=furthest > 0)
    # From the nearest one, so that records that are the same have a variance of exactly 0.
    uncertainty = (found.values[:, :k] - found.values[:, :1]).var(axis=1).mean(axis=1)
    return Predictions(near[:, 0] / found.values.shape[2] ** 0.5, ambiguity, uncertainty)


@dataclass(frozen=True)
class LaskoMeasures:
    """How well a release predicts its own records, compared with others."""

    excesses: tuple[Excess, ...]  # Of the three measures, in the order of `MEASURES`
    right: int | None  # Queries whose nearest released record is the right one; None where nothing says which is right
    by_group: bool  # Whether one of the own group counted as right
    # How well each measure, and last all three together, tell right matches from wrong ones; empty where nothing says
    # which is right
    telling: tuple[Auc, ...]
    # queries, records: records looked for, and that there are
    queries: int
    records: int
    # k, margin: as given
    k: int
    margin: float

    def measurements(self) -> tuple[Measurement, ...]:
        """The excess of each measure with its curves, the match rate, and the areas under the curve."""
        sizes, sampled = (self.queries, self.records), self.queries < self.records
        found = []
        for name, excess in zip(MEASURES, self.excesses, strict=True):
            verdict = "within" if excess.value <= self.margin else "beyond"
            note = (
                "Largest excess of the cumulative share over that of the reference (the original without the record "
                f"itself); {verdict} the margin of {self.margin:g} that is tolerated (p = {excess.p:.2g} for no more "
                f"than it). Median {excess.median:.3g}, of the reference {excess.reference_median:.3g}; k = {self.k}."
            )
            interval = (excess.low, excess.high) if sampled else (None, None)
            figure, curves = _EXCESSES[name], (excess.curve,)
            found.append(figure.measured(excess.value, *sizes, interval=interval, note=note, curves=curves))
        if self.right is None:
            return tuple(found)
        what = "comes from their own group" if self.by_group else "is their own"
        figure = replace(_MATCH_RATE, title=f"{_MATCH_RATE.title} {what}")
        interval = wilson(self.right, self.queries) if sampled else (None, None)
        found.append(figure.measured(self.right / self.queries, *sizes, interval=interval))
        unknown = f"Not defined: {self.right} of {self.queries} matches are right, and some of both kinds are needed."
        for figure, area in zip(_AREAS.values(), self.telling, strict=True):
            defined = np.isfinite(area.value)
            interval = (area.low, area.high) if defined else (None, None)
            found.append(
                figure.measured(area.value, *sizes, interval=interval, baseline=0.5, note=None if defined else unknown)
            )
        return tuple(found)


def lasko_measures(
    found: Nearest,
    reference: Nearest,
    *,
    records: int,
    own_row: npt.ArrayLike | None = None,
    own_group: npt.ArrayLike | None = None,
    group_of_found: npt.ArrayLike | None = None,
    k: int = 5,
    margin: float = 0.05,
) -> LaskoMeasures:
    """The authors' measures of what a release tells of its own records.

    - `found`: the k or more nearest released records of the original records looked for, with their values, on
      standardised columns.
    - `reference`: the k or more nearest of the same records among the originals, each without itself; or those of these
      records in a table of other persons of the same number of records as the release.
    - `records`: number of original records, of which those looked for are a random sample.
    - `own_row`, `own_group`, `group_of_found`: as in `score_linkage`; the group is used where `own_row` is not given.
      Without both there are no matches to be right.
    - `k`: matches between which the intruder wavers, 2 or more.
    - `margin`: excess of a cumulative share that counts as equal, 0 to 1.

    Where all three distributions are no smaller than those of the reference, the release seems to tell no more of its
    subjects than a table of others would: evidence, not proof. Centroids have an uncertainty of 0 by design and never
    meet it there. A smaller reference table lies further off by itself, and flatters the release.

    *All three together* is what the authors suspect to be better but did not try: a logistic regression of right on the
    three, by ranks, in five folds.
    """
    if not 0 <= margin <= 1:
        raise JobError(f"margin is {margin}; give a share from 0 to 1")
    queries = len(found.rows)
    if queries == 0 or len(reference.rows) == 0 or records < queries:
        raise JobError(
            f"{queries} records of {records} are held against {len(reference.rows)}; give one or more, of all there are"
        )
    ours, theirs = predictions(found, k), predictions(reference, k)
    sides = zip(ours, theirs, _WORDS.values(), strict=True)
    excesses = tuple(excess(values, others, margin, *words) for values, others, words in sides)
    matched = _matched(found, own_row, own_group, group_of_found)
    telling: tuple[Auc, ...] = ()
    if matched is not None:
        telling = (*(_telling_apart(-values, matched) for values in ours), _together(ours, matched))
    right = None if matched is None else int(matched.sum())
    return LaskoMeasures(excesses, right, own_row is None, telling, queries, records, k, margin)


def _matched(
    found: Nearest, own_row: npt.ArrayLike | None, own_group: npt.ArrayLike | None, group_of_found: npt.ArrayLike | None
) -> BoolArray | None:
    """Whether the nearest released record is right, where something says so."""
    if own_row is None and own_group is None:
        return None
    if own_row is None and group_of_found is None:
        raise JobError("own_group was given without group_of_found; give both")
    if own_row is not None:
        nearest, own = found.rows[:, 0], np.asarray(own_row)
    else:
        nearest, own = np.asarray(group_of_found)[:, 0], np.asarray(own_group)
    if own.shape != nearest.shape or len(own) != len(found.rows):
        raise JobError(f"matches of shape {nearest.shape} and truths of shape {own.shape} do not fit; give one a query")
    return np.asarray((nearest == own) & (own >= 0))


_UNKNOWN = Auc(float("nan"), float("nan"), float("nan"))


def _telling_apart(scores: FloatArray, matched: BoolArray) -> Auc:
    """Area under the curve, unknown where all matches are right or all are wrong."""
    return _UNKNOWN if matched.all() or not matched.any() else auc(scores[matched], scores[~matched])


def _together(measures: Predictions, matched: BoolArray) -> Auc:
    """Area under the curve of a logistic regression on all three, each record judged by a model of other folds."""
    if min(int(matched.sum()), int((~matched).sum())) < _FEWEST:
        return _UNKNOWN
    from scipy.stats import rankdata
    from sklearn.linear_model import LogisticRegression

    ranks = rankdata(np.column_stack(measures), axis=0) / len(matched) - 0.5
    # Right and wrong ones are dealt out evenly, in their order.
    fold = np.empty(len(matched), dtype=np.int64)
    for side in (matched, ~matched):
        fold[side] = np.arange(int(side.sum())) % 5
    scores = np.empty(len(matched))
    for at in range(5):
        model = LogisticRegression(C=100.0, max_iter=1_000).fit(ranks[fold != at], matched[fold != at])
        # Without the constant, which differs between folds and would order records by fold.
        scores[fold == at] = ranks[fold == at] @ model.coef_[0]
    return auc(scores[matched], scores[~matched])


def _of_release(data: AttackData) -> Measured:
    found = lasko_measures(
        data.released.nearest,
        data.original.nearest,
        own_row=data.own_row,
        own_group=data.own_group,
        group_of_found=data.released.groups if data.grouped else None,
        records=data.rows,
    )
    return found.measurements()


MEASURE = RiskMeasure(
    key="lasko",
    title="prediction distance, ambiguity and uncertainty",
    figures=tuple(figure.key for figure in (*_EXCESSES.values(), _MATCH_RATE, *_AREAS.values())),
    function=_of_release,
)


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
    # low, high: ends of an interval of 95 % or more of the true excess
    low: float
    high: float
    # median, reference_median: of the measure
    median: float
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
