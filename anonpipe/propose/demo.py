"""Made-up data: a cancer registry of invented persons.

Nothing here describes anyone. Every value is drawn from the tables below, so the seed is public and fixed: the warning
against short seeds concerns the noise that protects true records, and there are none here. The truth behind the
survival times (`BASELINE_SHAPE`, `BASELINE_SCALE_MONTHS`, `LOG_HAZARD_RATIOS`) is known, so that an analysis of the
released table can be judged by it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from anonpipe.errors import InputError, OutputError
from anonpipe.files import drafted
from anonpipe.propose import choose_method
from anonpipe.propose.propose import template
from anonpipe.types import BoolArray, FloatArray, IntArray

Codes = npt.NDArray[np.int32]

PUBLIC_SEED = 20_000_101  # Seed of the demonstration tables; public, as the persons are invented
BLOCK_ROWS = 16_384  # Rows drawn from one random stream; fixed, so that values depend on the row's place alone
GROUP_BLOCKS = 8  # Of a row group
LARGEST_TABLE_ROWS = 2**31 - 2  # As many distinct patient identifiers exist

SEXES = ("Female", "Male")
STAGES = ("Localised", "Regional", "Distant", "Unknown")
SITES = ("Breast", "Prostate", "Lung", "Colon", "Rectum", "Bladder", "Skin melanoma", "Cervix")
TREATMENTS = ("Surgery", "Chemotherapy", "Radiotherapy", "Combined", "None")
REGIONS = (
    "North coast", "South coast", "Lake district", "Upper valley", "Lower valley",
    "Highlands", "Islands", "Capital", "Eastern plain", "Western plain",
)  # fmt: skip
VITAL_STATUSES = ("Alive", "Dead")

AGE_BOUNDS_YEARS = (18, 100)
FIRST_DIAGNOSIS = "2000-01-01"
LAST_DIAGNOSIS = "2019-12-31"
END_OF_FOLLOW_UP = "2020-12-31"
TUMOUR_SIZE_BOUNDS_MM = (0.5, 300.0)
FOLLOW_UP_BOUNDS_MONTHS = (0.1, 252.0)
DAYS_PER_MONTH = 30.4375

# Distributions, one row a site.
SITE_SHARES = (0.24, 0.20, 0.17, 0.14, 0.08, 0.07, 0.06, 0.04)
MALE_SHARES = (0.01, 1.00, 0.58, 0.53, 0.60, 0.76, 0.50, 0.00)
AGE_MEANS_YEARS = (60.0, 69.0, 68.0, 70.0, 67.0, 71.0, 58.0, 50.0)
AGE_DEVIATIONS_YEARS = (12.5, 8.5, 9.5, 11.0, 11.0, 10.0, 15.0, 13.5)
STAGE_SHARES = (
    (0.58, 0.30, 0.06, 0.06),
    (0.66, 0.14, 0.09, 0.11),
    (0.18, 0.25, 0.48, 0.09),
    (0.36, 0.35, 0.22, 0.07),
    (0.38, 0.35, 0.18, 0.09),
    (0.64, 0.16, 0.08, 0.12),
    (0.80, 0.10, 0.04, 0.06),
    (0.46, 0.34, 0.13, 0.07),
)
REGION_SHARES = (0.06, 0.08, 0.05, 0.07, 0.11, 0.04, 0.02, 0.27, 0.16, 0.14)
SMOKER_SHARES = (0.20, 0.24, 0.72, 0.26, 0.27, 0.48, 0.19, 0.36)

# One row a stage.
TUMOUR_LOG_MEANS = (2.9, 3.45, 3.8, 3.3)
TUMOUR_LOG_DEVIATION = 0.55
TUMOUR_MISSING_SHARES = (0.07, 0.08, 0.15, 0.42)
TREATMENT_SHARES_YOUNG = (
    (0.52, 0.06, 0.14, 0.24, 0.04),
    (0.26, 0.16, 0.13, 0.40, 0.05),
    (0.06, 0.46, 0.16, 0.20, 0.12),
    (0.30, 0.18, 0.18, 0.18, 0.16),
)
TREATMENT_SHARES_OLD = (
    (0.46, 0.03, 0.20, 0.09, 0.22),
    (0.32, 0.09, 0.22, 0.12, 0.25),
    (0.05, 0.19, 0.23, 0.04, 0.49),
    (0.16, 0.06, 0.18, 0.04, 0.56),
)
TREATMENT_TURNING_AGE_YEARS = 72.0
TREATMENT_TURNING_WIDTH_YEARS = 6.0

# Proportional hazards: h(t | x) = h0(t) exp(x b), h0 Weibull; time in months since diagnosis.
BASELINE_SHAPE = 0.9
BASELINE_SCALE_MONTHS = 420.0  # Of the Weibull baseline: a person of 65, female, Localised, Surgery

REFERENCE_AGE_YEARS = 65.0
# The truth: `age` a year; the others against Female, Localised and Surgery
LOG_HAZARD_RATIOS = {
    "age": 0.035,
    "Male": 0.15,
    "Regional": 0.60,
    "Distant": 1.70,
    "Unknown": 0.90,
    "Chemotherapy": 0.25,
    "Radiotherapy": 0.20,
    "Combined": -0.10,
    "None": 0.70,
}

LOSS_PER_MONTH = 0.0015

REGISTRY_SCHEMA = pa.schema(
    [
        pa.field("patient_id", pa.int64(), nullable=False),
        pa.field("age", pa.int16()),
        pa.field("sex", pa.dictionary(pa.int32(), pa.string())),
        pa.field("stage", pa.dictionary(pa.int32(), pa.string())),
        pa.field("site", pa.dictionary(pa.int32(), pa.string())),
        pa.field("tumour_size_mm", pa.float32()),
        pa.field("treatment", pa.dictionary(pa.int32(), pa.string())),
        pa.field("region", pa.dictionary(pa.int32(), pa.string())),
        pa.field("diagnosis_date", pa.date32()),
        pa.field("smoker", pa.bool_()),
        pa.field("follow_up_months", pa.float64()),
        pa.field("vital_status", pa.dictionary(pa.int32(), pa.string())),
    ]
)


def write_registry(path: str | Path, rows: int, *, seed: int = PUBLIC_SEED) -> None:
    """Write a cancer-registry-like table of invented persons to one Parquet file.

    Age and sex depend on the site, the stage on the site, the treatment on stage and age, smoking on site and sex. The
    tumour size is lognormal by stage, and missing most often where the stage is unknown. Survival follows proportional
    hazards over a Weibull baseline; a follow-up ends at the death, at `END_OF_FOLLOW_UP`, or at a random loss,
    whichever comes first.
    """
    write_blocks(path, rows, seed, REGISTRY_SCHEMA, _registry_block)


def write_blocks(
    path: str | Path,
    rows: int,
    seed: int,
    schema: pa.Schema,
    block: Callable[[np.random.Generator, int], list[pa.Array]],
) -> None:
    """Write a table of blocks, each drawn whole from a stream of its own, given the place of its first row."""
    if not 0 <= rows <= LARGEST_TABLE_ROWS:
        raise InputError(f"rows is {rows}; give 0 to {LARGEST_TABLE_ROWS}")
    if seed < 0:
        raise InputError(f"seed is {seed}; give a whole number of at least 0")
    target, places = Path(path), iter(range(0, rows, BLOCK_ROWS))
    try:
        with drafted(target, private=False) as draft, pq.ParquetWriter(draft, schema) as writer:
            while group := list(islice(places, GROUP_BLOCKS)):
                streams = (np.random.SeedSequence((seed, first // BLOCK_ROWS)) for first in group)
                arrays = [
                    block(np.random.Generator(np.random.PCG64(each)), first)
                    for each, first in zip(streams, group, strict=True)
                ]
                tables = [pa.Table.from_arrays(each, schema=schema) for each in arrays]
                writer.write_table(pa.concat_tables(tables).slice(0, rows - group[0]).combine_chunks())
    except OSError as error:
        raise OutputError(
            f"{target} cannot be written ({os.strerror(error.errno or 0)}); give a file in a folder "
            "that exists, that you may write to and that has space"
        ) from None


def _registry_block(rng: np.random.Generator, first: int) -> list[pa.Array]:
    """Draw `BLOCK_ROWS` persons, of whom the first has this place in the table."""
    rows = BLOCK_ROWS
    site = _draw(rng, np.array([SITE_SHARES]), np.zeros(rows, dtype=np.int32))
    sex = (rng.random(rows) < np.array(MALE_SHARES)[site]).astype(np.int32)
    age = _ages(rng, site)
    stage = _draw(rng, np.array(STAGE_SHARES), site)
    treatment = _treatments(rng, stage, age)
    region = _draw(rng, np.array([REGION_SHARES]), np.zeros(rows, dtype=np.int32))
    size, size_missing = _tumour_sizes(rng, stage)
    smoker, smoker_missing = _smokers(rng, site, sex, age)
    diagnosed = rng.integers(_day(FIRST_DIAGNOSIS), _day(LAST_DIAGNOSIS), rows, endpoint=True)
    months, dead = _follow_up(rng, diagnosed, _log_hazards(age, sex, stage, treatment))
    return [
        pa.array(_patient_ids(first, rows)),
        pa.array(age.astype(np.int16)),
        _dictionary(sex, SEXES),
        _dictionary(stage, STAGES),
        _dictionary(site, SITES),
        pa.array(size.astype(np.float32), mask=size_missing),
        _dictionary(treatment, TREATMENTS),
        _dictionary(region, REGIONS),
        pa.array(diagnosed.astype(np.int32)).cast(pa.date32()),
        pa.array(smoker, mask=smoker_missing),
        pa.array(months),
        _dictionary(dead, VITAL_STATUSES),
    ]


def _draw(rng: np.random.Generator, shares: FloatArray, rows: npt.NDArray[np.int32]) -> Codes:
    """Draw a category for each record from the row of `shares` that it names."""
    limits = np.cumsum(shares / shares.sum(axis=1, keepdims=True), axis=1)
    uniform = rng.random(len(rows))
    codes = np.zeros(len(rows), dtype=np.int32)
    for limit in limits.T[:-1]:
        codes += uniform >= limit[rows]
    return codes


def _ages(rng: np.random.Generator, site: Codes) -> FloatArray:
    """Whole years by site; what falls beyond a bound is mirrored there, so that no age piles up."""
    low, high = AGE_BOUNDS_YEARS
    age = np.array(AGE_MEANS_YEARS)[site] + np.array(AGE_DEVIATIONS_YEARS)[site] * rng.standard_normal(len(site))
    age = low + np.abs(age - low)
    age = high - np.abs(high - age)
    return np.clip(np.rint(age), low, high)


def _treatments(rng: np.random.Generator, stage: Codes, age: FloatArray) -> Codes:
    """Treatment by stage; the chance that the habits for the old apply rises with age."""
    old = rng.random(len(age)) < 1 / (1 + np.exp((TREATMENT_TURNING_AGE_YEARS - age) / TREATMENT_TURNING_WIDTH_YEARS))
    habits = np.array(TREATMENT_SHARES_YOUNG + TREATMENT_SHARES_OLD)
    return _draw(rng, habits, stage + np.int32(len(STAGES)) * old)


def _tumour_sizes(rng: np.random.Generator, stage: Codes) -> tuple[FloatArray, BoolArray]:
    """Millimetres to one decimal, and where they are missing."""
    size = np.exp(np.array(TUMOUR_LOG_MEANS)[stage] + TUMOUR_LOG_DEVIATION * rng.standard_normal(len(stage)))
    missing = rng.random(len(stage)) < np.array(TUMOUR_MISSING_SHARES)[stage]
    return np.clip(np.rint(size * 10) / 10, *TUMOUR_SIZE_BOUNDS_MM), missing


def _smokers(rng: np.random.Generator, site: Codes, sex: Codes, age: FloatArray) -> tuple[BoolArray, BoolArray]:
    """Whether they smoke, and where nobody asked (more often among the old; 8 % in all)."""
    chance = np.clip(np.array(SMOKER_SHARES)[site] + np.where(sex == 1, 0.05, -0.03), 0.02, 0.95)
    missing = rng.random(len(age)) < np.clip(0.08 + 0.002 * (age - 66.0), 0.01, 1.0)
    return rng.random(len(age)) < chance, missing


def _log_hazards(age: FloatArray, sex: Codes, stage: Codes, treatment: Codes) -> FloatArray:
    """Each record's x b under `LOG_HAZARD_RATIOS`; the reference categories have 0."""
    effects = LOG_HAZARD_RATIOS["age"] * (age - REFERENCE_AGE_YEARS)
    for codes, names in ((sex, SEXES), (stage, STAGES), (treatment, TREATMENTS)):
        effects += np.array([0.0, *(LOG_HAZARD_RATIOS[name] for name in names[1:])])[codes]
    return effects


