"""Means and scatters that merge, and what they say about a synthesizer.

Each statistic is a frozen record: `of` counts one piece, `merge` joins two, `merge_all` joins many in the given order;
any split of a table merges to the moments of the whole, to rounding. From them follow the noise of micro-perturbation
(`s_delta`, `noise_factor`, `exact_factor`), and what is expected of synthetic records with standard errors
(`expect_scopes`, `expect_by_group`); `mean_limit` and `covariance_limit` say how far these lead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import reduce
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from anonpipe.errors import InputError, JobError
from anonpipe.kernels.groups import (
    centre_in_groups,
    cross_products,
    fold_rows,
    mean_and_scatter,
    spread_sums,
    within_scatter,
)
from anonpipe.types import FloatArray, IntArray


class _Mergeable(Protocol):
    def merge(self, other: Self) -> Self: ...


Statistic = TypeVar("Statistic", bound=_Mergeable)


def merge_all(parts: Sequence[Statistic]) -> Statistic:
    """Merge pieces in the given order."""
    if not parts:
        raise InputError("there are no moments to merge; give at least one piece")
    return reduce(lambda whole, part: whole.merge(part), parts)


def divide(a: npt.NDArray[Any], b: npt.NDArray[Any], empty: float = np.nan) -> FloatArray:
    """Divide a by b; `empty` where b is not positive."""
    result: FloatArray = np.divide(a, b, out=np.full(np.shape(a), empty), where=b > 0)
    return result


def as_table(features: FloatArray) -> FloatArray:
    """Two-dimensional `features` as float64 in C order."""
    if features.ndim != 2:
        raise InputError(f"records are given as a table of 2 dimensions, not {features.ndim}; reshape them")
    return np.ascontiguousarray(features, dtype=np.float64)


def _same_width(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> None:
    """Refuse to merge statistics of different columns."""
    if a.shape != b.shape:
        raise InputError(f"moments of {len(a)} and {len(b)} columns do not merge; count the same columns everywhere")


@dataclass(frozen=True, eq=False)
class Summed:
    """Fields that add up when pieces are merged, or that have a `merge` themselves."""

    def merge(self, other: Self) -> Self:
        """Both pieces together."""
        pairs = ((getattr(self, each.name), getattr(other, each.name)) for each in fields(self))
        return type(self)(*(a.merge(b) if hasattr(a, "merge") else a + b for a, b in pairs))


# --- Number, mean and scatter of records, and of records in groups ----------------------------------------------------


@dataclass(frozen=True, eq=False)
class Moments:
    """Number, mean and scatter of records."""

    n: int  # Number of records
    mean: FloatArray  # Shape (width,); zeros where there are no records
    scatter: FloatArray  # Sum of outer products of the records less their mean, shape (width, width)

    @classmethod
    def of(cls, features: FloatArray) -> Self:
        """Count `features`, finite, shape (n_rows, width)."""
        mean, scatter = mean_and_scatter(as_table(features))
        return cls(len(features), mean, scatter)

    def merge(self, other: Self) -> Self:
        """Both pieces together (Chan, Golub & LeVeque 1979)."""
        _same_width(self.mean, other.mean)
        n = self.n + other.n
        if self.n == 0 or other.n == 0:
            return self if other.n == 0 else other
        delta = other.mean - self.mean
        mean = self.mean + delta * (other.n / n)
        between = np.outer(delta, delta) * (self.n / n * other.n)
        return type(self)(n, mean, self.scatter + other.scatter + between)

    @property
    def covariance(self) -> FloatArray:
        """The scatter over n - 1; NaN for fewer than two records."""
        return self.scatter / (self.n - 1) if self.n > 1 else np.full_like(self.scatter, np.nan)


@dataclass(frozen=True, eq=False)
class GroupedMoments(Summed):
    """Moments of records in groups; no group may have records in two pieces that are merged."""

    total: Moments  # Moments of all records
    within: FloatArray  # Scatter of the records about their group's mean, summed over groups, shape (width, width)
    groups: int  # Number of groups

    @classmethod
    def of(cls, features: FloatArray, order: IntArray, starts: IntArray) -> Self:
        """Count the groups `order[starts[g]:starts[g + 1]]` of `features`."""
        table = as_table(features)
        return cls(Moments.of(table), within_scatter(table, order, starts), len(starts) - 1)

    @classmethod
    def averaged(cls, features: FloatArray, centres: FloatArray) -> Self:
        """Moments of records whose group mean is an average over several groupings, each record a group of its own.

        `within` is the scatter that the centres lack, S_X - S_C. An average of projections shortens every direction, so
        it is positive semidefinite.

        Shapes: features, centres (n_rows, width).
        """
        total = Moments.of(as_table(features))
        return cls(total, total.scatter - Moments.of(as_table(centres)).scatter, len(features))

    @property
    def between_scatter(self) -> FloatArray:
        """Scatter of the group means, each counted as often as its group has records."""
        return self.total.scatter - self.within


@dataclass(frozen=True, eq=False)
class GroupSpread:
    """Sums over groups that `expect_by_group` needs for noise with each group's own covariance.

    For each group let n be its records, u its mean less the mean of all records, W its scatter. All matrices have shape
    (width, width).
    """

    n: int  # Number of all records
    mean: FloatArray  # Mean of all records
    within: FloatArray  # Sum of W
    noise: FloatArray  # Sum of (W_jj W_hh + W_jh²) / n
    square: FloatArray  # Sum of u_j² W_hh
    product: FloatArray  # Sum of u_j u_h W_jh
    linear: FloatArray  # Sum of u_j W_hh; only needed to merge
    mixed: FloatArray  # Sum of u_j W_jh; likewise
    largest: FloatArray  # Largest (√(W_jj W_hh) + |W_jh|) / 2n of a group: see `form_eigenvalue`

    @classmethod
    def of(cls, features: FloatArray, order: IntArray, starts: IntArray) -> Self:
        """Count the groups `order[starts[g]:starts[g + 1]]` of `features`."""
        grouped = GroupedMoments.of(features, order, starts)
        mean = grouped.total.mean
        return cls(grouped.total.n, mean, grouped.within, *spread_sums(as_table(features), order, starts, mean))

    def merge(self, other: Self) -> Self:
        """Both pieces together; no group may have records in both."""
        _same_width(self.mean, other.mean)
        n = self.n + other.n
        mean = self.mean + (other.mean - self.mean) * (other.n / max(n, 1))
        a, b = self._about(mean), other._about(mean)
        names = ("within", "noise", "square", "product", "linear", "mixed")
        sums = {name: getattr(a, name) + getattr(b, name) for name in names}
        return type(self)(n, mean, **sums, largest=np.maximum(self.largest, other.largest))

    def _about(self, mean: FloatArray) -> Self:
        """The same sums with the groups' means taken about another point."""
        shift = self.mean - mean
        column, spread = shift[:, None], np.diag(self.within)[None, :]
        square = self.square + 2 * column * self.linear + column**2 * spread
        product = self.product + column * self.mixed.T + shift * self.mixed + column * shift * self.within
        linear = self.linear + column * spread
        mixed = self.mixed + column * self.within
        return type(self)(self.n, mean, self.within, self.noise, square, product, linear, mixed, self.largest)


