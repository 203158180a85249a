"""Earlier releases: what is refused, what is not, and what the logs hold."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anonpipe.api import anonymize
from anonpipe.columns import Column
from anonpipe.encoding.scan import scan_batch
from anonpipe.encoding.tracers import Tracer, comparable_sketches
from anonpipe.errors import InputError, JobError
from anonpipe.job.model import parse_job
from anonpipe.rng import keyed, require_secret, steward_secret
from anonpipe.source import open_source, read_batches
from anonpipe.storage import release_log as release_log
from anonpipe.storage.release import place
from anonpipe.storage.release_log import Trace, _marks, _stored_sketch, find_overlaps, note_release, withdraw_note
from anonpipe.storage.sketch import Sketch
from tests import small

SECRET = b"s" * 32
LOOSE = {"repeat": {}, "gates": {"mean": 1, "covariance": 1, "category_share": 1, "unchanged_record_rate": 1}}
COLUMNS = {
    "person": Column(role="identifier"),
    "size": Column(kind="continuous"),
    "age": Column(kind="integer"),
    "stage": Column(kind="categorical"),
    "site": Column(kind="categorical"),
}


def people(rows, seed=0, first=0):
    """A register; persons of different seeds are others."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "person": [f"{seed}-{at}" for at in range(first, first + rows)],
            "size": rng.lognormal(3.0, 0.5, rows),
            "age": rng.integers(20, 90, rows),
            "stage": rng.choice(list("IVXL"), rows),
            "site": rng.choice(["lung", "colon", "skin"], rows),
        }
    )


def trace(table, columns=COLUMNS, job="job", secret=SECRET):
    whole = table.combine_chunks().to_batches()[0]
    tracer = Tracer.of(table.schema, columns, keyed(secret, "records"))
    tracer.add(whole)
    released = tuple(name for name, column in columns.items() if column.role.released)
    return Trace(
        scan_batch(whole, columns, 0, []).digest, job, table.num_rows, released, comparable_sketches(tracer.sketches)
    )


@pytest.fixture
def out(tmp_path):
    """An output where 2,000 persons were released."""
    assert note_release(trace(people(2_000)), SECRET, place(str(tmp_path / "out")), "v1") == []
    return place(str(tmp_path / "out"))


def said(found):
    return "\n".join(found.problems)


def without(table, *names, seed=9):
    """The same persons with other values in some columns."""
    other = people(table.num_rows, seed)
    for name in names:
        table = table.set_column(table.schema.get_field_index(name), name, other[name])
    return table


def test_equal_records_are_released_again_and_leave_a_short_line(out):
    shuffled = people(2_000).take(np.random.default_rng(0).permutation(2_000))
    assert find_overlaps(trace(shuffled), SECRET, out) == release_log.Overlaps(again="v1")
    before = Path(out.root, "steward", "releases.jsonl").read_bytes()
    note_release(trace(shuffled), SECRET, out, "v2")
    after = Path(out.root, "steward", "releases.jsonl").read_bytes()
    added = json.loads(after.removeprefix(before))
    assert after.startswith(before) and added["repeated"] == "v2" and "sketches" not in added and len(str(added)) < 400
    assert len(release_log._read_output(out).lines) == 1


def test_one_person_more_or_less_is_refused_with_numbers(out):
    whole = people(2_000)
    joined = pa.concat_tables([whole, people(1, 5)])
    for changed, numbers in ((joined, "2,000 rows then, 2,001 now"), (whole.slice(1), "2,000 rows then, 1,999 now")):
        assert numbers in said(find_overlaps(trace(changed), SECRET, out))
        assert numbers in said(
            find_overlaps(trace(changed), SECRET, place("memory://elsewhere"))
        )  # the home knows of it
    told = said(find_overlaps(trace(pa.concat_tables([whole.slice(0, 1_500), people(700, 5)])), SECRET, out))
    assert "about 1,500 records are equal, 0 changed, 700 added, 500 gone" in told
    assert "columns: 4 as then, 0 added, 0 left out, 0 with new values" in told and "job" not in told


def test_what_changed_adds_up_to_the_rows(tmp_path):
    """Of 401 rows one is of a person who was not there, and one is of another age."""
    out = place(str(tmp_path / "out"))
    note_release(trace(people(400)), SECRET, out, "v1")
    joined = pa.concat_tables([people(400), people(1, 5)])
    ages = joined["age"].to_numpy().copy()
    ages[7] += 1
    changed = joined.set_column(joined.schema.get_field_index("age"), "age", pa.array(ages))
    told = said(find_overlaps(trace(changed), SECRET, out))
    assert "about 399 records are equal, 1 changed, 1 added, 0 gone; columns" in told


