"""Attack: persons and released records are assigned to each other all at once, inside blocks of equal key variables.

Who looks for one record takes the nearest one, even where it is nearer still to somebody else. Who knows everybody
gives each released record to one person only, so that the distances of all are smallest together. Blocks of
equal unchanged columns cost nothing: a person's record is in the own block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anonpipe.audience import Audience
from anonpipe.errors import JobError
from anonpipe.evaluate.reason import Reason
from anonpipe.evaluate.risk._interval import grouped_share
from anonpipe.evaluate.risk._known import Known
from anonpipe.evaluate.risk._measure import Measure, Measured
from anonpipe.evaluate.utility import Measurement
from anonpipe.types import FloatArray, IntArray

LARGEST_CELL = 1_000  # Persons who are assigned at once; larger blocks are cut where both tables have their median

_OVERLAP = 0.1  # Share of the released records on either side of a cut that are on the other side too

ASSIGNED = 6_000  # Records that are assigned of a table, on average

_SOURCE = "Burkard, Dell'Amico & Martello (2009), Assignment Problems; as an attack: Narayanan & Shmatikov (2008)"


@dataclass(frozen=True, eq=False)
class Cell:
    """Numbers of the originals and of the released records that are assigned to each other."""

    originals: IntArray
    released: IntArray


def drawn_cells(
    original: FloatArray, released: FloatArray, blocks: IntArray, share: float, rng: np.random.Generator
) -> list[Cell]:
    """A random share of the blocks, or of the cells that large blocks are cut into.

    Parameters
    ----------
    original, released
        Numbers by which large blocks are cut, row for row and of one scale, shapes (n, width).
    blocks
        Equal where an original and a released record can be of one person; of row i that of both.
    share
        Of the cells; above 0 and up to 1.
    """
    order = np.argsort(blocks, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(blocks[order]) != 0, True])
    sizes = np.diff(starts)
    cells: list[Cell] = []
    for at in np.flatnonzero(sizes > LARGEST_CELL):
        rows = order[starts[at] : starts[at + 1]]
        cells.extend(_cut(original, released, rows, rows, rng))
    small = np.flatnonzero(sizes <= LARGEST_CELL)
    total = len(cells) + len(small)
    chosen = np.sort(rng.choice(total, min(total, int(share * total + rng.random())), replace=False))
    found = [cells[at] for at in chosen[chosen < len(cells)]]
    for at in small[chosen[chosen >= len(cells)] - len(cells)]:
        rows = order[starts[at] : starts[at + 1]]
        found.append(Cell(rows, rows))
    return found


def _cut(
    original: FloatArray, released: FloatArray, ours: IntArray, theirs: IntArray, rng: np.random.Generator
) -> Iterator[Cell]:
    """Cells of a block, cut again and again in the column in which both tables together are widest.

    Released records near a cut are on both sides of it, as their persons may lie beyond.
    """
    if len(ours) <= LARGEST_CELL:
        yield Cell(ours, theirs)
        return
    both = np.concatenate([original[ours], released[theirs]])
    for column in np.argsort(-both.var(axis=0), kind="stable"):
        low, border, high = np.quantile(both[:, column], [0.5 - _OVERLAP, 0.5, 0.5 + _OVERLAP])
        below = original[ours, column] <= border
        if 0 < below.sum() < len(ours):
            sides = released[theirs, column] <= high, released[theirs, column] >= low
            break
    else:  # nothing tells them apart
        below, drawn = rng.random(len(ours)) < 0.5, rng.random(len(theirs))
        sides = drawn < 0.5 + _OVERLAP, drawn > 0.5 - _OVERLAP
    yield from _cut(original, released, ours[below], theirs[sides[0]], rng)
    yield from _cut(original, released, ours[~below], theirs[sides[1]], rng)


def rows_of(cells: Sequence[Cell]) -> tuple[IntArray, IntArray, list[Cell]]:
    """The originals and the released records that cells name, ascending, and the cells in numbers of these.

    Examples
    --------
    >>> ours, theirs, (cell,) = rows_of([Cell(np.array([7, 3]), np.array([3]))])
    >>> ours.tolist(), theirs.tolist(), cell.originals.tolist(), cell.released.tolist()
    ([3, 7], [3], [1, 0], [0])
    """
    ours, theirs = (
        np.unique(np.concatenate([np.empty(0, np.int64), *each]))
        for each in ([cell.originals for cell in cells], [cell.released for cell in cells])
    )
    named = [Cell(np.searchsorted(ours, cell.originals), np.searchsorted(theirs, cell.released)) for cell in cells]
    return ours, theirs, named


def assigned_cells(
    original: FloatArray,
    released: FloatArray,
    cells: Sequence[Cell],
    own: IntArray,
    told: IntArray,
    sizes: IntArray,
    rng: np.random.Generator,
) -> FloatArray:
    """Expected right links of each cell: by assignment, by the nearest of the cell, and records looked for.

    Parameters
    ----------
    original, released
        Features, shapes (n, width) and (m, width).
    cells
        Of rows of these.
    own, told
        Of each original its own number, or that of its group, and of each released record the same; shapes (n,), (m,).
    sizes
        Records that are alike to each original, shape (n,).
    rng
        Draws the order of the released records, in which equal distances are told apart.

    Returns
    -------
    FloatArray
        Shape (n_cells, 3).

    Notes
    -----
    The assignment has the least sum of squared distances (a modified Jonker-Volgenant algorithm, scipy). Where
    a cell holds more persons than released records, some persons get none.
    """
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    found = np.empty((len(cells), 3))
    for at, cell in enumerate(cells):
        theirs = rng.permutation(cell.released)
        apart = cdist(original[cell.originals], released[theirs], "sqeuclidean")
        rows, columns = linear_sum_assignment(apart)
        nearest = np.arange(len(cell.originals)), apart.argmin(axis=1)
        hits = []
        for ours, chosen in ((rows, columns), nearest):
            persons = cell.originals[ours]
            hits.append(float(((own[persons] == told[theirs[chosen]]) / sizes[persons]).sum()))
        found[at] = *hits, len(cell.originals)
    return found


def assignment(cells: npt.ArrayLike, *, of: int) -> Measurement:
    """The share of persons to whom their own released record is assigned.

    Parameters
    ----------
    cells
        From `assigned_cells`, of one cell or more.
    of
        Records that there are.

    Raises
    ------
    JobError
        There is no cell.

    Examples
    --------
    >>> assignment([[3.0, 2.0, 10], [5.0, 4.0, 10]], of=20).value
    0.4
    """
    table = np.asarray(cells, dtype=np.float64)
    if table.ndim != 2 or not len(table):
        raise JobError("no cell was assigned; give one or more")
    hits, nearest, records = table.T
    share, low, high = grouped_share(hits, records)
    total = int(records.sum())
    sampled = total < of and len(table) > 1
    return Measurement(
        name="linkage.assigned",
        title="Records linked to their own released record where all are assigned at once",
        value=share,
        unit="share",
        better="lower",
        source=_SOURCE,
        records=total,
        of=of,
        audience=Audience.ENOUGH,
        low=low if sampled else None,
        high=high if sampled else None,
        baseline=float(nearest.sum() / total),
        baseline_is="the nearest released record of each of the same persons",
        note=f"The intruder knows all released columns of everybody in {len(table)} blocks of equal key variables "
        f"(of no more than {LARGEST_CELL} persons, larger ones are cut) and gives each released record to one person. "
        "In a group of n it counts 1/n.",
    )


def _of_release(known: Known) -> Measured | Reason:
    cells = known.assigned
    return cells if isinstance(cells, Reason) else [assignment(cells, of=known.rows)]


MEASURE = Measure(
    key="assignment",
    title="record linkage by assignment",
    figures=("linkage.assigned",),
    function=_of_release,
)
