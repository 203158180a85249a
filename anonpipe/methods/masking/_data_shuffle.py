"""Values of each column, averaged by rank, in another order: data shuffling, and rank swapping."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field
from scipy.special import ndtri

from anonpipe.columns import Column
from anonpipe.errors import JobError
from anonpipe.kernels.compiled import kernel
from anonpipe.kernels.points import turn_rows
from anonpipe.methods.executor import Columns, Reduce, Rows, Step
from anonpipe.methods.masking._draws import Categories, averaged_by_rank, category_codes, dummies
from anonpipe.methods.masking._spectral import spectral_inverse
from anonpipe.methods.options import ScopedMaskOptions
from anonpipe.methods.record import Features, Masker, no_dummies
from anonpipe.moments import Moments, noise_factor
from anonpipe.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Copula:
    """The normal law that draws are from, given the kept columns."""

    kept: IntArray  # Column numbers
    shuffled: IntArray  # Likewise
    slopes: FloatArray  # Of the shuffled on the kept columns' normal scores, shape (kept, shuffled)
    factor: FloatArray  # Transposed factor of what is left of the correlation, shape (shuffled, shuffled)


class DataShuffleOptions(ScopedMaskOptions):
    """Every masked column keeps its values, averaged over k or more neighbours by rank, in another order.

    Values that k or more records hold stay as they are; others are released as means of k to 2k - 1 neighbours, or as
    the nearest common value.

    `conditioning` names columns that are released unchanged and that the order is drawn given: what the masked columns
    have to do with them stays on average. Relations to key variables that are not named are lost.
    """

    method: Literal["data_shuffle"]
    conditioning: tuple[str, ...] = ()


def data_shuffle(
    *, k: Annotated[int, Field(ge=1)] = 1, conditioning: tuple[int, ...] = (), categories: Categories = ()
) -> tuple[Step, ...]:
    """Give every column's r-th smallest value to the record whose normal draw is the r-th smallest.

    Ranks of all columns; their correlations r turned into those of a normal law, ρ = 2 sin(π r / 6); a draw Y for each
    record from that law, given the normal scores of its conditioning columns (S of the paper); at last each column's
    own values, or for k of 2 or more its averages by rank, in the order of Y. The matrix of ρ need not be positive
    semidefinite; negative eigenvalues are set to 0 and the diagonal back to 1.

    With averages the mean stays but for values that fewer than k records between two common values hold, and the
    variance shrinks by that inside the blocks. Given the conditioning columns a record's new values say nothing of its
    old ones. Columns of `categories` come out as their draws, scaled to the mean and variance of the column: shuffled
    one by one, the indicators of a record would name several categories or none.

    The paper has columns without ties. With ties: a rank is the mean of the tied ones, as in Spearman's coefficient.
    Scores of kept columns are Φ⁻¹ of (rank - 1/2)/n, scaled to mean 0 and variance 1 as the model has them: so the
    regression on a kept column with ties keeps its correlation (of a halved normal column 0.51 for 0.48; 0.37 not
    scaled). Among shuffled columns ties cost nothing in the ordering, as equal values are interchangeable, but a normal
    law cut to few values has weaker correlations than ρ: two halved columns keep about two thirds of theirs. Equal
    draws are put in a random order.
    """
    if len(set(conditioning)) != len(conditioning) or any(column < 0 for column in conditioning):
        raise JobError(f"conditioning is {conditioning}; give numbers of columns from 0, each once")
    scored = tuple(column for block in categories for column in block)
    if len(set(scored)) != len(scored) or any(column < 0 or column in conditioning for column in scored):
        raise JobError(f"categories are {categories}; give numbers of columns that are not in conditioning, each once")
    return (
        Columns("ranks", rank),
        Reduce("rank correlation", Moments.of, partial(_find_copula, kept=conditioning)),
        Columns("scores", score),
        Rows("draw", draw),
        Columns("shuffle", partial(shuffle, k=k, scored=scored), holds=partial(averaged_by_rank, k=k)),
    )


def rank(column: FloatArray) -> FloatArray:
    """(Rank - 1/2)/n, between 0 and 1; tied values share their mean rank."""
    _, at, counts = np.unique(column, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray(((2 * ends - counts) / 2 / len(column))[at])


def _find_copula(moments: Moments, *, kept: tuple[int, ...]) -> Copula:
    """The conditional normal law from the moments of the ranks."""
    width = len(moments.mean)
    if any(column >= width for column in kept) or len(kept) == width:
        raise JobError(
            f"conditioning is {len(kept)} of {width} columns; name columns that exist, and leave one or more"
        )
    shuffled = np.setdiff1d(np.arange(width), kept)
    fixed = np.array(sorted(kept), dtype=np.int64)
    normal = normal_correlation(moments.scatter)
    inverse, _ = spectral_inverse(normal[np.ix_(fixed, fixed)]) if kept else (np.zeros((0, 0)), 0)
    slopes = inverse @ normal[np.ix_(fixed, shuffled)]
    rest = _nearest_semidefinite(normal[np.ix_(shuffled, shuffled)] - slopes.T @ normal[np.ix_(fixed, shuffled)])
    return Copula(fixed, shuffled, np.ascontiguousarray(slopes), np.ascontiguousarray(noise_factor(rest).T))


def normal_correlation(scatter: FloatArray) -> FloatArray:
    """Correlation of the normal law whose rank correlation is that of `scatter`."""
    spread = np.sqrt(np.diag(scatter))
    unit = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)
    ranks = np.clip(scatter * np.outer(unit, unit), -1.0, 1.0)
    normal = 2 * np.sin(np.pi / 6 * ranks)
    np.fill_diagonal(normal, 1.0)
    repaired = _nearest_semidefinite(normal)
    spread = np.sqrt(np.diag(repaired))
    return np.asarray(repaired / np.outer(spread, spread))


def _nearest_semidefinite(matrix: FloatArray) -> FloatArray:
    """Negative eigenvalues set to 0; the matrix itself where there are none."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    if not len(values) or values[0] >= 0:
        return matrix
    return np.asarray((vectors * np.clip(values, 0.0, None)) @ vectors.T)


