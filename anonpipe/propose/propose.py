"""A first job for an unknown table: kinds and roles guessed from names, types and a bounded sample.

The text holds column names and no value of the data. So it proposes neither
bounds nor categories nor events: these come from the code book, and the
steward writes them. Only what a file itself declares is taken from it, the categories of an ordered column, in
their order (`declared_order`), and the step of numbers that all lie on one (`common_step`). Columns that follow from
others are proposed as dropped, because masking them one by one would contradict or betray the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import yaml

from anonpipe.columns import Column, Kind, Role, Scalar
from anonpipe.encoding.pandas_types import is_index
from anonpipe.encoding.values import is_date, is_number, is_supported, numbers, of_days, plain, plain_type
from anonpipe.errors import JobError
from anonpipe.evaluate.risk import least_shown
from anonpipe.job.analyses import RESPONSE_WEIGHT, USUAL_LIMITS, Needs, Survival, needs_of
from anonpipe.job.model import Measure, RecipientAnalysis
from anonpipe.propose.forms import Form, form_of
from anonpipe.propose.repeating import Sureness, repeating
from anonpipe.propose.steps import common_step
from anonpipe.source import Source, Unit, opened, read_batches

if TYPE_CHECKING:
    from jinja2 import Template

Floats = npt.NDArray[np.float64]

SAMPLE_ROWS = 50_000
"""Rows that the guesses rest on."""
SAMPLE_PIECES = 16
"""Places of the input, evenly spread, that the sample is read from: files are often sorted by time."""
_CSV_BATCH_ROWS = 4_096
FEW_CODES = 10
"""Whole numbers with no more distinct values than this are taken for codes."""
MANY_CATEGORIES = 200
MANY_SHARE = 0.10
"""Texts with more distinct values than either are not categories."""
CLASS_ROWS = 10
"""A class of a number has this many rows in its second largest category at least; less may be chance."""
ENOUGH_ROWS = 20
"""Fewer rows than this tell nothing about uniqueness or dependence."""
LARGEST = 1e100
"""Greater numbers, infinity among them, count as null: their squares overflow."""
THIN_ROWS = 1_000
"""Rows of the first, quick look for a dependence."""
NEARLY_ALL = 0.95
"""Share of the rows of a number in which a date is known, too, or the number is not taken for a part of it."""
SAME_CORRELATION = 0.99999
DAYS_IN = {"days": 1.0, "months": 30.4375, "years": 365.25}

FEW_RECORDS = 50
"""Fewer records than this are not drawn by a mixture: covariances come out 0.1 off, and more (`by_mask.EXCHANGED`)."""

MERGED = 100
"""Records of a stratum under which `strata.small: merge` moves them, by the usual limit (`by_mask.needed`)."""

SMALL_STRATUM = 4
"""Times k: in a smaller stratum categories that a quarter of its records have are of fewer than k."""

_IDENTIFYING = frozenset(
    (
        "id", "ids", "uid", "uuid", "guid", "pid", "ssn", "mrn", "nhs", "nino", "passport", "iban",
        "email", "mail", "phone", "telephone", "mobile", "fax", "address", "street",
        "name", "surname", "forename", "firstname", "lastname", "fullname",
    )
)  # fmt: skip
_UNIT_NUMBERS = frozenset(
    f"{unit}{number}"
    for unit in ("patient", "pat", "person", "subject", "participant", "member", "client", "customer", "employee",
                 "student", "pupil", "user", "household", "utility", "firm", "company", "plant", "case", "record")
    for number in ("id", "no", "nr", "num", "number", "key")
)  # fmt: skip
"""Written without a mark between the two words."""
_NO_SURVIVAL = frozenset(
    ("marital", "employment", "smoking", "smoker", "insurance", "housing", "civil", "migration", "education")
)
BESIDE_CHANCE = 1
"""Proposed limit of differences of distributions and survival curves, as a multiple of what chance allows."""

LINKED = 0.09
"""Proposed limit of the re-identification rate: the European Medicines Agency's (Policy 0070, external guidance)."""

HELD_OUT, HELD_OUT_OF = 0.05, 10_000
"""Share of the records that is set aside, of so many or more: 500 tell an area under the curve to 0.03."""

TOLD = 0.6
"""Proposed limit of that area for members and others: above what drawn records came to, and below groups of 5."""

OF_STRATUM = 0.85
"""Proposed limit of what is given away of a stratum: above what groups of 4 in the demonstration's eleven columns come
to (0.69 to 0.79 in 1,500 records), so that nothing but near certainty is refused before the steward has chosen."""

_TIME_NAMES = (("surv", "follow", "futime"), ("time", "months", "duration", "tte"))
_STATUS_NAMES = (("vital", "dead", "death", "died", "deceas", "event", "censor", "fustat"), ("status",))
_BIRTH_NAMES = ("birth", "born", "dob", "bdate")
_SEEN_NAMES = (
    "sex", "gender", "race", "ethnic", "national", "marital", "married", "civil",
    "region", "county", "district", "province", "municip", "canton", "city", "town", "village", "zip", "postal",
    "postcode", "residence", "country", "occupation", "profession", "household", "children",
    *_BIRTH_NAMES,
)  # fmt: skip
"""What words begin with that name what neighbours, colleagues or a newspaper know of a person."""
_PUBLIC_DATES = ("death", "died", "deceas", "admission", "admit", "discharge", "accident", "wedding")
"""The same of dates: of events that others hear of."""


