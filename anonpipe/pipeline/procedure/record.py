"""The procedure of a job as one record: steps, decoder, and their properties for the rest of a run.

`anonpipe.pipeline.procedure.by_groups` and `anonpipe.pipeline.procedure.by_mask` make such records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from anonpipe.encoding.cells import ColumnEncoder
from anonpipe.encoding.features import ClassColumn, Compound, ConditioningEncoder, Decoding, FeatureEncoder, Groups
from anonpipe.encoding.identifiers import UnitColumn
from anonpipe.encoding.matching import decode_matched
from anonpipe.encoding.probabilities import IntervalDecoder, ProbabilityDecoder
from anonpipe.encoding.scan import Scan
from anonpipe.encoding.shares import PartShares, RoundedColumns, Shares
from anonpipe.environment import one_thread
from anonpipe.errors import MASK_LINKS, JobError
from anonpipe.evaluate.measurement import Reason
from anonpipe.evaluate.risk import EffectiveDimension, effective_dimension
from anonpipe.methods.executor import Columns, Pass, Step, asks, passes
from anonpipe.methods.options import MethodOptions
from anonpipe.methods.record import Features, Guarantee, Method, Number
from anonpipe.methods.synthesis import restore_by_rank
from anonpipe.moments import Expected, Moments
from anonpipe.types import FloatArray


@dataclass(frozen=True, eq=False)
class Encoders:
    """The encoders of a scanned table, on which a procedure is built."""

    scan: Scan  # The merged scan
    # cells, features: table to cells, and cells to features, and back
    cells: ColumnEncoder
    features: FeatureEncoder
    conditioning: ConditioningEncoder  # The unchanged columns that condition the features, as numbers
    probabilities: ProbabilityDecoder | None  # Columns of probabilities in place of categories; None for none
    unit: UnitColumn | None = None  # What k counts where it may have several rows; None where k counts rows
    rounded: RoundedColumns | None = None  # How counts of categories are rounded; None where they are kept
    absent: frozenset[str] = frozenset()  # Columns whose nulls are the records of some values of another category

    @property
    def dimension(self) -> EffectiveDimension:
        """The effective number of variables whose moments are preserved."""
        numbers = len(self.features.numbers) + self.conditioning.width
        nulls = [each.null_share for each in self.features.numbers if each.nullable and each.name not in self.absent]
        shares = [np.array([share, 1.0 - share]) for share in nulls]
        for block in self.features.categories:  # nulls are the last category
            shares.append(block.shares[:-1] / block.shares[:-1].sum() if block.name in self.absent else block.shares)
        return effective_dimension(numbers, shares)

    def least(self, k: int) -> int:
        """Rows that hold k persons or other units, whichever rows they are."""
        return k if self.unit is None else self.unit.sure

    def independent(self, rows: int) -> int:
        """Records that tell as much of a person as so many rows; fewer where units have several."""
        return rows if self.unit is None else self.unit.independent(rows)

    def describe_features(self, k: int, rows: int) -> Features:
        """The description of the features that methods get."""
        numbers = (
            Number(block.name, block.start, block.mean, block.sd, block.on_other_scale)
            for block in self.features.numbers
        )
        width, categories = self.features.width, self.features.category_columns
        return Features(k, rows, width, self.conditioning.width, categories, tuple(numbers))


Members = Literal["part", "scope", "alike"]


@dataclass(frozen=True, eq=False)
class Procedure:
    """The methods of a run, put together; by groups where there is a `guarantee`, else by a mask."""

    name: str  # Of the synthesizer or masker
    steps: tuple[Step, ...]  # What it does with features, in order
    decoder: Decoder  # Features to cells
    weights: FloatArray  # Multipliers of squared differences of features, shape (width,)
    lines: tuple[tuple[str, str], ...]  # How `anonpipe plan` describes it: labels and texts
    warnings: tuple[str, ...] = ()  # What speaks against it with these columns and strata
    codes: tuple[ClassColumn | Compound, ...] = ()  # Classes that are encoded too, for steps that need them
    # Where the records of one group lie: in one `part`; anywhere in a `scope`; or all rows that come out `alike`,
    # wherever they lie. None where no record is in one group.
    members: Members | None = None
    row_for_row: bool = True  # Whether released row i is of the group of original row i, or made of it
    identical_within_groups: bool = False  # Whether the records of a group are released as one and the same
    exact_columns: bool = False  # Whether the values of every column of features are promised
    returns_category_scores: bool = False  # Whether categories come out as scores, which nothing is promised of
    permutes: bool = False  # Whether what is expected depends on the largest value of each channel
    by_stratum: bool = False  # Whether each stratum is a table of its own, with draws of its own
    guarantee: Guarantee | None = None  # What a synthesizer guarantees; None for masks
    # `expected(moments of the features, largest) -> Expected or None`: what a mask promises
    expected: Callable[[Moments, FloatArray | None], Expected | None] | None = None
    # no_link, no_groups: why links, and attacks inside groups, cannot be measured where they cannot
    no_link: Reason = Reason.NO_LINK
    no_groups: Reason = Reason.NO_GROUPS
    no_bound: Reason | None = None  # Why there is no bound of probabilistic anonymity; None where there is one

    @property
    def forms_groups(self) -> bool:
        """Whether groups form in partitions, and are counted."""
        return self.guarantee is not None

    @property
    def exact_group_moments(self) -> bool:
        """Whether mean and scatter of every group are kept exactly."""
        return self.recounts_group_moments or (self.guarantee is not None and self.guarantee.scope == "group")

    @property
    def recounts_group_moments(self) -> bool:
        """Whether moments of groups, which span partitions, are counted again at the end."""
        return self.members == "scope"

    @property
    def passes(self) -> tuple[Pass, ...]:
        """All passes over the table, the last ones included."""
        return passes(self.steps)

    @property
    def head(self) -> tuple[Pass, ...]:
        """The passes whose results lie in the staging."""
        all_passes = self.passes
        return all_passes[:-1] if self.tail is not None else all_passes

    @property
    def shared(self) -> int:
        """How many of these passes copies of a release share: those before the first step that is `redrawn`."""
        head = self.head
        return next((at for at, one in enumerate(head) if any(step.redrawn for step in one.steps)), len(head))

    @property
    def tail(self) -> Pass | None:
        """The last pass if it replaces rows: it runs for each part just before decoding."""
        last = self.passes[-1]
        return last if last.of_rows else None

    @property
    def by_column(self) -> bool:
        """Whether a step works on whole columns."""
        return any(isinstance(step, Columns) for step in self.steps)

    @property
    def keeps_features(self) -> bool:
        """Whether the original features are needed after the first step."""
        used_later = any(asks(step, "original") for step in self.steps)
        return used_later or self.recounts_group_moments

    @property
    def spans_parts(self) -> bool:
        """Whether records of one group may lie in several partitions."""
        return self.members in ("scope", "alike")


def small_groups(k: int, width: int, method: str) -> list[str]:
    """Warn of the disclosure by exact group moments in small groups."""
    if k > width + 1:
        return []
    if k == 2:
        raise JobError(
            f"{method} preserves the moments of every group exactly, and with k=2 the synthetic records are the "
            f"original ones; take mask: {{method: local_synthesis}} ({MASK_LINKS}), raise k, or take micro_perturbation"
        )
    return [
        f"a group may be as small as k={k}. In groups of up to {width + 1} records (feature columns plus one), exact "
        "moments keep synthetic records in the span of the originals: part of a record discloses the rest. "
        f"Take mask: {{method: local_synthesis}} ({MASK_LINKS}), raise k above {width + 1}, or take "
        "micro_perturbation"
    ]


def refuse(method: Method, options: MethodOptions, features: Features) -> None:
    """Refuse a method that does not fit the features."""
    if problem := method.refuses(options, features):
        raise JobError(problem)


# --- Features back to cells


Draws = Callable[[str], np.random.Generator]


@dataclass(frozen=True, eq=False)
class Decoded:
    """Released rows of a part, in the order of the original ones."""

    cells: FloatArray  # Shape (n_rows, n_cells)
    added: FloatArray | None  # Ends of intervals, or probabilities; None for none
    features: FloatArray  # The decoded features, shape (n_rows, width)
    groupings: tuple[Groups, ...]  # The groups of each grouping, one or more; all rows as one where there are none


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Rows of a part in which scored columns still hold normal scores."""

    decoded: Decoded  # The rows
    channels: FloatArray  # The last channel, which holds labels where there are any, shape (n_rows, 1)


