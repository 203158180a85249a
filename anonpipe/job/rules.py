"""The rules of a job: short texts, read by the parser of conditions, and held against the columns. No data is read."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter
from keyword import iskeyword
from typing import TYPE_CHECKING, Any

from anonpipe.columns import Column, Comparison, Kind, Role, Rule, RuleFactor, Scalar
from anonpipe.errors import InputError, plural
from anonpipe.methods.masking import MASKERS

if TYPE_CHECKING:
    import pyarrow as pa

    from anonpipe.encoding.rules import RuleCounts
    from anonpipe.job.model import Job

FORMS = (
    "growth = api_2 - api_1; taxed = max(0, pay - free); share = 100 * part / total; 0 <= pay / hours; "
    "county -> region; start <= end; start + 30.4375 * months <= '2020-12-31'; if visits == 0 then cost == 0; "
    "if sex == 'm' then pregnancies is null; pairs(diagnosis, sex)"
)
_QUOTED = re.compile(r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`[^`\n]+`""")
_DATE_NAME = "the date "  # How the name begins that `_sum_tree` gives a date
_END = re.compile(r"\s*(?P<which>max|min)\s*\(\s*(?P<end>-?\d+(\.\d+)?)\s*,(?P<sum>.+)\)\s*")
_NULL = re.compile(r"(.*\S)\s+is\s+(not\s+)?null")
KEYWORDS = ("if", "then", "and", "or", "not", "in", "is", "null")
_OPERATORS = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.In: "in",
    ast.NotIn: "not in",
}  # fmt: skip
_CHANGED = (Role.MASKED, Role.DERIVED)  # Roles of columns that a rule may change
_ORDERED = ("<", "<=", ">", ">=")


def parse_rules(texts: Sequence[str], columns: Mapping[str, Column]) -> tuple[Rule, ...]:
    """The rules of a job in the order of their texts, of a chain several, and those of columns with a spike.

    ValueErrors tell what cannot be read.
    """
    rules = [rule for text in texts for rule in _read(text, columns)]
    derived: dict[str, Rule] = {}
    for rule in rules:
        if rule.derives and rule.target in derived:
            raise ValueError(
                f"rules {derived[rule.target].text!r} and {rule.text!r} both derive {rule.target!r}; remove either, or "
                "write one as a condition"
            )
        if rule.derives:
            derived[rule.target] = rule
    for name, column in columns.items():
        if column.spike is not None and name not in derived:
            rules.append(Rule("", "spike", name, constant=column.spike, gap=f"{name} other than {column.spike:g}"))
    try:
        TopologicalSorter({name: [term for term, _ in rule.terms] for name, rule in derived.items()}).prepare()
    except CycleError as error:
        circle = " from ".join(reversed(error.args[1]))
        raise ValueError(f"rules derive {circle}, which is a circle; remove one of them") from None
    return tuple(rules)


def with_rules(texts: Sequence[str], columns: Mapping[str, Column]) -> dict[str, Column]:
    """What rules make of the columns: derived ones, and those of the differences of an order."""
    found: dict[str, Column] = {}
    for rule in parse_rules(texts, columns):
        if not rule.derives:
            continue
        found[rule.target] = columns[rule.target].model_copy(update={"role": Role.DERIVED, "transform": None})
        if rule.gap:
            made, given = _gap_column(rule, columns), columns.get(rule.gap)
            found[rule.gap] = given or made
            if given is not None and given.model_copy(update={"transform": None}) != made:
                what = f"rule {rule.text!r}" if rule.text else f"the spike of {rule.target!r}"
                raise ValueError(f"{what} masks a column of the name {rule.gap!r}; rename that column")
    for name, column in columns.items():
        if column.role is Role.DERIVED and name not in found:
            raise ValueError(f"column {name!r} has role derived, and no rule derives it; give a rule, or role masked")
    return found


