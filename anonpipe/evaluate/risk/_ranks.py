"""Values as ranks in their own table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anonpipe.errors import InputError
from anonpipe.evaluate.risk._nearest import table
from anonpipe.types import FloatArray


@dataclass(frozen=True)
class Ranks:
    """Ranks in one table, as shares of its records.

    An intruder who compares ranks of the original with ranks of the release
    is not misled by a masker that moves or stretches whole columns.

    References
    ----------
    Muralidhar & Domingo-Ferrer (2016), Privacy in Statistical Databases, LNCS
    9867:225-236, doi:10.1007/978-3-319-45381-1_17.
    """

    ordered: FloatArray  # Each column of the table sorted, shape (n_rows, width)

    @classmethod
    def of(cls, features: npt.ArrayLike) -> Ranks:
        """Of a table, or of a random sample of it: ranks are then estimates."""
        features = table(features, "records")
        if not len(features):
            raise InputError("there are 0 records to take ranks from; give one or more")
        return cls(np.sort(features, axis=0))

    def apply(self, features: npt.ArrayLike) -> FloatArray:
        """Share of the table's records below each value, those that equal it counting half, 0 to 1.

        Examples
        --------
        >>> Ranks.of([[5.0], [1.0], [5.0], [9.0]]).apply([[5.0], [0.0], [9.0]]).tolist()
        [[0.5], [0.0], [0.875]]
        """
        features = table(features, "records")
        if features.shape[1] != self.ordered.shape[1]:
            raise InputError(
                f"there are {features.shape[1]} columns for ranks of {self.ordered.shape[1]}; give the same"
            )
        ranks = np.empty(features.shape)
        for j in range(features.shape[1]):
            column = self.ordered[:, j]
            below = np.searchsorted(column, features[:, j], side="left")
            ranks[:, j] = below + np.searchsorted(column, features[:, j], side="right")
        return ranks / (2.0 * len(self.ordered))
