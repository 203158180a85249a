"""A table in, the released table out: the notebook's way."""

from __future__ import annotations

import datetime
import os
import signal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import yaml

from anonpipe import anonymize
from anonpipe.errors import GateError, InputError, JobError
from anonpipe.job.model import parse_job
from tests import runs, small

pytestmark = pytest.mark.secret("5e" * 32)

ROWS = 600


def _plain(rows, k, **changes):
    """A frame of an ordinal and a number, and a job for it."""
    frame = pd.DataFrame({"grade": np.arange(rows) % 3, "size": np.random.default_rng(0).normal(size=rows)})
    columns = {"grade": {"kind": "ordinal", "levels": [0, 1, 2]}, "size": {"kind": "continuous"}}
    return frame, {"k": k, "columns": columns, "measure": small.OFF, **changes}


def test_blocks_hold_three_groups_at_least_however_large_k_is():
    frame, job = _plain(1_500, 300, cluster={"method": "mdav", "block_rows": 50})
    smallest = next(each for each in anonymize(frame, job).verdict.checks if each.key == "group.smallest")
    assert smallest.measured is not None and smallest.measured >= 300
    with pytest.raises(InputError, match="1,500 rows, fewer than k=4000; add rows, or lower k"):
        anonymize(frame, {**job, "k": 4_000})


def test_levels_that_are_all_rare_fail_the_gate_and_nothing_else():
    made = anonymize(*_plain(200, 80))
    assert not made.passed and "most in column 'grade'" in made.remedies[0]


def test_an_empty_table_is_one_clear_error():
    frame, job = _plain(0, 5)
    with pytest.raises(InputError, match="the table has no rows"):
        anonymize(frame, job)


def _frame(rows=ROWS):
    """A frame of many dtypes with nulls, and an index of its own."""
    rng = np.random.default_rng(4)
    missing = rng.random(rows) < 0.2
    days = pd.Timestamp("2001-03-04") + pd.to_timedelta(rng.integers(0, 5000, rows), "D")
    frame = pd.DataFrame(
        {
            "plain": rng.normal(size=rows),
            "single": rng.normal(size=rows).astype("float32"),
            "whole": rng.integers(0, 1000, rows).astype("int16"),
            "nullable": pd.array(rng.integers(0, 1000, rows), dtype="Int32"),
            "nullable_float": pd.array(rng.normal(size=rows), dtype="Float64"),
            "flag": pd.array(rng.random(rows) < 0.4, dtype="boolean"),
            "bare_flag": rng.random(rows) < 0.4,
            "group": pd.Categorical(rng.choice(["a", "b", "c"], rows), categories=["c", "b", "a"], ordered=True),
            "text": pd.array(rng.choice(["x", "y"], rows), dtype="string"),
            "object": rng.choice(["u", "v"], rows).astype(object),
            "instant": days,
            "zoned": days.tz_localize("Europe/Helsinki"),
            "day": [day.date() for day in days],
        },
        index=pd.Index(rng.permutation(rows), name="person"),
    )
    for name in ("plain", "nullable", "nullable_float", "flag", "group", "text", "instant"):
        frame.loc[missing, name] = pd.NA if name not in ("plain",) else np.nan
    return frame


KINDS = {
    "plain": "continuous",
    "single": "continuous",
    "whole": "integer",
    "nullable": "integer",
    "nullable_float": "continuous",
    "flag": "binary",
    "bare_flag": "binary",
    "group": "ordinal",
    "text": "binary",
    "object": "binary",
    "instant": "date",
    "zoned": "date",
    "day": "date",
}
COLUMNS = {name: {"kind": kind} for name, kind in KINDS.items()}
COLUMNS["group"]["levels"] = ["c", "b", "a"]
LOOSE = {"mean": 5, "covariance": 5, "category_share": 0.1, "null_share": 0.1}


def test_ordered_categories_of_a_frame_are_its_levels():
    frame = _frame()[["plain", "group"]]
    frame["rank"] = pd.Categorical(frame["group"].cat.codes.clip(0), [2, 1, 0, 7], ordered=True)  # 7 is in no row
    columns = {"plain": {"kind": "continuous"}, "group": {"kind": "categorical"}, "rank": {"kind": "categorical"}}
    released = anonymize(frame, {"k": 5, "columns": columns, "gates": LOOSE, "measure": small.OFF}).table
    assert released.dtypes.to_dict() == frame.dtypes.to_dict()
    assert set(released["rank"]) == {0, 1, 2}
    objects = frame[["plain"]].assign(code=frame["group"].cat.codes.astype(object).where(frame["group"].notna(), None))
    columns = {"plain": {"kind": "continuous"}, "code": {"kind": "categorical"}}
    released = anonymize(objects, {"k": 5, "columns": columns, "gates": LOOSE, "measure": small.OFF}).table
    assert {type(value) for value in released["code"].dropna()} == {int}