def score(column: FloatArray, *, place: int, params: Copula) -> FloatArray:
    """Normal scores of a kept column's ranks, of mean 0 and variance 1; zeros for others and for constants."""
    if place not in params.kept:
        return np.zeros_like(column)
    scores = ndtri(column)
    scores -= scores.mean()
    spread = np.sqrt(np.mean(scores**2))
    return np.asarray(scores / spread) if spread > 0 else scores


def draw(part: FloatArray, *, params: Copula, rng: np.random.Generator) -> FloatArray:
    """Normal draws given the scores of the kept columns, which stay."""
    drawn = turn_rows(rng.standard_normal((len(part), len(params.shuffled))), params.factor)
    out = part.copy()
    out[:, params.shuffled] = turn_rows(part[:, params.kept], params.slopes) + drawn
    return out


def shuffle(
    column: FloatArray,
    *,
    place: int,
    params: Copula,
    rng: np.random.Generator,
    original: FloatArray,
    k: int = 1,
    scored: tuple[int, ...] = (),
) -> FloatArray:
    """The values, averaged by rank, in the order of the draws; a kept column as it was, a scored one as its draws."""
    if place in params.kept:
        return original
    if place in scored:
        return np.asarray(original.mean() + original.std() * column)
    mixed = rng.permutation(len(column))
    out = np.empty_like(original)
    out[mixed[np.argsort(column[mixed], kind="stable")]] = averaged_by_rank(original, k)
    return out


def _of_table(options: DataShuffleOptions, features: Features) -> dict[str, Any]:
    conditioning = tuple(range(features.width, features.width + features.conditioning))
    return {"k": features.k, "conditioning": conditioning, "categories": features.categories}


def _check_conditioning(options: DataShuffleOptions, columns: Mapping[str, Column]) -> str | None:
    if len(set(options.conditioning)) != len(options.conditioning):
        return "mask.conditioning names a column twice"
    for name in options.conditioning:
        if name not in columns or not columns[name].role.unchanged:
            return (
                f"mask.conditioning names {name!r}; give columns that are released unchanged "
                "(roles survival_status, key and sensitive)"
            )
    return None


_SHUFFLE = Masker(
    function=data_shuffle,
    options=DataShuffleOptions,
    published="data shuffling",
    reference="Muralidhar & Sarathy (2006), doi:10.1287/mnsc.1050.0503",
    cost="time n · (log n + w) · w; memory: one part, and three columns of all rows",
    about={
        "k": "records that share a value at least: 1 (default) is the paper's form, which hands on every "
        "value, the only one of its kind included; in a job its k",
        "conditioning": "columns that stay, and that the others are drawn given; none by default; numbers of columns, "
        "in a job names of unchanged ones",
        "categories": "columns of each categorical attribute, in -1 and +1, which come out as normal scores to "
        "be cut into categories; none by default, in a job all",
    },
    keeps="with k=1 every column keeps exactly its values, true extremes included; with k above, and so in a "
    "job, values that k or more records hold, and averages of k to 2k - 1 neighbours by rank: means stay, "
    "variances shrink where a column has a long tail; rank correlations on average, less well where "
    "columns have ties; records have no link to persons but by their conditioning columns; in a job, decoding "
    "exchanges values until covariances are those of the table (within 0.01 on the demonstration "
    "registry, 0.34 without)",
    expect=None,
    exact_columns=True,
    link="none",
    returns_category_scores=True,
    learns=(Copula,),
    follows=_of_table,
    conditions_on=lambda options, unchanged: options.conditioning,
    check_columns=_check_conditioning,
    decodings={"probabilities": no_dummies("data_shuffle", "gives every column its own values again")},
)


# --- Rank swapping: values change places with others of nearly the same rank ------------------------------------------


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
    steps = (Columns("swap", swapped, holds=partial(averaged_by_rank, k=k)),)
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


def _to_codes(part: FloatArray, *, categories: Categories) -> FloatArray:
    """The number of the category in the first column of each attribute, zeros in its others."""
    out = part.copy()
    for each, codes in zip(categories, category_codes(part, categories).T, strict=True):
        out[:, each] = 0.0
        out[:, each[0]] = codes
    return out


def _to_dummies(part: FloatArray, *, categories: Categories) -> FloatArray:
    """Back from the numbers of categories."""
    out = part.copy()
    dummies(part[:, [each[0] for each in categories]].astype(np.int64), categories, out)
    return out


_SWAP = Masker(
    function=rank_swap,
    summary=(
        "Values change places with others at most `percent` of all ranks away, column by column. Values of fewer "
        "than k records are first averaged over k to 2k - 1 neighbours by rank. Measure who is linked."
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


@kernel
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


METHODS = (_SHUFFLE, _SWAP)
