"""Basic statistics of each column: means, sums, medians, deviations, and their published averages."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from anonpipe.audience import Audience
from anonpipe.evaluate.utility._average_bias import abim, abisd
from anonpipe.evaluate.utility._changes import LEAST
from anonpipe.evaluate.utility._check import spreads
from anonpipe.evaluate.utility._measure import Measure
from anonpipe.evaluate.utility._measurement import Measurement
from anonpipe.evaluate.utility._terms_measured import LOST, NO_NUMBERS, Term, mean_of_terms
from anonpipe.evaluate.utility._typed import BothColumns, Tables
from anonpipe.types import FloatArray

_GAL = "Gal, Tucker, Gangopadhyay & Chen (2014), basic statistics"


def basic_statistics(tables: Tables) -> list[Measurement]:
    """Means, sums and medians of every number; ABIM and ABISD of Li & Sarkar.

    Nulls are left out of means, medians and deviations. A sum counts them as
    nothing, and is taken per record of its table, so that tables of different
    lengths compare: it notices values lost to nulls, and the mean does not.

    References
    ----------
    Gal et al. (2014): "basic statistics (average, sum, median) should not
    differ significantly"; Li & Sarkar (2013), eq. 14 and 15.
    """

    def made(
        name: str, title: str, unit: str, source: str, change: Callable[[BothColumns], float], note: str = ""
    ) -> Measurement:
        return mean_of_terms(
            name,
            title,
            [_term(column, change) for column in tables.numbers],
            unit=unit,
            source=source,
            records=tables.rows,
            audience=Audience.STEWARD,
            nothing=NO_NUMBERS,
            note=note,
        )

    zero = "Relative to the original value, so that it depends on where zero lies."
    bias = "Li & Sarkar (2013), doi:10.1287/mnsc.1120.1584"
    return [
        made(
            "basic.means",
            "Change of the means, in standard deviations",
            "sd",
            _GAL,
            lambda column: _shift(column, np.mean),
        ),
        made(
            "basic.sums",
            "Relative change of the sums",
            "%",
            _GAL,
            _sum_change,
            zero + " Sums are per record of the table.",
        ),
        made(
            "basic.medians",
            "Change of the medians, in standard deviations",
            "sd",
            _GAL,
            lambda column: _shift(column, np.median),
        ),
        made("bias.means", "Relative change of the means (ABIM)", "%", f"{bias}, eq. 14", _mean_bias, zero),
        made(
            "bias.deviations",
            "Relative change of the standard deviations (ABISD)",
            "%",
            f"{bias}, eq. 15",
            _spread_bias,
        ),
    ]


def _term(column: BothColumns, change: Callable[[BothColumns], float]) -> Term:
    """The change, if both sides have the two values that a deviation needs."""
    old, new = column.known
    if len(old) < 2:
        return column.name, float("nan")
    return column.name, LOST if len(new) < 2 else change(column)


def _shift(column: BothColumns, statistic: Callable[[FloatArray], np.floating]) -> float:
    """In standard deviations of the original; NaN where it is constant."""
    old, new = column.known
    spread = float(spreads(old[:, None])[0])
    return abs(float(statistic(new)) - float(statistic(old))) / spread if spread > 0 else float("nan")


def _sum_change(column: BothColumns) -> float:
    """In per cent; NaN where the original's mean is less than `LEAST` standard deviations."""
    old, new = column.known
    mean, spread = float(old.mean()), float(spreads(old[:, None])[0])
    if mean == 0 or abs(mean) < LEAST * spread:
        return float("nan")
    before, after = old.sum() / len(column.old), new.sum() / len(column.new)
    return 100.0 * float(abs(after - before) / abs(before))


def _mean_bias(column: BothColumns) -> float:
    old, new = column.known
    return abim(old[:, None], new[:, None]).mean


def _spread_bias(column: BothColumns) -> float:
    old, new = column.known
    return abisd(old[:, None], new[:, None]).mean


MEASURE = Measure(
    figures=("basic.means", "basic.sums", "basic.medians", "bias.means", "bias.deviations"),
    function=basic_statistics,
)
