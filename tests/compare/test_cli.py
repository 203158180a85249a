"""`anonpipe compare` and `anonpipe init --analyses`, as a user meets them."""

from __future__ import annotations

import pytest
import yaml

from anonpipe import compare
from tests import small


@pytest.fixture
def call(capsys, monkeypatch):
    """Run a command in this process."""
    return small.commands(capsys, monkeypatch)


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
    assert code == 0 and err == "" and len(quick) == 2
    assert (
        f"anonpipe run {job} --set k=5 --set 'cluster={{method: mdav, refine: false}}' "
        "--set 'synthesize={method: centroid}'" in out
    )
    assert "role sensitive" in out and "crest+centroid k=5,6" in out and "tends to the least protection" in out
    assert sorted(path.name for path in (tmp_path / "compared").iterdir()) == [
        "compare.csv",
        "compare.json",
        "compare.png",
    ]
    assert not (tmp_path / "out").exists() and small.stagings() == []


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
