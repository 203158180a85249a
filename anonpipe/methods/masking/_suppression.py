"""Suppression of cells in the spectral basis, or in the columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from anonpipe.errors import InputError, JobError
from anonpipe.methods.masking._basis import (
    BASIS,
    Axes,
    Basis,
    axes_of,
    checked_basis,
    count_moments,
    from_axes,
    to_axes,
)
from anonpipe.methods.masking._options import ScopedMaskOptions
from anonpipe.methods.record import Features, Masker
from anonpipe.methods.steps import Reduce, Rows, Step
from anonpipe.moments import Expected, Moments
from anonpipe.types import FloatArray


@dataclass(frozen=True, eq=False)
class Suppressed(Axes):
    """Axes, and what is left along each."""

    # Largest distance from the mean that a cell may have along each axis, 0 where the whole component is suppressed,
    # shape (width,)
    limits: FloatArray


class SuppressionOptions(ScopedMaskOptions):
    """Principal components of at most `share` of the variance, and cells far `outside`, put at the mean."""

    method: Literal["suppression"]
    basis: Literal["spectral", "columns"] = "spectral"
    share: float = Field(default=0.05, ge=0, lt=1)
    outside: float | None = Field(default=None, gt=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _something(self) -> SuppressionOptions:
        if self.share == 0 and self.outside is None:
            raise ValueError("share 0 without outside suppresses nothing; give one of them")
        return self


def suppression(*, basis: Basis = "spectral", share: float = 0.05, outside: float | None = None) -> tuple[Step, ...]:
    """Put small principal components, and cells far out along the others, at the mean, and turn back.

    Suppressing a cell of a column leaves an attacker the other columns to
    guess it from. A cell of a component is what several columns have in
    common: suppressed, it is gone from all of them.

    Parameters
    ----------
    basis
        `spectral`, or `columns`.
    share
        Components of smallest variance are suppressed for all records, as
        many as together have at most this share of the total variance, 0 to
        below 1.
    outside
        Cells further from the mean than so many standard deviations of their
        component are suppressed too; None for no such rule.

    Returns
    -------
    tuple of steps
        What is suppressed stands at the mean, the best guess there is. Without
        `outside` the means are exact, no covariance grows, and the variances
        lose at most `share` of their sum; with it, means move where a
        component is skewed. The records stay those of persons, only less
        detailed: nothing is promised against whoever knows most of a record.

    Raises
    ------
    JobError
        Unknown basis, an option out of its range, or nothing to suppress.
    InputError
        While it runs, without `outside`: no component is as small as `share`.

    Notes
    -----
    The paper proposes suppression in the spectral basis in one sentence and
    leaves open which cells. The smallest components are the ones whose cells
    single out records that break the pattern of the table at the least cost
    in variance; `outside` is the usual rule for rare values.

    References
    ----------
    Lasko & Vinterbo (2010), doi:10.1109/TKDE.2009.88, section V.

    Examples
    --------
    >>> [step.name for step in suppression(share=0.1, outside=3.0)]
    ['components', 'to the axes', 'suppress', 'from the axes']
    """
    checked_basis(basis)
    if not 0 <= share < 1:
        raise JobError(f"suppression was given share={share}; give a share of the variance, 0 to below 1")
    if outside is not None and not (np.isfinite(outside) and outside > 0):
        raise JobError(f"suppression was given outside={outside}; give standard deviations above 0, or leave it out")
    if share == 0 and outside is None:
        raise JobError("suppression was given share=0 and no outside, which suppresses nothing; give one of them")
    return (
        Reduce("components", count_moments, partial(choose, basis=basis, share=share, outside=outside)),
        Rows("to the axes", to_axes),
        Rows("suppress", suppress),
        Rows("from the axes", from_axes),
    )


def choose(
    moments: Moments, *, params: object, rng: np.random.Generator, basis: Basis, share: float, outside: float | None
) -> Suppressed:
    """The axes, and how far cells along each may be from the mean."""
    axes = axes_of(moments, basis)
    limits = np.full(len(axes.variances), np.inf) if outside is None else outside * np.sqrt(axes.variances)
    small = _small(axes.variances, share)
    if outside is None and len(small) == 0:
        raise InputError(
            f"suppression was given share={share:g}, and no component is as small; raise share or give outside"
        )
    limits[small] = 0.0
    return Suppressed(axes.n, axes.centre, axes.vectors, axes.variances, limits)


def _small(variances: FloatArray, share: float) -> npt.NDArray[np.int64]:
    """The components of smallest variance whose sum is within the share; of equal ones the later first."""
    rising = np.lexsort((-np.arange(len(variances)), variances))
    within = np.cumsum(variances[rising]) <= share * variances.sum()
    return np.asarray(rising[within])


def suppress(part: FloatArray, *, params: Suppressed, rng: np.random.Generator) -> FloatArray:
    """Cells within their limit; the others at the mean, which is 0."""
    return np.where(np.abs(part) <= params.limits, part, 0.0)


def expect_suppressed(
    moments: Moments, *, basis: Basis = "spectral", share: float = 0.05, outside: float | None = None
) -> Expected | None:
    """The covariance of the components that are left, exactly; nothing is said of single cells outside."""
    if outside is not None:
        return None
    axes = axes_of(moments, basis)
    left = np.ones(len(axes.variances), dtype=np.bool_)
    left[_small(axes.variances, share)] = False
    covariance = moments.scatter / max(moments.n - 1, 1)
    if basis == "columns":
        kept = covariance * np.outer(left, left)
    else:
        kept = (axes.vectors * axes.variances * left) @ axes.vectors.T
    return Expected.exactly(kept)


def _of_one_component(options: SuppressionOptions, features: Features) -> str | None:
    if features.width > 1 or options.outside is not None:
        return None
    return (
        f"mask.method suppression drops components with up to {options.share:g} of the variance, and one feature "
        "column has one component with all of it; mask more columns, give mask.outside, or take another mask, such as "
        "noise"
    )


METHOD = Masker(
    function=suppression,
    options=SuppressionOptions,
    published="cell suppression in a spectral basis",
    reference="Lasko & Vinterbo (2010), doi:10.1109/TKDE.2009.88, section V",
    cost="time n · w²; memory: one part",
    refuses=_of_one_component,
    about={
        "basis": BASIS,
        "share": "of the variance that the suppressed components may have, 0.05 by default",
        "outside": "standard deviations beyond which single cells are suppressed; none by default",
    },
    keeps="means exact without 'outside', the covariance that of the components left; records stay those of "
    "persons with less detail, and can be linked",
    expect=expect_suppressed,
    exact_means=True,
    exact_covariance=False,
    exact_columns=False,
    link="person",
    learns=(Suppressed,),
)
