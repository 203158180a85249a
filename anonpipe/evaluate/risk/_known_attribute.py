"""Attack: the victim's group is known, and one of its attributes; how well are the others recovered."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, get_args

import numpy as np

from anonpipe.evaluate.measurement import Curve, Ends, Figure, Measurement, Reason, beyond, grouped_share, share_figure
from anonpipe.evaluate.risk._measure import AttackData, Measured, RiskMeasure, WholeGroups, require
from anonpipe.kernels.points import sort_groups
from anonpipe.types import FloatArray, IntArray

Guess = Literal["closest", "moments", "mean"]

TOLERANCE = 0.1  # Largest error of a recovered value, in units of the features

_BY = {  # How the attacker guesses, and in short
    "closest": (
        "takes the released record of the group that is closest in the known attribute",
        "by the closest record",
    ),
    "moments": ("solves for the record from the group's released mean and scatter", "by the group's moments"),
    "mean": ("takes the group's released mean, whatever the known attribute says", "by the group's mean"),
}
_RECOVERED = {
    guess: share_figure(
        f"known_attribute.{guess}",
        f"Values recovered from a person's group and one attribute, {short}",
        source="own attack; groups of three with exact moments leave one angle free",
        baseline_is="the better of the same guess in another group and of the mean of the released records",
        note=f"The attacker {how}; recovered is what is within {{tolerance:g}} standard deviations. "
        "Where two answers are left, the better counts. Parts: by the attribute that is known.",
    )
    for guess, (how, short) in _BY.items()
}
_POOLED = share_figure(
    "collusion.recovered",
    "Values recovered by all other members of a group together",
    source="own attack; group sums that are kept exactly give the last member away",
    baseline_is="the released mean of the group, without pooling",
    note="The sum of the group's released records less those of the others; recovered is what is within {tolerance:g} "
    "standard deviations. All members but one must know that they share a group.",
)


@dataclass(frozen=True, eq=False)
class RecoveredValues:
    """How well an attacker who knows the group recovers the values of a record."""

    figure: Figure  # What is measured, and in its note by what attacker
    given: _Attacked
    # own, mean, elsewhere: what was counted of the attack, of the mean of the released records (of the own group where
    # all others are known), and in another group; None for one group, or where none is tried
    own: _RecoveryTally
    mean: _RecoveryTally
    elsewhere: _RecoveryTally | None
    parts: tuple[tuple[str, float], ...]  # Name of each column, known or recovered, and the share of it

    @property
    def share(self) -> float:
        """Share of values recovered, over records and columns."""
        return self.own.share

    @property
    def interval(self) -> Ends:
        """Of it, 95 % over groups; none where all records were attacked."""
        _, low, high = grouped_share(self.own.hits, self.own.trials)
        return (low, high) if len(self.given.group) < self.given.records else (None, None)

    @property
    def better(self) -> _RecoveryTally:
        """The better of the guesses without what this attacker has."""
        return max((self.mean, self.elsewhere or self.mean), key=lambda tally: tally.share)

    def measurement(self) -> Measurement:
        """The share recovered, and its baseline."""
        curve = Curve("Values recovered", "error, sd", "share", STEPS, self.own.curve, self.better.curve)
        note = self.figure.note.format(tolerance=self.given.tolerance)
        return self._measured(
            self.figure, self.share, self.interval, self.better.share, note, parts=self.parts, curves=(curve,)
        )

    def gained(self, figure: Figure, note: str = "") -> Measurement:
        """What is recovered beyond the baseline, of what that leaves, as a figure."""
        value, interval = beyond(self.share, self.interval, self.better.share)
        return self._measured(figure, value, interval, 0.0, f"{note}The baseline is taken as it was measured.")

    def _measured(
        self, figure: Figure, value: float, interval: Ends, baseline: float, note: str, **others: Any
    ) -> Measurement:
        sizes = len(self.given.group), self.given.records
        return figure.measured(value, *sizes, interval=interval, baseline=baseline, note=note, **others)


_GAINED = share_figure(
    "known_attribute.gained",
    "Values recovered from a person's group and one attribute, of those not recovered without the group",
    source="own attack; (share - baseline) / (1 - baseline), as of attribute inference",
    baseline_is="no more than is recovered without the group",
)
_GAINED_TOGETHER = replace(
    _GAINED,
    key="collusion.gained",
    title="Values recovered by all other members of a group, of those not recovered without it",
    baseline_is="no more than the group's released mean tells",
)


def known_attribute(
    groups: WholeGroups,
    names: Sequence[str],
    *,
    rng: np.random.Generator,
    guess: Guess = "closest",
    tolerance: float = TOLERANCE,
    of: int | None = None,
) -> RecoveredValues:
    """Attack every record of whole groups through each of its attributes in turn.

    - `groups`: two features or more, on one scale, of columns of these names. The order of rows inside a group does not
      matter.
    - `rng`: picks the other group of the baseline.
    - `guess`: `closest`: the released record of the group that is closest in the known attribute (equally close: the
      lower row). `moments`: see below. `mean`: the mean of the group's released records, which is the best of the three
      where noise is laid over true group means.
    - `tolerance`: largest error of a recovered value, in units of the features.
    - `of`: records in the release, of which these are whole groups; None for all.

    *Moments.* The released records of a group of n have mean m and scatter V diag(s²) Vᵀ, and if those are the
    originals', every original is m + (u s) Vᵀ for some u of the group. A known attribute is one linear equation in u,
    of which the shortest solution is taken: the prediction by the regression within the group. Where the scatter has
    rank n - 1, as groups of up to width + 1 records have, the length of u is known too, √((n-1)/n): in a group of two
    that is no news, as u is one number; in a group of three two answers are left, and the one nearer to the record
    counts, because any other knowledge tells them apart. Beyond three a whole sphere of answers is left, and the
    shortest solution stands.

    All guesses take the group as known, so this is an upper limit of what a person who must find the group first would
    recover.

    Time n · width² and, for moments, groups · width² · min(group, width); memory a few times the features.
    """
    given = _Attacked.of(groups, tolerance, of)
    width = given.original.shape[1]
    n_groups = len(given.sizes)
    guesser = {"closest": _by_closest, "moments": _by_moments, "mean": _by_mean}[guess](given)
    other = others(n_groups, rng)[given.group]
    own, elsewhere, mean = (given.tally() for _ in range(3))
    mean.add(np.abs(given.released.mean(axis=0) - given.original))
    by_known = []
    for known in range(width):
        rest = np.arange(width) != known
        by_known.append((names[known], own.add(guesser(known, given.group)[:, rest])))
        elsewhere.add(guesser(known, other)[:, rest])
    tried = elsewhere if n_groups > 1 else None
    return RecoveredValues(_RECOVERED[guess], given, own, mean, tried, tuple(by_known))


def _of_groups(data: AttackData) -> Measured | Reason:
    if data.grouped and len(data.features) < 2:
        return Reason.ONE_COLUMN
    groups = require(data.groups)
    if len(np.unique(groups.labels)) < 2:
        return Reason.ONE_GROUP_SAMPLED
    found = [
        known_attribute(groups, data.features, rng=data.rng(guess), guess=guess, of=data.rows)
        for guess in get_args(Guess)
    ]
    gains = [(one.gained(_GAINED).value, one) for one in found]
    best = max(gains, key=lambda gain: -1.0 if math.isnan(gain[0]) else gain[0])[1]
    note = f"By the guess that gains most ({best.figure.key.rpartition('.')[2]}). "
    return [*(one.measurement() for one in found), best.gained(_GAINED, note)]


_FIGURES = (*_RECOVERED.values(), _GAINED)
MEASURE = RiskMeasure("known_attribute", "attack through a known attribute", _FIGURES, _of_groups, counts_units=True)


# --- Attack: all members of a group but one pool their records and the release to find the last one's -----------------


def collusion(
    groups: WholeGroups, names: Sequence[str], *, tolerance: float = TOLERANCE, of: int | None = None
) -> RecoveredValues:
    """Guess every record of whole groups from the sum of the released ones and the records of all other members.

    Parameters are as for `known_attribute`; one column will do.

    The guess for the last of n members is the sum of the released records less the originals of the others, so that its
    error is the change of the group's sum: nothing where sums are kept exactly, whatever the group's size, and n times
    the error of the mean otherwise. Where the sum is noisy a more careful attacker would lean towards the released
    mean, which is the baseline here.
    """
    given = _Attacked.of(groups, tolerance, of)
    changed = np.abs(given.sums(given.released) - given.sums(given.original))[given.group]
    pooled, alone = given.tally(), given.tally()
    pooled.add(changed)
    alone.add(np.abs(given.means(given.released)[given.group] - given.original))
    by_column = zip(names, (changed <= tolerance).mean(axis=0).tolist(), strict=True)
    return RecoveredValues(_POOLED, given, pooled, alone, None, tuple(by_column))


def _by_collusion(data: AttackData) -> Measured:
    pooled = collusion(require(data.groups), data.features, of=data.rows)
    return [pooled.measurement(), pooled.gained(_GAINED_TOGETHER)]


_TOGETHER = (_POOLED, _GAINED_TOGETHER)
COLLUSION = RiskMeasure("collusion", "collusion of a group's members", _TOGETHER, _by_collusion)


# --- How an attacker who knows the group and one attribute guesses the others: errors of all records at once ----------

# `guesser(known column, group attacked for each record)` -> errors of all columns, shape (n_rows, width)
Guesser = Callable[[int, IntArray], FloatArray]

_NOTHING = 1e-9  # Share of a group's largest spread below which a direction or a column does not vary in it

_CHUNK = 4_000_000  # Numbers held at once for the groups' scatters (32 MB)


def _by_closest(given: _Attacked) -> Guesser:
    """The released record of the attacked group that is closest in the known column."""

    def errors(known: int, group: IntArray) -> FloatArray:
        values = given.released[:, known]
        rows = closest_in_group(values, given.group, given.original[:, known], group)
        return np.asarray(np.abs(given.released[rows] - given.original))

    return errors


def _by_mean(given: _Attacked) -> Guesser:
    """The mean of the attacked group's released records."""
    means = given.means(given.released)

    def errors(known: int, group: IntArray) -> FloatArray:
        return np.asarray(np.abs(means[group] - given.original))

    return errors


