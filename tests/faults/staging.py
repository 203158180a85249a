"""Damage to the staging of a run that was stopped: every kind, in every file, at every stage, then `--resume`.

    python -m tests.faults.staging [--share=0.3] [job ...]

Each trial in a process of its own; all of them, or a share that is drawn.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from anonpipe.errors import AnonpipeError
from anonpipe.job.model import Job
from anonpipe.pipeline.run import execute
from anonpipe.progress import Progress
from anonpipe.storage import release
from tests import small

Inject = Callable[[Path, np.random.Generator], None]
Point = tuple[str, int]
"""A stage, and the pieces of it that are done."""


def flipped(path: Path, rng: np.random.Generator) -> None:
    """One bit of one byte."""
    content = bytearray(path.read_bytes())
    content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
    path.write_bytes(content)


def zeroed(path: Path, rng: np.random.Generator) -> None:
    """A run of zeros of up to 64 bytes, of which at least one was none."""
    content = bytearray(path.read_bytes())
    begin = int(rng.choice(np.flatnonzero(np.frombuffer(content, dtype=np.uint8))))
    end = min(len(content), begin + 64)
    content[begin:end] = bytes(end - begin)
    path.write_bytes(content)


def truncated(path: Path, rng: np.random.Generator) -> None:
    """Cut somewhere."""
    os.truncate(path, int(rng.integers(path.stat().st_size)))


def deleted(path: Path, rng: np.random.Generator) -> None:
    """Gone."""
    path.unlink()


def swapped(path: Path, rng: np.random.Generator) -> None:
    """The content of another file of the same folder; the file is emptied if it is alone."""
    others = sorted(other for other in path.parent.iterdir() if other.is_file() and other != path)
    path.write_bytes(others[rng.integers(len(others))].read_bytes() if others else b"")


FAULTS: dict[str, Inject] = {each.__name__: each for each in (flipped, zeroed, truncated, deleted, swapped)}


class Stopped(Exception):
    """The driver was stopped on purpose."""


def run_until(job: Job, point: Point, resume: bool = False) -> bool:
    """Run the job here and stop it when it gets there; whether it did."""
    stopped = []

    def on_progress(news: Progress) -> None:
        if (news.stage, news.done) == point:
            stopped.append(news)
            raise Stopped

    try:
        execute(job, resume, cluster=False, on_progress=on_progress)
    except AnonpipeError:
        if not stopped:
            raise
    return bool(stopped)


def features(job: Job) -> list[Point]:
    """Where a run of the job can be stopped: before and after each piece of each stage."""
    seen: dict[Point, None] = {}
    execute(job, cluster=False, on_progress=lambda news: seen.setdefault((news.stage, news.done)))
    return list(seen)


def files_of(root: Path) -> list[Path]:
    """The files of all runs' stagings, by their place below the root; the locks hold nothing."""
    return sorted(p.relative_to(root) for p in root.rglob("*") if p.is_file() and p.suffix != ".lock")


def released(job: Job) -> dict[str, str]:
    """SHA-256 of the released files by name; none where there is no release."""
    where = Path(job.output) / "release"
    return {path.name: release.sha256(path) for path in where.glob("*.parquet")}


def resumed(job: Job, expected: dict[str, str]) -> str:
    """What `--resume` led to: `same`, `other bytes`, a refusal with its exit code, or a `crash`."""
    try:
        outcome = execute(job, True, cluster=False)
    except AnonpipeError as error:
        if released(job):
            return "other bytes"
        text = str(error)
        clear = error.exit_code in (2, 4, 5) and "\n" not in text and " at " not in text
        return f"refused {error.exit_code}" if clear else f"unclear {error.exit_code}"
    if outcome.version is None:
        return "gate"
    return "same" if released(job) == expected else "other bytes"


def apart(function: Callable[[], str], seconds: int = 120) -> str:
    """The same in a process of its own, which may die or hang."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(seconds)
        with open(writer, "w") as out:
            out.write(function())
        os._exit(0)
    os.close(writer)
    with open(reader) as told:
        answer = told.read()
    status = os.waitpid(child, 0)[1]
    return answer if os.WIFEXITED(status) and answer else f"signal {os.WTERMSIG(status)}"


@dataclass(frozen=True)
class Snapshot:
    """A stopped run, kept so that it can be damaged again and again."""

    job: Job
    point: Point
    kept: Path

    @classmethod
    def take(cls, job: Job, point: Point, kept: Path) -> Snapshot | None:
        """Stop the job there and keep its staging; None where the job does not get there."""
        clear(job)
        if not run_until(job, point):
            return None
        shutil.copytree(_root(), kept, symlinks=True)
        return cls(job, point, kept)

    def restore(self) -> Path:
        """Lay the stopped run's staging out again; no release is there."""
        clear(self.job)
        shutil.copytree(self.kept, _root(), symlinks=True)
        return _root()


