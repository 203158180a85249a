"""Rank swapping: values change places with others of nearly the same rank."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import numba as nb
import numpy as np
from pydantic import Field

from anonpipe.methods.executor import Columns, Rows, Step
from anonpipe.methods.masking._draws import Categories, averaged_by_rank, category_codes, dummies
from anonpipe.methods.options import ScopedMaskOptions, options_of
from anonpipe.methods.record import Masker
from anonpipe.types import FloatArray, IntArray


def rank_swap(
    *,
    k: Annotated[int, Field(ge=1)] = 1,
    percent: Annotated[float, Field(gt=0, le=100)] = 5.0,
    categories: Categories = (),
) -> tuple[Step, ...]:
    """Swap each value with one of a rank at most `percent` of the records away, every column by itself.

    From the lowest rank up, each value that has not been swapped yet changes places with one drawn uniformly from those
    of the next `percent` per cent of ranks (one rank at least) that have not been either; where all have been, it
    stays. Values that tie are ranked at random. The paper gives a bound for `percent` from the correlation that is to
    be kept; here `compare` shows what becomes of it.

    With k=1, the paper's form, a column hands on every value, the only one of its kind included. From 2 on it hands on
    no value that fewer than k records hold (`averaged_by_rank`). An attribute's columns are swapped together, by the
    number of the category.

    Record i keeps a rank near its own in every column. The linkage of Nin, Herranz & Torra (2008),
    doi:10.1016/j.datak.2007.07.006, finds most records again where `percent` is small: no protection by itself.
    """
    coded = tuple(each[0] for each in categories)
    swapped = partial(_swap, k=k, percent=percent, coded=coded)
    steps = (Columns("swap", swapped, with_original=True, holds=partial(averaged_by_rank, k=k)),)
    if not categories:
        return steps
    return (
        Rows("codes", partial(_to_codes, categories=categories)),
        *steps,
        Rows("dummies", partial(_to_dummies, categories=categories)),
    )


def _swap(
    column: FloatArray,
    *,
    place: int,
    params: object,
    rng: np.random.Generator,
    original: FloatArray,
    k: int,
    percent: float,
    coded: tuple[int, ...],
) -> FloatArray:
    """One column swapped; its numbers averaged by rank before."""
    n = len(column)
    order = np.lexsort((rng.random(n), column))
    held = column[order] if place in coded else averaged_by_rank(original, k)
    out = np.empty_like(column)
    out[order] = held[partners(rng.random(n), max(1, int(n * percent / 100)))]
    return out


def _to_codes(part: FloatArray, *, params: object, rng: np.random.Generator, categories: Categories) -> FloatArray:
    """The number of the category in the first column of each attribute, zeros in its others."""
    out = part.copy()
    for each, codes in zip(categories, category_codes(part, categories).T, strict=True):
        out[:, each] = 0.0
        out[:, each[0]] = codes
    return out


def _to_dummies(part: FloatArray, *, params: object, rng: np.random.Generator, categories: Categories) -> FloatArray:
    """Back from the numbers of categories."""
    out = part.copy()
    dummies(part[:, [each[0] for each in categories]].astype(np.int64), categories, out)
    return out


METHOD = Masker(
    function=rank_swap,
    options=options_of(
        rank_swap,
        "Values change places with others at most `percent` of all ranks away, column by column. Values of fewer than "
        "k records are first averaged over k to 2k - 1 neighbours by rank. Measure who is linked.",
        ScopedMaskOptions,
    ),
    published="rank swapping",
    reference="Moore (1996), U.S. Bureau of the Census, RR96-04",
    cost="time n · log n · w; memory: three columns of all rows",
    about={
        "k": "records that share a value at least: 1 (default) is the paper's form, which hands on every value; in a "
        "job its k",
        "percent": "of all ranks that a value may move, 5 by default",
        "categories": "columns of each categorical attribute, in -1 and +1, swapped together; none by default, in a "
        "job all",
    },
    keeps="with k=1 every column keeps exactly its values, true extremes included; with k above, and so in a job, "
    "values that k or more records hold, and averages of k to 2k - 1 neighbours by rank; means stay, covariances "
    "shrink with percent; each record stays near that of its person in all columns, and most can be linked again",
    expect=None,
    exact_columns=True,
    link="person",
    follows=lambda options, features: {"k": features.k, "categories": features.categories},
)


@nb.njit(cache=True, nogil=True)
def partners(draws: FloatArray, reach: int) -> IntArray:
    """The rank that each rank changes places with, its own where none is left, from one uniform draw a rank."""
    # A pool holds those of the next `reach` ranks that have not been swapped, in no order; each leaves it in constant
    # time, as the last one takes its place.
    n = len(draws)
    partner = np.arange(n)
    pool, place = np.empty(n, dtype=np.int64), np.full(n, -1)
    size, ahead = 0, 1
    for rank in range(n):
        while ahead < n and ahead <= rank + reach:
            pool[size], place[ahead] = ahead, size
            size, ahead = size + 1, ahead + 1
        at = place[rank]
        if at >= 0:
            size -= 1
            pool[at], place[pool[size]], place[rank] = pool[size], at, -1
        if partner[rank] == rank and size > 0:
            at = int(draws[rank] * size)
            other = pool[at]
            size -= 1
            pool[at], place[pool[size]], place[other] = pool[size], at, -1
            partner[rank], partner[other] = other, rank
    return partner
