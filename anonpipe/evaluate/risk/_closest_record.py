"""Distance to the closest record, and to the closest over the second, compared with a reference."""

from __future__ import annotations

import math

import numpy as np

from anonpipe.evaluate.measurement import Audience, Curve, Figure, Measurement, wilson
from anonpipe.evaluate.risk._measure import AttackData, Measured, RiskMeasure
from anonpipe.types import FloatArray

_LEVELS = tuple(round(0.01 * at, 2) for at in (1, 2, 5, *range(10, 100, 10), 95, 99))
_SOURCE = "usual in the testing of synthetic data; no single origin"
_NOTE = (
    "No evidence of privacy by itself: records at a distance can be found, and close ones stand for nobody where a "
    "group shares them. Read it with linkage and attacks; it is no limit to release on."
)
_CLOSEST = "distance to the closest released record"
FIGURES = {
    key: Figure(
        f"closest_record.{key}",
        title,
        unit,
        _SOURCE,
        Audience.ENOUGH,
        better="lower" if key == "equal" else "higher",
        baseline_is="the original, leaving each record out",
    )
    for key, title, unit in (
        ("p5", f"5th percentile of the {_CLOSEST}", "sd"),
        ("p5_ratio", f"5th percentile of the {_CLOSEST}, as a multiple of the reference's", ""),
        ("median", f"Median of the {_CLOSEST}", "sd"),
        ("equal", "Records with an equal released record", "share"),
        ("nndr", "Median ratio of the distances to the closest and the second closest released record", ""),
    )
}


def closest_record(near: FloatArray, other: FloatArray, *, of: int) -> list[Measurement]:
    """Compare distances to the closest and second closest record, shape (n, 2), with those without a release, (m, 2).

    Percentiles are order statistics (the lower one at a fraction). The interval of the 5th percentile is that of order
    statistics: binomial ranks. Where both distances are 0 their ratio is taken as 1, as neither stands out.
    """
    own, theirs = _percentiles(near[:, 0]), _percentiles(other[:, 0])
    tail, reference_tail = own[_LEVELS.index(0.05)], theirs[_LEVELS.index(0.05)]
    equal = float((near[:, 0] == 0).mean())
    values = {
        "p5": (tail, reference_tail),
        "p5_ratio": (tail / reference_tail if reference_tail > 0 else math.nan, 1.0),
        "median": (float(np.median(near[:, 0])), float(np.median(other[:, 0]))),
        "equal": (equal, float((other[:, 0] == 0).mean())),
        "nndr": (_nearness(near), _nearness(other)),
    }
    intervals: dict[str, tuple[float, float]] = {}
    if len(near) < of:
        intervals = {"p5": _tail_interval(near[:, 0]), "equal": wilson(equal * len(near), len(near))}
    curve = Curve("Distance to the closest record", "share of records", "distance", _LEVELS, own, theirs)
    found, sizes = [], (len(near), of)
    for key, (value, baseline) in values.items():
        undefined = "Not defined: the reference has records at distance 0. " if math.isnan(value) else ""
        interval, curves = intervals.get(key, (None, None)), (curve,) if key == "p5" else ()
        note = undefined + _NOTE
        found.append(
            FIGURES[key].measured(value, *sizes, interval=interval, baseline=baseline, note=note, curves=curves)
        )
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
    near, other = (found.nearest.distances[:, :2] for found in (data.released, data.original))
    return closest_record(near, other, of=data.rows)


MEASURE = RiskMeasure("closest_record", "distance to the closest record", tuple(FIGURES.values()), _of_release)
