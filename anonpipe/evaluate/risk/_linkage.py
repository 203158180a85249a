"""Record linkage: how often an intruder who knows a record finds what was released in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from anonpipe.errors import JobError
from anonpipe.evaluate.measurement import (
    Audience,
    Figure,
    Measurement,
    Reason,
    beyond_control,
    exact_share,
    grouped_share,
    share_figure,
    wilson,
)
from anonpipe.evaluate.risk._guesses import FEWEST, SHARES, by_sureness, surest
from anonpipe.evaluate.risk._measure import (
    AttackData,
    EquivalenceClasses,
    Measured,
    NearestMatches,
    RiskMeasure,
    require,
)
from anonpipe.evaluate.risk._nearest import Nearest
from anonpipe.types import BoolArray, FloatArray, IntArray

Basis = Literal["distances", "ranks", "Mahalanobis distances"]

# Correct links: observed where a released record has one source, else expected of a draw inside the group. A release
# has one of the two, and the gate of this name judges it.
RATE = "reidentification_rate"

# By what records were compared: the family of its figures, and where it is published
_FAMILIES: dict[Basis, tuple[str, str]] = {
    "distances": ("linkage", "Pagliuca & Seri 1999; Domingo-Ferrer & Torra 2001; Li & Sarkar 2013, section 6.1"),
    "ranks": ("rank_linkage", "Muralidhar & Domingo-Ferrer 2016, doi:10.1007/978-3-319-45381-1_17"),
    "Mahalanobis distances": ("mahalanobis_linkage", "Torra, Abowd & Domingo-Ferrer 2006, doi:10.1007/11930242_20"),
}
_TITLES = {
    "first": "linked to their own released record",
    "first_or_second": "with their own released record as the nearest or second nearest",
    "group": "linked to a released record of their own group",
}
_LINKED = {
    (basis, name): share_figure(
        RATE if (basis, name) == ("distances", "first") else f"{family}.{name}",
        f"Records {title} (by {basis})",
        source=source,
        baseline_is="a blind guess",
    )
    for basis, (family, source) in _FAMILIES.items()
    for name, title in _TITLES.items()
    if (basis, name) != ("Mahalanobis distances", "group")  # which is found no better so
}
_KNOWS = "The intruder is taken to know all released columns of the original record exactly"


def score_linkage(
    found: Nearest,
    own_row: IntArray | None = None,
    own_group: IntArray | None = None,
    groups: IntArray | None = None,
    sizes: IntArray | None = None,
    *,
    rows: int,
    basis: Basis = "distances",
) -> list[Measurement]:
    """Score what a search of a release of so many rows has found: own record first, first or second, own group.

    - `found`: the two or more nearest released records of each record looked for.
    - `own_row`: number of the released record that was made from the record, -1 where none was released. None where
      released records have no single source each, as those that are drawn for a group.
    - `own_group`, `sizes`: group of each record, and number of released records in it; `groups`: of the found records.

    *Direction.* Here a known person is looked for in the release. In the papers each released record looks for its
    original: for that, search the originals with the released records. The two shares differ a little.

    *Ties* go to the lower row, which is a fair draw where rows of the release are shuffled or queries are all records:
    of t released records that are the same, one is linked.

    *Chance* is 1, or 2, of the released records for the own record, and the mean share of the own group for the group.

    Pagliuca & Seri (1999), Some results of individual ranking method on the system of enterprise accounts annual
    survey, Esprit SDC project; others: see `_FAMILIES`.
    """
    queries = len(found.rows)

    def measured(name: str, linked: int, chance: float, note: str = "") -> Measurement:
        interval = (None, None) if queries >= rows else wilson(linked, queries)
        figure, note = _LINKED[basis, name], f"{_KNOWS}{note}."
        return figure.measured(linked / queries, queries, rows, interval=interval, baseline=chance, note=note)

    scored = []
    if own_row is not None:
        hits = (found.rows[:, :2] == own_row[:, None]) & (own_row >= 0)[:, None]
        scored.append(measured("first", int(hits[:, 0].sum()), 1.0 / rows))
        scored.append(measured("first_or_second", int(hits.any(axis=1).sum()), min(1.0, 2.0 / rows)))
    if own_group is not None and groups is not None and sizes is not None:
        linked, chance = int((groups[:, 0] == own_group).sum()), float(sizes.mean()) / rows
        note = ". Released records have no single source each, so that only the group can be found"
        scored.append(measured("group", linked, chance, "" if own_row is not None else note))
    return scored


def _by_distances(data: AttackData) -> Measured | Reason:
    if data.own_row is None and data.own_group is None:
        return data.unlinked
    near, alike = data.released.nearest, data.alike
    scored = _scored(data, data.released, "distances")
    if alike is not None:
        scored.append(expected_links(alike, records=data.rows))
    if alike is not None and alike.found.groups is not None:
        return [*scored, *surest_links(alike.chances, near.distances, data.released.groups, of=data.rows)]
    if data.own_row is None:
        return scored
    return [*scored, *surest_links(near.rows[:, 0] == data.own_row, near.distances, None, of=data.rows)]


_SUREST = {
    share: share_figure(
        f"linkage.surest_{100 * share:g}",
        f"Correct ones of the surest {100 * share:g} % of the links",
        source="Giomi et al. (2023), doi:10.56553/popets-2023-0055; nearness to the second: Lowe (2004)",
        audience=Audience.STEWARD,
        baseline_is="all links",
        note=f"{_KNOWS}, and to link only whom the nearest released records agree on, or whose nearest is much "
        "nearer than the second. A link to a group of n counts 1/n.",
    )
    for share in SHARES
}


def surest_links(
    chances: npt.ArrayLike, distances: npt.ArrayLike, groups: npt.ArrayLike | None, *, of: int
) -> tuple[Measurement, ...]:
    """How many links are right where an intruder is surest of them."""
    # Sure: the nearest are of one group, and then the nearest is nearer than the second, as a share of its distance.
    hits, apart = np.asarray(chances, dtype=np.float64), np.asarray(distances, dtype=np.float64)
    of_found = np.zeros((len(hits), 1)) if groups is None else np.asarray(groups)
    agree = (of_found == of_found[:, :1]).sum(axis=1)
    ratio = np.divide(apart[:, 0], apart[:, 1], out=np.ones(len(hits)), where=apart[:, 1] > 0)
    ordered, everyone = by_sureness(agree, ratio), float(hits.mean())
    found = []
    for share in (share for share in SHARES if share * len(hits) >= FEWEST):
        chosen = hits[surest(ordered, share)]
        value, ends = float(chosen.mean()), wilson(float(chosen.sum()), len(chosen))
        found.append(_SUREST[share].measured(value, len(chosen), of, interval=ends, baseline=everyone))
    return tuple(found)


def _by_ranks(data: AttackData) -> Measured | Reason:
    if data.own_row is None and data.own_group is None:
        return data.unlinked
    return _scored(data, data.by_rank, "ranks")


def _whitened(data: AttackData) -> Measured | Reason:
    if data.own_row is None or data.whitened is None:  # a group is found no better so
        return data.unlinked if data.own_group is None else ()
    return _scored(data, data.whitened, "Mahalanobis distances")


def _scored(data: AttackData, found: NearestMatches, basis: Basis) -> list[Measurement]:
    truth = data.own_row, data.own_group, found.groups if data.grouped else None, data.own_size
    return score_linkage(found.nearest, *truth, rows=data.rows, basis=basis)


def _measure(
    key: str, basis: Basis, function: Callable[[AttackData], Measured | Reason], *others: Figure
) -> RiskMeasure:
    figures = [figure for (of, _), figure in _LINKED.items() if of == basis]
    return RiskMeasure(key, f"record linkage by {basis}", (*figures, *others), function, counts_units=True)


MEASURE = _measure("linkage", "distances", _by_distances, *_SUREST.values())
RANKS = _measure("rank_linkage", "ranks", _by_ranks)
WHITENED = _measure("mahalanobis_linkage", "Mahalanobis distances", _whitened)


# --- Links to persons where an intruder can find a group, but no released record has a single source in it ------------


_EXPECTED = share_figure(
    RATE,
    "Correct links to be expected of a draw inside the linked group",
    source="Li & Sarkar 2013, section 6.1; Oganian & Domingo-Ferrer 2017, Definition 1",
    baseline_is="a blind guess",
    note="A record that is found counts as 1/n, of n in its group that share its key variables.",
)


def expected_links(alike: EquivalenceClasses, *, records: int) -> Measurement:
    """The share of records, of so many, that are linked correctly if links inside a group are a draw.

    Records of a group that differ in an unchanged column make groups of their own, as a reader sees the difference. It
    is what the literature's shares of correct links measure where released records are drawn again in each group. The
    interval is Wilson's, of as many trials as would vary like the chances. Without a right link it is that of all
    records, and without length where all chances are equal otherwise.
    """
    hits = alike.chances
    value, queries = float(hits.mean()), len(hits)
    ends = (value, value) if value else wilson(0, queries)
    if np.ptp(hits) > 0:
        trials = queries * value * (1.0 - value) / float(hits.var())
        ends = wilson(value * trials, trials)
    interval = ends if queries < records else (None, None)
    return _EXPECTED.measured(value, queries, records, interval=interval, baseline=1.0 / records)


# --- Attack: persons and released records are assigned to each other all at once, inside blocks of equal key variables
# Who looks for one record takes the nearest one, even where it is nearer still to somebody else. Who knows everybody
# gives each released record to one person only, so that the distances of all are smallest together. Blocks of
# equal unchanged columns cost nothing: a person's record is in the own block.

LARGEST_CELL = 1_000  # Persons who are assigned at once; larger blocks are cut where both tables have their median

_OVERLAP = 0.1  # Share of the released records on either side of a cut that are on the other side too

ASSIGNED = 6_000  # Records that are assigned of a table, on average

_ASSIGNED = share_figure(
    "linkage.assigned",
    "Records linked to their own released record by one assignment of all",
    source="Burkard, Dell'Amico & Martello (2009), Assignment Problems; as an attack: Narayanan & Shmatikov (2008)",
    baseline_is="the nearest released record of each of the same persons",
)


@dataclass(frozen=True, eq=False)
class Cell:
    """Numbers of the originals and of the released records that are assigned to each other."""

    originals: IntArray
    released: IntArray


def drawn_cells(
    original: FloatArray, released: FloatArray, blocks: IntArray, share: float, rng: np.random.Generator
) -> list[Cell]:
    """A random share of the blocks, or of the cells that large blocks are cut into.

    - `original`, `released`: numbers by which large blocks are cut, row for row and of one scale, shapes (n, width).
    - `blocks`: equal where an original and a released record can be of one person; of row i that of both.
    - `share`: of the cells; above 0 and up to 1.
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
    """Cells of a block, cut again and again in the column in which both tables together are widest."""
    # Released records near a cut are on both sides of it, as their persons may lie beyond.
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
    else:  # nothing distinguishes them
        below, drawn = rng.random(len(ours)) < 0.5, rng.random(len(theirs))
        sides = drawn < 0.5 + _OVERLAP, drawn > 0.5 - _OVERLAP
    yield from _cut(original, released, ours[below], theirs[sides[0]], rng)
    yield from _cut(original, released, ours[~below], theirs[sides[1]], rng)


