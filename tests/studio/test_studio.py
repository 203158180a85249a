"""The steward's page: the whole road, who is let in, and what becomes of a job that changes meanwhile."""

from __future__ import annotations

import html
import re
import signal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

pytest.importorskip("starlette")

from functools import partial

from anonpipe_studio import child
from anonpipe_studio.work import Work
from typer.testing import CliRunner

from anonpipe import compare
from anonpipe.cli import app
from anonpipe.columns import Kind, Role
from anonpipe.job.model import load_job
from anonpipe.propose.propose import propose_job
from anonpipe.storage import release
from tests import small
from tests.studio.road import CANARY_PLACE, TAG, Browser, table

QUICK = "measure:\n  utility: false\n  risk: false"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    path = tmp_path / "data"
    small.write_table(path, table(), "people.parquet")
    monkeypatch.chdir(path)
    return path


@pytest.fixture
def browser(folder):
    return Browser(folder)


@pytest.fixture
def quick(folder, browser):
    """The page of a job that measures nothing."""
    page = browser.propose()
    return browser.post("save", page.text, **{"section.measure": QUICK, "section.gates": ""})


@pytest.fixture
def done(browser, folder, capsys, monkeypatch):
    """The page after work of a kind that is done in this process; its lines are read as from a process."""

    def do(kind, *options):
        child.main(kind, "job.yaml", *options)
        (folder / "lines").write_text(capsys.readouterr().out)
        work = Work(kind, subprocess.Popen(["cat", folder / "lines"], stdout=subprocess.PIPE, text=True))
        work.listen()
        monkeypatch.setitem(browser.studio.works._by_job, browser.studio.root / "job.yaml", work)
        return browser.get("work", file="job.yaml").text

    return do


def start(browser, kind, file="job.yaml"):
    return browser.post("start", browser.get("job", file=file).text, kind=kind)


def test_road_from_file_to_withdrawal(folder, browser, done):
    assert "people.parquet" in browser.get().text
    refused = browser.propose(k="1")
    assert refused.status_code == 422 and "k is 1; give at least 2" in refused.text
    page = browser.propose()
    proposed = (folder / "job.yaml").read_text()
    assert proposed == propose_job("people.parquet", "out", 5) and not (folder / "job.yaml").stat().st_mode & 0o077
    assert "exists already" in html.unescape(browser.propose().text)
    assert page.text.count("<svg") == 4 and html.escape(TAG) in page.text

    # a bad value is told with the words of the command line, next to its column, and is mended
    page = browser.post("save", page.text, **{"c1.bounds": "120, 0", "section.measure": QUICK, "section.gates": ""})
    told = CliRunner().invoke(app, ["plan", "job.yaml"]).exception
    words = "columns.age: bounds are given as [low, high] with low < high"
    assert words in str(told) and html.escape(words) in page.text.split("<th scope")[5]
    assert "start" in start(browser, "run").url.path and "is not valid" in browser.shown[-1]
    page = browser.post("save", page.text, **{"c1.bounds": "0, 120"})
    assert "The job is valid" in page.text and load_job("job.yaml").columns["age"].bounds == (0, 120)
    assert "    bounds: [0, 120]  # from the code book, never from the data\n" in (folder / "job.yaml").read_text()

    assert "A run would begin" in done("plan") and "400 rows" in browser.shown[-1]
    start(browser, "run")
    page = browser.wait()
    version = release.resolve("out").root.rpartition("/")[2]
    assert "RELEASED" in page and f"{version}: current" in page and '<iframe sandbox title="Internal report' in page
    report = browser.get("report", file="job.yaml", name=f"{version}-report.html")
    assert "sandbox" in report.headers["content-security-policy"] and "INTERNAL" in report.text

    assert "is empty" in browser.post("withdraw", page, version=version, because=" ").text
    assert browser.post("withdraw", page, version="v000009-00000000", because="x").status_code == 404
    page = browser.post("withdraw", page, version=version, because="a wrong code book").text
    assert "a wrong code book" in page and ": current" not in page and not (folder / "out/versions" / version).exists()

    planted = (small.CANARY, CANARY_PLACE, "48151623", "48,151,623", "700000", TAG)
    assert [each for each in planted if any(each in text for text in browser.shown)] == []
    rows = browser.post("rows", browser.get("job", file="job.yaml").text)
    assert CANARY_PLACE in rows.text and "48151623.42" in rows.text and rows.text.count("<tr>") == 6
    assert TAG not in rows.text and rows.headers["cache-control"] == "no-store"


