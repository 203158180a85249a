"""Numbers, counts, categories and repeated measurements: regressions of arrays, fitted by statsmodels."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import digamma, expit, softmax

from anonpipe.evaluate.utility._formula import NoFitError
from anonpipe.evaluate.utility._weighted import Psus
from anonpipe.types import FloatArray

if TYPE_CHECKING:
    from anonpipe.evaluate.utility._design import Design

_STEPS, _NEWTON_STEPS, _HALVINGS = 200, 50, 30
_VANISHING = 1e-8  # A fitted count, as a part of the mean, that says that a coefficient is on its way to infinity
_SURE = 25.0  # Of log-odds the same
_STEP = 1e-6  # Of differences of scores; coefficients are those of columns of root mean square 1
_REACHED = 1e-12  # What Newton's steps may still gain of the weighted log-likelihood
_NOT = "the fit did not converge; coarsen rare categories, or leave out predictors"
_POISSON = "counts show no overdispersion; take a poisson model"
_APART = "the fit did not converge: predictors may separate the outcomes; coarsen rare categories, or leave them out"


class SeparatedError(Exception):
    """Predictors tell the outcomes of a logistic model apart."""

    def __init__(self, values: FloatArray) -> None:
        super().__init__()
        self.values = values  # Where it was given up


def fitted(model: str, design: Design, columns: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Estimates, shape (rank * n_equations,), and their covariance, of columns of shape (n_rows, rank)."""
    values, covariance = _MODELS[model](design, columns)
    if design.weights is not None:
        values, covariance = _weighted(model, design, columns, values)
    if model == "negative_binomial" and values[-1] <= 0:
        raise NoFitError(_POISSON)
    if model != "multinomial":  # thresholds and dispersion are not reported
        values, covariance = values[: columns.shape[1]], covariance[: columns.shape[1], : columns.shape[1]]
    if not (np.isfinite(values).all() and np.isfinite(covariance).all() and (np.diag(covariance) > 0).all()):
        raise NoFitError(_NOT)
    return values, covariance


def _attempt(fit: Callable[[], Any], *failures: str) -> tuple[Any, bool]:
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
    model = getattr(import_module(f"statsmodels.{place}"), name)
    found, failed = _attempt(lambda: model(*given, **named).fit(**fit))
    details = getattr(found, "mle_retvals", None) or {}
    if found is None or failed or not details.get("converged", getattr(found, "converged", True)):
        raise NoFitError(_NOT)
    return found


def _offset(design: Design) -> FloatArray:
    """Logarithms of the exposure of counts, 0 without."""
    counts = design.response
    if (counts < 0).any() or (counts != np.rint(counts)).any() or not counts.any():
        raise NoFitError("the response of a model of counts is whole numbers from 0, not all 0; analyse another")
    if design.exposure is not None and not (design.exposure > 0).all():
        raise NoFitError("the exposure is 0 or negative in some records; leave these out by a subset")
    return _log_exposure(design)


def _log_exposure(design: Design) -> FloatArray:
    return np.zeros(len(design.response)) if design.exposure is None else np.log(design.exposure)


def _linear(design: Design, columns: FloatArray) -> tuple[FloatArray, FloatArray]:
    found = _fit("regression.linear_model", "OLS", design.response, columns, fit={})
    return np.asarray(found.params), np.asarray(found.cov_params())


def _logistic(design: Design, columns: FloatArray) -> tuple[FloatArray, FloatArray]:
    from statsmodels.discrete.discrete_model import Logit

    logit = Logit(design.response, columns)
    found, failed = _attempt(
        lambda: logit.fit(method="newton", maxiter=_NEWTON_STEPS, disp=False), "PerfectSeparationWarning"
    )
    if found is None or failed or not np.isfinite(found.bse).all():
        raise SeparatedError(np.nan_to_num(np.zeros(columns.shape[1]) if found is None else found.params))
    return np.asarray(found.params), np.asarray(found.cov_params())


def _poisson(design: Design, columns: FloatArray) -> tuple[FloatArray, FloatArray]:
    from statsmodels.genmod.families import Poisson

    offset, given = _offset(design), (design.response, columns, Poisson())
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
        raise NoFitError(_POISSON)
    fit = {"method": "bfgs", "maxiter": _STEPS, "disp": False, "start_params": np.append(start, beyond)}
    given = (design.response, columns)
    found = _fit("discrete.discrete_model", "NegativeBinomial", *given, offset=offset, fit=fit)
    _check_counts(np.exp(columns @ found.params[:-1] + offset))
    return np.asarray(found.params), np.asarray(found.cov_params())


