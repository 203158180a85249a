"""What a synthesizer promises of the table's moments: on average, and how far from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anonpipe.errors import JobError
from anonpipe.moments._moments import GroupedMoments
from anonpipe.moments._noise import FORMS, known_form, s_delta
from anonpipe.moments._spread import GroupSpread

FloatArray = npt.NDArray[np.float64]

PROMISED_FORMS: dict[str, tuple[str | None, ...]] = {
    "centroid": (None,),
    "gaussian": (None, "exact", "expected"),
    "pca": ("exact", "expected"),
    "micro_perturbation": (*FORMS, "exact"),
    "r_microhybrid": (None,),
}
"""Methods and forms whose moments can be foretold; those of form None and `exact` have no sampling error."""

EXACT_METHODS = ("centroid", "r_microhybrid")
"""Methods without sampling error in any form."""


def expected_covariance(
    grouped: GroupedMoments, method: str, form: str | None = None, *, noise: FloatArray | None = None
) -> FloatArray:
    """Covariance of the synthetic records that a method promises on average.

    Parameters
    ----------
    grouped
        Moments of the original N records in G groups.
    method, form
        `centroid` of means and `r_microhybrid` (no form), `gaussian` and `pca`
        (form `exact` or `expected`; None is `exact` for `gaussian`),
        `micro_perturbation` (form `independent`, `centred`, `published` or
        `exact`).
    noise
        For micro-perturbation with noise of another scope than `grouped`
        (one stratum of a table): the covariance of the noise. None for
        `s_delta(grouped, form)`, and for all other methods and forms.

    Returns
    -------
    float64, shape (width, width)
        S_B for centroids; S_B + (G-1)/(N-G) (S_X - S_B) + (S_X - S_B) for
        published micro-perturbation; S_X for all others. With foreign noise V:
        S_B + V (centred: S_B + V (N-G)/(N-1)).

    Raises
    ------
    JobError
        Unknown method or form, or `noise` where the method has none.
    """
    _check(method, form, noise)
    between = grouped.between_scatter / max(grouped.total.n - 1, 1)
    if method == "centroid":
        return between
    if method != "micro_perturbation" or (noise is None and form != "published"):
        return grouped.total.covariance
    added = s_delta(grouped, str(form)) if noise is None else noise
    share = (grouped.total.n - grouped.groups) / max(grouped.total.n - 1, 1) if form == "centred" else 1.0
    return between + added * share


@dataclass(frozen=True, eq=False)
class SamplingLimit:
    """Standard errors of the moments of synthetic records about what is expected of them.

    Attributes
    ----------
    mean
        Of the means, shape (width,).
    covariance
        Of the covariances (n - 1 in the denominator), shape (width, width).
    """

    mean: FloatArray
    covariance: FloatArray


def sampling_limit(
    grouped: GroupedMoments,
    method: str,
    form: str | None = None,
    *,
    noise: FloatArray | None = None,
    spread: GroupSpread | None = None,
) -> SamplingLimit:
    """How far the noise may move the synthetic means and covariances: exact standard errors.

    Parameters
    ----------
    grouped, method, form, noise
        As for `expected_covariance`.
    spread
        For `gaussian` and `pca` in expectation, whose groups have a covariance each.

    Returns
    -------
    SamplingLimit
        Zeros for methods that keep both moments exactly (and for centroids).

    Raises
    ------
    JobError
        Unknown method or form, `noise` where the method has none, or `spread` is missing.

    Notes
    -----
    The N synthetic records are fixed group means plus normal noise. Write B
    for the between-group scatter and V for the covariance of the noise.

    Independent noise moves the mean by an average of N draws, V_jj/N. The
    synthetic scatter is B, plus products of means and noise, plus the scatter
    of the noise; the second is odd in the noise and the third even, so they do
    not correlate. The second has variance B_jj V_hh + B_hh V_jj + 2 B_jh V_jh;
    the third is Wishart with N-1 degrees of freedom, of variance
    (N-1)(V_jj V_hh + V_jh²). Their sum over (N-1)² is the squared error.

    Noise centred in every group leaves the mean and has no products with the
    group means; its scatter is Wishart with N-G degrees of freedom.

    With a covariance V_g = c W_g/n_g in each group, c = N/(N-1), the mean has
    variance c W_jj/N². The products with the means have variance
    c Σ_g (u_j² W_hh + u_h² W_jj + 2 u_j u_h W_jh), u being the group's mean
    less that of all; the scatter of the noise, a quadratic form in
    I - 11'/N, has (1 - 2/N) c² Σ_g (W_jj W_hh + W_jh²)/n_g plus
    c²/N² (W_jj W_hh + W_jh²) of the pooled W. The c of a table is used for a
    stratum too, where it differs from the stratum's own by a relative 1/N.
    """
    _check(method, form, noise)
    width = len(grouped.total.mean)
    if method in EXACT_METHODS or form in (None, "exact"):
        return SamplingLimit(np.zeros(width), np.zeros((width, width)))
    if form == "expected":
        if spread is None:
            raise JobError(f"the sampling error of {method} in expectation needs a GroupSpread; count one a partition")
        return _limit_by_group(spread)
    added = s_delta(grouped, str(form)) if noise is None else noise
    n = grouped.total.n
    wishart = _pair(added)
    if form == "centred":
        return SamplingLimit(np.zeros(width), _root((n - grouped.groups) * wishart) / max(n - 1, 1))
    cross = _symmetric(np.outer(np.diag(grouped.between_scatter), np.diag(added)))
    cross = cross + 2 * grouped.between_scatter * added
    return SamplingLimit(_root(np.diag(added) / max(n, 1)), _root(cross + (n - 1) * wishart) / max(n - 1, 1))


def _limit_by_group(spread: GroupSpread) -> SamplingLimit:
    n = max(spread.n, 1)
    c = n / max(n - 1, 1)
    cross = c * (_symmetric(spread.square) + 2 * spread.product)
    scatter = c**2 * ((1 - 2 / n) * spread.noise + _pair(spread.within) / n**2)
    return SamplingLimit(_root(c * np.diag(spread.within)) / n, _root(cross + scatter) / max(n - 1, 1))


def _pair(v: FloatArray) -> FloatArray:
    """v_jj v_hh + v_jh²: the variance of a product of two correlated normals."""
    return np.outer(np.diag(v), np.diag(v)) + v**2


def _symmetric(a: FloatArray) -> FloatArray:
    return a + a.T


def _root(variance: FloatArray) -> FloatArray:
    """The square root; what rounding left below zero counts as zero."""
    return np.sqrt(np.clip(variance, 0.0, None))


def _check(method: str, form: str | None, noise: FloatArray | None) -> None:
    if method not in PROMISED_FORMS:
        raise JobError(f"unknown synthesizer {method!r}; known are: {', '.join(PROMISED_FORMS)}")
    known_form(form, PROMISED_FORMS[method])
    if noise is not None and form not in FORMS:
        raise JobError(f"noise was given for {method}, form {form}; leave it out but for the forms {', '.join(FORMS)}")
