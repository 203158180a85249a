"""What uncertainty of a value is left to who sees the released one, as the width of an interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree
from scipy.special import digamma

from anonpipe.errors import InputError, JobError
from anonpipe.measure import Measurement
from anonpipe.risk._interval import Z
from anonpipe.risk._nearest import table

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ConditionalPrivacy:
    """Conditional privacy of each column.

    Attributes
    ----------
    names
        Columns, shape of all that follow.
    values
        2^h(A|B) of each column, in its standard deviations; NaN where it is
        not defined.
    alone
        2^h(A): the same where the release tells nothing.
    linear
        What it would be at most if A followed from B linearly with errors of
        the same variance: √(2πe (1 - r²)).
    mean, low, high
        Mean of `values` over the columns that have one, and the ends of its
        95 % interval.
    mean_alone
        Mean of `alone` over the same columns.
    records, of
        Records measured, and that there are.
    """

    names: tuple[str, ...]
    values: tuple[float, ...]
    alone: tuple[float, ...]
    linear: tuple[float, ...]
    mean: float
    low: float
    high: float
    mean_alone: float
    records: int
    of: int

    def measurements(self) -> tuple[Measurement, ...]:
        """The mean over columns, with the columns as parts."""
        known = [(name, value) for name, value in zip(self.names, self.values, strict=True) if np.isfinite(value)]
        left = len(self.names) - len(known)
        note = (
            "Width of an interval over which a value is as uncertain, to who sees the released value of the same "
            "column and knows which it is. Estimated from nearest neighbours; other columns may tell more."
        )
        if left:
            note += f" {left} of {len(self.names)} columns have repeated values, for which it is not defined."
        return (
            Measurement(
                name="conditional_privacy",
                title="Uncertainty of an original value that is left to who sees the released one",
                value=self.mean,
                unit="sd",
                better="higher",
                source="Gal et al. 2014, eq. 10; Agrawal & Aggarwal 2001",
                records=self.records,
                of=self.of,
                low=self.low if known else None,
                high=self.high if known else None,
                baseline=self.mean_alone if known else None,
                baseline_is="nothing released" if known else "",
                note=note,
                parts=tuple(known),
                disclosive=len(known) < 3,  # the baseline tells how far the original's values spread
            ),
        )


def conditional_privacy(
    original: npt.ArrayLike,
    released: npt.ArrayLike,
    names: Sequence[str] | None = None,
    *,
    neighbours: int = 5,
    records: int | None = None,
) -> ConditionalPrivacy:
    """Average conditional privacy 2^h(A|B), A being an original column and B its released values.

    Parameters
    ----------
    original, released
        Finite numbers, a released record in the row of its original, shapes
        (n_rows, width). Where records have no released record of their own,
        pair those of a group in any order.
    names
        Of the columns; numbered where not given.
    neighbours
        Neighbours that the estimate rests on, 1 or more. More are steadier,
        and smooth over finer structure.
    records
        Number of original records, if these are a random sample.

    Returns
    -------
    ConditionalPrivacy
        Of A in standard deviations: a uniform column that the release tells
        nothing of has √12 = 3.46, a normal one √(2πe) = 4.13, a column that is
        released as it is 0.

    Notes
    -----
    *Estimator.* The paper gives none. With ε_i the distance from record i to
    its k-th neighbour in the plane of A and B, the larger of both coordinates
    counting, and m_i the other records whose B is nearer than ε_i,

        h(A|B) = mean of log(2 ε_i) + ψ(m_i + 1), less ψ(k)

    is h(A, B) - h(B) after Kozachenko & Leonenko with the same ε_i in both,
    whose errors largely cancel (Kraskov et al.). B is scaled as A is. It holds
    too where B takes few values, as group means do.

    *Limits.* A column with repeated values has no density, and h(A) is minus
    infinity however well it is protected: it is left out where one record in
    a hundred or more shares its value with `neighbours` others. With B near A
    the estimate cannot fall below the spacing of the records, about 1/n:
    compare releases at the same number of records. Only one column is taken
    to be seen. An average hides single records that are fully known.

    *The interval* takes the terms of single records as independent.

    Raises
    ------
    InputError, JobError
        Arguments are not as described, or records are not more than neighbours.

    References
    ----------
    Gal, Chen, Gangopadhyay & Chen (2014), J. Biomedical Informatics 50,
    doi:10.1016/j.jbi.2014.05.001, eqs. 9, 10; Agrawal & Aggarwal (2001),
    PODS, doi:10.1145/375551.375602; Kraskov, Stögbauer & Grassberger (2004),
    Physical Review E 69:066138, doi:10.1103/PhysRevE.69.066138.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> column = rng.normal(size=(2_000, 1))
    >>> found = conditional_privacy(column, column + 0.1 * rng.normal(size=(2_000, 1)))
    >>> round(found.mean, 1), round(found.mean_alone, 1), round(found.linear[0], 1)
    (0.4, 4.1, 0.4)
    """
    old, new = _checked(original, released, neighbours)
    count, width = old.shape
    if names is not None and len(names) != width:
        raise JobError(f"{len(names)} names were given for {width} columns; give one each")
    total = count if records is None else records
    if total < count:
        raise JobError(f"{count} records are measured of {total}; give the number of all original records")
    values, alone, linear = (np.full(width, np.nan) for _ in range(3))
    change = np.zeros(count)
    for j in range(width):
        terms = None if (old[:, j] == old[0, j]).all() else _terms(*_scaled(old[:, j], new[:, j]), neighbours)
        if terms is None:
            continue
        given, free, linear[j] = terms
        values[j], alone[j] = np.exp(given.mean()), np.exp(free.mean())
        # To first order, what a record's own term does to the sum over columns.
        change += values[j] * (given - given.mean())
    known = np.isfinite(values)
    mean, mean_alone, half = float("nan"), float("nan"), float("nan")
    if known.any():
        mean, mean_alone = float(values[known].mean()), float(alone[known].mean())
        half = Z * float(np.std(change / known.sum(), ddof=1)) / count**0.5
    return ConditionalPrivacy(
        names=tuple(f"column {j}" for j in range(width)) if names is None else tuple(names),
        values=tuple(values.tolist()),
        alone=tuple(alone.tolist()),
        linear=tuple(linear.tolist()),
        mean=mean,
        low=max(0.0, mean - half) if known.any() else mean,
        high=mean + half,
        mean_alone=mean_alone,
        records=count,
        of=total,
    )


def _checked(original: npt.ArrayLike, released: npt.ArrayLike, neighbours: int) -> tuple[FloatArray, FloatArray]:
    old, new = table(original, "original records"), table(released, "released records")
    if old.shape != new.shape:
        raise InputError(
            f"the tables have shapes {old.shape} and {new.shape}; give a released record for each original"
        )
    if neighbours < 1:
        raise JobError(f"neighbours is {neighbours}; give 1 or more")
    if len(old) <= neighbours + 1:
        raise InputError(f"{len(old)} records are too few for {neighbours} neighbours; give {neighbours + 2} or more")
    return old, new


def _scaled(column: FloatArray, released: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Both in standard deviations of the original column, from its mean."""
    return (column - column.mean()) / column.std(), (released - column.mean()) / column.std()


