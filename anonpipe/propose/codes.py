"""A value that may stand for "unknown": one and the same, again and again, far away from all others."""

from __future__ import annotations

from itertools import product

import numpy as np

from anonpipe.types import FloatArray

FEWEST_OTHERS = 10  # Distinct values that are no such codes, below which all may be codes

MOST_CODES = 3  # Codes at either end: not known, refused, does not apply


def code_for_unknown(values: FloatArray) -> str:
    """At which end of a sample's numbers codes stand, in words; empty where none do.

    Each of them occurs twice or more, and the nearest other value is further away than all others are wide.

    Shapes: values (n,).

    Examples
    --------
    >>> ages = np.arange(18.0, 90.0)
    >>> code_for_unknown(np.append(ages, [999, 999])), code_for_unknown(np.append(ages, [-99, -99, 998, 998, 999, 999]))
    ('high', 'low and high')
    >>> [code_for_unknown(np.append(ages, far)) for far in ([999], [120, 120], [5e8, 6e8])]
    ['', '', '']
    """
    distinct, counts = np.unique(values[np.isfinite(values)], return_counts=True)
    for below, above in sorted(product(range(MOST_CODES + 1), repeat=2), key=sum)[:0:-1]:
        middle = distinct[below : len(distinct) - above]
        outer = np.append(counts[:below], counts[len(counts) - above :])
        if len(middle) < FEWEST_OTHERS or (outer < 2).any():
            continue
        width = middle[-1] - middle[0]
        gaps = [middle[0] - distinct[below - 1]] * (below > 0) + [distinct[-above] - middle[-1]] * (above > 0)
        if min(gaps) > width:
            return " and ".join(["low"] * (below > 0) + ["high"] * (above > 0))
    return ""
