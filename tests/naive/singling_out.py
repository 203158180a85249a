"""Slow, literal twin of singling out: loops over predicates, records and all that could be replaced."""

from __future__ import annotations

import itertools
import math


def meets(record, predicate):
    """Predicates are (column, low, high), null is infinity."""
    return all(low <= (math.inf if math.isnan(record[at]) else record[at]) <= high for at, low, high in predicate)


def met_by(table, predicate):
    return [row for row, record in enumerate(table) if meets(record, predicate)]


def control_of(original, held, predicates):
    """Mean success on held-out records that take the place of as many originals, over all choices of these."""
    n, m = len(original), len(held)
    total, choices = 0.0, list(itertools.combinations(range(n), m))
    for replaced in choices:
        left = [record for row, record in enumerate(original) if row not in replaced]
        for predicate in predicates:
            total += len(met_by(held, predicate)) == 1 and not met_by(left, predicate)
    return n / m * total / len(choices) / len(predicates)


def joined(one, other):
    return [bool({x for x in a if x >= 0} & {y for y in b if y >= 0}) for a, b in zip(one, other, strict=True)]
