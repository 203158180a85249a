"""What a recipient's analyses ask of a job: columns, roles, strata, weights and methods.

Gal et al. 2014, section 2: who requests data knows what for, and the way of
anonymising should follow from it. Nothing here looks at the data.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from anonpipe.columns import Scalar
from anonpipe.errors import InputError, JobError
from anonpipe.evaluate.utility import Endpoint, LifeTable, Population, columns_used
from anonpipe.job.measure import RecipientAnalysis
from anonpipe.job.model import Job
from anonpipe.job.plain_yaml import load_yaml

# Proposed where an analysis has none
DEFAULT_LIMITS = {"changed_significance": 0.2, "changed_direction": 0.0, "outside": 0.2, "overlap": 0.6}

RESPONSE_WEIGHT = 0.5  # The share of distances that the authors gave the survival time
_SHAPE = (
    "give a list of {name, model, formula}, with event for model cox, such as: "
    "- {name: survival, model: cox, formula: months ~ age, event: status == 'Dead'}"
)


@dataclass(frozen=True)
class Survival:
    """The time and the event of the first Cox model."""

    name: str  # Of the analysis
    # time, status: columns; None where the model's response or condition is not made of one column
    time: str | None
    status: str | None
    event: tuple[Scalar, ...]  # Values that mean the event; empty where the condition does not list them


@dataclass(frozen=True)
class Needs:
    """What the analyses need of a table."""

    analyses: tuple[RecipientAnalysis, ...]  # As given
    users: Mapping[str, tuple[str, ...]]  # Of each column that some analysis names, the names of those analyses
    survival: Survival | None  # Of the first Cox model; None without any
    responses: Mapping[str, str]  # Columns that linear and logistic models explain, with the analysis
    subsets: Mapping[str, str]  # Columns that select the records of an analysis, with the analysis


def read_analyses(path: str | Path) -> tuple[RecipientAnalysis, ...]:
    r"""The analyses in a YAML file: a list of them, or a mapping with key `analyses`, such as a whole job."""
    try:
        content = load_yaml(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        raise JobError(f"the file of analyses {path} cannot be read as YAML; {_SHAPE}") from None
    if isinstance(content, dict):
        content = content.get("analyses")
    if not isinstance(content, list) or not content:
        raise JobError(f"the file {path} lists no analyses; {_SHAPE}")
    found: list[RecipientAnalysis] = []
    problems: list[str] = []
    for at, entry in enumerate(content, 1):
        try:
            found.append(RecipientAnalysis.model_validate(entry))
        except ValidationError as error:
            for item in error.errors(include_url=False, include_context=False, include_input=False):
                where = ": ".join(filter(None, (f"analysis {at}", ".".join(map(str, item["loc"])))))
                problems.append(f"{where}: {item['msg'].removeprefix('Value error, ')}")
    if problems:
        raise JobError("the analyses are not valid:\n" + "\n".join(f"  {line}" for line in problems))
    return tuple(found)


def needs_of(analyses: Sequence[RecipientAnalysis], known: Sequence[str]) -> Needs:
    """What the analyses need of a table with these columns."""
    users: dict[str, list[str]] = {name: [] for name in known}
    responses: dict[str, str] = {}
    subsets: dict[str, str] = {}
    survival = None
    for each in analyses:
        for name in columns_used(each.analysis, known):
            users[name].append(each.name)
        if each.subset is not None:
            subsets |= {name: each.name for name in _named(each.subset, known) if name not in subsets}
        if each.model == "cox":
            survival = survival or _survival(each, known)
        elif (response := _one(_named(each.formula.partition("~")[0], known))) is not None:
            responses.setdefault(response, each.name)
    used = {name: tuple(names) for name, names in users.items() if names}
    return Needs(tuple(analyses), used, survival, responses, subsets)


def endpoints_of(job: Job) -> tuple[Endpoint, ...]:
    """The survival analyses that a job declares: by the roles of its columns, and by its Cox models."""
    # A Cox model counts whose response is one column, and whose condition lists values of one column; the same time,
    # status, event and weights once. Competing events are an endpoint of their own.
    found: list[Endpoint] = []
    if job.time_column is not None and job.event_column is not None:
        status = job.columns[job.event_column]
        of_status = job.event_column, status.event or (), status.competing
        found.append(ends := Endpoint("", job.time_column, *of_status, job.weight_column or ""))
        if ends.competing:
            found.append(replace(ends, name="competing events", event=ends.competing, competing=ends.event))
    for each in job.analyses:
        if each.model == "cox":
            one = _survival(each, list(job.released))
            if one.time is not None and one.status is not None and one.event:
                weight = job.analysis_of(each).weights or ""
                found.append(Endpoint(each.name, one.time, one.status, one.event, (), weight))
    different: dict[tuple[Any, ...], Endpoint] = {}
    for end in found:
        different.setdefault((end.time, end.status, end.event, end.weight), end)
    return tuple(different.values())


_TIMES_A_YEAR = {"days": 365.25, "months": 12.0, "years": 1.0}


def population_of(job: Job) -> Population | None:
    """The population that relative survival is measured against, its life table read; None where a job names none."""
    given = job.measure.relative_survival
    if given is None:
        return None
    import pandas as pd  # imported here as it is slow to load

    frame = None
    with suppress(OSError, ValueError):
        frame = pd.read_csv(given.life_table)
    if frame is None:
        raise InputError(f"the life table {given.life_table} cannot be read; give a CSV with a header")
    table = LifeTable.of(frame)
    for what, known in (("sex", bool(table.sexes)), ("year", table.deaths.shape[1] > 1)):
        if known != (what in given.columns):
            raise InputError(
                f"the life table {'has' if known else 'has no'} column {what!r}, and measure.relative_survival "
                f"{'names none' if known else 'names one'}; give both or neither"
            )
    return Population(table, given.age, given.sex, given.year, _TIMES_A_YEAR[given.time_unit])


def _survival(cox: RecipientAnalysis, known: Sequence[str]) -> Survival:
    left = cox.formula.partition("~")[0].strip()
    status = _one(_named(cox.event or "", known))
    tree = None if status is None else _parsed(cox.event or "")
    events = () if status is None or tree is None else tuple(dict.fromkeys(_listed(tree, status) or ()))
    return Survival(cox.name, left if left in known else None, status, events)


def _named(code: str, known: Sequence[str]) -> list[str]:
    """Columns that code names, in the table's order."""
    tree = _parsed(code)
    nodes = [] if tree is None else list(ast.walk(tree))
    words = {node.id for node in nodes if isinstance(node, ast.Name)}
    texts = {node.value for node in nodes if isinstance(node, ast.Constant)}
    quoted = {name for name in known if f"`{name}`" in code or (name in texts and "Q(" in code)}
    return [name for name in known if name in words | quoted]


