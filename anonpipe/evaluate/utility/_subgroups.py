"""Means of numbers inside categories, and the tails of a distribution."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonpipe.errors import InputError, JobError
from anonpipe.types import FloatArray


def subgroup_changes(
    original: tuple[npt.ArrayLike, npt.ArrayLike],
    released: tuple[npt.ArrayLike, npt.ArrayLike],
    *,
    least: int,
) -> tuple[FloatArray, FloatArray]:
    """Change of the mean of a number in every category of enough records.

    Parameters
    ----------
    original, released
        Codes (whole numbers from 0 on) and values of the same records, NaN
        for nulls.
    least
        Categories with fewer values in the original are left out.

    Returns
    -------
    deviations, errors : float64, shape (n_categories,)
        The size of the change in standard deviations of the whole column, and
        in standard errors of the category's mean. NaN where the original has
        none (a constant column or category), infinite where the release has
        no such value. For two independent samples of equal size the second is
        √2 · √(2/π) = 1.13 on average.

    Raises
    ------
    JobError
        `least` is below 1.
    InputError
        Codes and values of different lengths.

    Examples
    --------
    >>> old = ([0, 0, 1, 1, 1], [1.0, 3.0, 7.0, 8.0, 9.0])
    >>> deviations, errors = subgroup_changes(old, (old[0], [2.0, 4.0, 7.0, 8.0, 9.0]), least=2)
    >>> errors.tolist()
    [1.0, 0.0]
    """
    if least < 1:
        raise JobError(f"least={least} was given as the smallest category; give 1 or more")
    (codes, values), (other_codes, others) = (_known(*side) for side in (original, released))
    if len(values) == 0:
        return np.empty(0), np.empty(0)
    table = pd.Series(values).groupby(codes).agg(["count", "mean", "std"])
    kept = table[table["count"] >= least]
    new_means = pd.Series(others).groupby(other_codes).mean().reindex(kept.index)
    change = (new_means - kept["mean"]).abs().fillna(np.inf).to_numpy()
    whole = 0.0 if (values == values[0]).all() else float(values.std(ddof=1))
    errors = (kept["std"].fillna(0.0) / np.sqrt(kept["count"])).to_numpy()
    out = []
    for scale in (np.full(len(change), whole), errors):
        out.append(np.divide(change, scale, out=np.full(len(change), np.nan), where=scale > 0))
    return out[0], out[1]


def _known(codes: npt.ArrayLike, values: npt.ArrayLike) -> tuple[npt.NDArray[np.int64], FloatArray]:
    groups, numbers = (np.asarray(side, dtype=np.float64) for side in (codes, values))
    if groups.shape != numbers.shape or groups.ndim != 1:
        raise InputError(f"codes of shape {groups.shape} and values of shape {numbers.shape}; give one each a record")
    known = ~(np.isnan(groups) | np.isnan(numbers))
    return groups[known].astype(np.int64), numbers[known]


def tail_changes(original: npt.ArrayLike, released: npt.ArrayLike, *, least: int, share: float = 0.05) -> FloatArray:
    """Change of the mass beyond the original's outer quantiles, and of how far it reaches beyond them.

    Parameters
    ----------
    original, released
        Finite numbers, one or more each.
    least
        Tails of fewer records of the original are left out, as every figure
        of them tells of a few persons.
    share
        Of the records below the lower quantile and above the upper one, about.

    Returns
    -------
    float64, shape (2, 2)
        Rows: below, above. Columns: the size of the change of the share of
        records strictly beyond the quantile, and that of the mean excess over
        it, in standard deviations of the original. NaN for tails that are
        left out; infinite for an excess where the release has no record there.

    Notes
    -----
    Ties at a quantile lie inside, so that a tail may hold less than `share`;
    the release is compared with what it does hold.

    Raises
    ------
    JobError
        `share` is not between 0 and 1/2, or `least` is below 1.

    References
    ----------
    Mean excess over a threshold: Davison & Smith (1990), J. R. Stat. Soc. B 52:393-442.

    Examples
    --------
    >>> old = np.arange(100.0)
    >>> tail_changes(old, np.clip(old, 10, 90), least=5)[:, 0].tolist()  # nothing is left beyond
    [0.05, 0.05]
    """
    if not 0 < share < 0.5 or least < 1:
        raise JobError(f"share={share} and least={least} were given; give a share between 0 and 0.5, and 1 or more")
    old, new = (np.asarray(side, dtype=np.float64) for side in (original, released))
    if min(old.size, new.size) == 0:
        raise InputError("a column without values was given; give one value or more")
    found = np.full((2, 2), np.nan)
    low, high = np.quantile(old, [share, 1 - share])
    spread = 0.0 if (old == old[0]).all() else float(old.std(ddof=1))
    for side, (sign, limit) in enumerate(((-1.0, low), (1.0, high))):
        before, after = (sign * (values - limit) for values in (old, new))
        before, after = before[before > 0], after[after > 0]
        if len(before) < least or spread == 0:
            continue
        found[side, 0] = abs(len(after) / len(new) - len(before) / len(old))
        found[side, 1] = abs(after.mean() - before.mean()) / spread if len(after) else np.inf
    return found
