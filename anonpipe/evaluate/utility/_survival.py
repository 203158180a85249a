"""The largest difference of two cumulative incidences of every group, in one pass over both tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from anonpipe.columns import Kind, Scalar
from anonpipe.evaluate.measurement import Audience, Figure, Measurement
from anonpipe.evaluate.utility._measure import MOST_PARTS, UtilityMeasure
from anonpipe.evaluate.utility._shapes import MOST_ROWS, Splits, ratio_figure, ratio_measured, split_half_ratio
from anonpipe.evaluate.utility._tables import Endpoint, TypedTables
from anonpipe.kernels.compiled import kernel
from anonpipe.types import BoolArray, FloatArray, IntArray


@kernel
def curves_apart(
    times: FloatArray, outcomes: IntArray, weights: FloatArray, sides: IntArray, groups: IntArray, last: FloatArray
) -> FloatArray:
    """Largest difference of both weighted cumulative incidences of outcome 1 up to each group's last time."""
    count, rows = len(last), len(times)
    risk = np.zeros((2, count))
    for row in range(rows):
        risk[sides[row], groups[row]] += weights[row]
    largest = np.zeros(count)
    for group in range(count):
        if risk[0, group] == 0 or risk[1, group] == 0:
            largest[group] = np.nan
    risen, free, gone = np.zeros((2, count)), np.ones((2, count)), np.zeros((2, count))
    events, any_event = np.zeros((2, count)), np.zeros((2, count))
    begin = 0
    while begin < rows:
        end = begin
        while end < rows and times[end] == times[begin]:
            gone[sides[end], groups[end]] += weights[end]
            events[sides[end], groups[end]] += weights[end] * (outcomes[end] == 1)
            any_event[sides[end], groups[end]] += weights[end] * (outcomes[end] > 0)
            end += 1
        # All of one time leave together: the curve rises by the events among those at risk just before.
        for row in range(begin, end):
            group, side = groups[row], sides[row]
            if gone[side, group] > 0:
                share = free[side, group] / risk[side, group]
                risen[side, group] += share * events[side, group]
                free[side, group] -= share * any_event[side, group]
                risk[side, group] -= gone[side, group]
                events[side, group] = any_event[side, group] = gone[side, group] = 0.0
        # Compared only after both sides have risen.
        for row in range(begin, end):
            group = groups[row]
            if times[begin] <= last[group]:
                largest[group] = max(largest[group], abs(risen[0, group] - risen[1, group]))
        begin = end
    return largest


# --- Whether survival curves are those of the original, overall and by group, held against two random halves of it ----

RECORDS_OF_K, EVENTS_OF_K = 10, 1  # Times k that a group has records and events, or it has no curve of its own

# Share of a group's original records that are at risk where its curves are last compared: beyond it a step of one
# record is larger than what is to be seen
_STILL_AT_RISK = 0.1

_NO_SURVIVAL = (
    "the job declares no survival analysis: columns of roles survival_time and survival_status, or a Cox model of them"
)

_DIFFERENCE = Figure(
    "survival.difference", "Largest difference of a survival curve, overall or of a group (Kaplan-Meier)", "share",
    "Kaplan & Meier (1958), J. Am. Stat. Assoc. 53:457-481; with competing events the cumulative incidence of Aalen & "
    "Johansen (1978), Scand. J. Stat. 5:141-150", Audience.STEWARD,
    baseline_is="the same curve of another sample of the population, from halves of the original",
)  # fmt: skip
_WITHOUT = replace(_DIFFERENCE, key="survival.without", title="Largest difference of an unweighted curve")
_WORST_CURVE = ratio_figure("survival_curves", "Survival curve furthest from the original, overall or of a group")


@dataclass(frozen=True, eq=False)
class Followed:
    """Times and outcomes of one table; NaN and 0 where one of both is null, and such records count nowhere."""

    times: FloatArray
    outcomes: IntArray  # 0 censored, 1 the event, 2 a competing one
    weights: FloatArray  # Of a survey; 1 without

    @property
    def events(self) -> BoolArray:
        """Whether a record has the event."""
        return np.asarray(self.outcomes == 1)

    @property
    def known(self) -> BoolArray:
        """Whether a record is followed."""
        return ~np.isnan(self.times)