def test_a_frame_comes_back_in_its_dtypes():
    frame = _frame()
    before = frame.copy(deep=True)
    released, verdict, _ = anonymize(frame, {"k": 5, "columns": COLUMNS, "gates": LOOSE, "measure": small.OFF})
    assert verdict.passed and isinstance(released, pd.DataFrame)
    assert released.dtypes.to_dict() == frame.dtypes.to_dict()
    assert list(released.columns) == list(frame.columns) and len(released) == ROWS
    assert released.index.tolist() == list(range(ROWS)) and released.index.name is None
    assert all(isinstance(day, datetime.date) for day in released["day"])
    assert (released.isna().sum() == frame.isna().sum()).all()
    assert released["text"].value_counts().to_dict() == frame["text"].value_counts().to_dict()
    pd.testing.assert_frame_equal(frame, before)
    assert small.stagings() == []


def test_whole_numbers_without_nulls_stay_whole():
    frame = pd.DataFrame({"a": np.arange(200), "b": np.random.default_rng(0).normal(size=200)})
    released, _, _ = anonymize(
        frame,
        {
            "k": 5,
            "columns": {"a": {"kind": "integer"}, "b": {"kind": "continuous"}},
            "gates": LOOSE,
            "measure": small.OFF,
        },
    )
    assert released["a"].dtype == np.int64


def test_an_arrow_table_comes_back_in_its_schema():
    rng = np.random.default_rng(5)
    seconds = pa.array(rng.integers(0, 10**9, 300), pa.timestamp("s"))
    place = pa.DictionaryArray.from_arrays(pa.array(rng.integers(0, 3, 300), pa.int8()), pa.array(["a", "b", "c"]))
    chunks = pa.chunked_array([rng.normal(size=100), rng.normal(size=200)])
    table = pa.table({"instant": seconds, "place": place, "value": chunks}).replace_schema_metadata({"who": "me"})
    columns = {"instant": {"kind": "date"}, "place": {"kind": "categorical"}, "value": {"kind": "continuous"}}
    released, verdict, _ = anonymize(table, {"k": 5, "columns": columns, "gates": LOOSE, "measure": small.OFF})
    assert verdict.passed and isinstance(released, pa.Table)
    assert released.schema.equals(table.schema) and released.num_rows == 300
    assert released.schema.metadata is None
    assert table.schema.metadata == {b"who": b"me"} and table.column("value").num_chunks == 2


def test_dropped_columns_are_gone():
    frame = small.plain_table(300).to_pandas().assign(name=[f"person {at}" for at in range(300)])
    columns = {**small.COLUMNS, "name": {"kind": "categorical", "role": "identifier"}}
    released, verdict, _ = anonymize(frame, {"k": 5, "columns": columns, "measure": small.OFF})
    assert verdict.passed and list(released.columns) == ["age", "income", "place"]


def test_a_failed_gate_returns_no_table():
    table = small.plain_table(300)
    released, verdict, _ = anonymize(
        table,
        {
            "k": 5,
            "columns": small.COLUMNS,
            "gates": {"covariance": 1e-12, "mean": 1e-12},
            "synthesize": {"method": "centroid"},
            "measure": small.OFF,
        },
    )
    assert released is None and not verdict.passed
    assert small.stagings() == []


def test_job_as_model_mapping_and_file(tmp_path):
    table = small.plain_table(300)
    content = {"input": "-", "output": "-", "k": 5, "columns": small.COLUMNS, "measure": small.OFF}
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(content))
    one, two, three = (anonymize(table, given).table for given in (content, parse_job(content), path))
    assert one.equals(two) and one.equals(three)