# --- Which parts of a table get noise of one covariance: strata, of which small ones share theirs ---------------------


def least_free(width: int) -> int:
    """Records beyond the groups that noise of an own covariance takes: 30, or twice the feature columns."""
    return max(30, 2 * width)


def noise_scopes(grouped: Sequence[GroupedMoments]) -> list[int]:
    """The scope of each stratum: those that share a scope share the covariance of their noise."""
    # A stratum of N records in G groups is a scope of its own where N - G is at least 30 and twice the number of
    # columns. With fewer, the noise would lie in the span of a handful of records, and say which they are: such strata
    # are one scope together, which the smallest of the others join, one by one, until there are enough.
    return scopes_of([max(each.total.n - each.groups, 0) for each in grouped], len(grouped[0].total.mean))


def scopes_of(free: Sequence[int], width: int) -> list[int]:
    """The same from the records that each stratum has beyond its groups, and the number of columns."""
    least = least_free(width)
    rising = sorted(range(len(free)), key=lambda at: (free[at], at))
    shared: list[int] = []
    for at in rising:
        if free[at] >= least and (not shared or sum(free[one] for one in shared) >= least):
            break
        shared.append(at)
    keys = [-1 if at in shared else at for at in range(len(free))]
    order = list(dict.fromkeys(keys))
    return [order.index(key) for key in keys]


def together(parts: Sequence[Statistic], scopes: Sequence[int]) -> list[Statistic]:
    """Merge what was counted of the strata of each scope, in their order."""
    every = sorted(set(scopes))
    return [merge_all([part for part, own in zip(parts, scopes, strict=True) if own == scope]) for scope in every]


