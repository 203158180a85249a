"""k counts units: persons, households or enterprises that have several rows."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from anonpipe import anonymize
from anonpipe.columns import Column, Kind
from anonpipe.encoding.identifiers import UnitColumn, some_units
from anonpipe.errors import InputError, JobError
from anonpipe.evaluate.measurement import Reason
from anonpipe.evaluate.risk import Ordered
from anonpipe.evaluate.utility import distributions
from anonpipe.evaluate.utility._tables import typed_tables
from anonpipe.job.model import parse_job
from anonpipe.pipeline.arrays import partition_rows, partition_units, released_labels, released_rows
from anonpipe.pipeline.evaluation.known import known_features
from anonpipe.pipeline.evaluation.measures import load_assessment
from anonpipe.pipeline.evaluation.samples import read_predicates, read_queries, read_units
from anonpipe.pipeline.evaluation.search import matches_in
from anonpipe.pipeline.outcome import facts
from anonpipe.pipeline.preview import preview
from anonpipe.pipeline.run import to_the_end, verify
from anonpipe.pipeline.tasks.passes import last_channels
from anonpipe.propose.guesses import guess
from anonpipe.propose.profile import look_at
from anonpipe.propose.propose import propose_job
from anonpipe.storage import release
from anonpipe.verify.catalogue import held
from anonpipe.verify.output_control import bins_for_recipients, released_checks
from anonpipe.verify.verdict import Verdict
from anonpipe.verify.words import line
from tests import small
from tests.attacks import panel

pytestmark = pytest.mark.secret("9f3c17a2b85de06441c7f29e8ab350d6" * 2)

COLUMNS = {
    "age": {"kind": "integer", "bounds": [0, 120]},
    "income": {"kind": "continuous", "bounds": [0, None]},
    "place": {"kind": "categorical"},
    "person": {"role": "unit"},
}


def _table(persons=120, rows_each=4, seed=3):
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(persons), rows_each)
    size = rng.lognormal(10.0, 0.8, persons)
    return pa.table(
        {
            "age": rng.integers(18, 90, persons)[person],
            "income": size[person] * np.exp(rng.normal(0.0, 0.05, len(person))),
            "place": pa.array(np.array(["north", "south", "east"])[rng.integers(0, 3, persons)][person]),
            "person": pa.array([f"{small.CANARY} {each}" for each in person]),
        }
    )


def _units_of_groups(job):
    def counted(run):
        found = []
        for index in range(len(run.context.cut.partitions)):
            labels = run.context.call(last_channels, index)[0][:, -1]
            units = run.context.call(partition_units, index)
            found += [len(set(units[labels == label])) for label in np.unique(labels)]
        return found

    return to_the_end(job, False, lambda _: None, "ignore", counted)


def test_after_panel_attack_no_group_has_fewer_firms_than_k(tmp_path):
    table = panel.panel(90, 8)
    before, after = panel.before(tmp_path, table), panel.after(tmp_path, table)
    assert before.few / before.groups > 0.5
    assert after.one == after.few == 0 and after.groups >= before.groups / 3


@pytest.mark.parametrize("role", ["unit", "identifier"])
def test_unit_of_several_rows_is_told_in_plan_and_reports(tmp_path, role):
    job = small.job(tmp_path, _table(), COLUMNS | {"person": {"role": role}}, measure={"queries": 100})
    lines = "\n".join(preview(job).lines())
    lines = " ".join(lines.split())
    assert "480 rows of 120 units" in lines and small.CANARY not in lines
    apart = "all rows of a unit have one value of 'age', 'place'; in the release they differ"
    assert apart in lines
    outcome = small.run(job)
    assert outcome.verdict.passed, [check for check in outcome.verdict.checks if check.outcome == "failed"]
    smallest = next(check for check in outcome.verdict.checks if check.key == "group.smallest")
    assert smallest.unit == "units" and smallest.measured >= 5 and smallest.about["rows"] >= smallest.measured
    assert any("k=5 counts units" in note for note in outcome.verdict.notes)
    shares = [re.search(r"up to (\d+) % are of one unit", note) for note in outcome.verdict.notes]
    assert [20 <= int(share[1]) < 100 for share in shares if share] == [True]
    where = release.resolve(job.output)
    manifest = where.filesystem.cat_file(where.path("_manifest.json")).decode()
    assert json.loads(manifest)["k_counts"] == "units of several rows"
    pages = where.filesystem.cat_file(where.path("_report.html")).decode(), open(outcome.report).read()
    assert any(apart in warning for warning in outcome.warnings)
    assert all("all rows of a unit have one value of age, place; here they differ" in page for page in pages)
    assert all("k=5 counts units" in page for page in pages)
    assert "120 distinct" not in pages[0] + manifest
    assert all(small.CANARY not in text for text in (*pages, manifest, *outcome.warnings))
    assert "person" not in small.released(job).column_names


LARGEST = (31, 37, 41, 43)
"""Rows of the k - 1 largest units: 153 rows are of k units for certain."""


def _with_large_units():
    """A table of units of four rows and some much larger ones."""
    table = _table(124)
    place = np.repeat(np.arange(len(LARGEST)), np.array(LARGEST) - 4)
    more = table.take(pa.array(4 * place))
    rng = np.random.default_rng(8)
    income = pa.array(rng.lognormal(10.0, 0.8, len(more)))
    return pa.concat_tables([table, more.set_column(1, "income", income)])


def _words(page):
    return re.sub(r"<style>.*?</style>|<[^>]+>", " ", page, flags=re.DOTALL)


def test_rows_of_fewer_than_k_units_are_hidden_from_recipients(tmp_path, monkeypatch):
    sure, asked = 1 + sum(LARGEST), []
    monkeypatch.setattr(facts, "bins_for_recipients", lambda *of: asked.append(of) or bins_for_recipients(*of))
    job = small.job(tmp_path, _with_large_units(), COLUMNS, measure={"queries": 100})
    assert f"rest on {sure} or more" in " ".join(" ".join(preview(job).lines()).split())
    outcome = small.run(job)
    assert outcome.verdict.passed, [check for check in outcome.verdict.checks if check.outcome == "failed"]
    where = release.resolve(job.output)
    manifest, page, told = (
        where.filesystem.cat_file(where.path(name)).decode()
        for name in ("_manifest.json", "_report.html", "_report.json")
    )
    for text in (manifest, _words(page), told):
        numbers = {number.replace(",", "") for number in re.findall(r"(?<![\w.,])\d[\d,]*(?![\d.]*\w)", text)}
        assert "5" in numbers and not {str(sure), str(sure - 1), str(20 * sure)} & numbers
        assert "of fewer than 5 units" in text
    assert "of fewer than 100 units" in told
    ends = [end for line in json.loads(manifest)["group_sizes"] for end in (line["from"], line["to"] + 1)]
    assert set(ends) <= {5 * 2**power for power in range(9)}
    assert any(each["original"] for each in json.loads(told)["pictures"])
    assert asked == [(5, 160)]  # what counts are rounded to follows from their shares


def test_recipients_see_only_size_order_of_units_of_more_rows():
    """One row more of the largest unit changes nothing that they see, but where a power of two is passed."""
    steps = [UnitColumn("id", 9999, 999, 99, sure, 12.0).coarse(5) for sure in range(5, 2000)]
    assert all(step >= sure for step, sure in zip(steps, range(5, 2000), strict=True))
    assert sorted(set(steps)) == [5 * 2**power for power in range(10)]
    few = Verdict((held("keys.rare", 60, 99), held("local_suppression", 0.06, 0.2)))
    told = {line(each).measured for each in released_checks(few, 5, 1000, least=80)}
    assert told == {"rows that may be of fewer than 5 units"}
    ages = pd.DataFrame({"age": np.arange(60)})
    (shown,) = distributions(typed_tables(ages, ages, {"age": Kind.INTEGER}), bins_for_recipients(5, 80))
    assert shown.note == "values of fewer than 5 units" and not shown.original


def test_groups_hold_k_units_in_every_partition_and_stratum(tmp_path):
    columns = COLUMNS | {"place": {"kind": "categorical", "role": "key"}}
    job = small.job(
        tmp_path, _table(600), columns, strata={"by": ["place"]}, partition={"rows": 1_000, "sample_rows": 500}
    )
    assert min(_units_of_groups(job)) >= 5


def _kept_whole(job):
    """Whether no unit has rows in two groups, and how many groups of how few units there are."""

    def counted(run):
        context, groups = run.context, {}
        for index in range(len(context.cut.partitions)):
            labels, units = context.call(last_channels, index)[0][:, -1], context.call(partition_units, index)
            for label, unit in zip(labels, units, strict=True):
                groups.setdefault((index, label), []).append(unit)
        split = sum(len(set(units)) for units in groups.values()) - len(set().union(*groups.values()))
        checked = [check.measured for check in verify(run).checks if check.key == "units.split"]
        return split, checked, len(groups), min(len(set(units)) for units in groups.values())

    return to_the_end(job, False, lambda _: None, "ignore", counted)


@pytest.mark.parametrize("method", ["mdav", "k_ward"])
def test_units_stay_whole_in_every_partition_and_stratum(tmp_path, method):
    columns = COLUMNS | {"place": {"kind": "categorical", "role": "key"}}
    given = {"strata": {"by": ["place"]}, "partition": {"rows": 1_000, "sample_rows": 500}}
    for units, checks in (("whole", [0]), ("split", [])):
        job = small.job(tmp_path / units, _table(600, 8), columns, cluster={"method": method, "units": units}, **given)
        split, checked, groups, fewest = _kept_whole(job)
        assert (split == 0) == (units == "whole") and checked == checks and fewest >= 5 and groups >= 60


def test_units_with_rows_in_two_strata_cannot_stay_whole(tmp_path):
    table = _table()
    place = np.array(table["place"].to_pylist())
    place[:8:4] = np.where(place[1:8:4] == "east", "south", "east")  # one row of two persons
    table = table.set_column(2, "place", pa.array(place))
    columns = COLUMNS | {"place": {"kind": "categorical", "role": "key"}}
    given = {"strata": {"by": ["place"]}, "cluster": {"method": "mdav", "units": "whole"}}
    for way in (small.run, preview):
        with pytest.raises(InputError, match="up to 2 units of column 'person' have rows in several"):
            way(small.job(tmp_path, table, columns, **given))
    one = {"income": COLUMNS["income"], "person": {"role": "unit"}}
    with pytest.raises(JobError, match=r"adds the rows of a unit as a column: cluster\.method optimal_univariate"):
        way = given["cluster"] | {"method": "optimal_univariate"}
        preview(small.job(tmp_path, _table().select(list(one)), one, cluster=way))
    with pytest.raises(JobError, match="give the column that names the unit role unit"):
        small.job(tmp_path, table, COLUMNS | {"person": {"role": "dropped"}}, cluster=given["cluster"])


@pytest.mark.parametrize("units", ["split", "whole"])
def test_neither_order_of_rows_nor_files_change_a_release(tmp_path, units):
    table, releases = _table(), []
    for name, given in (("one", table), ("other", table.take(np.random.default_rng(1).permutation(len(table))))):
        job = small.job(tmp_path / name, given, COLUMNS, cluster={"method": "mdav", "units": units})
        assert small.run(job).verdict.passed
        releases.append(small.released(job))
    assert releases[0].equals(releases[1])


def test_a_unit_of_one_row_each_is_as_one_row_a_person(tmp_path):
    job = small.job(tmp_path, _table(300, 1), COLUMNS)
    outcome = small.run(job)
    assert outcome.verdict.passed and not any("units" in note for note in outcome.verdict.notes)
    assert next(check for check in outcome.verdict.checks if check.key == "group.smallest").unit == "records"


def test_fewer_units_than_k_are_refused_with_their_counts(tmp_path):
    for way in (small.run, preview, lambda job: anonymize(_table(4, 50), job)):
        with pytest.raises(InputError, match=r"200 rows with a value hold 4 distinct.*lower k") as caught:
            way(small.job(tmp_path, _table(4, 50), COLUMNS))
        assert small.CANARY not in str(caught.value)


def test_rows_of_no_unit_are_refused(tmp_path):
    table = _table()
    names = table["person"].to_pylist()
    names[7] = None
    table = table.set_column(3, "person", pa.array(names))
    with pytest.raises(InputError, match="1 row without a value, whose units cannot be counted"):
        preview(small.job(tmp_path, table, COLUMNS))


def test_stratum_of_few_units_is_small_despite_many_rows(tmp_path):
    table = _table()
    place = np.array(table["place"].to_pylist())
    place[: 3 * 4] = "island"  # twelve rows of three persons
    table = table.set_column(2, "place", pa.array(place))
    columns = COLUMNS | {"place": {"kind": "categorical", "role": "key"}}
    with pytest.raises(InputError, match="1 stratum has fewer than k=5 units"):
        preview(small.job(tmp_path, table, columns, strata={"by": ["place"]}))
    assert len(preview(small.job(tmp_path, table, columns, strata={"by": ["place"], "small": "merge"})).strata) == 3


def test_a_category_of_few_units_is_not_released(tmp_path):
    table = _table()
    place = np.array(table["place"].to_pylist())
    place[: 3 * 4] = "island"
    table = table.set_column(2, "place", pa.array(place))
    job = small.job(tmp_path, table, COLUMNS, gates={"local_suppression_rate": 0.1})
    small.run(job)
    assert "island" not in small.released(job)["place"].to_pylist()


def test_combinations_of_key_variables_count_units(tmp_path):
    table = _table()
    place = np.array(table["place"].to_pylist())
    place[: 3 * 4] = "island"
    table = table.set_column(2, "place", pa.array(place))
    job = small.job(tmp_path, table, COLUMNS | {"place": {"kind": "categorical", "role": "key"}})
    verdict = small.run(job).verdict
    rare = next(check for check in verdict.checks if check.key == "keys.rare")
    assert not verdict.passed and rare.measured == 12


def test_column_distribution_shows_nothing_of_fewer_than_k(tmp_path):
    table = _table(200, 6)
    income = table["income"].to_numpy().copy()
    income[:6] = 77_777_777.0  # six rows of one person: enough for a value of its own, were rows counted
    job = small.job(tmp_path, table.set_column(1, "income", pa.array(income)), COLUMNS)
    small.run(job)
    assert not (small.released(job)["income"].to_numpy() > 7e7).any()


@pytest.mark.parametrize(
    "changes",
    [
        {"mask": {"method": "noise"}},
        {"mask": {"method": "spectral_swap"}},
        {"sensitive": {"l_diversity": 2}},
    ],
)
def test_what_counts_rows_is_refused_by_plan(tmp_path, changes):
    columns = COLUMNS | {"place": {"kind": "categorical", "role": "sensitive"}} if "sensitive" in changes else COLUMNS
    with pytest.raises(JobError, match=r"units of up to 4 rows\. .*[Mm]ake one row of each unit"):
        preview(small.job(tmp_path, _table(), columns, **changes))


def test_groups_cells_strata_of_mask_held_to_rows_of_k_units(tmp_path):
    mask = {"mask": small.QUICK, "gates": {"membership_auc": None}}
    table = _with_large_units()
    outcome = small.run(small.job(tmp_path, table, COLUMNS, **mask))
    assert outcome.verdict.passed
    smallest = next(check for check in outcome.verdict.checks if check.key == "group.smallest")
    assert smallest.limit == 1 + sum(LARGEST) <= smallest.measured
    released = small.released(small.job(tmp_path, table, COLUMNS, **mask))
    assert "person" not in released.column_names and released.num_rows == table.num_rows
    part = pa.array(np.where(np.arange(table.num_rows) < 150, "few", "many"))
    strata = {"columns": COLUMNS | {"part": {"kind": "binary", "role": "key"}}, "strata": {"by": ["part"]}}
    with pytest.raises(JobError, match=r"stratum has 150 records, and .* needs 153 for .* k=5 units of up to 43 rows"):
        preview(small.job(tmp_path / "strata", table.append_column("part", part), **(mask | strata)))


def test_of_a_panel_a_mask_counts_records_of_one_unit_as_fewer(tmp_path):
    """Twelve like rows of a person tell no more of the means than one."""
    rng, rows = np.random.default_rng(5), 400
    wide = {f"x{at}": rng.normal(size=rows) for at in range(12)}
    columns = {name: {"kind": "continuous", "bounds": [None, None]} for name in wide}
    mask = {"mask": {"method": "local_synthesis"}, "measure": {"queries": 100}}
    assert preview(small.job(tmp_path / "one", pa.table(wide), columns, **mask)).exit_code == 0
    panel_of = pa.table(
        {name: np.repeat(values[:40], 10) for name, values in wide.items()} | {"person": np.repeat(np.arange(40), 10)}
    )
    with pytest.raises(JobError, match=r"400 records|40 independent records"):
        preview(small.job(tmp_path / "ten", panel_of, columns | {"person": {"role": "unit"}}, **mask))


@pytest.mark.parametrize("role", ["unit", "identifier"])
def test_a_hold_out_takes_whole_units(tmp_path, role):
    columns = COLUMNS | {"person": {"role": role}}
    job = small.job(tmp_path, _table(300), columns, measure={"hold_out": 0.3, "queries": 300, "utility": False})

    def looked_at(run):
        context, seen = run.context, []
        records = [context.call(partition_rows, at) for at in range(len(context.cut.partitions))]
        cells, units = (np.concatenate(parts) for parts in zip(*records, strict=True))
        for name, each in read_predicates(context.work).items():
            found, matched = (
                matches_in(context.work, context.cut, "original", name),
                each.units(Ordered.of(cells), units),
            )
            may = matches_in(context.work, context.cut, "release", name).counts < 2  # of two released rows none is told
            assert found.counts[may].tolist() == (matched >= 0).sum(axis=1)[may].tolist()
            rows = each.matches(Ordered.of(cells)).counts
            seen.append(((found.counts == 1).sum(), ((found.counts == 1) & (rows > 1)).sum()))
        return context.cut.rows, run.staging.results("scan").read(0)["held_out"], seen

    kept, held, seen = to_the_end(job, False, lambda _: None, "ignore", looked_at)
    assert kept + held == 1200 and held % 4 == 0
    assert all(alone > 0 for alone, _ in seen), "some predicates single out a unit"
    assert sum(by_rows for _, by_rows in seen) > 0, "among them such as several rows of the unit meet"
    measured = small.run(job)
    keys = {check.key for check in measured.verdict.checks if check.measured is not None}
    assert "risk.membership_auc" in keys
    reasons = {check.key: check.reason for check in measured.verdict.checks if check.reason is not None}
    assert reasons["unmeasured.lasko"] == Reason.UNITS


def test_who_finds_any_row_of_a_unit_has_found_the_unit(tmp_path):
    job = small.job(tmp_path, _table(80), COLUMNS, measure={"queries": 320, "utility": False})

    def both(run):
        context = run.context
        queries, asked_units = read_queries(context.work), read_units(context.work)
        labels = context.call(last_channels, 0)[0][:, -1].astype(int)
        units, released = context.call(partition_units, 0), context.call(released_rows, 0)
        of_row, points = context.call(released_labels, 0), known_features(context.fitted, released)
        hits, shares = [], []
        for unit, asked in zip(asked_units.own, queries.features, strict=True):
            group = of_row[np.argmin(((points - asked) ** 2).sum(axis=1))]
            own = int(((units == unit) & (labels == group)).sum())
            hits.append(own > 0)
            shares.append(own / int((labels == group).sum()))
        measured = {one.name: one.value for one in load_assessment(context.work).risk}
        return len(set(asked_units.own)), np.mean(hits), np.mean(shares), measured

    asked, group, expected, measured = to_the_end(job, False, lambda _: None, "ignore", both)
    assert asked == 80
    assert any(name.startswith("tails.") for name in measured)
    assert measured["linkage.group"] == pytest.approx(group)
    assert measured["reidentification_rate"] == pytest.approx(expected)
    assert 0 < expected < group


def test_a_unit_and_rows_that_count_exclude_each_other(tmp_path):
    with pytest.raises(JobError, match="leave out either"):
        parse_job(small.content(tmp_path, "data.parquet", COLUMNS, rows_per_unit="many"))


def test_init_proposes_one_unit_the_coarser_of_two():
    table = pa.table({"household_id": np.repeat(np.arange(30), 8), "person_id": np.repeat(np.arange(120), 2)})
    found = guess(look_at(table))
    assert (found["household_id"].role.value, found["person_id"].role.value) == ("unit", "identifier")


def test_init_proposes_a_repeating_number_as_the_unit():
    rng = np.random.default_rng(6)
    table = pa.table({"UTILITYID": np.repeat(np.arange(40) * 7, 16), "sales": rng.normal(size=640)})
    found = guess(look_at(table))["UTILITYID"]
    assert found.role.value == "unit" and "CHECK" in found.reason and "rows_per_unit" in found.reason


def test_columns_constant_in_units_are_found_by_rows_of_some():
    rng = np.random.default_rng(6)
    unit = np.repeat(np.arange(2_000, dtype=np.uint64) * 4_503_599_627_370 + 1, 2)  # over all of 53 bits
    own = rng.integers(0, 30, 2_000)[unit.argsort() // 2].astype(np.int64)
    few = np.where(rng.random(4_000) < 0.005, rng.integers(0, 30, 4_000), own)
    many = np.where(rng.random(4_000) < 0.1, rng.integers(0, 30, 4_000), own)
    table = pa.table({"own": own, "few": few, "many": many, "rare": rng.random(4_000) < 0.005, "id": np.arange(4_000)})
    batches = table.take(order := rng.permutation(4_000)).to_batches(max_chunksize=700)
    ends = np.cumsum([0, *map(len, batches)])
    rows = [some_units(batch, unit[order][a:b], 40_000) for batch, a, b in zip(batches, ends, ends[1:], strict=False)]
    found = pa.Table.from_batches(rows).column(5).to_numpy()
    assert 1_900 < len(found) < 2_100 and (np.unique(found, return_counts=True)[1] == 2).all()
    unit, masked = (
        UnitColumn("unit", 4_000, 2_000, 2, 9, 2.0),
        {name: Column(kind=Kind.INTEGER) for name in table.column_names},
    )
    assert unit.with_constant(rows, masked).constant == ("own", "few")
    assert unit.with_constant([batch[:8] for batch in rows[:1]], masked).constant == ()


def test_init_names_columns_that_are_constant_in_units(tmp_path):
    proposal = propose_job(small.write_table(tmp_path, _table()), "out", 5)
    assert 'one value of "age", "place"; in the release they' in proposal
    assert "one value of" not in propose_job(small.write_table(tmp_path, small.plain_table(200)), "out", 5)


def test_identifier_that_proves_to_be_unit_has_its_own_noise(tmp_path):
    def key(run):
        return run.context.work.key

    as_rows = small.job(tmp_path, _table(), COLUMNS | {"person": {"role": "identifier"}}, rows_per_unit="many")
    as_units = small.job(tmp_path, _table(), COLUMNS | {"person": {"role": "identifier"}})
    keys = [to_the_end(job, False, lambda _: None, "ignore", key) for job in (as_rows, as_units)]
    assert as_rows.digest() == as_units.digest() and keys[0] != keys[1]


def test_a_unit_with_half_of_the_rows_is_warned_of(tmp_path):
    one = _table(1, 500, seed=8).set_column(3, "person", pa.array(["one"] * 500))
    job = small.job(tmp_path, pa.concat_tables([_table(300, 2), one]), COLUMNS, gates={"mean": 9, "covariance": 9})
    assert "rest on 507" in " ".join("\n".join(preview(job).lines()).split())
    outcome = small.run(job)
    smallest = next(check for check in outcome.verdict.checks if check.key == "group.smallest")
    assert smallest.measured >= 5
    assert any("one unit has" in text and "up to 500 rows" in text for text in outcome.warnings)


def test_a_unit_of_one_row_each_is_told_by_plan_and_run(tmp_path):
    table = _table(400, 1)
    job = small.job(tmp_path, table, COLUMNS, measure=small.OFF)
    told = [
        text for text in preview(job).warnings if "column 'person' has role unit, and no value of it repeats" in text
    ]
    assert len(told) == 1 and told[0] in small.run(job).warnings
