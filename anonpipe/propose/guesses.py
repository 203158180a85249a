"""Kind and role of each column from its name, type and sample; columns that number units; steps of numbers.

Rows of one person agree in what does not change about the person: sex, year of birth, treatment. So a column whose
values repeat a few times each is taken for such a number where rows of one value agree in others that have nothing
to do with each other. A code of places or diagnoses also has columns that follow from it (town, county), but these
follow from each other, too; and of a time or a day as one number (1342, 20240131) others are parts.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np
import pyarrow as pa

from anonpipe.columns import Kind, Role, Scalar
from anonpipe.encoding.identifiers import AGREES, COPIED, agree, copied_rows, duplicated, pairs_of
from anonpipe.encoding.values import is_index, is_supported
from anonpipe.job.analyses import Needs, Survival
from anonpipe.propose.dependencies import ENOUGH_ROWS, derived
from anonpipe.propose.names import (
    POSTAL_NAMES,
    PUBLIC_DATES,
    REASONS,
    SEEN_NAMES,
    STATUS_NAMES,
    TIME_NAMES,
    best_of,
    has_word,
    holds_person_names,
    names_code,
    names_count,
    names_design,
    names_one_person,
    names_one_unit,
    names_replicate,
    names_unit,
    names_weight,
    quoted,
)
from anonpipe.propose.profile import FEW_CODES, MANY_CATEGORIES, Look
from anonpipe.types import BoolArray, FloatArray, IntArray

MOST_ROWS = 20  # Rows of a unit, on average: more of them are of a place or a code
FEWEST = 20  # Values, and pairs of rows of one value, below which nothing is concluded
TOGETHER = 0.9  # Share of the pairs of rows of one value that follow each other, in a table that is sorted by units


def repeating(columns: Mapping[str, IntArray], candidates: Sequence[str]) -> dict[str, bool]:
    """Of the candidates those that number units of several rows, and whether that is certain.

    It is where two columns or more that have nothing to do with each other agree in the rows of a value. It may be
    where one does, and the rows of a value follow each other. Shapes: columns (n_rows,).
    """
    found = {}
    for name in candidates:
        codes = columns[name]
        first, second = pairs_of(codes)
        if not _repeats_a_little(codes, len(first)):
            continue
        others = {other: values for other, values in columns.items() if other != name}
        same = [other for other, values in others.items() if agree(values, first, second)]
        own = _apart(_no_parts(codes, [others[other] for other in same]))
        if own >= 2 or (own == 1 and np.mean(second - first == 1) >= TOGETHER):
            found[name] = own >= 2
    return found


def follows(column: IntArray, other: IntArray) -> bool:
    """Whether rows of equal values of `other` are equal in `column`, too."""
    first, second = pairs_of(other)
    return bool(len(first) and np.mean(column[first] == column[second]) >= AGREES)


def _repeats_a_little(codes: IntArray, pairs: int) -> bool:
    """Whether values repeat, a few times each and none of them much more often than others."""
    counts = np.bincount(codes[codes >= 0])
    counts = counts[counts > 0]
    if len(counts) < FEWEST or pairs < FEWEST or (codes < 0).any():
        return False
    mean = counts.mean()
    return bool(mean <= MOST_ROWS and counts.max() <= 10 * max(mean, 2.0))


def _no_parts(codes: IntArray, columns: Sequence[IntArray]) -> list[IntArray]:
    """Those that are no parts of the value, which rise with it, one inside the other: hour and minute of 1342."""
    order, rest = np.argsort(codes, kind="stable"), list(columns)
    asked = np.diff(codes[order]) > 0  # neighbours that differ, and not in a part that was found
    while asked.sum() >= FEWEST:
        rising = [at for at, one in enumerate(rest) if (np.diff(one[order])[asked] >= 0).all()]
        if not rising:
            break
        asked &= np.diff(rest.pop(rising[0])[order]) == 0
    return rest


def _apart(columns: Sequence[IntArray]) -> int:
    """Columns of which none follows from another, of several that agree: 2 at most are looked for."""
    apart = any(not follows(one, other) and not follows(other, one) for one, other in combinations(columns, 2))
    return min(len(columns), 1 + apart)


# --- The step on which all numbers of a sample lie: 0.1 of 31.2, 0.05 of prices, none of what has all digits ----------

DIGITS = 6  # Most decimals that are looked for
_COARSER_STEPS = (25, 5, 2)  # Times the last decimal: quarters, fives, twos
_NO_CHANCE = math.log(1e6)  # So rarely would as many distinct values all lie on a coarser step by chance
SPACINGS = 64  # Of two neighbouring floats: a smaller step than so many says nothing, as every float lies on it


def common_step(values: FloatArray, single: bool = False) -> float | None:
    """The largest decimal step below 1 that all values, shape (n,), are multiples of, to rounding; None without."""
    values = values[np.isfinite(values)]
    many, values = len(values), np.unique(values)
    if many < FEWEST or len(values) < 2:
        return None
    kind = np.float32 if single else np.float64
    spacing = float(np.spacing(kind(np.abs(values).max())))
    for digits in range(1, DIGITS + 1):
        step = 10.0**-digits
        if step < SPACINGS * spacing:
            return None
        if not _multiples(values, step, kind):
            continue
        coarser = [n for n in _COARSER_STEPS if len(values) * math.log(n) >= _NO_CHANCE]
        return next((round(n * step, digits) for n in coarser if _multiples(values, n * step, kind)), step)
    return None


LARGE_STEPS = (1000, 500, 250, 200, 100, 50, 25, 20, 10, 5, 2)  # Of whole numbers
MOSTLY_STEPPED = 0.9  # Share of multiples of 10 from which on a step is worth a comment


def large_step(values: FloatArray) -> tuple[int | None, float]:
    """Of whole numbers, shape (n,), the largest of `LARGE_STEPS` that all are multiples of; tens among all but 0."""
    values = values[np.isfinite(values)]
    distinct = np.unique(values)
    if len(distinct) < FEWEST:
        return None, 0.0
    found = next((step for step in LARGE_STEPS if (distinct % step == 0).all()), None)
    return found, float(np.mean(values[values != 0] % 10 == 0))  # zeros mean none of many things


def _multiples(values: FloatArray, step: float, kind: type[np.floating]) -> bool:
    """Whether all values are the nearest floats to multiples of the step, or a few floats away."""
    off = np.abs(np.rint(values / step) * step - values)
    return bool((off <= 4.0 * np.spacing(np.abs(values).astype(kind)).astype(np.float64)).all())


# --- Kind and role of each column, from its name, its type and what a sample holds ------------------------------------

MANY_SHARE = 0.10  # Texts with more distinct values than either are not categories


@dataclass(frozen=True)
class Guess:
    """What the job will say of one column, and why."""

    # kind, role, reason: the reason is a comment
    kind: Kind
    role: Role
    reason: str = ""
    # Values of a survival status that mean the event; empty where the steward has to fill them in
    event: tuple[Scalar, ...] = ()
    weight: tuple[int, str] | None = None  # In distances, in units of another column's, with its reason; None for 1
    ordered: bool = False  # Whether its categories have an order in the input, which the steward has to declare
    levels: tuple[Scalar, ...] = ()  # This order, where the file declares it
    step: float | None = None  # Of which all numbers are multiples; None where nothing is to be said
    zeros: float = 0.0  # Share of zeros where these are masked apart from the other numbers; 0 elsewhere
    tens: float = 0.0  # Share of multiples of 10 where these are nearly all numbers; 0 elsewhere
    timed: bool = False  # Whether its dates have times of day
    codes: Mapping[float, int] = field(default_factory=dict)  # Possible codes for "unknown": sampled rows of each
    # booked, kind_is_known: whether a code book has the column, and its kind; the rest is of the code book
    booked: bool = False
    kind_is_known: bool = False
    bounds: tuple[Scalar | None, Scalar | None] | None = None
    label: str = ""
    unit_of_measure: str = ""
    by: tuple[str, ...] = ()  # Of a survey weight the categories that explain it
    explained: float = 0.0  # Share of its variance that they explain, in logarithms

    def noted(self, reason: str) -> Guess:
        """The same with one more reason."""
        return replace(self, reason=f"{self.reason}; {reason}" if self.reason else reason)


def guess(looks: list[Look]) -> dict[str, Guess]:
    """Kind and role of each column, in the table's order."""
    guesses = _by_copies(looks, _units(_without_copies(looks)))
    _survey_weight(looks, guesses)
    masked = [look for look in looks if guesses[look.name].role is Role.MASKED]
    by = {name for guessed in guesses.values() for name in guessed.by}  # decide the weight, and are released with it
    for name, reason in derived(masked).items():
        role, why = (
            (Role.MASKED, REASONS["decides weights"].format(it=reason)) if name in by else (Role.DROPPED, reason)
        )
        guesses[name] = Guess(guesses[name].kind, role, why)
    _survival(looks, guesses)
    return guesses


