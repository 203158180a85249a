"""Cox's model of survival times, with Efron's terms for ties."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anonpipe.types import FloatArray, IntArray

MOST_STEPS = 50
MOST_HALVINGS = 40

# Log-likelihood that a further step could gain; in standard errors a distance of 1e-4, of which a step leaves 1e-8
REACHED = 1e-8

# A step this long, in units of the linear predictor, that gains nothing: the likelihood is flat to infinity
STILL_MOVING = 0.1

TOLERANCE = 1e-2  # Part of the spread of a direction by which rounding and the other coefficients may blur a comparison


@dataclass(frozen=True, eq=False)
class CoxFit:
    """What was found."""

    values: FloatArray  # Coefficients (logarithms of hazard ratios), shape (n_columns,)
    covariance: FloatArray  # Inverse of the information, shape (n_columns, n_columns)
    log_likelihood: float  # The partial one, at `values`
    steps: int  # Newton steps that were taken
    # A direction in which the likelihood grows for ever, shape (n_columns,); None where it has a maximum
    monotone: FloatArray | None
    converged: bool  # Whether the maximum was reached


def fit_cox(times: FloatArray, events: npt.NDArray[np.bool_], columns: FloatArray) -> CoxFit:
    """The coefficients of largest partial likelihood, by Newton's method with halved steps.

    Shapes: times (n_rows,); events (n_rows,); columns (n_rows, n_columns).

    Notes
    -----
    The logarithm of the partial likelihood is concave, so that steps that are
    halved until it grows reach its maximum from anywhere. Whole Newton steps,
    as statsmodels takes them, overshoot where few records carry a large
    hazard. Where no maximum exists - some direction orders every event before
    all records that are still at risk, such as a category without events - it
    grows towards a limit, and steps gain less and less while they move on as
    far. Only that is reported as monotone, after the direction was checked
    against the order of the records.

    One step costs O(rows * columns²) and as much memory as the predictors
    twice; statsmodels takes the distinct times of events one by one.

    References
    ----------
    Cox (1972), J. R. Stat. Soc. B 34:187-220. Efron (1977), J. Am. Stat.
    Assoc. 72:557-565, doi:10.1080/01621459.1977.10480613 (ties). Bryson and
    Johnson (1981), Technometrics 23:381-383,
    doi:10.1080/00401706.1981.10487683 (monotone likelihood).

    Examples
    --------
    >>> times, events = np.array([1.0, 1, 6, 6, 8, 9]), np.array([1, 0, 1, 1, 0, 1]) == 1
    >>> found = fit_cox(times, events, np.array([[1.0], [1], [1], [0], [0], [0]]))
    >>> found.values.round(6).tolist(), found.converged
    ([1.676857], True)
    """
    risks = Risks.of(times, events, columns)
    values = np.zeros(columns.shape[1])
    here = risks.likelihood(values)
    for taken in range(1, MOST_STEPS + 1):
        gradient, information = risks.derivatives(values)
        step = _solved(information, gradient)
        gain = float(gradient @ step) / 2
        if gain < REACHED:
            return _finished(risks, values, step, taken)
        values, here, grown = _onward(risks, values, step, here)
        if not grown:
            return CoxFit(values, _inverse(information), here, taken, None, gain < np.sqrt(REACHED))
    return CoxFit(values, _inverse(risks.derivatives(values)[1]), here, MOST_STEPS, _monotone(risks, step), False)


@dataclass(frozen=True, eq=False)
class Risks:
    """The records that are at risk at some event, in the order of their times."""

    columns: FloatArray  # Predictors, shape (n_at_risk, n_columns)
    last: IntArray  # Number of the latest event time at which the record is at risk, shape (n_at_risk,), ascending
    died: npt.NDArray[np.bool_]  # Whether the record's own event is at that time, shape (n_at_risk,)
    tie: IntArray  # Of each event the number of its time, shape (n_events,)
    # Of each event the part of its tie that Efron takes for gone before it: 0, 1/d, …, (d-1)/d, shape (n_events,)
    gone: FloatArray

    @classmethod
    def of(cls, times: FloatArray, events: npt.NDArray[np.bool_], columns: FloatArray) -> Risks:
        """Sort; records censored before the first event say nothing and are left out."""
        distinct, counts = np.unique(times[events], return_counts=True)
        order = np.argsort(times, kind="stable")
        last = np.searchsorted(distinct, times[order], side="right") - 1
        order, last = order[last >= 0], last[last >= 0]
        tie = np.repeat(np.arange(len(distinct)), counts)
        within = np.arange(len(tie)) - np.repeat(np.cumsum(counts) - counts, counts)
        return cls(np.ascontiguousarray(columns[order]), last, events[order], tie, within / counts[tie])

    def likelihood(self, values: FloatArray) -> float:
        """The logarithm of the partial likelihood."""
        scores = self.columns @ values
        top = float(scores.max())
        denominators, _ = self._denominators(np.exp(scores - top))
        with np.errstate(divide="ignore"):
            return float((scores[self.died] - top).sum() - np.log(denominators).sum())

    def derivatives(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Gradient, shape (n_columns,), and information, shape (n_columns, n_columns), of `likelihood`."""
        scores = self.columns @ values
        hazards = np.exp(scores - scores.max())
        denominators, n_times = self._denominators(hazards)

        def summed(parts: FloatArray) -> FloatArray:
            return _binned(self.tie, parts, n_times)

        # a record counts in the denominators of all events up to its last time, and less in those of its own tie
        counted = np.cumsum(summed(1 / denominators))[self.last]
        counted -= np.where(self.died, summed(self.gone / denominators)[self.last], 0.0)
        expected = hazards * counted
        gradient = self.columns.T @ (self.died - expected)
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

    def orders(self, direction: FloatArray) -> bool:
        """Whether no record at risk lies further in a direction than the event, at any event."""
        scores = self.columns @ direction
        spread = float(np.ptp(scores))
        furthest = np.full(int(self.last[-1]) + 1, -np.inf)
        np.maximum.at(furthest, self.last, scores)
        furthest = np.maximum.accumulate(furthest[::-1])[::-1]
        return spread > 0 and bool((scores >= furthest[self.last] - TOLERANCE * spread)[self.died].all())

    def _denominators(self, hazards: FloatArray) -> tuple[FloatArray, int]:
        """Of each event the hazards at risk, less what Efron takes for gone; and the number of event times."""
        n_times = int(self.tie[-1]) + 1
        at_risk = _from_the_end(_binned(self.last, hazards, n_times))
        dead = _binned(self.last, hazards * self.died, n_times)
        return at_risk[self.tie] - self.gone * dead[self.tie], n_times

    def _column_sums(self, hazards: FloatArray, n_times: int) -> tuple[FloatArray, FloatArray]:
        """Of each event time the predictors of those at risk and of the dead, times hazards: (n_times, n_columns)."""
        at_risk, dead = np.empty((2, n_times, self.columns.shape[1]))
        for place, column in enumerate(self.columns.T):
            weighted = hazards * column
            at_risk[:, place] = _from_the_end(_binned(self.last, weighted, n_times))
            dead[:, place] = _binned(self.last, weighted * self.died, n_times)
        return at_risk, dead


