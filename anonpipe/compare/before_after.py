"""Original and release side by side, for the steward: read anew from the two files, by other code than the run's."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.markup import escape
from rich.table import Table

from anonpipe.columns import Column, Kind
from anonpipe.errors import InputError
from anonpipe.files import write_atomic
from anonpipe.job.model import Job
from anonpipe.source import open_source, read_batches
from anonpipe.storage import release
from anonpipe.storage.versions import Place
from anonpipe.types import FloatArray

_MOST_CATEGORIES = 12
_MOST_BINS = 30
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class Comparison:
    """Summary figures of both tables; categories of fewer than k original records are left out.

    Attributes
    ----------
    numbers
        A row a column of numbers or dates (days since 1970-01-01); columns
        `mean`, `mean released`, `sd`, `sd released`, `nulls`, `nulls released`.
    shares
        A row a category, indexed by column and category, the commonest of
        each column; columns `share`, `share released`, of all rows.
    correlations
        A row a pair of numbers or categories: `original`, `released`,
        `difference`, the largest change first.
    dates
        The columns among `numbers` that hold dates.
    """

    numbers: pd.DataFrame
    shares: pd.DataFrame
    correlations: pd.DataFrame
    dates: tuple[str, ...]


def compare_tables(job: Job, source: str, released: str) -> Comparison:
    """Means, standard deviations, shares and correlations of a table and its release.

    Categories count as 0/1 indicators; columns that are released as
    probabilities of categories are left out. Both tables are read whole into
    memory.

    Parameters
    ----------
    job
        The job that made the release.
    source, released
        Path or URL of the input, and of the output folder (or a version).

    Raises
    ------
    InputError
        One of them cannot be read.
    """
    return _compare(job, read_table(job, source), read_release(job, released))


def compared_columns(job: Job) -> dict[str, Column]:
    """The columns that both tables have: not those in whose place there are probabilities."""
    return {name: column for name, column in job.released.items() if name not in job.as_probabilities}


def _compare(job: Job, before: pa.Table, after: pa.Table) -> Comparison:
    numeric = [name for name, column in compared_columns(job).items() if not column.kind.coded]
    first, second = (pd.DataFrame({n: _numbers(table.column(n)) for n in numeric}) for table in (before, after))
    figures = {}
    for name, values in (("mean", "mean"), ("sd", "std")):
        figures[name], figures[f"{name} released"] = getattr(first, values)(), getattr(second, values)()
    figures["nulls"], figures["nulls released"] = first.isna().mean(), second.isna().mean()
    shown = {name: _common(before.column(name), job.k) for name in compared_columns(job) if name not in numeric}
    return Comparison(
        numbers=pd.DataFrame(figures),
        shares=_shares(shown, before, after),
        correlations=_correlations(_indicators(first, shown, before), _indicators(second, shown, after)),
        dates=tuple(name for name in numeric if job.columns[name].kind is Kind.DATE),
    )


def _numbers(values: pa.ChunkedArray) -> FloatArray:
    """Numbers, or days since 1970-01-01, as float64 with NaN where missing."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_temporal(values.type):
        milliseconds = values.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
        values = pc.divide(milliseconds.cast(pa.float64()), 86_400_000.0)
    return np.asarray(values.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)


def _common(values: pa.ChunkedArray, k: int) -> list[Any]:
    """The commonest categories that at least k records hold, most common first."""
    counts = [(entry["counts"], entry["values"]) for entry in _counted(values).to_pylist()]
    kept = sorted(((n, value) for n, value in counts if n >= k and value is not None), key=lambda c: (-c[0], str(c[1])))
    return [value for _, value in kept[:_MOST_CATEGORIES]]


def _counted(values: pa.ChunkedArray) -> pa.StructArray:
    """Records of each value."""
    plain = values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values
    return pc.value_counts(plain)


def _share(values: pa.ChunkedArray, shown: Iterable[Any]) -> list[float]:
    """The share of each category in all rows."""
    counts = {entry["values"]: entry["counts"] for entry in _counted(values).to_pylist()}
    return [counts.get(value, 0) / max(1, len(values)) for value in shown]


def _shares(shown: dict[str, list[Any]], before: pa.Table, after: pa.Table) -> pd.DataFrame:
    index = [(name, str(value)) for name, values in shown.items() for value in values]
    content = {
        heading: [share for name, values in shown.items() for share in _share(table.column(name), values)]
        for heading, table in (("share", before), ("share released", after))
    }
    return pd.DataFrame(content, index=pd.MultiIndex.from_tuples(index, names=["column", "category"]))