MOST_COPIED = 0.1  # Share of copied rows above which rows are equal because persons are, or have several rows


def _without_copies(looks: list[Look]) -> list[Look]:
    """What the sample shows without rows that equal an earlier one, where these are few; else the same."""
    kept = ~_copied(looks)
    return looks if kept.all() else [look.of_rows(kept) for look in looks]


def _copied(looks: list[Look]) -> BoolArray:
    """Which rows equal an earlier one in all columns, shape (n_rows,); none where they are many."""
    copied = duplicated([look.codes for look in looks])
    return copied if copied.mean() <= MOST_COPIED else np.zeros_like(copied)


def _by_copies(looks: list[Look], guesses: dict[str, Guess]) -> dict[str, Guess]:
    """Of identifiers whose values repeat in copied rows alone, the first as the unit: nobody knows whose copies are."""
    copies = int(_copied(looks).sum())
    repeated = [look for look in looks if guesses[look.name].role is Role.IDENTIFIER and look.distinct < look.filled]
    if copies and repeated and all(guessed.role is not Role.UNIT for guessed in guesses.values()):
        reason = REASONS["copied"].format(copies=copies, rows=len(repeated[0].codes))
        guesses[repeated[0].name] = replace(guesses[repeated[0].name], role=Role.UNIT, reason=reason)
    return guesses