def check_rules(job: Job) -> None:
    """Refuse rules that the methods of a job cannot keep."""
    rules = [rule for rule in job.parsed_rules if rule.text]
    if not rules:
        return
    method = job.replacing
    if job.mask is not None and MASKERS[job.mask.method].own_scale:
        raise ValueError(f"rules do not go with mask {method.name}, which releases intervals; take another mask")
    if job.decode.categories == "probabilities":
        raise ValueError("rules do not go with decode.categories probabilities, which releases no values; take another")
    if job.repeat.growing:
        raise ValueError("rules do not go with repeat.growing: lookups and repairs depend on exact counts")
    for rule in rules:
        if not rule.derives and method.identical_rows:
            raise ValueError(
                f"rule {rule.text!r} changes single rows, and {method.name} releases the rows of a group as equal; "
                "take another method"
            )


def check_values(rules: Sequence[Rule], columns: Mapping[str, Column], schema: pa.Schema) -> None:
    """Refuse rules that compare a category with what its column cannot hold."""
    from anonpipe.encoding.values import level_array

    for rule in rules:
        for test in (*rule.when, *rule.then):
            if columns[test.column].kind.coded and test.values:
                level_array(test.column, test.values, schema.field(test.column).type)


def check_counts(rules: Sequence[Rule], counts: RuleCounts, k: int) -> None:
    """Refuse rules that rows of the original break, and conditions that fewer than k of them meet."""
    from anonpipe.job.wide import name_of_rows, rule_of_rows  # which reads jobs

    # A rule for all rows of a unit is one: so many units meet it at least, as one may do so in several rows
    same = [rule_of_rows(rule.text) or rule.text for rule in rules]
    met, broken, without = dict.fromkeys(same, 0), dict.fromkeys(same, 0), dict.fromkeys(same, 0)
    for at, (text, rule) in enumerate(zip(same, rules, strict=True)):
        met[text] = max(met[text], int(counts.met[at]))
        broken[text] += counts.broken_by(at, rule)
        without[text] += int(counts.without_operand[at])
    # In first rows without a value a rule holds anyway, and is not among these: it may be met there alone
    first = {text for text, rule in zip(same, rules, strict=True) if text == rule.text or " (row 1)`" in rule.text}
    problems = dict(_of_spikes(rules, counts, k))  # Of each rule one
    for at, (text, rule) in enumerate(zip(same, rules, strict=True)):
        if text in problems or rule.kind == "spike":
            continue
        said = f"rule {text!r}"
        if broken[text] and rule.kind == "lookup" and counts.pairs[at].ends:
            problems[text] = (
                f"{said}: {plural(broken[text], 'value')} of {rule.target!r} with numbers that belong to another one; "
                "each must have an interval of its own; correct that, or remove the rule"
            )
        elif broken[text]:
            problems[text] = (
                f"{said} does not hold in {plural(broken[text], 'row')} of the input; correct that, or remove the rule"
                f"{_NULLS * (rule.kind in ('linear', 'product'))}"
            )
        elif rows := without[text]:
            other = " <= " if rule.sign < 0 or rule.kind == "share" else " >= "
            target, begin = name_of_rows(rule.target), name_of_rows(rule.terms[0][0])
            turned = other.join([target, begin])
            remedy = f"write {turned!r}, which computes {begin!r} in its place, or if {begin} is not null then {turned}"
            remedy = {"ratio": "remove the rule", "limit": "give it an upper bound, too"}.get(rule.kind, remedy)
            problems[text] = f"{said}: {plural(rows, 'row')} with {target!r} and none of its operands; {remedy}"
        elif rule.kind == "condition" and met[text] < k and (text in first or met[text]):
            problems[text] = (
                f"{said}: fewer than k={k} rows of the input meet its condition; check how its values are spelled, or "
                "remove it: recipients see the rule, which must not describe single persons"
            )
        elif rule.kind == "pairs" and not counts.pairs[at].are_of(k).any():
            problems[text] = (
                f"{said}: no combination has k={k} records (or units), so that none may come out; join categories of "
                "either column, or remove the rule"
            )
    if problems:
        raise InputError("\n".join(problems.values()))


def _of_spikes(rules: Sequence[Rule], counts: RuleCounts, k: int) -> Iterator[tuple[str, str]]:
    """Columns with a spike that cannot have one, each with what is wrong."""
    for at, rule in enumerate(rules):
        if rule.kind == "spike" and (rows := int(counts.without_operand[at])):
            what = f"has a spike and {plural(rows, 'row')} without a value; remove spike, or fill them in the input"
            yield rule.target, f"column {rule.target!r} {what}"
        elif rule.kind == "spike" and counts.met[at] < k:
            what = f"fewer than k={k} rows have another value than the spike; remove spike, or drop the column"
            yield rule.target, f"column {rule.target!r}: {what}"