def _indicators(numbers: pd.DataFrame, shown: dict[str, list[Any]], table: pa.Table) -> dict[tuple[str, str], Any]:
    """Every number and every shown category as a column of numbers; of two categories one says it all."""
    found: dict[tuple[str, str], Any] = {(str(name), str(name)): numbers[name] for name in numbers}
    for name, values in shown.items():
        series = table.column(name).to_pandas().astype(object)
        for value in values[1:] if len(values) == 2 else values:
            indicator = (series == value).astype("float64").where(series.notna())
            found[name, f"{name} = {value}"] = indicator
    return found


def _correlations(before: dict[tuple[str, str], Any], after: dict[tuple[str, str], Any]) -> pd.DataFrame:
    owners, names = [owner for owner, _ in before], [name for _, name in before]
    first, second = (pd.DataFrame({name: part for (_, name), part in side.items()}).corr() for side in (before, after))
    rows, columns = np.triu_indices(len(names), 1)
    chosen = [at for at in range(len(rows)) if owners[rows[at]] != owners[columns[at]]]
    frame = pd.DataFrame(
        {
            "original": first.to_numpy()[rows[chosen], columns[chosen]],
            "released": second.to_numpy()[rows[chosen], columns[chosen]],
        },
        index=[f"{names[rows[at]]} ~ {names[columns[at]]}" for at in chosen],
    )
    frame["difference"] = frame["released"] - frame["original"]
    return frame.dropna().sort_values("difference", key=np.abs, ascending=False, kind="stable")


def read_table(job: Job, source: str) -> pa.Table:
    """The released columns of the input."""
    names = list(compared_columns(job))
    opened = open_source(source, job.columns)
    return pa.Table.from_batches(
        [batch.select(names) for unit in opened.units for _, batch in read_batches(opened, unit, names)]
    )


def read_release(job: Job, released: str) -> pa.Table:
    """The current release below an output path."""
    where = release.resolve(released)
    names = [entry["name"] for entry in release.read_manifest(where)["files"]]
    wanted = list(compared_columns(job))
    return pa.concat_tables([_read_part(where, name).select(wanted) for name in names])


def _read_part(where: Place, name: str) -> pa.Table:
    try:
        return pq.read_table(where.path(name), filesystem=where.filesystem)
    except (OSError, pa.ArrowException):  # whose texts may quote data
        pass
    raise InputError(f"the release at {where.root} is damaged: {name} cannot be read; see what anonpipe verify finds")


def show_comparison(comparison: Comparison, most_pairs: int = 12) -> Group:
    """Tables to print: numbers, categories, and the correlations that changed most."""
    parts = []
    if len(comparison.numbers):
        parts.append(_number_table(comparison))
    if len(comparison.shares):
        parts.append(_share_table(comparison.shares))
    if len(comparison.correlations):
        title = f"correlations that changed most ({len(comparison.correlations):,} compared)"
        table = _plain_table(title, "pair", "original", "released", "change")
        for pair, row in comparison.correlations.head(most_pairs).iterrows():
            table.add_row(escape(str(pair)), *(f"{value:+.3f}" for value in row))
        parts.append(table)
    return Group(*parts)


def _plain_table(title: str, first: str, *headings: str) -> Table:
    """A table without frames: names may wrap between words, figures never do."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column(first, overflow="fold", min_width=12)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _number_table(comparison: Comparison) -> Table:
    frame = comparison.numbers
    nulls = bool(frame[["nulls", "nulls released"]].to_numpy().any())
    headings = ["mean", "released", "sd", "released", *(["nulls", "released"] if nulls else [])]
    table = _plain_table("numbers: original and release", "column", *headings)
    for name, row in frame.iterrows():
        days = name in comparison.dates
        cells = [_as_date(row.iloc[at]) if days else f"{row.iloc[at]:.4g}" for at in (0, 1)]
        cells += [f"{row.iloc[at]:.0f} d" if days else f"{row.iloc[at]:.4g}" for at in (2, 3)]
        cells += [f"{row.iloc[at]:.2%}" for at in (4, 5)] if nulls else []
        table.add_row(escape(str(name)), *cells)
    return table


def _as_date(days: float) -> str:
    return str(_EPOCH + timedelta(days=round(days))) if np.isfinite(days) else "-"


def _share_table(shares: pd.DataFrame) -> Table:
    table = _plain_table("categories: share of all rows", "column, category", "original", "released")
    for name, part in shares.groupby(level="column", sort=False):
        table.add_row(f"[bold]{escape(str(name))}[/]")
        for index, row in part.iterrows():
            category = index[1] if isinstance(index, tuple) else index
            table.add_row(f"  {escape(str(category))}", f"{row['share']:.2%}", f"{row['share released']:.2%}")
    return table


_GREY, _BLUE = "0.75", "tab:blue"


def draw_comparison(job: Job, source: str, released: str, path: Path) -> None:
    """Draw each released column before and after, and the correlations against each other, into a PNG.

    The original is drawn in bins and categories of at least k records only,
    and numbers only between its 1st and 99th percentile.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    before, after = read_table(job, source), read_release(job, released)
    names = list(compared_columns(job))
    columns = min(4, len(names) + 1)
    lines = -(-(len(names) + 1) // columns)
    figure = Figure(figsize=(3.4 * columns, 2.6 * lines + 0.5), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False).ravel()
    for axis, name in zip(axes, names, strict=False):
        axis.set_title(name)
        axis.set_yticks([])
        draw = _draw_categories if job.columns[name].kind.coded else _draw_numbers
        draw(axis, job.columns[name], job.k, before.column(name), after.column(name))
    _draw_correlations(axes[len(names)], _compare(job, before, after).correlations)
    for axis in axes[len(names) + 1 :]:
        axis.set_axis_off()
    figure.legend(
        handles=[Patch(color=_GREY, label="original"), Patch(color=_BLUE, label="release")],
        loc="outside upper left",
        ncols=2,
        frameon=False,
    )
    figure.suptitle(
        "numbers: 1st to 99th percentile of the original, what lies beyond is not drawn", fontsize=9, ha="right", x=0.99
    )
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=110, format="png")
    write_atomic(path, drawn.getbuffer())


