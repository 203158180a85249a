"""Changes of moments of higher order, over all combinations of columns."""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import comb

import numpy as np
import numpy.typing as npt

from anonpipe.audience import Audience
from anonpipe.errors import JobError
from anonpipe.evaluate.utility._changes import LEAST, Changes, relative_changes
from anonpipe.evaluate.utility._check import check_least, checked_tables
from anonpipe.evaluate.utility._measure import Measure
from anonpipe.evaluate.utility._measurement import Measurement
from anonpipe.evaluate.utility._terms_measured import NO_NUMBERS
from anonpipe.evaluate.utility._typed import Tables
from anonpipe.types import FloatArray, IntArray

_MOST_PRODUCTS = 4_000_000_000  # Multiplications for fourth moments; more columns are measured on fewer records

_MOST_NULLS = 0.5  # Share of nulls above which a column would take too many records from the moments of the others


_MOST_ORDER = 8
_MOST_TERMS = 2_000_000
_NUMBERS = 1 << 22  # Products held at a time (32 MiB)


def moment_changes(
    original: npt.ArrayLike, released: npt.ArrayLike, order: int, *, central: bool = False, least: float = LEAST
) -> Changes:
    """Average relative change of the moments of one order, in per cent.

    The moments are E[x_a x_b ... ] over every choice of `order` columns, the
    same one more than once included: of five columns 35 of the third order and
    70 of the fourth.

    Parameters
    ----------
    original, released
        Finite numbers of the same columns, shapes (n_rows, width) and
        (n_released, width), one row or more each.
    order
        1 to 8; the authors use 3 and 4.
    central
        Whether each table's own column means are taken off first.
    least
        Moments smaller than this many times the product of the root mean
        squares of their columns (after taking off means, if `central`) are
        left out; 0 leaves out those of exactly 0.

    Returns
    -------
    Changes
        In per cent.

    Notes
    -----
    The paper speaks of "the third and fourth order moments" and leaves open
    whether about zero or about the means; its section 4 is on central ones.
    On its THYROID columns normal synthetic records change raw moments much
    less than central ones, third central moments of the normal distribution
    being zero: its printed 17 % and 33.7 % can only be raw moments, and so
    raw ones are the default. They depend on where zero lies.

    Raises
    ------
    InputError
        The tables are not as described.
    JobError
        An order or `least` that is not allowed, or too many moments.

    References
    ----------
    Oganian & Domingo-Ferrer (2017), Transactions on Data Privacy 10:61-81, section 5, Table 3.

    Examples
    --------
    >>> old, new = np.array([[1.0], [2.0]]), np.array([[1.0], [3.0]])
    >>> round(moment_changes(old, new, 3).mean, 6)  # from 9/2 to 28/2
    211.111111
    """
    check_least(least)
    old, new = checked_tables(original, released, least_rows=1)
    width = old.shape[1]
    if not 1 <= order <= _MOST_ORDER:
        raise JobError(f"moments of order {order} were asked for; give 1 to {_MOST_ORDER}")
    if too_many_moments(width, order):
        terms = comb(width + order - 1, order)
        raise JobError(
            f"{width} columns have {terms} moments of order {order}, and {_MOST_TERMS} are the most; "
            "give fewer columns or a lower order"
        )
    if central:
        old, new = (np.where((t == t[0]).all(axis=0), 0.0, t - t.mean(axis=0)) for t in (old, new))
    # In units of the largest value, so that no square overflows, and then of the root mean square.
    largest = np.abs(old).max(axis=0)
    largest[largest == 0] = 1.0
    root = largest * np.sqrt(np.mean((old / largest) ** 2, axis=0))
    root[root == 0] = 1.0
    before, after = (moments(table / root, order) for table in (old, new))
    return relative_changes(before, after, np.abs(before), least)


