"""How often the gates of every run refuse an honest release, table by table, and the smallest deviation they refuse.

    TMPDIR=/dev/shm python -m tests.benchmarks.false_refusals [claims registry …] [--secrets 200] [--fits 10]

Generated tables as `anonpipe init` proposes to release them, with local synthesis; measures off. Each secret draws the
whole release; its mixture, which takes most of the time, serves `--fits` secrets in turn: what a mixture decides is
seen once for all of them, so that few mixtures make a rate uncertain. For each table and gate:
refused secrets; largest, mean and standard deviation of the figure over its limit; the probability of a refusal
by a Gumbel distribution of that mean and deviation, as the figure is the largest of many; and, in the gate's unit,
the deviation that the gate refuses in 95 % of the secrets wherever it points: of half of its entries, and of
nine in ten. `awkward --how pca …` tries other methods on one difficult table.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import yaml
from scipy.stats import beta, norm

from anonpipe import files
from anonpipe.job.model import parse_job
from anonpipe.methods import mixture
from anonpipe.methods.masking import _local_synthesis
from anonpipe.pipeline.run import without_measures
from anonpipe.propose.demo import write_registry
from anonpipe.propose.propose import propose_job
from anonpipe.verify import gates
from anonpipe.verify.catalogue import Check, worst_entry
from tests.unseen.release import Desk
from tests.unseen.tables import TABLES as UNSEEN
from tests.unseen.tables import CodeBook, drawn

Job = dict[str, Any]

AWKWARD: Job = {
    "income": {"kind": "continuous", "bounds": [0, None], "step": 0.01},
    "visits": {"kind": "integer", "bounds": [0, None]},
    "pressure": {"kind": "integer", "bounds": [0, 300]},
    "share": {"kind": "continuous", "bounds": [0, 1], "step": 0.001},
    "halves": {"kind": "continuous", "bounds": [None, None], "step": 1},
    "day": {"kind": "date"},
    "months": {"kind": "continuous", "role": "survival_time", "step": 0.1},
    "status": {"kind": "binary", "role": "survival_status", "event": ["dead"]},
    "site": {"kind": "categorical"},
}
HOW: dict[str, Job] = {
    "groups": {"cluster": {"method": "mdav"}},
    "strata": {"cluster": {"method": "mdav"}, "strata": {"by": ["status"]}},
    "pca": {"synthesize": {"method": "pca", "moments": "expected"}},
    "centroid": {"synthesize": {"method": "centroid"}},
    "local_synthesis": {"mask": {"method": "local_synthesis"}, "strata": {"by": ["status"]}},
    "data_shuffle": {"mask": {"method": "data_shuffle"}},
}


def awkward(rows: int, seed: int = 0) -> pd.DataFrame:
    """Skewed, full of zeros, heaped, bounded with mass at both ends, with nulls, halves, dates and rare places."""
    rng = np.random.default_rng(seed)
    z = rng.multivariate_normal(np.zeros(6), 0.5 * np.eye(6) + 0.5, rows)
    dead = z[:, 5] < -0.25
    frame = pd.DataFrame(
        {
            "income": np.exp(9 + 1.5 * z[:, 0]).round(2),
            "visits": np.floor(np.where(z[:, 1] < 0.25, 0, np.exp(1.5 * z[:, 1]))).astype(int),
            "pressure": 5 * np.rint((120 + 15 * z[:, 2]) / 5),
            "share": np.clip(0.5 + 0.5 * z[:, 3], 0, 1).round(3),
            "halves": np.floor(3 * norm.cdf(z[:, 0]) + rng.random(rows) * 4) + 0.5,
            "day": pd.Timestamp("2000-01-01") + pd.to_timedelta((3000 * norm.cdf(z[:, 2])).astype(int), unit="D"),
            "months": np.round(np.exp(3 + z[:, 4]) * np.where(dead, 1, 2), 1),
            "status": np.where(dead, "dead", "alive"),
            "site": rng.choice(["a", "b", "c", "d"], rows, p=[0.6, 0.3, 0.08, 0.02]),
        }
    )
    frame.loc[[7, 11], "income"] = [9.9e6, 4.8e6]
    frame.loc[rng.random(rows) < 0.1, "pressure"] = np.nan
    return frame


def amounts(rng: np.random.Generator, rows: int) -> pd.DataFrame:
    """Costs of a year, of which most are 0: kinds of costs that go together, counts of them, and their sum."""
    need = rng.normal(size=rows)
    frame = pd.DataFrame({"age": np.clip(50 + 15 * need + 12 * rng.normal(size=rows), 0, 99).astype(int)})
    for name, share in (("drugs", 0.6), ("doctor", 0.5), ("hospital", 0.1), ("nursing", 0.04)):
        wanted = 0.7 * need + 0.7 * rng.normal(size=rows) > norm.ppf(1 - share)
        frame[f"{name}_visits"] = np.where(wanted, 1 + rng.poisson(np.exp(0.4 * need)), 0)
        frame[name] = np.round(frame[f"{name}_visits"] * rng.lognormal(4.0, 0.8, rows), 2)
    return frame.assign(total=frame[["drugs", "doctor", "hospital", "nursing"]].sum(axis=1))


def survey(rng: np.random.Generator, rows: int) -> pd.DataFrame:
    """Sixteen columns: districts inside regions, six answers from 1 to 5, wages with zeros, weights."""
    region, trait = rng.integers(0, 4, rows), rng.normal(size=(rows, 2))
    age = rng.integers(16, 95, rows)
    frame = pd.DataFrame({"region": np.array(["N", "E", "S", "W"])[region], "age": age})
    frame["district"] = frame["region"] + rng.integers(1, 4, rows).astype(str)
    frame["sex"] = rng.choice(["f", "m"], rows)
    frame["school"] = np.where(age < 18, "pupil", rng.choice(["low", "mid", "high"], rows, p=[0.3, 0.4, 0.3]))
    frame["work"] = np.where(age > 66, "retired", rng.choice(["employed", "home", "other"], rows, p=[0.7, 0.2, 0.1]))
    for at in range(6):
        answer = 1 + np.digitize(1.2 * trait[:, at % 2] + rng.normal(size=rows), [-1.6, -0.5, 0.4, 1.5])
        frame[f"answer_{at}"] = pd.Series(answer).mask(rng.random(rows) < 0.03).astype("Int64")
    frame["hours"] = np.where(frame["work"] == "employed", rng.choice([20, 30, 40], rows, p=[0.2, 0.2, 0.6]), 0)
    frame["wage"] = np.round(frame["hours"] * rng.lognormal(4.0, 0.4, rows), -1).astype(int)
    frame["children"] = rng.poisson(np.where(age < 25, 0.1, 1.2))
    return frame.assign(weight=np.round(rng.lognormal(0.0, 0.4, rows) * (1 + (region == 2)), 3))


def wide(rng: np.random.Generator, rows: int) -> pd.DataFrame:
    """The wide table with fewer columns: more would tell who is in it."""
    whole = UNSEEN["wide"].draw(rng, rows)
    return whole[[*whole.columns[:24], *whole.columns[40:47]]]


def hormones(rng: np.random.Generator, rows: int) -> pd.DataFrame:
    """A blood test that is missing as a whole, with a quotient of two of its values, and rare findings."""
    state = rng.choice([0.0, 1.2, -1.2], rows, p=[0.92, 0.03, 0.05])
    thyroxine = np.exp(4.65 + 0.25 * rng.normal(size=rows) + 0.4 * state)
    uptake = np.exp(0.18 * rng.normal(size=rows) + 0.1 * rng.choice([0, 3], rows, p=[0.93, 0.07]))
    stimulating = np.exp(0.3 + 0.9 * rng.normal(size=rows) - 2.0 * state)
    tested = rng.random(rows) > 0.08
    frame = pd.DataFrame({"age": np.clip(rng.normal(52, 19, rows), 1, 94).astype(int)})
    frame["sex"] = rng.choice(["F", "M"], rows, p=[0.69, 0.31])
    for name, share in (("on_thyroxine", 0.12), ("sick", 0.04), ("pregnant", 0.015), ("tumour", 0.025)):
        frame[name] = np.where(rng.random(rows) < share * np.exp(-0.5 * state), "t", "f")
    frame["TSH"] = pd.Series(stimulating.round(2)).mask(rng.random(rows) < 0.1)
    frame["T3"] = pd.Series(np.exp(0.65 + 0.3 * rng.normal(size=rows) + 0.3 * state).round(1)).mask(
        rng.random(rows) < 0.2
    )
    frame["TT4"] = pd.Series(thyroxine.round()).where(tested)
    frame["T4U"] = pd.Series(uptake.round(2)).where(tested)
    frame["FTI"] = (frame["TT4"] / frame["T4U"]).round()
    frame["class"] = np.where(state < 0, "hypothyroid", np.where(state > 0, "hyperthyroid", "negative"))
    return frame


def proposed(frame: pd.DataFrame, book: CodeBook) -> tuple[pd.DataFrame, Job]:
    """A table with the job that `anonpipe init` proposes for it, filled in by its code book."""
    with tempfile.TemporaryDirectory() as name, at_home(Path(name)):
        data = Path(name) / "data.parquet"
        frame.to_parquet(data)
        text = propose_job(str(data), str(Path(name) / "release"), 5)
        desk = Desk(yaml.safe_load(text), data, book)
        desk.fill_in(text)
        return pd.read_parquet(data), {"k": 5, **_without_measures(desk.content)}


def _without_measures(job: Job) -> Job:
    kept = {key: value for key, value in job.items() if key not in ("input", "output", "gates")}
    return kept | {"measure": {"utility": False, "risk": False, "hold_out": 0}}


def _unseen(name: str, size: int, seed: int) -> tuple[pd.DataFrame, Job]:
    return proposed(drawn(name, 1 + seed, size).original, UNSEEN[name].book)


def _made(draw: Callable[[np.random.Generator, int], pd.DataFrame], rows: int, seed: int) -> tuple[pd.DataFrame, Job]:
    return proposed(draw(np.random.default_rng(seed), rows), CodeBook([]))


def _registry(rows: int, seed: int) -> tuple[pd.DataFrame, Job]:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "registry.parquet"
        write_registry(path, rows=20 * rows)
        frame = pd.read_parquet(path).iloc[seed * rows : (seed + 1) * rows].reset_index(drop=True)
    return proposed(frame, CodeBook([], event=["Dead"]))


def _awkward(rows: int, seed: int) -> tuple[pd.DataFrame, Job]:
    return awkward(rows, seed), _without_measures({"k": 5, "columns": AWKWARD, **HOW["local_synthesis"]})


TABLES: dict[str, Callable[[int], tuple[pd.DataFrame, Job]]] = {
    "claims": lambda seed: _unseen("claims", 3_000, seed),
    "households": lambda seed: _unseen("households", 2_000, seed),
    "panel": lambda seed: _unseen("panel", 600, seed),
    "likert": lambda seed: _unseen("likert", 1_500, seed),
    "heaped": lambda seed: _unseen("heaped", 3_000, seed),
    "customers": lambda seed: _unseen("customers", 2_000, seed),
    "laboratory": lambda seed: _unseen("laboratory", 3_000, seed),
    "hormones": lambda seed: _made(hormones, 2_800, seed),
    "amounts": lambda seed: _made(amounts, 2_500, seed),
    "survey": lambda seed: _made(survey, 3_000, seed),
    "wide": lambda seed: _made(wide, 4_000, seed),
    "registry": lambda seed: _registry(1_000, seed),
    "awkward": lambda seed: _awkward(600, seed),
}


@contextmanager
def at_home(folder: Path, secret: int = 0) -> Iterator[None]:
    """A steward's own folder and secret."""
    key = hashlib.sha256(f"false refusals {secret}".encode()).hexdigest()
    with mock.patch.dict(os.environ, {"ANONPIPE_HOME": str(folder / "home"), "ANONPIPE_SECRET": key}):
        yield


