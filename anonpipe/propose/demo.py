"""Made-up data: a cancer registry of simulated persons.

Nothing here describes anyone. Every value is drawn from the tables of `registry.toml`, so the seed is public and fixed:
the warning against short seeds concerns the noise that protects true records, and there are none here. The truth behind
the survival times (`log_hazard_ratios`, with a Weibull baseline) is known, so that an analysis of the released table
can be judged by it.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from anonpipe.errors import InputError, OutputError
from anonpipe.files import drafted
from anonpipe.propose import method_choice
from anonpipe.propose.propose import template
from anonpipe.types import BoolArray, FloatArray, IntArray

Codes = npt.NDArray[np.int32]

PUBLIC_SEED = 20_000_101  # Seed of the demonstration tables; public, as the persons are simulated
BLOCK_ROWS = 16_384  # Rows drawn from one random stream; fixed, so that values depend on the row's place alone
GROUP_BLOCKS = 8  # Of a row group
LARGEST_TABLE_ROWS = 2**31 - 2  # As many distinct patient identifiers exist
DAYS_PER_MONTH = 30.4375

REGISTRY = SimpleNamespace(**tomllib.loads(Path(__file__).with_name("registry.toml").read_text(encoding="utf-8")))

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
    """Write a cancer-registry-like table of simulated persons to one Parquet file.

    Age and sex depend on the site, the stage on the site, the treatment on stage and age, smoking on site and sex. The
    tumour size is lognormal by stage, and missing most often where the stage is unknown. Survival follows proportional
    hazards over a Weibull baseline; a follow-up ends at the death, at `end_of_follow_up`, or at a random loss,
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
    target = Path(path)
    try:
        with drafted(target, private=False) as draft, pq.ParquetWriter(draft, schema) as writer:
            for begin in range(0, rows, GROUP_BLOCKS * BLOCK_ROWS):
                tables = []
                for first in range(begin, min(rows, begin + GROUP_BLOCKS * BLOCK_ROWS), BLOCK_ROWS):
                    stream = np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, first // BLOCK_ROWS))))
                    tables.append(pa.Table.from_arrays(block(stream, first), schema=schema))
                writer.write_table(pa.concat_tables(tables).slice(0, rows - begin).combine_chunks())
    except OSError as error:
        raise OutputError(
            f"{target} cannot be written ({os.strerror(error.errno or 0)}); give a file in a folder "
            "that exists, that you may write to and that has space"
        ) from None


