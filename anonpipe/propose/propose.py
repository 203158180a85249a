"""A first job for an unknown table: kinds and roles guessed from names, types and a bounded sample.

The text holds column names and no value of the data. It proposes neither bounds nor categories nor events, which the
steward takes from the code book. Only what a file itself declares is taken from it: the categories of an ordered
column, in their order (`declared_order`), and the step of numbers that all lie on one (`common_step`). Columns that
follow from others are proposed as dropped: masking them one by one would contradict or betray the others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import yaml

from anonpipe.codebook import CodeBook, read_codebook
from anonpipe.columns import Column, Kind, Role, Scalar
from anonpipe.encoding.identifiers import agree, pairs_of
from anonpipe.encoding.totals import TotalLine
from anonpipe.encoding.values import plain_type
from anonpipe.errors import JobError
from anonpipe.files import templates
from anonpipe.job.analyses import DEFAULT_LIMITS, RESPONSE_WEIGHT, Needs, needs_of
from anonpipe.job.csv_format import QUESTION
from anonpipe.job.measure import RecipientAnalysis, usual_hold_out
from anonpipe.propose import method_choice
from anonpipe.propose.default_analysis import default_regression
from anonpipe.propose.from_codebook import NOTHING, Taken, with_codebook
from anonpipe.propose.guesses import (
    MOSTLY_STEPPED,
    Guess,
    common_step,
    copies_asked,
    guess,
    guess_for,
    large_step,
    seen_by_others,
)
from anonpipe.propose.method_choice import (
    TIME_OF_FEW,
    MethodChoice,
    ProposedDesign,
    choose_method,
    propose_design,
)
from anonpipe.propose.names import codes_for_unknown, quoted
from anonpipe.propose.profile import MANY_CATEGORIES, Look, look_at, sample_of
from anonpipe.propose.rules import Proposed, propose_rules
from anonpipe.source import NO_CSV, FoundFormat, Source, found_format, opened

if TYPE_CHECKING:
    from jinja2 import Template


def propose_job(
    source_url: str, output: str, k: int, analyses: Sequence[RecipientAnalysis] = (), codebook: str | Path | None = None
) -> str:
    """Propose a commented job for a table, with what a code book says of it; the steward corrects and completes it."""
    if k < 2:
        raise JobError(f"k is {k}; give at least 2: no group of records that are replaced together is smaller")
    written = found_format(source_url)
    if codebook is not None:
        written = _with_missing(written, read_codebook(codebook))
    with opened(source_url, form=written.form) as source:
        totals = TotalLine(source.schema.names[0])
        sample, rows = sample_of(source, totals), source.rows
    looks = look_at(sample)
    needs = needs_of(analyses, [look.name for look in looks]) if analyses else None
    guesses = guess(looks) if needs is None else guess_for(looks, needs)
    for look in looks:
        guesses[look.name] = replace(
            guesses[look.name],
            ordered=look.ordered,
            levels=look.levels,
            **_step(look, guesses[look.name]),
            codes=_codes(look, guesses[look.name]),
        )
    taken = NOTHING
    if codebook is not None:
        guesses, taken = with_codebook(guesses, looks, sample, read_codebook(codebook, sample.column_names))
    guesses, design = propose_design(looks, guesses, rows)
    guesses = method_choice.without_rare_status(looks, guesses, rows, k)
    unit = method_choice.unit_of_several_rows(looks, guesses)
    order = None if unit is None else method_choice.order_of_rows(looks, guesses, unit)
    if order is not None and guesses[order].kind is Kind.CATEGORICAL:
        guesses[order] = replace(guesses[order], kind=Kind.INTEGER, reason="orders the rows of a unit")
    chosen = choose_method(looks, guesses, rows, k)
    if chosen.records_needed:
        guesses = {look.name: _as_amount(look, guesses[look.name]) for look in looks}
        chosen = choose_method(looks, guesses, rows, k)
    if chosen.mask == "local_synthesis":
        guesses = {name: _by_categories(guessed) for name, guessed in guesses.items()}
    if chosen.mask is not None:  # weights are those of distances
        guesses = {name: replace(guessed, weight=None) for name, guessed in guesses.items()}
    measurable = method_choice.strata_measurable(looks, guesses, rows)
    masked = [look for look in looks if guesses[look.name].role.synthesized]
    constant = [look.name for look in masked if unit is not None and agree(look.codes, *pairs_of(unit.codes))]
    name = None if unit is None else unit.name
    chosen = replace(chosen, strata_measurable=measurable, unit=name, constant=tuple(constant), order=order)
    rules = propose_rules(looks, guesses)
    asked = [f"CHECK: {each}." for each in totals.warnings()] + copies_asked(looks, guesses) + _asked_codes(guesses)
    guesses |= {name: _by_answer(guesses[name]) for name in written.open}
    # of rows of persons it would not hold where these come out whole
    usual = default_regression(looks, guesses) if needs is None and unit is None else None
    return _write(source_url, output, k, guesses, needs, chosen, rows, written, rules, asked, taken, usual, design)


def open_questions(job: Mapping[str, Any]) -> list[str]:
    """The keys of a proposed job's input that are questions."""
    given = job["input"] if isinstance(job["input"], dict) else {}
    return [f"input.{key}" for key, value in given.items() if value == QUESTION]


