"""Means of numbers inside categories, and the tails of a distribution."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from anonpipe.audience import Audience
from anonpipe.errors import InputError, JobError
from anonpipe.evaluate.measurement import Figure, Measurement
from anonpipe.evaluate.utility._measure import LOST, NO_MIX, NO_NUMBERS, Term, UtilityMeasure, mean_of_terms
from anonpipe.evaluate.utility._tables import BothColumns, TypedTables
from anonpipe.types import FloatArray

# Codes, shape (n_rows,), and numbers of the same records, shape (n_rows, width); NaN for nulls
Side = tuple[FloatArray, FloatArray]


def subgroup_changes(original: Side, released: Side, least: int) -> list[tuple[FloatArray, FloatArray]]:
    """Change of the mean of each number in every category with `least` original values or more, shapes (n_categories,).

    First in standard deviations of the whole column, then in standard errors of
    the category's mean. NaN where the original has none (a constant column or
    category), infinite where the release has no such value. For two independent
    samples of equal size the second is √2 · √(2/π) = 1.13 on average.

    Examples
    --------
    >>> codes, old, new = np.array([0.0, 0, 1, 1, 1]), np.array([1.0, 3, 7, 8, 9]), np.array([2.0, 4, 7, 8, 9])
    >>> [(_, errors)] = subgroup_changes((codes, old[:, None]), (codes, new[:, None]), least=2)
    >>> errors.tolist()
    [1.0, 0.0]
    """
    import pandas as pd

    before, after = (pd.DataFrame(values).groupby(codes) for codes, values in (original, released))
    counts, means = before.count().to_numpy(), before.mean()
    change = (after.mean().reindex(means.index) - means).abs().fillna(np.inf).to_numpy()
    with np.errstate(divide="ignore", invalid="ignore"):  # categories without values are left out below
        errors = before.std().fillna(0.0).to_numpy() / np.sqrt(counts)
    changes = []
    for at, values in enumerate(original[1].T):
        kept, used = counts[:, at] >= least, values[~(np.isnan(original[0]) | np.isnan(values))]
        whole = 0.0 if len(used) == 0 or (used == used[0]).all() else float(used.std(ddof=1))
        scales = (np.full(np.count_nonzero(kept), whole), errors[kept, at])
        deviations, in_errors = (_in_units(change[kept, at], scale) for scale in scales)
        changes.append((deviations, in_errors))
    return changes


def _in_units(change: FloatArray, scale: FloatArray) -> FloatArray:
    out = np.full(len(change), np.nan)
    np.divide(change, scale, out=out, where=scale > 0)
    return out


def tail_changes(original: npt.ArrayLike, released: npt.ArrayLike, *, least: int, share: float = 0.05) -> FloatArray:
    """Change of the mass beyond the original's outer quantiles, and of how far it reaches beyond them, shape (2, 2).

    Rows: below, above. Columns: the size of the change of the share of records
    strictly beyond the quantile, and that of the mean excess over it (Davison &
    Smith 1990, J. R. Stat. Soc. B 52:393-442), in standard deviations of the
    original. NaN for tails of fewer than `least` original records, as every figure
    of them tells of a few persons; infinite for an excess where the release has no
    record there. Ties at a quantile lie inside, so that a tail may hold less than
    `share`; the release is compared with what it does hold.

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
    changes = np.full((2, 2), np.nan)
    low, high = np.quantile(old, [share, 1 - share])
    spread = 0.0 if (old == old[0]).all() else float(old.std(ddof=1))
    for side, (sign, limit) in enumerate(((-1.0, low), (1.0, high))):
        before, after = (sign * (values - limit) for values in (old, new))
        before, after = before[before > 0], after[after > 0]
        if len(before) < least or spread == 0:
            continue
        changes[side, 0] = abs(len(after) / len(new) - len(before) / len(old))
        changes[side, 1] = abs(after.mean() - before.mean()) / spread if len(after) else np.inf
    return changes


_GROUPS_SD, _GROUPS_ERRORS = (
    Figure(
        f"subgroups.{key}",
        f"Change of the means inside categories, in {unit}",
        short,
        "mean of |difference|",
        Audience.STEWARD,
        undefined=NO_MIX,
    )
    for key, unit, short in (
        ("sd", "standard deviations", "sd"),
        ("standard_errors", "standard errors", "standard errors"),
    )
)
_TAILS = tuple(
    Figure(
        key,
        title,
        unit,
        "Davison & Smith (1990), J. R. Stat. Soc. B 52:393-442 (mean excess)",
        Audience.STEWARD,
        note="Strictly beyond the original's 5 % and 95 % quantiles.",
        undefined=NO_NUMBERS,
    )
    for key, title, unit in (
        ("tails.mass", "Change of the share of values in the outer 5 % on each side", "share"),
        ("tails.excess", "Change of how far the outer 5 % on each side reach", "sd"),
    )
)


def _subgroups_and_tails(tables: TypedTables) -> list[Measurement]:
    """Means of numbers inside categories, and the mass and reach of the tails."""
    enough = max(tables.least, 2)
    pairs = list(_mixed(tables, enough))
    measurements = []
    for at, figure in enumerate((_GROUPS_SD, _GROUPS_ERRORS)):
        terms = [_subgroup_term(f"{number.name} in {category.name}", both[at]) for category, number, both in pairs]
        note = f"Over the categories of {enough} or more records of the original, equally weighted."
        if figure is _GROUPS_ERRORS:
            note += " Grows with the number of records measured."
        if lost := sum(int(np.isinf(both[at]).sum()) for _, _, both in pairs):
            note += f" {lost} means of the original have no record in the release, and are not in the figure."
        measurements.append(mean_of_terms(figure, terms, tables.rows, note if terms else ""))
    tails = [
        (number.name, tail_changes(*number.known, least=enough))
        for number in tables.numbers
        if min(map(len, number.known))
    ]
    for at, figure in enumerate(_TAILS):
        terms = [
            (f"{name}, {side}", float(changes[place, at]))
            for name, changes in tails
            for place, side in enumerate(("below", "above"))
        ]
        measurements.append(mean_of_terms(figure, terms, tables.rows))
    return measurements


def _mixed(tables: TypedTables, least: int) -> Iterator[tuple[BothColumns, BothColumns, tuple[FloatArray, FloatArray]]]:
    """Every category with every number, and how the means of the number changed inside the category."""
    old, new = tables.number_arrays()
    for category in tables.categories if tables.numbers else ():
        changes = subgroup_changes((category.old, old), (category.new, new), least)
        yield from ((category, number, change) for number, change in zip(tables.numbers, changes, strict=True))


def _subgroup_term(name: str, changes: FloatArray) -> Term:
    """Mean over the categories that both sides have; lost if the release has none of those of the original."""
    defined = changes[~np.isnan(changes)]
    if len(defined) == 0:
        return name, float("nan")
    finite = defined[np.isfinite(defined)]
    return name, float(finite.mean()) if len(finite) else LOST


SUBGROUPS = UtilityMeasure(
    (_GROUPS_SD, _GROUPS_ERRORS, *_TAILS), _subgroups_and_tails, without_interval=(_GROUPS_ERRORS,)
)