def test_progress_is_told():
    news = []
    job = {"k": 5, "columns": small.COLUMNS, "measure": small.OFF, "cluster": {"method": "mdav"}}
    anonymize(small.plain_table(300), job, on_progress=news.append)
    assert [n.stage for n in news if n.done == n.total] == [
        "scan",
        "route",
        "encode",
        "group",
        "count groups",
        "loss bound",
        "rank",
        "decode",
        "write",
        "compare values",
        "verify",
    ]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([1, 2], "this list cannot be read"),
        (
            pd.DataFrame({"a": [small.CANARY, 1] * 10, "b": 1.0}),
            "column 'a' of .* several types",
        ),
        (pd.DataFrame({"b": 1.0, "a": [1j] * 10}), "column 'a' of the frame"),
        (pd.DataFrame({"b": 1.0, "a": pd.cut(range(10), 2)}), "the type of column 'a'; convert or drop"),
        (
            pd.DataFrame(np.zeros((10, 3)), columns=["a", "b", "a"]),
            r"1 name of columns .* repeated \('a'\); rename",
        ),
        (pd.DataFrame(np.zeros((10, 12))), r"12 names of columns that are no text .* \(0\)"),
        (pa.table({"a": pa.array([1.0] * 10, pa.float64())}).rename_columns(["b"]), "'a'"),
        (pa.table({"a": pa.array([(1, 2, 3)] * 10, pa.month_day_nano_interval())}), "Parquet cannot hold"),
        (pa.table({"a": [[1.0]] * 10}), "'a'"),
        (pa.table({"a": pa.nulls(10)}), "'a'"),
        (pd.DataFrame({"a": []}), "no rows"),
    ],
)
def test_tables_that_cannot_be_anonymised(given, words):
    with pytest.raises(InputError, match=words) as caught:
        anonymize(given, {"k": 5, "columns": {"a": {"kind": "continuous"}}})
    assert small.CANARY not in str(caught.value)
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    assert small.stagings() == []


def test_bad_job_is_told():
    with pytest.raises(JobError, match="kk: unknown key"):
        anonymize(small.plain_table(), {"kk": 5, "columns": small.COLUMNS})


@pytest.mark.secret(runs.SECRET)
def test_what_a_killed_notebook_leaves_is_purged(monkeypatch, capsys):

    def killed(news):
        if news.stage == "route":
            os.kill(os.getpid(), signal.SIGKILL)

    if not (child := os.fork()):  # a process of its own that need not load everything
        try:
            job = {"k": 5, "columns": small.COLUMNS, "measure": small.OFF}
            anonymize(small.plain_table(300), job, on_progress=killed)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert any(path.name.startswith("memory-") for path in small.stagings())
    assert small.commands(capsys, monkeypatch)("purge").code == 0
    assert small.stagings() == []


def test_categories_not_text_and_integers_that_gain_nulls():
    rng = np.random.default_rng(4)
    given = pd.DataFrame(
        {
            "x": rng.normal(size=600),
            "number": pd.Categorical(rng.choice([1, 2, 3], 600)),
            "truth": pd.Categorical(rng.choice([True, False], 600)),
            "grade": np.where(np.arange(600) < 594, rng.integers(0, 3, 600), [7, 8, 9] * 200),
        }
    )
    kinds = {"x": "continuous", "number": "categorical", "truth": "binary", "grade": "ordinal"}
    job = {
        "k": 5,
        "columns": {name: {"kind": kind} for name, kind in kinds.items()},
        "gates": {"covariance": 0.5},
        "measure": small.OFF,
    }
    released, verdict, _ = anonymize(given, job)
    assert verdict.passed
    for name in ("number", "truth"):
        assert released[name].dtype == given[name].dtype
        assert released[name].value_counts().to_dict() == given[name].value_counts().to_dict()
    assert str(released["grade"].dtype) == "Int64" and released["grade"].isna().sum() == 6
    kept = given["grade"][given["grade"] < 3].value_counts().to_dict()
    assert released["grade"].dropna().astype(int).value_counts().to_dict() == kept


def test_warnings_are_returned_redraws_among_them(tmp_path):
    table = small.plain_table(300)
    job = {"k": 5, "columns": small.unscored(small.COLUMNS), "measure": small.OFF}
    for k in (5, 6):  # what is given back in memory is no release, and stands in no log
        warnings = anonymize(table, job | {"k": k}).warnings
        assert any("'income' has no bounds" in warning for warning in warnings)
        assert not any("the same records" in warning for warning in warnings)
    small.run(small.job(tmp_path, table))
    with pytest.raises(InputError, match="the same records were released"):
        anonymize(table, job | {"k": 6})
    job |= {"repeat": {"allow": "a test"}}
    again = anonymize(table, job | {"k": 6}).warnings
    assert sum("the same records were released" in warning for warning in again) == 1
    failed = anonymize(
        table, job | {"gates": {"covariance": 1e-12, "mean": 1e-12}, "synthesize": {"method": "centroid"}}
    )
    assert failed.table is None and any("no bounds" in warning for warning in failed.warnings)


# --- what is handed back ----------------------------------------------------------------------------------------------

