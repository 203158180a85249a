"""The tables: each is drawn from a seed, twice as many units as are released, of whom half are the control.

No value is of a person. What a code book says of a table stands with it: a newcomer fills in the proposal of
`anonpipe init` from that, and from nothing else.
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
    """What is known of a table without its rows."""

    secrets: Sequence[str]  # Columns that are guessed from the others: the first that is released
    names: Sequence[str] = ()  # Columns that name persons, or nobody analyses
    unit: str | None = None  # Names who has several rows
    time: str | None = None
    status: str | None = None
    event: Sequence[Any] = ()
    levels: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # Orders
    unknown: Mapping[str, float] = field(default_factory=dict)  # Codes for "unknown"


class Drawn(NamedTuple):
    """A table to release, and other records of the same population."""

    original: pd.DataFrame
    control: pd.DataFrame


class Made(NamedTuple):
    """Units of a table by default, how it is drawn, and its code book."""

    size: int
    draw: Callable[[Rng, int], pd.DataFrame]
    book: CodeBook


def drawn(name: str, seed: int = 1, size: int | None = None) -> Drawn:
    """A table of that name: of all units that are drawn, half at random are released; the others are the control."""
    made = TABLES[name]
    rng = np.random.default_rng([seed, list(TABLES).index(name)])
    count = size or made.size
    whole = made.draw(rng, 2 * count)
    owner = np.arange(len(whole)) if made.book.unit is None else pd.factorize(whole[made.book.unit])[0]
    inside = (rng.permutation(2 * count) < count)[owner]
    parts = [whole[rows].reset_index(drop=True) for rows in (inside, ~inside)]
    if name == "customers":
        for part in parts:
            part.loc[1, "customer_number"] = part.loc[0, "customer_number"]
    return Drawn(*parts)


def _codes(rng: Rng, size: int, **shares: float) -> Any:
    """Categories by their shares, which need not add up to one."""
    weights = np.array(list(shares.values()))
    return rng.choice(list(shares), size, p=weights / weights.sum()).astype(object)


def _ranked(rng: Rng, size: int, codes: Any, steepness: float) -> Any:
    """Codes of which each is rarer than the one before."""
    share = 1.0 / np.arange(1, len(codes) + 1) ** steepness
    return rng.choice(codes, size, p=share / share.sum()).astype(object)


SYLLABLES = np.array(["ba", "den", "fur", "gol", "hei", "kan", "lin", "mor", "neu", "pol", "rat", "sen", "tal", "ver"])


def _words(rng: Rng, size: int, syllables: int) -> Any:
    """Words of so many syllables."""
    picked = SYLLABLES[rng.integers(0, len(SYLLABLES), (size, syllables))]
    return np.array(["".join(row).capitalize() for row in picked], dtype=object)


def _hidden(rng: Rng, values: Any, share: float) -> pd.Series:
    """The values, of which a share is missing."""
    return pd.Series(values).mask(pd.Series(rng.random(len(values)) < share))


def _amounts(rng: Rng, size: int, middle: float, spread: float, zeros: float = 0.0) -> Any:
    """Lognormal amounts to the cent, of which a share is 0."""
    return np.where(rng.random(size) < zeros, 0.0, np.round(rng.lognormal(middle, spread, size), 2))


def schools(rng: Rng, size: int) -> pd.DataFrame:
    """Schools with names, of which 78 % occur once, pupils by grade, and results."""
    pupils, poor = np.round(rng.lognormal(6.0, 0.6, size)).astype(int), rng.beta(2.0, 3.0, size)
    kind = _codes(rng, size, Elementary=60, Middle=18, High=20, Special=2)
    shared = rng.choice(["Lincoln ", "Washington ", "Oak Grove ", "Central "], size).astype(object) + kind
    t = pd.DataFrame({"school_name": np.where(rng.random(size) < 0.215, shared, _words(rng, size, 5))})
    t["district"] = rng.zipf(1.6, size).clip(max=90).astype(str)
    t["county"], t["kind"] = rng.choice(_words(rng, 40, 2), size), kind
    t["charter"], t["pupils"] = rng.random(size) < 0.1, pupils
    t["free_meals"] = np.round(poor * pupils).astype(int)
    t["teachers"] = np.round(pupils / rng.normal(20, 2, size).clip(12), 1)
    t["opened"], t["spending"] = rng.integers(1890, 2020, size), _amounts(rng, size, 9.2, 0.2)
    for grade in range(1, 14):
        t[f"grade_{grade}"] = rng.binomial(pupils, 1 / 13) * (rng.random(size) < 0.6)
    for subject in ("reading", "maths", "science", "writing", "history", "arts"):
        t[f"{subject}_score"] = _hidden(rng, np.round(rng.normal(700 - 200 * poor, 40)).astype(int), 0.08)
        t[f"{subject}_tested"] = _hidden(rng, rng.binomial(pupils, 0.4), 0.08)
    return t.assign(rating=_codes(rng, size, A=3, B=4, C=2, D=1))


def claims(rng: Rng, size: int) -> pd.DataFrame:
    """Insured cars, of which most never had a claim."""
    t = pd.DataFrame({"policy_id": 100_000 + rng.permutation(size), "driver_age": rng.integers(18, 90, size)})
    t["vehicle_age"], t["power"] = rng.poisson(6, size), rng.integers(4, 16, size)
    t["fuel"] = _codes(rng, size, petrol=5, diesel=4, electric=1)
    t["area"] = _codes(rng, size, A=1, B=2, C=4, D=2, E=1, F=0.2)
    t["exposure"] = np.round(rng.beta(3, 1, size), 2).clip(0.01)
    t["bonus"] = np.where(rng.random(size) < 0.55, 50, rng.integers(51, 150, size))
    t["claims"] = rng.poisson(0.05 + 0.1 * (t["driver_age"] < 25))
    t["claim_amount"] = np.where(t["claims"] > 0, _amounts(rng, size, 7.0, 1.2), 0.0)
    return t.assign(legal_costs=np.where(rng.random(size) < 0.2, (0.3 * t["claim_amount"]).round(2), 0.0))


def households(rng: Rng, size: int) -> pd.DataFrame:
    """A survey of households with weights; each member is a row."""
    members = 1 + rng.poisson(1.3, size).clip(max=7)
    home = pd.DataFrame({"household_id": 5_000_000 + 7 * np.arange(size)})
    home["region"] = _codes(rng, size, North=30, East=30, South=25, West=14, Islands=1)
    home["weight"], home["household_size"] = np.round(rng.lognormal(6.0, 0.4, size), 3), members
    home["household_income"] = np.round(rng.lognormal(10.3, 0.6, size), -2).astype(int)
    home["tenure"] = _codes(rng, size, owner=10, tenant=9, free=1)
    t = home.loc[np.repeat(np.arange(size), members)].reset_index(drop=True)
    t["age"], t["sex"] = rng.integers(0, 95, len(t)), _codes(rng, len(t), female=1, male=1)
    grown = np.where(t["age"] > 66, "retired", _codes(rng, len(t), employed=6, home=2, school=1))
    t["work"] = np.where(t["age"] < 16, "child", grown)
    t["hours"] = np.where(t["work"] == "employed", rng.choice([20, 35, 40, 40, 40, 45], len(t)), 0)
    return t.assign(health=rng.integers(1, 6, len(t)))


def panel(rng: Rng, size: int) -> pd.DataFrame:
    """Persons in up to eight yearly waves: wages grow, and most else stays."""
    waves = rng.integers(2, 9, size)
    person = pd.DataFrame({"person_id": [f"P{10_000 + at}" for at in range(size)], "year": 2010})
    person["birth_year"], person["sex"] = rng.integers(1940, 2000, size), _codes(rng, size, f=1, m=1)
    person["sector"] = _codes(rng, size, services=5, industry=3, farming=0.5)
    person["wage"], person["hours"] = rng.lognormal(7.6, 0.4, size), rng.normal(38, 4, size)
    t = person.assign(satisfaction=rng.integers(2, 9, size)).loc[np.repeat(np.arange(size), waves)]
    t["year"] += t.groupby("person_id").cumcount()
    t["wage"] = (t["wage"] * 1.03 ** (t["year"] - 2010) * rng.lognormal(0, 0.05, len(t))).round(2)
    t["hours"] = (t["hours"] + rng.normal(0, 1, len(t))).round(1)
    t["satisfaction"] = (t["satisfaction"] + rng.integers(-1, 2, len(t))).clip(0, 10)
    return t.assign(unemployed=rng.random(len(t)) < 0.06).reset_index(drop=True)


GRADES = ["none", "low", "mid", "high"]


def wide(rng: Rng, size: int) -> pd.DataFrame:
    """Sixty columns and few rows: forty related measurements and twenty codes."""
    factors = rng.normal(size=(size, 6))
    numbers = np.round(100 + 10 * (factors @ rng.normal(size=(6, 40)) + rng.normal(size=(size, 40))), 2)
    cuts = [np.digitize(factors[:, at % 6] + rng.normal(size=size), [-1.0, 0.2, 1.4]) for at in range(20)]
    codes = {f"code_{at:02}": np.array(GRADES, dtype=object)[cut] for at, cut in enumerate(cuts)}
    return pd.DataFrame(numbers, columns=[f"marker_{at:02}" for at in range(40)]).assign(**codes)


def tiny_strata(rng: Rng, size: int) -> pd.DataFrame:
    """Patients followed up, of whom one in a thousand has the code of a rare kind of censoring."""
    stage, leave = rng.integers(1, 5, size), rng.uniform(1, 120, size)
    death = rng.exponential(120 / stage)
    t = pd.DataFrame({"patient_id": 1 + rng.permutation(size)})
    t["age"], t["sex"] = rng.normal(66, 11, size).clip(20, 100).astype(int), _codes(rng, size, F=1, M=1)
    t["stage"] = "stage " + pd.Series(stage).astype(str)
    t["grade"] = _codes(rng, size, low=3, medium=4, high=2, unknown=1)
    t["size_mm"], t["nodes"] = np.round(rng.lognormal(3.0, 0.5, size)).astype(int), rng.poisson(stage * 0.7)
    t["treatment"] = _codes(rng, size, surgery=5, radiation=2, both=2, none=1)
    t["time_months"] = np.round(np.minimum(death, leave), 1).clip(0.1)
    t["status"] = np.where(death < leave, "died", "alive").astype(object)
    t.loc[rng.permutation(size)[: max(2, size // 1_088)], "status"] = "emigrated"
    return t


def heaped(rng: Rng, size: int) -> pd.DataFrame:
    """What persons say of themselves: they round."""

    def said(values: Any, coarse: int, share: float) -> Any:
        near = coarse * np.round(values / coarse)
        return np.where(rng.random(size) < share, near, np.round(values)).astype(int)

    height = rng.normal(171, 9, size)
    t = pd.DataFrame({"age": said(rng.uniform(18, 90, size), 5, 0.3), "height_cm": said(height, 5, 0.5)})
    t["weight_kg"] = said(rng.normal(75, 12, size) + 0.6 * (height - 171), 5, 0.6)
    t["cigarettes"] = np.where(rng.random(size) < 0.7, 0, rng.choice([5, 10, 15, 20, 20, 20, 40], size))
    t["income"] = said(rng.lognormal(7.8, 0.5, size), 500, 0.8)
    t["rent"] = said(rng.lognormal(6.5, 0.4, size), 50, 0.9)
    t["minutes_to_work"] = rng.choice([0, 5, 10, 15, 20, 30, 30, 45, 60, 90], size)
    t["books"] = rng.choice([0, 1, 2, 5, 10, 20, 50, 100, 100, 200, 500], size)
    return t.assign(smoker_years=said(rng.gamma(1.0, 10, size), 10, 0.7))


def numbers_as_codes(rng: Rng, size: int) -> pd.DataFrame:
    """Members of a club with postcodes and telephone numbers, which look like numbers."""
    t = pd.DataFrame({"postcode": _ranked(rng, size, rng.integers(10_000, 99_999, 400), 1.0).astype(int)})
    t["telephone"] = rng.integers(301_000_000, 799_999_999, size)
    t["mobile"] = _hidden(rng, rng.integers(15_000_000_000, 17_999_999_999, size), 0.3).astype("Int64")
    t["account"], t["age"] = rng.integers(1_000_000_000, 9_999_999_999, size), rng.integers(6, 90, size)
    t["sex"], t["fee"] = _codes(rng, size, w=49, m=50, d=1), rng.choice([30.0, 60.0, 90.0, 120.0], size)
    t["donations"] = _amounts(rng, size, 4, 1, zeros=0.8).round()
    return t.assign(section=_codes(rng, size, football=5, tennis=3, swimming=3, chess=0.3))


def free_text(rng: Rng, size: int) -> pd.DataFrame:
    """Complaints with a remark in words, which is another in nearly every row."""
    words = _words(rng, 600, 2)
    remark = np.array([" ".join(rng.choice(words, count)).lower() for count in rng.integers(3, 15, size)], dtype=object)
    t = pd.DataFrame({"remark": _hidden(rng, remark, 0.15)})
    t["answer"] = np.where(rng.random(size) < 0.6, "We are sorry. Your case is closed.", remark[::-1])
    t["product"] = _codes(rng, size, phone=5, internet=4, television=2, alarm=0.2)
    t["channel"], t["days_open"] = _codes(rng, size, mail=3, telephone=5, letter=1), rng.geometric(0.08, size)
    t["refund"] = _amounts(rng, size, 3.5, 0.7, zeros=0.65)
    return t.assign(contract_years=rng.gamma(2, 2, size).round(1), age=rng.integers(18, 95, size))


def timestamps(rng: Rng, size: int) -> pd.DataFrame:
    """Visits of an emergency department, with times to the second."""
    arrived = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 365 * 86_400, size), unit="s")
    t = pd.DataFrame({"case_number": 20_230_000_000 + rng.permutation(size), "arrived_at": arrived})
    t["seen_at"] = t["arrived_at"] + pd.to_timedelta(rng.gamma(2, 1_200, size).astype(int), unit="s")
    stay = pd.to_timedelta(rng.lognormal(9.2, 0.7, size).astype(int), unit="s")
    t["left_at"] = _hidden(rng, t["seen_at"] + stay, 0.05)
    t["age"], t["sex"] = rng.integers(0, 100, size), _codes(rng, size, female=1, male=1)
    t["triage"] = _codes(rng, size, red=0.5, orange=2, yellow=5, green=6, blue=1)
    t["temperature"] = rng.normal(37.2, 0.8, size).round(1)
    t["pulse"] = np.round(rng.normal(85, 18, size)).astype(int)
    return t.assign(admitted=rng.random(size) < np.where(t["triage"].isin(["red", "orange"]), 0.7, 0.15))


def likert(rng: Rng, size: int) -> pd.DataFrame:
    """Forty statements from 1 to 5, by four traits, and who answers."""
    traits = rng.normal(size=(size, 4))
    t: dict[str, Any] = {"age_group": rng.choice(["18-29", "30-44", "45-59", "60+"], size)}
    for at in range(40):
        answer = 1 + np.digitize(1.2 * traits[:, at % 4] + rng.normal(size=size), [-1.6, -0.5, 0.4, 1.5])
        t[f"q{at + 1:02}"] = _hidden(rng, answer, 0.02).astype("Int64")
    return pd.DataFrame(t)


def customers(rng: Rng, size: int) -> pd.DataFrame:
    """Customers of a shop; by mistake one number occurs twice."""
    t = pd.DataFrame({"customer_number": 70_000 + rng.permutation(size)})
    t["email"] = [f"{name.lower()}{at}@example.org" for at, name in enumerate(_words(rng, size, 3))]
    t["joined"] = pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 3_500, size), unit="D")
    t["age"] = _hidden(rng, rng.normal(44, 14, size).clip(18, 95).round(), 0.12)
    t["country"] = _codes(rng, size, DE=60, AT=15, CH=12, NL=6, LI=0.15, LU=0.6)
    t["orders"] = rng.negative_binomial(1, 0.15, size)
    t["spent"] = (t["orders"] * rng.lognormal(3.5, 0.6, size)).round(2)
    return t.assign(returns=rng.binomial(t["orders"], 0.2), newsletter=rng.random(size) < 0.3)


def diagnoses(rng: Rng, size: int) -> pd.DataFrame:
    """Hospital stays with codes of which most are rare."""
    codes = rng.permutation([f"{letter}{number:02}" for letter in "CEGIJKMNS" for number in range(60)])
    t = pd.DataFrame({"main_diagnosis": _ranked(rng, size, codes, 1.1)})
    t["second_diagnosis"] = _hidden(rng, _ranked(rng, size, codes[::-1], 1.1), 0.4)
    t["procedure"] = "5-" + pd.Series(rng.integers(100, 250, size)).astype(str)
    t["ward"] = _codes(rng, size, medicine=5, surgery=4, neurology=2, palliative=0.1)
    t["age"], t["sex"] = rng.integers(0, 100, size), _codes(rng, size, F=1, M=1)
    t["days"] = 1 + rng.negative_binomial(2, 0.25, size)
    t["cost"] = (t["days"] * rng.lognormal(6.2, 0.4, size)).round(2)
    return t.assign(died=_codes(rng, size, no=97, yes=3))


LIMITS_OF_DETECTION = {"crp": (1.5, 1.4, 1.0), "ferritin": (4.8, 0.9, 5.0), "troponin": (1.2, 1.2, 3.0)} | {
    **{"alt": (3.2, 0.6, 5.0), "creatinine": (4.4, 0.3, 20.0), "d_dimer": (5.8, 0.9, 190.0)},
    **{"psa": (0.0, 1.1, 0.1), "tsh": (0.4, 0.8, 0.05)},
}
"""Of each value mean and standard deviation of its logarithm, and the least that is measured."""


def laboratory(rng: Rng, size: int) -> pd.DataFrame:
    """Laboratory values, long-tailed and related, of which many are at their limit of detection."""
    common = rng.normal(size=size)
    t = pd.DataFrame({"age": rng.integers(18, 95, size), "sex": _codes(rng, size, f=1, m=1)})
    for name, (middle, spread, least) in LIMITS_OF_DETECTION.items():
        value = np.exp(middle + spread * (0.6 * common + 0.8 * rng.normal(size=size)))
        t[name] = _hidden(rng, np.round(np.maximum(value, least), 2), 0.05)
    t["sodium"] = np.round(rng.normal(140, 3.5, size)).astype(int)
    return t.assign(culture=_codes(rng, size, negative=9, positive=1))


UNKNOWN = -999_999.0


def salaries(rng: Rng, size: int) -> pd.DataFrame:
    """Employees of a city; unknown amounts are -999999."""
    years = rng.gamma(2, 6, size).clip(0, 45).round(1)
    pay = np.round(np.exp(10.4 + 0.015 * years + rng.normal(0, 0.3, size)), 2)
    titles = [f"{name} {at}" for at in range(1, 9) for name in ("Clerk", "Engineer", "Officer", "Nurse")]
    t = pd.DataFrame({"employee_name": _words(rng, size, 2) + " " + _words(rng, size, 4)})
    t["department"] = _ranked(rng, size, [f"D{at:02}" for at in range(1, 45)], 1.0)
    t["job_title"], t["years"] = _ranked(rng, size, titles, 1.0), years
    t["base_pay"] = _hidden(rng, pay, 0.03).fillna(UNKNOWN)
    t["overtime"] = _hidden(rng, _amounts(rng, size, 7.5, 1.0, zeros=0.5), 0.03).fillna(UNKNOWN)
    t["benefits"] = _hidden(rng, np.round(0.3 * pay * rng.lognormal(0, 0.1, size), 2), 0.05).fillna(UNKNOWN)
    return t.assign(full_time=_codes(rng, size, FT=8, PT=2))


_PATIENTS = CodeBook(
    ["treatment"],
    ["patient_id"],
    time="time_months",
    status="status",
    event=["died"],
    levels={"stage": [f"stage {at}" for at in range(1, 5)], "grade": ["unknown", "low", "medium", "high"]},
)
_TRIAGE = {"triage": ["blue", "green", "yellow", "orange", "red"]}
_ITEMS = {f"q{at:02}": [1, 2, 3, 4, 5] for at in range(1, 41)}
_PAY = dict.fromkeys(("base_pay", "overtime", "benefits"), UNKNOWN)

TABLES: dict[str, Made] = {
    "schools": Made(4_335, schools, CodeBook(["kind"], ["school_name"])),
    "claims": Made(5_000, claims, CodeBook(["claim_amount"], ["policy_id"])),
    "households": Made(2_000, households, CodeBook(["work"], unit="household_id")),
    "panel": Made(1_000, panel, CodeBook(["sector"], unit="person_id")),
    "wide": Made(2_000, wide, CodeBook(["code_00"], levels={f"code_{at:02}": GRADES for at in range(20)})),
    "tiny_strata": Made(5_442, tiny_strata, _PATIENTS),
    "heaped": Made(5_000, heaped, CodeBook(["income"])),
    "numbers_as_codes": Made(4_000, numbers_as_codes, CodeBook(["section"], ["telephone", "mobile", "account"])),
    "free_text": Made(4_000, free_text, CodeBook(["product"], ["remark", "answer"])),
    "timestamps": Made(5_000, timestamps, CodeBook(["admitted"], ["case_number"], levels=_TRIAGE)),
    "likert": Made(3_000, likert, CodeBook(["q01", "age_group"], levels=_ITEMS)),
    "customers": Made(2_000, customers, CodeBook(["country"], ["customer_number", "email"])),
    "diagnoses": Made(6_000, diagnoses, CodeBook(["main_diagnosis", "ward"])),
    "laboratory": Made(5_000, laboratory, CodeBook(["culture"])),
    "salaries": Made(6_000, salaries, CodeBook(["department"], ["employee_name"], unknown=_PAY)),
}
