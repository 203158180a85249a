from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
import stat
import textwrap
from pathlib import Path

import pytest
from numba.core import caching

from anonpipe.kernels import compiled
from anonpipe.kernels.compiled import PACKAGE, any_kept, digest, folder, lasting, modules, name_of, private, root


@pytest.fixture
def fresh():
    """What was found out of the user's folders is forgotten, before and after."""
    for found in (root, lasting):
        found.cache_clear()
    yield
    for found in (root, lasting):
        found.cache_clear()


def _kernels():
    for name in modules():
        module = importlib.import_module(f"anonpipe.{name}")
        for kernel in vars(module).values():
            if hasattr(kernel, "py_func") and kernel.py_func.__module__ == module.__name__:
                yield name, kernel


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


def test_two_processes_that_compile_at_once_mix_nothing_up(tmp_path, monkeypatch):
    """The second begins and ends while the first writes its code, and knows nothing of it."""
    first, second = (caching.IndexDataCacheFile(str(tmp_path), "kernel", "stamp") for _ in range(2))
    write = first._save_data

    def interrupted(name, data):
        with monkeypatch.context() as early:
            early.setattr(second, "_load_index", dict)
            second.save("int64", "code for integers")
        write(name, data)

    monkeypatch.setattr(first, "_save_data", interrupted)
    first.save("float64", "code for floats")
    assert second.load("int64") in ("code for integers", None)
    assert second.load("float64") in ("code for floats", None)


def _write(folder, files):
    for name, text in files.items():
        path = folder.joinpath(*name.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    digest.cache_clear()
    compiled._texts.cache_clear()
    return {name: digest(name, folder) for name in files}


KERNEL = "@kernel\ndef {}(x):\n    return {}\n"
MODULES = {
    "far": "LIMIT, STEP = 1, 2\nUNUSED = 3\n\n" + KERNEL.format("far", "x + LIMIT") + KERNEL.format("alone", "x"),
    "sub.near": "from anonpipe.far import far\n\n"
    + KERNEL.format("near", "far(x)")
    + "\ndef python():\n    return 1\n",
    "user": "from anonpipe.sub.near import near as close\n\n" + KERNEL.format("user", "close(x)"),
    "by_module": "from anonpipe.sub import near\n\n" + KERNEL.format("user", "near.near(x)"),
    "by_package": "from anonpipe.sub import (\n    near,\n)\n\n" + KERNEL.format("user", "near.near(x)"),
    "other": "from anonpipe.farther import near\n\n" + KERNEL.format("other", "2 * x"),
    "farther": "def python():\n    return 1\n\n" + KERNEL.format("near", "x"),
}


@pytest.mark.parametrize(
    "module, now, then, changed",
    [
        ("far", "LIMIT, STEP = 1", "LIMIT, STEP = 5", {"far", "sub.near", "user", "by_module", "by_package"}),
        ("far", "return x + LIMIT", "return x - LIMIT", {"far", "sub.near", "user", "by_module", "by_package"}),
        ("sub.near", "far(x)", "far(2 * x)", {"sub.near", "user", "by_module", "by_package"}),
        ("farther", "return x", "return -x", {"farther", "other"}),
        ("user", "close(x)", "close(-x)", {"user"}),
    ],
)
def test_a_change_reaches_all_that_was_compiled_from_it(tmp_path, module, now, then, changed):
    before = _write(tmp_path, MODULES)
    assert now in MODULES[module]
    after = _write(tmp_path, MODULES | {module: MODULES[module].replace(now, then)})
    assert {name for name in MODULES if before[name] != after[name]} == changed


def test_digest_changes_where_a_used_kernel_moves(tmp_path):
    """Compiled code imports the kernel by the name of its module, so code of the old place must not be taken."""
    before = _write(tmp_path, MODULES)
    moved = {name: text.replace("anonpipe.far ", "anonpipe.gone ") for name, text in MODULES.items()}
    after = _write(tmp_path, moved | {"gone": MODULES["far"]})
    assert {name for name in before if before[name] != after[name]} == {"sub.near", "user", "by_module", "by_package"}


def test_all_that_a_kernel_refers_to_is_in_its_digest():
    for name, kernel in _kernels():
        parts, home = compiled.compiled_from(name), {}
        for node in ast.walk(ast.parse(parts[name])):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("anonpipe"):
                home |= {part.asname or part.name: f"{node.module}.{part.name}" for part in node.names}
        for used in {*kernel.py_func.__code__.co_names} & {*home}:
            module = home[used].removeprefix("anonpipe.")
            assert module in parts or module.rpartition(".")[0] in parts, (name, kernel.__name__, used)


MARKS = ("kernel", "nb.njit")


def _marked(text):
    found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    return [node.name for node in found if any(ast.unparse(mark).startswith(MARKS) for mark in node.decorator_list)]


def test_compiled_loops_are_in_kernels_only():
    """Elsewhere they would be kept in the package."""
    users = {path for path in PACKAGE.rglob("*.py") if re.search("njit|import kernel$", path.read_text(), re.MULTILINE)}
    assert {name_of(path) for path in users} - {"kernels.compiled"} == set(modules())


def test_kernels_have_names_of_their_own_in_a_module():
    for module in modules():
        kernels = _marked(compiled.compiled_from(module)[module])
        assert kernels and len(kernels) == len(set(kernels)), module


def test_numba_knows_the_place_before_it_sees_a_kernel():
    """Whichever module is imported first."""
    for module, text in ((module, compiled.compiled_from(module)[module]) for module in modules()):
        assert "\nfrom anonpipe.kernels.compiled import kernel\n" in text.partition("\ndef ")[0], module


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
    place = folder(modules()[0])
    place.mkdir()
    (place / "mdav.mdav-1.py311.nbi").touch()
    assert any_kept()


SLOW = {"np.append", "np.argsort", "np.cumsum", "np.diff", "np.sort", "np.where"}
"""What numba compiles for half a second or more; `anonpipe.kernels.points` has loops in their place."""


def test_no_kernel_calls_what_takes_seconds_to_compile():
    for name, kernel in _kernels():
        tree = ast.parse(textwrap.dedent(inspect.getsource(kernel.py_func)))
        called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        assert not called & SLOW, (name, kernel.__name__)


def _is_slice(target):
    parts = getattr(target.slice, "elts", [target.slice]) if isinstance(target, ast.Subscript) else []
    return any(isinstance(part, ast.Slice) for part in parts)


def _assigned(tree):
    """What is assigned to slices of arrays."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AugAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            targets = getattr(target, "elts", [target])
            values = getattr(node.value, "elts", [node.value] * len(targets))
            yield from (ast.unparse(value) for one, value in zip(targets, values, strict=False) if _is_slice(one))


def test_kernels_assign_constants_alone_to_slices():
    """Else each brings texts of errors that numba compiles for two seconds."""
    found = 0
    for name, kernel in _kernels():
        tree = ast.parse(textwrap.dedent(inspect.getsource(kernel.py_func)))
        values = [*_assigned(tree)]
        assert {*values} <= {"0", "0.0", "1.0", "-1", "True", "np.inf"}, (name, kernel.__name__)
        found += len(values)
    assert found > 30
