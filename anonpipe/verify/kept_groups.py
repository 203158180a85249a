"""Whether groups that span partitions have k records and kept their moments: counted again from labels and features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anonpipe.methods.masking import RecordsAndDraws
from anonpipe.moments import merge_all
from anonpipe.verify.check import Check, held
from anonpipe.verify.expectations import EXACT

# Deviations count in parts of the group's standard deviation, or of this part of the table's where that is more
_LEAST = 1e-6


@dataclass(frozen=True)
class KeptGroups:
    """What was found of the groups of all strata."""

    sizes: tuple[int, ...]  # Records of each group
    # mean_off, covariance_off: largest differences of a mean and of a covariance between records and synthetic features
    # of a group, in its standard deviations
    mean_off: float
    covariance_off: float

    @property
    def groups(self) -> int:
        """How many there are."""
        return len(self.sizes)

    @property
    def smallest(self) -> int:
        """Records of the smallest."""
        return min(self.sizes)

    @classmethod
    def of(cls, strata: Sequence[Sequence[RecordsAndDraws]]) -> KeptGroups:
        """Merge what the partitions of each stratum counted, in their order."""
        found = []
        for parts in strata:
            groups = max(len(part.records.counts) for part in parts)
            whole = merge_all([part.grown(groups) for part in parts])
            counts = whole.records.counts
            spread = np.sqrt(np.diagonal(whole.records.scatters, axis1=1, axis2=2) / counts[:, None])
            means = whole.records.means
            between = (counts[:, None] * (means - counts @ means / counts.sum()) ** 2).sum(axis=0)
            table = np.sqrt((between + (counts[:, None] * spread**2).sum(axis=0)) / counts.sum())
            scale = np.maximum(spread, _LEAST * np.where(table > 0, table, 1.0))
            mean = np.abs(whole.draws.means - means) / scale
            scatter = np.abs(whole.draws.scatters - whole.records.scatters) / counts[:, None, None]
            covariance = scatter / (scale[:, :, None] * scale[:, None, :])
            found.append(cls(tuple(map(int, counts)), float(mean.max()), float(covariance.max())))
        return cls(
            tuple(size for each in found for size in each.sizes),
            float(np.max([each.mean_off for each in found])),  # a NaN of any stratum stays one, and fails
            float(np.max([each.covariance_off for each in found])),
        )

    def smallest_held(self, k: int) -> Check:
        """The size of the smallest group against k."""
        return held("group.smallest", self.smallest, k, about={"groups": self.groups})

    def moments_held(self, columns: int) -> list[Check]:
        """What is promised of every group, its features being made of so many columns."""
        whole: dict[str, Any] = {"records": sum(self.sizes), "compared": columns}
        return [
            held("expectation.mean.group", self.mean_off, EXACT, **whole),
            held("expectation.covariance.group", self.covariance_off, EXACT, **whole),
        ]