def _terms(a: FloatArray, b: FloatArray, neighbours: int) -> tuple[FloatArray, FloatArray, float] | None:
    """Terms of h(A|B) and of h(A) by record, in nats, and the linear bound; None where A has no density."""
    count = len(a)
    own = cKDTree(a[:, None]).query(a[:, None], neighbours + 1)[0][:, -1]
    if np.count_nonzero(own == 0) >= 0.01 * count:
        return None
    plane = np.column_stack([a, b])
    reach = cKDTree(plane).query(plane, neighbours + 1, p=np.inf)[0][:, -1]
    ordered = np.sort(b)
    # Strictly nearer than the k-th neighbour, which rounding must not let in, and itself taken out again.
    short = np.maximum(reach - 1e-12 * (np.abs(b) + reach), 0.0)
    inside = np.searchsorted(ordered, b + short, side="right") - np.searchsorted(ordered, b - short, side="left") - 1
    smallest = np.finfo(np.float64).tiny
    given = np.log(2.0 * np.maximum(reach, smallest)) + digamma(inside + 1.0) - digamma(neighbours)
    free = np.log(2.0 * np.maximum(own, smallest)) + digamma(count) - digamma(neighbours)
    varies = not (b == b[0]).all()
    related = float(np.corrcoef(a, b)[0, 1]) if varies else 0.0
    linear = (2.0 * np.pi * math.e * max(0.0, 1.0 - related**2)) ** 0.5
    return given, free, linear