def rows_of(cells: Sequence[Cell]) -> tuple[IntArray, IntArray, list[Cell]]:
    """The originals and the released records that cells name, ascending, and the cells in numbers of these."""
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
    owners: IntArray,
    sizes: IntArray,
    rng: np.random.Generator,
) -> FloatArray:
    """Expected right links of each cell: by assignment, by the nearest of it, and records looked for; (n_cells, 3).

    - `original`, `released`: features, shapes (n, width) and (m, width); `cells` are of rows of these.
    - `own`, `owners`: of each original its own number, or that of its group, and of each released record the same.
    - `sizes`: records that are alike to each original, shape (n,).
    - `rng`: draws the order of the released records, by which equal distances are ordered.

    The assignment has the least sum of squared distances (a modified Jonker-Volgenant algorithm, scipy). Where a cell
    holds more persons than released records, some persons get none.
    """
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    found = np.empty((len(cells), 3))
    for at, cell in enumerate(cells):
        theirs = rng.permutation(cell.released)
        distances = cdist(original[cell.originals], released[theirs], "sqeuclidean")
        rows, columns = linear_sum_assignment(distances)
        nearest = np.arange(len(cell.originals)), distances.argmin(axis=1)
        hits = []
        for ours, chosen in ((rows, columns), nearest):
            persons = cell.originals[ours]
            hits.append(float(((own[persons] == owners[theirs[chosen]]) / sizes[persons]).sum()))
        found[at] = *hits, len(cell.originals)
    return found


