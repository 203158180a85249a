"""Sequential synthesis by regression and classification trees, as synthpop does it (Nowok et al. 2016, syn.cart)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from tests.benchmarks.frontier.comparable import Kinds

LEAF = 5
"""Fewest donors in a leaf: synthpop's `minbucket`."""


def sequential_cart(original: pd.DataFrame, kinds: Kinds, rng: np.random.Generator) -> pd.DataFrame:
    """As many rows as the original has, column after column.

    The first column is drawn with replacement. Of each other one, a tree is
    grown on the columns before it; a synthetic row goes down to its leaf with
    the values that it has so far, and takes the value of one of the original
    rows there. Nulls are values.
    """
    names = list(kinds)
    made = original[[names[0]]].iloc[rng.integers(0, len(original), len(original))].reset_index(drop=True)
    for at, name in enumerate(names[1:], start=1):
        before = {one: kinds[one] for one in names[:at]}
        known, new = _design(original, original, before), _design(original, made, before)
        tree = _tree(kinds[name], rng).fit(known, _target(original[name], kinds[name]))
        donors = _donors(tree.apply(known), tree.apply(new), rng)
        made[name] = original[name].to_numpy()[donors]
    return made


def _tree(kind: str, rng: np.random.Generator) -> DecisionTreeClassifier | DecisionTreeRegressor:
    model = DecisionTreeClassifier if kind == "categorical" else DecisionTreeRegressor
    return model(min_samples_leaf=LEAF, random_state=int(rng.integers(2**31)))


def _target(values: pd.Series, kind: str) -> pd.Series:
    return values if kind == "categorical" else values.fillna(values.median())


def _design(original: pd.DataFrame, frame: pd.DataFrame, kinds: Kinds) -> np.ndarray:
    """Numbers with nulls below all others; a column of 0 and 1 for each category."""
    columns = []
    for name, kind in kinds.items():
        if kind == "categorical":
            columns += [frame[name] == one for one in original[name].unique()]
        else:
            columns.append(frame[name].fillna(original[name].min() - 1.0))
    return np.column_stack(columns).astype(np.float32)


def _donors(known: np.ndarray, new: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """For each new row the place of an original row of the same leaf, drawn at random."""
    order = np.argsort(known, kind="stable")
    leaves, first, size = np.unique(known[order], return_index=True, return_counts=True)
    at = np.searchsorted(leaves, new)
    return order[first[at] + (rng.random(len(new)) * size[at]).astype(int)]
