"""Probabilistic record linkage (Fellegi & Sunter, by EM) by splink, beside the attackers that a run has.

    python3 -m venv ~/.cache/anonpipe/linkers && ~/.cache/anonpipe/linkers/bin/pip install splink==5.0.0 pandas
    python -m tests.attacks.linkers [--rows 1000]

splink brings DuckDB and a parser of SQL, and recordlinkage wants pandas before 3: neither is a part of anonpipe. Tables
are the demonstration and those below ANONPIPE_BENCH_DATA (default ../shared). Each record of the original is compared
with each released one: numbers by how many standard deviations they are apart, in levels; categories by being equal.
What agreement says of a pair is learnt without knowing any, and beside it from all true pairs, which is more than any
intruder can know. A record is linked to the likeliest, and of equally likely ones
drawn; in a group of n that nothing else tells apart a link counts 1/n, as in a run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from tests.benchmarks.frontier.tables import Table

JUDGES = Path.home() / ".cache" / "anonpipe" / "linkers" / "bin" / "python"
K = 5
LEVELS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0)
"""Standard deviations within which two numbers agree, level by level."""
_MDAV = ("mask=null", "cluster.method=mdav")
SETTINGS = {
    "noise 0.1 of the variance": ("mask={method: noise, amount: 0.1}",),
    "noise 0.5 of the variance": ("mask={method: noise, amount: 0.5}",),
    "groups, micro_perturbation": _MDAV,
    "groups, centroid": (*_MDAV, "synthesize.method=centroid"),
}
SEED = 1


def likeliest(
    original: pd.DataFrame, released: pd.DataFrame, categories: list[str], own: np.ndarray | None
) -> pd.DataFrame:
    """Of each original record the likeliest released ones, learnt by EM or from all true pairs (`own`: alike in both).

    In the linkers' environment.
    """
    import splink.comparison_level_library as levels
    import splink.comparison_library as comparisons
    from splink import DuckDBAPI, Linker, SettingsCreator

    def compared(name: str) -> Any:
        if name in categories:
            return comparisons.ExactMatch(name)
        near = [levels.AbsoluteDifferenceLevel(name, each * original[name].std()) for each in LEVELS]
        return comparisons.CustomComparison(
            comparison_levels=[levels.NullLevel(name), *near, levels.ElseLevel()], output_column_name=name
        )

    settings = SettingsCreator(
        link_type="link_only",
        comparisons=[compared(name) for name in original if original[name].nunique() > 1],
        blocking_rules_to_generate_predictions=["1=1"],
        probability_two_random_records_match=1.0 / len(released),
        retain_matching_columns=False,
    )
    api = DuckDBAPI()
    frames = (
        api.register(frame.assign(unique_id=np.arange(len(frame)), own=own), dataset_display_name=name)
        for name, frame in (("a_original", original), ("b_released", released))
    )
    linker = Linker(list(frames), settings, log_level=50)
    linker.training.estimate_u_using_random_sampling(max_pairs=1e6, seed=1)
    if own is None:
        linker.training.estimate_parameters_using_expectation_maximisation("1=1")
    else:
        linker.training.estimate_m_from_label_column("own")
    pairs = linker.inference.predict().as_pandas_dataframe()
    best = pairs.groupby("unique_id_l")["match_weight"].transform("max")
    return pairs.loc[pairs["match_weight"] >= best - 1e-9, ["unique_id_l", "unique_id_r"]]


def judged(folder: Path) -> None:
    """The share of right links; in the linkers' environment."""
    warnings.filterwarnings("ignore")
    original, released, told = (
        pd.read_parquet(folder / f"{name}.parquet") for name in ("original", "released", "told")
    )
    categories, own = json.loads((folder / "categories.json").read_text()), told["own"].to_numpy()
    shares = {}
    for name, known in (("by EM", None), ("told of all pairs", own)):
        try:
            shares[name] = _right(likeliest(original, released, categories, known), own, told["size"].to_numpy())
        except ValueError:  # an estimate that comes to nothing
            shares[name] = None
    json.dump(shares, sys.stdout)


