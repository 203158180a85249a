"""Records by Mahalanobis distance: differences across what columns have in common count more than those along it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anonpipe.errors import InputError
from anonpipe.evaluate.risk._nearest import table
from anonpipe.types import FloatArray

# Part of the covariances that is taken away, so that columns that nearly follow from others do not decide alone
SHRUNK = 0.1

LEAST = 1e-3  # Smallest variance of an axis, in parts of the largest


@dataclass(frozen=True)
class Whitened:
    """Axes on which original and released records together have variance 1 and no correlation, but for shrinkage.

    Noise that was added column by column hides little where columns go
    together: a record then differs from its own by directions in which others hardly differ at all.

    References
    ----------
    Torra & Domingo-Ferrer 2003 and Torra, Abowd & Domingo-Ferrer 2006,
    doi:10.1007/11930242_20 (record linkage by Mahalanobis distance); Ledoit &
    Wolf 2004 (shrinkage towards a diagonal).
    """

    axes: FloatArray  # Shape (width, width)

    @classmethod
    def of(cls, original: npt.ArrayLike, released: npt.ArrayLike) -> Whitened:
        """From random samples of both tables.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> one = rng.normal(size=500); both = np.column_stack([one, one + 0.2 * rng.normal(size=500)])
        >>> across, along = Whitened.of(both, both).apply([[0.3, -0.3], [0.3, 0.3]])
        >>> bool(across @ across > 3 * along @ along)
        True
        """
        tables = [table(each, "records") for each in (original, released)]
        if not min(map(len, tables)) or tables[0].shape[1] != tables[1].shape[1]:
            raise InputError(f"tables of {len(tables[0])} and {len(tables[1])} records cannot be compared; give both")
        pooled = sum(np.atleast_2d(np.cov(each, rowvar=False, ddof=0)) for each in tables) / 2.0
        variances, directions = np.linalg.eigh((1.0 - SHRUNK) * pooled + SHRUNK * np.diag(np.diag(pooled)))
        least = LEAST * variances[-1] if variances[-1] > 0.0 else 1.0
        return cls(directions / np.sqrt(np.maximum(variances, least)))

    def apply(self, features: npt.ArrayLike) -> FloatArray:
        """Records on these axes."""
        return np.ascontiguousarray(table(features, "records") @ self.axes)