def copies_asked(looks: list[Look], guesses: Mapping[str, Guess]) -> list[str]:
    """A question on copied rows of a table without an identifier, where they are more than chance has it."""
    copies = copied_rows([look.codes for look in looks])
    if not copies or any(guessed.role.names_persons for guessed in guesses.values()):
        return []
    return [f"CHECK: {COPIED.format(copies=copies, rows=len(looks[0].codes))}."]


def _units(looks: list[Look]) -> dict[str, Guess]:
    """What each column is alone, and which of them name units: by their names, and by how their values repeat."""
    found = _by_repeats(looks, {look.name: _alone(look) for look in looks})
    # Of several that could be the unit the one of fewest values: of households and persons, households
    units = sorted((look.distinct, look.name) for look in looks if found[look.name].role is Role.UNIT)
    found |= {name: Guess(found[name].kind, Role.IDENTIFIER, REASONS["smaller_unit"]) for _, name in units[1:]}
    # Whole numbers that nothing else is known of, under a name for persons or groups of persons
    whole = [name for name, each in found.items() if (each.role, each.kind) == (Role.MASKED, Kind.INTEGER)]
    numbering = [look for look in looks if look.name in whole and look.distinct > FEW_CODES]
    numbering = [look for look in numbering if names_one_unit(look.name)]
    roles = {guessed.role for guessed in found.values()}
    enough = [look for look in numbering if look.distinct > ENOUGH_ROWS]
    persons = [look for look in enough if names_one_person(look.name)]
    if Role.UNIT in roles or (Role.IDENTIFIER in roles and not persons):  # with numbers of visits, persons are the unit
        enough = []
    unit = min(persons or enough, key=lambda look: look.distinct, default=None) if enough else None
    for look in numbering:
        role, reason = (Role.UNIT, REASONS["repeating"]) if look is unit else (Role.DROPPED, REASONS["numbers_groups"])
        found[look.name] = replace(found[look.name], role=role, reason=reason)
    return found


def _without_places(looks: list[Look], guesses: dict[str, Guess], certain: Collection[str]) -> dict[str, Guess]:
    """The same without the unit where each is of many persons or units of another column, as of a school."""
    changed = dict(guesses)
    for place in sorted(looks, key=lambda look: look.distinct):
        if changed[place.name].role is not Role.UNIT or names_one_person(place.name):
            continue
        units = {each.name for each in looks if changed[each.name].role is Role.UNIT}.union(certain) - {place.name}
        for look in looks:
            person = names_one_person(look.name) and look.distinct > ENOUGH_ROWS and not look.date
            if not person and look.name not in units:
                continue
            pairs = len(np.unique(look.codes * (place.distinct + 1) + place.codes))
            own = person or COARSER * pairs > look.distinct  # not a part of a unit, as a stay is
            if own and pairs > MOST_ROWS * place.distinct:
                reason = REASONS["place"].format(person=quoted(look.name))
                changed[place.name] = replace(changed[place.name], role=Role.DROPPED, reason=reason)
                break
    return changed


def _by_repeats(looks: list[Look], guesses: dict[str, Guess]) -> dict[str, Guess]:
    """Columns that number units, by repeats: the finest, or the one so named, is the unit, others are asked about."""
    codes = {look.name: _in_order(look) for look in looks}
    asked = [look for look in looks if _may_number(look, guesses[look.name])]
    found = repeating(codes, [look.name for look in asked])
    guesses = _without_places(looks, guesses, [name for name, certain in found.items() if certain])
    if not found:
        return guesses
    named = [look for look in looks if guesses[look.name].role is Role.UNIT]
    certain = [look for look in asked if found.get(look.name)]
    by_name = [look for look in asked if look.name in found and names_unit(look.name)]
    unit = max(named or certain or by_name, key=lambda look: look.distinct, default=None)
    changed, values = dict(guesses), {look.name: look.distinct for look in asked}
    for name in found:
        guessed = guesses[name]
        if unit is not None and name == unit.name:
            changed[name] = replace(guessed, role=Role.UNIT, reason=REASONS["goes_together"])
        elif unit is not None and values[name] > COARSER * unit.distinct:
            continue  # a measurement of these units
        else:
            changed[name] = guessed.noted(REASONS["maybe_unit"])
    return changed


