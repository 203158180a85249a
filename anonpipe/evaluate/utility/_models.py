"""The recipient's models, fitted to the original and to the release."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import qr, solve_triangular

from anonpipe.errors import JobError
from anonpipe.evaluate.utility._design import INTERCEPT, Design, FormulaCoding, apply, learn
from anonpipe.evaluate.utility._formula import Analysis, Model, NoFitError
from anonpipe.evaluate.utility._regressions import SeparatedError, fitted, inverse, sandwich
from anonpipe.evaluate.utility._weighted import FEWEST_DEGREES, Psus
from anonpipe.kernels.points import places
from anonpipe.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    import pandas as pd

_SIGNIFICANT = 0.05  # p below which a coefficient is significant; intervals are of 1 minus this
_NORMAL = 1.959963984540054  # The quantile of the normal distribution that ends such an interval


@dataclass(frozen=True)
class Estimate:
    """A coefficient: its value, the ends of its 95 % interval, and p of the test that it is 0.

    Intervals are Student's for linear models and survey designs, and normal (Wald) for others, of logarithms of ratios.
    """

    value: float
    low: float
    high: float
    p: float

    @property
    def significant(self) -> bool:
        """Whether p is below 0.05."""
        return self.p < _SIGNIFICANT

    @property
    def variance(self) -> float:
        """The squared standard error that a normal interval of this width has."""
        return ((self.high - self.low) / (2 * _NORMAL)) ** 2


@dataclass(frozen=True)
class ModelFit:
    """A model of one table."""

    # rows, left_out: records that it was fitted to, 0 where there is no fit, and those of the subset with a null in a
    # column that it needs
    rows: int
    left_out: int
    # By name of the coefficient; None for one that the records do not determine (a category without records, a constant
    # column, columns that add up). Names hold categories of the original.
    estimates: Mapping[str, Estimate | None]
    problem: str | None  # Why there is no fit, such as no convergence; None where there is one
    # Of each coefficient the records that it rests on: those that tell its predictor from a constant
    behind: Mapping[str, int] = field(default_factory=dict)
    # Whether the coefficients are in units of the original, as a function of the formula keeps what it has seen of
    # that; None where nobody knows
    learnt: bool | None = None
    degrees: Mapping[str, int] = field(default_factory=dict)  # Of freedom of the coefficients of a survey design


@dataclass(frozen=True)
class CoefficientChange:
    """A coefficient of the original and what became of it."""

    name: str  # As the formula's library writes it: `stage[T.Distant]`
    # original, released: none for one that the release does not determine, as its model has no fit or the category no
    # records. Such a one is *lost*, and counts as changed in every way that applies, so that failures never flatter.
    original: Estimate
    released: Estimate | None
    degrees: int | None = None  # Of freedom of the original's error; None without a survey design

    @property
    def judged(self) -> bool:
        """Whether it counts: not one that rests on so few sampling units that its error says nothing."""
        return self.degrees is None or self.degrees >= FEWEST_DEGREES

    @property
    def changed_significance(self) -> bool:
        """Significant on one side only, or unknown; a lost one, if it was significant."""
        after = self.released if self.released is not None else Estimate(0.0, 0.0, 0.0, 1.0)
        known = np.isfinite([self.original.p, after.p]).all()
        return not known or self.original.significant != after.significant

    @property
    def changed_direction(self) -> bool:
        """It was significant, and has not the same sign any more."""
        after = self.released.value if self.released is not None else 0.0
        return self.original.significant and self.original.value * after <= 0.0

    @property
    def outside(self) -> bool:
        """The released value is not in the original's 95 % interval."""
        return self.released is None or not self.original.low <= self.released.value <= self.original.high

    @property
    def overlap(self) -> float:
        """What the two intervals share, as the mean of its parts of either; 0 where they are apart or one is lost.

        J of Karr et al. (2006). An interval without width counts as wholly shared where it lies in the other.
        """
        if self.released is None:
            return 0.0
        low, high = max(self.original.low, self.released.low), min(self.original.high, self.released.high)
        if high < low:
            return 0.0
        widths = (self.original.high - self.original.low, self.released.high - self.released.low)
        shared = float(np.mean([(high - low) / width if width > 0 else 1.0 for width in widths]))
        return shared if np.isfinite(widths).all() else 0.0


