"""The recipient's models, fitted to the original and to the release."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from anonpipe.errors import JobError
from anonpipe.evaluate.utility._design import INTERCEPT, FormulaCoding, apply, learn
from anonpipe.evaluate.utility._formula import Analysis, NoFitError
from anonpipe.evaluate.utility._models import Solution, solve

if TYPE_CHECKING:
    import pandas as pd

SIGNIFICANT = 0.05  # p below which a coefficient is significant; intervals are of 1 minus this


@dataclass(frozen=True)
class Estimate:
    """A coefficient: its value, the ends of its 95 % interval, and p of the test that it is 0.

    Intervals are of Student's distribution for linear models, and of the
    normal one (Wald) for logistic and Cox models, whose values are logarithms
    of odds and hazard ratios.
    """

    value: float
    low: float
    high: float
    p: float

    @property
    def significant(self) -> bool:
        """Whether p is below 0.05."""
        return self.p < SIGNIFICANT


@dataclass(frozen=True)
class ModelFit:
    """A model of one table."""

    rows: int  # Records that it was fitted to; 0 where there is no fit
    left_out: int  # Records of the subset with a null in a column that it needs
    # By name of the coefficient; None for one that the records do not determine (a category without records, a constant
    # column, columns that add up). Names hold categories of the original.
    estimates: Mapping[str, Estimate | None]
    problem: str | None  # Why there is no fit, such as no convergence; None where there is one
    # Of each coefficient the records that it rests on: those that tell its predictor from a constant
    behind: Mapping[str, int] = field(default_factory=dict)
    # Whether the coefficients are in units of the original, as a function of the formula keeps what it has seen of
    # that; None where nobody knows
    learnt: bool | None = None


@dataclass(frozen=True)
class CoefficientChange:
    """A coefficient of the original and what became of it."""

    name: str  # As the formula's library writes it: `stage[T.Distant]`
    # original, released: none for one that the release does not determine, as its model has no fit or the category no
    # records. Such a one is *lost*, and counts as changed in every way that applies, so that a failure never flatters a
    # release.
    original: Estimate
    released: Estimate | None

    @property
    def changed_significance(self) -> bool:
        """Significant on one side only; a lost one, if it was significant."""
        after = self.released.significant if self.released is not None else False
        return self.original.significant != after

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

        J of Karr et al. (2006). An interval without width counts as wholly
        shared where it lies in the other.
        """
        if self.released is None:
            return 0.0
        low, high = max(self.original.low, self.released.low), min(self.original.high, self.released.high)
        if high < low:
            return 0.0
        widths = (self.original.high - self.original.low, self.released.high - self.released.low)
        return float(np.mean([(high - low) / width if width > 0 else 1.0 for width in widths]))


@dataclass(frozen=True)
class CoefficientShares:
    """How many of the coefficients changed; intercepts are not among them."""

    # coefficients, significant: coefficients of the originals, and those of them that are significant
    coefficients: int
    significant: int
    # changed_significance, outside: shares of the coefficients, 0 to 1; NaN where there are none
    changed_significance: float
    changed_direction: float  # Share of the significant ones; NaN where there are none
    outside: float
    overlap: float  # Mean of the overlaps of intervals, 0 to 1
    lost: int  # Coefficients that the release does not determine; in the shares they count as changed


@dataclass(frozen=True)
class ModelComparison:
    """One analysis of both tables."""

    analysis: Analysis  # Which
    # original, released: the two fits. Where the original has none, there is nothing to compare.
    original: ModelFit
    released: ModelFit
    # Those that the original determines, in the formula's order, the intercept among them
    coefficients: tuple[CoefficientChange, ...]

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

    def compare(self, released: pd.DataFrame) -> ModelComparison:
        """Fit the release too."""
        if self.coding is None or self.fit.problem is not None:
            after = ModelFit(0, 0, {}, "the original has no fit to compare with")
        else:
            after = _fit(self.coding, released, "released")
        changes = (
            CoefficientChange(name, before, after.estimates.get(name))
            for name, before in self.fit.estimates.items()
            if before is not None
        )
        return ModelComparison(self.analysis, self.fit, after, tuple(changes))