def test_trial_publishes_nothing(quick, browser, done, folder):
    browser.post("save", quick.text, **{"section.measure": "measure: {risk: false}"})
    page = done("trial")
    assert "Trial, nothing is published: passed" in page and "trial-report.html" in page
    summary = page.partition("<summary>all ")[0]
    assert "risk: not evaluated" in summary
    assert re.search(r'worst column</th><td role="cell" data-label="estimate">0\.', summary)  # a telephone shows it
    assert not (folder / "out" / "versions").exists()


def test_plan_that_is_refused_says_why_first(quick, browser, done):
    page = browser.get("job", file="job.yaml").text
    browser.post("save", page, **{"section.gates": "gates: {unchanged_record_rate: 0}"})
    page = done("plan")
    assert page.index("<h3>Warnings</h3>") < page.index("<pre")


def test_an_error_of_an_option_stands_at_its_field(quick, browser, folder):
    text = (folder / "job.yaml").read_text()
    event = "  age: {kind: binary, role: survival_status, event: []}\n"
    (folder / "job.yaml").write_text(re.sub(r"  age:\n(    .*\n)+", event, text))
    page = browser.get("job", file="job.yaml").text
    assert re.search(r'id="c\d+\.event"[^>]* aria-invalid="true"', page)


def test_cancel_and_two_runs_at_once(browser, folder):
    small.write_table(folder, table(30_000), "people.parquet")
    browser.propose()
    page = browser.get("work", file="job.yaml")  # before any run on this machine
    assert page.status_code == 200 and "Resume" not in page.text
    page = start(browser, "run").text
    assert "data-running" in page and "is running" in start(browser, "plan").text
    browser.post("cancel", page)
    page = browser.wait()
    assert "stopped" in page and ": current" not in page
    assert not browser.studio.works.of(browser.studio.root / "job.yaml").running


def test_who_is_let_in(folder):
    outside = Browser(folder, enter=False)
    base = outside.studio.guard.base
    for path in (
        "",
        "/",
        f"{base}/",
        f"{base}/job?file=job.yaml",
        f"{base}/enter",
        f"{base}/enter?token=wrong",
        "/style",
    ):
        answer = outside.client.get(path)
        assert answer.status_code == 403 and base not in answer.text and "set-cookie" not in answer.headers, path
    door = outside.client.get(outside.studio.guard.entry)
    cookie = door.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie and f"path={base.lower()}" in cookie
    assert outside.studio.guard.token not in door.text + cookie
    assert outside.client.get(f"{base}/").status_code == 200
    other = Browser(folder)  # a cookie of another start
    outside.client.cookies.clear()
    outside.client.cookies.set("anonpipe_studio", other.studio.guard.derived("cookie"))
    assert outside.client.get(f"{base}/").status_code == 403


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example:8123"}, 421),
        ({"host": "127.0.0.1.evil.example"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://127.0.0.1:9999"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"host": "localhost:9000"}, 200),
    ],
)
def test_other_pages_and_names_are_refused(browser, headers, status):
    browser.client.cookies.set("anonpipe_studio", browser.studio.guard.derived("cookie"), domain="", path="/")
    answer = browser.client.get(f"{browser.studio.guard.base}/", headers=headers)
    assert answer.status_code == status
    assert "default-src 'self'" in answer.headers["content-security-policy"]


def test_forms_need_their_token(quick, browser, folder):
    before = (folder / "job.yaml").read_text()
    for page in ("propose", "save", "save_text", "trust", "rows", "start", "cancel", "withdraw"):
        for given in ("", browser.studio.guard.token, browser.studio.guard.derived("cookie")):
            answer = browser.post(page, quick.text, csrf=given, text="k: 3", kind="run", file="job.yaml")
            assert answer.status_code == 403 and CANARY_PLACE not in answer.text, page
    assert (folder / "job.yaml").read_text() == before
    assert browser.studio.works.of(browser.studio.root / "job.yaml") is None
    base = f"{browser.studio.guard.base}/save"
    assert browser.client.post(base, content=b"{}", headers={"content-type": "application/json"}).status_code == 415
    huge = {"csrf": "x", "text": "a" * 10_000_001}
    assert browser.client.post(base, data=huge).status_code == 413


