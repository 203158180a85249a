"""What a distribution holds, and what stands in it."""

from __future__ import annotations

import ast
import shutil
import subprocess
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

import anonpipe
from anonpipe.cli import app
from anonpipe.errors import GateError, InputError, JobError

ROOT = Path(__file__).resolve().parent.parent
SETUP = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]


def test_all_packages_are_installed_and_no_other_folder_is():
    """A rule such as `anonpipe*` takes anonpipe-demo too, the data of persons in it included."""
    places = {name: SETUP["package-dir"].get(name, name.replace(".", "/")) for name in SETUP["packages"]}
    code = {
        str(path.parent.relative_to(ROOT))
        for tree in ("anonpipe", "flows", "studio")
        for path in ROOT.glob(f"{tree}/**/__init__.py")
    }
    assert set(places.values()) == code


@pytest.mark.parametrize(("package", "folder"), [("anonpipe", "anonpipe"), ("anonpipe_studio", "studio")])
def test_files_beside_the_code_are_installed(package, folder):
    declared = {
        str(path.relative_to(ROOT))
        for pattern in SETUP["package-data"][package]
        for path in (ROOT / folder).glob(pattern)
    }
    found = {
        str(path.relative_to(ROOT))
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix != ".py" and "__pycache__" not in path.parts
    }
    assert found == declared


def test_flows_do_not_depend_on_the_name_of_their_package():
    """They are `flows` in a checkout and `anonpipe_flows` once installed; the studio likewise."""
    names = tuple(f"{how} {name}" for how in ("from", "import") for name in ("flows", "studio"))
    for folder in ("flows", "studio"):
        for path in (ROOT / folder).glob("*.py"):
            assert not any(line.startswith(names) for line in path.read_text().splitlines())


def test_the_version_is_told():
    answer = CliRunner().invoke(app, ["--version"])
    assert answer.exit_code == 0 and answer.stdout == f"anonpipe {version('anonpipe')}\n"
    assert anonpipe.__version__ == version("anonpipe")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed here")
def test_the_units_of_systemd_are_sound():
    units = sorted(map(str, (ROOT / "deploy" / "systemd").glob("*.service")))
    done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False)
    assert len(units) == 2 and done.returncode == 0 and done.stderr == "", done.stderr


def test_the_units_of_systemd_have_the_paths_of_the_runbook():
    environment = (ROOT / "deploy" / "env.example").read_text()
    for unit in (ROOT / "deploy" / "systemd").glob("*.service"):
        text = unit.read_text()
        assert ". /srv/private/anonpipe.env;" in text and "exec /srv/anonpipe/venv/bin/prefect " in text
        assert "ANONPIPE_CHECKOUT=/srv/anonpipe\n" in environment and "PREFECT_HOME=/srv/private/" in environment


@pytest.mark.parametrize("name", ["airflow_dag.py", "dagster_job.py"])
def test_examples_for_schedulers_know_what_is_final(name):
    tree = ast.parse((ROOT / "deploy" / name).read_text())
    (final,) = (each.value for each in tree.body if isinstance(each, ast.Assign) and each.targets[0].id == "FINAL")
    assert set(ast.literal_eval(final)) == {JobError.exit_code, InputError.exit_code, GateError.exit_code}
