"""The file for a release board: its content, what is refused, and that nothing in it becomes markup."""

from __future__ import annotations

import json
import re
import shutil
import stat
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from anonpipe.job.model import parse_job
from anonpipe.report import board
from anonpipe.report.build import _lines
from anonpipe.storage import release, release_log
from anonpipe.verify.catalogue import held
from tests import runs, small

ROOT = Path(__file__).resolve().parent.parent.parent
ODD = "<script>alert(1)</script>\n# [x](javascript:y) | **b**"
TITLES = (
    *("Purpose and legal basis", "Data and population", "Type of release", "Disclosure scenarios and key variables"),
    *("Direct identifiers", "Methods", "Risk, before and after", "Utility and information loss"),
    *("Residual risk, and what was not measured", "Known limits of the method", "Earlier releases"),
    *("How to check the files", "Decision"),
)


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A release with measures and a column of a hostile name."""
    folder = tmp_path_factory.mktemp("board")
    with small.private_home(folder, runs.SECRET):
        table = small.plain_table(2_400)
        table = table.rename_columns(["age", "income", ODD]).append_column("id", pa.array(range(2_400)))
        columns = {"age": small.COLUMNS["age"], "income": small.COLUMNS["income"], ODD: small.COLUMNS["place"]}
        columns["id"] = {"kind": "integer", "role": "identifier"}
        measure = {"scenarios": [{"name": "neighbour", "knows": ["age", ODD]}]}
        job = small.job(folder, table, columns, mask=small.QUICK, measure=measure)
        assert small.run(job).version is not None
    return job


@pytest.fixture(autouse=True)
def same_secret(monkeypatch):
    monkeypatch.setenv("ANONPIPE_SECRET", runs.SECRET)


@pytest.fixture
def copied(published, tmp_path):
    """The output of the release, to be changed."""
    shutil.copytree(published.output, tmp_path / "copy", symlinks=True)
    return tmp_path / "copy"


def text_of(page):
    """The words of a page."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page))


def test_the_file_has_all_sections_in_order(published, tmp_path, call):
    answer = call("board", published.output, "--out", tmp_path / "file")
    assert answer.code == 0 and "internal, for the data steward and the board only" in " ".join(answer.out.split())
    paths = {path.suffix: path for path in (tmp_path / "file").iterdir()}
    assert set(paths) == {".md", ".html"} and {stat.S_IMODE(path.stat().st_mode) for path in paths.values()} == {0o600}
    markdown, page = (paths[end].read_text() for end in (".md", ".html"))
    assert re.findall(r"^## \d+\. (.*)$", markdown, re.M) == re.findall(r"<h2>\d+\. (.*)</h2>", page) == list(TITLES)
    version = Path(published.output, "release").resolve()
    report = json.loads((version.parent.parent / "steward" / f"{version.name}-report.json").read_text())
    for check in report["checks"]:
        if check["key"].startswith("risk.") and check["outcome"] == "passed":
            assert f"| {check['name']} |" in markdown and check["limit"] in text_of(page)
    for words in ("INTERNAL", version.name, "neither masked nor hashed: id", "scenarios", "Legal basis", "signature"):
        assert words in text_of(page)
    before = markdown.split("The original before protection")[1].split("##")[0]
    assert (
        "Sample uniques in scenario 'neighbour'" in before and "linked correctly in scenario 'neighbour'" not in before
    )
    assert (
        "| Persons linked correctly in scenario 'neighbour' |" in markdown
        and "No overlap with an earlier release was found." in page
    )


def test_a_figure_that_may_be_beyond_its_limit_is_uncertain():
    given = {"point": 0.62, "high": 0.75}
    [open_one, sure] = _lines([held("risk.membership_auc", 0.49, 0.6, **given), held("risk.linkability", 0.01, 0.1)])
    assert open_one.outcome == sure.outcome == "passed" and sure.doubt == ""
    assert open_one.doubt == "uncertain: estimate above the limit, too few records to tell (estimate 0.62)"
    report = SimpleNamespace(checks=[open_one, sure])
    assert [row[-1] for row in board._held(report, ("risk.",))] == [open_one.doubt, "passed"]


def test_nothing_becomes_markup(published):
    files = board.board_file(published.output)
    page, markdown = files["board.html"].decode(), files["board.md"].decode()
    assert "<script" not in page and "&lt;script&gt;" in page and "://" not in page
    assert "<script" not in markdown and "\n# \\[" not in markdown and not re.search(r"(?<!\\)\]\(", markdown)
    titles = re.findall(r"^#+ ", markdown, re.M)
    assert len(titles) == 1 + len(TITLES)
    tables = [line for line in markdown.splitlines() if line.startswith("|")]
    widths = [len(re.findall(r"(?<!\\)\|", line)) for line in tables]
    assert all(a == b for a, b, line in zip(widths, widths[1:], tables, strict=False) if "---" in line)


def test_a_markdown_renderer_sees_text_alone(published):
    markdown = pytest.importorskip("markdown_it").MarkdownIt("commonmark").enable("table")
    page = markdown.render(board.board_file(published.output)["board.md"].decode())
    tags = set(re.findall(r"<(\w+)", page))
    assert tags <= {"p", "strong", "h1", "h2", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "pre", "code"}
    assert page.count("<strong>") == 1 and page.count("<code>") == 1 and "alert(1)" in page


