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


def weighted_mean(
    values: npt.NDArray[np.float64],
    weights: npt.NDArray[np.float64],
    codes: npt.NDArray[np.float64] | None,
    code: int,
) -> tuple[float, float]:
    """The mean of values that are 0 outside a category, and its standard error by linearisation."""
    rows = [
        (0.0 if np.isnan(value) or (codes is not None and codes[at] != code) else float(value), float(weights[at]))
        for at, value in enumerate(values)
        if codes is not None or not np.isnan(value)
    ]
    total = sum(weight for _, weight in rows)
    mean = sum(value * weight for value, weight in rows) / total
    square = sum((weight * (value - mean)) ** 2 for value, weight in rows)
    return mean, (square * len(rows) / (len(rows) - 1)) ** 0.5 / total


def design_error(values, weights, strata, psus):
    """Standard error of a weighted mean of PSUs drawn with replacement in strata: residuals summed by PSU."""
    mean = sum(w * y for w, y in zip(weights, values, strict=True)) / sum(weights)
    variance = 0.0
    for stratum in set(strata):
        own = [at for at, other in enumerate(strata) if other == stratum]
        totals = [
            sum(weights[at] * (values[at] - mean) for at in own if psus[at] == psu) for psu in {psus[at] for at in own}
        ]
        middle = sum(totals) / len(totals)
        variance += len(totals) / (len(totals) - 1) * sum((each - middle) ** 2 for each in totals)
    return variance**0.5 / sum(weights)


def jackknife_error(estimate, weights, replicates, rscales):
    """Standard error by replicate weights as R's svrepdesign has it: squared differences from the whole estimate."""
    whole = estimate(weights)
    return sum(scale * (estimate(each) - whole) ** 2 for each, scale in zip(replicates, rscales, strict=True)) ** 0.5


def design_effect(weights: npt.NDArray[np.float64]) -> float:
    """One plus the square of the coefficient of variation of the weights."""
    mean = sum(weights) / len(weights)
    return 1.0 + sum((weight - mean) ** 2 for weight in weights) / len(weights) / mean**2
