"""The small world of one trial, and runs in it that can be killed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from anonpipe.errors import AnonpipeError
from anonpipe.job.model import Job, parse_job
from anonpipe.pipeline.run import execute
from anonpipe.progress import Progress
from anonpipe.storage import release, versions
from tests.runs import registry_columns, write_patients

ROWS, FILES = 1_500, 3
LONGEST = 90.0
"""Seconds after which a run counts as hanging."""
_HANG, _SIGNALLED = -1, -2
SECRET = hashlib.sha256(b"the campaign's secret").hexdigest()

OnProgress = Callable[[Progress], None]


@dataclass(frozen=True)
class Ending:
    """How a run ended: its exit code (as the command line has it), what it said, whether it told of a release."""

    code: int
    message: str = ""
    seconds: float = 0.0

    @property
    def hung(self) -> bool:
        """It had to be killed because it did not end."""
        return self.code == _HANG

    @property
    def crashed(self) -> bool:
        """It ended by a signal of its own, or by an error that nobody foresaw."""
        return self.code in (1, _SIGNALLED)


@dataclass(frozen=True)
class World:
    """A folder with two inputs of equal shape, of which the first is the job's."""

    root: Path

    @property
    def input(self) -> Path:
        """The folder that the job reads."""
        return self.root / "input"

    @property
    def other(self) -> Path:
        """Other rows, as many, in files of the same names."""
        return self.root / "other"

    @property
    def output(self) -> Path:
        """Where releases go."""
        return self.root / "out"

    @property
    def stagings(self) -> Path:
        """Where stagings lie."""
        return self.root / "staging"

    @property
    def home(self) -> Path:
        """The steward's private folder."""
        return self.root / "home"

    @property
    def staging(self) -> Path | None:
        """The staging of the job; None where there is none."""
        found = [path for path in self.stagings.glob("*") if path.is_dir()] if self.stagings.exists() else []
        return found[0] if found else None

    def job(self, **changes: Any) -> Job:
        """The job of this world."""
        schema = pq.read_schema(next(iter(sorted(self.input.glob("*.parquet")))))
        content: dict[str, Any] = {
            "input": str(self.input),
            "output": str(self.output),
            "k": 5,
            "columns": registry_columns(schema),
            "strata": {"by": ["vital_status"]},
            "partition": {"rows": 1000, "sample_rows": 500},
            "cluster": {"method": "mdav", "block_rows": 200, "refine": False},  # which would take a third of a run
            "release": {"file_rows": 1000},
            "measure": {"utility": False, "risk": False},
            "run": {"workers": 1},
        }
        return parse_job(content | changes)

    def current_version(self) -> str | None:
        """The name of the version that readers are led to; None for none."""
        link = self.output / versions.LINK
        return os.readlink(link).rsplit("/", 1)[-1] if link.is_symlink() else None

    def hashes(self) -> frozenset[str] | None:
        """Digests of the data files that readers are led to; None where there is no release.

        Raises
        ------
        BrokenError
            Readers are led to a release that is not whole.
        """
        pointers = (self.output / versions.LINK, self.output / release.POINTER)
        if not any(os.path.lexists(path) for path in pointers):
            return None
        problems: list[str]
        try:
            folder = Path(release.resolve(str(self.output)).root)
            problems = release.check(str(self.output))
        except (AnonpipeError, OSError) as error:
            raise BrokenError(str(error)) from None
        if problems:
            raise BrokenError("; ".join(problems))
        return frozenset(hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.parquet"))


class BrokenError(Exception):
    """Readers are led to something that is no whole release."""


def build(root: Path, template: Path) -> World:
    """A new world with the template's inputs."""
    root.mkdir(parents=True)
    for name in ("input", "other"):
        shutil.copytree(template / name, root / name)
    return World(root)


def build_template(root: Path) -> World:
    """Make the two inputs: once a campaign."""
    for name, seed in (("input", 1), ("other", 2)):
        (root / name).mkdir(parents=True)
        write_patients(root / "whole.parquet", ROWS, seed=seed)
        table = pq.read_table(root / "whole.parquet")
        for at in range(FILES):
            pq.write_table(table.slice(at * (ROWS // FILES), ROWS // FILES), root / name / f"part-{at}.parquet")
        (root / "whole.parquet").unlink()
    return World(root)


@contextlib.contextmanager
def surroundings(world: World) -> Iterator[None]:
    """The environment of the world's runs."""
    names = {"ANONPIPE_HOME": str(world.home), "ANONPIPE_STAGING": str(world.stagings), "ANONPIPE_SECRET": SECRET}
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def start(
    world: World,
    resume: bool = False,
    on_progress: OnProgress = lambda _: None,
    prepare: Callable[[], None] = lambda: None,
    work: Callable[[], str] | None = None,
    **changes: Any,
) -> Child:
    """Begin a run in a forked process.

    Parameters
    ----------
    on_progress
        Called in the child with the run's progress.
    prepare
        Called in the child beforehand: limits of resources, other clocks.
    work
        What to do instead of a run; returns its message.
    """
    told = world.root / f".ending-{time.monotonic_ns()}"
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return Child(pid, told, time.monotonic())
    code, message = 1, ""
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with surroundings(world), open(os.devnull, "r+b") as nowhere:
            for number in (0, 1, 2):
                os.dup2(nowhere.fileno(), number)
            prepare()
            if work is not None:
                code, message = 0, work()
            else:
                outcome = execute(world.job(**changes), resume, cluster=False, on_progress=on_progress)
                code = 0 if outcome.version else 3
                message = "; ".join(outcome.warnings)
    except AnonpipeError as error:
        code, message = error.exit_code, str(error)
    except KeyboardInterrupt:
        code = 130
    except BaseException:
        code, message = 1, traceback.format_exc()
    finally:
        with contextlib.suppress(OSError):
            told.write_text(json.dumps([code, message]))
        os._exit(0)


@dataclass
class Child:
    """A forked run."""

    pid: int
    told: Path
    began: float

    def signal(self, number: int) -> None:
        """Send it a signal; nothing if it has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def wait(self, longest: float = LONGEST) -> Ending:
        """Wait for its end; one that takes too long is killed."""
        hung = False
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() - self.began > longest and not hung:
                hung = True
                self.signal(signal.SIGKILL)
            time.sleep(0.005)
        seconds = time.monotonic() - self.began
        if hung:
            return Ending(_HANG, "", seconds)
        if os.WIFSIGNALED(status) or not self.told.exists():
            return Ending(_SIGNALLED, f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "", seconds)
        code, message = json.loads(self.told.read_text())
        self.told.unlink()
        return Ending(code, message, seconds)


def run(world: World, resume: bool = False, **changes: Any) -> Ending:
    """A whole run, undisturbed."""
    return start(world, resume, **changes).wait()


def kill_after(world: World, seconds: float, resume: bool = False) -> bool:
    """Begin a run and SIGKILL it after some time; False where it had ended by then."""
    child = start(world, resume)
    time.sleep(seconds)
    child.signal(signal.SIGKILL)
    return child.wait().code == _SIGNALLED


def warm(root: Path, template: Path) -> tuple[frozenset[str], frozenset[str], float]:
    """Compile what a run needs, here; the released bytes of both inputs and the seconds of a run.

    Returns
    -------
    tuple
        Digests for the input, for the other one, and how long a forked run takes.
    """
    found = []
    for name in ("input", "other"):
        world = build(root / f"warm-{name}", template)
        with surroundings(world):
            execute(world.job(input=str(getattr(world, name))), cluster=False)
        hashes = world.hashes()
        if hashes is None:
            raise RuntimeError("the undisturbed run released nothing")
        found.append(hashes)
    world = build(root / "warm-forked", template)
    ending = run(world)
    if world.hashes() != found[0]:
        raise RuntimeError(f"two undisturbed runs differ, or the forked one failed: {ending}")
    return found[0], found[1], ending.seconds


def damage(path: Path, how: str, rng: np.random.Generator) -> None:
    """Flip a bit of a file, overwrite a stretch by zeros, cut it short, or delete it."""
    size = path.stat().st_size
    if how == "delete" or size == 0:
        path.unlink()
    elif how == "truncate":
        os.truncate(path, int(rng.integers(0, size)))
    else:
        content = bytearray(path.read_bytes())
        at = int(rng.integers(0, size))
        if how == "flip":
            content[at] ^= 1 << int(rng.integers(0, 8))
        else:
            content[at : at + 64] = bytes(len(content[at : at + 64]))
        path.write_bytes(bytes(content))
