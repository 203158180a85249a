"""What each defence costs: utility of releases without and with it, each of several tables under secrets of their own.

    python -m tests.benchmarks.defences [--rows 3000] [--secrets 5] [--only units ...]

The tables are those of `beside_chance`, without the date. Of units each person has four rows, whose income, blood
pressure and share differ a little. Figures hold the released values against the original ones, whatever a defence has
made of these before the method saw them: the furthest column, pair and survival curve, 1 being what chance allows,
and the largest move of a mean, in standard deviations. Behind ± half of a 95 % interval over secrets. Defences that
no job can leave out are taken out by hand here.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from scipy import stats

from anonpipe import anonymize
from anonpipe.encoding.rare import Suppression
from anonpipe.types import FloatArray
from tests.benchmarks.beside_chance import COLUMNS as EVERY
from tests.benchmarks.beside_chance import OPEN, compared, table, with_transform

K = 5
COLUMNS = {name: one for name, one in EVERY.items() if name != "day"}  # it follows from another column
FIGURES = ("column_shapes", "pair_shapes", "survival_curves")
GIANTS = (98.8e6, 87.7e6, 76.5e6)
Made = Callable[[int, int], pd.DataFrame]
Without = Callable[[], contextlib.AbstractContextManager[Any]]


@dataclass(frozen=True)
class Setting:
    """A line of the table.

    Attributes
    ----------
    name
        What it is called.
    made
        The table of so many rows and a seed.
    changes
        Of the job.
    columns
        Of each column that another one than `COLUMNS` says, or that is added, what is said.
    transform
        Of all masked numbers and dates.
    without
        Takes out what no job leaves out.
    """

    name: str
    made: Made = table
    changes: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    transform: str = "normal_scores"
    without: Without = contextlib.nullcontext


def visits(rows: int, seed: int) -> pd.DataFrame:
    """Four rows a person."""
    rng, one = np.random.default_rng(seed), table(rows // 4, seed)
    many = one.loc[one.index.repeat(4)].reset_index(drop=True)
    many["income"] = (many["income"] * np.exp(rng.normal(0.0, 0.2, len(many)))).round(2)
    many["pressure"] = 5 * np.rint((many["pressure"] + rng.normal(0.0, 5.0, len(many))) / 5)
    many["share"] = np.clip(many["share"] + rng.normal(0.0, 0.1, len(many)), 0, 1).round(3)
    return many.assign(person=np.repeat(np.arange(len(one)), 4))


def of_many_sites(rows: int, seed: int) -> pd.DataFrame:
    """Sixty sites, of which many have few records."""
    site = np.minimum(np.random.default_rng(seed).exponential(8.0, rows).astype(int), 59)
    return table(rows, seed).assign(site=[f"s{each}" for each in site])


def with_giants(rows: int, seed: int) -> pd.DataFrame:
    """Three incomes that stand far apart, in a table of others."""
    frame = table(rows, seed)
    frame.loc[[7, 11, 13], "income"] = GIANTS
    return frame


def numbered(rows: int, seed: int) -> pd.DataFrame:
    """A register, whose persons have numbers."""
    frame = table(rows, seed)
    return frame.assign(person=np.arange(len(frame)))


@contextlib.contextmanager
def rare_kept() -> Iterator[None]:
    """Categories of few are released."""

    def nothing(scan: Any, *given: Any) -> tuple[Any, Suppression, list[str]]:
        return scan, Suppression({}, {}), []

    with mock.patch("anonpipe.pipeline.resolve.suppress_rare", nothing):
        yield


def giants_kept() -> contextlib.AbstractContextManager[Any]:
    """By normal scores nothing is drawn in: no share is too small."""
    return mock.patch("anonpipe.encoding.quantiles.DOMINANCE", 0.0)


UNIT, NUMBER = {"person": {"role": "unit"}}, {"person": {"role": "identifier"}}
WHOLE = {"cluster": {"method": "mdav", "units": "whole"}}
KEPT = {"income": {"extremes": "keep"}}
COARSE = {"income": {"step": 1_000}, "months": {"step": 1}, "share": {"step": 0.05}}
LOCAL = {"mask": {"method": "local_synthesis"}}

DEFENCES: dict[str, tuple[Setting, ...]] = {
    "units": (
        Setting("*k* counts rows", visits, {"rows_per_unit": "many"}, NUMBER),
        Setting("*k* counts units (`role: unit`)", visits, {}, UNIT),
        Setting("units whole besides", visits, WHOLE, UNIT),
    ),
    "links": (
        Setting("groups of 5"),
        Setting("groups of 20", changes={"k": 20}),
        Setting("`local_synthesis`", changes=LOCAL),
    ),
    "rare": (
        Setting("sixty sites: rare ones released", of_many_sites, without=rare_kept),
        Setting("rare ones suppressed", of_many_sites),
    ),
    "giants": (
        Setting("no giants: kept", without=giants_kept),
        Setting("no giants: drawn in"),
        Setting("three giants: kept", with_giants, without=giants_kept),
        Setting("three giants: drawn in", with_giants),
    ),
    "own scale": (
        Setting("`transform: none`, no giants: kept", columns=KEPT, transform="none"),
        Setting("no giants: drawn in", transform="none"),
        Setting("three giants: kept", with_giants, columns=KEPT, transform="none"),
        Setting("three giants: drawn in", with_giants, transform="none"),
    ),
    "growing": (
        Setting("exact counts", numbered, LOCAL, NUMBER),
        Setting("`repeat.growing`", numbered, LOCAL | {"repeat": {"growing": True}}, NUMBER),
    ),
    "rounding": (Setting("steps as they are"), Setting("income in 1,000, months, twentieths", columns=COARSE)),
}


def figures(setting: Setting, rows: int, seed: int) -> FloatArray:
    """Of one table and secret the furthest column, pair and curve, and the largest move of a mean; NaN if refused."""
    os.environ["ANONPIPE_SECRET"] = hashlib.sha256(f"defences {seed}".encode()).hexdigest()
    old, plain = setting.made(rows, seed).drop(columns="day"), with_transform(COLUMNS, setting.transform)
    columns = plain | {name: plain.get(name, {}) | dict(told) for name, told in setting.columns.items()}
    gates = OPEN | {"rows_under_k": 10**9, "variance_in_unit": 99.0}
    job: dict[str, Any] = {"k": K, "columns": columns, "gates": gates}
    job |= {"measure": {"utility": False, "risk": False}, "strata": {"by": ["status"], "small": "merge"}}
    job |= {} if "mask" in setting.changes else {"cluster": {"method": "mdav"}}
    with setting.without():
        new = anonymize(old, job | dict(setting.changes)).table
    if new is None:
        return np.full(len(FIGURES) + 1, np.nan)
    old = old[list(COLUMNS)]
    found = compared(old, new, COLUMNS, K, seed)
    return np.array([*(found[name].value for name in FIGURES), _moved(old, new)])


def _moved(old: pd.DataFrame, new: pd.DataFrame) -> float:
    """The largest move of the mean of a number."""
    names = [name for name, one in COLUMNS.items() if one["kind"] in ("continuous", "integer")]
    return float(((new[names].mean() - old[names].mean()).abs() / old[names].std()).max())


def line(setting: Setting, rows: int, secrets: int) -> str:
    """A line of the page's table."""
    every = np.array([figures(setting, rows, seed) for seed in range(secrets)])
    there = every[~np.isnan(every).any(axis=1)]
    half = stats.t.ppf(0.975, max(1, len(there) - 1)) * there.std(axis=0, ddof=1) / np.sqrt(len(there))
    told = [f"{mean:.2f} ± {reach:.2f}" for mean, reach in zip(there.mean(axis=0), half, strict=True)]
    told[-1] = f"{there[:, -1].mean():.4f} ± {half[-1]:.4f}"
    refused = "" if len(there) == secrets else f" ({secrets - len(there)} refused)"
    return f"| {setting.name}{refused} | {' | '.join(told)} |"


def main() -> None:
    """Print a line a setting."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=3_000)
    parser.add_argument("--secrets", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=list(DEFENCES), default=list(DEFENCES))
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    print("| setting | columns | pairs | survival curves | largest move of a mean, sd |\n|---|---|---|---|---|")
    for name in given.only:
        for setting in DEFENCES[name]:
            print(line(setting, given.rows, given.secrets), flush=True)


if __name__ == "__main__":
    main()
