"""A register that grows: what is refused, what comes out, how counts are rounded, and the attack on differences."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from anonpipe.columns import Column
from anonpipe.encoding.quantiles import Radix
from anonpipe.encoding.shares import Rounding
from anonpipe.encoding.tracers import UnitTracer
from anonpipe.errors import InputError, JobError
from anonpipe.job.model import parse_job
from anonpipe.pipeline.cut import Cut, RowPartition, withhold
from anonpipe.pipeline.resolve import counted_units
from anonpipe.pipeline.run import assess_only
from anonpipe.rng import keyed
from anonpipe.storage.release import place
from anonpipe.storage.release_log import find_overlaps, note_release
from anonpipe.storage.sketch import UnitSums, buckets_for, merge_sums
from anonpipe.verify.gates import Rounded
from tests import small
from tests.attacks import nights
from tests.test_repeats import SECRET, said, trace

COLUMNS = {
    "person": Column(role="identifier"),
    "size": Column(kind="continuous"),
    "stage": Column(kind="categorical"),
    "status": Column(kind="binary", role="key"),
}
DECLARED = {name: column.model_dump(exclude_none=True) for name, column in COLUMNS.items()}
PLAIN = DECLARED | {"size": {"kind": "continuous", "transform": "none"}}
GROWING = {"repeat": {"growing": True}, "strata": {"by": ["status"]}}


def people(rows, seed=0):
    """A register; persons of different seeds are others."""
    rng = np.random.default_rng(seed)
    content = {
        "person": [f"{seed}-{at}" for at in range(rows)],
        "size": rng.lognormal(3.0, 0.5, rows),
        "stage": rng.choice(list("IVXL"), rows),
        "status": rng.choice(["ill", "well"], rows),
    }
    return pa.table(content)


def changed(table, name, rows, value):
    """The same persons, of whom the first have another value in a column."""
    values = table[name].to_pylist()
    return table.set_column(
        table.schema.get_field_index(name),
        name,
        pa.array([*[value] * rows, *values[rows:]], table.schema.field(name).type),
    )


def of_status(table, value, rows):
    """The first persons of a status."""
    return table.filter(pa.array([each == value for each in table["status"].to_pylist()])).slice(0, rows)


def night(table, at_least=5, at_most=20, job="job", parts=1):
    """The trace of a table, its units counted in so many parts."""
    tracers = []
    for part in np.array_split(np.arange(table.num_rows), parts):
        tracers.append(UnitTracer.of("person", COLUMNS, keyed(SECRET, "units"), at_least))
        tracers[-1].add(table.take(part).combine_chunks().to_batches()[0])
    repeat = {"growing": True, "min_changed": at_least, "max_overlapping": at_most}
    given = {"input": "a", "output": "b", "k": 5, "columns": DECLARED, **GROWING, "repeat": repeat}
    counted = counted_units(parse_job(given), [each.sums for each in tracers])
    return replace(trace(table, COLUMNS, job), counted=counted)


@pytest.fixture
def out(tmp_path):
    """An output where 1,000 persons were released."""
    found = place(str(tmp_path / "out"))
    note_release(night(people(1_000)), SECRET, found, "v1")
    return found


def test_changed_units_are_counted_and_never_more_than_there_are():
    rng, rows, marks = np.random.default_rng(0), np.arange(900), np.array([7, 3], dtype=np.uint64)
    for units in (0, 1, 4, 5, 20, 300):
        which, places = rows % 2, rng.integers(0, 2**63, 900).astype(np.uint64)
        numbers = rng.integers(0, 2**63, 900).astype(np.uint64)
        other = np.where(rows < 2 * units, numbers + np.uint64(1), numbers)
        one = UnitSums.of(marks, which, 0, places, numbers, buckets_for(5))
        parts = [
            UnitSums.of(marks, which[at], 0, places[at], other[at], buckets_for(20)) for at in np.array_split(rows, 3)
        ]
        found, columns = one.changed(merge_sums([parts[2], parts[0], parts[1]]))
        assert (found <= units).all() and (found >= min(units, 15) * 0.7).all() and columns.tolist() == [0, 0]
        assert (found > 0).all() == (units > 0)


@pytest.mark.parametrize(
    ("now", "column"),
    [
        (lambda t: pa.concat_tables([t, people(1, 5)]), None),
        (
            lambda t: pa.concat_tables([t, of_status(people(50, 5), "ill", 8), of_status(people(50, 5), "well", 3)]),
            None,
        ),
        (lambda t: t.slice(4), None),
        (lambda t: pa.concat_tables([t, of_status(people(50, 5), "ill", 14)]), "as a whole"),
        (lambda t: changed(t, "size", 3, 9.0), "'size'"),
        (lambda t: changed(changed(t, "size", 40, 9.0), "stage", 2, "new"), "'stage'"),
        (lambda t: t.set_column(0, "person", pa.array([f"n{at}" for at in range(1_000)])).slice(1), "as a whole"),
    ],
    ids=["joins", "few of one status", "all of one status", "left", "a column", "few of one column", "numbered again"],
)
def test_a_few_who_differ_are_refused(out, now, column):
    found = find_overlaps(night(now(people(1_000))), SECRET, out)
    assert "5 or none must in every column, and 10 in all" in said(found) and (column or "") in said(found)
    assert "0-1" not in said(found) and not any(number in said(found) for number in ("1,001", "999"))


def test_enough_who_differ_are_released_and_held_against_all(out):
    whole, many = people(1_000), people(60, 5)
    grown = pa.concat_tables([whole, of_status(many, "ill", 12), of_status(many, "well", 12)])
    found = find_overlaps(night(grown, parts=3), SECRET, out)
    assert found.problems == () and found.held == 1
    note_release(night(grown), SECRET, out, "v2")
    back = pa.concat_tables([whole, of_status(many, "ill", 1)])  # of 24 only one stayed: enough since the last night
    assert "too few (" in said(find_overlaps(night(back), SECRET, out))
    assert find_overlaps(night(grown), SECRET, out).problems == ()  # it comes out again as it was
    more = night(pa.concat_tables([grown, people(20, 6)]), at_least=30)
    assert "30 or none must" in said(find_overlaps(more, SECRET, out))
    assert "under another job" in said(find_overlaps(night(grown, job="other"), SECRET, out))


def test_only_so_many_releases_overlap(out):
    grown = pa.concat_tables([people(1_000), people(60, 5)])
    note_release(night(grown), SECRET, out, "v2")
    again = pa.concat_tables([grown, people(60, 6)])
    assert find_overlaps(night(again, at_most=3), SECRET, out).problems == ()
    assert "overlaps with 2 earlier releases, and repeat.max_overlapping is 2" in said(
        find_overlaps(night(again, at_most=2), SECRET, out)
    )


def test_releases_that_nobody_counted_are_accepted_once(tmp_path):
    found = place(str(tmp_path / "out"))
    note_release(trace(people(1_000), COLUMNS), SECRET, found, "v1")
    grown = night(pa.concat_tables([people(1_000), people(60, 5)]))
    refused = find_overlaps(grown, SECRET, found)
    assert "1 of the earlier releases" in said(refused) and refused.uncounted == ("v1",)
    assert "in other columns: v1" in said(refused) and "A series can begin now: when by your own count 5" in said(
        refused
    )
    note_release(grown, SECRET, found, "v2", refused.uncounted)  # as a run does that repeat.allow lets pass
    later = find_overlaps(night(pa.concat_tables([people(1_000), people(60, 5), people(60, 6)])), SECRET, found)
    assert later.problems == () and later.held == 1


def test_strata_that_are_put_together_are_refused(tmp_path):
    table = pa.concat_tables([people(200), changed(people(3, 5), "status", 3, "unknown")])
    strata = {"by": ["status"], "small": "merge"}
    columns = DECLARED | {"status": {"kind": "categorical", "role": "key"}}
    with pytest.raises(InputError, match="share a stratum"):
        small.run(small.job(tmp_path, table, columns, **GROWING | {"strata": strata}))
    with pytest.raises(InputError, match="fewer than 50 records"):
        small.run(small.job(tmp_path, people(80), DECLARED, **GROWING))


def test_rounded_counts_are_unbiased_increasing_and_unique():
    keys, most = 150, 60
    found = np.array(
        [[Rounding(5, bytes([at] * 16)).count(count, "stage", "II") for count in range(most)] for at in range(keys)]
    )
    exact = np.arange(most)
    assert (found % 5 == 0).all() and (np.diff(found, axis=1) >= 0).all() and (abs(found - exact) < 5).all()
    assert abs(found.mean(axis=0) - exact).max() < 5 * 2.5 / np.sqrt(keys)
    assert (np.diff(found, axis=1) > 0).mean() == pytest.approx(0.2, abs=0.01)
    rng, rounding = np.random.default_rng(0), Rounding(5, b"k" * 16)
    for counts in rng.integers(0, 60, (50, 4)):
        made = rounding.counts(counts, "stage", list("abcd"))
        assert made.sum() == counts.sum() and (made >= 0).all() and (np.delete(made, counts.argmax()) % 5 == 0).all()


def test_withheld_records_round_every_stratum():
    parts = tuple(RowPartition(stratum, (at,), rows) for at, (stratum, rows) in enumerate([(0, 61), (1, 40), (1, 33)]))
    cut = withhold(Cut(parts, (), 1), Rounding(5, b"k" * 16), np.random.default_rng(0))
    left = [each.rows - each.withheld for each in cut.partitions]
    assert left[0] % 5 == (left[1] + left[2]) % 5 == 0 and cut.released == sum(left)
    assert 5 < 61 - left[0] < 15 and 5 < 73 - left[1] - left[2] < 15


def test_gates_widen_by_just_what_rounding_and_withholding_do():
    """The furthest of 2,000 honest draws is inside the limit, and not far inside."""
    rows, shares, names = 750, (0.45, 0.28, 0.17, 0.10), list("abcd")
    rng, beyond = np.random.default_rng(0), Rounded(5, 20, 1)
    furthest = dict.fromkeys(("share", "changed", "withheld"), 0.0)
    for draw in range(2_000):
        rounding = Rounding(5, keyed(b"a secret", str(draw)))
        counts = rng.multinomial(rows, shares, size=2)
        made = [rounding.counts(each, f"stage {at}", names) for at, each in enumerate(counts)]
        differ = np.abs(np.sum(made - counts, axis=0))
        cut = withhold(Cut((RowPartition(0, (0,), rows), RowPartition(1, (1,), rows)), (), 1), rounding, rng)
        gone = sum(part.withheld for part in cut.partitions)
        moved = {
            "share": differ.max() / (2 * rows),
            "changed": abs(rng.normal(size=np.abs(made - counts).sum() // 2).sum()) / (2 * rows),
            "withheld": abs(rng.normal(size=gone).sum()) / (2 * rows - gone),
        }
        furthest = {name: max(furthest[name], value) for name, value in moved.items()}
    limits = {
        "share": beyond.share(2 * rows, 2, np.array(4)).item(),
        "changed": beyond.by_chance(2 * rows, 2),
        "withheld": beyond.without(2 * rows, 2),
    }
    assert all(0.3 * limit < furthest[name] <= limit for name, limit in limits.items()), (furthest, limits)


def test_limits_of_a_growing_register_are_these(tmp_path, monkeypatch):
    """1,500 persons in two strata, k=5; before, and beside it what they are without rounding."""
    monkeypatch.setenv(
        "ANONPIPE_SECRET", "9f3c17a2b85de06441c7f29e8ab350d6" * 2
    )  # the entry nearest its limit is shown
    at_most = {
        "mean": (0.0212, 0.09),
        "covariance": (0.054, 0.24),
        "category_share": (0.005, 0.035),
        "null_share": (0.005, 0.025),
        "mean.own_unit": (0.1, 0.1),
        "variance.own_unit": (0.1, 0.1),
        "covariance.keys": (0.1, 0.24),
    }
    for column, repeat in enumerate(({}, GROWING["repeat"])):
        mask = {"mask": small.QUICK, "gates": {"unchanged_record_rate": 1.0}}
        job = small.job(tmp_path, people(1_500), DECLARED, **mask, **GROWING | {"repeat": repeat})
        limits = {check.key: check.limit for check in assess_only(job)[0].checks if check.key in at_most}
        assert limits.keys() == at_most.keys()
        wider = {key: limit for key, limit in limits.items() if round(limit, 12) > at_most[key][column]}
        assert not wider


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"columns": {name: each for name, each in DECLARED.items() if name != "person"}}, "role unit"),
        ({"rows_per_unit": "many"}, "role unit"),
        ({"strata": {}}, "status"),
        ({"repeat": {"growing": True, "min_changed": 4}}, "min_changed is 4"),
        ({"columns": PLAIN, "synthesize": {"method": "centroid"}}, "means of the group give his values: size"),
        ({"mask": {"method": "pram"}}, "does not go with mask pram"),
        ({"columns": PLAIN, "mask": {"method": "generalize"}}, "does not go with generalize"),
    ],
)
def test_what_a_growing_register_needs(given, told):
    with pytest.raises(JobError, match=told):
        parse_job({"input": "a", "output": "b", "k": 5, "columns": DECLARED, **GROWING} | given)


def test_runs_of_a_growing_register(tmp_path):
    table = people(400)
    loose = {"gates": {"unchanged_record_rate": 1.0}, "mask": small.QUICK, **GROWING}
    many = people(60, 5)
    first = small.run(small.job(tmp_path, table, DECLARED, **loose))
    assert first.version is not None and first.rows < 400 and first.rows % 5 == 0
    withheld = f"{400 - first.rows} of 400 synthetic rows are withheld"
    assert any(withheld in line for line in first.warnings)
    outside = [Path(first.version, name).read_text() for name in ("_manifest.json", "_report.json", "_report.html")]
    assert not any("withheld" in text.replace("figures withheld", "") for text in outside)
    with pytest.raises(InputError, match="5 or none must in every column"):
        small.run(small.job(tmp_path, pa.concat_tables([table, many.slice(0, 3)]), DECLARED, **loose))
    grown = small.job(tmp_path, pa.concat_tables([table, many]), DECLARED, **loose)
    second = small.run(grown)
    assert any("1 of the earlier releases overlap" in note for note in second.verdict.notes)
    manifest = json.loads(Path(second.version, "_manifest.json").read_text())
    told = {line["measured"] for line in manifest["verdict"]["checks"] if line["key"] in ("mean", "category_share")}
    assert manifest["counts_rounded_to"] == 5 and manifest["rows"] == second.rows == small.released(grown).num_rows
    assert told == {"within the limit"}
    sizes = [line for line in manifest["verdict"]["checks"] if line["key"] == "group.smallest"]
    assert [line["measured"] for line in sizes] == ["within the limit"]
    assert all(each["from"] / 5 in (1, 2, 4, 8, 16, 32, 64) for each in manifest["group_sizes"])
    limits = {line["limit"].split()[2] for line in manifest["verdict"]["checks"] if line["key"].startswith("mean")}
    assert limits and all(len(each.strip("0.")) == 1 for each in limits)  # they widen by the size of strata
    for name in ("_manifest.json", "_report.json", "_report.html"):  # all that joined, and 400 stayed
        text = Path(second.version, name).read_text()
        assert not re.search(r"\b(460|400)\b( original)? rec|of 460|ed\": 460", text)
    report = json.loads(Path(second.version, "_report.json").read_text())
    assert any("multiples of 5" in each for each in report["not_guaranteed"]) and report["utility"] == []
    assert small.run(grown).rows == second.rows  # the same records: the same release


@pytest.mark.secret("820d5d8baf762ec66dcd56fed15c78bf2798d4f9bd492f4553e99b4684865498")
def test_differences_of_two_nights_tell_counts_only_before(tmp_path):
    before = nights.joined(tmp_path, 5, True, 1, 400)
    after = nights.joined(tmp_path, 5, True, 1, 400, **nights.REPEATS["after"])
    assert before.columns == before.pairs == before.status == before.named == 1.0
    assert before.ages > 0.5  # means of runs are moved: differences give the age by chance only, of one secret in six
    assert after.columns < 0.5 and after.pairs < 0.5  # the error of one night's mean age is chance: may be none


@pytest.mark.secret("9f3c17a2b85de06441c7f29e8ab350d6" * 2)
def test_two_nights_of_group_on_own_scale_give_who_joined(tmp_path):
    """Why that is refused; of how many follows the secret."""
    told, others = nights.subtracted(tmp_path, "none")
    assert told >= 0.04 > 4 * others


def test_quantile_functions_are_of_a_sample():
    values = np.random.default_rng(0).integers(0, 40, 400).astype(float)
    found, rounding = Radix.of(values), Rounding(5, b"k" * 16, b"f" * 16)
    thin = rounding.thinned(found, "age", 0)
    assert thin.total == 380 and (rounding.thinned(found, "age", 1).counts != thin.counts).any()
    one = dict(zip(found.smallest, found.counts, strict=True))
    assert all(0 < many <= one[value] for value, many in zip(thin.smallest, thin.counts, strict=True))
    assert Radix.of(np.repeat(thin.smallest, thin.counts)).sums.tolist() == thin.sums.tolist()
    assert rounding.thinned(Radix.of(values[:6]), "age", 0).total == 5
