"""Microaggregation by fuzzy c-means."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from pydantic import Field

from anonpipe.methods.grouping._fuzzy_kernel import fuzzy_recursively
from anonpipe.methods.grouping._options import GroupingOptions, under_2k
from anonpipe.methods.record import Grouping
from anonpipe.types import FloatArray, IntArray


class FuzzyCMeansOptions(GroupingOptions):
    """Fuzzy c-means, run with fewer and softer clusters until all have k records."""

    method: Literal["fuzzy_c_means"]
    fuzziness: float = Field(default=1.1, gt=1)
    step: float = Field(default=0.02, gt=0)
    shrink: float = Field(default=0.5, gt=0, lt=1)
    iterations: int = Field(default=20, ge=1)


def fuzzy_c_means(
    features: FloatArray,
    k: int,
    *,
    rng: np.random.Generator,
    fuzziness: float = 1.1,
    step: float = 0.02,
    shrink: float = 0.5,
    iterations: int = 20,
) -> IntArray:
    """Group records by fuzzy c-means with fewer and fewer clusters.

    A set of n >= 2k records is clustered by fuzzy c-means with c = floor(n/k)
    clusters and the exponent m = `fuzziness`, and each record goes to the
    cluster of its largest membership. Where a cluster has from 1 to k - 1
    records, or all are in one, c is lowered to `shrink` · c, m is raised by
    `step`, and it is tried again. The clusters found are divided further in
    the same way, until all have fewer than 2k.

    The published method does not say what happens to a set that cannot be
    divided, as one far outlier can make any: two clusters are the last try,
    and then the smaller one takes the records nearest to its mean out of the
    other until it has k. So it always ends, and groups have k to 2k - 1
    records. Equal records are divided as they come. The method says that c is
    large and m small at first, not how they change: the options do. With many
    columns and a large m all centres fall together, so that m starts low.

    Memory is linear in the rows; memberships are not stored.

    Parameters
    ----------
    features
        Finite, shape (n_rows, width), n_rows >= k.
    k
        Smallest size of a group.
    rng
        Draws the records at which centres start.
    fuzziness
        The exponent m at first, 1.01 or more.
    step
        What is added to m each time, 0 or more.
    shrink
        What c is multiplied by each time, above 0 and below 1; c falls by one
        at least.
    iterations
        Most iterations of one run of fuzzy c-means, 1 or more.

    Returns
    -------
    int64, shape (n_rows,)
        Group of each record, 0 to n_groups - 1.

    Raises
    ------
    ValueError
        An option is out of its range.

    References
    ----------
    Domingo-Ferrer and Torra 2003, J. Adv. Comput. Intell. Intell. Inform.
    7(2):153-159, doi:10.20965/jaciii.2003.p0153, as described by Kabir and
    Wang 2010, doi:10.1109/ICDM.2010.111, section IV.

    Examples
    --------
    >>> features = np.array([[0.0], [9.0], [1.0], [10.0], [8.0]])
    >>> labels = fuzzy_c_means(features, 2, rng=np.random.default_rng(0))
    >>> np.bincount(labels).min() >= 2
    np.True_
    """
    if not 1.01 <= fuzziness < math.inf:
        raise ValueError(f"fuzziness is {fuzziness}; give 1.01 or more")
    if not 0 <= step < math.inf:
        raise ValueError(f"step is {step}; give 0 or more")
    if not 0 < shrink < 1:
        raise ValueError(f"shrink is {shrink}; give a number above 0 and below 1")
    if iterations < 1:
        raise ValueError(f"iterations is {iterations}; give 1 or more")
    order = rng.permutation(len(features)).astype(np.int64)
    labels = np.empty(len(features), dtype=np.int64)
    fuzzy_recursively(features, k, order, float(fuzziness), float(step), float(shrink), iterations, labels)
    return labels


METHOD = Grouping(
    function=fuzzy_c_means,
    options=FuzzyCMeansOptions,
    published="Microaggregation by fuzzy c-means",
    reference="Domingo-Ferrer and Torra 2003, doi:10.20965/jaciii.2003.p0153",
    cost="time O(iterations·n²·w/k), more with many far records; memory O(n·w)",
    about={
        "fuzziness": "the exponent m at first, 1.1 by default: the nearer to 1, the harder the clusters",
        "step": "what is added to m each time that a cluster has fewer than k records, 0.02 by default",
        "shrink": "what the number of clusters is multiplied by each time, 0.5 by default",
        "iterations": "most iterations of one run of fuzzy c-means, 20 by default",
    },
    sizes="k to 2k-1",
    largest=under_2k,
    draws=True,
)