def _in_order(look: Look) -> IntArray:
    """Codes of the values, of numbers in their order."""
    if look.numbers is None:
        return look.codes
    codes = np.unique(look.numbers, return_inverse=True)[1].reshape(-1)
    return np.where(np.isnan(look.numbers), -1, codes)


COARSER = 0.8  # Of the units that were found, units of several of them (households of persons) are fewer than this


def _may_number(look: Look, guessed: Guess) -> bool:
    """Whether a column may number units: whole numbers or texts that no name says something else of."""
    if guessed.role not in (Role.MASKED, Role.DROPPED) or look.date or look.distinct >= look.filled:
        return False
    if (look.numbers is not None and not look.whole) or (look.form is not None and look.form.never_codes):
        return False
    return is_supported(look.type) and not has_word(look.name, SEEN_NAMES)


def guess_for(looks: list[Look], needs: Needs) -> dict[str, Guess]:
    """Kind and role of each column where the recipients' analyses are known."""
    # What none names is proposed as dropped: nobody needs it. What one names is released, also if it follows from
    # others.
    used = guess([look for look in looks if look.name in needs.users])
    found: dict[str, Guess] = {}
    own = _by_copies(looks, _units(_without_copies(looks)))
    for look in looks:
        alone = own[look.name]
        if look.name not in used:
            gone = alone.role.names_persons or (alone.role is Role.DROPPED and alone.reason)
            found[look.name] = alone if gone else Guess(alone.kind, Role.DROPPED, "no analysis names it")
            continue
        reason, role = f"needed by {', '.join(map(quoted, needs.users[look.name]))}", Role.MASKED
        if alone.role is Role.MASKED:
            if used[look.name].role is Role.DROPPED:
                reason += f"; but it is {used[look.name].reason}, {REASONS['contradict']}"
        elif is_supported(look.type) and look.distinct >= 2:
            reason = f"CHECK: {reason}; but {alone.reason}"
        else:
            reason, role = f"CHECK: {alone.reason}; but {reason}", Role.DROPPED
        found[look.name] = Guess(alone.kind, role, reason)
    # Models take the weight without naming it
    alone_or_used = [look for look in looks if look.name in needs.users or names_weight(look.name) is not False]
    _survey_weight(alone_or_used, own)
    found |= {n: each for n, each in own.items() if each.role in (Role.SAMPLING_WEIGHT, Role.REPLICATE_WEIGHT)}
    if needs.survival is not None:
        _survival_of(needs.survival, {look.name: look for look in looks}, found)
    return _weighted(found, needs)


def _survival_of(survival: Survival, looks: dict[str, Look], found: dict[str, Guess]) -> None:
    """Give the roles that the first Cox model asks for; without a plain time and status, none."""
    time, status = survival.time, survival.status
    if time is None or status is None or time == status or Role.DROPPED in (found[time].role, found[status].role):
        return
    if looks[time].numbers is None or looks[time].date:
        return
    whose = f"of the Cox model {quoted(survival.name)}"
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
    why = f"in distances: the response of {quoted(needs.responses[response])} weighs as much as all else"
    return found | {response: replace(found[response], weight=(others, why))}


def _alone(look: Look) -> Guess:
    """What a column's own name, type and distinct values say."""
    kind = _kind(look)
    if not is_supported(look.type) and not pa.types.is_null(look.type):
        timed = pa.types.is_time(look.type) or pa.types.is_duration(look.type)
        return Guess(kind, Role.DROPPED, "values of this type cannot be released" + "; as numbers they can" * timed)
    if look.distinct < 2:
        if look.distinct and not look.date and min(look.filled, len(look.codes) - look.filled) >= FEWEST:
            return Guess(kind if kind.coded else Kind.CATEGORICAL, Role.MASKED, REASONS["mark"])
        return Guess(kind, Role.DROPPED, "constant or empty in the sample: it tells nothing")
    form = look.form if look.form is not None and (look.form.never_codes or _too_many(look)) else None
    if form is not None and not form.whole and not names_unit(look.name):
        return Guess(Kind.DATE if form.date else Kind.CONTINUOUS, Role.DROPPED, form.reason)
    if is_index(look.name) and look.distinct == look.filled:
        return Guess(kind, Role.DROPPED, REASONS["index"])
    if look.numbers is None and holds_person_names(look.name):
        if look.distinct == look.filled:
            return Guess(kind, Role.IDENTIFIER, "its name says so")
        return Guess(kind, Role.DROPPED, REASONS["shared_names"])
    if reason := _identifying(look):
        if reason is not REASONS["repeating"]:
            return Guess(kind, Role.IDENTIFIER, reason)
        rows = np.bincount(look.codes[look.codes >= 0])
        once = int((rows == 1).sum())
        # a number with as many rows is no error; of one person they would count as those of k
        if once < MOSTLY_ONCE * look.distinct or (look.numbers is not None and rows.max() >= MANY_ROWS):
            return Guess(kind, Role.UNIT, reason)
        # `_by_repeats` makes it the unit where rows of a value agree in other columns
        return Guess(kind, Role.DROPPED, REASONS["namesakes"].format(once=once, values=look.distinct))
    return Guess(Kind.INTEGER, Role.DROPPED, form.reason) if form is not None else _without_persons(look, kind)


