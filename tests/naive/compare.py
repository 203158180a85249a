"""The Pareto front and the choice, by plain loops."""

from __future__ import annotations

import math


def on_front(places):
    """Whether no other place is at least as good on both axes and better on one."""
    out = []
    for x, y in places:
        beaten = False
        for a, b in places:
            if a <= x and b <= y and (a < x or b < y):
                beaten = True
        out.append(not beaten)
    return out


def mean_and_error(values):
    """The mean and its standard error; NaN for one value."""
    total = 0.0
    for value in values:
        total += value
    mean = total / len(values)
    if len(values) == 1:
        return mean, math.nan
    squares = 0.0
    for value in values:
        squares += (value - mean) ** 2
    return mean, math.sqrt(squares / (len(values) - 1) / len(values))