def cumulative_incidence(
    times: FloatArray, outcomes: IntArray, weights: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Times of events (outcome 1), ascending, and the share that had one by then, of Aalen & Johansen (1978).

    The sum over t_i <= t of S(t_i-) d_i / n_i: d_i events among n_i at risk, and S the product-limit of Kaplan & Meier
    (1958) of any event, outcome 2 (a competing one) included. Without competing events it is 1 - S. With survey
    weights d_i and n_i are sums of these.
    """
    at, places = np.unique(times, return_inverse=True)
    own = np.ones(len(times)) if weights is None else weights
    events, leaving = np.bincount(places, own * (outcomes == 1)), np.bincount(places, own)
    at_risk = leaving[::-1].cumsum()[::-1]
    free = np.cumprod(1.0 - np.bincount(places, own * (outcomes > 0)) / at_risk)
    risen = np.cumsum(np.append(1.0, free[:-1]) * events / at_risk)
    return at[events > 0], risen[events > 0]


def _survival_curves(tables: TypedTables, rng: np.random.Generator) -> list[Measurement]:
    """Largest difference of a cumulative incidence, overall and of every group, and the furthest relative to chance."""
    # For each endpoint: all records, and each value of each category that 10 k original records and k events have; up
    # to the time at which a tenth of the group (and k records) is at risk.
    part = tables.sample(MOST_ROWS, rng)
    splits = Splits.draw(part.rows, part.released, rng)
    names: list[tuple[str, ...]] = []
    titles: list[str] = []
    by_group, halves = [np.empty(0)], [np.empty((len(splits.first), 0))]
    for endpoint in part.endpoints:
        old, new = followed(part, endpoint)
        which = f" ({endpoint.name})" if endpoint.name else ""
        for column, labels, groups, others in grouped(part, endpoint, old):
            differences, between = _apart(old, new, groups, others, len(labels), part.least, splits)
            by_group.append(differences)
            halves.append(between)
            names += [(endpoint.time, endpoint.status, *([column] if column else []))] * len(labels)
            titles += [f"{column} {label}{which}" if column else f"all records{which}" for label in labels]
    differences = np.concatenate(by_group)
    ratio = split_half_ratio(differences, np.concatenate(halves, axis=1), splits.scale)
    records = min(part.rows, part.released)
    undefined = "no record has both" if part.endpoints else _NO_SURVIVAL
    value, baseline, note = math.nan, None, f"Not defined: {undefined}."
    if not np.isnan(differences).all():
        worst = int(np.nanargmax(differences))
        value, baseline = float(differences[worst]), float(ratio.chance[worst])
        note = (
            f"Groups of {RECORDS_OF_K * part.least} records and {EVENTS_OF_K * part.least} events or more, up to the "
            "time at which a tenth of the group is at risk."
        )
    pairs = sorted(zip(titles, differences.tolist(), strict=True), key=lambda part: -part[1])
    parts = tuple((title, one) for title, one in pairs if not math.isnan(one))[:MOST_PARTS]
    return [
        _DIFFERENCE.measured(value, records, baseline=baseline, note=note, parts=parts),
        ratio_measured(_WORST_CURVE, ratio, names, records, undefined),
    ]


def followed(tables: TypedTables, endpoint: Endpoint) -> tuple[Followed, Followed]:
    """Times and outcomes of both tables."""
    columns = {column.name: column for column in tables.columns}
    time, status, weight = columns[endpoint.time], columns[endpoint.status], columns.get(endpoint.weight)

    def codes_of(values: Sequence[Scalar]) -> list[float]:
        if status.kind.coded:
            return [float(at) for at, level in enumerate(status.levels) if level in values]
        return [float(value) for value in values if isinstance(value, (int, float))]

    happened, competed = codes_of(endpoint.event), codes_of(endpoint.competing)

    def side(which: str) -> Followed:
        times, codes = getattr(time, which), getattr(status, which)
        weights = np.ones(len(times)) if weight is None else np.nan_to_num(getattr(weight, which))
        complete = ~(np.isnan(times) | np.isnan(codes)) & (weights > 0)
        outcomes = np.where(np.isin(codes, happened), 1, np.where(np.isin(codes, competed), 2, 0))
        return Followed(np.where(complete, times, np.nan), np.where(complete, outcomes, 0), weights)

    return side("old"), side("new")


def compared_endpoints(tables: TypedTables, endpoints: Sequence[Endpoint]) -> tuple[Endpoint, ...]:
    """Those whose columns both tables have, as numbers and a status."""
    kinds = {column.name: column.kind for column in tables.columns}
    numbers = {name for name, kind in kinds.items() if not kind.coded and kind != Kind.DATE}
    return tuple(end for end in endpoints if numbers.issuperset({end.time, end.weight} - {""}) and end.status in kinds)


def grouped(
    tables: TypedTables, endpoint: Endpoint, old: Followed
) -> list[tuple[str, tuple[str, ...], IntArray, IntArray]]:
    """All records, then every category with groups large enough: name, labels, and each record's group (-1: none)."""
    everyone = np.where(old.known, 0, -1)
    released = np.zeros(tables.released, dtype=np.int64)
    groupings: list[tuple[str, tuple[str, ...], IntArray, IntArray]] = []
    if old.events.any():
        groupings.append(("", ("all records",), everyone, released))
    for column in tables.categories:
        if column.name == endpoint.status:
            continue
        codes, new = (np.where(np.isnan(side), -1, side).astype(np.int64) for side in (column.old, column.new))
        codes, size = np.where(old.known, codes, -1), len(column.levels) + 1
        records, events = (np.bincount(some + 1, minlength=size)[1:] for some in (codes, codes[old.events]))
        kept = np.flatnonzero((records >= RECORDS_OF_K * tables.least) & (events >= max(1, EVENTS_OF_K * tables.least)))
        if not len(kept):
            continue
        place = np.full(size, -1)
        place[kept] = np.arange(len(kept))
        labels = tuple(str(column.levels[at]) for at in kept)
        groupings.append((column.name, labels, place[codes], place[new]))
    return groupings


def _apart(
    old: Followed, new: Followed, groups: IntArray, others: IntArray, count: int, least: int, splits: Splits
) -> tuple[FloatArray, FloatArray]:
    """Differences of the curves of some groups, shape (n_groups,), and between halves, (n_splits, n_groups)."""
    last = np.array([last_time(old.times[groups == group], least) for group in range(count)])
    times, every = np.concatenate([old.times, new.times]), np.concatenate([groups, others])
    order = _in_order(times, every)
    sides = (order >= len(old.times)).astype(np.int64)
    outcomes = np.concatenate([old.outcomes, new.outcomes])[order]
    weights = np.concatenate([old.weights, new.weights])[order]
    differences = curves_apart(times[order], outcomes, weights, sides, every[order], last)
    # A group that the release has lost is as far off as can be.
    lost = np.bincount(others[new.known & (others >= 0)], minlength=count) == 0
    differences = np.where(lost, 1.0, differences)
    rows = _in_order(old.times, groups)
    records = old.times[rows], old.outcomes[rows], old.weights[rows]
    halves = [curves_apart(*records, half[rows].astype(np.int64), groups[rows], last) for half in splits.first]
    return differences, np.array(halves).reshape(len(halves), count)


def last_time(times: FloatArray, least: int) -> float:
    """The last time at which a tenth of some records, and k, are at risk."""
    own = np.sort(times)
    return float(own[len(own) - min(len(own), max(least, math.ceil(_STILL_AT_RISK * len(own))))])


def _in_order(times: FloatArray, groups: IntArray) -> IntArray:
    """Records with a time and a group, by time."""
    order = np.argsort(times, kind="stable")[: np.count_nonzero(~np.isnan(times))]
    return np.asarray(order[groups[order] >= 0])


def _without_weights(tables: TypedTables, rng: np.random.Generator) -> list[Measurement]:
    """The largest difference, of tables without the survey weight."""
    return [replace(_survival_curves(tables, rng)[0], name=_WITHOUT.key, title=_WITHOUT.title)]


SURVIVAL = UtilityMeasure((_DIFFERENCE, _WORST_CURVE), _survival_curves, draws=True, weighted=True)
UNWEIGHTED_SURVIVAL = UtilityMeasure(
    (_WITHOUT,), _without_weights, draws=True, where=lambda tables: any(end.weight for end in tables.endpoints)
)
