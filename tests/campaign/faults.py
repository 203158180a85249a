"""What is done to a run, by kind; each kind says what may come of it."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from anonpipe.progress import Progress
from anonpipe.storage import release
from tests.campaign.world import Child, Ending, World, damage, kill_after, run, start

DAMAGES = ("flip", "zero", "truncate", "delete")


@dataclass(frozen=True)
class Known:
    """What undisturbed runs give: the released bytes of both inputs, and the seconds that a run takes."""

    first: frozenset[str]
    other: frozenset[str]
    seconds: float


@dataclass
class Trial:
    """One injection: where, with which chance, and what was seen."""

    world: World
    rng: np.random.Generator
    known: Known
    endings: list[Ending] = field(default_factory=list)
    """Of the runs that came after the fault, in their order; the last one is the user's last step."""
    detail: str = ""
    earlier: str | None = None
    """The version that readers were led to before the run that counts."""
    must_release: bool = False
    """Whether the fault is none that a run may be refused for."""
    replaced: bool = False
    """Whether a file of the input was replaced: before it was first read, the new table is released."""

    def released_before(self) -> None:
        """Release once, undisturbed; what follows has to release once more."""
        run(self.world)
        self.earlier, self.must_release = self.world.current_version(), True

    def moment(self) -> float:
        """A time inside a run, in seconds."""
        return float(self.rng.uniform(0, 1.05 * self.known.seconds))

    def went_on(self, resume: bool = True) -> None:
        """The user's next step: `--resume`; and where that is refused, a plain run."""
        self.endings.append(run(self.world, resume))
        if self.endings[-1].code in (2, 4, 5):
            self.endings.append(run(self.world))


Fault = Callable[[Trial], None]


def killed(trial: Trial) -> None:
    """SIGKILL of the driver at any time, perhaps of the resumed one too."""
    kill_after(trial.world, trial.moment())
    if trial.rng.random() < 0.4:
        kill_after(trial.world, trial.moment(), resume=True)
    trial.went_on()


def killed_at_the_end(trial: Trial) -> None:
    """SIGKILL around publication and the removal of the staging."""
    child = start(trial.world, on_progress=_kill_soon_after("publish", trial.rng.uniform(0, 0.03)))
    child.wait()
    trial.went_on()


def _kill_soon_after(stage: str, seconds: float) -> Callable[[Progress], None]:
    def watch(progress: Progress) -> None:
        if progress.stage == stage:
            signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
            signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-4))

    return watch


def staging_damaged(trial: Trial) -> None:
    """A byte, a stretch or a whole file of the staging is lost between a crash and `--resume`."""
    kill_after(trial.world, trial.moment())
    staging = trial.world.staging
    files = [] if staging is None else sorted(path for path in staging.rglob("*") if path.is_file())
    if files:
        path = files[trial.rng.integers(len(files))]
        how = DAMAGES[trial.rng.integers(len(DAMAGES))]
        damage(path, how, trial.rng)
        trial.detail = f"{how} {path.relative_to(str(staging))}"
    trial.went_on()


def staging_damaged_while_running(trial: Trial) -> None:
    """The same under a running driver, right after a stage."""
    stage = ("scan", "route", "group", "decode", "write")[trial.rng.integers(5)]
    seed, root = int(trial.rng.integers(2**32)), trial.world.root

    def strike(progress: Progress) -> None:
        if progress.stage == stage and progress.done == progress.total:
            staging = World(root).staging
            rng = np.random.default_rng(seed)
            files = sorted(path for path in staging.rglob("*") if path.is_file()) if staging else []
            if files:
                damage(files[rng.integers(len(files))], DAMAGES[rng.integers(len(DAMAGES))], rng)

    trial.detail = f"after {stage}"
    trial.endings.append(start(trial.world, on_progress=strike).wait())
    if trial.endings[-1].code != 0:
        trial.went_on()


