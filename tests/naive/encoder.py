"""Slow literal twins of the encoder's loops, on Python lists and integers."""

from __future__ import annotations

import hashlib
import math
import struct

MASK = 2**64 - 1


def mix(state):
    state = (state + 0x9E3779B97F4A7C15) & MASK
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & MASK
    return state ^ (state >> 31)


def value_hash(value):
    if isinstance(value, str):
        state = 0xCBF29CE484222325
        for byte in value.encode():
            state = ((state ^ byte) * 0x100000001B3) & MASK
        return mix(state)
    if isinstance(value, float):
        if value == int(value):
            return int(value) & MASK
        single = struct.unpack("<f", struct.pack("<f", value))[0]
        return int(single) & MASK if single == int(single) else struct.unpack("<Q", struct.pack("<d", single))[0]
    return int(value) & MASK


def fingerprint(columns, first_row=0):
    """Two sums over the rows of a dict of lists; None and NaN are null."""
    total = [0, 0]
    for row in range(len(next(iter(columns.values())))):
        lanes = [0, 0]
        for name, values in columns.items():
            value = values[row]
            seeds = struct.unpack("<QQ", hashlib.sha256(name.encode()).digest()[:16])
            for lane, seed in enumerate(seeds):
                null = value is None or (isinstance(value, float) and math.isnan(value))
                found = mix(mix(seed ^ 0x6E756C6C6E756C6C)) if null else mix(value_hash(value) ^ seed)
                lanes[lane] = (lanes[lane] + found) & MASK
        for lane in (0, 1):
            total[lane] = (total[lane] + mix(lanes[lane] ^ mix(first_row + row))) & MASK
    return tuple(total)


def calibrated(scores, groups, targets):
    """Category of each record; groups is a list of lists of records, targets one list of counts a group."""
    totals = [sum(target[c] for target in targets) for c in range(len(targets[0]))]
    chosen = {}
    for category in sorted(range(len(totals)), key=lambda c: (totals[c], c)):
        for group, target in zip(groups, targets, strict=True):
            free = [row for row in group if row not in chosen]
            ranked = sorted(free, key=lambda row: -scores[row][category])
            for row in ranked[: target[category]]:
                chosen[row] = category
    return [chosen[row] for row in range(len(chosen))]


def calibrated_groups(chances, sizes, totals):
    sequence = sorted(range(len(totals)), key=lambda c: (totals[c], c))
    chosen = {}
    for category in sequence[:-1]:
        free = sorted((g for g in range(len(sizes)) if g not in chosen), key=lambda g: (-chances[g][category], g))
        reached = 0
        for group in free:
            if abs(reached + sizes[group] - totals[category]) >= abs(reached - totals[category]):
                break
            chosen[group] = category
            reached += sizes[group]
    return [chosen.get(group, sequence[-1]) for group in range(len(sizes))]


def fill(values, groups, line, k, draws):
    """One column; None where missing."""
    filled = list(values)
    known = [[values[row] for row in group if values[row] is not None] for group in groups]
    for place, group in enumerate(line):
        behind, ahead, turns = line[:place], line[place + 1 :], []
        while ahead or behind:
            turns += ahead[:1] + behind[-1:]
            ahead, behind = ahead[1:], behind[:-1]
        donors = list(known[group])
        while len(donors) < k and turns:
            donors += known[turns.pop(0)]
        if len(donors) < k or not donors:
            continue
        turn = int(draws[group] * len(donors))
        for row in groups[group]:
            if values[row] is None:
                filled[row] = donors[turn % len(donors)]
                turn += 1
    return filled


def exchanged(features, start, stop, pairs, wanted):
    """The records after every pair that lessens the squared distance to the wanted scatter has exchanged a column."""
    rows = [list(row) for row in features]

    def off():
        means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
        total = 0.0
        for j in range(start, stop):
            for h in range(len(means)):
                if not start <= h < stop:
                    scatter = sum((row[j] - means[j]) * (row[h] - means[h]) for row in rows)
                    total += (wanted[j][h] - scatter) ** 2
        return total

    for r, s in pairs:
        before = off()
        rows[r][start:stop], rows[s][start:stop] = rows[s][start:stop], rows[r][start:stop]
        if off() >= before:
            rows[r][start:stop], rows[s][start:stop] = rows[s][start:stop], rows[r][start:stop]
    return rows


