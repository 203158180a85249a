"""Literal twin of an assignment: every order of the released records is tried."""

from __future__ import annotations

from itertools import permutations


def least_assignment(original, released):
    """Of all ways to give each released record to one person the one of least squared distances; as many of both."""

    def total(order):
        return sum(
            sum((float(p) - float(q)) ** 2 for p, q in zip(original[at], released[to], strict=True))
            for at, to in enumerate(order)
        )

    return min(permutations(range(len(released))), key=total)
