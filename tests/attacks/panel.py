"""The panel attack: groups of k rows that are the months of one firm.

A panel has a row a firm and month. The rows of a firm are nearer to each other
than to those of other firms, so that groups of near rows are made of one firm:
means of the group are means of the firm, and who knows its size finds it.
Counted is what an attacker would hope for: groups that hold one firm, and
groups of fewer than k. And in how many groups a firm is: who knows the months
of one meets it in each, and with it others.

`python -m tests.attacks.panel`
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from anonpipe.job.model import Job
from anonpipe.methods.grouping import cluster, unit_points
from anonpipe.pipeline.arrays import partition_cells
from anonpipe.pipeline.run import Run
from anonpipe.pipeline.tasks.passes import last_channels
from anonpipe.types import IntArray
from tests import small
from tests.attacks.runs import looked_into

FIRMS, MONTHS, K = 259, 16, 5

COLUMNS: dict[str, Any] = {
    "firm": {"role": "identifier"},
    "sales": {"kind": "continuous", "bounds": [0, None]},
    "customers": {"kind": "continuous", "bounds": [0, None]},
    "price": {"kind": "continuous", "bounds": [0, None]},
}


def panel(firms: int = FIRMS, months: int = MONTHS, seed: int = 1) -> pa.Table:
    """Firms of lognormal size, and months with a season; each value is its own."""
    rng = np.random.default_rng(seed)
    firm, month = np.repeat(np.arange(firms), months), np.tile(np.arange(months), firms)
    size, price = rng.lognormal(10.0, 1.5, firms)[firm], rng.normal(12.0, 2.0, firms)[firm]
    season = 1.0 + 0.3 * np.sin(2.0 * np.pi * month / 12.0)

    def noise(spread: float) -> Any:
        return np.exp(rng.normal(0.0, spread, len(firm)))

    columns = {
        "sales": size * season * noise(0.05),
        "customers": size / 9.0 * noise(0.01),
        "price": price * noise(0.02),
    }
    return pa.table({"firm": pa.array([f"{small.CANARY} {each}" for each in firm]), **columns})


class Found(NamedTuple):
    """Groups, how many of them hold one firm, and fewer than k, and in how many a firm is."""

    groups: int
    one: int
    few: int
    smallest_rows: int
    groups_of_a_firm: float

    def __str__(self) -> str:
        return (
            f"{self.groups} groups, {self.one / self.groups:.1%} of one firm, {self.few / self.groups:.1%} of fewer "
            f"than k; the smallest has {self.smallest_rows} rows, and a firm is in {self.groups_of_a_firm:.1f}"
        )


def attack(job: Job, table: pa.Table) -> Found:
    """Run the job to its verdict, and count the firms of each group."""

    def counted(run: Run) -> Found:
        known = dict(zip(table["sales"].to_pylist(), table["firm"].to_pylist(), strict=True))
        sizes, firms = [], []
        for index in range(len(run.context.cut.partitions)):
            labels, whose = run.context.call(_grouped, known, index)
            sizes += np.bincount(labels).tolist()
            firms += [len(set(whose[labels == group])) for group in range(int(labels.max()) + 1)]
        held = np.array(firms)
        of_a_firm = float(held.sum() / len(set(known.values())))
        return Found(len(held), int((held == 1).sum()), int((held < job.k).sum()), min(sizes), of_a_firm)

    return looked_into(job, counted)


def _grouped(work: Any, fitted: Any, cut: Any, known: dict[float, str], index: int) -> tuple[IntArray, Any]:
    """The group of each row of a partition, and whose row it is."""
    channels, _ = last_channels(work, fitted, cut, index)
    sales = partition_cells(work, fitted, cut, index)[:, fitted.cells.names.index("sales")]
    return channels[:, -1].astype(np.int64), np.array([known[value] for value in sales])


def before(folder: Path, table: pa.Table, k: int = K, **changes: Any) -> Found:
    """Where k counts rows."""
    usual = small.as_usual(k=k, rows_per_unit="many", partition={"rows": 1_500}, **changes)
    return attack(small.job(folder, table, COLUMNS, **usual), table)


def after(folder: Path, table: pa.Table, k: int = K, **changes: Any) -> Found:
    """Where k counts firms."""
    columns = COLUMNS | {"firm": {"role": "unit"}}
    usual = small.as_usual(k=k, partition={"rows": 1_500}, **changes)
    return attack(small.job(folder, table, columns, **usual), table)


def of_half(units: int = 2_000, seed: int = 0) -> tuple[float, float]:
    """The share of groups of whole units of which one unit has over half, with and without how many rows units have."""
    rng = np.random.default_rng(seed)
    rows = np.maximum(1, rng.lognormal(1.0, 1.0, units).astype(int))
    own = np.repeat(np.arange(units), rows)
    features = rng.normal(size=(units, 3))[own] + 0.3 * rng.normal(size=(len(own), 3))
    points, _ = unit_points(features, own)
    found = []
    for each in (points, np.ascontiguousarray(points[:, :3])):
        labels = cluster(each, K, "mdav", rng=rng)
        largest = np.zeros(int(labels.max()) + 1)
        np.maximum.at(largest, labels, rows)
        found.append(float((largest > 0.5 * np.bincount(labels, rows)).mean()))
    return found[0], found[1]


def main() -> None:
    """Print a line a way of counting."""
    with tempfile.TemporaryDirectory() as folder:
        table = panel()
        print(f"{FIRMS} firms x {MONTHS} months, k={K}")
        print("before, k counts rows: ", before(Path(folder), table))
        print("after, k counts firms: ", after(Path(folder), table))
        print("firms kept whole:      ", after(Path(folder), table, cluster={"method": "mdav", "units": "whole"}))
    shares = ", ".join(f"{share:.1%}" for share in of_half())
    print(f"2,000 units of unequal rows, whole: one has over half of {shares} (by features alone) of the groups")


if __name__ == "__main__":
    main()
