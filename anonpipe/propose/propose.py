"""A first job for an unknown table: kinds and roles guessed from names, types and a bounded sample.

The text holds column names and no value of the data. It proposes neither bounds nor categories nor events, which the
steward takes from the code book. Only what a file itself declares is taken from it: the categories of an ordered
column, in their order (`declared_order`), and the step of numbers that all lie on one (`common_step`). Columns that
follow from others are proposed as dropped: masking them one by one would contradict or betray the others.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from keyword import iskeyword
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import yaml

from anonpipe.codebook import MOST_LEVELS, BookVariable, CodeBook, read_codebook
from anonpipe.columns import Column, Kind, Role, Scalar
from anonpipe.encoding.identifiers import agree, pairs_of
from anonpipe.encoding.scan import MOST_DUMMIES, TotalLine
from anonpipe.encoding.values import is_number, plain, plain_type
from anonpipe.errors import JobError, plural
from anonpipe.evaluate.utility import refuse_dates
from anonpipe.files import templates
from anonpipe.job.analyses import DEFAULT_LIMITS, RESPONSE_WEIGHT, Needs, needs_of
from anonpipe.job.csv_format import QUESTION
from anonpipe.job.measure import RecipientAnalysis, usual_hold_out
from anonpipe.propose import method_choice
from anonpipe.propose.guesses import (
    MOSTLY_STEPPED,
    Guess,
    common_step,
    copies_asked,
    guess,
    guess_for,
    intervals_asked,
    large_step,
    many_digits,
    seen_by_others,
    time_asked,
)
from anonpipe.propose.method_choice import MethodChoice, choose_method, propose_design
from anonpipe.propose.names import REASONS, codes_for_unknown, names_code, quoted
from anonpipe.propose.profile import MANY_CATEGORIES, Look, look_at, sample_of
from anonpipe.propose.rules import amounts, computed_rules, kept_copies, propose_rules
from anonpipe.source import NO_CSV, FoundFormat, Source, found_format, opened
from anonpipe.types import FloatArray

if TYPE_CHECKING:
    from jinja2 import Template


@dataclass(frozen=True)
class Taken:
    """What was taken from a code book."""

    text: str = ""  # In a line, for the steward
    missing: str = ""  # On columns with codes for missing values; empty without any


def propose_job(
    source_url: str, output: str, k: int, analyses: Sequence[RecipientAnalysis] = (), codebook: str | Path | None = None
) -> str:
    """Propose a commented job for a table, with what a code book says of it; the steward corrects and completes it."""
    if k < 2:
        raise JobError(f"k is {k}; give at least 2: no group of records that are replaced together is smaller")
    written = found_format(source_url)
    if codebook is not None and (missing := read_codebook(codebook).missing) is not None and written is not NO_CSV:
        written = replace(written, form=written.form.model_copy(update={"missing": missing}))
    with opened(source_url, form=written.form) as source:
        totals = TotalLine(source.schema.names[0])
        sample, rows = sample_of(source, totals), source.rows
    looks = look_at(sample)
    needs = needs_of(analyses, [look.name for look in looks]) if analyses else None
    for each in analyses:
        refuse_dates(each.analysis, [look.name for look in looks], {look.name for look in looks if look.date})
    guesses = guess(looks) if needs is None else guess_for(looks, needs)
    for look, one in [(look, guesses[look.name]) for look in looks]:
        guesses[look.name] = replace(
            one, ordered=look.ordered, levels=look.levels, codes=_codes(look, one), **_step(look, one)
        )
    taken = Taken()
    if codebook is not None:
        guesses, taken = with_codebook(guesses, looks, sample, read_codebook(codebook, sample.column_names))
    guesses, design = propose_design(looks, guesses, rows, k)
    guesses = method_choice.without_rare_status(looks, guesses, rows, k)
    unit = method_choice.unit_of_several_rows(looks, guesses)
    order = None if unit is None else method_choice.order_of_rows(looks, guesses, unit)
    text = None if unit is None or order else method_choice.order_of_rows(looks, guesses, unit, texts=True)
    if order is not None and guesses[order].kind.coded:
        guesses[order] = replace(guesses[order], kind=Kind.INTEGER, reason="orders the rows of a unit")
    guesses |= (copies := kept_copies(looks, guesses))
    kept = [look for look in looks if guesses[look.name].role.released]
    constant, nearly = ([], []) if unit is None else _constant(kept, unit)
    guesses |= {name: guesses[name].noted(REASONS["nearly_constant"]) for name in nearly}
    computed = computed_rules(looks, guesses, order, constant)
    guesses |= amounts(computed, guesses)
    chosen, guesses = _chosen(looks, guesses, rows, k)
    measurable = method_choice.strata_measurable(looks, guesses, rows)
    name = None if unit is None else unit.name
    chosen = replace(chosen, strata_measurable=measurable, unit=name, constant=tuple(constant), order=order, text=text)
    rules = propose_rules(looks, guesses, computed, order)
    asked = [f"CHECK: {each}." for each in totals.warnings()] + copies_asked(looks, guesses) + _asked_codes(guesses)
    asked += time_asked(looks, guesses, [rule.text for rule in rules if rule.active])
    asked += [] if unit is None else intervals_asked(looks, guesses, unit)
    guesses |= {name: _by_answer(guesses[name]) for name in written.open}
    # of rows of persons it would not hold where these come out whole
    own = [look for look in looks if look.name not in copies]
    usual = default_regression(own, guesses) if needs is None and unit is None else None
    shown = {"rules": rules, "asked": asked, "taken": taken, "usual": usual, "design": design}
    return _write(guesses, needs, chosen, rows, written, input=source_url, output=output, k=k, **shown)


def _chosen(
    looks: Sequence[Look], guesses: dict[str, Guess], rows: int, k: int
) -> tuple[method_choice.MethodChoice, dict[str, Guess]]:
    """The method, and the guesses as it has them."""
    chosen = choose_method(looks, guesses, rows, k)
    coded = [look for look in looks if guesses[look.name].kind.coded]
    if chosen.records_needed or method_choice.feature_columns(coded, guesses) > MOST_DUMMIES:
        guesses = {look.name: _as_amount(look, guesses[look.name]) for look in looks}
        chosen = choose_method(looks, guesses, rows, k)
    if chosen.mask == "local_synthesis":
        guesses = {name: _by_categories(guessed) for name, guessed in guesses.items()}
    if chosen.mask is not None:  # weights are those of distances
        guesses = {name: replace(guessed, weight=None) for name, guessed in guesses.items()}
    return chosen, guesses | _spikes(looks, guesses, rows, k)


def _constant(looks: Sequence[Look], unit: Look) -> tuple[list[str], list[str]]:
    """Columns with one value in all rows of a unit, and others with one in nearly all."""
    first, second = pairs_of(unit.codes)
    found = [look for look in looks if agree(look.codes, first, second)]
    whole = [look.name for look in found if np.array_equal(look.codes[first], look.codes[second])]
    return whole, [look.name for look in found if look.name not in whole]


def open_questions(job: Mapping[str, Any]) -> list[str]:
    """The keys of a proposed job's input that are questions."""
    given = job["input"] if isinstance(job["input"], dict) else {}
    return [f"input.{key}" for key, value in given.items() if value == QUESTION]


