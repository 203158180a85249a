"""Microaggregation as a scikit-learn estimator, over all methods of grouping."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClusterMixin, OneToOneFeatureMixin, TransformerMixin
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from anonpipe.kernels.points import sort_groups
from anonpipe.methods.grouping import METHODS, cluster, information_loss, refine
from anonpipe.methods.grouping._refine import EFFORTS
from anonpipe.methods.synthesis import METHODS as SYNTHESIZERS
from anonpipe.methods.synthesis import synthesize
from anonpipe.types import FloatArray, IntArray

_REPLACING = [
    name for name, each in SYNTHESIZERS.items() if each.takes == "features" and each.noise is None and not each.required
]


class Microaggregation(OneToOneFeatureMixin, TransformerMixin, ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Groups of at least k near records, and records in place of theirs.

    Distances are Euclidean: scale the columns first, as by `StandardScaler` in a pipeline.

    Parameters
    ----------
    method
        A key of `anonpipe.methods.grouping.METHODS`; `anonpipe methods` lists them.
    k
        Smallest size of a group.
    refine
        Effort of the local search that improves the groups of any method that
        uses no classes; None leaves them as they are.
    block_rows
        Group inside blocks of near records of at most this size: time is then
        linear in the rows. None takes the table as one block.
    options
        The method's own, by name.
    synthesize
        What replaces the records of a group: its `centroid`, or draws with its mean and covariance (`gaussian`, `pca`).
    random_state
        For methods that draw, for `refine` and for `synthesize`.

    Attributes
    ----------
    labels_
        Group of each record, 0 to n_groups_ - 1, int64, shape (n_samples,).
    n_groups_
        Number of groups.
    information_loss_
        Share of the total sum of squares that lies inside groups, in per cent.
    released_
        What replaces the records, row for row, shape (n_samples, n_features).
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Notes
    -----
    `fit_transform` replaces each record by that of its own group, so that no centroid stands for fewer than k.
    `transform` gives each record, of this table or another, the nearest released one, which may be that of another
    group. Where scikit-learn wants both to agree (`check_transformer_general` and `check_transformer_data_not_an_array`
    of `check_estimator`), they cannot; nor are the groups the clusters of `check_clustering`.

    Methods that mix the classes of a sensitive attribute in every group take them as `y`; to others `y` says nothing,
    as usual for clusterers. There is no `predict`: a record that comes later is in none of the groups.

    Examples
    --------
    >>> X = np.array([[0.0], [9.0], [1.0], [10.0]])
    >>> Microaggregation(method="mdav", k=2).fit_predict(X).tolist()
    [0, 1, 0, 1]
    >>> Microaggregation(method="mdav", k=2).fit_transform(X).tolist()
    [[0.5], [9.5], [0.5], [9.5]]
    """

    def __init__(
        self,
        method: str = "mdav",
        k: int = 5,
        *,
        refine: Literal["quick", "normal"] | None = None,
        block_rows: int | None = None,
        options: Mapping[str, Any] | None = None,
        synthesize: str = "centroid",
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
    ) -> None:
        self.method = method
        self.k = k
        self.refine = refine
        self.block_rows = block_rows
        self.options = options
        self.synthesize = synthesize
        self.random_state = random_state

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike | None = None) -> Self:
        """Form the groups, and make what replaces their records.

        Parameters
        ----------
        X
            Finite numbers, shape (n_samples, n_features), n_samples >= k.
        y
            For methods that need them the class of each record, shape (n_samples,).

        Raises
        ------
        TypeError, ValueError
            What is given does not fit, or no such groups can be formed.
        """
        self._check_types()
        features = validate_data(self, X, dtype=np.float64, order="C", ensure_min_samples=max(1, int(self.k)))
        rng = _generator(self.random_state)
        labels = cluster(
            features,
            self.k,
            self.method,
            rng=rng,
            block_rows=self.block_rows,
            classes=self._classes(y, len(features)),
            **dict(self.options or {}),
        )
        if self.refine is not None:
            if self._uses_classes:
                raise ValueError(f"{self.method} mixes classes, which refine would undo; leave refine at None")
            labels = refine(features, labels, self.k, self.refine)
        self.labels_ = labels
        self.n_groups_ = int(labels.max()) + 1
        self.information_loss_ = information_loss(features, labels)
        self.released_: FloatArray = synthesize(features, *sort_groups(labels), self.synthesize, rng=rng)
        return self

    def fit_predict(self, X: npt.ArrayLike, y: npt.ArrayLike | None = None) -> IntArray:
        """Form the groups, and return the group of each record; see `fit`."""
        return self.fit(X, y).labels_

    def fit_transform(self, X: npt.ArrayLike, y: npt.ArrayLike | None = None) -> FloatArray:
        """Form the groups, and return what replaces each record, shape (n_samples, n_features); see `fit`."""
        return self.fit(X, y).released_

    def transform(self, X: npt.ArrayLike) -> FloatArray:
        """Replace each record by the nearest of `released_`; shapes (n_samples, n_features)."""
        check_is_fitted(self)
        features = validate_data(self, X, dtype=np.float64, order="C", reset=False)
        nearest: FloatArray = self.released_[pairwise_distances_argmin(features, self.released_)]
        return nearest

    def _check_types(self) -> None:
        """Refuse what is of another type than the parameter, by its name."""
        whole, text = (Integral, "a whole number"), (str, "a text")
        takes: dict[str, tuple[type, str]] = {"k": whole, "block_rows": whole, "method": text, "synthesize": text}
        for name, (kind, words) in (takes | {"options": (Mapping, "a mapping")}).items():
            given = getattr(self, name)
            optional = given is None and name in ("block_rows", "options")
            if not optional and (isinstance(given, bool) or not isinstance(given, kind)):
                raise TypeError(f"{name} has type {type(given).__name__}; give {words}")
        for parameter, allowed in (("synthesize", _REPLACING), ("refine", ["None", *EFFORTS])):
            if str(value := getattr(self, parameter)) not in allowed:
                raise ValueError(f"{parameter} is {value!r}; allowed are {', '.join(allowed)}")

    @property
    def _uses_classes(self) -> bool:
        return self.method in METHODS and METHODS[self.method].classes

    def _classes(self, y: npt.ArrayLike | None, rows: int) -> IntArray | None:
        """Codes of the classes; None for methods that take none."""
        if not self._uses_classes:
            return None
        if y is None:
            raise ValueError(
                f"{self.method} requires y to be passed, but the target y is None: the class of each record"
            )
        classes = column_or_1d(y, warn=True)
        if len(classes) != rows:
            raise ValueError(f"y has {len(classes)} classes for {rows} records; give one of each record")
        codes: IntArray = np.unique(classes, return_inverse=True)[1].astype(np.int64)
        return codes

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self._uses_classes
        return tags


def _generator(random_state: int | np.random.RandomState | np.random.Generator | None) -> np.random.Generator:
    """A generator, as this package draws from; the same for the same state."""
    if random_state is None or isinstance(random_state, np.random.Generator):
        return np.random.default_rng(random_state)
    drawn = check_random_state(random_state).randint(0, 2**32, size=4, dtype=np.uint32)
    return np.random.default_rng(drawn)