def input_rewritten(trial: Trial) -> None:
    """A file of the input is replaced by other rows, as many, at any time of the run."""
    world = trial.world
    name = f"part-{trial.rng.integers(3)}.parquet"
    keep_times = trial.rng.random() < 0.5
    in_place = trial.rng.random() < 0.5
    child = start(world)
    time.sleep(trial.moment())
    _replace(world.other / name, world.input / name, in_place, keep_times)
    trial.endings.append(child.wait())
    trial.replaced = True
    trial.detail = f"{name}, {'in place' if in_place else 'renamed'}"


def _replace(source: Path, target: Path, in_place: bool, keep_times: bool) -> None:
    before = target.stat()
    if in_place:
        target.write_bytes(source.read_bytes())
    else:
        draft = target.with_name(".draft")
        shutil.copyfile(source, draft)
        os.replace(draft, target)
    if keep_times:
        os.utime(target, ns=(before.st_atime_ns, before.st_mtime_ns))


def input_rewritten_between_scan_and_route(trial: Trial) -> None:
    """The same, exactly between the two readings of the input."""
    world = trial.world
    name = f"part-{trial.rng.integers(3)}.parquet"

    def strike(progress: Progress) -> None:
        if progress.stage == "route" and progress.done == 0:
            _replace(world.other / name, world.input / name, True, True)

    trial.endings.append(start(world, on_progress=strike).wait())


def file_damaged(trial: Trial) -> None:
    """A written file is damaged before or after it is measured; then the user resumes."""
    seed, root, once = int(trial.rng.integers(2**32)), trial.world.root, []

    def strike(progress: Progress) -> None:
        staging = World(root).staging
        files = sorted((staging / "files").glob("*")) if staging else []
        if progress.stage in ("write", "verify") and files and not once:
            once.append(1)
            rng = np.random.default_rng(seed)
            damage(files[rng.integers(len(files))], "flip", rng)

    trial.endings.append(start(trial.world, on_progress=strike).wait())
    if trial.endings[-1].code != 0:
        trial.went_on()


def disk_full(trial: Trial) -> None:
    """Staging or output on a disk that is too small; then it has room."""
    where = trial.world.stagings if trial.rng.random() < 0.7 else trial.world.output
    where.mkdir(parents=True, exist_ok=True)
    size = int(trial.rng.integers(1, 160)) * 4096
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(where)], check=False)
    if mounted.returncode:
        trial.detail = "no rights to mount: a run without fault"
    try:
        ending = run(trial.world)
        if ending.code != 0:
            trial.endings.append(ending)
            if mounted.returncode == 0:
                subprocess.run(["mount", "-o", "remount,size=256m", str(where)], check=True)
            trial.went_on()
        else:
            trial.endings.append(ending)
        trial.detail = f"{where.name}, {size} bytes"
        if mounted.returncode == 0:
            _keep_what_is_mounted(where)
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", str(where)], check=False)
    _put_back(where)


def _keep_what_is_mounted(where: Path) -> None:
    shutil.copytree(where, where.with_name(where.name + "-kept"), symlinks=True)


def _put_back(where: Path) -> None:
    kept = where.with_name(where.name + "-kept")
    if kept.exists():
        shutil.rmtree(where)
        kept.rename(where)


def few_descriptors(trial: Trial) -> None:
    """Hardly any files may be open."""
    most = int(trial.rng.integers(12, 64))

    def prepare() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    trial.detail = f"{most} descriptors"
    trial.endings.append(start(trial.world, prepare=prepare).wait())
    if trial.endings[-1].code != 0:
        trial.went_on()


