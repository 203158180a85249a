"""Independent normal principal components in each group."""

from __future__ import annotations

from typing import Literal

import numpy as np

from anonpipe.methods.options import MethodOptions
from anonpipe.methods.record import Guarantee, Synthesizer
from anonpipe.methods.synthesis._gaussian import ABOUT, ONE, gaussian, guarantee_of, of_table
from anonpipe.types import FloatArray, IntArray


class PcaOptions(MethodOptions):
    """Independent normal principal components per group (Gal 2014, Algorithm 3); the same method as `gaussian`."""

    method: Literal["pca"]
    moments: Literal["exact", "expected"] = "exact"


def pca(
    features: FloatArray,
    order: IntArray,
    starts: IntArray,
    *,
    rng: np.random.Generator,
    moments: Literal["exact", "expected"] = "exact",
    n_table: int | None = None,
) -> FloatArray:
    """Replace each group by normal draws of its principal components, turned back.

    Parameters
    ----------
    features
        Finite, shape (n_rows, width), C order.
    order, starts
        The groups; see `anonpipe.kernels.points.sort_groups`.
    rng
        Source of the draws.
    moments
        `exact`: the drawn components have exactly the means and variances of
        the group's components and no correlation. `expected`: they have them
        on average.
    n_table
        Records of the whole table, of which `features` may be a part; for
        `expected` only, and required there.

    Returns
    -------
    float64, shape (n_rows, width)
        Row i replaces row i. `exact`: as `gaussian`. `expected`: the table's
        mean and covariance are unbiased; a group's are not.

    Raises
    ------
    JobError
        Unknown `moments`, or `n_table` missing or out of place.

    Notes
    -----
    The step of the paper's Algorithm 3 that gives a component "mean and
    standard deviation" of the original leaves open whether this is meant of
    the drawn sample or of its distribution. Both are on offer, and each has
    the law, and so the code, of `gaussian`. `exact`, of the sample:
    uncorrelated normal components of fixed mean and variance, turned back, are
    a uniform random rotation of the centred group. `expected`, of the
    distribution: independent normal components, turned back, are normal
    records with the covariance that the components came from. What `gaussian`
    says of W/n in place of W/(n-1) holds here.

    The paper's Proposition 1 turns to the matrix of inner products where a
    group has fewer records than columns. Here such a group is used as its own
    n - 1 zero-sum coordinates, and only a taller one is reduced, by QR, to a
    width x width triangle. So both forms take
    O(n · width · min(n - 1, width)) in time, and no width x width matrix is
    made for a group of few records.

    References
    ----------
    Gal et al. (2014), doi:10.1016/j.jbi.2014.01.001, Algorithm 3 and Proposition 1.

    Examples
    --------
    >>> rng = np.random.default_rng()
    >>> features = np.repeat([[1.0, 2.0]], 4, axis=0)
    >>> pca(features, np.arange(4), np.array([0, 4]), rng=rng, moments="expected", n_table=100).tolist()
    [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]
    """
    return gaussian(features, order, starts, rng=rng, moments=moments, n_table=n_table)


def _guarantee(options: PcaOptions) -> Guarantee:
    return guarantee_of(options.moments)


METHOD = Synthesizer(
    function=pca,
    options=PcaOptions,
    published="improved condensation, synthetic data generation; the same method as gaussian",
    reference="Gal et al. (2014), doi:10.1016/j.jbi.2014.01.001, Algorithm 3 and Proposition 1",
    cost="time n · width · min(group - 1, width); memory: the result, one group, and its draws or 8 MiB",
    about=ABOUT,
    keeps=f"as gaussian, in both forms; {ONE}",
    guarantee=_guarantee,
    follows=of_table,
    forms="moments",
)
