"""Normal records that have the mean and the scatter of their group, exactly or on average: gaussian, and pca."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from anonpipe.errors import JobError
from anonpipe.kernels.compiled import kernel
from anonpipe.kernels.groups import contrasts, group_mean, householder, reflect, rotate, triangularise, write_group
from anonpipe.kernels.points import largest_group
from anonpipe.methods.options import MethodOptions
from anonpipe.methods.record import Guarantee, Synthesizer
from anonpipe.moments import Expected, GroupedMoments, GroupSpread, expect_by_group, merge_all
from anonpipe.types import FloatArray, IntArray

_DRAWS = 1 << 20  # Draws held at a time (8 MiB), more only for a group that needs more


def draw_in_chunks(
    per_group: IntArray, rng: np.random.Generator, most: int = _DRAWS
) -> Iterator[tuple[int, int, FloatArray]]:
    """Yield (first group, group after the last, draws) over all groups in order."""
    ends = np.cumsum(per_group)
    first, done = 0, 0
    while first < len(per_group):
        after = max(first + 1, int(np.searchsorted(ends, done + most, side="right")))
        yield first, after, rng.standard_normal(int(ends[after - 1]) - done)
        first, done = after, int(ends[after - 1])


# --- New records for every group from its own scatter, by random rotation or by normal draws --------------------------
# All kernels go through the groups `order[starts[g]:starts[g + 1]]` and read normal draws, made outside, from one array
# in the order of the groups.
#
# A group of n records is centred and written in n - 1 zero-sum coordinates (`anonpipe.kernels.groups`). With n - 1 <=
# width rows these are used as they are; a taller matrix is reduced to the triangle R of its QR decomposition, which has
# the same scatter. So the work of a group is n · width · min(n - 1, width), and no matrix of width x width is made for
# a group of few records. No matrix is inverted and no rank is estimated: dependent columns give rows of zeros.

_DEPENDENT = 1e-10  # A kept column of which less than this part of its length is new follows from those before it


def rotation_draws(starts: IntArray, width: int) -> IntArray:
    """Normal draws that a random rotation takes of each group, shape (n_groups,)."""
    rows = np.diff(starts) - 1
    rank = np.minimum(rows, width)
    return np.asarray(rank * rows - rank * (rank - 1) // 2)


@kernel
def draw_groups(
    features: FloatArray, order: IntArray, starts: IntArray, draws: FloatArray, factor: float, out: FloatArray
) -> None:
    """Write normal records with each group's mean and scatter times `factor` / size; size · rank draws a group."""
    width = features.shape[1]
    largest = largest_group(starts)
    a, v = np.empty((largest, width)), np.empty(largest)
    mean, sums = np.empty(width), np.empty(width)
    at = 0
    for g in range(starts.shape[0] - 1):
        members = order[starts[g] : starts[g + 1]]
        rows = members.shape[0] - 1
        group_mean(features, members, mean)
        contrasts(features, members, mean, a)
        if rows > width:
            triangularise(a, rows, v, sums)
        scale = math.sqrt(factor / members.shape[0])
        for row in members:
            for j in range(width):
                out[row, j] = mean[j]
            for i in range(min(rows, width)):
                weight = draws[at] * scale
                at += 1
                for j in range(width):
                    out[row, j] += weight * a[i, j]


@kernel
def _set_apart(k: FloatArray, x: FloatArray, rows: int, normals: FloatArray, sums: FloatArray) -> int:
    """Reflect `k` and `x` by `normals` so that the first rows of `x` are what `k`, used up, explains; its rank."""
    rank = int(0)
    for j in range(k.shape[1]):
        if rank == rows:
            break
        whole, new = 0.0, 0.0
        for i in range(rows):
            whole += k[i, j] * k[i, j]
            if i >= rank:
                new += k[i, j] * k[i, j]
        if new <= _DEPENDENT * _DEPENDENT * whole:
            continue
        size, v = rows - rank, normals[rank]
        for i in range(size):
            v[i] = k[rank + i, j]
        householder(v, size)
        reflect(k, rank, j + 1, v, size, 1.0, sums)
        reflect(x, rank, int(0), v, size, 1.0, sums)
        rank += 1
    return rank


