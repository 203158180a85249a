"""How the covariances of the groups and their means lie: what standard errors, and tails beyond them, depend on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from anonpipe.kernels.group_moments import spread_sums
from anonpipe.moments._merge import as_table, same_width
from anonpipe.moments._moments import GroupedMoments
from anonpipe.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class GroupSpread:
    """Sums over groups that `limit_by_group` needs for noise with each group's own covariance.

    For each group let n be its records, u its mean less the mean of all
    records, W its scatter. All matrices have shape (width, width).
    """

    # n, mean: number and mean of all records
    n: int
    mean: FloatArray
    within: FloatArray  # Sum of W
    noise: FloatArray  # Sum of (W_jj W_hh + W_jh²) / n
    # square, product: sums of u_j² W_hh and of u_j u_h W_jh
    square: FloatArray
    product: FloatArray
    # linear, mixed: sums of u_j W_hh and of u_j W_jh; only needed to merge
    linear: FloatArray
    mixed: FloatArray
    largest: FloatArray  # Largest (√(W_jj W_hh) + |W_jh|) / 2n of a group: see `form_eigenvalue`

    @classmethod
    def of(cls, features: FloatArray, order: IntArray, starts: IntArray) -> Self:
        """Count the groups `order[starts[g]:starts[g + 1]]` of `features`."""
        grouped = GroupedMoments.of(features, order, starts)
        mean = grouped.total.mean
        return cls(grouped.total.n, mean, grouped.within, *spread_sums(as_table(features), order, starts, mean))

    def merge(self, other: Self) -> Self:
        """Both pieces together; no group may have records in both."""
        same_width(self.mean, other.mean)
        n = self.n + other.n
        mean = self.mean + (other.mean - self.mean) * (other.n / max(n, 1))
        a, b = self._about(mean), other._about(mean)
        names = ("within", "noise", "square", "product", "linear", "mixed")
        sums = {name: getattr(a, name) + getattr(b, name) for name in names}
        return type(self)(n, mean, **sums, largest=np.maximum(self.largest, other.largest))

    def _about(self, mean: FloatArray) -> Self:
        """The same sums with the groups' means taken about another point."""
        shift = self.mean - mean
        column, spread = shift[:, None], np.diag(self.within)[None, :]
        square = self.square + 2 * column * self.linear + column**2 * spread
        product = self.product + column * self.mixed.T + shift * self.mixed + column * shift * self.within
        linear = self.linear + column * spread
        mixed = self.mixed + column * self.within
        return type(self)(self.n, mean, self.within, self.noise, square, product, linear, mixed, self.largest)
