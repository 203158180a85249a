"""Risk and utility of all methods and of other tools, on many tables, judged by tools of others.

    python3 -m venv ~/.cache/anonpipe/judges
    ~/.cache/anonpipe/judges/bin/pip install --no-deps -r tests/benchmarks/frontier/requirements.txt
    python -m tests.benchmarks.frontier [--tables pima colon] [--settings 'default*' 'local*'] [--k 5] [--draws 3]

Of every table 70 % are anonymised and 30 % are the control that nobody saw,
by a fixed seed. Each setting (`settings`) releases it by the stages of `anonpipe run`,
once a secret, on the job that `anonpipe init` proposes with the bounds of the code
book; what the usual gates refuse is run again with open gates, and marked. The
judges live in an environment of their own, whose pins never reach ours: they
read Parquet files in a folder that only its owner may open and that is deleted
at the end (`--folder` keeps it, and goes on where it was left). They are
sdmetrics (column shapes, pairs), anonymeter (singling out, linkability,
inference, each with control and interval), gradient boosting (told apart),
Kaplan-Meier and Cox; the share of records linked to their own is anonpipe's,
which alone knows whose a released record is. Other tools are judged likewise:
sequential CART as in synthpop, SDV's Gaussian copula, and its TVAE and CTGAN
where torch is there (`requirements_deep.txt`), 20 s a release and more; sdv asks for it,
which is why the requirements are a full list that is installed as it stands. Baselines of every figure: one half of the
original as the release of the other, and another sample of the same
population (half of the control).

With `--own`, settings of anonpipe alone are measured again: `cells.csv` has all others as data/frontier.csv has them.
Written are `figures.csv` (a row a release), `frontier.csv` and `.json` (means
and intervals), `criteria.csv`, `frontier.txt` (the printed text), `cells.csv`
(for data/frontier.csv, from which `page` makes docs/frontier.md) and `frontier.png`, the map.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tests.benchmarks.frontier import show
from tests.benchmarks.frontier.page import FIGURES, cells, read, remeasured
from tests.benchmarks.frontier.releases import count_broken, prepare, release
from tests.benchmarks.frontier.settings import grid
from tests.benchmarks.frontier.tables import AT_HAND, MADE, capped, load

REPOSITORY = Path(__file__).parents[3]
JUDGES = Path.home() / ".cache" / "anonpipe" / "judges" / "bin" / "python"


def main() -> None:
    given = _arguments()
    if not given.judges.exists():
        sys.exit(f"{given.judges} is not there; make the judges' environment:\n{_environment(given.judges.parents[1])}")
    given.out.mkdir(parents=True, exist_ok=True)
    with _folder(given.folder) as folder:
        _same(folder, {name: getattr(given, name) for name in ("rows", "seed", "attacks")})
        for name in given.tables:
            try:
                table = load(name, given.seed)
            except FileNotFoundError as error:
                print(f"{name}: left out, {error}", flush=True)
                continue
            _try(folder / name, replace(table, frame=capped(table.frame, given.rows, given.seed, table.unit)), given)
            _write(folder, given.out, given.own)
    if not given.own:
        print((given.out / "frontier.txt").read_text())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [*AT_HAND, *MADE]
    parser.add_argument("--tables", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--settings", nargs="*", default=[], help="patterns of names (`settings`); all without")
    parser.add_argument("--k", type=int, nargs="*", default=[])
    parser.add_argument("--draws", type=int, default=3, help="secrets")
    parser.add_argument("--rows", type=int, default=5_000, help="most rows of a table, before it is split")
    parser.add_argument("--attacks", type=int, default=200, help="of each kind, by anonymeter")
    parser.add_argument("--seed", type=int, default=1, help="of made tables, the rows that are taken, and the split")
    parser.add_argument("--own", action="store_true", help="other rows of cells.csv, and baselines, as stored")
    parser.add_argument("--judges", type=Path, default=JUDGES, help="the Python of their environment")
    parser.add_argument("--folder", type=Path, help="keep the tables here, and go on with what is there")
    parser.add_argument("--out", type=Path, default=Path("frontier"))
    return parser.parse_args()


def _environment(folder: Path) -> str:
    requirements = Path(__file__).with_name("requirements.txt")
    return f"python3 -m venv {folder}\n{folder}/bin/pip install --no-deps -r {requirements}"


@contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        kept.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield kept.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="anonpipe-frontier-") as folder:
        yield Path(folder)


def _same(folder: Path, options: dict[str, int]) -> None:
    """Refuse to go on with what was made or judged by other options."""
    told = folder / "options.json"
    if told.exists() and (before := json.loads(told.read_text())) != options:
        sys.exit(f"{folder} was begun with {before}, and {options} are given; give the same, or another folder")
    told.write_text(json.dumps(options))


def _try(folder: Path, table, given: argparse.Namespace) -> None:
    """Release a table by every setting, and have it all judged."""
    table = prepare(folder, table, given.seed)
    for setting in grid(given.settings, given.k):
        for draw in range(given.draws):
            about = release(folder, table, setting, draw)
            outcome = about.get("problem") or ("refused by the usual gates" if about["refused"] else "released")
            print(
                f"{table.name}: {setting.method}, k={setting.k}, draw {draw}: {outcome}, {about['seconds']} s",
                flush=True,
            )
    judge = [str(given.judges), "-m", "tests.benchmarks.frontier.judge", str(folder)]
    options = ["--draws", str(given.draws), "--attacks", str(given.attacks), *["--own"] * given.own]
    subprocess.run([*judge, *options], env=os.environ | {"PYTHONPATH": str(REPOSITORY)}, check=True)
    count_broken(folder, table)


def _write(folder: Path, out: Path, own: bool) -> None:
    """All that is known so far."""
    figures = show.collect(folder)
    made = show.summary(figures)
    if own:
        remeasured(made, read(FIGURES)).to_csv(out / "cells.csv", index=False)
        return
    found = show.criteria_of_all(made)
    figures.to_csv(out / "figures.csv", index=False)
    made.to_csv(out / "frontier.csv", index=False)
    made.to_json(out / "frontier.json", orient="records", indent=1)
    found.to_csv(out / "criteria.csv", index=False)
    told = show.text(made, figures) + ("\n" + show.criteria_text(found) if len(found) else "")
    (out / "frontier.txt").write_text(told + "\n")
    cells(made).to_csv(out / "cells.csv", index=False)
    show.draw_map(made, out / "frontier.png")


if __name__ == "__main__":
    main()