_NULLS = " (where an operand is null or a divisor is 0, the result must be null, and nowhere else)"


# --- Texts to rules


def _read(text: str, columns: Mapping[str, Column]) -> list[Rule]:
    """The rules of one text."""
    try:
        rules = _parsed(text, columns)
        for rule in rules:
            _check_columns(rule, columns)
        rules = [_with_days(rule, columns) for rule in rules]
        for rule in rules:
            _CHECKS[rule.kind](rule, columns)
        rules = [_with_grid(each, columns) if each.gap else each for each in rules]
    except ValueError as error:
        raise ValueError(f"rule {text!r}: {_without_backticks(text, columns) or error}") from None
    return rules


def _without_backticks(text: str, columns: Mapping[str, Column]) -> str:
    """What to write where a rule that cannot be read names a column that is no word; empty for none."""
    bare = _QUOTED.sub(" ", text)
    odd = [name for name in columns if (iskeyword(name) or not name.isidentifier()) and name not in KEYWORDS]
    odd = [name for name in odd if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", bare) and not name.isdigit()]
    name = max(odd, key=len, default="")
    return f"write `{name}` in backticks: the column is no plain word" if name else ""


def _tree(code: str) -> ast.expr:
    """A piece of a rule as the parser of conditions reads it."""
    from anonpipe.evaluate.utility import RefusedError, read_condition  # heavy, and few jobs have rules

    try:
        return read_condition(code)
    except RefusedError as error:
        raise ValueError(str(error)) from None


def _sum_tree(code: str) -> ast.expr:
    """A sum, in which the parser of conditions knows no dates but as names."""
    return _tree(_QUOTED.sub(lambda hit: hit[0] if hit[0][0] == "`" else f"`{_DATE_NAME}{hit[0][1:-1]}`", code))


def _parsed(text: str, columns: Mapping[str, Column]) -> list[Rule]:
    masked = _QUOTED.sub(lambda hit: "_" * len(hit[0]), text)

    def part(match: re.Match[str], group: int) -> str:
        return text[slice(*match.span(group))]

    if match := re.fullmatch(r"\s*if\s+(.*\S)\s+then\s+(.*\S)\s*", masked):
        return [Rule(text.strip(), "condition", when=_tests(part(match, 1)), then=_tests(part(match, 2)))]
    if match := re.fullmatch(r"\s*pairs\s*\((.+),(.+)\)\s*", masked):
        return [Rule(text.strip(), "pairs", _column(part(match, 2)), ((_column(part(match, 1)), 1.0),))]
    if match := re.fullmatch(r"(.+)->(.+)", masked):
        return [Rule(text.strip(), "lookup", _column(part(match, 2)), ((_column(part(match, 1)), 1.0),))]
    if match := re.fullmatch(r"([^<>=!]+)=([^<>=!]+)", masked):
        return [_with_end(text.strip(), _column(part(match, 1)), part(match, 2))]
    if re.search(r"[<>]", masked) and "==" not in masked:
        return _orders(text, masked, columns)
    raise ValueError(f"is none of the forms of a rule, such as {FORMS}")


def _orders(text: str, masked: str, columns: Mapping[str, Column]) -> list[Rule]:
    """An order of two columns or more: the first is masked, each other lies a difference after those before it."""
    found = list(re.finditer(r"<=|>=|<|>", masked))
    signs = {hit[0] for hit in found}
    if not signs <= {"<="} and not signs <= {">="}:
        raise ValueError(
            "an order takes <= alone, or >= alone; of numbers write if b is not null then a < b, of columns of kind "
            "categorical pairs(a, b), after which only pairs of the input come out"
        )
    ends = [0, *(place for hit in found for place in hit.span()), len(text)]
    parts = [text[begin:end].strip() for begin, end in zip(ends[::2], ends[1::2], strict=True)]
    if len(parts) == 2 and (limit := _limit(text.strip(), parts if signs == {"<="} else parts[::-1], columns)):
        return [limit]
    if "0" in (parts[0], parts[-1]):
        return [_share(text.strip(), parts if signs == {"<="} else parts[::-1])]
    names = [_column(part) for part in parts]
    sign, sort = (1, "<=") if signs == {"<="} else (-1, ">=")
    rules = []
    for at in range(1, len(names)):
        gap = f"{names[at]} - {names[at - 1]}" if sign > 0 else f"{names[at - 1]} - {names[at]}"
        terms = tuple((name, 1.0) for name in names[at - 1 :: -1])
        rules.append(Rule(f"{names[at - 1]} {sort} {names[at]}", "order", names[at], terms, gap=gap, sign=sign))
    return rules


def _limit(text: str, parts: Sequence[str], columns: Mapping[str, Column]) -> Rule | None:
    """A sum that is at most another one; None of two columns, and of a ratio."""
    trees = [_sum_tree(part) for part in parts]
    if all(map(_name_of, trees)) or any(each.terms for tree in trees for each in _factors(tree, False) if each.divides):
        return None
    (terms, constant), (others, above) = map(_linear, trees)
    times = {name: terms.get(name, 0.0) - others.get(name, 0.0) for name in {**terms, **others}}
    dates = times.pop("", 0.0)
    if len(times) == 1:
        raise ValueError(f"a limit that is the same in all rows is given as bounds of {min(times)!r}")
    may_be = [name for name, by in times.items() if by > 0 and (name not in columns or columns[name].role in _CHANGED)]
    if not may_be:
        raise ValueError("it sets an upper limit on no masked column; give one of its columns role masked")
    own = times.pop(may_be[0])
    below = tuple((name, -each / own) for name, each in times.items())
    return Rule(
        text, "limit", may_be[0], below, (above - constant) / own, gap=f"{may_be[0]} / limit", dates=-dates / own
    )


def _share(text: str, parts: Sequence[str]) -> Rule:
    """An order that begins at 0: the larger column or the divisor is masked, and the share or ratio of the other."""
    tree = _tree(parts[1]) if len(parts) == 2 and parts[0] == "0" else None
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Div):
        part, total = _name_of(tree.left), _name_of(tree.right)
    else:
        part, total = map(_column, parts[1:]) if len(parts) == 3 and parts[0] == "0" else (None, None)
    if part is None or total is None:
        raise ValueError("an order with 0 is of two columns, as in 0 <= part <= total or 0 <= numerator / divisor")
    gap = f"{part} / {total}"
    factors = tuple(RuleFactor(((name, 1.0),), 0.0) for name in (gap, total))
    return Rule(text, "ratio" if tree else "share", part, ((total, 1.0),), 1.0, factors=factors, gap=gap)


