"""The tables of the benchmark: those at hand, the demonstration, and made ones that nobody has tuned anything to."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from anonpipe.propose.demo import write_registry
from tests.benchmarks.frontier.comparable import kind_of, shuffled
from tests.benchmarks.populations import POPULATIONS
from tests.benchmarks.recipient_models import registry
from tests.methods.grouping.data import reference_folder


@dataclass(frozen=True)
class Table:
    """A table, what a steward corrects in the job that `anonpipe init` proposes for it, and what recipients do with it.

    Attributes
    ----------
    settings
        What goes to `--set`, from the code book.
    time, event
        The column of survival times; the column of statuses and its value that
        is the event. None where there are none.
    by
        Column by which survival curves are drawn.
    secret
        Sensitive column, which is to be inferred from all others; a number is none below zero, of which the judge
        takes every guess for right.
    unit
        Column of persons or households with several rows, who are split as wholes. Judges do not see it as a column.
    weight
        Column of survey weights.
    checks
        Which rows break a rule.
    """

    name: str
    frame: pd.DataFrame
    secret: str
    settings: tuple[str, ...] = ()
    time: str | None = None
    event: tuple[str, Any] | None = None
    by: str | None = None
    unit: str | None = None
    weight: str | None = None
    checks: Sequence[Callable[[pd.DataFrame], Any]] = ()
    kinds: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.kinds.update({name: kind_of(self.frame[name]) for name in self.frame if name != self.unit})

    def without(self, names: Collection[str]) -> Table:
        """The table without some columns, which are not released."""
        lost = tuple(f"columns.{name}." for name in names)
        settings = tuple(one for one in self.settings if not one.startswith(lost))
        return replace(self, frame=self.frame.drop(columns=list(names)), settings=settings, kinds={})

    @property
    def numbers(self) -> list[str]:
        """Columns that are masked and no category."""
        return [name for name, kind in self.kinds.items() if kind != "categorical" and name != self.weight]

    @property
    def described(self) -> dict[str, Any]:
        """All but values, settings and rules, JSON-able: what the judge is told."""
        hidden = ("frame", "settings", "checks")
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name not in hidden}


def halves(frame: pd.DataFrame, share: float, seed: int, unit: str | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A random share of the rows, or of the units, and the others; the same for the same seed."""
    parts = shuffled(frame, np.random.default_rng(seed), unit)
    first = round(share * len(parts))
    one, other = (np.concatenate(each) if each else np.zeros(0, int) for each in (parts[:first], parts[first:]))
    return frame.iloc[one].reset_index(drop=True), frame.iloc[other].reset_index(drop=True)


def capped(frame: pd.DataFrame, rows: int, seed: int, unit: str | None = None) -> pd.DataFrame:
    """At most so many rows, or nearly so many rows of whole units, drawn at random."""
    return frame if len(frame) <= rows else halves(frame, rows / len(frame), seed, unit)[0]


def pima() -> Table:
    frame = _csv("pima.csv")
    names = [name for name in frame if name != "Outcome"]
    return Table("pima", frame, "Outcome", tuple(f"columns.{name}.bounds=[0, null]" for name in names))


def colon() -> Table:
    frame = (
        registry() if (reference_folder() / "data" / "colon_finland.csv").exists() else _missing("colon_finland.csv")
    )
    return Table(
        "colon", frame, "stage", ("columns.months.bounds=[0, 360]", "columns.age.bounds=[0, 110]", *_dies("vital")),
        "months", ("vital", "Dead"), "stage",
    )  # fmt: skip


def flights() -> Table:
    bounds = {
        "month": [1, 12], "day": [1, 31], "dep_time": [1, 2400], "arr_time": [1, 2400], "hour": [0, 24],
        "minute": [0, 59], "air_time": [0, None], "distance": [0, None],
    }  # fmt: skip
    return Table("flights", _csv("flights_num10.csv"), "air_time", _bounded(bounds))


def thyroid() -> Table:
    """Without the columns that follow from others: what is not measured is null."""
    frame = _csv("thyroid_train2800.csv")
    frame = frame.drop(columns=["record_id", "TBG", *(name for name in frame if name.endswith("_measured"))])
    frame = frame[~(frame["age"] > 110)]  # one age is 455
    numbers = [name for name in frame if kind_of(frame[name]) == "numerical"]
    return Table("thyroid", frame, "class_sick", tuple(f"columns.{name}.bounds=[0, null]" for name in numbers))


