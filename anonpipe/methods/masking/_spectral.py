"""Masks along principal components or columns: swapping, synthesis and suppression, and the basis they share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from anonpipe.errors import InputError, JobError
from anonpipe.kernels.points import turn_rows
from anonpipe.methods.executor import Columns, Reduce, Rows, Step
from anonpipe.methods.options import ScopedMaskOptions
from anonpipe.methods.record import Features, Masker
from anonpipe.moments import Expected, Moments, form_eigenvalue, product_variance
from anonpipe.types import FloatArray, IntArray

# --- The spectral basis: the axes along which the records spread, and the way there and back --------------------------
# A masker that works on one column at a time keeps no correlation of the columns. Principal components have none: the
# same masker, applied to them and turned back, keeps the covariance on average.

Basis = Literal["spectral", "columns"]

DEPENDENT = 1e-12  # Eigenvalues of a correlation matrix up to this are rounding: the columns depend on each other


@dataclass(frozen=True, eq=False)
class Axes:
    """A basis to work in."""

    centre: FloatArray  # Mean of the features, shape (width,)
    vectors: FloatArray  # Orthonormal axes, one a column, shape (width, width)
    variances: FloatArray  # Variance (over n - 1) of the records along each, shape (width,)


# What the option is for
_BASIS = "'spectral' (default): along the principal components; 'columns': along the columns as they are"


def axes_of(moments: Moments, basis: Basis) -> Axes:
    """The axes of a table: V of the singular value decomposition of its centred features."""
    covariance = moments.scatter / max(moments.n - 1, 1)
    if not np.isfinite(covariance).all():
        raise InputError("the covariance of the features is not finite; scale the columns first")
    width = len(covariance)
    if basis == "columns":
        return Axes(moments.mean, np.eye(width), np.diag(covariance).copy())
    values, vectors = np.linalg.eigh(covariance)
    values, vectors = values[::-1], vectors[:, ::-1]
    largest = np.abs(vectors).argmax(axis=0)
    signs = np.where(vectors[largest, np.arange(width)] < 0, -1.0, 1.0)
    # No more than the rounding of the decomposition is 0: draws along such an axis would move constant columns.
    rounding = width * np.finfo(np.float64).eps * values.max(initial=0.0)
    variances = np.where(values > rounding, values, 0.0)
    return Axes(moments.mean, np.ascontiguousarray(vectors * signs), variances)


def _along_axes(learn: Reduce, step: Step) -> tuple[Step, ...]:
    """A step done along the axes that are learnt, between the ways there (T = UD of the paper) and back."""
    there = Rows("to the axes", lambda part, params: turn_rows(part, params.vectors, before=params.centre))
    back = Rows("from the axes", lambda part, params: turn_rows(part, params.vectors.T, after=params.centre))
    return learn, there, step, back


def spectral_inverse(scatter: FloatArray) -> tuple[FloatArray, int]:
    """Inverse of a scatter on the directions in which there is any (judged in correlations), and how many there are."""
    spread = np.sqrt(np.clip(np.diag(scatter), 0.0, None))
    unit = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)
    values, vectors = np.linalg.eigh(scatter * np.outer(unit, unit))
    real = values > DEPENDENT * max(1.0, float(values[-1]))
    inverse = (vectors[:, real] / values[real]) @ vectors[:, real].T
    return inverse * np.outer(unit, unit), int(real.sum())


# --- What a masker promises of means and covariances, and how far its draws may lead from it --------------------------


def _kept_in_basis(moments: Moments, basis: Basis) -> FloatArray:
    """The covariance that is left where components lose their correlation: all of it in the spectral basis."""
    covariance = moments.scatter / max(moments.n - 1, 1)
    return covariance if basis == "spectral" else np.diag(np.diag(covariance))


def normal_draws(moments: Moments, basis: Basis) -> Expected:
    """Of independent normal records, whose scatter is Wishart with n - 1 degrees of freedom."""
    covariance = _kept_in_basis(moments, basis)
    n = max(moments.n, 2)
    error = np.sqrt(product_variance(covariance) / (n - 1))
    scale = 2.0 * form_eigenvalue(covariance) / (n - 1)
    return Expected(np.sqrt(np.diag(covariance) / n), covariance, error, scale)


def _expect_swapped(moments: Moments, *, basis: Basis = "spectral", largest: FloatArray | None = None) -> Expected:
    """Of columns that are permuted independently in a basis; `largest` has shape (width,)."""
    # Components j and h with variances λ along orthonormal axes v get a covariance c_jh of expectation 0 and variance
    # λ_j λ_h / (n-1), and no two pairs correlate. Entry (a, b) of the covariance is Σ_jh v_aj v_bh c_jh with c_jj = λ_j
    # fixed, of variance [S_aa S_bb + S_ab² - 2 Σ_j v_aj² v_bj² λ_j²] / (n-1).
    axes = axes_of(moments, basis)
    covariance = _kept_in_basis(moments, basis)
    n = max(moments.n, 2)
    own = (axes.vectors**2 * axes.variances) @ (axes.vectors**2 * axes.variances).T
    variance = (product_variance(covariance) - 2 * own) / (n - 1)
    sizes = np.abs(axes.vectors) * (np.sqrt((n - 1) * axes.variances) if largest is None else largest)
    scale = 2.0 / 3.0 * _largest_products(sizes) / (n - 1)
    return Expected(np.zeros(len(covariance)), covariance, np.sqrt(np.clip(variance, 0.0, None)), scale)


def _largest_products(sizes: FloatArray) -> FloatArray:
    """Of each two rows a and b the largest sizes_aj sizes_bh with j other than h; twice that for a row with itself."""
    width = len(sizes)
    ordered = np.sort(np.pad(sizes, ((0, 0), (0, 1))), axis=1)[:, ::-1]  # a second one, 0, where there is one axis
    place = sizes.argmax(axis=1)
    products = np.outer(ordered[:, 0], ordered[:, 0])
    crossed = np.outer(ordered[:, 0], ordered[:, 1])
    products = np.where(place[:, None] == place[None, :], np.maximum(crossed, crossed.T), products)
    products[np.arange(width), np.arange(width)] *= 2.0
    return products


def spectral_swap(*, basis: Basis = "spectral") -> tuple[Step, ...]:
    """Permute every principal component by itself, over all records, and turn back.

    The steps: moments of all rows; centred records along the eigenvectors of their covariance; each component permuted
    uniformly, independently of the others; back to the columns. Values along the components are those of the originals,
    values of the columns are new. In the basis `columns` it is plain swapping.

    The paper permutes U of the decomposition A = UDV' of the centred features; permuting T = UD is the same. It says
    that correlations are kept, as U has none and "our permutations (approximately) preserve this": on average, that is.
    A permutation of n cells leaves a correlation of about 1/√n. Relations beyond correlation are lost, so a component's
    permutation puts values of the columns outside their range where columns are skewed or binary: decode accordingly.
    """
    return _along_axes(
        Reduce("axes", Moments.of, partial(axes_of, basis=basis)),
        Columns("permute", lambda column, rng: rng.permutation(column)),
    )


Draw = Literal["normal", "quantiles"]


def synthesis(*, basis: Basis = "spectral", draw: Draw = "normal") -> tuple[Step, ...]:
    """Draw every principal component again, independently of the others, and turn back.

    Draws are `normal` with the component's variance, or from its own `quantiles`: piecewise uniform between its ordered
    values, scaled to have its mean and variance. Extremes are near those of the originals then. With normal draws the
    standard errors are those of any normal sample of the same size.

    The paper names synthesis as an application of its idea, without an algorithm; this is the plainest one. Normal
    draws of all components are draws from the normal distribution that has the covariance of the features, whatever the
    basis of the drawing.
    """
    step = Columns("draw", _draw_normal if draw == "normal" else _draw_quantiles)
    return _along_axes(Reduce("axes", Moments.of, partial(axes_of, basis=basis)), step)


def _draw_normal(column: FloatArray, *, place: int, params: Axes, rng: np.random.Generator) -> FloatArray:
    """Normal draws with a component's variance."""
    return np.asarray(rng.standard_normal(len(column)) * np.sqrt(params.variances[place]))


