"""Whole tables in memory: groups by a mixture, and normal records for groups that span partitions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from anonpipe.errors import JobError
from anonpipe.kernels.mixture import map_by_group
from anonpipe.methods.mixture import (
    AffineMaps,
    GroupStatistics,
    Mixture,
    assign,
    evenly_spaced,
    fit,
    group_statistics,
    movable,
    moves,
    numbering,
    select,
)
from anonpipe.types import FloatArray, IntArray

SAMPLE_ROWS = 4_000  # Rows that number and shape of the components are chosen on
_DRAWS = 1 << 20  # Draws held at a time (8 MiB)


def repaired(features: FloatArray, mixture: Mixture, k: int) -> IntArray:
    """Groups of k or more: the most likely component of each record, then the cheapest moves.

    Examples
    --------
    >>> two = Mixture(np.full(2, 0.5), np.array([[0.0], [9.0]]), np.ones((2, 1, 1)), np.full(2, np.inf))
    >>> repaired(np.array([[0.0], [1.0], [2.0], [3.0], [8.0]]), two, 2).tolist()
    [0, 0, 0, 1, 1]
    """
    labels = assign(features, mixture)
    counts = np.bincount(labels, minlength=mixture.n_groups)
    labels = moves(movable(features, labels, mixture, counts, k), counts, k).applied(labels)
    return numbering(counts)[labels]


def gaussian_mixture(
    features: FloatArray,
    k: int,
    *,
    rng: np.random.Generator,
    least_groups: int = 2,
    most_groups: int = 10,
    shapes: Sequence[str] = ("full", "vev"),
    degrees: float | None = math.inf,
) -> IntArray:
    """Group records by the most likely component of a mixture with bounded weights.

    Number and shape of the components are those of the largest BIC on an
    evenly spaced sample of 4,000 records, or on all if they are fewer; then
    the mixture is fitted to all, every record goes to its most likely
    component, and components with fewer than k records take the cheapest of
    others, by the difference of their log densities. A component that no
    record goes to is dropped.

    Shapes: features (n_rows, width).

    Notes
    -----
    The authors bound the weights, eq. 3 and 4, and say that groups then have k
    records. The bound is one on the posterior probabilities on average; the
    records that are most likely in a component can be fewer, hence the repair.

    Their table of 2,800 thyroid patients has 1,947 with all five numbers and
    the sex known and an age below 400, which is what their six clusters add up
    to. For six components the best of several starts ends in clusters of
    nearly the printed sizes; seven and eight have a larger BIC still, which
    their single start did not find.

    References
    ----------
    Oganian and Domingo-Ferrer 2017, Trans. Data Privacy 10:61-81, section 3.

    Examples
    --------
    >>> features = np.concatenate([np.arange(8.0), 100 + np.arange(8.0)])[:, None]
    >>> gaussian_mixture(features, 4, rng=np.random.default_rng(0), most_groups=2).tolist()
    [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1]
    """
    if least_groups < 1 or most_groups < least_groups:
        raise JobError(f"{least_groups} to {most_groups} components were asked for; give 1 or more, the least first")
    sample = np.ascontiguousarray(features[evenly_spaced(len(features), SAMPLE_ROWS)])
    chosen = select(
        sample,
        k,
        len(features),
        numbers=range(least_groups, most_groups + 1),
        shapes=shapes,
        degrees=degrees,
    )
    mixture = chosen.mixture
    if len(features) > SAMPLE_ROWS:
        mixture = fit(features, mixture, chosen.constraints).mixture
    return repaired(features, mixture, k)


def draw_statistics(labels: IntArray, width: int, groups: int, *, rng: np.random.Generator) -> GroupStatistics:
    """The same of standard normal draws, `width` for each record in turn, of which nothing is kept."""
    total = group_statistics(np.zeros((0, width)), labels[:0], groups)
    for low, draws in _drawn(len(labels), width, rng):
        total = total.merge(group_statistics(draws, labels[low : low + len(draws)], groups))
    return total


def synthesize_rows(labels: IntArray, maps: AffineMaps, *, rng: np.random.Generator) -> FloatArray:
    """New records of a partition: the draws of `draw_statistics` again, mapped."""
    width = maps.origins.shape[1]
    out = np.empty((len(labels), width))
    for low, draws in _drawn(len(labels), width, rng):
        high = low + len(draws)
        map_by_group(draws, labels[low:high], maps.origins, maps.matrices, maps.targets, out[low:high])
    return out


def _drawn(rows: int, width: int, rng: np.random.Generator) -> Iterator[tuple[int, FloatArray]]:
    """(first row, draws) in pieces; what is drawn does not depend on their size."""
    step = max(1, _DRAWS // width)
    for low in range(0, rows, step):
        yield low, rng.standard_normal((min(step, rows - low), width))
