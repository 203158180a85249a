"""A measure of utility: its figures and the function that counts them, declared at the end of its file."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from anonpipe.errors import AnonpipeError
from anonpipe.evaluate.measurement import Figure, Measurement
from anonpipe.evaluate.utility._tables import BothColumns, TypedTables
from anonpipe.types import FloatArray


@dataclass(frozen=True)
class UtilityMeasure:
    """One or several figures that are counted together."""

    figures: tuple[Figure, ...]  # In the order in which the function gives them
    # `function(tables) -> list of Measurement`; `function(tables, rng)` where `draws`. It gives all figures of any
    # tables, NaN with the reason in `note` where there is nothing to measure.
    function: Callable[..., list[Measurement]]
    # Whether it samples or trains, and knows its own baseline. Others are counted on two halves of the original too,
    # which is their baseline, and on parts of the sample, from which their interval follows.
    draws: bool = False
    # Figures of which parts say nothing of the whole: in standard errors, or per cent of what may be near zero
    without_interval: tuple[Figure, ...] = ()
    where: Callable[[TypedTables], bool] = lambda tables: True  # What it asks of the tables; it is left out elsewhere
    weighted: bool = False  # Whether it sees the survey weight, of which the others know nothing

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of its figures, `family.figure`, by which `compare` and gates refer to them."""
        return tuple(figure.key for figure in self.figures)

    def of(self, tables: TypedTables, rng: np.random.Generator | None = None) -> list[Measurement]:
        """The figures of two tables."""
        measurements = self.function(tables, rng) if self.draws else self.function(tables)
        if tuple(measurement.name for measurement in measurements) != self.keys:
            raise AnonpipeError(f"a measure gave other figures than {', '.join(self.keys)}; please report this")
        return measurements


# --- From a figure for each column or pair of columns to one measurement ----------------------------------------------

MOST_PARTS = 20  # Parts that a measurement lists, the largest first

LOST = math.inf  # Figure of a term that the original has, and the release has not

NO_NUMBERS = "there is no column of numbers or dates"
NO_MIX = "there are not a categorical column and one of numbers or dates"

Term = tuple[str, float]


def column_terms(
    columns: Iterable[BothColumns],
    change: Callable[[FloatArray, FloatArray], float],
    *,
    least: int = 1,
    lost: float = LOST,
) -> list[Term]:
    """Change of each column's values; NaN for fewer original ones than `least`, `lost` for fewer released ones."""
    terms = []
    for column in columns:
        old, new = column.known
        value = math.nan if len(old) < least else lost if len(new) < least else change(old, new)
        terms.append((column.name, value))
    return terms


def mean_of_terms(figure: Figure, terms: Sequence[Term], records: int, note: str | None = None) -> Measurement:
    """The mean of the terms that both tables have; `note` is the figure's own unless it is given."""
    kept = [(term, value) for term, value in terms if math.isfinite(value)]
    lost = sum(value == LOST for _, value in terms)
    left_out = len(terms) - len(kept) - lost
    values = np.array([value for _, value in kept])
    sentences = []
    if not terms:
        sentences.append(f"Not defined: {figure.undefined}.")
    elif len(kept) > 1:
        sentences.append(f"The mean of {len(kept)} parts; their median is {np.median(values):.3g}.")
    if left_out:
        sentences.append(
            f"{left_out} of {len(terms)} terms left out: the original is constant, near zero, or has too few values."
        )
    if lost:
        sentences.append(
            f"{lost} of {len(terms)} terms {'is' if lost == 1 else 'are'} not defined in the release; "
            f"{'it is' if lost == 1 else 'they are'} not in the figure, which flatters the release."
        )
    sentences.append((figure.note if terms else "") if note is None else note)
    parts = tuple(sorted(kept, key=lambda part: -part[1])[:MOST_PARTS])
    mean, note = float(values.mean()) if kept else math.nan, " ".join(filter(None, sentences))
    return figure.measured(mean, records, note=note, parts=parts)