class Fits:
    """What mixtures and latent classes were found by the calls of a run, and are found again by those of the next."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, int], Any] = {}

    @contextmanager
    def kept(self) -> Iterator[None]:
        """For the time of a run."""
        of_categories, of_numbers = _local_synthesis.fit_categories, mixture.select
        with (
            mock.patch.object(_local_synthesis, "fit_categories", self._once(of_categories)),
            mock.patch.object(mixture, "select", self._once(of_numbers)),
        ):
            yield

    def _once(self, function: Callable[..., Any]) -> Callable[..., Any]:
        calls = itertools.count()

        def found(*args: Any, **given: Any) -> Any:
            key = function.__name__, next(calls)
            if key not in self.found:
                self.found[key] = function(*args, **given)
            return self.found[key]

        return found


def farthest(released: Any, original: Any, *known: Any) -> Any:
    """How far released moments are from the farther end of what is known."""
    ends = np.stack([original, *known])
    off = np.maximum(ends.max(axis=0) - released, released - ends.min(axis=0))
    return np.where(np.isnan(released) & np.isnan(original), 0.0, off)


def checked(data: Path, job: Job, secret: int, fits: Fits) -> tuple[tuple[Check, ...], dict[str, Any]]:
    """The checks of a run with its own secret, and what each of several entries may be off, by gate."""
    entries: dict[str, Any] = {}
    of_written = gates._written

    def seen(key: str, measured: Any, limit: Any, *rest: Any, **given: Any) -> Check:
        entries.setdefault(key, (measured + limit).ravel())
        return worst_entry(key, measured, limit, *rest, **given)

    def written(*given: Any) -> list[Check]:
        with mock.patch.object(gates, "_beyond", farthest):  # a deviation may point across what is known
            of_written(*given)
        return of_written(*given)

    with (
        tempfile.TemporaryDirectory() as name,
        at_home(Path(name), secret),
        mock.patch.object(gates, "worst_entry", seen),
        mock.patch.object(gates, "_written", written),
        mock.patch.object(files, "sync_path", lambda *_: None),
        fits.kept(),
    ):
        whole = parse_job({"input": str(data), "output": str(Path(name) / "out"), **job})
        return without_measures(whole, lambda _: None)[0].checks, entries


def upper_end(refused: int, runs: int) -> float:
    """Of the one-sided 95 % interval of a rate (Clopper and Pearson).

    Examples
    --------
    >>> round(upper_end(0, 200), 4)
    0.0149
    """
    return float(beta.ppf(0.95, refused + 1, runs - refused)) if refused < runs else 1.0


def beyond_one(ratios: Any) -> float:
    """Probability that a Gumbel variable of the mean and deviation of some ratios is above 1.

    Examples
    --------
    >>> f"{beyond_one([0.4, 0.5, 0.6]):.1e}"
    '9.2e-04'
    """
    scale = float(np.std(ratios, ddof=1)) * np.sqrt(6.0) / np.pi
    if scale <= 0.0:
        return float(np.mean(ratios) > 1.0)
    return float(-np.expm1(-np.exp(-(1.0 - np.mean(ratios)) / scale - np.euler_gamma)))


LINE = "{:<12} {:<28} {:>7} {:>8} {:>7} {:>7} {:>9} {:>9} {:>9}"


def count(name: str, data: Path, job: Job, secrets: range, fits: int) -> int:
    """Print a line a gate; how many secrets were refused by any."""
    ratios, entries, refused = defaultdict(list), defaultdict(list), 0
    each_fits = [Fits() for _ in secrets[::fits]]
    for at, secret in enumerate(secrets):
        checks, found = checked(data, job, secret, each_fits[at // fits])
        refused += any(check.blocks for check in checks)
        for check in checks:
            if check.limit is not None and (check.key in found or check.blocks):
                ratios[check.key].append(check.ratio)
        for key, each in found.items():
            entries[key].append(each)
    for key, each in ratios.items():
        power = np.quantile(entries[key], 0.95, axis=0) if key in entries else np.array([np.nan])
        if not power.size or max(each) == 0.0:
            continue
        shown = f"{max(each):.2f}", f"{np.mean(each):.2f}", f"{np.std(each):.3f}", f"{beyond_one(each):.1e}"
        sizes = f"{np.quantile(power, 0.5):.3f}", f"{np.quantile(power, 0.9):.3f}"
        print(LINE.format(name, key, sum(ratio > 1 for ratio in each), *shown, *sizes), flush=True)
    return refused


def main() -> None:
    """Count, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []], default=[*TABLES])
    parser.add_argument("--secrets", type=int, default=200)
    parser.add_argument("--fits", type=int, default=10, help="secrets that a mixture serves")
    parser.add_argument("--rows", type=int, help="of each table at most, its first ones")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0, help="of the tables")
    parser.add_argument("--how", choices=tuple(HOW), help="of the table awkward, in place of local synthesis")
    parser.add_argument("--job", type=yaml.safe_load, default={}, help="keys of the job to set, as YAML")
    given = parser.parse_args()
    secrets = range(given.first, given.first + given.secrets)
    print(LINE.format("table", "gate", "refused", "largest", "mean", "sd", "p", "refuses", "90 %"))
    for name in given.tables:
        frame, job = TABLES[name](given.seed)
        if given.how and name == "awkward":
            job = _without_measures({"k": 5, "columns": AWKWARD, **HOW[given.how]})
        with tempfile.TemporaryDirectory() as folder:
            frame.iloc[: given.rows].to_parquet(data := Path(folder) / "data.parquet")
            begun, refused = time.process_time(), count(name, data, job | given.job, secrets, given.fits)
        rate = f"at most {upper_end(refused, len(secrets)):.2%}"
        seconds = (time.process_time() - begun) / len(secrets)
        drawn_from = f"{len(secrets)} secrets, {len(secrets[:: given.fits])} mixtures"
        told = f"{refused} of {drawn_from} refused, {rate} (95 %); {seconds:.1f} s each"
        print(f"{name}: {len(frame.iloc[: given.rows]):,} rows, {told}", flush=True)


if __name__ == "__main__":
    main()
