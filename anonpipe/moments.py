"""Means and scatters that merge, and what they say about a synthesizer.

Each statistic is a frozen record: `of` counts one piece, `merge` joins two,
`merge_all` joins many in the given order; any split of a table merges to the
moments of the whole, to rounding. From them follow the noise covariance of
micro-perturbation (`s_delta`, `noise_factor`), and what each method promises:
`expected_covariance` on average, `sampling_limit` for the spread about it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import reduce
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

from anonpipe.errors import InputError, JobError
from anonpipe.kernels.group_moments import cross_products, mean_and_scatter, spread_sums, within_scatter

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

FORMS = ("independent", "centred", "published")
"""Forms of micro-perturbation; see `s_delta`."""

EXACT_METHODS = ("centroid", "gaussian")
"""Methods without sampling error in any form."""

_NEGATIVE = 1e-8
"""Eigenvalues of a correlation matrix below minus this are not rounding."""


class _Mergeable(Protocol):
    def merge(self, other: Self) -> Self: ...


Statistic = TypeVar("Statistic", bound=_Mergeable)


def merge_all(parts: Sequence[Statistic]) -> Statistic:
    """Merge pieces in the given order.

    Parameters
    ----------
    parts
        Records of one kind: `Moments`, `GroupedMoments`, `PairwiseMoments` or
        `GroupSpread`; at least one.

    Raises
    ------
    InputError
        There is no piece.

    Examples
    --------
    >>> halves = [Moments.of(np.array([[0.0]])), Moments.of(np.array([[2.0]]))]
    >>> merge_all(halves).mean.tolist()
    [1.0]
    """
    if not parts:
        raise InputError("there are no moments to merge; give at least one piece")
    return reduce(lambda whole, part: whole.merge(part), parts)


@dataclass(frozen=True, eq=False)
class Moments:
    """Number, mean and scatter of records.

    Attributes
    ----------
    n
        Number of records.
    mean
        Shape (width,); zeros where there are no records.
    scatter
        Sum of outer products of the records less their mean, shape (width, width).
    """

    n: int
    mean: FloatArray
    scatter: FloatArray

    @classmethod
    def of(cls, points: FloatArray) -> Self:
        """Count `points`, finite, shape (n_rows, width)."""
        mean, scatter = mean_and_scatter(_table(points))
        return cls(len(points), mean, scatter)

    def merge(self, other: Self) -> Self:
        """Both pieces together (Chan, Golub & LeVeque 1979).

        Examples
        --------
        >>> a, b = Moments.of(np.array([[0.0], [2.0]])), Moments.of(np.array([[4.0], [6.0]]))
        >>> a.merge(b).scatter.tolist()
        [[20.0]]
        """
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

    def to_dict(self) -> dict[str, Any]:
        """Numbers and lists; JSON keeps every bit of them."""
        return _to_dict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        return cls(int(content["n"]), _array(content["mean"]), _array(content["scatter"]))


@dataclass(frozen=True, eq=False)
class GroupedMoments:
    """Moments of records in groups.

    Attributes
    ----------
    total
        Moments of all records.
    within
        Scatter of the records about their group's mean, summed over groups,
        shape (width, width).
    groups
        Number of groups.
    """

    total: Moments
    within: FloatArray
    groups: int

    @classmethod
    def of(cls, points: FloatArray, order: IntArray, starts: IntArray) -> Self:
        """Count the groups `order[starts[g]:starts[g + 1]]` of `points`.

        Examples
        --------
        >>> points = np.array([[0.0], [2.0], [4.0], [6.0]])
        >>> grouped = GroupedMoments.of(points, np.arange(4), np.array([0, 2, 4]))
        >>> grouped.within.tolist(), grouped.between_scatter.tolist()
        ([[4.0]], [[16.0]])
        """
        table = _table(points)
        return cls(Moments.of(table), within_scatter(table, order, starts), len(starts) - 1)

    def merge(self, other: Self) -> Self:
        """Both pieces together; no group may have records in both."""
        within = self.within + other.within
        return type(self)(self.total.merge(other.total), within, self.groups + other.groups)

    @property
    def between_scatter(self) -> FloatArray:
        """Scatter of the group means, each counted as often as its group has records."""
        return self.total.scatter - self.within

    def to_dict(self) -> dict[str, Any]:
        """Numbers and lists; JSON keeps every bit of them."""
        return {"total": self.total.to_dict(), "within": self.within.tolist(), "groups": self.groups}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        return cls(Moments.from_dict(content["total"]), _array(content["within"]), int(content["groups"]))


@dataclass(frozen=True, eq=False)
class PairwiseMoments:
    """Sums over records with nulls (NaN): each pair of columns over the rows that have both.

    Raw sums, so columns should be centred and scaled beforehand, or digits
    are lost.

    Attributes
    ----------
    rows
        Number of records.
    n
        Rows in which both columns are present, int64, shape (width, width).
    sums
        Sum of column j over the rows that also have column h, shape (width, width).
    cross
        Sum of products of columns j and h, shape (width, width).
    """

    rows: int
    n: IntArray
    sums: FloatArray
    cross: FloatArray

    @classmethod
    def of(cls, values: FloatArray) -> Self:
        """Count `values`, shape (n_rows, width), NaN where null.

        Examples
        --------
        >>> some = PairwiseMoments.of(np.array([[1.0, np.nan], [3.0, 5.0]]))
        >>> some.n.tolist(), some.mean.tolist(), some.null_share.tolist()
        ([[2, 1], [1, 1]], [2.0, 5.0], [0.0, 0.5])
        """
        table = _table(values)
        present = ~np.isnan(table)
        filled = np.where(present, table, 0.0)
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
        return _divide(np.diag(self.sums), np.diag(self.n))

    @property
    def covariance(self) -> FloatArray:
        """Pairwise complete covariance over n - 1; NaN where fewer than two rows have both columns."""
        centred = self.cross - self.sums * _divide(self.sums.T, self.n)
        return _divide(centred, self.n - 1)

    @property
    def null_share(self) -> FloatArray:
        """Share of nulls in each column, shape (width,)."""
        return 1.0 - _divide(np.diag(self.n), np.full(len(self.n), self.rows))

    def to_dict(self) -> dict[str, Any]:
        """Numbers and lists; JSON keeps every bit of them."""
        return _to_dict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        n = np.array(content["n"], dtype=np.int64)
        return cls(int(content["rows"]), n, _array(content["sums"]), _array(content["cross"]))


@dataclass(frozen=True, eq=False)
class GroupSpread:
    """Sums over groups that `sampling_limit` needs for noise with each group's own covariance.

    For each group let n be its records, u its mean less the mean of all
    records, W its scatter. All matrices have shape (width, width).

    Attributes
    ----------
    n, mean
        Number and mean of all records.
    within
        Sum of W.
    noise
        Sum of (W_jj W_hh + W_jh²) / n.
    square, product
        Sums of u_j² W_hh and of u_j u_h W_jh.
    linear, mixed
        Sums of u_j W_hh and of u_j W_jh; only needed to merge.
    """

    n: int
    mean: FloatArray
    within: FloatArray
    noise: FloatArray
    square: FloatArray
    product: FloatArray
    linear: FloatArray
    mixed: FloatArray

    @classmethod
    def of(cls, points: FloatArray, order: IntArray, starts: IntArray) -> Self:
        """Count the groups `order[starts[g]:starts[g + 1]]` of `points`."""
        grouped = GroupedMoments.of(points, order, starts)
        mean = grouped.total.mean
        return cls(grouped.total.n, mean, grouped.within, *spread_sums(_table(points), order, starts, mean))

    def merge(self, other: Self) -> Self:
        """Both pieces together; no group may have records in both."""
        _same_width(self.mean, other.mean)
        n = self.n + other.n
        mean = self.mean + (other.mean - self.mean) * (other.n / max(n, 1))
        a, b = self._about(mean), other._about(mean)
        sums = (
            getattr(a, name) + getattr(b, name) for name in ("within", "noise", "square", "product", "linear", "mixed")
        )
        return type(self)(n, mean, *sums)

    def _about(self, mean: FloatArray) -> Self:
        """The same sums with the groups' means taken about another point."""
        shift = self.mean - mean
        column, spread = shift[:, None], np.diag(self.within)[None, :]
        square = self.square + 2 * column * self.linear + column**2 * spread
        product = self.product + column * self.mixed.T + shift * self.mixed + column * shift * self.within
        linear = self.linear + column * spread
        mixed = self.mixed + column * self.within
        return type(self)(self.n, mean, self.within, self.noise, square, product, linear, mixed)

    def to_dict(self) -> dict[str, Any]:
        """Numbers and lists; JSON keeps every bit of them."""
        return _to_dict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        names = [field.name for field in fields(cls)][2:]
        return cls(int(content["n"]), _array(content["mean"]), *(_array(content[name]) for name in names))