def not_found(text: str, job: Mapping[str, Any]) -> list[str]:
    """Of what is looked for in every table that which a proposed job does not have."""
    roles = {column["role"] for column in job["columns"].values()}
    found = {
        "survival time": Role.SURVIVAL_TIME in roles or REASONS["time_of_few"] in text,
        "unit": Role.UNIT in roles or Role.IDENTIFIER in roles,
        "survey weight": Role.SAMPLING_WEIGHT in roles or Role.SURVIVAL_TIME in roles,  # a register, no sample
        "scenario": "scenarios" in (job.get("measure") or {}),
    }
    return [what for what, there in found.items() if not there]


def default_output(source_url: str) -> str:
    """A folder by the name of the data: two tables in one output would take each other's place."""
    scheme, _, path = source_url.rpartition("://")
    parts = [part for part in path.split("/") if part.strip(".") and not set("*?[") & set(part)]
    name = re.sub(r"#\d+$", "", parts[-1]) if parts else ""  # without the version of a table
    name = name.rpartition(".")[2] if scheme == "iceberg" else name.split(".")[0]
    return f"{name or 'table'}-release"


def guess_columns(source: Source) -> dict[str, Column]:
    """Kind of each column of a table that something can be measured of, and role of those that name persons."""
    # Columns that are proposed as dropped because they follow from others are among them; those of too many texts, or
    # of no usable type, are not.
    looks = look_at(sample_of(source))
    guesses = guess(looks)
    return {
        look.name: Column(kind=guessed.kind, role=guessed.role if guessed.role.names_persons else Role.MASKED)
        for look in looks
        if (guessed := guesses[look.name]).role is not Role.DROPPED
        or look.numbers is not None
        or look.distinct <= MANY_CATEGORIES
    }


