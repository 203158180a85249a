"""Masked features decoded to values that have the covariance of the features.

Decoding loses covariance: two columns that are cut to categories are less correlated than their scores (-0.55 becomes
-0.24 where categories are rare), and numbers that are moved inside their bounds vary less. Where records are synthetic
both can be corrected: numbers are spread about their mean until those inside the bounds have the wanted variance, and
categories, positions of ordinals and nulls are exchanged between records until they have the wanted covariances. Where
one follows from the other (a child is under 16), records are chosen by what they would gain.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from anonpipe.encoding.features import CategoryBlock, FeatureEncoder, Groups, NumberBlock, variance_inside
from anonpipe.encoding.scores import ScoredColumn, Scores
from anonpipe.kernels.compiled import kernel
from anonpipe.kernels.mixture import moments_by_group
from anonpipe.kernels.points import places, sort_groups
from anonpipe.methods.masking import DrawnSample
from anonpipe.types import BoolArray, FloatArray, IntArray

_ROUNDS = 40  # Most rounds of exchanges between random records
_FEW = 1e-3  # Exchanges per record below which a round is the last
_SLOW = 0.96  # Part of the sum of squares that such a round leaves at most, or chosen records follow
_CLOSE = 0.002  # Error of the worst correlation at which these rounds end
_CHOSEN = 40  # Most rounds of exchanges between chosen records
_FAR = 0.01  # Columns whose correlations all have at most this error take no part in these
_GAIN = 0.98  # Part of the sum of squares that such a round leaves at most; else numbers join in, or it is the last
_HEAVY = 0.05  # Values with at least this share of the records, such as 0, are not exchanged
# Values of a column with this variance inflation factor are not exchanged: it would not follow from others any more
_INFLATED = 10.0
_WIDEST = 4.0  # Largest factor by which numbers are spread


@dataclass(frozen=True)
class _Exchangeable:
    """Feature columns that records exchange: those of a category or ordinal, or the values or the nulls of a number."""

    position: int  # Of the column among the cells
    # start, stop: its feature columns
    start: int
    stop: int
    part: Literal["all", "value", "null"]


_Items = list[tuple[_Exchangeable, IntArray]]  # With the record that each record takes its values from


def decode_matched(
    encoder: FeatureEncoder,
    features: FloatArray,
    cells: FloatArray,
    target: FloatArray,
    *,
    rng: np.random.Generator,
    numbers_too: bool = False,
    mean_scores: Mapping[int, FloatArray] = MappingProxyType({}),
    groups: Groups | None = None,
    least: int = 0,
) -> FloatArray:
    """Decode features of synthetic records to cells that have a wanted covariance.

    Every record gets the categories that fit it best, each category its count in each group (None: all are one). Then,
    column by column and round by round, pairs of records exchange their categories where the covariances come nearer
    to the wanted ones: first inside the groups, whose features have those of each, then among all. With an
    indicator a category, these are the tables of every two categorical columns and the means of numbers by category.
    In groups, cells of fewer than `least` records are drawn, and numbers do not follow such categories.
    `mean_scores` replaces some channels in the covariances by mean scores of the values that a rank gets.

    Shapes: features (n_rows, channels); cells (n_rows, n_cells); target (channels, channels). Time: up to 40 rounds of
    n/2 random pairs for each column, the last being that in which under one record of a thousand moves. Then up to 40
    rounds of chosen pairs for columns of which a correlation is still off by 0.01; they sort the records.
    """
    everyone = Groups.one(len(features))
    groups = groups or everyone
    released, values, nulls = _decoded_by_column(encoder, features, cells, groups, rng)
    decoded = _decoded(encoder, features, released, values)
    for channel, column in mean_scores.items():
        decoded[:, channel] = column
    n, deviations = len(decoded), np.sqrt(np.clip(np.diag(target), 0.0, None))
    unit = np.divide(1.0, deviations, out=np.zeros_like(deviations), where=deviations > 1e-9)
    units = np.outer(unit, unit)
    between = _of_different_columns(encoder, len(target)) * units / max(1, n - 1)
    items, others = _items(encoder, target * units, n, numbers_too, mean_scores)
    if len(groups.sizes) > 1:
        wanted = features.copy()
        for channel, column in mean_scores.items():
            wanted[:, channel] = column
        lacking = _lacking_in_groups(decoded, wanted, groups, least, rng)
        del wanted  # as large as all channels
        _Exchanges(decoded, groups, lacking, unit, between).at_random(items, rng)
    centred = decoded - decoded.mean(axis=0)
    lacking = np.ascontiguousarray(((n - 1) * target - centred.T @ centred)[None])
    del centred
    exchanges = _Exchanges(decoded, everyone, lacking, unit, between)
    exchanges.at_random(items, rng)
    exchanges.chosen(items, others, rng)
    columns: dict[str, Any] = {"all": released.T, "value": values, "null": nulls}
    for item, source in items + others:
        columns[item.part][item.position] = columns[item.part][item.position][source]
    for position, column in values.items():
        released[:, position] = np.where(nulls[position], np.nan, column)
    return released


def _decoded_by_column(
    encoder: FeatureEncoder, features: FloatArray, cells: FloatArray, groups: Groups, rng: np.random.Generator
) -> tuple[FloatArray, dict[int, FloatArray], dict[int, BoolArray]]:
    """Cells decoded column by column; values and nulls of numbers, by position: a null has the value it would have."""
    spread = np.ascontiguousarray(features[:, : encoder.width]).copy()
    for number in encoder.numbers:  # so that they have their variance once they are inside their bounds
        if not number.ordinal:
            spread[:, number.start] = _widened(number, spread[:, number.start].copy())
    released = encoder.decode(spread, cells, groups, rng=rng)
    values, nulls, everyone = {}, {}, Groups.one(len(features))
    for number in encoder.numbers:
        if not number.ordinal:
            at, unused = number.position, np.random.default_rng(0)  # calibrated decoding draws nothing
            nulls[at] = np.isnan(released[:, at])
            whole = np.zeros(released.shape) if nulls[at].any() else released
            values[at] = number.decode(spread, whole, everyone, unused, "calibrated")
    return released, values, nulls


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


def _decoded(
    encoder: FeatureEncoder, features: FloatArray, released: FloatArray, values: dict[int, FloatArray]
) -> FloatArray:
    """Features of the decoded cells and conditioning channels; nulls of ordinals are at the mean of the others."""
    filled = released.copy()
    for position, column in values.items():
        filled[:, position] = column
    for block in encoder.numbers:
        missing = np.isnan(filled[:, block.position])
        if missing.any() and not missing.all():
            filled[missing, block.position] = filled[~missing, block.position].mean()
    return np.concatenate([encoder.encode(released, filled), features[:, encoder.width :]], axis=1)


@dataclass(frozen=True, eq=False)
class _Exchanges:
    """Exchanges of categories, values and nulls between records, which bring covariances of groups nearer."""

    decoded: FloatArray  # Features of the decoded records, which change with each exchange, shape (n_rows, n_channels)
    groups: Groups  # Of these records
    residual: FloatArray  # What the scatter of each group lacks, shape (n_groups, n_channels, n_channels)
    unit: FloatArray  # 1 over the standard deviation of each channel, shape (n_channels,)
    between: FloatArray  # Multipliers of a scatter that make correlations of different columns, the others 0

    def errors(self, items: _Items) -> FloatArray:
        """Errors of correlations of some columns; of groups together the root of their sum of squares."""
        columns = sorted({column for item, _ in items for column in range(item.start, item.stop)})
        return np.asarray((np.sqrt(np.square(self.residual).sum(axis=0)) * self.between)[columns])

    def at_random(self, items: _Items, rng: np.random.Generator) -> None:
        """Exchanges between random pairs of a group, round by round."""
        n, least, labels = len(self.decoded), np.inf, self.groups.spread(np.arange(len(self.groups.sizes)))
        for _ in range(_ROUNDS if n > 1 else 0):
            left = self.errors(items)
            if left.max(initial=0.0) <= _CLOSE or np.square(left).sum() > _SLOW * least:
                return
            least, made = float(np.square(left).sum()), 0
            for item, source in items:
                made += self.exchange(item, _random_pairs(labels, rng), source, labels)
            if made <= _FEW * n:
                return

    def chosen(self, items: _Items, others: _Items, rng: np.random.Generator) -> None:
        """Exchanges between chosen pairs of all records; `others` join in where these do not suffice."""
        joined, least, labels = items, np.inf, np.zeros(len(self.decoded), dtype=np.int64)
        for _ in range(_CHOSEN if len(labels) > 1 else 0):
            left = self.errors(joined)
            if left.max(initial=0.0) <= _FAR:
                return
            if np.square(left).sum() > _GAIN * least:
                if len(joined) > len(items) or not others:
                    return
                joined, left = items + others, self.errors(items + others)
            least = float(np.square(left).sum())
            for item, source in joined:
                if self.errors([(item, source)]).max() > _FAR:
                    pairs = _chosen(self.decoded, item, self.residual[0], self.unit, rng)
                    self.exchange(item, pairs, source, labels)

    def exchange(self, item: _Exchangeable, pairs: IntArray, source: IntArray, labels: IntArray) -> int:
        """How many of some pairs exchanged."""
        return exchange(self.decoded, item.start, item.stop, pairs, labels, self.residual, self.unit, source)


def _items(
    encoder: FeatureEncoder, correlations: FloatArray, rows: int, numbers_too: bool, scored: Collection[int]
) -> tuple[_Items, _Items]:
    """What is exchanged from the first round on, and values that join in where it does not suffice."""
    inflation = np.diag(np.linalg.inv(correlations + _LEAST * np.eye(len(correlations))))
    found, later = [], []
    for number in encoder.numbers:
        if number.ordinal:
            found.append(_Exchangeable(number.position, number.start, number.stop, "all"))
            continue
        value = _Exchangeable(number.position, number.start, number.start + 1, "value")
        if number.start in scored and inflation[number.start] < _INFLATED:
            later.append((value, np.arange(rows)))
        nulls = _Exchangeable(number.position, number.start + 1, number.stop, "null")
        found += [value, nulls] if numbers_too else [nulls]
    found += [_Exchangeable(block.position, block.start, block.stop, "all") for block in encoder.categories]
    return [(item, np.arange(rows)) for item in found if item.stop > item.start], later


def _lacking_in_groups(
    decoded: FloatArray, wanted: FloatArray, groups: Groups, least: int, rng: np.random.Generator
) -> FloatArray:
    """What each group's scatter lacks, small cells being drawn; shape (n_groups, n_channels, n_channels)."""
    (means, aims), (made, found) = (moments_by_group(each, groups.order, groups.starts) for each in (wanted, decoded))
    codes = np.flatnonzero((np.abs(decoded) == 1.0).all(axis=0))  # of categories and nulls
    numbers, rows = np.setdiff1d(np.arange(means.shape[1]), codes), groups.sizes[:, None]
    before, after = ((1.0 + each[:, codes]) / 2 * rows for each in (means, made))
    pairs, others = (np.ix_(np.arange(len(aims)), each, codes) for each in (codes, numbers))
    aims[pairs] = 4.0 * associations(before, after, aims[pairs] / 4.0, groups.sizes, least, rng)
    few = np.minimum(before, rows - before) < least - 0.5
    ratio = _ratio(after * (rows - after), before * (rows - before))[:, None]
    # Means of a number by category stay, however many records these have; those by rare categories stay as decoded
    aims[others] = np.where(few[:, None], found[others], aims[others] * ratio)
    aims.transpose(0, 2, 1)[others] = aims[others]
    return aims - found