def demonstration() -> Table:
    with tempfile.TemporaryDirectory() as folder:
        write_registry(Path(folder) / "registry.parquet", 20_000)
        frame = pq.read_table(Path(folder) / "registry.parquet").to_pandas(date_as_object=False)
    frame = frame.drop(columns="patient_id")
    bounds = {"age": [0, 110], "tumour_size_mm": [0, 300], "follow_up_months": [0, 600]}
    settings = (*_bounded(bounds), *_dies("vital_status"), "columns.follow_up_months.step=0.1")
    return Table(
        "demonstration", _plain(frame), "stage", settings, "follow_up_months", ("vital_status", "Dead"), "stage"
    )


def costs(rows: int = 20_000, seed: int = 1) -> Table:
    """Claims: long tails, counts full of zeros, a score with mass at both ends, heaped weights, rare diagnoses."""
    rng = np.random.default_rng((seed, 1))
    ill, old, own = rng.standard_normal((3, rows))
    visits = rng.poisson(np.exp(0.4 + 0.8 * ill)) * (rng.random(rows) < 0.55)
    days = rng.negative_binomial(0.6, 0.12, rows) * (ill + rng.standard_normal(rows) > 1.2)
    weight = 76 + 9 * own + 5 * (old > 0) + 4 * rng.standard_normal(rows)
    cost = np.exp(3.2 + 0.5 * ill + 0.2 * old + 0.9 * rng.standard_normal(rows)) * (visits + 1.5 * days)
    marker = np.where(ill + 0.7 * rng.standard_normal(rows) > 0.9, rng.normal(8, 0.7, rows), rng.normal(3, 1, rows))
    unknown = rng.random(rows) < 0.05 + 0.1 * (visits == 0)
    insurer = np.where(rng.random(rows) + 0.2 * (old > 0.5) > 0.6, "West", "East")
    frame = pd.DataFrame(
        {
            "age": np.clip(np.rint(47 + 19 * old), 18, 97).astype(int),
            "visits": visits,
            "hospital_days": days,
            "cost": np.round(cost, 2),
            "wellbeing": np.clip(np.rint(71 - 19 * ill + 22 * rng.standard_normal(rows)), 0, 100).astype(int),
            "weight": np.where(rng.random(rows) < 0.7, 5 * np.rint(weight / 5), np.rint(weight)).astype(int),
            "marker": np.where(unknown, np.nan, np.maximum(marker, 2.0).round(2)),
            "diagnosis": _ranked("D", 1.3 * rng.standard_normal(rows) + ill, 25),
            "insurer": np.where(rng.random(rows) < 0.1, "Mutual", insurer),
            "admitted": np.where(days > 0, "yes", "no"),
        }
    )
    bounds = {
        "age": [18, 110], "visits": [0, None], "hospital_days": [0, None], "cost": [0, None], "wellbeing": [0, 100],
        "weight": [20, 250], "marker": [2, None],
    }  # fmt: skip
    return Table("costs", frame, "diagnosis", (*_bounded(bounds), "columns.cost.step=0.01", "columns.marker.step=0.01"))


