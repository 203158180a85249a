"""Rules between columns that a sample suggests: names of columns and shares of rows, no value of the data."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations, pairwise, permutations, product
from keyword import iskeyword

import numpy as np

from anonpipe.columns import Column, Kind, Role, Rule
from anonpipe.encoding.rules import differ
from anonpipe.errors import plural
from anonpipe.job.rules import parse_rules
from anonpipe.propose.dependencies import is_class
from anonpipe.propose.guesses import Guess
from anonpipe.propose.names import REASONS, quoted, words_of
from anonpipe.propose.profile import MANY_CATEGORIES, Look
from anonpipe.types import BoolArray, FloatArray

_ENOUGH = 50  # Rows below which nothing is proposed
_THIN = 400  # Rows of the first, quick look
_CHANCE = -16.0  # Logarithm of the probability below which no rule is a coincidence
_FEWER = 0.25  # Most rows that break a rule, as a share of those that would by chance
_NEARLY = 0.99  # Share of rows from which on a rule that some rows break is worth a comment
_MOST_NUMBERS, _MOST_PROPOSED = 100, 40
_MULTIPLES = (1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 100.0, 1000.0)
_RELATIVE, _EXACT = 1e-7, 1e-9
_PART, _QUESTIONS = 0.9, 5  # Rank correlation from which on a part and its total are asked for; most such questions
_POWERS = (0, 2, 3, 4, 5)  # Of ten, that a ratio is given in
_FEW = 48  # Rows of the first look at products and ratios, of which there are many
_FORMS = ("{} * {}", "{} / {}", "{} / {} ** 2", "({0} - {1}) / {1}")
_SHARP = 0.9  # Largest share of rows that are so, next to a value beyond which all are
_BEYOND_IT = 100  # Rows next to that value
_SMALL = 10.0  # Median of positive counts below which a part is no share of its total
_DAYS = (1.0, 7.0, 30.4375, 365.25)  # Of units of time
_ENDED, _BEYOND = 0.05, 0.02  # Shares of rows that end at a closing date, and that would end after it by chance
_DIGITS = 6  # Of the number that a multiple is of
_RESULTS = ("total", "sum", "all", "growth", "change", "diff", "difference", "net", "gain", "overall")


@dataclass(frozen=True)
class Proposed:
    """A rule, the share of the sampled rows in which it holds, and whether the job is to have it."""

    text: str
    share: float
    active: bool
    note: str = ""


def computed_rules(
    looks: Sequence[Look], guesses: Mapping[str, Guess], order: str | None = None, constant: Collection[str] = ()
) -> list[Proposed]:
    """Sums, products and ratios that hold in all sampled rows or nearly all, few whole numbers taken for amounts."""
    # `constant` columns have one value in all rows of a unit, and follow from such columns alone.
    released, columns, masked = _columns(looks, guesses, order)
    few = [look.name for look in released if columns[look.name].kind is Kind.CATEGORICAL and look.whole]
    columns |= {name: columns[name].model_copy(update={"kind": Kind.INTEGER}) for name in masked.intersection(few)}
    lines = _multiples(released, columns, masked, constant)
    sums = _linear(released, columns, masked, constant)
    totals = {each.text.partition(" = ")[0] for each in sums}
    whole = [look for look in _numbers(released, columns) if not look.date and np.isfinite(look.values).all()]
    floored = _floored(whole, masked - {*constant}, totals)
    return [*lines, *sums, *floored, *_products(released, columns, masked)]


def kept_copies(looks: Sequence[Look], guesses: Mapping[str, Guess]) -> dict[str, Guess]:
    """Linear copies that were left out, where a rule computes them from a released column: as masked."""
    released = [look for look in looks if guesses[look.name].role.released and not look.date]
    sources, found = {REASONS["copy"].format(one=quoted(look.name)): look for look in released}, {}
    for look in looks:
        copy, one = guesses[look.name], sources.get(guesses[look.name].reason)
        if one is not None:
            given = {look.name: copy, one.name: guesses[one.name]}
            columns = {name: Column(kind=each.kind, step=each.step) for name, each in given.items()}
            text = _line_text(one, look, columns[look.name].resolution or 0.0)
            if text and _fitting(Proposed(text, 1.0, True), [], columns):
                found[look.name] = replace(copy, role=Role.MASKED, reason="")
    return found


def amounts(computed: Sequence[Proposed], guesses: Mapping[str, Guess]) -> dict[str, Guess]:
    """The same with few whole numbers, that were taken for codes, as what rules compute with."""
    named = " ".join(each.text for each in computed if each.active)
    coded = [name for name, each in guesses.items() if each.kind is Kind.CATEGORICAL and not each.kind_is_known]
    found = [name for name in coded if re.search(rf"(?<![\w`]){re.escape(_name(name))}(?![\w`])", named)]
    return {name: replace(guesses[name], kind=Kind.INTEGER, reason=REASONS["computed"]) for name in found}


def _columns(
    looks: Sequence[Look], guesses: Mapping[str, Guess], order: str | None
) -> tuple[list[Look], dict[str, Column], set[str]]:
    """Released columns, of tables with enough rows; what the job will say of each; and those that may be computed."""
    released = [look for look in looks if guesses[look.name].role.released and len(look.codes) >= _ENOUGH]
    columns = {}
    for look in released:
        guess = guesses[look.name]
        columns[look.name] = Column(kind=guess.kind, step=guess.step).model_copy(update={"role": guess.role})
    return released, columns, {name for name, column in columns.items() if column.role is Role.MASKED} - {order}


def propose_rules(
    looks: Sequence[Look], guesses: Mapping[str, Guess], computed: Sequence[Proposed], order: str | None = None
) -> list[Proposed]:
    """Rules that hold in all sampled rows, and could not by chance; and comments on those that nearly do."""
    # None gives `order`, which orders the rows of a unit, another value.
    released, columns, masked = _columns(looks, guesses, order)
    found = [each for each in computed if each.note]  # may compute with what are categories for now
    sure = [each for each in computed if not each.note]
    for each in (*sure, *_lookups(released, columns, masked), *_orders(released, columns)):
        found += _fitting(each, found, columns)
    rules = parse_rules([each.text for each in found if each.active], columns)
    derived = {rule.target for rule in rules}
    free = [look for look in released if look.name not in derived]
    of_rules = _numerators(rules, released, masked)
    ends = _closings(free, columns, masked - derived)
    computed_alone = {rule.target for rule in rules if rule.kind != "order"}  # of an order the nulls are masked
    drawn = [look for look in released if look.name not in computed_alone]
    conditions = _conditions(drawn, columns, masked - computed_alone)
    for each in (*of_rules, *ends, *conditions, *_pairs(free, columns, masked)):
        found += _fitting(each, found, columns)
    return found[:_MOST_PROPOSED]


def _fitting(proposed: Proposed, earlier: Sequence[Proposed], columns: Mapping[str, Column]) -> list[Proposed]:
    """The rule, unless it does not go with those before it, or cannot be read."""
    active = [each.text for each in earlier if each.active]
    try:
        parse_rules([*active, proposed.text], columns)
    except ValueError:
        return []
    return [proposed]


def _name(name: str) -> str:
    """A column as rules name it."""
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and not iskeyword(name) else f"`{name}`"


# --- Sums and differences


def _numbers(looks: Sequence[Look], columns: Mapping[str, Column]) -> list[Look]:
    """Columns of numbers and dates that vary."""
    found = [look for look in looks if not columns[look.name].kind.coded and not np.isnan(look.values).all()]
    return [look for look in found if look.distinct > 2][:_MOST_NUMBERS]


def _linear(
    looks: Sequence[Look], columns: Mapping[str, Column], masked: set[str], constant: Collection[str]
) -> list[Proposed]:
    """Columns that are sums of others times small numbers."""
    numbers = _numbers(looks, columns)
    numbers = [replace(look, numbers=np.floor(look.values)) if look.date else look for look in numbers]  # as released
    values, done = {look.name: look.values for look in numbers}, set[str]()
    relations: list[tuple[tuple[str, ...], tuple[float, ...], float, float]] = []
    for names, times, addend in sorted((*_triples(numbers), *_sums(numbers)), key=lambda each: len(each[0])):
        if done.issuperset(names) or not masked.intersection(names):
            continue
        parts = np.stack([values[name] * each for name, each in zip(names, times, strict=True)])
        allowed = _RELATIVE * (np.abs(parts).sum(axis=0) + 1.0)
        at, known = int(np.isnan(parts).sum(axis=1).argmax()), ~np.isnan(parts).any(axis=0)
        broken = differ(-np.delete(parts, at, axis=0).sum(axis=0) - addend, parts[at], allowed)
        share, exact = 1.0 - float(broken.mean()), known.any() and not broken[known].any()  # but codes for unknown
        exact = exact and np.ptp(parts[:, known], axis=1).all()
        if known.sum() >= max(_ENOUGH, 10 * len(names)) and (share >= _NEARLY or exact):
            done |= set(names)
            relations.append((names, times, addend, share))
    found: list[Proposed] = []
    for names, times, addend, share in sorted(relations, key=lambda each: -len(each[0])):  # totals of many first
        fixed = () if set(names).issubset(constant) else constant
        nulls = {name: np.isnan(values[name]).sum() for name in names}  # a result is null where any operand is
        able = {name for name in masked.intersection(names).difference(fixed) if nulls[name] == max(nulls.values())}
        for target in _targets(names, times, able, values):
            own = times[names.index(target)]
            terms = {name: -each / own for name, each in zip(names, times, strict=True) if name != target}
            text = f"{_name(target)} = {_sum_text(terms, -addend / own)}"
            note = REASONS["sum with nulls"].format(text=text) if share < _NEARLY else ""
            if fits := _fitting(Proposed(text, share, share == 1.0, note), found, columns):
                found += fits
                break
    return found


def _floored(looks: Sequence[Look], masked: set[str], totals: Collection[str]) -> Iterator[Proposed]:
    """Numbers that are a sum of others, of totals rather than of their parts, where that is above 0, else 0."""
    numbers = sorted(looks, key=lambda look: _name(look.name) not in totals)
    values = {look.name: look.values for look in numbers}
    for look in (look for look in numbers if look.name in masked and look.values.min() == 0):
        rows = np.flatnonzero(look.values > 0)[: 5 * _THIN]
        ordered = [*(each for each in numbers if each is not look), look]
        table = np.column_stack([each.values[rows] - each.values[rows].mean() for each in ordered])
        table /= np.abs(table).max(axis=0, initial=1e-300)
        others, own = table[:, :-1], table[:, -1]
        if np.abs(own - others @ np.linalg.lstsq(others, own, rcond=None)[0]).max() > 1e-6:
            continue  # at once, as most do
        above = [each.of_rows(look.values > 0) for each in ordered]
        for names, times, constant in (found for found in _sums(above) if found[0][-1] == look.name):
            terms = dict(zip(names[:-1], times[:-1], strict=True))
            parts = np.stack([values[name] * each for name, each in terms.items()])
            sums = parts.sum(axis=0) + constant
            off = np.abs(np.maximum(sums, 0.0) - look.values)
            if (off <= _RELATIVE * (np.abs(parts).sum(axis=0) + 1.0)).all() and (sums < 0).any():
                yield Proposed(f"{_name(look.name)} = max(0, {_sum_text(terms, constant)})", 1.0, True)


def _multiples(
    looks: Sequence[Look], columns: Mapping[str, Column], masked: set[str], constant: Collection[str]
) -> Iterator[Proposed]:
    """Columns that are a multiple of another one, to their step, or that and a constant."""
    numbers, done = [look for look in _numbers(looks, columns) if not look.date], set[str]()
    near = np.abs(_rank_correlations([np.nan_to_num(look.values[:_THIN]) for look in numbers])) >= _PART
    for by, at in np.argwhere(near).tolist() if len(numbers) > 1 else ():
        one, other = numbers[by], numbers[at]
        fixed = other.name in constant and one.name not in constant
        if one is other or fixed or other.name not in masked - done or one.name in done:
            continue
        if text := _line_text(one, other, columns[other.name].resolution or 0.0):
            done.add(other.name)
            yield Proposed(text, 1.0, True)


def _line_text(one: Look, other: Look, step: float) -> str:
    """The rule by which one column gives another one in all rows, with numbers of few digits; empty for none."""
    known = ~np.isnan(one.values) & ~np.isnan(other.values)
    x, y = one.values[known], other.values[known]
    if not np.array_equal(np.isnan(one.values), np.isnan(other.values)) or len(x) < _ENOUGH or not np.ptp(x):
        return ""
    slope = float(np.cov(x, y)[0, 1] / x.var(ddof=1))
    # A multiple, else a quotient by a number of a digit less: 2.5 * x, and x / 7
    for digits, divides, places in product(range(1, _DIGITS + 2), (False, True), range(4)) if slope else ():
        if divides and digits == 1:
            continue
        times = float(f"{1.0 / slope if divides else slope:.{digits - divides}g}")
        value = x / times if divides else times * x
        constant = round(float(np.mean(y - value)), places)
        if (np.abs(value + constant - y) <= step / 2 + _EXACT * (np.abs(value) + np.abs(y))).all():
            quotient = f"{_name(one.name)} / {times:.10g}" + f" {constant:+.10g}" * bool(constant)
            text = quotient if divides else _sum_text({one.name: times}, constant)
            return "" if times == 1.0 and not constant else f"{_name(other.name)} = {text}"
    return ""


def _triples(numbers: Sequence[Look]) -> Iterator[tuple[tuple[str, ...], tuple[float, ...], float]]:
    """Three columns of which one is the sum of the other two."""
    if len(numbers) < 3:
        return
    step = max(1, len(numbers[0].codes) // _THIN)
    table = np.column_stack([look.values[::step] for look in numbers])
    scale = _RELATIVE * (np.nan_to_num(np.abs(table)) + 1.0)
    for one, other in combinations(range(len(numbers)), 2):
        near = np.abs(table - (table[:, one] + table[:, other])[:, None]) <= scale * 4
        known = ~np.isnan(table) & ~np.isnan(table[:, [one]]) & ~np.isnan(table[:, [other]])
        agreed = ((near & known).sum(axis=0) >= _NEARLY * known.sum(axis=0)) & (known.sum(axis=0) >= _ENOUGH // 2)
        for total in np.flatnonzero(agreed).tolist():
            if total not in (one, other):
                names = tuple(numbers[at].name for at in (one, other, total))
                yield names, (1.0, 1.0, -1.0), 0.0


def _sums(numbers: Sequence[Look]) -> Iterator[tuple[tuple[str, ...], tuple[float, ...], float]]:
    """Columns that follow from those before them by least squares, with small multiples."""
    whole = [look for look in numbers if look.filled > 0.8 * len(look.codes) and not look.date]
    if len(whole) < 3:
        return
    table = np.column_stack([look.values for look in whole])
    table = table[~np.isnan(table).any(axis=1)][: 5 * _THIN]
    if len(table) < max(_ENOUGH, 5 * len(whole)):
        return
    centre, spread = table.mean(axis=0), table.std(axis=0)
    scaled = (table - centre) / np.where(spread > 0, spread, 1.0)
    kept: list[int] = []
    for at in range(len(whole)):
        weights = np.linalg.lstsq(scaled[:, kept], scaled[:, at], rcond=None)[0] if kept else np.empty(0)
        rest = scaled[:, at] - scaled[:, kept] @ weights
        if spread[at] == 0 or np.abs(rest).max() > 1e-6:
            kept.append(at)
            continue
        times = weights * spread[at] / spread[kept]
        used = [(kept[place], _small(each)) for place, each in enumerate(times) if abs(each) > 1e-6]
        if all(each is not None for _, each in used) and len(used) >= 2:
            rounded = [(place, each) for place, each in used if each is not None]
            constant = centre[at] - sum(each * centre[place] for place, each in rounded)
            constant = round(float(constant), 3) if abs(constant - round(constant, 3)) < 1e-6 * spread[at] else np.nan
            names = (*(whole[place].name for place, _ in rounded), whole[at].name)
            if np.isfinite(constant):
                yield names, (*(each for _, each in rounded), -1.0), constant


def _small(times: float) -> float | None:
    """The small number, or one over it, that a multiple is; None where it is neither."""
    known = (*_MULTIPLES, *(1.0 / each for each in _MULTIPLES))
    return next((float(np.sign(times)) * each for each in known if abs(abs(times) - each) < 1e-5 * each), None)


def _targets(
    names: Sequence[str], times: Sequence[float], masked: set[str], values: Mapping[str, FloatArray]
) -> list[str]:
    """Of columns that follow from each other possible results, best first."""
    # By its name, the sum of the others, or that which is least often near 0, beyond which it may come to lie
    possible = [name for name, each in zip(names, times, strict=True) if name in masked and abs(each) == 1.0]
    named = [name for name in possible if any(word in _RESULTS for word in words_of(name))]
    signs = {name: np.sign(each) for name, each in zip(names, times, strict=True)}
    alone = [name for name in possible if sum(sign == signs[name] for sign in signs.values()) == 1]
    far = sorted(possible, key=lambda name: -abs(np.nanmean(values[name])) / np.nanstd(values[name]))
    return [*named, *alone, *far]


def _sum_text(terms: Mapping[str, float], constant: float) -> str:
    parts = []
    for name, times in terms.items():
        by = "" if abs(times) == 1.0 else f"{abs(times):.10g} * "
        parts.append(f"{'-' if times < 0 else '+'} {by}{_name(name)}")
    if constant:
        parts.append(f"{'-' if constant < 0 else '+'} {abs(constant):.10g}")
    text = " ".join(sorted(parts, key=lambda part: part[0] == "-"))
    return text.removeprefix("+ ") if text.startswith("+") else text.replace("- ", "-", 1)


# --- Products and ratios


def _of_two(one: FloatArray, other: FloatArray) -> FloatArray:
    """What may follow from two columns, in the order of `_FORMS`, shape (n_forms, n_rows)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.stack([one * other, one / other, one / other**2, (one - other) / other])
    return np.where(np.isfinite(found), found, np.nan)


