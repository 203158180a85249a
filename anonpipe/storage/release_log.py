"""The release logs: earlier releases, so that no later one discloses the difference.

Two releases that differ by a few persons disclose these, and noise drawn twice for the same persons can be averaged
out. So each release adds a line to a log in the output (`steward/releases.jsonl`) and to one in the steward's home; the
next run is compared with both. A line holds only keyed digests and numbers of records, and is never part of a release.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from hashlib import blake2b
from itertools import repeat
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from anonpipe.environment import package_versions
from anonpipe.errors import AnonpipeError, InputError, plural
from anonpipe.files import explained
from anonpipe.rng import home_key, keyed, private_home
from anonpipe.storage import release, versions
from anonpipe.storage.sketch import Sketch, UnitSums, chance_of, chance_of_shifted, shared_records
from anonpipe.storage.versions import OutputPlace

LOG = "releases.jsonl"
_FORM = 2
_MARK_BYTES = 6
_CONTENT = itemgetter("secret", "job", "population")  # Equal in the lines of releases that are the same

CHANCE = 1e-6  # Probability below which the best of all comparisons is not taken for chance
_LARGEST_CELL = 8.0  # Mean records that share an excerpt, above which quotas could explain equal counts
_RECORDS = ("record", "with dropped", "without one")  # Kinds of sketches that hold records of which columns may lack


@dataclass(frozen=True, eq=False)
class CountedUnits:
    """The units of a growing register, as `repeat.growing` compares them."""

    by: tuple[str, ...]  # The unit, unchanged columns, and all: counts by others cannot be compared
    # The released columns, by name, as `UnitSums.columns` numbers them; what has other numbers is of whole records
    names: tuple[str, ...]
    sums: UnitSums  # What was counted
    min_changed: int  # Units that must differ in a column, if any do; twice as many in all, in each combination
    max_overlapping: int  # Releases that may overlap, this one among them


@dataclass(frozen=True)
class Trace:
    """An input as the logs compare it."""

    digest: str  # Of the released content: `Scan.digest`
    job: str  # Digest of the job
    rows: int  # Records, held-out ones included
    columns: tuple[str, ...]  # Names of the released columns
    sketches: Mapping[str, Sketch]  # By subject; see `anonpipe.storage.sketch`
    counted: CountedUnits | None = None  # None unless `repeat.growing` is set
    k: int | None = None

    def line(self, secret: bytes, name: str, accepted: Sequence[str] = ()) -> dict[str, Any]:
        """The log line of a release of this input; for `accepted` see `Overlaps.uncounted`."""
        return {
            "anonpipe_log": _FORM,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "version": name,
            "secret": secret_mark(secret),
            "job": _job(secret, self.job),
            "k": self.k,
            "population": _hex(secret, "population", self.digest),
            "rows": self.rows,
            "columns": [_hex(secret, "column", column) for column in self.columns],
            "sketches": [
                asdict(_stored_sketch(secret, subject, sketch))
                for subject, sketch in self.sketches.items()
                if not _shift(subject)
            ],
            **({} if self.counted is None else {"counted": asdict(_stored_sums(secret, self.counted))}),
            **({"accepted": list(accepted)} if accepted else {}),
        }


@dataclass(frozen=True)
class StoredSketch:
    """A sketch as a log keeps it: keyed one-way digests and numbers of records."""

    on: str  # Keyed digest of what can be compared with it: its kind, and no name of a column
    level: int  # The sketch's level
    depths: str  # Of each content the level up to which it stays, packed
    marks: str  # Keyed digests of the contents, packed
    counts: str  # The records of each, packed

    @cached_property
    def contents(self) -> dict[bytes, tuple[int, int]]:
        """Depth and records of each content, by mark."""
        marks, depths, counts = self.unpacked()
        keys = [marks[at : at + _MARK_BYTES] for at in range(0, len(marks), _MARK_BYTES)]
        return dict(zip(keys, zip(depths.tolist(), counts.tolist(), strict=True), strict=True))

    def unpacked(self) -> tuple[bytes, npt.NDArray[Any], npt.NDArray[Any]]:
        """Marks, depths and records; a ValueError where they are not of equally many contents."""
        depths, counts = _unpacked(self.depths, "u1"), _unpacked(self.counts, "<u4")
        marks = base64.b64decode(self.marks)
        if not len(marks) == _MARK_BYTES * len(depths) == _MARK_BYTES * len(counts):
            raise ValueError("a sketch of a log is not whole")
        return marks, depths, counts


@dataclass(frozen=True)
class StoredSums:
    """Sums of units as a log keeps them."""

    by: str  # Keyed digest of the columns that they are counted by
    buckets: int  # Of each row of sums
    marks: str  # As of `UnitSums`, packed
    sums: str  # Likewise

    @cached_property
    def read(self) -> UnitSums:
        """The sums; columns are not kept."""
        marks = _unpacked(self.marks, "<u8").astype(np.uint64)
        sums = _unpacked(self.sums, "<u4").astype(np.uint32).reshape(len(marks), self.buckets)
        return UnitSums(marks, np.full(len(marks), -1, dtype=np.int64), sums)


def _stored_sums(secret: bytes, counted: CountedUnits) -> StoredSums:
    marks, sums = counted.sums.marks, counted.sums.sums
    by = _hex(secret, "counted by", *counted.by)
    return StoredSums(by, sums.shape[1], _packed(marks.astype("<u8")), _packed(sums.astype("<u4")))


def _stored_sketch(secret: bytes, subject: str, sketch: Sketch) -> StoredSketch:
    key = keyed(secret, "marks of records")
    marks = _marks(key, sketch.numbers.tobytes())
    order = np.lexsort(marks.T[::-1])
    # The bit below the highest is cleared, so that rounding to a float changes no number of bits
    numbers = sketch.numbers[order]
    depths = (64 - np.frexp((numbers & ~(numbers >> np.uint64(1))).astype(float))[1]).astype(np.uint8)
    counts = np.minimum(sketch.counts[order], 2**32 - 1).astype("<u4")
    on, packed = _hex(secret, "subject", _comparable(subject)), base64.b64encode(marks[order].tobytes())
    return StoredSketch(on, sketch.level, _packed(depths), packed.decode(), _packed(counts))


def _comparable(subject: str) -> str:
    """Sketches of equal such texts are compared: all of identifiers, all of records, excerpts of one size."""
    kind = _kind(subject)
    return "records" if kind in _RECORDS else kind


def _kind(subject: str) -> str:
    return str(json.loads(subject)[0]).partition(" +")[0]


def _shift(subject: str) -> str:
    """The number that was added to an identifier; nothing where none was."""
    return str(json.loads(subject)[0]).partition(" +")[2]


@lru_cache(maxsize=256)
def _marks(key: bytes, numbers: bytes) -> npt.NDArray[np.uint8]:
    """Keyed digests of numbers of eight bytes, one a row; cached, as a run needs those of a sketch three times."""
    starts = range(0, len(numbers), 8)
    made = (blake2b(numbers[at : at + 8], digest_size=_MARK_BYTES, key=key).digest() for at in starts)
    return np.frombuffer(b"".join(made), dtype=np.uint8).reshape(-1, _MARK_BYTES)


def _packed(values: npt.NDArray[Any]) -> str:
    return base64.b64encode(zlib.compress(values.tobytes())).decode()


def _unpacked(packed: str, kind: str) -> npt.NDArray[Any]:
    return np.frombuffer(zlib.decompress(base64.b64decode(packed)), dtype=kind)


def secret_mark(secret: bytes) -> str:
    """A public mark of a secret: equal for equal secrets, and without information on the secret."""
    return keyed(secret, "ledger mark").hex()[:16]


def _hex(secret: bytes, *parts: str) -> str:
    return keyed(secret, *parts).hex()[:32]


def _job(secret: bytes, digest: str) -> str:
    """A digest of the job and the version of anonpipe, which both determine the noise."""
    return _hex(secret, "job", digest, package_versions()["anonpipe"])


@dataclass(frozen=True)
class Overlaps:
    """Overlaps of a run with earlier releases."""

    problems: tuple[str, ...] = ()  # Reasons to refuse the run unless the steward allows it; one line each
    warnings: tuple[str, ...] = ()  # Releases that could not be compared
    held: int = 0  # Overlapping releases from which enough units of a growing register differ
    # Names of overlapping releases whose units were not counted, which is a problem. If the steward allows this run,
    # its line accepts them for later ones
    uncounted: tuple[str, ...] = ()
    again: str = ""  # The release that comes out again as it was


@dataclass(frozen=True)
class _Log:
    """Lines of one log, without those that are torn or of another program."""

    lines: tuple[dict[str, Any], ...] = ()
    repeated: tuple[dict[str, Any], ...] = ()  # Short lines of versions that equal an earlier one
    withdrawn: Mapping[str, dict[str, Any]] = field(default_factory=dict)  # Versions, also if their equal is still out
    received: tuple[dict[str, Any], ...] = ()  # Lines of those that were out before they were withdrawn
    foreign: int = 0
    readable: bool = True


def find_overlaps(trace: Trace, secret: bytes, where: OutputPlace | None) -> Overlaps:
    """Compare an input with all earlier releases in the logs."""
    in_output, home = _Log() if where is None else _read_output(where), _read_home()
    warnings = [] if where is None else unfinished(where, in_output)
    for log, what in ((in_output, "in the output"), (home, "in the steward's home")):
        if not log.readable:
            warnings.append(f"the release log {what} cannot be read, so its releases are not compared")
        if log.foreign:
            warnings.append(f"the release log {what} has {plural(log.foreign, 'line')} that cannot be read")
    own = secret_mark(secret)
    releases = {str(line["version"]): line for line in (*home.lines, *in_output.lines) if line["secret"] == own}
    job, population = _job(secret, trace.job), _hex(secret, "population", trace.digest)
    for name, line in releases.items():
        if (line["job"], line["population"]) == (job, population):
            return Overlaps((), tuple(warnings), again=name)
    received = {str(line["version"]): line for line in (*home.received, *in_output.received) if line["secret"] == own}
    again = [line for line in received.values() if (line["job"], line["population"]) != (job, population)]
    warnings += _received(trace, secret, again, population)
    problems = [_OTHER_SECRET] if _has_other_secret(in_output, where, secret) else []
    if others := [line for line in home.lines if line["secret"] != own]:
        everywhere = _anywhere(trace.digest)
        equal = [line for line in others if line.get("anywhere") == everywhere]
        problems += [_SAME_RECORDS.format(time=line["time"], what="secret") for line in equal[-1:]]
        if not equal:
            warnings.append(_UNCOMPARED.format(count=len(others)))
    same = [line for line in releases.values() if line["population"] == population]
    problems += [_SAME_RECORDS.format(time=line["time"], what=_JOB + _ks(trace, line)) for line in same[-1:]]
    overlapping = [] if same else _overlaps(trace, secret, list(releases.values()))
    if trace.counted is None or not overlapping:
        return Overlaps((*problems, *_largest(overlapping)), tuple(warnings))
    lines = [release.line for release in overlapping]
    accepted = {name for line in releases.values() for name in line.get("accepted", ())}
    by = _hex(secret, "counted by", *trace.counted.by)
    of_units = [line for line in lines if line.get("counted", {}).get("by") == by]
    uncounted = [str(line["version"]) for line in lines if line not in of_units and line["version"] not in accepted]
    if uncounted:
        at_least = trace.counted.min_changed
        problems.append(_UNCOUNTED.format(count=len(uncounted), names=", ".join(uncounted), at_least=at_least))
    problems += _too_few(trace.counted, of_units)
    if len(lines) + 1 > trace.counted.max_overlapping:
        problems.append(_TOO_MANY.format(count=len(lines), at_most=trace.counted.max_overlapping))
    return Overlaps(tuple(problems), tuple(warnings), len(of_units), tuple(uncounted))


def _received(trace: Trace, secret: bytes, lines: Sequence[dict[str, Any]], population: str) -> list[str]:
    """One line for the withdrawn releases that overlap with the input, as recipients may have them."""
    same = [line for line in lines if line["population"] == population]
    overlapping = same or [each.line for each in _overlaps(trace, secret, lines)]
    return [_RECEIVED.format(names=", ".join(str(line["version"]) for line in overlapping))] if overlapping else []


# --- Texts of problems and notes

_JOB = "job (k, columns or methods), or by another version of anonpipe"
_SAME_RECORDS = (
    "the same records were released at {time} under another {what}: holders of both releases can average out the noise"
)
_COLUMNS = "columns: {kept} as then, {added} added, {left} left out"
_SAME_PERSONS = (
    "the same {rows:,} records, judged by samples, were released at {time} under another job{k}: other columns, "
    "k, bounds, methods, recoding, units or copies, or another hold-out (" + _COLUMNS + "). Holders of both releases "
    "can average out the noise, and join their columns"
)
_OTHER_JOB = (
    ". The job is another one: records count as changed, too, where it has another k, or recodes or drops other columns"
)
_OTHER_SECRET = (
    "the releases in this output were drawn with another secret, so their overlap with this input is unknown. Holders "
    "of both can average out the noise: set ANONPIPE_SECRET or ANONPIPE_SECRET_FILE to the secret of these releases"
)
_UNCOMPARED = (
    "the steward's home lists {count} releases under other secrets. None is of exactly these records; a partial "
    "overlap cannot be detected"
)
REMEDY = (
    "with job, secret and input of the earlier release, the same release comes out again. If nobody received it, or "
    'both may be known together, allow it in the job: repeat: {allow: "why"} (or --set repeat.allow="why"); the '
    "reports quote the reason. To try settings without a release: anonpipe run --trial, or anonpipe compare"
)
_RECEIVED = (
    "persons of this input are in {names}, withdrawn since: its recipients can compare both releases. No check "
    "counts it any more. If anybody has it, release again with its own job, which gives the same noise"
)
HELD = (
    "repeat.growing: {count} of the earlier releases overlap with this one. From each, at least {at_least} units "
    "differ, or none, in every column. Twice as many differ in all, in every combination of the unchanged columns"
)
ALLOWED = "earlier releases that overlap with this one were allowed by the job: "
_UNCOUNTED = (
    "repeat.growing counts units, but {count} of the earlier releases that overlap with this input did not: they "
    "counted none, or by another unit or in other columns: {names}. So how many units differ from them is unknown, and "
    "their difference to this one can disclose them. A series can begin now: when by your own count {at_least} or more "
    'have joined, left or changed in every column, allow this one run: --set repeat.allow="why". Later runs need no '
    "allow and are compared with this release"
)
_TOO_MANY = (
    "this input overlaps with {count} earlier releases, and repeat.max_overlapping is {at_most}: holders of all can "
    "average out their noise. Begin a new series, or set repeat.max_overlapping higher (see docs/threats.md)"
)
_TOO_FEW = (
    "since the release of {time} units joined, left or changed, but too few ({what}): {at_least} or none must in every "
    "column, and {twice} in all in every combination of the unchanged columns. Otherwise the difference of both "
    "releases discloses them. Release again when more have changed; the count is cautious, so it can take some more"
)


def _too_few(counted: CountedUnits, lines: Sequence[dict[str, Any]]) -> list[str]:
    """One line for the last release from which units differ, but too few."""
    # Of whole records twice as many must differ as of one column, in every combination. Were as many enough, the
    # fact of a release would disclose that all who changed share one combination, or all have another value.
    names = [*map(repr, counted.names), "the records as a whole", "the records as a whole"]
    once, twice = counted.min_changed, 2 * counted.min_changed
    for line in reversed(lines):
        changed, columns = counted.sums.changed(StoredSums(**line["counted"]).read)
        few = np.where(columns < len(counted.names), (changed > 0) & (changed < once), changed < twice) & (columns >= 0)
        if few.any():
            what = ", ".join(sorted({names[at] for at in columns[few].tolist()}))
            return [_TOO_FEW.format(time=line["time"], at_least=once, twice=twice, what=what)]
    return []


def refusal_error(overlaps: Overlaps) -> InputError:
    """The error of a run that must not release."""
    return InputError("\n".join((*overlaps.problems, *overlaps.warnings, f"nothing was released; {REMEDY}")))


def _has_other_secret(in_output: _Log, where: OutputPlace | None, secret: bytes) -> bool:
    """Whether the output has a release by another secret, by its log or its current manifest."""
    marks = {line["secret"] for line in in_output.lines}
    if where is not None and not marks - {secret_mark(secret)}:
        with contextlib.suppress(AnonpipeError, OSError):
            manifest = release.read_manifest(release.resolve(where.url()))
            marks.add(str(manifest.get("secret_mark", secret_mark(secret))))
    return bool(marks - {secret_mark(secret)})


@dataclass(frozen=True)
class _Shared:
    """The overlap of two sketches of the same subject."""

    records: float  # With equal content
    chance: float  # Upper bound of the probability of so large an overlap by chance
    same: bool  # Whether both sketches and both numbers of rows are equal
    sampled: bool  # Whether the sketches hold only a part of the contents
    per_content: float  # Mean number of records with equal content


def _by_shift(sketches: Mapping[str, StoredSketch]) -> tuple[dict[str, StoredSketch], dict[str, list[StoredSketch]]]:
    """Sketches by subject, and by the same subject those with a number added to its identifier."""
    plain: dict[str, StoredSketch] = {}
    shifted: dict[str, list[StoredSketch]] = {}
    for subject, sketch in sketches.items():
        if _shift(subject):
            unshifted = json.dumps([_kind(subject), *json.loads(subject)[1:]])
            shifted.setdefault(unshifted, []).append(sketch)
        else:
            plain[subject] = sketch
    return plain, shifted


def _shared(
    ours: StoredSketch, others: Sequence[StoredSketch], rows: tuple[int, int], shifted: Sequence[StoredSketch]
) -> _Shared:
    """The overlap with the sketch that has most contents in common with ours."""
    theirs = max(others, key=lambda other: sum(map(ours.contents.__contains__, other.contents)))
    level = max(sketch.level for sketch in (ours, theirs, *shifted))
    tables = [{m: n for m, (depth, n) in sketch.contents.items() if depth >= level} for sketch in (ours, theirs)]
    keys = sorted({*tables[0], *tables[1]})
    ours_counts, theirs_counts = (np.fromiter(map(table.get, keys, repeat(0)), np.int64) for table in tables)
    share = rows[0] / max(1, rows[0] + rows[1])
    same = rows[0] == rows[1] and bool((ours_counts == theirs_counts).all()) and len(ours_counts) > 0
    per_content = (ours_counts.sum() + theirs_counts.sum()) / max(1, 2 * len(keys))
    records = float(rows[0]) if same else shared_records(ours_counts, theirs_counts, level, rows)
    chance = chance_of(ours_counts, theirs_counts, share)
    if shifted:
        # Numbers of rows agree in any two tables, and values in these rows by chance: about as often if shifted
        agreeing = int(np.count_nonzero((ours_counts > 0) & (theirs_counts > 0)))
        by_chance = max(
            sum(depth >= level and mark in tables[1] for mark, (depth, _) in sketch.contents.items())
            for sketch in shifted
        )
        chance = max(chance, chance_of_shifted(agreeing, by_chance))
        same = False
    return _Shared(records, chance, same, level > 0, per_content)


@dataclass(frozen=True)
class _OverlappingRelease:
    """A release that shares more with the input than expected by chance."""

    records: float  # That both share
    words: str  # The overlap as text
    line: dict[str, Any]  # Of the log


def _overlaps(trace: Trace, secret: bytes, lines: Sequence[dict[str, Any]]) -> list[_OverlappingRelease]:
    """The releases that share more with the input than expected by chance."""
    if not lines:  # of a first release nothing is to be digested
        return []
    stored = {subject: _stored_sketch(secret, subject, sketch) for subject, sketch in trace.sketches.items()}
    ours, shifted = _by_shift(stored)
    own_rows_per_unit = _rows_per_unit(list(stored.values()), secret)
    overlapping: list[_OverlappingRelease] = []
    for line in lines:
        theirs = [StoredSketch(**stored) for stored in line["sketches"]]
        rows = trace.rows, int(line["rows"])
        pairs = {subject: [other for other in theirs if other.on == sketch.on] for subject, sketch in ours.items()}
        limit = CHANCE / max(1, sum(map(len, pairs.values())))
        per_unit = max(own_rows_per_unit, _rows_per_unit(theirs, secret))
        shared = {
            subject: _shared(ours[subject], others, rows, shifted.get(subject, ()))
            for subject, others in pairs.items()
            if others
        }
        sure = {subject: common for subject, common in shared.items() if _is_sure(subject, common, limit, per_unit)}
        if sure:
            words = _overlap(trace, secret, line, shared, sure)
            overlapping.append(_OverlappingRelease(max(common.records for common in sure.values()), words, line))
    return overlapping


def _is_sure(subject: str, shared: _Shared, limit: float, per_unit: float) -> bool:
    """Whether the overlap is no chance; excerpts count where few records share one."""
    if not _kind(subject).startswith(("excerpt", "numbered")):
        return shared.chance < limit
    # Quotas fill cells with equal numbers of other persons, and rows of one person are no independent draws
    return shared.per_content <= _LARGEST_CELL and shared.chance ** (1.0 / per_unit) < limit


def _rows_per_unit(sketches: Sequence[StoredSketch], secret: bytes) -> float:
    """Records per value of the identifier that repeats most, 1 without one."""
    # Rows of a person share values, so that excerpts of them are no independent draws
    identifier = _hex(secret, "subject", "identifier")
    of_identifiers = [[n for _, n in sketch.contents.values()] for sketch in sketches if sketch.on == identifier]
    return max((sum(counts) / len(counts) for counts in of_identifiers if counts), default=1.0)


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
    """The text on an overlapping release: equal, changed, added and missing records."""
    then, now = int(line["rows"]), trace.rows
    kinds = {subject: json.loads(subject)[0] for subject in shared}
    wider = [match for subject, match in shared.items() if kinds[subject] in ("record", "with dropped")]
    if any(match.same for match in wider):
        columns = _columns_since(trace, secret, line)
        return _SAME_PERSONS.format(rows=now, time=line["time"], k=_ks(trace, line), **columns)
    equal = min(max((match.records for match in wider), default=0.0), then, now)
    named = shared if any(kinds[subject] == "numbered" for subject in sure) else sure
    persons = [match.records for subject, match in named.items() if kinds[subject] == "identifier"]
    others = {s: match.records for s, match in sure.items() if kinds[s] not in ("identifier", "numbered")}
    updated = [s for s, records in others.items() if records > 1.1 * equal + 20]
    common = max(persons or [equal, *(others[subject] for subject in updated)])
    updated = [subject for subject in updated if kinds[subject] == "without one"]
    samples = ", judged by samples" if any(match.sampled for match in shared.values()) else ""
    same, changed, added, gone = _parts(equal, common, then, now)
    other_job = _OTHER_JOB + _ks(trace, line) if line["job"] != _job(secret, trace.job) else ""
    return (
        f"this input overlaps with the release of {line['time']}, so that their difference can disclose single "
        f"persons: {then:,} rows then, {now:,} now; about {same:,} records are equal, {changed:,} changed, "
        f"{added:,} added, {gone:,} gone{samples}; {_COLUMNS.format(**_columns_since(trace, secret, line))}, "
        f"{len(updated)} with new values in many records{other_job}{_by_identifiers_alone(sure)}"
    )


def _ks(trace: Trace, line: Mapping[str, Any]) -> str:
    """The k of both releases where they differ; empty where the line is of a version that did not keep it."""
    then = line.get("k") or trace.k
    return "" if then == trace.k else f" (k={then} then, k={trace.k} now)"


def _columns_since(trace: Trace, secret: bytes, line: Mapping[str, Any]) -> dict[str, int]:
    """Numbers of columns that are unchanged, added and left out since a release."""
    ours, theirs = {_hex(secret, "column", name) for name in trace.columns}, set(line["columns"])
    return {"kept": len(ours & theirs), "added": len(ours - theirs), "left": len(theirs - ours)}


def _by_identifiers_alone(sure: Mapping[str, _Shared]) -> str:
    """A remedy where nothing agrees without an identifier."""
    seen = [json.loads(subject) for subject in sure]
    if any(what not in ("identifier", "numbered") for what, *_ in seen):
        return ""
    names = ", ".join(sorted({repr(names[0]) for _, *names in seen}))
    values = "" if any(what == "identifier" for what, *_ in seen) else " together with single values in its row"
    return (
        f". Only the identifier ({names}) agrees{values}. If it numbers rows and names no person, give it role: "
        "dropped; then only the records are compared"
    )


def _parts(equal: float, common: float, then: int, now: int) -> tuple[int, int, int, int]:
    """Records that are equal, changed, added and gone, of two digits; they add up to the rows of either table."""
    least = min(then, now)
    apart = min(_two_digits(least - common), least)
    changed = min(_two_digits(common - equal), least - apart)
    return least - apart - changed, changed, now - least + apart, then - least + apart


def _two_digits(number: float) -> int:
    return round(float(f"{max(0.0, number):.2g}"))


def note_release(trace: Trace, secret: bytes, where: OutputPlace, name: str, accepted: Sequence[str] = ()) -> list[str]:
    """Enter a release in both logs before it is published; returns warnings. `withdraw_note` takes it back."""
    line = trace.line(secret, name, accepted) | {"output": _hex(b"output", where.url())}
    if all(_CONTENT(line) in map(_CONTENT, log.lines) for log in (_read_output(where), _read_home())):
        line = {key: line[key] for key in ("anonpipe_log", "time", "output", "secret", "job", "population")}
        line["repeated"] = name
    _append_to_output(where, line)
    try:
        _append(private_home() / LOG, line | {"anywhere": _anywhere(trace.digest)})
    except (AnonpipeError, OSError):
        return ["the release log in the steward's home cannot be written: other outputs will not compare with it"]
    return []


def withdraw_note(where: OutputPlace, name: str) -> None:
    """Take back the entry of a release that was not published."""
    line = {"anonpipe_log": _FORM, "withdrawn": name}
    with contextlib.suppress(AnonpipeError, OSError):
        _append_to_output(where, line)
        _append(private_home() / LOG, line)


def withdraw(url: str, because: str, internal: str | None = None) -> tuple[str, str | None, list[str]]:
    """Take back a version, the current one unless one is named; returns it, the current one, and its equals still out.

    Its files and reports are deleted. The logs keep its line and say that it was withdrawn. It counts until no files of
    it or of an equal version are left. A withdrawal that was cut short is completed by another one.
    """
    if not because.strip():
        raise InputError("--because is empty; say why the release is withdrawn: the log keeps it")
    output, name = versions.named_version(url)
    where = release.place(output, internal)
    if not (versions.exists(where, versions.VERSIONS) or versions.withdrawn(where)):
        raise InputError(f"there is no release at {url}; give the folder of a version, or the output folder of a run")
    with versions.exclusive_lock(where):
        log = _read_output(where)
        name = _known_version(where, url, name or versions.current_version(where), log)
        equal, remaining = _equal_versions(where, log, name)
        if remaining and not (versions.exists(where, versions.VERSIONS, name) or name in versions.withdrawn(where)):
            at = where.url(versions.VERSIONS, remaining[-1])
            raise InputError(f"the files of {name} are gone; the same release is still out: withdraw {at}")
        note = {"withdrawn": name, "time": datetime.now(UTC).isoformat(timespec="seconds"), "because": because}
        line = {"anonpipe_log": _FORM, **note, **({"remaining": remaining} if remaining else {"equal": equal})}
        # The note first and the output's log last: between them it is unfinished
        with explained(f"{where.url()} cannot be changed", "correct its permissions, then withdraw again"):
            release.keep_private(where, "withdrawn", {f"{name}.json": json.dumps({"version": name, **note}).encode()})
            versions.unpoint(where, name)
            versions.remove_version(where, name)
            _append(private_home() / LOG, line)
            _append_to_output(where, line)
        return name, versions.current_version(where), remaining


def _known_version(where: OutputPlace, url: str, name: str | None, of_output: _Log) -> str:
    """The version to withdraw; an error where neither files nor logs know it."""
    log, home, withdrawn = _named(of_output), _named(_read_home()), versions.withdrawn(where)
    if name in home and name not in {*log, *withdrawn} and not versions.exists(where.steward, LOG):
        raise InputError(
            f"{where.steward.url()} holds no release log, and the one in the steward's home knows {name}: give "
            "--internal, as the job's report.internal says"
        )
    logged = name in {*log, *home, *withdrawn} and not _is_elsewhere(where, log.get(str(name), {}))
    if name is not None and (logged or versions.exists(where, versions.VERSIONS, name)):
        return name
    hints = [f"withdrawn were {', '.join(withdrawn)}"] * bool(withdrawn) + unfinished(where, of_output)
    hints += [f"not current is {where.url(versions.VERSIONS, each)}" for each in versions.list_versions(where)]
    raise InputError("; ".join((f"there is no release at {url}", *hints)))


def _named(log: _Log) -> dict[str, dict[str, Any]]:
    """The lines of a log by version."""
    return {str(line.get("repeated", line.get("version"))): line for line in (*log.lines, *log.repeated)}


def _is_elsewhere(where: OutputPlace, line: Mapping[str, Any]) -> bool:
    """Whether a line is of another output that shares the log: of its files nothing is known."""
    return where.internal is not None and line.get("output") not in (None, _hex(b"output", where.url()))


def _equal_versions(where: OutputPlace, log: _Log, name: str) -> tuple[list[str], list[str]]:
    """The versions that equal one by the log, and those of them that are published."""
    named, there = _named(log), set(versions.list_versions(where)) - {name}
    if name not in named:
        return [], []
    equal = {each for each, line in named.items() if each != name and _CONTENT(line) == _CONTENT(named[name])}
    there |= {each for each in equal - log.withdrawn.keys() if _is_elsewhere(where, named[each])}
    unknown = there - set(named) - log.withdrawn.keys()  # logs had no lines of equal versions
    return sorted(equal), sorted((there & equal) | unknown, key=versions.version_order)


def unfinished(where: OutputPlace, log: _Log | None = None) -> list[str]:
    """One line for each withdrawal that was cut short, with the command that finishes it."""
    log, option = log or _read_output(where), f" --internal {where.internal.url()}" if where.internal else ""
    return [
        f"the withdrawal of {name} is unfinished, and it counts until then; finish it: anonpipe withdraw "
        f'{where.url(versions.VERSIONS, name)} --because "why"{option}'
        for name in sorted({each["version"] for each in versions.withdrawals(where)} - log.withdrawn.keys())
        if log.readable and not _is_elsewhere(where, _named(log).get(name, {}))
    ]


def history(where: OutputPlace) -> list[tuple[str, str, int, bool]]:
    """The releases of an output by its log, the oldest first: version, time, original records, whether withdrawn."""
    log = _read_output(where)
    lines = [line for line in log.lines if not _is_elsewhere(where, line)]
    return [(line["version"], line["time"], line["rows"], line["version"] in log.withdrawn) for line in lines]


def known_as_withdrawn(name: str) -> bool:
    """Whether the log in the steward's home says that a version was withdrawn, wherever a copy of it lies."""
    return name in _read_home().withdrawn


