"""Coverage of nominal 95 % intervals from releases of simulated populations, by the rules of `anonpipe.combine`.

python -m tests.benchmarks.coverage RESULTS.jsonl [POPULATIONS] [COPIES] [ROWS]

Each population of ROWS persons, or of 400 to 1,000, is drawn from a known law, released in several copies by the
default mask (without roles, and as `init` proposes it for a survival time) and in groups, and analysed: on the
original, on one copy as if it were the original (`naive`), and on all copies by both rules. RESULTS grows by a line a
population, so that a stopped run goes on where it stopped; the table is of all lines.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from anonpipe import anonymize, combine
from anonpipe.evaluate.utility._design import Design
from anonpipe.evaluate.utility._models import solve
from anonpipe.rng import trial_secret

RESPONSES = {"linear": "score", "logistic": "ill", "cox": "months"}
LAW = {"x": (0.5, 0.6, 0.4), "female": (0.4, -0.5, -0.3), "stage": (0.3, 0.4, 0.35)}
COLUMNS = {
    "x": {"kind": "continuous"},
    "score": {"kind": "continuous"},
    "months": {"kind": "continuous", "bounds": [0, None]},
    **{name: {"kind": "integer"} for name in ("female", "ill", "dead")},
    "stage": {"kind": "integer", "bounds": [0, 2]},
}
METHODS: dict[str, dict[str, Any]] = {
    "local synthesis": {"mask": {"method": "local_synthesis"}},
    "by status": {
        "mask": {"method": "local_synthesis"},
        "columns": COLUMNS
        | {
            "months": COLUMNS["months"] | {"role": "survival_time"},
            "dead": {"kind": "binary", "role": "survival_status", "event": [1]},
        },
        "strata": {"by": ["dead"]},
    },
    "groups": {"cluster": {"method": "mdav"}, "synthesize": {"method": "micro_perturbation"}},
}
MEANS = {"mean of score": 1.0 + 0.4 * 0.5 + 0.3 * 0.8, "mean of x": 0.0}


def population(rng: np.random.Generator, rows: int) -> pd.DataFrame:
    """Persons of the law."""
    x, female, stage = rng.normal(size=rows), rng.random(rows) < 0.5, rng.choice(3, rows, p=[0.4, 0.4, 0.2])
    score, logit, hazard = (LAW["x"][at] * x + LAW["female"][at] * female + LAW["stage"][at] * stage for at in range(3))
    time, until = rng.exponential(np.exp(-hazard)) * 20.0, rng.uniform(5.0, 60.0, rows)
    return pd.DataFrame(
        {
            "x": x,
            "score": 1.0 + score + rng.normal(size=rows),
            "months": np.minimum(time, until),
            "female": female.astype(int),
            "ill": (rng.random(rows) < 1 / (1 + np.exp(0.5 - logit))).astype(int),
            "dead": (time <= until).astype(int),
            "stage": stage,
        }
    )


def estimates(frame: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """Of each quantity estimate and variance."""
    found = {f"mean of {name}": (frame[name].mean(), frame[name].var() / len(frame)) for name in ("score", "x")}
    share = frame["ill"].mean()
    found["share of ill"] = (share, share * (1 - share) / len(frame))
    names, events = tuple(LAW), frame["dead"].to_numpy(bool)
    predictors = frame[list(names)].to_numpy(float)
    for model, response in RESPONSES.items():  # arrays, as formulas cost three times the fits
        given, called = (predictors, names) if model == "cox" else (_with_constant(predictors), ("1", *names))
        fit = solve(model, Design(frame[response].to_numpy(float), given, called, called, events, 0))
        of_each = zip(called, fit.coefficients, np.square(fit.errors), strict=True)
        found |= {f"{model} {name}": (value, variance) for name, value, variance in of_each if name in LAW}
    return {name: (float(value), float(variance)) for name, (value, variance) in found.items()}


def _with_constant(predictors: Any) -> Any:
    return np.column_stack([np.ones(len(predictors)), predictors])


def truth() -> dict[str, float]:
    """The same of the law; the share by a million persons."""
    ill = population(np.random.default_rng(0), 1_000_000)["ill"].mean()
    of_models = {f"{model} {name}": LAW[name][at] for at, model in enumerate(RESPONSES) for name in LAW}
    return MEANS | {"share of ill": ill} | of_models


def one_population(seed: int, copies: int, rows: int | None) -> dict[str, Any]:
    """What is estimated of a population; None of a method whose release was refused."""
    rng = np.random.default_rng(seed)
    frame = population(rng, rows or int(rng.integers(400, 1001)))
    found: dict[str, Any] = {"seed": seed, "original": estimates(frame)}
    job = {"k": 5, "columns": COLUMNS, "measure": {"utility": False, "risk": False, "hold_out": 0}}
    job |= {"release": {"copies": copies}, "gates": {"membership_auc": None, "unchanged_record_rate": 1}}
    for name, method in METHODS.items():
        with trial_secret(rng.bytes(32)):
            released = anonymize(frame, job | method).table
        split = None if released is None else [estimates(part) for _, part in released.groupby("copy")]
        found[name] = split
    return found


def covered(lines: list[dict[str, Any]]) -> pd.DataFrame:
    """By quantity: coverage in per cent, b / u, and the bias beside the original in standard errors."""
    true, rows = truth(), []
    for name, value in true.items():
        row: dict[str, Any] = {"quantity": name}
        row["original"] = _share([_in(value, combine([q], [u])) for q, u in (line["original"][name] for line in lines)])
        for method in METHODS:
            of_copies = [np.array([copy[name] for copy in line[method]]).T for line in lines if line[method]]
            row[f"{method}: naive"] = _share([_in(value, combine(q[:1], u[:1])) for q, u in of_copies])
            row[f"{method}: u + b/m"] = _share([_in(value, combine(q, u)) for q, u in of_copies])
            row[f"{method}: (1+1/m)b - u"] = _share([_in(value, combine(q, u, rule="full")) for q, u in of_copies])
            own = [line["original"][name] for line in lines if line[method]]
            bias = [
                (q.mean() - of_all) / variance**0.5 for (q, _), (of_all, variance) in zip(of_copies, own, strict=True)
            ]
            row[f"{method}: bias"] = round(float(np.mean(bias)), 2)
            row[f"{method}: b/u"] = round(float(np.median([q.var(ddof=1) / u.mean() for q, u in of_copies])), 3)
        rows.append(row)
    return pd.DataFrame(rows).set_index("quantity")


def _in(value: float, found: Any) -> bool:
    low, high = found.interval()
    return bool(low <= value <= high)


def _share(hits: list[bool]) -> float:
    return round(100 * float(np.mean(hits)), 1)


def main() -> None:
    os.fsync = lambda handle: None  # nothing here must outlive a power cut
    folder = tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
    tempfile.tempdir = folder.name  # with a home of its own: no log of other releases is read each time
    os.environ |= {"ANONPIPE_HOME": f"{folder.name}/home", "ANONPIPE_STAGING": f"{folder.name}/staging"}
    path = Path(sys.argv[1])
    wanted, copies, rows = (int(sys.argv[at]) if len(sys.argv) > at else by for at, by in ((2, 500), (3, 3), (4, 0)))
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {line["seed"] for line in lines}
    with path.open("a") as out:
        for seed in range(wanted):
            if seed not in done:
                lines.append(one_population(seed, copies, rows or None))
                print(json.dumps(lines[-1]), file=out, flush=True)
    print(f"{len(lines)} populations; refused: { {m: sum(not line[m] for line in lines) for m in METHODS} }")
    with pd.option_context("display.width", 240, "display.max_columns", 20):
        print(covered(lines))


if __name__ == "__main__":
    main()