def test_paths_outside_of_the_folder(browser, folder, tmp_path):
    (tmp_path / "secret.yaml").write_text("k: 5")
    (folder / "link.yaml").symlink_to(tmp_path / "secret.yaml")
    (folder / "link").symlink_to(tmp_path)
    for path in ("../secret.yaml", str(tmp_path / "secret.yaml"), "link.yaml", "link/secret.yaml", "a\0b", "s3://b/x"):
        for page, key in (("job", "file"), ("text", "file"), ("work", "file"), ("", "in")):
            answer = browser.get(page, **{key: path})
            assert answer.status_code == 422 and "does not lie in" in answer.text, (page, path)
    (folder / "rows.csv").write_text(f"{CANARY_PLACE}: 1\n")
    for page in ("job", "text", "work"):
        assert browser.get(page, file="rows.csv").status_code == 404
    assert "link" not in browser.get().text.split("<main")[1]
    assert "does not lie in" in browser.propose("../data.parquet").text
    assert "does not lie in" in browser.propose(file="../job.yaml").text and not (tmp_path / "job.yaml").exists()
    assert browser.propose(file="people.parquet").status_code == 422


def test_places_elsewhere_are_confirmed(quick, browser, folder, tmp_path):
    text = (folder / "job.yaml").read_text()
    (folder / "job.yaml").write_text(text.replace('output: "out"', f'output: "{tmp_path}/elsewhere"'))
    page = browser.get("job", file="job.yaml").text
    assert f"output: {tmp_path}/elsewhere" in page and "<svg" not in page
    for name in ("rows", "start", "withdraw"):
        assert browser.post(name, page, kind="run", version="v").status_code == 403
    assert "<svg" in browser.post("trust", page).text
    (folder / "job.yaml").write_text(text + "\nrun: {scheduler: 'tcp://10.0.0.9:8786', trust_network: true}\n")
    assert browser.post("start", browser.get("work", file="job.yaml").text, kind="run").status_code == 403


def test_job_that_changed_meanwhile(quick, browser, folder):
    by_hand = (folder / "job.yaml").read_text().replace("k: 5", "k: 7")
    (folder / "job.yaml").write_text(by_hand)
    for name in ("save", "save_text", "start", "rows", "trust"):
        answer = browser.post(name, quick.text, k="9", text="k: 9", kind="run")
        assert answer.status_code == 409 and "has changed since" in answer.text
    assert (folder / "job.yaml").read_text() == by_hand
    page = browser.get("job", file="job.yaml")  # what was written by hand is read again
    assert 'name="k" inputmode="numeric" value="7"' in page.text
    other = browser.post("save", page.text, k="9")
    assert load_job("job.yaml").k == 9 and 'value="9"' in other.text
    (folder / "job.yaml").write_text(by_hand.replace("kind: continuous", "kind: numeric"))
    told = browser.get("job", file="job.yaml").text.split('<select id="c2.kind"')[1].split("</div>")[0]
    assert 'aria-invalid="true"' in told and "columns.income.kind: unknown value; did you mean continuous?" in told
    (folder / "job.yaml").write_text("input: [\n")
    page = browser.get("job", file="job.yaml")
    assert page.status_code == 200 and "not valid YAML" in page.text and "<textarea" in page.text
    broken = browser.post("save_text", page.text, text="columns: {a: 1")
    assert broken.status_code == 422 and "columns: {a: 1" in broken.text
    (folder / "job.yaml").chmod(0o640)
    browser.post("save_text", page.text, text=by_hand)
    assert (folder / "job.yaml").read_text().rstrip() == by_hand.rstrip() and (
        folder / "job.yaml"
    ).stat().st_mode & 0o777 == 0o640


def test_rules_and_sections_are_texts(quick, browser, folder):
    page = browser.post(
        "save",
        quick.text,
        **{"section.rules": "rules:\n  - if age >= 18 then income >= 0\n", "section.gates": "gates:\n  mean: 2"},
    )
    text = (folder / "job.yaml").read_text()
    assert load_job("job.yaml").rules == ("if age >= 18 then income >= 0",) and "# No group of records" in text
    page = browser.post("save", page.text, **{"section.rules": "rules: ['age >= nothing']"})
    assert "job has no column" in page.text.split('name="section.rules"')[1].split("</details>")[0]
    page = browser.post("save", page.text, **{"section.rules": "rules: ['"})
    assert page.status_code == 422 and "Nothing was saved" in page.text and "rules: [&#39;" in page.text