def refuse_withdrawn(url: str) -> None:
    """As that of `release`, by the log in the steward's home, where internal reports lie elsewhere."""
    output, name = versions.named_version(url)
    home, at = _read_home(), _hex(b"output", release.place(output).url())
    here = [line["version"] for line in home.received if line.get("output") == at] if name is None else [name]
    if gone := [each for each in here if "because" in home.withdrawn.get(each, {})]:
        raise release.withdrawn_error(gone[-1], home.withdrawn[gone[-1]])


def _anywhere(digest: str) -> str:
    """A digest of the records that does not depend on the secret, keyed by the steward's home."""
    return _hex(home_key(), "population", digest)


def _read_output(where: OutputPlace) -> _Log:
    return _read(lambda: where.steward.filesystem.cat_file(where.steward.path(LOG)))


def _read_home() -> _Log:
    return _read(lambda: (private_home() / LOG).read_bytes())


def _read(content: Callable[[], bytes]) -> _Log:
    try:
        return _parsed(content())
    except FileNotFoundError:
        return _Log()
    except (AnonpipeError, OSError):
        return _Log(readable=False)


def _parsed(content: bytes) -> _Log:
    """The readable lines that were not taken back, and the number of unreadable ones."""
    lines, repeated, foreign, withdrawn, stopped, received = [], [], 0, dict[str, dict[str, Any]](), set(), set()
    for text in filter(bytes.strip, content.splitlines()):
        try:
            line = json.loads(text)
            if line["anonpipe_log"] != _FORM:
                raise ValueError
            if "withdrawn" in line:
                withdrawn[str(line["withdrawn"])] = line
                gone = set() if "remaining" in line else {str(line["withdrawn"]), *line.get("equal", ())}
                stopped |= gone
                received |= gone if "because" in line else set()  # else it was taken back before it was out
            elif "repeated" in line:
                repeated += [line] if all(_CONTENT(line)) else []
            else:
                _checked(line)
                lines.append(line)
        except (ValueError, LookupError, TypeError, AttributeError, zlib.error):
            foreign += 1
    counting = tuple(line for line in lines if line["version"] not in stopped)
    gone_lines = tuple(line for line in lines if line["version"] in received)
    return _Log(counting, tuple(repeated), withdrawn, gone_lines, foreign)


def _checked(line: dict[str, Any]) -> None:
    """Raise an error if a line cannot be read."""
    texts = [line[name] for name in ("time", "version", "secret", "job", "population")] + line.get("accepted", [])
    int(line["rows"]), set(line["columns"])
    sketches = [StoredSketch(**sketch) for sketch in line["sketches"]]
    if not (all(isinstance(text, str) for text in texts) and all(isinstance(each.level, int) for each in sketches)):
        raise TypeError
    _ = [sketch.unpacked() for sketch in sketches], "counted" in line and StoredSums(**line["counted"]).read


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
    """Add a whole line under a lock, after ending a torn one."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "r+b", buffering=0) as out:
        fcntl.flock(out, fcntl.LOCK_EX)
        os.fchmod(out.fileno(), 0o600)
        out.seek(max(0, out.seek(0, os.SEEK_END) - 1))
        os.write(out.fileno(), _ended(out.read(1)) + json.dumps(line).encode() + b"\n")
        os.fsync(out.fileno())


def _ended(before: bytes) -> bytes:
    """A line feed if the last line has none."""
    return b"" if not before or before.endswith(b"\n") else b"\n"