PLAIN = {"k": 5, "columns": small.COLUMNS, "measure": small.OFF}
FAILING = PLAIN | {
    "columns": small.unscored(small.COLUMNS),
    "gates": {"covariance": 1e-12, "mean": 1e-12},
    "synthesize": {"method": "gaussian"},
}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Of one table: with all measures, with none, and what a failed gate leaves."""
    jobs = {"measured": {"k": 5, "columns": small.COLUMNS}, "plain": PLAIN, "failed": FAILING}
    with small.private_home(tmp_path_factory.mktemp("results"), runs.SECRET):
        return {name: anonymize(small.plain_table(300), job) for name, job in jobs.items()}


def test_measures_and_both_reports_are_handed_back(tmp_path, results):
    made = results["measured"]
    assert made.passed and made.report.audience == "internal" and made.for_recipients.audience == "external"
    assert made.report.source == "a table in memory" and made.report.warnings == made.warnings
    figures = {each.name: each for each in (*made.report.utility, *made.report.risk)}
    assert set(made.measures.index) == set(figures) and len(figures) > 20
    linkage = made.measures.loc["reidentification_rate"]
    assert linkage.value == figures["reidentification_rate"].value and linkage.baseline < 0.05
    assert set(made.measures["of_what"]) == {"utility", "risk"} and made.measures["value"].dtype == float
    made.save_report(tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_mode & 0o777 == 0o600
    assert "For the data steward only" in (tmp_path / "report.html").read_text()


def test_a_failed_gate_keeps_report_warnings_and_says_what_helps(results):
    made = results["failed"]
    assert made.table is None and made.for_recipients is None and not made.passed
    assert not made.report.passed and made.report.checks and made.warnings
    table = made._repr_html_().partition("<th>check</th>")[2]
    assert table.index('class="failed"') < table.index('class="passed"')
    assert made.remedies and all(":" in remedy for remedy in made.remedies)
    for shown in (repr(made), made._repr_html_()):
        text = " ".join(shown.split())
        assert "raise gates." in text and "no bounds" in text and "failed" in text and "--details" not in text
    assert repr(made).startswith("Anonymized: failed, no table; ") and "<details open>" in made._repr_html_()


def test_it_is_drawn_and_summed_up(results):
    made = results["measured"]
    figure = made.plot()
    assert [axis.get_title() for axis in figure.axes] == ["age", "income", "place", "correlations"]
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert made.summary.shape == (8, 5) and len(made.summary.to_string().splitlines()[0]) < 120
    assert made.summary.loc[0, "measure"] in made._repr_html_().partition("<details")[0]
    frame = made.to_pandas()
    assert isinstance(frame, pd.DataFrame) and frame["age"].tolist() == made.table["age"].to_pylist()
    with pytest.raises(GateError, match="there is no table to convert"):
        results["failed"].to_pandas()


@pytest.mark.parametrize("job", [None, 5, [1], b"job.yaml", pd.DataFrame()], ids=lambda job: type(job).__name__)
def test_a_job_of_another_type_is_refused(job):
    with pytest.raises(JobError, match=f"the job has type {type(job).__name__}; give a mapping"):
        anonymize(small.plain_table(300), job)


def test_news_go_to_a_function():
    with pytest.raises(JobError, match="on_progress has type int; give a function"):
        anonymize(small.plain_table(300), PLAIN, 5)


CELLS = """
import anonpipe
from tests import small
made = anonpipe.anonymize(small.plain_table(300), {"k": 5, "columns": small.COLUMNS})
made
made.plot()
"""


def test_a_notebook_shows_bars_pictures_and_tables(tmp_path, monkeypatch):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipywidgets")
    for name, value in (runs.environment(tmp_path) | {"PYTHONPATH": os.getcwd()}).items():
        monkeypatch.setenv(name, value)
    *lines, shown, plot = CELLS.strip().splitlines()
    cells = [nbformat.v4.new_code_cell(code) for code in ("\n".join(lines), shown, plot)]
    run, page, picture = nbclient.execute(nbformat.v4.new_notebook(cells=cells), timeout=120).cells
    assert "application/vnd.jupyter.widget-view+json" in run.outputs[0].data
    assert "re-identification rate" in page.outputs[0].data["text/html"]
    assert picture.outputs[0].data["image/png"].startswith("iVBOR")


def test_it_can_be_unpacked_as_it_was(results):
    made = results["plain"]
    table, verdict, warnings = made
    assert (table, verdict, warnings) == (made.table, made.verdict, made.warnings) == (made[0], made[1], made[2])


def test_it_shows_itself(results):
    made = results["plain"]
    first, checks, *rest = repr(made).splitlines()
    assert first.startswith(f"Anonymized: {small.OPEN}, 300 rows x 3 columns; ") and first.endswith("; 0 measures")
    assert checks.startswith("checks   ") and " 0 failed" in checks and "risk: not evaluated" in rest
    page = made._repr_html_()
    assert page.startswith("<div class") and page.rstrip().endswith("</div>") and "<script" not in page
    assert "smallest group" in page and "300 released rows, the first 5" in page
    assert "clear this output before the notebook goes" in page


@pytest.mark.parametrize("kind", ["pandas", "arrow"])
def test_names_and_values_cannot_steer_the_page(kind):
    evil = "<script>alert(1)</script>"
    table = small.plain_table(300).rename_columns([evil, "income", "place"])
    columns = dict(zip(table.column_names, small.COLUMNS.values(), strict=True))
    places = pa.array([evil if at % 2 else "north" for at in range(300)])
    table = table.set_column(2, "place", places)
    made = anonymize(table.to_pandas() if kind == "pandas" else table, PLAIN | {"columns": columns})
    assert made.passed and evil not in made._repr_html_() and "&lt;script&gt;" in made._repr_html_()


def test_nothing_is_published_and_no_log_is_written(tmp_path, monkeypatch):
    def never(*_, **__):
        raise AssertionError("published")

    monkeypatch.setattr("anonpipe.storage.release.publish", never)
    monkeypatch.setattr("anonpipe.storage.release.keep_private", never)
    monkeypatch.setattr("anonpipe.storage.release_log.note_release", never)
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    for job in (PLAIN, FAILING):
        anonymize(small.plain_table(300), job)
    left = {path for path in tmp_path.rglob("*") if path.is_file()} - before
    assert {path.name for path in left} <= {"ledger.key"} and not any(path.suffix == ".parquet" for path in left)


# --- tables of other libraries ----------------------------------------------------------------------------------------


class Foreign:
    """A table of a library that knows Arrow by its protocol alone."""

    def __init__(self, table):
        self.held = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.held.__arrow_c_stream__(requested_schema)


class Maker(Foreign):
    """One that can be made of an Arrow table."""

    @classmethod
    def from_arrow(cls, table):
        return cls(table)


class Broken:
    """One that quotes data when it fails."""

    def __arrow_c_stream__(self, requested_schema=None):
        raise ValueError(small.CANARY)


def test_tables_of_other_libraries_by_the_arrow_protocol():
    table = small.plain_table(300)
    plain = anonymize(table, PLAIN).table
    assert anonymize(Foreign(table), PLAIN).table.equals(plain)
    made = anonymize(Maker(table), PLAIN)
    assert isinstance(made.table, Maker) and made.table.held.equals(plain) and "first 5" in made._repr_html_()
    batch = table.combine_chunks().to_batches()[0]
    assert anonymize(batch, PLAIN).table.equals(plain)
    with pytest.raises(InputError, match="Broken cannot be read") as caught:
        anonymize(Broken(), PLAIN)
    assert caught.value.__context__ is None and small.CANARY not in str(caught.value)


def _views(table):
    """The table as polars hands it on: views of texts, and dictionaries of views."""
    place = table.column("place").combine_chunks().dictionary_encode()
    enum = pa.DictionaryArray.from_arrays(
        place.indices.cast(pa.uint8()), place.dictionary.cast(pa.string_view()), ordered=True
    )
    return pa.table(
        {"age": table["age"], "income": table["income"], "place": table["place"].cast(pa.string_view()), "enum": enum}
    )


def test_views_come_back_as_views():
    table = _views(small.plain_table(300))
    levels = sorted(set(table["enum"].to_pylist()))
    columns = {**small.COLUMNS, "enum": {"kind": "ordinal", "levels": levels}}
    made = anonymize(Foreign(table), PLAIN | {"columns": columns, "gates": LOOSE})
    assert made.passed and made.table.schema.equals(table.schema)
    for name in ("place", "enum"):
        assert sorted(made.table[name].to_pylist()) == sorted(table[name].to_pylist())


def test_polars():
    polars = pytest.importorskip("polars")
    given = polars.from_arrow(_views(small.plain_table(300))).with_columns(
        polars.col("place").cast(polars.Categorical), polars.col("age").cast(polars.UInt8)
    )
    columns = {**small.COLUMNS, "enum": {"kind": "categorical"}}
    made = anonymize(given, PLAIN | {"columns": columns, "gates": LOOSE})
    assert made.passed and isinstance(made.table, polars.DataFrame) and made.table.schema == given.schema
    assert made.table["place"].value_counts(sort=True).rows() == given["place"].value_counts(sort=True).rows()
    assert "first 5" in made._repr_html_()
    with pytest.raises(InputError, match="LazyFrame cannot be read"):
        anonymize(given.lazy(), PLAIN)
