"""Which columns number units of several rows, by what their values repeat with: for names that do not say so.

Rows of one person agree in what does not change about the person: sex, year of birth, treatment. So a column whose
values repeat a few times each is taken for such a number where rows of one value agree in others that have nothing
to do with each other. A code of places or diagnoses also has columns that follow from it (town, county), but these
follow from each other, too; and of a time or a day as one number (1342, 20240131) others are parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

import numpy as np

from anonpipe.types import IntArray

MOST_ROWS = 20  # Rows of a unit, on average: more of them are of a place or a code
FEWEST = 20  # Values, and pairs of rows of one value, below which nothing is told
AGREES = 0.98  # Share of the pairs of rows of one value in which another column is equal, where it is of the unit
COMMON = 0.8  # A column in which more than this share of any two rows agree tells nothing
BY_CHANCE = 1e-6  # Probability with which all pairs agree by chance, at most
TOGETHER = 0.9  # Share of the pairs of rows of one value that follow each other, in a table that is sorted by units


class Sureness(Enum):
    """How sure it is that a column numbers units."""

    CERTAIN = "two columns or more that have nothing to do with each other agree in the rows of a value"
    MAYBE = "one does, and the rows of a value follow each other"


def repeating(columns: Mapping[str, IntArray], candidates: Sequence[str]) -> dict[str, Sureness]:
    """Of the candidates those that number units of several rows.

    Shapes: columns (n_rows,).

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> person = np.repeat(np.arange(300), 3)
    >>> of_person = {"sex": rng.integers(0, 2, 300)[person], "born": rng.integers(0, 60, 300)[person]}
    >>> table = of_person | {"person": person, "cost": rng.integers(0, 400, 900)}
    >>> {name: sure.name for name, sure in repeating(table, ["person", "cost"]).items()}
    {'person': 'CERTAIN'}
    """
    found = {}
    for name in candidates:
        codes = columns[name]
        first, second = _pairs(codes)
        if not _repeats_a_little(codes, len(first)):
            continue
        others = {other: values for other, values in columns.items() if other != name}
        same = [other for other, values in others.items() if _agrees(values, first, second)]
        own = _apart(_no_parts(codes, [others[other] for other in same]))
        if own >= 2:
            found[name] = Sureness.CERTAIN
        elif own == 1 and np.mean(second - first == 1) >= TOGETHER:
            found[name] = Sureness.MAYBE
    return found


def follows(column: IntArray, other: IntArray) -> bool:
    """Whether rows of equal values of `other` are equal in `column`, too."""
    first, second = _pairs(other)
    return bool(len(first) and np.mean(column[first] == column[second]) >= AGREES)


def _pairs(codes: IntArray) -> tuple[IntArray, IntArray]:
    """Each row and the next one of the same value, of all values but null."""
    order = np.argsort(codes, kind="stable")
    same = (codes[order][1:] == codes[order][:-1]) & (codes[order][1:] >= 0)
    return order[:-1][same], order[1:][same]


def _repeats_a_little(codes: IntArray, pairs: int) -> bool:
    """Whether values repeat, a few times each and none of them much more often than others."""
    counts = np.bincount(codes[codes >= 0])
    counts = counts[counts > 0]
    if len(counts) < FEWEST or pairs < FEWEST or (codes < 0).any():
        return False
    mean = counts.mean()
    return bool(mean <= MOST_ROWS and counts.max() <= 10 * max(mean, 2.0))


def _agrees(values: IntArray, first: IntArray, second: IntArray) -> bool:
    """Whether a column is equal in all pairs but few, and not by chance."""
    shares = np.bincount(values + 1) / len(values)
    chance = float(np.square(shares).sum())
    if chance > COMMON or len(first) * np.log(chance) > np.log(BY_CHANCE):
        return False
    return bool(np.mean(values[first] == values[second]) >= AGREES)


def _no_parts(codes: IntArray, columns: Sequence[IntArray]) -> list[IntArray]:
    """Those that are no parts of the value, which rise with it, one inside the other: hour and minute of 1342."""
    order, rest = np.argsort(codes, kind="stable"), list(columns)
    asked = np.diff(codes[order]) > 0  # neighbours that differ, and not in a part that was found
    while asked.sum() >= FEWEST:
        rising = [at for at, one in enumerate(rest) if (np.diff(one[order])[asked] >= 0).all()]
        if not rising:
            break
        asked &= np.diff(rest.pop(rising[0])[order]) == 0
    return rest


def _apart(columns: Sequence[IntArray]) -> int:
    """Columns of which none follows from another, of several that agree: 2 at most are looked for."""
    if len(columns) < 2:
        return len(columns)
    for at, one in enumerate(columns):
        for other in columns[at + 1 :]:
            if not follows(one, other) and not follows(other, one):
                return 2
    return 1