def associations(
    before: FloatArray, after: FloatArray, aims: FloatArray, sizes: IntArray, least: int, rng: np.random.Generator
) -> FloatArray:
    """How many records more two categories have together in each group than their counts `after` lead to expect.

    Of their four cells the smallest keeps its ratio to what counts lead to expect: what follows from another category
    then follows from it by new counts, too. Where a cell has fewer than `least` records, the smallest is drawn by the
    ratio of all groups together.

    Shapes: before, after (n_groups, n_codes); aims, by counts `before`, (n_groups, n_codes, n_codes); sizes (n_groups,)
    """
    cells = list(zip((1.0, -1.0, -1.0, 1.0), _expected(before, sizes), _expected(after, sizes), strict=True))
    few = np.min([was + sign * aims for sign, was, _ in cells], axis=0) < least - 0.5
    smallest, signs, found = np.full(aims.shape, np.inf), np.ones(aims.shape), np.zeros(aims.shape)
    for sign, was, now in cells:
        count = was + sign * aims
        ratio = np.where(few, _ratio(count.sum(axis=0), was.sum(axis=0)), _ratio(count, was))
        likely = np.maximum(now * ratio, 0.0)
        here = likely < smallest - 1e-9  # of cells that are equal but for rounding the first
        smallest[here], signs[here], found[here] = likely[here], sign, sign * (likely - now)[here]
    smallest[~few] = 0.0
    upper = np.triu(found + signs * (rng.poisson(smallest) - smallest), 1)  # one draw of two categories
    return np.asarray(upper + upper.transpose(0, 2, 1))


