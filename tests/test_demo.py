"""The made-up registry has the shape, the dependence and the survival law that it declares."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anonpipe.columns import Role
from anonpipe.errors import InputError, OutputError
from anonpipe.job.model import load_job
from anonpipe.job.plain_yaml import load_yaml
from anonpipe.propose import demo
from anonpipe.propose.propose import propose_job
from tests.benchmarks.numbers import write_numeric

ROWS = 60_000
SMALL = Path(__file__).parent.parent / "data" / "registry_small.parquet"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("demo") / "registry.parquet"
    demo.write_registry(path, ROWS)
    return path


@pytest.fixture(scope="module")
def table(path: Path) -> pa.Table:
    return pq.read_table(path)


@pytest.fixture(scope="module")
def frame(table: pa.Table) -> pd.DataFrame:
    return table.to_pandas()


def test_twelve_columns_and_their_types_survive_the_file(table: pa.Table) -> None:
    assert table.schema == demo.REGISTRY_SCHEMA
    assert table.shape == (ROWS, 12)


def test_row_groups_have_the_declared_size(tmp_path: Path) -> None:
    demo.write_registry(tmp_path / "a.parquet", 140_000)
    found = pq.ParquetFile(tmp_path / "a.parquet").metadata
    assert [found.row_group(i).num_rows for i in range(found.num_row_groups)] == [131_072, 8_928]


@pytest.mark.parametrize("blocks", [1, 2, 8])
def test_neither_row_groups_nor_the_total_change_a_row(
    table: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blocks: int
) -> None:
    monkeypatch.setattr(demo, "GROUP_BLOCKS", blocks)
    demo.write_registry(tmp_path / "a.parquet", 35_000)
    assert pq.read_table(tmp_path / "a.parquet").equals(table.slice(0, 35_000))


def test_same_call_writes_same_bytes_other_seed_other_persons(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        demo.write_registry(tmp_path / name, 2_000, seed=seed)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    ages = [pq.read_table(tmp_path / name)["age"].to_pylist() for name in "ac"]
    assert ages[0] != ages[1]


def test_the_small_sample_is_what_its_maker_writes(table: pa.Table) -> None:
    assert pq.read_table(SMALL).equals(table.slice(0, 5_000))


def test_no_rows_are_a_table_too(tmp_path: Path) -> None:
    demo.write_registry(tmp_path / "a.parquet", 0)
    assert pq.read_table(tmp_path / "a.parquet").schema == demo.REGISTRY_SCHEMA


def test_identifiers_are_unique(frame: pd.DataFrame) -> None:
    assert frame["patient_id"].is_unique
    far = demo._patient_ids(demo.LARGEST_TABLE_ROWS - 1_000, 1_000)
    assert len(np.unique(far)) == 1_000
    assert not np.isin(far, frame["patient_id"]).any()
    assert far.min() >= 1


def test_null_shares(frame: pd.DataFrame) -> None:
    shares = frame.isna().mean()
    assert shares["tumour_size_mm"] == pytest.approx(0.12, abs=0.01)
    assert shares["smoker"] == pytest.approx(0.08, abs=0.005)
    assert shares.drop(["tumour_size_mm", "smoker"]).max() == 0


def test_values_lie_inside_the_declared_bounds(frame: pd.DataFrame) -> None:
    assert frame["age"].between(*demo.REGISTRY.age_bounds_years).all()
    low, high = demo.REGISTRY.tumour_size_bounds_mm
    assert frame["tumour_size_mm"].dropna().between(low, high).all()
    assert frame["follow_up_months"].between(*demo.REGISTRY.follow_up_bounds_months).all()
    days = frame["diagnosis_date"]
    assert days.min() >= date.fromisoformat(demo.REGISTRY.first_diagnosis)
    assert days.max() <= date.fromisoformat(demo.REGISTRY.last_diagnosis)


def test_values_are_multiples_of_their_steps(frame: pd.DataFrame) -> None:
    for name, precision in (("follow_up_months", 1e-9), ("tumour_size_mm", 1e-3)):
        tenths = frame[name].dropna().astype(float) * 10
        assert np.abs(tenths - tenths.round()).max() < precision


def test_columns_depend_on_each_other(frame: pd.DataFrame) -> None:
    age = frame.groupby("site", observed=True)["age"].mean()
    assert age["Bladder"] - age["Cervix"] > 15
    distant = (frame["stage"] == "Distant").groupby(frame["site"], observed=True).mean()
    assert distant["Lung"] > 0.4 > 0.15 > distant["Skin melanoma"]
    untreated = frame["treatment"] == "None"
    old = frame["age"] >= 80
    assert untreated[old].mean() > 2 * untreated[~old].mean()
    missing = frame["tumour_size_mm"].isna().groupby(frame["stage"], observed=True).mean()
    assert missing["Unknown"] > 2 * missing.drop("Unknown").max()
    size = frame.groupby("stage", observed=True)["tumour_size_mm"].median()
    assert size["Localised"] < size["Regional"] < size["Distant"]
    assert frame["tumour_size_mm"].skew() > 1
    assert ((frame["site"] == "Prostate") & (frame["sex"] == "Female")).sum() == 0


def test_follow_up_ends_with_the_registry(frame: pd.DataFrame) -> None:
    end = pd.Timestamp(demo.REGISTRY.end_of_follow_up)
    open_months = (end - pd.to_datetime(frame["diagnosis_date"])).dt.days / demo.DAYS_PER_MONTH
    assert (frame["follow_up_months"] <= open_months + 0.05 + 1e-9).all()
    alive = frame["vital_status"] == "Alive"
    lost = (frame["follow_up_months"] < open_months - 0.1)[alive].mean()
    assert 0.05 < lost < 0.3


def test_cox_recovers_the_declared_log_hazard_ratios(frame: pd.DataFrame) -> None:
    from statsmodels.duration.hazard_regression import PHReg

    some = frame.iloc[:20_000]
    names = list(demo.REGISTRY.log_hazard_ratios)
    design = np.column_stack(
        [some["age"]]
        + [
            (some[column] == name)
            for column, levels in (
                ("sex", demo.REGISTRY.sexes),
                ("stage", demo.REGISTRY.stages),
                ("treatment", demo.REGISTRY.treatments),
            )
            for name in levels[1:]
        ]
    ).astype(float)
    fit = PHReg(some["follow_up_months"], design, status=(some["vital_status"] == "Dead"), ties="efron").fit()
    distance = (fit.params - np.array([demo.REGISTRY.log_hazard_ratios[name] for name in names])) / fit.bse
    assert np.abs(distance).max() < 4
    assert fit.bse.max() < 0.06


def test_numeric_columns_are_correlated_and_skewed(tmp_path: Path) -> None:
    write_numeric(tmp_path / "a.parquet", 30_000)
    frame = pq.read_table(tmp_path / "a.parquet").to_pandas()
    assert frame.shape == (30_000, 10)
    assert np.isfinite(frame.to_numpy()).all()
    correlation = np.abs(frame.corr().to_numpy()[np.triu_indices(10, 1)])
    assert correlation.max() > 0.4
    assert correlation.max() < 0.99
    assert (frame.skew() > 1).sum() == 5
    write_numeric(tmp_path / "b.parquet", 100, columns=3)
    assert pq.read_table(tmp_path / "b.parquet").to_pandas().equals(frame.iloc[:100, :3])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rows": -1}, "rows is -1"),
        ({"rows": 2**31}, "give 0 to"),
        ({"rows": 5, "seed": -3}, "seed is -3"),
    ],
)
def test_impossible_wishes_are_refused(tmp_path: Path, options: dict, said: str) -> None:
    with pytest.raises(InputError, match=said):
        demo.write_registry(tmp_path / "a.parquet", **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("columns", [0, 10_001])
def test_impossible_numbers_of_columns_are_refused(tmp_path: Path, columns: int) -> None:
    with pytest.raises(InputError, match="give 1 to 10000"):
        write_numeric(tmp_path / "a.parquet", 10, columns)


def test_a_folder_that_cannot_take_the_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "none" / "a.parquet", tmp_path / "file" / "a.parquet"):
        with pytest.raises(OutputError, match=str(path)):
            demo.write_registry(path, 10)


def test_a_failure_leaves_the_old_file_and_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.parquet"
    demo.write_registry(path, 10)
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, "full")

    monkeypatch.setattr(demo, "_registry_block", fail)
    with pytest.raises(OutputError, match="No space left"):
        demo.write_registry(path, 20)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_demonstration_is_masked_and_limited_as_init_proposes(tmp_path: Path) -> None:
    data = tmp_path / "registry.parquet"
    demo.write_registry(data, 2_000)
    proposed = load_yaml(propose_job(str(data), "out", 5))
    drawn = load_yaml(demo.demo_job(str(data), "out", 5, drawn=True))
    assert drawn["mask"] == proposed["mask"]
    assert drawn["gates"].pop("membership_auc") == "default" and proposed["gates"].pop("membership_auc") == "default"
    assert proposed["gates"].pop("scenario_risk") == 0.09 and drawn["gates"] == proposed["gates"]
    assert not {"mask", "gates"} & set(load_yaml(demo.demo_job(str(data), "out", 5)))


@pytest.mark.parametrize("drawn", [False, True])
def test_the_job_declares_everything(tmp_path: Path, frame: pd.DataFrame, drawn: bool) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(demo.demo_job('in "quotes".parquet', "out: put", 7, drawn=drawn))
    job = load_job(file)
    assert (job.input, job.output, job.k) == ('in "quotes".parquet', "out: put", 7)
    assert job.warnings() == []
    assert job.repeat.allow, "a demonstration of another size is no second release of a register"
    assert list(job.columns) == [*demo.REGISTRY_SCHEMA.names, *job.differences] and len(job.rules) == drawn
    assert job.columns["patient_id"].role is Role.IDENTIFIER
    assert (job.time_column, job.event_column, job.strata.by) == (
        "follow_up_months", "vital_status", ("vital_status",)
    )  # fmt: skip
    assert job.columns["vital_status"].event == ("Dead",)
    for name, column in job.columns.items():
        if column.kind.coded:
            assert set(frame[name].dropna()) == set(column.levels or ())