@dataclass(frozen=True, eq=False)
class PairwiseMoments:
    """Sums over records with nulls (NaN): each pair of columns over the rows that have both.

    Raw sums, so columns should be centred and scaled beforehand, or digits are lost.
    """

    rows: int  # Number of records
    n: IntArray  # Rows in which both columns are present, int64, shape (width, width)
    sums: FloatArray  # Sum of column j over the rows that also have column h, shape (width, width)
    cross: FloatArray  # Sum of products of columns j and h, shape (width, width)

    @classmethod
    def of(cls, values: FloatArray) -> Self:
        """Count `values`, shape (n_rows, width), NaN where null."""
        table = as_table(values)
        present = ~np.isnan(table)
        filled = np.ascontiguousarray(np.where(present, table, 0.0))
        holed = np.flatnonzero(~present.all(axis=0))
        marks = np.ascontiguousarray(np.column_stack([np.ones(len(table)), present[:, holed]]))
        counts = cross_products(np.ascontiguousarray(present, dtype=np.float64), marks)
        totals = cross_products(filled, marks)
        place = np.zeros(table.shape[1], dtype=np.int64)
        place[holed] = np.arange(1, len(holed) + 1)
        n = np.rint(counts[:, place]).astype(np.int64)
        return cls(len(table), n, totals[:, place], cross_products(filled, filled))

    def merge(self, other: Self) -> Self:
        """Both pieces together."""
        _same_width(self.n, other.n)
        rows = self.rows + other.rows
        return type(self)(rows, self.n + other.n, self.sums + other.sums, self.cross + other.cross)

    @property
    def mean(self) -> FloatArray:
        """Mean over each column's non-nulls, shape (width,); NaN for a column of nulls."""
        return divide(np.diag(self.sums), np.diag(self.n))

    @property
    def covariance(self) -> FloatArray:
        """Pairwise complete covariance over n - 1; NaN where fewer than two rows have both columns."""
        centred = self.cross - self.sums * divide(self.sums.T, self.n)
        return divide(centred, self.n - 1)

    @property
    def null_share(self) -> FloatArray:
        """Share of nulls in each column, shape (width,)."""
        return 1.0 - divide(np.diag(self.n), np.full(len(self.n), self.rows))


# --- How far a random moment lies from its expectation at most, but for a given small chance --------------------------


def mean_limit(error: FloatArray, chance: float) -> FloatArray:
    """How far a normal variable of this standard error lies from its mean, but for `chance`."""
    return np.asarray(error * -ndtri(chance / 2.0))


def covariance_limit(error: FloatArray, scale: FloatArray, chance: float) -> FloatArray:
    """How far a covariance lies from its expectation at most, but for `chance`.

    Let Q = Σ λ_i (Z_i² - 1) + Σ μ_i Z_i with independent standard normal Z_i, of variance v = Σ (2λ_i² + μ_i²), and λ
    the largest |λ_i|. Each term has log E exp(sQ_i) = -log(1 - 2λ_i s)/2 - λ_i s + μ_i² s²/(2(1 - 2λ_i s)), at most s²
    v_i/(2(1 - 2λs)). So Q is sub-gamma with variance v and scale 2λ, and P(|Q| > √(2vt) + 2λt) is at most 2 exp(-t).
    Nothing is assumed of the λ_i: one outlier's group may make up nearly all of Q.

    Boucheron, Lugosi & Massart (2013), Concentration Inequalities, section 2.4; Laurent & Massart (2000),
    doi:10.1214/aos/1015957395, lemma 1.
    """
    t = np.log(2.0 / chance)
    return np.asarray(np.sqrt(2.0 * t) * error + t * scale)


def form_eigenvalue(covariance: FloatArray) -> FloatArray:
    """Largest eigenvalue, in size, of the product of two normals of this covariance as a quadratic form."""
    # (√(V_jj V_hh) ± V_jh)/2 are its two eigenvalues.
    spread = np.sqrt(np.diag(covariance))
    return np.asarray((np.outer(spread, spread) + np.abs(covariance)) / 2.0)


def centred_eigenvalue(largest: FloatArray, average: FloatArray) -> FloatArray:
    """The same of products of records of several covariances, summed about the mean of the table.

    Shapes: largest (width, width); average (width, width).

    The sum about the mean is the sum Σ e_j e_h of the records less (Σ e_j)(Σ e_h)/N, whose eigenvalues are those of one
    record with the average covariance: by Weyl's inequality they add at most. For squares, both forms being positive,
    the first is an upper limit itself.
    """
    added = form_eigenvalue(average)
    np.fill_diagonal(added, 0.0)
    return np.asarray(largest + added)


