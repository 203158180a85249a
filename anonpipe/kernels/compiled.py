"""Where the machine code of the kernels is kept between runs.

numba would keep it beside the sources, which leaves files in an installed
package that no uninstaller knows of, fails where the package belongs to
another account, and does not notice when a kernel that another one has
inlined was changed. So each module of kernels has a folder of its own in the
user's cache, named by what its code was compiled from. numba itself tells
processors and signatures apart inside it.

One kernel gives another its constants as `int(1)` or `nb.boolean(False)`:
for a plain one numba would compile the other once more.

Kernels are the modules of `anonpipe.kernels`, which several methods share,
and those called `_..._kernel`, which lie beside the one method that they are of.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shutil
import stat
import tempfile
from functools import cache
from pathlib import Path
from types import FunctionType

import numba
from numba.core.caching import CompileResultCacheImpl, _CacheLocator
from platformdirs import user_cache_path

PACKAGE = Path(__file__).resolve().parent.parent
_IMPORTED = re.compile(r"anonpipe\.(kernels\.\w+|[\w.]+_kernel)\b")


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
    """The first of these folders that is ours alone and can be written, None if none is.

    `NUMBA_CACHE_DIR`, the user's cache folder, and a folder of the user's own
    among the machine's temporary files. Compiled code is run as it is found:
    a folder that belongs to another account is never used.
    """
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
    """The files of all kernels."""
    return sorted(path for path in package.rglob("*.py") if _holds_kernels(path.relative_to(package)))


def _holds_kernels(path: Path) -> bool:
    return path.stem.endswith("_kernel") or (path.parts[0] == "kernels" and not path.stem.startswith("_"))


def name_of(path: Path, package: Path = PACKAGE) -> str:
    """The name of a module of kernels within the package, with dots."""
    return ".".join(path.relative_to(package).with_suffix("").parts)


@cache
def digest(module: str, package: Path = PACKAGE) -> str:
    """A digest of a module of kernels and of all modules that it imports kernels from, directly or not.

    Examples
    --------
    >>> len(digest("methods.grouping._mdav_kernel"))
    16
    """
    found, left = {}, [module]
    while left:
        name = left.pop()
        if name not in found:
            found[name] = package.joinpath(*name.split(".")).with_suffix(".py").read_bytes()
            left += _IMPORTED.findall(found[name].decode())
    content = numba.__version__.encode() + b"".join(b"\0" + found[name] for name in sorted(found))
    return hashlib.sha256(content).hexdigest()[:16]


def folder(module: str) -> Path:
    """The folder of a module's compiled code."""
    return root() / f"{module}-{digest(module)}"


def any_kept() -> bool:
    """Whether something of the kernels, as they are now, was compiled before."""
    return any(any(folder(name_of(source)).glob("*.nbi")) for source in sources())


class KernelLocator(_CacheLocator):
    """Tells numba the folder of a kernel; functions of other packages are none of its business."""

    def __init__(self, function: FunctionType, path: str) -> None:
        self._py_file = path  # numba's warnings read it
        self._module = name_of(Path(path).resolve())
        self._line = function.__code__.co_firstlineno

    @classmethod
    def from_function(cls, function: FunctionType, path: str) -> KernelLocator | None:
        """The locator of a kernel, None for any other function."""
        source = Path(path).resolve()
        if not source.is_relative_to(PACKAGE) or not _holds_kernels(source.relative_to(PACKAGE)):
            return None
        folder(name_of(source)).mkdir(mode=0o700, exist_ok=True)
        return cls(function, path)

    def get_cache_path(self) -> str:
        """The folder."""
        return str(folder(self._module))

    def get_source_stamp(self) -> str:
        """What the folder's name holds too: code of another source is never taken."""
        return digest(self._module)

    def get_disambiguator(self) -> str:
        """Tells functions of one name apart."""
        return str(self._line)


def keep_privately() -> None:
    """Let numba ask for the folder of kernels before it looks anywhere else."""
    if KernelLocator not in CompileResultCacheImpl._locator_classes:
        CompileResultCacheImpl._locator_classes = [KernelLocator, *CompileResultCacheImpl._locator_classes]