def _step(look: Look, guessed: Guess) -> dict[str, Any]:
    """What the proposal says of a masked column's step; decimals have that of their type, dates of days."""
    if look.numbers is None or guessed.role is Role.SAMPLING_WEIGHT:  # factors lead weights off any step
        return {}
    if look.date:
        return {"timed": not look.whole}
    if guessed.kind is Kind.INTEGER:
        step, tens = large_step(look.numbers)
        return {"step": step, "tens": tens if step is None and tens >= MOSTLY_STEPPED else 0.0}
    fractions = pa.types.is_floating(plain_type(look.type)) or pa.types.is_decimal(plain_type(look.type))
    if not fractions or guessed.kind is not Kind.CONTINUOUS:
        return {}
    return {"step": common_step(look.numbers, single=plain_type(look.type) == pa.float32())}


_SPIKE = 0.05  # Least share of zeros that are masked apart from other numbers
_HIGHEST = 3.0  # Times the zeros are as many as the records of any other number
_FEWEST_OTHER = 100  # Other numbers of the table


def _spikes(looks: Sequence[Look], guesses: Mapping[str, Guess], rows: int, k: int) -> dict[str, Guess]:
    """Columns with a spike at 0, where the table has enough records for one more feature column of each."""
    shares = {look.name: _zeros(look, guesses, rows) for look in looks}
    found = {name: replace(guesses[name], zeros=share) for name, share in shares.items() if share}
    chosen = choose_method(looks, {**guesses, **found}, rows, k)
    return found if chosen.mask == "local_synthesis" and not chosen.records_needed else {}


def _zeros(look: Look, guesses: Mapping[str, Guess], rows: int) -> float:
    """The share of zeros in a masked column of numbers where they are a spike; else 0."""
    guessed, n = guesses[look.name], len(look.codes)
    if guessed.role is not Role.MASKED or not guessed.kind.numeric or look.filled < n:
        return 0.0
    share, zero = float((look.values == 0).mean()), look.codes[look.values == 0][:1]
    others = np.delete(np.bincount(look.codes), zero)
    enough = (1.0 - share) * rows >= _FEWEST_OTHER and len(others) > 1
    return share * (enough and share >= max(_SPIKE, _HIGHEST * others.max() / n))


def _codes(look: Look, guessed: Guess) -> dict[float, int]:
    """Numbers of a masked column of numbers or dates that may be codes for "unknown"."""
    if look.numbers is None or not guessed.role.synthesized or guessed.kind.coded:
        return {}
    values, counts = np.unique(look.numbers[np.isfinite(look.numbers)], return_counts=True)
    return codes_for_unknown(values, counts, days=look.date)


def _asked_codes(guesses: Mapping[str, Guess]) -> list[str]:
    """One question for all columns that have the same codes: names and numbers of rows, no value."""
    columns: dict[tuple[float, ...], list[str]] = {}
    for name, guessed in guesses.items():
        if guessed.codes:
            columns.setdefault(tuple(guessed.codes), []).append(name)
    asked = []
    for codes, names in columns.items():
        rows = sorted(sum(guesses[name].codes.values()) for name in names)
        many = f"{rows[0]:,}" if rows[0] == rows[-1] else f"{rows[0]:,} to {rows[-1]:,}"
        what = "value" if len(codes) == 1 else f"{len(codes)} values"
        which = "the same" if len(names) > 1 else "one" if len(codes) == 1 else "the"
        named = ", ".join(map(quoted, names))
        asked.append(REASONS["unknown"].format(names=named, rows=many, which=which, what=what))
    return asked


EXACT = 2.0**53  # Whole numbers below are floats without rounding


def _as_amount(look: Look, guessed: Guess) -> Guess:
    """Few whole numbers as amounts: as categories of a table with few records they would disclose membership."""
    small = look.whole and float(np.nanmax(np.abs(look.values))) < EXACT
    known = guessed.kind_is_known or names_code(look.name)
    if guessed.kind is not Kind.CATEGORICAL or not guessed.role.synthesized or not small or known:
        return guessed
    return replace(guessed, kind=Kind.INTEGER, reason=REASONS["amount"])


