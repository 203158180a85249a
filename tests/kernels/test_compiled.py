from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import stat
import textwrap
from pathlib import Path
from types import FunctionType

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

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


def _write(folder, files):
    for name, text in files.items():
        path = folder.joinpath(*name.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    digest.cache_clear()
    compiled._definitions.cache_clear()
    return {name: digest(name, folder) for name in files}


KERNEL = "@nb.njit(cache=True)\ndef {}(x):\n    return {}\n"
MODULES = {
    "far": "LIMIT, STEP = 1, 2\nUNUSED = 3\n\n" + KERNEL.format("far", "x + LIMIT") + KERNEL.format("alone", "x"),
    "sub.near": "from anonpipe.far import far\n\n"
    + KERNEL.format("near", "far(x)")
    + "\ndef python():\n    return 1\n",
    "user": "from anonpipe.sub.near import near as close\n\n" + KERNEL.format("user", "close(x)"),
    "by_module": "from anonpipe.sub import near\n\n" + KERNEL.format("user", "near.near(x)"),
    "other": "from anonpipe.far import UNUSED, far\n\n" + KERNEL.format("other", "UNUSED * x"),
}


@pytest.mark.parametrize(
    "module, now, then, changed",
    [
        ("far", "LIMIT, STEP = 1", "LIMIT, STEP = 5", {"far", "sub.near", "user", "by_module"}),
        ("far", "return x + LIMIT", "return x - LIMIT", {"far", "sub.near", "user", "by_module"}),
        ("far", "UNUSED = 3", "UNUSED = 4", {"other"}),
        ("far", "return x\n", "return -x\n", {"far"}),
        ("far", "@nb.njit(cache=True)\ndef far", "@nb.njit(cache=True, fastmath=True)\ndef far",
         {"far", "sub.near", "user", "by_module"}),
        ("sub.near", "return 1", "return 2", {"by_module"}),
        ("user", "@nb", "# A comment, and a line further down\n\n@nb", set()),
    ],
)  # fmt: skip
def test_a_change_reaches_all_that_was_compiled_from_it(tmp_path, module, now, then, changed):
    before = _write(tmp_path, MODULES)
    assert now in MODULES[module]
    after = _write(tmp_path, MODULES | {module: MODULES[module].replace(now, then)})
    assert {name for name in MODULES if before[name] != after[name]} == changed


def test_digest_changes_where_a_used_kernel_moves(tmp_path):
    """Compiled code imports the kernel by the name of its module, so code of the old place must not be taken."""
    before = _write(tmp_path, MODULES)
    moved = {name: text.replace("anonpipe.far", "anonpipe.farther") for name, text in MODULES.items()}
    after = _write(tmp_path, moved | {"farther": MODULES["far"]})
    assert {name for name in before if before[name] != after[name]} == {"sub.near", "user", "by_module", "other"}


def test_digests_are_kept_for_the_very_same_sources_only(tmp_path, monkeypatch):
    (tmp_path / "kept").mkdir()
    monkeypatch.setattr(compiled, "root", lambda: tmp_path / "kept")
    package, find, asked = tmp_path / "package", compiled._kept_digests.__wrapped__, []
    found = compiled._digest_of
    monkeypatch.setattr(compiled, "_digest_of", lambda name, of: asked.append(name) or found(name, of))
    wanted = _write(package, MODULES)
    del asked[:]
    assert find(package) == wanted == find(package) and sorted(asked) == sorted(MODULES)
    after = _write(package, MODULES | {"far": MODULES["far"].replace("x + LIMIT", "x - LIMIT")})
    assert find(package) == after != wanted
    (file,) = (tmp_path / "kept").iterdir()
    for broken in ("", "{}", "[1]", '{"of": 1}', file.read_text()[:-9]):
        file.write_text(broken)
        assert find(package) == after
    assert list((tmp_path / "kept").iterdir()) == [file]


def test_two_installations_keep_their_digests_side_by_side(tmp_path, monkeypatch):
    (tmp_path / "kept").mkdir()
    monkeypatch.setattr(compiled, "root", lambda: tmp_path / "kept")
    for name in ("one", "other"):
        _write(tmp_path / name, MODULES | {"far": MODULES["far"] + f"{name} = 1\n"})
    asked, found, find = [], compiled._digest_of, compiled._kept_digests.__wrapped__
    monkeypatch.setattr(compiled, "_digest_of", lambda name, of: asked.append(of) or found(name, of))
    for name in ("one", "other") * 2:
        find(tmp_path / name)
    assert len(asked) == 2 * len(MODULES)


def test_all_that_a_kernel_refers_to_is_in_its_digest():
    for name, kernel in _kernels():
        parts = {part for _, part in compiled.compiled_from(name)}
        values = kernel.py_func.__globals__
        for used in kernel.py_func.__code__.co_names:
            if used in values and isinstance(values[used], int | float | np.ndarray | Dispatcher | FunctionType | type):
                assert used in parts or getattr(values[used], "__module__", "").split(".")[0] != "anonpipe", (
                    name,
                    used,
                )


def test_compiled_loops_are_in_kernels_only():
    """Elsewhere they would be kept in the package."""
    users = {path for path in PACKAGE.rglob("*.py") if "njit" in path.read_text()}
    assert users - {PACKAGE / "kernels" / "compiled.py"} == set(sources())


def test_kernels_have_names_of_their_own_in_a_module():
    for source in sources():
        tree = ast.parse(source.read_text())
        names = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.decorator_list]
        kernels = [name for name in names if (name_of(source), name) in compiled.compiled_from(name_of(source))]
        assert len(kernels) == len(set(kernels)), source


def test_numba_knows_the_place_before_it_sees_a_kernel():
    """Whichever package is imported first."""
    for package in {PACKAGE / source.relative_to(PACKAGE).parts[0] for source in sources()}:
        assert "\nkeep_privately()\n" in (package / "__init__.py").read_text(), package


def test_open_folder_is_closed_and_a_non_folder_is_refused(tmp_path):
    (tmp_path / "open").mkdir(mode=0o777)
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "open")
    assert private(tmp_path / "open") and stat.S_IMODE((tmp_path / "open").stat().st_mode) == 0o700
    assert private(tmp_path / "new" / "folder")
    assert not private(tmp_path / "file") and not private(tmp_path / "link") and not private(tmp_path / "file" / "in")


def test_another_accounts_folder_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(compiled, "_user", lambda: -1)
    assert not private(tmp_path)


def test_without_user_cache_temporary_files_take_it(tmp_path, monkeypatch, fresh):
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
    place = folder(name_of(sources()[0]))
    place.mkdir()
    (place / "mdav.mdav-1.py311.nbi").touch()
    assert any_kept()


SLOW = {"np.argsort", "np.diff", "np.sort", "np.where"}
"""What numba compiles for a second or more; `anonpipe.kernels.points` has loops in their place."""


def test_no_kernel_calls_what_takes_seconds_to_compile():
    for name, kernel in _kernels():
        tree = ast.parse(textwrap.dedent(inspect.getsource(kernel.py_func)))
        called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        assert not called & SLOW, (name, kernel.__name__)