def _without_persons(look: Look, kind: Kind) -> Guess:
    """Kind and role of a column that names no persons."""
    if look.odd:
        return Guess(kind, Role.DROPPED if _too_many(look) else Role.MASKED, look.odd)
    if kind is Kind.INTEGER and has_word(look.name, POSTAL_NAMES):
        return Guess(kind, Role.DROPPED, REASONS["postal"])
    if look.numbers is None and _too_many(look):
        reason = REASONS["many texts"].format(count=look.distinct, most=MANY_CATEGORIES)
        return Guess(kind, Role.DROPPED, reason)
    if look.whole and (why := _codes(look)) and look.distinct > FEW_CODES:
        few = Role.MASKED, REASONS["code"].format(why=why)
        many = Role.DROPPED, REASONS["many codes"].format(why=why, count=look.distinct, most=MANY_CATEGORIES)
        return Guess(kind, *(many if _too_many(look) else few))
    if kind is Kind.CATEGORICAL and look.numbers is not None:
        return Guess(kind, Role.MASKED, "few whole numbers, taken for codes; if they are counts, write kind: integer")
    if kind is Kind.INTEGER and look.distinct <= FEW_CODES:
        return Guess(kind, Role.MASKED, "few whole numbers that look like counts; for codes write kind: categorical")
    if kind is Kind.INTEGER and _uneven(look):
        return Guess(kind, Role.MASKED, REASONS["uneven"])
    digits = many_digits(look) if kind is Kind.INTEGER else 0
    return Guess(kind, Role.MASKED, REASONS["same_length"].format(digits=digits) if digits else "")


MANY_DIGITS = 7  # From so many on numbers of equal length are rarely quantities: telephone numbers, codes
UNEVEN, APART = 8.0, 0.2  # How far from the mean of its neighbours' rows: in variances, and as a share of the larger
ALIKE = 0.8  # Share of values that lie on the same side of that in both halves of the sample


def _uneven(look: Look) -> bool:
    """Whether shares of neighbouring whole numbers differ much, away from multiples of five, to which many round."""
    values = look.values[~np.isnan(look.values)]
    if _too_many(look) or not len(values) or np.ptp(values) >= 2 * look.distinct or np.abs(values).max() >= 2.0**53:
        return False
    values = values.astype(np.int64)
    # Of two halves, as rows of a sorted input are near to others of their value in the sample
    halves = [np.bincount(half - values.min(), minlength=int(np.ptp(values)) + 1) for half in np.array_split(values, 2)]
    numbers, rows = np.arange(values.min() + 1, values.max()), (halves[0] + halves[1]).astype(np.float64)
    around, own = (rows[:-2] + rows[2:]) / 2.0, rows[1:-1]
    asked = np.isin(numbers % 5, (2, 3)) & (own > 0)
    one, other = (np.sign(2 * half[1:-1] - half[:-2] - half[2:])[asked] for half in halves)
    off, around, own = np.abs(own - around)[asked], around[asked], own[asked]
    if len(own) < FEW_CODES / 2 or np.mean(one == other) < ALIKE:
        return False
    clear = np.median(off**2 / (own + around / 2.0)) >= UNEVEN
    return bool(clear and np.median(off / np.maximum(own, around)) >= APART)


def _codes(look: Look) -> str:
    """Why whole numbers are taken for codes: by their name, or as many digits repeat and lie on no step."""
    if names_code(look.name):
        return "by its name"
    digits, (step, tens) = many_digits(look), large_step(look.values)
    codes = digits and look.filled > MOST_ROWS * look.distinct and step is None and tens < MOSTLY_STEPPED
    return f"as all numbers have {digits} digits and repeat," if codes else ""


def many_digits(look: Look) -> int:
    """How many digits all numbers of a column have; 0 where they differ, or are as few as those of quantities."""
    numbers = look.values[~np.isnan(look.values)]
    if not len(numbers) or numbers.min() < 1.0:
        return 0
    least, most = (len(str(int(number))) for number in (numbers.min(), numbers.max()))
    return least if least == most >= MANY_DIGITS and not look.date else 0


