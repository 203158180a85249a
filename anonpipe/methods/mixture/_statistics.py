"""The sums over records that an iteration needs; pieces of a table add up to the table's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from anonpipe.errors import InputError
from anonpipe.kernels.group_maps import moments_by_group
from anonpipe.kernels.groups import sort_groups
from anonpipe.kernels.mixture import expectation
from anonpipe.methods.mixture._model import Mixture
from anonpipe.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Statistics:
    """Sums over the records of a piece of the table.

    z is the posterior probability of a component for a record (eq. 2), u the
    factor by which a t component weighs the record down, 1 for a normal one.
    """

    rows: int  # Number of records
    log_likelihood: float  # Of these records, in the mixture that the posteriors are of
    # counts, heavy, tails: sums of z, z u and z (log u - u), shape (n_groups,)
    counts: FloatArray
    heavy: FloatArray
    tails: FloatArray
    sums: FloatArray  # Sums of z u (x - centre), shape (n_groups, width)
    # Sums of z u (x - centre)(x - centre)', shape (n_groups, width, width), or (n_groups, 1, width): their diagonals
    scatters: FloatArray
    # centres, degrees: means, shape (n_groups, width), and degrees of freedom, shape (n_groups,), of that mixture:
    # equal in all pieces
    centres: FloatArray
    degrees: FloatArray

    def merge(self, other: Self) -> Self:
        """Both pieces together; they must be of one mixture."""
        if not np.array_equal(self.centres, other.centres) or not np.array_equal(self.degrees, other.degrees):
            raise InputError("these sums are of two different mixtures; take all pieces with the same mixture")
        return type(self)(
            self.rows + other.rows,
            self.log_likelihood + other.log_likelihood,
            self.counts + other.counts,
            self.heavy + other.heavy,
            self.tails + other.tails,
            self.sums + other.sums,
            self.scatters + other.scatters,
            self.centres,
            self.degrees,
        )


def e_step(features: FloatArray, mixture: Mixture) -> Statistics:
    """Posterior probabilities of a piece of the table (eq. 2), summed up.

    Time n · n_groups · width², memory n_groups · width² and 2 KiB for each
    component and column, whatever the number of rows. A posterior under 1e-26
    counts as 0.

    Shapes: features (n_rows, width).

    Examples
    --------
    >>> two = Mixture(np.full(2, 0.5), np.array([[0.0], [9.0]]), np.ones((2, 1, 1)), np.full(2, np.inf))
    >>> e_step(np.array([[0.0], [1.0], [9.0]]), two).counts.round(3).tolist()
    [2.0, 1.0]
    """
    likelihood, counts, heavy, tails, sums, scatters = expectation(features, *mixture.arguments)
    if not np.isfinite(likelihood):
        raise InputError(
            "some records are too far from every component for a density to be computed; "
            "scale the columns to unit variance, or cut values that are out of all bounds"
        )
    return Statistics(len(features), likelihood, counts, heavy, tails, sums, scatters, mixture.means, mixture.degrees)


def hard_statistics(features: FloatArray, labels: IntArray, *, diagonal: bool = False) -> Statistics:
    """The sums where each record belongs to one component for certain: what a first estimate is made of.

    Examples
    --------
    >>> hard_statistics(np.array([[0.0], [2.0], [5.0]]), np.array([0, 0, 1])).centres.tolist()
    [[1.0], [5.0]]
    """
    order, starts = sort_groups(labels)
    means, scatters = moments_by_group(features, order, starts)
    counts = np.diff(starts).astype(np.float64)
    if diagonal:
        scatters = np.ascontiguousarray(np.diagonal(scatters, axis1=1, axis2=2))[:, None, :]
    degrees = np.full(len(counts), np.inf)
    return Statistics(len(features), -np.inf, counts, counts, -counts, np.zeros_like(means), scatters, means, degrees)
