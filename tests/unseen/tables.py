"""The tables: each is drawn from a seed, twice as many persons as are released, of whom half are the control.

No value is of a person. What a code book says of a table stands with it: a
newcomer fills in the proposal of `anonpipe init` from that, and from nothing
else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

Rng = np.random.Generator


@dataclass(frozen=True)
class CodeBook:
    """What is known of a table without its rows: who has several rows, what an event is, orders and codes."""

    unit: str | None = None
    time: str | None = None
    status: str | None = None
    event: Sequence[Any] = ()
    levels: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    unknown: Mapping[str, float] = field(default_factory=dict)
    secret: str = ""


class Drawn(NamedTuple):
    """A table to release, and other records of the same population."""

    original: pd.DataFrame
    control: pd.DataFrame


class Made(NamedTuple):
    """Rows or units of a table by default, how it is drawn, and its code book."""

    size: int
    draw: Callable[[Rng, int], pd.DataFrame]
    book: CodeBook


def drawn(name: str, seed: int = 1, size: int | None = None) -> Drawn:
    """A table of that name: of all units that are drawn, half at random are released, and the others the control."""
    made = TABLES[name]
    rng = np.random.default_rng([seed, list(TABLES).index(name)])
    count = size or made.size
    whole = made.draw(rng, 2 * count)
    unit = made.book.unit
    owner = np.arange(len(whole)) if unit is None else pd.factorize(whole[unit])[0]
    first = rng.permutation(owner.max() + 1) < count
    parts = (whole[mask].reset_index(drop=True) for mask in (first[owner], ~first[owner]))
    return Drawn(*(_finished(name, part) for part in parts))


def _finished(name: str, part: pd.DataFrame) -> pd.DataFrame:
    """The table with what only holds of a whole one: one identifier that occurs twice."""
    if name == "customers":
        part.loc[1, "customer_number"] = part.loc[0, "customer_number"]
    return part


def _codes(rng: Rng, size: int, shares: Mapping[str, float]) -> Any:
    """Categories by their shares, which need not add up to one."""
    weights = np.array(list(shares.values()))
    return rng.choice(list(shares), size, p=weights / weights.sum())


_SYLLABLES = ("ba", "den", "fur", "gol", "hei", "kan", "lin", "mor", "neu", "pol", "rat", "sen", "tal", "ul", "ver")


def _syllables(rng: Rng, size: int, many: int) -> Any:
    """Words of syllables, as many of each as it takes."""
    parts = np.array(_SYLLABLES)
    return ["".join(parts[row]).capitalize() for row in rng.integers(0, len(parts), (size, many))]


def _hidden(rng: Rng, values: Any, share: float) -> pd.Series:
    """The values, of which a share is missing."""
    return pd.Series(values).mask(pd.Series(rng.random(len(values)) < share))


def schools(rng: Rng, size: int) -> pd.DataFrame:
    """Schools with their names, of which about 78 % occur once, pupils by grade, and results."""
    pupils = np.round(rng.lognormal(6.0, 0.6, size)).astype(int)
    poor = rng.beta(2.0, 3.0, size)
    kind = _codes(rng, size, {"Elementary": 60, "Middle": 18, "High": 20, "Special": 2})
    saints = np.array(["Lincoln", "Washington", "Jefferson", "Oak Grove", "Central", "Riverside"])
    own = np.char.add(np.array(_syllables(rng, size, 4)), " School")
    table = {
        "school_name": np.where(
            rng.random(size) < 0.805, own, np.char.add(rng.choice(saints, size), " " + kind.astype(str))
        ),
        "district": np.char.add("District ", rng.zipf(1.6, size).clip(max=90).astype(str)),
        "county": rng.choice(_syllables(rng, 40, 2), size),
        "kind": kind,
        "charter": rng.random(size) < 0.1,
        "pupils": pupils,
        "free_meals": np.round(poor * pupils).astype(int),
        "teachers": np.round(pupils / rng.normal(20, 2, size).clip(12), 1),
        "opened": rng.integers(1890, 2020, size),
        "spending": np.round(rng.lognormal(9.2, 0.2, size), 2),
    }
    for grade in range(1, 14):
        table[f"grade_{grade}"] = rng.binomial(pupils, 1 / 13) * (rng.random(size) < 0.6)
    for subject in ("reading", "maths", "science", "writing", "history", "arts"):
        for what in ("score", "tested"):
            score = np.round(rng.normal(700 - 200 * poor, 40)).astype(int)
            table[f"{subject}_{what}"] = _hidden(rng, score if what == "score" else rng.binomial(pupils, 0.4), 0.08)
    return pd.DataFrame(table | {"rating": _codes(rng, size, {"A": 3, "B": 4, "C": 2, "D": 1})})


def claims(rng: Rng, size: int) -> pd.DataFrame:
    """Insured cars, of which most never had a claim."""
    age, power = rng.integers(18, 90, size), rng.integers(4, 16, size)
    number = rng.poisson(0.05 + 0.1 * (age < 25))
    amount = np.where(number > 0, np.round(rng.lognormal(7.0, 1.2, size), 2), 0.0)
    return pd.DataFrame(
        {
            "policy_id": 100_000 + rng.permutation(size),
            "driver_age": age,
            "vehicle_age": rng.poisson(6, size),
            "power": power,
            "fuel": _codes(rng, size, {"petrol": 5, "diesel": 4, "electric": 1}),
            "area": _codes(rng, size, {"A": 1, "B": 2, "C": 4, "D": 2, "E": 1, "F": 0.2}),
            "exposure": np.round(rng.beta(3, 1, size), 2).clip(0.01),
            "bonus": np.where(rng.random(size) < 0.55, 50, rng.integers(51, 150, size)),
            "claims": number,
            "claim_amount": amount,
            "legal_costs": np.where((amount > 0) & (rng.random(size) < 0.2), np.round(0.3 * amount, 2), 0.0),
        }
    )


def households(rng: Rng, size: int) -> pd.DataFrame:
    """A survey of households with design weights; each member is a row."""
    members = 1 + rng.poisson(1.3, size).clip(max=7)
    home = np.repeat(np.arange(size), members)
    weight, wealth = np.round(rng.lognormal(6.0, 0.4, size), 3), rng.lognormal(10.3, 0.6, size)
    region = rng.choice(["North", "East", "South", "West", "Islands"], size, p=[0.3, 0.3, 0.25, 0.14, 0.01])
    age = rng.integers(0, 95, len(home))
    work = np.where(
        age < 16, "child", np.where(age > 66, "retired", rng.choice(["employed", "home", "school"], len(home)))
    )
    return pd.DataFrame(
        {
            "household_id": 5_000_000 + 7 * home,
            "region": region[home],
            "weight": weight[home],
            "household_size": members[home],
            "household_income": np.round(wealth, -2)[home].astype(int),
            "tenure": rng.choice(["owner", "tenant", "free"], size, p=[0.5, 0.45, 0.05])[home],
            "age": age,
            "sex": rng.choice(["female", "male"], len(home)),
            "work": work,
            "hours": np.where(work == "employed", rng.choice([20, 35, 40, 40, 40, 45], len(home)), 0),
            "health": rng.integers(1, 6, len(home)),
        }
    )


def panel(rng: Rng, size: int) -> pd.DataFrame:
    """Persons in up to eight yearly waves: wages grow, and most else stays."""
    waves = rng.integers(2, 9, size)
    person = np.repeat(np.arange(size), waves)
    wave = np.concatenate([np.arange(count) for count in waves])
    born, sex = rng.integers(1940, 2000, size), rng.choice(["f", "m"], size)
    wage, trade = rng.lognormal(7.6, 0.4, size), _codes(rng, size, {"services": 5, "industry": 3, "farming": 0.5})
    return pd.DataFrame(
        {
            "person_id": np.char.add("P", (10_000 + person).astype(str)),
            "year": 2010 + wave,
            "birth_year": born[person],
            "sex": sex[person],
            "sector": trade[person],
            "wage": np.round(wage[person] * 1.03**wave * rng.lognormal(0, 0.05, len(person)), 2),
            "hours": np.round(rng.normal(38, 4, size)[person] + rng.normal(0, 1, len(person)), 1),
            "satisfaction": (rng.integers(2, 9, size)[person] + rng.integers(-1, 2, len(person))).clip(0, 10),
            "unemployed": rng.random(len(person)) < 0.06,
        }
    )


def wide(rng: Rng, size: int) -> pd.DataFrame:
    """Sixty columns of few rows: forty related measurements and twenty codes."""
    factors = rng.normal(size=(size, 6))
    numbers = factors @ rng.normal(size=(6, 40)) + rng.normal(size=(size, 40))
    table: dict[str, Any] = {f"marker_{at:02}": np.round(100 + 10 * numbers[:, at], 2) for at in range(40)}
    for at in range(20):
        level = np.digitize(factors[:, at % 6] + rng.normal(size=size), [-1.0, 0.2, 1.4])
        table[f"code_{at:02}"] = np.array(["none", "low", "mid", "high"])[level]
    return pd.DataFrame(table)


def tiny_strata(rng: Rng, size: int) -> pd.DataFrame:
    """Patients followed up, of whom about one in a thousand has the code of a rare kind of censoring."""
    age, stage = rng.normal(66, 11, size).clip(20, 100).astype(int), rng.integers(1, 5, size)
    death = rng.exponential(120 / stage)
    leave = rng.uniform(1, 120, size)
    status = np.where(death < leave, "died", "alive").astype(object)
    status[rng.permutation(size)[: max(2, round(size / 1088))]] = "emigrated"
    return pd.DataFrame(
        {
            "patient_id": 1 + rng.permutation(size),
            "age": age,
            "sex": rng.choice(["F", "M"], size),
            "stage": np.char.add("stage ", stage.astype(str)),
            "grade": _codes(rng, size, {"low": 3, "medium": 4, "high": 2, "unknown": 1}),
            "size_mm": np.round(rng.lognormal(3.0, 0.5, size)).astype(int),
            "nodes": rng.poisson(stage * 0.7),
            "treatment": _codes(rng, size, {"surgery": 5, "radiation": 2, "both": 2, "none": 1}),
            "time_months": np.round(np.minimum(death, leave), 1).clip(0.1),
            "status": status,
        }
    )


def heaped(rng: Rng, size: int) -> pd.DataFrame:
    """What persons say of themselves: they round."""

    def rounded(values: Any, coarse: int, share: float) -> Any:
        near = coarse * np.round(values / coarse)
        return np.where(rng.random(size) < share, near, np.round(values)).astype(int)

    height = rng.normal(171, 9, size)
    return pd.DataFrame(
        {
            "age": rounded(rng.uniform(18, 90, size), 5, 0.3),
            "height_cm": rounded(height, 5, 0.5),
            "weight_kg": rounded(rng.normal(75, 12, size) + 0.6 * (height - 171), 5, 0.6),
            "cigarettes": np.where(rng.random(size) < 0.7, 0, rng.choice([5, 10, 15, 20, 20, 20, 40], size)),
            "income": rounded(rng.lognormal(7.8, 0.5, size), 500, 0.8),
            "rent": rounded(rng.lognormal(6.5, 0.4, size), 50, 0.9),
            "minutes_to_work": rng.choice([0, 5, 10, 15, 20, 30, 30, 45, 60, 90], size),
            "books": rng.choice([0, 1, 2, 5, 10, 20, 50, 100, 100, 200, 500], size),
            "smoker_years": rounded(rng.gamma(1.0, 10, size), 10, 0.7),
        }
    )


def numbers_as_codes(rng: Rng, size: int) -> pd.DataFrame:
    """Members of a club with postcodes and telephone numbers, which look like numbers."""
    place = rng.choice(rng.integers(10_000, 99_999, 400), size, p=(weights := rng.pareto(1.0, 400)) / weights.sum())
    return pd.DataFrame(
        {
            "postcode": place,
            "telephone": rng.integers(301_000_000, 799_999_999, size),
            "mobile": _hidden(rng, rng.integers(15_000_000_000, 17_999_999_999, size), 0.3).astype("Int64"),
            "account": rng.integers(1_000_000_000, 9_999_999_999, size),
            "age": rng.integers(6, 90, size),
            "sex": rng.choice(["w", "m", "d"], size, p=[0.49, 0.5, 0.01]),
            "fee": rng.choice([30.0, 60.0, 90.0, 120.0], size),
            "donations": np.where(rng.random(size) < 0.8, 0.0, np.round(rng.lognormal(4, 1, size))),
            "section": _codes(rng, size, {"football": 5, "tennis": 3, "swimming": 3, "chess": 0.3}),
        }
    )


def free_text(rng: Rng, size: int) -> pd.DataFrame:
    """Complaints with a remark in words, which is another in nearly every row."""
    words = np.array(_syllables(rng, 600, 2))
    lengths = rng.integers(3, 15, size)
    remark = [" ".join(rng.choice(words, length)).lower() + "." for length in lengths]
    return pd.DataFrame(
        {
            "remark": _hidden(rng, remark, 0.15),
            "answer": np.where(rng.random(size) < 0.6, "We are sorry. Your case is closed.", remark[::-1]),
            "product": _codes(rng, size, {"phone": 5, "internet": 4, "television": 2, "alarm": 0.2}),
            "channel": _codes(rng, size, {"mail": 3, "telephone": 5, "letter": 1}),
            "days_open": rng.geometric(0.08, size),
            "refund": np.where(rng.random(size) < 0.65, 0.0, np.round(rng.gamma(2, 20, size), 2)),
            "contract_years": np.round(rng.gamma(2, 2, size), 1),
            "age": rng.integers(18, 95, size),
        }
    )


def timestamps(rng: Rng, size: int) -> pd.DataFrame:
    """Visits of an emergency department, with times to the second."""
    arrived = np.datetime64("2023-01-01", "s") + rng.integers(0, 365 * 86_400, size).astype("timedelta64[s]")
    wait, stay = rng.gamma(2, 1_200, size).astype(int), rng.lognormal(9.2, 0.7, size).astype(int)
    triage = _codes(rng, size, {"red": 0.5, "orange": 2, "yellow": 5, "green": 6, "blue": 1})
    return pd.DataFrame(
        {
            "case_number": 20_230_000_000 + rng.permutation(size),
            "arrived_at": arrived,
            "seen_at": arrived + wait.astype("timedelta64[s]"),
            "left_at": pd.Series(arrived + (wait + stay).astype("timedelta64[s]")).mask(rng.random(size) < 0.05),
            "age": rng.integers(0, 100, size),
            "sex": rng.choice(["female", "male"], size),
            "triage": triage,
            "temperature": np.round(rng.normal(37.2, 0.8, size), 1),
            "pulse": np.round(rng.normal(85, 18, size)).astype(int),
            "admitted": rng.random(size) < np.where(np.isin(triage, ["red", "orange"]), 0.7, 0.15),
        }
    )


def likert(rng: Rng, size: int) -> pd.DataFrame:
    """Forty statements from 1 to 5, by four traits, and who answers."""
    traits = rng.normal(size=(size, 4))
    table: dict[str, Any] = {"age_group": rng.choice(["18-29", "30-44", "45-59", "60+"], size)}
    for at in range(40):
        answer = 1.2 * traits[:, at % 4] + rng.normal(size=size)
        table[f"q{at + 1:02}"] = _hidden(rng, 1 + np.digitize(answer, [-1.6, -0.5, 0.4, 1.5]), 0.02).astype("Int64")
    return pd.DataFrame(table)


def customers(rng: Rng, size: int) -> pd.DataFrame:
    """Customers of a shop; by mistake one number occurs twice."""
    orders = rng.negative_binomial(1, 0.15, size)
    return pd.DataFrame(
        {
            "customer_number": rng.permutation(np.arange(70_000, 70_000 + size)),
            "email": [f"{name.lower()}{at}@example.org" for at, name in enumerate(_syllables(rng, size, 3))],
            "joined": np.datetime64("2015-01-01") + rng.integers(0, 3_500, size).astype("timedelta64[D]"),
            "age": _hidden(rng, rng.normal(44, 14, size).clip(18, 95).round(), 0.12),
            "country": _codes(rng, size, {"DE": 60, "AT": 15, "CH": 12, "NL": 6, "LI": 0.15, "LU": 0.6}),
            "orders": orders,
            "spent": np.round(orders * rng.lognormal(3.5, 0.6, size), 2),
            "returns": rng.binomial(orders, 0.2),
            "newsletter": rng.random(size) < 0.3,
        }
    )


def diagnoses(rng: Rng, size: int) -> pd.DataFrame:
    """Hospital stays of persons with codes of which most are rare."""
    codes = np.array([f"{letter}{number:02}" for letter in "CEGIJKMNS" for number in range(60)])
    share = 1.0 / np.arange(1, len(codes) + 1) ** 1.1
    main, second = (rng.choice(rng.permutation(codes), size, p=share / share.sum()) for _ in range(2))
    days = 1 + rng.negative_binomial(2, 0.25, size)
    return pd.DataFrame(
        {
            "main_diagnosis": main,
            "second_diagnosis": pd.Series(second).mask(rng.random(size) < 0.4),
            "procedure": rng.choice(np.char.add("5-", np.arange(100, 250).astype(str)), size),
            "ward": _codes(rng, size, {"medicine": 5, "surgery": 4, "neurology": 2, "palliative": 0.1}),
            "age": rng.integers(0, 100, size),
            "sex": rng.choice(["F", "M"], size),
            "days": days,
            "cost": np.round(days * rng.lognormal(6.2, 0.4, size), 2),
            "died": np.where(rng.random(size) < 0.03, "yes", "no"),
        }
    )


def laboratory(rng: Rng, size: int) -> pd.DataFrame:
    """Laboratory values, long-tailed and related, of which many are at their limit of detection."""
    common = rng.normal(size=size)
    table: dict[str, Any] = {"age": rng.integers(18, 95, size), "sex": rng.choice(["f", "m"], size)}
    for name, middle, spread, limit in (
        ("crp", 1.5, 1.4, 1.0),
        ("ferritin", 4.8, 0.9, 5.0),
        ("troponin", 1.2, 1.2, 3.0),
        ("alt", 3.2, 0.6, 5.0),
        ("creatinine", 4.4, 0.3, 20.0),
        ("d_dimer", 5.8, 0.9, 190.0),
        ("psa", 0.0, 1.1, 0.1),
        ("tsh", 0.4, 0.8, 0.05),
    ):
        value = np.exp(middle + spread * (0.6 * common + 0.8 * rng.normal(size=size)))
        table[name] = _hidden(rng, np.round(np.maximum(value, limit), 2), 0.05)
    sodium = np.round(rng.normal(140, 3.5, size)).astype(int)
    return pd.DataFrame(table | {"sodium": sodium, "culture": _codes(rng, size, {"negative": 9, "positive": 1})})


def salaries(rng: Rng, size: int) -> pd.DataFrame:
    """Employees of a city; unknown numbers are -999999."""
    years = rng.gamma(2, 6, size).clip(0, 45).round(1)
    pay = np.round(np.exp(10.4 + 0.015 * years + rng.normal(0, 0.3, size)), 2)

    def with_code(values: Any, share: float) -> Any:
        return np.where(rng.random(size) < share, -999_999, values)

    return pd.DataFrame(
        {
            "employee_name": np.char.add(
                np.array(_syllables(rng, size, 2)), np.char.add(" ", _syllables(rng, size, 3))
            ),
            "department": _codes(rng, size, {f"D{at:02}": 1 / at for at in range(1, 45)}),
            "job_title": _codes(
                rng,
                size,
                {
                    f"{name} {at}": 1 / (at + 1) ** 2
                    for at in range(1, 9)
                    for name in ("Clerk", "Engineer", "Officer", "Nurse")
                },
            ),
            "years": years,
            "base_pay": with_code(pay, 0.03),
            "overtime": with_code(np.where(rng.random(size) < 0.5, 0, np.round(rng.gamma(1, 3_000, size), 2)), 0.03),
            "benefits": with_code(np.round(0.3 * pay * rng.lognormal(0, 0.1, size), 2), 0.05),
            "full_time": rng.choice(["FT", "PT"], size, p=[0.8, 0.2]),
        }
    )


TABLES: dict[str, Made] = {
    "schools": Made(4_335, schools, CodeBook(secret="kind")),
    "claims": Made(5_000, claims, CodeBook(secret="claim_amount")),
    "households": Made(2_000, households, CodeBook(unit="household_id", secret="work")),
    "panel": Made(1_000, panel, CodeBook(unit="person_id", secret="sector")),
    "wide": Made(
        2_000,
        wide,
        CodeBook(secret="code_00", levels={f"code_{at:02}": ["none", "low", "mid", "high"] for at in range(20)}),
    ),
    "tiny_strata": Made(
        5_442,
        tiny_strata,
        CodeBook(
            time="time_months",
            status="status",
            event=["died"],
            levels={
                "stage": [f"stage {at}" for at in range(1, 5)],
                "grade": ["unknown", "low", "medium", "high"],
            },
            secret="treatment",
        ),
    ),
    "heaped": Made(5_000, heaped, CodeBook(secret="income")),
    "numbers_as_codes": Made(4_000, numbers_as_codes, CodeBook(secret="section")),
    "free_text": Made(4_000, free_text, CodeBook(secret="product")),
    "timestamps": Made(
        5_000, timestamps, CodeBook(secret="admitted", levels={"triage": ["blue", "green", "yellow", "orange", "red"]})
    ),
    "likert": Made(
        3_000, likert, CodeBook(secret="age_group", levels={f"q{at:02}": [1, 2, 3, 4, 5] for at in range(1, 41)})
    ),
    "customers": Made(2_000, customers, CodeBook(secret="country")),
    "diagnoses": Made(6_000, diagnoses, CodeBook(secret="main_diagnosis")),
    "laboratory": Made(5_000, laboratory, CodeBook(secret="culture")),
    "salaries": Made(
        6_000,
        salaries,
        CodeBook(unknown=dict.fromkeys(("base_pay", "overtime", "benefits"), -999_999.0), secret="department"),
    ),
}