def _kind(look: Look) -> Kind:
    if look.date:
        return Kind.DATE
    if look.distinct == 2 or pa.types.is_boolean(look.type):
        return Kind.BINARY
    few = (look.distinct <= FEW_CODES and not _counts(look)) or (not _too_many(look) and _codes(look))
    if look.numbers is None or (look.whole and few):
        return Kind.ORDINAL if look.ordered else Kind.CATEGORICAL
    return Kind.INTEGER if look.whole else Kind.CONTINUOUS


FEWEST_COUNTS = 4  # Distinct counts below which they may be codes
LARGEST_COUNT = 0.01  # Share of the rows that have the largest of counts that no name says are such
STEEPER = 0.9  # Times the ratio of neighbouring shares that the next one is at most: of codes by frequency it is more


def _counts(look: Look) -> bool:
    """Whether few whole numbers are counts: all from 0 or 1 on, and ever fewer rows have the larger ones."""
    # Where no name says so they begin with 0, and their shares fall ever more steeply, as those of rare events do.
    values, rows = np.unique(look.values[~np.isnan(look.values)], return_counts=True)
    if len(values) < FEWEST_COUNTS or values[0] not in (0.0, 1.0) or values[-1] - values[0] >= len(values):
        return False
    after = rows[rows.argmax() :]
    if (np.diff(after) > 2.0 * np.sqrt(after[1:])).any() or after[-1] > after[0] / 2.0:
        return False
    ratios = (rows[1:] / rows[:-1])[rows[1:] >= ENOUGH_ROWS]
    steep = len(ratios) > 1 and bool((ratios[1:] <= STEEPER * ratios[:-1]).all())
    return names_count(look.name) or (steep and values[0] == 0.0 and rows[-1] < LARGEST_COUNT * rows.sum())


def _identifying(look: Look) -> str:
    """Why a column is an identifier; empty where it is none. Dates and fractions never are."""
    if look.date or (look.numbers is not None and not look.whole):
        return ""
    unique = look.distinct == look.filled
    if look.whole and names_code(look.name) and look.filled > MOST_ROWS * look.distinct:
        return ""
    named = names_unit(look.name) or (look.numbers is None and names_one_unit(look.name))
    if named and (unique or look.distinct > ENOUGH_ROWS):
        return "its name says so" if unique else REASONS["repeating"]
    if unique and look.filled >= ENOUGH_ROWS:
        return "no value occurs twice in the sample; if it is a measurement, write role: masked"
    return ""


MANY_ROWS = 4  # Rows of a person's number from which on they are taken for one person's
MOSTLY_ONCE = 0.5  # Share of values that occur once, from which on repeats are taken for errors or namesakes


def _too_many(look: Look) -> bool:
    return look.distinct > min(MANY_CATEGORIES, max(FEW_CODES, MANY_SHARE * look.filled))


def _survival(looks: list[Look], guesses: dict[str, Guess]) -> None:
    """Give the roles survival_time and survival_status where both are found: by names, a status also by its values."""
    masked = [look for look in looks if guesses[look.name].role is Role.MASKED]
    known, state = {look.name: look for look in masked}, status_of(masked, guesses)
    if state is None:
        return
    numbers = [look for look in masked if not guesses[look.name].kind.coded and not look.date]
    times = [look.name for look in numbers if _is_timed(look, known[state])]
    named = best_of(times, TIME_NAMES)
    time = max(named, key=lambda name: _differs(known[name], known[state]), default=None)
    if time is not None:
        guesses[time] = Guess(guesses[time].kind, Role.SURVIVAL_TIME, "time until the event or the end of follow-up")
        guesses[state] = Guess(guesses[state].kind, Role.SURVIVAL_STATUS, "released unchanged")


def _is_timed(time: Look, state: Look) -> bool:
    """Whether numbers, none below 0, are known of half the rows of each status or more."""
    known = state.codes >= 0
    times = np.bincount(state.codes[known], ~np.isnan(time.values[known]))
    rows = np.bincount(state.codes[known])
    return bool((2 * times >= rows).all() and times.any() and np.nanmin(time.values) >= 0)


def status_of(looks: Sequence[Look], guesses: Mapping[str, Guess]) -> str | None:
    """The column that may say whether persons live, or had the event: by its values, else by its name."""
    coded = [look for look in looks if guesses[look.name].kind.coded and look.life is not None]
    few = [look for look in coded if look.distinct <= FEW_CODES]
    alive = [look.name for look in few if look.life]
    return next(iter(best_of(alive, STATUS_NAMES) or alive or best_of([look.name for look in few], STATUS_NAMES)), None)


def time_asked(looks: Sequence[Look], guesses: Mapping[str, Guess], orders: Sequence[str]) -> list[str]:
    """A question on the time between two dates in their order, where there is a status and no survival time."""
    released = [look for look in looks if guesses[look.name].role.released]
    dates, state = {look.name for look in released if look.date}, status_of(released, guesses)
    ordered = [names for text in orders if dates.issuperset(names := text.split(" <= "))]
    if not ordered or state is None or any(guessed.role is Role.SURVIVAL_TIME for guessed in guesses.values()):
        return []
    return [REASONS["time"].format(first=ordered[0][0], last=ordered[0][-1], state=state)]