def fit_models(original: pd.DataFrame, analyses: Iterable[Analysis]) -> tuple[FittedModel, ...]:
    """Fit the recipient's models to the original once, so that any number of releases can be compared with it.

    A release is coded as the original is: with its levels, knots and scales. So
    equal names mean the same, and a level that the release has lost is seen as
    such. A model that has no fit says why in its `ModelFit` and does not stop the others.
    No error quotes values of the data.

    References
    ----------
    Gal, Tucker, Gangopadhyay and Chen (2014), J. Biomed. Inform. 50:32-45,
    doi:10.1016/j.jbi.2014.01.001, section 3, metrics. Karr, Kohnen, Oganian,
    Reiter and Sanil (2006), Am. Stat. 60:224-232,
    doi:10.1198/000313006X124640 (overlap).

    Examples
    --------
    >>> import pandas as pd
    >>> rng = np.random.default_rng(1)
    >>> frame = pd.DataFrame({"age": rng.normal(60, 9, 500), "sex": rng.choice(["f", "m"], 500)})
    >>> frame["months"] = 90 - frame["age"] + rng.normal(size=500)
    >>> (model,) = fit_models(frame, [Analysis("survival", "linear", "months ~ age + sex")])
    >>> shares = model.compare(frame.assign(age=120 - frame["age"])).shares
    >>> shares.significant, shares.changed_direction
    (1, 1.0)
    """
    models = tuple(analyses)
    names = [analysis.name for analysis in models]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise JobError(f"several analyses are called {', '.join(twice)}; give each a name of its own")
    return tuple(_fit_original(original, analysis) for analysis in models)


def shares_changed(comparisons: Sequence[ModelComparison]) -> CoefficientShares:
    """How many of the coefficients of several models changed, each coefficient counting the same.

    Gal et al. count coefficients outside of the interval over all coefficients in
    their list of measures, and over significant ones in their requirements; the
    first is done here. They do not say whether intercepts count: here they do not.
    """
    changes = [change for comparison in comparisons for change in comparison.coefficients if change.name != INTERCEPT]
    significant = [change for change in changes if change.original.significant]
    return CoefficientShares(
        coefficients=len(changes),
        significant=len(significant),
        changed_significance=_mean([change.changed_significance for change in changes]),
        changed_direction=_mean([change.changed_direction for change in significant]),
        outside=_mean([change.outside for change in changes]),
        overlap=_mean([change.overlap for change in changes]),
        lost=sum(change.released is None for change in changes),
    )


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def _fit_original(original: pd.DataFrame, analysis: Analysis) -> FittedModel:
    try:
        coding = learn(original, analysis)
    except NoFitError as error:
        return FittedModel(analysis, ModelFit(0, 0, {}, str(error)), None)
    return FittedModel(analysis, _fit(coding, original, "original"), coding)


def _fit(coding: FormulaCoding, frame: pd.DataFrame, table: str) -> ModelFit:
    try:
        design = apply(coding, frame)
        solution = solve(coding.analysis.model, design, table)
    except NoFitError as error:
        return ModelFit(0, 0, {}, str(error))
    estimates = _estimates(design.names, solution)
    return ModelFit(len(design.response), design.left_out, estimates, None, design.behind, design.learnt)


def _estimates(names: Sequence[str], solution: Solution) -> dict[str, Estimate | None]:
    from scipy.stats import norm, t

    law = t(solution.degrees) if np.isfinite(solution.degrees) else norm()
    reach = float(law.ppf(1 - SIGNIFICANT / 2))
    estimates: dict[str, Estimate | None] = {}
    for name, value, error in zip(names, solution.coefficients.tolist(), solution.errors.tolist(), strict=True):
        if np.isnan(value):
            estimates[name] = None
            continue
        ratio = abs(value) / error if error > 0 else (np.inf if value != 0 else 0.0)
        estimates[name] = Estimate(value, value - reach * error, value + reach * error, float(2 * law.sf(ratio)))
    return estimates
