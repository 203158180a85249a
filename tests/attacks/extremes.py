"""The attack on extremes: the largest incomes of a table, one of them known from the newspapers.

A table of incomes as they are: lognormal, with one of 98,765,432. Who knows it looks for the released record that
is nearest; the released income that is nearest to the true one is compared with it. Counted over all records,
the persons who stand out do not show.

Three alike are too many for a rule on one: who knows that there are three adds up the k largest released incomes,
takes off what k - 3 others of the next one's size have, and has their sum; of
one alike.

`python -m tests.attacks.extremes`
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from anonpipe.job.model import Job
from anonpipe.pipeline.arrays import released_rows
from anonpipe.pipeline.evaluation.measures import load_assessment
from anonpipe.pipeline.run import Run
from anonpipe.types import FloatArray
from tests import small
from tests.attacks.runs import looked_into

ROWS, K, KNOWN = 4_000, 5, 98_765_432.0
ALIKE = (KNOWN, 87_654_321.0, 76_543_210.0)
COLUMNS: dict[str, Any] = {
    "income": {"kind": "continuous", "bounds": [0, None]},
    "wealth": {"kind": "continuous"},
    "age": {"kind": "integer", "bounds": [18, 100]},
    "region": {"kind": "categorical"},
}

SETTINGS: dict[str, dict[str, Any]] = {
    "centroid, extremes kept": {"transform": "none keep", "synthesize": {"method": "centroid"}},
    "micro_perturbation, extremes kept": {"transform": "none keep", "synthesize": {"method": "micro_perturbation"}},
    "centroid, values as they are": {"transform": "none", "synthesize": {"method": "centroid"}},
    "micro_perturbation, values as they are": {"transform": "none", "synthesize": {"method": "micro_perturbation"}},
    "centroid, logarithms, extremes kept": {"transform": "log keep", "synthesize": {"method": "centroid"}},
    "centroid, logarithms": {"transform": "log", "synthesize": {"method": "centroid"}},
    "micro_perturbation": {"synthesize": {"method": "micro_perturbation"}},
    "micro_perturbation, k=20": {"k": 20, "synthesize": {"method": "micro_perturbation"}},
    "local_synthesis": {"mask": {"method": "local_synthesis"}},
}


class Found(NamedTuple):
    """What the attack finds; NaN where no released record stands for a person or a group."""

    everyone: float
    outer: float
    furthest: float
    known_off: float

    def __str__(self) -> str:
        return (
            f"linked: all {self.everyone:5.1%}, outermost 1 % of a column {self.outer:5.1%}, outermost 1 % "
            f"of all columns {self.furthest:5.1%}; nearest released to the known income {self.known_off:.1%} off"
        )


def incomes(rows: int = ROWS, seed: int = 1, known: tuple[float, ...] = (KNOWN,)) -> pa.Table:
    """Incomes and wealth that go together, and some that everybody knows."""
    rng = np.random.default_rng(seed)
    income = rng.lognormal(10.0, 1.0, rows)
    income[7 : 7 + len(known)] = known
    columns = {
        "income": income,
        "wealth": income * rng.lognormal(0.0, 1.5, rows) - 20_000.0,
        "age": rng.integers(18, 100, rows),
        "region": rng.choice(["north", "south", "west"], rows),
    }
    return pa.table(columns)


def attack(job: Job) -> Found:
    """Run the job, whatever its verdict, and look for those who stand out."""

    def found(run: Run) -> Found:
        context = run.context
        risks = {one.name: one for one in load_assessment(context.work).risk}
        outer, far = risks.get("tails.columns_1"), risks.get("tails.together_1")
        off = float(np.abs(_released_incomes(run) / KNOWN - 1.0).min())
        if outer is None or far is None or outer.baseline is None:
            return Found(np.nan, np.nan, np.nan, off)
        return Found(outer.baseline, outer.value, far.value, off)

    return looked_into(job, found)


def together(job: Job, known: tuple[float, ...] = ALIKE) -> float:
    """How far off, as a share, is the sum of those known that is worked out from the largest released incomes.

    Where logarithms are averaged by their product, and as many alike.
    """
    logarithms = job.columns["income"].transform == "log"

    def found(run: Run) -> float:
        *largest, border = np.sort(_released_incomes(run))[::-1][: job.k + 1]
        worked_out = sum(largest) - (job.k - len(known)) * border
        if logarithms:
            worked_out = len(known) * border * float(np.prod(np.divide(largest, border)) ** (1.0 / len(known)))
        return float(abs(worked_out / sum(known) - 1.0))

    return looked_into(job, found)


def _released_incomes(run: Run) -> FloatArray:
    """Of all rows."""
    context = run.context
    at, places = context.fitted.cells.names.index("income"), range(len(context.cut.partitions))
    rows = [released_rows(context.work, context.fitted, context.cut, place)[:, at] for place in places]
    return np.concatenate(rows)


def setting(folder: Path, table: pa.Table, transform: str | None = None, **changes: Any) -> Job:
    """A job with these methods; behind the transform may stand `keep`, for extremes."""
    scale, *kept = (transform or "normal_scores").split()
    numbers = {"none": ("income", "wealth", "age"), "log": ("income",)}.get(scale, ())
    said: dict[str, Any] = (
        {"transform": scale} | ({"extremes": "keep"} if kept else {}) | ({"step": 1} if scale == "log" else {})
    )
    columns = {name: one | (said if name in numbers else {}) for name, one in COLUMNS.items()}
    measure = {"utility": False, "risk": True, "queries": table.num_rows}
    usual = {"k": K, "measure": measure, "partition": {"rows": 5_000}}
    return small.job(folder, table, columns, **small.as_usual(**{**usual, **changes}))


def main() -> None:
    """Print a line a setting."""
    table, three = incomes(), incomes(known=ALIKE)
    print(f"{ROWS} incomes, one of {KNOWN:,.0f} among them; k={K} where not said")
    for name, changes in SETTINGS.items():
        with tempfile.TemporaryDirectory() as folder:
            print(f"{name:40}", attack(setting(Path(folder), table, **changes)), flush=True)
        with tempfile.TemporaryDirectory() as folder:
            off = together(setting(Path(folder), three, **changes))
        with tempfile.TemporaryDirectory() as folder:
            alone = together(setting(Path(folder), table, **changes), (KNOWN,))
        print(f"{'':40} the same of one {alone:.1%} off, sum of three alike {off:.1%} off", flush=True)


if __name__ == "__main__":
    main()
