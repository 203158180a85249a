"""What an intruder knows of a record, as features whose distances say how near a released record is."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from anonpipe.columns import Kind, Role
from anonpipe.encoding.cells import ColumnEncoder
from anonpipe.encoding.features import CategoryBlock, ConditioningEncoder, FeatureEncoder, NumberBlock
from anonpipe.encoding.row_hash import row_numbers
from anonpipe.encoding.scan import MOST_DUMMIES
from anonpipe.encoding.values import is_date, is_number, numbers
from anonpipe.evaluate.risk import Predicates, Tolerances, around, link_by, reaches
from anonpipe.pipeline.context import Fitted
from anonpipe.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    import pandas as pd


def known_features(fitted: Fitted, cells: FloatArray) -> FloatArray:
    """All columns that are released, but those of role sensitive, as numbers of equal weight; shape (n_rows, width)."""
    # A number is a z-score on the original's scale, a category as many -1/+1 dummies as together have variance 1; the
    # job's own weights for grouping have no say. Classes are what an intruder wants to learn.
    unchanged, scale = _unchanged(fitted)
    return np.concatenate([masked_features(fitted, cells), unchanged.encode(cells) * scale], axis=1)


def without_strata(fitted: Fitted) -> BoolArray:
    """Which of these numbers say nothing of the columns that make the strata, shape (width,)."""
    return np.array([owner not in fitted.job.strata.by for owner in _owners(fitted)], dtype=np.bool_)


@dataclass(frozen=True, eq=False)
class KeyColumns:
    """Where the columns of a scenario are."""

    # places, unchanged: in cells: all of them, and those that are known exactly and released unchanged
    places: list[int]
    unchanged: list[int]
    masked: BoolArray  # Which numbers of `known_features` are of the others, shape (width,)
    tolerances: Tolerances  # How far what is known of each may be off
    # Of those that are known within limits and lie in cells as codes, the value of each code
    numbers: Mapping[int, FloatArray]

    @property
    def tolerant(self) -> bool:
        """Whether anything is known within limits."""
        return any(far or part for far, part in self.tolerances)

    def valued(self, cells: FloatArray) -> FloatArray:
        """Cells with numbers in place of their codes."""
        return with_numbers(cells, self.numbers)

    def around(self, cells: FloatArray) -> Predicates:
        """Who could be meant by what is known of each record, of cells as of `valued`."""
        return around(self.valued(cells)[:, self.places], self.places, self.tolerances)

    def as_known(self, fitted: Fitted, cells: FloatArray, features: FloatArray, rng: np.random.Generator) -> FloatArray:
        """The numbers of `known_features`, with an error of what is known within limits, each equally likely."""
        if not self.tolerant:
            return features[:, self.masked]
        known = self.valued(cells)
        reach = reaches(known[:, self.places], self.tolerances)
        known[:, self.places] += reach * rng.uniform(-1.0, 1.0, reach.shape)
        changed = known.copy()
        changed[:, list(self.numbers)] = cells[:, list(self.numbers)]
        found, owners = known_features(fitted, changed), _owners(fitted)
        unchanged, scale = _unchanged(fitted)
        begins = np.cumsum([0, *(table.shape[1] for table in unchanged.tables)])
        for at, values in self.numbers.items():
            if at not in unchanged.positions:  # of too many values to count in distances
                continue
            which, present = unchanged.positions.index(at), ~np.isnan(known[:, at])
            scores = unchanged.tables[which][: len(values), 0] * scale[begins[which]]
            order = np.argsort(values[~np.isnan(values)])
            place = owners.index(fitted.cells.names[at])
            found[present, place] = np.interp(known[present, at], values[order], scores[order])
        return found[:, self.masked]

    def classes(self, cells: FloatArray) -> IntArray:
        """A number of what each record holds in all of the columns."""
        return row_numbers(cells[:, self.places])

    def blocks(self, cells: FloatArray) -> IntArray:
        """The same in the unchanged ones: one number for all where there are none."""
        return row_numbers(cells[:, self.unchanged])


def links_own(fitted: Fitted) -> bool:
    """Whether a released record stands for one person's, and differs from all others."""
    return link_by(fitted.job.replacing) == "own"


def links_persons(fitted: Fitted) -> bool:
    """Whether a released record, or a group of them, stands for a person."""
    return fitted.procedure.members is not None or links_own(fitted)


def key_columns(fitted: Fitted) -> list[KeyColumns]:
    """Those of each scenario of the job."""
    if not fitted.job.measure.scenarios:
        return []
    owners, spikes, found = _owners(fitted), fitted.job.spikes, []
    for scenario in fitted.job.measure.scenarios:
        names = [spikes.get(name, name) for name in scenario.knows]
        places = [fitted.cells.names.index(name) for name in names]
        exact = [at for at, name in zip(places, scenario.knows, strict=True) if name not in scenario.tolerance]
        unchanged = [at for at in exact if fitted.cells.columns[at].role.unchanged]
        others = [name for name, at in zip(names, places, strict=True) if at not in unchanged]
        masked = np.array([owner in others for owner in owners], dtype=np.bool_)
        found.append(
            KeyColumns(places, unchanged, masked, scenario.tolerances, coded_numbers(fitted.cells, scenario.tolerance))
        )
    return found


def coded_positions(fitted: Fitted) -> list[int]:
    """Columns whose cells are codes."""
    return [at for at, name in enumerate(fitted.cells.names) if name in fitted.cells.categories]


