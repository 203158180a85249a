"""Distance to the closest record, and to the closest over the second, beside a reference."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anonpipe.audience import Audience
from anonpipe.errors import InputError
from anonpipe.evaluate.measurement import Curve, Measurement
from anonpipe.evaluate.risk._interval import wilson
from anonpipe.evaluate.risk._measure import AttackData, Measure, Measured, records_of
from anonpipe.types import FloatArray

_LEVELS = tuple(round(0.01 * at, 2) for at in (1, 2, 5, *range(10, 100, 10), 95, 99))
_NOTE = (
    "No evidence of privacy by itself: records at a distance can be found, and close ones stand for nobody where a "
    "group shares them. Read it beside linkage and attacks; it is no limit to release on."
)


@dataclass(frozen=True)
class ClosestRecord:
    """How close records are to their closest counterpart."""

    # low_tail, median: 5th percentile and median of the distance to the closest record
    low_tail: float
    median: float
    # reference_low_tail, reference_median: the same of the reference
    reference_low_tail: float
    reference_median: float
    # 95 % interval of the 5th percentile; None where all records were searched
    low_tail_interval: tuple[float, float] | None
    ratio: float  # 5th percentile over that of the reference; NaN where that is 0
    # equal, reference_equal: share of records with a counterpart at distance 0
    equal: float
    reference_equal: float
    # nearness, reference_nearness: median of the closest distance over the second: near 0 where one counterpart stands
    # out
    nearness: float
    reference_nearness: float
    curve: Curve  # Percentiles of both
    reference_is: str  # What the reference is
    # records, of: records searched, and that there are
    records: int
    of: int

    def measurements(self) -> tuple[Measurement, ...]:
        """5th percentile, its ratio, median, share at distance 0, and median ratio of the two distances."""

        def one(key: str, title: str, value: float, baseline: float, unit: str = "sd") -> Measurement:
            low, high = self._ends(key)
            return Measurement(
                name=f"closest_record.{key}",
                title=title,
                value=value,
                unit=unit,
                better="lower" if key == "equal" else "higher",
                source="usual in the testing of synthetic data; no single origin",
                records=self.records,
                of=self.of,
                audience=Audience.ENOUGH,
                low=low,
                high=high,
                baseline=None if math.isnan(baseline) else baseline,
                baseline_is="" if math.isnan(baseline) else self.reference_is,
                note=_NOTE
                if not math.isnan(value)
                else "Not defined: the reference has records at distance 0. " + _NOTE,
                curves=(self.curve,) if key == "p5" else (),
            )

        closest = "distance to the closest released record"
        return (
            one("p5", f"5th percentile of the {closest}", self.low_tail, self.reference_low_tail),
            one("p5_ratio", f"5th percentile of the {closest}, as a multiple of the reference's", self.ratio, 1.0, ""),
            one("median", f"Median of the {closest}", self.median, self.reference_median),
            one("equal", "Share of records that have an equal released one", self.equal, self.reference_equal, "share"),
            one(
                "nndr",
                "Median ratio of the distances to the closest and the second closest released record",
                self.nearness,
                self.reference_nearness,
                "",
            ),
        )

    def _ends(self, key: str) -> tuple[float | None, float | None]:
        if self.records == self.of or key not in ("p5", "equal"):
            return None, None
        return (
            self.low_tail_interval or (None, None) if key == "p5" else wilson(self.equal * self.records, self.records)
        )


def closest_record(
    distances: npt.ArrayLike,
    reference: npt.ArrayLike,
    *,
    reference_is: str,
    of: int | None = None,
) -> ClosestRecord:
    """Compare distances to the closest and second closest record with a reference.

    Parameters
    ----------
    distances
        First and second smallest distance of each record searched, shape
        (n, 2): originals in the release, or released records in the original.
    reference
        The same without a release, shape (m, 2): originals in the original,
        each but itself, or a hold-out in the original.
    reference_is
        Which of them, in words.
    of
        Records that `distances` is a sample of; None for all.

    Notes
    -----
    Percentiles are order statistics (the lower one at a fraction). The
    interval of the 5th percentile is that of order statistics: binomial ranks.
    Where both distances are 0 their ratio is taken as 1, as neither stands out.

    Raises
    ------
    InputError
        The distances are not as described.

    Examples
    --------
    >>> found = closest_record([[1.0, 2.0], [3.0, 3.0]], [[2.0, 4.0]], reference_is="a hold-out")
    >>> found.low_tail, found.ratio, found.nearness
    (1.0, 0.5, 0.75)
    """
    near, other = _checked(distances, "distances"), _checked(reference, "reference distances")
    own, theirs = _percentiles(near[:, 0]), _percentiles(other[:, 0])
    tail, reference_tail = own[_LEVELS.index(0.05)], theirs[_LEVELS.index(0.05)]
    return ClosestRecord(
        low_tail=tail,
        median=float(np.median(near[:, 0])),
        reference_low_tail=reference_tail,
        reference_median=float(np.median(other[:, 0])),
        low_tail_interval=_tail_interval(near[:, 0]) if of is not None and of > len(near) else None,
        ratio=tail / reference_tail if reference_tail > 0 else math.nan,
        equal=float((near[:, 0] == 0).mean()),
        reference_equal=float((other[:, 0] == 0).mean()),
        nearness=_nearness(near),
        reference_nearness=_nearness(other),
        curve=Curve("Distance to the closest record", "share of records", "distance", _LEVELS, own, theirs),
        reference_is=reference_is,
        records=len(near),
        of=records_of(of, len(near), "records searched"),
    )


def _checked(distances: npt.ArrayLike, what: str) -> FloatArray:
    found = np.asarray(distances, dtype=np.float64)
    if found.ndim != 2 or found.shape[1] != 2 or not len(found):
        raise InputError(
            f"the {what} have shape {found.shape}; give the first and second of one record or more, (n, 2)"
        )
    if not np.isfinite(found).all() or found.min() < 0 or (found[:, 0] > found[:, 1]).any():
        raise InputError(f"the {what} must be finite and 0 or more, the first of a record not above the second")
    return found


def _percentiles(values: FloatArray) -> tuple[float, ...]:
    return tuple(float(x) for x in np.quantile(values, _LEVELS, method="lower"))


def _nearness(distances: FloatArray) -> float:
    first, second = distances.T
    return float(np.median(np.divide(first, second, out=np.ones_like(first), where=second > 0)))


def _tail_interval(values: FloatArray) -> tuple[float, float]:
    """Order statistics between which the 5th percentile lies with 95 %."""
    from scipy.stats import binom

    ordered, n = np.sort(values), len(values)
    below, above = binom.ppf([0.025, 0.975], n, 0.05)
    return float(ordered[max(0, int(below) - 1)]), float(ordered[min(n - 1, int(above))])


def _of_release(data: AttackData) -> Measured:
    found = closest_record(
        data.released.nearest.distances[:, :2],
        data.original.nearest.distances[:, :2],
        reference_is="the original, leaving each record out",
        of=data.rows,
    )
    return found.measurements()


MEASURE = Measure(
    key="closest_record",
    title="distance to the closest record",
    figures=(
        "closest_record.p5",
        "closest_record.p5_ratio",
        "closest_record.median",
        "closest_record.equal",
        "closest_record.nndr",
    ),
    function=_of_release,
)
