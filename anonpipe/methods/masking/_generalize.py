"""Generalisation: intervals for values, by Mondrian's cuts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from anonpipe.columns import Column
from anonpipe.errors import LOWER_K_OF_MASK, InputError, JobError
from anonpipe.kernels.compiled import kernel
from anonpipe.kernels.points import kth_smallest, split_rows
from anonpipe.methods.executor import Reduce, Rows, Step
from anonpipe.methods.grouping._spectral import ranges
from anonpipe.methods.options import MaskOptions
from anonpipe.methods.record import Ends, Features, Masker, no_dummies
from anonpipe.types import BoolArray, FloatArray, IntArray

Release = Literal["midpoint", "interval"]
Cuts = Literal["relaxed", "strict"]


@dataclass(frozen=True, eq=False)
class Range:
    """Smallest and largest value of each column, shape (width,); infinities for no records."""

    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, part: FloatArray) -> Self:
        """Count a part."""
        return cls(part.min(axis=0, initial=np.inf), part.max(axis=0, initial=-np.inf))

    def merge(self, other: Self) -> Self:
        """Both pieces together."""
        return type(self)(np.minimum(self.low, other.low), np.maximum(self.high, other.high))


@dataclass(frozen=True, eq=False)
class Intervals:
    """Groups, and the interval of each record's group."""

    order: IntArray  # `order[starts[g]:starts[g + 1]]` are the records of group g
    starts: IntArray
    low: FloatArray  # Lower ends of the intervals, shape (n_rows, width); NaN where suppressed
    high: FloatArray  # Upper ends, likewise

    @property
    def middle(self) -> FloatArray:
        """Middle of the intervals, shape (n_rows, width)."""
        return self.low + (self.high - self.low) / 2


class GeneralizeOptions(MaskOptions):
    """The middle of the interval that at least k records of a partition share, in all masked columns.

    `steps` widens the intervals of numbers and dates, named, to multiples of a step in the column's unit (days for
    dates), counted from `origin` (0, or 1970-01-01, unless given). Without it middles are made of true values.
    `release`: `midpoint` alone, or the `interval` too, as two more columns NAME_from and NAME_to next to each masked
    number and date, ends included. The ends of all columns then need steps, wider than the column's own: others would
    be true values of persons.
    """

    method: Literal["generalize"]
    release: Literal["midpoint", "interval"] = "midpoint"
    cuts: Literal["relaxed", "strict"] = "relaxed"
    steps: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]] | None = None
    origin: dict[str, Annotated[float, Field(allow_inf_nan=False)]] | None = None

    @model_validator(mode="after")
    def _origins_have_steps(self) -> GeneralizeOptions:
        if idle := set(self.origin or {}) - set(self.steps or {}):
            raise ValueError(f"origin is given for {', '.join(sorted(idle))} without steps; give both")
        return self


def generalize(
    *,
    k: Annotated[int, Field(ge=1)],
    release: Release = "midpoint",
    cuts: Cuts = "relaxed",
    steps: tuple[float, ...] | None = None,
    origin: tuple[float, ...] | None = None,
    suppress_above: Annotated[float | None, Field(gt=0, allow_inf_nan=False)] = None,
) -> tuple[Step, ...]:
    """Replace values by the interval that they share with k - 1 others or more.

    Each part is cut by itself (see `intervals`; ranges are those of all records) and needs k records. In every part
    each record has all its intervals in common with k - 1 others or more, so that the masked columns are k-anonymous.
    """
    function = partial(
        _replace_values, k=k, release=release, cuts=cuts, steps=steps, origin=origin, suppress_above=suppress_above
    )
    ends = 1 if release == "midpoint" else 2  # of each interval
    return (
        Reduce("ranges", Range.of, lambda ranges: ranges.high - ranges.low),
        Rows("cut", function, least=k, channels=lambda given, params: ends * given),
    )


def _replace_values(part: FloatArray, *, params: FloatArray, release: Release, **options: Any) -> FloatArray:
    """Middles, or low and high ends."""
    found = intervals(part, scale=params, **options)
    return found.middle if release == "midpoint" else np.concatenate([found.low, found.high], axis=1)