def product_variance(covariance: FloatArray) -> FloatArray:
    """V_jj V_hh + V_jh²: the variance of a product of two normals of this covariance."""
    spread = np.diag(covariance)
    return np.asarray(np.outer(spread, spread) + covariance**2)


# --- What a method is expected to make of means and covariances, and how far its draws may lead from it ---------------


@dataclass(frozen=True, eq=False)
class Expected:
    """Moments of masked features, given the originals; the mean is always expected to stay."""

    mean_error: FloatArray  # Standard errors of the means, shape (width,); zeros where they are exact
    covariance: FloatArray  # Expected covariance (over n - 1), shape (width, width)
    covariance_error: FloatArray  # Standard errors of its entries, shape (width, width)
    covariance_scale: FloatArray  # Scale of their tails, shape (width, width); see `anonpipe.moments.covariance_limit`

    @classmethod
    def exactly(cls, covariance: FloatArray) -> Expected:
        """Means that stay, and this covariance, without any error."""
        nothing = np.zeros_like(covariance)
        return cls(np.zeros(len(covariance)), covariance, nothing, nothing)


def expect_together(parts: Sequence[tuple[Moments, Expected]]) -> Expected:
    """What is promised of tables below each other that are masked one by one."""
    if len(parts) == 1:
        return parts[0][1]
    whole = merge_all([moments for moments, _ in parts])
    degrees = max(whole.n - 1, 1)
    scatter, variance, drift = np.zeros_like(whole.scatter), np.zeros_like(whole.scatter), np.zeros_like(whole.scatter)
    mean_variance, scale = np.zeros_like(whole.mean), np.zeros_like(whole.scatter)
    for moments, expected in parts:
        own, deviation = max(moments.n - 1, 0), moments.mean - whole.mean
        scatter += own * expected.covariance + moments.n * np.outer(deviation, deviation)
        shift = moments.n * np.outer(np.abs(deviation), expected.mean_error)
        variance += (own * expected.covariance_error) ** 2 + (shift + shift.T) ** 2
        moved = moments.n * np.outer(expected.mean_error, expected.mean_error)
        drift += moved
        scale = np.maximum(scale, np.maximum(own * expected.covariance_scale, 2.0 * moved))
        mean_variance += (moments.n * expected.mean_error) ** 2
    error = (np.sqrt(variance) + drift) / degrees
    return Expected(np.sqrt(mean_variance) / whole.n, scatter / degrees, error, scale / degrees)


# --- Moments of fixed group means with normal noise: what to expect of them, and their standard errors ----------------


# Parts of a table below each other, each with the covariance of the noise of its records
Scopes = Sequence[tuple[GroupedMoments, FloatArray]]


