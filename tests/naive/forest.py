"""Extremely randomised trees in folds, word for word (Geurts, Ernst & Wehenkel 2006, table 1), and areas by pairs."""

from __future__ import annotations

import math
import random


def _gini(weights):
    """Impurity of the weights of both classes, times their sum."""
    total = sum(weights)
    return total - sum(weight * weight for weight in weights) / total if total else 0.0


def _weigh(rows, inside, weight):
    members = sum([inside[row] for row in rows])
    return [weight[0] * (len(rows) - members), weight[1] * members]


def _split(features, rows, inside, weight, least, draw):
    """The best of as many random cuts as the root of the columns, none of which leaves fewer than `least`."""
    best, tried = None, 0
    columns = list(range(len(features[0])))
    draw.shuffle(columns)
    for column in columns:
        values = [features[row][column] for row in rows]
        if min(values) == max(values):
            continue
        if tried == int(math.sqrt(len(columns))):
            break
        tried += 1
        cut = draw.uniform(min(values), max(values))
        below = [row for row in rows if features[row][column] <= cut]
        above = [row for row in rows if features[row][column] > cut]
        if min(len(below), len(above)) < least:
            continue
        left = sum(_gini(_weigh(side, inside, weight)) for side in (below, above))
        if best is None or left < best[0]:
            best = (left, column, cut, below, above)
    return best


def tree(features, rows, inside, weight, least, draw):
    """A leaf's share of the second class, or a column, a cut and two trees."""
    held = _weigh(rows, inside, weight)
    found = _split(features, rows, inside, weight, least, draw) if min(held) > 0 and len(rows) >= 2 * least else None
    if found is None:
        return held[1] / sum(held)
    _, column, cut, below, above = found
    return column, cut, *(tree(features, side, inside, weight, least, draw) for side in (below, above))


def _share(grown, record):
    while isinstance(grown, tuple):
        column, cut, below, above = grown
        grown = below if record[column] <= cut else above
    return grown


def judged(features, inside, folds, trees, least, seed):
    """Of each record the mean share of members in its leaves, of trees grown on the other folds; both kinds alike."""
    draw, scores = random.Random(seed), [0.0] * len(features)
    fold = {}
    for kind in (0, 1):
        rows = [row for row, one in enumerate(inside) if one == kind]
        draw.shuffle(rows)
        fold.update({row: place % folds for place, row in enumerate(rows)})
    for at in range(folds):
        rows = [row for row in fold if fold[row] != at]
        weight = [1.0 / sum(inside[row] == kind for row in rows) for kind in (0, 1)]
        grown = [tree(features, rows, inside, weight, least, draw) for _ in range(trees)]
        for row in fold:
            if fold[row] == at:
                scores[row] = sum(_share(one, features[row]) for one in grown) / trees
    return scores


def area(scores, inside):
    """How often a member has a larger score than another, ties by half."""
    pairs = [(a > b) + 0.5 * (a == b) for a, i in zip(scores, inside, strict=True) if i
             for b, j in zip(scores, inside, strict=True) if not j]  # fmt: skip
    return sum(pairs) / len(pairs)