def assignment(cells: npt.ArrayLike, *, of: int) -> Measurement:
    """The share of persons, of so many, to whom their own record is assigned; `cells`: of `assigned_cells`."""
    table = np.asarray(cells, dtype=np.float64)
    if table.ndim != 2 or not len(table):
        raise JobError("no cell was assigned; give one or more")
    hits, nearest, records = table.T
    share, low, high = grouped_share(hits, records)
    total = int(records.sum())
    interval = (low, high) if total < of and len(table) > 1 else (None, None)
    note = (
        f"The intruder knows all released columns of everybody in {len(table)} blocks of equal key variables "
        f"(of no more than {LARGEST_CELL} persons, larger ones are cut) and gives each released record to one person. "
        "In a group of n it counts 1/n."
    )
    return _ASSIGNED.measured(share, total, of, interval=interval, baseline=float(nearest.sum() / total), note=note)


def _by_assignment(data: AttackData) -> Measured:
    return [assignment(require(data.assigned), of=data.rows)]


ASSIGNMENT = RiskMeasure("assignment", "record linkage by assignment", (_ASSIGNED,), _by_assignment)


# --- Attack: two tables that have different columns of the same persons are joined by way of the release --------------
# The second criterion of the European guidance on anonymisation (Article 29 Working Party, opinion 05/2014, WP 216).