def _products(looks: Sequence[Look], columns: Mapping[str, Column], masked: set[str]) -> Iterator[Proposed]:
    """Columns that are products or ratios of two others, to their step; of three columns the most exact one."""
    numbers = [look for look in _numbers(looks, columns) if not look.date]
    if len(numbers) < 3:
        return
    table = np.stack([look.values for look in numbers])
    steps = np.array([columns[look.name].resolution or 0.0 for look in numbers])
    spread, done = np.nanstd(table, axis=1), set[frozenset[int]]()
    fees = {each.text.split(" -> ")[-1] for each in _lookups(looks, columns, masked)}  # ratios give them only nearly
    fits = [fit for fit in _fits(table, steps) if (name := numbers[fit[0]].name) in masked and _name(name) not in fees]
    for target, form, one, other, times in sorted(fits, key=lambda each: (steps[each[0]] / spread[each[0]], *each)):
        value, there = times * _of_two(table[one], table[other])[form], table[target]
        known = ~np.isnan(value) & ~np.isnan(there)
        met, chance = (
            float((np.abs(each - there) <= _allowed(steps[target], there))[known].mean())
            for each in (value, np.roll(value, len(value) // 2 + 1))
        )
        if met < _NEARLY or known.sum() * np.log(max(chance, 1e-9)) > _CHANCE or {target, one, other} in done:
            continue
        done.add(frozenset((target, one, other)))
        text = _FORMS[form].format(*(_name(numbers[at].name) for at in (one, other)))
        text = f"{_name(numbers[target].name)} = {f'{times:.0f} * ' if times > 1 else ''}{text}"
        share = 1.0 - float(differ(value, there, _allowed(steps[target], there)).mean())
        nulls, own = np.isnan(value), np.isnan(there)
        but = REASONS["filled"] * bool((nulls & ~own).any()) + REASONS["lacking"] * bool((own & ~nulls).any())
        note = f"{text}: holds in all rows with values{but}" if met == 1.0 and share < 1.0 else ""
        yield Proposed(text, share, share == 1.0, note)


def _numerators(rules: Sequence[Rule], looks: Sequence[Look], masked: set[str]) -> Iterator[Proposed]:
    """Of ratios of masked columns, whether the ratio itself is to be masked, and its numerator computed."""
    values = {look.name: look.values for look in looks}
    for rule in rules:
        if rule.quotient is None or not masked.issuperset(rule.quotient):
            continue
        numerator, divisor = rule.quotient
        over, under = values[numerator], values[divisor]
        if not (np.isnan(under) & ~np.isnan(over) | (over < 0) | (under < 0) | (under == 0) & (over > 0)).any():
            text = f"0 <= {_name(numerator)} / {_name(divisor)}"
            yield Proposed(text, 1.0, False, f"To mask the ratio itself, and to compute the numerator from it: {text}")


def _fits(table: FloatArray, steps: FloatArray) -> Iterator[tuple[int, int, int, int, float]]:
    """Of few rows, targets, forms, both operands and multiples that fit; of numbers, shape (n_columns, n_rows)."""
    thin = table[:, :: max(1, table.shape[1] // _FEW)]
    sizes, allowed = _sizes(thin), _allowed(steps[:, None], thin)
    for one, other in permutations(range(len(thin)), 2):
        values = _of_two(thin[one], thin[other])
        with np.errstate(divide="ignore", invalid="ignore"):
            power = np.rint(np.log10(sizes / _sizes(values)[:, None]))
        times = np.where(np.isin(power, _POWERS), 10.0**power, np.nan)
        off = np.abs(thin - times[:, :, None] * values[:, None, :])
        known = ~np.isnan(off)
        fit = ((off <= allowed).sum(axis=2) >= _NEARLY * known.sum(axis=2)) & (known.sum(axis=2) >= _FEW // 8)
        fit[:, [one, other]] = False
        fit[0] &= one < other  # a product has no order
        yield from (
            (target, form, one, other, float(times[form, target])) for form, target in np.argwhere(fit).tolist()
        )


def _sizes(values: FloatArray) -> FloatArray:
    return np.asarray(np.nansum(np.abs(values), axis=1) / np.maximum((~np.isnan(values)).sum(axis=1), 1))


def _allowed(step: float | FloatArray, values: FloatArray) -> FloatArray:
    """How far from what it follows from a column may lie."""
    return step / 2 + _RELATIVE * (np.abs(values) + 1.0)


# --- Categories that follow from others


def _lookups(looks: Sequence[Look], columns: Mapping[str, Column], masked: set[str]) -> Iterator[Proposed]:
    """Categories that are a function of a finer one or classes of a number, and numbers, as fees, of a category."""
    coded = [look for look in looks if columns[look.name].kind.coded and 2 <= look.distinct <= 5 * MANY_CATEGORIES]
    counted = [look for look in _numbers(looks, columns) if not look.date]
    for target in sorted(looks, key=lambda look: -look.distinct):
        if target.name not in masked or target.date:
            continue
        finer = [look for look in coded if look.distinct >= target.distinct + columns[target.name].kind.coded]
        follows = (each for each in sorted(finer, key=lambda look: look.distinct) if _follows(each, target))
        cut = (each for each in counted if columns[target.name].kind.coded and _is_cut(target, each))
        if source := next(follows, None) or next(cut, None):
            yield Proposed(f"{_name(source.name)} -> {_name(target.name)}", 1.0, True)


def _is_cut(target: Look, source: Look) -> bool:
    """Whether categories are classes of a number, also where it is null."""
    unknown = np.isnan(source.values)
    alone = len(np.unique(target.codes[unknown])) < 2 and (target.codes[~unknown] >= 0).all()
    return bool(alone and target.distinct < source.distinct and is_class(target, source))


def _follows(source: Look, target: Look) -> bool:
    pairs = (source.codes + 1) * (target.distinct + 1) + target.codes + 1
    known = np.unique(source.codes)
    thin = pairs[: 10 * _THIN]
    if len(np.unique(thin)) > len(np.unique(source.codes[: 10 * _THIN])) or len(np.unique(pairs)) > len(known):
        return False
    if len(np.unique(target.codes[source.codes >= 0])) < 2:  # nulls alone decide: a condition
        return False
    largest = float(np.bincount(target.codes + 1).max()) / len(pairs)
    return bool((len(pairs) - len(known)) * np.log(max(largest, 1e-9)) < _CHANCE)


# --- Orders


def _orders(looks: Sequence[Look], columns: Mapping[str, Column]) -> Iterator[Proposed]:
    """Dates, and numbers of like names and scale, of which one is never before the other."""
    numbers = _numbers(looks, columns)
    dates = [look for look in numbers if columns[look.name].kind is Kind.DATE]
    chain = _longest(sorted(dates, key=lambda look: float(np.nanmedian(look.values))))
    if len(chain) > 1:
        yield from _chain(chain)
    middles = {look.name: abs(float(np.nanmedian(look.values[look.values != 0]))) for look in numbers}
    counts = {look.name for look in numbers if look.whole and middles[look.name] < _SMALL}
    split: set[str] = set()
    for one, other in permutations([look for look in numbers if look not in dates], 2):
        near = 0.05 <= (middles[one.name] + 1e-9) / (middles[other.name] + 1e-9) <= 20.0
        alike = near and bool(set(words_of(one.name)) & set(words_of(other.name)))
        if alike and (share := _in_order(one.values, other.values)):
            found = _order_text(one, other, share, counts - split)
            yield replace(found, active=False) if other.name in split else found
            split |= counts & {other.name}  # a second part of it is a comment
    yield from _parts([look for look in numbers if look not in dates])
    for one, other in permutations(dates, 2):
        if not (one in chain and other in chain) and (share := _in_order(one.values, other.values)):
            yield _order_text(one, other, share)


def _parts(numbers: Sequence[Look]) -> Iterator[Proposed]:
    """Questions about numbers that hardly any row has above another which they nearly follow, whatever their names."""
    if len(numbers) < 2:
        return
    near = np.abs(_rank_correlations([np.nan_to_num(look.values[:_THIN]) for look in numbers]))
    near[np.diag_indices(len(near))] = 0.0
    for at in np.flatnonzero((near >= _PART).any(axis=1))[:_QUESTIONS].tolist():
        one, other = numbers[at], numbers[int(near[at].argmax())]
        share = _in_order(one.values, other.values)
        if share and (text := _order_text(one, other, share).text).startswith("0"):
            note = REASONS["a part"].format(one=_name(one.name), other=_name(other.name), rule=text)
            yield Proposed(text, share, False, note if share == 1.0 else "")


def _rank_correlations(columns: Sequence[FloatArray]) -> FloatArray:
    """Of each column with each, equal values sharing a rank, shape (n_columns, n_columns); NaN of a constant."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.corrcoef([np.unique(values, return_inverse=True)[1] for values in columns])


def _is_part(one: Look, other: Look) -> bool:
    """Whether numbers lie between 0 and others, and their share depends less on these than their difference does."""
    known = ~np.isnan(one.values) & ~np.isnan(other.values) & (other.values > 0)
    part, total = one.values[known][:_THIN], other.values[known][:_THIN]
    if one.date or (one.values < 0).any() or len(part) < _ENOUGH:
        return False
    _, of_difference, of_share = np.abs(_rank_correlations([total, total - part, part / total])[0])
    return bool(of_share < of_difference)


def _in_order(first: FloatArray, second: FloatArray) -> float:
    """The share of rows in which the first is not after the second; 0 where that may be chance."""
    if (first[:_THIN] > second[:_THIN]).sum() > 3 + 2 * (1 - _NEARLY) * _THIN:
        return 0.0
    known = ~np.isnan(first) & ~np.isnan(second)
    first, second = first[known], second[known]
    if len(first) < _ENOUGH or (share := float(np.mean(first <= second))) < _NEARLY:
        return 0.0
    by_chance = float(np.mean(first <= np.roll(second, len(second) // 2 + 1)))
    by_chance = max(by_chance, float(np.mean(np.searchsorted(np.sort(first), second, "right")) / len(first)))
    sure = len(first) * np.log(min(max(by_chance, 1e-9), 1.0)) < _CHANCE
    return share if sure and 1.0 - share <= _FEWER * (1.0 - by_chance) else 0.0


def _longest(dates: Sequence[Look]) -> list[Look]:
    """Of dates, the earliest first, the longest chain in which none is after the next."""
    # A birth is before all others by chance, and begins none
    later = cache(lambda one, other: _in_order(dates[one].values, dates[other].values) == 1.0)
    best = list[int]()
    for begin in range(len(dates)):
        chain = list[int]()
        for at in range(begin, len(dates)):
            chain += [at] * all(later(each, at) for each in chain)
        best = max(best, chain, key=len)
    filled = [max(dates[each].filled for each in best if each >= at) for at in best]  # Of a date that few rows have
    return [dates[at] for at, most in zip(best, filled, strict=True) if 2 * dates[at].filled >= most]


def _chain(chain: Sequence[Look]) -> Iterator[Proposed]:
    """The dates in their order, as one chain where the first, or the last, is there wherever another is."""
    there = [~np.isnan(look.values) for look in chain]
    for sort, first in (("<=", 0), (">=", -1)):
        if whole := not any((each & ~there[first]).any() for each in there):
            yield Proposed(f" {sort} ".join(_name(look.name) for look in chain[:: 1 + 2 * first]), 1.0, True)
            break
    orders = (_order_text(one, other, 1.0) for one, other in pairwise(chain))  # of the chain, should it not fit
    yield from (order for order in orders if order.active or not whole)


def _order_text(one: Look, other: Look, share: float, counts: Collection[str] = ()) -> Proposed:
    """The order of two columns, in the direction that has a value to begin at; else as a condition."""
    # Of small counts a masked share of a masked total is seldom a whole number, and rounding would move the mean
    first, second = ~np.isnan(one.values), ~np.isnan(other.values)
    begin, end = _name(one.name), _name(other.name)
    if not (first & ~second).any() and other.name not in counts and _is_part(one, other):
        text = f"0 <= {begin} <= {end}"
    elif not (second & ~first).any():
        text = f"{begin} <= {end}"
    elif not (first & ~second).any():
        text = f"{end} >= {begin}"
    else:
        return Proposed(f"if {begin} is not null and {end} is not null then {begin} <= {end}", share, active=False)
    return Proposed(text, share, share == 1.0)


def _closings(looks: Sequence[Look], columns: Mapping[str, Column], masked: set[str]) -> Iterator[Proposed]:
    """Questions about the last day that a date and a time add up to, if many rows end there."""
    numbers = _numbers(looks, columns)
    dates = [look for look in numbers if columns[look.name].kind is Kind.DATE and look.name in masked]
    for date, lasting in product(
        dates, [look for look in numbers if look not in dates and np.nanmin(look.values) >= 0]
    ):
        step = columns[lasting.name].resolution or 0.0
        shares = {unit: _at_the_end(date.values, unit * lasting.values, unit * step) for unit in _DAYS}
        unit = max(_DAYS, key=shares.__getitem__)
        if shares[unit] >= _ENDED:
            text = f"{_name(date.name)} + {unit:g} * {_name(lasting.name)}".replace(" 1 *", "")
            note = REASONS["closing"].format(sum=text, share=f"{100 * shares[unit]:.0f}", date=_name(date.name))
            yield _asked(_name(lasting.name), _name(date.name), note)


def _at_the_end(begin: FloatArray, lasting: FloatArray, step: float) -> float:
    """The share of rows that end within rounding of the last day; 0 where that may be chance."""
    end = (begin + lasting)[~np.isnan(begin + lasting)]
    by_chance, width = begin + np.roll(lasting, len(lasting) // 2 + 1), step + 1.0
    if len(end) < _ENOUGH or np.mean(by_chance > end.max()) < _BEYOND:
        return 0.0
    last = float(end.max())
    at, before = (int(((end <= day) & (end > day - width)).sum()) for day in (last, last - width))
    return at / len(end) if at >= max(_ENOUGH, 3 * before) else 0.0


# --- Conditions, which are not active: repairs of rows move covariances


def _frequent(facts: Mapping[str, BoolArray]) -> dict[str, BoolArray]:
    """Facts that are so, and are not so, in enough rows."""
    enough = _ENOUGH // 2
    return {name: rows for name, rows in facts.items() if enough <= rows.sum() <= len(rows) - enough}


def _conditions(looks: Sequence[Look], columns: Mapping[str, Column], masked: set[str]) -> Iterator[Proposed]:
    """Zeros that follow from zeros, and nulls that another column decides."""
    zeros = _frequent({look.name: look.values == 0 for look in looks if look.numbers is not None and not look.date})
    nulls = _frequent({look.name: look.codes < 0 for look in looks})
    for what, facts in (("== 0", zeros), ("is null", nulls)):
        for one, other in _implied(facts, masked):
            yield Proposed(f"if {_name(one)} {what} then {_name(other)} {what}", 1.0, active=False)
        for look, (name, rows) in product(_numbers(looks, columns), facts.items()):
            known = ~np.isnan(look.values)
            for sign, sort in ((1.0, "<"), (-1.0, ">")) if name in masked and name != look.name else ():
                if _begins_with(sign * look.values[known], rows[known]):
                    said = {"name": _name(name), "is_": what, "number": _name(look.name), "sort": sort}
                    note = REASONS["threshold"].format(side="below" if sort == "<" else "above", **said)
                    yield _asked(_name(look.name), _name(name), note)
    deciding = [look for look in looks if columns[look.name].kind.coded and 2 <= look.distinct <= 20]
    for look, (signs, facts) in product(deciding, ((("is null", "is not null"), nulls), (("== 0", "!= 0"), zeros))):
        for name in sorted(masked & set(facts) - {look.name}):
            how = _decides(look, facts[name])
            if how and (facts is nulls or look.numbers is None):  # else zeros by zeros, above
                names = {"name": quoted(name), "by": quoted(look.name), "if_": _name(look.name), "then": _name(name)}
                yield _asked(_name(look.name), _name(name), REASONS[how].format(is_=signs[0], not_=signs[1], **names))


def _asked(one: str, other: str, note: str) -> Proposed:
    """A question on two columns: no rule of the proposal, which knows no value."""
    return Proposed(f"if {one} is not null then {other} is not null", 1.0, False, note)


def _begins_with(values: FloatArray, fact: BoolArray) -> bool:
    """Whether all smallest of some values have a fact, by more than chance, and of those next to them fewer do."""
    below = values < values[~fact].min(initial=np.inf)
    near, rows = values[~below], int((values[below] > values.min()).sum())  # Of one value: a condition on that
    if rows < _ENOUGH or len(near) < _BEYOND_IT:
        return False
    next_to = ~below & (values <= np.partition(near, _BEYOND_IT - 1)[_BEYOND_IT - 1])
    return bool((there := fact[next_to].mean()) <= _SHARP and rows * np.log(max(there, 1e-9)) < _CHANCE)


def _implied(facts: Mapping[str, BoolArray], masked: set[str]) -> Iterator[tuple[str, str]]:
    """Facts, and those of masked columns that hold wherever they do, without what follows from two other such pairs."""
    rows = {name: each.tobytes() for name, each in facts.items()}
    first = {each: name for name, each in reversed(rows.items())}  # stands for those with the same rows
    able = [name for name in facts if name in masked]
    after = {one: [each for each in able if each != one and _implies(facts[one], facts[each])] for one in facts}
    for one, other in permutations(facts, 2):
        ends = {rows[one], rows[other]}
        between = [each for each in after[one] if rows[each] not in ends or first[rows[each]] == each]
        less = any(other in after[each] for each in between) if len(ends) > 1 else first[rows[one]] not in (one, other)
        if other in after[one] and not less:
            yield one, other


def _implies(one: BoolArray, other: BoolArray) -> bool:
    """Whether the second is true wherever the first is, more often than chance has it."""
    return bool(other[one].all()) and float(one.sum()) * np.log(max(float(other.mean()), 1e-9)) < _CHANCE


def _decides(look: Look, fact: BoolArray) -> str:
    """`decides` where categories have a fact in all rows or in none, `allots` where one has it in all; else nothing."""
    sizes, share = np.bincount(look.codes + 1), fact.mean()
    found = np.bincount(look.codes + 1, weights=fact)
    if ((found == 0) | (found == sizes)).all():
        return "decides" * bool(found[1:].any() and len(fact) * np.log(max(share, 1 - share)) < _CHANCE)
    largest = sizes[1:][found[1:] == sizes[1:]].max(initial=0)
    return "allots" * bool(largest * np.log(share) < _CHANCE)


def _pairs(looks: Sequence[Look], columns: Mapping[str, Column], masked: set[str]) -> Iterator[Proposed]:
    """Pairs of categories that chance would have brought together, and that no row has."""
    coded = [look for look in looks if columns[look.name].kind.coded and 2 <= look.distinct <= 50]
    for one, other in combinations(coded, 2):
        if not {one.name, other.name} & masked:
            continue
        table = np.zeros((one.distinct + 1, other.distinct + 1))
        np.add.at(table, (one.codes + 1, other.codes + 1), 1.0)
        table = table[1:, 1:]
        expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / max(1.0, table.sum())
        if missing := int(np.count_nonzero((table == 0) & (-expected < 2 * _CHANCE))):
            text = f"pairs({_name(one.name)}, {_name(other.name)})"
            said = f"{quoted(one.name)} and {quoted(other.name)}: {plural(missing, 'pair')} of categories, which chance"
            yield Proposed(text, 1.0, False, f"{said} would bring, in no sampled row. If impossible: {text}")
