"""Normal records that have the mean and the scatter of their group, exactly or on average."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from anonpipe.errors import JobError
from anonpipe.methods.options import MethodOptions
from anonpipe.methods.record import Features, Guarantee, Synthesizer
from anonpipe.methods.synthesis._draws import draw_in_chunks
from anonpipe.methods.synthesis._rotate_kernel import draw_groups, rotate_groups
from anonpipe.moments import Expected, GroupedMoments, GroupSpread, limit_by_group, merge_all
from anonpipe.types import FloatArray, IntArray


class GaussianOptions(MethodOptions):
    """Normal records with the group's mean and scatter, exactly or on average; the same method as `pca`."""

    method: Literal["gaussian"]
    moments: Literal["exact", "expected"] = "exact"


def gaussian(
    features: FloatArray,
    order: IntArray,
    starts: IntArray,
    *,
    rng: np.random.Generator,
    moments: Literal["exact", "expected"] = "exact",
    n_table: int | None = None,
) -> FloatArray:
    """Replace each group by normal records, conditioned on the group's mean and scatter or drawn with them.

    Parameters
    ----------
    features
        Finite, shape (n_rows, width), C order.
    order, starts
        The groups; see `anonpipe.kernels.groups.sort_groups`.
    rng
        Source of the draws.
    moments
        `exact`: the drawn records of a group have its mean and scatter.
        `expected`: each record is drawn by itself, from the group's mean and
        covariance.
    n_table
        Records of the whole table, of which `features` may be a part; for
        `expected` only, and required there.

    Returns
    -------
    float64, shape (n_rows, width)
        Row i replaces row i. `exact`: every group's mean and scatter, and with
        them the table's mean and covariance, are those of `features` to
        rounding. `expected`: the table's mean and covariance are unbiased; a
        group's are not kept.

    Raises
    ------
    JobError
        Unknown `moments`, or `n_table` missing or out of place.

    Notes
    -----
    *Exact.* Normal records of n members whose sample mean and scatter are forced to
    given values are distributed as the group's mean plus Q X_c: X_c the
    centred group and Q uniform among the orthogonal matrices that keep the
    vector of ones. So the group is rotated, in O(n · width · min(n - 1,
    width)), and nothing is inverted; singular scatters, constant columns and
    equal records need no special case.

    A group of n <= width + 1 stays in the affine span of its records; a group
    of two keeps its two records, perhaps swapped; in a group of three one angle
    is free, which one known value of a record gives away.

    *Expected.* A record of a group with scatter W and n members has the
    covariance W/n · N/(N-1), N being the records of the table. With the
    textbook's W/(n-1) the release would spread too far: the draws move the
    group's mean too, and E[S_Y] would exceed S_X by the sum over the groups of
    W/(n-1) (1 - n/N) / (N-1). No eigenvectors are needed:
    any A with A'A = W turns standard normal numbers into the draws.

    References
    ----------
    Domingo-Ferrer & González-Nicolás (2010), doi:10.1016/j.ins.2010.04.005
    (the condition on the moments; `r_microhybrid` is the method with kept
    columns); Stewart (1980), SIAM J. Numer.
    Anal. 17 (uniform orthogonal matrices).

    Examples
    --------
    >>> rng = np.random.default_rng()
    >>> features = rng.normal(size=(6, 2))
    >>> new = gaussian(features, np.arange(6), np.array([0, 6]), rng=rng)
    >>> np.allclose(np.cov(new.T), np.cov(features.T)), np.allclose(new, features)
    (True, False)
    """
    out = np.empty_like(features)
    sizes = np.diff(starts)
    if moments == "expected":
        if n_table is None or n_table < max(len(features), 2):
            raise JobError("moments='expected' needs n_table: the records of the whole table, two or more")
        per_group = sizes * np.minimum(sizes - 1, features.shape[1])
        for first, after, draws in draw_in_chunks(per_group, rng):
            draw_groups(features, order, starts[first : after + 1], draws, n_table / (n_table - 1), out)
        return out
    if moments != "exact":
        raise JobError(f"moments={moments!r} was given; known are 'exact' and 'expected'")
    if n_table is not None:
        raise JobError("n_table is taken with moments='expected' only; leave it out")
    rows = sizes - 1
    rank = np.minimum(rows, features.shape[1])
    for first, after, draws in draw_in_chunks(rank * rows - rank * (rank - 1) // 2, rng):
        rotate_groups(features, order, starts[first : after + 1], draws, out)
    return out


def kept_exactly(grouped: Sequence[GroupedMoments], spread: Sequence[GroupSpread] | None) -> Expected:
    """The covariance as it was, without error."""
    return Expected.exactly(merge_all(grouped).total.covariance)


def kept_on_average(grouped: Sequence[GroupedMoments], spread: Sequence[GroupSpread] | None) -> Expected:
    """The covariance as it was on average, of records drawn with the covariance of their group."""
    if not spread:
        raise JobError("the sampling error of groups in expectation needs a GroupSpread; count one a partition")
    return limit_by_group(merge_all(spread)).about(merge_all(grouped).total.covariance)


def guarantee_of(moments: str) -> Guarantee:
    """What is guaranteed with `moments` exact or expected."""
    if moments == "exact":
        return Guarantee("group", kept_exactly)
    return Guarantee("table", kept_on_average, needs_spread=True)


def _guarantee(options: GaussianOptions) -> Guarantee:
    return guarantee_of(options.moments)


def of_table(options: Any, features: Features) -> dict[str, Any]:
    """The size of the table, where draws depend on it."""
    return {"n_table": features.rows} if options.moments == "expected" else {}


ONE = "pca and gaussian are one method under two names: their records have the same distribution"

ABOUT = {
    "moments": "'exact' (default): of the drawn records; 'expected': of the distribution each is drawn from",
    "n_table": "records of the whole table; with moments='expected' only, and needed there",
}

METHOD = Synthesizer(
    function=gaussian,
    options=GaussianOptions,
    published="normal data with the moments of the group (hybrid microdata); the same method as pca",
    reference="Domingo-Ferrer & González-Nicolás (2010), doi:10.1016/j.ins.2010.04.005",
    cost="time n · width · min(group - 1, width); memory: the result, one group, and its draws or 8 MiB",
    about=ABOUT,
    keeps=(
        "exact: mean and scatter of every group, and so means and covariances of strata and table; groups of "
        "up to width + 1 records stay in the span of the originals, groups of two are the originals; "
        "expected: means and covariance of the table are unbiased (of a stratum up to a relative 1/N), those "
        f"of a group are not kept; {ONE}"
    ),
    guarantee=_guarantee,
    follows=of_table,
    forms="moments",
)
