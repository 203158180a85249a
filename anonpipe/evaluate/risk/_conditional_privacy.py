"""Uncertainty of a value, given the released one: the width of an interval, or a number of values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.special import digamma, stdtrit

from anonpipe.errors import InputError
from anonpipe.evaluate.measurement import Audience, Ends, Figure, Measurement
from anonpipe.evaluate.risk._measure import AttackData, Measured, Pairs, RiskMeasure, require
from anonpipe.kernels.points import LARGEST
from anonpipe.types import FloatArray, IntArray

BLOCKS = 10  # Parts of the records that the interval rests on

FEWEST_IN_BLOCK = 20  # Records of a part; with fewer there is no interval

MOST_ALONE = 0.02  # Share of records whose pair of categories occurs once, above which counts say too little

MOST_DIGITS = 6  # Digits behind the point up to which values may lie on a grid

_figure = partial(
    Figure,
    source="Gal et al. 2014, eq. 10; Agrawal & Aggarwal 2001",
    audience=Audience.SEVERAL,
    better="higher",
    baseline_is="nothing released",
)
_FIGURES = (  # Of columns of numbers, and of categories
    _figure(
        "conditional_privacy",
        "Uncertainty of an original number, given the released one",
        "sd",
        note="Width of an interval over which a value is as uncertain, given the released value of the same "
        "column and record; of columns on a grid the number of values times their distance. "
        "Estimated from nearest neighbours; other columns may tell more.",
    ),
    _figure(
        "conditional_privacy.categories",
        "Uncertainty of an original category, given the released one",
        "values",
        note="Number of equally likely values of the same uncertainty. Other columns may tell more.",
    ),
)


def conditional_privacy(pairs: Pairs, *, neighbours: int = 5, of: int | None = None) -> list[Measurement]:
    """Average conditional privacy 2^h(A|B), A being an original column and B its released values.

    Of numbers in standard deviations of A: a uniform column that the release tells nothing of has √12 = 3.46, a normal
    one √(2πe) = 4.13, a continuous column that is released as it is 0, and one on a grid (whole years, months) one
    step. Of categories in values: 1 where the released one tells which it is.

    - `pairs`: where records have no released record of their own, those of a group in any order.
    - `neighbours`: neighbours that the estimate rests on. More are steadier, and smooth over finer structure.
    - `of`: records that there are, of which these are a random sample; None for all.

    The mean over columns of numbers and that over categories, with the columns as parts.

    *Numbers.* The paper gives no estimator. With ε_i the distance from record i to its k-th neighbour in the plane of A
    and B, the larger of both coordinates counting, and m_i the other records whose B is nearer than ε_i,

        h(A|B) = mean of log(2 ε_i) + ψ(m_i + 1), less ψ(k)

    is h(A, B) - h(B) after Kozachenko & Leonenko with the same ε_i in both, whose errors largely cancel (Kraskov et
    al.). B is scaled as A is. It holds too where B takes few values, as group means do.

    *Grids.* A column with repeated values has no density. Where all its values are multiples of a step δ apart (whole
    numbers, months, up to six digits behind the point), A + U with U uniform within a step has one, and h(A + U | B) =
    H(A|B) + log δ without error: the number of values times their distance. B is spread inside its own steps in the
    same way, which takes nothing away, as B can be read off again. A column where one record in a hundred or more
    shares its value with `neighbours` others, and which lies on no grid, is left out.

    *Categories.* H(A, B) - H(B) from counts, each with the correction of Miller and Madow. A null is a category. A
    column of so many values that the pair of one record in fifty or more occurs once is left out, as the correction
    does not reach what was never seen.

    *The interval* rests on ten parts of the records: Student's for the mean of ten, of the spread of the parts'
    figures, and, as errors of the estimate fall with the root of the records or faster, the difference between the mean
    of the parts and the whole for its bias. Over 200 draws each of fifteen laws (normal of any correlation,
    long-tailed, ages, months, counts, group means, copies, categories) of 500 and of 2,000 records it covered the true
    value in 95 % or more (`python -m tests.benchmarks.conditional_privacy`). There is none under 200 records.

    *Limits.* Only one column is taken to be seen. An average hides single records that are fully known.

    Gal, Chen, Gangopadhyay & Chen (2014), J. Biomedical Informatics 50, doi:10.1016/j.jbi.2014.05.001, eqs. 9, 10;
    Agrawal & Aggarwal (2001), PODS, doi:10.1145/375551.375602; Kraskov, Stögbauer & Grassberger (2004), Physical Review
    E 69:066138, doi:10.1103/PhysRevE.69.066138; Miller (1955), Note on the bias of information estimates.
    """
    count, rng = len(pairs.original), np.random.default_rng(0)  # draws places inside the steps of a grid
    if count <= neighbours + 1:
        raise InputError(f"{count} records are too few for {neighbours} neighbours; give {neighbours + 2} or more")
    for name, table in (("original", pairs.original), ("released", pairs.released)):
        if (np.abs(table) > LARGEST).any():
            raise InputError(f"the {name} records hold infinity or numbers above 1e100 in size; scale them first")
    numbers: dict[str, _NumberColumns | _Codes | None] = {}
    categories: dict[str, _NumberColumns | _Codes | None] = {}
    for at, (name, old, new) in enumerate(zip(pairs.names, pairs.original.T, pairs.released.T, strict=True)):
        if at in pairs.categories:
            categories[name] = _Codes.of(old, new)
        else:
            numbers[name] = _NumberColumns.of(old, new, neighbours, rng)
    return [
        _measured(figure, columns, count, of, least)
        for figure, columns, least in zip(_FIGURES, (numbers, categories), (0.0, 1.0), strict=True)
        if columns
    ]


def _measured(
    figure: Figure, columns: Mapping[str, _NumberColumns | _Codes | None], records: int, of: int | None, least: float
) -> Measurement:
    """The mean over the columns of one sort, and its interval from parts of the records."""
    defined = [column for column in columns.values() if column is not None]
    of_all = {name: column.figures(slice(None)) for name, column in columns.items() if column is not None}
    known, note = tuple((name, given) for name, (given, _) in of_all.items() if np.isfinite(given)), figure.note
    if left := len(columns) - len(known):
        note += (
            f" {left} of {len(columns)} columns are left out: constant, nearly all null, with values that repeat "
            "and lie on no grid, or of too many categories for these records."
        )

    def mean(rows: slice) -> float:
        return float(np.mean([column.figures(rows)[0] for column in defined]))

    value, alone = np.mean(list(of_all.values()), axis=0).tolist() if defined else (math.nan, math.nan)
    interval = _interval(mean, value, records, least) if defined else (None, None)
    baseline = alone if known else None  # which tells how far the original's values spread: hence `columns`
    return figure.measured(
        value, records, of, interval=interval, baseline=baseline, note=note, parts=known, columns=len(known)
    )


@dataclass(frozen=True, eq=False)
class _NumberColumns:
    """A column of numbers that has a figure: without nulls, and spread inside its steps."""

    a: FloatArray  # Original, from its mean, in its standard deviation, shape (n,)
    b: FloatArray  # Released, on the same scale
    plain: FloatArray  # The original before it was spread, in the same scale
    neighbours: int  # As asked for

    @classmethod
    def of(
        cls, column: FloatArray, released: FloatArray, neighbours: int, rng: np.random.Generator
    ) -> _NumberColumns | None:
        """None where the figure is not defined."""
        both = ~(np.isnan(column) | np.isnan(released))
        column, released = column[both], released[both]
        if len(column) <= neighbours + 1 or (column == column[0]).all():
            return None
        step, other = 0.0, 0.0
        if _repeats(column, neighbours):
            step = _step(column)
            if not step:
                return None
            other = _step(released) if _repeats(released, neighbours) else 0.0
        middle, spread = column.mean(), column.std()
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            plain, b = (column - middle) / spread, (released - middle) / spread
            a = plain + rng.uniform(-0.5, 0.5, len(plain)) * (step / spread)
            b = b + rng.uniform(-0.5, 0.5, len(b)) * (other / spread)
        if not (np.isfinite(a).all() and np.isfinite(b).all()):
            return None  # differences so small that their squares vanish
        return cls(a, b, plain, neighbours)

    def figures(self, rows: slice) -> tuple[float, float]:
        """2^h(A|B) and 2^h(A) of some rows, in the standard deviation of these."""
        a, b, spread = self.a[rows], self.b[rows], float(self.plain[rows].std())
        if len(a) <= self.neighbours + 1:
            return math.nan, math.nan
        given, free = _terms(a, b, self.neighbours)
        scale = 1.0 / spread if spread > 0 else 1.0
        return scale * math.exp(given.mean()), scale * math.exp(free.mean())


@dataclass(frozen=True, eq=False)
class _Codes:
    """A column of categories: pairs of codes, shape (n,) each."""

    a: IntArray
    b: IntArray

    @classmethod
    def of(cls, column: FloatArray, released: FloatArray) -> _Codes | None:
        """Numbers for values; nulls are one. None where pairs occur too seldom."""
        a, b = (np.unique(values, return_inverse=True)[1].reshape(-1) for values in (column, released))
        found = cls(a.astype(np.int64), b.astype(np.int64))
        alone = np.count_nonzero(np.unique(found._pairs(slice(None)), return_counts=True)[1] == 1)
        return found if alone <= MOST_ALONE * len(a) else None

    def _pairs(self, rows: slice) -> IntArray:
        """Numbers of the pairs."""
        return self.a[rows] * (int(self.b.max()) + 1) + self.b[rows]

    def figures(self, rows: slice) -> tuple[float, float]:
        """2^H(A|B) and 2^H(A) of some rows, 1 or more."""
        a, b = self.a[rows], self.b[rows]
        alone = max(0.0, _entropy(a))
        return math.exp(min(alone, max(0.0, _entropy(self._pairs(rows)) - _entropy(b)))), math.exp(alone)


def _entropy(codes: IntArray) -> float:
    """In nats, with the correction of Miller and Madow."""
    counts = np.unique(codes, return_counts=True)[1]
    shares = counts / len(codes)
    return float(-(shares * np.log(shares)).sum()) + (len(counts) - 1) / (2 * len(codes))


def _interval(figure: Callable[[slice], float], value: float, records: int, least: float) -> Ends:
    """Ends of a 95 % interval; see the notes of `conditional_privacy`."""
    if records < BLOCKS * FEWEST_IN_BLOCK:
        return None, None
    parts = np.array([figure(slice(first, None, BLOCKS)) for first in range(BLOCKS)])
    if not np.isfinite(parts).all():
        return None, None
    chance = float(stdtrit(BLOCKS - 1, 0.975) * parts.std(ddof=1) / BLOCKS**0.5)
    half = chance + abs(float(parts.mean()) - value)
    return max(least, value - half), value + half


def _repeats(column: FloatArray, neighbours: int) -> bool:
    """Whether one record in a hundred or more shares its value with as many others as there are neighbours."""
    counts = np.unique(column, return_counts=True)[1]
    return bool(counts[counts > neighbours].sum() >= 0.01 * len(column))


def _step(column: FloatArray) -> float:
    """The largest step whose multiples all values are apart; 0 where they lie on no decimal grid."""
    for digits in range(MOST_DIGITS + 1):
        scaled = (column - column[0]) * 10.0**digits
        whole = np.rint(scaled)
        largest = float(np.abs(scaled).max())
        if largest < 2**52 and np.abs(scaled - whole).max() <= 1e-6 + 1e-9 * largest:
            return int(np.gcd.reduce(whole.astype(np.int64))) / 10.0**digits
    return 0.0


def _terms(a: FloatArray, b: FloatArray, neighbours: int) -> tuple[FloatArray, FloatArray]:
    """Terms of h(A|B) and of h(A) by record, in nats."""
    from scipy.spatial import cKDTree

    count = len(a)
    own = cKDTree(a[:, None]).query(a[:, None], neighbours + 1)[0][:, -1]
    plane = np.column_stack([a, b])
    reach = cKDTree(plane).query(plane, neighbours + 1, p=np.inf)[0][:, -1]
    ordered = np.sort(b)
    # Strictly nearer than the k-th neighbour, which rounding must not let in, and itself taken out again.
    short = np.maximum(reach - 1e-12 * (np.abs(b) + reach), 0.0)
    inside = np.searchsorted(ordered, b + short, side="right") - np.searchsorted(ordered, b - short, side="left") - 1
    smallest = np.finfo(np.float64).tiny
    given = np.log(2.0 * np.maximum(reach, smallest)) + digamma(inside + 1.0) - digamma(neighbours)
    free = np.log(2.0 * np.maximum(own, smallest)) + digamma(count) - digamma(neighbours)
    return given, free


PAIRED_ROWS = 20_000  # Records that it is estimated from


def _of_pairs(data: AttackData) -> Measured:
    pairs = require(data.pairs)
    some = slice(None, None, -(-len(pairs.original) // PAIRED_ROWS))
    sample = replace(pairs, original=pairs.original[some], released=pairs.released[some])
    return conditional_privacy(sample, of=data.rows)


MEASURE = RiskMeasure("conditional_privacy", "conditional privacy", _FIGURES, _of_pairs, counts_units=True)