def _by_answer(guessed: Guess) -> Guess:
    """A column of numbers with three digits after each mark: whole numbers, as a run refuses others of this kind."""
    if not guessed.kind.numeric or not guessed.role.synthesized:
        return guessed
    return replace(guessed.noted(REASONS["open_mark"]), kind=Kind.INTEGER, step=None)


def _by_categories(guessed: Guess) -> Guess:
    """An ordinal as categories where records are synthetic: its position alone loses associations of each category."""
    if guessed.kind is not Kind.ORDINAL or not guessed.role.synthesized or guessed.kind_is_known:
        return guessed
    return replace(guessed, kind=Kind.CATEGORICAL, reason=guessed.reason or REASONS["by_categories"])


def _flow(values: tuple[Scalar, ...]) -> str:
    """A list of values on one line; texts whose line breaks YAML would fold are quoted so that they stay."""
    if any(isinstance(value, str) and not value.isprintable() for value in values):
        return "[" + ", ".join(quoted(each) if isinstance(each, str) else _flow((each,))[1:-1] for each in values) + "]"
    return str(yaml.safe_dump(list(values), default_flow_style=True, width=10**9, allow_unicode=True)).rstrip("\n")


def _key(name: str) -> str:
    """A column name as a YAML key: quoted where YAML would take it for something else."""
    safe = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", name) and isinstance(yaml.safe_load(name), str)
    return name if safe else quoted(name)


def _write(
    guesses: dict[str, Guess], needs: Needs | None, choice: MethodChoice, rows: int, written: FoundFormat, **shown: Any
) -> str:
    """The YAML text of a proposed job, with what the template is shown as it is; it holds no value of the data."""
    chosen = {} if needs is None else needs.subsets
    given = written.form.given()
    if "decimal" in written.questions:
        given.pop("thousands", None)  # part of the answer
    by_role = {guessed.role: name for name, guessed in reversed(guesses.items())}
    return template("job.yaml.jinja").render(
        **shown,
        written=given | dict.fromkeys(written.questions, QUESTION),
        questions=written.questions,
        guesses=guesses,
        needs=needs,
        choice=choice,
        mask=choice.mask,
        status=by_role.get(Role.SURVIVAL_STATUS),
        seen=seen_by_others(guesses),
        timed=Role.SURVIVAL_TIME in by_role,
        # Analyses that take some of the records, chosen by a masked category.
        blurred={
            name: who for name, who in chosen.items() if guesses[name].role is Role.MASKED and guesses[name].kind.coded
        },
        response_weight=RESPONSE_WEIGHT,
        limits=method_choice,
        hold_out=usual_hold_out(rows),
        default_limits=DEFAULT_LIMITS,
        stepped=any(each.step for each in guesses.values()),
        declared=any(
            each.levels and each.kind.coded and each.role.released and not each.booked for each in guesses.values()
        ),
    )


@cache
def template(name: str) -> Template:
    """A template of a job in this folder."""
    environment = templates(Path(__file__).parent, keep_trailing_newline=True)
    texts = {"wrapped": partial(wrap, width=116), "quoted": quoted, "flow": _flow, "key": _key, "json": json.dumps}
    environment.filters |= texts
    environment.globals |= {"Kind": Kind, "Role": Role}
    return environment.get_template(name)


# --- What a proposal takes from a code book ---------------------------------------------------------------------------

_TRUE = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def with_codebook(
    guesses: Mapping[str, Guess], looks: Sequence[Look], sample: pa.Table, book: CodeBook
) -> tuple[dict[str, Guess], Taken]:
    """The guesses with what a code book says of the columns, and what was taken from it."""
    known = {one.name: one for one in book.variables}
    found = {
        look.name: _described(guesses[look.name], look, sample.column(look.name), known[look.name])
        if look.name in known
        else guesses[look.name]
        for look in looks
    }
    booked = [each for each in found.values() if each.booked]
    counts = {
        "kinds": sum(each.kind_is_known for each in booked),
        "bounds": sum(each.bounds is not None for each in booked),
        "levels": sum(bool(each.levels) for each in booked),
        "labels": sum(bool(each.label) for each in booked),
        "units": sum(bool(each.unit_of_measure) for each in booked),
    }
    absent, other = len(found) - len(booked), len(known.keys() - found.keys())
    parts = [f"{what} of {plural(number, 'column')}" for what, number in counts.items() if number]
    text = f"From the code book: {', '.join(parts) or 'nothing'}"
    text += f"; it does not have {plural(absent, 'column')} of the table" * (absent > 0)
    text += f"; {plural(other, 'column')} of it are not in the table" * (other > 0)
    missing = [quoted(name) for name, one in known.items() if name in found and one.missing]
    return found, Taken(f"{text}.", REASONS["missing"].format(names=", ".join(missing)) if missing else "")


