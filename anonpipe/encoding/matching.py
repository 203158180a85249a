"""Masked features decoded to values that have the covariance of the features.

Decoding loses covariance. A category is the place where a continuous score passes a threshold, and two columns that are
cut so are less correlated than their scores: -0.55 becomes -0.24 where categories are rare. Numbers that leave their
bounds are moved inside, and vary less. Where records are those of no persons both can be made up for: numbers are
spread about their mean until those inside the bounds have the wanted variance, and categories, positions of ordinals
and nulls are exchanged between records until they have the wanted covariances.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numba as nb
import numpy as np

from anonpipe.encoding.features import FeatureEncoder, Groups, NumberBlock, variance_inside
from anonpipe.types import BoolArray, FloatArray, IntArray

_ROUNDS = 40
_FEW = 1e-3
_CLOSE = 0.002
_WIDEST = 4.0


@dataclass(frozen=True)
class _Moving:
    """What records exchange: all of a category or ordinal, or of a number its values, or its nulls."""

    position: int  # Of the column among the cells
    # start, stop: its feature columns
    start: int
    stop: int
    part: Literal["all", "value", "null"]  # Which of these it is


def decode_matched(
    encoder: FeatureEncoder,
    features: FloatArray,
    cells: FloatArray,
    target: FloatArray,
    *,
    rng: np.random.Generator,
    numbers_too: bool = False,
) -> FloatArray:
    """Cells of masked features that are of no persons, with a wanted covariance.

    Every record gets the categories that fit it best, each category its count. Then, column by column and round by
    round, pairs of records are drawn and exchange their categories where the covariances come nearer to the wanted
    ones. As there is an indicator a category, these are the table of every two categorical columns and the means of
    every number by category.

    Shapes: features (n_rows, channels); cells (n_rows, n_cells); target (channels, channels).

    Notes
    -----
    Time: up to 40 rounds of n/2 pairs for each column that is exchanged, at the channels each; a round in which fewer
    than one record of a thousand moves is the last.
    """
    groups = Groups(np.arange(len(features)), np.array([0, len(features)]), False)
    spread = _spread(encoder, features)
    released = encoder.decode(spread, cells, groups.order, groups.starts, rng=rng, categories="calibrated")
    values, nulls = _numbers(encoder, spread, released, groups)
    decoded = _decoded(encoder, features, released, values)
    for moving, source in _exchanged(encoder, decoded, target, rng, numbers_too):
        if moving.part == "all":
            released[:, moving.position] = released[source, moving.position]
        elif moving.part == "value":
            values[moving.position] = values[moving.position][source]
        else:
            nulls[moving.position] = nulls[moving.position][source]
    for position, column in values.items():
        released[:, position] = np.where(nulls[position], np.nan, column)
    return released


def _spread(encoder: FeatureEncoder, features: FloatArray) -> FloatArray:
    """The points to decode, numbers spread so that they have their variance when they are inside their bounds."""
    made = np.ascontiguousarray(features[:, : encoder.width]).copy()
    for block in encoder.numbers:
        if not block.ordinal:
            made[:, block.start] = _widened(block, made[:, block.start].copy())
    return made


def _widened(block: NumberBlock, column: FloatArray) -> FloatArray:
    """A feature column about its mean, as wide as it must be to have its variance inside the bounds."""
    low, high = ((bound - block.mean) / block.sd for bound in block.bounds)
    wanted, centre = column.var(), column.mean()
    ordered = np.sort(column)  # once: however far values are spread, their order stays
    if variance_inside(ordered, low, high) >= wanted * (1.0 - 1e-6):
        return column
    narrow, wide = 1.0, _WIDEST
    for _ in range(20):  # the variance grows with the spread, up to that of values at the bounds alone
        middle = (narrow + wide) / 2
        enough = variance_inside(centre + middle * (ordered - centre), low, high) >= wanted
        narrow, wide = (narrow, middle) if enough else (middle, wide)
    return np.asarray(centre + narrow * (column - centre))


def _numbers(
    encoder: FeatureEncoder, features: FloatArray, released: FloatArray, groups: Groups
) -> tuple[dict[int, FloatArray], dict[int, BoolArray]]:
    """Of each number, by position, what every record has where it is no null, and which are nulls."""
    values, nulls, rng = {}, {}, np.random.default_rng(0)  # calibrated decoding draws nothing
    for block in encoder.numbers:
        if not block.ordinal:
            nulls[block.position] = np.isnan(released[:, block.position])
            whole = released if not nulls[block.position].any() else np.zeros(released.shape)
            values[block.position] = block.decode(features, whole, groups, rng, "calibrated")
    return values, nulls


def _decoded(
    encoder: FeatureEncoder, features: FloatArray, released: FloatArray, values: dict[int, FloatArray]
) -> FloatArray:
    """The features of the decoded cells, and what stands beside; nulls of ordinals at the mean of the others."""
    filled = released.copy()
    for position, column in values.items():
        filled[:, position] = column
    for block in encoder.numbers:
        missing = np.isnan(filled[:, block.position])
        if missing.any() and not missing.all():
            filled[missing, block.position] = filled[~missing, block.position].mean()
    return np.concatenate([encoder.encode(released, filled), features[:, encoder.width :]], axis=1)


def _exchanged(
    encoder: FeatureEncoder, decoded: FloatArray, target: FloatArray, rng: np.random.Generator, numbers_too: bool
) -> list[tuple[_Moving, IntArray]]:
    """What is exchanged, and whose each record takes; `decoded` is changed."""
    n, unit = len(decoded), _one_over(np.sqrt(np.clip(np.diag(target), 0.0, None)))
    every = _movable(encoder, numbers_too)
    sources = [np.arange(n) for _ in every]
    lack = np.ascontiguousarray((n - 1) * target - _scatter(decoded))
    between = _of_different_columns(encoder, len(target))
    columns = sorted({column for moving in every for column in range(moving.start, moving.stop)})
    for _ in range(_ROUNDS if n > 1 else 0):
        off = np.abs(lack * np.outer(unit, unit) * between)[columns]
        if off.max(initial=0.0) <= _CLOSE * (n - 1):
            break
        made = 0
        for moving, source in zip(every, sources, strict=True):
            pairs = rng.permutation(n)[: n - n % 2].reshape(-1, 2)
            made += exchange(decoded, moving.start, moving.stop, pairs, lack, unit, source)
        if made <= _FEW * n:
            break
    return list(zip(every, sources, strict=True))


def _movable(encoder: FeatureEncoder, numbers_too: bool) -> list[_Moving]:
    """What is exchanged, with its feature columns."""
    found = []
    for number in encoder.numbers:
        if number.ordinal:
            found.append(_Moving(number.position, number.start, number.stop, "all"))
            continue
        if numbers_too:
            found.append(_Moving(number.position, number.start, number.start + 1, "value"))
        found.append(_Moving(number.position, number.start + 1, number.stop, "null"))
    found.extend(_Moving(block.position, block.start, block.stop, "all") for block in encoder.categories)
    return [moving for moving in found if moving.stop > moving.start]


def _scatter(features: FloatArray) -> FloatArray:
    centred = features - features.mean(axis=0)
    return np.asarray(centred.T @ centred)


def _one_over(values: FloatArray) -> FloatArray:
    return np.divide(1.0, values, out=np.zeros_like(values), where=values > 1e-9)


def _of_different_columns(encoder: FeatureEncoder, channels: int) -> BoolArray:
    """Pairs of feature columns that belong to different columns of the table."""
    owner = np.arange(channels)
    for number in encoder.numbers:
        if number.ordinal:
            owner[number.start : number.stop] = number.start
    for category in encoder.categories:
        owner[category.start : category.stop] = category.start
    return np.asarray(owner[:, None] != owner[None, :])


# --- Values of one column exchanged between records until the column has wanted covariances with all others -----------


@nb.njit(cache=True, nogil=True)
def exchange(
    features: FloatArray, start: int, stop: int, pairs: IntArray, lack: FloatArray, unit: FloatArray, source: IntArray
) -> int:
    """Exchange columns start..stop between the records of each pair where that brings the scatter nearer.

    Nearer in the sum of squares of what it lacks, in units of the columns. An exchange keeps every column's values,
    hence means and variances.

    Shapes: pairs (n_pairs, 2); lack (width, width); unit (width,); source (n,).
    """
    width, made = features.shape[1], 0
    for p in range(len(pairs)):
        r, s = pairs[p, 0], pairs[p, 1]
        change = 0.0
        for j in range(start, stop):
            d = features[r, j] - features[s, j]
            if d != 0.0:
                for h in range(width):
                    if h < start or h >= stop:
                        e = d * (features[s, h] - features[r, h])
                        change += (unit[j] * unit[h]) ** 2 * e * (e - 2.0 * lack[j, h])
        if change >= 0.0:
            continue
        for j in range(start, stop):
            d = features[r, j] - features[s, j]
            if d != 0.0:
                for h in range(width):
                    if h < start or h >= stop:
                        lack[j, h] -= d * (features[s, h] - features[r, h])
                        lack[h, j] = lack[j, h]
                features[r, j], features[s, j] = features[s, j], features[r, j]
        source[r], source[s] = source[s], source[r]
        made += 1
    return made
