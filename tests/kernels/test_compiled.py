from __future__ import annotations

import ast
import importlib
import importlib.util
import stat
from pathlib import Path

import pytest

from anonpipe.kernels import compiled
from anonpipe.kernels.compiled import PACKAGE, any_kept, digest, folder, lasting, name_of, private, root, sources


@pytest.fixture
def fresh():
    """What was found out of the user's folders is forgotten, before and after."""
    for found in (root, lasting):
        found.cache_clear()
    yield
    for found in (root, lasting):
        found.cache_clear()


def _kernels():
    for source in sources():
        module = importlib.import_module(f"anonpipe.{name_of(source)}")
        for kernel in vars(module).values():
            if hasattr(kernel, "py_func") and kernel.py_func.__module__ == module.__name__:
                yield name_of(source), kernel


def test_no_kernel_leaves_compiled_code_in_the_package():
    places = {Path(kernel._cache.cache_path): name for name, kernel in _kernels()}
    assert len(places) > 30
    for place, name in places.items():
        assert place == folder(name) and not place.is_relative_to(PACKAGE)
    assert stat.S_IMODE(root().stat().st_mode) == 0o700


def test_functions_of_others_are_kept_where_numba_keeps_them(tmp_path):
    source = tmp_path / "theirs.py"
    source.write_text("import numba\n\n@numba.njit(cache=True)\ndef twice(x):\n    return 2 * x\n")
    spec = importlib.util.spec_from_file_location("theirs", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert root() not in Path(module.twice._cache.cache_path).parents


def test_a_changed_kernel_changes_the_folder_of_all_that_import_it_and_of_no_other(tmp_path):
    files = {
        "kernels.far": "x = 1\n",
        "methods._near_kernel": "from anonpipe.kernels.far import x\n",
        "methods.grouping._user_kernel": "from anonpipe.methods._near_kernel import x\n",
        "kernels.other": "y = 2\n",
    }
    (tmp_path / "kernels").mkdir()
    (tmp_path / "methods" / "grouping").mkdir(parents=True)
    paths = {name: tmp_path.joinpath(*name.split(".")).with_suffix(".py") for name in files}
    for name, text in files.items():
        paths[name].write_text(text)
    before = {name: digest.__wrapped__(name, tmp_path) for name in files}
    paths["kernels.far"].write_text("x = 3\n")
    after = {name: digest.__wrapped__(name, tmp_path) for name in files}
    assert {name for name in files if before[name] == after[name]} == {"kernels.other"}


def test_every_import_of_a_kernel_is_seen():
    for source in sources():
        text = source.read_text()
        for node in ast.walk(ast.parse(text)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                top, _, own = name.partition(".")
                assert top != "anonpipe" or own in {"types", *compiled._IMPORTED.findall(text)}, source


def test_compiled_loops_are_in_kernels_only():
    """Elsewhere they would be kept in the package."""
    users = {path for path in PACKAGE.rglob("*.py") if "import numba" in path.read_text()}
    assert users - {PACKAGE / "engine.py"} <= set(sources())


def test_numba_knows_the_place_before_it_sees_a_kernel():
    """Whichever package is imported first."""
    for package in {PACKAGE / source.relative_to(PACKAGE).parts[0] for source in sources()}:
        assert "\nkeep_privately()\n" in (package / "__init__.py").read_text(), package


def test_a_folder_that_others_can_reach_is_closed_and_one_that_is_none_is_refused(tmp_path):
    (tmp_path / "open").mkdir(mode=0o777)
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "open")
    assert private(tmp_path / "open") and stat.S_IMODE((tmp_path / "open").stat().st_mode) == 0o700
    assert private(tmp_path / "new" / "folder")
    assert not private(tmp_path / "file") and not private(tmp_path / "link") and not private(tmp_path / "file" / "in")


def test_another_accounts_folder_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(compiled, "_user", lambda: -1)
    assert not private(tmp_path)


def test_without_a_cache_of_the_users_the_temporary_files_take_it_and_else_nothing_lasts(tmp_path, monkeypatch, fresh):
    (tmp_path / "file").touch()
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(compiled, "user_cache_path", lambda _: tmp_path / "file" / "cache")
    monkeypatch.setattr(compiled.tempfile, "tempdir", str(tmp_path))
    assert lasting() == root() and lasting().parent == tmp_path
    lasting().chmod(0o700)
    root.cache_clear(), lasting.cache_clear()
    monkeypatch.setattr(compiled, "private", lambda _: False)
    assert lasting() is None and root().is_dir() and not any_kept()


def test_the_given_folder_comes_first(tmp_path, monkeypatch, fresh):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert root() == tmp_path / "anonpipe" and not any_kept()
    place = folder("methods.grouping._mdav_kernel")
    place.mkdir()
    (place / "mdav.mdav-1.py311.nbi").touch()
    assert any_kept()