@dataclass(frozen=True)
class CoefficientShares:
    """How many of the coefficients changed; intercepts are not among them."""

    coefficients: int  # Of the originals
    significant: int  # Those of them that are significant
    # Shares of the coefficients (of direction: of the significant ones) and mean overlap of intervals; NaN for none
    changed_significance: float
    changed_direction: float
    outside: float
    overlap: float
    lost: int  # Coefficients that the release does not determine; in the shares they count as changed


@dataclass(frozen=True)
class ModelComparison:
    """One analysis of both tables."""

    analysis: Analysis  # Which
    original: ModelFit  # Where this one has no fit, there is nothing to compare
    released: ModelFit
    # Those that the original determines, in the formula's order, the intercept among them
    coefficients: tuple[CoefficientChange, ...]
    unweighted: ModelComparison | None = None  # The same without survey weights; None where it has none

    @property
    def shares(self) -> CoefficientShares:
        """How many coefficients changed."""
        return shares_changed([self])


@dataclass(frozen=True, eq=False)
class FittedModel:
    """An analysis of the original, ready to be compared with any number of releases."""

    analysis: Analysis  # Which
    fit: ModelFit  # Of the original
    coding: FormulaCoding | None  # How it codes columns; None where the original has no records for it
    unweighted: FittedModel | None = None  # The same without survey weights; None where it has none

    @classmethod
    def of(cls, original: pd.DataFrame, analysis: Analysis) -> FittedModel:
        """Fit an analysis, one with weights without them, too."""
        name = f"{analysis.name}, without weights"
        plain = replace(analysis, name=name, weights=None, cluster=None, design_strata=None)
        unweighted = None if analysis.weights is None else cls.of(original, plain)
        try:
            coding = learn(original, analysis)
        except NoFitError as error:
            return cls(analysis, ModelFit(0, 0, {}, str(error)), None, unweighted)
        return cls(analysis, _fit(coding, original, "original"), coding, unweighted)

    def compare(self, released: pd.DataFrame) -> ModelComparison:
        """Fit the release too."""
        if self.coding is None or self.fit.problem is not None:
            after = ModelFit(0, 0, {}, "the original has no fit to compare with")
        else:
            after = _fit(self.coding, released, "released")
        known = ((name, before) for name, before in self.fit.estimates.items() if before is not None)
        changes = tuple(
            CoefficientChange(name, before, after.estimates.get(name), self.fit.degrees.get(name))
            for name, before in known
        )
        unweighted = None if self.unweighted is None else self.unweighted.compare(released)
        return ModelComparison(self.analysis, self.fit, after, changes, unweighted)


def fit_models(original: pd.DataFrame, analyses: Iterable[Analysis]) -> tuple[FittedModel, ...]:
    """Fit the recipient's models to the original once, so that any number of releases can be compared with it.

    A release is coded with the original's levels, knots and scales, so that equal names mean the same. A model without
    a fit says why in its `ModelFit`. No error quotes values of the data.

    Gal, Tucker, Gangopadhyay and Chen (2014), J. Biomed. Inform. 50:32-45, doi:10.1016/j.jbi.2014.01.001, section 3.
    Overlap: Karr, Kohnen, Oganian, Reiter and Sanil (2006), Am. Stat. 60:224-232, doi:10.1198/000313006X124640.
    """
    models = tuple(analyses)
    names = [analysis.name for analysis in models]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise JobError(f"several analyses are called {', '.join(twice)}; give each a name of its own")
    return tuple(FittedModel.of(original, analysis) for analysis in models)


def shares_changed(comparisons: Sequence[ModelComparison]) -> CoefficientShares:
    """How many of the coefficients of several models changed, each coefficient but intercepts counting the same.

    Gal et al. count those outside of the interval over all coefficients, as here, or over significant ones.
    """
    changes = [change for comparison in comparisons for change in comparison.coefficients if _counts(change)]
    significant = [change for change in changes if change.original.significant]

    def mean(what: str, some: Sequence[CoefficientChange]) -> float:
        return float(np.mean([getattr(change, what) for change in some])) if some else float("nan")

    shares = {what: mean(what, changes) for what in ("changed_significance", "outside", "overlap")}
    shares["changed_direction"] = mean("changed_direction", significant)
    lost = sum(change.released is None for change in changes)
    return CoefficientShares(len(changes), len(significant), **shares, lost=lost)