def _follow_up(rng: np.random.Generator, diagnosed: IntArray, log_hazards: FloatArray) -> tuple[FloatArray, Codes]:
    """Months to one decimal until death or censoring, and 1 for a death.

    S(t | x) = exp(-(t / scale)^shape exp(x b)) is inverted at a standard
    exponential draw E: t = scale (E exp(-x b))^(1 / shape).
    """
    exponential = rng.standard_exponential(len(log_hazards))
    death = BASELINE_SCALE_MONTHS * (exponential * np.exp(-log_hazards)) ** (1 / BASELINE_SHAPE)
    lost = rng.standard_exponential(len(log_hazards)) / LOSS_PER_MONTH
    censored = np.minimum(lost, (_day(END_OF_FOLLOW_UP) - diagnosed) / DAYS_PER_MONTH)
    months = np.clip(np.rint(np.minimum(death, censored) * 10) / 10, *FOLLOW_UP_BOUNDS_MONTHS)
    return months, (death <= censored).astype(np.int32)


def _patient_ids(first: int, rows: int) -> IntArray:
    """Distinct numbers in no visible order: an affine map modulo the prime 2^31 - 1."""
    places = np.arange(first, first + rows, dtype=np.int64)
    return (places * 1_103_515_245 + 12_345) % (2**31 - 1) + 1


def _dictionary(codes: Codes, names: Sequence[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(names, pa.string()))


def _day(date: str) -> int:
    return int(np.datetime64(date, "D").astype(np.int64))


def demo_job(input: str, output: str, k: int, *, drawn: bool = False) -> str:
    """The commented job for a table of `write_registry`, as YAML: masked by a mixture if `drawn`, else in groups."""
    return template("demo.yaml.jinja").render(
        globals(), limits=choose_method, input=input, output=output, k=k, drawn=drawn
    )
