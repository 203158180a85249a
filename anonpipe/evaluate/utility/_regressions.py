"""Counts, ordered and unordered categories, and repeated measurements: models of arrays, fitted by statsmodels."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from anonpipe.evaluate.utility._formula import NoFitError, library
from anonpipe.types import FloatArray

if TYPE_CHECKING:
    from anonpipe.evaluate.utility._design import Design

_STEPS = 200
_VANISHING = 1e-8  # A fitted count, as a part of the mean, that says that a coefficient is on its way to infinity
SURE = 25.0  # Of log-odds the same
_NOT = "the fit did not converge; coarsen rare categories, or leave out predictors"
_APART = "the fit did not converge: predictors may separate the outcomes; coarsen rare categories, or leave them out"


def fitted(model: str, design: Design, columns: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Estimates, shape (rank * n_equations,), and their covariance, of columns of shape (n_rows, rank)."""
    values, covariance = _MODELS[model](design, columns)
    if not (np.isfinite(values).all() and np.isfinite(covariance).all() and (np.diag(covariance) > 0).all()):
        raise NoFitError(_NOT)
    return values, covariance


def attempt(fit: Callable[[], Any], *failures: str) -> tuple[Any, bool]:
    """What statsmodels finds, None where it gave up, and whether it warned of a failure; its texts may quote values."""
    found = None
    with warnings.catch_warnings(record=True) as warned, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        with contextlib.suppress(Exception):
            found = fit()
    failures = ("ConvergenceWarning", "HessianInversionWarning", *failures)
    return found, any(each.category.__name__ in failures for each in warned)


def _fit(place: str, name: str, *given: Any, fit: dict[str, Any], **named: Any) -> Any:
    """A model of statsmodels; whatever goes wrong is one reason."""
    model = getattr(library(f"statsmodels.{place}", "models are fitted"), name)
    found, failed = attempt(lambda: model(*given, **named).fit(**fit))
    details = getattr(found, "mle_retvals", None) or {}
    if found is None or failed or not details.get("converged", getattr(found, "converged", True)):
        raise NoFitError(_NOT)
    return found


def _offset(design: Design) -> FloatArray:
    """Logarithms of the exposure, 0 without."""
    counts = design.response
    if (counts < 0).any() or (counts != np.rint(counts)).any() or not counts.any():
        raise NoFitError("the response of a model of counts is whole numbers from 0, not all 0; analyse another")
    if design.exposure is None:
        return np.zeros(len(counts))
    if not (design.exposure > 0).all():
        raise NoFitError("the exposure is 0 or negative in some records; leave these out by a subset")
    return np.log(design.exposure)


def _poisson(design: Design, columns: FloatArray) -> tuple[FloatArray, FloatArray]:
    offset, family = _offset(design), library("statsmodels.genmod.families", "models are fitted").Poisson()
    given = (design.response, columns, family)
    found = _fit("genmod.generalized_linear_model", "GLM", *given, offset=offset, fit={"maxiter": _STEPS})
    _check_counts(found.fittedvalues)
    return np.asarray(found.params), np.asarray(found.cov_params())


def _check_counts(expected: FloatArray) -> None:
    if expected.min() < _VANISHING * expected.mean():
        raise NoFitError("the fit did not converge: some category has no counts; coarsen rare categories")


def _negative_binomial(design: Design, columns: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Variance mean + alpha * mean², NB2; from the estimates of the Poisson model."""
    start, offset = _poisson(design, columns)[0], _offset(design)
    expected = np.exp(columns @ start + offset)
    beyond = float((((design.response - expected) ** 2 - design.response) / expected**2).mean())
    if beyond <= 0:
        raise NoFitError("counts show no overdispersion; take a poisson model")
    fit = {"method": "bfgs", "maxiter": _STEPS, "disp": False, "start_params": np.append(start, beyond)}
    given = (design.response, columns)
    found = _fit("discrete.discrete_model", "NegativeBinomial", *given, offset=offset, fit=fit)
    rank = columns.shape[1]
    _check_counts(np.exp(columns @ found.params[:rank] + offset))
    return np.asarray(found.params)[:rank], np.asarray(found.cov_params())[:rank, :rank]


def _ordinal(design: Design, columns: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Proportional odds; the thresholds are estimated, too."""
    present, codes = np.unique(design.response, return_inverse=True)
    if len(present) < 2:
        raise NoFitError("the response has one value only; widen the subset, or analyse another")
    fit = {"method": "bfgs", "maxiter": _STEPS, "disp": False}
    found = _fit("miscmodels.ordinal_model", "OrderedModel", codes, columns, distr="logit", fit=fit)
    rank = columns.shape[1]
    _check_odds(columns @ found.params[:rank])
    return np.asarray(found.params)[:rank], np.asarray(found.cov_params())[:rank, :rank]


def _check_odds(scores: FloatArray) -> None:
    if np.abs(scores).max() > SURE:
        raise NoFitError(_APART)


def _multinomial(design: Design, columns: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Log-odds of each category against the first."""
    present, codes = np.unique(design.response.astype(np.int64), return_inverse=True)
    if present[0] != 0 or len(present) < len(design.levels):
        raise NoFitError("a category of the response has no record; join it to another")
    fit = {"method": "newton", "maxiter": _STEPS, "disp": False}
    found = _fit("discrete.discrete_model", "MNLogit", codes, columns, fit=fit)
    _check_odds(columns @ found.params)
    return np.asarray(found.params).T.reshape(-1), np.asarray(found.cov_params())


def _mixed(design: Design, columns: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A random intercept of each group, by restricted maximum likelihood."""
    groups = design.groups
    assert groups is not None  # as the analysis names a column
    if not 1 < len(np.unique(groups)) < len(groups):
        raise NoFitError("a mixed model needs two groups or more, some with several records; name another column")
    found = _fit("regression.mixed_linear_model", "MixedLM", design.response, columns, groups, fit={"reml": True})
    rank = columns.shape[1]
    return np.asarray(found.fe_params), np.asarray(found.cov_params())[:rank, :rank]


_MODELS = {
    "poisson": _poisson,
    "negative_binomial": _negative_binomial,
    "ordinal": _ordinal,
    "multinomial": _multinomial,
    "mixed": _mixed,
}
REGRESSIONS = tuple(_MODELS)