def _parsed(code: str) -> ast.expr | None:
    """The code as Python reads it; names in backticks are lost."""
    try:
        return ast.parse(code.replace("`", "'").strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return None


def _one(names: Sequence[str]) -> str | None:
    return names[0] if len(names) == 1 else None


def _listed(tree: ast.expr, status: str) -> list[Scalar] | None:
    """Values for which an expression is true of the status; None where it is of another form."""
    if _is_column(tree, status):
        return [1]
    if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.Or):
        parts = [_listed(part, status) for part in tree.values]
        return None if None in parts else [value for part in parts if part for value in part]
    if not isinstance(tree, ast.Compare) or len(tree.ops) != 1:
        return None
    left, operator, right = tree.left, tree.ops[0], tree.comparators[0]
    if isinstance(operator, ast.Eq) and _is_column(right, status):
        left, right = right, left
    if not _is_column(left, status):
        return None
    if isinstance(operator, ast.Eq):
        return _scalars([right])
    if isinstance(operator, ast.In) and isinstance(right, (ast.List, ast.Tuple, ast.Set)):
        return _scalars(right.elts)
    return None


def _is_column(node: ast.expr, name: str) -> bool:
    return (isinstance(node, ast.Name) and node.id == name) or (isinstance(node, ast.Constant) and node.value == name)


def _scalars(nodes: Sequence[ast.expr]) -> list[Scalar] | None:
    values: list[Any] = [node.value for node in nodes if isinstance(node, ast.Constant)]
    if len(values) < len(nodes) or not all(isinstance(value, (bool, int, float, str)) for value in values):
        return None
    return values
