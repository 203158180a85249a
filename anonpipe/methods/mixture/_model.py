"""Mixing weights that do not fall below k / n."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.special import gammaln

from anonpipe.errors import InputError, JobError
from anonpipe.kernels.mixture import invert_factors
from anonpipe.types import FloatArray


def smoothed(weights: FloatArray, least: float) -> FloatArray:
    """Add one number to all weights and rescale, so that the smallest becomes `least` (eq. 3 and 4).

    Weights stay in their order and all move towards 1 / G, large and small
    ones; nothing changes where all are `least` or more.

    References
    ----------
    Oganian and Domingo-Ferrer 2017, Trans. Data Privacy 10:61-81, section 3.

    Examples
    --------
    >>> smoothed(np.array([0.05, 0.35, 0.6]), 0.1).round(4).tolist()
    [0.1, 0.3471, 0.5529]
    """
    smallest = weights.min()
    if smallest >= least:
        return weights
    shift = (least - smallest) / (1.0 - least * len(weights))
    lifted: FloatArray = (weights + shift) / (1.0 + len(weights) * shift)
    # The smallest is `least` but for rounding, which must not leave it below.
    return np.maximum(lifted, least)


def constrained(weights: FloatArray, least: float) -> FloatArray:
    """The most likely weights among those of `least` or more.

    Of all weights with this bound they maximise Σ N_g log π_g: the small ones
    become `least`, the others shrink in proportion. An iteration with this
    rule cannot lower the likelihood; one with `smoothed` can.

    Examples
    --------
    >>> constrained(np.array([0.05, 0.35, 0.6]), 0.1).round(4).tolist()
    [0.1, 0.3316, 0.5684]
    """
    low = np.zeros(len(weights), dtype=np.bool_)
    bounded = weights
    while True:
        rest = weights[~low].sum()
        shrink = (1.0 - least * low.sum()) / rest if rest > 0 else 0.0
        bounded = np.where(low, least, weights * shrink)
        below = ~low & (bounded < least)
        if not below.any():
            return bounded
        low |= below


# Ways to lift weights to a bound, by name
RULES: dict[str, Callable[[FloatArray, float], FloatArray]] = {"published": smoothed, "constrained": constrained}


# --- The records of a mixture: its parameters, and what estimates must keep to ----------------------------------------

SHAPES = ("spherical", "diagonal", "tied", "eev", "vev", "full")  # Forms of the covariances; see `covariances`

DIAGONAL = ("spherical", "diagonal")  # Shapes whose covariances are diagonal


@dataclass(frozen=True)
class Constraints:
    """What the estimates of a mixture keep to."""

    shape: str  # One of `SHAPES`
    least_weight: float  # No component's weight falls below it: k / n (0: no bound)
    variances: FloatArray = field(repr=False)  # Spread of each column in the table, shape (width,), all positive
    # Records of covariance diag(variances) that every component is given besides its own, a small fraction of one: so
    # that no covariance is singular, whatever the records are
    prior_rows: float
    rule: str = "published"  # How weights are lifted to it, a name of `RULES`
    # Degrees of freedom of the components: infinite for normal ones, a positive number for t components, None where
    # each component's are estimated
    degrees: float | None = math.inf

    def parameters(self, groups: int) -> int:
        """Free parameters of a mixture of `groups` components, ν of eq. 6.

        Examples
        --------
        >>> Constraints("full", 0.0, np.ones(5), 1e-6).parameters(6)
        125
        """
        d, g = len(self.variances), groups
        ellipsoid = d * (d + 1) // 2
        covariances = {
            "spherical": 1,
            "diagonal": g * d,
            "tied": ellipsoid,
            "eev": g * ellipsoid - (g - 1) * d,
            "vev": g * ellipsoid - (g - 1) * (d - 1),
            "full": g * ellipsoid,
        }
        return g - 1 + g * d + covariances[self.shape] + (g if self.degrees is None else 0)


def constraints(
    k: int,
    n_rows: int,
    groups: int,
    variances: FloatArray,
    *,
    shape: str = "full",
    rule: str = "published",
    prior: float = 1e-6,
    degrees: float | None = math.inf,
) -> Constraints:
    """Check the options of a mixture and turn them into `Constraints`.

    Shapes: variances (width,).

    Examples
    --------
    >>> constraints(60, 1947, 6, np.ones(5)).least_weight == 60 / 1947
    True
    """
    if shape not in SHAPES:
        raise JobError(f"unknown shape {shape!r} of a mixture; known are: {', '.join(SHAPES)}")
    if rule not in RULES:
        raise JobError(f"unknown rule {rule!r} for bounded weights; known are: {', '.join(RULES)}")
    if not 0 < prior < 1:
        raise JobError(f"the prior of a mixture is {prior}; give a share above 0 and below 1, such as 1e-6")
    if degrees is not None and not degrees > 0:
        raise JobError(f"degrees of freedom are {degrees}; give a positive number, or none to estimate them")
    if groups < 1 or (groups > 1 and groups * k >= n_rows):
        most = max(1, (n_rows - 1) // k)
        raise JobError(
            f"{groups} components of {k} or more of {n_rows} records were asked for, and there must be fewer "
            f"than records / k; give 1 to {most}, or a smaller k"
        )
    spread = np.where(variances > 0, variances, 1.0)
    return Constraints(shape, k / n_rows if groups > 1 else 0.0, spread, prior * n_rows / groups, rule, degrees)


@dataclass(frozen=True, eq=False)
class Mixture:
    """A mixture of normal or t components."""

    weights: FloatArray  # Shape (n_groups,), sum 1
    means: FloatArray  # Shape (n_groups, width)
    covariances: FloatArray  # Shape (n_groups, width, width); of a t component its scale matrix
    degrees: FloatArray  # Shape (n_groups,); infinite for a normal component
    diagonal: bool = False  # Whether all covariances are diagonal

    @property
    def n_groups(self) -> int:
        """Number of components."""
        return len(self.weights)

    @cached_property
    def arguments(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, bool]:
        """Means, inverse factors, constants, degrees and `diagonal`, as the kernels take them."""
        width = self.means.shape[1]
        factors, half_logs, bad = invert_factors(self.covariances)
        if bad.any():
            raise InputError(
                f"{int(bad.sum())} of {self.n_groups} covariances of the mixture are not positive definite; "
                "drop columns that follow from others, or give a larger prior"
            )
        normal = np.isinf(self.degrees)
        v = np.where(normal, 1.0, self.degrees)
        tails = gammaln((v + width) / 2) - gammaln(v / 2) - width / 2 * np.log(v * math.pi)
        # Without a bound a weight may be 0: then no record is likely there.
        logs = np.log(self.weights, out=np.full(self.n_groups, -np.inf), where=self.weights > 0)
        constants = logs + np.where(normal, -width / 2 * math.log(2 * math.pi), tails) - half_logs
        return self.means, factors, constants, self.degrees, self.diagonal
