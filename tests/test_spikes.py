"""Numbers of which many are 0: a spike is masked apart from the other values, and its share by category is kept."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from anonpipe.columns import Column
from anonpipe.compare._settings import grid
from anonpipe.encoding.rules import RuleBook, RuleCounts, limits_of, value_of, with_differences
from anonpipe.errors import InputError, JobError
from anonpipe.job.model import parse_job
from anonpipe.pipeline.evaluation.known import key_columns
from anonpipe.pipeline.preview import preview
from anonpipe.pipeline.tasks.write import compared_names
from anonpipe.propose.propose import propose_job
from anonpipe.report import report_of_release
from anonpipe.storage import release
from tests import runs, small
from tests.encoding.test_rules import book_of, kept, shuffled
from tests.pipeline.evaluation.test_assess import looked
from tests.test_rules import LENIENT

pytestmark = pytest.mark.secret("5c" * 32)

COLUMNS = {
    "cost": {"kind": "continuous", "spike": 0},
    "region": {"kind": "categorical"},
    "age": {"kind": "integer", "bounds": [0, 110]},
}
OTHER = "cost other than 0"


REGIONS = np.array(list("abcdefgh"))


def claims(rows, seed=0):
    """Costs that are 0 the more often the higher the others are, so that mean ranks of regions say little of zeros."""
    rng = np.random.default_rng(seed)
    region, age = rng.integers(0, 8, rows), rng.integers(18, 90, rows)
    cost = np.where(rng.random(rows) < 0.1 + 0.1 * region, 0.0, rng.lognormal(3.0 + 0.8 * region, 0.5).round(2))
    return pa.table({"cost": cost, "region": REGIONS[region], "age": age})


def job_of(folder, table, columns=COLUMNS, **changes):
    changes = {"mask": small.QUICK, "gates": LENIENT, "measure": small.OFF, **changes}
    return small.job(folder, table, columns, **changes)


def shares_of_zeros(table):
    """Of each region."""
    region, zero = table["region"].to_numpy(zero_copy_only=False), table["cost"].to_numpy() == 0
    return np.array([zero[region == name].mean() for name in REGIONS])


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """A table, a job, and its run in several partitions and files."""
    folder, table = tmp_path_factory.mktemp("spike"), claims(4_000)
    parts = {"partition": {"rows": 1_500, "sample_rows": 500}, "release": {"file_rows": 1_500}}
    scenario = {"scenarios": [{"name": "insurer", "knows": ["cost", "age"]}]}
    job = job_of(folder, table, measure=scenario | {"queries": 200}, **parts)
    with small.private_home(folder, runs.SECRET):
        return table, job, small.run(job)


@pytest.mark.parametrize(("spike", "least", "most"), [({"spike": 0}, 0.0, 0.004), ({}, 0.015, 1.0)])
def test_shares_of_zeros_by_category_are_kept(spike, least, most, tmp_path):
    table = claims(4_000)
    job = job_of(tmp_path, table, COLUMNS | {"cost": {"kind": "continuous"} | spike})
    assert small.run(job).version and job.spikes == ({"cost": OTHER} if spike else {})
    off = np.abs(shares_of_zeros(small.released(job)) - shares_of_zeros(table)).max()
    assert least <= off <= most


def test_a_release_has_the_columns_of_the_input(released):
    table, job, _ = released
    made = small.released(job)
    assert made.schema.names == table.schema.names and made.schema.types == table.schema.types
    assert made["cost"].null_count == 0 and (made["cost"].to_numpy() >= 0).all()
    listed = release.read_manifest(release.resolve(job.output))
    assert listed["columns"]["cost"]["transform"] == "normal_scores" and "rules" not in listed
    found = report_of_release(job.output, None).compared
    assert {each.name for each in found.numbers} == {"cost", "age"}


def test_measures_and_attacks_are_of_the_column_itself(released):
    _, job, _ = released
    (path,) = (Path(job.output) / "steward").glob("*-report.json")
    for text in (path.read_text(), (Path(job.output) / "release" / "_report.json").read_text()):
        measured = json.dumps([json.loads(text)[part] for part in ("risk", "utility", "pictures", "compared")])
        assert "cost" in measured and OTHER not in measured


def test_a_scenario_knows_the_spike(tmp_path, monkeypatch):
    seen = []
    looked(monkeypatch, lambda run: seen.append(run.context.fitted))
    small.run(
        job_of(tmp_path, claims(300), measure={"utility": False, "scenarios": [{"name": "x", "knows": ["cost"]}]})
    )
    (keys,) = key_columns(seen[0])
    assert [seen[0].titles[at] for at in keys.places] == ["cost"] and keys.masked.sum() == 2  # value and indicator
    assert OTHER not in seen[0].titles and OTHER in seen[0].cells.names


@pytest.mark.parametrize("rows", [5, 10, 15])
def test_values_are_those_of_the_slow_twin(rows):
    table = pa.table({"cost": claims(rows)["cost"], "other": np.arange(float(rows))})
    columns = {"cost": {"kind": "continuous", "spike": 0}, "other": {"kind": "continuous"}}
    book, cells, _ = book_of(table, columns, ())
    made = book.cells.from_cells(kept(book, shuffled(cells)).cells)
    values = zip(made["cost"].to_pylist(), made[OTHER].to_pylist(), strict=True)
    assert all(cost == (0.0 if other is None else other) for cost, other in values)
    assert sorted(made["cost"].to_pylist()) == sorted(table["cost"].to_pylist())
    (rule,) = book.rules
    assert value_of(rule, book.cells.from_cells(cells)).tolist() == table["cost"].to_pylist()


@pytest.mark.parametrize(
    ("others", "nearest"),
    [([-7, -2, 3, 9], {-2}), ([-7, -2, 2, 9], {-2, 2}), ([4, 9], {4}), ([-9, -4], {-4}), ([], {0})],
)
@pytest.mark.parametrize("step", [None, 1])
def test_other_values_at_a_spike_take_the_nearest(others, nearest, step):
    """Spikes are those that were drawn, and a second pass changes nothing."""
    cost = np.array([*others, *[0, 5, 6, 7] * 5], dtype=np.float64)
    columns = {"cost": {"kind": "continuous", "spike": 0, "step": step}, "other": {"kind": "integer"}}
    book, cells, _ = book_of(pa.table({"cost": cost, "other": np.arange(len(cost))}), columns, ())
    drawn = cells[:, book.positions[OTHER]] = np.array([*others, *[np.nan, 0, 0, 0] * 5])
    book.derive(cells, np.random.default_rng(0))
    made, again = cells.copy(), cells
    book.derive(again, np.random.default_rng(1))
    at, zero = made[:, book.positions["cost"]], np.isnan(drawn)
    assert (
        set(at[drawn == 0]) == nearest and (at[zero] == 0).all() and (again == made)[:, [book.positions["cost"]]].all()
    )
    assert at[: len(others)].tolist() == others


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_a_spike_is_found_in_single_precision(kind, tmp_path):
    table, columns = claims(400), COLUMNS | {"cost": {"kind": "continuous", "spike": 0.1}}
    cost = np.where(table["cost"].to_numpy() == 0, 0.1, table["cost"].to_numpy() + 1.0)
    job = job_of(tmp_path, table.set_column(0, "cost", pa.array(cost).cast(kind)), columns)
    rule = next(rule for rule in job.parsed_rules if rule.kind == "spike")
    batch = pa.record_batch([pa.array(cost).cast(kind)], names=["cost"])
    other = with_differences(batch, [rule]).column(rule.gap)
    assert other.null_count == (cost == 0.1).sum() and RuleCounts.of([rule], batch, {}).met[0] == (cost > 1).sum()
    assert small.run(job).version and (small.released(job)["cost"].to_numpy() < 1).sum() == (cost < 1).sum()


def test_values_on_both_sides_keep_the_share_of_a_spike(tmp_path):
    rng = np.random.default_rng(3)
    change = np.where(rng.random(600) < 0.4, 0, rng.integers(1, 20, 600) * rng.choice([-1, 1], 600))
    columns = COLUMNS | {"cost": {"kind": "integer", "spike": 0}}
    job = job_of(tmp_path, claims(600).set_column(0, "cost", pa.array(change)), columns, gates={})
    assert small.run(job).version
    assert (small.released(job)["cost"].to_numpy() == 0).sum() == (change == 0).sum()


@pytest.mark.parametrize(
    ("rule", "allowed"),
    [("if sex == 'm' then births == 0", (0.0,)), ("if sex == 'm' then births == 2", (2.0,))],
)
def test_conditions_set_a_spike_and_other_values(rule, allowed):
    rng = np.random.default_rng(3)
    male = rng.random(200) < 0.5
    births = np.where(male, allowed[0], rng.integers(0, 4, 200))
    columns = {"births": {"kind": "integer", "spike": 0, "bounds": [0, 20]}, "sex": {"kind": "categorical"}}
    book, cells, _ = book_of(pa.table({"births": births, "sex": np.where(male, "m", "f")}), columns, [rule])
    cells[:, book.positions["births other than 0"]] = 3.0  # so that no row has anything to exchange
    made = book.cells.from_cells(kept(book, cells).cells)
    of_men = [
        value for value, sex in zip(made["births"].to_pylist(), made["sex"].to_pylist(), strict=True) if sex == "m"
    ]
    assert set(of_men) == set(allowed)


def test_what_conditions_compare_with_divides_the_other_values():
    columns = {"cost": {"kind": "continuous", "spike": 0}, "paid": {"kind": "continuous"}}
    table = pa.table({"cost": [0.0, 5.0, 9.0], "paid": [1.0, 2.0, 3.0]})
    book, _, _ = book_of(table, columns, ["if cost >= 5 then paid >= 2"])
    assert isinstance(book, RuleBook) and limits_of(book.rules, OTHER) == limits_of(book.rules, "cost") != []


# --- Jobs


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"kind": "categorical", "spike": 0}, "spike is for masked columns of kind continuous or integer"),
        ({"kind": "date", "spike": 0}, "spike is for masked columns"),
        ({"kind": "integer", "role": "key", "spike": 0}, "spike is for masked columns"),
        ({"kind": "integer", "role": "survival_time", "spike": 0}, "spike is for masked columns"),
        ({"kind": "integer", "bounds": [1, 9], "spike": 0}, "the spike lies outside the bounds"),
        ({"kind": "integer", "spike": 0.5}, "bounds and spike of kind integer are whole"),
        ({"kind": "continuous", "spike": math.nan}, "finite number"),
        ({"kind": "continuous", "spike": True}, "spike takes numbers"),
    ],
)
def test_other_columns_have_no_spike(column, message):
    with pytest.raises(ValueError, match=message):
        Column(**column)


@pytest.mark.parametrize(
    ("column", "bounds"),
    [
        ({"kind": "integer", "bounds": [0, 9]}, (1.0, 9.0)),
        ({"kind": "integer", "bounds": [0, 1]}, (0.0, 1.0)),
        ({"kind": "continuous", "bounds": [0, None]}, (0.0, None)),
        ({"kind": "continuous", "bounds": [0, 9], "step": 0.5, "transform": "log"}, (0.5, 9.0)),
        ({"kind": "continuous"}, None),
    ],
)
def test_other_values_are_masked_as_the_column_says(column, bounds, tmp_path):
    job = job_of(tmp_path, claims(50), COLUMNS | {"cost": column | {"spike": 0}})
    masked = job.columns[OTHER]
    assert masked.bounds == bounds and masked.transform == column.get("transform", "normal_scores")
    assert masked.step == column.get("step") and masked.spike is None and job.differences == (OTHER,)
    again = parse_job(job.model_dump(mode="json"))
    assert again.columns == job.columns and again.parsed_rules == job.parsed_rules


@pytest.mark.parametrize(
    "changes",
    [
        {"mask": None, "cluster": {"method": "mdav"}},
        {"mask": {"method": "generalize", "steps": {"age": 10}}},
        {"rules": ["cost = 2 * age"]},
    ],
)
def test_some_methods_and_rules_leave_no_spike(changes, tmp_path):
    try:
        job = job_of(tmp_path, claims(50), **changes)
    except JobError as error:
        pytest.fail(str(error))
    assert not job.spikes and OTHER not in job.columns


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([None] * 3 + [0.0] * 20 + [1.5] * 20, "column 'cost' has a spike and 3 rows without a value; remove spike"),
        ([math.nan] * 3 + [0.0] * 20 + [1.5] * 20, "column 'cost' has a spike and 3 rows without a value"),
        ([0.0] * 40 + [1.5] * 3, "column 'cost': fewer than k=5 rows have another value than the spike"),
        ([0.0] * 43, "column 'cost': fewer than k=5 rows have another value"),
    ],
)
@pytest.mark.parametrize("look", [preview, small.run])
def test_nulls_and_few_other_values_are_refused(values, message, look, tmp_path):
    table = claims(43).set_column(0, "cost", pa.array(values, pa.float64()))
    with pytest.raises(InputError, match=message):
        look(job_of(tmp_path, table))


@pytest.mark.parametrize("zeros", [0, 3, 5, 10, 15, 38])
def test_any_number_of_zeros_is_released(zeros, tmp_path):
    cost = np.where(np.arange(43) < zeros, 0.0, 7.5)  # one value beside the spike
    job = job_of(tmp_path, claims(43).set_column(0, "cost", pa.array(cost)))
    small.run(job)
    made = small.released(job)["cost"].to_numpy()
    assert set(made.tolist()) <= {0.0, 7.5} and abs(int((made == 0).sum()) - zeros) <= 5 * (zeros < 5)


@pytest.mark.parametrize(("few", "missing"), [(1, False), (4, False), (4, True), (399, False)])
def test_a_stratum_tells_no_number_below_k(few, missing, tmp_path):
    """Zeros or nulls, or other values, of 1 or 4 of 400 records: who knows all others would learn the last one's."""
    table = claims(800)
    region = np.repeat(["a", "b"], 400)
    cost = np.where(region == "b", table["cost"].to_numpy(), 100.0 + np.arange(800))
    cost[:few] = 0.0
    cost = pa.array(cost, mask=(cost == 0) & missing)
    table = pa.table({"cost": cost, "region": region, "age": table["age"]})
    columns = COLUMNS | {"region": {"kind": "categorical", "role": "key"}}
    columns |= {"cost": {"kind": "continuous"}} if missing else {}
    job = job_of(tmp_path, table, columns, strata={"by": ["region"]}, gates=LENIENT | {"null_share": 0.005})
    small.run(job)
    made = small.released(job).to_pandas()
    assert int((made["cost"].fillna(0.0) == 0)[made["region"] == "a"].sum()) in (0, 5, 395, 400)