@dataclass(frozen=True)
class Look:
    """What the sample shows of one column.

    Attributes
    ----------
    numbers
        Natural units (days for dates), NaN where null or beyond
        `LARGEST`, shape (n_rows,); None where the values are no numbers.
    codes
        Position among the distinct values, -1 where null, shape (n_rows,).
    distinct, filled
        Number of distinct values and of rows that are not null.
    form
        How its texts are written where they stand for numbers or dates; None elsewhere.
    days
        Whether it holds texts of days, as 1990-01-31, and nothing else.
    levels
        See `declared_order`.
    """

    name: str
    type: pa.DataType
    numbers: Floats | None
    codes: npt.NDArray[np.int64]
    distinct: int
    filled: int
    form: Form | None = None
    days: bool = False
    levels: tuple[Scalar, ...] = ()

    @property
    def ordered(self) -> bool:
        """Whether it is a dictionary whose entries have an order."""
        return bool(pa.types.is_dictionary(self.type) and self.type.ordered)

    @property
    def date(self) -> bool:
        """Whether it holds dates or points in time."""
        return self.days or is_date(plain_type(self.type))

    @property
    def whole(self) -> bool:
        """Whether all numbers are whole."""
        if self.numbers is None:
            return False
        present = self.numbers[~np.isnan(self.numbers)]
        return bool((present == np.floor(present)).all())


@dataclass(frozen=True)
class Guess:
    """What the job will say of one column, and why.

    Attributes
    ----------
    kind, role, reason
        The reason is a comment.
    event
        Values of a survival status that mean the event; empty where the steward has to fill them in.
    weight
        In distances, in units of another column's, with its reason; None for 1.
    ordered
        Whether its categories have an order in the input, which the steward has to declare.
    levels
        This order, where the file declares it.
    step
        Of which all numbers are multiples; None where nothing is to be said.
    """

    kind: Kind
    role: Role
    reason: str = ""
    event: tuple[Scalar, ...] = ()
    weight: tuple[int, str] | None = None
    ordered: bool = False
    levels: tuple[Scalar, ...] = ()
    step: float | None = None


def propose_job(source_url: str, output: str, k: int, analyses: Sequence[RecipientAnalysis] = ()) -> str:
    """Propose a commented job for a table; the steward corrects and completes it.

    Parameters
    ----------
    source_url
        The data: files, or an SQL file; see `anonpipe.source`.
    output
        Where releases will be published.
    k
        Smallest group size, at least 2.
    analyses
        What the recipients mean to fit. Columns that none of them names are
        proposed as dropped; roles, strata, weights and methods follow from
        them, and they become gates.

    Returns
    -------
    str
        YAML. Where a survival status is found its `event` is left empty, and
        the job is refused until the steward has filled it in; a Cox model's
        condition that lists the values fills it. So are the `levels` of a
        column that has an order in the input, where the file does not declare it for certain.

    Raises
    ------
    InputError
        The input cannot be read, or has no rows.
    JobError
        `k` is below 2; an analysis names no column of the table.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "people.csv"
    >>> _ = path.write_text(chr(10).join(["ssn,height", *(f"{n},{160 + n / 7}" for n in range(40))]))
    >>> yaml.safe_load(propose_job(str(path), "releases", 5))["columns"]
    {'ssn': {'kind': 'integer', 'role': 'identifier'}, 'height': {'kind': 'continuous', 'role': 'masked'}}
    """
    if k < 2:
        raise JobError(f"k is {k}; give at least 2: no group of records that are replaced together is smaller")
    with opened(source_url) as source:
        sample, rows = _sample(source), source.rows
    looks = look_at(sample)
    needs = needs_of(analyses, [look.name for look in looks]) if analyses else None
    guesses = guess(looks) if needs is None else guess_for(looks, needs)
    for look in looks:
        guesses[look.name] = replace(
            guesses[look.name], ordered=look.ordered, levels=look.levels, step=_step(look, guesses[look.name])
        )
    guesses = without_rare_status(looks, guesses, rows, k)
    chosen = road(looks, guesses, rows, k)
    if needs is None and chosen.mask == "local_synthesis":
        guesses = {name: _by_categories(guessed) for name, guessed in guesses.items()}
    told = tells_strata(looks, guesses, rows)
    return _write(source_url, output, k, guesses, needs, replace(chosen, told=told), rows)


def guess_columns(source: Source) -> dict[str, Column]:
    """Kind of each column of a table that something can be measured of, and role of those that name persons.

    Columns that are proposed as dropped for what they tell beside others are
    among them; those of too many texts, or of no usable type, are not.
    """
    looks = look_at(_sample(source))
    found = guess(looks)
    return {
        look.name: Column(kind=found[look.name].kind, role=_measured_as(found[look.name].role))
        for look in looks
        if found[look.name].role is not Role.DROPPED or look.numbers is not None or look.distinct <= MANY_CATEGORIES
    }


def _step(look: Look, guessed: Guess) -> float | None:
    """The step of a continuous column of floats; decimals have that of their type."""
    floats = look.numbers is not None and pa.types.is_floating(plain_type(look.type))
    if look.numbers is None or not floats or guessed.kind is not Kind.CONTINUOUS:
        return None
    return common_step(look.numbers, single=plain_type(look.type) == pa.float32())


def _measured_as(role: Role) -> Role:
    return role if role.names_persons else Role.MASKED


def _by_categories(guessed: Guess) -> Guess:
    """An ordinal whose records are of no person: of its position alone, how its categories go with others is lost."""
    if guessed.kind is not Kind.ORDINAL or not guessed.role.synthesized:
        return guessed
    reason = (
        "has an order; kind: ordinal keeps how its position goes with other columns, and not how each category does"
    )
    return replace(guessed, kind=Kind.CATEGORICAL, reason=guessed.reason or reason)


