"""The way from features back to cells, chosen once for a run: which encoder, in which groups, with whose categories."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from anonpipe.encoding.features import Decoding, FeatureEncoder, Groups
from anonpipe.encoding.intervals import IntervalDecoder
from anonpipe.encoding.matching import decode_matched
from anonpipe.encoding.part_shares import PartShares, Shares
from anonpipe.encoding.probabilities import ProbabilityDecoder
from anonpipe.encoding.rounding import RoundedColumns
from anonpipe.kernels.groups import sort_groups
from anonpipe.methods.synthesis import restore_by_rank
from anonpipe.moments import Moments
from anonpipe.threads import one_thread
from anonpipe.types import FloatArray, IntArray

Draws = Callable[[str], np.random.Generator]


@dataclass(frozen=True, eq=False)
class Decoded:
    """Released rows of a part, in the order of the original ones."""

    cells: FloatArray  # Shape (n_rows, n_cells)
    added: FloatArray | None  # Ends of intervals, or probabilities, that are released besides; None for none
    features: FloatArray  # What was decoded, shape (n_rows, width)
    groupings: tuple[Groups, ...]  # The groups of each grouping, one or more; all rows as one where there are none


@dataclass(frozen=True, eq=False)
class Scored:
    """Rows of a part whose columns that are carried by normal scores hold these still."""

    decoded: Decoded  # The rows
    channels: FloatArray  # The last channel, which holds labels where there are any, shape (n_rows, 1)


@dataclass(frozen=True)
class RestoredTimes:
    """Survival times that are given back by their rank in the group: which column, its limits and the jitter."""

    position: int
    limits: tuple[float, float]
    jitter: float

    def restore(self, released: FloatArray, cells: FloatArray, groups: Groups, rng: np.random.Generator) -> FloatArray:
        """The column of the released cells with the times of its groups."""
        made, own = released[:, self.position], cells[:, self.position]
        return restore_by_rank(made, own, groups.order, groups.starts, rng=rng, jitter=self.jitter, limits=self.limits)


@dataclass(frozen=True, eq=False)
class Decoder:
    """How a run decodes."""

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
    # intervals, probabilities, times: what is released besides or in place of cells; None for nothing
    intervals: IntervalDecoder | None = None
    probabilities: ProbabilityDecoder | None = None
    times: RestoredTimes | None = None

    def decode(self, channels: FloatArray, cells: FloatArray, params: Any, part: int, draws: Draws) -> Decoded:
        """Turn the last channels of a part into released rows.

        Shapes: channels (n_rows, n_channels).
        """
        groupings, features = self.groupings(channels), self._middles(channels)
        groups = Groups(*_alike(channels), self.identical) if self.groups == "alike" else groupings[0]
        given = self._given(cells, params, part, draws)
        if self.matched:
            released = self._matched(channels, given, params, draws("decode"))
        else:
            released = self._plain(features, given, groups, draws("decode"))
        if self.times is not None:
            released[:, self.times.position] = self.times.restore(released, cells, groups, draws("restore"))
        added = None
        if self.probabilities is not None:
            added = self.probabilities.decode(features, given, groups, rng=draws("probabilities"))
            released = self.probabilities.put_most_probable(released, added)
        if self.intervals is not None:
            width = self.features.width
            added = self.intervals.ends(channels[:, :width], channels[:, width:], released)
        return Decoded(released, added, features, groupings)

    def _given(self, cells: FloatArray, params: Any, part: int, draws: Draws) -> FloatArray:
        """Cells whose counts of categories and nulls are those to be released."""
        if self.shares is not None:
            return self.shares.put(cells, params, part)
        return cells if self.rounded is None else self.rounded.put(cells, draws("rounded counts"))

    @property
    def restored(self) -> tuple[int, ...]:
        """Where values stand that are given back as they were."""
        return () if self.times is None else (self.times.position,)

    def groupings(self, channels: FloatArray) -> tuple[Groups, ...]:
        """The groups of a part, several where several groupings are averaged; all rows as one where there are none."""
        if self.groups != "labels":
            return (Groups(np.arange(len(channels)), np.array([0, len(channels)]), False),)
        labels = channels[:, self.labels_at :].astype(np.int64).T
        identical = self.identical and len(labels) == 1
        return tuple(Groups(*sort_groups(np.ascontiguousarray(each)), identical) for each in labels)

    def _middles(self, channels: FloatArray) -> FloatArray:
        """The features to decode: the first channels, or the middles of intervals whose ends the channels are."""
        width = self.features.width
        low = channels[:, :width]
        return low if self.intervals is None else low + (channels[:, width:] - low) / 2

    def _plain(self, features: FloatArray, given: FloatArray, groups: Groups, rng: np.random.Generator) -> FloatArray:
        return self.features.decode(
            features,
            given,
            groups.order,
            groups.starts,
            rng=rng,
            categories=self.how,
            identical_groups=groups.identical,
        )

    def _matched(self, channels: FloatArray, given: FloatArray, shares: Shares, rng: np.random.Generator) -> FloatArray:
        """Cells with the covariance of the features, moved by what these lack of the original ones' in the table."""
        known = channels[:, : self.features.width + self.conditioning]
        with one_thread():  # the bits must not follow the machine's cores
            own = Moments.of(known).covariance
            target = own if shares.lack is None else np.asarray(own + shares.lack)
            return decode_matched(self.features, known, given, target, rng=rng, numbers_too=self.values_too)


def _alike(channels: FloatArray) -> tuple[IntArray, IntArray]:
    """Rows that are equal, as groups."""
    return sort_groups(np.unique(channels, axis=0, return_inverse=True)[1].reshape(-1))