def intervals(
    features: FloatArray,
    k: int,
    *,
    scale: FloatArray | None = None,
    cuts: Cuts = "relaxed",
    steps: tuple[float, ...] | None = None,
    origin: tuple[float, ...] | None = None,
    suppress_above: float | None = None,
) -> Intervals:
    """Cut records at the median of their widest column until no cut leaves k on both sides; O(n log n)."""
    # Widest is the largest range relative to `scale` (width,); of equals the first. The paper's strict median cut sends
    # values up to the (lower) median left; where that leaves fewer than k right the next widest column is cut.
    if len(features) < k:
        raise InputError(f"generalize was given k={k} for {len(features)} records; add records, or {LOWER_K_OF_MASK}")
    widest = np.ptp(features, axis=0) if scale is None else scale
    order, ends = _mondrian_groups(features, k, np.where(widest > 0, widest, np.inf), cuts == "strict")
    starts = np.append(0, np.flatnonzero(ends) + 1)
    low = np.minimum.reduceat(features[order], starts[:-1], axis=0)
    high = np.maximum.reduceat(features[order], starts[:-1], axis=0)
    hidden = high - low > suppress_above * widest if suppress_above is not None else np.zeros(low.shape, dtype=np.bool_)
    if steps is not None:
        low, high = _widened(low, high, steps, origin)
    elif origin is not None:
        raise JobError("generalize was given origin without steps; give both, or leave origin out")
    low[hidden], high[hidden] = np.nan, np.nan
    sizes, spread_low, spread_high = np.diff(starts), np.empty_like(features), np.empty_like(features)
    spread_low[order], spread_high[order] = np.repeat(low, sizes, axis=0), np.repeat(high, sizes, axis=0)
    return Intervals(order, starts, spread_low, spread_high)


def _widened(
    low: FloatArray, high: FloatArray, steps: tuple[float, ...], origin: tuple[float, ...] | None
) -> tuple[FloatArray, FloatArray]:
    """Ends moved outwards to the steps of their column; never inwards, whatever the rounding."""
    width, step = low.shape[1], np.array(steps, dtype=np.float64)
    start = np.zeros(width) if origin is None else np.array(origin, dtype=np.float64)
    if step.shape != (width,) or start.shape != (width,):
        raise JobError(f"generalize was given {step.size} steps and {start.size} origins; give one for each of {width}")
    if not (np.isfinite(step).all() and np.isfinite(start).all() and (step >= 0).all()):
        raise JobError("steps and origins of generalize are finite, and steps 0 or more")
    unit = np.where(step > 0, step, 1.0)
    return (
        np.where(step > 0, np.minimum(start + _floor((low - start) / unit) * unit, low), low),
        np.where(step > 0, np.maximum(start - _floor((start - high) / unit) * unit, high), high),
    )


def _floor(counts: FloatArray) -> FloatArray:
    """The next whole number below, but for those that are whole to rounding."""
    nearest = np.rint(counts)
    whole = np.abs(counts - nearest) <= 8 * np.finfo(np.float64).eps * np.maximum(1.0, np.abs(counts))
    return np.where(whole, nearest, np.floor(counts))


def _of_table(options: GeneralizeOptions, features: Features) -> dict[str, Any]:
    """Steps and origins in the unit of the features; a step of 0 for columns without."""
    if not options.steps:
        return {"k": features.k, "steps": None, "origin": None}
    steps, origin = np.zeros(features.width), np.zeros(features.width)
    for number in features.numbers:
        if number.name not in options.steps:
            continue
        if number.transformed:
            raise JobError(
                f"mask.steps names {number.name!r}, which is masked by its logarithm or scores (transform), where "
                "steps of its unit have no one width; leave out one of them"
            )
        steps[number.place] = options.steps[number.name] / number.sd
        origin[number.place] = ((options.origin or {}).get(number.name, 0.0) - number.mean) / number.sd
    return {"k": features.k, "steps": tuple(steps.tolist()), "origin": tuple(origin.tolist())}


def _check_steps(options: GeneralizeOptions, columns: Mapping[str, Column]) -> str | None:
    for name in options.steps or {}:
        if name not in columns or not columns[name].role.synthesized or columns[name].kind.coded:
            return f"mask.steps names {name!r}; give numbers and dates that are masked"
    if scored := [name for name, column in columns.items() if column.scored]:
        return (
            f"column {scored[0]!r} is masked by normal scores, of which each stratum makes other values, and "
            "mask.method generalize makes rows that are alike wherever they are; set transform: none"
        )
    if options.release == "midpoint":
        return None
    masked = {name: each for name, each in columns.items() if each.role.synthesized and not each.kind.coded}
    return next(filter(None, (_true_ends(options, name, column) for name, column in masked.items())), None)