def expect_scopes(scopes: Scopes, form: str) -> Expected:
    """Of a table whose parts get noise of a covariance each; the standard errors are exact.

    The N synthetic records are fixed group means plus normal noise. Write B for the between-group scatter and V for the
    covariance of the noise, first of a single part.

    Independent noise moves the mean by an average of N draws, V_jj/N. The synthetic scatter is B, plus products of
    means and noise, plus the scatter of the noise; the second is odd in the noise and the third even, so they do not
    correlate. The second has variance B_jj V_hh + B_hh V_jj + 2 B_jh V_jh; the third is Wishart with N-1 degrees of
    freedom, of variance (N-1)(V_jj V_hh + V_jh²). Their sum over (N-1)² is the squared error.

    Noise centred in every group leaves the mean and has no products with the group means; its scatter is Wishart with
    N-G degrees of freedom.

    Of several parts, with n_s records of noise V_s in each part, and B_s the scatter of their group means about the
    mean of the table, the products of means and noise add Σ_s (B_jj V_hh + B_hh V_jj + 2 B_jh V_jh) to the variance of
    a scatter, and the noise, a quadratic form in I - 11'/N, (1 - 2/N) Σ_s n_s (V_jj V_hh + V_jh²) and 1/N² times the
    same of Σ_s n_s V_s. Centred noise has Σ_s (n_s - G_s)(V_jj V_hh + V_jh²), and nothing else.

    Each covariance is a quadratic form in normals plus a linear one: its standard error says all of its tails where no
    eigenvalue of the form stands out, as with noise of one covariance and many records. The scale is twice the largest
    eigenvalue.
    """
    n, width = sum(grouped.total.n for grouped, _ in scopes), len(scopes[0][1])
    degrees = max(n - 1, 1)
    largest = np.max([form_eigenvalue(noise) for _, noise in scopes], axis=0)
    betweens = _between(scopes)
    if form == "centred":
        free = [grouped.total.n - grouped.groups for grouped, _ in scopes]
        added = np.sum([own * noise for own, (_, noise) in zip(free, scopes, strict=True)], axis=0)
        parts = [own * product_variance(noise) for own, (_, noise) in zip(free, scopes, strict=True)]
        covariance = (np.sum(betweens, axis=0) + added) / degrees
        return Expected(np.zeros(width), covariance, _root(np.sum(parts, axis=0)) / degrees, 2.0 * largest / degrees)
    variance, whole = np.zeros((width, width)), np.zeros((width, width))
    for (grouped, noise), between in zip(scopes, betweens, strict=True):
        outer = np.outer(np.diag(between), np.diag(noise))
        variance += outer + outer.T + 2 * between * noise
        variance += (1.0 - 2.0 / max(n, 1)) * grouped.total.n * product_variance(noise)
        whole += grouped.total.n * noise
    variance += product_variance(whole) / max(n, 1) ** 2
    if len(scopes) > 1:
        largest = centred_eigenvalue(largest, whole / max(n, 1))
    covariance = (np.sum(betweens, axis=0) + (1.0 - 1.0 / max(n, 1)) * whole) / degrees
    return Expected(_root(np.diag(whole)) / max(n, 1), covariance, _root(variance) / degrees, 2.0 * largest / degrees)


def _between(scopes: Scopes) -> list[FloatArray]:
    """Scatter of each part's group means about the mean of the table."""
    centre = merge_all([grouped.total for grouped, _ in scopes]).mean
    deviations = [grouped.total.mean - centre for grouped, _ in scopes]
    return [
        grouped.between_scatter + grouped.total.n * np.outer(deviation, deviation)
        for (grouped, _), deviation in zip(scopes, deviations, strict=True)
    ]


def expect_by_group(spread: GroupSpread, covariance: FloatArray) -> Expected:
    """Of records that are drawn with the mean and the covariance of their group; `covariance` is that of the table.

    With a covariance V_g = c W_g/n_g in each group, c = N/(N-1), the mean has variance c W_jj/N². The products with the
    means have variance c Σ_g (u_j² W_hh + u_h² W_jj + 2 u_j u_h W_jh), u being the group's mean less that of all; the
    scatter of the noise, a quadratic form in I - 11'/N, has (1 - 2/N) c² Σ_g (W_jj W_hh + W_jh²)/n_g plus c²/N² (W_jj
    W_hh + W_jh²) of the pooled W. The c of a table is used for a stratum too, where it differs from the stratum's own
    by a relative 1/N.

    One outlier can make up most of the quadratic form, whose tails are then those of a chi-square with as many degrees
    of freedom as its group has records; see `expect_scopes` for the scale.
    """
    n = max(spread.n, 1)
    degrees, c = max(n - 1, 1), n / max(n - 1, 1)
    cross = c * (spread.square + spread.square.T + 2 * spread.product)
    scatter = c**2 * ((1 - 2 / n) * spread.noise + product_variance(spread.within) / n**2)
    mean = _root(c * np.diag(spread.within)) / n
    largest = centred_eigenvalue(c * spread.largest, c * spread.within / n)
    return Expected(mean, covariance, _root(cross + scatter) / degrees, 2.0 * largest / degrees)


def _root(variance: FloatArray) -> FloatArray:
    """The square root; what rounding left below zero counts as zero."""
    return np.sqrt(np.clip(variance, 0.0, None))


# --- The noise of micro-perturbation: its covariance, and factors that turn normal draws into it ----------------------

# Forms of micro-perturbation whose noise has a given covariance; see `s_delta`. The fourth is `exact`.
FORMS = ("independent", "centred", "published")

_NEGATIVE = 1e-8  # Eigenvalues of a correlation matrix below minus this are not rounding

_ROUNDING = 1e-10  # Part of the largest eigenvalue of a correlation matrix up to which one may be left out of it

_FLAT = 1e-6  # Draws whose smallest singular value is below this part of the largest cannot be whitened to 9 digits