def _expected(counts: FloatArray, sizes: IntArray) -> list[FloatArray]:
    """Records that counts lead to expect with both of two categories, one, the other, and none."""
    one, other, rows = counts[:, :, None], counts[:, None], np.maximum(sizes, 1)[:, None, None]
    return [left * right / rows for left in (one, rows - one) for right in (other, rows - other)]


def _ratio(counts: FloatArray, expected: FloatArray) -> FloatArray:
    """Counts over what is expected; 1 where that is nothing."""
    return np.divide(counts, expected, out=np.ones_like(expected), where=expected > 1e-9)


def _random_pairs(labels: IntArray, rng: np.random.Generator) -> IntArray:
    """Records in pairs at random, each with one of the same label, shape (n_pairs, 2)."""
    order = rng.permutation(len(labels))
    grouped, starts = sort_groups(labels[order])
    order, (_, place) = order[grouped], places(np.diff(starts))
    first = np.flatnonzero((place[:-1] % 2 == 0) & (place[1:] > 0))
    return np.stack([order[first], order[first + 1]], axis=1)


def _chosen(
    decoded: FloatArray, item: _Exchangeable, residual: FloatArray, unit: FloatArray, rng: np.random.Generator
) -> IntArray:
    """Pairs of a random half of the records that gain most by an exchange of some columns, shape (n_pairs, 2)."""
    # Records r and s gain about (x_r - x_s)(w_s - w_r): x is exchanged, w sums others, each times its residual with x.
    inside = slice(item.start, item.stop)
    weight = residual[inside] * np.outer(np.square(unit[inside]), np.square(unit))
    weight[:, inside] = 0.0
    half = np.flatnonzero(rng.random(len(decoded)) < 0.5)
    own, others = decoded[half, inside], decoded[half] @ weight.T
    if item.part == "value":
        pairs = _opposite(own[:, 0], others[:, 0])
    else:
        sums = own @ rng.normal(size=own.shape[1])  # which distinguish levels
        _, first, level = np.unique(sums, return_index=True, return_inverse=True)
        order = rng.permutation(len(first))
        found = [
            _gaining(others @ (own[first[b]] - own[first[a]]), np.flatnonzero(level == a), np.flatnonzero(level == b))
            for a, b in zip(order[: len(order) - 1 : 2], order[1::2], strict=True)
        ]
        pairs = np.concatenate([np.empty((0, 2), dtype=np.int64), *found])
    return np.ascontiguousarray(half[pairs])


