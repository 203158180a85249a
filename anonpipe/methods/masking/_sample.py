"""A random sample of a table in parts, the same however the parts are worked on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from anonpipe.types import FloatArray, IntArray

_KEYS = 2**62


@dataclass(frozen=True, eq=False)
class Sample:
    """Of records with random keys the `size` with the smallest ones, in the order of the keys."""

    size: int  # Most records
    keys: IntArray  # Shape (n_rows,)
    # scores, codes: what is known of each record, shapes (n_rows, width) and (n_rows, n_attributes)
    scores: FloatArray
    codes: IntArray

    def merge(self, other: Self) -> Self:
        """Of both samples the records with the smallest keys."""
        return self._first(
            self.size,
            np.concatenate([self.keys, other.keys]),
            np.concatenate([self.scores, other.scores]),
            np.concatenate([self.codes, other.codes]),
        )

    @classmethod
    def of(cls, scores: FloatArray, codes: IntArray, size: int, rows: int, rng: np.random.Generator) -> Self:
        """The records of a part that may be in the sample of a table of so many `rows`.

        Keys are uniform: those above the share that the sample takes, and six
        standard deviations of it, need not leave their part.
        """
        keys = rng.integers(_KEYS, size=len(scores))
        share = min(1.0, (size + 6 * math.sqrt(size)) / rows)
        near = keys <= int(share * _KEYS)
        return cls._first(size, keys[near], scores[near], codes[near])

    def first(self, rows: int) -> Self:
        """The smaller sample of so many."""
        return type(self)(min(rows, self.size), self.keys[:rows], self.scores[:rows], self.codes[:rows])

    @classmethod
    def _first(cls, size: int, keys: IntArray, scores: FloatArray, codes: IntArray) -> Self:
        chosen = np.argsort(keys, kind="stable")[:size]
        return cls(size, keys[chosen], scores[chosen], codes[chosen])
