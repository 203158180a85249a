"""Singling out, linkability and inference of `anonpipe evaluate` beside anonymeter's, on releases of known worth.

    python -m tests.benchmarks.guidance [--rows 1000] [--seed 1] [--attacks 500]

anonymeter lives in the judges' environment (see `tests.benchmarks.frontier`). Both look at the same files: an original
and as many records of the same population that were left out, so that anonymeter needs no correction for their number.
Its distances are Gower's, its predicates are on as many columns, and it takes several of one record; inference is of
one category column, anonpipe's of the worst. Its attacks are `--attacks`; anonpipe takes what there is.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from tests.benchmarks.frontier.known_cases import KINDS, table

CRITERIA = {
    "singling": "singling_out.one",
    "singling_many": "singling_out.several",
    "linkability": "linkability",
    "inference": "attribute_inference",
}


def releases(original: pd.DataFrame, seed: int) -> dict[str, pd.DataFrame]:
    """A copy, a copy in part, noise, and another sample of the population."""
    another, rng = table(len(original), seed + 2), np.random.default_rng(seed)
    half = original.copy()
    half.iloc[: len(half) // 2] = another.iloc[: len(half) // 2]
    found = {"copy": original, "half a copy": half}
    for amount in (0.02, 0.2):
        noisy = original.copy()
        for name in (name for name, kind in KINDS.items() if kind == "numerical"):
            noisy[name] += amount * original[name].std() * rng.standard_normal(len(original))
        found[f"noise of {amount:g} sd"] = noisy
    return found | {"another sample": another}


def judged(folder: Path, attacks: int) -> None:
    """What anonymeter says; in the judges' environment."""
    from tests.benchmarks.frontier.judge import of_anonymeter

    warnings.filterwarnings("ignore")
    original, control, *made = (pd.read_parquet(folder / f"{name}.parquet") for name in _names(folder))
    json.dump([of_anonymeter(original, each, control, KINDS, "c", attacks) for each in made], sys.stdout)


def _names(folder: Path) -> list[str]:
    return [str(name) for name in json.loads((folder / "names.json").read_text())]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--attacks", type=int, default=500)
    parser.add_argument("--judge", type=Path, help="a folder to judge, in the judges' environment")
    given = parser.parse_args()
    if given.judge is not None:
        judged(given.judge, given.attacks)
        return
    with tempfile.TemporaryDirectory() as made:
        _compare(Path(made), given)


def _compare(folder: Path, given: argparse.Namespace) -> None:
    from anonpipe.job.model import Job
    from anonpipe.two_tables import evaluate_release
    from tests.benchmarks.frontier.__main__ import JUDGES

    original, control = table(given.rows, given.seed), table(given.rows, given.seed + 1)
    made = releases(original, given.seed)
    tables = {"original": original, "control": control, **made}
    for name, frame in tables.items():
        frame.to_parquet(folder / f"{name}.parquet")
    (folder / "names.json").write_text(json.dumps(list(tables)))
    columns = {name: {"kind": "categorical" if kind == "categorical" else "continuous"} for name, kind in KINDS.items()}
    job = Job.model_validate(
        {
            "input": "-",
            "output": "-",
            "k": 5,
            "columns": columns,
            "measure": {"utility": False, "queries": given.rows},
        }
    )
    call = [str(JUDGES), "-m", "tests.benchmarks.guidance", "--judge", str(folder), "--attacks", str(given.attacks)]
    theirs = json.loads(subprocess.run(call, check=True, stdout=subprocess.PIPE, text=True).stdout)
    print("attack and control, then the risk with its interval\n")
    for name, their in zip(made, theirs, strict=True):
        files = [str(folder / f"{each}.parquet") for each in ("original", name, "control")]
        measured = evaluate_release(files[0], files[1], job, hold_out=files[2]).assessment.measured
        ours = {one.name: one for one in measured}
        for criterion, figure in CRITERIA.items():
            mine = ours[figure]
            rates = "" if criterion == "inference" else " ".join(f"{value:.2f}" for _, value in mine.parts)
            print(
                f"{name:15} {criterion:14} anonymeter {their[f'{criterion}_attack']:.2f} "
                f"{their[f'{criterion}_control']:.2f}  {their[criterion]:.2f} [{their[f'{criterion}_low']:.2f}, "
                f"{their[f'{criterion}_high']:.2f}]   anonpipe {rates:9} {mine.value:.2f} [{mine.low:.2f}, "
                f"{mine.high:.2f}]"
            )


if __name__ == "__main__":
    main()
