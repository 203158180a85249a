"""Synthesis of each component by itself, in the spectral basis or in the columns."""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np

from anonpipe.errors import JobError
from anonpipe.methods.masking._basis import (
    BASIS,
    Axes,
    Basis,
    checked_basis,
    count_moments,
    find_axes,
    from_axes,
    normal_draws,
    to_axes,
)
from anonpipe.methods.masking._options import ScopedMaskOptions
from anonpipe.methods.record import Masker
from anonpipe.methods.steps import Columns, Reduce, Rows, Step
from anonpipe.moments import Expected, Moments
from anonpipe.types import FloatArray

Draw = Literal["normal", "quantiles"]


class SynthesisOptions(ScopedMaskOptions):
    """Every principal component drawn again from its distribution."""

    method: Literal["synthesis"]
    basis: Literal["spectral", "columns"] = "spectral"
    draw: Literal["normal", "quantiles"] = "normal"


def synthesis(*, basis: Basis = "spectral", draw: Draw = "normal") -> tuple[Step, ...]:
    """Draw every principal component again, independently of the others, and turn back.

    Parameters
    ----------
    basis
        `spectral`, or `columns`, which keeps no relation between columns.
    draw
        `normal`: with the component's variance. `quantiles`: from the
        component's own distribution, piecewise uniform between its ordered
        values, scaled to have its mean and variance. Extremes are near those
        of the originals then.

    Returns
    -------
    tuple of steps
        Records made from no person. Means are kept on average, and so is, in
        the spectral basis, the covariance; with `normal` draws the standard
        errors are those of any normal sample of the same size.

    Raises
    ------
    JobError
        Unknown basis or draw.

    Notes
    -----
    The paper names synthesis as an application of its idea, without an
    algorithm; this is the plainest one. Normal draws of all components are
    draws from the normal distribution that has the covariance of the features,
    whatever the basis of the drawing.

    References
    ----------
    Lasko & Vinterbo (2010), doi:10.1109/TKDE.2009.88, section V.

    Examples
    --------
    >>> [step.name for step in synthesis(draw="quantiles")]
    ['axes', 'to the axes', 'draw', 'from the axes']
    """
    checked_basis(basis)
    if draw not in ("normal", "quantiles"):
        raise JobError(f"synthesis was given draw={draw!r}; known are 'normal' and 'quantiles'")
    return (
        Reduce("axes", count_moments, partial(find_axes, basis=basis)),
        Rows("to the axes", to_axes),
        Columns("draw", draw_normal if draw == "normal" else draw_quantiles),
        Rows("from the axes", from_axes),
    )


def draw_normal(column: FloatArray, *, place: int, params: Axes, rng: np.random.Generator) -> FloatArray:
    """Normal draws with a component's variance."""
    return np.asarray(rng.standard_normal(len(column)) * np.sqrt(params.variances[place]))


def draw_quantiles(column: FloatArray, *, place: int, params: Axes, rng: np.random.Generator) -> FloatArray:
    """Draws between neighbouring values of a component, all pairs of neighbours being equally likely.

    A value between two neighbours a and b has mean (a+b)/2 and variance
    (b-a)²/12; the mixture's mean and variance are taken off and the
    component's put on.
    """
    ordered = np.sort(column)
    low, high = ordered[:-1], ordered[1:]
    middle = (low + high) / 2
    centre = middle.mean()
    variance = np.mean((middle - centre) ** 2 + (high - low) ** 2 / 12)
    if not variance > 0:
        return np.zeros_like(column)
    at = rng.integers(0, len(low), len(column))
    drawn = low[at] + (high[at] - low[at]) * rng.random(len(column))
    return np.asarray((drawn - centre) * np.sqrt(params.variances[place] / variance))


def expect_synthesized(moments: Moments, *, basis: Basis = "spectral", draw: Draw = "normal") -> Expected | None:
    """What normal draws promise; nothing is said of quantiles, whose error depends on fourth moments."""
    return normal_draws(moments, basis) if draw == "normal" else None


METHOD = Masker(
    function=synthesis,
    options=SynthesisOptions,
    published="synthesis in a spectral basis",
    reference="Lasko & Vinterbo (2010), doi:10.1109/TKDE.2009.88, section V",
    cost="time n · (w² + w log n with draw='quantiles'); memory: one part, and three columns of all rows",
    about={
        "basis": BASIS,
        "draw": "'normal' (default), or 'quantiles' of each component",
    },
    keeps="means and covariance on average; records of no person; relations that are not linear are lost",
    expect=expect_synthesized,
    exact_means=False,
    exact_covariance=False,
    exact_columns=False,
    link="none",
    learns=(Axes,),
    forms="draw",
)
