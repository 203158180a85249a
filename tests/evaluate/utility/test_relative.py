"""Relative survival: as the literal twin, 1 without excess deaths, and with a life table that fits."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from anonpipe.columns import Kind
from anonpipe.errors import InputError, JobError
from anonpipe.evaluate.utility import Endpoint, LifeTable, Population
from anonpipe.evaluate.utility._relative import RELATIVE, relative_survival
from anonpipe.evaluate.utility._tables import typed_tables
from anonpipe.job.model import parse_job
from anonpipe.pipeline.preview import preview
from tests import small

KINDS = {
    "months": Kind.CONTINUOUS, "vital": Kind.BINARY, "age": Kind.INTEGER, "sex": Kind.BINARY, "dx": Kind.DATE,
}  # fmt: skip


def life_table():
    """Deaths rise with age, fall with the years, and are more of men."""
    grid = pd.MultiIndex.from_product([("f", "m"), range(1990, 2006), range(40, 100)], names=["sex", "year", "age"])
    frame = grid.to_frame(index=False)
    frame["qx"] = (
        0.004 * np.exp(0.08 * (frame["age"] - 40) - 0.02 * (frame["year"] - 1990)) * (1 + 0.5 * (frame["sex"] == "m"))
    )
    return frame


def patients(rows, seed, excess=0.0):
    """Persons who die as the table says, and of an excess hazard besides, followed for five years at most."""
    rng, table = np.random.default_rng(seed), LifeTable.of(life_table())
    age, dx = rng.uniform(45, 85, rows), rng.uniform(1990, 2000, rows)
    sex = rng.integers(0, 2, rows)
    lived, alive = np.zeros(rows), np.ones(rows, dtype=bool)
    for at in range(6):
        hazard = excess - np.log(table.survival(sex, dx + at, np.floor(age) + at))
        waits = rng.exponential(1 / hazard)
        lived += np.where(alive, np.minimum(waits, 1.0), 0.0)
        alive &= waits > 1.0
    censored = rng.uniform(3, 6, rows)
    return pd.DataFrame(
        {
            "months": 12 * np.minimum(lived, censored),
            "vital": np.where((lived < censored) & ~alive, "Dead", "Alive"),
            "age": np.floor(age).astype(int),
            "sex": np.array(["f", "m"])[sex],
            "dx": pd.Timestamp("1970-01-01") + pd.to_timedelta(np.floor((dx - 1970) * 365.25), "D"),
        }
    )


def measured(old, new, least=5):
    population = Population(LifeTable.of(life_table()), "age", "sex", "dx", 12.0)
    weight = "weight" if "weight" in old else ""
    tables = typed_tables(old, new, KINDS | ({weight: Kind.CONTINUOUS} if weight else {}), least=least)
    ends = (Endpoint("", "months", "vital", ("Dead",), weight=weight),)
    (found,) = RELATIVE.of(replace(tables, endpoints=ends, population=population))
    return found


def naive_relative_survival(frame, years):
    """By loops over the records, from the rows of the life table."""
    rates = life_table().set_index(["sex", "year", "age"])["qx"].to_dict()
    survived = 1.0
    for at in range(years):
        expected, n, deaths, gone = [], 0, 0, 0
        for row in frame.itertuples():
            time = row.months / 12
            if time < at:
                continue
            began = math.floor(1970 + (row.dx - pd.Timestamp("1970-01-01")).days / 365.25 + at)
            w = getattr(row, "weight", 1)
            expected.append(w * (1 - rates[row.sex, min(began, 2005), min(row.age + at, 99)]))
            n += w
            deaths += w * (time < at + 1 and row.vital == "Dead")
            gone += w * (time < at + 1 and row.vital != "Dead")
        survived *= (1 - deaths / (n - gone / 2)) / (sum(expected) / n)
        yield survived


@pytest.mark.parametrize("weighted", [False, True])
def test_as_the_twin(weighted):
    old, new = patients(400, 1, excess=0.1), patients(300, 2, excess=0.2)
    if weighted:  # the old and those who died count more
        old, new = (
            each.assign(weight=each["age"] ** 2 * np.where(each["vital"] == "Dead", 3, 1)) for each in (old, new)
        )
    parts = dict(measured(old, new).parts)
    assert {"all records, year 1", "sex f, year 1"} <= parts.keys()
    for of, (one, other) in {"all records": (old, new), "sex m": (old[old.sex == "m"], new[new.sex == "m"])}.items():
        pairs = zip(naive_relative_survival(one, 5), naive_relative_survival(other, 5), strict=True)
        expected = {f"{of}, year {at}": abs(a - b) for at, (a, b) in enumerate(pairs, 1) if at in (1, 5)}
        assert {title: each for title, each in parts.items() if title.startswith(f"{of},")} == pytest.approx(expected)


def test_it_is_what_excess_deaths_leave():
    table = LifeTable.of(life_table())
    for excess in (0.0, 0.15):
        frame = patients(40_000, 3, excess)
        dx = 1970 + (frame["dx"] - pd.Timestamp("1970-01-01")).dt.days.to_numpy() / 365.25
        sex = (frame["sex"] == "m").to_numpy().astype(int)
        found = relative_survival(
            frame["months"].to_numpy() / 12, (frame["vital"] == "Dead").to_numpy(), table, sex, dx,
            frame["age"].to_numpy(float), 5,
        )  # fmt: skip
        assert found == pytest.approx(np.exp(-excess * np.arange(1, 6)), abs=0.02)


def test_a_copy_is_at_zero_and_a_lost_group_at_one():
    old = patients(500, 4, excess=0.1)
    assert measured(old, old.sample(frac=1, random_state=0)).value == pytest.approx(0.0, abs=1e-12)
    lost = measured(old, old[old["sex"] == "f"])
    assert dict(lost.parts)["sex m, year 1"] == 1.0 == lost.value
    unknown = measured(old.assign(age=None), old)
    assert math.isnan(unknown.value) and "Not defined" in unknown.note


def test_records_outside_of_the_life_table_are_told():
    old = patients(500, 6, excess=0.1)
    assert "0.0% of them begin" in measured(old, old).note
    some = old.assign(age=old["age"].where(old.index % 10 > 0, 30))
    assert "10.0% of them begin" in measured(some, old).note
    most = measured(old.assign(age=old["age"] + 60), old)  # such as a year in place of an age
    assert math.isnan(most.value) and "Not defined: " in most.note


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop(columns="qx"), "no column 'qx'"),
        (lambda t: t.assign(qx=1.5), "outside of"),
        (lambda t: t.assign(age=None), "empty cell"),
        (lambda t: t.assign(sex=t["sex"].where(t["age"] > 50)), "empty cell"),
        (lambda t: t.assign(age=t["age"] + 0.2), "no whole number"),
        (lambda t: t.assign(age=t["age"].replace({99: np.inf})), "no whole number"),
        (lambda t: t.replace({"age": {99: 10**12}}), "combinations of sex, year, age"),
        (lambda t: t.iloc[1:], "combinations of sex, year, age"),
        (lambda t: pd.concat([t, t.iloc[:1]]), "one row"),
    ],
)
def test_a_life_table_that_is_none(change, message):
    with pytest.raises(InputError, match=message):
        LifeTable.of(change(life_table()))


def job_of(tmp_path, table, **given):
    patients(600, 5, excess=0.1).to_parquet(tmp_path / "in.parquet")
    table.to_csv(tmp_path / "life.csv", index=False)
    columns = {name: {"kind": kind.value} for name, kind in KINDS.items()}
    columns["months"] |= {"role": "survival_time", "step": 0.1}
    columns["vital"] |= {"role": "survival_status", "event": ["Dead"]}
    relative = {"life_table": str(tmp_path / "life.csv"), "age": "age", "sex": "sex", "year": "dx"}
    content = {
        "input": str(tmp_path / "in.parquet"), "output": str(tmp_path / "out"), "k": 5, "columns": columns,
        "strata": {"by": ["vital"]}, "mask": small.QUICK,
        "measure": {"risk": False, "relative_survival": relative},
    }  # fmt: skip
    return content | given


def test_a_run_measures_it_and_a_gate_holds_it(tmp_path):
    content = job_of(tmp_path, life_table(), gates={"relative_survival": 1e-4})
    outcome = small.run(parse_job(content))
    assert outcome.version is None
    failed = [each.name for each in outcome.verdict.lines if each.outcome == "failed"]
    assert failed == ["relative survival, largest difference"]
    content["gates"] = {"relative_survival": 0.3}
    assert small.run(parse_job(content)).version


def test_a_life_table_that_does_not_fit_is_told_before_any_work(tmp_path):
    table = life_table()
    for changed, message in (
        (table.replace({"sex": {"f": "women"}}), "column 'sex' has 1 categories"),
        (table[table["sex"] == "f"].drop(columns="sex"), "has no column 'sex'"),
    ):
        with pytest.raises(InputError, match=message):
            preview(parse_job(job_of(tmp_path, changed)))
    content = job_of(tmp_path, table)
    (tmp_path / "life.csv").unlink()
    with pytest.raises(InputError, match="cannot be read"):
        preview(parse_job(content))
    content["measure"]["relative_survival"]["age"] = "sex"
    with pytest.raises(JobError, match="it is a number"):
        parse_job(content)
