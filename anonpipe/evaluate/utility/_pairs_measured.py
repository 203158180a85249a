"""How pairs of columns go together in both tables, over a whole table."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from anonpipe.audience import Audience
from anonpipe.evaluate.utility._changes import LEAST
from anonpipe.evaluate.utility._measurement import Measurement
from anonpipe.evaluate.utility._pair_trends import (
    contingency_distance,
    correlation_ratio,
    pairwise_correlations,
    ranked,
)
from anonpipe.evaluate.utility._terms_measured import LOST, Term, mean_of_terms
from anonpipe.evaluate.utility._typed import BothColumns, Tables
from anonpipe.types import FloatArray

_ONE_NUMBER = "there are not two columns of numbers or dates"

NO_MIX = "there are not a categorical column and one of numbers or dates"


def pair_trends(tables: Tables) -> list[Measurement]:
    """Changes of correlations (Pearson's, Spearman's), correlation ratios and contingency tables; ABICO."""
    names = [column.name for column in tables.numbers]
    before, after = tables.number_arrays()
    plain = [pairwise_correlations(table) if names else np.empty((0, 0)) for table in (before, after)]
    by_rank = [pairwise_correlations(ranked(table)) if names else np.empty((0, 0)) for table in (before, after)]

    def made(name: str, title: str, terms: list[Term], unit: str, source: str, why: str) -> Measurement:
        note = (
            f"Pairs with an original correlation below {LEAST:g} are left out; a few near zero decide the mean: "
            "read the median."
            if name == "bias.correlations"
            else ""
        )
        return mean_of_terms(
            name,
            title,
            terms,
            unit=unit,
            source=source,
            records=tables.rows,
            audience=Audience.STEWARD,
            nothing=why,
            note=note if terms else "",
        )

    mixed = [
        (f"{category.name} x {number.name}", _change(*_ratios(category, number)))
        for category in tables.categories
        for number in tables.numbers
    ]
    contingency = [
        (f"{left.name} x {right.name}", _contingency(left, right)) for left, right in combinations(tables.categories, 2)
    ]
    return [
        made(
            "bias.correlations",
            "Relative change of the correlations (ABICO)",
            _pair_terms(names, plain[0], plain[1], relative=True),
            "%",
            "Li & Sarkar (2013), doi:10.1287/mnsc.1120.1584, eq. 16",
            _ONE_NUMBER,
        ),
        made(
            "pairs.correlation",
            "Change of the correlations",
            _pair_terms(names, plain[0], plain[1]),
            "",
            "Lasko & Vinterbo (2010), doi:10.1109/TKDE.2009.88, section IV",
            _ONE_NUMBER,
        ),
        made(
            "pairs.rank_correlation",
            "Change of the rank correlations",
            _pair_terms(names, by_rank[0], by_rank[1]),
            "",
            "Lasko & Vinterbo (2010), doi:10.1109/TKDE.2009.88, section IV",
            _ONE_NUMBER,
        ),
        made(
            "pairs.correlation_ratio",
            "Change of how categories and numbers go together (correlation ratio)",
            mixed,
            "",
            "Fisher (1925), Statistical Methods for Research Workers, section 45",
            NO_MIX,
        ),
        made(
            "pairs.contingency",
            "Change of the cross tables of two categorical columns (total variation)",
            contingency,
            "share",
            "half the sum of the differences of the shares",
            "there are not two categorical columns",
        ),
    ]


def _pair_terms(names: list[str], old: FloatArray, new: FloatArray, *, relative: bool = False) -> list[Term]:
    """Sizes of the changes, per cent of the original if relative."""
    terms = []
    for left, right in combinations(range(len(names)), 2):
        before, change = old[left, right], _change(old[left, right], new[left, right])
        if relative:
            change = 100.0 * change / abs(before) if abs(before) >= LEAST else float("nan")
        terms.append((f"{names[left]} x {names[right]}", float(change)))
    return terms


def _change(before: float, after: float) -> float:
    if np.isnan(before):
        return float("nan")
    return LOST if np.isnan(after) else float(abs(after - before))


def _ratios(category: BothColumns, number: BothColumns) -> tuple[float, float]:
    return correlation_ratio(category.old, number.old), correlation_ratio(category.new, number.new)


def _contingency(left: BothColumns, right: BothColumns) -> float:
    """The distance, 1 for a release without a record that has both."""
    old, new = np.column_stack([left.old, right.old]), np.column_stack([left.new, right.new])
    if np.isnan(old).any(axis=1).all():
        return float("nan")
    return 1.0 if np.isnan(new).any(axis=1).all() else contingency_distance(old, new)