def _counts(change: CoefficientChange) -> bool:
    """Whether it is judged, and no intercept, of a multinomial model of no category."""
    return change.judged and change.name.rpartition(": ")[2] != INTERCEPT


def _fit(coding: FormulaCoding, frame: pd.DataFrame, table: str) -> ModelFit:
    try:
        design = apply(coding, frame)
        solution = solve(coding.analysis.model, design, table)
    except NoFitError as error:
        return ModelFit(0, 0, {}, str(error))
    degrees: dict[str, int] = {}
    if coding.analysis.cluster is not None and design.psus is not None:
        of_equations = ~np.isnan(solution.coefficients).reshape(max(1, len(design.levels) - 1), -1)
        found = int(of_equations.sum(axis=1).max())  # each equation has scores of its own
        degrees = design.degrees(found)
        solution = solution._replace(degrees=max(1, design.psus.degrees + 1 - found))
    estimates = _estimates(design.equations or design.names, solution)
    return ModelFit(len(design.response), design.left_out, estimates, None, design.behind, design.learnt, degrees)


def _estimates(names: Sequence[str], solution: Solution) -> dict[str, Estimate | None]:
    from scipy.stats import norm, t

    law = t(solution.degrees) if np.isfinite(solution.degrees) else norm()
    reach = float(law.ppf(1 - _SIGNIFICANT / 2))
    estimates: dict[str, Estimate | None] = {}
    for name, value, error in zip(names, solution.coefficients.tolist(), solution.errors.tolist(), strict=True):
        if np.isnan(value):
            estimates[name] = None
            continue
        ratio = abs(value) / error if error > 0 else (np.inf if value != 0 else 0.0)
        estimates[name] = Estimate(value, value - reach * error, value + reach * error, float(2 * law.sf(ratio)))
    return estimates


# --- Cox's model of survival times, with Efron's terms for ties -------------------------------------------------------

_MOST_STEPS, _MOST_HALVINGS = 50, 40

_REACHED = 1e-8  # Log-likelihood that a step could gain: 1e-4 standard errors, of which it leaves 1e-8

_STILL_MOVING = 0.1  # A step this long, of the linear predictor, that gains nothing: the likelihood is flat

_TOLERANCE = 1e-2  # Part of a direction's spread by which rounding and other coefficients may blur a comparison


@dataclass(frozen=True, eq=False)
class CoxFit:
    """What was found."""

    values: FloatArray  # Coefficients (logarithms of hazard ratios), shape (n_columns,)
    covariance: FloatArray  # Inverse of the information, or by linearisation with weights, (n_columns, n_columns)
    log_likelihood: float  # The partial one, at `values`
    steps: int  # Newton steps that were taken
    monotone: FloatArray | None  # Direction in which the likelihood grows for ever; None: it has a maximum
    converged: bool  # Whether the maximum was reached


_Given = FloatArray | None  # A number for each record, where there is one


