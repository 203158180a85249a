"""What a distribution holds, and what stands in it."""

from __future__ import annotations

import tomllib
from importlib.metadata import version
from pathlib import Path

from typer.testing import CliRunner

import anonpipe
from anonpipe.cli import app

ROOT = Path(__file__).resolve().parent.parent
SETUP = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]


def test_all_packages_are_installed_and_no_other_folder_is():
    """A rule such as `anonpipe*` takes anonpipe-demo too, the data of persons in it included."""
    places = {name: SETUP["package-dir"].get(name, name.replace(".", "/")) for name in SETUP["packages"]}
    code = {
        str(path.parent.relative_to(ROOT))
        for tree in ("anonpipe", "flows")
        for path in ROOT.glob(f"{tree}/**/__init__.py")
    }
    assert set(places.values()) == code


def test_files_beside_the_code_are_installed():
    declared = set(SETUP["package-data"]["anonpipe"])
    found = {
        str(path.relative_to(ROOT / "anonpipe"))
        for path in (ROOT / "anonpipe").rglob("*")
        if path.is_file() and path.suffix != ".py" and "__pycache__" not in path.parts
    }
    assert found == declared


def test_flows_do_not_depend_on_the_name_of_their_package():
    """They are `flows` in a checkout and `anonpipe_flows` once installed."""
    for path in (ROOT / "flows").glob("*.py"):
        assert not any(line.startswith(("from flows", "import flows")) for line in path.read_text().splitlines())


def test_the_version_is_told():
    answer = CliRunner().invoke(app, ["--version"])
    assert answer.exit_code == 0 and answer.stdout == f"anonpipe {version('anonpipe')}\n"
    assert anonpipe.__version__ == version("anonpipe")