def s_delta(grouped: GroupedMoments, form: str) -> FloatArray:
    """Covariance of the noise that micro-perturbation adds to group means.

    Parameters
    ----------
    grouped
        Moments of all N records in G groups; W is their pooled within-group scatter.
    form
        `published`: W/(N-G), which is S^Δ of the paper, drawn independently
        for each record; variances come out too large. `centred`: the same
        matrix, for noise that is centred in every group. `independent`:
        W/(N-1), the covariance lost to the group means, independent for each
        record.

    Returns
    -------
    float64, shape (width, width)
        Zero where every record is its own group.

    Raises
    ------
    JobError
        Unknown form.

    References
    ----------
    Li & Sarkar (2013), doi:10.1287/mnsc.1120.1584, section 5, eq. 11. There it
    reads (N-1)/(N-G) (S_X - S_B); with S_X - S_B = W/(N-1) it is positive
    semidefinite as computed.

    Examples
    --------
    >>> points = np.array([[0.0], [2.0], [4.0], [6.0]])
    >>> grouped = GroupedMoments.of(points, np.arange(4), np.array([0, 2, 4]))
    >>> s_delta(grouped, "centred").tolist()
    [[2.0]]
    """
    _known_form(form, FORMS)
    free = grouped.total.n - (1 if form == "independent" else grouped.groups)
    return grouped.within / free if free > 0 else np.zeros_like(grouped.within)


