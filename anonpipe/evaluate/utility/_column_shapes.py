"""Whether each column has the distribution of the original, held against two random halves of it."""

from __future__ import annotations

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
from anonpipe.evaluate.utility._measure import Measure
from anonpipe.evaluate.utility._measurement import Measurement
from anonpipe.evaluate.utility._typed import BothColumns, Tables

_NO_VALUES = "there is no column with values, or there are fewer than 4 records"


def column_shapes(tables: Tables, rng: np.random.Generator) -> list[Measurement]:
    """Similarity of the columns as sdmetrics has it, and the column furthest from the original beside chance.

    Kolmogorov-Smirnov distance of numbers and dates, total variation of
    categories, nulls left out; on at most 20,000 records of either table. Beside
    chance, categories of fewer than k original records count as one.
    """
    part = tables.sample(MOST_ROWS, rng)
    every = [places_of(column) for column in part.columns]
    apart = np.array([each.distance() for each in every])
    beside = [each if each.ordered else each.pooled(max(part.least, LEAST_CELL)) for each in every]
    found = np.array([each.distance() for each in beside])
    splits = Splits.draw(part.rows, part.released, rng)
    beyond = beyond_chance(found, np.column_stack([each.between_halves(splits.first) for each in beside]), splits.scale)
    records = min(part.rows, part.released)
    return [
        similarity_measured(
            "shapes.similarity",
            "Similarity of the columns' distributions (1 less Kolmogorov-Smirnov distance or total variation)",
            apart,
            beyond.chance,
            splits,
            source="sdmetrics, Column Shapes: mean of KSComplement and TVComplement",
            records=records,
            columns=int(np.isfinite(apart).sum()),
            nothing=_NO_VALUES,
            note="Mean over columns; nulls are left out.",
        ),
        beyond_measured(
            "shapes.beyond_chance",
            "Distribution of a column, furthest from the original, as a multiple of what chance allows",
            beyond,
            names=[(each.name,) for each in every],
            records=records,
            nothing=_NO_VALUES,
        ),
    ]


def places_of(column: BothColumns) -> Places:
    """A column of both tables as places: of numbers in the order of their values.

    Examples
    --------
    >>> from anonpipe.columns import Kind
    >>> nan = float("nan")
    >>> places = places_of(BothColumns("x", Kind.INTEGER, np.array([7.0, nan, 3.0]), np.array([5.0])))
    >>> places.old.tolist(), places.new.tolist(), places.cells
    ([2, -1, 0], [1], 3)
    """
    if column.kind.coded:
        old, new = (np.where(np.isnan(side), -1.0, side).astype(np.int64) for side in (column.old, column.new))
        return Places(column.name, old, new, len(column.levels), False)
    both = np.concatenate([column.old, column.new])
    values = np.unique(both[~np.isnan(both)])
    places = np.where(np.isnan(both), -1, np.searchsorted(values, both))
    return Places(column.name, places[: len(column.old)], places[len(column.old) :], len(values), True)


MEASURE = Measure(figures=("shapes.similarity", "shapes.beyond_chance"), function=column_shapes, draws=True)
