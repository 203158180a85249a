"""Nulls: their shares by column, and which columns are null together."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from anonpipe.audience import Audience
from anonpipe.evaluate.utility._distances import total_variation
from anonpipe.evaluate.utility._measure import Measure
from anonpipe.evaluate.utility._measurement import Measurement
from anonpipe.evaluate.utility._terms_measured import mean_of_terms
from anonpipe.evaluate.utility._typed import BothColumns, Tables


def missingness(tables: Tables) -> list[Measurement]:
    """Changes of the null shares by column, and of the patterns of nulls by pair of columns."""
    shares = [
        (column.name, float(abs(np.isnan(column.new).mean() - np.isnan(column.old).mean())))
        for column in tables.columns
    ]
    with_nulls = [column for column in tables.columns if np.isnan(column.old).any() or np.isnan(column.new).any()]
    pairs = [
        (f"{left.name} x {right.name}", _pattern_distance(left, right)) for left, right in combinations(with_nulls, 2)
    ]
    one = mean_of_terms(
        "missing.shares",
        "Change of the null shares",
        shares,
        unit="share",
        source="difference of the shares, by column",
        records=tables.rows,
        audience=Audience.STEWARD,
        nothing="there are no columns",
        note="" if with_nulls else "Neither table has nulls.",
    )
    two = mean_of_terms(
        "missing.pairs",
        "Change of which columns are null together (total variation)",
        pairs,
        unit="share",
        source="half the sum of the differences of the shares of null and not null, by pair of columns",
        records=tables.rows,
        audience=Audience.STEWARD,
        nothing="there are not two columns with nulls",
    )
    return [one, two]


def _pattern_distance(left: BothColumns, right: BothColumns) -> float:
    old, new = (
        2 * np.isnan(one).astype(np.int64) + np.isnan(two)
        for one, two in ((left.old, right.old), (left.new, right.new))
    )
    return total_variation(old, new)


MEASURE = Measure(
    figures=(
        "missing.shares",
        "missing.pairs",
    ),
    function=missingness,
)