def _column(code: str) -> str:
    tree = _tree(code)
    if (name := _name_of(tree)) is None:
        raise ValueError(f"{code.strip()!r} is no name of a column (names that are no words stand in backticks)")
    return name


def _name_of(tree: ast.expr) -> str | None:
    if isinstance(tree, ast.Name):
        return tree.id
    quoted = isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == "Q"
    return str(tree.args[0].value) if quoted and isinstance(tree.args[0], ast.Constant) else None  # type: ignore


def _with_end(text: str, target: str, code: str) -> Rule:
    """The rule of a column that is computed from others, or that is at least or at most a number."""
    if (match := _END.fullmatch(code)) is None:
        return _computed(text, target, _sum_tree(code))
    rule, end = _computed(text, target, _sum_tree(match["sum"])), float(match["end"])
    if rule.kind != "linear":
        raise ValueError(f"{match['which']} is of a number and a sum of columns times numbers")
    return replace(rule, ends=(end, math.nan) if match["which"] == "max" else (-math.inf, end))


def _computed(text: str, target: str, tree: ast.expr) -> Rule:
    """The rule of a column that is a sum of others, or a product of sums."""
    factors = _factors(tree, False)
    numbers = [each for each in factors if not each.terms]
    if any(each.divides and not each.constant for each in numbers):
        raise ValueError("it divides by 0")
    sums = tuple(each for each in factors if each.terms)
    if len(sums) == 1 and not sums[0].divides:
        terms, constant = _linear(tree)
        dates = terms.pop("", 0.0)
        return Rule(text, "linear", target, tuple(terms.items()), constant, dates)
    if any(name == "" for each in sums for name, _ in each.terms):
        raise ValueError("a date that is no column stands in sums alone, as in age = ('2020-12-31' - birth) / 365.25")
    scale = math.prod(1.0 / each.constant if each.divides else each.constant for each in numbers)
    powers = dict.fromkeys((name for each in sums for name, _ in each.terms), 0.0)
    for each in sums:
        powers |= {name: powers[name] + (-1.0 if each.divides else 1.0) for name, _ in each.terms}
    return Rule(text, "product", target, tuple(powers.items()), scale, factors=sums)


