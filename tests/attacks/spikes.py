"""Members told by the counts of single values: each column's distribution comes out at a resolution of about k records.

    python -m tests.attacks.spikes [--rows 2500] [--columns 24] [--step 0.01] [--k 5 20 50] [--secrets 3]

Normal numbers that go together, masked by local synthesis. The intruder has the release alone. In each column the
released count of a person's value is compared with the mean count of its 16 neighbours on the grid, and the logarithms
of the ratios are added up. Printed is the area under the curve of members against others; 0.5 is chance.
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


def area(rows: int, columns: int, step: float, k: int, secret: int) -> float:
    """The area under the curve of a release."""
    rng = np.random.default_rng(secret)
    both = rng.normal(size=(2 * rows, 4)) @ rng.normal(size=(4, columns)) + rng.normal(size=(2 * rows, columns))
    names = [f"x{at}" for at in range(columns)]
    frame = pd.DataFrame((both / step).round() * step, columns=names)
    job = {
        "k": k,
        "columns": {name: {"kind": "continuous", "bounds": [None, None], "step": step} for name in names},
        "mask": {"method": "local_synthesis"},
        "measure": {"risk": False, "utility": False, "hold_out": 0},
    }
    with mock.patch.dict(os.environ, {"ANONPIPE_SECRET": rng.bytes(32).hex()}):
        released = anonymize(frame[:rows].reset_index(drop=True), job).table.to_numpy(float)
    whole, made = (np.rint(each / step).astype(np.int64) for each in (frame.to_numpy(), released))
    return float(roc_auc_score(np.arange(2 * rows) < rows, scores(made, whole)))


def main() -> None:
    """Print the mean area for each k."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_500)
    parser.add_argument("--columns", type=int, default=24)
    parser.add_argument("--step", type=float, default=0.01)
    parser.add_argument("--k", type=int, nargs="+", default=[5, 20, 50])
    parser.add_argument("--secrets", type=int, default=3)
    given = parser.parse_args()
    for k in given.k:
        areas = [area(given.rows, given.columns, given.step, k, secret) for secret in range(given.secrets)]
        print(f"k={k}: area {np.mean(areas):.3f}")


if __name__ == "__main__":
    main()
