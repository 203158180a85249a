"""The release logs: what was released before, so that no second release gives away what changed.

Two releases that differ by a few persons disclose these by differences, and
the same persons released twice with different noise can be averaged. So each
release leaves a line in a log beside the output (`steward/releases.jsonl`)
and in the steward's home; the next run is held against both. A line holds
keyed digests and numbers of records only, and none of it is ever in a release.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from anonpipe.errors import AnonpipeError, InputError
from anonpipe.rng import home_key, keyed, private_home
from anonpipe.storage import release
from anonpipe.storage.sketch import Sketch, UnitSums, chance_of, shared_records
from anonpipe.storage.versions import OutputPlace

LOG = "releases.jsonl"
_FORM = 1
_MARK_BYTES = 6

CHANCE = 1e-6  # Below it two tables do not share so much by chance


@dataclass(frozen=True, eq=False)
class CountedUnits:
    """The units of a register that grows, as `repeat.growing` compares them."""

    # The column that names the unit, those that are released unchanged, and all: counts by others cannot be compared
    by: tuple[str, ...]
    # The released columns, by name, as `UnitSums.columns` numbers them; what has other numbers is of whole records
    names: tuple[str, ...]
    sums: UnitSums  # What was counted
    at_least: int  # Units that must differ in a column, if any do; twice as many in all, in each combination
    at_most: int  # Releases that may overlap, this one among them


@dataclass(frozen=True)
class Trace:
    """What the logs need to know of an input."""

    digest: str  # Of the released content: `Scan.digest`
    job: str  # Digest of the job
    rows: int  # Records, held-out ones included
    columns: tuple[str, ...]  # Names of the released columns
    sketches: Mapping[str, Sketch]  # By what they are of; see `anonpipe.storage.sketch`
    counted: CountedUnits | None = None  # Of a register that grows; None where the job does not say so

    def line(self, secret: bytes, name: str, accepted: Sequence[str] = ()) -> dict[str, Any]:
        """The line of a release of this input, called `name`; with `accepted`, see `Overlaps.uncounted`."""
        of_units = {} if self.counted is None else {"counted": asdict(_stored_sums(secret, self.counted))}
        return {
            "anonpipe_log": _FORM,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "version": name,
            "secret": secret_mark(secret),
            "job": _job(secret, self.job),
            "population": _hex(secret, "population", self.digest),
            "rows": self.rows,
            "columns": [_hex(secret, "column", column) for column in self.columns],
            "sketches": [asdict(_stored_sketch(secret, subject, sketch)) for subject, sketch in self.sketches.items()],
            **of_units,
            **({"accepted": list(accepted)} if accepted else {}),
        }


@dataclass(frozen=True)
class StoredSketch:
    """A sketch as a log keeps it; it cannot be read back into records, with the secret neither."""

    on: str  # Keyed digest of what it is of
    # level, depths: the sketch's level, and of each content the level up to which it stays, packed
    level: int
    depths: str
    # marks, counts: keyed digests of the contents, and the records of each, packed
    marks: str
    counts: str

    @cached_property
    def contents(self) -> dict[bytes, tuple[int, int]]:
        """Depth and records of each content, by mark."""
        marks = base64.b64decode(self.marks)
        depths = np.frombuffer(zlib.decompress(base64.b64decode(self.depths)), dtype=np.uint8).tolist()
        counts = np.frombuffer(zlib.decompress(base64.b64decode(self.counts)), dtype="<u4").tolist()
        keys = [marks[at : at + _MARK_BYTES] for at in range(0, len(marks), _MARK_BYTES)]
        return dict(zip(keys, zip(depths, counts, strict=True), strict=True))


@dataclass(frozen=True)
class StoredSums:
    """Sums of units as a log keeps them."""

    by: str  # Keyed digest of what they are by
    buckets: int  # Of each row of sums
    # marks, sums: as of `UnitSums`, packed
    marks: str
    sums: str

    @cached_property
    def read(self) -> UnitSums:
        """The sums; columns are not kept."""
        marks, sums = (zlib.decompress(base64.b64decode(packed)) for packed in (self.marks, self.sums))
        numbers = np.frombuffer(marks, dtype="<u8").astype(np.uint64)
        shaped = np.frombuffer(sums, dtype="<u4").astype(np.uint32).reshape(len(numbers), self.buckets)
        return UnitSums(numbers, np.full(len(numbers), -1, dtype=np.int64), shaped)


def _stored_sums(secret: bytes, counted: CountedUnits) -> StoredSums:
    sums, buckets = counted.sums, counted.sums.sums.shape[1]
    return StoredSums(
        _hex(secret, "counted by", *counted.by),
        buckets,
        _packed(sums.marks.astype("<u8")),
        _packed(sums.sums.astype("<u4")),
    )


def _stored_sketch(secret: bytes, subject: str, sketch: Sketch) -> StoredSketch:
    key = keyed(secret, "marks of records")
    marks = _marks(key, sketch.numbers.tobytes())
    order = sorted(range(len(marks)), key=marks.__getitem__)
    depths = np.array([64 - int(sketch.numbers[at]).bit_length() for at in order], dtype=np.uint8)
    counts = np.minimum(sketch.counts[order], 2**32 - 1).astype("<u4")
    return StoredSketch(
        _hex(secret, "subject", subject),
        sketch.level,
        _packed(depths),
        base64.b64encode(b"".join(marks[at] for at in order)).decode(),
        _packed(counts),
    )


@lru_cache(maxsize=256)
def _marks(key: bytes, numbers: bytes) -> tuple[bytes, ...]:
    """Keyed digests of numbers of eight bytes; a run asks three times for those of the same sketches."""
    return tuple(
        blake2b(numbers[at : at + 8], digest_size=_MARK_BYTES, key=key).digest() for at in range(0, len(numbers), 8)
    )


def _packed(values: npt.NDArray[Any]) -> str:
    return base64.b64encode(zlib.compress(values.tobytes())).decode()


def secret_mark(secret: bytes) -> str:
    """A mark by which two secrets can be told apart, and nothing of them learnt."""
    return keyed(secret, "ledger mark").hex()[:16]


def _hex(secret: bytes, *parts: str) -> str:
    return keyed(secret, *parts).hex()[:32]


def _job(secret: bytes, digest: str) -> str:
    """What draws the noise beside the records: the job, and the version of anonpipe."""
    return _hex(secret, "job", digest, version("anonpipe"))


@dataclass(frozen=True)
class Overlaps:
    """What the logs say of a run that wants to release."""

    problems: tuple[str, ...] = ()  # Why it must not, without the steward's word; one line each
    warnings: tuple[str, ...] = ()  # What could not be looked at
    held: int = 0  # Overlapping releases from which enough units of a register that grows differ
    # Names of overlapping releases whose units nobody counted, so that a problem says so: if this one comes out all the
    # same, they are accepted by its line, and are no problem to later ones
    uncounted: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Log:
    """Lines of one log; those that are torn or of another program are passed over."""

    lines: tuple[dict[str, Any], ...] = ()
    foreign: int = 0
    readable: bool = True


def find_overlaps(trace: Trace, secret: bytes, where: OutputPlace | None) -> Overlaps:
    """Hold an input against all earlier releases that are known."""
    warnings: list[str] = []
    beside, home = _Log() if where is None else _read_output(where), _read_home()
    for log, what in ((beside, "beside the output"), (home, "in the steward's home")):
        if not log.readable:
            warnings.append(f"the release log {what} cannot be read: earlier releases that only it knows are not seen")
        if log.foreign:
            counted = "1 line" if log.foreign == 1 else f"{log.foreign} lines"
            warnings.append(f"the release log {what} has {counted} that cannot be read, passed over")
    releases = {
        str(line["version"]): line for line in (*home.lines, *beside.lines) if line["secret"] == secret_mark(secret)
    }
    job, population = _job(secret, trace.job), _hex(secret, "population", trace.digest)
    if any((line["job"], line["population"]) == (job, population) for line in releases.values()):
        return Overlaps((), tuple(warnings))  # it comes out again as it was
    problems = [_OTHER_SECRET] if _has_other_secret(beside, where, secret) else []
    others = [line for line in home.lines if line["secret"] != secret_mark(secret)]
    if others:
        everywhere = _anywhere(trace.digest)
        equal = [line for line in others if line.get("anywhere") == everywhere]
        problems += [_SAME_RECORDS.format(time=line["time"], what="secret") for line in equal[-1:]]
        if not equal:
            warnings.append(_UNCOMPARED.format(count=len(others)))
    same = [line for line in releases.values() if line["population"] == population]
    problems += [_SAME_RECORDS.format(time=line["time"], what=_JOB) for line in same[-1:]]
    overlapping = [] if same else _overlaps(trace, secret, list(releases.values()))
    if trace.counted is None or not overlapping:
        return Overlaps((*problems, *_largest(overlapping)), tuple(warnings))
    lines = [release.line for release in overlapping]
    accepted = {name for line in releases.values() for name in line.get("accepted", ())}
    of_units = [line for line in lines if _is_comparable(trace.counted, secret, line)]
    uncounted = [str(line["version"]) for line in lines if line not in of_units and line["version"] not in accepted]
    problems += [_UNCOUNTED.format(count=len(uncounted), names=", ".join(uncounted))] if uncounted else []
    problems += _too_few(trace.counted, of_units)
    if len(lines) + 1 > trace.counted.at_most:
        problems.append(_TOO_MANY.format(count=len(lines), at_most=trace.counted.at_most))
    return Overlaps(tuple(problems), tuple(warnings), len(of_units), tuple(uncounted))


_JOB = "job (k, columns or methods), or by another version of anonpipe"
_SAME_RECORDS = (
    "the same records were released at {time} under another {what}: who holds both releases can average the noise away"
)
_COLUMNS = "columns: {kept} as then, {added} added, {left} left out"
_SAME_PERSONS = (
    "the same {rows:,} records, as far as samples of them tell, were released at {time} under another job, "
    "with other columns or another hold-out, of which copies in other files make one ("
    + _COLUMNS
    + "): who holds both releases can average the noise away, and "
    "join what each of them has"
)
_OTHER_SECRET = (
    "the releases in this output were drawn with another secret: what they share with this input cannot be seen, and "
    "who holds both can average the noise away; give the secret that they were drawn with (ANONPIPE_SECRET or "
    "ANONPIPE_SECRET_FILE)"
)
_UNCOMPARED = (
    "the steward's home knows of {count} releases under other secrets: these records as a whole are not among them, "
    "but whether some of them are cannot be seen"
)
REMEDY = (
    "nothing was grouped or released. Keep job, secret and input of the earlier release, and it comes out again as it "
    "was; or, if nobody received it, or what both tell together is acceptable, say so in the job: "
    'repeat: {allow: "why"} (or --set repeat.allow="why"); the reason will stand in the reports. '
    "To try settings without a release: anonpipe compare"
)
HELD = (
    "repeat.growing: {count} of the earlier releases overlap with this one; from each at least {at_least} units "
    "differ, or none, in every column, and twice as many in all, among the records of every combination of the columns "
    "that are released unchanged"
)
ALLOWED = "earlier releases that this one overlaps with were allowed by the job: "


_UNCOUNTED = (
    "units are counted since repeat.growing was set, and {count} of the earlier releases that this input overlaps with "
    "did not count them, or counted by another unit or in other columns: {names}"
)
_TOO_MANY = (
    "this input overlaps with {count} earlier releases, and repeat.at_most is {at_most}: who holds all of them can "
    "average their noise; begin a series that overlaps with fewer, or set repeat.at_most higher (docs/threats.md has "
    "what many releases tell)"
)


def _is_comparable(counted: CountedUnits, secret: bytes, line: dict[str, Any]) -> bool:
    """Whether the units of a release were counted so that they can be compared."""
    return "counted" in line and line["counted"]["by"] == _hex(secret, "counted by", *counted.by)


def _too_few(counted: CountedUnits, lines: Sequence[dict[str, Any]]) -> list[str]:
    """One line for the last release from which a few units differ, but not enough.

    Of whole records twice as many must differ as of one column, and in
    every combination: were it enough that as many differ, or none, who knows how many
    they are would know that they all are of one combination, or all
    have another value, as nothing would be released otherwise.
    """
    names = [*map(repr, counted.names), "the records as a whole", "the records as a whole"]
    n_columns = len(counted.names)
    for line in reversed(lines):
        changed, columns = counted.sums.changed(StoredSums(**line["counted"]).read)
        few = np.where(
            columns < n_columns, (changed > 0) & (changed < counted.at_least), changed < 2 * counted.at_least
        )
        few &= columns >= 0
        if few.any():
            where = ", ".join(sorted({names[at] for at in columns[few].tolist()}))
            return [
                _TOO_FEW.format(time=line["time"], at_least=counted.at_least, twice=2 * counted.at_least, what=where)
            ]
    return []


_TOO_FEW = (
    "since the release of {time} units joined, left or changed, but too few ({what}): {at_least} or none must in every "
    "column, and {twice} in all among the records of every combination of the columns that are released unchanged, as "
    "the difference of both releases would tell of them. Release again when more have changed; units are counted "
    "cautiously, so that it can take some more"
)


def refusal_error(overlaps: Overlaps) -> InputError:
    """The error of a run that must not release."""
    return InputError("\n".join((*overlaps.problems, REMEDY)))


def _has_other_secret(beside: _Log, where: OutputPlace | None, secret: bytes) -> bool:
    """Whether the output has a release by another secret, by its log or by the manifest of its current version."""
    if any(line["secret"] != secret_mark(secret) for line in beside.lines):
        return True
    if where is None:
        return False
    try:
        manifest = release.read_manifest(release.resolve(where.url()))
    except (AnonpipeError, OSError):
        return False
    return bool(manifest.get("secret_mark", secret_mark(secret)) != secret_mark(secret))


@dataclass(frozen=True)
class _Shared:
    """What two sketches of the same subject share: records with equal content, and the chance of as much.

    `same` is whether all that both hold agrees, and both tables have as many
    rows; `sampled` whether they hold a part of the contents only.
    """

    records: float
    chance: float
    same: bool
    sampled: bool


def _shared(ours: StoredSketch, theirs: StoredSketch, rows: tuple[int, int]) -> _Shared:
    level = max(ours.level, theirs.level)
    tables = [{m: n for m, (depth, n) in sketch.contents.items() if depth >= level} for sketch in (ours, theirs)]
    keys = sorted({*tables[0], *tables[1]})
    ours_counts, theirs_counts = (np.array([table.get(m, 0) for m in keys], dtype=np.int64) for table in tables)
    share = rows[0] / max(1, rows[0] + rows[1])
    same = rows[0] == rows[1] and bool((ours_counts == theirs_counts).all()) and len(ours_counts) > 0
    records = float(rows[0]) if same else shared_records(ours_counts, theirs_counts, level, rows)
    return _Shared(records, chance_of(ours_counts, theirs_counts, share), same, level > 0)


@dataclass(frozen=True)
class _OverlappingRelease:
    """A release that shares more with the input than chance would: how many records, in words, and its line."""

    records: float
    words: str
    line: dict[str, Any]


def _overlaps(trace: Trace, secret: bytes, lines: Sequence[dict[str, Any]]) -> list[_OverlappingRelease]:
    """The releases that share more with the input than chance would."""
    ours = {subject: _stored_sketch(secret, subject, sketch) for subject, sketch in trace.sketches.items()}
    overlapping: list[_OverlappingRelease] = []
    for line in lines:
        theirs = {common["on"]: StoredSketch(**common) for common in line["sketches"]}
        rows = trace.rows, int(line["rows"])
        shared = {s: _shared(stored, theirs[stored.on], rows) for s, stored in ours.items() if stored.on in theirs}
        sure = {subject: common for subject, common in shared.items() if common.chance < CHANCE}
        if sure:
            words = _overlap(trace, secret, line, shared, sure)
            overlapping.append(_OverlappingRelease(max(common.records for common in sure.values()), words, line))
    return overlapping


def _largest(overlapping: Sequence[_OverlappingRelease]) -> list[str]:
    """One line for the release that shares most with the input."""
    if not overlapping:
        return []
    others = "1 other release overlaps" if len(overlapping) == 2 else f"{len(overlapping) - 1} other releases overlap"
    more = f" (and {others}, less)" if len(overlapping) > 1 else ""
    return [max(overlapping, key=lambda release: (release.records, release.words)).words + more]


def _overlap(
    trace: Trace, secret: bytes, line: dict[str, Any], shared: Mapping[str, _Shared], sure: Mapping[str, _Shared]
) -> str:
    """What changed since a release, in numbers."""
    then, now = int(line["rows"]), trace.rows
    wider = [match for subject, match in shared.items() if _holds(subject, trace.columns)]
    if any(match.same for match in wider):
        return _SAME_PERSONS.format(rows=now, time=line["time"], **_columns_since(trace, secret, line))
    equal = min(max((match.records for match in wider), default=0.0), then, now)
    persons = [match.records for subject, match in sure.items() if json.loads(subject)[0] == "identifier"]
    others = {s: match.records for s, match in sure.items() if json.loads(s)[0] == "record"}
    updated = [s for s, records in others.items() if records > 1.1 * equal + 20]
    common = max(persons or [equal, *(others[subject] for subject in updated)])
    updated = [subject for subject in updated if len(json.loads(subject)) == len(trace.columns)]
    samples = ", as far as samples of the records tell" if any(match.sampled for match in shared.values()) else ""
    same, changed, added, gone = _parts(equal, common, then, now)
    return (
        f"this input overlaps with the release of {line['time']} without being equal to it, and the difference of the "
        f"two tells of single persons: {then:,} rows then, {now:,} now; about {same:,} records are equal, "
        f"{changed:,} changed, {added:,} added, {gone:,} gone"
        f"{samples}; {_COLUMNS.format(**_columns_since(trace, secret, line))}, "
        f"{len(updated)} with new values in many records{_by_identifiers_alone(sure)}"
    )


def _holds(subject: str, columns: Sequence[str]) -> bool:
    """Whether a sketch is of records with all these columns, so that what is equal there is equal in them."""
    what, *names = json.loads(subject)
    return what == "record" and set(columns) <= set(names)


def _columns_since(trace: Trace, secret: bytes, line: Mapping[str, Any]) -> dict[str, int]:
    """How many columns are as then, added and left out."""
    ours, theirs = {_hex(secret, "column", name) for name in trace.columns}, set(line["columns"])
    return {"kept": len(ours & theirs), "added": len(ours - theirs), "left": len(theirs - ours)}


def _by_identifiers_alone(sure: Mapping[str, _Shared]) -> str:
    """What to do where nothing but numbers of rows agrees, as of any two tables that number theirs from 1."""
    seen = [json.loads(subject) for subject in sure]
    if any(what != "identifier" for what, *_ in seen):
        return ""
    names = ", ".join(repr(name) for _, *names in seen for name in names)
    return (
        f". Only the identifier ({names}) agrees: if it numbers rows and names no person, give it role dropped, "
        "and only the records are compared"
    )


def _parts(equal: float, common: float, then: int, now: int) -> tuple[int, int, int, int]:
    """Records that are equal, changed, added and gone: numbers that add up to the rows of either table.

    What changed, and the fewer of those added and gone, have two digits, as more the sketches do not tell; the
    others follow.

    Examples
    --------
    >>> _parts(5_999.0, 6_000.0, 6_000, 6_001), _parts(11_321.0, 15_000.0, 15_000, 16_000)
    ((5999, 1, 1, 0), (11300, 3700, 1000, 0))
    """
    least = min(then, now)
    apart = min(_two_digits(least - common), least)
    changed = min(_two_digits(common - equal), least - apart)
    return least - apart - changed, changed, now - least + apart, then - least + apart


def _two_digits(number: float) -> int:
    return round(float(f"{max(0.0, number):.2g}"))


def note_release(trace: Trace, secret: bytes, where: OutputPlace, name: str, accepted: Sequence[str] = ()) -> list[str]:
    """Enter a release in both logs, before readers are led to it; returns warnings.

    The line counts from then on; `withdraw_note` takes it back where
    publication fails.
    """
    line = trace.line(secret, name, accepted)
    if not _is_noted(where, line):
        _append_to_output(where, line)
        try:
            _append(private_home() / LOG, line | {"anywhere": _anywhere(trace.digest)})
        except (AnonpipeError, OSError):
            return ["the release log in the steward's home cannot be written: releases to other places will not see it"]
    return []


def _is_noted(where: OutputPlace, line: dict[str, Any]) -> bool:
    """Whether an equal release stands in both logs; then there is nothing new to tell."""
    same = ("secret", "job", "population")
    logs = _read_output(where), _read_home()
    return all(any(all(old[key] == line[key] for key in same) for old in log.lines) for log in logs)


def withdraw_note(where: OutputPlace, name: str) -> None:
    """Take back what `note_release` wrote of a release that did not come out."""
    line = {"anonpipe_log": _FORM, "withdrawn": name}
    with contextlib.suppress(AnonpipeError, OSError):
        _append_to_output(where, line)
        _append(private_home() / LOG, line)


def _anywhere(digest: str) -> str:
    """A digest of the records that is the same under any secret, keyed by the steward's home."""
    return _hex(home_key(), "population", digest)