def _factors(tree: ast.expr, divides: bool) -> list[RuleFactor]:
    """The factors of a product; of a sum the only one."""
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return [*_factors(tree.operand, divides), RuleFactor((), -1.0)]
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Mult | ast.Div):
        return [*_factors(tree.left, divides), *_factors(tree.right, divides ^ isinstance(tree.op, ast.Div))]
    power = tree.right if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Pow) else None
    if isinstance(tree, ast.BinOp) and isinstance(power, ast.Constant) and power.value in (2, 3):
        return (2 if power.value == 2 else 3) * _factors(tree.left, divides)
    terms, constant = _linear(tree)
    return [RuleFactor(tuple(terms.items()), constant, divides)]


def _linear(tree: ast.expr) -> tuple[dict[str, float], float]:
    """The multiple of each column, and the constant, of a sum; that of dates, as days since 1970, is named ""."""
    if (name := _name_of(tree)) is not None:
        dated = name.startswith(_DATE_NAME)
        return {"" if dated else name: 1.0}, _days(name.removeprefix(_DATE_NAME)) if dated else 0.0
    if isinstance(tree, ast.Constant) and isinstance(tree.value, int | float):
        return {}, float(tree.value)
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return _times(_linear(tree.operand), -1.0)
    if isinstance(tree, ast.BinOp):
        left, right = _linear(tree.left), _linear(tree.right)
        if isinstance(tree.op, ast.Add | ast.Sub):
            terms, constant = _times(right, 1.0 if isinstance(tree.op, ast.Add) else -1.0)
            names = dict.fromkeys([*left[0], *terms])
            return {name: left[0].get(name, 0.0) + terms.get(name, 0.0) for name in names}, left[1] + constant
        if isinstance(tree.op, ast.Mult) and not (left[0] and right[0]):
            return _times(right, left[1]) if not left[0] else _times(left, right[1])
        if isinstance(tree.op, ast.Div) and not right[0] and right[1]:
            return _times(left, 1.0 / right[1])
    raise ValueError(
        f"{ast.unparse(tree)!r} is no sum of columns times numbers; products and ratios are of sums, as in "
        "100 * (after - before) / before"
    )


def _days(text: str) -> float:
    """Days from 1970-01-01 to a date."""
    try:
        return float((date.fromisoformat(text) - date(1970, 1, 1)).days)
    except ValueError:
        raise ValueError(f"{text!r} is not a date; write it as '2020-12-31'") from None


def _times(linear: tuple[dict[str, float], float], factor: float) -> tuple[dict[str, float], float]:
    return {name: times * factor for name, times in linear[0].items()}, linear[1] * factor


def _tests(code: str) -> tuple[Comparison, ...]:
    masked = _QUOTED.sub(lambda hit: "_" * len(hit[0]), code)
    ends = [0, *(place for hit in re.finditer(r"\s+and\s+", masked) for place in hit.span()), len(code)]
    return tuple(_test(code[begin:end].strip()) for begin, end in zip(ends[::2], ends[1::2], strict=True))


def _test(code: str) -> Comparison:
    masked = _QUOTED.sub(lambda hit: "_" * len(hit[0]), code)
    if match := _NULL.fullmatch(masked):
        return Comparison(_column(code[: match.end(1)]), "not null" if match[2] else "null")
    tree = _tree(code)
    if not isinstance(tree, ast.Compare) or len(tree.ops) != 1 or (name := _name_of(tree.left)) is None:
        raise ValueError(f"{code!r} compares no column with a value, as in visits == 0")
    operator, right = _OPERATORS[type(tree.ops[0])], tree.comparators[0]
    if isinstance(right, ast.Name) and right.id in ("true", "false"):  # as YAML writes them
        return Comparison(name, operator, (right.id == "true",))
    if (other := _name_of(right)) is not None:
        return Comparison(name, operator, other=other)
    listed = right.elts if isinstance(right, ast.List | ast.Tuple | ast.Set) else [right]
    return Comparison(name, operator, tuple(_value(each, code) for each in listed))


