"""Whether each pair of columns goes together as in the original, held against two random halves of it."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from anonpipe.evaluate.utility._chance import (
    LEAST_CELL,
    MOST_ROWS,
    Places,
    Splits,
    beyond_chance,
    beyond_measured,
    similarity_measured,
)
from anonpipe.evaluate.utility._column_shapes import places_of
from anonpipe.evaluate.utility._measure import Measure
from anonpipe.evaluate.utility._measurement import Measurement
from anonpipe.evaluate.utility._typed import BothColumns, Tables
from anonpipe.types import BoolArray, FloatArray, IntArray

BINS = 10  # Of equal width, into which a number is cut beside a category: as sdmetrics does

MOST_TABLES = 200  # Cross tables that are counted; of more columns a keyed choice

_NO_PAIR = "there are not two columns that vary, or there are fewer than 4 records"


def pair_shapes(tables: Tables, rng: np.random.Generator) -> list[Measurement]:
    """Similarity of the pairs as sdmetrics has it, and the pair furthest from the original beside chance.

    Two numbers: 1 - |difference of their correlations| / 2. Others: 1 less the
    total variation of their cross tables, a number in ten bins of equal width,
    nulls a category of their own. On at most 20,000 records of either table and
    200 cross tables. Beside chance, cells of fewer than k original records count
    as one, and a number is its place among the original's (`grades`): of a column
    with long tails the ordinary correlation has no law that two halves would
    tell of, as a few records make it up, and the gate on covariances holds it.
    """
    part = tables.sample(MOST_ROWS, rng)
    crossed = _chosen(part, rng)
    splits = Splits.draw(part.rows, part.released, rng)
    at = list(combinations(range(len(part.numbers)), 2))
    plain, plain_halves = _of_pairs(*part.number_arrays(), splits)
    graded, graded_halves = _of_pairs(*grades(part), splits)
    cells = [_cells(left, right) for left, right in crossed]
    pooled = [each.pooled(max(part.least, LEAST_CELL)) for each in cells]
    apart = np.concatenate([plain / 2, [each.distance() for each in cells]])
    found = np.concatenate([graded, [each.distance() for each in pooled]])
    halves = np.concatenate([graded_halves, *(each.between_halves(splits.first)[:, None] for each in pooled)], axis=1)
    beyond = beyond_chance(found, halves, splits.scale)
    chance = beyond.chance.copy()
    chance[: len(at)] = beyond_chance(plain, plain_halves, splits.scale).chance / 2
    names = [(part.numbers[a].name, part.numbers[b].name) for a, b in at]
    names += [(left.name, right.name) for left, right in crossed]
    records = min(part.rows, part.released)
    return [
        similarity_measured(
            "pairs.similarity",
            "Similarity of pairs of columns (correlations, cross tables)",
            apart,
            chance,
            splits,
            source="sdmetrics, Column Pair Trends: mean of CorrelationSimilarity and ContingencySimilarity",
            records=records,
            columns=len(part.columns),
            nothing=_NO_PAIR,
            note=f"Mean over {int(np.isfinite(apart).sum())} pairs.",
        ),
        beyond_measured(
            "pairs.beyond_chance",
            "How a pair of columns goes together, furthest from the original, as a multiple of what chance allows",
            beyond,
            names=names,
            records=records,
            nothing=_NO_PAIR,
            note="Correlations of places in the original's order, and cross tables with numbers in ten bins.",
        ),
    ]


def _of_pairs(old: FloatArray, new: FloatArray, splits: Splits) -> tuple[FloatArray, FloatArray]:
    """`correlations_apart` of each two columns, shapes (n_pairs,) and (n_splits, n_pairs)."""
    rows, columns = np.triu_indices(old.shape[1], 1)
    found, halves = correlations_apart(old, new, splits)
    return found[rows, columns], halves[:, rows, columns]


def grades(tables: Tables) -> tuple[FloatArray, FloatArray]:
    """Of each number the share of the original's values below it, equal ones counting half; NaN for nulls.

    One fixed and bounded function of the values for both tables and all halves,
    so that correlations of its values have the law of `_chance` whatever the tails.
    """
    sides: tuple[list[FloatArray], list[FloatArray]] = ([], [])
    for places in map(places_of, tables.numbers):
        counts = places.counts(places.old)
        share = np.append((counts.cumsum() - counts / 2) / max(1, counts.sum()), np.nan)  # the last for nulls
        for side, at in zip(sides, (places.old, places.new), strict=True):
            side.append(share[at])
    rows = tables.rows, tables.released
    old, new = (np.column_stack([np.empty((n, 0)), *side]) for n, side in zip(rows, sides, strict=True))
    return old, new


def _chosen(part: Tables, rng: np.random.Generator) -> list[tuple[BothColumns, BothColumns]]:
    """The pairs of columns that are crossed: all with a category, or some of them."""
    pairs = [pair for pair in combinations(part.columns, 2) if any(each.kind.coded for each in pair)]
    if len(pairs) <= MOST_TABLES:
        return pairs
    return [pairs[at] for at in np.sort(rng.permutation(len(pairs))[:MOST_TABLES])]


def _cells(left: BothColumns, right: BothColumns) -> Places:
    """The cross table of two columns, cells that neither table has left out."""
    (one, _), (other, wide) = _codes(left), _codes(right)
    cells = one * wide + other
    used, places = np.unique(cells, return_inverse=True)
    places = places.reshape(-1).astype(np.int64)
    name = f"{left.name} x {right.name}"
    return Places(name, places[: len(left.old)], places[len(left.old) :], len(used), False)


def _codes(column: BothColumns) -> tuple[IntArray, int]:
    """A column of both tables one below the other as codes from 0 on, nulls the last, and how many there are."""
    both, size = np.concatenate([column.old, column.new]), len(column.levels)
    if not column.kind.coded:
        known, size = column.old[~np.isnan(column.old)], BINS
        edges = np.histogram_bin_edges(known, BINS)[1:-1] if len(known) and known.min() < known.max() else np.empty(0)
        # digitize: a value at an edge is in the upper bin, as there
        both = np.where(np.isnan(both), np.nan, np.digitize(both, edges))
    return np.where(np.isnan(both), size, both).astype(np.int64), size + 1


def correlations_apart(old: FloatArray, new: FloatArray, splits: Splits) -> tuple[FloatArray, FloatArray]:
    """Differences of correlations over the records in which neither of a pair is null.

    Shapes: old, new (n_rows, width).

    Examples
    --------
    >>> old, new = np.array([[0.0, 1], [1, 2], [2, 3]]), np.array([[0.0, 3], [1, 2], [2, 1]])
    >>> found, _ = correlations_apart(old, new, Splits.draw(3, 3, np.random.default_rng(0)))
    >>> found[0].round(9).tolist()
    [0.0, 2.0]
    """
    width = old.shape[1]
    with np.errstate(invalid="ignore"):
        middle = np.array([np.nanmean(side) if (~np.isnan(side)).any() else 0.0 for side in old.T])
        unit = np.array([np.nanmax(np.abs(side)) if (~np.isnan(side)).any() else 1.0 for side in (old - middle).T])
    sides = [(side - middle) / np.where(unit > 0, unit, 1.0) for side in (old, new)]
    before, after = (_correlation(_sums(side, np.ones(len(side), dtype=np.bool_))) for side in sides)
    found = np.abs(after - before)
    found[np.isnan(after) & ~np.isnan(before)] = np.inf
    if not width:
        return found, np.empty((len(splits.first), 0, 0))
    whole = _sums(sides[0], np.ones(len(old), dtype=np.bool_))
    halves = np.empty((len(splits.first), width, width))
    for at, half in enumerate(splits.first):
        one = _sums(sides[0], half)
        halves[at] = np.abs(_correlation(one) - _correlation(whole - one))
    return found, halves


def _sums(values: FloatArray, rows: BoolArray) -> FloatArray:
    """Of each two columns, where both are known: records, sums, squares and products, shape (4, width, width)."""
    part = values[rows]
    known = ~np.isnan(part)
    filled, here = np.where(known, part, 0.0), known.astype(np.float64)
    return np.stack([here.T @ here, filled.T @ here, (filled**2).T @ here, filled.T @ filled])


def _correlation(sums: FloatArray) -> FloatArray:
    """Correlations from such sums; NaN for fewer than two records, or a column that is constant in them."""
    count, total, squares, products = sums
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = squares - total**2 / count
        spread = np.where(spread > 1e-12 * np.maximum(squares, 1e-300), spread, np.nan)
        shared = products - total * total.T / count
        return np.asarray(np.clip(shared / np.sqrt(spread * spread.T), -1.0, 1.0))


MEASURE = Measure(figures=("pairs.similarity", "pairs.beyond_chance"), function=pair_shapes, draws=True)
