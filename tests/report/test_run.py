"""The reports that a run leaves: where they are, who can read them, and what is in them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest

from anonpipe.cli import main
from anonpipe.errors import EngineError
from anonpipe.pipeline.outcome import publish
from anonpipe.report import read_report
from anonpipe.storage import release, versions
from anonpipe.verify.verdict import Verdict
from tests import small
from tests.small import CANARY, CANARY_NUMBER

pytestmark = pytest.mark.secret("5e" * 32)

LOOSE = {"mean": 5, "covariance": 5, "covariance_with_keys": 5, "category_share": 1, "null_share": 1}


@pytest.fixture
def table():
    """The plain table, with a category of one person."""
    given = small.plain_table(400)
    places = given.column("place").to_pylist()
    places[7] = "hermitage-3391"
    return given.set_column(2, "place", pa.array(places))


def steward(folder: Path) -> list[Path]:
    """The reports for the steward."""
    return sorted((folder / "out" / "steward").glob("*-report.*"))


def test_a_release_has_both_reports(tmp_path, table):
    given = small.job(tmp_path, table, gates=LOOSE, measure={"utility": True, "risk": False})
    outcome = small.run(given)
    version = Path(outcome.version)
    page, told = version / "_report.html", read_report(version / "_report.json")
    assert told.audience == "external" and told.passed and told.rows == 400
    assert {picture.name for picture in told.pictures} == {"age", "income", "place"}
    assert told.correlations.original is None and told.correlations.names == ("age", "income")
    assert [line.name for line in told.files] == ["part-00000.parquet"]
    assert release.check(given.output) == []

    inside, drawn = steward(tmp_path)[1], steward(tmp_path)[0]
    assert inside.name == f"{version.name}-report.json" and str(drawn) == outcome.report
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in (inside, drawn))
    assert inside.parent.stat().st_mode & 0o777 == 0o700
    whole = read_report(inside)
    assert whole.audience == "internal" and whole.source == given.input and whole.warnings == outcome.warnings
    assert whole.correlations.original is not None and len(whole.utility) > len(told.utility) > 0
    assert [line.name for line in whole.checks] == [check.name for check in outcome.verdict.lines]

    for content in (page.read_text(), (version / "_report.json").read_text()):
        assert str(tmp_path) not in content
    for path in (page, version / "_report.json", inside, drawn):
        assert "hermitage" not in path.read_text() and str(CANARY_NUMBER) not in path.read_text()
    assert CANARY in page.read_text()  # a third of the rows
    _check_bins(told, table)
    _check_bins(whole, table)


def _check_bins(report, table):
    """Every bin holds k records or none, and no extreme is told."""
    extremes = {str(f(table.column("income").to_pylist())) for f in (min, max)}
    for picture in report.pictures:
        assert all(share == 0 or share * table.num_rows > 4.5 for share in picture.original)
        if picture.edges:
            assert picture.edges[0] is None and picture.edges[-1] is None
            assert not {str(edge) for edge in picture.edges} & extremes


def test_a_failed_run_leaves_the_stewards_report_only(tmp_path, table):
    off = small.OFF
    strict = {**LOOSE, "local_suppression_rate": 0.0}  # and one category is of one person
    outcome = small.run(small.job(tmp_path, table, gates=strict, measure=off))
    assert outcome.version is None
    assert [path.name for path in steward(tmp_path)] == ["failed-report.html", "failed-report.json"]
    told = read_report(steward(tmp_path)[1])
    assert not told.passed and told.headline.startswith("Nothing was released") and not told.files
    assert told.pictures == () and "Not measured." in steward(tmp_path)[0].read_text()
    assert not (tmp_path / "out" / "versions").exists()

    first = small.run(small.job(tmp_path, table, gates=LOOSE, measure=off))
    assert not any(path.name.startswith("failed") for path in steward(tmp_path))  # no longer true
    second = small.run(small.job(tmp_path, table, gates=LOOSE, measure=off))
    assert len(steward(tmp_path)) == 4
    release.prune(str(tmp_path / "out"))
    kept = Path(second.version).name
    assert [path.name for path in steward(tmp_path)] == [f"{kept}-report.html", f"{kept}-report.json"]
    assert first.version != second.version


def test_a_changed_report_is_damage(tmp_path, table):
    given = small.job(tmp_path, table, gates=LOOSE, measure={"utility": False, "risk": False})
    version = Path(small.run(given).version)
    page = version / "_report.html"
    page.write_text(page.read_text().replace("passed", "parsed", 1))
    (version / "_report.json").unlink()
    assert release.check(given.output) == [
        "_report.json: missing",
        "_report.html: SHA-256 differs from the manifest",
    ]


def test_a_report_that_cannot_be_kept_is_a_warning(tmp_path, table, monkeypatch):
    def full(*_):
        raise OSError(28, "no space")

    monkeypatch.setattr(release, "keep_private", full)
    outcome = small.run(small.job(tmp_path, table, gates=LOOSE))
    assert outcome.version is not None and outcome.report is None
    assert outcome.warnings[-1] == "the internal report could not be written into the output"
    assert small.stagings() == []


@pytest.mark.parametrize(
    ("part", "passes"), [("gather", False), ("internal", True), ("external", True), ("documents", False)]
)
def test_report_fault_releases_nothing_and_tells_no_data(tmp_path, table, monkeypatch, part, passes):
    def fails(*_):
        raise ValueError(f"{CANARY} of {CANARY_NUMBER}")

    limits = LOOSE if passes else {**LOOSE, "local_suppression_rate": 0.0}
    given = small.job(tmp_path, table, gates=limits)
    with monkeypatch.context() as broken:
        broken.setattr(publish, part, fails)
        with pytest.raises(EngineError, match="ValueError at") as told:
            small.run(given)
    assert CANARY not in str(told.value) and str(CANARY_NUMBER) not in str(told.value)
    out = tmp_path / "out"
    left = sorted(path.name for path in out.rglob("*")) if out.exists() else []
    assert left == ([] if passes else ["failed-verdict.json"])
    assert passes or (out / "failed-verdict.json").stat().st_mode & 0o777 == 0o600
    assert (small.run(given, resume=True).version is not None) == passes
    assert small.stagings() == []


def test_what_cannot_be_written_whole_leaves_no_draft(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "no space")

    where = release.place(str(tmp_path))
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="no space"):
        release.keep_private(where, "v1", {"report.json": b"1"})
    with pytest.raises(OSError, match="no space"):
        publish.keep_verdict(Verdict(()), where)
    assert [path.name for path in tmp_path.rglob("*")] == ["steward"]


def test_an_object_store_keeps_reports_too(tmp_path):
    where = release.place(f"memory://{tmp_path.name}/out")
    one, two = ({"report.json": b"1"}, {"report.json": b"2"})
    assert release.keep_private(where, "v1", one) == [where.url("steward", "v1-report.json")]
    release.keep_private(where, "v2", two)
    versions.forget_private(where, "v1")
    versions.forget_private(where, "v3")
    assert where.filesystem.ls(where.path("steward"), detail=False) == [where.path("steward", "v2-report.json")]


def test_the_page_can_be_drawn_again(tmp_path, table, monkeypatch):
    outcome = small.run(small.job(tmp_path, table, gates=LOOSE))
    page = tmp_path / "page.html"
    page.touch(0o666)
    source = outcome.report.replace(".html", ".json")
    command = ["anonpipe", "report", source, "--out", str(page)]
    monkeypatch.setattr("sys.argv", command)
    with pytest.raises(SystemExit) as left:
        main()
    assert not left.value.code
    assert page.read_text() == Path(outcome.report).read_text() and page.stat().st_mode & 0o777 == 0o600


def test_shares_that_count_few_rows_are_not_told(tmp_path, table):
    given = small.job(tmp_path, table, gates=LOOSE, measure={"utility": False, "risk": False})
    version = Path(small.run(given).version)
    listed = json.loads((version / "_manifest.json").read_text())["verdict"]["checks"]
    (check,) = [check for check in listed if "suppression" in check["name"]]
    assert check["measured"] == "fewer than 5 rows"  # one person's category
    told = {line.name: line.measured for line in read_report(version / "_report.json").checks}
    assert told == {check["name"]: check["measured"] for check in listed}
    inside = {line.name: line.measured for line in read_report(steward(tmp_path)[1]).checks}
    assert re.fullmatch(r"0\.0025", inside[check["name"]])