def test_a_log_keeps_the_depth_of_each_content():
    """The zero bits ahead of a number, also of those that a float rounds up to a power of two."""
    numbers = np.array(sorted({2**bits + by for bits in range(1, 64) for by in (-1, 0, 1)} | {2**64 - 1}), np.uint64)
    sketch = Sketch(0, numbers, np.ones(len(numbers), dtype=np.int64), 1_000)
    kept = _stored_sketch(SECRET, '["person"]', sketch).contents
    marks = _marks(keyed(SECRET, "marks of records"), numbers.tobytes())
    assert [kept[mark.tobytes()][0] for mark in marks] == [64 - int(number).bit_length() for number in numbers]


@given(st.floats(0, 1e7), st.floats(0, 1e7), st.integers(1, 10**7), st.integers(1, 10**7))
def test_whatever_the_sketches_tell_adds_up(equal, common, then, now):
    parts = release_log._parts(equal, common, then, now)
    same, changed, added, gone = parts
    assert same + changed + added == now and same + changed + gone == then and min(parts) >= 0
    if equal <= common <= min(then, now):
        assert abs(same - equal) <= 0.06 * (then + now - 2 * equal) + 1
        assert abs(gone - (then - common)) <= 0.06 * (min(then, now) - common) + 1


@pytest.mark.parametrize(
    ("changed", "columns", "told"),
    [
        (lambda t: without(t, "size"), ["size", "age", "stage", "site"], "1 with new values in many records"),
        (lambda t: without(t, "size", "age", "stage"), None, "about 0 records are equal, 2,000 changed"),
        (lambda t: without(t, "person", "size"), ["size", "age", "stage", "site"], "1 with new values in many records"),
        (lambda t: without(t, "person"), ["size", "age", "stage"], "3 as then, 0 added, 1 left out"),
        (lambda t: t, ["size", "age"], "2 as then, 0 added, 2 left out"),  # the whole table is compared, too
    ],
)
def test_an_overlap_shows_whatever_changed_for_everybody(out, changed, columns, told):
    kept = {name: COLUMNS[name] for name in columns or COLUMNS if name != "person"}
    declared = {**COLUMNS, **{name: Column(role="dropped") for name in COLUMNS if name not in kept}}
    declared["person"] = COLUMNS["person"]
    found = find_overlaps(trace(changed(people(2_000)), declared, job=str(columns)), SECRET, out)
    assert told in said(found) and ("the same 2,000" in said(found) or release_log._OTHER_JOB in said(found)), found


NUMBERED = {
    "record_id": Column(role="identifier"),
    "sex": Column(kind="categorical"),
    "age": Column(kind="integer"),
    "region": Column(kind="categorical"),
    "weight": Column(kind="continuous"),
}


def numbered(seed, rows=1_000, ids=None, **columns):
    """A table whose rows are numbered; persons of different seeds are others."""
    rng = np.random.default_rng(seed)
    drawn = {
        "record_id": np.arange(1, rows + 1) if ids is None else ids(rng, rows),
        "sex": rng.choice(["f", "m"], rows),
        "age": rng.integers(20, 90, rows),
        "region": np.sort(rng.integers(0, 8, rows)),
        "weight": rng.normal(70, 9, rows),
    }
    return pa.table(drawn | {name: draw(rng, rows) for name, draw in columns.items()})


