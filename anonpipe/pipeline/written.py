"""What a reader of an output file gets: its moments, combinations of unchanged columns, and values beyond limits."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from anonpipe.errors import InputError
from anonpipe.moments import PairwiseMoments, merge_all
from anonpipe.pipeline.context import Work
from anonpipe.pipeline.fitted import Fitted
from anonpipe.pipeline.staged import MEASURE_ROWS
from anonpipe.storage.release import sha256
from anonpipe.types import FloatArray

if TYPE_CHECKING:
    import pandas as pd


def measure_file(work: Work, fitted: Fitted, index: int, path: Path) -> dict[str, Any]:
    """Read the written file again: its rows, moments by stratum, combinations, limits and, at last, its checksum."""
    parquet = pq.ParquetFile(str(path))
    if not parquet.schema_arrow.equals(fitted.schema, check_metadata=True):
        raise InputError(f"{path.name}: the written schema differs from the input's; nothing is released")
    moments: dict[int, list[PairwiseMoments]] = {}
    combinations, rows, beyond = [], 0, 0
    outside = {name: [0, 0] for name in unbounded_names(fitted)}
    for batch in parquet.iter_batches(batch_size=MEASURE_ROWS):
        cells, told, bad = _read_back(fitted, batch)
        stratum, measured = fitted.strata.assign(cells), fitted.view.measure(cells, told)
        for at in np.unique(stratum):
            moments.setdefault(int(at), []).append(PairwiseMoments.of(measured[stratum == at]))
        combinations.append(_combinations(fitted, cells))
        rows += len(cells)
        beyond += bad + _beyond_limits(fitted, cells)
        for name, counted in outside.items():
            found = _beyond_original(fitted, name, cells[:, fitted.cells.names.index(name)])
            counted[:] = [counted[0] + found[0], counted[1] + found[1]]
    _write_combinations(work, fitted, index, combinations)
    return {
        "rows": rows,
        "name": path.name,
        "sha256": sha256(path),
        "bytes": path.stat().st_size,
        "released": {at: merge_all(parts) for at, parts in moments.items()},
        "beyond_limits": beyond,
        "beyond_original": outside,
    }


def _read_back(fitted: Fitted, batch: pa.RecordBatch) -> tuple[FloatArray, dict[int, FloatArray], int]:
    """Cells of written rows, the probabilities among them by position and code, and how many of these are none."""
    if fitted.probabilities is None:
        return fitted.cells.to_cells(batch), {}, 0
    cells, shares = fitted.probabilities.read(fitted.cells, batch)
    return cells, fitted.probabilities.by_code(shares), fitted.probabilities.beyond_limits(shares)


def _combinations(fitted: Fitted, cells: FloatArray) -> pd.DataFrame:
    import pandas as pd

    names = fitted.unchanged_names
    frame = pd.DataFrame({name: cells[:, fitted.cells.names.index(name)] for name in names})
    return count_combinations([frame.assign(rows=1)], names)


def count_combinations(frames: list[pd.DataFrame], names: list[str]) -> pd.DataFrame:
    """Rows of each combination of the named columns (column `rows`)."""
    import pandas as pd

    together = pd.concat(frames, ignore_index=True)
    if not names:
        return pd.DataFrame({"rows": [int(together["rows"].sum())]})
    return together.groupby(names, dropna=False, sort=True)["rows"].sum().reset_index()


def _write_combinations(work: Work, fitted: Fitted, index: int, frames: list[pd.DataFrame]) -> None:
    frame = count_combinations(frames, fitted.unchanged_names)
    out = io.BytesIO()
    frame.to_parquet(out)
    work.staging.write(_combinations_file(index), out.getbuffer())


def read_combinations(work: Work, index: int) -> pd.DataFrame:
    """Rows of each combination of unchanged columns in one output file (column `rows`)."""
    import pandas as pd

    return pd.read_parquet(io.BytesIO(work.staging.read(_combinations_file(index))))


def _combinations_file(index: int) -> str:
    return f"combinations/{index}.parquet"


def _beyond_limits(fitted: Fitted, cells: FloatArray) -> int:
    """Synthetic numbers outside their declared bounds or between their declared steps."""
    count, times = 0, fitted.procedure.decoder.times
    for position, column in enumerate(fitted.cells.columns):
        if column.role.unchanged or column.kind.coded:
            continue
        values = cells[:, position]
        values = values[~np.isnan(values)]
        low, high = column.numeric_bounds
        slack = 1e-6 * np.maximum(1.0, np.abs(values))
        count += int(np.sum(values < low - slack)) if low is not None else 0
        count += int(np.sum(values > high + slack)) if high is not None else 0
        restored = times is not None and times.position == position
        if column.resolution is not None and not restored:
            steps = (values - fitted.cells.grid(position).origin) / column.resolution
            count += int(np.sum(np.abs(steps - np.round(steps)) > 1e-6 * np.maximum(1.0, np.abs(steps))))
    return count


def unbounded_names(fitted: Fitted) -> list[str]:
    """Masked numbers and dates that have no bound on at least one side."""
    return [
        name
        for name, column in zip(fitted.cells.names, fitted.cells.columns, strict=True)
        if column.role.synthesized and not column.kind.coded and None in column.numeric_bounds
    ]


def _beyond_original(fitted: Fitted, name: str, values: FloatArray) -> tuple[int, int]:
    """Values below or above all original ones on a side without bound, by more than half a step; and all values."""
    column, scanned = fitted.job.columns[name], fitted.scan.columns[name]
    low, high = column.numeric_bounds
    values = values[~np.isnan(values)]
    slack = (column.resolution or 0.0) / 2 + 1e-6 * np.maximum(1.0, np.abs(values))
    beyond = np.zeros(len(values), dtype=np.bool_)
    if low is None:
        beyond |= values < scanned.least - slack
    if high is None:
        beyond |= values > scanned.most + slack
    return int(np.count_nonzero(beyond)), len(values)
