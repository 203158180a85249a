"""Groups of k units, one step after the other as described."""

from __future__ import annotations

import math
import statistics


def hold_units(features, labels, units, k):
    """The groups as lists of records, in the order of `anonpipe.methods.grouping.hold_units`."""
    groups = {
        number: [row for row in range(len(labels)) if labels[row] == label]
        for number, label in enumerate(sorted(set(labels.tolist())))
    }
    touched = set()
    while wrong := [g for g, rows in groups.items() if _count(rows, units) < k]:
        a = min(wrong, key=lambda g: (_count(groups[g], units), len(groups[g]), g))
        own = {units[row] for row in groups[a]}
        others = [g for g, rows in groups.items() if g != a and {units[row] for row in rows} - own]
        b = min(others, key=lambda g: (_cost(features, groups[a], groups[g]), g))
        low, high = sorted((a, b))
        groups[low] = groups[a] + groups[b]
        del groups[high]
        touched = (touched - {high}) | {low}
    out = []
    for g in sorted(groups):
        rows = sorted(groups[g])
        out += _cut(features, rows, units, k) if g in touched else [rows]
    return out


def _count(rows, units):
    return len({units[row] for row in rows})


def _cost(features, one, other):
    a, b = features[one].mean(axis=0), features[other].mean(axis=0)
    return len(one) * len(other) / (len(one) + len(other)) * float(((a - b) ** 2).sum())


def _cut(features, rows, units, k):
    left, made = list(rows), []
    counts = [_rows_of(left, units, unit) for unit in {units[row] for row in rows}]
    groups = max(g for g in range(1, len(rows) // k + 1) if sum(min(c, g) for c in counts) >= k * g)
    for wanted in range(groups, 0, -1):
        count = {unit: _rows_of(left, units, unit) for unit in {units[row] for row in left}}
        spare = sum(min(c, wanted - 1) for c in count.values()) - k * (wanted - 1)
        middle = features[left].mean(axis=0)
        seeds = [row for row in left if spare > 0 or count[units[row]] >= wanted]
        seed = max(seeds, key=lambda row: (((features[row] - middle) ** 2).sum(), -row))
        nearest = {}
        for row in left:
            distance = ((features[row] - features[seed]) ** 2).sum()
            if units[row] not in nearest or distance < nearest[units[row]][0]:
                nearest[units[row]] = (distance, row)
        nearest[units[seed]] = (-1.0, seed)
        chosen = []
        for unit in sorted(nearest, key=lambda unit: (nearest[unit][0], unit)):
            few = count[unit] < wanted
            if len(chosen) < k and (not few or spare > 0):
                spare -= few
                chosen.append(nearest[unit][1])
        made.append(chosen)
        left = [row for row in left if row not in chosen]
    means = [features[group].mean(axis=0) for group in made]
    for row in sorted(left, key=lambda row: (units[row], row)):
        own = [_rows_of(group, units, units[row]) for group in made]
        distance = [((features[row] - mean) ** 2).sum() for mean in means]
        made[min(range(len(made)), key=lambda g: (own[g], distance[g], g))].append(row)
    return [sorted(group) for group in made]


def _rows_of(rows, units, unit):
    return sum(units[row] == unit for row in rows)


def unit_points(features, units):
    """Of each unit the mean of its features, and the standardised logarithm of their number, if any differ."""
    records = {unit: [row for row, own in zip(features, units, strict=True) if own == unit] for unit in set(units)}
    sizes = {unit: math.log(len(rows)) for unit, rows in records.items()}
    mean, spread = statistics.fmean(sizes.values()), statistics.pstdev(sizes.values())
    return {
        unit: [sum(column) / len(rows) for column in zip(*rows, strict=True)]
        + ([(sizes[unit] - mean) / spread] if len({len(each) for each in records.values()}) > 1 else [])
        for unit, rows in records.items()
    }