def _sample(source: Source) -> pa.Table:
    """At most `SAMPLE_ROWS` rows, from the beginnings of some evenly spread pieces of the input."""
    pieces = [piece for unit in source.units for piece in _pieces(unit)]
    places = np.unique(np.linspace(0, len(pieces) - 1, min(SAMPLE_PIECES, len(pieces))).astype(int))
    batches: list[pa.RecordBatch] = []
    left = SAMPLE_ROWS
    for index, place in enumerate(places):
        wanted = left // (len(places) - index)
        piece = pieces[place]
        if not piece.row_groups:  # a CSV is read whole, to see the last rows of a sorted one too
            share = min(1.0, wanted / max(1, piece.rows))
            for _, batch in read_batches(source, piece, source.schema.names, _CSV_BATCH_ROWS):
                batches.append(batch.slice(0, max(1, int(batch.num_rows * share))))
            left -= wanted
            continue
        _, batch = next(read_batches(source, piece, source.schema.names, wanted))
        batches.append(batch.slice(0, wanted))
        left -= batches[-1].num_rows
    return pa.Table.from_batches(batches)


@dataclass(frozen=True)
class Road:
    """How records are proposed to be replaced: by which mask, or in groups (None), and why not by `local_synthesis`.

    With `merge`, strata that are too small for it join another; `told` is whether what they give away can be
    measured (`tells_strata`).
    """

    mask: str | None
    why: str = ""
    merge: bool = False
    told: bool = True


def road(looks: Sequence[Look], guesses: Mapping[str, Guess], rows: int, k: int = 5) -> Road:
    """`local_synthesis` where it can be had, else what suits; no figure of the data is told.

    Masks count rows, and need two records more than feature columns in each stratum
    (`by_mask.procedure`), and `FEW_RECORDS` for covariances that are worth more
    than those of groups; a few persons whose status nearly nobody else has join
    another stratum. Of categories alone there is nothing to form groups by, and
    groups of equal records would hand them on: records of no person are drawn in
    the spectral basis.

    Examples
    --------
    >>> looks = look_at(pa.table({"sex": ["f", "m"] * 300}))
    >>> road(looks, guess(looks), 600).mask, road(looks, guess(looks), 20).mask
    ('spectral_swap', None)
    """
    if several := _of_several(looks, guesses):
        return Road(None, f"masks count rows, and {_quoted(several)} names units of several: groups hold k of these")
    masked = [look for look in looks if guesses[look.name].role.synthesized]
    width = sum(_width(look, guesses[look.name]) for look in masked)
    strata = _strata(looks, guesses, rows)
    least = max(FEW_RECORDS, width + 2)
    merge = _can_join(strata, max(k, width + 2), max(MERGED, width + 2))
    if strata.min() < least and not merge:
        few = f"the table, or a stratum of it, has fewer than the {least} records that masks need for it"
        return Road(None, few, _can_join(strata, k, k))
    if all(guesses[look.name].kind.coded for look in masked):
        why = "no masked column is a number or a date, and local_synthesis forms groups by these"
        return Road("spectral_swap", why, merge)
    return Road("local_synthesis", merge=merge)


def without_rare_status(looks: Sequence[Look], guesses: dict[str, Guess], rows: int, k: int = 5) -> dict[str, Guess]:
    """The same with a status masked that nearly all have, and its time, where no strata can be made of it.

    That is where a value of fewer than k persons can join no other, which ends the run, or of a few k, whose other
    categories would be suppressed inside the stratum; and where so few have another value than most that nobody could
    measure what groups give away of it (`tells_strata`), and a mask, which could do without groups, has too few.

    Examples
    --------
    >>> looks = look_at(pa.table({"time": np.arange(800) / 7, "dead": np.arange(800) < 1}))
    >>> [guessed.role.value for guessed in without_rare_status(looks, guess(looks), 800).values()]
    ['masked', 'masked']
    """
    status = next((look for look in looks if guesses[look.name].role is Role.SURVIVAL_STATUS), None)
    strata = _strata(looks, guesses, rows)
    if _can_join(strata, k, k):
        strata = strata[strata >= k]
    if status is None:
        return guesses
    if strata.min() >= SMALL_STRATUM * k and (strata.min() >= FEW_RECORDS or tells_strata(looks, guesses, rows)):
        return guesses
    found = dict(guesses)
    for name, guessed in guesses.items():
        if guessed.role is Role.SURVIVAL_TIME:
            found[name] = replace(guessed, role=Role.MASKED, reason=_TIME_OF_FEW)
        elif guessed.role is Role.SURVIVAL_STATUS:
            found[name] = replace(guessed, role=Role.MASKED, reason=_RARE_STATUS, event=())
    return found


_RARE_STATUS = (
    "CHECK: nearly all have one value. Strata of so few would tell it of who is found, so that it is masked as any "
    "other column; fewer than k who have a value are released with another. Survival curves of them would tell little"
)
_TIME_OF_FEW = "CHECK: a time until an event of so few that its status is masked, and no survival curve is held"


def tells_strata(looks: Sequence[Look], guesses: Mapping[str, Guess], rows: int) -> bool:
    """Whether a run of the usual size can measure what strata give away, to the proposed limit at least.

    Of units with several rows it takes a hold-out, of persons of two values enough of the rarer; see `least_shown`.
    """
    strata, held = _strata(looks, guesses, rows), _held_out(rows)
    if not held and _of_several(looks, guesses):
        return False
    asked = min(Measure().queries, rows)
    return least_shown(1.0 - strata.max() / strata.sum(), asked, round(held * rows) or asked) <= OF_STRATUM


def _held_out(rows: int) -> float:
    """Share of the records that is proposed to be set aside."""
    return HELD_OUT if rows >= HELD_OUT_OF else 0.0


