"""CREST once for every confidential attribute."""

from __future__ import annotations

import numpy as np

from anonpipe.methods.grouping._registry import cluster
from anonpipe.types import FloatArray, IntArray


def crest_per_class(
    features: FloatArray,
    k: int,
    classes: IntArray,
    *,
    rng: np.random.Generator,
    block_rows: int | None = None,
    alpha: float = 0.5,
    neighbours: int | None = None,
) -> IntArray:
    """Group records by `crest` for each of several class attributes alone.

    The other way to handle several attributes, one `compound_classes`, needs
    a single grouping. With one grouping an attribute the released values are
    an average over the groupings. Average the *centroids* first: record i
    then stands at the mean over attributes of its groups' centroids. Noise
    comes last and once, with the covariance that those averages lack against
    the original points, which is positive semidefinite as averages of
    projections do not stretch. To perturb each grouping independently and
    average the results, as the paper has it, divides the covariance of the
    noise by the number of attributes and leaves the variances too small.

    The averaged centroid is shared only by the records that stand together in
    *every* grouping, often one record alone: the released points are no
    longer k-anonymous, and attacks on them must be measured.

    Shapes: features (n_rows, width); classes (n_rows, n_attributes).

    References
    ----------
    Li and Sarkar 2013, Management Science 59(4), doi:10.1287/mnsc.1120.1584,
    section 8, the second of two approaches to several attributes.

    Examples
    --------
    >>> features = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> classes = np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
    >>> crest_per_class(features, 2, classes, rng=np.random.default_rng(0)).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    classes = np.asarray(classes)
    if classes.ndim != 2 or len(classes) != len(features) or classes.shape[1] < 1:
        raise ValueError(f"classes has shape {classes.shape}; give ({len(features)}, n_attributes) with 1 or more")
    labels = np.empty(classes.shape, dtype=np.int64)
    for a in range(classes.shape[1]):
        labels[:, a] = cluster(
            features,
            k,
            "crest",
            rng=rng,
            block_rows=block_rows,
            classes=classes[:, a],
            alpha=alpha,
            neighbours=neighbours,
        )
    return labels