def closest_in_group(values: FloatArray, groups: IntArray, asked: FloatArray, asked_groups: IntArray) -> IntArray:
    """For each number asked, the row of the closest value of its group; equally close: the lower row."""
    # Values and numbers asked as places among all, group by group; a run of equal ones begins with the lowest row.
    known, places = np.unique(np.concatenate([values, asked]), return_inverse=True)
    keys = np.concatenate([groups, asked_groups]) * len(known) + places.reshape(-1)
    order = np.argsort(keys[: len(values)], kind="stable")
    ordered = keys[order]
    above = np.searchsorted(ordered, keys[len(values) :])
    below = np.searchsorted(ordered, ordered[above - 1])
    low, high = (order[np.minimum(at, len(order) - 1)] for at in (below, above))
    # At the ends of all these may be any record; what is of another group is no candidate.
    under, over = (np.where(groups[row] == asked_groups, np.abs(values[row] - asked), np.inf) for row in (low, high))
    return np.where((over < under) | ((over == under) & (high < low)), high, low)


def _by_moments(given: _Attacked) -> Guesser:
    """The record that the moments of the released group and the known value leave."""
    means = given.means(given.released)
    directions, rank = _group_directions(given)
    sizes, spread = given.sizes, (directions**2).sum(axis=(1, 2))

    def errors(known: int, group: IntArray) -> FloatArray:
        a = directions[:, :, known]
        square = (a * a).sum(axis=1)
        square[square <= _NOTHING**2 * spread] = 0.0
        # A column that does not vary in the group tells nothing: its mean is all there is to guess from.
        a_per_square = a * np.divide(1.0, square, out=np.zeros_like(square), where=square > 0)[:, None]
        slopes = (a_per_square[:, None] @ directions)[:, 0]  # u V is a multiple of this, the same in all of a group
        centred = given.original - means[group]
        best: FloatArray = np.abs(centred[:, known, None] * slopes[group] - centred)
        three = np.flatnonzero((sizes[group] == 3) & (rank[group] == 2) & (square[group] > 0))
        if not len(three):
            return best
        its = group[three]
        u = a_per_square[its] * centred[three, known, None]
        turned = np.zeros_like(u)
        turned[:, 0], turned[:, 1] = -a[its, 1], a[its, 0]
        turned *= np.sqrt(np.maximum(2 / 3 - (u**2).sum(axis=1), 0.0) / square[its])[:, None]
        plane, rest = directions[its], centred[three]
        one, other = (np.abs(np.einsum("ir,irj->ij", u + way, plane) - rest) for way in (turned, -turned))
        best[three] = np.where(((one**2).sum(axis=1) <= (other**2).sum(axis=1))[:, None], one, other)
        return best

    return errors