def _of_several(looks: Sequence[Look], guesses: Mapping[str, Guess]) -> str | None:
    """The column that names units of several rows."""
    for look in looks:
        role = guesses[look.name].role
        if role is Role.UNIT or (role is Role.IDENTIFIER and look.distinct < look.filled):
            return look.name
    return None


def _strata(looks: Sequence[Look], guesses: Mapping[str, Guess], rows: int) -> Floats:
    """About how many records the proposed strata have, nulls being one."""
    for look in looks:
        if guesses[look.name].role is Role.SURVIVAL_STATUS:
            counts = np.bincount(look.codes + 1)
            return np.asarray(counts[counts > 0] * (rows / len(look.codes)))
    return np.array([float(rows)])


def _can_join(strata: Floats, small: int, large: int) -> bool:
    """Whether some strata are small, and all others large: two or more, of which one may be of their event status."""
    few, many = int((strata < small).sum()), int((strata >= large).sum())
    return 0 < few == len(strata) - many and many > 1


def _width(look: Look, guessed: Guess) -> int:
    """Feature columns that a masked column takes, nulls of a category being one more."""
    nulls = look.filled < len(look.codes)
    if not guessed.kind.coded:
        return 1 + nulls
    found = look.distinct + nulls
    return {1: 0, 2: 1}.get(found, found)


def _pieces(unit: Unit) -> Iterator[Unit]:
    """The unit's row groups, each with rows; a CSV is one piece."""
    if not unit.row_groups:
        yield unit
    for row_group in unit.row_groups:
        yield replace(unit, row_groups=(row_group,))


def look_at(table: pa.Table) -> list[Look]:
    """What each column of a sample shows.

    Examples
    --------
    >>> [look] = look_at(pa.table({"age": [40, 41, None, 40]}))
    >>> look.distinct, look.filled, look.whole
    (2, 3, True)
    """
    return [_look(field.name, table.column(index)) for index, field in enumerate(table.schema)]


def _look(name: str, column: pa.ChunkedArray) -> Look:
    if not is_supported(column.type):
        return Look(name, column.type, None, np.full(len(column), -1, dtype=np.int64), 0, 0)
    values = pa.concat_arrays([plain(chunk) for chunk in column.chunks])
    encoded = pc.dictionary_encode(values)
    codes = np.asarray(pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False), dtype=np.int64)
    found, form, days = None, None, False
    if pa.types.is_string(values.type):
        as_days, wrong = of_days(values)
        days = wrong == 0 and len(encoded.dictionary) > 0
        form = None if days else form_of(encoded.dictionary)
        values = as_days if days else values
    if is_number(values.type) or is_date(values.type):
        found = numbers(values)
        found[np.abs(found) > LARGEST] = np.nan
    filled, levels = len(values) - values.null_count, declared_order(column)
    return Look(name, column.type, found, codes, len(encoded.dictionary), filled, form, days, levels)


def declared_order(column: pa.ChunkedArray) -> tuple[Scalar, ...]:
    """The categories of an ordered dictionary, the lowest first, where they are the file's and not of its rows.

    A writer that stores the values themselves (Parquet without dictionaries) leaves the reader to number
    them as they come: such an order is wrong, and tells of the first rows. So it is taken only where all
    pieces agree and the values do not come in just this order. Of a dictionary without an order nobody
    can tell whether somebody chose how it lies, or the rows did: its categories are released in the order of their
    names.

    Examples
    --------
    >>> stage = pa.DictionaryArray.from_arrays([1, 0, 1], ["low", "high"], ordered=True)
    >>> declared_order(pa.chunked_array([stage])), declared_order(pa.chunked_array([stage[1:]]))
    (('low', 'high'), ())
    """
    if not (pa.types.is_dictionary(column.type) and column.type.ordered and column.num_chunks):
        return ()
    first = column.chunk(0)
    entries, coming = first.dictionary, pc.unique(first.indices.drop_null()).to_pylist()
    as_they_come = coming == list(range(len(coming)))
    alike = all(piece.dictionary.equals(entries) for piece in column.chunks)
    if as_they_come or not alike or len(entries) > MANY_CATEGORIES or entries.null_count:
        return ()
    return tuple(plain(entries).to_pylist())


def guess(looks: list[Look]) -> dict[str, Guess]:
    """Kind and role of each column, in the table's order."""
    guesses = _one_unit(looks, _by_repeats(looks, {look.name: _alone(look) for look in looks}))
    masked = [look for look in looks if guesses[look.name].role is Role.MASKED]
    for name, reason in derived(masked).items():
        guesses[name] = Guess(guesses[name].kind, Role.DROPPED, reason)
    _survival(looks, guesses)
    return guesses


def _by_repeats(looks: list[Look], guesses: dict[str, Guess]) -> dict[str, Guess]:
    """Columns that number units by how their values repeat; of several the finest is the unit, others are asked about.

    Where a name says which column names units, the others are asked about, too.
    """
    codes = {look.name: _in_order(look) for look in looks}
    asked = [look for look in looks if _may_number(look, guesses[look.name])]
    found = repeating(codes, [look.name for look in asked])
    if not found:
        return guesses
    named = any(guessed.role is Role.UNIT for guessed in guesses.values())
    certain = [look for look in asked if found.get(look.name) is Sureness.CERTAIN]
    unit = None if named or not certain else max(certain, key=lambda look: look.distinct)
    changed, values = dict(guesses), {look.name: look.distinct for look in asked}
    for name in found:
        guessed = guesses[name]
        if unit is not None and name == unit.name:
            changed[name] = replace(guessed, role=Role.UNIT, reason=_GOES_TOGETHER)
        elif unit is not None and values[name] > COARSER * unit.distinct:
            continue  # a measurement of these units
        elif guessed.role is Role.DROPPED:
            changed[name] = replace(guessed, reason=f"{guessed.reason}; {_MAYBE_UNIT}")
        else:
            changed[name] = replace(guessed, reason=_MAYBE_UNIT)
    return changed


