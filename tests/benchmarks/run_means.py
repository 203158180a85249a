"""Who is in a release, told by the means of its runs of neighbouring values: with exact means, and with moved ones.

The attacker knows the values of all members and of a quarter as many others, and looks for the others among the highest
values: at each run for the sets of neighbours that may have its mean, from the top down, the likeliest way through all
runs. He knows how far means are moved.

`python -m tests.benchmarks.run_means`
"""

from __future__ import annotations

import argparse
from itertools import combinations

import numpy as np

from anonpipe.encoding.quantiles import Quantiles, Radix
from anonpipe.types import BoolArray, FloatArray

SKIPPED = 3  # Others that are looked for in one run
KEPT = 200  # Ways that are followed


def named(known: FloatArray, found: Quantiles, most: FloatArray, runs: int, others: float) -> BoolArray:
    """Which of the highest known values, descending, the attacker names as those of no member."""
    ways: dict[int, tuple[float, tuple[int, ...]]] = {0: (0.0, ())}
    odds = np.log(others / (1.0 - others))
    for run in range(1, runs + 1):
        size, mean, room = int(found.edges[-run] - found.edges[-run - 1]), found.centres[-run], most[-run]
        longer: dict[int, tuple[float, tuple[int, ...]]] = {}
        for at, (likelihood, path) in ways.items():
            for skipped in range(SKIPPED + 1):
                window = known[at : at + size + skipped]
                for left_out in combinations(range(size + skipped), skipped):
                    if abs((window.sum() - window[list(left_out)].sum()) / size - mean) <= room:
                        new = likelihood + skipped * odds, (*path, *(at + place for place in left_out))
                        end = at + size + skipped
                        if end not in longer or longer[end][0] < new[0]:
                            longer[end] = new
        if not longer:
            break
        ways = dict(sorted(longer.items(), key=lambda way: -way[1][0])[:KEPT])
    end, (_, path) = max(ways.items(), key=lambda way: way[1][0])
    out = np.zeros(end, dtype=bool)
    out[list(path)] = True
    return out


def main() -> None:
    """Print what is named, exact and moved, over some tables."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--rows", type=int, default=4_000)
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--tables", type=int, default=20)
    given = parser.parse_args()
    print(f"{given.tables} tables, {given.rows:,} incomes (lognormal) and {given.rows // 4:,} others, k = {given.k}")
    for moved in (False, True):
        hits, others, false, members = 0, 0, 0, 0
        for table in range(given.tables):
            rng = np.random.default_rng(table)
            values = np.round(rng.lognormal(10, 0.8, given.rows + given.rows // 4), 2)
            inside = np.arange(len(values)) < given.rows
            found = Quantiles.fit(Radix.of(values[inside]), given.k, 0.0, rng=rng if moved else None)
            centres = Quantiles.fit(Radix.of(values[inside]), given.k, 0.0).centres
            gaps = np.diff(centres)
            room = np.minimum(np.append(np.inf, gaps), np.append(gaps, np.inf)) / np.sqrt(16.0)
            order = np.argsort(-values)
            told = named(values[order], found, room if moved else np.full(len(room), 1e-6), given.runs, 0.2)
            outside = ~inside[order][: len(told)]
            hits, others = hits + int((told & outside).sum()), others + int(outside.sum())
            false, members = false + int((told & ~outside).sum()), members + int((~outside).sum())
        print(
            f"{'moved' if moved else 'exact'} means: {hits} of {others} others are named ({hits / others:.1%}), "
            f"and {false} of {members} members ({false / members:.1%})"
        )


if __name__ == "__main__":
    main()
