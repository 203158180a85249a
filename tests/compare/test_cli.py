"""`anonpipe compare` and `anonpipe init --analyses`, as a user meets them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import yaml

from anonpipe import compare, display
from anonpipe.progress import Progress
from tests import small


@pytest.fixture
def job(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(small.content(tmp_path, small.write_table(tmp_path, small.plain_table(300)))))
    return path


def test_it_explains_itself(call):
    code, out, _ = call("compare", "--help")
    assert code == 0 and "anonpipe compare [OPTIONS]" in out and "compare" in call("--help")[1]


def test_compare_prints_the_table_and_how_to_release_the_choice(call, job, quick, tmp_path):
    arguments = ["--methods", "mdav+centroid, crest+centroid", "--k", "5,6", "--out", tmp_path / "compared"]
    code, out, err = call("compare", job, *arguments)
    assert code == 0 and len(quick) == 2
    begun, *_, ended = err.splitlines()  # plain lines, as standard error is no terminal here
    assert begun.startswith("compare: 0 of 2 settings done, ") and ended.startswith("compare: 2 of 2 settings done, ")
    assert (
        f"anonpipe run {job} --set k=5 --set 'cluster={{method: mdav, refine: false}}' "
        "--set 'synthesize={method: centroid}'" in out
    )
    assert "role sensitive" in out and "crest+centroid k=5,6" in out
    assert sorted(path.name for path in (tmp_path / "compared").iterdir()) == [
        "compare.csv",
        "compare.json",
        "compare.png",
    ]
    assert not (tmp_path / "out").exists() and small.stagings() == []


def test_lines_of_progress_are_few(monkeypatch, capsys):
    """A second apart, but for the last; and none where there is nothing to be called by, as of a run."""
    clock = iter([0.0, 0.0, 0.2, 0.9, 1.1, 1.2, 1.3])
    monkeypatch.setattr(display, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    lines = display.progress_lines("trials")
    for done in range(6):
        lines(Progress("compare", done, 5, 0))
    told = capsys.readouterr().err.splitlines()
    assert told == [f"compare: {done} of 5 trials done, {at} s" for done, at in ((0, 0), (3, 1), (5, 1))]


def test_a_run_tells_no_progress_where_there_is_no_terminal(capsys):
    with display.progress_display() as on_progress:
        on_progress(Progress("scan", 1, 1, 10))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("arguments", [["--k", "5,x"], ["--k", ""], ["--methods", "mdav"], ["--set", "k"]])
def test_bad_requests_have_their_exit_code(call, job, arguments):
    code, out, err = call("compare", job, *arguments)
    assert code == 2 and out == "" and err.startswith("error: ")


def test_ctrl_c_keeps_what_is_finished(call, job, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(compare, "compare", stopped)
    code, _, err = call("compare", job)
    assert code == 130 and "what was measured is kept" in err


def test_init_with_analyses(call, tmp_path):
    data = small.write_table(tmp_path, small.plain_table(300))
    path = tmp_path / "analyses.yaml"
    path.write_text("- {name: pay, model: linear, formula: income ~ age}")
    code, out, _ = call("init", data, "--analyses", path)
    assert code == 0 and yaml.safe_load(out)["columns"]["place"]["role"] == "dropped"
    code, _, err = call("init", data, "--analyses", tmp_path / "none.yaml")
    assert code == 2 and "cannot be read" in err
