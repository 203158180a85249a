"""A first job for an unknown table: kinds and roles guessed from names, types and a bounded sample.

The text holds column names and no value of the data. So it proposes neither
bounds nor categories nor events: these come from the code book, and the
steward writes them. Only what a file itself declares is taken from it, the categories of an ordered column, in
their order (`declared_order`), and the step of numbers that all lie on one (`common_step`). Columns that follow from
others are proposed as dropped, because masking them one by one would contradict or betray the others.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import yaml

from anonpipe.columns import Column, Kind, Role, Scalar
from anonpipe.encoding.identifiers import agree, pairs_of
from anonpipe.encoding.values import plain_type
from anonpipe.errors import JobError
from anonpipe.job.analyses import DEFAULT_LIMITS, RESPONSE_WEIGHT, Needs, needs_of
from anonpipe.job.measure import RecipientAnalysis, usual_hold_out
from anonpipe.propose.choose_method import (
    BESIDE_CHANCE,
    IN_GROUPS,
    LINKED,
    OF_STRATUM,
    TOLD,
    Road,
    of_several,
    road,
    tells_strata,
    without_rare_status,
)
from anonpipe.propose.guesses import Guess, common_step, guess, guess_for, seen_by_others
from anonpipe.propose.names import codes_for_unknown, quoted
from anonpipe.propose.profile import MANY_CATEGORIES, Look, look_at, sample_of
from anonpipe.propose.rules import Proposed, propose_rules
from anonpipe.source import Source, opened

if TYPE_CHECKING:
    from jinja2 import Template


def propose_job(source_url: str, output: str, k: int, analyses: Sequence[RecipientAnalysis] = ()) -> str:
    """Propose a commented job for a table; the steward corrects and completes it."""
    if k < 2:
        raise JobError(f"k is {k}; give at least 2: no group of records that are replaced together is smaller")
    with opened(source_url) as source:
        sample, rows = sample_of(source), source.rows
    looks = look_at(sample)
    needs = needs_of(analyses, [look.name for look in looks]) if analyses else None
    guesses = guess(looks) if needs is None else guess_for(looks, needs)
    for look in looks:
        guesses[look.name] = replace(
            guesses[look.name],
            ordered=look.ordered,
            levels=look.levels,
            step=_step(look, guesses[look.name]),
            codes=_codes(look, guesses[look.name]),
        )
    guesses = without_rare_status(looks, guesses, rows, k)
    chosen = road(looks, guesses, rows, k)
    if chosen.enough:
        guesses = {look.name: _as_amount(look, guesses[look.name]) for look in looks}
        chosen = road(looks, guesses, rows, k)
    if chosen.mask == "local_synthesis":
        guesses = {name: _by_categories(guessed) for name, guessed in guesses.items()}
    if chosen.mask is not None:  # weights are those of distances
        guesses = {name: replace(guessed, weight=None) for name, guessed in guesses.items()}
    told = tells_strata(looks, guesses, rows)
    unit = of_several(looks, guesses)
    masked = [look for look in looks if guesses[look.name].role.synthesized]
    constant = [look.name for look in masked if unit is not None and agree(look.codes, *pairs_of(unit.codes))]
    chosen = replace(chosen, told=told, unit=None if unit is None else unit.name, constant=tuple(constant))
    return _write(source_url, output, k, guesses, needs, chosen, rows, propose_rules(looks, guesses))


def default_output(source_url: str) -> str:
    """A folder by the name of the data: two tables in one output would take each other's place."""
    parts = [part for part in source_url.split("://")[-1].split("/") if part.strip(".") and not set("*?[") & set(part)]
    name = parts[-1].split(".")[0] if parts else ""
    return f"{name or 'table'}-release"


def guess_columns(source: Source) -> dict[str, Column]:
    """Kind of each column of a table that something can be measured of, and role of those that name persons.

    Columns that are proposed as dropped for what they tell beside others are
    among them; those of too many texts, or of no usable type, are not.
    """
    looks = look_at(sample_of(source))
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
            '"unknown"? If so, make it a null in the input; else it is masked and counted as a number.'
        )
    return asked


def _measured_as(role: Role) -> Role:
    return role if role.names_persons else Role.MASKED


EXACT = 2.0**53  # Whole numbers below are floats without rounding


def _as_amount(look: Look, guessed: Guess) -> Guess:
    """Few whole numbers as amounts: as categories of a table with few records they would disclose membership."""
    small = look.numbers is not None and look.whole and float(np.nanmax(np.abs(look.numbers))) < EXACT
    if guessed.kind is not Kind.CATEGORICAL or not guessed.role.synthesized or not small:
        return guessed
    reason = (
        "CHECK: its few whole numbers are taken for amounts, as the means of so many categories would disclose "
        "membership; for codes without an order write kind: categorical"
    )
    return replace(guessed, kind=Kind.INTEGER, reason=reason)


def _by_categories(guessed: Guess) -> Guess:
    """An ordinal whose records are of no person: of its position alone, how its categories go with others is lost."""
    if guessed.kind is not Kind.ORDINAL or not guessed.role.synthesized:
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
    needs: Needs | None = None,
    chosen_road: Road = IN_GROUPS,
    rows: int = 0,
    rules: Sequence[Proposed] = (),
) -> str:
    """The template filled in; what is asked of it has no value of the data."""
    chosen = {} if needs is None else needs.subsets
    by_role = {guessed.role: name for name, guessed in reversed(guesses.items())}
    return _template().render(
        input=source_url,
        output=output,
        k=k,
        guesses=guesses,
        codes=_asked_codes(guesses),
        rules=rules,
        needs=needs,
        why=chosen_road.why,
        mask=chosen_road.mask,
        merge=chosen_road.merge,
        unit=chosen_road.unit,
        constant=chosen_road.constant,
        crowded=chosen_road.enough,
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
        of_groups=max(LINKED, 1 / k),
        enough=math.ceil(1 / LINKED),
        held=usual_hold_out(rows),
        told=TOLD,
        default_limits=DEFAULT_LIMITS,
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
    environment.filters |= {"wrapped": partial(wrap, width=116), "quoted": quoted, "flow": _flow, "key": _key}
    return environment.get_template("job.yaml.jinja")
