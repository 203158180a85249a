"""The records of a mixture: its parameters, and what estimates must keep to."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.special import gammaln

from anonpipe.errors import InputError, JobError
from anonpipe.kernels.mixture import invert_factors
from anonpipe.methods.mixture._weights import RULES
from anonpipe.types import FloatArray

SHAPES = ("spherical", "diagonal", "tied", "eev", "vev", "full")
"""Forms of the covariances; see `covariances`."""

DIAGONAL = ("spherical", "diagonal")
"""Shapes whose covariances are diagonal."""


@dataclass(frozen=True)
class Constraints:
    """What the estimates of a mixture keep to.

    Attributes
    ----------
    shape
        One of `SHAPES`.
    least_weight
        No component's weight falls below it: k / n (0: no bound).
    rule
        How weights are lifted to it, a name of `RULES`.
    variances
        Spread of each column in the table, shape (width,), all positive.
    prior_rows
        Records of covariance diag(variances) that every component is given
        besides its own, a small fraction of one: so that no covariance is
        singular, whatever the records are.
    degrees
        Degrees of freedom of the components: infinite for normal ones, a
        positive number for t components, None where each component's are
        estimated.
    """

    shape: str
    least_weight: float
    variances: FloatArray = field(repr=False)
    prior_rows: float
    rule: str = "published"
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

    Parameters
    ----------
    k
        Smallest size of a group.
    n_rows
        Records of the whole table, not of a sample.
    groups
        Number of components.
    variances
        Variance of each column, shape (width,); 0 for a constant one, which
        then counts as 1.
    shape, rule, degrees
        See `Constraints`.
    prior
        Share of a mean component's records, n_rows / groups, that the prior
        weighs: covariances are those of the records to about this relative
        to `variances`.

    Raises
    ------
    JobError
        An unknown shape or rule, a prior or degrees that are not positive, or
        groups · k >= n_rows: then eq. 4 has no solution.

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
    """A mixture of normal or t components.

    Attributes
    ----------
    weights
        Shape (n_groups,), sum 1.
    means
        Shape (n_groups, width).
    covariances
        Shape (n_groups, width, width); of a t component its scale matrix.
    degrees
        Shape (n_groups,); infinite for a normal component.
    diagonal
        Whether all covariances are diagonal.
    """

    weights: FloatArray
    means: FloatArray
    covariances: FloatArray
    degrees: FloatArray
    diagonal: bool = False

    @property
    def n_groups(self) -> int:
        """Number of components."""
        return len(self.weights)

    @cached_property
    def arguments(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, bool]:
        """Means, inverse factors, constants, degrees and `diagonal`, as the kernels take them.

        Raises
        ------
        InputError
            A covariance is not positive definite.
        """
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