def test_a_version_folder_and_the_link_give_the_same_file(published):
    version = Path(published.output, "release").resolve()
    files = [board.board_file(str(place)) for place in (published.output, version, f"{published.output}/release")]
    assert files[0] == files[1] == files[2]


def test_another_signer_is_refused(published, tmp_path, call, monkeypatch):
    monkeypatch.setenv("ANONPIPE_SECRET", "7c" + runs.SECRET[2:])
    answer = call("board", published.output, "--out", tmp_path / "file")
    assert (
        answer.code == 2 and "another key signed" in " ".join(answer.err.split()) and not (tmp_path / "file").exists()
    )
    key = release.signing_key(b"\x00").public_key()
    (tmp_path / "other.pub").write_bytes(release.public_pem(key))
    monkeypatch.setenv("ANONPIPE_SECRET", runs.SECRET)
    assert call("board", published.output, "--key", tmp_path / "other.pub", "--out", tmp_path / "file").code == 2


def test_a_missing_or_foreign_internal_report_is_refused(copied, call, tmp_path):
    (report,) = (copied / "steward").glob("*-report.json")
    content = json.loads(report.read_text())
    content["files"][0]["sha256"] = "0" * 64
    report.write_text(json.dumps(content))
    answer = call("board", copied, "--out", tmp_path / "file")
    assert answer.code == 2 and "is of other files" in " ".join(answer.err.split())
    report.unlink()
    answer = call("board", copied, "--out", tmp_path / "file")
    assert answer.code == 2 and "the report of release" in " ".join(answer.err.split())
    assert not (tmp_path / "file").exists()


def test_damaged_files_are_refused(copied, call, tmp_path):
    (copied / "release" / "_report.json").write_text("{}")
    answer = call("board", copied, "--out", tmp_path / "file")
    assert answer.code == 2 and "SHA-256 differs" in answer.err


def test_a_withdrawn_version_is_refused(copied, call, tmp_path, monkeypatch):
    version = (copied / "release").resolve()
    elsewhere = shutil.copytree(version, tmp_path / "recipients" / version.name)
    release_log.withdraw(str(version), "a <b>wrong</b> column")
    answer = call("board", version, "--out", tmp_path / "file")
    assert answer.code == 2 and "was withdrawn on" in answer.err and "a <b>wrong</b> column" in answer.err
    assert call("board", copied, "--out", tmp_path / "file").code == call("codebook", version).code == 2
    answer = call("board", elsewhere, "--out", tmp_path / "file")
    assert answer.code == 2 and "is a copy of v0" in " ".join(answer.err.split())
    answer = call("verify", elsewhere)
    assert answer.code == 0 and "is a copy of a version that was withdrawn" in " ".join(answer.err.split())


@pytest.mark.secret("5e" * 32)
def test_earlier_releases_are_listed(tmp_path):
    """A version that was withdrawn, with its reason, and the overlap that the job allowed."""
    jobs = [small.job(tmp_path, small.plain_table(400), k=k) for k in (5, 6)]
    first, second = (small.run(job).version for job in jobs)
    release_log.withdraw(str(first), "a <b>wrong</b> column")
    page = board.board_file(jobs[0].output)["board.html"].decode()
    words = text_of(page)
    assert f"{Path(first).name} was withdrawn on" in words and "a &lt;b&gt;wrong&lt;/b&gt; column" in page
    assert "were allowed by the job: a test" in words and "this version" in words and Path(second).name in words


@pytest.mark.secret("5e" * 32)
def test_internal_reports_elsewhere_and_an_object_store(tmp_path, call):
    content = small.content(tmp_path, small.write_table(tmp_path, small.plain_table(400)))
    content |= {"output": f"memory://{tmp_path.name}/out", "report": {"internal": str(tmp_path / "inside")}}
    job = parse_job(content)
    version = small.run(job).version
    for source in (job.output, version):
        answer = call("board", source, "--internal", tmp_path / "inside", "--out", tmp_path / "file")
        assert answer.code == 0, answer.err
        assert Path(str(version)).name in (tmp_path / "file" / "board.md").read_text()
    assert call("board", job.output, "--out", tmp_path / "none").code == 2
    assert call("codebook", version, "--format", "csv", "--out", tmp_path / "book.csv").code == 0


@pytest.mark.secret("5e" * 32)
def test_many_columns_stay_a_few_pages(tmp_path):
    names = [f"column {at} " + "x" * 300 for at in range(60)]
    table = pa.table({name: small.plain_table(400, at)["age"] for at, name in enumerate(names)})
    columns = {name: {"kind": "integer"} for name in names}
    job = small.job(tmp_path, table, columns, gates={"membership_auc": None})
    assert small.run(job).version is not None
    page = board.board_file(job.output)["board.md"].decode()
    assert "35 more stand in the internal report" in page and len(page) < 40_000


def test_limits_are_those_of_the_page_of_threats():
    """Ten entries there: those on default limits are in another section, and two of sums and shares are one."""
    page = (ROOT / "docs" / "threats.md").read_text().split("## Not promised")[1].split("## Appendix")[0]
    assert len(re.findall(r"^- ", page, re.M)) == len(board.LIMITS) + 2 == 10
    shared = ("ifferential privacy", "verlapping releases", "population's means and covariances", "normal scores")
    for words, limit in zip(shared, board.LIMITS, strict=False):
        assert words in page and words in limit