def associations(has, after, least):
    """Records more with two codes in each group than new counts lead to expect, a draw being its mean; on lists.

    `has` says of each record of each group which codes it has.
    """
    sides = [(True, True), (True, False), (False, True), (False, False)]
    codes, made = range(len(after[0])), []

    def share(group, code, side):
        return sum(row[code] == side for row in has[group]) / len(has[group])

    def now(group, one, other, sides):
        rows = len(has[group])
        counts = [after[group][code] for code in (one, other)]
        left, right = (count if side else rows - count for count, side in zip(counts, sides, strict=True))
        return left * right / rows

    def count(group, one, other, sides):
        return sum((row[one], row[other]) == sides for row in has[group])

    def was(group, one, other, sides):
        return len(has[group]) * share(group, one, sides[0]) * share(group, other, sides[1])

    for group in range(len(has)):
        made.append([[0.0] * len(codes) for _ in codes])
        for one in codes:
            for other in codes:
                few = min(count(group, one, other, each) for each in sides) < least
                seen = range(len(has)) if few else [group]
                found = []
                for each in sides:
                    expected = sum(was(at, one, other, each) for at in seen)
                    ratio = sum(count(at, one, other, each) for at in seen) / expected if expected > 1e-9 else 1.0
                    likely = now(group, one, other, each) * ratio
                    sign = 1 if each[0] == each[1] else -1
                    found.append((likely, sign * (likely - now(group, one, other, each))))
                made[-1][one][other] = min(found, key=lambda pair: round(pair[0], 9))[1]
    return made


def rounded(fitted, totals, sizes):
    """Rows rounded one after the other, largest remainder first, errors of rounding carried to the next, on lists."""
    left, carried, made = [int(each) for each in totals], [0.0] * len(totals), []
    for row, size in zip(fitted, sizes, strict=True):
        wanted = [float(one) + more for one, more in zip(row, carried, strict=True)]
        counts = [min(int(max(want, 0.0)), most) for want, most in zip(wanted, left, strict=True)]
        while sum(counts) != size:
            step = 1 if sum(counts) < size else -1
            able = [at for at, count in enumerate(counts) if (count < left[at] if step > 0 else count > 0)]
            counts[min(able, key=lambda at: (step * (counts[at] - wanted[at]), at))] += step
        left = [most - count for most, count in zip(left, counts, strict=True)]
        carried = [want - count for want, count in zip(wanted, counts, strict=True)]
        made.append(counts)
    return made


def calibrated_probabilities(chances, shares, sizes):
    """Means and sums fitted in turn until nothing moves, on lists."""
    rows = [[chance if share > 0 else 0.0 for chance, share in zip(row, shares, strict=True)] for row in chances]
    total = sum(sizes)
    for _ in range(20_000):
        rows = [[value / sum(row) for value in row] for row in rows]
        means = [sum(size * row[c] for size, row in zip(sizes, rows, strict=True)) / total for c in range(len(shares))]
        if max(abs(mean - share) for mean, share in zip(means, shares, strict=True)) < 1e-13:
            break
        rows = [[v * s / m if m else 0.0 for v, s, m in zip(row, shares, means, strict=True)] for row in rows]
    return rows


def rounded_chances(chances, units, shifts):
    """Each value rounded so that the running total is that of the values, shifted and cut off."""
    out = []
    for row, shift in zip(chances, shifts, strict=True):
        told, running = [], 0.0
        for place, value in enumerate(row):
            running = running + value if place < len(row) - 1 else 1.0
            told.append(math.floor(running * units + shift) - sum(told))
        out.append(told)
    return out