def _in_order(look: Look) -> npt.NDArray[np.int64]:
    """Codes of the values, of numbers in their order."""
    if look.numbers is None:
        return look.codes
    codes = np.unique(look.numbers, return_inverse=True)[1].reshape(-1)
    return np.where(np.isnan(look.numbers), -1, codes)


COARSER = 0.8
"""Of the units that were found, units of several of them (households of persons) are fewer than this."""

_GOES_TOGETHER = (
    "CHECK: is this the number of a person, household or the like? Its values repeat, and rows of one value agree in "
    "other columns: k counts these units, of which each may have several rows; if not, write role: masked"
)
_MAYBE_UNIT = (
    "CHECK: is this the number of a person, household or the like? Rows of one value agree in another column; if so, "
    "write role: unit, so that k counts these units"
)


def _may_number(look: Look, guessed: Guess) -> bool:
    """Whether a column may number units: whole numbers or texts that no name says something else of."""
    if (
        guessed.role not in (Role.MASKED, Role.DROPPED)
        or look.date
        or (look.form is not None and look.form.never_codes)
        or look.distinct >= look.filled
    ):
        return False
    if look.numbers is not None and not look.whole:
        return False
    return is_supported(look.type) and not any(word.startswith(_SEEN_NAMES) for word in _words(look.name))


def _one_unit(looks: list[Look], guesses: dict[str, Guess]) -> dict[str, Guess]:
    """Of several columns that could be the unit the one of fewest values: of households and persons, households."""
    units = sorted((look.distinct, look.name) for look in looks if guesses[look.name].role is Role.UNIT)
    others = {name: Guess(guesses[name].kind, Role.IDENTIFIER, _SMALLER_UNIT) for _, name in units[1:]}
    return guesses | others


def guess_for(looks: list[Look], needs: Needs) -> dict[str, Guess]:
    """Kind and role of each column where the recipients' analyses are known.

    What no analysis names is proposed as dropped: a column that nobody needs
    protects nobody. What one names is released, also where it follows from
    others.
    """
    used = guess([look for look in looks if look.name in needs.users])
    found: dict[str, Guess] = {}
    own = _one_unit(looks, _by_repeats(looks, {look.name: _alone(look) for look in looks}))
    for look in looks:
        alone = own[look.name]
        if look.name not in used:
            gone = alone.role.names_persons or (alone.role is Role.DROPPED and alone.reason)
            found[look.name] = alone if gone else Guess(alone.kind, Role.DROPPED, "no analysis names it")
        elif alone.role is Role.MASKED:
            found[look.name] = _needed(used[look.name], alone, needs.users[look.name])
        else:
            found[look.name] = _wanted(look, alone, needs.users[look.name])
    for survival in [needs.survival] if needs.survival else []:
        _survival_of(survival, {look.name: look for look in looks}, found)
    return _weighted(found, needs)


def _needed(found: Guess, alone: Guess, users: tuple[str, ...]) -> Guess:
    """A column that an analysis names; roles of survival are given by the analyses alone."""
    reason = f"needed by {_names(users)}"
    if found.role is Role.DROPPED:
        reason += f"; but it is {found.reason}, and the two may contradict each other: one of them should do"
    return Guess(alone.kind, Role.MASKED, reason)


def _wanted(look: Look, alone: Guess, users: tuple[str, ...]) -> Guess:
    """A column that an analysis names, and that would not be released without: masked where that can be."""
    if not is_supported(look.type) or look.distinct < 2:
        return Guess(alone.kind, Role.DROPPED, f"CHECK: {alone.reason}; but needed by {_names(users)}")
    return Guess(alone.kind, Role.MASKED, f"CHECK: needed by {_names(users)}; but {alone.reason}")


def _names(users: tuple[str, ...]) -> str:
    return ", ".join(_quoted(name) for name in users)


def _survival_of(survival: Survival, looks: dict[str, Look], found: dict[str, Guess]) -> None:
    """Give the roles that the first Cox model asks for; without a plain time and status, none."""
    time, status = survival.time, survival.status
    if time is None or status is None or time == status or Role.DROPPED in (found[time].role, found[status].role):
        return
    if looks[time].numbers is None or looks[time].date:
        return
    whose = f"of the Cox model {_quoted(survival.name)}"
    kind = found[time].kind if not found[time].kind.coded else Kind.INTEGER
    found[time] = Guess(kind, Role.SURVIVAL_TIME, f"the response {whose}")
    found[status] = Guess(
        found[status].kind, Role.SURVIVAL_STATUS, f"released unchanged: the event {whose}", survival.event
    )


def _weighted(found: dict[str, Guess], needs: Needs) -> dict[str, Guess]:
    """Without a survival time, the response of the first other model weighs as much as all other columns together."""
    if any(guessed.role is Role.SURVIVAL_TIME for guessed in found.values()):
        return found
    others = sum(guessed.role is Role.MASKED for guessed in found.values()) - 1
    response = next((name for name in needs.responses if found[name].role is Role.MASKED), None)
    if response is None or others < 2:
        return found
    why = f"in distances: the response of {_quoted(needs.responses[response])} weighs as much as all else"
    return found | {response: replace(found[response], weight=(others, why))}


