"""Record linkage: how often an intruder who knows a record finds what was released in its place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from anonpipe.audience import Audience
from anonpipe.errors import JobError
from anonpipe.evaluate.measurement import Figure, Measurement
from anonpipe.evaluate.reason import Reason
from anonpipe.evaluate.risk._guesses import FEWEST, SHARES, by_sureness, surest
from anonpipe.evaluate.risk._interval import beyond_control, exact_share, grouped_share, wilson
from anonpipe.evaluate.risk._measure import AttackData, EquivalenceClasses, Measured, NearestMatches, RiskMeasure
from anonpipe.evaluate.risk._nearest import Nearest
from anonpipe.types import BoolArray, FloatArray, IntArray

Basis = Literal["distances", "ranks", "Mahalanobis distances"]

# Correct links: observed where a released record has one source, else expected of a draw inside the group. A release
# has one of the two, and the gate of this name judges it.
RATE = "reidentification_rate"

_NAMES: dict[Basis, str] = {
    "distances": "linkage",
    "ranks": "rank_linkage",
    "Mahalanobis distances": "mahalanobis_linkage",
}

_SOURCES = {
    "distances": "Pagliuca & Seri 1999; Domingo-Ferrer & Torra 2001; Li & Sarkar 2013, section 6.1",
    "ranks": "Muralidhar & Domingo-Ferrer 2016, doi:10.1007/978-3-319-45381-1_17",
    "Mahalanobis distances": "Torra, Abowd & Domingo-Ferrer 2006, doi:10.1007/11930242_20",
}
_KNOWS = "The intruder is taken to know all released columns of the original record exactly"


@dataclass(frozen=True)
class Linkage:
    """How many records are found again among the released ones."""

    # first, either: queries whose own released record is the nearest one, and the nearest or second nearest one; None
    # where records have no released record of their own
    first: int | None
    either: int | None
    # Queries whose nearest released record was made from their own group; None where there are no groups
    group: int | None
    group_chance: float | None  # Share of `group` that a blind guess would reach; None without groups
    # queries, records, released: records looked for, records there are, released records
    queries: int
    records: int
    released: int
    basis: Basis  # Whether values, ranks or whitened values were compared

    def measurements(self) -> tuple[Measurement, ...]:
        """What is known of: own record first, own record first or second, own group."""
        how = f"by {self.basis}"
        found = []
        if self.first is not None and self.either is not None:
            found.append(self._share("first", f"Records linked to their own released record ({how})", self.first, 1))
            title = f"Records whose own released record is the nearest or second nearest ({how})"
            found.append(self._share("first_or_second", title, self.either, 2))
        if self.group is not None and self.group_chance is not None:
            title = f"Records linked to a released record of their own group ({how})"
            note = ""
            if self.first is None:
                note = ". Released records have no single source each, so that only the group can be found"
            found.append(self._measurement("group", title, self.group, self.group_chance, note))
        return tuple(found)

    def _share(self, name: str, title: str, linked: int, guesses: int) -> Measurement:
        return self._measurement(name, title, linked, min(1.0, guesses / self.released), "")

    def _measurement(self, name: str, title: str, linked: int, chance: float, note: str) -> Measurement:
        key = RATE if (self.basis, name) == ("distances", "first") else f"{_NAMES[self.basis]}.{name}"
        figure = Figure(key, title, "share", _SOURCES[self.basis], Audience.ENOUGH, baseline_is="a blind guess")
        interval = (None, None) if self.queries >= self.records else wilson(linked, self.queries)
        value = linked / self.queries
        return figure.measured(
            value, self.queries, self.records, interval=interval, baseline=chance, note=f"{_KNOWS}{note}."
        )


def score_linkage(
    found: Nearest,
    own_row: npt.ArrayLike | None = None,
    own_group: npt.ArrayLike | None = None,
    group_of_found: npt.ArrayLike | None = None,
    *,
    released: int,
    group_sizes: npt.ArrayLike | None = None,
    records: int | None = None,
    basis: Basis = "distances",
) -> Linkage:
    """Score what a search of the release has found for some records.

    - `found`: the two or more nearest released records of each record looked for, from `nearest` and `merge_nearest`:
      on columns that were masked, each in its own standard deviations, or as `Ranks`.
    - `own_row`: number of the released record that was made from the record, -1 where none was released, shape
      (n_queries,). None where released records have no single source each, as those that are drawn for a group.
    - `own_group`: group of each record, shape (n_queries,); None without groups.
    - `group_of_found`: group of the found records, shape (n_queries, 1 or more).
    - `released`: number of released records.
    - `group_sizes`: number of released records in the group of each record.
    - `records`: number of original records, if only some were looked for; these must be a random sample.
    - `basis`: whether values, ranks or whitened values were compared.

    Notes
    -----
    *Direction.* Here a known person is looked for in the release. In the papers each released record looks for its
    original: for that, search the originals with the released records. The two shares differ a little.

    *Ties* go to the lower row, which is a fair draw where rows of the release are shuffled or queries are all records:
    of t released records that are the same, one is linked.

    *Chance* is 1, or 2, of the released records for the own record, and the mean share of the own group for the group.

    References
    ----------
    Pagliuca & Seri (1999), Some results of individual ranking method on the system of enterprise accounts annual
    survey, Esprit SDC project; Domingo-Ferrer & Torra (2001), in Confidentiality, Disclosure and Data Access, ch. 6;
    Li & Sarkar (2013), doi:10.1287/mnsc.1120.1584, section 6.1.
    """
    queries = len(found.rows)
    if queries == 0 or released < 1:
        raise JobError(f"{queries} records are looked for among {released}; give one or more of both")
    if own_row is None and own_group is None:
        raise JobError("neither own_row nor own_group was given, so that nothing can be scored; give one or both")
    first = either = group = chance = None
    if own_row is not None:
        if found.rows.shape[1] < 2:
            raise JobError("only the nearest record of each was searched; search two or more")
        own = _numbers(own_row, queries, "own_row")
        hits = (found.rows[:, :2] == own[:, None]) & (own >= 0)[:, None]
        first, either = int(hits[:, 0].sum()), int(hits.any(axis=1).sum())
    if own_group is not None:
        if group_of_found is None or group_sizes is None:
            raise JobError("own_group was given without group_of_found or group_sizes; give all three")
        groups = np.asarray(group_of_found, dtype=np.int64)
        if groups.ndim != 2 or len(groups) != queries or groups.shape[1] < 1:
            raise JobError(f"group_of_found has shape {groups.shape}; give a group for each record that was found")
        group = int((groups[:, 0] == _numbers(own_group, queries, "own_group")).sum())
        chance = float(_numbers(group_sizes, queries, "group_sizes").mean()) / released
    total = queries if records is None else records
    if total < queries:
        raise JobError(f"{queries} records are looked for of {total}; give the number of all original records")
    return Linkage(first, either, group, chance, queries, total, released, basis)


def _numbers(values: npt.ArrayLike, count: int, name: str) -> IntArray:
    numbers = np.asarray(values)
    if numbers.shape != (count,) or numbers.dtype.kind not in "iu":
        raise JobError(f"{name} has shape {numbers.shape} and type {numbers.dtype}; give {count} whole numbers")
    return numbers.astype(np.int64)


def _by_distances(data: AttackData) -> Measured | Reason:
    if data.own_row is None and data.own_group is None:
        return data.unlinked
    expected = [expected_links(data.alike, records=data.rows)] if data.alike is not None else []
    return [*_scored(data, data.released, "distances"), *expected, *_surest(data, data.alike)]


def _surest(data: AttackData, alike: EquivalenceClasses | None) -> Measured:
    near = data.released.nearest
    if alike is not None and alike.found.groups is not None:
        chances = (alike.found.groups[:, 0] == alike.own) / alike.sizes
        return surest_links(chances, near.distances, data.released.groups, of=data.rows)
    if data.own_row is None:
        return ()
    return surest_links(near.rows[:, 0] == data.own_row, near.distances, None, of=data.rows)


_SUREST = {
    share: Figure(
        f"linkage.surest_{100 * share:g}",
        f"Of the surest {100 * share:g} % of the links, right ones",
        "share",
        "Giomi et al. (2023), doi:10.56553/popets-2023-0055; nearness to the second: Lowe (2004)",
        Audience.STEWARD,
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
    agree = np.ones(len(hits), dtype=np.int64)
    if groups is not None:
        of_found = np.asarray(groups)
        agree = (of_found == of_found[:, :1]).sum(axis=1)
    ratio = np.divide(apart[:, 0], apart[:, 1], out=np.ones(len(hits)), where=apart[:, 1] > 0)
    ordered, everyone = by_sureness(agree, ratio), float(hits.mean())
    found = []
    for share in SHARES:
        if share * len(hits) < FEWEST:
            continue
        chosen = hits[surest(ordered, share)]
        low, high = wilson(float(chosen.sum()), len(chosen))
        figure = _SUREST[share]
        found.append(figure.measured(float(chosen.mean()), len(chosen), of, interval=(low, high), baseline=everyone))
    return tuple(found)


def _by_ranks(data: AttackData) -> Measured | Reason:
    if data.own_row is None and data.own_group is None:
        return data.unlinked
    return _scored(data, data.by_rank, "ranks")


def _whitened(data: AttackData) -> Measured | Reason:
    if data.own_row is None or data.whitened is None:  # a group is found no better so
        return data.unlinked if data.own_group is None else ()
    return _scored(data, data.whitened, "Mahalanobis distances")


def _scored(data: AttackData, found: NearestMatches, basis: Basis) -> Measured:
    scored = score_linkage(
        found.nearest,
        data.own_row,
        data.own_group,
        found.groups if data.grouped else None,
        released=data.rows,
        group_sizes=data.own_size if data.grouped else None,
        records=data.rows,
        basis=basis,
    )
    return scored.measurements()


MEASURE = RiskMeasure(
    key="linkage",
    title="record linkage by distances",
    figures=(
        RATE,
        "linkage.first_or_second",
        "linkage.group",
        *(f"linkage.surest_{100 * share:g}" for share in SHARES),
    ),
    function=_by_distances,
    counts_units=True,
)

RANKS = RiskMeasure(
    key="rank_linkage",
    title="record linkage by ranks",
    figures=("rank_linkage.first", "rank_linkage.first_or_second", "rank_linkage.group"),
    function=_by_ranks,
    counts_units=True,
)

WHITENED = RiskMeasure(
    key="mahalanobis_linkage",
    title="record linkage by Mahalanobis distances",
    figures=("mahalanobis_linkage.first", "mahalanobis_linkage.first_or_second"),
    function=_whitened,
    counts_units=True,
)


# --- Links to persons where an intruder can find a group, but no released record has a single source in it ------------


_EXPECTED = Figure(
    RATE,
    "Records linked to the right released record, to be expected of a draw inside their group",
    "share",
    "Li & Sarkar 2013, section 6.1; Oganian & Domingo-Ferrer 2017, Definition 1",
    Audience.ENOUGH,
    baseline_is="a blind guess",
    note="A record that is found counts as 1/n, of n in its group that share its key variables.",
)


def expected_links(alike: EquivalenceClasses, *, records: int) -> Measurement:
    """The share of records, of so many, that are linked correctly if links inside a group are a draw.

    A record whose nearest released record lies in its own group of n counts as 1/n: each of the n stands for it with
    the same probability. Records of a group that differ in an unchanged column make groups of their own, as a reader
    sees the difference. It is what the literature's shares of correct links measure where released records are drawn
    again in each group.

    Notes
    -----
    The interval is the normal one of a mean, but not below 0 nor above 1.

    References
    ----------
    Li and Sarkar (2013), Manage. Sci. 59:796-812, doi:10.1287/mnsc.1120.1584, section 6.1; Oganian and Domingo-Ferrer
    (2017), Definition 1.
    """
    assert alike.found.groups is not None
    hits = (alike.found.groups[:, 0] == alike.own) / alike.sizes
    value, queries = float(hits.mean()), len(hits)
    reach = 1.96 * float(hits.std()) / np.sqrt(queries)
    interval = (max(0.0, value - reach), min(1.0, value + reach)) if queries < records else (None, None)
    return _EXPECTED.measured(value, queries, records, interval=interval, baseline=1.0 / records)


# --- Attack: persons and released records are assigned to each other all at once, inside blocks of equal key variables
# Who looks for one record takes the nearest one, even where it is nearer still to somebody else. Who knows everybody
# gives each released record to one person only, so that the distances of all are smallest together. Blocks of
# equal unchanged columns cost nothing: a person's record is in the own block.

LARGEST_CELL = 1_000  # Persons who are assigned at once; larger blocks are cut where both tables have their median

_OVERLAP = 0.1  # Share of the released records on either side of a cut that are on the other side too

ASSIGNED = 6_000  # Records that are assigned of a table, on average

_ASSIGNED = Figure(
    "linkage.assigned",
    "Records linked to their own released record where all are assigned at once",
    "share",
    "Burkard, Dell'Amico & Martello (2009), Assignment Problems; as an attack: Narayanan & Shmatikov (2008)",
    Audience.ENOUGH,
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
    owners: IntArray,
    sizes: IntArray,
    rng: np.random.Generator,
) -> FloatArray:
    """Expected right links of each cell: by assignment, by the nearest of the cell, and records looked for.

    - `original`, `released`: features, shapes (n, width) and (m, width).
    - `cells`: of rows of these.
    - `own`, `owners`: of each original its own number, or that of its group, and of each released record the same;
      shapes (n,), (m,).
    - `sizes`: records that are alike to each original, shape (n,).
    - `rng`: draws the order of the released records, in which equal distances are told apart.

    Returns
    -------
    FloatArray
        Shape (n_cells, 3).

    Notes
    -----
    The assignment has the least sum of squared distances (a modified Jonker-Volgenant algorithm, scipy). Where a cell
    holds more persons than released records, some persons get none.
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
    return _ASSIGNED.measured(
        share,
        total,
        of,
        interval=(low, high) if total < of and len(table) > 1 else (None, None),
        baseline=float(nearest.sum() / total),
        note=f"The intruder knows all released columns of everybody in {len(table)} blocks of equal key variables "
        f"(of no more than {LARGEST_CELL} persons, larger ones are cut) and gives each released record to one person. "
        "In a group of n it counts 1/n.",
    )


