"""How two columns go together: correlations with nulls, correlation ratios, contingency tables."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import numpy.typing as npt

from anonpipe.audience import Audience
from anonpipe.errors import InputError
from anonpipe.evaluate.measurement import Figure, Measurement
from anonpipe.evaluate.utility._measure import LOST, NO_MIX, Term, UtilityMeasure, mean_of_terms
from anonpipe.evaluate.utility._moments import LEAST
from anonpipe.evaluate.utility._tables import BothColumns, TypedTables
from anonpipe.types import FloatArray

_MOST_CELLS = 4_000_000  # Cells of a contingency table that is counted as a whole


def pairwise_correlations(table: npt.ArrayLike) -> FloatArray:
    """Correlation of every pair of columns over the records in which neither is null, shape (width, width).

    NaN where fewer than two records are left, or a column is constant in them. Shape of `table`: (n_rows, width).

    Examples
    --------
    >>> nan = float("nan")
    >>> pairwise_correlations([[0.0, 1.0], [1.0, 3.0], [2.0, 2.0], [nan, 9.0]])[0].round(6).tolist()
    [1.0, 0.5]
    """
    import pandas as pd

    values = np.asarray(table, dtype=np.float64)
    if values.ndim != 2:
        raise InputError(f"the table has shape {values.shape}; give rows and columns")
    columns = pd.DataFrame(values)
    # Sums of squares of large numbers would lose the differences, or overflow.
    columns -= columns.mean()
    return np.asarray((columns / columns.abs().max()).corr(min_periods=2))


def ranked(table: npt.ArrayLike) -> FloatArray:
    """Ranks within each column, equal values sharing the mean of theirs; nulls stay null and take no rank.

    Their `pairwise_correlations` are Spearman's where no value is null. With
    nulls, ranks are among all values of a column, not those of the pair's
    records only.

    Examples
    --------
    >>> ranked([[5.0], [float("nan")], [2.0], [5.0]])[:, 0].tolist()
    [2.5, nan, 1.0, 2.5]
    """
    import pandas as pd

    return np.asarray(pd.DataFrame(np.asarray(table, dtype=np.float64)).rank())


def correlation_ratio(categories: npt.ArrayLike, numbers: npt.ArrayLike) -> float:
    """Correlation ratio η: the root of the share of a number's variance that lies between categories, 0 to 1.

    NaN where the number is constant in the records with both. Fisher (1925), Statistical Methods for Research Workers,
    section 45. Shapes: (n_rows,), codes from 0 on, NaN for nulls.

    Examples
    --------
    >>> round(correlation_ratio([0, 0, 1, 1], [1.0, 3.0, 5.0, 7.0]) ** 2, 9)  # 16 of 20 lie between them
    0.8
    """
    codes, values = (np.asarray(side, dtype=np.float64) for side in (categories, numbers))
    complete = ~(np.isnan(codes) | np.isnan(values))
    codes, values = codes[complete], values[complete]
    if len(values) == 0 or (values == values[0]).all():
        return float("nan")
    values = values - values.mean()
    values /= np.abs(values).max()
    places = codes.astype(np.int64)
    counts, sums = np.bincount(places), np.bincount(places, weights=values)
    share = (sums**2 / np.maximum(counts, 1)).sum() / (values**2).sum()
    return float(np.sqrt(np.clip(share, 0.0, 1.0)))


def contingency_distance(original: npt.ArrayLike, released: npt.ArrayLike) -> float:
    """Total variation distance of the contingency tables of two categorical columns, 0 to 1.

    Records with a null are left out; NaN where a table has no others. Shapes: (n_rows, 2), codes from 0 on.

    Examples
    --------
    >>> contingency_distance([[0, 0], [1, 1]], [[0, 1], [1, 1]])
    0.5
    """
    tables = [np.asarray(side, dtype=np.float64) for side in (original, released)]
    kept = [table[~np.isnan(table).any(axis=1)].astype(np.int64) for table in tables]
    if min(map(len, kept)) == 0:
        return float("nan")
    both = np.concatenate(kept)
    wide = int(both[:, 1].max()) + 1
    cells = both[:, 0] * wide + both[:, 1]
    if int(cells.max()) >= _MOST_CELLS:
        cells = np.unique(cells, return_inverse=True)[1]
    size = int(cells.max()) + 1
    shares = [np.bincount(part, minlength=size) / len(part) for part in np.split(cells, [len(kept[0])])]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


_LASKO = "Lasko & Vinterbo (2010), doi:10.1109/TKDE.2009.88, section IV"
_ONE_NUMBER = "there are not two columns of numbers or dates"

_RELATIVE = Figure(
    "bias.correlations",
    "Relative change of the correlations (ABICO)",
    "%",
    "Li & Sarkar (2013), doi:10.1287/mnsc.1120.1584, eq. 16",
    Audience.STEWARD,
    note=f"Pairs with an original correlation below {LEAST:g} are left out; a few near zero decide the mean: "
    "read the median.",
    undefined=_ONE_NUMBER,
)
_PLAIN = Figure("pairs.correlation", "Change of the correlations", "", _LASKO, Audience.STEWARD, undefined=_ONE_NUMBER)
_BY_RANK = Figure(
    "pairs.rank_correlation", "Change of the rank correlations", "", _LASKO, Audience.STEWARD, undefined=_ONE_NUMBER
)
_RATIO = Figure(
    "pairs.correlation_ratio",
    "Change of how categories and numbers go together (correlation ratio)",
    "",
    "Fisher (1925), Statistical Methods for Research Workers, section 45",
    Audience.STEWARD,
    undefined=NO_MIX,
)
_CONTINGENCY = Figure(
    "pairs.contingency",
    "Change of the cross tables of two categorical columns (total variation)",
    "share",
    "half the sum of the differences of the shares",
    Audience.STEWARD,
    undefined="there are not two categorical columns",
)


def _pair_trends(tables: TypedTables) -> list[Measurement]:
    """Changes of correlations (Pearson's, Spearman's), correlation ratios and contingency tables; ABICO."""
    names = [column.name for column in tables.numbers]
    sides = tables.number_arrays() if names else (np.empty((0, 0)),) * 2
    plain = [pairwise_correlations(side) for side in sides]
    by_rank = [pairwise_correlations(ranked(side)) for side in sides]
    mixed = [
        (
            f"{category.name} x {number.name}",
            _change(correlation_ratio(category.old, number.old), correlation_ratio(category.new, number.new)),
        )
        for category, number in product(tables.categories, tables.numbers)
    ]
    crossed = [
        (f"{left.name} x {right.name}", _contingency(left, right)) for left, right in combinations(tables.categories, 2)
    ]
    terms = {
        _RELATIVE: _pair_terms(names, *plain, relative=True),
        _PLAIN: _pair_terms(names, *plain),
        _BY_RANK: _pair_terms(names, *by_rank),
        _RATIO: mixed,
        _CONTINGENCY: crossed,
    }
    return [mean_of_terms(figure, changes, tables.rows) for figure, changes in terms.items()]


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


def _contingency(left: BothColumns, right: BothColumns) -> float:
    """The distance, 1 for a release without a record that has both."""
    old, new = np.column_stack([left.old, right.old]), np.column_stack([left.new, right.new])
    if np.isnan(old).any(axis=1).all():
        return float("nan")
    return 1.0 if np.isnan(new).any(axis=1).all() else contingency_distance(old, new)


PAIR_TRENDS = UtilityMeasure((_RELATIVE, _PLAIN, _BY_RANK, _RATIO, _CONTINGENCY), _pair_trends)