def noise_factor(covariance: FloatArray) -> FloatArray:
    """A matrix L with L L' = covariance, singular ones included.

    Parameters
    ----------
    covariance
        Symmetric, positive semidefinite to rounding, shape (width, width).

    Returns
    -------
    float64, shape (width, width)
        Eigenvectors of the correlation matrix, each times the root of its
        eigenvalue (those below zero by rounding count as zero), scaled back to
        the variances; the largest entry of each column is positive. L L' meets
        the covariance to rounding relative to the roots of the variances.

    Raises
    ------
    InputError
        Not square, not finite, or not positive semidefinite.

    Examples
    --------
    >>> factor = noise_factor(np.array([[4.0, 2.0], [2.0, 1.0]]))
    >>> np.allclose(factor @ factor.T, [[4, 2], [2, 1]])
    True
    """
    if covariance.ndim != 2 or covariance.shape[0] != covariance.shape[1] or not np.isfinite(covariance).all():
        raise InputError("the noise covariance is not a finite square matrix; compute it with s_delta")
    scale = np.sqrt(np.clip(np.diag(covariance), 0.0, None))
    inverse = _divide(np.ones_like(scale), scale, empty=0.0)
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2 * np.outer(inverse, inverse))
    if values.size and values[0] < -_NEGATIVE * max(1.0, float(values[-1])):
        raise InputError("the noise covariance is not positive semidefinite; compute it with s_delta")
    floor = len(values) * np.finfo(np.float64).eps * float(values[-1]) if values.size else 0.0
    factor = vectors * np.sqrt(np.where(values > floor, values, 0.0))
    largest = np.abs(factor).argmax(axis=0) if values.size else np.zeros(0, dtype=np.int64)
    signs = np.where(factor[largest, np.arange(len(values))] < 0, -1.0, 1.0)
    result: FloatArray = scale[:, None] * factor * signs
    return result


