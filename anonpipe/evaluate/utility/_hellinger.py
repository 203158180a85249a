"""Hellinger distance between the distributions of a column."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from anonpipe.audience import Audience
from anonpipe.errors import InputError
from anonpipe.evaluate.utility._measure import Measure
from anonpipe.evaluate.utility._measurement import Measurement
from anonpipe.evaluate.utility._terms_measured import Term, mean_of_terms
from anonpipe.evaluate.utility._typed import BothColumns, Tables
from anonpipe.types import FloatArray

BINS = 20  # Bins of a number, of equally many original values where no values tie


def hellinger_distance(original: npt.ArrayLike, released: npt.ArrayLike) -> float:
    """Hellinger distance of two categorical columns: √(1 - Σ √(p q)) of the shares p and q, 0 to 1.

    Parameters
    ----------
    original, released
        Codes of the categories, finite, one or more each; equal codes mean the
        same category.

    Raises
    ------
    InputError
        They are not as described.

    Notes
    -----
    It lies between the square of the total variation distance and itself, to
    a factor: H² <= TV <= √2 H. Unlike that it weighs what becomes of rare
    categories: one of share p that is lost makes it √p, and TV p.

    References
    ----------
    Gomatam, Karr & Sanil (2005), Data swapping as a decision problem, Journal
    of Official Statistics 21:635-655 (distortion by Hellinger distance).

    Examples
    --------
    >>> round(hellinger_distance([0, 0, 1, 1], [0, 0, 0, 0]) ** 2, 6)
    0.292893
    """
    old, new = (np.asarray(side, dtype=np.float64) for side in (original, released))
    if any(side.ndim != 1 or not len(side) or not np.isfinite(side).all() for side in (old, new)):
        raise InputError("the categories of a column are to be finite codes in one dimension, one or more each")
    levels, places = np.unique(np.concatenate([old, new]), return_inverse=True)
    p, q = (np.bincount(part, minlength=len(levels)) / len(part) for part in (places[: len(old)], places[len(old) :]))
    return float(np.sqrt(np.square(np.sqrt(p) - np.sqrt(q)).sum() / 2))


def hellinger(tables: Tables) -> list[Measurement]:
    """Its mean over all columns, numbers in bins of equally many original values."""
    return [
        mean_of_terms(
            "distance.hellinger",
            "Hellinger distance of the distribution of a column",
            [_term(column) for column in tables.columns],
            unit="",
            source="Gomatam, Karr & Sanil (2005), J. Off. Stat. 21:635-655",
            records=tables.rows,
            audience=Audience.STEWARD,
            nothing="there are no columns",
            note=f"Numbers in {BINS} bins of equally many original values; nulls left out.",
        )
    ]


def _term(column: BothColumns) -> Term:
    """The distance, or the largest there is for a release without values."""
    old, new = column.known
    if not len(old):
        return column.name, float("nan")
    if not len(new):
        return column.name, 1.0
    if column.kind.coded:
        return column.name, hellinger_distance(old, new)
    edges = np.unique(np.quantile(old, np.arange(1, BINS) / BINS))
    return column.name, hellinger_distance(*(_binned(side, edges) for side in (old, new)))


def _binned(values: FloatArray, edges: FloatArray) -> npt.NDArray[np.int64]:
    return np.searchsorted(edges, values).astype(np.int64)


MEASURE = Measure(figures=("distance.hellinger",), function=hellinger)
