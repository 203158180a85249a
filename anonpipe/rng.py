"""Keyed randomness: every draw is a function of (secret, input, job, stage, partition).

The steward's secret never leaves this module's callers' memory except into a private file of the run. A published or
short seed would let anyone draw the same noise and subtract it, so less than 128 bits are refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

import numpy as np
import numpy.typing as npt

from anonpipe.errors import JobError, OutputError
from anonpipe.files import drafted

SECRET_VARIABLE = "ANONPIPE_SECRET"
SECRET_FILE_VARIABLE = "ANONPIPE_SECRET_FILE"
MINIMUM_SECRET_BITS = 128
FEWEST_BYTES = 8  # Of 16 random bytes fewer are different once in some 10^11 secrets; of typed ones nearly always
_MAKE_ONE = 'make one with: python -c "import secrets; print(secrets.token_hex(32))"'
_TOO_SHORT = "the secret in {place} is shorter than 128 bits; give at least 32 hexadecimal digits, " + _MAKE_ONE
_WITHHELD: dict[str, str] = {}
_TRIAL: ContextVar[bytes | None] = ContextVar("trial secret", default=None)


def private_home() -> Path:
    """The steward's private folder (`ANONPIPE_HOME`, else `~/.config/anonpipe`), made 0700."""
    default = Path(os.environ.get("XDG_CONFIG_HOME", Path.home() / ".config")) / "anonpipe"
    home = Path(os.environ.get("ANONPIPE_HOME", default))
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        home.chmod(0o700)
    except OSError:
        raise OutputError(
            f"the private folder {home} of secret and release log cannot be made; set ANONPIPE_HOME to another folder"
        ) from None
    return home


def _setting(name: str) -> str | None:
    return os.environ.get(name) or _WITHHELD.get(name)


@contextlib.contextmanager
def secret_withheld() -> Iterator[None]:
    """Remove the secret from the environment of processes that are started in the block."""
    # This process still finds it; that of a process is open to all others of the same user (`/proc/<pid>/environ`), and
    # may end in a core dump.
    names = (SECRET_VARIABLE, SECRET_FILE_VARIABLE)
    values = {name: os.environ.pop(name) for name in names if name in os.environ}
    _WITHHELD.update(values)
    try:
        yield
    finally:
        os.environ.update(values)
        for name in values:
            _WITHHELD.pop(name, None)


@contextlib.contextmanager
def trial_secret(secret: bytes) -> Iterator[None]:
    """Use another secret in this thread, for trials that must not share draws with a release."""
    if len(secret) * 8 < MINIMUM_SECRET_BITS:
        raise JobError(_TOO_SHORT.format(place="this trial"))
    token = _TRIAL.set(secret)
    try:
        yield
    finally:
        _TRIAL.reset(token)


def steward_secret() -> bytes:
    """The steward's secret: environment variable, named file, or made on first use."""
    if (trial := _TRIAL.get()) is not None:
        return trial
    if text := _setting(SECRET_VARIABLE):
        return _parse(text, f"the environment variable {SECRET_VARIABLE}")
    named = _setting(SECRET_FILE_VARIABLE)
    path = Path(named) if named else private_home() / "secret"
    if not named and not path.exists():
        _create(path)
    try:
        mode, text = path.stat().st_mode, path.read_text(encoding="ascii", errors="replace")
    except OSError:
        raise JobError(f"the secret file {path} cannot be read; create it or unset {SECRET_FILE_VARIABLE}") from None
    if mode & 0o077:
        raise JobError(f"the secret file {path} can be read by others; run: chmod 600 {path}")
    return _parse(text, f"the file {path}")


def home_key() -> bytes:
    """A key of the steward's home, whatever the secret; made on first use, like the secret's own file."""
    path = private_home() / "ledger.key"
    if not path.exists():
        _create(path)
    return _parse(path.read_text(encoding="ascii", errors="replace"), f"the file {path}")


def require_secret(what: str) -> None:
    """Refuse a secret generated in the home folder, as other machines or containers generate another."""
    if _TRIAL.get() is None and not any(map(_setting, (SECRET_VARIABLE, SECRET_FILE_VARIABLE))):
        raise JobError(
            f"{what} needs a secret that stays: in a home that every container makes again each run would draw "
            f"other noise, which can be averaged away; set {SECRET_FILE_VARIABLE} to a file (0600) with what "
            'python -c "import secrets; print(secrets.token_hex(32))" prints, and keep it'
        )


def _create(path: Path) -> None:
    """Write a fresh secret; the first of several processes wins, and the others read its secret."""
    with contextlib.suppress(FileExistsError), drafted(path, place=os.link) as draft:
        draft.write_text(secrets.token_hex(32) + "\n")


def _parse(text: str, place: str) -> bytes:
    try:
        secret = bytes.fromhex(text.strip())
    except ValueError:
        remedy = "give an even number of digits 0-9 and a-f, 32 or more"
        raise JobError(f"the secret in {place} is not hexadecimal; {remedy}") from None
    if len(secret) * 8 < MINIMUM_SECRET_BITS:
        raise JobError(_TOO_SHORT.format(place=place))
    if len(set(secret)) < FEWEST_BYTES:
        raise JobError(
            f"the secret in {place} has {len(set(secret))} different bytes, and a random one has {FEWEST_BYTES} at "
            f"least; {_MAKE_ONE}"
        )
    return secret


def keyed(secret: bytes, *parts: str) -> bytes:
    """A 256-bit key for `parts`, by HMAC-SHA256; without the secret it says nothing of either."""
    message = b"".join(len(part.encode()).to_bytes(8, "big") + part.encode() for part in parts)
    return hmac.new(secret, message, hashlib.sha256).digest()


def generator(key: bytes, stage: str, partition: int | str = 0) -> np.random.Generator:
    """The random generator of one stage and one partition."""
    if len(key) * 8 < MINIMUM_SECRET_BITS:
        raise JobError(_TOO_SHORT.format(place="this run"))
    digest = keyed(key, stage, str(partition))
    return np.random.Generator(np.random.Philox(key=np.frombuffer(digest[:16], dtype=np.uint64)))


def number_keys(key: bytes, numbers: npt.NDArray[np.int64 | np.uint64]) -> npt.NDArray[np.uint64]:
    """A keyed 64-bit number for each number, by SplitMix64; equal for equal numbers."""
    state = numbers.astype(np.uint64)
    state ^= np.frombuffer(keyed(key, "row keys")[:8], dtype=np.uint64)[0]
    state += np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