def moments(table: FloatArray, order: int) -> FloatArray:
    """Raw moments of every choice of `order` columns with repetition, in lexicographic order.

    They are entries of one matrix product, that of the products of half of
    the columns with those of the other half, summed over pieces of the rows.

    Examples
    --------
    >>> moments(np.array([[1.0, 2.0], [3.0, 4.0]]), 2).tolist()
    [5.0, 7.0, 10.0]
    """
    n, width = table.shape
    half = order // 2
    left, right = choices(width, half), choices(width, order - half)
    total = np.zeros((len(left), len(right)))
    step = max(1, _NUMBERS // (len(left) + len(right)))
    for low in range(0, n, step):
        piece = table[low : low + step]
        total += products(piece, left).T @ products(piece, right)
    both = choices(width, order)
    return np.asarray(total[_places(both[:, :half], width), _places(both[:, half:], width)] / n)


def choices(width: int, order: int) -> IntArray:
    """Column numbers of every choice with repetition, shape (n_choices, order), in lexicographic order."""
    found = list(combinations_with_replacement(range(width), order))
    return np.array(found, dtype=np.int64).reshape(len(found), order)


def products(piece: FloatArray, columns: IntArray) -> FloatArray:
    """Product of each choice of columns, shape (n_rows, n_choices)."""
    out = np.ones((len(piece), len(columns)))
    for place in range(columns.shape[1]):
        out *= piece[:, columns[:, place]]
    return out


def _places(chosen: IntArray, width: int) -> IntArray:
    """Number of each choice in the list of all choices of that order, shape (n_choices,)."""
    order = chosen.shape[1]
    weights = np.array([width**power for power in range(order - 1, -1, -1)], dtype=np.int64)
    # Lexicographic order is that of the choices read as numbers to the base of the width.
    return np.asarray(np.searchsorted(choices(width, order) @ weights, chosen @ weights), dtype=np.int64)


def too_many_moments(width: int, order: int) -> bool:
    """Whether so many columns have more moments of an order than are measured.

    Examples
    --------
    >>> too_many_moments(20, 4), too_many_moments(200, 4)
    (False, True)
    """
    return comb(width + order - 1, order) > _MOST_TERMS


def higher_moments(tables: Tables) -> list[Measurement]:
    """Third and fourth central moments over all choices of columns, on records without nulls."""
    before, after = tables.number_arrays()
    kept = np.array([np.isnan(before).mean(axis=0), np.isnan(after).mean(axis=0)]).max(axis=0) <= _MOST_NULLS
    before, after = (table[:, kept] for table in (before, after))
    before, after = (table[~np.isnan(table).any(axis=1)] for table in (before, after))
    width, mostly_null = before.shape[1], int((~kept).sum())
    most = _MOST_PRODUCTS // max(1, (width * (width + 1) // 2) ** 2)
    found = []
    for order, word in ((3, "third"), (4, "fourth")):
        beside = f" Columns left out as mostly null: {mostly_null}." if mostly_null else ""
        note, value = f"Not defined: {'all numbers are mostly null' if mostly_null else NO_NUMBERS}.", float("nan")
        records = min(len(before), most)
        if width and min(len(before), len(after)) < 2:
            note = "Not defined: no two records of a table are without nulls in all numbers."
        elif too_many_moments(width, order):
            note = f"Not measured: {width} columns have too many moments of this order."
        elif width:
            changes = moment_changes(before[:most], after[:most], order, central=True)
            value = changes.median
            note = (
                f"Central moments, products of different columns included, over {changes.terms} of them; "
                f"{changes.left_out} near zero in the original left out. Mean {changes.mean:.4g}. "
                f"Records with a null are left out.{beside}"
            )
        found.append(
            Measurement(
                name=f"moments.{word}",
                title=f"Median relative change of the {word} central moments",
                value=value,
                unit="%",
                better="lower",
                source="Oganian & Domingo-Ferrer (2017), Transactions on Data Privacy 10:61-81, Table 3",
                records=records if width else tables.rows,
                of=tables.rows,
                note=note,
                audience=Audience.STEWARD,
            )
        )
    return found


MEASURE = Measure(
    figures=(
        "moments.third",
        "moments.fourth",
    ),
    function=higher_moments,
    without_interval=("moments.third", "moments.fourth"),
)