def clear(job: Job) -> None:
    """Forget all runs, and the job's release."""
    shutil.rmtree(_root(), ignore_errors=True)
    shutil.rmtree(job.output, ignore_errors=True)


def _root() -> Path:
    return Path(os.environ["ANONPIPE_STAGING"])


def damage(
    snapshot: Snapshot, expected: dict[str, str], rng: np.random.Generator, share: float = 1.0, fork: bool = False
) -> Iterator[tuple[str, Path, str]]:
    """Every fault in every file of the stopped run (or a share of them, drawn), and what the resumed run made of it.

    Yields
    ------
    fault, file, outcome
    """
    for file in files_of(snapshot.kept):
        for name, inject in FAULTS.items():
            if rng.random() >= share or (not (snapshot.kept / file).stat().st_size and name != "deleted"):
                continue
            root = snapshot.restore()
            inject(root / file, rng)
            yield (
                name,
                file,
                apart(lambda: resumed(snapshot.job, expected)) if fork else resumed(snapshot.job, expected),
            )


COLUMNS: dict[str, Any] = {
    "age": {"kind": "integer", "bounds": [0, 120]},
    "income": {"kind": "continuous", "bounds": [0, None]},
    "sex": {"kind": "binary"},
    "place": {"kind": "categorical", "role": "key"},
}
LOOSE: dict[str, float] = {"mean": 5, "covariance": 5, "covariance_with_keys": 5, "category_share": 1, "null_share": 1}
LOOSE |= {"rows_under_k": 999, "unchanged_record_rate": 1.0}
CASES: dict[str, dict[str, Any]] = {
    "groups": {"cluster": {"method": "mdav"}},
    "mask": {"mask": {"method": "data_shuffle"}},
    "measured": {"measure": {"utility": True, "risk": True, "hold_out": 0.2}},
}


def case(folder: Path, name: str, rows: int = 240) -> Job:
    """A small job of two input units, three partitions and two output files."""
    rng = np.random.default_rng(0)
    income = rng.lognormal(10.0, 0.5, rows)
    income[rng.random(rows) < 0.1] = np.nan
    table = pa.table(
        {
            "age": pa.array(rng.integers(18, 90, rows)),
            "income": pa.array(income, from_pandas=True),
            "sex": pa.array(rng.choice(["f", "m"], rows)),
            "place": pa.array(rng.choice(["north", "south", "west"], rows)),
        }
    )
    (folder / "data").mkdir(parents=True)
    for at in range(2):
        pq.write_table(table.slice(at * rows // 2, rows // 2), folder / "data" / f"{at}.parquet")
    changes: dict[str, Any] = {"strata": {"by": ["place"]}, "release": {"file_rows": 1_000}, "gates": LOOSE}
    return small.job(folder, str(folder / "data"), COLUMNS, **{**changes, **CASES[name]})


def main() -> None:
    """Print how often each kind of fault led to what."""
    rng = np.random.default_rng(1)
    share = next((float(word.partition("=")[2]) for word in sys.argv if word.startswith("--share=")), 1.0)
    for name in [word for word in sys.argv[1:] if not word.startswith("--")] or CASES:
        with tempfile.TemporaryDirectory() as temporary:
            folder, begin = Path(temporary), time.monotonic()
            os.environ |= {"ANONPIPE_HOME": str(folder / "home"), "ANONPIPE_STAGING": str(folder / "staging")}
            job, table = case(folder, name), Counter[tuple[str, str]]()
            stops = [point for point in features(job) if point[1] == 0]
            expected = released(job)
            assert expected, f"{name}: nothing is released even undisturbed"
            for at, point in enumerate(stops[1:]):
                snapshot = Snapshot.take(job, point, folder / f"kept-{at}")
                if snapshot is None:
                    continue
                for fault, file, outcome in damage(snapshot, expected, rng, share, fork=True):
                    table[fault, outcome] += 1
                    if outcome not in ("same", "refused 2", "refused 4", "refused 5"):
                        print("   ", point[0], fault, file, outcome, flush=True)
            print(f"{name}: {sum(table.values())} resumes at {len(stops) - 1} points, {time.monotonic() - begin:.0f} s")
            for (fault, outcome), count in sorted(table.items()):
                print(f"    {fault:10} {outcome:12} {count}", flush=True)


if __name__ == "__main__":
    main()