def _true_ends(options: GeneralizeOptions, name: str, column: Column) -> str | None:
    """Why the ends of the column's intervals would be values of persons; None where they are not."""
    if column.transform not in (None, "none"):
        return (
            f"mask.release interval needs steps, and those of column {name!r}, which is masked by its logarithm or "
            f"scores (transform: {column.transform}), have no one width: the ends would be true values of persons; "
            "leave out transform, or take release: midpoint"
        )
    steps = options.steps or {}
    if steps.get(name, 0.0) > (column.resolution or 0.0):
        return None
    given = f"mask.steps of {steps[name]:g}" if name in steps else "no mask.steps"
    return (
        f"mask.release interval has {given} for {name!r}: the ends of its intervals would be true values "
        "of persons, the extremes of the table among them; give mask.steps wider than the column's own "
        f"step, such as {name}: {10 * (column.resolution or 1):g}, or take release: midpoint"
    )


METHOD = Masker(
    function=generalize,
    options=GeneralizeOptions,
    published="Mondrian multidimensional k-anonymity",
    reference="LeFevre, DeWitt & Ramakrishnan (2006), doi:10.1109/ICDE.2006.101",
    cost="time n · w · log n; memory: one part three times",
    about={
        "k": "smallest number of records that share their intervals; in a job its k",
        "release": "'midpoint' (default), or 'interval': all low ends, then all high ends; in a job the "
        "middle, and columns NAME_from and NAME_to",
        "cuts": "'relaxed' (default): equal values may be cut apart; 'strict': they stay together",
        "steps": "intervals are widened to multiples of these, one per column, in a job by name; none by default",
        "origin": "where the steps are counted from, one per column, in a job by name; 0 by default",
        "suppress_above": "share of a column's range above which an interval is suppressed; none by default; "
        "not in a job",
    },
    keeps="groups of k or more share all their intervals; ends are true values unless steps widen them; neither "
    "means nor covariances are kept",
    expect=None,
    link="person",
    own_scale=True,
    identical_rows=True,
    learns=(Range,),
    forms="cuts",
    follows=_of_table,
    check_columns=_check_steps,
    ends=lambda options: Ends(options.steps or {}, options.origin or {}) if options.release == "interval" else None,
    decodings={
        "sampled": "decode.categories sampled draws at random; with mask generalize take another",
        "probabilities": no_dummies("generalize", "makes middles of intervals"),
    },
)


# --- Mondrian: records cut again and again at the median of their widest column ---------------------------------------


@kernel
def _records_left(values: FloatArray, strict: bool) -> int:
    """How many records a cut at the median puts left: half of them, or all up to the (lower) median value."""
    n = values.shape[0]
    if not strict:
        return int(n // 2)
    return int((values <= kth_smallest(values, (n - 1) // 2)).sum())


@kernel
def _cut(features: FloatArray, rows: IntArray, k: int, widths: FloatArray, strict: bool) -> int:
    """Sort `rows` by a cut along the widest column that allows it, using up `widths`; records left, or 0 for none."""
    n = rows.shape[0]
    while True:
        widest = int(np.argmax(widths))
        if not widths[widest] > 0.0:
            return 0
        values = features[rows, widest]
        left = _records_left(values, strict)
        if left >= k and n - left >= k:
            split_rows(rows, values, left)
            return left
        widths[widest] = 0.0


@kernel
def _mondrian_groups(features: FloatArray, k: int, scale: FloatArray, strict: bool) -> tuple[IntArray, BoolArray]:
    """Cut all records into groups of at least k: their order, and where groups end; `scale` has shape (width,)."""
    n = features.shape[0]
    order = np.arange(n)
    ends = np.zeros(n, dtype=np.bool_)
    stack = [(0, n)]
    while len(stack) > 0:
        low, high = stack.pop()
        left = 0
        if high - low >= 2 * k:
            rows = order[low:high]
            left = _cut(features, rows, k, ranges(features, rows) / scale, strict)
        if left == 0:
            ends[high - 1] = True
        else:
            stack.append((low, low + left))
            stack.append((low + left, high))
    return order, ends
