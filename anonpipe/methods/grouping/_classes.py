"""Class codes: checking them, making one class of several, weighing them against distances."""

from __future__ import annotations

import numpy as np

from anonpipe.types import FloatArray, IntArray

MOST_CODES = 100_000  # Counts are kept for every code up to the largest: codes beyond are meant for something else


def compound_classes(classes: IntArray) -> IntArray:
    """One class of several: every combination that occurs is a class of its own.

    Shapes: classes (n_rows, n_attributes).

    References
    ----------
    Li and Sarkar 2013, doi:10.1287/mnsc.1120.1584, section 8.

    Examples
    --------
    >>> compound_classes(np.array([[0, 1], [1, 0], [0, 1], [0, 0]])).tolist()
    [1, 2, 1, 0]
    """
    return np.unique(classes, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


def class_shares_of(classes: IntArray) -> FloatArray:
    """Share of each class among the records, shape (n_classes,).

    Examples
    --------
    >>> class_shares_of(np.array([0, 1, 1, 1])).tolist()
    [0.25, 0.75]
    """
    return np.bincount(classes) / len(classes)


def checked_classes(
    classes: IntArray | None, shares: FloatArray | None, n_rows: int, method: str
) -> tuple[IntArray, FloatArray]:
    """Classes as int64 and their shares in the whole table, once it is sure that they fit."""
    if classes is None:
        raise ValueError(f"{method} needs classes: the class of each record, codes from 0, shape ({n_rows},)")
    classes = np.asarray(classes)
    if classes.shape != (n_rows,) or not np.issubdtype(classes.dtype, np.integer):
        raise ValueError(
            f"classes has shape {classes.shape} and type {classes.dtype} for {n_rows} records; "
            f"give whole numbers from 0, shape ({n_rows},)"
        )
    classes = np.ascontiguousarray(classes, dtype=np.int64)
    if classes.min() < 0:
        raise ValueError("a class is negative; give codes from 0")
    if classes.max() >= MOST_CODES:
        raise ValueError(
            f"the largest class code is {MOST_CODES:,} or more; number the classes from 0, "
            "for example by np.unique(classes, return_inverse=True)[1]"
        )
    if shares is None:
        shares = class_shares_of(classes)
    shares = np.ascontiguousarray(shares, dtype=np.float64)
    if shares.ndim != 1 or not (shares >= 0).all() or abs(float(shares.sum()) - 1.0) > 1e-6:
        raise ValueError("class_shares are not the shares of the classes; give numbers from 0 that sum to 1")
    if classes.max() >= len(shares) or (shares[classes] == 0).any():
        raise ValueError(f"class_shares has {len(shares)} entries and leaves a class of the records without a share")
    return classes, shares


def checked_alpha(alpha: float) -> float:
    """The weight of distances against classes, if it is one."""
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha is {alpha}; give a number from 0 (classes alone) to 1 (distances alone)")
    return float(alpha)


def diagonal(features: FloatArray) -> float:
    """Diagonal of the box around the points, which no distance exceeds; 1 where all points are equal.

    Distances divided by it lie between 0 and 1, as divergences do.

    Examples
    --------
    >>> diagonal(np.array([[0.0, 0.0], [3.0, 1.0], [2.0, 4.0]]))
    5.0
    """
    length = float(np.sqrt(np.square(np.ptp(features, axis=0)).sum()))
    return length if length > 0.0 else 1.0