def expected_covariance(
    grouped: GroupedMoments, method: str, form: str | None = None, *, noise: FloatArray | None = None
) -> FloatArray:
    """Covariance of the synthetic records that a method promises on average.

    Parameters
    ----------
    grouped
        Moments of the original N records in G groups.
    method, form
        `centroid`, `gaussian` (no form), `pca` (form `exact` or `expected`),
        `micro_perturbation` (form `independent`, `centred` or `published`).
    noise
        For micro-perturbation with noise of another scope than `grouped`
        (one stratum of a table): the covariance of the noise. None for
        `s_delta(grouped, form)`.

    Returns
    -------
    float64, shape (width, width)
        S_B for centroids; S_B + (G-1)/(N-G) (S_X - S_B) + (S_X - S_B) for
        published micro-perturbation; S_X for all others. With foreign noise V:
        S_B + V (centred: S_B + V (N-G)/(N-1)).

    Raises
    ------
    JobError
        Unknown method or form.
    """
    _check_form(method, form)
    between = grouped.between_scatter / max(grouped.total.n - 1, 1)
    if method == "centroid":
        return between
    if method != "micro_perturbation" or (noise is None and form != "published"):
        return grouped.total.covariance
    added = s_delta(grouped, str(form)) if noise is None else noise
    share = (grouped.total.n - grouped.groups) / max(grouped.total.n - 1, 1) if form == "centred" else 1.0
    return between + added * share


@dataclass(frozen=True, eq=False)
class SamplingLimit:
    """Standard errors of the moments of synthetic records about what is expected of them.

    Attributes
    ----------
    mean
        Of the means, shape (width,).
    covariance
        Of the covariances (n - 1 in the denominator), shape (width, width).
    """

    mean: FloatArray
    covariance: FloatArray


def sampling_limit(
    grouped: GroupedMoments,
    method: str,
    form: str | None = None,
    *,
    noise: FloatArray | None = None,
    spread: GroupSpread | None = None,
) -> SamplingLimit:
    """How far the noise may move the synthetic means and covariances: exact standard errors.

    Parameters
    ----------
    grouped, method, form, noise
        As for `expected_covariance`.
    spread
        For `pca` in expectation, whose groups have a covariance each.

    Returns
    -------
    SamplingLimit
        Zeros for methods that keep both moments exactly (and for centroids).

    Raises
    ------
    JobError
        Unknown method or form, or `spread` is missing.

    Notes
    -----
    The N synthetic records are fixed group means plus normal noise. Write B
    for the between-group scatter and V for the covariance of the noise.

    Independent noise moves the mean by an average of N draws, V_jj/N. The
    synthetic scatter is B, plus products of means and noise, plus the scatter
    of the noise; the second is odd in the noise and the third even, so they do
    not correlate. The second has variance B_jj V_hh + B_hh V_jj + 2 B_jh V_jh;
    the third is Wishart with N-1 degrees of freedom, of variance
    (N-1)(V_jj V_hh + V_jh²). Their sum over (N-1)² is the squared error.

    Noise centred in every group leaves the mean and has no products with the
    group means; its scatter is Wishart with N-G degrees of freedom.

    With a covariance V_g = c W_g/n_g in each group, c = N/(N-1), the mean has
    variance c W_jj/N². The products with the means have variance
    c Σ_g (u_j² W_hh + u_h² W_jj + 2 u_j u_h W_jh), u being the group's mean
    less that of all; the scatter of the noise, a quadratic form in
    I - 11'/N, has (1 - 2/N) c² Σ_g (W_jj W_hh + W_jh²)/n_g plus
    c²/N² (W_jj W_hh + W_jh²) of the pooled W. The c of a table is used for a
    stratum too, where it differs from the stratum's own by a relative 1/N.
    """
    _check_form(method, form)
    width = len(grouped.total.mean)
    if method in EXACT_METHODS or form == "exact":
        return SamplingLimit(np.zeros(width), np.zeros((width, width)))
    if method == "pca":
        if spread is None:
            raise JobError("the sampling error of pca in expectation needs a GroupSpread; count one per partition")
        return _limit_by_group(spread)
    added = s_delta(grouped, str(form)) if noise is None else noise
    n = grouped.total.n
    wishart = _pair(added)
    if form == "centred":
        return SamplingLimit(np.zeros(width), _root((n - grouped.groups) * wishart) / max(n - 1, 1))
    cross = _symmetric(np.outer(np.diag(grouped.between_scatter), np.diag(added)))
    cross = cross + 2 * grouped.between_scatter * added
    return SamplingLimit(_root(np.diag(added) / max(n, 1)), _root(cross + (n - 1) * wishart) / max(n - 1, 1))


