"""What an intruder knows of a record, as features whose distances say how near a released record is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anonpipe.columns import Role
from anonpipe.encoding.conditioning import ConditioningEncoder
from anonpipe.encoding.counts import row_numbers
from anonpipe.encoding.features import CategoryBlock, FeatureEncoder, NumberBlock
from anonpipe.encoding.scan import MOST_DUMMIES
from anonpipe.evaluate.risk import link_by
from anonpipe.pipeline.fitted import Fitted
from anonpipe.types import BoolArray, FloatArray, IntArray


def known_features(fitted: Fitted, cells: FloatArray) -> FloatArray:
    """All columns that are released, but those of role sensitive, as numbers of equal weight; shape (n_rows, width).

    A number is a z-score on the original's scale, a category as many -1/+1
    dummies as together have variance 1; the job's own weights for grouping
    have no say. Classes are what an intruder wants to learn.
    """
    beside, scale = _unchanged(fitted)
    return np.concatenate([masked_features(fitted, cells), beside.encode(cells) * scale], axis=1)


def without_strata(fitted: Fitted) -> BoolArray:
    """Which of these numbers say nothing of the columns that make the strata, shape (width,)."""
    names = known_unchanged(fitted)
    widths = [table.shape[1] for table in ConditioningEncoder.fit(fitted.cells, fitted.scan, names).tables]
    of_strata = [name in fitted.job.strata.by for name in names]
    return ~np.repeat([False, *of_strata], [fitted.features.width, *widths])


@dataclass(frozen=True, eq=False)
class KeyColumns:
    """Where the columns of a scenario are.

    Attributes
    ----------
    places, unchanged
        In cells: all of them, and those that are released unchanged.
    masked
        Which numbers of `known_features` are of the others, shape (width,).
    """

    places: list[int]
    unchanged: list[int]
    masked: BoolArray

    def classes(self, cells: FloatArray) -> IntArray:
        """A number of what each record holds in all of the columns."""
        return row_numbers(cells[:, self.places])

    def blocks(self, cells: FloatArray) -> IntArray:
        """The same in the unchanged ones: one number for all where there are none."""
        return row_numbers(cells[:, self.unchanged])


def links_own(fitted: Fitted) -> bool:
    """Whether a released record stands for one person's, and can be told from all others."""
    return link_by(fitted.job.replacing) == "own"


def links_persons(fitted: Fitted) -> bool:
    """Whether a released record, or a group of them, stands for a person."""
    return fitted.procedure.members is not None or links_own(fitted)


def key_columns(fitted: Fitted) -> list[KeyColumns]:
    """Those of each scenario of the job."""
    if not fitted.job.measure.scenarios:
        return []
    widths = ConditioningEncoder.fit(fitted.cells, fitted.scan, known_unchanged(fitted)).tables
    beside = sum(table.shape[1] for table in widths)
    found = []
    for scenario in fitted.job.measure.scenarios:
        places = [fitted.cells.names.index(name) for name in scenario.knows]
        masked = np.zeros(fitted.features.width + beside, dtype=np.bool_)
        for block in _blocks(fitted.features):
            masked[block.start : block.stop] = block.name in scenario.knows
        found.append(KeyColumns(places, [at for at in places if fitted.cells.columns[at].role.unchanged], masked))
    return found


def coded_positions(fitted: Fitted) -> list[int]:
    """Columns whose cells are codes."""
    return [at for at, name in enumerate(fitted.cells.names) if name in fitted.cells.categories]


def first_half(fitted: Fitted) -> BoolArray:
    """Which numbers of `known_features` are of one half of the columns: of every second one; shape (width,)."""
    owners = [""] * fitted.features.width
    for block in _blocks(fitted.features):
        owners[block.start : block.stop] = [block.name] * (block.stop - block.start)
    unchanged = known_unchanged(fitted)
    tables = ConditioningEncoder.fit(fitted.cells, fitted.scan, unchanged).tables
    owners += [name for name, table in zip(unchanged, tables, strict=True) for _ in range(table.shape[1])]
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


def feature_names(features: FeatureEncoder) -> tuple[str, ...]:
    """Of each feature column the table's column, with a number for one of several; never a category."""
    blocks = sorted(_blocks(features), key=lambda block: block.start)
    return tuple(
        block.name if block.stop - block.start == 1 else f"{block.name} [{at + 1}]"
        for block in blocks
        for at in range(block.stop - block.start)
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
