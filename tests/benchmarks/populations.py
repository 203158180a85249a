"""Populations such as offices and registries have: rules between columns, several rows a person, weights.

Each is drawn once, so that all its samples have its parameters; `rules` and `frontier` judge releases of samples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from tests.benchmarks import wide


@dataclass(frozen=True)
class Population:
    """Rows of a population, and what is known of each of its samples."""

    frame: pd.DataFrame
    columns: dict[str, Any]
    rules: Sequence[str]
    checks: Sequence[Callable[[pd.DataFrame], Any]]  # Which rows break a rule
    models: Sequence[str]  # Formulas; of a category with two values a logistic one, by `== "value"`
    totals: tuple[str, str]  # Category and number
    unit: str | None = None
    weight: str | None = None
    more: dict[str, Any] = field(default_factory=dict)  # Of the job


def schools(rows, rng):
    """36 columns: six are sums or differences of others, or follow from a code."""
    size, quality = rng.gamma(4.0, 100.0, rows), rng.normal(size=rows)
    frame = {"county": rng.integers(0, 30, rows)}
    frame["region"] = frame["county"] // 6
    for at in range(4):
        frame[f"enrolled_{at}"] = np.rint(size / 4 * rng.uniform(0.8, 1.2, rows))
    frame["enrolled"] = sum(frame[f"enrolled_{at}"] for at in range(4))
    for year in range(3):
        frame[f"api_{year}"] = np.rint(650 + 60 * quality + 10 * year + rng.normal(0, 15, rows))
    for year in range(1, 3):
        frame[f"growth_{year}"] = frame[f"api_{year}"] - frame[f"api_{year - 1}"]
    frame["tested"] = np.rint(frame["enrolled"] * rng.uniform(0.85, 1.0, rows))
    frame["absent"] = frame["enrolled"] - frame["tested"]
    frame["teachers"], frame["staff"] = np.rint(size / 18 + 3), np.rint(rng.gamma(3.0, 3.0, rows))
    frame["employees"] = frame["teachers"] + frame["staff"]
    for at in range(36 - len(frame)):
        frame[f"score_{at}"] = (quality * rng.uniform(0, 1) + rng.normal(size=rows)).round(2)
    frame = pd.DataFrame(frame)
    names = ("county", "region")
    frame[list(names)] = frame[list(names)].astype(str)
    rules = ["enrolled = enrolled_0 + enrolled_1 + enrolled_2 + enrolled_3", "0 <= tested <= enrolled"]
    rules += ["absent = enrolled - tested", "growth_1 = api_1 - api_0", "growth_2 = api_2 - api_1"]
    rules += ["employees = teachers + staff", "county -> region"]
    region = frame.groupby("county")["region"].first()
    checks = [
        lambda t: t.enrolled != t.enrolled_0 + t.enrolled_1 + t.enrolled_2 + t.enrolled_3,
        lambda t: (t.absent != t.enrolled - t.tested) | (t.absent < 0) | (t.tested < 0),
        lambda t: t.growth_1 != t.api_1 - t.api_0,
        lambda t: t.growth_2 != t.api_2 - t.api_1,
        lambda t: t.employees != t.teachers + t.staff,
        lambda t: t.county.map(region) != t.region,
    ]
    kinds = {name: "categorical" if name in names else "integer" for name in frame if not name.startswith("score")}
    columns = {name: {"kind": kinds.get(name, "continuous")} for name in frame}
    columns |= {name: {"kind": "continuous", "step": 0.01} for name in frame if name.startswith("score")}
    scores = " + ".join(name for name in frame if name.startswith("score"))
    models = [f"api_2 ~ teachers + enrolled + tested + C(region) + {scores}"]
    return Population(frame, columns, rules, checks, models, ("region", "enrolled"))


def register(rows, rng):
    """Diagnosis, treatment of most, death of many, in this order."""
    stage, age = rng.integers(1, 5, rows), rng.normal(65, 12, rows).clip(20, 99).astype(int)
    diagnosis = rng.integers(12_000, 16_000, rows)
    treatment = np.where(rng.random(rows) < 0.8, diagnosis + rng.gamma(1.5, 20.0, rows).astype(int), -1)
    death = np.where(treatment >= 0, treatment, diagnosis) + rng.gamma(1.2, 1_500.0 / stage, rows).astype(int)
    dates = {"diagnosis": diagnosis, "treatment": treatment, "death": np.where(rng.random(rows) < 0.6, death, -1)}
    frame = pd.DataFrame({"age": age, "stage": stage.astype(str), "sex": rng.choice(["f", "m"], rows)})
    for name, days in dates.items():
        frame[name] = pd.Series(np.where(days < 0, np.datetime64("NaT"), days.astype("datetime64[D]"))).astype(
            "datetime64[s]"
        )
    checks = [
        lambda t: t.diagnosis > t.treatment,
        lambda t: t.treatment > t.death,
        lambda t: t.diagnosis > t.death,
    ]
    kinds = {"age": "integer", "stage": "categorical", "sex": "binary"}
    columns = {name: {"kind": kinds.get(name, "date")} for name in frame}
    frame["days"] = (frame["treatment"] - frame["diagnosis"]).dt.days
    columns["days"] = {"kind": "integer"}
    checks.append(lambda t: (t.treatment - t.diagnosis).dt.days.fillna(-1) != t.days.fillna(-1))
    rules = ["diagnosis <= treatment <= death", "days = treatment - diagnosis"]
    models = ["days ~ age + C(stage) + C(sex)", "age ~ C(stage) + C(sex)"]
    return Population(frame, columns, rules, checks, models, ("stage", "days"))


def followed(rows, rng):
    """Persons followed from their diagnosis to death, to a loss, or to the closing date, whichever comes first."""
    stage, age, closing = rng.integers(1, 5, rows), rng.normal(65, 12, rows).clip(20, 99).astype(int), 18_627
    diagnosis = rng.integers(11_000, 18_200, rows)
    death = rng.exponential(6_000.0 / stage * np.exp((65 - age) / 40))
    until = np.minimum(rng.exponential(20_000.0, rows), closing - diagnosis)
    frame = pd.DataFrame({"age": age, "stage": stage.astype(str), "sex": rng.choice(["f", "m"], rows)})
    frame["diagnosis"] = diagnosis.astype("datetime64[D]").astype("datetime64[s]")
    frame["days"] = np.floor(np.minimum(death, until)).astype(int)
    frame["status"] = np.where(death <= until, "dead", "alive")
    columns = {"age": {"kind": "integer"}, "stage": {"kind": "categorical"}, "sex": {"kind": "binary"}}
    columns["diagnosis"] = {"kind": "date", "bounds": ["2000-01-01", None]}
    columns["days"] = {"kind": "integer", "role": "survival_time", "bounds": [0, None]}
    columns["status"] = {"kind": "binary", "role": "survival_status", "event": ["dead"]}
    rules = ["diagnosis + days <= '2020-12-31'"]
    checks = [lambda t: t.diagnosis + pd.to_timedelta(t.days, "D") > pd.Timestamp("2020-12-31")]
    models = ["days ~ age + C(stage) + C(sex)", "age ~ C(stage) + C(sex)"]
    more = {"strata": {"by": ["status"]}}
    return Population(frame, columns, rules, checks, models, ("stage", "days"), more=more)


def monthly(rows, rng):
    """The same where months alone are known: dates on the 15th, whole months of follow-up, strata by stage, too."""
    frame = followed(rows, rng).frame
    month = frame["diagnosis"].to_numpy().astype("datetime64[M]")
    known = month.astype("datetime64[D]") + 14
    frame["diagnosis"] = known.astype("datetime64[s]")
    treated = (month + rng.poisson(2.0, rows)).astype("datetime64[D]") + 14
    frame.insert(4, "treated", treated.astype("datetime64[s]"))
    left = (18_627 - known.astype(int)) / 30.4375
    frame["months"] = np.floor(np.minimum(frame.pop("days") / 30.4375, left)).astype(int)
    columns = {"age": {"kind": "integer"}, "stage": {"kind": "categorical", "role": "key"}, "sex": {"kind": "binary"}}
    columns |= {name: {"kind": "date", "bounds": ["2000-01-01", None]} for name in ("diagnosis", "treated")}
    columns["months"] = {"kind": "integer", "role": "survival_time", "bounds": [0, None]}
    columns["status"] = {"kind": "binary", "role": "survival_status", "event": ["dead"]}
    rules = ["diagnosis + 30.4375 * months <= '2020-12-31'", "diagnosis <= treated"]
    checks = [
        lambda t: t.diagnosis + pd.to_timedelta(30.4375 * (t.months - 0.5), "D") > pd.Timestamp("2020-12-31"),
        lambda t: t.diagnosis > t.treated,
        lambda t: (t.diagnosis.dt.day != 15) | (t.treated.dt.day != 15),
    ]
    models = ["months ~ age + C(stage) + C(sex)", "age ~ C(stage) + C(sex)"]
    more = {"strata": {"by": ["status", "stage"]}}
    return Population(frame, columns, rules, checks, models, ("stage", "months"), more=more)


def claims(rows, rng):
    """Visits, and cost and days where there were some; births of women only."""
    sex, age = rng.choice(["f", "m"], rows), rng.integers(18, 90, rows)
    visits = rng.poisson(0.4 + age / 60)
    cost = np.where(visits > 0, (rng.gamma(1.0, 90.0, rows) * np.maximum(visits, 1)).round(2) + 5, 0.0)
    days = np.where(visits > 0, rng.poisson(visits), 0)
    births = np.where(sex == "f", rng.poisson(1.4, rows), np.nan)
    frame = pd.DataFrame({"sex": sex, "age": age, "visits": visits, "cost": cost, "days": days, "births": births})
    frame["per_visit"] = (frame["cost"] / frame["visits"].where(visits > 0)).round(2)
    rules = ["if visits == 0 then cost == 0 and days == 0", "if visits > 0 then cost > 0"]
    rules += ["if sex == 'm' then births is null", "if sex == 'f' then births is not null", "per_visit = cost / visits"]
    checks = [
        lambda t: (t.visits == 0) & ((t.cost != 0) | (t.days != 0)),
        lambda t: (t.visits > 0) & ~(t.cost > 0),
        lambda t: (t.sex == "m") != t.births.isna(),
        lambda t: (t.per_visit - t.cost / t.visits.where(t.visits > 0)).abs() > 0.0051,
        lambda t: (t.visits == 0) != t.per_visit.isna(),
    ]
    kinds = {"sex": "binary"}
    columns = {name: {"kind": kinds.get(name, "integer")} for name in frame}
    columns |= {name: {"kind": "continuous", "step": 0.01, "bounds": [0, None]} for name in ("cost", "per_visit")}
    return Population(frame, columns, rules, checks, ["cost ~ age + visits + days + C(sex)"], ("sex", "cost"))


def panel(rows, rng):
    """Persons in up to four years: wages that follow those of the year before, tax, and pay an hour."""
    persons = rows // 3
    years = rng.integers(2, 5, persons)
    who = np.repeat(np.arange(persons), years)
    place = np.arange(len(who)) - np.repeat(np.cumsum(years) - years, years)
    sex, born = rng.choice(["f", "m"], persons), rng.integers(1940, 2000, persons)
    level = 10 + 0.1 * (sex == "m") + 0.4 * rng.normal(size=persons)
    noise = pd.Series(0.15 * rng.normal(size=len(who))).groupby(who).cumsum().to_numpy()
    frame = pd.DataFrame({"person": who, "year": rng.integers(2010, 2016, persons)[who] + place})
    frame = frame.assign(sex=sex[who], born=born[who], hours=rng.integers(10, 44, len(who)))
    frame["gross"] = np.rint(np.exp(level[who] + 0.03 * place + noise) * frame["hours"] / 40)
    frame["tax"] = np.rint(frame["gross"] * rng.uniform(0.1, 0.3, len(who)))
    frame["net"], frame["hourly"] = frame["gross"] - frame["tax"], (frame["gross"] / frame["hours"]).round(2)
    columns: dict[str, Any] = {
        name: {"kind": "integer", "bounds": [0, None]} for name in ("hours", "gross", "tax", "net")
    }
    columns |= {"person": {"role": "unit"}, "year": {"kind": "integer"}, "sex": {"kind": "binary", "level": "unit"}}
    columns |= {"born": {"kind": "integer", "level": "unit"}, "hourly": {"kind": "continuous", "step": 0.01}}
    rules = ["0 <= tax <= gross", "0 <= gross / hours", "net = gross - tax", "hourly = gross / hours"]
    checks = [
        lambda t: (t.tax > t.gross) | (t.tax < 0),
        lambda t: t.net != t.gross - t.tax,
        lambda t: (t.hourly - t.gross / t.hours).abs() > 0.0051,
        lambda t: t.groupby("person")["year"].diff() < 0 if "person" in t else np.zeros(len(t), bool),
    ]
    more = {"release": {"unit": "pseudonym", "order": "year"}}
    models = ["np.log(gross + 1) ~ hours + C(sex) + born + year"]
    return Population(frame, columns, rules, checks, models, ("sex", "gross"), "person", None, more)


def households(rows, rng):
    """Members of households, whose weight and region they share."""
    homes = rows // 2
    members = 1 + np.minimum(rng.poisson(1.0, homes), 4)
    region = rng.choice(["coast", "east", "north", "south"], homes, p=[0.1, 0.3, 0.4, 0.2])
    weight = pd.Series(region).map({"coast": 25.0, "east": 90.0, "north": 240.0, "south": 180.0}).to_numpy()
    home = np.repeat(np.arange(homes), members)
    rich = 0.5 * rng.normal(size=homes)[home]
    frame = pd.DataFrame({"home": home, "region": region[home], "weight": weight[home]})
    frame["age"], frame["sex"] = rng.integers(0, 95, len(home)), rng.choice(["f", "m"], len(home))
    wage = np.exp(9 + rich + 0.4 * rng.normal(size=len(home))) * rng.uniform(0.2, 1, len(home))
    frame["wage"] = np.where(frame["age"].between(16, 66), np.rint(wage), 0.0)
    frame["pension"] = np.where(frame["age"] > 60, np.rint(np.exp(9 + rich + 0.3 * rng.normal(size=len(home)))), 0.0)
    frame["income"] = frame["wage"] + frame["pension"]
    columns: dict[str, Any] = {name: {"kind": "integer", "bounds": [0, None]} for name in ("wage", "pension", "income")}
    columns |= {"home": {"role": "unit"}, "region": {"kind": "categorical", "level": "unit"}}
    columns |= {"weight": {"kind": "continuous", "role": "sampling_weight", "level": "unit", "by": ["region"]}}
    columns |= {"age": {"kind": "integer", "bounds": [0, 110]}, "sex": {"kind": "binary"}}
    rules = ["income = wage + pension", "if age < 16 then wage == 0", "if age > 66 then wage == 0"]
    rules += ["if age >= 16 and age <= 66 then wage > 0", "if age <= 60 then pension == 0"]
    rules += ["if age > 60 then pension > 0"]
    checks = [
        lambda t: t.income != t.wage + t.pension,
        lambda t: t.age.between(16, 66) != (t.wage > 0),
        lambda t: (t.age > 60) != (t.pension > 0),
    ]
    models = ["np.log(income + 1) ~ age + I(age**2) + C(sex) + C(region)"]
    more = {"release": {"unit": "pseudonym"}}
    return Population(frame, columns, rules, checks, models, ("region", "income"), "home", "weight", more)


def wide_table(rows, rng):
    """Numbers of common factors, of which four are sums, differences and ratios of others."""
    frame = wide.factors(rng, rows).drop(columns=["m54", "m55", "m56", "m57"])
    frame["sum"], frame["change"] = (frame["m01"] + frame["m02"]).round(3), (frame["m04"] - frame["m05"]).round(3)
    frame["ratio"], frame["product"] = (frame["m00"] / frame["m03"]).round(3), (frame["m06"] * frame["m09"]).round(3)
    columns = {name: {"kind": "continuous", "step": 0.001} for name in frame if name != "ill"}
    columns |= {f"m{at:02}": {"kind": "continuous", "step": 0.001, "bounds": [0, None]} for at in range(0, 54, 3)}
    rules = ["sum = m01 + m02", "change = m04 - m05", "ratio = m00 / m03", "product = m06 * m09"]
    checks = [
        lambda t: (t["sum"] - t.m01 - t.m02).abs() > 0.00051,
        lambda t: (t.change - t.m04 + t.m05).abs() > 0.00051,
        lambda t: (t.ratio - t.m00 / t.m03).abs() > 0.00051,
        lambda t: (t["product"] - t.m06 * t.m09).abs() > 0.00051,
    ]
    numbers = " + ".join(name for name in frame if name.startswith("m"))
    models = [f"out ~ {numbers}", f'I((ill == "yes").astype(int)) ~ {numbers}']
    return Population(frame, columns | {"ill": {"kind": "binary"}}, rules, checks, models, ("ill", "out"))


POPULATIONS = {
    "register": register, "followed": followed, "monthly": monthly, "claims": claims, "schools": schools,
    "panel": panel, "households": households, "wide": wide_table,
}  # fmt: skip


def broken(frame: pd.DataFrame, checks: Sequence[Callable[[pd.DataFrame], Any]]) -> float:
    """Share of the rows that break a rule."""
    return float(np.logical_or.reduce([np.asarray(check(frame), dtype=bool) for check in checks]).mean())
