"""Record linkage: how often an intruder who knows a record finds what was released in its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from anonpipe.audience import Audience
from anonpipe.errors import JobError
from anonpipe.evaluate.reason import Reason
from anonpipe.evaluate.risk._expected_links import expected_links
from anonpipe.evaluate.risk._interval import wilson
from anonpipe.evaluate.risk._known import Alike, Found, Known
from anonpipe.evaluate.risk._measure import Measure, Measured
from anonpipe.evaluate.risk._nearest import Nearest
from anonpipe.evaluate.risk._surest import FEWEST, SHARES, by_sureness, surest
from anonpipe.evaluate.utility import Measurement
from anonpipe.types import IntArray

Basis = Literal["distances", "ranks", "Mahalanobis distances"]

_NAMES: dict[Basis, str] = {
    "distances": "linkage",
    "ranks": "rank_linkage",
    "Mahalanobis distances": "mahalanobis_linkage",
}

_SOURCE = {
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
        low, high = (None, None) if self.queries >= self.records else wilson(linked, self.queries)
        return Measurement(
            name=f"{_NAMES[self.basis]}.{name}",
            title=title,
            value=linked / self.queries,
            unit="share",
            better="lower",
            source=_SOURCE[self.basis],
            records=self.queries,
            of=self.records,
            audience=Audience.ENOUGH,
            low=low,
            high=high,
            baseline=chance,
            baseline_is="a blind guess",
            note=f"{_KNOWS}{note}.",
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

    Parameters
    ----------
    found
        The two or more nearest released records of each record looked for,
        from `nearest` and `merge_nearest`: on columns that were masked, each
        in its own standard deviations, or as `Ranks`.
    own_row
        Number of the released record that was made from the record, -1 where
        none was released, shape (n_queries,). None where released records
        have no single source each, as those that are drawn for a group.
    own_group
        Group of each record, shape (n_queries,); None without groups.
    group_of_found
        Group of the found records, shape (n_queries, 1 or more).
    released
        Number of released records.
    group_sizes
        Number of released records in the group of each record.
    records
        Number of original records, if only some were looked for; these must
        be a random sample.
    basis
        Whether values, ranks or whitened values were compared.

    Notes
    -----
    *Direction.* Here a known person is looked for in the release. In the
    papers each released record looks for its original: for that, search the
    originals with the released records. The two shares differ a little.

    *Ties* go to the lower row, which is a fair draw where rows of the release
    are shuffled or queries are all records: of t released records that are
    the same, one is linked.

    *Chance* is 1, or 2, of the released records for the own record, and the
    mean share of the own group for the group.

    Raises
    ------
    JobError
        Arguments are not as described, or nothing can be scored.

    References
    ----------
    Pagliuca & Seri (1999), Some results of individual ranking method on the
    system of enterprise accounts annual survey, Esprit SDC project; Domingo-
    Ferrer & Torra (2001), in Confidentiality, Disclosure and Data Access,
    ch. 6; Li & Sarkar (2013), doi:10.1287/mnsc.1120.1584, section 6.1.

    Examples
    --------
    >>> from anonpipe.evaluate.risk import nearest
    >>> found = nearest([[0.1], [5.0], [2.2]], [[0.0], [1.0], [2.0]], 2)
    >>> linkage = score_linkage(found, own_row=[0, 1, 2], released=3)
    >>> linkage.first, linkage.either
    (2, 2)
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


def _by_distances(known: Known) -> Measured | Reason:
    if known.own_row is None and known.own_group is None:
        return known.unlinked
    alike = known.alike
    expected = [expected_links(alike, records=known.rows)] if alike is not None else []
    scored = _scored(known, known.released, "distances")
    return [*scored, *expected, *_surest(known, alike)]


def _surest(known: Known, alike: Alike | None) -> Measured:
    near = known.released.nearest
    if alike is not None and alike.found.groups is not None:
        chances = (alike.found.groups[:, 0] == alike.own) / alike.sizes
        return surest_links(chances, near.distances, known.released.groups, of=known.rows)
    if known.own_row is None:
        return ()
    return surest_links(near.rows[:, 0] == known.own_row, near.distances, None, of=known.rows)


def surest_links(
    chances: npt.ArrayLike, distances: npt.ArrayLike, groups: npt.ArrayLike | None, *, of: int
) -> tuple[Measurement, ...]:
    """How many links are right where an intruder is surest of them.

    Shapes: chances (n,); distances (n, 2 or more).

    Notes
    -----
    Sure is a link where the nearest records are of one group, and then where the nearest is nearer than
    the second, as a share of its distance.

    Examples
    --------
    >>> apart = np.column_stack([np.arange(1.0, 11.0), np.full(10, 20.0)])
    >>> surest_links(np.tile(np.arange(10) < 1, 6), np.tile(apart, (6, 1)), None, of=60)[0].value
    1.0
    """
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
        percent = f"{100 * share:g}"
        found.append(
            Measurement(
                name=f"linkage.surest_{percent}",
                title=f"Of the surest {percent} % of the links, right ones",
                value=float(chosen.mean()),
                unit="share",
                better="lower",
                source="Giomi et al. (2023), doi:10.56553/popets-2023-0055; nearness to the second: Lowe (2004)",
                records=len(chosen),
                of=of,
                audience=Audience.STEWARD,
                low=low,
                high=high,
                baseline=everyone,
                baseline_is="all links",
                note=f"{_KNOWS}, and to link only whom the nearest released records agree on, or whose nearest is much "
                "nearer than the second. A link to a group of n counts 1/n.",
            )
        )
    return tuple(found)


def _by_ranks(known: Known) -> Measured | Reason:
    if known.own_row is None and known.own_group is None:
        return known.unlinked
    return _scored(known, known.by_rank, "ranks")


def _whitened(known: Known) -> Measured | Reason:
    if known.own_row is None:  # a group is found no better so
        return known.unlinked if known.own_group is None else ()
    return _scored(known, known.whitened, "Mahalanobis distances")


def _scored(known: Known, found: Found, basis: Basis) -> Measured:
    scored = score_linkage(
        found.nearest,
        known.own_row,
        known.own_group,
        found.groups if known.grouped else None,
        released=known.rows,
        group_sizes=known.own_size if known.grouped else None,
        records=known.rows,
        basis=basis,
    )
    return scored.measurements()


MEASURE = Measure(
    key="linkage",
    title="record linkage by distances",
    figures=(
        "linkage.first",
        "linkage.first_or_second",
        "linkage.group",
        "linkage.expected",
        *(f"linkage.surest_{100 * share:g}" for share in SHARES),
    ),
    function=_by_distances,
    counts_units=True,
)

RANKS = Measure(
    key="rank_linkage",
    title="record linkage by ranks",
    figures=("rank_linkage.first", "rank_linkage.first_or_second", "rank_linkage.group"),
    function=_by_ranks,
    counts_units=True,
)

WHITENED = Measure(
    key="mahalanobis_linkage",
    title="record linkage by Mahalanobis distances",
    figures=("mahalanobis_linkage.first", "mahalanobis_linkage.first_or_second"),
    function=_whitened,
    counts_units=True,
)
