"""Slow, literal twin of singling out: loops over predicates, records and all that could be replaced."""

from __future__ import annotations

import itertools
import math


def meets(record, predicate):
    """Predicates are (column, low, high), null is infinity."""
    return all(low <= (math.inf if math.isnan(record[at]) else record[at]) <= high for at, low, high in predicate)


def met_by(table, predicate):
    return [row for row, record in enumerate(table) if meets(record, predicate)]


def units_met_by(table, units, predicate):
    """The units of which at least one row meets a predicate."""
    return {units[row] for row in met_by(table, predicate)}


def control_of_units(original, units, held, held_units, predicates):
    """As `control_of`, where whole units take the place of as many."""
    own, others = sorted(set(units)), len(set(held_units))
    total, choices = 0.0, list(itertools.combinations(own, others))
    for replaced in choices:
        for predicate in predicates:
            left = units_met_by(original, units, predicate) - set(replaced)
            total += len(units_met_by(held, held_units, predicate)) == 1 and not left
    return len(own) / others * total / len(choices) / len(predicates)


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
