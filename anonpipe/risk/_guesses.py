"""How an attacker guesses a column from all others: by the closest record, by a forest, or the one best value."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from anonpipe.kernels.left_out import nearest_but_one

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Piece = tuple[FloatArray, FloatArray]
"""Points of one column: of the released records, and of all others; as many columns as it needs."""

_MOST_DUMMIES = 64
"""Categories of a column that have a dummy of their own; all rarer ones share one."""

_TREES, _FIT_ROWS = 50, 10_000
"""Trees of a forest, and released records that they are grown on."""


def encode(columns: list[FloatArray], coded: bool) -> Piece:
    """Points of one column: of the released records, and of all others."""
    both = np.concatenate(columns)
    missing = np.isnan(both)
    n = len(columns[0])
    if coded:
        return _dummies(both, n)
    told = columns[0][~np.isnan(columns[0])]
    width, centre = spread(told), float(told.mean()) if len(told) else 0.0
    scores = np.where(missing, 0.0, (both - centre) / (width or 1.0))
    made = np.column_stack([scores, missing]) if missing.any() else scores[:, None]
    return made[:n], made[n:]


def _dummies(values: FloatArray, n: int) -> Piece:
    """A dummy for each common category, one for all others; null is a category like any other."""
    codes = np.unique(values, return_inverse=True)[1].reshape(-1)  # one NaN only
    counts = np.bincount(codes[:n], minlength=int(codes.max()) + 1)
    place = np.full(len(counts), _MOST_DUMMIES)
    common = np.argsort(-counts, kind="stable")[:_MOST_DUMMIES]
    place[common] = np.arange(len(common))
    made = np.zeros((len(values), min(len(counts), _MOST_DUMMIES + 1)))
    made[np.arange(len(values)), place[codes]] = 1.0
    apart = 1.0 - float((made[:n].mean(axis=0) ** 2).sum())
    made /= math.sqrt(apart) if apart > 0 else 1.0
    return made[:n], made[n:]


def spread(values: FloatArray) -> float:
    """Standard deviation of what is not null, exactly 0 for a constant."""
    told = values[~np.isnan(values)]
    return float(told.std(ddof=1)) if len(told) > 1 and (told != told[0]).any() else 0.0


def best_constant(values: FloatArray, allowed: float) -> float:
    """The value around which most released ones lie, or null if there are more of those."""
    told = np.sort(values[~np.isnan(values)])
    if not len(told):
        return math.nan
    # The window of twice the allowed error that starts at each value.
    inside = np.searchsorted(told, told + 2 * allowed * (1 + 1e-9), side="right") - np.arange(len(told))
    first = int(np.argmax(inside))
    last = first + int(inside[first]) - 1
    return float(told[[first, last]].mean()) if inside[first] >= len(values) - len(told) else math.nan


def closest_rows(pieces: list[Piece]) -> IntArray:
    """Row of the closest released record of each one asked, in all columns but each; shape (n_asked, n_columns)."""
    points, queries = (np.ascontiguousarray(np.hstack(side)) for side in zip(*pieces, strict=True))
    return nearest_but_one(points, queries, np.cumsum([old.shape[1] for old, _ in pieces]))


def by_trees(pieces: list[Piece], values: FloatArray, at: int, coded: bool, seed: int) -> FloatArray:
    """Guesses of a forest; of nulls only where the column is of categories."""
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

    known = [piece for other, piece in enumerate(pieces) if other != at]
    points, queries = np.hstack([old for old, _ in known]), np.hstack([new for _, new in known])
    rows = np.arange(len(values)) if coded else np.flatnonzero(~np.isnan(values))
    if len(rows) > _FIT_ROWS:
        rows = np.sort(np.random.default_rng(seed).choice(rows, _FIT_ROWS, replace=False))
    if not len(rows):
        return np.full(len(queries), np.nan)
    settings = {"n_estimators": _TREES, "min_samples_leaf": 3, "random_state": seed}
    if not coded:
        fitted = ExtraTreesRegressor(**settings).fit(points[rows], values[rows])
        return np.asarray(fitted.predict(queries), dtype=np.float64)
    distinct, codes, counts = np.unique(values[rows], return_inverse=True, return_counts=True)
    kept = np.isin(codes.reshape(-1), np.argsort(-counts, kind="stable")[:_MOST_DUMMIES])
    fitted = ExtraTreesClassifier(**settings).fit(points[rows][kept], codes.reshape(-1)[kept])
    return np.asarray(distinct[fitted.predict(queries)], dtype=np.float64)