def _value(tree: ast.expr, code: str) -> Scalar:
    try:
        value: Any = ast.literal_eval(tree)
    except ValueError:
        value = None
    if not isinstance(value, bool | int | float | str):
        raise ValueError(f"{code!r} compares no column with a value, as in visits == 0")
    return value


# --- Rules held against the columns


def _check_columns(rule: Rule, columns: Mapping[str, Column]) -> None:
    for name in rule.names:
        if name not in columns:
            near = get_close_matches(name, list(columns), 1, 0.6)
            meant = f"did you mean {near[0]}? " if near else ""
            raise ValueError(f"the job has no column {name!r}; {meant}It has {', '.join(columns)}")
        if not columns[name].role.released:
            raise ValueError(f"column {name!r} is not released (role {columns[name].role.value}); remove the rule")
    if rule.derives and columns[rule.target].role not in _CHANGED:
        role, turned = columns[rule.target].role, "turn the rule round"
        times = {times: name for name, times in rule.terms}
        if rule.kind == "linear" and len(rule.terms) == 2 and times.keys() == {1.0, -1.0} and not rule.constant:
            turned += f", as in {times[1.0]} = {times[-1.0]} + {rule.target}"
        masked = "" if role is Role.SURVIVAL_TIME else ", or give role masked"  # which a Cox model would lose
        raise ValueError(
            f"it derives {rule.target!r}, whose role is {role.value}; only a masked column is computed from others: "
            f"{turned}{masked}"
        )


def _with_days(rule: Rule, columns: Mapping[str, Column]) -> Rule:
    """The rule with dates as days since 1970-01-01."""

    def days(test: Comparison) -> Comparison:
        if columns[test.column].kind is not Kind.DATE or not test.values:
            return test
        try:
            return replace(test, values=tuple(_days(str(value)) for value in test.values))
        except ValueError as error:
            raise ValueError(f"column {test.column!r} holds dates: {error}") from None

    return replace(rule, when=tuple(map(days, rule.when)), then=tuple(map(days, rule.then)))


def _check_computed(rule: Rule, columns: Mapping[str, Column]) -> None:
    names = [rule.target, *(name for name, _ in rule.terms)]
    if coded := [name for name in names if columns[name].kind.coded]:
        raise ValueError(f"{coded[0]!r} is {columns[coded[0]].kind.value}, and is not computed with")
    if not rule.terms or rule.target in names[1:]:
        raise ValueError(f"{rule.target!r} must follow from other columns")
    dated = {name for name in names if columns[name].kind is Kind.DATE}
    sums = [sum(times for name, times in part.terms if name in dated) for part in rule.factors or (rule,)]
    sums = sums if rule.factors else [sums[0] + rule.dates]
    if any(dates != (1.0 if rule.target in dated else 0.0) for dates in sums) or (
        rule.factors and rule.target in dated
    ):
        raise ValueError("a number may follow from differences of dates (in days), and a date from a date and days")


def _check_limit(rule: Rule, columns: Mapping[str, Column]) -> None:
    dated = [name for name, _ in ((rule.target, 1.0), *rule.terms) if columns[name].kind is Kind.DATE]
    if dated == [rule.target] and not rule.dates:
        raise ValueError(f"{rule.target!r} is limited by a date in quotes, as in {rule.target} + days <= '2020-12-31'")
    _check_computed(rule, columns)
    if columns[rule.target].numeric_bounds[0] is None:
        raise ValueError(f"{rule.target!r} has a limit and no lower bound; give bounds: [SMALLEST, null]")


def _check_order(rule: Rule, columns: Mapping[str, Column]) -> None:
    names = [rule.target, *(name for name, _ in rule.terms)]
    if len(set(names)) < len(names):
        raise ValueError("a column is named twice")
    if len({columns[name].kind is Kind.DATE for name in names}) > 1 or any(columns[name].kind.coded for name in names):
        raise ValueError(
            "an order is of numbers, or of dates, not of both; of categories write pairs(a, b), after which only pairs "
            "of the input come out"
        )
    if rule.kind in ("share", "ratio") and columns[rule.target].kind is Kind.DATE:
        raise ValueError("an order with 0 is of numbers, and of dates there is one without")