def _group_directions(given: _Attacked) -> tuple[FloatArray, IntArray]:
    """diag(s) Vᵀ of each released group, padded with zeros, and its rank."""
    centred = given.released - given.means(given.released)[given.group]
    sizes, width = given.sizes, centred.shape[1]
    directions = np.zeros((len(sizes), max(1, min(int(sizes.max()) - 1, width)), width))
    rank = np.zeros(len(sizes), dtype=np.int64)
    for size in np.unique(sizes[sizes > 1]):
        groups = np.flatnonzero(sizes == size)
        step = max(1, _CHUNK // int(size * width))
        for at in range(0, len(groups), step):
            some = groups[at : at + step]
            rows = given.order[given.starts[some][:, None] + np.arange(size)]
            _, s, vt = np.linalg.svd(centred[rows], full_matrices=False)
            # Equal records differ by rounding, which is no direction.
            rounding = 1e-12 * np.abs(given.released[rows]).max(axis=(1, 2))[:, None]
            s[s <= np.maximum(_NOTHING * s[:, :1], rounding)] = 0.0
            used = min(directions.shape[1], s.shape[1])
            directions[some, :used] = s[:, :used, None] * vt[:, :used]
            rank[some] = (s > 0).sum(axis=1)
    return directions, rank


# --- What the attacks on known groups have in common: checked input, another group for each, counts within tolerances -

# Tolerances of the curves, in units of the features
STEPS = (1e-9, 1e-6, 1e-4, 1e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)


@dataclass(frozen=True)
class _Attacked:
    """Whole groups, original and released."""

    original: FloatArray  # Features, shape (n_rows, width)
    released: FloatArray  # Likewise
    group: IntArray  # Group of each row, 0 to n_groups - 1, shape (n_rows,)
    order: IntArray  # `order` and `starts` are as from `anonpipe.kernels.points.sort_groups`
    starts: IntArray
    tolerance: float  # Largest error of a recovered value
    records: int  # That there are, of which these are some or all

    @classmethod
    def of(cls, groups: WholeGroups, tolerance: float, of: int | None) -> Self:
        """Groups that are numbered in any way."""
        group = np.unique(groups.labels, return_inverse=True)[1].reshape(-1).astype(np.int64)
        order, starts = sort_groups(group)
        total = len(group) if of is None else of
        return cls(groups.original, groups.released, group, order, starts, tolerance, total)

    @property
    def sizes(self) -> IntArray:
        """Records of each group, shape (n_groups,)."""
        return np.diff(self.starts)

    def sums(self, features: FloatArray) -> FloatArray:
        """Sum of the features of each group, shape (n_groups, width)."""
        return np.add.reduceat(features[self.order], self.starts[:-1], axis=0)

    def means(self, features: FloatArray) -> FloatArray:
        """Mean of the features of each group, shape (n_groups, width)."""
        return self.sums(features) / self.sizes[:, None]

    def tally(self) -> _RecoveryTally:
        """Nothing counted yet."""
        return _RecoveryTally(self.group, len(self.sizes), self.tolerance)


def others(n_groups: int, rng: np.random.Generator) -> IntArray:
    """For each group another one, each once, at random; a single group has only itself."""
    shuffled = rng.permutation(n_groups)
    other = np.empty(n_groups, dtype=np.int64)
    other[shuffled] = np.roll(shuffled, -1)
    return other


class _RecoveryTally:
    """Counts of errors within tolerances, and within one of them by group."""

    def __init__(self, group: IntArray, n_groups: int, tolerance: float) -> None:
        self._group, self._tolerance = group, tolerance
        self.hits = np.zeros(n_groups)
        self.trials = np.zeros(n_groups)
        self.within = np.zeros(len(STEPS))

    def add(self, errors: FloatArray) -> float:
        """Count errors of all records, shape (n_rows, some columns); returns the share within the tolerance."""
        near = (errors <= self._tolerance).sum(axis=1)
        self.hits += np.bincount(self._group, near, minlength=len(self.hits))
        self.trials += np.bincount(self._group, minlength=len(self.trials)) * errors.shape[1]
        self.within += [np.count_nonzero(errors <= step) for step in STEPS]
        return float(near.sum() / errors.size)

    @property
    def share(self) -> float:
        """Share within the tolerance."""
        return float(self.hits.sum() / self.trials.sum())

    @property
    def curve(self) -> tuple[float, ...]:
        """Share within each of `STEPS`."""
        return tuple(float(x) for x in self.within / self.trials.sum())