def _by_assignment(data: AttackData) -> Measured | Reason:
    cells = data.assigned
    return cells if isinstance(cells, Reason) else [assignment(cells, of=data.rows)]


ASSIGNMENT = RiskMeasure(
    key="assignment",
    title="record linkage by assignment",
    figures=("linkage.assigned",),
    function=_by_assignment,
)


# --- Attack: two tables that have different columns of the same persons are joined by way of the release --------------
# The second criterion of the European guidance on anonymisation (Article 29 Working Party, opinion 05/2014, WP 216).

_LINKABILITY = Figure(
    "linkability",
    "Linkability (European guidance, criterion 2): halves of a person's columns joined, beyond the hold-out",
    "share",
    "Giomi, Boenisch, Wehmeyer & Tasnádi (2023), doi:10.56553/popets-2023-0055, section 4.2",
    Audience.ENOUGH,
    baseline_is="a release that says no more of its own persons than of others",
)


def joined(one: IntArray, other: IntArray) -> BoolArray:
    """Whether the nearest rows by one half of the columns, shape (n, count), and those by the other share one."""
    return np.asarray(((one[:, :, None] == other[:, None, :]) & (one[:, :, None] >= 0)).any(axis=(1, 2)))


def linkability(members: BoolArray, controls: BoolArray, *, of: int) -> Measurement:
    """Hold joined members, of so many that there are, against joined held-out records.

    The figure is (members - controls) / (1 - controls); NaN where all held-out records are joined.

    References
    ----------
    Giomi, Boenisch, Wehmeyer & Tasnádi (2023), doi:10.56553/popets-2023-0055, section 4.2.

    Examples
    --------
    >>> found = linkability(np.repeat([True, False], [30, 70]), np.repeat([True, False], [10, 90]), of=100)
    >>> round(found.value, 3), found.low > 0
    (0.222, True)
    """
    attack, control = (exact_share(int(joined.sum()), len(joined)) for joined in (members, controls))
    value, low, high = beyond_control(attack, control)
    defined = value == value
    note = (
        "One table has every second column, another the others; joined are records of which one released record is "
        f"among the nearest by either: {100 * attack.value:.1f} % of the members, {100 * control.value:.1f} % of "
        f"{len(controls)} held-out records."
    )
    return _LINKABILITY.measured(
        value,
        len(members),
        of,
        interval=(low, high) if defined else (None, None),
        baseline=0.0,
        note=note if defined else f"{note} Not defined: every held-out record is joined.",
        parts=(("members", attack.value), ("hold-out", control.value)),
    )


def _by_halves(data: AttackData) -> Measured | Reason:
    halves = data.halves
    return halves if isinstance(halves, Reason) else [linkability(*halves, of=data.rows)]


LINKABILITY = RiskMeasure(
    key="linkability",
    title="linkability",
    figures=("linkability",),
    function=_by_halves,
    counts_units=True,  # of each person one row
)