def s_delta(grouped: GroupedMoments, form: str) -> FloatArray:
    """Covariance of the noise that micro-perturbation adds to group means."""
    # Li & Sarkar (2013), doi:10.1287/mnsc.1120.1584, section 5, eq. 11. There it reads (N-1)/(N-G) (S_X - S_B); with
    # S_X - S_B = W/(N-1) it is positive semidefinite as computed.
    if form not in FORMS:
        raise JobError(f"unknown form {form!r}; known are: {', '.join(FORMS)}")
    free = grouped.total.n - (1 if form == "independent" else grouped.groups)
    return grouped.within / free if free > 0 else np.zeros_like(grouped.within)


def noise_factor(covariance: FloatArray) -> FloatArray:
    """A matrix L with L L' = covariance, singular ones included; covariance (width, width)."""
    if covariance.ndim != 2 or covariance.shape[0] != covariance.shape[1] or not np.isfinite(covariance).all():
        raise InputError("the noise covariance is not a finite square matrix; compute it with s_delta")
    scale = np.sqrt(np.clip(np.diag(covariance), 0.0, None))
    inverse = divide(np.ones_like(scale), scale, empty=0.0)
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2 * np.outer(inverse, inverse))
    if values.size and values[0] < -_NEGATIVE * max(1.0, float(values[-1])):
        raise InputError("the noise covariance is not positive semidefinite; compute it with s_delta")
    floor = len(values) * np.finfo(np.float64).eps * float(values[-1]) if values.size else 0.0
    factor = vectors * np.sqrt(np.where(values > floor, values, 0.0))
    largest = np.abs(factor).argmax(axis=0) if values.size else np.zeros(0, dtype=np.int64)
    signs = np.where(factor[largest, np.arange(len(values))] < 0, -1.0, 1.0)
    result: FloatArray = scale[:, None] * factor * signs
    return result


@dataclass(frozen=True, eq=False)
class NoiseScatter:
    """Scatter of standard normal draws less their group's mean, held as its triangular root.

    The root loses half as many digits as the scatter where the draws lie nearly in a plane, as few of them may.
    """

    free: int  # Degrees of freedom: records less groups
    root: FloatArray  # Upper triangle R with R'R the scatter, shape (width, width)

    @classmethod
    def of(cls, draws: FloatArray, starts: IntArray) -> Self:
        """Count `draws`, shape (rows of the groups, width), group by group as `starts` cuts them."""
        centred = draws.copy()
        centre_in_groups(centred, starts)
        nothing = np.zeros((draws.shape[1], draws.shape[1]))
        return cls(len(draws) - (len(starts) - 1), fold_rows(nothing, centred))

    def merge(self, other: Self) -> Self:
        """Both pieces together; no group may have records in both."""
        _same_width(self.root, other.root)
        return type(self)(self.free + other.free, fold_rows(self.root, other.root))


def exact_factor(noise: NoiseScatter, within: FloatArray) -> FloatArray:
    """A matrix F that turns the counted draws into noise whose scatter is exactly W.

    Shapes: noise (n_rows, width); within (width, width).

    Z S^(-1/2) is a uniform random frame: r orthonormal columns among the vectors that sum to zero in every group. So
    the outcome is a random rotation of the pooled within-group deviations.
    """
    _same_width(noise.root, within)
    factor = noise_factor(within)
    used = np.ascontiguousarray(factor[:, factor.any(axis=0)][:, ::-1])  # the largest eigenvalue first
    scale = np.sqrt(np.diag(within))[:, None]
    values = np.sum(divide(used, np.broadcast_to(scale, used.shape), empty=0.0) ** 2, axis=0)
    rank = min(len(values), noise.free)
    if rank < len(values) and values[rank] > _ROUNDING * values[0]:
        raise InputError(
            f"exact noise needs as many degrees of freedom as the rank {len(values)} of the within-group scatter; "
            f"there are {noise.free} more records than groups: take both from the same groups, of two or more records"
        )
    spread, axes = np.linalg.svd(noise.root[:rank, :rank])[1:]
    if rank and spread[-1] <= _FLAT * spread[0]:
        raise InputError(
            f"the draws of noise are linearly dependent (to 6 digits), with {noise.free} more records than groups and "
            f"rank {rank}; use another secret, or form 'centred'"
        )
    result = np.zeros_like(factor)
    result[:, :rank] = used[:, :rank] @ (axes.T / spread @ axes)
    return result
