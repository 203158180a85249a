"""Linear and logistic models of arrays, fitted by statsmodels, and Cox models."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import qr, solve_triangular

from anonpipe.errors import JobError
from anonpipe.evaluate.utility._cox import fit_cox
from anonpipe.evaluate.utility._design import Design
from anonpipe.evaluate.utility._formula import Model, NoFitError
from anonpipe.types import FloatArray

DEPENDENT = 1e-9  # A predictor of which the others leave no more than this share of its size is a sum of them

LARGE = 10.0  # A logistic coefficient, times its predictor's root mean square, that is on its way to infinity

MOVING = 0.05  # Part of the largest change that a coefficient has in a direction to infinity, to be named

MOST_STEPS = 50


@dataclass(frozen=True, eq=False)
class Solution:
    """A fitted model."""

    # coefficients, errors: estimates and standard errors, shape (n_coefficients,); NaN for a coefficient that the
    # records do not determine
    coefficients: FloatArray
    errors: FloatArray
    degrees: float  # Degrees of freedom of Student's distribution of the estimates; inf for the normal one


def solve(model: Model, design: Design, table: str = "original") -> Solution:
    """Fit a model.

    Predictors are turned into an orthogonal basis of the same span before
    they are fitted, and the result is turned back: so neither units nor
    columns that depend on each other matter. A coefficient is determined if it
    is the same in all solutions; of a category without records, of a
    constant column beside an intercept, or of columns that add up, there are
    many.

    Examples
    --------
    >>> x = np.array([0.0, 1.0, 2.0, 3.0])
    >>> design = Design(2 * x + [0, 1, 0, 1], np.column_stack([np.ones(4), x]), ("a", "b"), ("a", "b"), None, 0)
    >>> solve("linear", design).coefficients.round(9).tolist()
    [0.2, 2.2]
    """
    response, events = design.response, design.events
    if model != "cox" and np.ptp(response) == 0:
        raise NoFitError("the response has one value only; widen the subset, or analyse another")
    if model == "cox" and (events is None or not events.any()):
        raise NoFitError("no record has the event; widen the subset, or correct the condition")
    if model == "cox" and (below := int(np.count_nonzero(response < 0))):
        remedy = "declare bounds" if table == "released" else "leave such records out by a subset"
        raise NoFitError(f"{below:,} {table} times are below 0; {remedy}")
    basis = Basis.of(design.predictors, centred=model == "cox")
    if not basis.determined.any():
        raise NoFitError("the predictors are constant, or add up to each other; widen the subset, or analyse others")
    if len(response) <= basis.rank + (model == "cox"):
        raise NoFitError(
            f"{len(response)} records are too few for {basis.rank} coefficients; widen the subset, or leave out "
            "predictors"
        )
    if events is not None and model == "cox":
        return _cox(response, events, basis, design.terms)
    fitted, converged = _fitted(model, response, basis.columns)
    values = None if fitted is None else np.asarray(fitted.params, dtype=np.float64)
    if values is not None and converged:
        covariance = np.asarray(fitted.cov_params(), dtype=np.float64)
        coefficients, errors = basis.turned_back(values, covariance)
        if np.isfinite(errors[basis.determined]).all():
            degrees = float(fitted.df_resid) if model == "linear" else np.inf
            return Solution(coefficients, errors, degrees)
    raise NoFitError(_apart(_growing(values, basis, design.terms)))


@dataclass(frozen=True, eq=False)
class Basis:
    """Orthogonal columns that span the predictors."""

    columns: FloatArray  # Shape (n_rows, rank), each of root mean square 1
    triangle: FloatArray  # Predictors of the basis = columns @ triangle, shape (rank, rank)
    places: npt.NDArray[np.int64]  # Numbers of the predictors of the basis, shape (rank,)
    determined: npt.NDArray[np.bool_]  # Whether the coefficient is the same in all solutions, shape (n_coefficients,)
    # Root mean square of each predictor, or standard deviation where centred, shape (n_coefficients,)
    sizes: FloatArray

    @property
    def rank(self) -> int:
        """Columns of the basis."""
        return len(self.places)

    @classmethod
    def of(cls, predictors: FloatArray, *, centred: bool) -> Basis:
        """By a QR decomposition that takes the predictor of which most is left first.

        Examples
        --------
        >>> x = np.array([0.0, 1.0, 2.0, 5.0])
        >>> Basis.of(np.column_stack([np.ones(4), x, 2 * x, np.zeros(4)]), centred=False).determined.tolist()
        [True, False, False, False]
        """
        used = predictors
        if centred:
            used = np.where(np.ptp(predictors, axis=0) > 0, predictors - predictors.mean(axis=0), 0.0)
        sizes = np.sqrt(np.square(used).mean(axis=0))
        scaled = used / np.where(sizes > 0, sizes, 1.0)
        columns, triangle, order = qr(scaled, mode="economic", pivoting=True, check_finite=False)
        diagonal = np.abs(np.diag(triangle))
        rank = int(np.count_nonzero(diagonal > DEPENDENT * diagonal.max(initial=0.0)))
        determined = np.zeros(predictors.shape[1], dtype=np.bool_)
        shares = solve_triangular(triangle[:rank, :rank], triangle[:rank, rank:], check_finite=False)
        determined[order[:rank]] = (np.abs(shares) < np.sqrt(DEPENDENT)).all(axis=1)
        root = np.sqrt(len(predictors))
        places = order[:rank].astype(np.int64)
        return cls(
            np.ascontiguousarray(columns[:, :rank]) * root,
            triangle[:rank, :rank] * sizes[places] / root,
            places,
            determined,
            sizes,
        )

    def turned_back(self, values: FloatArray, covariance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Coefficients of the predictors and their standard errors, NaN where not determined."""
        inverse = solve_triangular(self.triangle, np.eye(self.rank), check_finite=False)
        coefficients, errors = np.full((2, len(self.determined)), np.nan)
        coefficients[self.places] = inverse @ values
        errors[self.places] = np.sqrt(np.einsum("ij,jk,ik->i", inverse, covariance, inverse).clip(min=0.0))
        coefficients[~self.determined], errors[~self.determined] = np.nan, np.nan
        return coefficients, errors


