"""Two tables as the measures take them: numbers as floats, categories as texts, rows as points.

This module and `measures`, `cart`, `peers` and `judge` run in the judges'
environment, where anonpipe is not installed.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

MISSING = "(missing)"

Kinds = Mapping[str, str]
"""Of each column `numerical`, `date` or `categorical`."""


def plain(frame: pd.DataFrame, kinds: Kinds) -> pd.DataFrame:
    """Numbers and dates (as days) as floats, categories as texts, nulls among them; what is plain stays so.

    Examples
    --------
    >>> plain(pd.DataFrame({"x": [1, None], "c": [True, None]}), {"x": "numerical", "c": "categorical"}).values.tolist()
    [[1.0, 'True'], [nan, '(missing)']]
    >>> days = plain(pd.DataFrame({"d": pd.to_datetime(["1970-01-03"])}), {"d": "date"})
    >>> days.values.tolist(), plain(days, {"d": "date"}).values.tolist()
    ([[2.0]], [[2.0]])
    """
    return pd.DataFrame({name: _column(frame[name], kind) for name, kind in kinds.items()})


def _column(values: pd.Series, kind: str) -> pd.Series:
    values = values.reset_index(drop=True)
    if kind == "categorical":
        return values.astype(object).where(values.notna(), MISSING).astype(str)
    if kind == "date" and not pd.api.types.is_numeric_dtype(values):
        days = (pd.to_datetime(values) - pd.Timestamp("1970-01-01")) / pd.Timedelta("1D")
        return days.astype(float)
    return pd.to_numeric(values).astype(float)


def with_relative(frame: pd.DataFrame, weight: str | None) -> pd.DataFrame:
    """Survey weights as multiples of their median: those of fewer rows are all larger, for the same totals.

    Examples
    --------
    >>> [with_relative(pd.DataFrame({"w": values}), "w")["w"].tolist() for values in ([25, 90, 240], [30, 108, 288])]
    [[0.278, 1.0, 2.667], [0.278, 1.0, 2.667]]
    """
    return frame.assign(**{weight: (frame[weight] / frame[weight].median()).round(3)}) if weight in frame else frame


def shuffled(frame: pd.DataFrame, rng: np.random.Generator, unit: str | None = None) -> list[np.ndarray]:
    """The places of each row, or of each unit's rows, in random order."""
    if unit is None:
        return list(rng.permutation(len(frame))[:, None])
    places = list(frame.groupby(unit, sort=False).indices.values())
    return [places[at] for at in rng.permutation(len(places))]


def kind_of(column: pd.Series) -> str:
    """What a column is to a judge; a number of two values is a category.

    Examples
    --------
    >>> [kind_of(pd.Series(values)) for values in ([1.5, 2, 3], ["a", "b", "c"], [True, False], [0, 1, 1])]
    ['numerical', 'categorical', 'categorical', 'categorical']
    """
    if pd.api.types.is_datetime64_any_dtype(column):
        return "date"
    return "numerical" if pd.api.types.is_numeric_dtype(column) and column.nunique() > 2 else "categorical"


def numbers_of(frame: pd.DataFrame) -> pd.DataFrame:
    """All columns as numbers, dates as days and categories as codes."""
    kinds = {name: kind_of(column) for name, column in frame.items()}
    found = plain(frame, kinds)
    return found.assign(**{name: found[name].rank(method="dense") for name in found if kinds[name] == "categorical"})


def by_unit(frame: pd.DataFrame, key: pd.Series) -> pd.DataFrame:
    """Of each unit the number of rows, and mean, first and last value of each column."""
    groups = numbers_of(frame).groupby(key.to_numpy(), sort=False)
    parts = [getattr(groups, how)().add_suffix(f" {how}") for how in ("mean", "first", "last")]
    return pd.concat([*parts, groups.size().rename("rows")], axis=1).reset_index(drop=True)


def points(frames: list[pd.DataFrame], kinds: Kinds) -> list[np.ndarray]:
    """Rows of several plain tables as points: ranks among the rows of the first, in 0 to 1; categories 0 or 1 / sqrt 2.

    Between two values of the first table ranks are interpolated. Two rows that
    differ in one category are as far apart as the smallest and the largest
    number. Nulls of numbers lie in the middle, and have a coordinate of their own.
    """
    parts: list[list[np.ndarray]] = [[] for _ in frames]
    for name, kind in kinds.items():
        columns = [frame[name] for frame in frames]
        placed = _indicators(columns) if kind == "categorical" else _ranks(columns)
        for part, coordinates in zip(parts, placed, strict=True):
            part.append(coordinates)
    return [np.column_stack(part) for part in parts]


def _indicators(columns: list[pd.Series]) -> list[np.ndarray]:
    known = np.unique(np.concatenate([values.to_numpy(dtype=str) for values in columns]))
    return [(values.to_numpy(dtype=str)[:, None] == known) / np.sqrt(2) for values in columns]


def _ranks(columns: list[pd.Series]) -> list[np.ndarray]:
    values, counts = np.unique(columns[0].dropna(), return_counts=True)
    middle = (np.cumsum(counts) - counts / 2) / max(1, counts.sum())
    placed = []
    for one in columns:
        null = one.isna().to_numpy()
        rank = np.interp(one.fillna(0.0), values, middle) if len(values) else np.zeros(len(one))
        placed.append(np.column_stack([np.where(null, 0.5, rank), null]))
    return placed
