"""Slow, literal twins of the figures beside chance: lists and loops, None for nulls."""

from __future__ import annotations

import math
import statistics

from tests.naive.measure import correlation
from tests.naive.utility import ks_distance, total_variation

GUMBEL = math.sqrt(6) / math.pi * (-math.log(-math.log(1 - 1e-4)) - 0.5772156649015329)


def kaplan_meier(times, events):
    """Share alive after each time, a fraction of those at risk dying at each."""
    return [(time, 1 - share) for time, share in cumulative_incidence(times, events)]


def cumulative_incidence(times, outcomes):
    """Share that had outcome 1 at each of its times: those free of any outcome before, times the fraction that has it.

    Written down as the mass of each record is handed on: who leaves without an outcome gives it to those at risk after.
    """
    mass = [1 / len(times)] * len(times)
    risen, found = 0.0, []
    for time in sorted(set(times)):
        here = [at for at, other in enumerate(times) if other == time]
        later = [at for at, other in enumerate(times) if other > time]
        events = [at for at in here if outcomes[at] == 1]
        risen += sum(mass[at] for at in events)
        if events:
            found.append((time, risen))
        censored = sum(mass[at] for at in here if not outcomes[at])
        for at in later:
            mass[at] += censored / len(later)
    return found


def risen_at(curve, time):
    return next((share for at, share in reversed(curve) if at <= time), 0.0)


def curves_apart(old, new, last):
    """Largest difference of two curves, each a pair of times and outcomes, at any time of either up to the last."""
    curves = [cumulative_incidence(*side) for side in (old, new)]
    every = [time for side in (old, new) for time in side[0] if time <= last]
    return max((abs(risen_at(curves[0], time) - risen_at(curves[1], time)) for time in every), default=0.0)


def last_time(times, least):
    """The last time at which a tenth, and `least`, of the records are at risk."""
    still = min(len(times), max(least, math.ceil(0.1 * len(times))))
    return max(time for time in times if sum(other >= time for other in times) >= still)


def binned(values, known):
    """Ten bins of equal width between the extremes of the known ones, the outer ones open; None stays."""
    low, high = min(known), max(known)
    edges = [low + (high - low) * at / 10 for at in range(1, 10)] if low < high else []
    return [None if value is None else sum(edge <= value for edge in edges) for value in values]


def cross_tables_apart(old, new):
    """Total variation of the pairs of values, null being one."""
    return total_variation(list(zip(*old, strict=True)), list(zip(*new, strict=True)))


def correlations_apart(old, new):
    return abs(correlation(*known_pairs(*old)) - correlation(*known_pairs(*new)))


def known_pairs(one, other):
    pairs = [(a, b) for a, b in zip(one, other, strict=True) if a is not None and b is not None]
    return [a for a, _ in pairs], [b for _, b in pairs]


def columns_apart(old, new, ordered):
    """Kolmogorov-Smirnov distance or total variation of what is not null."""
    sides = [[value for value in side if value is not None] for side in (old, new)]
    return ks_distance(*sides) if ordered else total_variation(*sides)


def split_half_ratio(found, splits, scale):
    """The largest quotient over its limit, and that of each: one list of differences a split."""
    inflated = [[scale * value for value in split] for split in splits]
    largest = []
    for at, split in enumerate(inflated):
        others = inflated[:at] + inflated[at + 1 :]
        largest.append(
            max(value / math.sqrt(statistics.fmean(o[j] ** 2 for o in others)) for j, value in enumerate(split))
        )
    squares = [value**2 for value in largest]
    limit = math.sqrt(statistics.fmean(squares) + GUMBEL * statistics.stdev(squares))
    each = [
        value / math.sqrt(statistics.fmean(split[j] ** 2 for split in inflated)) / limit
        for j, value in enumerate(found)
    ]
    return max(each), each