def _check_coded(rule: Rule, columns: Mapping[str, Column]) -> None:
    names = (rule.terms[0][0], rule.target)
    numbers = [name for name in names if not columns[name].staged_as_codes]
    begins = numbers[:1] == [names[0]] and (len(numbers) == 2 or columns[names[0]].kind is Kind.DATE)
    if begins or (numbers and rule.kind == "pairs"):
        what = "a lookup begins with a category, or gives a class of a number"
        what = "this rule is of categories" if rule.kind == "pairs" else what
        raise ValueError(f"{numbers[0]!r} is {columns[numbers[0]].kind.value}, and {what}")
    if names[0] == names[1]:
        raise ValueError("a column is named twice")
    if rule.kind == "pairs" and not any(columns[name].role.synthesized for name in names):
        raise ValueError("both columns are released unchanged, and pairs of them as they are; remove the rule")


def _check_condition(rule: Rule, columns: Mapping[str, Column]) -> None:
    for test in (*rule.when, *rule.then):
        coded = [name for name in (test.column, test.other) if name and columns[name].kind.coded]
        if coded and (test.operator in _ORDERED or test.other):
            raise ValueError(f"{coded[0]!r} holds categories, which are compared with values by ==, != and in")
        if not columns[test.column].kind.coded and any(isinstance(value, str) for value in test.values):
            raise ValueError(f"{test.column!r} holds numbers, and is compared with a text")
        dates = {columns[name].kind is Kind.DATE for name in (test.column, test.other) if name}
        if len(dates) > 1:
            raise ValueError(f"{test.column!r} and {test.other!r} are a date and a number")
    then = [name for test in rule.then for name in (test.column, test.other) if name]
    if not any(columns[name].role in _CHANGED for name in then):
        raise ValueError(
            f"{then[0]!r} is released unchanged, and no repair can change it; turn the rule round, so that a masked "
            "column follows then"
        )


_CHECKS = {
    "linear": _check_computed, "product": _check_computed, "order": _check_order, "share": _check_order,
    "ratio": _check_order, "limit": _check_limit, "lookup": _check_coded, "pairs": _check_coded,
    "condition": _check_condition,
}  # fmt: skip


def _with_grid(rule: Rule, columns: Mapping[str, Column]) -> Rule:
    """The rule with the step of its differences; of a limit with the bounds of the target and what rounding may add."""
    if rule.kind != "limit":
        return replace(rule, step=_gap_column(rule, columns).step or 0.0)
    low, high = (math.nan if end is None else end for end in columns[rule.target].numeric_bounds)
    # A number in another unit, such as months, is taken for a rounded one; whole multiples of numbers are exact.
    dated = columns[rule.target].kind is Kind.DATE
    rounded = [(name, times) for name, times in rule.terms if abs(times) != 1.0 and (dated or not times.is_integer())]
    return replace(
        rule, ends=(low, high), slack=sum(abs(t) * (columns[name].resolution or 0.0) / 2 for name, t in rounded)
    )


def _gap_column(rule: Rule, columns: Mapping[str, Column]) -> Column:
    """The column of the differences of an order: at least 0, on the finer of the steps; shares end at 1."""
    if rule.kind == "spike":
        return columns[rule.target].without_spike
    if rule.kind in ("share", "ratio", "limit"):
        return Column(kind=Kind.CONTINUOUS, bounds=(0.0, None if rule.kind == "ratio" else 1.0))
    names = [rule.target, *(name for name, _ in rule.terms)]
    steps = [columns[name].resolution for name in names]
    step = None if None in steps else min(each for each in steps if each is not None)
    ends = [columns[name].numeric_bounds for name in names]
    lows, highs = [low for low, _ in ends], [high for _, high in ends]
    known = [end for end in (*lows, *highs) if end is not None]
    most = max(known) - min(known) if len(known) == 2 * len(ends) and max(known) > min(known) else None
    kind = Kind.INTEGER if step == 1.0 else Kind.CONTINUOUS
    return Column(kind=kind, bounds=(0.0, most), step=step if kind is Kind.CONTINUOUS else None)