def _draw_quantiles(column: FloatArray, *, place: int, params: Axes, rng: np.random.Generator) -> FloatArray:
    """Draws between neighbouring values of a component, all pairs of neighbours being equally likely."""
    # Between neighbours a and b the mean is (a+b)/2, the variance (b-a)²/12; those of the mixture are taken off.
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


def _expect_synthesized(moments: Moments, *, basis: Basis = "spectral", draw: Draw = "normal") -> Expected | None:
    """What normal draws promise; nothing is said of quantiles, whose error depends on fourth moments."""
    return normal_draws(moments, basis) if draw == "normal" else None


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


def suppression(
    *,
    basis: Basis = "spectral",
    share: Annotated[float, Field(ge=0, lt=1)] = 0.05,
    outside: Annotated[float | None, Field(gt=0, allow_inf_nan=False)] = None,
) -> tuple[Step, ...]:
    """Put small principal components, and cells far out along the others, at the mean, and turn back.

    Suppressing a cell of a column leaves an attacker the other columns to guess it from. A cell of a component is what
    several columns have in common: suppressed, it is gone from all of them, and stands at the mean, the best guess
    there is. The components of smallest variance are suppressed for all records, as many as together have at most
    `share` of the total variance; there must be one, or a limit `outside`. Without that limit no covariance grows, and
    the variances lose at most `share` of their sum; with it, means move where a component is skewed. Nothing is
    promised against an attacker who knows most of a record.

    The paper proposes suppression in the spectral basis in one sentence and leaves open which cells. The smallest
    components are the ones whose cells single out records that break the pattern of the table at the least cost in
    variance; `outside` is the usual rule for rare values.
    """
    if share == 0 and outside is None:
        raise JobError("suppression was given share=0 and no outside, which suppresses nothing; give one of them")
    learn = Reduce("components", Moments.of, partial(_choose, basis=basis, share=share, outside=outside))
    step = Rows("suppress", lambda part, params: np.where(np.abs(part) <= params.limits, part, 0.0))  # 0 is the mean
    return _along_axes(learn, step)


