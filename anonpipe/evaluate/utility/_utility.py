"""All measures of utility of one release, by default."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import stdtrit

from anonpipe.columns import Kind
from anonpipe.evaluate.measurement import Measurement
from anonpipe.evaluate.utility._distances import COLUMN_DISTANCES, MISSING, SUBGROUPS
from anonpipe.evaluate.utility._measure import UtilityMeasure
from anonpipe.evaluate.utility._moments import BASIC_STATISTICS, MOMENT_CHANGES, PAIR_TRENDS, RECORD_DISTANCE
from anonpipe.evaluate.utility._relative import RELATIVE, Population
from anonpipe.evaluate.utility._shapes import COLUMN_SHAPES, PAIR_SHAPES
from anonpipe.evaluate.utility._survival import SURVIVAL, UNWEIGHTED_SURVIVAL, compared_endpoints
from anonpipe.evaluate.utility._tables import Endpoint, TypedTables, typed_tables
from anonpipe.evaluate.utility._two_sample import CLASSIFIERS
from anonpipe.evaluate.utility._weighted import WEIGHTED

if TYPE_CHECKING:
    import pandas as pd

_BLOCKS = 10  # Parts of a sample whose figures give its interval
_LEAST_BLOCK = 50  # Records of a part below which there is no interval

# All measures of utility, in the order of a report; a new one is a line here
MEASURES: tuple[UtilityMeasure, ...] = (
    BASIC_STATISTICS,
    MOMENT_CHANGES,
    COLUMN_DISTANCES,
    PAIR_TRENDS,
    RECORD_DISTANCE,
    SUBGROUPS,
    MISSING,
    CLASSIFIERS,
    COLUMN_SHAPES,
    PAIR_SHAPES,
    SURVIVAL,
    WEIGHTED,
    RELATIVE,
    UNWEIGHTED_SURVIVAL,
)

_WITHOUT_INTERVAL = frozenset(figure.key for measure in MEASURES for figure in measure.without_interval)


def utility(
    original: pd.DataFrame,
    released: pd.DataFrame,
    columns: Mapping[str, Kind],
    *,
    rng: np.random.Generator,
    least: int,
    of: int,
    paired: bool = False,
    endpoints: Sequence[Endpoint] = (),
    weight: str | None = None,
    population: Population | None = None,
    design: tuple[str, str] = ("", ""),
    differences: tuple[str, ...] = (),
    draws: bool | None = None,
) -> tuple[Measurement, ...]:
    """What a release keeps of its original, by every measure that needs no question of the recipient's.

    Always the same measurements in the same order, those of weighted estimates with a column of survey weights
    (`weight`) alone, and relative survival with a `population` and an endpoint; NaN with the reason in `note` where a
    table has no columns for one. `design`: columns of strata and primary sampling units, for errors of weighted
    estimates. `differences`: columns of rules between others, which are in no release. Survival curves take the weights
    of their endpoints, and other measures leave the weight out, as one factor moves all its values. `columns` are names
    and kinds of those to compare, `least` is k (smaller subgroups and tails are passed over), `of` the records of the
    whole table, of which `original` may be a sample, and `paired` whether row i of `released` replaces row i of
    `original`. Endpoints whose columns are not among `columns` are left out. `draws` asks for the measures that sample
    or train alone (True), or the others alone (False): with equal generators all figures are these of False, then those
    of True.

    *Baseline* is the same figure between two random halves of the original: what chance does to tables of half the
    size. Classifiers have their own, and so have ratios to chance (`_shapes`).

    *Interval*, where `of` is more than the rows given: Student's, from the figures of ten disjoint random parts, and
    reduced by the share of the table that was measured (Politis, Romano & Wolf 1999, Subsampling, chapter 2). Sizes of
    differences are larger in smaller samples; by how much is seen in the parts too, and the lower end allows for it.
    Higher moments and changes in standard errors have none. Where all records are measured, the figures are exact.
    """
    tables = typed_tables(original, released, columns, paired=paired, least=least)
    known = weight if weight in columns else ""
    ends = compared_endpoints(tables, endpoints)
    known_population = population if ends else None
    tables = replace(tables, endpoints=ends, weight=known or "", population=known_population, differences=differences)
    if set(design) <= set(columns):
        tables = replace(tables, design_strata=design[0], cluster=design[1])
    # Made in any case: what a measure draws is the same whether or not the others are asked for
    halves = tables.halves(rng) if tables.rows >= 4 else None
    is_sample = of > tables.rows and min(tables.rows, tables.released) >= _BLOCKS * _LEAST_BLOCK
    parts = tables.blocks(_BLOCKS, rng) if is_sample else []
    counted = [] if draws else _counted(tables, halves, parts, tables.rows / of)
    drawn = [] if draws is False else _measured(tables, rng)
    return tuple(replace(measurement, of=of) for measurement in [*counted, *drawn])


def _counted(
    tables: TypedTables, halves: TypedTables | None, parts: Sequence[TypedTables], share: float
) -> list[Measurement]:
    """The measures that draw nothing, with those of two halves as baseline and intervals from parts of the sample."""
    measurements = _measured(tables)
    if halves is not None:
        measurements = [
            replace(one, baseline=half.value, baseline_is="two random halves of the original")
            if math.isfinite(one.value) and math.isfinite(half.value)
            else one
            for one, half in zip(measurements, _measured(halves), strict=True)
        ]
    return _with_interval(measurements, list(map(_measured, parts)), share) if parts else measurements


def _measured(tables: TypedTables, rng: np.random.Generator | None = None) -> list[Measurement]:
    """The measures that draw nothing; with a generator those that sample and train."""
    others = tables.without_weight()
    chosen = [measure for measure in MEASURES if measure.draws == (rng is not None) and measure.where(tables)]
    return [one for each in chosen for one in each.of(tables if each.weighted else others, rng)]


def _with_interval(measurements: list[Measurement], parts: list[list[Measurement]], share: float) -> list[Measurement]:
    """Ends from the figures of disjoint parts of the sample, which is that share of the table."""
    reach = float(stdtrit(len(parts) - 1, 0.975)) * math.sqrt((1 - share) / len(parts))
    with_interval = []
    for measurement, *others in zip(measurements, *parts, strict=True):
        value, values = measurement.value, np.array([other.value for other in others])
        if measurement.name not in _WITHOUT_INTERVAL and math.isfinite(value) and np.isfinite(values).all():
            spread = reach * float(values.std(ddof=1))
            # What falls with the root of the number of records is chance: from it in the parts, that in the sample.
            chance = max(0.0, float(values.mean()) - value) / (math.sqrt(len(parts)) - 1) * (1 - share)
            measurement = replace(measurement, low=max(0.0, value - chance - spread), high=value + spread)
        with_interval.append(measurement)
    return with_interval
