"""The noise of micro-perturbation: its covariance, and factors that turn normal draws into it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from anonpipe.errors import InputError, JobError
from anonpipe.kernels.noise import centre_in_groups, fold_rows
from anonpipe.moments._merge import divide, same_width
from anonpipe.moments._moments import GroupedMoments
from anonpipe.types import FloatArray, IntArray

# Forms of micro-perturbation whose noise has a given covariance; see `s_delta`. The fourth is `exact`.
FORMS = ("independent", "centred", "published")

_NEGATIVE = 1e-8  # Eigenvalues of a correlation matrix below minus this are not rounding

_ROUNDING = 1e-10  # Part of the largest eigenvalue of a correlation matrix up to which one may be left out of it

_FLAT = 1e-6  # Draws whose smallest singular value is below this part of the largest cannot be whitened to 9 digits


def s_delta(grouped: GroupedMoments, form: str) -> FloatArray:
    """Covariance of the noise that micro-perturbation adds to group means.

    References
    ----------
    Li & Sarkar (2013), doi:10.1287/mnsc.1120.1584, section 5, eq. 11. There it
    reads (N-1)/(N-G) (S_X - S_B); with S_X - S_B = W/(N-1) it is positive
    semidefinite as computed.

    Examples
    --------
    >>> features = np.array([[0.0], [2.0], [4.0], [6.0]])
    >>> grouped = GroupedMoments.of(features, np.arange(4), np.array([0, 2, 4]))
    >>> s_delta(grouped, "centred").tolist()
    [[2.0]]
    """
    known_form(form, FORMS)
    free = grouped.total.n - (1 if form == "independent" else grouped.groups)
    return grouped.within / free if free > 0 else np.zeros_like(grouped.within)


def noise_factor(covariance: FloatArray) -> FloatArray:
    """A matrix L with L L' = covariance, singular ones included.

    Shapes: covariance (width, width).

    Examples
    --------
    >>> factor = noise_factor(np.array([[4.0, 2.0], [2.0, 1.0]]))
    >>> np.allclose(factor @ factor.T, [[4, 2], [2, 1]])
    True
    """
    if covariance.ndim != 2 or covariance.shape[0] != covariance.shape[1] or not np.isfinite(covariance).all():
        raise InputError("the noise covariance is not a finite square matrix; compute it with s_delta")
    scale = np.sqrt(np.clip(np.diag(covariance), 0.0, None))
    inverse = divide(np.ones_like(scale), scale, empty=0.0)
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2 * np.outer(inverse, inverse))
    if values.size and values[0] < -_NEGATIVE * max(1.0, float(values[-1])):
        raise InputError("the noise covariance is not positive semidefinite; compute it with s_delta")
    floor = len(values) * np.finfo(np.float64).eps * float(values[-1]) if values.size else 0.0
    factor = vectors * np.sqrt(np.where(values > floor, values, 0.0))
    largest = np.abs(factor).argmax(axis=0) if values.size else np.zeros(0, dtype=np.int64)
    signs = np.where(factor[largest, np.arange(len(values))] < 0, -1.0, 1.0)
    result: FloatArray = scale[:, None] * factor * signs
    return result


@dataclass(frozen=True, eq=False)
class NoiseScatter:
    """Scatter of standard normal draws less their group's mean, held as its triangular root.

    The root loses half as many digits as the scatter where the draws lie
    nearly in a plane, as few of them may.
    """

    free: int  # Degrees of freedom: records less groups
    root: FloatArray  # Upper triangle R with R'R the scatter, shape (width, width)

    @classmethod
    def of(cls, draws: FloatArray, starts: IntArray) -> Self:
        """Count `draws`, shape (rows of the groups, width), group by group as `starts` cuts them.

        Examples
        --------
        >>> draws = np.array([[1.0], [3.0], [5.0]])
        >>> NoiseScatter.of(draws, np.array([0, 2, 3])).scatter.round(12).tolist()
        [[2.0]]
        """
        centred = draws.copy()
        centre_in_groups(centred, starts)
        nothing = np.zeros((draws.shape[1], draws.shape[1]))
        return cls(len(draws) - (len(starts) - 1), fold_rows(nothing, centred))

    def merge(self, other: Self) -> Self:
        """Both pieces together; no group may have records in both."""
        same_width(self.root, other.root)
        return type(self)(self.free + other.free, fold_rows(self.root, other.root))

    @property
    def scatter(self) -> FloatArray:
        """Sum of outer products of the centred draws, shape (width, width)."""
        return self.root.T @ self.root


def exact_factor(noise: NoiseScatter, within: FloatArray) -> FloatArray:
    """A matrix F that turns the counted draws into noise whose scatter is exactly W.

    Shapes: noise (n_rows, width); within (width, width).

    Notes
    -----
    Z S^(-1/2) is a uniform random frame: r orthonormal columns among the
    vectors that sum to zero in every group. So the outcome is a random
    rotation of the pooled within-group deviations.

    Examples
    --------
    >>> draws = np.random.default_rng().normal(size=(6, 2))
    >>> factor = exact_factor(NoiseScatter.of(draws, np.array([0, 6])), np.array([[4.0, 2.0], [2.0, 1.0]]))
    >>> made = (draws - draws.mean(axis=0)) @ factor.T
    >>> (made.T @ made).round(9).tolist()
    [[4.0, 2.0], [2.0, 1.0]]
    """
    same_width(noise.root, within)
    factor = noise_factor(within)
    used = np.ascontiguousarray(factor[:, factor.any(axis=0)][:, ::-1])  # the largest eigenvalue first
    scale = np.sqrt(np.diag(within))[:, None]
    values = np.sum(divide(used, np.broadcast_to(scale, used.shape), empty=0.0) ** 2, axis=0)
    rank = min(len(values), noise.free)
    if rank < len(values) and values[rank] > _ROUNDING * values[0]:
        raise InputError(
            f"exact noise needs as many degrees of freedom as the rank {len(values)} of the within-group scatter; "
            f"there are {noise.free} more records than groups: take both from the same groups, of two or more records"
        )
    spread, axes = np.linalg.svd(noise.root[:rank, :rank])[1:]
    if rank and spread[-1] <= _FLAT * spread[0]:
        raise InputError(
            f"the draws of noise are dependent to 6 digits, with {noise.free} more records than groups and rank "
            f"{rank}; draw from another secret, or use form 'centred'"
        )
    result = np.zeros_like(factor)
    result[:, :rank] = used[:, :rank] @ (axes.T / spread @ axes)
    return result


def known_form(form: str | None, known: tuple[str | None, ...]) -> None:
    """Refuse a form that is not among the known."""
    if form not in known:
        raise JobError(f"unknown form {form!r}; known are: {', '.join(str(name) for name in known)}")
