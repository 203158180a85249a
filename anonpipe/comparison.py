"""Original and release side by side, for the steward: read anew from the two files, by other code than the run's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from rich.table import Table

from anonpipe import release
from anonpipe.job import Job
from anonpipe.schema import Column, Kind
from anonpipe.source import open_source, read_batches

_MOST_SHARES = 12


@dataclass(frozen=True)
class Comparison:
    """Summary figures of both tables.

    Attributes
    ----------
    figures
        A row a numeric column or category; columns `mean`, `mean released`,
        `sd`, `sd released`, `nulls`, `nulls released`.
    correlations
        A row a pair of numeric columns: `original`, `released`, `difference`.
    """

    figures: pd.DataFrame
    correlations: pd.DataFrame


def compare_tables(job: Job, source: str, released: str) -> Comparison:
    """Means, standard deviations, null shares and correlations of a table and its release.

    Categories count as 0/1 indicators. Both tables are read whole into memory.
    """
    before, after = _numbers(job, read_table(job, source)), _numbers(job, read_release(job, released))
    before, after = before.align(after, join="outer", axis=1, copy=False)
    figures = pd.DataFrame(
        {
            "mean": before.mean(),
            "mean released": after.mean(),
            "sd": before.std(),
            "sd released": after.std(),
            "nulls": before.isna().mean(),
            "nulls released": after.isna().mean(),
        }
    ).loc[before.columns]
    return Comparison(figures, _correlations(before, after))


def _correlations(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    first, second = before.corr(), after.corr()
    rows, columns = np.triu_indices(len(first), 1)
    pairs = [f"{first.index[i]} ~ {first.index[j]}" for i, j in zip(rows, columns, strict=True)]
    frame = pd.DataFrame(
        {"original": first.to_numpy()[rows, columns], "released": second.to_numpy()[rows, columns]}, index=pairs
    )
    frame["difference"] = frame["released"] - frame["original"]
    same_column = [pair.split(" = ")[0] == pair.split(" ~ ")[1].split(" = ")[0] for pair in pairs]
    return frame[~np.array(same_column, dtype=bool)]


def read_table(job: Job, source: str) -> pa.Table:
    """The released columns of the input."""
    names = list(job.released)
    opened = open_source(source, job.columns)
    return pa.Table.from_batches(
        [batch.select(names) for unit in opened.units for _, batch in read_batches(opened, unit, names)]
    )


def read_release(job: Job, released: str) -> pa.Table:
    """The current release below an output path."""
    where = release.resolve(released)
    names = [entry["name"] for entry in release.read_manifest(where)["files"]]
    return pa.concat_tables(
        [pa.parquet.read_table(where.path(name), filesystem=where.filesystem) for name in names]
    ).select(list(job.released))


def _numbers(job: Job, table: pa.Table) -> pd.DataFrame:
    parts: dict[str, pd.Series[Any]] = {}
    for name, column in job.released.items():
        parts.update(_indicators(name, column, table.column(name).combine_chunks()))
    return pd.DataFrame(parts)


def _indicators(name: str, column: Column, values: pa.ChunkedArray) -> dict[str, Any]:
    if not column.kind.coded:
        if column.kind is Kind.DATE:
            days = values.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
            return {name: days.to_pandas().astype("float64") / 86_400_000}
        return {name: values.cast(pa.float64()).to_pandas()}
    series = values.to_pandas()
    found = sorted(series.dropna().unique(), key=str)
    if len(found) > _MOST_SHARES:
        return {}
    shown = found[1:] if len(found) == 2 else found
    return {f"{name} = {value}": (series == value).astype("float64").where(series.notna()) for value in shown}


def show_comparison(comparison: Comparison, most_pairs: int = 12) -> Table:
    """A table to print: figures of each column, then the correlations that changed most."""
    table = Table(title="original and release", title_justify="left")
    table.add_column("column or pair", overflow="fold")
    for heading in ("original mean", "released", "original sd", "released", "original nulls", "released"):
        table.add_column(heading, justify="right")
    for name, row in comparison.figures.iterrows():
        table.add_row(str(name), *[f"{value:.4g}" for value in row.iloc[:4]], *[f"{v:.2%}" for v in row.iloc[4:]])
    table.add_section()
    worst = comparison.correlations.reindex(
        comparison.correlations["difference"].abs().sort_values(ascending=False).index
    )
    for pair, row in worst.head(most_pairs).iterrows():
        table.add_row(f"correlation {pair}", f"{row['original']:.3f}", f"{row['released']:.3f}")
    return table


def draw_comparison(job: Job, source: str, released: str, path: Path) -> None:
    """Draw each released column before and after, and the correlations against each other, into a PNG.

    The original is drawn in bins of at least k records only.
    """
    from matplotlib.figure import Figure

    before, after = read_table(job, source), read_release(job, released)
    names = list(job.released)
    columns = 4
    lines = -(-(len(names) + 1) // columns)
    figure = Figure(figsize=(3.4 * columns, 2.6 * lines), layout="constrained")
    axes = figure.subplots(lines, columns).ravel()
    for axis, name in zip(axes, names, strict=False):
        _draw_column(axis, name, job, before.column(name), after.column(name))
    compared = compare_tables(job, source, released).correlations.dropna()
    axis = axes[len(names)]
    axis.plot([-1, 1], [-1, 1], color="0.7", linewidth=1)
    axis.scatter(compared["original"], compared["released"], s=12, color="tab:blue")
    axis.set(title="correlations", xlabel="original", ylabel="released")
    for axis in axes[len(names) + 1 :]:
        axis.set_axis_off()
    figure.savefig(path, dpi=110)


def _draw_column(axis: Any, name: str, job: Job, before: pa.ChunkedArray, after: pa.ChunkedArray) -> None:
    column = job.columns[name]
    axis.set_title(name)
    axis.set_yticks([])
    if column.kind.coded:
        _draw_categories(axis, before.to_pandas(), after.to_pandas(), job.k)
        return
    first, second = (next(iter(_indicators(name, column, v).values())).dropna() for v in (before, after))
    edges = _edges(first.to_numpy(), job.k)
    for values, colour, style in ((first, "0.75", "stepfilled"), (second, "tab:blue", "step")):
        axis.hist(values.clip(edges[0], edges[-1]), bins=edges, density=True, histtype=style, color=colour)


def _edges(values: Any, k: int) -> Any:
    """Bin edges between quantiles, so that every bin holds at least k records and no extreme is shown."""
    low, high = np.quantile(values, [0.01, 0.99])
    edges = np.linspace(low, high, 31)
    while len(edges) > 2:
        counts, _ = np.histogram(np.clip(values, edges[0], edges[-1]), edges)
        if counts.min() >= k:
            break
        at = int(np.argmin(counts))
        edges = np.delete(edges, min(at + 1, len(edges) - 2))
    return edges


def _draw_categories(axis: Any, before: Any, after: Any, k: int) -> None:
    counts = before.value_counts()
    shown = [str(value) for value in counts[counts >= k].index[:_MOST_SHARES]]
    first = before.astype(str).value_counts(normalize=True).reindex(shown, fill_value=0.0)
    second = after.astype(str).value_counts(normalize=True).reindex(shown, fill_value=0.0)
    place = np.arange(len(shown))
    axis.bar(place - 0.2, first, width=0.4, color="0.75")
    axis.bar(place + 0.2, second, width=0.4, color="tab:blue")
    axis.set_xticks(place, shown, rotation=30, ha="right", fontsize=7)