def fit_cox(
    times: FloatArray,
    events: BoolArray,
    columns: FloatArray,
    *,
    strata: _Given = None,
    entry: _Given = None,
    weights: _Given = None,
    psus: Psus | None = None,
) -> CoxFit:
    """The coefficients of largest partial likelihood, by Newton's method with halved steps.

    Shapes: times (n_rows,); events (n_rows,); columns (n_rows, n_columns); strata, entry and weights (n_rows,), for
    hazards of their own, for times after which records are at risk, and of a survey. With `psus` the covariance is
    that of a sample in which these were drawn with replacement; in a tie all have its mean weight.

    The logarithm of the partial likelihood is concave, so that steps that are halved until it grows reach its maximum;
    whole steps, as statsmodels takes them, overshoot where few records carry a large hazard. Where no maximum exists,
    as for a category without events, steps gain less and less while they move on as far. That is reported as monotone
    once the direction was checked against the order of the records. A step costs O(rows * columns²).

    Cox (1972), J. R. Stat. Soc. B 34:187-220. Efron (1977), J. Am. Stat. Assoc. 72:557-565,
    doi:10.1080/01621459.1977.10480613 (ties). Bryson and Johnson (1981), Technometrics 23:381-383,
    doi:10.1080/00401706.1981.10487683 (monotone likelihood). Binder (1992), Biometrika 79:139-147,
    doi:10.1093/biomet/79.1.139 (weights).
    """
    risks = _Risks.of(times, events, columns, strata, entry, weights, psus)
    values = np.zeros(columns.shape[1])
    here = risks.likelihood(values)
    for taken in range(1, _MOST_STEPS + 1):
        gradient, information = risks.derivatives(values)
        # Newton's step; the shortest where the information is singular to rounding
        step = np.asarray(np.linalg.lstsq(information, gradient, rcond=None)[0], dtype=np.float64)
        gain = float(gradient @ step) / 2
        if gain < _REACHED:
            return _finished(risks, values, step, taken)
        shorter = step
        for _ in range(_MOST_HALVINGS):
            there = risks.likelihood(values + shorter)
            if there >= here:  # false of NaN, too
                values, here = values + shorter, there
                break
            shorter = shorter / 2
        else:
            return CoxFit(values, inverse(information), here, taken, None, gain < np.sqrt(_REACHED))
    monotone = step if risks.orders(step) else None
    return CoxFit(values, inverse(risks.derivatives(values)[1]), here, _MOST_STEPS, monotone, False)


