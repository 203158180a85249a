"""Time and memory of `init` and of the job that it proposes as the table gets wider.

    python -m tests.benchmarks.columns --columns 12 50 200 300 --rows 50000
    python -m tests.benchmarks.columns --columns 50 --levels 1000 --rows 50000

Half of the columns are numbers with six factors in common, the others categories
of these. With `--levels` all are categories of so many levels. Prints seconds (wall
and processor), peak PSS, how the run ended, and the power of the number of
columns by which processor seconds have grown since the line before.
"""

from __future__ import annotations

import argparse
import math
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.benchmarks.scale import OPEN, watched


def wide_table(columns: int, rows: int, levels: int) -> pa.Table:
    """Numbers and categories of six factors, or categories of many levels alone."""
    rng = np.random.default_rng(5)
    factors = rng.normal(size=(rows, 6))
    made: dict[str, object] = {}
    for at in range(columns):
        values = factors[:, at % 6] + rng.normal(size=rows)
        if levels:
            ranks = np.argsort(np.argsort(values))
            made[f"c{at:03}"] = pa.array(ranks * levels // rows, pa.int32()).cast(pa.string()).dictionary_encode()
        elif at % 2:
            codes = np.digitize(values, np.linspace(-2, 2, 2 + at // 2 % 6))
            made[f"c{at:03}"] = pa.array(codes.astype(str)).dictionary_encode()
        else:
            made[f"n{at:03}"] = np.exp(values / 2).round(2)
    return pa.table(made)


def main() -> None:
    """Print a line for each width."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", type=int, nargs="+", default=[12, 50, 200, 300])
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--levels", type=int, default=0)
    parser.add_argument("--verbose", action="store_true", help="also print the seconds of each stage")
    arguments = parser.parse_args()
    before: tuple[int, float] | None = None
    heads = ("columns", "init s", "processor", "run s", "processor", "peak GiB", "power")
    print("".join(f"{head:>11}" for head in heads), " outcome", flush=True)
    for columns in arguments.columns:
        folder = Path(tempfile.mkdtemp(prefix="anonpipe-columns-"))
        data, job = folder / "wide.parquet", folder / "job.yaml"
        pq.write_table(wide_table(columns, arguments.rows, arguments.levels), data)
        *asked, proposed = watched(folder, "init", str(data), "--output", str(folder / "out"))
        job.write_text(proposed.stdout)
        options = [part for setting in OPEN for part in ("--set", setting)]
        *ran, done = watched(folder, "run", str(job), "--verbose", *options)
        times = [each for seconds, watch in (asked, ran) for each in (seconds, sum(watch.used.values()))]
        power = math.log(times[3] / before[1]) / math.log(columns / before[0]) if before else math.nan
        figures = [*times, ran[1].peak / 2**30, power]
        ends = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith(("RELEASED", "error"))]
        print(f"{columns:>11}" + "".join(f"{each:>11.2f}" for each in figures), "", *ends, flush=True)
        if arguments.verbose:
            print(done.stdout, done.stderr, flush=True)
        before = columns, times[3]
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
