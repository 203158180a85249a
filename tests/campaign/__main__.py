"""`python -m tests.campaign --minutes 5`: injections by kind and outcome, and every bad one with its seed."""

from __future__ import annotations

import argparse
import itertools
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from tests.campaign.clusters import CLUSTER_KINDS
from tests.campaign.faults import KINDS, Known, Trial
from tests.campaign.world import BrokenError, World, build, build_template, run, warm

ALL_KINDS = KINDS | CLUSTER_KINDS

GOOD = ("equal bytes", "bytes of the new input", "refused")
BAD = ("OTHER BYTES", "READERS ARE MISLED", "UNFORESEEN", "HANGS", "STUCK", "SILENT RELEASE", "LEFTOVERS")


def judge(trial: Trial) -> tuple[str, str]:
    """The outcome of a trial, and what there is to say of it."""
    world, endings = trial.world, trial.endings
    if any(each.hung for each in endings):
        return "HANGS", trial.detail
    if crashed := [each for each in endings if each.crashed]:
        return "UNFORESEEN", f"{trial.detail}: {crashed[0].message.strip()[-300:]}"
    try:
        hashes = world.hashes()
    except BrokenError as error:
        return "READERS ARE MISLED", f"{trial.detail}: {error}"
    expected = (None, trial.known.first, trial.known.other)
    if hashes not in expected and not (trial.replaced and hashes == undisturbed(world)):
        return "OTHER BYTES", f"{trial.detail}: exit {[each.code for each in endings]}"
    last = endings[-1]
    if last.code == 0 and hashes is None:
        return "UNFORESEEN", f"{trial.detail}: exit 0 and no release"
    if last.code not in (0, 6) and world.current_version() != trial.earlier and "release is out" not in last.message:
        return "SILENT RELEASE", f"{trial.detail}: exit {last.code}: {last.message[:200]}"
    if last.code == 0:
        if left := leftovers(world):
            return "LEFTOVERS", f"{trial.detail}: {left}"
        return ("equal bytes" if hashes == trial.known.first else "bytes of the new input"), trial.detail
    if len(endings) > 1 or trial.must_release:  # what was refused at --resume must work when run again
        return "STUCK", f"{trial.detail}: exit {last.code}: {last.message[:200]}"
    return "refused", f"{trial.detail}: {last.message[:200]}"


def undisturbed(world: World) -> frozenset[str] | None:
    """The bytes that a run without fault releases of the input as it lies there now."""
    again = build(world.root / "again", world.root)
    run(again)
    return again.hashes()


def leftovers(world: World) -> list[str]:
    """Files that a good run should not leave in staging and output."""
    found = [path for path in world.stagings.rglob("*") if path.is_file()] if world.stagings.exists() else []
    found += [path for path in world.output.rglob(".*") if path.name not in _OWN]
    versions = world.output / "versions"
    if versions.is_dir():
        found += [path for path in versions.iterdir() if not (path / "_manifest.json").exists()]
    return sorted({str(path.relative_to(world.root)) for path in found})


_OWN = (".lock",)
"""Hidden files of the output that stay by design."""


def campaign(seed: int, minutes: float, kinds: list[str], trials: int | None, folder: Path) -> list[tuple[str, ...]]:
    """Inject faults, one kind after the other, until time or trials are over."""
    template = build_template(folder / "template")
    first, other, seconds = warm(folder, folder / "template")
    known, end, told = Known(first, other, seconds), time.monotonic() + 60 * minutes, []
    del template
    for number, kind in enumerate(itertools.cycle(kinds)):
        if time.monotonic() > end or (trials is not None and number >= trials):
            break
        world = build(folder / f"trial-{number}", folder / "template")
        trial = Trial(world, np.random.default_rng([seed, number]), known)
        ALL_KINDS[kind](trial)
        outcome, detail = judge(trial)
        told.append((kind, outcome, f"number {number}: {detail}"))
        shutil.rmtree(world.root, ignore_errors=True)
    return told


def show(told: list[tuple[str, ...]], console: Console) -> None:
    """The table of counts, then every bad outcome."""
    counts = Counter((kind, outcome) for kind, outcome, _ in told)
    outcomes = [each for each in (*GOOD, *BAD) if any(outcome == each for _, outcome in counts)]
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("fault")
    for outcome in outcomes:
        table.add_column(outcome, justify="right")
    for kind in dict.fromkeys(kind for kind, _, _ in told):
        table.add_row(kind, *(str(counts[kind, outcome] or "") for outcome in outcomes))
    console.print(table)
    for kind, outcome, detail in told:
        if outcome in BAD:
            console.print(f"{kind}: {outcome}: {detail}", markup=False, soft_wrap=True)


def main() -> int:
    """Exit 1 where any outcome is bad."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--trials", type=int, default=None, help="stop after so many")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", default=",".join(KINDS), help="by commas; all quick ones unless given")
    parser.add_argument("--clusters", action="store_true", help="the kinds that start clusters instead")
    given = parser.parse_args()
    kinds = list(CLUSTER_KINDS) if given.clusters else given.kinds.split(",")
    folder = Path(tempfile.mkdtemp(prefix="anonpipe-campaign-"))
    try:
        told = campaign(given.seed, given.minutes, kinds, given.trials, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    console = Console(width=160, highlight=False)
    show(told, console)
    bad = sum(outcome in BAD for _, outcome, _ in told)
    console.print(f"{len(told)} injections, {bad} bad")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