@kernel
def rotate_residuals(
    features: FloatArray, kept: FloatArray, order: IntArray, starts: IntArray, draws: FloatArray, out: FloatArray
) -> None:
    """Write into `out` what `kept` (n_rows, n_kept) explains of every group, plus a random rotation of the rest."""
    width, n_kept = features.shape[1], kept.shape[1]
    largest = largest_group(starts)
    k, x = np.empty((largest, n_kept)), np.empty((largest, width))
    normals, v = np.empty((min(largest, n_kept), largest)), np.empty(largest)
    middle, mean, sums = np.empty(n_kept), np.empty(width), np.empty(max(width, n_kept))
    at = 0
    for g in range(starts.shape[0] - 1):
        members = order[starts[g] : starts[g + 1]]
        rows = members.shape[0] - 1
        group_mean(kept, members, middle)
        contrasts(kept, members, middle, k)
        group_mean(features, members, mean)
        contrasts(features, members, mean, x)
        explained = _set_apart(k, x, rows, normals, sums)
        free = rows - explained
        residuals = x[explained:]
        if free > width:
            triangularise(residuals, free, v, sums)
        rotate(residuals, free, min(free, width), draws[at:], v, sums)
        rank = min(rows, width)
        at += rank * rows - rank * (rank - 1) // 2  # as many as without `kept`
        for i in range(explained - 1, -1, -1):
            reflect(x, i, int(0), normals[i], rows - i, 1.0, sums)
        write_group(x, mean, members, out)


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

    *Exact.* Normal records of n members whose sample mean and scatter are forced to given values are distributed as the
    group's mean plus Q X_c: X_c the centred group and Q uniform among the orthogonal matrices that keep the vector of
    ones (Stewart 1980, SIAM J. Numer. Anal. 17). So the group is rotated, in O(n · width · min(n - 1, width)), and
    nothing is inverted; singular scatters, constant columns and equal records need no special case. A group of n <=
    width + 1 stays in the affine span of its records; a group of two keeps its two records, perhaps swapped; in a group
    of three one angle is free, which one known value of a record gives away. With kept columns: `r_microhybrid`.

    *Expected.* A record of a group with scatter W and n members has the covariance W/n · N/(N-1), N being the records
    of the table (`n_table`). With the textbook's W/(n-1) the release would spread too far: the draws move the group's
    mean too, and E[S_Y] would exceed S_X by the sum over the groups of W/(n-1) (1 - n/N) / (N-1). No eigenvectors are
    needed: any A with A'A = W turns standard normal numbers into the draws.
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
    if n_table is not None:
        raise JobError("n_table is taken with moments='expected' only; leave it out")
    none_kept = np.empty((len(features), 0))
    for first, after, draws in draw_in_chunks(rotation_draws(starts, features.shape[1]), rng):
        rotate_residuals(features, none_kept, order, starts[first : after + 1], draws, out)
    return out


def kept_exactly(grouped: Sequence[GroupedMoments], spread: Sequence[GroupSpread] | None) -> Expected:
    """The covariance as it was, without error."""
    return Expected.exactly(merge_all(grouped).total.covariance)


def _kept_on_average(grouped: Sequence[GroupedMoments], spread: Sequence[GroupSpread] | None) -> Expected:
    """The covariance as it was on average, of records drawn with the covariance of their group."""
    if not spread:
        raise JobError("the standard errors of moments='expected' need a GroupSpread; give one for each partition")
    return expect_by_group(merge_all(spread), merge_all(grouped).total.covariance)


def _guarantee(options: Any) -> Guarantee:
    if options.moments == "exact":
        return Guarantee("group", kept_exactly)
    return Guarantee("table", _kept_on_average, needs_spread=True)


_SAME_METHOD = "pca and gaussian are one method under two names: their records have the same distribution"


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

    The step of the paper's Algorithm 3 that gives a component "mean and standard deviation" of the original leaves open
    whether this is meant of the drawn sample or of its distribution. Both are on offer, and each has the law, and so
    the code, of `gaussian`. `exact`, of the sample: uncorrelated normal components of fixed mean and variance, turned
    back, are a uniform random rotation of the centred group. `expected`, of the distribution: independent normal
    components, turned back, are normal records with the covariance that the components came from. What `gaussian` says
    of W/n in place of W/(n-1) holds here.

    The paper's Proposition 1 turns to the matrix of inner products where a group has fewer records than columns. Here
    such a group is used as its own n - 1 zero-sum coordinates, and only a taller one is reduced, by QR, to a width x
    width triangle. So both forms take O(n · width · min(n - 1, width)) in time, and no width x width matrix is made for
    a group of few records.
    """
    return gaussian(features, order, starts, rng=rng, moments=moments, n_table=n_table)


_GAUSSIAN = Synthesizer(
    function=gaussian,
    summary="Normal records with the group's mean and scatter, exactly or on average; the same method as `pca`.",
    published="normal data with the moments of the group (hybrid microdata); the same method as pca",
    reference="Domingo-Ferrer & González-Nicolás (2010), doi:10.1016/j.ins.2010.04.005",
    cost="time n · width · min(group - 1, width); memory: the result, one group, and its draws or 8 MiB",
    about={
        "moments": "'exact' (default): of the drawn records; 'expected': of the distribution each is drawn from",
        "n_table": "records of the whole table; with moments='expected' only, and needed there",
    },
    keeps=(
        "exact: mean and scatter of every group, and so means and covariances of strata and table; groups of "
        "up to width + 1 records stay in the span of the originals, groups of two are the originals; "
        "expected: means and covariance of the table are unbiased (of a stratum up to a relative 1/N), those "
        f"of a group are not kept; {_SAME_METHOD}"
    ),
    guarantee=_guarantee,
    follows=lambda options, features: {"n_table": features.rows} if options.moments == "expected" else {},
    forms="moments",
)

METHODS = (
    _GAUSSIAN,
    replace(
        _GAUSSIAN,
        function=pca,
        options=MethodOptions,
        summary="Independent normal principal components per group (Gal 2014, Algorithm 3); the same method as "
        "`gaussian`.",
        published="improved condensation, synthetic data generation; the same method as gaussian",
        reference="Gal et al. (2014), doi:10.1016/j.jbi.2014.01.001, Algorithm 3 and Proposition 1",
        keeps=f"as gaussian, in both forms; {_SAME_METHOD}",
    ),
)
