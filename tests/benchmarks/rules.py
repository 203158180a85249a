"""What an office's tables keep: rules, coefficients, weighted totals; and what tells released rows and units.

    python -m tests.benchmarks.rules [table ...] [--rows 3000] [--without] [--units POPULATIONS]

*register*: dates in order. *claims*: no cost without a visit, and the cost of a visit. *schools*: 36 columns of which
six follow from others. *panel*: persons in up to four years. *households*: members, with weights by region. *wide*: 60
columns. Each population is drawn once, so that all samples have its parameters: the original, the control, and another
sample that is judged like the release (last line of each table).

*Broken*: rows that break a rule. *Told*: area under the curve of gradient boosting that tells rows from the control,
with differences, sums and ratios of the pairs that are most related; 0.5 is chance. *Outside*: coefficients beyond the
original's 95 % interval; *totals*: weighted totals by category beyond it. *Member*: area under the curve of the
distance to the nearest released row. *Units*: told and member, of numbers, means, first and last values of units.
*Linked*: records whose nearest released one is their own, by the run.

Of 1,000 units the standard error of an area is 0.013. So `--units` judges units alone, of as many populations as it
says, each with a secret of its own: attacks by the nearest unit and by the number of near ones, rows side by side or
summed up, and how units are told apart. Eight populations make it 0.004.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from anonpipe import anonymize
from tests.benchmarks import wide
from tests.benchmarks.frontier.comparable import plain, points
from tests.benchmarks.frontier.measures import membership
from tests.benchmarks.frontier.tables import kind_of

LIMITS = {name: None for name in ("membership_auc", "attribute_inference", "singling_out", "linkability")}
LIMITS |= {"covariance": 1.0, "mean": 0.1, "column_shapes": None, "tail_linkage": None}
MOST_ROWS = 2_000  # Of either table for the classifier
MOST_PAIRS = 200  # Of columns, whose differences, sums and ratios it has


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
        lambda t: t.groupby("person")["year"].diff() < 0,
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


TABLES = {
    "register": register, "claims": claims, "schools": schools, "panel": panel, "households": households,
    "wide": wide_table,
}  # fmt: skip


def numbers_of(frame):
    """All columns as numbers, dates as days and categories as codes."""
    kinds = {name: kind_of(column) for name, column in frame.items()}
    found = plain(frame, kinds)
    return found.assign(**{name: found[name].rank(method="dense") for name in found if kinds[name] == "categorical"})


def with_pairs(frame, pairs):
    """All columns, and of the pairs the difference, the sum and the ratio, shape (n_rows, n_features)."""
    table = numbers_of(frame)
    found = [table.to_numpy()]
    for one, other in pairs:
        left, right = table[one].to_numpy(), table[other].to_numpy()
        ratio = np.divide(left, right, out=np.full(len(left), np.nan), where=right != 0)
        found.append(np.column_stack([left - right, left + right, ratio]))
    return np.concatenate(found, axis=1)


def told_apart(released, control, seed=0):
    """Area under the curve of a classifier on rows that it has not seen."""
    related = numbers_of(control).rank().corr().abs().fillna(0.0)
    pairs = sorted(combinations(related, 2), key=lambda pair: -related.loc[pair])[:MOST_PAIRS]
    sides = [side.sample(min(len(side), MOST_ROWS), random_state=seed) for side in (released, control)]
    x = with_pairs(pd.concat(sides, ignore_index=True), pairs)
    y, rng = np.repeat([1, 0], list(map(len, sides))), np.random.default_rng(seed)
    train, test = np.array_split(rng.permutation(len(y)), 2)
    with threadpool_limits(1):
        model = HistGradientBoostingClassifier(max_iter=40, random_state=0).fit(x[train], y[train])
        return float(roc_auc_score(y[test], model.predict_proba(x[test])[:, 1]))


def member(original, control, released):
    """Area under the curve of the distance to the nearest released row."""
    kinds = {name: kind_of(column) for name, column in original.items()}
    return membership(*(plain(side, kinds) for side in (original, control, released)), kinds)[0]


def by_unit(frame, unit):
    """Of each unit the number of rows, and mean, first and last value of each column."""
    numbers = numbers_of(frame.drop(columns=unit))
    groups = numbers.groupby(frame[unit].to_numpy(), sort=False)
    parts = [getattr(groups, how)().add_suffix(f" {how}") for how in ("mean", "first", "last")]
    return pd.concat([*parts, groups.size().rename("rows")], axis=1).reset_index(drop=True)


def side_by_side(frame, unit):
    """Of each unit the number of rows, and its columns row by row."""
    key = frame[unit].to_numpy()
    numbers = numbers_of(frame.drop(columns=unit)).assign(unit=key, row=pd.Series(key).groupby(key).cumcount())
    found = numbers.set_index(["unit", "row"]).unstack()
    found.columns = [f"{name} {row}" for name, row in found.columns]
    return found.assign(rows=pd.Series(key).value_counts()).reset_index(drop=True)


def counted(original, control, released):
    """Area under the curve of the number of released units nearer than the fifth nearest one mostly is."""
    kinds = dict.fromkeys(original, "numerical")
    known, *sides = points(
        [plain(side.reindex(columns=original.columns), kinds) for side in (released, original, control)], kinds
    )
    search = NearestNeighbors(n_neighbors=20).fit(known)
    near = [search.kneighbors(side)[0] for side in sides]
    counts = [(each < np.median(near[0][:, 4])).sum(axis=1) for each in near]
    return float(roc_auc_score(np.repeat([1, 0], [len(each) for each in near]), np.concatenate(counts)))


def units_judged(name, rows, populations):
    """Mean and standard error over populations of attacks on units, and of how they are told apart."""
    found = []
    for at in range(populations):
        os.environ["ANONPIPE_SECRET"] = hashlib.sha256(bytes([at])).hexdigest()
        population = TABLES[name](3 * rows, np.random.default_rng(100 + at))
        original, control, other = samples(population, rows)
        made = released_of(population, original, population.rules)[0]
        if made is None:
            continue
        line, tables = [], (original, pd.concat([control, other]), made)  # whose units have numbers of their own
        for form in (side_by_side, by_unit):
            forms = [form(side, population.unit) for side in tables]
            forms[1:] = [side.reindex(columns=forms[0].columns) for side in forms[1:]]
            line += [member(*forms), counted(*forms)]
        sides = (by_unit(side, population.unit) for side in (made, control))
        found.append([*line, told_apart(*sides)])
    error = np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
    parts = [f"{mean:.3f} ± {each:.3f}" for mean, each in zip(np.mean(found, axis=0), error, strict=True)]
    words = ("side by side, nearest", "counted", "summed up, nearest", "counted", "told")
    told = "; ".join(f"{word} {part}" for word, part in zip(words, parts, strict=True))
    print(f"{name}, {len(found)} of {populations} populations: {told}", flush=True)


def outside(population, original, released):
    """Share of coefficients, and of weighted totals by category, beyond the original's 95 % interval."""
    off = []
    for formula in population.models:
        fit = smf.logit if formula.startswith("I(") else smf.ols
        before, after = (
            fit(formula, side, missing="drop").fit(**({"disp": 0} if fit is smf.logit else {}))
            for side in (original, released)
        )
        after = after.params.reindex(before.params.index)
        off.append(((after - before.params).abs() / before.bse > 1.96)[1:])
    by, of = population.totals
    sums = []
    for side in (original, released):
        weighted = side[of].fillna(0.0) * (1.0 if population.weight is None else side[population.weight])
        parts = pd.get_dummies(side[by]).astype(float).mul(weighted, axis=0)
        sums.append((parts.sum() / len(side), parts.std() / np.sqrt(len(side))))
    totals = (sums[1][0].reindex(sums[0][0].index).fillna(0.0) - sums[0][0]).abs() > 1.96 * sums[0][1]
    return float(np.concatenate(off).mean()), float(totals.mean())