NUMBERINGS = {
    "from 1": None,
    "text": lambda rng, rows: [f"P{at:05}" for at in range(rows)],
    "tens": lambda rng, rows: 10_000 + 10 * np.arange(rows),
    "every third": lambda rng, rows: np.sort(rng.choice(3 * rows, rows, replace=False)),
    "blocks": lambda rng, rows: np.arange(rows) + 100_000 * (np.arange(rows) // 250),
    "shuffled": lambda rng, rows: rng.permutation(rows),
}


@pytest.mark.parametrize("role", ["identifier", "dropped"])
@pytest.mark.parametrize("ids", NUMBERINGS.values(), ids=NUMBERINGS)
def test_equal_numbers_of_rows_are_no_overlap(tmp_path, ids, role):
    columns = NUMBERED | {"record_id": Column(role=role)}
    for seed in range(4):
        table = trace(numbered(seed, ids=ids), columns)
        assert find_overlaps(table, SECRET, place(str(tmp_path))).problems == ()
        note_release(table, SECRET, place(str(tmp_path)), f"v{seed}")


@pytest.mark.parametrize("period", [2, 3, 4, 5, 6, 10, 12])
def test_columns_that_follow_the_numbers_of_rows_are_no_overlap(tmp_path, period):
    columns, design = NUMBERED | {"arm": Column(kind="integer")}, {"arm": lambda rng, rows: np.arange(rows) % period}
    for seed in range(2):
        table = trace(numbered(seed, **design), columns)
        assert find_overlaps(table, SECRET, place(str(tmp_path))).problems == ()
        note_release(table, SECRET, place(str(tmp_path)), f"v{seed}")


@pytest.mark.parametrize("kept", ["sex", "age"])
def test_numbered_rows_with_one_unchanged_column_are_overlap(tmp_path, kept):
    note_release(trace(numbered(0), NUMBERED), SECRET, place(str(tmp_path)), "v1")
    updated = numbered(1).set_column(numbered(1).schema.get_field_index(kept), kept, numbered(0)[kept])
    told = said(find_overlaps(trace(updated, NUMBERED), SECRET, place(str(tmp_path))))
    assert "about 0 records are equal, 1,000 changed" in told
    alone = "Only the identifier ('record_id') agrees together with single values in its row" in told
    assert alone == (kept == "sex")


def test_the_same_sparse_numbers_are_an_overlap(tmp_path):
    """A third of the numbers of a register, all of which come again; by chance a third of them would."""
    ids = np.sort(np.random.default_rng(5).choice(3_000, 1_000, replace=False))
    for seed in (0, 1):
        found = find_overlaps(trace(numbered(seed, ids=lambda *_: ids), NUMBERED), SECRET, place(str(tmp_path)))
        note_release(trace(numbered(seed, ids=lambda *_: ids), NUMBERED), SECRET, place(str(tmp_path)), f"v{seed}")
    assert "Only the identifier ('record_id') agrees. If it numbers rows" in said(found)


def renamed(table, columns):
    """All columns under other names, in another order, and their declarations."""
    names = {name: f"v{at}" for at, name in enumerate(reversed(table.column_names))}
    other = table.rename_columns([names[name] for name in table.column_names]).select(sorted(names.values()))
    return other, {names[name]: column for name, column in columns.items()}


def two_more(table, columns):
    rng = np.random.default_rng(1)
    table = table.append_column("height", pa.array(rng.normal(170, 9, len(table)))).append_column("n", table["stage"])
    return table, columns | {"height": Column(kind="continuous"), "n": Column(kind="categorical")}


def as_texts(table, columns):
    """Numbers as texts, and texts in capitals."""
    other = [pa.compute.utf8_upper(column.cast(pa.string())) for column in table.columns]
    declared = {n: c if c.role.names_persons else Column(kind="categorical") for n, c in columns.items()}
    return pa.table(other, table.column_names), declared


NAMELESS = {name: column for name, column in COLUMNS.items() if name != "person"}


@pytest.mark.parametrize("changes", [(renamed,), (two_more, renamed), (as_texts, renamed), (as_texts, two_more)])
@pytest.mark.parametrize("kept", [COLUMNS, NAMELESS], ids=["with identifier", "without"])
def test_other_names_types_and_columns_hide_no_overlap(tmp_path, changes, kept):
    """The difference of two releases, of 2,000 and of 1,999 persons, is one person."""
    table, columns = people(2_000).select(list(kept)), kept
    note_release(trace(table, columns), SECRET, place(str(tmp_path)), "v1")
    for change in changes:
        table, columns = change(table, columns)
    found = find_overlaps(trace(table.slice(1), columns, job="other"), SECRET, place(str(tmp_path)))
    assert "2,000 rows then, 1,999 now" in said(found)
    others = people(2_000, 7).select(list(kept))
    columns = kept
    for change in changes:
        others, columns = change(others, columns)
    assert find_overlaps(trace(others, columns, job="other"), SECRET, place(str(tmp_path))).problems == ()


def quotas(seed):
    """A survey with as many persons in each region, sex and class of age, whoever they are."""
    cells = np.repeat(np.arange(60), 50)
    columns = {"region": cells % 6, "sex": cells // 6 % 2, "ages": cells // 12}
    rng = np.random.default_rng(seed)
    return columns | {"income": rng.lognormal(8, 1, 3_000).round(), "rent": rng.lognormal(6, 1, 3_000).round()}


def panel(seed):
    """Five rows of each of 600 persons, with what stays the same."""
    rng = np.random.default_rng(seed)
    persons = {"age": rng.integers(20, 90, 600), "zip": rng.integers(0, 400, 600)}
    rows = {name: np.tile(values, 5) for name, values in persons.items()}
    return {"person": np.tile(rng.integers(0, 10**9, 600), 5), "wave": np.repeat(np.arange(5), 600)} | rows


@pytest.mark.parametrize("draw", [quotas, panel])
def test_other_persons_of_one_design_are_no_overlap(tmp_path, draw):
    columns = {name: Column(kind="integer") for name in draw(0)}
    if "person" in columns:
        columns["person"] = Column(role="identifier")
    for seed in range(12):
        table = trace(pa.table(draw(seed)), columns)
        assert find_overlaps(table, SECRET, place(str(tmp_path))).problems == ()
        note_release(table, SECRET, place(str(tmp_path)), f"v{seed}")


def test_samples_tell_right_of_same_persons_and_a_few_more(tmp_path):
    """Of a CSV of 9,000 rows logs hold samples: two columns less are the same persons, 400 rows more are 400 added."""
    pa.csv.write_csv(people(9_000).drop_columns("person"), tmp_path / "in.csv")
    where, found = place(str(tmp_path / "out")), {}
    for name, gone in (("whole", ()), ("less", ("size", "site"))):
        columns = {each: column for each, column in COLUMNS.items() if each != "person"}
        columns |= {each: Column(role="dropped") for each in gone}
        source = open_source(str(tmp_path / "in.csv"), columns)
        batches = [
            batch for unit in source.units for _, batch in read_batches(source, unit, source.schema.names, 10**6)
        ]
        found[name] = trace(pa.Table.from_batches(batches), columns, job=name)
    joined = pa.concat_tables([people(9_000), people(400, 5)]).drop_columns("person")
    found["joined"] = trace(joined, {name: COLUMNS[name] for name in joined.schema.names})
    note_release(found["whole"], SECRET, where, "v1")
    told = said(find_overlaps(found["joined"], SECRET, where))
    assert "9,000 records are equal, 0 changed, 400 added, 0 gone, judged by samples" in told
    told = said(find_overlaps(found["less"], SECRET, where))
    assert "the same 9,000 records" in told and "2 as then, 0 added, 2 left out" in told and "gone" not in told


def test_other_persons_are_no_overlap(out):
    for seed in range(1, 6):
        assert find_overlaps(trace(people(2_000, seed)), SECRET, out) == release_log.Overlaps()
    few = {name: COLUMNS[name] for name in ("stage", "site")}  # twelve kinds of records, all of which both have
    note_release(trace(people(2_000, 1), few), SECRET, out, "v2")
    for seed in range(2, 12):
        assert find_overlaps(trace(people(2_000, seed), few), SECRET, out) == release_log.Overlaps()
    assert "overlaps" in said(find_overlaps(trace(people(2_000, 1).slice(3), few), SECRET, out))


def test_the_overlap_that_is_found_almost_surely():
    """As docs/guarantees.md says: 2 % of the records of both tables, of large ones."""
    first = trace(people(40_000))
    told = json.loads(json.dumps(first.line(SECRET, "v1")))
    both = pa.concat_tables([people(40_000).slice(0, 1_600), people(38_400, 7)]).drop(["person"])
    columns = {name: column for name, column in COLUMNS.items() if name != "person"}
    assert "overlaps" in release_log._overlaps(trace(both, columns), SECRET, [told])[0].words


@pytest.mark.parametrize("then", [5, None])
def test_another_k_is_named_in_each_text(tmp_path, then):
    """Whether all records are equal, all but for a column, or some; earlier versions kept no k."""
    whole, where = people(2_000), place(str(tmp_path / "out"))
    note_release(replace(trace(whole), k=then), SECRET, where, "v1")
    without_size = {**COLUMNS, "size": Column(role="dropped")}
    for table, columns, words in (
        (whole, COLUMNS, "the same records"),
        (whole, without_size, "the same 2,000 records"),
        (whole.slice(3), COLUMNS, "records count as changed"),
    ):
        told = said(find_overlaps(replace(trace(table, columns, job="k=6"), k=6), SECRET, where))
        assert words in told and ("(k=5 then, k=6 now)" in told) == (then is not None), told


def test_same_records_under_other_job_or_secret_are_refused(out):
    again = trace(people(2_000), job="other job")
    assert "under another job" in said(find_overlaps(again, SECRET, out))
    other = b"t" * 32
    again = trace(people(2_000), secret=other)
    assert "with another secret" in said(find_overlaps(again, other, out))
    assert "under another secret" in said(find_overlaps(again, other, place("memory://elsewhere")))
    found = find_overlaps(trace(people(2_000, 3), secret=other), other, place("memory://elsewhere"))
    assert not found.problems and "1 releases under other secrets" in found.warnings[0]


def test_torn_and_foreign_lines_are_passed_over(out):
    for path in (Path(out.root, "steward", "releases.jsonl"), Path(os.environ["ANONPIPE_HOME"], "releases.jsonl")):
        assert path.stat().st_mode & 0o077 == 0
        whole = path.read_bytes()
        fewer = json.loads(whole)
        fewer["sketches"][0]["marks"] = fewer["sketches"][0]["marks"][:32]
        path.write_bytes(
            b'{"other": 1}\n[]\n\xff\xfe\n%s\n' % json.dumps(fewer).encode() + whole + whole[: len(whole) // 2]
        )
    joined = trace(pa.concat_tables([people(2_000), people(1, 5)]))
    found = find_overlaps(joined, SECRET, out)
    assert "2,001 now" in said(found) and all("5 lines that cannot be read" in each for each in found.warnings)
    note_release(joined, SECRET, out, "v2")
    assert find_overlaps(joined, SECRET, out).problems == ()  # the line after the torn one is whole


def test_a_line_that_was_taken_back_says_nothing(out):
    withdraw_note(out, "v1")
    assert find_overlaps(trace(people(2_000).slice(1)), SECRET, out) == release_log.Overlaps()


def test_a_home_that_cannot_be_written_is_a_warning(out, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("ANONPIPE_HOME", str(tmp_path / "file" / "home"))
    joined = trace(pa.concat_tables([people(2_000), people(1, 5)]))
    found = find_overlaps(joined, SECRET, out)
    assert "2,001 now" in said(found) and "in the steward's home cannot be read" in found.warnings[0]
    assert "in the steward's home cannot be written" in note_release(joined, SECRET, out, "v2")[0]
    assert find_overlaps(joined, SECRET, out).problems == ()


def test_the_logs_hold_no_value_and_no_name(out):
    for path in (Path(out.root, "steward", "releases.jsonl"), Path(os.environ["ANONPIPE_HOME"], "releases.jsonl")):
        text = path.read_text()
        assert not any(word in text for word in ("person", "stage", "lung", "colon", "0-17"))
        assert set(json.loads(text)) <= {
            *(
                "anonpipe_log",
                "time",
                "version",
                "secret",
                "job",
                "population",
                "rows",
                "columns",
                "sketches",
                "anywhere",
                "output",
                "k",
            )
        }


def test_a_secret_that_the_home_makes_up_is_refused(monkeypatch):
    with pytest.raises(JobError, match="ANONPIPE_SECRET_FILE"):
        require_secret("a flow")
    monkeypatch.setenv("ANONPIPE_SECRET", "5e" * 32)
    require_secret("a flow")


def test_runs_refuse_warn_and_allow(tmp_path, monkeypatch):
    """The joiner's attack, as a run meets it: exact counts of categories would give away all that he is."""
    table = people(240)
    declared = {name: column.model_dump(exclude_none=True) for name, column in COLUMNS.items()}
    job = small.job(tmp_path, table, declared, **LOOSE)
    first = small.run(job)
    joined = pa.concat_tables([table, people(1, 5)])
    grown = small.job(tmp_path, joined, declared, **LOOSE)
    before = sorted(Path(job.output).rglob("*"))
    with pytest.raises(InputError, match=r"240 rows then, 241 now.*\n.*repeat: \{allow:") as caught:
        small.run(grown)
    assert "lung" not in str(caught.value) and small.stagings() == [] and sorted(Path(job.output).rglob("*")) == before
    for other in (grown, job.model_copy(update={"k": 6})):  # of one table more, or the same by another k
        with pytest.raises(InputError, match=r"allow it in the job"):
            anonymize(joined if other is grown else table, other)
    allowed = small.run(parse_job({**grown.model_dump(mode="json"), "repeat": {"allow": "a yearly register"}}))
    assert f"{release_log.ALLOWED}a yearly register" in allowed.verdict.notes
    report = json.loads(Path(allowed.version, "_report.json").read_text())
    assert any("in earlier releases, too" in each for each in report["not_guaranteed"])
    assert "yearly" not in json.dumps(report)
    manifest = json.loads(Path(allowed.version, "_manifest.json").read_text())
    assert manifest["secret_mark"] == release_log.secret_mark(steward_secret())
    assert first.version is not None
    Path(job.output, "steward", "releases.jsonl").unlink()
    Path(os.environ["ANONPIPE_HOME"], "releases.jsonl").unlink()
    monkeypatch.setenv("ANONPIPE_SECRET", "5e" * 32)
    with pytest.raises(InputError, match="drawn with another secret"):
        small.run(grown)