def _alone(look: Look) -> Guess:
    """What a column's own name, type and distinct values say."""
    kind = _kind(look)
    if not is_supported(look.type) and not pa.types.is_null(look.type):
        return Guess(kind, Role.DROPPED, "values of this type cannot be released")
    if look.distinct < 2:
        return Guess(kind, Role.DROPPED, "constant or empty in the sample: it tells nothing")
    form = look.form if look.form is not None and (look.form.never_codes or _too_many(look)) else None
    if form is not None and not form.whole and not _names_unit(look.name):
        return Guess(Kind.DATE if form.date else Kind.CONTINUOUS, Role.DROPPED, form.reason)
    if is_index(look.name) and look.distinct == look.filled:
        return Guess(kind, Role.DROPPED, _INDEX)
    if reason := _identifying(look):
        return Guess(kind, Role.UNIT if reason is _REPEATING else Role.IDENTIFIER, reason)
    if form is not None:
        return Guess(Kind.INTEGER, Role.DROPPED, form.reason)
    if look.numbers is None and _too_many(look):
        return Guess(kind, Role.DROPPED, "too many different texts for categories; if it matters, classify it first")
    if kind is Kind.CATEGORICAL and look.numbers is not None:
        return Guess(kind, Role.MASKED, "few whole numbers, taken for codes; if they are counts, write kind: integer")
    return Guess(kind, Role.MASKED)


_INDEX = (
    "the index of a pandas table, without a name and with no value twice: row numbers tell of nobody; if it names "
    "persons, write role: identifier"
)


def _kind(look: Look) -> Kind:
    if look.date:
        return Kind.DATE
    if look.distinct == 2 or pa.types.is_boolean(look.type):
        return Kind.BINARY
    if look.numbers is None or (look.whole and look.distinct <= FEW_CODES):
        return Kind.ORDINAL if look.ordered else Kind.CATEGORICAL
    return Kind.INTEGER if look.whole else Kind.CONTINUOUS


def _identifying(look: Look) -> str:
    """Why a column is an identifier; empty where it is none. Dates and fractions never are."""
    if look.date or (look.numbers is not None and not look.whole):
        return ""
    unique = look.distinct == look.filled
    if _names_unit(look.name) and (unique or look.distinct > ENOUGH_ROWS):
        return "its name says so" if unique else _REPEATING
    if unique and look.filled >= ENOUGH_ROWS:
        return "no value occurs twice in the sample; if it is a measurement, write role: masked"
    return ""


_REPEATING = (
    "CHECK: its name says so, and its values repeat: k counts these units, of which each may have several rows; if "
    "several persons share a value (surname), write role: dropped; if k is to count rows, rows_per_unit: many"
)

_SMALLER_UNIT = (
    "CHECK: its values repeat, too, and k counts the units of the column with role unit; exchange the roles if these "
    "are the persons to be protected"
)


def _names_unit(name: str) -> bool:
    """Whether a name says that the column names persons, in a word of its own or at the end of one (UTILITYID)."""
    words = _words(name)
    return bool(_IDENTIFYING & set(words)) or any(word in _UNIT_NUMBERS for word in words)


def _too_many(look: Look) -> bool:
    return look.distinct > min(MANY_CATEGORIES, max(FEW_CODES, MANY_SHARE * look.filled))


def _words(name: str) -> list[str]:
    """The words of a column name, in lower case.

    Examples
    --------
    >>> _words("patientID"), _words("SURV_mm")
    (['patient', 'id'], ['surv', 'mm'])
    """
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def _rank(name: str, ranks: tuple[tuple[str, ...], ...]) -> int | None:
    """The first rank that a word of the name begins with an entry of; None without any."""
    words = _words(name)
    if _NO_SURVIVAL & set(words):
        return None
    return next((rank for rank, starts in enumerate(ranks) if any(word.startswith(starts) for word in words)), None)


def _survival(looks: list[Look], guesses: dict[str, Guess]) -> None:
    """Give the roles survival_time and survival_status where the names of both are found."""
    masked = [look for look in looks if guesses[look.name].role is Role.MASKED]
    times = [look.name for look in masked if not guesses[look.name].kind.coded and _duration(look)]
    states = [look.name for look in masked if guesses[look.name].kind.coded and look.distinct <= FEW_CODES]
    time, state = _best(times, _TIME_NAMES), _best(states, _STATUS_NAMES)
    if time is not None and state is not None:
        guesses[time] = Guess(guesses[time].kind, Role.SURVIVAL_TIME, "time until the event or the end of follow-up")
        guesses[state] = Guess(guesses[state].kind, Role.SURVIVAL_STATUS, "released unchanged")


def _duration(look: Look) -> bool:
    if look.numbers is None or look.date or np.isnan(look.numbers).all():
        return False
    return bool(np.nanmin(look.numbers) >= 0)


def _best(names: list[str], ranks: tuple[tuple[str, ...], ...]) -> str | None:
    ranked = [(rank, place) for place, name in enumerate(names) if (rank := _rank(name, ranks)) is not None]
    return names[min(ranked)[1]] if ranked else None


def derived(looks: list[Look]) -> dict[str, str]:
    """Columns that follow from other columns, with the reason; what they follow from is never among them.

    Four relations are looked for, in this order, among the columns still
    left: a linear copy of a number or date; a part of a date; a class, each
    category of which covers an interval of a number of its own; and two dates
    and the time between them, where one of the dates is given up.
    """
    found: dict[str, str] = {}
    for search in (_copies, _date_parts, _classes, _intervals):
        for name, reason in search([look for look in looks if look.name not in found]):
            found.setdefault(name, reason)
    return found


def _copies(looks: list[Look]) -> Iterator[tuple[str, str]]:
    """Of two linearly dependent columns the one that is no date, else the later one."""
    numeric = [look for look in looks if look.numbers is not None and look.distinct > 2]
    gone: set[str] = set()
    for one, other in combinations(sorted(numeric, key=lambda look: not look.date), 2):
        if one.name in gone or other.name in gone or not _same(one, other):
            continue
        gone.add(other.name)
        yield other.name, f"a linear copy of {_quoted(one.name)}"


