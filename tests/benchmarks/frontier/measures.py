"""Measures that need NumPy, pandas, scikit-learn and statsmodels alone; those of other tools are in `judge`.

All take plain tables; see `comparable.plain`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, cross_val_predict
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from tests.benchmarks.frontier.comparable import Kinds, by_unit, kind_of, plain, points

FEW_AT_RISK = 10
"""A survival curve is compared while so many records of the original are at risk; beyond, one person makes a step."""
FEW_RECORDS = 50
"""A category with fewer records has no survival curve and no coefficient of its own."""


Units = tuple[pd.Series | None, pd.Series | None]
"""Whose rows those of two tables are, where they say so."""


def told_apart(
    original: pd.DataFrame, released: pd.DataFrame, kinds: Kinds, seed: int = 0, units: Units = (None, None)
) -> float:
    """Area under the curve of gradient boosting that tells released rows from original ones, five-fold; 0.5 is chance.

    Below 0.5 lie tables whose rows are near copies of the original ones: the
    twin of a left-out row is among those that are learnt from, with the other
    label. Rows of a unit are in one fold: they are alike, and another one would tell whose table they are of.
    """
    rows = min(len(original), len(released))
    drawn = [one.sample(rows, random_state=seed) for one in (original, released)]
    both = pd.concat(drawn, ignore_index=True)
    label = np.repeat([0, 1], rows)
    categories = [kind == "categorical" for kind in kinds.values()]
    table = np.column_stack([_codes(both[name], kind) for name, kind in kinds.items()])
    model = HistGradientBoostingClassifier(max_iter=100, categorical_features=categories, random_state=seed)
    grouped = any(unit is not None for unit in units)
    folds = (StratifiedGroupKFold if grouped else StratifiedKFold)(5, shuffle=True, random_state=seed)
    groups = _groups(drawn, units) if grouped else None
    with threadpool_limits(1):  # on a machine in use, its threads wait for one another, a hundred times as long
        score = cross_val_predict(model, table, label, groups=groups, cv=folds, method="predict_proba")[:, 1]
    return float(roc_auc_score(label, score))


def _groups(drawn: Sequence[pd.DataFrame], units: Units) -> np.ndarray:
    """A number for each unit of either table; rows of a table that does not say whose they are have one each."""
    keys = [
        side.index if unit is None else unit.to_numpy()[side.index] for side, unit in zip(drawn, units, strict=True)
    ]
    codes = [np.unique(key, return_inverse=True)[1] for key in keys]
    return np.concatenate([codes[0], codes[1] + len(drawn[0])])


def _codes(values: pd.Series, kind: str) -> np.ndarray:
    """Numbers as they are; categories as numbers below 250, the rarest sharing the last one."""
    if kind != "categorical":
        return values.to_numpy()
    place = {name: at for at, name in enumerate(values.value_counts().index)}
    return np.minimum(values.map(place).to_numpy(dtype=float), 249)


def membership(
    members: pd.DataFrame, others: pd.DataFrame, released: pd.DataFrame, kinds: Kinds
) -> tuple[float, float, float]:
    """Area under the curve of telling members from others by the distance to the nearest released row.

    With its interval, of Hanley and McNeil (1982). Distances are of ranks among
    the released rows: ranks among the members would put these on a grid of
    their own, as far as can be from all others.
    """
    known, seen, unseen = points([released, members, others], kinds)
    search = NearestNeighbors(n_neighbors=1).fit(known)
    near = [-search.kneighbors(rows)[0][:, 0] for rows in (seen, unseen)]
    area = float(roc_auc_score(np.repeat([1, 0], [len(seen), len(unseen)]), np.concatenate(near)))
    half = 1.96 * _hanley(area, len(seen), len(unseen))
    return area, area - half, area + half


def membership_of_units(sides: Sequence[pd.DataFrame], units: Sequence[pd.Series]) -> float:
    """The same of whole units: members, others and released ones by their means, first and last values and rows."""
    members, others, released = (by_unit(side, unit) for side, unit in zip(sides, units, strict=True))
    kinds = {name: kind_of(column) for name, column in members.items()}
    return membership(*(plain(side, kinds) for side in (members, others, released)), kinds)[0]


def _hanley(area: float, positive: int, negative: int) -> float:
    one, two = area / (2 - area), 2 * area**2 / (1 + area)
    variance = area * (1 - area) + (positive - 1) * (one - area**2) + (negative - 1) * (two - area**2)
    return float(np.sqrt(variance / (positive * negative)))


def copies(original: pd.DataFrame, released: pd.DataFrame) -> float:
    """Share of released rows that equal an original row in every column."""
    known = set(_keys(original))
    return float(np.mean([key in known for key in _keys(released)]))


def _keys(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    rounded = frame.round(9)
    return list(rounded.astype(object).where(rounded.notna(), None).itertuples(index=False, name=None))


def survival(time: np.ndarray, event: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The Kaplan-Meier curve: times, survival from each on, and records at risk at each.

    Examples
    --------
    >>> times, alive, risk = survival(np.array([1.0, 2, 2, 3]), np.array([True, True, False, True]))
    >>> alive.round(3).tolist(), risk.tolist()
    ([0.75, 0.5, 0.0], [4, 3, 1])
    """
    times, place = np.unique(time, return_inverse=True)
    died, left = np.bincount(place, event, len(times)), np.bincount(place, minlength=len(times))
    risk = np.cumsum(left[::-1])[::-1]
    return times, np.cumprod(1 - died / risk), risk


