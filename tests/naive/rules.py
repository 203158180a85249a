"""Rules between columns, row by row in plain Python: the slow twin of `anonpipe.encoding.rules`."""

from __future__ import annotations

import datetime as dt
import math


def plain(value):
    """A value as a number where it is a number or date, None where it is missing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, dt.date):
        return (value - dt.date(1970, 1, 1)).days
    return value


def met(test, row):
    """Whether a row meets a comparison."""
    value = plain(row[test.column])
    if test.operator in ("null", "not null"):
        return (value is None) == (test.operator == "null")
    against = [plain(row[test.other])] if test.other else list(test.values)
    if value is None or None in against:
        return False
    if test.operator in ("==", "in"):
        return value in against
    if test.operator in ("!=", "not in"):
        return value not in against
    other = against[0]
    return {"<": value < other, "<=": value <= other, ">": value > other, ">=": value >= other}[test.operator]


def breaks(rule, row, pairs=(), step=0.0):
    """Whether a row breaks a rule; `pairs` are those that a lookup or a rule of pairs allows."""
    if rule.kind == "condition":
        return all(met(test, row) for test in rule.when) and not all(met(test, row) for test in rule.then)
    if rule.kind in ("lookup", "pairs"):
        return (plain(row[rule.terms[0][0]]), plain(row[rule.target])) not in pairs
    if rule.kind == "spike":
        return plain(row[rule.target]) is None
    target, terms = plain(row[rule.target]), [(plain(row[name]), times) for name, times in rule.terms]
    if rule.kind == "share":
        return target is not None and terms[0][0] is not None and not 0 <= target <= terms[0][0]
    if rule.kind == "ratio":
        divisor = terms[0][0]
        return (target or 0) < 0 or (divisor or 0) < 0 or (divisor == 0 and bool(target))
    if rule.kind == "order":
        there = [value for value, _ in terms if value is not None]
        return target is not None and any(rule.sign * (target - value) < 0 for value in there)
    if rule.kind == "limit":
        if target is None or any(value is None for value, _ in terms):
            return False
        return target > rule.constant + sum(times * value for value, times in terms) + rule.slack + 1e-6
    if rule.kind == "product":  # by Python, from its text
        try:
            value = eval(rule.text.split("=")[1], {}, {name: plain(row[name]) for name, _ in rule.terms})
        except (TypeError, ZeroDivisionError):
            return target is not None
        return target is None or abs(value - target) > step / 2 + 1e-9 * (1 + abs(target) + abs(value))
    if any(value is None for value, _ in terms) or target is None:
        return (target is None) != any(value is None for value, _ in terms)
    value = max(rule.ends[0], rule.constant + sum(times * value for value, times in terms))
    value = value if math.isnan(rule.ends[1]) else min(rule.ends[1], value)
    return abs(value - target) > step / 2 + 1e-9 * (abs(target) + sum(abs(times * value) for value, times in terms))


def broken(rule, rows, pairs=(), step=0.0):
    """How many rows break a rule."""
    return sum(breaks(rule, row, pairs, step) for row in rows)


def common_pairs(rule, rows, least, units=None):
    """The pairs of a lookup or rule of pairs that at least so many rows, or units, have."""
    found = [(plain(row[rule.terms[0][0]]), plain(row[rule.target])) for row in rows]
    if units is not None:
        found = [pair for pair, _ in set(zip(found, units, strict=True))]
    return {pair for pair in found if found.count(pair) >= least}
