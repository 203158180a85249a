"""Overlaps of releases that the release logs find: by what was done to the second table, the smallest share found.

python -m tests.benchmarks.overlap [--draws 10]

Each line: two tables of 3,000 rows share this part of their records, in ten draws all found. The last column counts
false alarms: two tables of other persons.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from anonpipe.columns import Column
from anonpipe.encoding.scan import scan_batch
from anonpipe.encoding.tracers import Tracer, comparable_sketches
from anonpipe.rng import keyed
from anonpipe.storage.release_log import Trace, _overlaps

SECRET = b"s" * 32
ROWS = 3_000
SHARES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02)
Change = Callable[[pa.Table, np.random.Generator], pa.Table]


def patients(rows: int, rng: np.random.Generator) -> pa.Table:
    """A register of persons; all columns but the number and the cost have few values."""
    return pa.table(
        {
            "person": rng.integers(10**9, 10**10, rows),
            "cost": np.round(rng.lognormal(8.0, 1.0, rows), 2),
            "age": rng.integers(20, 90, rows),
            "sex": rng.choice(["f", "m"], rows),
            "stage": rng.choice(list("IVXL"), rows, p=[0.5, 0.3, 0.15, 0.05]),
            "site": rng.choice([f"c{at}" for at in range(18, 60)], rows),
            "year": rng.integers(2000, 2022, rows),
            "months": rng.integers(0, 120, rows),
            "smoker": rng.random(rows) < 0.3,
        }
    )


def renamed(table: pa.Table, _: np.random.Generator) -> pa.Table:
    """All columns under other names, in another order."""
    return table.rename_columns([f"v{at}" for at in range(table.num_columns)]).select(
        [f"v{at}" for at in reversed(range(table.num_columns))]
    )


def added(table: pa.Table, rng: np.random.Generator) -> pa.Table:
    """Two more columns."""
    more = {"weight": rng.normal(75, 12, table.num_rows), "children": rng.integers(0, 5, table.num_rows)}
    for name, values in more.items():
        table = table.append_column(name, pa.array(values))
    return table


def fewer(table: pa.Table, _: np.random.Generator) -> pa.Table:
    """Two columns less."""
    return table.drop_columns(["year", "site"])


def updated(table: pa.Table, rng: np.random.Generator) -> pa.Table:
    """Two columns with new values for everybody."""
    for name, values in (("months", rng.integers(0, 200, table.num_rows)), ("age", rng.integers(20, 90, len(table)))):
        table = table.set_column(table.schema.get_field_index(name), name, pa.array(values))
    return table


def as_text(table: pa.Table, _: np.random.Generator) -> pa.Table:
    """All numbers as text, all texts in capitals."""
    columns = [column.cast(pa.string()) for column in table.columns]
    return pa.table([pa.compute.utf8_upper(column) for column in columns], table.column_names)


def recoded(table: pa.Table, _: np.random.Generator) -> pa.Table:
    """Codes for three categories."""
    for name in ("sex", "stage", "site"):
        codes = table[name].combine_chunks().dictionary_encode().indices
        table = table.set_column(table.schema.get_field_index(name), name, codes)
    return table


def without(name: str) -> Change:
    """A table without a column."""
    return lambda table, _: table.drop_columns([name])


CHANGES: dict[str, tuple[Change, ...]] = {
    "nothing": (),
    "columns renamed": (renamed,),
    "renamed, two added": (added, renamed),
    "renamed, two less": (fewer, renamed),
    "renamed, two updated": (updated, renamed),
    "renamed, other types": (as_text, renamed),
    "renamed, three recoded": (recoded, renamed),
}
BASES: dict[str, tuple[Change, ...]] = {
    "with a person's number": (),
    "without": (without("person"),),
    "without, nor cost": (without("person"), without("cost")),
}


def trace(table: pa.Table) -> Trace:
    """As a run makes it."""
    people = next((at for at, column in enumerate(table.columns) if _names_persons(column)), None)
    columns = {
        field.name: Column(role="identifier") if at == people else Column(kind=_kind(field.type))
        for at, field in enumerate(table.schema)
    }
    tracer = Tracer.of(table.schema, columns, keyed(SECRET, "records"))
    tracer.add(table.combine_chunks().to_batches()[0])
    names = tuple(name for name in table.column_names if columns[name].role.released)
    return Trace("no digest", "job", table.num_rows, names, comparable_sketches(tracer.sketches))


def _kind(type_: pa.DataType) -> str:
    if pa.types.is_floating(type_):
        return "continuous"
    return "integer" if pa.types.is_integer(type_) else "categorical"


def _names_persons(column: pa.ChunkedArray) -> bool:
    first = str(column[0].as_py())
    return first.isdigit() and len(first) == 10


def is_found(base: str, change: str, share: float, seed: int) -> bool:
    """Whether the logs find that two tables have this share of their records in common."""
    rng = np.random.default_rng(seed)
    common = round(share * ROWS)
    both = patients(2 * ROWS - common, rng)
    first, second = both.slice(0, ROWS), both.slice(ROWS - common)
    for step in BASES[base]:
        first, second = step(first, rng), step(second, rng)
    for step in CHANGES[change]:
        second = step(second, rng)
    return bool(_overlaps(trace(second), SECRET, [trace(first).line(SECRET, "v1")]))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=10)
    draws = parser.parse_args().draws
    print(f"{'':24} {'second table':24} smallest share found in {draws} of {draws} draws; false alarms")
    for base in BASES:
        for change in CHANGES:
            smallest = "none"
            for share in SHARES:
                if not all(is_found(base, change, share, seed) for seed in range(draws)):
                    break
                smallest = f"{share:.0%}"
            alarms = sum(is_found(base, change, 0.0, 1_000 + seed) for seed in range(draws))
            print(f"{base:24} {change:24} {smallest:>6} {alarms:>6}", flush=True)
    table = patients(200_000, np.random.default_rng(0))
    columns = {field.name: Column(kind=_kind(field.type)) for field in table.schema}
    tracer = Tracer.of(table.schema, columns, keyed(SECRET, "records"))
    batch = table.combine_chunks().to_batches()[0]
    tracer.add(batch)
    begin = time.perf_counter()
    tracer.add(batch)
    sketched = time.perf_counter() - begin
    begin = time.perf_counter()
    scan_batch(batch, columns, 0, [])
    print(f"sketches: {sketched / (time.perf_counter() - begin):.2f} of the time of the rest of the scan")


if __name__ == "__main__":
    main()