def judged(population, original, released, control):
    """The figures of one line."""
    unit = population.unit
    bare = [side if unit is None else side.drop(columns=unit) for side in (original, control, released)]
    broken = np.logical_or.reduce([np.asarray(check(released)) for check in population.checks]).mean()
    found = [broken, told_apart(bare[2], bare[1]), *outside(population, original, released), member(*bare)]
    if unit is None:
        return [*found, np.nan, np.nan]
    units = [by_unit(side, unit) for side in (original, control, released)]
    return [*found, told_apart(units[2], units[1]), member(*units)]


def samples(population, rows):
    """Three samples of a population: rows, or whole units, in their order."""
    key = np.arange(len(population.frame)) if population.unit is None else population.frame[population.unit]
    third = np.unique(key)[-1] // 3 + 1
    return [part.reset_index(drop=True) for _, part in population.frame.groupby(key // third)]


def released_of(population, original, rules):
    """The released table, the share of linked records and processor seconds; a text where it is refused."""
    job = {"k": 5, "columns": population.columns, "gates": LIMITS, "mask": {"method": "local_synthesis"}}
    job |= {"measure": {"utility": False, "hold_out": 0}} | population.more | ({"rules": list(rules)} if rules else {})
    begin = time.process_time()
    made = anonymize(original, job)
    if made.table is None:
        return None, ", ".join(f"{each.key} {each.measured}" for each in made.verdict.failed), 0.0
    linked = {each.name: each.value for each in made.report.risk}.get("reidentification_rate", np.nan)
    return made.table, linked, time.process_time() - begin


def main() -> None:
    """Print two or three lines a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", help=f"of {', '.join(TABLES)}; all without")
    parser.add_argument("--rows", type=int, default=3_000)
    parser.add_argument("--without", action="store_true", help="a line without rules, too")
    parser.add_argument("--units", type=int, default=0, metavar="POPULATIONS", help="units alone, of so many")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    os.environ.setdefault("ANONPIPE_SECRET", "5e1b07c93ad264f8" * 4)
    os.environ["ANONPIPE_HOME"] = tempfile.mkdtemp()
    if given.units:
        for name in given.tables or ("panel", "households"):
            units_judged(name, given.rows, given.units)
        return
    print(f"{'':28} broken   told outside totals member | units: told member | linked seconds")
    for name in given.tables or TABLES:
        population = TABLES[name](3 * given.rows, np.random.default_rng(1))
        original, control, other = samples(population, given.rows)
        lines = [("", population.rules)] + [("without rules", ())] * given.without
        for how, rules in lines:
            made, linked, seconds = released_of(population, original, rules)
            if made is None:
                print(f"{name + ' ' + how:28} refused: {linked}", flush=True)
                continue
            _print(f"{name} {how}", judged(population, original, made, control), linked, seconds)
        _print(f"{name}, another sample", judged(population, original, other, control), np.nan, np.nan)


def _print(name, found, linked, seconds):
    told = " ".join(f"{each:{width}.3f}" for each, width in zip(found, (6, 6, 7, 6, 6, 14, 6), strict=True))
    print(f"{name:28} {told}   {linked:6.4f} {seconds:7.1f}", flush=True)


if __name__ == "__main__":
    main()