def _same(one: Look, other: Look) -> bool:
    """Whether a line joins the columns: for the bulk of the rows, not only by shared extreme codes."""
    if not _line(*_together(_thin(one), _thin(other))):
        return False
    x, y = _together(one, other)
    return len(x) >= max(ENOUGH_ROWS, other.filled / 2) and _line(x, y)


def _line(x: Floats, y: Floats) -> bool:
    if len(x) < 2:
        return False
    dx, dy = x - x.mean(), y - y.mean()
    xx, xy, yy = float(dx @ dx), float(dx @ dy), float(dy @ dy)
    if xx <= 0 or yy <= 0 or xy * xy <= SAME_CORRELATION**2 * xx * yy:
        return False
    low, high = np.quantile(y, [0.25, 0.75])
    return bool(np.median(np.abs(dy - dx * (xy / xx))) <= 0.01 * (high - low))


def _thin(look: Look) -> Look:
    """The column in about `THIN_ROWS` evenly spread rows: what fails there needs no second look."""
    step = max(1, len(look.codes) // THIN_ROWS)
    return replace(look, numbers=None if look.numbers is None else look.numbers[::step], codes=look.codes[::step])


def _together(*looks: Look) -> tuple[Floats, ...]:
    """The numbers of the rows where none of the columns is null."""
    columns = [look.numbers for look in looks if look.numbers is not None]
    present = ~np.isnan(np.array(columns)).any(axis=0)
    return tuple(column[present] for column in columns)


def _date_parts(looks: list[Look]) -> Iterator[tuple[str, str]]:
    """Numbers that are the month, the day, the weekday or the quarter of a date (years are classes)."""
    dates = [look for look in looks if look.date]
    parts = [look for look in looks if look.numbers is not None and look.whole and not look.date]
    for part in parts:
        for date in dates:
            if not _part(*_together(_thin(date), _thin(part))):
                continue
            days, values = _together(date, part)
            known = len(days) >= max(ENOUGH_ROWS, NEARLY_ALL * part.filled)
            if known and np.ptp(values) > 0 and (name := _part(days, values)):  # any constant is a part of one month
                yield part.name, f"the {name} of {_quoted(date.name)}"
                break


def _part(days: Floats, values: Floats) -> str:
    """Which part of the dates the values are, counted from any number; empty if none."""
    if len(days) < 2:
        return ""
    stamps = np.floor(days).astype("datetime64[D]")
    months = stamps.astype("datetime64[M]").astype(np.int64)
    found = {
        "month": months % 12,
        "quarter": months % 12 // 3,
        "day of the month": (stamps - stamps.astype("datetime64[M]")).astype(np.int64),
        "day of the year": (stamps - stamps.astype("datetime64[Y]")).astype(np.int64),
        "weekday": (stamps.astype(np.int64) + 3) % 7,
    }
    return next((name for name, part in found.items() if np.ptp(values - part) == 0), "")


def _classes(looks: list[Look]) -> Iterator[tuple[str, str]]:
    """Categories (also years and other whole numbers) that are intervals of a number or date."""
    finest = sorted((look for look in looks if look.numbers is not None), key=lambda look: -look.distinct)
    places = {look.name: place for place, look in enumerate(looks)}
    for coarse in looks:
        if not 2 <= coarse.distinct <= MANY_CATEGORIES or _second_size(coarse) < CLASS_ROWS:
            continue
        for fine in finest:
            order = (coarse.distinct, -places[coarse.name]) < (fine.distinct, -places[fine.name])
            if order and _is_class(coarse, fine):
                yield coarse.name, f"a class of {_quoted(fine.name)}"
                break


def _second_size(look: Look) -> int:
    """Rows in the second largest category."""
    return int(np.sort(np.bincount(look.codes[look.codes >= 0]))[-2])


def _is_class(coarse: Look, fine: Look) -> bool:
    """Whether each category lies in an interval of its own; nulls of the number count as its lowest value."""
    return all(_disjoint(*_pairs(*looks)) for looks in ((_thin(coarse), _thin(fine)), (coarse, fine)))


def _pairs(coarse: Look, fine: Look) -> tuple[npt.NDArray[np.int64], Floats]:
    """Codes and numbers of the rows that have a category."""
    present = coarse.codes >= 0
    values = np.full(len(present), np.nan) if fine.numbers is None else fine.numbers
    return coarse.codes[present], np.where(np.isnan(values), -np.inf, values)[present]


def _disjoint(codes: npt.NDArray[np.int64], values: Floats) -> bool:
    sizes = np.bincount(codes)
    low, high = np.full(len(sizes), np.inf), np.full(len(sizes), -np.inf)
    np.minimum.at(low, codes, values)
    np.maximum.at(high, codes, values)
    used = np.flatnonzero(sizes)
    order = used[np.lexsort((high[used], low[used]))]
    return bool((high[order][:-1] < low[order][1:]).all())


def _intervals(looks: list[Look]) -> Iterator[tuple[str, str]]:
    """Of two dates and the time between them, one date."""
    dates = [look for look in looks if look.date]
    spans = [look for look in looks if look.numbers is not None and not look.date and look.distinct > FEW_CODES]
    triples = [
        (span, *ends, unit) for pair in combinations(dates, 2) for span in spans for ends, unit in _between(span, *pair)
    ]
    uses = {date.name: sum(date.name in (triple[1].name, triple[2].name) for triple in triples) for date in dates}
    gone: set[str] = set()
    for span, begin, end, unit in sorted(triples, key=lambda triple: _rank(triple[0].name, _TIME_NAMES) is None):
        if begin.name in gone or end.name in gone:
            continue
        drop = _dispensable(span, begin, end, uses)
        kept = end if drop is begin else begin
        gone.add(drop.name)
        yield drop.name, f"follows from {_quoted(kept.name)} and {_quoted(span.name)}, the {unit} between"


def _between(span: Look, one: Look, other: Look) -> Iterator[tuple[tuple[Look, Look], str]]:
    """Whether `span` is the time between two dates, to rounding: the ends in order, and the unit."""
    unit = _unit(*_together(_thin(span), _thin(one), _thin(other)))
    if unit is None:
        return
    x, first, second = _together(span, one, other)
    if len(x) >= max(ENOUGH_ROWS, span.filled / 2) and _unit(x, first, second) == unit:
        yield ((one, other) if np.median(second - first) >= 0 else (other, one)), unit


def _unit(x: Floats, first: Floats, second: Floats) -> str | None:
    """The unit in which `x` is the time between two days; None if it is none.

    Rounded up, down, to the nearest or to the middle, what is left over spans one unit.
    """
    if len(x) < 2:
        return None
    for unit, length in DAYS_IN.items():
        rest = x - np.abs(second - first) / length
        low, high = np.quantile(rest, [0.005, 0.995])
        if high - low <= 1.1 and rest.std() < 0.2 * x.std():
            return unit
    return None


def _dispensable(span: Look, begin: Look, end: Look, uses: dict[str, int]) -> Look:
    """The date to give up: a birth, the end of a survival time, else the one less often needed."""
    births = [date for date in (begin, end) if any(word.startswith(_BIRTH_NAMES) for word in _words(date.name))]
    if births:
        return births[0]
    if _rank(span.name, _TIME_NAMES) is not None:
        return end
    if uses[begin.name] != uses[end.name]:
        return begin if uses[begin.name] < uses[end.name] else end
    first, last = _together(begin, end)
    return begin if np.median(last - first) > 15 * DAYS_IN["years"] else end


def seen_by_others(guesses: Mapping[str, Guess]) -> tuple[str, ...]:
    """Released columns that somebody outside usually knows of a person, by their names, and those released unchanged.

    None where no name says so: combinations of what is released unchanged are counted anyway.

    Examples
    --------
    >>> masked, key = Guess(Kind.INTEGER, Role.MASKED), Guess(Kind.BINARY, Role.KEY)
    >>> seen_by_others({"age": masked, "agency": masked, "income": masked, "kind": key})
    ('age', 'kind')
    """
    released = {name: guessed for name, guessed in guesses.items() if guessed.role.released}
    told = {name for name, guessed in released.items() if _is_seen(name, guessed)}
    unchanged = {name for name, guessed in released.items() if guessed.role in (Role.KEY, Role.SURVIVAL_STATUS)}
    return tuple(name for name in released if name in told | unchanged) if told else ()


def _is_seen(name: str, guessed: Guess) -> bool:
    starts = _SEEN_NAMES + _PUBLIC_DATES * (guessed.kind is Kind.DATE)
    return any(word == "age" or word.startswith(starts) for word in _words(name))


def _quoted(text: str) -> str:
    """A text as a quoted YAML scalar on one line."""
    return yaml.safe_dump(text, default_style='"', width=10**9, allow_unicode=True).rstrip("\n")


def _flow(values: tuple[Scalar, ...]) -> str:
    """A list of values on one line; texts whose line breaks YAML would fold are quoted so that they stay."""
    if any(isinstance(value, str) and not value.isprintable() for value in values):
        return (
            "[" + ", ".join(_quoted(each) if isinstance(each, str) else _flow((each,))[1:-1] for each in values) + "]"
        )
    return str(yaml.safe_dump(list(values), default_flow_style=True, width=10**9, allow_unicode=True)).rstrip("\n")


def _key(name: str) -> str:
    """A column name as a YAML key: quoted where YAML would take it for something else."""
    safe = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", name) and isinstance(yaml.safe_load(name), str)
    return name if safe else _quoted(name)


def _write(
    source_url: str,
    output: str,
    k: int,
    guesses: dict[str, Guess],
    needs: Needs | None = None,
    chosen_road: Road = Road(None),
    rows: int = 0,
) -> str:
    """The template filled in; what is asked of it has no value of the data."""
    chosen = {} if needs is None else needs.subsets
    by_role = {guessed.role: name for name, guessed in reversed(guesses.items())}
    return _template().render(
        input=source_url,
        output=output,
        k=k,
        guesses=guesses,
        needs=needs,
        why=chosen_road.why,
        mask=chosen_road.mask if needs is None else None,
        merge=chosen_road.merge,
        told_of_strata=chosen_road.told,
        status=by_role.get(Role.SURVIVAL_STATUS),
        seen=seen_by_others(guesses),
        timed=Role.SURVIVAL_TIME in by_role,
        # Analyses that take some of the records, chosen by a masked category.
        blurred={
            name: who for name, who in chosen.items() if guesses[name].role is Role.MASKED and guesses[name].kind.coded
        },
        response_weight=RESPONSE_WEIGHT,
        chance=BESIDE_CHANCE,
        of_stratum=OF_STRATUM,
        linked=LINKED,
        held=_held_out(rows),
        told=TOLD,
        usual_limits=USUAL_LIMITS,
        stepped=any(each.step for each in guesses.values()),
        declared=any(each.levels and each.kind.coded and each.role.released for each in guesses.values()),
    )


@cache
def _template() -> Template:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals |= {"Kind": Kind, "Role": Role}
    environment.filters |= {"quoted": _quoted, "flow": _flow, "key": _key}
    return environment.get_template("job.yaml.jinja")