def _registry_block(rng: np.random.Generator, first: int) -> list[pa.Array]:
    """Draw `BLOCK_ROWS` persons, of whom the first has this place in the table."""
    rows = BLOCK_ROWS
    site = _draw(rng, np.array([REGISTRY.site_shares]), np.zeros(rows, dtype=np.int32))
    sex = (rng.random(rows) < np.array(REGISTRY.male_shares)[site]).astype(np.int32)
    age = _ages(rng, site)
    stage = _draw(rng, np.array(REGISTRY.stage_shares), site)
    treatment = _treatments(rng, stage, age)
    region = _draw(rng, np.array([REGISTRY.region_shares]), np.zeros(rows, dtype=np.int32))
    size, size_missing = _tumour_sizes(rng, stage)
    smoker, smoker_missing = _smokers(rng, site, sex, age)
    diagnosed = rng.integers(_day(REGISTRY.first_diagnosis), _day(REGISTRY.last_diagnosis), rows, endpoint=True)
    months, dead = _follow_up(rng, diagnosed, _log_hazards(age, sex, stage, treatment))
    return [
        pa.array(_patient_ids(first, rows)),
        pa.array(age.astype(np.int16)),
        _dictionary(sex, REGISTRY.sexes),
        _dictionary(stage, REGISTRY.stages),
        _dictionary(site, REGISTRY.sites),
        pa.array(size.astype(np.float32), mask=size_missing),
        _dictionary(treatment, REGISTRY.treatments),
        _dictionary(region, REGISTRY.regions),
        pa.array(diagnosed.astype(np.int32)).cast(pa.date32()),
        pa.array(smoker, mask=smoker_missing),
        pa.array(months),
        _dictionary(dead, REGISTRY.vital_statuses),
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
    low, high = REGISTRY.age_bounds_years
    age = np.array(REGISTRY.age_means_years)[site] + np.array(REGISTRY.age_deviations_years)[
        site
    ] * rng.standard_normal(len(site))
    age = low + np.abs(age - low)
    age = high - np.abs(high - age)
    return np.asarray(np.clip(np.rint(age), low, high))


def _treatments(rng: np.random.Generator, stage: Codes, age: FloatArray) -> Codes:
    """Treatment by stage; the chance that the habits for the old apply rises with age."""
    old = rng.random(len(age)) < 1 / (
        1 + np.exp((REGISTRY.treatment_turning_age_years - age) / REGISTRY.treatment_turning_width_years)
    )
    habits = np.array(REGISTRY.treatment_shares_young + REGISTRY.treatment_shares_old)
    return _draw(rng, habits, stage + np.int32(len(REGISTRY.stages)) * old)


def _tumour_sizes(rng: np.random.Generator, stage: Codes) -> tuple[FloatArray, BoolArray]:
    """Millimetres to one decimal, and where they are missing."""
    size = np.exp(
        np.array(REGISTRY.tumour_log_means)[stage] + REGISTRY.tumour_log_deviation * rng.standard_normal(len(stage))
    )
    missing = rng.random(len(stage)) < np.array(REGISTRY.tumour_missing_shares)[stage]
    return np.clip(np.rint(size * 10) / 10, *REGISTRY.tumour_size_bounds_mm), missing


def _smokers(rng: np.random.Generator, site: Codes, sex: Codes, age: FloatArray) -> tuple[BoolArray, BoolArray]:
    """Whether they smoke, and where nobody asked (more often among the old; 8 % in all)."""
    chance = np.clip(np.array(REGISTRY.smoker_shares)[site] + np.where(sex == 1, 0.05, -0.03), 0.02, 0.95)
    missing = rng.random(len(age)) < np.clip(0.08 + 0.002 * (age - 66.0), 0.01, 1.0)
    return rng.random(len(age)) < chance, missing


def _log_hazards(age: FloatArray, sex: Codes, stage: Codes, treatment: Codes) -> FloatArray:
    """Each record's x b under `log_hazard_ratios`; the reference categories have 0."""
    effects: FloatArray = REGISTRY.log_hazard_ratios["age"] * (age - REGISTRY.reference_age_years)
    for codes, names in ((sex, REGISTRY.sexes), (stage, REGISTRY.stages), (treatment, REGISTRY.treatments)):
        effects += np.array([0.0, *(REGISTRY.log_hazard_ratios[name] for name in names[1:])])[codes]
    return effects


def _follow_up(rng: np.random.Generator, diagnosed: IntArray, log_hazards: FloatArray) -> tuple[FloatArray, Codes]:
    """Months to one decimal until death or censoring, and 1 for a death."""
    # S(t | x) = exp(-(t / scale)^shape exp(x b)) is inverted at a standard exponential draw E:
    # t = scale (E exp(-x b))^(1 / shape).
    exponential = rng.standard_exponential(len(log_hazards))
    death = REGISTRY.baseline_scale_months * (exponential * np.exp(-log_hazards)) ** (1 / REGISTRY.baseline_shape)
    lost = rng.standard_exponential(len(log_hazards)) / REGISTRY.loss_per_month
    censored = np.minimum(lost, (_day(REGISTRY.end_of_follow_up) - diagnosed) / DAYS_PER_MONTH)
    months = np.clip(np.rint(np.minimum(death, censored) * 10) / 10, *REGISTRY.follow_up_bounds_months)
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
        registry=REGISTRY,
        days_per_month=DAYS_PER_MONTH,
        limits=method_choice,
        input=input,
        output=output,
        k=k,
        drawn=drawn,
    )