def _draw_correlations(axis: Any, compared: pd.DataFrame) -> None:
    axis.plot([-1, 1], [-1, 1], color="0.7", linewidth=1)
    axis.scatter(compared["original"], compared["released"], s=12, color=_BLUE)
    axis.set(title="correlations", xlabel="original", ylabel="release")


def _draw_numbers(axis: Any, column: Column, k: int, before: pa.ChunkedArray, after: pa.ChunkedArray) -> None:
    first, second = (values[~np.isnan(values)] for values in (_numbers(before), _numbers(after)))
    if len(first) < k:
        axis.text(0.5, 0.5, f"fewer than {k} values", ha="center", transform=axis.transAxes)
        return
    edges = bin_edges(first, k, column.resolution)
    for values, colour, filled in ((first, _GREY, True), (second, _BLUE, False)):
        counts, _ = np.histogram(values, edges)
        density = counts / (max(1, len(values)) * np.diff(edges))
        axis.stairs(density, edges, fill=filled, color=colour, linewidth=1.5)
    if column.kind is Kind.DATE:
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator(maxticks=5)  # type: ignore[no-untyped-call]
        axis.xaxis.set_major_locator(locator)  # its numbers are days since 1970-01-01, as ours
        axis.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


def bin_edges(values: FloatArray, k: int, step: float | None) -> FloatArray:
    """Edges of bins between the 1st and 99th percentile, every bin with at least k records.

    Parameters
    ----------
    values
        Finite, shape (n,), n >= k.
    step
        What the values are multiples of; bins then hold the same number of multiples each.

    Returns
    -------
    float64, shape (n_bins + 1,)

    Examples
    --------
    >>> bin_edges(np.arange(8.0).repeat(5), 5, 1.0)
    array([-0.5,  0.5,  1.5,  2.5,  3.5,  4.5,  5.5,  6.5,  7.5])
    """
    low, high = np.quantile(values, [0.01, 0.99])
    if step is not None:
        low, high = np.floor(low / step) - 0.5, np.ceil(high / step) + 0.5
        width = max(1.0, np.ceil((high - low) / _MOST_BINS))
        edges = step * (low + width * np.arange(np.ceil((high - low) / width) + 1))
    elif low < high:
        edges = np.linspace(low, high, _MOST_BINS + 1)
    else:
        edges = np.array([low - 0.5, low + 0.5])
    return _merged(edges, np.histogram(values, edges)[0], k)


def _merged(edges: FloatArray, counts: npt.NDArray[np.int64], k: int) -> FloatArray:
    """Join neighbouring bins until each holds at least k."""
    kept, held = [edges[0]], 0
    for edge, count in zip(edges[1:], counts, strict=True):
        held += int(count)
        if held >= k:
            kept.append(edge)
            held = 0
    if held and len(kept) > 1:
        kept[-1] = edges[-1]
    return np.array(kept) if len(kept) > 1 else edges[[0, -1]]


def _draw_categories(axis: Any, _: Column, k: int, before: pa.ChunkedArray, after: pa.ChunkedArray) -> None:
    shown = _common(before, k)
    place = np.arange(len(shown))
    axis.bar(place - 0.2, _share(before, shown), width=0.4, color=_GREY)
    axis.bar(place + 0.2, _share(after, shown), width=0.4, color=_BLUE)
    axis.set_xticks(place, [str(value) for value in shown], rotation=30, ha="right", fontsize=7)
