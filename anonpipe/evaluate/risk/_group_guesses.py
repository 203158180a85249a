"""How an attacker who knows the group and one attribute guesses the others: errors of all records at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from anonpipe.evaluate.risk._groups import Attacked
from anonpipe.types import FloatArray, IntArray

# `guesser(known column, group attacked for each record)` -> errors of all columns, shape (n_rows, width)
Guesser = Callable[[int, IntArray], FloatArray]

_NOTHING = 1e-9  # Share of a group's largest spread below which a direction or a column does not vary in it

_CHUNK = 4_000_000  # Numbers held at once for the groups' scatters (32 MB)


def by_closest(given: Attacked) -> Guesser:
    """The released record of the attacked group that is closest in the known column."""

    def errors(known: int, group: IntArray) -> FloatArray:
        values = given.released[:, known]
        rows = closest_in_group(values, given.group, given.original[:, known], group)
        return np.asarray(np.abs(given.released[rows] - given.original))

    return errors


def by_mean(given: Attacked) -> Guesser:
    """The mean of the attacked group's released records."""
    means = given.means(given.released)

    def errors(known: int, group: IntArray) -> FloatArray:
        return np.asarray(np.abs(means[group] - given.original))

    return errors


def closest_in_group(values: FloatArray, groups: IntArray, asked: FloatArray, asked_groups: IntArray) -> IntArray:
    """For each number asked, the row of the closest value of its group; equally close: the lower row.

    Shapes: values, groups (n_rows,).

    Examples
    --------
    >>> closest_in_group(np.array([1.0, 3.0, 9.0]), np.array([0, 0, 1]), np.array([2.0, 2.5, 0.0]), np.array([0, 0, 1]))
    array([0, 1, 2])
    """
    n = len(values)
    # Values and numbers asked in one order, by group; equal ones: values first, the lower row first.
    number = np.concatenate([values, asked])
    where = np.concatenate([groups, asked_groups])
    asks = np.arange(len(number)) >= n
    order = np.lexsort((np.arange(len(number)), asks, number, where))
    place = np.arange(len(order))
    is_value = order < n
    # A run of equal values of one group is known by its first, the lowest row.
    new_run = (
        is_value
        & np.r_[
            True, (number[order][1:] != number[order][:-1]) | (where[order][1:] != where[order][:-1]) | ~is_value[:-1]
        ]
    )
    before = np.maximum.accumulate(np.where(new_run, place, -1))
    after = np.minimum.accumulate(np.where(new_run, place, len(order))[::-1])[::-1]
    at = place[~is_value]
    query = order[at]
    rows = []
    for found in (before[at], after[at]):
        inside = (found >= 0) & (found < len(order))
        row = order[np.where(inside, found, 0)]
        fits = inside & (where[row] == where[query])
        rows.append((row, np.where(fits, np.abs(number[row] - number[query]), np.inf)))
    (low, below), (high, above) = rows
    out = np.empty(len(asked), dtype=np.int64)
    out[query - n] = np.where((above < below) | ((above == below) & (high < low)), high, low)
    return out


def by_moments(given: Attacked) -> Guesser:
    """The record that the moments of the released group and the known value leave."""
    means = given.means(given.released)
    directions, rank = group_directions(given)
    sizes, width, spread = given.sizes, means.shape[1], (directions**2).sum(axis=(1, 2))
    chunk = max(1, _CHUNK // (directions.shape[1] * width))

    def some(known: int, rows: IntArray, group: IntArray) -> FloatArray:
        a = directions[group][:, :, known]
        c = given.original[rows, known] - means[group, known]
        square = (a * a).sum(axis=1)
        square[square <= _NOTHING**2 * spread[group]] = 0.0
        # A column that does not vary in the group tells nothing: its mean is all there is to guess from.
        u = a * np.divide(c, square, out=np.zeros_like(c), where=square > 0)[:, None]
        centred = given.original[rows] - means[group]
        best: FloatArray = np.abs(np.einsum("ir,irj->ij", u, directions[group]) - centred)
        three = np.flatnonzero((sizes[group] == 3) & (rank[group] == 2) & (square > 0))
        if not len(three):
            return best
        turned = np.zeros((len(three), directions.shape[1]))
        turned[:, 0], turned[:, 1] = -a[three, 1], a[three, 0]
        left = np.sqrt(np.maximum(2 / 3 - (u[three] ** 2).sum(axis=1), 0.0) / square[three])
        turned *= left[:, None]
        one, other = (
            np.abs(np.einsum("ir,irj->ij", u[three] + way, directions[group[three]]) - centred[three])
            for way in (turned, -turned)
        )
        nearer = (one**2).sum(axis=1) <= (other**2).sum(axis=1)
        best[three] = np.where(nearer[:, None], one, other)
        return best

    def errors(known: int, group: IntArray) -> FloatArray:
        rows = np.arange(len(group))
        parts = [some(known, rows[at : at + chunk], group[at : at + chunk]) for at in range(0, len(group), chunk)]
        return np.concatenate(parts)

    return errors


def group_directions(given: Attacked) -> tuple[FloatArray, IntArray]:
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