def _right(found: pd.DataFrame, own: np.ndarray, sizes: np.ndarray) -> tuple[float, float]:
    """The share of right links, and half of its interval."""
    asked, linked = found["unique_id_l"].to_numpy(), found["unique_id_r"].to_numpy()
    right = (own[asked] == own[linked]) / sizes[asked]
    share = np.bincount(asked, right, len(own)) / np.maximum(np.bincount(asked, minlength=len(own)), 1)
    return float(share.mean()), 1.96 * float(share.std()) / len(own) ** 0.5


def attack(
    folder: Path, table: Table, changes: tuple[str, ...]
) -> tuple[dict[str, float], dict[str, list[float] | None]]:
    """Right links by the attackers of a run, and by splink with half of the interval; None where it gives up."""
    from anonpipe.encoding.row_hash import counted, looked_up
    from anonpipe.job.model import load_job
    from anonpipe.job.plain_yaml import parse_setting
    from anonpipe.pipeline.evaluation.known import coded_positions, links_own
    from anonpipe.pipeline.evaluation.measures import load_assessment
    from anonpipe.pipeline.evaluation.samples import alike_numbers, read_samples
    from anonpipe.pipeline.run import Run, to_the_end
    from anonpipe.propose.propose import propose_job

    table.frame.to_parquet(folder / "data.parquet")
    (folder / "job.yaml").write_text(propose_job(str(folder / "data.parquet"), str(folder / "out"), K))
    measured = ("measure.utility=false", f"measure.queries={len(table.frame)}", "measure.hold_out=0")
    settings = (*table.settings, *measured, "gates={}", *changes)
    job = load_job(folder / "job.yaml", dict(map(parse_setting, settings)))

    def found(run: Run) -> dict[str, float]:
        work, fitted, cut = run.context.work, run.context.fitted, run.context.cut
        original, released, labels = read_samples(work, cut, "original", "released", "labels")
        names = list(fitted.cells.names)
        own = np.arange(cut.rows) if links_own(fitted) else alike_numbers(fitted, original, labels)
        told = pd.DataFrame({"own": own, "size": looked_up(*counted(own), own)})
        frames = {"original": original, "released": released[:, : len(names)]}
        for name, cells in frames.items():
            pd.DataFrame(cells, columns=names).to_parquet(folder / f"{name}.parquet")
        told.to_parquet(folder / "told.parquet")
        (folder / "categories.json").write_text(json.dumps([names[at] for at in coded_positions(fitted)]))
        wanted = (
            "reidentification_rate",
            "rank_linkage.first",
            "mahalanobis_linkage.first",
            "linkage.assigned",
        )
        return {one.name: one.value for one in load_assessment(work).risk if one.name in wanted}

    ours = to_the_end(job, False, lambda _: None, "ignore", found)
    call = [str(JUDGES), "-m", "tests.attacks.linkers", "--judge", str(folder)]
    return ours, json.loads(subprocess.run(call, check=True, stdout=subprocess.PIPE, text=True).stdout)


def main() -> None:
    """Print a line a table and setting."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--only", nargs="*", default=[], help="tables; all without")
    parser.add_argument("--judge", type=Path, help="a folder to judge, in the linkers' environment")
    given = parser.parse_args()
    if given.judge is not None:
        judged(given.judge)
        return
    from tests.benchmarks.frontier.tables import AT_HAND, capped

    for name, load in AT_HAND.items():
        for setting, changes in SETTINGS.items() if not given.only or name in given.only else ():
            with tempfile.TemporaryDirectory() as folder:
                table = load()
                table = replace(table, frame=capped(table.frame, given.rows, SEED))
                ours, theirs = attack(Path(folder), table, changes)
            beside = ", ".join(f"{each} {value:.1%}" for each, value in ours.items())
            told = (
                f"{how} " + ("none" if each is None else "{:.1%} ± {:.1%}".format(*each))
                for how, each in theirs.items()
            )
            print(f"{name:18}{setting:28}{beside}; splink {', '.join(told)}", flush=True)


if __name__ == "__main__":
    main()
