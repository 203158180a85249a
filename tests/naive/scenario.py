"""Literal twins of disclosure scenarios: classes counted with dictionaries, links with loops, risk by its series."""

from __future__ import annotations

import math
from collections import Counter


def _held(row):
    """A row's values; null equals null."""
    return tuple("null" if value != value else value for value in row)


def class_sizes(rows, persons=None):
    """Persons of each class of equal rows: each person once in a class."""
    persons = list(range(len(rows))) if persons is None else persons
    pairs = {(_held(row), person) for row, person in zip(rows, persons, strict=True)}
    return Counter(held for held, _ in pairs)


def individual_risk(size, fraction):
    """Mean of 1/F, F = size, size + 1, ...: the size-th record of the class is the F-th person drawn."""
    total, chance, at = 0.0, fraction**size, size
    told = 0.0
    while told < 1.0 - 1e-12 and at < 1_000_000:
        total += chance / at
        told += chance
        chance *= (1.0 - fraction) * at / (at + 1 - size)
        at += 1
    return total


def key_links(points, blocks, told, queries, own_blocks, own):
    """(squared distance, ties, own share) of each query; `own` is a dictionary of weights each."""
    found = []
    for query, block, weights in zip(queries, own_blocks, own, strict=True):
        rows = [row for row in range(len(points)) if blocks[row] == block]
        if not rows:
            found.append((math.inf, 0, 0.0))
            continue
        apart = {row: sum((float(p) - float(q)) ** 2 for p, q in zip(points[row], query, strict=True)) for row in rows}
        low = min(apart.values())
        near = [row for row in rows if apart[row] <= low * (1 + 1e-9)]
        found.append((low, len(near), sum(weights.get(told[row], 0.0) for row in near)))
    return found


def near_enough(known, rows, tolerances):
    """How many rows what is known of one could mean: each column within its limits, null for null."""
    found = 0
    for row in rows:
        found += all(
            (a != a and b != b) or abs(a - b) <= (far + part * abs(a)) * (1 + 1e-9)
            for a, b, (far, part) in zip(known, row, tolerances, strict=True)
        )
    return found