def not_found(text: str, job: Mapping[str, Any]) -> list[str]:
    """Of what is looked for in every table that which a proposed job does not have."""
    roles = {column["role"] for column in job["columns"].values()}
    found = {
        "survival time": Role.SURVIVAL_TIME in roles or TIME_OF_FEW in text,
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
    """Kind of each column of a table that something can be measured of, and role of those that name persons.

    Columns that are proposed as dropped because they follow from others are among them; those of too many texts, or of
    no usable type, are not.
    """
    looks = look_at(sample_of(source))
    guesses = guess(looks)
    return {
        look.name: Column(kind=guessed.kind, role=guessed.role if guessed.role.names_persons else Role.MASKED)
        for look in looks
        if (guessed := guesses[look.name]).role is not Role.DROPPED
        or look.numbers is not None
        or look.distinct <= MANY_CATEGORIES
    }


def _with_missing(written: FoundFormat, book: CodeBook) -> FoundFormat:
    """How a CSV is written, with the missing values of its code book."""
    if written is NO_CSV or book.missing is None:
        return written
    return replace(written, form=written.form.model_copy(update={"missing": book.missing}))


def _step(look: Look, guessed: Guess) -> dict[str, Any]:
    """The step of a masked column of floats or whole numbers; decimals have that of their type."""
    if look.numbers is None or look.date or guessed.role is Role.SAMPLING_WEIGHT:  # factors lead weights off any step
        return {}
    if guessed.kind is Kind.INTEGER:
        step, tens = large_step(look.numbers)
        return {"step": step, "tens": tens if step is None and tens >= MOSTLY_STEPPED else 0.0}
    floats = pa.types.is_floating(plain_type(look.type))
    if not floats or guessed.kind is not Kind.CONTINUOUS:
        return {}
    return {"step": common_step(look.numbers, single=plain_type(look.type) == pa.float32())}


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
        asked.append(
            f"CHECK: {', '.join(map(quoted, names))}: {many} sampled rows have {which} {what} at an end: a code for "
            '"unknown"? If so, make it a null in the input (of a CSV: list it in input.missing, as the file '
            "writes it); else it is masked and counted as a number."
        )
    return asked


EXACT = 2.0**53  # Whole numbers below are floats without rounding


def _as_amount(look: Look, guessed: Guess) -> Guess:
    """Few whole numbers as amounts: as categories of a table with few records they would disclose membership."""
    small = look.numbers is not None and look.whole and float(np.nanmax(np.abs(look.numbers))) < EXACT
    if guessed.kind is not Kind.CATEGORICAL or not guessed.role.synthesized or not small or guessed.kind_is_known:
        return guessed
    reason = (
        "CHECK: its few whole numbers are taken for amounts, as the means of so many categories would disclose "
        "membership; for codes without an order write kind: categorical"
    )
    return replace(guessed, kind=Kind.INTEGER, reason=reason)


def _by_answer(guessed: Guess) -> Guess:
    """A column of numbers with three digits after each mark: whole numbers, as a run refuses others of this kind."""
    if guessed.kind not in (Kind.CONTINUOUS, Kind.INTEGER) or not guessed.role.synthesized:
        return guessed
    reason = "CHECK: by the answer on decimal: where its mark is decimal, write kind: continuous and step: 0.001"
    return replace(guessed.noted(reason), kind=Kind.INTEGER, step=None)


def _by_categories(guessed: Guess) -> Guess:
    """An ordinal as categories where records are synthetic: its position alone loses associations of each category."""
    if guessed.kind is not Kind.ORDINAL or not guessed.role.synthesized or guessed.kind_is_known:
        return guessed
    reason = (
        "has an order; kind: ordinal keeps how its position goes with other columns, and not how each category does"
    )
    return replace(guessed, kind=Kind.CATEGORICAL, reason=guessed.reason or reason)


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
    source_url: str,
    output: str,
    k: int,
    guesses: dict[str, Guess],
    needs: Needs | None,
    choice: MethodChoice,
    rows: int,
    written: FoundFormat = NO_CSV,
    rules: Sequence[Proposed] = (),
    asked: Sequence[str] = (),
    taken: Taken = NOTHING,
    usual: RecipientAnalysis | None = None,
    design: ProposedDesign | None = None,
) -> str:
    """The YAML text of a proposed job; it holds no value of the data."""
    chosen = {} if needs is None else needs.subsets
    given = written.form.given()
    if "decimal" in written.questions:
        given.pop("thousands", None)  # part of the answer
    by_role = {guessed.role: name for name, guessed in reversed(guesses.items())}
    return template("job.yaml.jinja").render(
        input=source_url,
        written=given | dict.fromkeys(written.questions, QUESTION),
        questions=written.questions,
        output=output,
        k=k,
        guesses=guesses,
        asked=asked,
        taken=taken,
        rules=rules,
        needs=needs,
        usual=usual,
        design=design,
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