def _described(guessed: Guess, look: Look, column: pa.ChunkedArray, one: BookVariable) -> Guess:
    """A guess with what the code book says of its column."""
    found = replace(guessed, booked=True, label=one.label[:1000], unit_of_measure=one.unit[:100])
    if not guessed.role.released:
        return found
    kind = one.kind or guessed.kind
    levels, strange = _levels(column, one) if kind.coded else ((), 0)
    if kind is Kind.BINARY and levels and len(levels) != 2:
        kind = Kind.CATEGORICAL
    if strange:
        found = found.noted(REASONS["other_levels"].format(count=strange))
    if not _possible(kind, look) or (kind is Kind.ORDINAL and not levels):
        return found if strange or one.kind is None else found.noted(REASONS["other_kind"].format(kind=kind.value))
    found = replace(found, kind=kind, kind_is_known=one.kind is not None)
    if kind.coded:
        return replace(found, step=None, levels=levels, ordered=kind is Kind.ORDINAL)
    step, bounds = one.step if one.step is not None else found.step, _bounds(one, kind)
    if outside := _outside(look, bounds) if bounds else one.bounds != (None, None):
        found = found.noted(REASONS["other_bounds"] if outside is True else REASONS["outside"].format(count=outside))
    return replace(found, bounds=bounds, levels=(), ordered=False, step=step)


def _outside(look: Look, bounds: tuple[Scalar | None, Scalar | None]) -> int:
    """How many sampled numbers lie outside of the bounds; of dates none is counted."""
    if look.numbers is None or look.date:
        return 0
    low, high = (math.nan if bound is None else float(bound) for bound in bounds)
    return int(((look.numbers < low) | (look.numbers > high)).sum())


def _possible(kind: Kind, look: Look) -> bool:
    """Whether the values can be of a kind."""
    if kind is Kind.DATE:
        return look.date
    if kind.numeric:
        return look.numbers is not None and not look.date and (look.whole or kind is Kind.CONTINUOUS)
    return kind is not Kind.BINARY or look.distinct <= 2


def _bounds(one: BookVariable, kind: Kind) -> tuple[Scalar | None, Scalar | None] | None:
    """The bounds, where they are numbers (or days) in their order."""
    low, high = one.bounds
    wanted: tuple[type, ...] = (str,) if kind is Kind.DATE else (int, float)
    if any(bound is not None and not isinstance(bound, wanted) for bound in one.bounds) or low == high:
        return None
    if low is not None and high is not None and not low < high:  # type: ignore[operator]
        return None
    return low, high


def _levels(column: pa.ChunkedArray, one: BookVariable) -> tuple[tuple[Scalar, ...], int]:
    """The categories as the column has them, by their codes or their labels; none where distinct values are others."""
    kind = plain_type(column.type)
    values = {value for chunk in column.chunks for value in pc.unique(plain(chunk)).to_pylist() if value is not None}
    kept = [level for level in one.levels if str(level) not in one.missing][:MOST_LEVELS]
    labelled = [one.texts.get(level, "") for level in kept]
    fewest = len(values)
    for given in (kept, labelled):
        levels = tuple(dict.fromkeys(level for each in given if (level := _of_type(each, kind)) is not None))
        strange = len(values - set(levels))
        if levels and not strange:
            return levels, 0
        fewest = min(fewest, strange)
    return (), fewest if one.levels else 0


def _of_type(level: Scalar, kind: pa.DataType) -> Scalar | None:
    """A category in the type of a column; None where it has none."""
    if pa.types.is_boolean(kind):
        return level if isinstance(level, bool) else _TRUE.get(str(level).lower())
    if not is_number(kind):
        return str(level) or None
    try:
        value = float(level)
    except (ValueError, OverflowError):
        return None
    return int(value) if value.is_integer() else value if math.isfinite(value) else None


