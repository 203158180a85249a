"""Slow, literal twins of the local search: every step is taken on lists and its scatter added up afresh."""

from __future__ import annotations

import math

from tests.naive.two_phase import mean, squared

WORD = 2**64


def scatter(features, groups):
    """Sum of squared distances to the group means, `groups` a list of lists of records."""
    total = 0.0
    for rows in groups:
        if rows:
            centre = mean(features, rows)
            total += sum(squared(features[i], centre) for i in rows)
    return total


def put(groups, i, a, b):
    """Record i leaves a, whose last record takes its place, and comes last in b."""
    at = groups[a].index(i)
    groups[a][at] = groups[a][-1]
    groups[a].pop()
    groups[b].append(i)


def exchange(groups, a, b, i, j):
    at, to = groups[a].index(i), groups[b].index(j)
    groups[a][at], groups[b][to] = j, i


def all_steps(features, groups, k, a, b):
    """(what it adds, kind, a record, a record or None) of every move and swap between two groups."""
    before = scatter(features, [groups[a], groups[b]])
    steps = []
    for i in groups[a]:
        for j in groups[b]:
            rest_a, rest_b = [h for h in groups[a] if h != i], [h for h in groups[b] if h != j]
            steps.append((scatter(features, [[*rest_a, j], [*rest_b, i]]) - before, "swap", i, j))
    for here, there in ((a, b), (b, a)):
        if len(groups[here]) > k and len(groups[there]) < 2 * k - 1:
            for i in groups[here]:
                rest = [h for h in groups[here] if h != i]
                steps.append((scatter(features, [rest, [*groups[there], i]]) - before, "move", i, None))
    return steps


def take_best_step(features, groups, k, a, b, limit):
    """Take the step between a and b that adds least, if less than `limit`; whether one was taken."""
    steps = [step for step in all_steps(features, groups, k, a, b) if step[0] < limit]
    if not steps:
        return False
    _, kind, i, j = min(steps, key=lambda step: step[0])
    if kind == "swap":
        exchange(groups, a, b, i, j)
    else:
        here, there = (a, b) if i in groups[a] else (b, a)
        put(groups, i, here, there)
    return True


def cheapest_host(features, groups, k, i, near):
    costs = [
        (scatter(features, [[*groups[b], i]]) - scatter(features, [groups[b]]), place, b)
        for place, b in enumerate(near)
        if 0 < len(groups[b]) < 2 * k - 1
    ]
    return min(costs) if costs else (math.inf, -1, -1)


def dissolve(features, groups, k, a, near, limit):
    """Give the records of a away, last first, if that adds less than `limit`; whether it was done."""
    credit = scatter(features, [groups[a]])
    alone = sum(cheapest_host(features, groups, k, i, near)[0] for i in groups[a])
    if k / (k + 1) * alone - credit >= limit:
        return False
    added = -credit
    moved = []
    while groups[a]:
        i = groups[a][-1]
        cost, _, host = cheapest_host(features, groups, k, i, near)
        added += cost
        if added >= limit:
            take_back(groups, moved)
            return False
        put(groups, i, a, host)
        moved.append((i, a, host))
    return True


def create(features, groups, k, seed, g, near, limit):
    """Begin group g with `seed` and the k - 1 records cheapest to take, if that adds less than `limit`."""
    before = [list(rows) for rows in groups]
    home = next(b for b, rows in enumerate(groups) if seed in rows)
    put(groups, seed, home, g)
    moved = [(seed, home, g)]
    while len(groups[g]) < k:
        costs = []
        for place, b in enumerate([home, *near]):
            if len(groups[b]) > k:
                for at, j in enumerate(groups[b]):
                    rest = [h for h in groups[b] if h != j]
                    now = scatter(features, [groups[b], groups[g]])
                    costs.append((scatter(features, [rest, [*groups[g], j]]) - now, place, at, b, j))
        if not costs:
            take_back(groups, moved)
            return False
        *_, b, j = min(costs)
        put(groups, j, b, g)
        moved.append((j, b, g))
    if scatter(features, groups) - scatter(features, before) >= limit:
        take_back(groups, moved)
        return False
    return True


def take_back(groups, moved):
    """Undo `put`s, last first; the records come last in their groups."""
    for i, a, b in reversed(moved):
        put(groups, i, b, a)


def mixed(number):
    """splitmix64 on Python integers."""
    number = (number + 0x9E3779B97F4A7C15) % WORD
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) % WORD
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) % WORD
    return number ^ (number >> 31)


def allowance(bits):
    return -math.log(((bits >> 32) + 1) / 2**32)


def below(bits, limit):
    return ((bits % 2**32) * limit) >> 32


def anneal(features, groups, k, near, heat, schedule, every, key):
    """Sweeps over all groups; `near` and `heat` are lists by group, `heat` and `groups` change."""
    for number, factor in enumerate(schedule):
        word = mixed(key ^ mixed(number))
        for a in range(len(groups)):
            if groups[a] and near[a]:
                bits = mixed((word + a) % WORD)
                b = near[a][below(bits, len(near[a]))]
                if groups[b]:
                    take_best_step(features, groups, k, a, b, factor * heat[a] * allowance(bits))
        if number % every == every - 1:
            anneal_groups(features, groups, k, near, heat, factor, mixed(key ^ (WORD - 1) ^ mixed(number)))


def anneal_groups(features, groups, k, near, heat, factor, word):
    free = [g for g in reversed(range(len(groups))) if not groups[g]]
    for a in range(len(groups)):
        size = len(groups[a])
        if not size:
            continue
        bits = mixed((word + a) % WORD)
        limit = factor * heat[a] * allowance(bits)
        choice = below(bits, 2 * size)
        if choice >= size:
            if dissolve(features, groups, k, a, near[a], limit):
                free.append(a)
        elif size > k and free and create(features, groups, k, groups[a][choice], free[-1], near[a], limit):
            heat[free.pop()] = heat[a]


def near_records(features, count):
    """All others by (distance, number), the first `count` of them."""
    n = len(features)
    return [
        sorted((j for j in range(n) if j != i), key=lambda j: (squared(features[i], features[j]), j))[:count]
        for i in range(n)
    ]


def combine(features, first, second):
    """By region the better of two groupings; regions grow from record to record by shared groups."""
    left, labels, count = set(range(len(first))), [None] * len(first), 0
    while left:
        region, fresh = set(), [min(left)]
        while fresh:
            i = fresh.pop()
            if i not in region:
                region.add(i)
                fresh += [j for j in left if first[j] == first[i] or second[j] == second[i]]
        left -= region
        parts = []
        for labels_of in (first, second):
            names = {labels_of[i] for i in region}
            parts.append([[i for i in sorted(region) if labels_of[i] == name] for name in sorted(names)])
        for rows in parts[1] if scatter(features, parts[1]) < scatter(features, parts[0]) else parts[0]:
            for i in rows:
                labels[i] = count
            count += 1
    return labels
