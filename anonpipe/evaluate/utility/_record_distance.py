"""Information loss record by record (IL1s), and of the correlation structure (eigenvalues)."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from anonpipe.audience import Audience
from anonpipe.errors import InputError
from anonpipe.evaluate.measurement import Figure, Measurement
from anonpipe.evaluate.utility._measure import NO_NUMBERS, UtilityMeasure, mean_of_terms
from anonpipe.evaluate.utility._pair_trends import pairwise_correlations
from anonpipe.evaluate.utility._tables import TypedTables
from anonpipe.types import FloatArray

# Eigenvalues of the original below this are those of columns that add up: a ratio to them says nothing
_SMALLEST = 1e-9


def il1s(original: npt.ArrayLike, released: npt.ArrayLike) -> FloatArray:
    """Mean distance of a released value from the one that it replaces, in √2 standard deviations, by column.

    NaN for columns that are constant in the original, or have no record with a
    value on both sides. Shapes: (n_rows, width) twice, NaN for nulls; result (width,).

    Notes
    -----
    Of one name, three figures are in use: the mean over all cells, published
    as IL1s, which is here; their sum, which sdcMicro's ``dUtility(method =
    "IL1s")`` gives in its later versions, that is records times columns times
    this; and its "IL1", of relative differences, which has no value where the
    original is zero. √2 s is the spread of a difference of two values that
    have nothing to do with each other: 2 / √π / √2 = 0.80 is what shuffling a
    normal column comes to.

    References
    ----------
    Mateo-Sanz, Sebé & Domingo-Ferrer (2004), doi:10.1007/978-3-540-25955-8_16;
    Templ & Meindl (2008), LNCS 5262:113-126; sdcMicro, dUtility.

    Examples
    --------
    >>> il1s([[0.0], [2.0]], [[1.0], [2.0]]).round(6).tolist()
    [0.25]
    """
    old, new = (np.asarray(table, dtype=np.float64) for table in (original, released))
    if old.ndim != 2 or old.shape != new.shape:
        raise InputError(f"tables of shapes {old.shape} and {new.shape} cannot be paired; give equal ones")
    distances = np.full(old.shape[1], np.nan)
    for place in range(old.shape[1]):
        values = old[~np.isnan(old[:, place]), place]
        moved = np.abs(new[:, place] - old[:, place])
        moved = moved[~np.isnan(moved)]
        varies = len(values) > 1 and bool((values != values[0]).any())
        spread = float(values.std(ddof=1)) if varies else 0.0
        if len(moved) and spread > 0:  # 0 also of differences so small that their squares vanish
            distances[place] = moved.mean() / (math.sqrt(2) * spread)
    return distances


def eigenvalue_change(original: npt.ArrayLike, released: npt.ArrayLike) -> float:
    """Sum of the relative changes of the eigenvalues of the correlation matrix, in descending order: Σ |e' - e| / e.

    Columns that are constant in either table, or have a pair without a
    correlation, are left out, as are eigenvalues below 1e-9; NaN where no column is
    left. Each table is standardised by its own means and deviations, as sdcMicro
    does (``dUtility(method = "eigen")``; Templ & Meindl 2008, LNCS 5262:113-126).
    The figure sees neither location nor scale, nor a rotation that keeps the
    eigenvalues. It grows with the number of columns.

    Examples
    --------
    >>> old = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 1.0], [3.0, 4.0]])
    >>> eigenvalue_change(old, old * [2.0, -1.0]) < 1e-12
    True
    >>> round(eigenvalue_change(old, old[:, [0, 0]] * [1.0, 2.0]), 3)  # from 1.894 and 0.106 to 2 and 0
    1.056
    """
    matrices = [pairwise_correlations(table) for table in (original, released)]
    if matrices[0].shape != matrices[1].shape:
        raise InputError(f"tables of {len(matrices[0])} and {len(matrices[1])} columns; give both the same")
    usable = ~(np.isnan(np.diag(matrices[0])) | np.isnan(np.diag(matrices[1])))
    while usable.any():  # take out the column with most undefined pairs until none is left
        undefined = sum(np.isnan(matrix[np.ix_(usable, usable)]).sum(axis=0) for matrix in matrices)
        if not np.any(undefined):
            break
        usable[np.flatnonzero(usable)[int(np.argmax(undefined))]] = False
    if not usable.any():
        return float("nan")
    old, new = (np.linalg.eigvalsh(matrix[np.ix_(usable, usable)])[::-1] for matrix in matrices)
    kept = old > _SMALLEST
    return float((np.abs(new - old)[kept] / old[kept]).sum())


_IL1S = Figure(
    "loss.il1s",
    "Distance of a released value from the one that it replaces (IL1s)",
    "√2 sd",
    "Mateo-Sanz, Sebé & Domingo-Ferrer (2004), doi:10.1007/978-3-540-25955-8_16",
    Audience.ENOUGH,
    note="The normalised form, a mean over cells: sdcMicro's IL1s is the sum.",
    undefined=NO_NUMBERS,
)
_IL1S_UNPAIRED = replace(_IL1S, undefined="the records of the two tables are not paired")
_EIGENVALUES = Figure(
    "loss.eigenvalues",
    "Relative change of the eigenvalues of the correlation matrix, summed",
    "",
    "sdcMicro, dUtility, method eigen; Templ & Meindl (2008), LNCS 5262:113-126",
    Audience.SEVERAL,
)


def _losses(tables: TypedTables) -> list[Measurement]:
    """IL1s of paired tables, and the change of the eigenvalues of the correlation matrix."""
    before, after = tables.number_arrays()
    names = [column.name for column in tables.numbers]
    terms = list(zip(names, il1s(before, after).tolist(), strict=True)) if tables.paired and names else []
    change = eigenvalue_change(before, after) if names else math.nan
    note = f"Not defined: {'no numbers vary on both sides' if names else NO_NUMBERS}."
    return [
        mean_of_terms(_IL1S if tables.paired else _IL1S_UNPAIRED, terms, tables.rows),
        _EIGENVALUES.measured(
            change,
            tables.rows,
            note="" if math.isfinite(change) else note,
            columns=len(names),  # of two it gives their correlation
        ),
    ]


RECORD_DISTANCE = UtilityMeasure((_IL1S, _EIGENVALUES), _losses)