def test_original_values_are_compared_once(tmp_path):
    table = claims(50)
    work = SimpleNamespace(job=job_of(tmp_path, table), folded=None, source=SimpleNamespace(schema=table.schema))
    assert OTHER in work.job.released and compared_names(work) == ["cost", "age"]


def test_settings_that_are_compared_leave_spikes(tmp_path):
    columns = COLUMNS | {"cost": {"kind": "continuous", "spike": 0, "transform": "none"}}
    for given in (columns, COLUMNS):
        base = job_of(tmp_path, claims(50), given)
        for setting in grid(base, ["mdav+centroid", "mask:generalize", "mask:rank_swap"], [5]):
            job = setting.job(base)
            assert job.columns == job_of(tmp_path, claims(50), given, **{"mask": None, **setting.sections}).columns
            assert (OTHER in job.columns) == bool(job.spikes) == (setting.method == "mask:rank_swap")


@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        ("continuous", InputError, "the input has column 'cost other than 0', and what a rule or spike masks has"),
        ("integer", JobError, "the spike of 'cost' masks a column of the name 'cost other than 0'; rename that"),
    ],
)
def test_a_column_of_the_name_that_is_masked_is_refused(kind, error, message, tmp_path):
    table = claims(50).append_column(OTHER, pa.array(np.arange(50)))
    with pytest.raises(error, match=message):
        preview(job_of(tmp_path, table, COLUMNS | {OTHER: {"kind": kind}}))