def coded_numbers(encoder: ColumnEncoder, names: Collection[str]) -> dict[int, FloatArray]:
    """Of those of some columns of numbers and dates that are carried as codes the place, and the value of each code."""
    coded = [name for name in encoder.names if name in names and name in encoder.categories]
    return {encoder.names.index(name): np.append(numbers(encoder.categories[name]), np.nan) for name in coded}


def with_numbers(cells: FloatArray, values: Mapping[int, FloatArray]) -> FloatArray:
    """Cells with numbers in place of the codes of some columns."""
    decoded = cells.copy()
    for at, each in values.items():
        codes = np.nan_to_num(cells[:, at], nan=len(each) - 1).astype(np.int64)
        decoded[:, at] = each[codes]
    return decoded


def _owners(fitted: Fitted) -> list[str]:
    """The column of each number of `known_features`."""
    owners = [""] * fitted.features.width
    for block in _blocks(fitted.features):
        owners[block.start : block.stop] = [block.name] * block.width
    unchanged = known_unchanged(fitted)
    tables = ConditioningEncoder.fit(fitted.cells, fitted.scan, unchanged).tables
    return owners + [name for name, table in zip(unchanged, tables, strict=True) for _ in range(table.shape[1])]


def first_half(fitted: Fitted) -> BoolArray:
    """Which numbers of `known_features` are of one half of the columns: of every second one; shape (width,)."""
    owners = _owners(fitted)
    half = [name for name in fitted.cells.names if name in owners][::2]
    return np.array([owner in half for owner in owners], dtype=np.bool_)


def stratum_numbers(fitted: Fitted, cells: FloatArray) -> dict[str, IntArray]:
    """Of each column that makes the strata a number of each record's value: equal where values are."""
    places = {name: fitted.cells.names.index(name) for name in fitted.job.strata.by}
    return {name: row_numbers(cells[:, [place]]) for name, place in places.items()}


def masked_features(fitted: Fitted, cells: FloatArray) -> FloatArray:
    """The masked columns alone, in the same way."""
    scale = np.empty(fitted.features.width)
    for block in _blocks(fitted.features):
        scale[block.start : block.stop] = np.sqrt(block.distance_weights("z_score"))
    return fitted.encode(cells) * scale


def feature_names(features: FeatureEncoder, titles: Sequence[str]) -> tuple[str, ...]:
    """Of each feature column the title of the table's column, with a number for one of several; never a category."""
    blocks = sorted(_blocks(features), key=lambda block: block.start)
    return tuple(
        titles[block.position] + (f" [{at + 1}]" if block.width > 1 else "")
        for block in blocks
        for at in range(block.width)
    )


def _blocks(features: FeatureEncoder) -> list[NumberBlock | CategoryBlock]:
    return [*features.numbers, *features.categories]


def _unchanged(fitted: Fitted) -> tuple[ConditioningEncoder, FloatArray]:
    """Columns that are released as they are, and a factor for each of their numbers."""
    names = known_unchanged(fitted)
    encoder = ConditioningEncoder.fit(fitted.cells, fitted.scan, names)
    factors = []
    for name, table in zip(names, encoder.tables, strict=True):
        counts = fitted.scan.code_counts(name)
        shares = np.zeros(len(table))
        shares[: len(counts)] = counts / max(1, counts.sum())
        variance = float((shares @ table**2 - (shares @ table) ** 2).sum())
        factors.append(np.full(table.shape[1], 1.0 / np.sqrt(variance) if variance > 0 else 0.0))
    return encoder, np.concatenate(factors) if factors else np.empty(0)


def known_unchanged(fitted: Fitted) -> tuple[str, ...]:
    """Unchanged columns that count in distances; those of very many categories do not."""
    names, width = [], 0
    for name, column in zip(fitted.cells.names, fitted.cells.columns, strict=True):
        if not column.role.unchanged or column.role is Role.SENSITIVE:
            continue
        width += len(fitted.scan.code_counts(name)) if column.kind.coded else 2
        if width > MOST_DUMMIES:
            break
        names.append(name)
    return tuple(names)


# --- Cells as typed tables: numbers, dates and categories as a reader of the release has them -------------------------


def typed(encoder: ColumnEncoder, cells: FloatArray, names: tuple[str, ...]) -> pd.DataFrame:
    """Cells as a frame: numbers float64, days datetime64, texts categorical by level, truths bool (object if null)."""
    import pandas as pd

    return pd.DataFrame({name: _column(encoder, name, cells[:, at]) for at, name in enumerate(names)})


def _column(encoder: ColumnEncoder, name: str, values: FloatArray) -> Any:
    position = encoder.names.index(name)
    column = encoder.columns[position]
    if name not in encoder.categories:
        return _days(values) if column.kind is Kind.DATE else values
    categories = encoder.categories[name]
    missing = np.isnan(values) | (values >= len(categories))
    codes = np.where(missing, -1, np.where(missing, 0.0, values)).astype(np.int64)
    plain = categories.type
    if is_number(plain) or is_date(plain):
        looked_up = np.where(missing, np.nan, np.append(numbers(categories), np.nan)[codes])
        return _days(looked_up) if is_date(plain) else looked_up
    if pa.types.is_boolean(plain):
        truths = categories.take(pa.array(np.where(missing, 0, codes), mask=missing))
        return truths.to_pandas()
    import pandas as pd

    return pd.Categorical.from_codes(codes, categories.to_pylist(), ordered=column.kind is Kind.ORDINAL)


def _days(values: FloatArray) -> Any:
    """Days since 1970-01-01 as dates."""
    missing = np.isnan(values)
    days = np.where(missing, 0, np.rint(np.where(missing, 0.0, values))).astype("datetime64[D]").astype("datetime64[s]")
    days[missing] = np.datetime64("NaT")
    return days