_LINKABILITY = share_figure(
    "linkability",
    "Linkability (WP 216) of halves of a person's columns, above the hold-out",
    source="Giomi, Boenisch, Wehmeyer & Tasnádi (2023), doi:10.56553/popets-2023-0055, section 4.2",
    baseline_is="a release that says no more of its own persons than of others",
)


def joined(one: IntArray, other: IntArray) -> BoolArray:
    """Whether the nearest rows by one half of the columns, shape (n, count), and those by the other share one."""
    return np.asarray(((one[:, :, None] == other[:, None, :]) & (one[:, :, None] >= 0)).any(axis=(1, 2)))


def linkability(members: BoolArray, controls: BoolArray, *, of: int) -> Measurement:
    """Hold joined members, of so many that there are, against joined held-out records: see `beyond_control`."""
    attack, control = (exact_share(int(joined.sum()), len(joined)) for joined in (members, controls))
    value, low, high = beyond_control(attack, control)
    note = (
        "One table has every second column, another the others; joined are records of which one released record is "
        f"among the nearest by either: {100 * attack.value:.1f} % of the members, {100 * control.value:.1f} % of "
        f"{len(controls)} held-out records."
    )
    sizes, parts = (len(members), of), (("members", attack.value), ("hold-out", control.value))
    if value != value:
        note = f"{note} Not defined: every held-out record is joined."
        return _LINKABILITY.measured(value, *sizes, baseline=0.0, note=note, parts=parts)
    return _LINKABILITY.measured(value, *sizes, interval=(low, high), baseline=0.0, note=note, parts=parts)


def _by_halves(data: AttackData) -> Measured:
    return [linkability(*require(data.halves), of=data.rows)]


LINKABILITY = RiskMeasure("linkability", "linkability", (_LINKABILITY,), _by_halves, counts_units=True)
