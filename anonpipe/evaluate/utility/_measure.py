"""What a measure of utility tells of itself, in one record at the end of its file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from anonpipe.errors import AnonpipeError
from anonpipe.evaluate.utility._measurement import Measurement
from anonpipe.evaluate.utility._typed import Tables


@dataclass(frozen=True)
class Measure:
    """One or several figures that are counted together.

    Direction, unit, source and audience stand in each `Measurement`.
    """

    # Their names, `family.figure`, in the order in which the function gives them. `compare` and gates know measures by
    # these.
    figures: tuple[str, ...]
    # `function(tables) -> list of Measurement`; `function(tables, rng)` where `draws`. It gives all figures of any
    # tables, NaN with the reason in `note` where there is nothing to measure.
    function: Callable[..., list[Measurement]]
    # Whether it samples or trains, and knows its own baseline. Others are counted on two halves of the original too,
    # which is their baseline, and on parts of the sample, from which their interval follows.
    draws: bool = False
    # Figures of which parts say nothing of the whole: in standard errors, or per cent of what may be near zero
    without_interval: tuple[str, ...] = ()

    def of(self, tables: Tables, rng: np.random.Generator | None = None) -> list[Measurement]:
        """The figures of two tables."""
        found = self.function(tables, rng) if self.draws else self.function(tables)
        if tuple(one.name for one in found) != self.figures:
            raise AnonpipeError(f"a measure gave other figures than {', '.join(self.figures)}; please report this")
        return found