def _choose(moments: Moments, *, basis: Basis, share: float, outside: float | None) -> Suppressed:
    """The axes, and how far cells along each may be from the mean."""
    axes = axes_of(moments, basis)
    limits = np.full(len(axes.variances), np.inf) if outside is None else outside * np.sqrt(axes.variances)
    small = _small(axes.variances, share)
    if outside is None and len(small) == 0:
        raise InputError(
            f"suppression was given share={share:g}, and no component is as small; raise share or give outside"
        )
    limits[small] = 0.0
    return Suppressed(axes.centre, axes.vectors, axes.variances, limits)


def _small(variances: FloatArray, share: float) -> IntArray:
    """The components of smallest variance whose sum is within the share; of equal ones the later first."""
    rising = np.lexsort((-np.arange(len(variances)), variances))
    within = np.cumsum(variances[rising]) <= share * variances.sum()
    return np.asarray(rising[within])


def _expect_suppressed(
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


METHODS = (
    Masker(
        function=spectral_swap,
        summary="Every principal component permuted by itself.",
        published="spectral swapping",
        reference="Lasko & Vinterbo (2010), doi:10.1109/TKDE.2009.88, section III.B.1",
        cost="time n · w²; memory: one part, and two columns of all rows",
        about={"basis": _BASIS},
        keeps="means and total variance exact, covariance on average; no record is made from one person; relations "
        "that are not linear are lost; basis='columns' keeps columns, and no relation between them; in a job, "
        "decoding exchanges categories until pairs of columns have that covariance (cut off by the largest "
        "score alone, -0.55 becomes -0.24 on the demonstration registry)",
        expect=_expect_swapped,
        link="none",
        permutes=True,
        learns=(Axes,),
        forms="basis",
    ),
    Masker(
        function=synthesis,
        summary="Every principal component drawn again from its distribution.",
        published="synthesis in a spectral basis",
        reference="Lasko & Vinterbo (2010), doi:10.1109/TKDE.2009.88, section V",
        cost="time n · (w² + w log n with draw='quantiles'); memory: one part, and three columns of all rows",
        about={"basis": _BASIS, "draw": "'normal' (default), or 'quantiles' of each component"},
        keeps="means and covariance on average; synthetic records; relations that are not linear are lost",
        expect=_expect_synthesized,
        link="none",
        learns=(Axes,),
        forms="draw",
    ),
    Masker(
        function=suppression,
        options=SuppressionOptions,
        published="cell suppression in a spectral basis",
        reference="Lasko & Vinterbo (2010), doi:10.1109/TKDE.2009.88, section V",
        cost="time n · w²; memory: one part",
        refuses=_of_one_component,
        about={
            "basis": _BASIS,
            "share": "of the variance that the suppressed components may have, 0.05 by default",
            "outside": "standard deviations beyond which single cells are suppressed; none by default",
        },
        keeps="means exact without 'outside', the covariance that of the components left; records stay those of "
        "persons with less detail, and can be linked",
        expect=_expect_suppressed,
        link="person",
        learns=(Suppressed,),
    ),
)
