"""Where the machine code of the kernels (any function of the package under `@nb.njit`) lies between runs.

Kernels give each other constants as `int(1)` or `nb.boolean(False)`: a plain one would compile the other once more.
"""

from __future__ import annotations

import ast
import atexit
import contextlib
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FunctionType

import numba
from numba.core.caching import CompileResultCacheImpl, _CacheLocator
from platformdirs import user_cache_path

# numba would keep it with the sources: files that no uninstaller knows of, in a package that may belong to another
# account, and not made again when an inlined kernel changes. So each module has a folder in the user's cache, named by
# what its kernels were compiled from: them, and every definition that they refer to, here or in other modules.
PACKAGE = Path(__file__).resolve().parent.parent
_KERNEL = re.compile(r"^@(nb\.|numba\.)?njit\b", re.MULTILINE)


@cache
def root() -> Path:
    """The folder of all compiled code: the lasting one, or one that goes with this process."""
    place = lasting()
    if place is None:
        place = Path(tempfile.mkdtemp(prefix="anonpipe-kernels-"))
        atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place


@cache
def lasting() -> Path | None:
    """The first of these folders that is ours alone and can be written, None if none is."""
    # Compiled code is run as it is found: a folder that belongs to another account is never used.
    given = os.environ.get("NUMBA_CACHE_DIR")
    places = [Path(given) / "anonpipe"] if given else []
    places += [user_cache_path("anonpipe") / "kernels", Path(tempfile.gettempdir()) / f"anonpipe-{_user()}"]
    return next((place for place in places if private(place)), None)


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


def private(folder: Path) -> bool:
    """Whether the folder is there, or could be made, belongs to this account, and nobody else can enter it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or (hasattr(os, "getuid") and found.st_uid != _user()):
            return False
        folder.chmod(0o700)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def sources(package: Path = PACKAGE) -> list[Path]:
    """The modules that hold kernels."""
    return sorted(path for path in package.rglob("*.py") if _KERNEL.search(path.read_text(encoding="utf-8")))


def name_of(path: Path, package: Path = PACKAGE) -> str:
    """The name of a module within the package, with dots."""
    return ".".join(path.relative_to(package).with_suffix("").parts)


@dataclass(frozen=True)
class _Definition:
    """What a name at the top of a module stands for."""

    text: str  # The statement
    refers_to: frozenset[str]  # Names in it
    is_kernel: bool
    imported: tuple[str, str] | None  # Module of the package, with dots, and name there


@cache
def _definitions(module: str, package: Path) -> dict[str, _Definition]:
    """The definitions of a module by name; none where there is no such module."""
    path = package.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if not path.is_file():
        return {}
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    found = {}
    for statement in ast.parse(text).body:
        marks = getattr(statement, "decorator_list", [])
        start = min([statement.lineno, *(mark.lineno for mark in marks)]) - 1
        source = "\n".join(lines[start : statement.end_lineno])
        nodes = list(ast.walk(statement))
        names = frozenset(node.id for node in nodes if isinstance(node, ast.Name))
        is_kernel = any(ast.unparse(mark).partition("(")[0].endswith("njit") for mark in marks)
        stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            stored = {statement.name}
        for name in stored:
            found[name] = _Definition(source, names, is_kernel, None)
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "anonpipe":
                home = str(node.module).removeprefix("anonpipe").removeprefix(".")
                for alias in node.names:
                    found[alias.asname or alias.name] = _Definition("", frozenset(), False, (home, alias.name))
    return found


def compiled_from(module: str, package: Path = PACKAGE) -> dict[tuple[str, str], str]:
    """Sources of a module's kernels and of all that they refer to, by module and name."""
    found: dict[tuple[str, str], str] = {}
    left = [(module, name) for name, definition in _definitions(module, package).items() if definition.is_kernel]
    while left:
        home, name = left.pop()
        definition = _definitions(home, package).get(name)
        if definition is None or (home, name) in found:
            continue
        found[home, name] = definition.text
        left += [(home, used) for used in definition.refers_to]
        if definition.imported is not None:
            origin, original = definition.imported
            part = f"{origin}.{original}".removeprefix(".")
            # Either a name of that module, or a module itself, of which anything may be used
            left += [definition.imported, *((part, used) for used in _definitions(part, package))]
    return found


@cache
def digest(module: str, package: Path = PACKAGE) -> str:
    """A digest of all that a module's kernels are compiled from."""
    return (_kept_digests(package) if package == PACKAGE else {}).get(module) or _digest_of(module, package)


@cache
def _kept_digests(package: Path) -> dict[str, str]:
    """The digests of all modules with kernels: found once for these sources, as every process would take half a second.

    Kept ones hold only where no source of the package has changed, comments included.
    """
    texts = [(str(path.relative_to(package)).encode(), path.read_bytes()) for path in sorted(package.rglob("*.py"))]
    read = b"\0".join([numba.__version__.encode(), *(part for pair in texts for part in pair)])
    # A file for each installation, so that two do not overwrite each other's in turn
    of_package = hashlib.sha256(str(package).encode()).hexdigest()[:16]
    these, file = hashlib.sha256(read).hexdigest(), root() / f"digests-{of_package}.json"
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        kept = json.loads(file.read_text(encoding="utf-8"))
        if kept["of"] == these:
            return dict(kept["digests"])
    found = {name: _digest_of(name, package) for name in (name_of(source, package) for source in sources(package))}
    with contextlib.suppress(OSError):
        handle, new = tempfile.mkstemp(dir=root())
        with os.fdopen(handle, "w", encoding="utf-8") as writing:
            json.dump({"of": these, "digests": found}, writing)
        os.replace(new, file)  # whole or not at all: other processes read it, or write the same
    return found


def _digest_of(module: str, package: Path) -> str:
    parts = compiled_from(module, package)
    # Homes too: machine code imports what it refers to by module, and fails where that has moved
    content = "\0".join([numba.__version__, *("\0".join((*key, parts[key])) for key in sorted(parts))])
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def folder(module: str) -> Path:
    """The folder of a module's compiled code."""
    return root() / f"{module}-{digest(module)}"


def any_kept() -> bool:
    """Whether something of the kernels, as they are now, was compiled before."""
    return any(any(folder(name_of(source)).glob("*.nbi")) for source in sources())


@cache
def _prepared(path: str) -> bool:
    """Make the folder of a module of the package; whether it is one."""
    source = Path(path).resolve()
    if not source.is_relative_to(PACKAGE):
        return False
    folder(name_of(source)).mkdir(mode=0o700, exist_ok=True)
    return True


class KernelLocator(_CacheLocator):
    """Tells numba the folder of a kernel; functions of other packages are none of its business."""

    def __init__(self, function: FunctionType, path: str) -> None:
        self._py_file = path  # numba's warnings read it
        self._module = name_of(Path(path).resolve())

    @classmethod
    def from_function(cls, function: FunctionType, path: str) -> KernelLocator | None:
        """The locator of a kernel, None for any other function."""
        return cls(function, path) if _prepared(path) else None

    def get_cache_path(self) -> str:
        """The folder."""
        return str(folder(self._module))

    def get_source_stamp(self) -> str:
        """What the folder's name holds too: code of another source is never taken."""
        return digest(self._module)

    def get_disambiguator(self) -> str:
        """Nothing: names are unique in a module, and lines move with the Python code around them."""
        return ""


def keep_privately() -> None:
    """Let numba ask for the folder of kernels before it looks anywhere else."""
    if KernelLocator not in CompileResultCacheImpl._locator_classes:
        CompileResultCacheImpl._locator_classes = [KernelLocator, *CompileResultCacheImpl._locator_classes]
