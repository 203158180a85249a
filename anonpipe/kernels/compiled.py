"""Where the machine code of the kernels (any function of the package under `@kernel` or `@nb.njit`) lies between runs.

Kernels give each other constants as `int(1)` or `nb.boolean(False)`: a plain one would compile the other once more.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

import numba
from numba.core import caching
from numba.core.caching import CompileResultCacheImpl, IndexDataCacheFile, _CacheLocator
from numba.core.cpu import CPUTargetOptions
from platformdirs import user_cache_path

# numba would keep it with the sources: files that no uninstaller knows of, in a package that may belong to another
# account, and not made again when an inlined kernel changes. So each module has a folder in the user's cache, named by
# what its kernels were compiled from: the module, and the modules with kernels that it imports.
PACKAGE = Path(__file__).resolve().parent.parent
_KERNEL = re.compile(r"^@(kernel$|nb\.njit\b)", re.MULTILINE)
_IMPORT = re.compile(r"^from anonpipe\.([\w.]+) import", re.MULTILINE)


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


@cache
def _texts(package: Path) -> dict[str, str]:
    """The sources of all modules that hold kernels, by name: what kernels refer to lies in these."""
    read = ((path, path.read_text(encoding="utf-8")) for path in sorted(package.rglob("*.py")))
    return {name_of(path, package): text for path, text in read if _KERNEL.search(text)}


def modules(package: Path = PACKAGE) -> list[str]:
    """The modules that hold kernels."""
    return list(_texts(package))


def name_of(path: Path, package: Path = PACKAGE) -> str:
    """The name of a module within the package, with dots."""
    return ".".join(path.relative_to(package).with_suffix("").parts)


def compiled_from(module: str, package: Path = PACKAGE) -> dict[str, str]:
    """Sources by name: of a module, of those with kernels that it imports, and so on."""
    texts, found, left = _texts(package), dict[str, str](), [module]
    while left:
        name = left.pop()
        if name in found:
            continue
        found[name] = texts[name]
        for imported in _IMPORT.findall(texts[name]):  # a package stands for all that lies in it
            left += [other for other in texts if f"{other}.".startswith(f"{imported}.")]
    return found


@cache
def digest(module: str, package: Path = PACKAGE) -> str:
    """A digest of all that a module's kernels may be compiled from."""
    # Names too: machine code imports what it refers to by module, and fails where that has moved
    parts = sorted(compiled_from(module, package).items())
    content = "\0".join([numba.__version__, "named by signature", *("\0".join(part) for part in parts)])
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def folder(module: str) -> Path:
    """The folder of a module's compiled code."""
    return root() / f"{module}-{digest(module)}"


def any_kept() -> bool:
    """Whether something of the kernels, as they are now, was compiled before."""
    return any(any(folder(module).glob("*.nbi")) for module in modules())


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


class CacheFile(IndexDataCacheFile):
    """Names compiled code by its signature, not by the next free number."""

    # Two processes that compile a kernel at once, for two types, take the same number. Then the code of one type is run
    # on the other for good: floats summed as integers. An entry that another process drops from the index does no harm.
    def save(self, key: Any, data: Any) -> None:
        """Keep the code of a signature; the index names it once it is there."""
        file: Any = self  # numba has no types
        name = file._data_name(int(hashlib.sha256(repr(key).encode()).hexdigest()[:16], 16))
        file._save_data(name, data)
        file._save_index({**file._load_index(), key: name})


vars(caching)["IndexDataCacheFile"] = CacheFile
CompileResultCacheImpl._locator_classes = [KernelLocator, *CompileResultCacheImpl._locator_classes]

_Function = TypeVar("_Function", bound=Callable[..., Any])

# Without the entry for C, which nothing here calls, a kernel compiles a twentieth faster; later numba may not know that
_OPTIONS: dict[str, Any] = {"no_cfunc_wrapper": True} if hasattr(CPUTargetOptions, "no_cfunc_wrapper") else {}
kernel: Callable[[_Function], _Function] = numba.njit(cache=True, nogil=True, **_OPTIONS)
