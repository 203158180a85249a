"""What the attacks on known groups have in common: checked input, another group for each, counts within tolerances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anonpipe.errors import InputError, JobError
from anonpipe.evaluate.utility._check import checked_tables
from anonpipe.kernels.groups import sort_groups
from anonpipe.types import FloatArray, IntArray

# Tolerances of the curves, in units of the features
STEPS = (1e-9, 1e-6, 1e-4, 1e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)


@dataclass(frozen=True)
class Attacked:
    """Whole groups, original and released."""

    # original, released: features, shape (n_rows, width)
    original: FloatArray
    released: FloatArray
    group: IntArray  # Group of each row, 0 to n_groups - 1, shape (n_rows,)
    # order, starts: as from `anonpipe.kernels.groups.sort_groups`
    order: IntArray
    starts: IntArray
    names: tuple[str, ...]  # Of the columns
    of: int  # Records that there are, of which these are some or all

    @property
    def sizes(self) -> IntArray:
        """Records of each group, shape (n_groups,)."""
        return np.diff(self.starts)

    @property
    def sampled(self) -> bool:
        """Whether there are more records than these."""
        return len(self.group) < self.of

    def sums(self, features: FloatArray) -> FloatArray:
        """Sum of the features of each group, shape (n_groups, width)."""
        return np.add.reduceat(features[self.order], self.starts[:-1], axis=0)

    def means(self, features: FloatArray) -> FloatArray:
        """Mean of the features of each group, shape (n_groups, width)."""
        return self.sums(features) / self.sizes[:, None]


def attacked(
    original: npt.ArrayLike,
    released: npt.ArrayLike,
    labels: npt.ArrayLike,
    tolerance: float,
    names: Sequence[str] | None,
    of: int | None,
) -> Attacked:
    """Check what was given."""
    old, new = checked_tables(original, released, least_rows=1)
    given = np.asarray(labels)
    if len(old) != len(new):
        raise InputError(f"there are {len(old)} original and {len(new)} released records; give whole groups of both")
    if given.shape != (len(old),) or not np.issubdtype(given.dtype, np.integer):
        raise InputError(
            f"labels has shape {given.shape} and type {given.dtype}; give whole numbers of shape ({len(old)},)"
        )
    if not (np.isfinite(tolerance) and tolerance >= 0):
        raise JobError(f"tolerance={tolerance} was given; give 0 or a positive number, in units of the features")
    group = np.unique(given, return_inverse=True)[1].reshape(-1).astype(np.int64)
    order, starts = sort_groups(group)
    return Attacked(
        old, new, group, order, starts, column_names(names, old.shape[1]), records_of(of, len(old), "records attacked")
    )


def column_names(names: Sequence[str] | None, width: int) -> tuple[str, ...]:
    """`names`, or made-up ones."""
    if names is None:
        return tuple(f"column {at}" for at in range(width))
    if len(names) != width:
        raise JobError(f"{len(names)} names were given for {width} columns; give one for each")
    return tuple(names)


def records_of(of: int | None, given: int, what: str) -> int:
    """`of`, or the number given."""
    if of is None:
        return given
    if of < given:
        raise JobError(f"of={of} was given for {given} {what}; give the number that there are, {given} or more")
    return of


def others(n_groups: int, rng: np.random.Generator) -> IntArray:
    """For each group another one, each once, at random; a single group has only itself."""
    shuffled = rng.permutation(n_groups)
    other = np.empty(n_groups, dtype=np.int64)
    other[shuffled] = np.roll(shuffled, -1)
    return other


class Tally:
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
        # Errors up to a step, not below it: the left side of equal ones.
        first = np.searchsorted(np.array(STEPS), errors.ravel(), side="left")
        self.within += np.cumsum(np.bincount(first, minlength=len(STEPS) + 1)[: len(STEPS)])
        return float(near.sum() / errors.size)

    @property
    def share(self) -> float:
        """Share within the tolerance."""
        return float(self.hits.sum() / self.trials.sum())

    @property
    def curve(self) -> tuple[float, ...]:
        """Share within each of `STEPS`."""
        return tuple(float(x) for x in self.within / self.trials.sum())