_JOINED, _JOINED_BY_CHANCE = 0.5, 0.1  # Shares of rows that begin where the row before ends, from which, up to which


def intervals_asked(looks: Sequence[Look], guesses: Mapping[str, Guess], unit: Look) -> list[str]:
    """A remark where rows of a unit begin at the end of the row before, of which masks would know nothing."""
    able = [look for look in looks if guesses[look.name].role.synthesized and look.numbers is not None]
    for begin in able:
        order = np.lexsort((begin.values, unit.codes))
        order = order[unit.codes[order] >= 0]
        at, before = order[1:], order[:-1]
        later = (unit.codes[at] == unit.codes[before]) & (begin.values[at] > begin.values[before])
        at, before = at[later], before[later]
        if len(at) < max(FEWEST, _JOINED * (unit.filled - unit.distinct)):
            continue
        for end in (look for look in able if look is not begin and look.date == begin.date):
            gaps = begin.values[at] - end.values[before]
            for gap in (0.0, 1.0) if begin.date else (0.0,):
                by_chance = begin.values[at] - np.roll(end.values[before], len(at) // 2) == gap
                if (share := np.mean(gaps == gap)) >= _JOINED and by_chance.mean() <= _JOINED_BY_CHANCE:
                    names = {"begin": quoted(begin.name), "end": quoted(end.name), "unit": quoted(unit.name)}
                    after = " the day after" if gap else ""
                    return [REASONS["intervals"].format(share=f"{100 * share:.0f}", after=after, **names)]
    return []


# Of a column whose name may be that of a body weight the values that are kilograms or pounds
_BODY = (30.0, 260.0)  # Between which the median lies,
_BODY_MOST = 800.0  # and what the largest is no more than;
_BODY_EXPLAINED = 0.6  # of a survey weight categories explain so much of the variance, sex and age of a body's less

MOST_BY = 4  # Columns that are proposed to decide a weight
_CELL_ROWS = 10  # Sampled rows of a combination of these, on average
_MORE = 0.02  # Share of the variance that each of them explains besides; less if it is
_OF_REST = 0.1  # this share of what is left, and moves weighted shares of its categories by so many standard errors,
_ERRORS = 3.0  # about half of what gates.weighted_estimates allows
_LEAST_EXPLAINED = 0.1


def _survey_weight(looks: list[Look], guesses: dict[str, Guess]) -> None:
    """Give the role sampling_weight to the first column that is named so and holds what weights are."""
    # Replicates of it are left out, and sampling units, of which masked numbers mean nothing.
    replicates = [look.name for look in looks if look.numbers is not None and names_replicate(look.name)]
    for name in replicates if len(replicates) > 1 else ():
        guesses[name] = Guess(guesses[name].kind, Role.REPLICATE_WEIGHT, REASONS["replicates"])
    sure = {look.name: names_weight(look.name) for look in looks if guesses[look.name].role is Role.MASKED}
    able = [look for look in looks if look.numbers is not None and not look.date and (look.values > 0.0).all()]
    found = [look for look in able if sure.get(look.name, False) is not False]
    for look in looks:
        if sure.get(look.name) and look not in found and look.numbers is not None:
            guesses[look.name] = guesses[look.name].noted(REASONS["no weight"])
    units = [look.name for look in looks if names_design(look.name, "psu") and not look.date]
    few = [each for each in looks if guesses[each.name].kind.coded and each.distinct <= MANY_CATEGORIES]
    known = [one for one in few if guesses[one.name].role in (Role.MASKED, Role.KEY) and one.name not in units]
    for look in sorted(found, key=lambda look: (_numbered(look, found), not sure[look.name])):
        by, explained = _explaining(look, [each for each in known if each is not look])
        may_be_body = _BODY[0] <= np.median(look.values) <= _BODY[1] and look.values.max() <= _BODY_MOST
        if sure[look.name] or explained >= _BODY_EXPLAINED or not may_be_body:
            break
    else:
        for name in units:
            guesses[name] = guesses[name].noted(REASONS["sampling_unit"])
        return
    kind = Kind.INTEGER if look.whole else Kind.CONTINUOUS
    guesses[look.name] = Guess(kind, Role.SAMPLING_WEIGHT, REASONS["weight"], by=by, explained=explained)
    numbers = [each.name for each in looks if not (each.date or guesses[each.name].kind.coded)]
    strata = [name for name in numbers if names_design(name, "strata")]
    for name, reason in (dict.fromkeys(strata, "design_strata") | dict.fromkeys(units, "sampling_unit")).items():
        guesses[name] = Guess(guesses[name].kind, Role.DROPPED, REASONS[reason])
    for name in _replicates(look, [each for each in looks if guesses[each.name].role is Role.MASKED]):
        guesses[name] = Guess(guesses[name].kind, Role.REPLICATE_WEIGHT, REASONS["numbered replicates"])


_DIGITS = "0123456789"
_FEWEST_REPLICATES = 4
_SUMS = (2 / 3, 3 / 2)  # Of replicate weights over those of the weight
_LEAST_CORRELATION = 0.2  # Of replicates with the weight, the median: of balanced half-samples it is small


def _replicates(weight: Look, others: Sequence[Look]) -> list[str]:
    """Numbered columns, several of one stem, that add up to about what the weight does and are correlated with it."""
    by_stem: dict[str, list[Look]] = {}
    for each in others:
        stem, able = each.name.rstrip(_DIGITS), each.numbers is not None and not each.date and each.distinct > 1
        if able and stem and stem != each.name and not (each.values < 0).any():
            by_stem.setdefault(stem, []).append(each)
    found = []
    for several in by_stem.values():
        if len(several) < _FEWEST_REPLICATES:
            continue
        values = np.stack([each.values for each in several])
        known = ~np.isnan(values)
        sums = np.nansum(values, axis=1) / (weight.values * known).sum(axis=1)
        if (sums < _SUMS[0]).any() or (sums > _SUMS[1]).any():
            continue
        pairs = [(weight.values[there], each[there]) for each, there in zip(values, known, strict=True)]
        if np.median([np.corrcoef(*pair)[0, 1] for pair in pairs]) >= _LEAST_CORRELATION:
            found += [each.name for each in several]
    return found


def _numbered(look: Look, others: Sequence[Look]) -> bool:
    """Whether its name ends in a number, and so do those of several others of the same stem."""
    stem = look.name.rstrip(_DIGITS)
    return stem != look.name and sum(each.name.rstrip(_DIGITS) == stem for each in others) >= _FEWEST_REPLICATES


def _explaining(weight: Look, categories: Sequence[Look]) -> tuple[tuple[str, ...], float]:
    """The categories that explain a weight, the best first, and the share of its variance that they do, adjusted."""
    logs, best = np.log(weight.values), 0.0
    chosen: list[str] = []
    cells, left, n = np.zeros(len(weight.values), dtype=np.int64), list(categories), len(weight.values)
    total = float(np.square(logs - logs.mean()).sum())
    while left and len(chosen) < MOST_BY and best < 1.0 - 1e-9:
        tried = [np.unique(cells * (look.codes.max() + 2) + look.codes + 1, return_inverse=True)[1] for look in left]
        shares = []
        for each in tried:
            counts = np.bincount(each.reshape(-1))
            means = np.bincount(each.reshape(-1), logs) / counts
            inside = float(np.square(logs - means[each.reshape(-1)]).sum()) / max(1, n - len(counts))
            shares.append(1.0 - inside * (n - 1) / total if n >= _CELL_ROWS * len(counts) else -1.0)
        at = int(np.argmax(shares))
        more, rest = shares[at] - best, 1.0 - best
        if more < min(_MORE, rest / 2.0) and (more < _OF_REST * rest or more * total < _ERRORS**2):
            break
        best, cells = shares[at], tried[at].reshape(-1)
        chosen.append(left.pop(at).name)
    return (tuple(chosen), best) if best >= _LEAST_EXPLAINED else ((), best)


def _differs(time: Look, state: Look) -> float:
    """How far apart the mean ranks of the times of two states are, as a share of all ranks."""
    known = np.isfinite(time.values) & (state.codes >= 0)
    counts = np.bincount(state.codes[known])
    ranks = np.argsort(np.argsort(time.values[known]))
    means = np.bincount(state.codes[known], ranks)[counts > 0] / counts[counts > 0]
    return float(np.ptp(means) / known.sum()) if len(means) > 1 else 0.0


def seen_by_others(guesses: Mapping[str, Guess]) -> tuple[str, ...]:
    """Released columns that somebody outside usually knows of a person, by their names, and those released unchanged.

    None where no name says so: combinations of what is released unchanged are counted anyway.
    """
    released = {name: guessed for name, guessed in guesses.items() if guessed.role.released}
    seen = {name for name, guessed in released.items() if _is_seen(name, guessed)}
    unchanged = {name for name, guessed in released.items() if guessed.role in (Role.KEY, Role.SURVIVAL_STATUS)}
    return tuple(name for name in released if name in seen | unchanged) if seen else ()


def _is_seen(name: str, guessed: Guess) -> bool:
    if guessed.kind is Kind.INTEGER and (names_one_unit(name) or names_unit(name)):
        return False  # a number of a household, which nobody outside knows
    starts = SEEN_NAMES + PUBLIC_DATES * (guessed.kind is Kind.DATE)
    return has_word(name, ("age$", *starts))