# --- An analysis that is proposed -------------------------------------------------------------------------------------

_PREDICTORS = 8
_ROWS = 5_000  # Sampled rows that are looked at, and the fewest that have all columns
_FEWEST = 200
_LEVELS = 6  # Most categories of a predictor
_FILLED = 0.95  # Least share of a column's rows that are not null
_FOLLOWS = 0.98  # A correlation from which on one column follows from the other
_WORD = re.compile(r"[^\W\d]\w*")


def default_regression(looks: Sequence[Look], guesses: Mapping[str, Guess]) -> RecipientAnalysis | None:
    """A linear model of the masked number that the other columns explain best; None where there is none."""
    usable = [look for look in looks if _usable(look, guesses[look.name])]
    if len(usable) < 3 or all(guesses[look.name].kind.coded for look in usable):
        return None
    step = -(-len(usable[0].codes) // _ROWS)
    parts = [_columns(look, guesses[look.name])[::step] for look in usable]
    table = np.concatenate(parts, axis=1)
    table = table[np.isfinite(table).all(axis=1)]
    owner = np.repeat(np.arange(len(usable)), [part.shape[1] for part in parts])
    varies = table.std(axis=0) > 0 if len(table) else np.zeros(len(owner), dtype=bool)
    table, owner = table[:, varies], owner[varies]
    numbers = [at for at, place in enumerate(owner) if not guesses[usable[place].name].kind.coded]
    if len(table) < max(_FEWEST, 2 * len(owner)) or len(set(owner)) < 3 or not numbers:
        return None
    correlation = np.corrcoef(table.T)
    explained = 1.0 - 1.0 / np.diag(np.linalg.inv(correlation + 1e-6 * np.eye(len(owner))))
    near = np.abs(correlation - np.eye(len(owner)))
    follows = [near[at].max() > _FOLLOWS or explained[at] > _FOLLOWS for at in numbers]
    response = max(zip(numbers, follows, strict=True), key=lambda each: (not each[1], explained[each[0]]))[0]
    strength = np.zeros(len(usable))
    np.maximum.at(strength, owner, np.where(near[response] > _FOLLOWS, 0.0, near[response]))
    strength[owner[response]] = 0.0
    best = [at for at in np.argsort(-strength, kind="stable")[:_PREDICTORS] if strength[at] > 0]
    terms = [_term(usable[at], guesses[usable[at].name]) for at in sorted(best)]
    name = usable[owner[response]].name
    if not terms:
        return None
    formula = f"{_quoted(name)} ~ {' + '.join(terms)}"
    with suppress(ValueError):  # a name that no formula takes
        return RecipientAnalysis(name=f"{name} by other columns", model="linear", formula=formula)
    return None


def _usable(look: Look, guessed: Guess) -> bool:
    """Whether a column is masked, known of nearly all rows, and can stand in a formula."""
    known = guessed.role is Role.MASKED and guessed.kind is not Kind.DATE and look.filled >= _FILLED * len(look.codes)
    known &= guessed.kind is not Kind.INTEGER or not many_digits(look)  # which may be codes
    few = look.distinct <= _LEVELS if guessed.kind.coded else look.numbers is not None
    is_function = look.name in ("C", "Q")  # of formulas
    writable = look.name.isprintable() and not is_function and not re.search(r"[\"'\\`{}\n\r]", look.name)
    return known and few and look.distinct > 1 and writable


def _columns(look: Look, guessed: Guess) -> FloatArray:
    """A number as it is, categories as 0/1 columns against the first; NaN for null."""
    if not guessed.kind.coded:
        return look.values[:, None]
    dummies = (look.codes[:, None] == np.arange(1, look.distinct)).astype(np.float64)
    return np.asarray(np.where(look.codes[:, None] < 0, np.nan, dummies))


def _term(look: Look, guessed: Guess) -> str:
    """The column in the formula; numbers that stand for categories as such."""
    name = _quoted(look.name)
    return f"C({name})" if guessed.kind.coded and look.numbers is not None else name


def _quoted(name: str) -> str:
    plain = _WORD.fullmatch(name) and name.isascii() and not iskeyword(name)
    return name if plain else f'Q("{name}")'