def _ordinal(design: Design, columns: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Proportional odds; the thresholds are estimated, too."""
    present, codes = np.unique(design.response, return_inverse=True)
    if len(present) < 2:
        raise NoFitError("the response has one value only; widen the subset, or analyse another")
    fit = {"method": "bfgs", "maxiter": _STEPS, "disp": False}
    found = _fit("miscmodels.ordinal_model", "OrderedModel", codes, columns, distr="logit", fit=fit)
    rank, values = columns.shape[1], np.asarray(found.params)
    _check_odds(columns @ values[:rank])
    thresholds = found.model.transform_threshold_params(values)[1:-1]
    return np.append(values[:rank], thresholds), np.asarray(found.cov_params())


def _check_odds(scores: FloatArray) -> None:
    if np.abs(scores).max() > _SURE:
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
    return np.asarray(found.fe_params), np.asarray(found.cov_params())


_MODELS = {
    "linear": _linear,
    "logistic": _logistic,
    "poisson": _poisson,
    "negative_binomial": _negative_binomial,
    "ordinal": _ordinal,
    "multinomial": _multinomial,
    "mixed": _mixed,
}

# --- With survey weights: the pseudo-likelihood, each record's logarithm times its weight -----------------------------


@np.errstate(all="ignore")
def _weighted(model: str, design: Design, columns: FloatArray, start: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Estimates and their covariance by linearisation, from those of the model without weights, shape (n_values,)."""
    weights, psus = design.weights, design.psus  # Binder (1983), Int. Stat. Rev. 51:279-292, doi:10.2307/1402588
    assert weights is not None and psus is not None  # as the caller has seen

    def score(values: FloatArray) -> FloatArray:
        return np.asarray(_SCORES[model](design, columns, values) * weights[:, None])

    if model == "linear":  # in units of the response, in which differences and gains have no common scale
        bread = inverse(columns.T @ (columns * weights[:, None]))
        values = bread @ (columns.T @ (weights * design.response))
        return values, sandwich(bread, score(values), psus)
    values, information = start, np.empty((len(start), len(start)))
    for _ in range(_STEPS):
        total = score(values).sum(axis=0)
        for at, unit in enumerate(np.eye(len(values)) * _STEP):
            information[at] = (total - score(values + unit).sum(axis=0)) / _STEP
        bread = inverse((information + information.T) / 2)
        step = bread @ total
        if abs(gain := total @ step) < _REACHED:
            return values + step, sandwich(bread, score(values + step), psus)
        for _ in range(_HALVINGS):  # until less is left to gain
            there = score(values + step).sum(axis=0)
            if there @ bread @ there < gain:  # false of NaN, too
                break
            step = step / 2
        else:
            break
        values = values + step
    raise NoFitError(_NOT)


def inverse(information: FloatArray) -> FloatArray:
    """The covariance that an information tells; the shortest where it is singular."""
    return np.asarray(np.linalg.pinv(information, hermitian=True), dtype=np.float64)


def sandwich(bread: FloatArray, scores: FloatArray, psus: Psus) -> FloatArray:
    """Covariance of weighted estimates of primary sampling units that were drawn with replacement.

    - `bread`: inverse of the weighted information, shape (n_values, n_values).
    - `scores`: each record's derivatives of the weighted log-likelihood, shape (n_rows, n_values).
    """
    off = psus.deviations(psus.sums(scores))
    return np.asarray(bread @ (off.T @ off) @ bread)


def _of_mean(mean: Callable[[FloatArray], FloatArray]) -> Callable[[Design, FloatArray, FloatArray], FloatArray]:
    """Scores of a model with a canonical link: what the response differs from its mean, times the predictors."""

    def scores(design: Design, columns: FloatArray, values: FloatArray) -> FloatArray:
        return (design.response - mean(columns @ values + _log_exposure(design)))[:, None] * columns

    return scores


def _negative_binomial_scores(design: Design, columns: FloatArray, values: FloatArray) -> FloatArray:
    """With respect to the coefficients, and alpha, last."""
    y, size, mean = design.response, 1.0 / values[-1], np.exp(columns @ values[:-1] + _log_exposure(design))
    left = (y - mean) / (size + mean)
    alpha = -(size**2) * (digamma(y + size) - digamma(size) - np.log1p(mean / size) - left)
    return np.column_stack([size * left[:, None] * columns, alpha])


def _ordinal_scores(design: Design, columns: FloatArray, values: FloatArray) -> FloatArray:
    """With respect to the coefficients and the thresholds."""
    rank, codes = columns.shape[1], np.unique(design.response, return_inverse=True)[1]
    ends = np.concatenate([[-np.inf], values[rank:], [np.inf]])[codes[:, None] + [0, 1]]
    low, high = expit(ends - (columns @ values[:rank])[:, None]).T
    chosen = codes[:, None] - np.arange(len(values) - rank)
    by_end = (chosen == 0) * (high * (1 - high))[:, None] - (chosen == 1) * (low * (1 - low))[:, None]
    return np.column_stack([(low + high - 1)[:, None] * columns, by_end / (high - low)[:, None]])


def _multinomial_scores(design: Design, columns: FloatArray, values: FloatArray) -> FloatArray:
    """Equation by equation."""
    odds = columns @ values.reshape(-1, columns.shape[1]).T
    chances = softmax(np.column_stack([np.zeros(len(odds)), odds]), axis=1)[:, 1:]
    left = (design.response[:, None] == np.arange(1, odds.shape[1] + 1)) - chances
    return np.asarray((left[:, :, None] * columns[:, None, :]).reshape(len(odds), -1))


_SCORES: dict[str, Callable[[Design, FloatArray, FloatArray], FloatArray]] = {
    "linear": _of_mean(lambda scores: scores),
    "logistic": _of_mean(expit),
    "poisson": _of_mean(np.exp),
    "negative_binomial": _negative_binomial_scores,
    "ordinal": _ordinal_scores,
    "multinomial": _multinomial_scores,
}
