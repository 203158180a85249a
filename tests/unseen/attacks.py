"""Attacks from outside: an intruder with the release, the originals and as many other records of the population.

Nothing of anonpipe is used. Distances are scikit-learn's, linkability and
inference anonymeter's (Giomi et al. 2023, doi:10.56553/popets-2023-0055), which
asks for an older numpy than anonpipe, but works with this one:

    pip install --no-deps anonymeter==1.1.0 polars polars-runtime-32
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse as sp
from scipy.stats import norm
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import OneHotEncoder, QuantileTransformer

ATTACKS = 2_000
Z = float(norm.ppf(0.975))
FEW_VALUES = 10
"""A number with no more values is compared as a category."""


class Figure(NamedTuple):
    """A risk with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return "–" if np.isnan(self.value) else f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"


UNKNOWN = Figure(np.nan, np.nan, np.nan)


@dataclass(frozen=True)
class Tables:
    """What an intruder holds against each other: comparable columns of the same kinds, and whose each row is."""

    original: pd.DataFrame
    control: pd.DataFrame
    released: pd.DataFrame
    numbers: list[str]
    owners: tuple[Any, Any]

    @property
    def categories(self) -> list[str]:
        return [name for name in self.original if name not in self.numbers]

    @property
    def one_row_each(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The first row of each unit, of original and control."""
        parts = zip((self.original, self.control), self.owners, strict=True)
        first, second = (frame[~pd.Series(owner).duplicated().to_numpy()] for frame, owner in parts)
        return first.reset_index(drop=True), second.reset_index(drop=True)


def comparable(original: pd.DataFrame, control: pd.DataFrame, released: pd.DataFrame, unit: str | None) -> Tables:
    """The columns that were released, as plain numbers and texts; nulls are a text, or the original's median."""
    names = [name for name in original if name in released]
    numbers = [name for name in names if _is_number(original[name])]
    frames = []
    for frame in (original, control, released):
        plain = {}
        for name in names:
            column = frame[name]
            if name not in numbers:
                plain[name] = column.astype(object).where(column.notna(), "null").astype(str)
                continue
            plain[name] = _as_number(column).fillna(_as_number(original[name]).median())
        frames.append(pd.DataFrame(plain))
    owners = tuple(np.arange(len(frame)) if unit is None else frame[unit].to_numpy() for frame in (original, control))
    return Tables(*frames, numbers, owners)


def _is_number(column: pd.Series) -> bool:
    if pd.api.types.is_datetime64_any_dtype(column):
        return True
    plain = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    return bool(plain and column.nunique() > FEW_VALUES)


def _as_number(column: pd.Series) -> pd.Series:
    if not pd.api.types.is_numeric_dtype(column):
        column = (pd.to_datetime(column) - pd.Timestamp("2000-01-01")) / pd.Timedelta(days=1)
    return column.astype(float)


def membership(tables: Tables) -> Figure:
    """How well units of the release are told from others by their nearest released row (AUC; Hanley & McNeil 1982)."""
    points = _points(tables)
    nearest = NearestNeighbors(n_neighbors=1).fit(points[2])
    scores = []
    for at in (0, 1):
        distance = nearest.kneighbors(points[at])[0][:, 0]
        scores.append(-pd.Series(distance).groupby(tables.owners[at]).min().to_numpy())
    return _area(*scores)


def _area(members: Any, others: Any) -> Figure:
    """The area under the curve of scores that members should have higher, by Hanley & McNeil's variance."""
    inside, outside = len(members), len(others)
    area = float(roc_auc_score(np.repeat([1, 0], [inside, outside]), np.concatenate([members, others])))
    one, two = area / (2 - area), 2 * area**2 / (1 + area)
    variance = area * (1 - area) + (inside - 1) * (one - area**2) + (outside - 1) * (two - area**2)
    error = Z * float(np.sqrt(variance / (inside * outside)))
    return Figure(area, area - error, area + error)


def tracing(tables: Tables) -> Figure:
    """How well units are told from others by which way means and covariances of the release lean (Dwork et al. 2015).

    Half of the control stands for the population, the other half for those to be told apart; then the other way round.
    """
    points = [sp.csr_array(each).toarray() for each in _points(tables)]
    common = (points[2] != 0).mean(axis=0) > 0.01
    axes = PCA(whiten=True).fit(points[2][:, common])
    kept = axes.explained_variance_ > 0.01 * axes.explained_variance_.mean()
    members, control, released = (axes.transform(each[:, common])[:, kept] for each in points)
    half, areas = pd.factorize(pd.Series(tables.owners[1]))[0] % 2 == 0, []
    for others in (half, ~half):
        means = released.mean(axis=0) - control[others].mean(axis=0)
        second = released.T @ released / len(released) - control[others].T @ control[others] / others.sum()
        scores = []
        for rows, owners in ((members, tables.owners[0]), (control[~others], np.asarray(tables.owners[1])[~others])):
            score = rows @ means + 0.5 * ((rows @ second) * rows).sum(axis=1)
            scores.append(pd.Series(score).groupby(np.asarray(owners)).sum().to_numpy())
        areas.append(_area(*scores))
    return Figure(*np.mean(areas, axis=0))


def counting(tables: Tables) -> Figure:
    """How well units are told from others by how often their values are released, more often than 16 values beside."""
    window = np.where(np.arange(17) == 8, 0.0, 1 / 16)
    scores = [np.zeros(len(frame)) for frame in (tables.original, tables.control)]
    for name in tables.numbers:
        columns = [frame[name].to_numpy() for frame in (tables.original, tables.control, tables.released)]
        grid = np.unique(np.concatenate(columns))
        counts = np.bincount(np.searchsorted(grid, columns[2]), minlength=len(grid)).astype(float)
        excess = np.log((counts + 0.5) / (np.convolve(counts, window, "same")[: len(grid)] + 0.5))
        for score, column in zip(scores, columns, strict=False):
            score += excess[np.searchsorted(grid, column)]
    pairs = zip(scores, tables.owners, strict=True)
    return _area(*(pd.Series(score).groupby(np.asarray(owners)).sum().to_numpy() for score, owners in pairs))


def linkage(tables: Tables) -> Figure:
    """Released rows whose nearest known row is of a unit of the release, less those whose nearest is a control's.

    The control has as many rows as the original, by chance alone half of all
    released rows are next to one of them. Ties count for both.
    """
    points = _points(tables)
    rows = min(points[0].shape[0], points[1].shape[0])
    rng = np.random.default_rng(0)
    known = [each[rng.permutation(each.shape[0])[:rows]] for each in points[:2]]
    own, other = (NearestNeighbors(n_neighbors=1).fit(each).kneighbors(points[2])[0][:, 0] for each in known)
    sign = np.sign(np.round(other - own, 9))
    error = Z * float(sign.std() / np.sqrt(len(sign)))
    return Figure(float(sign.mean()), float(sign.mean()) - error, float(sign.mean()) + error)


def _points(tables: Tables) -> list[Any]:
    """Original, control and release as points: normal scores of numbers, and a corner of a simplex a category."""
    frames = (tables.original, tables.control, tables.released)
    parts: list[list[Any]] = [[], [], []]
    if tables.numbers:
        scorer = QuantileTransformer(output_distribution="normal", n_quantiles=min(1_000, len(tables.original)))
        scorer.fit(tables.original[tables.numbers].to_numpy())
        for part, frame in zip(parts, frames, strict=True):
            part.append(sp.csr_array(scorer.transform(frame[tables.numbers].to_numpy()).clip(-3, 3)))
    if tables.categories:
        encoder = OneHotEncoder().fit(pd.concat(frames)[tables.categories])
        for part, frame in zip(parts, frames, strict=True):
            part.append(encoder.transform(frame[tables.categories]))
    found = [sp.csr_array(sp.hstack(part)) for part in parts]
    return [each.toarray() for each in found] if found[0].shape[1] < 300 else found


def has_anonymeter() -> bool:
    """Whether anonymeter is there."""
    return find_spec("anonymeter") is not None


def linkability(tables: Tables, attacks: int = ATTACKS) -> Figure:
    """Units of which two halves of the columns lead to the same released row, beyond the control."""
    from anonymeter.evaluators import LinkabilityEvaluator

    names = list(tables.original)
    return _beyond_control(
        tables,
        attacks,
        lambda **given: LinkabilityEvaluator(**given, aux_cols=(names[::2], names[1::2]), n_neighbors=5),
    )


def inference(tables: Tables, secrets: Sequence[str], attacks: int = ATTACKS) -> Figure:
    """Guesses of the first secret that is released, from all other columns, beyond the control."""
    from anonymeter.evaluators import InferenceEvaluator

    secret = next(name for name in secrets if name in tables.original)
    others = [name for name in tables.original if name != secret]
    about = {"aux_cols": others, "secret": secret, "regression": secret in tables.numbers}
    return _beyond_control(tables, attacks, lambda **given: InferenceEvaluator(**given, **about))


def _beyond_control(tables: Tables, attacks: int, make: Callable[..., Any]) -> Figure:
    """The rate of right guesses on originals less that on the control, with the interval of their difference."""
    original, control = tables.one_row_each
    count = min(attacks, len(original), len(control))
    np.random.seed(0)  # anonymeter draws its targets from it
    evaluator = make(ori=original, syn=tables.released, control=control, n_attacks=count)
    rates = evaluator.evaluate(n_jobs=1).results(confidence_level=0.95)
    value = float(rates.attack_rate.value - rates.control_rate.value)
    error = float(np.hypot(rates.attack_rate.error, rates.control_rate.error))
    return Figure(value, value - error, value + error)
