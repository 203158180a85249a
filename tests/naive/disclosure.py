"""Disclosure control of key variables as its descriptions say it, record by record."""

from __future__ import annotations

from itertools import combinations, product

NULL = -1


def key_frequencies(rows, wildcard):
    """For each row how many rows agree with it."""

    def agree(one, other):
        return all(a == b or (wildcard and NULL in (a, b)) for a, b in zip(one, other, strict=True))

    return [sum(agree(row, other) for other in rows) for row in rows]


def suppress(rows, k, cost, wildcard):
    """Rows with nulls: sets of keys from the cheapest on, each rare row by the first that suffices."""
    width = len(rows[0])
    sizes = [len({row[at] for row in rows}) for at in range(width)]
    sets = [each for count in range(1, width + 1) for each in combinations(range(width), count)]

    def rank(each):
        several = 1.0
        for at in each:
            several *= sizes[at]
        return round(sum(cost[at] for at in each), 9), -several, each

    made = [tuple(row) for row in rows]
    rare = {at for at, count in enumerate(key_frequencies(made, wildcard)) if count < k}
    for chosen in sorted(sets, key=rank):
        everybody = range(len(rows)) if wildcard else rare
        tried = list(map(tuple, rows)) if wildcard else list(made)
        for at in everybody:
            tried[at] = tuple(NULL if key in chosen else value for key, value in enumerate(tried[at]))
        counts = key_frequencies(tried, wildcard)
        enough = {at for at in rare if counts[at] >= k}
        for at in enough:
            made[at] = tuple(NULL if key in chosen else value for key, value in enumerate(made[at]))
        rare -= enough
    for own in sorted({made[at] for at in rare}):  # fewer than k in all: each joins the class that costs least
        members = [at for at, row in enumerate(made) if row == own and at in rare]

        def lost(other, own=own, members=members):
            differs = [key for key in range(width) if other[key] != own[key]]
            return sum(cost[key] * (len(members) + (made.count(other) if other[key] != NULL else 0)) for key in differs)

        ranked = [(lost(made[at]), rows[at], made[at]) for at in range(len(rows)) if at not in rare]
        host = min(ranked)[2]
        moved = [at for at, row in enumerate(made) if at in members or (row == host and at not in rare)]
        common = tuple(a if a == b else NULL for a, b in zip(own, host, strict=True))
        rare -= set(members)
        for at in moved:
            made[at] = common
    return made


def loss(values, level, ancestors):
    """Mean share of the other categories that each value is thrown together with."""
    several = len(ancestors)
    together = [sum(other[level] == ancestors[value][level] for other in ancestors) - 1 for value in values]
    return sum(together) / max(1, several - 1) / len(values)


def best_levels(rows, ancestors, k, most, wildcard):
    """All nodes of the lattice that are good enough, with their losses; the least first."""
    found = []
    for node in product(*(range(len(each[0])) for each in ancestors)):
        general = [tuple(NULL if v == NULL else ancestors[at][v][node[at]] for at, v in enumerate(row)) for row in rows]
        under = sum(count < k for count in key_frequencies(general, wildcard))
        if under <= most * len(rows):
            columns = [[v for v in column if v != NULL] for column in zip(*rows, strict=True)]
            losses = [loss(c, level, a) for c, level, a in zip(columns, node, ancestors, strict=True) if c]
            found.append((sum(losses), node))
    return sorted(found)


def populated_levels(ancestors, population, least):
    """The level of each area, raised with its siblings while one of these is too small; None where none suffices."""
    level = [0] * len(ancestors)
    for at in range(len(ancestors[0])):
        for own in {a[at] for a, now in zip(ancestors, level, strict=True) if now == at}:
            inside = [i for i, a in enumerate(ancestors) if a[at] == own and level[i] == at]
            if inside and sum(population[i] for i in range(len(ancestors)) if ancestors[i][at] == own) < least:
                if at + 1 == len(ancestors[0]):
                    return None
                parent = ancestors[inside[0]][at + 1]
                for i, a in enumerate(ancestors):
                    if a[at + 1] == parent:
                        level[i] = at + 1
    return level


def transition_matrix(shares, retain):
    """Invariant post-randomisation in two draws, entry by entry."""
    size = len(shares)
    first = [[retain if a == b else (1 - retain) / (size - 1) for b in range(size)] for a in range(size)]
    drawn = [sum(shares[a] * first[a][b] for a in range(size)) for b in range(size)]
    back = [[first[a][b] * shares[a] / drawn[b] for a in range(size)] for b in range(size)]
    return [[sum(first[a][b] * back[b][c] for b in range(size)) for c in range(size)] for a in range(size)]
