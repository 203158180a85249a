"""How well a classification tree tells released records from original ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from anonpipe.errors import JobError
from anonpipe.evaluate.utility._check import checked_tables
from anonpipe.types import FloatArray


@dataclass(frozen=True)
class TreePropensity:
    """The propensity measure with a tree."""

    # pMSE: mean squared difference of the share of released records in the leaf of a record and that of all records; 0
    # (nothing tells them apart) to c (1 - c), which is 1/4 for tables of equal size
    value: float
    # Its mean with the labels of the records permuted: what the tree finds where there is nothing to find
    expected: float
    ratio: float  # value / expected; about 1 where nothing tells the tables apart. NaN where no column varies.
    # low, high: ends of the 95 % interval of the ratio that the number of permutations leaves; `high` is infinite where
    # even no chance finding is possible
    low: float
    high: float
    leaves: int  # Of the tree
    permutations: int  # Made


def tree_propensity(
    original: npt.ArrayLike,
    released: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    permutations: int = 10,
    leaf: int = 20,
    most_leaves: int = 100,
) -> TreePropensity:
    """Propensity score mean squared error by CART, against its expectation by permutation.

    Parameters
    ----------
    original, released
        Finite numbers of the same columns, shapes (n_rows, width) and
        (n_released, width). Codes of categories will do: two splits take out
        any one.
    rng
        For the permutations, and for ties between splits.
    permutations
        2 or more.
    leaf
        Records that a leaf has at least.
    most_leaves
        That the tree grows, the most useful splits first; 2 or more.

    Notes
    -----
    A tree finds what a logistic regression with interactions does not: gaps,
    repeated values and cut-off tails. It also finds structure in noise, the
    more the larger it is, and no formula says how much; so its size is
    limited, and its ratio is to the same tree on permuted labels. A release
    that repeats each value k times, as centroids do, is told apart with ease.

    Value and expectation are of the records that the tree was grown on, in
    both cases, as published.

    The permutation expectation holds for two independent samples. A release
    made from these very records may have a ratio below 1: for a copy it is 0.

    Raises
    ------
    InputError
        The tables are not as described.
    JobError
        Permutations, leaf or most_leaves are too few.

    References
    ----------
    Snoke, Raab, Nowok, Dibben & Slavkovic (2018), J. R. Stat. Soc. A
    181:663-688, doi:10.1111/rssa.12358, section 3; trees: Breiman, Friedman,
    Olshen & Stone (1984), Classification and Regression Trees.

    Examples
    --------
    >>> rng = np.random.default_rng(5)
    >>> old = rng.normal(size=(300, 2))
    >>> tree_propensity(old, old, rng=rng).value
    0.0
    >>> tree_propensity(old, old.round(), rng=rng).ratio > 2
    True
    """
    if permutations < 2 or leaf < 1 or most_leaves < 2:
        raise JobError(
            f"permutations={permutations}, leaf={leaf}, most_leaves={most_leaves} were given; "
            "give 2 or more permutations, a leaf of 1 or more, and 2 or more leaves"
        )
    old, new = checked_tables(original, released, least_rows=1)
    from sklearn.tree import DecisionTreeClassifier

    both = _places(np.concatenate([old, new]))
    ones = np.arange(len(both)) >= len(old)
    share = len(new) / len(both)

    def grown(labels: npt.NDArray[np.bool_]) -> tuple[float, int]:
        tree = DecisionTreeClassifier(
            min_samples_leaf=leaf, max_leaf_nodes=most_leaves, random_state=int(rng.integers(2**31))
        ).fit(both, labels)
        places = tree.apply(both)
        counts = np.bincount(places)
        chances = np.bincount(places, weights=labels) / np.maximum(counts, 1)
        return float((counts * (chances - share) ** 2).sum() / len(both)), int(tree.get_n_leaves())

    value, leaves = grown(ones)
    chance = np.array([grown(rng.permutation(ones))[0] for _ in range(permutations)])
    expected = float(chance.mean())
    if expected == 0:
        return TreePropensity(value, 0.0, float("nan"), float("nan"), float("nan"), leaves, permutations)
    reach = float(stdtrit(permutations - 1, 0.975)) * float(chance.std(ddof=1)) / np.sqrt(permutations)
    high = value / (expected - reach) if expected > reach else float("inf")
    return TreePropensity(value, expected, value / expected, value / (expected + reach), high, leaves, permutations)


def _places(table: FloatArray) -> npt.NDArray[np.float32]:
    """Each value's place among the different ones of its column: the same splits, and no precision lost to float32."""
    made = np.empty(table.shape, dtype=np.float32)
    for column in range(table.shape[1]):
        made[:, column] = np.unique(table[:, column], return_inverse=True)[1]
    return made