def trial(rows: int = 20_000, seed: int = 1) -> Table:
    """A trial with half months of follow-up, most visits once a year, crossing hazards, and dates that are heaped."""
    rng = np.random.default_rng((seed, 2))
    frailty, size = rng.standard_normal((2, rows))
    stage = np.digitize(frailty + 0.8 * rng.standard_normal(rows), [-0.6, 0.5, 1.4, 2.4])
    arm = rng.integers(0, 2, rows)
    shape = np.where(arm == 1, 1.7, 0.8)
    death = 70 * (rng.standard_exponential(rows) * np.exp(-0.7 * (stage - 1) - 0.3 * frailty)) ** (1 / shape)
    seen = np.where(rng.random(rows) < 0.6, 12 * rng.integers(1, 16, rows), 180 * rng.random(rows))
    months = np.floor(np.minimum(np.minimum(death, seen), 240)) + 0.5
    joined = pd.Timestamp("1998-01-01") + pd.to_timedelta(rng.integers(0, 4_000, rows), "D")
    joined = joined.where(rng.random(rows) < 0.6, joined.to_period("M").to_timestamp())
    frame = pd.DataFrame(
        {
            "age": np.clip(np.rint(61 + 11 * rng.standard_normal(rows) + 3 * frailty), 20, 95).astype(int),
            "sex": np.where(rng.random(rows) < 0.47, "female", "male"),
            "arm": np.array(["standard", "new"])[arm],
            "stage": np.array(["I", "II", "III", "IV", "unknown"])[stage],
            "diameter": np.round(np.exp(2.5 + 0.5 * size + 0.3 * frailty), 1),
            "nodes": rng.poisson(np.exp(0.9 * frailty - 0.8 + 0.4 * size)),
            "centre": _ranked("C", 1.5 * rng.standard_normal(rows), 14),
            "joined": joined,
            "months": months,
            "status": np.where((death <= seen) & (death <= 240), "died", "alive"),
        }
    )
    frame["nodes"] = frame["nodes"].where(rng.random(rows) > 0.08 + 0.2 * (stage == 4))
    bounds = {"age": [18, 110], "diameter": [0, None], "nodes": [0, None], "months": [0.5, 240.5]}
    settings = (*_bounded(bounds), *_dies("status", "died"), "columns.months.step=1", "columns.diameter.step=0.1")
    return Table("trial", frame, "stage", settings, "months", ("status", "died"), "stage")


def population(name: str, secret: str, rows: int = 9_000, seed: int = 1) -> Table:
    """A population with rules, and what its steward knows of it: kinds, unit, weight and rules.

    No model is of units, of which `anonpipe init` proposes one where it does not see that they are any.
    """
    one = POPULATIONS[name](rows, np.random.default_rng((seed, 3)))
    said = {f"columns.{column}.{key}": value for column, keys in one.columns.items() for key, value in keys.items()}
    said |= one.more | {"rules": list(one.rules)} | ({"analyses": []} if one.unit else {})
    settings = tuple(f"{key}={json.dumps(value)}" for key, value in said.items())
    return Table(name, one.frame, secret, settings, unit=one.unit, weight=one.weight, checks=one.checks)


AT_HAND: dict[str, Callable[[], Table]] = {
    "pima": pima, "colon": colon, "flights": flights, "thyroid": thyroid, "demonstration": demonstration
}  # fmt: skip
WITH_RULES = {"panel": "sex", "households": "age", "schools": "county"}
"""Populations, and what is to be inferred of each: nothing that follows from other columns."""
MADE: dict[str, Callable[..., Table]] = {"costs": costs, "trial": trial} | {
    name: partial(population, name, secret) for name, secret in WITH_RULES.items()
}
"""A table more is a function that gives it, and its name here; made ones take a seed."""


def load(name: str, seed: int) -> Table:
    """A table by its name.

    Raises
    ------
    FileNotFoundError
        It is not at hand.
    """
    return MADE[name](seed=seed) if name in MADE else AT_HAND[name]()


def _csv(name: str) -> pd.DataFrame:
    path = reference_folder() / "data" / name
    return pd.read_csv(path) if path.exists() else _missing(name)


def _missing(name: str) -> pd.DataFrame:
    raise FileNotFoundError(f"{name} is not at hand; set ANONPIPE_BENCH_DATA")


def _bounded(bounds: dict[str, list[Any]]) -> tuple[str, ...]:
    shown = {name: ", ".join("null" if end is None else str(end) for end in ends) for name, ends in bounds.items()}
    return tuple(f"columns.{name}.bounds=[{ends}]" for name, ends in shown.items())


def _dies(status: str, value: str = "Dead") -> tuple[str, ...]:
    return (f"columns.{status}.event=[{value}]",)


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Dictionaries and booleans with nulls as plain objects."""
    return frame.assign(**{name: frame[name].astype(object) for name in frame if kind_of(frame[name]) == "categorical"})


def _ranked(letter: str, score: np.ndarray, most: int) -> np.ndarray:
    """Categories whose shares fall from the first on, down to a few rows, by a skewed score."""
    place = np.minimum(np.floor(np.exp(0.9 * score)), most - 1).astype(int)
    return np.array([f"{letter}{number:02d}" for number in range(most)])[place]
