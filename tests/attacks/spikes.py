"""Members told by the counts of single values: each column's distribution comes out, as it is in this very table.

    python -m tests.attacks.spikes [--rows 2500] [--columns 24] [--step 0.01] [--k 5 50] [--secrets 3] [--unstepped]

Normal numbers that go together, masked by local synthesis. One intruder has the release alone: in each column the
released count of a person's value is compared with the mean count of its 16 neighbours on the grid, and the logarithms
of the ratios are added up. Another knows the distributions of the population: the ratios are those of the release to
the population in 20 bins. Printed are the areas under the curve of members against others; 0.5 is chance.
`--unstepped` does not declare the step of the columns.
"""

from __future__ import annotations

import argparse
import os
from unittest import mock

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from anonpipe import anonymize

NEIGHBOURS = 8  # On either side


def scores(released: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """How far the counts of a person's values stand out, added up over columns; whole numbers, shape (n_asked,)."""
    window = np.ones(2 * NEIGHBOURS + 1) / (2 * NEIGHBOURS)
    window[NEIGHBOURS] = 0.0
    found = np.zeros(len(asked))
    for made, own in zip(released.T, asked.T, strict=True):
        begin = min(made.min(), own.min()) - 2 * NEIGHBOURS
        counts = np.bincount(made - begin, minlength=max(made.max(), own.max()) - begin + 2 * NEIGHBOURS).astype(float)
        around = np.convolve(counts, window, "same")
        found += np.log((counts[own - begin] + 0.5) / (around[own - begin] + 0.5))
    return found


def known_scores(released: np.ndarray, population: np.ndarray, asked: np.ndarray, bins: int = 20) -> np.ndarray:
    """How far the release has more in a person's bins than the population, added up over columns; shape (n_asked,)."""
    found = np.zeros(len(asked))
    for made, known, own in zip(released.T, population.T, asked.T, strict=True):
        ends = np.quantile(known, np.arange(1, bins) / bins)
        shares = [np.bincount(np.searchsorted(ends, each), minlength=bins) / len(each) + 1e-9 for each in (made, known)]
        found += (shares[0] / shares[1])[np.searchsorted(ends, own)]
    return found


def areas(rows: int, columns: int, step: float, k: int, secret: int, stepped: bool = True) -> tuple[float, float]:
    """The areas under the curves of a release: by neighbours, and with the population known."""
    rng = np.random.default_rng(secret)
    mixing = rng.normal(size=(4, columns))
    whole = rng.normal(size=(42 * rows, 4)) @ mixing + rng.normal(size=(42 * rows, columns))
    both, population = np.split((whole / step).round() * step, [2 * rows])
    names = [f"x{at}" for at in range(columns)]
    frame = pd.DataFrame(both, columns=names)
    column = {"kind": "continuous", "bounds": [None, None], "step": step if stepped else None}
    job = {
        "k": k,
        "columns": dict.fromkeys(names, column),
        "mask": {"method": "local_synthesis"},
        "measure": {"risk": False, "utility": False, "hold_out": 0},
    }
    with mock.patch.dict(os.environ, {"ANONPIPE_SECRET": rng.bytes(32).hex()}):
        released = anonymize(frame[:rows].reset_index(drop=True), job).table.to_numpy(float)
    on_grid, made = (np.rint(each / step).astype(np.int64) for each in (both, released))
    member = np.arange(2 * rows) < rows
    attacks = scores(made, on_grid), known_scores(released, population, both)
    by_neighbours, with_population = (float(roc_auc_score(member, each)) for each in attacks)
    return by_neighbours, with_population


def main() -> None:
    """Print the mean areas for each k."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_500)
    parser.add_argument("--columns", type=int, default=24)
    parser.add_argument("--step", type=float, default=0.01)
    parser.add_argument("--k", type=int, nargs="+", default=[5, 50])
    parser.add_argument("--secrets", type=int, default=3)
    parser.add_argument("--unstepped", action="store_true")
    given = parser.parse_args()
    for k in given.k:
        setting = given.rows, given.columns, given.step, k
        found = [areas(*setting, secret, not given.unstepped) for secret in range(given.secrets)]
        print("k={}: area {:.3f}, with the population known {:.3f}".format(k, *np.mean(found, axis=0)), flush=True)


if __name__ == "__main__":
    main()
