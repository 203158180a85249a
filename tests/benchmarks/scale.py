"""Time and memory of the main job as the table grows.

    python -m tests.benchmarks.scale --rows 1000000 3000000 10000000 --workers 2

Makes the demonstration registry (12 columns), runs `anonpipe run` on it in a
process of its own, and samples the proportional set size (PSS) and the processor
time of that process and all its descendants. Prints wall time, processor
seconds (which other work on the machine disturbs less), rows/s, peak PSS, and
ratios to the first size.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

from anonpipe.propose.demo import demo_job, write_registry

OPEN = [
    f"gates.{name}=null"
    for name in ("reidentification_rate", "membership_auc", "stratum_inference", "attribute_inference")
]
"""What is linked is shown (`--show`), and ends no run."""


def pss_bytes(process: psutil.Process) -> int:
    """Summed PSS of a process and its descendants; what has just ended counts as nothing."""
    total = 0
    for one in [process, *process.children(recursive=True)]:
        try:
            with open(f"/proc/{one.pid}/smaps_rollup") as rollup:
                total += next(int(line.split()[1]) for line in rollup if line.startswith("Pss:")) * 1024
        except (OSError, StopIteration):
            continue
    return total


class Watch(threading.Thread):
    """Samples the summed PSS and the processor seconds of a process tree until it ends.

    What a process uses after the last look at it is missed: up to a quarter of a second each.
    """

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.process, self.peak = psutil.Process(pid), 0
        self.used: dict[int, float] = {}

    def run(self) -> None:
        while self.process.is_running() and self.process.status() != psutil.STATUS_ZOMBIE:
            try:
                self.peak = max(self.peak, pss_bytes(self.process))
                for one in [self.process, *self.process.children(recursive=True)]:
                    with contextlib.suppress(psutil.Error):
                        times = one.cpu_times()
                        self.used[one.pid] = times.user + times.system
            except psutil.Error:
                return
            time.sleep(0.25)


def measure(folder: Path, rows: int, workers: int, settings: list[str]) -> tuple[float, Watch, str]:
    """Wall seconds, what was watched and the output of one run."""
    data, job = folder / f"registry-{rows}.parquet", folder / f"job-{rows}.yaml"
    if not data.exists():
        write_registry(data, rows)
    job.write_text(demo_job(str(data), str(folder / f"out-{rows}"), 5))
    options = [part for setting in (*OPEN, *settings) for part in ("--set", setting)]
    seconds, watch, done = watched(folder, "run", str(job), "--workers", str(workers), *options)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    shutil.rmtree(folder / f"out-{rows}", ignore_errors=True)
    return seconds, watch, done.stdout


def watched(folder: Path, *arguments: str) -> tuple[float, Watch, subprocess.CompletedProcess[str]]:
    """Wall seconds of a command of anonpipe, what was watched, and what it left."""
    env = {**os.environ, "ANONPIPE_HOME": str(folder / "home"), "ANONPIPE_STAGING": str(folder / "staging")}
    command = [sys.executable, "-m", "anonpipe", *arguments]
    began = time.perf_counter()
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    watch = Watch(process.pid)
    watch.start()
    output, errors = process.communicate()
    seconds = time.perf_counter() - began
    watch.join()
    return seconds, watch, subprocess.CompletedProcess(command, process.returncode, output, errors)


def main() -> None:
    """Measure all sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 3_000_000, 10_000_000])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--set", dest="settings", action="append", default=[])
    parser.add_argument("--folder", type=Path, help="keep the data here")
    parser.add_argument("--show", action="store_true", help="print the verdicts too")
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="anonpipe-scale-"))
    folder.mkdir(parents=True, exist_ok=True)
    first: tuple[int, float] | None = None
    headings = ("seconds", "processor", "rows/s", "peak GiB", "time ratio", "rows ratio")
    print(f"{'rows':>12} " + " ".join(f"{heading:>11}" for heading in headings), flush=True)
    for rows in arguments.rows:
        seconds, watch, output = measure(folder, rows, arguments.workers, arguments.settings)
        first = first or (rows, seconds)
        print(
            f"{rows:>12,} {seconds:>11.1f} {sum(watch.used.values()):>11.1f} {rows / seconds:>11,.0f} "
            f"{watch.peak / 2**30:>11.2f} "
            f"{seconds / first[1]:>11.2f} {rows / first[0]:>11.2f}",
            flush=True,
        )
        if arguments.show:
            print(output)
    if arguments.folder is None:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