def log_damaged(trial: Trial) -> None:
    """The release log has a torn or a foreign line; the same job runs once more."""
    trial.released_before()
    files = [p for p in sorted(trial.world.root.rglob("*")) if p.is_file() and _is_log(p)]
    for path in files:
        how = trial.rng.integers(3)
        content = path.read_bytes()
        if how == 0 and len(content) > 2:
            path.write_bytes(content[: int(trial.rng.integers(1, len(content)))])
        elif how == 1:
            path.write_bytes(content + b'{"foreign": 1}\n')
        else:
            path.write_bytes(content + bytes(trial.rng.integers(0, 256, 40, dtype=np.uint8)) + b"\n")
    trial.detail = f"{len(files)} logs"
    trial.endings.append(run(trial.world))


def _is_log(path: Path) -> bool:
    return any(word in path.name for word in ("ledger", "log")) and "staging" not in path.parts


def home_lost(trial: Trial) -> None:
    """The steward's private folder becomes a file, at any time."""
    child = start(trial.world)
    time.sleep(trial.moment())
    shutil.rmtree(trial.world.home, ignore_errors=True)
    trial.world.home.touch()
    trial.endings.append(child.wait())
    if trial.endings[-1].code != 0:
        trial.world.home.unlink()
        trial.went_on()


def pruned_while_published(trial: Trial) -> None:
    """Another process prunes all the time; the publisher is stopped now and then."""
    trial.released_before()
    child = start(trial.world)
    pruner = start(trial.world, work=lambda: _prune_on_and_on(trial.world, 1.5 * trial.known.seconds + 0.5))
    for _ in range(6):
        time.sleep(float(trial.rng.uniform(0, 0.25 * trial.known.seconds)))
        child.signal(signal.SIGSTOP)
        time.sleep(float(trial.rng.uniform(0, 0.05)))
        child.signal(signal.SIGCONT)
    trial.endings.append(child.wait())
    ending = pruner.wait()
    if ending.code not in (0,):
        trial.endings.append(ending)


def _prune_on_and_on(world: World, seconds: float) -> str:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        release.prune(str(world.output), 1)
    return ""


def clock_set_back(trial: Trial) -> None:
    """The clock goes back by a year between two runs; the second prunes."""
    trial.released_before()

    class Earlier(datetime):
        @classmethod
        def now(cls, tz=None):  # type: ignore[no-untyped-def]
            return datetime.now(tz) - timedelta(days=365)

    def prepare() -> None:
        for module in (release,):
            if hasattr(module, "datetime"):
                module.datetime = Earlier  # type: ignore[attr-defined]

    trial.endings.append(start(trial.world, prepare=prepare).wait())
    current_version = trial.world.current_version()
    release.prune(str(trial.world.output), 1)
    left = sorted(path.name for path in (trial.world.output / "versions").iterdir() if not path.name.startswith("."))
    trial.detail = "the newest stays" if left == [current_version] else "another than the newest stays"
    if left != [current_version]:
        trial.endings.append(Ending(1, "prune kept another version than the newest"))


def two_at_once(trial: Trial) -> None:
    """The same job twice at the same time: one is refused, or comes second."""
    children: list[Child] = []
    for _ in range(2):
        children.append(start(trial.world))
        time.sleep(float(trial.rng.uniform(0, 0.3 * trial.known.seconds)))
    endings = [child.wait() for child in children]
    trial.endings += [each for each in endings if each.code != 6] or endings


def interrupted(trial: Trial) -> None:
    """Ctrl-C at any time, then `--resume`."""
    child = start(trial.world)
    time.sleep(trial.moment())
    child.signal(signal.SIGINT)
    ending = child.wait()
    if ending.code in (0, 130):
        trial.went_on()
    else:
        trial.endings.append(ending)


KINDS: dict[str, Fault] = {
    each.__name__.replace("_", "-"): each
    for each in (
        killed,
        killed_at_the_end,
        interrupted,
        staging_damaged,
        staging_damaged_while_running,
        file_damaged,
        input_rewritten,
        input_rewritten_between_scan_and_route,
        disk_full,
        few_descriptors,
        log_damaged,
        home_lost,
        pruned_while_published,
        clock_set_back,
        two_at_once,
    )
}