@dataclass(frozen=True, eq=False)
class _Risks:
    """The records that are at risk at some event, in the order of their times, stratum by stratum."""

    order: IntArray  # Their places in the table, shape (n_at_risk,)
    columns: FloatArray  # Predictors, shape (n_at_risk, n_columns)
    last: IntArray  # Numbers of the latest event time at which the record is at risk, shape (n_at_risk,)
    before: IntArray
    died: BoolArray  # Whether the record's own event is at that time, shape (n_at_risk,)
    tie: IntArray  # Of each event the number of its time, shape (n_events,)
    gone: FloatArray  # Of each event the part of its tie that is gone before it: 0, 1/d, …, (d-1)/d (Efron)
    ends: IntArray  # Of each event time the number of the first one of the next stratum, shape (n_times,)
    weights: FloatArray  # Of a survey, shape (n_at_risk,), and of each event the mean of its tie, shape (n_events,)
    tied: FloatArray
    truncated: bool  # Whether records enter late
    psus: Psus | None  # How the records were drawn; None without weights

    @classmethod
    def of(
        cls,
        times: FloatArray,
        events: BoolArray,
        columns: FloatArray,
        strata: _Given,
        entry: _Given,
        weights: _Given,
        psus: Psus | None,
    ) -> _Risks:
        """Sort; records that are at risk at no event say nothing and are left out."""
        own = np.zeros(len(times)) if strata is None else strata
        # Times as ranks, and those of a stratum all after those of the stratum before
        every = np.unique(times if entry is None else np.concatenate([times, entry]))
        width = len(every) + 1
        end = own * width + np.searchsorted(every, times) + 1.0
        begin = own * width + (0.0 if entry is None else np.searchsorted(every, entry) + 1.0)
        distinct, counts = np.unique(end[events], return_counts=True)
        order = np.argsort(end, kind="stable")
        last, before = (np.searchsorted(distinct, each[order], side="right") - 1 for each in (end, begin))
        at_risk = last > before
        order, last, before = order[at_risk], last[at_risk], before[at_risk]
        tie, within = places(counts)
        ends = np.searchsorted(distinct, (distinct // width + 1) * width)
        of_survey = np.ones(len(order)) if weights is None else weights[order]
        tied = (np.bincount(last, of_survey * events[order], len(counts)) / counts)[tie]
        made = np.ascontiguousarray(columns[order]), last, before, events[order], tie, within / counts[tie], ends
        return cls(order, *made, of_survey, tied, entry is not None, psus)

    def likelihood(self, values: FloatArray) -> float:
        """The logarithm of the partial likelihood."""
        scores = self.columns @ values
        top = float(scores.max())
        denominators, _ = self._denominators(self.weights * np.exp(scores - top))
        with np.errstate(divide="ignore"):
            own = self.weights[self.died] * (scores[self.died] - top)
            return float(own.sum() - (self.tied * np.log(denominators)).sum())

    def derivatives(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Gradient, shape (n_columns,), and information, shape (n_columns, n_columns), of `likelihood`."""
        scores = self.columns @ values
        hazards = self.weights * np.exp(scores - scores.max())
        denominators, n_times = self._denominators(hazards)

        def summed(parts: FloatArray) -> FloatArray:
            return _binned(self.tie, self.tied * parts, n_times)

        expected = hazards * self._counted(1 / denominators[:, None])[:, 0]
        gradient = self.columns.T @ (self.weights * self.died - expected)
        first = self.columns.T @ (self.columns * expected[:, None])
        at_risk, dead = self._column_sums(hazards, n_times)
        crossed = at_risk.T @ (summed(self.gone / denominators**2)[:, None] * dead)
        second = (
            at_risk.T @ (summed(1 / denominators**2)[:, None] * at_risk)
            - crossed
            - crossed.T
            + dead.T @ (summed((self.gone / denominators) ** 2)[:, None] * dead)
        )
        return gradient, first - second

    def _counted(self, parts: FloatArray) -> FloatArray:
        """Of each record the sum of parts over the events that it is at risk at, less in its own tie; (n, width)."""
        # Shape of parts: (n_events, width).
        n_times, found = int(self.tie[-1]) + 1, np.empty((len(self.last), parts.shape[1]))
        for place, part in enumerate((self.tied[:, None] * parts).T):
            before_each = np.concatenate([[0.0], np.cumsum(_binned(self.tie, part, n_times))])
            found[:, place] = before_each[self.last + 1] - before_each[self.before + 1]
            found[:, place] -= np.where(self.died, _binned(self.tie, self.gone * part, n_times)[self.last], 0.0)
        return found

    def record_scores(self, values: FloatArray, n_rows: int) -> FloatArray:
        """Weighted score residuals, whose sum is the gradient, shape (n_rows, n_columns); 0 of records left out.

        Lin & Wei (1989), J. Am. Stat. Assoc. 84:1074-1078, doi:10.1080/01621459.1989.10478874, with Efron's ties.
        """
        scores = self.columns @ values
        hazards = self.weights * np.exp(scores - scores.max())
        denominators, n_times = self._denominators(hazards)
        at_risk, dead = self._column_sums(hazards, n_times)
        means = (at_risk[self.tie] - self.gone[:, None] * dead[self.tie]) / denominators[:, None]
        counted = self._counted(np.column_stack([np.ones(len(means)), means]) / denominators[:, None])
        found = np.zeros((n_rows, self.columns.shape[1]))
        residuals = hazards[:, None] * (counted[:, 1:] - self.columns * counted[:, :1])
        of_ties = np.bincount(self.tie)
        for place, mean in enumerate(means.T):
            left = self.columns[:, place] - (_binned(self.tie, mean, n_times) / of_ties)[self.last]
            residuals[:, place] += self.weights * self.died * left
        found[self.order] = residuals
        return found

    def orders(self, direction: FloatArray) -> bool:
        """Whether no record at risk lies further in a direction than the event, at any event."""
        scores = self.columns @ direction
        spread = float(np.ptp(scores))
        furthest = np.full(int(self.last[-1]) + 1, -np.inf)
        np.maximum.at(furthest, self.last, scores)
        if self.truncated:  # not looked into: who enters late is not at risk at all earlier events
            return False
        apart = 2.0 * spread * (len(ends := np.unique(self.ends)) - np.searchsorted(ends, self.ends))  # of strata
        furthest = np.maximum.accumulate((furthest + apart)[::-1])[::-1] - apart
        return spread > 0 and bool((scores >= furthest[self.last] - _TOLERANCE * spread)[self.died].all())

    def _denominators(self, hazards: FloatArray) -> tuple[FloatArray, int]:
        """Of each event the hazards at risk, less what Efron takes for gone; and the number of event times."""
        n_times = int(self.tie[-1]) + 1
        at_risk = self._at_risk(hazards, n_times)
        dead = _binned(self.last, hazards * self.died, n_times)
        return at_risk[self.tie] - self.gone * dead[self.tie], n_times

    def _at_risk(self, weights: FloatArray, n_times: int) -> FloatArray:
        """Of each event time the sum of those at risk: who ends then or later, less who comes later."""
        summed = _binned(self.last, weights, n_times)
        if self.truncated or self.ends[0] < n_times:
            summed = summed - _binned(self.before + 1, weights, n_times + 1)[1:]
        return summed[::-1].cumsum()[::-1]

    def _column_sums(self, hazards: FloatArray, n_times: int) -> tuple[FloatArray, FloatArray]:
        """Of each event time the predictors of those at risk and of the dead, times hazards: (n_times, n_columns)."""
        at_risk, dead = np.empty((2, n_times, self.columns.shape[1]))
        for place, column in enumerate(self.columns.T):
            weighted = hazards * column
            at_risk[:, place] = self._at_risk(weighted, n_times)
            dead[:, place] = _binned(self.last, weighted * self.died, n_times)
        return at_risk, dead


def _binned(places: IntArray, weights: FloatArray, n_places: int) -> FloatArray:
    return np.bincount(places, weights, minlength=n_places).astype(np.float64, copy=False)


def _finished(risks: _Risks, values: FloatArray, step: FloatArray, taken: int) -> CoxFit:
    """The last step, unless it leads on for ever."""
    monotone, moving = None, float(np.abs(risks.columns @ step).max()) > _STILL_MOVING
    if moving:
        monotone = step if risks.orders(step) else None
    else:
        values = values + step
    covariance = inverse(risks.derivatives(values)[1])
    if risks.psus is not None:
        covariance = sandwich(covariance, risks.record_scores(values, len(risks.psus.at)), risks.psus)
    settled = monotone is None and not (moving and risks.truncated)
    return CoxFit(values, covariance, risks.likelihood(values), taken, monotone, settled)


# --- Models of arrays: Cox models, and those that statsmodels fits ----------------------------------------------------

_DEPENDENT = 1e-9  # A predictor of which the others leave no more than this share of its size is a sum of them
_LARGE = 10.0  # A logistic coefficient, times its predictor's root mean square, that is on its way to infinity
_MOVING = 0.05  # Part of the largest change that a coefficient has in a direction to infinity, to be named


class Solution(NamedTuple):
    """A fitted model."""

    coefficients: FloatArray  # Estimates, shape (n_coefficients,); NaN where not determined
    errors: FloatArray  # Their standard errors, likewise
    degrees: float  # Degrees of freedom of Student's distribution of the estimates; inf for the normal one


def solve(model: Model, design: Design, table: str = "original") -> Solution:
    """Fit a model; a coefficient is determined if it is the same in all solutions."""
    # An orthogonal basis of the same span: neither units nor columns that depend on each other matter.
    response, events = design.response, design.events
    if model != "cox" and np.ptp(response) == 0:
        raise NoFitError("the response has one value only; widen the subset, or analyse another")
    if model == "cox" and (events is None or not events.any()):
        raise NoFitError("no record has the event; widen the subset, or correct the condition")
    if model == "cox" and (below := int(np.count_nonzero(response < 0))):
        remedy = "declare bounds" if table == "released" else "leave such records out by a subset"
        raise NoFitError(f"{below:,} {table} times are below 0; {remedy}")
    basis = Basis.of(design.predictors, centred=model in ("cox", "ordinal"))
    if not basis.determined.any():
        raise NoFitError("the predictors are constant, or add up to each other; widen the subset, or analyse others")
    if len(response) <= basis.rank + (model == "cox"):
        raise NoFitError(
            f"{len(response)} records are too few for {basis.rank} coefficients; widen the subset, or leave out "
            "predictors"
        )
    if events is not None and model == "cox":
        return _cox(design, events, basis)
    return _regression(model, design, basis)


@dataclass(frozen=True, eq=False)
class Basis:
    """Orthogonal columns that span the predictors."""

    columns: FloatArray  # Shape (n_rows, rank), each of root mean square 1
    triangle: FloatArray  # Predictors of the basis = columns @ triangle, shape (rank, rank)
    places: IntArray  # Numbers of the predictors of the basis, shape (rank,)
    determined: BoolArray  # Whether the coefficient is the same in all solutions, shape (n_coefficients,)
    sizes: FloatArray  # Root mean square of each predictor, or standard deviation where centred, (n_coefficients,)

    @property
    def rank(self) -> int:
        """Columns of the basis."""
        return len(self.places)

    @classmethod
    def of(cls, predictors: FloatArray, *, centred: bool) -> Basis:
        """By a QR decomposition that takes the predictor of which most is left first."""
        used = predictors
        if centred:
            used = np.where(np.ptp(predictors, axis=0) > 0, predictors - predictors.mean(axis=0), 0.0)
        sizes = np.sqrt(np.square(used).mean(axis=0))
        scaled = used / np.where(sizes > 0, sizes, 1.0)
        columns, triangle, order = qr(scaled, mode="economic", pivoting=True, check_finite=False)
        diagonal = np.abs(np.diag(triangle))
        rank = int(np.count_nonzero(diagonal > _DEPENDENT * diagonal.max(initial=0.0)))
        determined = np.zeros(predictors.shape[1], dtype=np.bool_)
        shares = solve_triangular(triangle[:rank, :rank], triangle[:rank, rank:], check_finite=False)
        determined[order[:rank]] = (np.abs(shares) < np.sqrt(_DEPENDENT)).all(axis=1)
        root, places = np.sqrt(len(predictors)), order[:rank].astype(np.int64)
        basis, triangle = np.ascontiguousarray(columns[:, :rank]) * root, triangle[:rank, :rank] * sizes[places] / root
        return cls(basis, triangle, places, determined, sizes)

    def turned_back(self, values: FloatArray, covariance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Coefficients of the predictors and their standard errors, NaN where not determined."""
        inverse = solve_triangular(self.triangle, np.eye(self.rank), check_finite=False)
        coefficients, errors = np.full((2, len(self.determined)), np.nan)
        coefficients[self.places] = inverse @ values
        errors[self.places] = np.sqrt(np.einsum("ij,jk,ik->i", inverse, covariance, inverse).clip(min=0.0))
        coefficients[~self.determined], errors[~self.determined] = np.nan, np.nan
        return coefficients, errors


def _regression(model: Model, design: Design, basis: Basis) -> Solution:
    """The coefficients of any other model, of several equations one after the other."""
    rank = basis.rank
    try:
        values, covariance = fitted(model, design, basis.columns)
    except SeparatedError as error:  # some coefficients of a logistic model were on their way to infinity
        coefficients = basis.turned_back(error.values, np.zeros((rank, rank)))[0]
        growing = _named(np.abs(np.nan_to_num(coefficients * basis.sizes)) > _LARGE, design.terms)
        raise NoFitError(_apart(growing)) from None
    parts = [slice(at, at + rank) for at in range(0, len(values), rank)]
    found = [basis.turned_back(values[part], covariance[part, part]) for part in parts]
    coefficients, errors = (np.concatenate(each) for each in zip(*found, strict=True))
    return Solution(coefficients, errors, float(len(design.response) - rank) if model == "linear" else np.inf)


def _cox(design: Design, events: BoolArray, basis: Basis) -> Solution:
    """A Cox model's coefficients, or why there are none."""
    terms = design.terms
    if design.entry is not None and (late := int(np.count_nonzero(design.entry >= design.response))):
        raise NoFitError(
            f"{late:,} records enter at or after the end of their time; leave such records out by a subset"
        )
    others = {"strata": design.strata, "entry": design.entry, "weights": design.weights}
    fit = fit_cox(design.response, events, basis.columns, **others, psus=design.psus)
    if fit.monotone is not None:
        moved = np.abs(np.nan_to_num(basis.turned_back(fit.monotone, fit.covariance)[0] * basis.sizes))
        raise NoFitError(_apart(_named(moved > _MOVING * moved.max(), terms)))
    if not fit.converged:
        raise NoFitError(
            "the fit did not converge, though no predictor separates the outcomes; leave out predictors that nearly "
            "add up to each other"
        )
    return Solution(*basis.turned_back(fit.values, fit.covariance), np.inf)


def _named(chosen: BoolArray, terms: Sequence[str]) -> list[str]:
    """The parts of the formula that the coefficients are from, each once."""
    return list(dict.fromkeys(terms[place] for place in np.flatnonzero(chosen).tolist()))


def _apart(growing: Sequence[str]) -> str:
    what = f"{', '.join(growing)} may separate the outcomes" if growing else "predictors may separate the outcomes"
    return f"the fit did not converge: {what}; coarsen rare categories, or leave out predictors"
