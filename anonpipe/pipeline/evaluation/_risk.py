"""All attacks and disclosure measures of a run, fed from its samples and searches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from anonpipe.columns import Kind
from anonpipe.errors import EngineError, InputError, JobError
from anonpipe.evaluate import risk
from anonpipe.evaluate.reason import Reason
from anonpipe.evaluate.utility import Measurement
from anonpipe.pipeline.context import Context
from anonpipe.pipeline.evaluation._held import FEWEST_HELD, held_cells
from anonpipe.pipeline.evaluation._points import point_names
from anonpipe.pipeline.evaluation._sample import (
    Queries,
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
from anonpipe.pipeline.evaluation._search import coded_positions, found_guesses, found_in, own_alike
from anonpipe.pipeline.grouping import keeps_group_moments, merged_disclosures, tallied_sizes
from anonpipe.types import IntArray
from anonpipe.verify.assessment import NotChecked
from anonpipe.verify.catalogue import SAID

_UNORDERED = (Kind.CATEGORICAL, Kind.BINARY)


@dataclass(frozen=True, eq=False)
class KnownOfRun:
    """What attacks are given (`anonpipe.evaluate.risk.Known`), read from the staging when first needed."""

    ctx: Context

    @property
    def k(self) -> int:
        """Smallest permissible group."""
        return self.ctx.job.k

    @property
    def rows(self) -> int:
        """Records of the release."""
        return self.ctx.plan.rows

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the columns of features."""
        return tuple(point_names(self.ctx.points))

    @cached_property
    def queries(self) -> Queries:
        """The records looked for."""
        return read_queries(self.ctx)

    @cached_property
    def released(self) -> risk.Found:
        """The nearest released records of the records looked for."""
        return found_in(self.ctx, "release", "groups")

    @cached_property
    def original(self) -> risk.Found:
        """The nearest other originals of them."""
        return found_in(self.ctx, "original")

    @cached_property
    def by_rank(self) -> risk.Found:
        """The nearest released records by ranks."""
        return found_in(self.ctx, "ranks", "groups")

    @property
    def grouped(self) -> bool:
        """Whether each record is in one group."""
        return has_groups(self.ctx)

    @property
    def link(self) -> risk.Link:
        """What ties a released record to one person."""
        return risk.link_by(self.ctx.job.replacing)

    @property
    def own_row(self) -> IntArray | None:
        """The released row made from each record looked for, where a row is made from one record."""
        return self.queries.own_row if self.link == "own" else None

    @property
    def own_group(self) -> IntArray | None:
        """The group of each record looked for, where there are groups."""
        return self.queries.own_group if self.grouped else None

    @property
    def own_size(self) -> IntArray:
        """Records of that group."""
        return self.queries.own_size

    @property
    def unlinked(self) -> Reason:
        """Why there is neither, where there is not."""
        return Reason.AVERAGED if self.ctx.job.mask is None else Reason.NO_LINK

    @property
    def alike(self) -> risk.Alike | None:
        """Which of the nearest are alike, where records are in groups and made from none alone."""
        found = found_in(self.ctx, "release", "alike") if self.own_row is None else None
        if found is None or found.groups is None:
            return None
        return risk.Alike(found, self.queries.own_alike, own_alike(self.ctx))

    @property
    def held(self) -> risk.Found | Reason:
        """The nearest released records of records that were held out."""
        return self._no_control or found_in(self.ctx, "held_release")

    @property
    def guessed(self) -> risk.Guessed | Reason:
        """Records whose columns are guessed."""
        if problem := self._no_control:
            return problem
        ctx, cells = self.ctx, read_guessed(self.ctx)
        if cells is None:
            raise EngineError("records to guess were not kept; go on with --resume")
        return risk.Guessed(
            cells.told,
            cells.members,
            cells.controls,
            found_guesses(ctx),
            ctx.cells.names,
            [at for at, column in enumerate(ctx.cells.columns) if column.role.synthesized],
            coded_positions(ctx),
        )

    @property
    def _no_control(self) -> Reason | None:
        if not self.ctx.job.measure.hold_out:
            return Reason.NO_HOLD_OUT
        return Reason.FEW_HELD if len(held_cells(self.ctx)) < FEWEST_HELD else None

    @property
    def pairs(self) -> risk.Pairs | Reason:
        """A paired sample of the masked columns that are released as values."""
        ctx = self.ctx
        if not ctx.job.replacing.row_for_row:
            return Reason.NO_PAIRS
        masked = {
            place: name
            for place, (name, column) in enumerate(zip(ctx.cells.names, ctx.cells.columns, strict=True))
            if column.role.synthesized and name not in ctx.job.as_probabilities
        }
        if not masked:
            return Reason.ONLY_PROBABILITIES
        places, sample = list(masked), read_pairs(ctx)
        categories = [at for at, place in enumerate(places) if ctx.cells.columns[place].kind in _UNORDERED]
        return risk.Pairs(sample.original[:, places], sample.released[:, places], list(masked.values()), categories)

    @property
    def groups(self) -> risk.WholeGroups | Reason:
        """Some whole groups."""
        if not self.grouped:
            return Reason.AVERAGED if self.ctx.job.mask is None else Reason.NO_GROUPS
        sample = read_groups(self.ctx)
        if not len(sample.labels):
            return Reason.NO_GROUP_SAMPLED
        return risk.WholeGroups(self.ctx.encode(sample.original), self.ctx.encode(sample.released), sample.labels)

    @property
    def classes(self) -> dict[str, risk.ClassShares] | Reason:
        """What groups tell of the class columns."""
        ctx = self.ctx
        if ctx.job.mask is not None and not self.grouped:
            return Reason.NO_GROUPS
        if not ctx.classes:
            return Reason.NO_CLASS
        shares = {column.name: np.asarray(column.shares) for column in ctx.classes}
        if spans_partitions(ctx.job):
            told = spanning_disclosures(ctx)
            return {name: risk.ClassShares(one, shares[name], sizes) for name, (one, sizes) in told.items()}
        sizes = tallied_sizes(ctx) if self.grouped else None
        return {name: risk.ClassShares(one, shares[name], sizes) for name, one in merged_disclosures(ctx).items()}

    @property
    def smallest_group(self) -> int | Reason | None:
        """Records of the smallest group; None where the whole table is one."""
        ctx = self.ctx
        if not self.grouped:
            return Reason.AVERAGED_UNDEFINED if ctx.job.mask is None else None
        return int(group_sizes(ctx)[1].min()) if spans_partitions(ctx.job) else int(tallied_sizes(ctx)[0])

    @property
    def exact_moments(self) -> bool:
        """Whether mean and scatter of every group are kept exactly."""
        return self.grouped and keeps_group_moments(self.ctx.job)

    @property
    def own_columns(self) -> int:
        """Columns of which each released record keeps one person's values."""
        return len(own_positions(self.ctx))

    @property
    def fewest_alike(self) -> int | None:
        """Fewest records of a group that are alike in these; None where that is not known."""
        return fewest_alike(self.ctx) if self.own_columns and self.grouped else None

    def rng(self, what: str) -> np.random.Generator:
        """The generator of one use."""
        return self.ctx.rng(f"assess {what}", 0)


def measured_risk(ctx: Context) -> tuple[tuple[Measurement, ...], tuple[NotChecked, ...]]:
    """Every measure that the run allows, and what it does not allow."""
    known = KnownOfRun(ctx)
    found: list[Measurement] = []
    left_out: list[NotChecked] = []
    for measure in risk.MEASURES:
        outcome, key = _tried(measure, known), f"unmeasured.{measure.key}"
        if isinstance(outcome, Reason):
            left_out.append(NotChecked(key, outcome, {"fewest": FEWEST_HELD}))
        elif isinstance(outcome, str):
            left_out.append(NotChecked(key, Reason.REFUSED, {SAID: outcome}))
        else:
            found.extend(outcome)
    return tuple(found), tuple(left_out)


def _tried(measure: risk.Measure, known: KnownOfRun) -> risk.Measured | Reason | str:
    """What a measure finds, or why it refuses, in its own words: too few records, or no column that it is for.

    A refused measure is not checked, and fails a gate that limits it.
    """
    try:
        return measure.of(known)
    except (JobError, InputError) as error:
        return str(error)
