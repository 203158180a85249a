"""Survival curves of both tables for pictures: no point of them rests on fewer events than asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from anonpipe.columns import Kind
from anonpipe.evaluate.utility._distributions import Binning, binned, joined, round_edges
from anonpipe.evaluate.utility._endpoint import Endpoint
from anonpipe.evaluate.utility._survival_curves import (
    EVENTS_OF_K,
    RECORDS_OF_K,
    Followed,
    compared_endpoints,
    followed,
    grouped,
    kaplan_meier,
)
from anonpipe.evaluate.utility._typed import Tables, typed_tables
from anonpipe.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    import pandas as pd

MOST_PANELS = 24  # Groups of an endpoint that are drawn


@dataclass(frozen=True)
class SurvivalPanel:
    """Both curves of all records, or of a group."""

    # column, group: which; empty for all records
    column: str
    group: str
    # At which both curves are told, the first being 0: multiples of a round step, between which k events lie
    times: tuple[float, ...]
    # original, released: share that survives each
    original: tuple[float, ...]
    released: tuple[float, ...]
    records: int  # Original ones, as they may be told


@dataclass(frozen=True)
class SurvivalPicture:
    """The panels of an endpoint, the first of all records; groups that are too small have none."""

    endpoint: Endpoint  # Which
    panels: tuple[SurvivalPanel, ...]  # In the order of the columns
    left_out: int  # Groups that could have been drawn, and are too many


def survival_pictures(
    original: pd.DataFrame,
    released: pd.DataFrame,
    columns: Mapping[str, Kind],
    endpoints: Sequence[Endpoint],
    binning: Binning,
) -> tuple[SurvivalPicture, ...]:
    """Kaplan-Meier curves of both tables at common round times.

    Parameters
    ----------
    original, released
        Typed tables with these columns.
    columns
        Name and kind.
    endpoints
        Those are left out whose columns are not among them.
    binning
        Events that lie between two times (of the original, and of the release), whether times follow from
        the release alone, and in which parts of the group the original's shares are told.

    Notes
    -----
    A curve of the original at every event would tell the time of each; here
    it is told at round times only, between any two of which k events or more lie, and
    after the last of them k events or more.

    A group is drawn where it has 10 k original records and k events. Those of a column
    that are not drawn (nulls are one) have as many together, or one more is left out: all
    records less those that are drawn would tell of them.

    Raises
    ------
    JobError, InputError
        As for `utility`.

    Examples
    --------
    >>> import pandas as pd
    >>> old = pd.DataFrame({"m": np.arange(1.0, 41.0), "v": ["dead"] * 40})
    >>> kinds = {"m": Kind.INTEGER, "v": Kind.BINARY}
    >>> (shown,) = survival_pictures(old, old, kinds, [Endpoint("", "m", "v", ("dead",))], Binning(10))
    >>> shown.panels[0].times, np.round(shown.panels[0].original, 9).tolist()
    ((0.0, 11.5, 21.5), [1.0, 0.725, 0.475])
    """
    tables = replace(typed_tables(original, released, columns), least=binning.least)
    return tuple(_picture(tables, each, binning) for each in compared_endpoints(tables, endpoints))


def _picture(tables: Tables, endpoint: Endpoint, binning: Binning) -> SurvivalPicture:
    old, new = followed(tables, endpoint)
    whole = next(column.kind for column in tables.columns if column.name == endpoint.time) is Kind.INTEGER
    found = []
    for column, labels, groups, others in grouped(tables, endpoint, old):
        drawn = range(len(labels)) if not column else _not_by_difference(old, groups, len(labels), tables.least)
        for at in drawn:
            sides = _part(old, groups == at), _part(new, others == at)
            panel = _panel(column, labels[at] if column else "", *sides, binning, whole)
            if panel is not None:
                found.append(panel)
    return SurvivalPicture(endpoint, tuple(found[: MOST_PANELS + 1]), max(0, len(found) - MOST_PANELS - 1))


def _not_by_difference(old: Followed, groups: IntArray, count: int, least: int) -> list[int]:
    """The groups that are drawn, so that what is left of all records is enough, or nothing."""
    own = groups[old.known]
    sizes, events = (np.bincount(part + 1, minlength=count + 1) for part in (own, groups[old.events]))
    rest, happened = sizes[0], events[0]
    drawn = [int(at) for at in np.argsort(-sizes[1:], kind="stable")]
    while drawn and rest and (rest < RECORDS_OF_K * least or happened < EVENTS_OF_K * least):
        gone = drawn.pop() + 1
        rest, happened = rest + sizes[gone], happened + events[gone]
    return sorted(drawn)


def _part(side: Followed, which: BoolArray) -> Followed:
    """The records with a time of a group."""
    rows = which & side.known
    return Followed(side.times[rows], side.events[rows])


def _panel(
    column: str, group: str, old: Followed, new: Followed, binning: Binning, whole: bool
) -> SurvivalPanel | None:
    """Both curves at common times; None where these would be none."""
    happened = old.times[old.events], new.times[new.events]
    if not binning.enough(np.array([len(each) for each in happened])) or not len(new.times):
        return None
    given = happened[1] if binning.from_release and len(happened[1]) else np.concatenate(happened)
    edges = round_edges(given, whole)
    inner, _ = joined(edges, binned(happened, edges), binning)
    times = np.concatenate([[0.0], inner[inner > 0]])
    if len(times) < 2:
        return None
    shares = _alive_before(old, times)
    grain = binning.rounded / len(old.times)
    told = np.clip(np.rint(shares / grain) * grain, 0.0, 1.0) if binning.rounded > 1 else shares
    return SurvivalPanel(
        column,
        group,
        tuple(times.tolist()),
        tuple(told.tolist()),
        tuple(_alive_before(new, times).tolist()),
        binning.told(len(old.times)),
    )


def _alive_before(side: Followed, times: FloatArray) -> FloatArray:
    """Share that survives up to each time, what happens at it left out."""
    at, alive = kaplan_meier(side.times, side.events)
    return np.append(1.0, alive)[np.searchsorted(at, times, side="left")]
