"""Swapping of cells, in the spectral basis or in the columns."""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np

from anonpipe.methods.masking._basis import (
    BASIS,
    Axes,
    Basis,
    checked_basis,
    count_moments,
    find_axes,
    from_axes,
    permuted_components,
    to_axes,
)
from anonpipe.methods.masking._options import ScopedMaskOptions
from anonpipe.methods.record import Masker
from anonpipe.methods.steps import Columns, Reduce, Rows, Step
from anonpipe.moments import Expected, Moments
from anonpipe.types import FloatArray


class SpectralSwapOptions(ScopedMaskOptions):
    """Every principal component permuted by itself."""

    method: Literal["spectral_swap"]
    basis: Literal["spectral", "columns"] = "spectral"


def spectral_swap(*, basis: Basis = "spectral") -> tuple[Step, ...]:
    """Permute every principal component by itself, over all records, and turn back.

    The steps: moments of all rows; centred records along the eigenvectors of
    their covariance; each component permuted uniformly, independently of the
    others; back to the columns.

    Parameters
    ----------
    basis
        `spectral`, or `columns`: plain swapping, which keeps every column's
        values and no relation between columns.

    Returns
    -------
    tuple of steps
        In the spectral basis the means are exact and so is the sum of the
        variances; the covariance is kept on average, with the standard error
        of `expect_swapped`. Values along the components are those of the
        originals, values of the columns are new. No record of the result is
        made from one person.

    Raises
    ------
    JobError
        Unknown basis.

    Notes
    -----
    The paper permutes U of the decomposition A = UDV' of the centred features;
    permuting T = UD is the same. It says that correlations are kept, as U has
    none and "our permutations (approximately) preserve this": on average,
    that is. A permutation of n cells leaves a correlation of about 1/√n.
    Relations beyond correlation are lost, so a component's permutation puts
    values of the columns outside their range where columns are skewed or
    binary: decode accordingly.

    References
    ----------
    Lasko & Vinterbo (2010), doi:10.1109/TKDE.2009.88, section III.B.1.

    Examples
    --------
    >>> [step.name for step in spectral_swap()]
    ['axes', 'to the axes', 'permute', 'from the axes']
    """
    checked_basis(basis)
    return (
        Reduce("axes", count_moments, partial(find_axes, basis=basis)),
        Rows("to the axes", to_axes),
        Columns("permute", permute),
        Rows("from the axes", from_axes),
    )


def permute(column: FloatArray, *, place: int, params: Axes, rng: np.random.Generator) -> FloatArray:
    """A uniform permutation of one component."""
    return rng.permutation(column)


def expect_swapped(moments: Moments, *, basis: Basis = "spectral", largest: FloatArray | None = None) -> Expected:
    """What swapping promises; see `permuted_components`."""
    return permuted_components(moments, basis, largest)


METHOD = Masker(
    function=spectral_swap,
    options=SpectralSwapOptions,
    published="spectral swapping",
    reference="Lasko & Vinterbo (2010), doi:10.1109/TKDE.2009.88, section III.B.1",
    cost="time n · w²; memory: one part, and two columns of all rows",
    about={"basis": BASIS},
    keeps="means and total variance exact, covariance on average; no record is made from one person; relations "
    "that are not linear are lost; basis='columns' keeps columns, and no relation between them; in a job, "
    "decoding exchanges categories until pairs of columns have that covariance (cut off by the largest "
    "score alone, -0.55 becomes -0.24 on the demonstration registry)",
    expect=expect_swapped,
    exact_means=True,
    exact_covariance=False,
    exact_columns=False,
    link="none",
    permutes=True,
    learns=(Axes,),
    forms="basis",
)
