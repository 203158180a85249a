"""What a local search for groups goes through: layout, annealing, descent."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from anonpipe.kernels.blocks import block_order
from anonpipe.kernels.groups import sort_groups
from anonpipe.methods.grouping._anneal_kernel import anneal, temperatures
from anonpipe.methods.grouping._combine_kernel import combine
from anonpipe.methods.grouping._near_kernel import both_ways, near_records
from anonpipe.methods.grouping._reform_kernel import reform
from anonpipe.methods.grouping._regroup_kernel import Groups, group_scatter, open_groups, settle
from anonpipe.methods.grouping._split_kernel import split_large
from anonpipe.methods.grouping._steps_kernel import descend
from anonpipe.types import FloatArray, IntArray

ListArray = npt.NDArray[np.int32]

LAYOUT_GROUPS = 64  # Groups whose records are kept side by side in memory

BLOCK_ROWS = 640  # Records of the blocks in which the search for near groups begins

# Mean allowance of the first and the last sweep, in units of a group's mean squared distance to its centroid
HOT, COLD = 0.5, 0.05

EVERY = 5  # Sweeps of steps before one of whole groups

FRESH = 1_000  # Sweeps after which near groups and temperatures are found again

# Sweeps times records of one call of the kernel, some tenths of a second: how often the time is watched
SLICE = 1_000_000

FINEST = 0.001  # Smallest share of all sweeps after which progress is told

LONG = 0.15  # Share of a start's sweeps that its first run takes, where there are several starts

SETTLING = 2  # Most descents at the end, each with near groups found again

LEAST = 1e-14  # Smallest gain of a step, in units of the mean squared distance to the mean of all records


@dataclass(frozen=True)
class Effort:
    """How far a local search goes."""

    runs: tuple[int, int]  # How often the groups are annealed: in large tables, and in small ones
    trials: int  # Runs times sweeps times records, for tables in between
    sweeps: int  # In each run; in a sweep every group tries one step
    near: int  # Near groups of each group
    draws: bool  # Whether the keys of the runs are drawn, else they are 0, 1, 2,
    # How often, at most, the given groups are begun with again. In large tables, where chance evens out, always once.
    starts: int = 1

    def plan(self, rows: int) -> tuple[int, int]:
        """Number of runs, over all starts, and of starts for so many records."""
        few, many = self.runs
        runs = min(many, max(few, self.trials // (rows * self.sweeps)))
        return runs, min(self.starts, runs // few)


EFFORTS = {
    "quick": Effort(runs=(4, 20), trials=400_000, sweeps=25, near=12, draws=False),
    "normal": Effort(runs=(40, 200), trials=4_000_000, sweeps=25, near=16, draws=False),
    "thorough": Effort(runs=(200, 24_000), trials=400_000_000, sweeps=25, near=24, draws=True, starts=4),
}


@dataclass
class Clock:
    """Sweeps done of all there are to do, and whether the time for them is over."""

    total: int
    progress: Callable[[float], None] | None
    seconds: float | None
    done: int = 0
    told: float = 0.0
    over: bool = False
    start: float = field(default_factory=time.perf_counter)

    def advance(self, sweeps: int) -> None:
        """Count sweeps, tell of them, and look at the time."""
        self.done += sweeps
        share = self.done / self.total
        if self.progress is not None and (share >= self.told + FINEST or share >= 1.0):
            self.progress(share)
            self.told = share
        if self.seconds is not None and time.perf_counter() - self.start >= self.seconds:
            self.over = True


def lay_out(features: FloatArray, labels: IntArray, k: int) -> tuple[FloatArray, IntArray, IntArray]:
    """Records in an order that keeps near groups together, all groups under 2k."""
    order, starts = sort_groups(labels)
    if np.diff(starts).max() >= 2 * k:
        labels = split_large(features, order, starts, k)
        order, starts = sort_groups(labels)
    centroids = np.add.reduceat(features[order], starts[:-1]) / np.diff(starts)[:, None]
    rank = np.empty(len(centroids), dtype=np.int64)
    rank[block_order(centroids, LAYOUT_GROUPS)[0]] = np.arange(len(centroids))
    home = rank[labels]
    order, _ = sort_groups(home)
    return features[order] - features.mean(axis=0), home[order], order


def near_groups(groups: Groups, count: int, block_rows: int) -> tuple[IntArray, ListArray]:
    """For each group the `count` groups of nearest centroid, and those that have it among theirs (`both_ways`)."""
    alive = np.flatnonzero(groups.sizes)
    block = block_rows * len(alive) // len(groups.home)
    starts, others = both_ways(near_records(groups.centroids[alive], count, block))
    all_starts = np.zeros(len(groups.sizes) + 1, dtype=np.int64)
    all_starts[alive + 1] = np.diff(starts)
    return np.cumsum(all_starts), alive[others].astype(np.int32)


def search(
    features: FloatArray,
    labels: IntArray,
    k: int,
    effort: Effort,
    rng: np.random.Generator | None = None,
    progress: Callable[[float], None] | None = None,
    seconds: float | None = None,
    block_rows: int = BLOCK_ROWS,
) -> tuple[IntArray, float]:
    """The groups found, and the share of the sweeps that was done; see `refine`."""
    x, home, order = lay_out(features, labels, k)
    groups = open_groups(x, home.copy(), k)
    least = LEAST * float(np.square(x).sum()) / len(x)
    runs, starts = effort.plan(len(x))
    keys = np.arange(runs, dtype=np.uint64)
    if effort.draws and rng is not None:
        keys = rng.integers(2**64, size=runs, dtype=np.uint64)
    clock = Clock(runs * effort.sweeps, progress, seconds)
    best, parts = home, group_scatter(groups)
    for first, last in pieces(runs, starts):
        reopen(groups, home)
        # Where there are several starts, a long run finds each a region of its own.
        longer = 1 if starts == 1 else max(1, int(LONG * (last - first)))
        for number in [first, *range(first + longer, last)]:
            if not clock.over:
                sweeps = effort.sweeps * (longer if number == first else 1)
                run_hot_and_down(groups, effort, sweeps, keys[number], least, block_rows, clock)
        reopen(groups, combine(best, parts, groups.home, group_scatter(groups)))
        best, parts = groups.home.copy(), group_scatter(groups)
    for _ in range(SETTLING):
        if not run_down(groups, *near_groups(groups, effort.near, block_rows), least):
            break
    found = np.empty(len(x), dtype=np.int64)
    found[order] = groups.home
    return by_first_record(found), clock.done / clock.total


def reopen(groups: Groups, home: IntArray) -> None:
    """Go over to the groups of `home`."""
    groups.home[:] = home
    settle(groups)


def run_hot_and_down(
    groups: Groups, effort: Effort, sweeps: int, key: np.uint64, least: float, block_rows: int, clock: Clock
) -> None:
    """One run: anneal, descend, and keep the better groups of before and after in every region."""
    before, parts = groups.home.copy(), group_scatter(groups)
    schedule = np.geomspace(HOT, COLD, sweeps)
    for low, high in pieces(sweeps, max(1, sweeps // FRESH)):
        near = near_groups(groups, effort.near, block_rows)
        heat = temperatures(groups)
        for first, last in pieces(high - low, max(1, (high - low) * len(groups.home) // SLICE)):
            if not clock.over:
                anneal(groups, *near, heat, schedule[low + first : low + last], low + first, EVERY, key)
                clock.advance(last - first)
    run_down(groups, *near, least)
    reopen(groups, combine(before, parts, groups.home, group_scatter(groups)))


def run_down(groups: Groups, starts: IntArray, others: ListArray, least: float) -> int:
    """Descend by steps, by changes of whole groups, and by steps again; how many whole groups were changed."""
    changed = np.ones(len(groups.sizes), dtype=np.int64)
    descend(groups, starts, others, changed, least)
    changed[:] = 0
    reformed = reform(groups, starts, others, changed, least)
    descend(groups, starts, others, changed, least)
    return int(reformed)


def by_first_record(labels: IntArray) -> IntArray:
    """The same groups, numbered in the order of their first records."""
    _, firsts, labels = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(firsts))[labels]


def pieces(length: int, count: int) -> list[tuple[int, int]]:
    """0 to `length` in `count` nearly equal pieces, less those that are empty."""
    cuts = [length * at // count for at in range(count + 1)]
    return [(a, b) for a, b in pairwise(cuts) if a < b]