def _read_output(where: OutputPlace) -> _Log:
    steward = where.steward
    path = steward.path(LOG)
    try:
        return _parsed(steward.filesystem.cat_file(path))
    except FileNotFoundError:
        return _Log()
    except OSError:
        return _Log(readable=False)


def _read_home() -> _Log:
    try:
        path = private_home() / LOG
        return _parsed(path.read_bytes()) if path.exists() else _Log()
    except (AnonpipeError, OSError):
        return _Log(readable=False)


def _parsed(content: bytes) -> _Log:
    """The lines that can be read and were not taken back, and how many cannot."""
    lines, foreign, withdrawn = [], 0, set()
    for text in content.splitlines():
        if not text.strip():
            continue
        try:
            line = json.loads(text)
            if line["anonpipe_log"] != _FORM:
                raise ValueError
            if "withdrawn" in line:
                withdrawn.add(str(line["withdrawn"]))
            else:
                _checked(line)
                lines.append(line)
        except (ValueError, LookupError, TypeError, AttributeError, zlib.error):
            foreign += 1
    return _Log(tuple(line for line in lines if line["version"] not in withdrawn), foreign)


def _checked(line: dict[str, Any]) -> None:
    """Raise what reading the line would raise."""
    if not all(isinstance(line[name], str) for name in ("time", "version", "secret", "job", "population")):
        raise TypeError
    int(line["rows"]), set(line["columns"])
    for sketch in line["sketches"]:
        if not isinstance(StoredSketch(**sketch).level, int):
            raise TypeError
        _ = StoredSketch(**sketch).contents
    if "counted" in line:
        _ = StoredSums(**line["counted"]).read
    if not all(isinstance(name, str) for name in line.get("accepted", [])):
        raise TypeError


def _append_to_output(where: OutputPlace, line: dict[str, Any]) -> None:
    steward = where.steward
    steward.filesystem.makedirs(steward.root, exist_ok=True)
    path = steward.path(LOG)
    if steward.local:
        os.chmod(steward.root, 0o700)
        _append(Path(path), line)
        return
    before = b""
    with contextlib.suppress(FileNotFoundError):  # and nothing else: what is written replaces the file
        before = steward.filesystem.cat_file(path)
    steward.filesystem.pipe_file(path, before + _ended(before) + json.dumps(line).encode() + b"\n")


def _append(path: Path, line: dict[str, Any]) -> None:
    """Add a line, whole, under a lock; a torn one before it is ended first."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "r+b", buffering=0) as out:
        fcntl.flock(out, fcntl.LOCK_EX)
        os.fchmod(out.fileno(), 0o600)
        size = out.seek(0, os.SEEK_END)
        out.seek(max(0, size - 1))
        os.write(out.fileno(), _ended(out.read(1)) + json.dumps(line).encode() + b"\n")
        os.fsync(out.fileno())


def _ended(before: bytes) -> bytes:
    """What ends the last line."""
    return b"" if not before or before.endswith(b"\n") else b"\n"