def _binned(places: IntArray, weights: FloatArray, n_places: int) -> FloatArray:
    return np.bincount(places, weights, minlength=n_places).astype(np.float64, copy=False)


def _from_the_end(sums: FloatArray) -> FloatArray:
    return np.cumsum(sums[::-1])[::-1]


def _onward(risks: Risks, values: FloatArray, step: FloatArray, here: float) -> tuple[FloatArray, float, bool]:
    """The step, or the first half of it, or of that, which does not lose."""
    for _ in range(MOST_HALVINGS):
        there = risks.likelihood(values + step)
        if there >= here:  # false of NaN, too
            return values + step, there, True
        step = step / 2
    return values, here, False


def _finished(risks: Risks, values: FloatArray, step: FloatArray, taken: int) -> CoxFit:
    """The last step, unless it leads on for ever."""
    monotone = None
    if float(np.abs(risks.columns @ step).max()) > STILL_MOVING:
        monotone = _monotone(risks, step)
    else:
        values = values + step
    covariance = _inverse(risks.derivatives(values)[1])
    return CoxFit(values, covariance, risks.likelihood(values), taken, monotone, monotone is None)


def _monotone(risks: Risks, step: FloatArray) -> FloatArray | None:
    return step if risks.orders(step) else None


def _solved(information: FloatArray, gradient: FloatArray) -> FloatArray:
    """Newton's step; the shortest where the information is singular to rounding."""
    return np.asarray(np.linalg.lstsq(information, gradient, rcond=None)[0], dtype=np.float64)


def _inverse(information: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.pinv(information, hermitian=True), dtype=np.float64)