def _gaining(gain: FloatArray, one: IntArray, other: IntArray) -> IntArray:
    """Pairs of records of two levels: those of the first gain most, those of the second lose least."""
    one, other = one[np.argsort(-gain[one], kind="stable")], other[np.argsort(gain[other], kind="stable")]
    pairs = np.stack([one[: len(other)], other[: len(one)]], axis=1)
    return pairs[gain[pairs[:, 0]] > gain[pairs[:, 1]]]


def _opposite(own: FloatArray, others: FloatArray) -> IntArray:
    """Pairs of records: given the other columns, the number of the first should be lower and of the second higher."""
    _, which, counts = np.unique(own, return_inverse=True, return_counts=True)
    light = np.flatnonzero(counts[which] < _HEAVY * len(own))
    spread = own[light].std() * others[light].std() if len(light) else 0.0
    if spread <= 0.0:
        return np.empty((0, 2), dtype=np.int64)
    excess = own[light] / own[light].std() - others[light] / others[light].std()
    order = light[np.argsort(-excess, kind="stable")]
    pairs = np.stack([order[: len(order) // 2], order[::-1][: len(order) // 2]], axis=1)
    gained = (own[pairs[:, 0]] - own[pairs[:, 1]]) * (others[pairs[:, 1]] - others[pairs[:, 0]])
    return pairs[gained > 0.0]


def _of_different_columns(encoder: FeatureEncoder, channels: int) -> BoolArray:
    """Pairs of feature columns that belong to different columns of the table."""
    owner = np.arange(channels)
    blocks: list[NumberBlock | CategoryBlock] = [number for number in encoder.numbers if number.ordinal]
    for block in blocks + list(encoder.categories):
        owner[block.start : block.stop] = block.start
    return np.asarray(owner[:, None] != owner[None, :])


# --- Values of one column exchanged between records until the column has wanted covariances with all others -----------


@kernel
def exchange(
    features: FloatArray,
    start: int,
    stop: int,
    pairs: IntArray,
    labels: IntArray,
    residuals: FloatArray,
    unit: FloatArray,
    source: IntArray,
) -> int:
    """Exchange columns start..stop of each pair where that brings the scatter nearer, in squares of the residual.

    An exchange keeps the values of each column, hence means and variances. Shapes: pairs (n_pairs, 2), both of one
    label; labels, source (n,); residuals of each label (n_labels, width, width); unit (width,).
    """
    width, made = features.shape[1], 0
    for p in range(len(pairs)):
        r, s = pairs[p, 0], pairs[p, 1]
        residual, change = residuals[labels[r]], 0.0
        for j in range(start, stop):
            d = features[r, j] - features[s, j]
            if d != 0.0:
                for h in range(width):
                    if h < start or h >= stop:
                        e = d * (features[s, h] - features[r, h])
                        change += (unit[j] * unit[h]) ** 2 * e * (e - 2.0 * residual[j, h])
        if change >= 0.0:
            continue
        for j in range(start, stop):
            d = features[r, j] - features[s, j]
            if d != 0.0:
                for h in range(width):
                    if h < start or h >= stop:
                        residual[j, h] -= d * (features[s, h] - features[r, h])
                        residual[h, j] = residual[j, h]
                features[r, j], features[s, j] = features[s, j], features[r, j]
        source[r], source[s] = source[s], source[r]
        made += 1
    return made


# --- Masked scores whose values have the wanted covariances (NORTA: normal to anything, Cario & Nelson 1997)
# Values are assigned by the ranks of masked scores, and records of one value have one score: its mean score
# (`Ranks.mean_scores`), a step function of the rank. Mean scores have smaller covariances than scores where values are
# tied, and other ones where scores are not normal. Masks preserve the covariances of the original's mean scores. The
# release has them by a linear map of the masked scores, near the identity, and by categories that are matched to mean
# scores.

SAMPLE_ROWS = 40_000  # Records of a scope that the map is learned from; all, if they are fewer
_KNOTS = np.linspace(0.0, 1.0, 2_001)  # Positions at which the distribution of masked scores is kept
_STEPS = 12  # Most steps of the search for the map

_HALVED = 0.7  # Part of the loss that a step leaves at most, or the next are smaller
_STUCK = 0.03  # Error of a correlation from which on full steps follow, whatever each gains
_FULL_STEPS = 16

_TURNS = 12  # Of each search for what covariates add to survival times
_FEW_EVENTS = 4.0  # Divided by the records it is the weight of slopes of the scale, so that it stays near 1 for few

_LEAST = 1e-4  # Variance that is added in each direction: one with less hardly counts, and no matrix is singular


@dataclass(frozen=True, eq=False)
class TimeRegression:
    """The regression of a survival time's scores on all other channels: what a Cox model sees of them.

    A linear map keeps covariances with the covariates, but not that errors are those of a hazard. So the errors of
    masked records go by rank to those of the original ones, times a scale that is linear in the covariates, and the
    released covariates add theirs. Slopes and scale are such that the covariates keep their covariances with the
    times' scores and, as the score of a Cox model has these, with their residuals (Cox & Snell 1968).
    """

    position: int  # Of the column among the cells
    channel: int  # Where it stands among the channels
    # slopes, added: what is taken from masked scores, and added to errors; 0 for its own channel, and the intercept
    # last, shape (n_channels + 1,). They differ as values go by the ranks of the sums.
    slopes: FloatArray
    added: FloatArray
    scaled: FloatArray  # By the same covariates the scale of errors, of mean 1
    # masked, original: errors at `_KNOTS`
    masked: FloatArray
    original: FloatArray

    @classmethod
    def fit(cls, position: int, channel: int, unit: float, masked: FloatArray, original: FloatArray) -> TimeRegression:
        """That of records of shape (n_rows, n_channels); `unit` of scores in log hazards."""
        centre, spread = original.mean(axis=0), original.std(axis=0)
        units = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 1e-9)
        units[channel] = 0.0
        seen, covariates = ((each - centre) * units for each in (original, masked))
        scores, mean = original[:, channel], centre[channel]
        slopes = _least_squares(seen) @ scores
        of_masked, of_original = masked[:, channel] - mean - covariates @ slopes, scores - mean - seen @ slopes
        knots = np.quantile(of_masked, _KNOTS), np.quantile(of_original, _KNOTS)
        errors, wanted = np.interp(of_masked, *knots), seen.T @ np.exp(unit * of_original) / len(seen)
        inverse = _least_squares(covariates)
        search = _Search(covariates, inverse, errors, np.sort(scores) - mean, unit, slopes, wanted)
        added, scale = search.added_and_scale()

        def of_channels(standard: FloatArray, at_centre: float) -> FloatArray:
            return np.append(standard * units, at_centre - centre @ (standard * units))

        added = of_channels(search.added(added, scale), mean)
        return cls(position, channel, of_channels(slopes, mean), added, of_channels(scale, 1.0), *knots)

    def errors(self, masked: FloatArray) -> FloatArray:
        """Errors of masked records, distributed as those of the original, shape (n_rows,)."""
        return np.interp(masked[:, self.channel] - _fitted(masked, self.slopes), self.masked, self.original)

    @property
    def of_errors(self) -> FloatArray:
        """The linear map of channels that has errors in place of scores, shape (n_channels, n_channels)."""
        matrix = np.eye(len(self.slopes) - 1)
        matrix[self.channel] -= self.slopes[:-1]
        return matrix


@dataclass(frozen=True, eq=False)
class _Search:
    """The search for what standardised covariates add to errors of times, and to the scale of these about 1."""

    covariates: FloatArray  # Of masked records, shape (n_rows, width)
    inverse: FloatArray  # The matrix that maps scores to their slopes
    errors: FloatArray
    values: FloatArray  # Scores that go to records by rank, ascending
    unit: float
    # slopes, wanted: of the scores, and mean products of the covariates with residuals
    slopes: FloatArray
    wanted: FloatArray

    def added_and_scale(self) -> tuple[FloatArray, FloatArray]:
        """By Newton's method for slopes and products, the scale in what freedom slopes leave it."""
        scaled, few = self.errors[:, None] * self.covariates, _FEW_EVENTS / len(self.errors)
        held = self.inverse @ scaled
        free = scaled - self.covariates @ held
        added, scale = best = self.slopes, np.zeros(len(self.slopes))
        least = np.inf
        for _ in range(_TURNS):
            scores = self._scores(added, scale)
            residuals = np.exp(self.unit * (scores - self.covariates @ self.slopes)) / len(scores)
            off, lacking = self.slopes - self.inverse @ scores, self.wanted - residuals @ self.covariates
            left = float(np.square(off).sum() + np.square(lacking).sum() + few * np.square(scale).sum())
            if left < least:
                least, best = left, (added, scale)
            weighted = self.covariates.T * (self.unit * residuals)
            by_scale, lacking = weighted @ free, lacking - weighted @ (self.covariates @ off)
            normal = by_scale.T @ by_scale + few * np.eye(len(off))
            change = np.linalg.solve(normal, by_scale.T @ lacking - few * scale)
            added, scale = added + off - held @ change, scale + change
        return best

    def added(self, added: FloatArray, scale: FloatArray) -> FloatArray:
        """What keeps slopes best by a given scale; steps get shorter, as scores by rank change in leaps."""
        best, least, step = added, np.inf, 1.0
        for _ in range(_TURNS):
            off = self.slopes - self.inverse @ self._scores(added, scale)
            left = float(np.square(off).sum())
            if left < least:
                least, best = left, added
            else:
                step /= 2.0
            added = added + step * off
        return best

    def _scores(self, added: FloatArray, scale: FloatArray) -> FloatArray:
        made, sums = np.empty(len(self.values)), self.covariates @ added + self.errors * (1.0 + self.covariates @ scale)
        made[np.argsort(sums, kind="stable")] = self.values
        return made


def _least_squares(covariates: FloatArray) -> FloatArray:
    """The matrix that maps scores to the slopes of their least squares on covariates and an intercept."""
    centred = covariates - covariates.mean(axis=0)
    return np.asarray(np.linalg.pinv(centred.T @ centred, rcond=1e-9, hermitian=True) @ centred.T)


def _fitted(channels: FloatArray, slopes: FloatArray) -> FloatArray:
    return np.asarray(channels @ slopes[:-1] + slopes[-1])


@dataclass(frozen=True, eq=False)
class ScoreMap:
    """The linear map of the masked scores of a scope, and their distributions."""

    # mean, matrix: scores s become mean + matrix (s - mean); shapes (n_scored,) and (n_scored, n_scored)
    mean: FloatArray
    matrix: FloatArray
    classes: IntArray  # Column and class of each distribution, shape (n, 2)
    knots: FloatArray  # Mapped scores at `_KNOTS` of each, shape (n, n_knots)
    times: tuple[TimeRegression, ...] = ()  # Of survival times by their hazard


@dataclass(frozen=True, eq=False)
class ValueScores:
    """The columns that are masked by normal scores, as channels."""

    columns: tuple[ScoredColumn, ...]
    channels: tuple[int, ...]  # Where each stands among the channels
    scores: Scores  # Of the table
    maps: bool  # Whether they are all numbers of the table; else only categories are matched to them

    @classmethod
    def fit(cls, features: FeatureEncoder) -> ValueScores | None:
        """The scored columns of a table; None without any."""
        numbers = [block for block in features.numbers if not block.ordinal]
        scored = [(block.scored, block.start) for block in numbers if block.scored is not None]
        if features.scores is None or not scored:
            return None
        columns, channels = zip(*scored, strict=True)
        return cls(tuple(columns), tuple(channels), features.scores, len(scored) == len(numbers))

    @property
    def keeps_covariances(self) -> bool:
        """Whether covariances of the values of every two columns are held, in default stratum."""
        return self.maps and all((each.classes == each.classes[:, :1]).all() for each in self.columns)

    def stratum(self, cells: FloatArray) -> int:
        """The stratum of the records of a part."""
        return int(self.scores.strata.assign(cells[:1])[0]) if len(cells) else 0

    def count(
        self, part: FloatArray, *, stratum: int, original: FloatArray, draws: Callable[[str], np.random.Generator]
    ) -> DrawnSample:
        """Masked scores of some records, and their stratum; for regressions all channels, masked and original."""
        strata, seen, rows = np.full((len(part), 1), stratum), part[:, self.channels], len(part)
        if self._by_hazard(stratum):  # all channels of a sample of each part would be much
            seen = np.concatenate([part[:, : original.shape[1]], original], axis=1)
            rows = max(rows, self.scores.strata.rows[stratum])
        return DrawnSample.of(seen, strata, SAMPLE_ROWS, max(1, rows), draws("value scores"))

    def _by_hazard(self, stratum: int) -> list[int]:
        """Which columns are survival times by their hazard in a stratum."""
        owns = enumerate(self._classes(np.array([stratum]))[0].tolist())
        return [at for at, own in owns if own >= 0 and self.columns[at].ranks[own].hazards is not None]

    def learn(self, sample: DrawnSample) -> ScoreMap:
        """The map and the distributions of a scope."""
        # A step turns the correlations of the mean scores into those of the masked scores by `transport`, and the map
        # with them. Only steps count that lower Stein's loss: regressions on columns of which one nearly follows from
        # others rest on directions of little variance, which differences of covariances do not see. A step that gains
        # little is halved.
        classes, times = self._classes(sample.codes[:, 0]), self._by_hazard(int(sample.codes[0, 0]))
        scores = sample.scores[:, self.channels] if times else sample.scores
        by_rank = self._means_by_rank(classes)
        mean, spread = scores.mean(axis=0), scores.std(axis=0)
        unit = np.where(spread > 0.0, spread, 1.0)
        standard = (scores - mean) / unit
        wanted = _correlations(standard)

        def made_by(matrix: FloatArray) -> FloatArray:
            return _correlations(_mean_scores(mean + unit * (standard @ matrix.T), by_rank))

        best = toward = np.eye(len(unit))
        least, step, off = np.inf, 1.0, 0.0
        for _ in range(_STEPS if self.maps and len(unit) > 1 else 0):
            matrix = best + step * (toward @ best - best)
            found = made_by(matrix)
            left = _stein_loss(found, wanted)
            if left > _HALVED * least:
                step /= 2.0
            if left < least:
                best, least, toward, off = matrix, left, transport(found, wanted), float(np.abs(found - wanted).max())
        if off > _STUCK:
            best = _by_full_steps(made_by, wanted, best, least)
        matrix = best * np.outer(unit, 1.0 / unit)
        mapped = mean + (scores - mean) @ matrix.T
        knots = [
            ((at, own), np.quantile(mapped[column == own, at], _KNOTS))
            for at, column in enumerate(classes.T)
            for own in np.unique(column[column >= 0]).tolist()
        ]
        owners = np.array([owner for owner, _ in knots], dtype=np.int64).reshape(-1, 2)
        learned = ScoreMap(mean, matrix, owners, np.array([each for _, each in knots]).reshape(-1, len(_KNOTS)))
        return replace(learned, times=self._regressions(times, sample, learned)) if times else learned

    def _regressions(self, times: list[int], sample: DrawnSample, learned: ScoreMap) -> tuple[TimeRegression, ...]:
        """The regressions of a stratum, whose records have one survival status."""
        masked, original = np.split(sample.scores, 2, axis=1)
        masked = self.with_mean_scores(self.mapped(masked, learned), learned, int(sample.codes[0, 0]))
        own = self._classes(sample.codes[:1, 0])[0]
        places = ((self.columns[at].position, self.channels[at], self.columns[at].ranks[own[at]].unit) for at in times)
        return tuple(TimeRegression.fit(*place, masked, original) for place in places)

    def put_times(self, released: FloatArray, channels: FloatArray, params: ScoreMap) -> None:
        """Put scores of survival times in the place of their errors into cells, which have these channels."""
        for each in params.times:
            errors = released[:, each.position] * _fitted(channels, each.scaled)
            released[:, each.position] = errors + _fitted(channels, each.added)

    def mapped(self, part: FloatArray, params: ScoreMap) -> FloatArray:
        """The channels with mapped scores."""
        made = part.copy()
        made[:, self.channels] = params.mean + (part[:, self.channels] - params.mean) @ params.matrix.T
        return made

    def with_mean_scores(self, mapped: FloatArray, params: ScoreMap, stratum: int, copy: bool = True) -> FloatArray:
        """Mapped channels with the mean scores of their values in place of the scores."""
        made = mapped.copy() if copy else mapped
        here, times = self._classes(np.array([stratum]))[0], self._by_hazard(stratum)
        for (at, own), knots in zip(params.classes.tolist(), params.knots, strict=True):
            if here[at] == own and at not in times:
                channel = self.channels[at]
                positions = np.interp(mapped[:, channel], knots, _KNOTS)
                made[:, channel] = self.columns[at].mean_scores(positions, own)
        return made

    def _classes(self, strata: IntArray) -> IntArray:
        """The class of records of each stratum, shape (n_strata, n_scored); -1 where the status decides."""
        classes = (column.classes[strata] for column in self.columns)
        return np.stack([np.where((each == each[:, :1]).all(axis=1), each[:, 0], -1) for each in classes], axis=1)

    def _means_by_rank(self, classes: IntArray) -> list[tuple[int, BoolArray, FloatArray]]:
        """Of each column and class: which records it has, and the mean scores of the values at their ranks."""
        found = []
        for at, column in enumerate(classes.T):
            for own in np.unique(column[column >= 0]).tolist():
                if self.columns[at].ranks[own].hazards is not None:
                    continue
                inside = column == own
                count = int(inside.sum())
                found.append((at, inside, self.columns[at].mean_scores((np.arange(count) + 0.5) / count, own)))
        return found


def _by_full_steps(
    made_by: Callable[[FloatArray], FloatArray], wanted: FloatArray, best: FloatArray, least: float
) -> FloatArray:
    """The map of least loss among full steps one after another, or `best`."""
    # Where most records of two columns have one value, as counts and costs have 0, their covariance is the order of the
    # few others. It stays until the map has gone far: halved steps end there, full ones lead across.
    matrix = np.eye(len(best))
    for _ in range(_FULL_STEPS):
        found = made_by(matrix)
        left = _stein_loss(found, wanted)
        if left < least:
            best, least = matrix, left
        matrix = transport(found, wanted) @ matrix
    return best


def _mean_scores(scores: FloatArray, by_rank: list[tuple[int, BoolArray, FloatArray]]) -> FloatArray:
    """Mean scores of the values by rank, for scores of all records; scores of no one class stay."""
    made = scores.copy()
    for at, inside, means in by_rank:
        ordered = np.empty(len(means))
        ordered[np.argsort(scores[inside, at], kind="stable")] = means
        made[inside, at] = ordered
    return made


def _correlations(table: FloatArray) -> FloatArray:
    """Correlations of columns; those of a constant are 0. The diagonal is `_LEAST` above 1."""
    centred = table - table.mean(axis=0)
    spread = np.sqrt(np.square(centred).sum(axis=0))
    unit = np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 0.0)
    return np.asarray(unit.T @ unit + _LEAST * np.eye(len(spread)))


def _stein_loss(found: FloatArray, wanted: FloatArray) -> float:
    """Stein's loss of a matrix for another (James & Stein 1961): each direction counts by its ratio of variances."""
    values, vectors = np.linalg.eigh(wanted)
    inverse = vectors / np.sqrt(values)
    ratios = np.linalg.eigvalsh(inverse.T @ found @ inverse)
    return float((ratios - np.log(ratios) - 1.0).sum())


def transport(given: FloatArray, wanted: FloatArray) -> FloatArray:
    """The symmetric map that changes a covariance into another one and moves normal records least."""
    # Olkin & Pukelsheim (1982), Linear Algebra Appl. 48:257-263: A = S (S V S)^(-1/2) S is that of V to S².
    values, vectors = np.linalg.eigh(given)
    there = values > 1e-9 * max(float(values[-1]), 0.0)
    root = np.sqrt(np.where(there, values, 0.0))
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=there)
    half, back = (vectors * root) @ vectors.T, (vectors * inverse) @ vectors.T
    inner, turned = np.linalg.eigh(half @ wanted @ half)
    middle = (turned * np.sqrt(np.maximum(inner, 0.0))) @ turned.T
    return np.asarray(back @ middle @ back)
