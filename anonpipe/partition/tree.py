"""Coarse pre-clusters: a tree of splits fitted on a sample, through which all records are routed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from anonpipe.kernels.compiled import kernel
from anonpipe.kernels.points import checked_features, dot, principal_direction, project_rows
from anonpipe.types import FloatArray, IntArray

KeyArray = npt.NDArray[np.uint64]


class Tree(NamedTuple):
    """Splits along principal directions; node 0 is the root, a tree of one leaf has no nodes."""

    directions: FloatArray  # Unit vector of each node, shape (n_nodes, width)
    thresholds: FloatArray  # A record goes left where (projection, key) is less, in this order, shape (n_nodes,)
    key_thresholds: KeyArray  # Likewise
    children: IntArray  # Left and right child, shape (n_nodes, 2): a node, or -1 - leaf

    @property
    def leaves(self) -> int:
        """Number of leaves."""
        return len(self.thresholds) + 1

    @property
    def width(self) -> int:
        """Number of columns of the features it was fitted on."""
        return int(self.directions.shape[1])


def fit_tree(sample_features: FloatArray, sample_keys: KeyArray, leaves: int) -> Tree:
    """Fit a tree that divides records like the sample into `leaves` parts of about equal size.

    A node that is to become L leaves sorts its records by (projection on its first principal direction, key) and is cut
    at the rank floor(L/2)/L of the way. Records with equal values go to both sides in proportion to their keys, so that
    tied data give balanced leaves too.

    Shapes: sample_features (n_sample, width); sample_keys (n_sample,).
    """
    features, keys = _checked(sample_features, sample_keys)
    if not 1 <= leaves <= max(1, len(features)):
        raise ValueError(
            f"{leaves} leaves from a sample of {len(features)} records; give 1 to as many leaves as records"
        )
    tree = Tree(
        np.empty((leaves - 1, features.shape[1])),
        np.empty(leaves - 1),
        np.empty(leaves - 1, dtype=np.uint64),
        np.empty((leaves - 1, 2), dtype=np.int64),
    )
    _grow(tree, 0, features, keys, np.arange(len(features)), leaves, 0)
    return tree


def _grow(
    tree: Tree, node: int, features: FloatArray, keys: KeyArray, rows: IntArray, leaves: int, first_leaf: int
) -> int:
    """Fill in a subtree of L leaves, L - 1 nodes from `node` on; the number by which its parent names it."""
    if leaves == 1:
        return -1 - first_leaf
    direction = principal_direction(features, rows, False)
    projections = project_rows(features, rows, direction)
    ranked = np.lexsort((keys[rows], projections))
    left_leaves = leaves // 2
    left = len(rows) * left_leaves // leaves
    border = ranked[left]
    tree.directions[node], tree.thresholds[node] = direction, projections[border]
    tree.key_thresholds[node] = keys[rows[border]]
    lower, upper = rows[np.sort(ranked[:left])], rows[np.sort(ranked[left:])]
    tree.children[node] = (
        _grow(tree, node + 1, features, keys, lower, left_leaves, first_leaf),
        _grow(tree, node + left_leaves, features, keys, upper, leaves - left_leaves, first_leaf + left_leaves),
    )
    return node


def route(tree: Tree, features: FloatArray, keys: KeyArray) -> IntArray:
    """Leaf of each record, 0 to tree.leaves - 1, int64, shape (n_rows,).

    A record's leaf depends on its own values and key alone: it is the same in whatever batch the record arrives.

    Shapes: features (n_rows, tree.width); keys (n_rows,).
    """
    features, keys = _checked(features, keys)
    if features.shape[1] != tree.width:
        raise ValueError(f"features has {features.shape[1]} columns; the tree was fitted on {tree.width}")
    return np.asarray(_route_rows(tree, features, keys), dtype=np.int64)


def _checked(features: FloatArray, keys: KeyArray) -> tuple[FloatArray, KeyArray]:
    features = checked_features(features)
    if keys.shape != features.shape[:1]:
        raise ValueError(
            f"features has shape {features.shape} and keys {keys.shape}; give (n_rows, width) and (n_rows,)"
        )
    if keys.dtype != np.uint64:
        raise ValueError(f"keys are {keys.dtype}; give uint64")
    return features, np.ascontiguousarray(keys)


@kernel
def _route_rows(tree: Tree, features: FloatArray, keys: KeyArray) -> IntArray:
    """Leaf of each record, shape (n_rows,)."""
    leaves = np.zeros(features.shape[0], dtype=np.int64)
    directions, thresholds, key_thresholds, children = tree
    if children.shape[0] == 0:
        return leaves
    for i in range(features.shape[0]):
        node = 0
        while node >= 0:
            value = dot(features[i], directions[node])
            border = thresholds[node]
            left = value < border or (value == border and keys[i] < key_thresholds[node])
            node = children[node, 0] if left else children[node, 1]
        leaves[i] = -1 - node
    return leaves
