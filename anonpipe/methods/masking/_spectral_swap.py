"""Swapping of cells, in the spectral basis or in the columns."""

from __future__ import annotations

from functools import partial

import numpy as np

from anonpipe.methods.masking._basis import Axes, Basis, checked_basis, count_moments, find_axes, from_axes, to_axes
from anonpipe.methods.masking._expected import Expected, permuted_components
from anonpipe.methods.masking._steps import Columns, Reduce, Rows, Step
from anonpipe.moments import Moments
from anonpipe.types import FloatArray


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
    The paper permutes U of the decomposition A = UDV' of the centred points;
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
