"""Judges all releases of a table that have no figures yet. Runs in the judges' environment.

python -m tests.benchmarks.frontier.judge folder --draws 3 --attacks 200
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tests.benchmarks.frontier.comparable import Kinds, plain, with_relative
from tests.benchmarks.frontier.measures import (
    copies,
    cox_errors,
    membership,
    membership_of_units,
    survival_errors,
    told_apart,
)
from tests.benchmarks.frontier.peers import make_baselines, make_peers

Figures = dict[str, float]

MOST_PREDICATES = 100_000
"""That are tried for those that fit one released row; more takes hours where there are few to be found."""


def of_sdmetrics(original: pd.DataFrame, released: pd.DataFrame, kinds: Kinds) -> Figures:
    """Column shapes (1 - KS, 1 - total variation) and pair trends (correlations, contingencies) of its quality report.

    From its single metrics: the report of version 0.32 leaves out pairs that
    are weakly related in the original, and earlier ones did not.
    """
    from sdmetrics.single_column import KSComplement, TVComplement

    number = {name for name, kind in kinds.items() if kind != "categorical"}
    shapes = [
        (KSComplement if name in number else TVComplement).compute(original[name], released[name]) for name in kinds
    ]
    pairs = [_pair(original, released, pair, number) for pair in combinations(kinds, 2)]
    return {
        "shapes": float(np.nanmean(shapes)),
        "worst_shape": float(np.nanmin(shapes)),
        "pairs": float(np.nanmean(pairs)),
    }


def _pair(original: pd.DataFrame, released: pd.DataFrame, pair: tuple[str, str], number: set[str]) -> float:
    """A correlation where both are numbers, else a contingency in which numbers have ten bins; NaN for a constant."""
    from sdmetrics.column_pairs import ContingencySimilarity, CorrelationSimilarity

    both = original[list(pair)].copy(), released[list(pair)].copy()
    numbers = [name for name in pair if name in number]
    if any(frame[name].nunique() < 2 for frame in both for name in numbers):
        return float("nan")
    if len(numbers) == 2:
        return float(CorrelationSimilarity.compute(*both))
    return float(ContingencySimilarity.compute(*both, continuous_column_names=numbers))


def of_anonymeter(
    original: pd.DataFrame, released: pd.DataFrame, control: pd.DataFrame, kinds: Kinds, secret: str, attacks: int
) -> Figures:
    """Singling out, linkability, inference: success on the original beyond that on the control, and its interval.

    Singling out is tried on as many records of the original as the control has:
    whether one record fits a predicate depends on how many there are, and what
    anonymeter does about that finds a risk of 0.17 to 0.20 in other samples of
    the population (pima, flights). By one column it is not the same again for
    the same tables, as if it had an order of its own each time.
    """
    from anonymeter.evaluators import InferenceEvaluator, LinkabilityEvaluator, SinglingOutEvaluator

    frames = dict(zip(("ori", "syn", "control"), _filled([original, released, control], kinds), strict=True))
    alike = frames | dict(zip(("ori", "control"), _as_many(frames["ori"], frames["control"]), strict=True))
    attacks = min(attacks, len(control))
    names = list(kinds)
    regression = kinds[secret] != "categorical"
    evaluators: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
        "singling": (
            lambda: SinglingOutEvaluator(**alike, n_attacks=attacks, max_attempts=MOST_PREDICATES, seed=0),
            {"mode": "univariate"},
        ),
        "singling_many": (
            lambda: SinglingOutEvaluator(**alike, n_attacks=attacks, n_cols=4, max_attempts=MOST_PREDICATES, seed=0),
            {"mode": "multivariate"},
        ),
        "linkability": (
            lambda: LinkabilityEvaluator(
                **frames, n_attacks=attacks, aux_cols=(names[::2], names[1::2]), n_neighbors=5
            ),
            {"n_jobs": 1},
        ),
        "inference": (
            lambda: InferenceEvaluator(
                **frames,
                n_attacks=attacks,
                aux_cols=[name for name in names if name != secret],
                secret=secret,
                regression=regression,
            ),
            {"n_jobs": 1},
        ),
    }
    figures: Figures = {}
    for name, (make, options) in evaluators.items():
        np.random.seed(0)
        evaluator = make().evaluate(**options)
        risk, rates = evaluator.risk(confidence_level=0.95), evaluator.results(confidence_level=0.95)
        figures |= {name: float(risk.value), f"{name}_low": float(risk.ci[0]), f"{name}_high": float(risk.ci[1])}
        for who, rate in (("attack", rates.attack_rate), ("control", rates.control_rate)):
            figures |= {f"{name}_{who}": rate.value, f"{name}_{who}_error": rate.error}
    return figures


def _as_many(original: pd.DataFrame, control: pd.DataFrame) -> list[pd.DataFrame]:
    """As many different rows of each, drawn at random."""
    different = [frame.drop_duplicates() for frame in (original, control)]
    rows = min(map(len, different))
    return [frame.sample(rows, random_state=0).reset_index(drop=True) for frame in different]


def _filled(frames: list[pd.DataFrame], kinds: Kinds) -> list[pd.DataFrame]:
    """Nulls of numbers at the original's median: its distances know none."""
    numbers = [name for name, kind in kinds.items() if kind != "categorical"]
    return [frame.fillna({name: frames[0][name].median() for name in numbers}) for frame in frames]