def test_open_questions_are_answered(browser, folder):
    days = [f"0{1 + at % 9}.0{1 + at % 5}.2001" for at in range(300)]
    columns = {"born": days, "cost": [f"1.{at:03d}" for at in range(300)], "age": np.arange(300) % 70}
    pa.csv.write_csv(pa.table(columns), folder / "asked.csv", pa.csv.WriteOptions(delimiter=";", quoting_style="none"))
    page = browser.propose("asked.csv").text
    assert "Open questions" in page and "QUESTION" in page
    asked = re.findall(r'id="input\.(\w+)"', page)
    assert {"dates", "decimal", "thousands"} <= set(asked), asked
    answers = {"input.dates": "%d.%m.%Y", "input.decimal": ",", "input.thousands": "."}
    page = browser.post("save", page, **answers).text
    assert "Open questions" not in page
    form = load_job("job.yaml").source
    assert (form.dates, form.decimal, form.thousands, form.delimiter) == (("%d.%m.%Y",), ",", ".", ";")


def test_menus_are_those_of_the_model(quick):
    for key, model in (("kind", Kind), ("role", Role)):
        menu = quick.text.split(f'<select id="c1.{key}"')[1].split("</select>")[0]
        assert [each for each in re.findall(r'value="(\w+)"', menu)] == [each.value for each in model]
    controls = re.findall(r'<(?:input|select|textarea)[^>]* id="([^"]+)"', quick.text)
    assert len(controls) > 40 and all(f'<label for="{each}"' in quick.text for each in controls)
    assert "style=" not in quick.text and "http://" not in quick.text and "https://" not in quick.text


def test_comparison_draws_its_map(quick, browser, folder, done, monkeypatch):
    page = browser.post(
        "save", quick.text, **{"section.measure": "measure:\n  rows: 200\n  queries: 100\n  hold_out: 0"}
    )
    assert page.status_code == 200
    monkeypatch.setattr(compare, "compare", partial(compare.compare, cluster=False))
    told = [done("compare", sizes, "mask:noise", str(folder / "job-comparison")) for sizes in ("5, no", "5")]
    assert "--k has 0; give whole numbers" in told[0]
    assert "data:image/png;base64," in told[1] and "mask:noise<" in told[1] and "job-comparison" in told[1]
    assert len(list((folder / "job-comparison").iterdir())) == 3 and not (folder / "out").exists()


def test_a_wide_table(folder, browser):
    rng = np.random.default_rng(0)
    data = small.write_table(folder, pa.table({f"v{at}": rng.normal(size=300) for at in range(200)}), "wide.parquet")
    columns = "".join(f"  v{at}:\n    kind: continuous\n" for at in range(200))
    (folder / "wide.yaml").write_text(f"input: {data}\noutput: out\nk: 5\ncolumns:\n{columns}")
    page = browser.get("job", file="wide.yaml")
    assert page.status_code == 200 and page.text.count("<svg") == 200 and len(page.content) < 2_000_000
    many = {f"c{at}.bounds": "-9, 9" for at in range(200)}
    browser.post("save", page.text, **many)
    assert all(each.bounds == (-9, 9) for each in load_job("wide.yaml").columns.values())


def test_command_line(tmp_path, monkeypatch):
    """It listens on loopback alone, tells an address of this start, and ends with what it began."""
    command = [sys.executable, "-m", "anonpipe", "studio", str(tmp_path), "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        process.stdout.readline()
        address = process.stdout.readline().split()[1]
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{22}/enter\?token=[\w-]{43}", address)
        port = int(address.split(":")[2].split("/")[0])
        listening = [line.split()[1] for line in open("/proc/net/tcp") if line.split()[3] == "0A"]
        assert [each for each in listening if each.endswith(f":{port:04X}")] == [f"0100007F:{port:04X}"]
        arguments = open(f"/proc/{process.pid}/cmdline").read()
        assert "token" not in arguments
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(90) == 0


def test_packages_that_are_missing(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("anonpipe_studio.server")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    told = CliRunner().invoke(app, ["studio"]).exception
    assert "pip install 'anonpipe[studio]'" in str(told)
