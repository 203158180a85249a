"""Survey weights, record by record."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def raked(
    original: npt.NDArray[np.float64], released: npt.NDArray[np.float64], columns: Sequence[int]
) -> npt.NDArray[np.float64]:
    """Weights of column 0 raked to the original's sums in each category (Deming & Stephan 1940), shape (n_rows,).

    They stay in the range that released weights had before.
    """
    low, high, factor = released[:, 0].min(), released[:, 0].max(), np.ones(len(released))
    for _ in range(30):
        for column in columns:
            for code in sorted(set(original[:, column])):
                wanted = sum(row[0] for row in original if row[column] == code)
                inside = [at for at, row in enumerate(released) if row[column] == code]
                now = sum(min(max(released[at, 0] * factor[at], low), high) for at in inside)
                for at in inside:
                    factor[at] *= wanted / now
    return np.clip(released[:, 0] * factor, low, high)
