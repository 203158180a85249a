"""Whether the tests see a fault: a sign, a limit or a place off by one, each in a copy of the project of its own.

    python -m tests.benchmarks.mutations [--sound] [word ...]

With words only the mutants whose name has one of them; `--sound` first runs the
tests that are named without any fault. Exit 1 where a mutant survives.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("anonpipe", "data", "docs", "flows", "tests", "pyproject.toml")
FAILED = 1
"""Pytest's exit code of failed tests; others are of a run that could not be made."""


@dataclass(frozen=True)
class Mutant:
    """A fault, and the tests that are to see it."""

    name: str
    file: str
    right: str  # What stands there, once
    wrong: str
    tests: tuple[str, ...]


MUTANTS = (
    Mutant(
        "gate: a figure at its limit fails",
        "verify/catalogue.py",
        "else number <= limit) else",
        "else number < limit) else",
        ("tests/verify/test_gates.py", "tests/verify/test_verdict.py", "anonpipe/verify/catalogue.py"),
    ),
    Mutant(
        "grouping: k records that remain are no group",
        "methods/grouping/_mdav.py",
        "labels = groups_from_outside(features, k, 2 * k, True)\n    remaining = np.flatnonzero(labels < 0)\n"
        "    if len(remaining) >= k:",
        "labels = groups_from_outside(features, k, 2 * k, True)\n    remaining = np.flatnonzero(labels < 0)\n"
        "    if len(remaining) > k:",
        ("tests/methods/grouping/test_mdav.py", "tests/methods/grouping/test_contract.py"),
    ),
    Mutant(
        "decode: a step beyond the upper bound is released",
        "encoding/values.py",
        "high = np.floor(high + ",
        "high = np.ceil(high + ",
        ("tests/encoding/test_cells.py",),
    ),
    Mutant(
        "units: k - 1 units are enough for a group",
        "methods/grouping/_units.py",
        "if held[g] >= k:",
        "if held[g] >= k - 1:",
        ("tests/methods/grouping/test_units.py",),
    ),
    Mutant(
        "publication: files that differ after copying are published",
        "storage/release.py",
        "!= expected[path.name]:",
        "is None:",
        ("tests/test_publication.py", "tests/test_release.py"),
    ),
    Mutant(
        "publication: the link is made and never moved",
        "storage/versions.py",
        "            os.replace(draft_link, where.path(LINK))\n",
        "",
        ("tests/test_publication.py", "tests/test_release.py"),
    ),
    Mutant(
        "rng: all partitions have the same draws",
        "rng.py",
        "digest = keyed(key, stage, str(partition))",
        "digest = keyed(key, stage)",
        ("tests/test_rng.py", "anonpipe/rng.py"),
    ),
    Mutant(
        "rng: keys of joined words are equal",
        "rng.py",
        'len(part.encode()).to_bytes(8, "big") + part.encode()',
        "part.encode()",
        ("tests/test_rng.py", "anonpipe/rng.py"),
    ),
    Mutant(
        "small cells: cells of k records count, too",
        "verify/original_values.py",
        "(before < k)",
        "(before <= k)",
        ("tests/verify/test_small_cells.py",),
    ),
    Mutant(
        "small cells: what is exact by chance is wrong by one record",
        "storage/sketch.py",
        "gammaln(size - count + 1.0)",
        "gammaln(size - count + 2.0)",
        ("tests/verify/test_small_cells.py", "anonpipe/verify/original_values.py"),
    ),
    Mutant(
        "signature: any signature will do",
        "storage/release.py",
        "    except InvalidSignature:\n        return False",
        "    except InvalidSignature:\n        return True",
        ("tests/test_signature.py",),
    ),
    Mutant(
        "membership: who is near counts as no member",
        "evaluate/risk/_membership.py",
        "auc(-inside, -outside)",
        "auc(inside, outside)",
        ("tests/evaluate/risk/test_membership.py",),
    ),
    Mutant(
        "strata: those of k records are merged",
        "partition/strata.py",
        "is_small = (rows > 0) & (rows < least)",
        "is_small = (rows > 0) & (rows <= least)",
        ("tests/partition/test_strata.py",),
    ),
    Mutant(
        "strata: what is merged takes the rarest combination",
        "partition/strata.py",
        "best[np.argmax(counts[best])]",
        "best[np.argmin(counts[best])]",
        ("tests/partition/test_strata.py", "tests/test_rare_in_strata.py"),
    ),
    Mutant(
        "repeats: an earlier release is compared with nothing",
        "storage/release_log.py",
        "    if not lines:  #",
        "    if lines:  #",
        ("tests/test_repeats.py",),
    ),
    Mutant(
        "singling out: predicates count as often as they are drawn",
        "evaluate/risk/_singling_out.py",
        "once[np.sort(first)[: met.wanted]]",
        "once[: met.wanted]",
        ("tests/evaluate/risk/test_singling_out.py",),
    ),
)


def copy(folder: Path) -> Path:
    """The project without what Python has made of it."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(source, folder / name)
    return folder


def run(folder: Path, tests: tuple[str, ...]) -> tuple[int, str]:
    """The exit code of these tests there, and the end of what they print."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "--timeout",
            "3000",
            "--durations=0",
            "--durations-min=9999",
            *tests,
        ],
        cwd=folder,
        env=environment | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return done.returncode, lines[-1] if lines else done.stdout[-300:]


def tried(mutant: Mutant) -> tuple[bool, str]:
    """Whether its tests see a mutant, and which does."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = copy(Path(temporary))
        path = folder / "anonpipe" / mutant.file
        text = path.read_text(encoding="utf-8")
        if text.count(mutant.right) != 1:
            raise ValueError(f"{mutant.name}: {mutant.file} has {text.count(mutant.right)} such places, not 1")
        path.write_text(text.replace(mutant.right, mutant.wrong), encoding="utf-8")
        code, told = run(folder, mutant.tests)
    if code not in (0, FAILED):
        raise RuntimeError(f"{mutant.name}: pytest ended with {code}: {told}")
    return code == FAILED, told


def main() -> int:
    """Print what became of each mutant."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--sound", action="store_true", help="run the tests without a fault first")
    given = parser.parse_args()
    chosen = [each for each in MUTANTS if not given.words or any(word in each.name for word in given.words)]
    if given.sound:
        code, told = run(ROOT, tuple(sorted({test for each in chosen for test in each.tests})))
        if code:
            print("not sound:", told)
            return 1
    survived = 0
    for mutant in chosen:
        killed, told = tried(mutant)
        survived += not killed
        print("killed  " if killed else "SURVIVED", mutant.name, "|", told if killed else "", flush=True)
    print(f"{len(chosen) - survived} of {len(chosen)} mutants killed")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
