"""Which parts of a table get noise of one covariance: strata, of which small ones share theirs."""

from __future__ import annotations

from collections.abc import Sequence

from anonpipe.moments._merge import Statistic, merge_all
from anonpipe.moments._moments import GroupedMoments

LEAST_FREE = 30  # Records beyond the groups that noise of an own covariance takes, whatever the number of columns


def least_free(width: int) -> int:
    """Records beyond the groups that noise of an own covariance takes: 30, or twice the feature columns."""
    return max(LEAST_FREE, 2 * width)


def noise_scopes(grouped: Sequence[GroupedMoments]) -> list[int]:
    """The scope of each stratum: those that share a scope share the covariance of their noise.

    A stratum of N records in G groups is a scope of its own where N - G is at
    least 30 and twice the number of columns. With fewer, the noise would lie
    in the span of a handful of records, and say which they are: such strata
    are one scope together, which the smallest of the others join, one by one,
    until there are enough.

    Examples
    --------
    >>> import numpy as np
    >>> def stratum(n):
    ...     return GroupedMoments.of(np.arange(float(n))[:, None], np.arange(n), np.arange(0, n + 1, 5))
    >>> noise_scopes([stratum(100), stratum(5), stratum(50), stratum(10)])
    [0, 1, 1, 1]
    """
    return scopes_of([max(each.total.n - each.groups, 0) for each in grouped], len(grouped[0].total.mean))


def scopes_of(free: Sequence[int], width: int) -> list[int]:
    """The same from the records that each stratum has beyond its groups, and the number of columns.

    Examples
    --------
    >>> scopes_of([80, 4, 40, 8], 1)
    [0, 1, 1, 1]
    """
    least = least_free(width)
    rising = sorted(range(len(free)), key=lambda at: (free[at], at))
    shared: list[int] = []
    for at in rising:
        if free[at] >= least and (not shared or sum(free[one] for one in shared) >= least):
            break
        shared.append(at)
    keys = [-1 if at in shared else at for at in range(len(free))]
    order = list(dict.fromkeys(keys))
    return [order.index(key) for key in keys]


def together(parts: Sequence[Statistic], scopes: Sequence[int]) -> list[Statistic]:
    """Merge what was counted of the strata of each scope, in their order.

    Examples
    --------
    >>> import numpy as np
    >>> from anonpipe.moments import Moments
    >>> parts = [Moments.of(np.array([[value]])) for value in (1.0, 2.0, 4.0)]
    >>> [merged.mean.tolist() for merged in together(parts, [0, 1, 0])]
    [[2.5], [2.0]]
    """
    every = sorted(set(scopes))
    return [merge_all([part for part, own in zip(parts, scopes, strict=True) if own == scope]) for scope in every]