def survival_error(original: pd.DataFrame, released: pd.DataFrame, time: str, event: tuple[str, Any]) -> float:
    """Largest difference of the two Kaplan-Meier curves, while `FEW_AT_RISK` of the original are at risk."""
    if not len(released):
        return 1.0
    curves = [survival(*_followed(frame, time, event)) for frame in (original, released)]
    times, _, risk = curves[0]
    if not (risk >= FEW_AT_RISK).any():
        return float("nan")
    last = times[risk >= FEW_AT_RISK].max()
    at = np.unique(np.concatenate([curve[0] for curve in curves]))
    at = at[at <= last]
    levels = [np.concatenate([[1.0], alive])[np.searchsorted(found, at, "right")] for found, alive, _ in curves]
    return float(np.abs(levels[0] - levels[1]).max(initial=0.0))


def _followed(frame: pd.DataFrame, time: str, event: tuple[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    present = frame[frame[time].notna()]
    return present[time].to_numpy(), (present[event[0]] == str(event[1])).to_numpy()


def survival_errors(
    original: pd.DataFrame, released: pd.DataFrame, time: str, event: tuple[str, Any], by: str
) -> tuple[float, float]:
    """The largest difference overall, and that of the category of `by` where it is largest."""
    enough = original[by].value_counts()
    found = [
        survival_error(original[original[by] == one], released[released[by] == one], time, event)
        for one in enough.index[enough >= FEW_RECORDS]
    ]
    known = [one for one in found if not np.isnan(one)]
    return survival_error(original, released, time, event), max(known, default=float("nan"))


def cox_errors(
    original: pd.DataFrame, released: pd.DataFrame, kinds: Kinds, time: str, event: tuple[str, Any]
) -> tuple[float, float]:
    """Mean and largest difference of the coefficients of a Cox model of all other columns, in standard errors.

    Both NaN where a model has no fit.
    """
    from statsmodels.duration.hazard_regression import PHReg

    fits = []
    for frame in (original, released):
        known = frame[frame[time].notna()]
        design = _design(original, known, {name: kind for name, kind in kinds.items() if name not in (time, event[0])})
        followed, died = _followed(known, time, event)
        try:
            fits.append(PHReg(followed + 1e-9, design, status=died.astype(int), ties="breslow").fit(disp=False))
        except (np.linalg.LinAlgError, ValueError):
            return float("nan"), float("nan")
    errors = np.abs(fits[1].params - fits[0].params) / fits[0].bse
    return float(errors.mean()), float(errors.max())


def _design(original: pd.DataFrame, frame: pd.DataFrame, kinds: Kinds) -> np.ndarray:
    """Numbers in standard deviations of the original, nulls at its mean; 0 and 1 for categories but the commonest."""
    columns = []
    for name, kind in kinds.items():
        known = original[name]
        if kind == "categorical":
            counts = known.value_counts()
            columns += [frame[name] == one for one in counts.index[1:] if counts[one] >= FEW_RECORDS]
        else:
            columns.append(((frame[name] - known.mean()) / (known.std() or 1.0)).fillna(0.0))
    return np.column_stack(columns).astype(float)