def _limit_by_group(spread: GroupSpread) -> SamplingLimit:
    n = max(spread.n, 1)
    c = n / max(n - 1, 1)
    cross = c * (_symmetric(spread.square) + 2 * spread.product)
    scatter = c**2 * ((1 - 2 / n) * spread.noise + _pair(spread.within) / n**2)
    return SamplingLimit(_root(c * np.diag(spread.within)) / n, _root(cross + scatter) / max(n - 1, 1))


def _pair(v: FloatArray) -> FloatArray:
    """v_jj v_hh + v_jh²: the variance of a product of two correlated normals."""
    return np.outer(np.diag(v), np.diag(v)) + v**2


def _symmetric(a: FloatArray) -> FloatArray:
    return a + a.T


def _root(variance: FloatArray) -> FloatArray:
    """The square root; what rounding left below zero counts as zero."""
    return np.sqrt(np.clip(variance, 0.0, None))


def _check_form(method: str, form: str | None) -> None:
    known: dict[str, tuple[str | None, ...]] = {
        "centroid": (None,),
        "gaussian": (None, "exact"),
        "pca": ("exact", "expected"),
        "micro_perturbation": FORMS,
    }
    if method not in known:
        raise JobError(f"unknown synthesizer {method!r}; known are: {', '.join(known)}")
    _known_form(form, known[method])


def _known_form(form: str | None, known: tuple[str | None, ...]) -> None:
    if form not in known:
        raise JobError(f"unknown form {form!r}; known are: {', '.join(str(name) for name in known)}")


def _divide(a: npt.NDArray[Any], b: npt.NDArray[Any], empty: float = np.nan) -> FloatArray:
    """Divide a by b; `empty` where b is not positive."""
    result: FloatArray = np.divide(a, b, out=np.full(np.shape(a), empty), where=b > 0)
    return result


def _table(points: FloatArray) -> FloatArray:
    if points.ndim != 2:
        raise InputError(f"records are given as a table of 2 dimensions, not {points.ndim}; reshape them")
    return np.ascontiguousarray(points, dtype=np.float64)


def _same_width(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> None:
    if a.shape != b.shape:
        raise InputError(f"moments of {len(a)} and {len(b)} columns do not merge; count the same columns everywhere")


def _to_dict(record: Moments | PairwiseMoments | GroupSpread) -> dict[str, Any]:
    values = {field.name: getattr(record, field.name) for field in fields(record)}
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in values.items()}


def _array(content: Any) -> FloatArray:
    return np.array(content, dtype=np.float64)
