"""The ends of intervals as columns of the release, next to the middle that a generalised column holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anonpipe.encoding.cells import ColumnEncoder
from anonpipe.encoding.features import FeatureEncoder, NumberBlock
from anonpipe.encoding.values import from_numbers, is_date, plain_type
from anonpipe.errors import JobError
from anonpipe.types import FloatArray

SUFFIXES = "_from", "_to"  # Of the names of the columns that hold the lower and the upper ends


@dataclass(frozen=True, eq=False)
class IntervalDecoder:
    """Two columns for each masked number and date: where its interval begins and ends, both ends included."""

    blocks: tuple[NumberBlock, ...]  # The numbers and dates, each with its place among the features
    # Of the columns of the release, lower and upper end of each in turn: of the type of the column for dates, else
    # 64-bit integers where all ends are whole, or floating-point numbers
    fields: tuple[pa.Field, ...]
    # steps, origins: of each, what ends are multiples of, counted from where; 0 where ends are values of the column
    steps: tuple[float, ...]
    origins: tuple[float, ...]

    @classmethod
    def fit(
        cls, cells: ColumnEncoder, features: FeatureEncoder, steps: Mapping[str, float], origins: Mapping[str, float]
    ) -> IntervalDecoder:
        """The decoder for the columns of a table."""
        blocks = tuple(block for block in features.numbers if not block.ordinal)
        step = tuple(float(steps.get(block.name, 0.0)) for block in blocks)
        origin = tuple(float(origins.get(block.name, 0.0)) for block in blocks)
        fields = []
        for block, *widened in zip(blocks, step, origin, strict=True):
            kind = plain_type(cells.schema.field(block.position).type)
            if not is_date(kind) and not pa.types.is_string(kind):
                whole = pa.types.is_integer(kind) and all(float(number).is_integer() for number in widened)
                kind = pa.int64() if whole else pa.float64()
            fields += [pa.field(block.name + suffix, kind) for suffix in SUFFIXES]
        if taken := [field.name for field in fields if field.name in cells.names]:
            raise JobError(
                f"mask.release interval adds columns {', '.join(map(repr, taken))}, and the input has such columns; "
                "rename these"
            )
        return cls(blocks, tuple(fields), step, origin)

    @property
    def owners(self) -> dict[str, str]:
        """The column that each added column belongs to."""
        names = [block.name for block in self.blocks for _ in SUFFIXES]
        return {field.name: name for field, name in zip(self.fields, names, strict=True)}

    def ends(self, low: FloatArray, high: FloatArray, released: FloatArray) -> FloatArray:
        """The ends in units, NaN where the middle is missing; low, high (n_rows, width), released (n_rows, n_cells)."""
        columns = []
        for block, step, origin in zip(self.blocks, self.steps, self.origins, strict=True):
            missing = np.isnan(released[:, block.position])
            for features in (low, high):
                values = block.in_unit(block.mean + block.sd * features[:, block.start])
                values = origin + np.rint((values - origin) / step) * step if step else block.grid.round(values)
                columns.append(np.where(missing, np.nan, values))
        return np.stack(columns, axis=1) if columns else np.empty((len(low), 0))

    def arrays(self, ends: FloatArray) -> list[pa.Array]:
        """The columns of the release."""
        step = [width or block.grid.step for block, width in zip(self.blocks, self.steps, strict=True)]
        return [from_numbers(ends[:, at], field, step[at // 2]) for at, field in enumerate(self.fields)]
