"""All attacks and disclosure measures of a run, fed from its samples and searches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from anonpipe.columns import Kind
from anonpipe.errors import EngineError, InputError, JobError
from anonpipe.evaluate import risk
from anonpipe.pipeline.context import Context
from anonpipe.pipeline.evaluation._held import FEWEST_HELD, held_cells
from anonpipe.pipeline.evaluation._links import expected_links
from anonpipe.pipeline.evaluation._points import point_names
from anonpipe.pipeline.evaluation._sample import (
    Queries,
    Sample,
    fewest_alike,
    group_sizes,
    has_groups,
    own_positions,
    read_groups,
    read_guessed,
    read_pairs,
    read_queries,
    spanning_disclosures,
    spans_partitions,
)
from anonpipe.pipeline.evaluation._search import Found, coded_positions, found_guesses, found_in, own_alike
from anonpipe.pipeline.grouping import keeps_group_moments, merged_disclosures, tallied_sizes
from anonpipe.pipeline.masker import masker_of
from anonpipe.types import IntArray
from anonpipe.verify.assessment import NotChecked
from anonpipe.verify.catalogue import SAID, Reason

if TYPE_CHECKING:
    from anonpipe.evaluate.utility import Measurement

Measured = tuple["Measurement", ...]

PAIRED_ROWS = 20_000
"""Records that conditional privacy is estimated from."""

_UNORDERED = (Kind.CATEGORICAL, Kind.BINARY)


@dataclass(frozen=True, eq=False)
class Known:
    """What the attacks share, read when first needed."""

    ctx: Context

    @property
    def rows(self) -> int:
        """Records of the release."""
        return self.ctx.plan.rows

    @cached_property
    def queries(self) -> Queries:
        """The records looked for."""
        return read_queries(self.ctx)

    @cached_property
    def pairs(self) -> Sample:
        """The paired sample."""
        return read_pairs(self.ctx)

    @cached_property
    def released(self) -> Found:
        """The nearest released records of the queries."""
        return found_in(self.ctx, "release", "groups")

    @cached_property
    def original(self) -> Found:
        """The nearest other originals of the queries."""
        return found_in(self.ctx, "original")

    @cached_property
    def method(self) -> str:
        """Of the synthesizer or masker."""
        job = self.ctx.job
        return job.by_groups.synthesize.method if job.mask is None else job.mask.method

    @property
    def grouped(self) -> bool:
        """Whether each record is in one group."""
        return has_groups(self.ctx)

    @property
    def beside(self) -> bool:
        """Whether a released row replaces the original row beside it."""
        return self.ctx.job.mask is None or masker_of(self.ctx.job).same_person

    @property
    def own_row(self) -> IntArray | None:
        """The released row made from each query, where a row is made from one record."""
        return self.queries.own_row if risk.link_of(self.method) == "own" else None

    @property
    def own_group(self) -> IntArray | None:
        """The group of each query, where there are groups."""
        return self.queries.own_group if self.grouped else None


def measured_risk(ctx: Context) -> tuple[Measured, tuple[NotChecked, ...]]:
    """Every measure that the run allows, and what it does not allow."""
    known = Known(ctx)
    found: list[Measurement] = []
    left_out: list[NotChecked] = []
    for key, measure in _MEASURES:
        outcome = _tried(measure, known)
        if isinstance(outcome, Reason):
            left_out.append(NotChecked(key, outcome, {"fewest": FEWEST_HELD}))
        elif isinstance(outcome, str):
            left_out.append(NotChecked(key, Reason.REFUSED, {SAID: outcome}))
        else:
            found.extend(outcome)
    return tuple(found), tuple(left_out)


def _tried(measure: Callable[[Known], Measured | Reason], known: Known) -> Measured | Reason | str:
    """What a measure finds, or why it refuses, in its own words: too few records, or no column that it is for.

    A refused measure is not checked, and fails a gate that limits it.
    """
    try:
        return measure(known)
    except (JobError, InputError) as error:
        return str(error)


def _linkage(known: Known) -> Measured | Reason:
    if known.own_row is None and known.own_group is None:
        return Reason.AVERAGED if known.ctx.job.mask is None else Reason.NO_LINK
    scored = tuple(_scored(known, known.released, "distances"))
    if known.own_row is not None:
        return scored
    found = found_in(known.ctx, "release", "alike")
    if found.groups is None:
        return scored
    size = own_alike(known.ctx)
    return (
        *scored,
        expected_links(found.nearest, found.groups, known.queries.own_alike, size, records=known.rows),
    )


def _rank_linkage(known: Known) -> Measured | Reason:
    if known.own_row is None and known.own_group is None:
        return Reason.AVERAGED if known.ctx.job.mask is None else Reason.NO_LINK
    return tuple(_scored(known, found_in(known.ctx, "ranks", "groups"), "ranks"))


def _scored(known: Known, found: Found, basis: Literal["distances", "ranks"]) -> Iterator[Measurement]:
    rows = known.rows
    scored = risk.score_linkage(
        found.nearest,
        known.own_row,
        known.own_group,
        found.groups if known.grouped else None,
        released=rows,
        group_sizes=known.queries.own_size if known.grouped else None,
        records=rows,
        basis=basis,
    )
    yield from scored.measurements()


def _lasko(known: Known) -> Measured:
    found = risk.lasko_measures(
        known.released.nearest,
        known.original.nearest,
        own_row=known.own_row,
        own_group=known.own_group,
        group_of_found=known.released.groups if known.grouped else None,
        records=known.rows,
    )
    return found.measurements()


def _conditional_privacy(known: Known) -> Measured | Reason:
    if not known.beside:
        return Reason.NO_PAIRS
    step = -(-len(known.pairs.original) // PAIRED_ROWS)
    ctx = known.ctx
    places = [
        place
        for place, (name, column) in enumerate(zip(ctx.cells.names, ctx.cells.columns, strict=True))
        if column.role.synthesized and name not in ctx.job.as_probabilities
    ]
    if not places:
        return Reason.ONLY_PROBABILITIES
    before, after = (part[::step][:, places] for part in (known.pairs.original, known.pairs.released))
    return risk.conditional_privacy(
        before,
        after,
        [ctx.cells.names[place] for place in places],
        categories=[at for at, place in enumerate(places) if ctx.cells.columns[place].kind in _UNORDERED],
        records=known.rows,
    ).measurements()


def _known_attribute(known: Known) -> Measured | Reason:
    if not known.grouped:
        return Reason.AVERAGED if known.ctx.job.mask is None else Reason.NO_GROUPS
    if known.ctx.points.width < 2:
        return Reason.ONE_COLUMN
    groups = read_groups(known.ctx)
    if not len(np.unique(groups.labels)) > 1:
        return Reason.ONE_GROUP_SAMPLED
    before, after = known.ctx.encode(groups.original), known.ctx.encode(groups.released)
    guesses: tuple[Literal["closest", "moments", "mean"], ...] = ("closest", "moments", "mean")
    found = [
        risk.known_attribute(
            before,
            after,
            groups.labels,
            rng=known.ctx.rng(f"assess {guess}", 0),
            guess=guess,
            names=point_names(known.ctx.points),
            of=known.rows,
        )
        for guess in guesses
    ]
    return tuple(each for one in found for each in one.measurements())


def _collusion(known: Known) -> Measured | Reason:
    if not known.grouped:
        return Reason.AVERAGED if known.ctx.job.mask is None else Reason.NO_GROUPS
    groups = read_groups(known.ctx)
    if not len(groups.labels):
        return Reason.NO_GROUP_SAMPLED
    before, after = known.ctx.encode(groups.original), known.ctx.encode(groups.released)
    names, rows = point_names(known.ctx.points), known.rows
    return risk.collusion(before, after, groups.labels, names=names, of=rows).measurements()


def _probabilistic(known: Known) -> Measured | Reason:
    ctx, own = known.ctx, len(own_positions(known.ctx))
    if ctx.job.mask is None and not known.grouped:
        return Reason.AVERAGED_UNDEFINED
    found = risk.probabilistic_bound(
        ctx.job.k,
        _smallest(known) if known.grouped else None,
        link=risk.link_of(known.method),
        records=ctx.plan.rows,
        exact_moments=known.grouped and keeps_group_moments(ctx.job),
        width=ctx.points.width,
        own_columns=own,
        fewest_alike=fewest_alike(ctx) if own and known.grouped else None,
    )
    return found.measurements()


def _smallest(known: Known) -> int:
    """Records of the smallest group."""
    if not spans_partitions(known.ctx.job):
        return int(tallied_sizes(known.ctx)[0])
    return int(group_sizes(known.ctx)[1].min())


def _classes(known: Known) -> Measured | Reason:
    ctx = known.ctx
    if ctx.job.mask is not None and not known.grouped:
        return Reason.NO_GROUPS
    if not ctx.classes:
        return Reason.NO_CLASS
    found: list[Measurement] = []
    shares = {column.name: np.asarray(column.shares) for column in ctx.classes}
    if spans_partitions(ctx.job):
        for name, (told, counts) in spanning_disclosures(ctx).items():
            found.extend(risk.class_risk(told, column=name, shares=shares[name], sizes=counts).measurements())
        return tuple(found)
    sizes = tallied_sizes(ctx) if known.grouped else None
    for name, told in merged_disclosures(ctx).items():
        given = {"shares": shares[name], "sizes": sizes} if sizes is not None else {}
        found.extend(risk.class_risk(told, column=name, **given).measurements())
    return tuple(found)


def _membership(known: Known) -> Measured | Reason:
    if problem := _no_control(known):
        return problem
    members = known.released.nearest.distances[:, 0]
    others = found_in(known.ctx, "held_release").nearest.distances[:, 0]
    return risk.membership(members, others, of=known.rows).measurements()


def _attribute_inference(known: Known) -> Measured | Reason:
    if problem := _no_control(known):
        return problem
    ctx, given = known.ctx, read_guessed(known.ctx)
    if given is None:
        raise EngineError("records to guess were not kept; go on with --resume")
    found = risk.attribute_inference(
        given.told,
        given.members,
        given.controls,
        categories=coded_positions(ctx),
        names=ctx.cells.names,
        columns=[at for at, column in enumerate(ctx.cells.columns) if column.role.synthesized],
        of=ctx.plan.rows,
        found=found_guesses(ctx),
    )
    return found.measurements()


def _no_control(known: Known) -> Reason | None:
    held = len(held_cells(known.ctx))
    if not known.ctx.job.measure.hold_out:
        return Reason.NO_HOLD_OUT
    if held < FEWEST_HELD:
        return Reason.FEW_HELD
    return None


def _closest_record(known: Known) -> Measured:
    found = risk.closest_record(
        known.released.nearest.distances[:, :2],
        known.original.nearest.distances[:, :2],
        reference_is="the original, leaving each record out",
        of=known.rows,
    )
    return found.measurements()


_MEASURES: tuple[tuple[str, Callable[[Known], Measured | Reason]], ...] = (
    ("unmeasured.linkage", _linkage),
    ("unmeasured.rank_linkage", _rank_linkage),
    ("unmeasured.lasko", _lasko),
    ("unmeasured.conditional_privacy", _conditional_privacy),
    ("unmeasured.known_attribute", _known_attribute),
    ("unmeasured.collusion", _collusion),
    ("unmeasured.probabilistic", _probabilistic),
    ("unmeasured.classes", _classes),
    ("unmeasured.membership", _membership),
    ("unmeasured.attribute_inference", _attribute_inference),
    ("unmeasured.closest_record", _closest_record),
)