@dataclass(frozen=True)
class RestoredTimes:
    """Survival times restored by rank within the group: position, limits and jitter."""

    position: int
    limits: tuple[float, float]
    jitter: float

    def restore(self, released: FloatArray, cells: FloatArray, groups: Groups, rng: np.random.Generator) -> FloatArray:
        """The released times: those of the group, by rank."""
        ranks, times = released[:, self.position], cells[:, self.position]
        return restore_by_rank(
            ranks, times, groups.order, groups.starts, rng=rng, jitter=self.jitter, limits=self.limits
        )


# Rows of a part for each of its groups above which these keep counts and covariances. Of 450 rows most cells are small
# ones, which are drawn: tables of two or three columns came no nearer than without groups. Of 700 some were nearer.
_ROWS_OF_GROUP = 400


@dataclass(frozen=True, eq=False)
class Decoder:
    """The decoder of a run."""

    features: FeatureEncoder  # The encoder
    conditioning: int  # Channels that follow the features: what these were drawn given
    how: Decoding  # How categories are decoded
    # `labels`: as the channels from `labels_at` on number them; `alike`: rows of equal channels; `one`: all rows
    # together
    groups: Literal["labels", "alike", "one"]
    labels_at: int = 0  # The first channel of labels
    identical: bool = False  # Whether the records of a group have one point, and get one row
    # Where records are of no one person, which categories fall to a part; None where each record has those of its own
    shares: PartShares | None = None
    # How counts of categories are rounded where there are no `shares`; None where they are kept
    rounded: RoundedColumns | None = None
    # Whether decoding makes up for what it would lose of the covariance (`anonpipe.encoding.matching`), and whether
    # values of numbers are exchanged for it, too (`values_too`)
    matched: bool = False
    values_too: bool = False
    by_group: bool = False  # Whether the last channel numbers groups; large ones keep counts and covariances
    # intervals, probabilities, times: what is released besides or in place of cells; None for nothing
    intervals: IntervalDecoder | None = None
    probabilities: ProbabilityDecoder | None = None
    times: RestoredTimes | None = None

    def decode(self, channels: FloatArray, cells: FloatArray, params: Any, part: int, draws: Draws) -> Decoded:
        """Turn the last channels of a part, shape (n_rows, n_channels), into released rows."""
        groupings, features = self.groupings(channels), self._middles(channels)
        groups = groupings[0]
        if self.groups == "alike":
            groups = Groups.of(np.unique(channels, axis=0, return_inverse=True)[1].reshape(-1), self.identical)
        if self.by_group:
            found = Groups.of(np.unique(channels[:, -1], return_inverse=True)[1])  # a part may lack some numbers
            groups = found if len(channels) > _ROWS_OF_GROUP * len(found.sizes) else groups
        counted_cells = cells  # with the counts of categories and nulls to release
        if self.shares is not None:
            counted_cells = self.shares.put(cells, channels, groups, params, part, draws("counts of groups"))
        elif self.rounded is not None:
            counted_cells = self.rounded.put(cells, draws("rounded counts"))
        if self.matched:
            released = self._matched(channels, counted_cells, groups, params, draws("decode"))
        else:
            released = self.features.decode(features, counted_cells, groups, rng=draws("decode"), categories=self.how)
        if self.times is not None:
            released[:, self.times.position] = self.times.restore(released, cells, groups, draws("restore"))
        added = None
        if self.probabilities is not None:
            added = self.probabilities.decode(features, counted_cells, groups, rng=draws("probabilities"))
            released = self.probabilities.put_most_probable(released, added)
        if self.intervals is not None:
            width = self.features.width
            added = self.intervals.ends(channels[:, :width], channels[:, width:], released)
        return Decoded(released, added, features, groupings)

    @property
    def restored(self) -> tuple[int, ...]:
        """Positions of columns with restored values."""
        return () if self.times is None else (self.times.position,)

    def groupings(self, channels: FloatArray) -> tuple[Groups, ...]:
        """The groupings of a part; all rows as one group where there are none."""
        if self.groups != "labels":
            return (Groups.one(len(channels)),)
        labels = channels[:, self.labels_at :].astype(np.int64).T
        identical = self.identical and len(labels) == 1
        return tuple(Groups.of(np.ascontiguousarray(grouping), identical) for grouping in labels)

    def _middles(self, channels: FloatArray) -> FloatArray:
        """The features to decode: the first channels, or the midpoints of intervals."""
        width = self.features.width
        low = channels[:, :width]
        return low if self.intervals is None else low + (channels[:, width:] - low) / 2

    def _matched(
        self, channels: FloatArray, counted_cells: FloatArray, groups: Groups, shares: Shares, rng: np.random.Generator
    ) -> FloatArray:
        """Cells with the covariance of the features, corrected by its deviation from the original's."""
        joint, mean_scores, residual = channels[:, : self.features.width + self.conditioning], {}, shares.residual
        learned, values = shares.values, None if self.shares is None else self.shares.values
        with one_thread():  # the bits must not follow the machine's cores
            found, stratum = joint, 0 if values is None else values.stratum(counted_cells)
            if values is not None and learned is not None:
                joint = values.mapped(joint, learned)
                found = values.with_mean_scores(joint, learned, stratum)
                mean_scores = {channel: found[:, channel].copy() for channel in values.channels}
                for each in learned.times:  # values of other columns are matched to their errors
                    del mean_scores[each.channel]
                    joint[:, each.channel] = found[:, each.channel] = each.errors(found)
                    residual = None if residual is None else each.of_errors @ residual @ each.of_errors.T
            covariance = Moments.of(found).covariance
            del found  # as large as all channels
            target = covariance if residual is None else np.asarray(covariance + residual)
            released = decode_matched(
                self.features,
                joint,
                counted_cells,
                target,
                rng=rng,
                numbers_too=self.values_too,
                mean_scores=mean_scores,
                groups=groups,
                least=0 if self.shares is None else self.shares.least,
            )
            if values is not None and learned is not None and learned.times:
                decoded = np.concatenate([self.features.encode(released), joint[:, self.features.width :]], axis=1)
                values.put_times(released, values.with_mean_scores(decoded, learned, stratum), learned)
            return released


def options_text(options: Any) -> str:
    """The options of a section as a job has them, but for the method and those that are as by default."""
    content = options.model_dump(mode="json", exclude={"method"}, exclude_defaults=True)
    return "".join(f", {key}: {value}" for key, value in content.items())
