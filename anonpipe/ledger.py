"""The steward's private ledger: which input was released under which job and secret.

The same data released twice with different noise can be averaged. The ledger
holds keyed digests only; it lies beside the secret, and none of it is ever in
a release.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

from anonpipe.rng import keyed, private_home

_REDRAWN = (
    "this input has been released before under another {what}: who holds both releases can average the noise away; "
    "withdraw the earlier release, or keep job and secret as they were"
)


def _path() -> Path:
    return private_home() / "ledger.jsonl"


def _entries() -> list[dict[str, str]]:
    path = _path()
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def warn_of_redraws(secret: bytes, input_digest: str, job_digest: str) -> list[str]:
    """Warnings where the same input was released under another secret or another job."""
    found = set()
    for entry in _entries():
        if entry["input"] != input_digest:
            continue
        if entry["secret"] != _mark(secret):
            found.add("secret")
        elif entry["job"] != job_digest:
            found.add("job")
    return [_REDRAWN.format(what=what) for what in sorted(found)]


def note_release(secret: bytes, input_digest: str, job_digest: str, output: str) -> None:
    """Add a published release to the ledger."""
    entry = {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "input": input_digest,
        "job": job_digest,
        "secret": _mark(secret),
        "output": output,
    }
    handle = os.open(_path(), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(handle, "a") as out:
        out.write(json.dumps(entry) + "\n")
        out.flush()
        os.fsync(out.fileno())


def _mark(secret: bytes) -> str:
    """A mark by which two secrets can be told apart, and nothing of them learnt."""
    return keyed(secret, "ledger mark").hex()[:16]