def _cox(times: FloatArray, events: npt.NDArray[np.bool_], basis: Basis, terms: Sequence[str]) -> Solution:
    """A Cox model's coefficients, or why there are none."""
    found = fit_cox(times, events, basis.columns)
    if found.monotone is not None:
        moved = np.abs(np.nan_to_num(basis.turned_back(found.monotone, found.covariance)[0] * basis.sizes))
        raise NoFitError(_apart(_named(moved > MOVING * moved.max(), terms)))
    if not found.converged:
        raise NoFitError(
            "the fit did not converge, though no predictor tells the outcomes apart; leave out predictors that nearly "
            "add up to each other"
        )
    return Solution(*basis.turned_back(found.values, found.covariance), np.inf)


def _fitted(model: Model, response: FloatArray, columns: FloatArray) -> tuple[Any, bool]:
    """What statsmodels found, None where it gave up, and whether it reached the maximum."""
    try:
        from statsmodels.discrete.discrete_model import Logit
        from statsmodels.regression.linear_model import OLS
    except ImportError:
        Logit = OLS = None
    if OLS is None:
        raise JobError(
            "models are fitted by statsmodels, which is not installed; install it with: pip install statsmodels"
        )
    fitted = None
    with warnings.catch_warnings(record=True) as told, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        try:
            if model == "linear":
                fitted = OLS(response, columns).fit()
            else:
                fitted = Logit(response, columns).fit(method="newton", maxiter=MOST_STEPS, disp=False)
        except Exception:  # what the library says may quote values
            fitted = None
    failures = ("ConvergenceWarning", "PerfectSeparationWarning", "HessianInversionWarning")
    return fitted, not any(item.category.__name__ in failures for item in told)


def _growing(values: FloatArray | None, basis: Basis, terms: Sequence[str]) -> list[str]:
    """Which predictors of a logistic model have coefficients on their way to infinity."""
    if values is None or not np.isfinite(values).all():
        return []
    coefficients = basis.turned_back(values, np.zeros((basis.rank, basis.rank)))[0]
    return _named(np.abs(np.nan_to_num(coefficients * basis.sizes)) > LARGE, terms)


def _named(chosen: npt.NDArray[np.bool_], terms: Sequence[str]) -> list[str]:
    """The parts of the formula that the coefficients are from, each once."""
    return list(dict.fromkeys(terms[place] for place in np.flatnonzero(chosen).tolist()))


def _apart(growing: Sequence[str]) -> str:
    what = f"{', '.join(growing)} may tell the outcomes apart" if growing else "predictors may tell the outcomes apart"
    return f"the fit did not converge: {what}; coarsen rare categories, or leave out predictors"