# --- Proposals


@pytest.mark.parametrize(
    ("cost", "proposed"),
    [
        (np.repeat([0.0, 1.0], 500) * np.arange(1000.0), True),
        (np.repeat([0.0, -1.0], 500) * np.arange(1000.0), True),
        (np.random.default_rng(0).poisson(1.5, 1000), False),  # as many have 1
        (np.where(np.arange(1000) < 30, 0.0, np.arange(1000.0)), False),  # of few
        (np.where(np.arange(1000) < 960, 0.0, np.arange(1000.0)), False),  # but for few
        (np.where(np.arange(1000) < 500, np.nan, np.arange(1000.0) % 400 * (np.arange(1000) % 2)), False),  # with nulls
        (np.repeat([3.0, 1.0], 500) + np.repeat([0, 1], 500) * np.arange(1000.0), False),  # of another value
    ],
)
def test_a_spike_is_proposed_where_zeros_stand_out(cost, proposed, tmp_path):
    rng = np.random.default_rng(1)
    table = pa.table(
        {"cost": pa.array(cost, from_pandas=True), "sex": rng.choice(["f", "m"], 1000), "x": rng.random(1000)}
    )
    text = propose_job(small.write_table(tmp_path, table), "out", 5)
    assert ("    spike: 0  # 50 % of the sampled rows" in text) == proposed == ("spike:" in text)