@dataclass(frozen=True)
class Case:
    """A release, what it was made of and who was left out, as plain tables; and whose rows they are, where known."""

    original: pd.DataFrame
    released: pd.DataFrame
    control: pd.DataFrame
    table: dict[str, Any]
    attacks: int
    units: dict[str, pd.Series]

    @property
    def kinds(self) -> Kinds:
        return dict(self.table["kinds"])


def _told_apart(case: Case) -> Figures:
    units = case.units.get("original"), case.units.get("released")
    return {"told_apart": told_apart(case.original, case.released, case.kinds, units=units)}


def _told_from_control(case: Case) -> Figures:
    units = case.units.get("control"), case.units.get("released")
    return {"told_from_control": told_apart(case.control, case.released, case.kinds, units=units)}


def _membership(case: Case) -> Figures:
    area, low, high = membership(case.original, case.control, case.released, case.kinds)
    found = {"membership": area, "membership_low": low, "membership_high": high}
    if len(case.units) == 3:
        names = ("original", "control", "released")
        found["membership_units"] = membership_of_units(
            [getattr(case, name) for name in names], [case.units[name] for name in names]
        )
    return found


def _survival(case: Case) -> Figures:
    time, event, by = (case.table[name] for name in ("time", "event", "by"))
    if not time:
        return {}
    whole, worst = survival_errors(case.original, case.released, time, event, by)
    mean, most = cox_errors(case.original, case.released, case.kinds, time, event)
    return {"survival": whole, "survival_by": worst, "cox": mean, "cox_worst": most}


MEASURES: dict[str, Callable[[Case], Figures]] = {
    "shapes": lambda case: of_sdmetrics(case.original, case.released, case.kinds),
    "told_apart": _told_apart,
    "told_from_control": _told_from_control,
    "copies": lambda case: {"copies": copies(case.original, case.released)},
    "membership": _membership,
    "survival": _survival,
    "singling": lambda case: of_anonymeter(
        case.original, case.released, case.control, case.kinds, case.table["secret"], case.attacks
    ),
}
"""By one of the figures that each gives: where it is known, nothing is measured again."""


def judge(folder: Path, about: dict[str, Any], table: dict[str, Any], attacks: int) -> Figures:
    """The figures of a release that are not known yet."""
    names = ("original", "released", "control")
    paths = {name: folder / about.get(name, f"{name}.parquet") for name in names}
    read = {name: with_relative(pd.read_parquet(path), table["weight"]) for name, path in paths.items()}
    units = {name: frame[table["unit"]] for name, frame in read.items() if table["unit"] in frame}
    case = Case(*(plain(frame, table["kinds"]) for frame in read.values()), table, attacks, units)
    figures: Figures = {}
    for name, measure in MEASURES.items():
        if name not in about.get("figures", {}):
            figures |= measure(case)
    return figures


def _known(about: dict[str, Any], table: dict[str, Any]) -> bool:
    expected = [name for name in MEASURES if name != "survival" or table["time"]]
    return all(name in about.get("figures", {}) for name in expected)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--attacks", type=int, default=200)
    parser.add_argument("--own", action="store_true", help="no baselines and no other tools")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    table = json.loads((given.folder / "table.json").read_text())
    with tempfile.TemporaryDirectory(dir=given.folder) as scratch:
        folder = given.folder.resolve()
        os.chdir(scratch)  # some tools leave logs where they are called
        if not given.own:
            make_baselines(folder, given.draws, table["unit"])
            make_peers(folder, table["kinds"], given.draws)
        for told in sorted((folder / "releases").glob("*.json")):
            about = json.loads(told.read_text())
            if "released" not in about or _known(about, table):
                continue
            began = time.perf_counter()
            about["figures"] = about.get("figures", {}) | judge(folder, about, table, given.attacks)
            told.write_text(json.dumps(about))
            print(f"{table['name']}: {told.stem} judged, {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
