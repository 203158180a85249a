"""What jobs, flags and measures were called until this version, and what they are called now.

Old names are read for one version, each with one notice, and nothing but this
module knows them. They are replaced before a job is checked, so that a job is
the same however it is spelled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

# Keys of a job by their old names; one or two parts
KEYS = {
    "classes": "sensitive",
    "mask.kept": "mask.conditioning",
    "gates.linked_share": "gates.reidentification_rate",
    "gates.homogeneous_share": "gates.homogeneity",
    "gates.suppressed_share": "gates.local_suppression_rate",
    "gates.share_as_they_were": "gates.unchanged_record_rate",
    "gates.covariance_unchanged": "gates.covariance_with_keys",
}

ROLES = {"class": "sensitive", "kept": "key"}  # Values of `columns.*.role`

FLAGS = {"--anew": "--refresh"}  # Flags of commands

# Names of measures, as patterns; the first that fits counts
MEASURES = {
    r"linked_share": "reidentification_rate",
    r"homogeneous_share": "homogeneity",
    r"class\.(.+)\.homogeneous": r"sensitive.\1.homogeneity",
    r"class\.(.+\.[a-z_]+)": r"sensitive.\1",
}


def notice(old: str, new: str) -> str:
    """What is said of an old name.

    Examples
    --------
    >>> notice("--anew", FLAGS["--anew"])
    '--anew is now called --refresh; the old name goes with the next version'
    """
    return f"{old} is now called {new}; the old name goes with the next version"


def current(content: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """A job's content under the names of this version, and a notice for each old one.

    Examples
    --------
    >>> current({"k": 5, "gates": {"linked_share": 0.1}})[0]
    {'k': 5, 'gates': {'reidentification_rate': 0.1}}
    """
    renamed, found = dict(content), []
    for old, new in KEYS.items():
        *section, name = old.split(".")
        inside = renamed.get(section[0]) if section else renamed
        if not isinstance(inside, Mapping) or name not in inside:
            continue
        put = _renamed(inside, old, new)
        renamed = {**renamed, section[0]: put} if section else put
        found.append(notice(old, new))
    columns = renamed.get("columns")
    if isinstance(columns, Mapping):
        given = [column.get("role") for column in columns.values() if isinstance(column, Mapping)]
        found += [notice(f"role {old}", f"role {new}") for old, new in ROLES.items() if old in given]
        renamed["columns"] = {name: _with_role(column, ROLES) for name, column in columns.items()}
    return renamed, tuple(found)


def _renamed(inside: Mapping[str, Any], old: str, new: str) -> dict[str, Any]:
    """A section with a key under its new name, in its old place."""
    key, now = old.rpartition(".")[2], new.rpartition(".")[2]
    if now in inside:
        raise ValueError(f"{old} is the old name of {new}, and both are given; leave out {old}")
    return {now if name == key else name: value for name, value in inside.items()}


def _with_role(column: Any, roles: Mapping[str, str]) -> Any:
    role = column.get("role") if isinstance(column, Mapping) else None
    return {**column, "role": roles[role]} if isinstance(role, str) and role in roles else column


def current_path(parts: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The parts of a dotted key under the names of this version, and a notice for an old one.

    Examples
    --------
    >>> current_path(["classes", "l_diversity"])[0], current_path(["gates", "mean"])
    (('sensitive', 'l_diversity'), (('gates', 'mean'), ()))
    """
    for old, new in KEYS.items():
        names = old.split(".")
        if list(parts[: len(names)]) == names:
            return (*new.split("."), *parts[len(names) :]), (notice(old, new),)
    return tuple(parts), ()


def current_setting(setting: str) -> str:
    """A key=value with the key under its name of this version.

    Examples
    --------
    >>> current_setting("gates.linked_share=0.1"), current_setting("gates.mean=1")
    ('gates.reidentification_rate=0.1', 'gates.mean=1')
    """
    found = (new + setting.removeprefix(old) for old, new in KEYS.items() if setting.startswith((f"{old}=", f"{old}.")))
    return next(found, setting)


def current_measure(name: str) -> tuple[str, tuple[str, ...]]:
    """The name of a measure in this version, and a notice where the old one was given.

    Examples
    --------
    >>> current_measure("class.stage.homogeneous")[0], current_measure("linkage.first")
    ('sensitive.stage.homogeneity', ('linkage.first', ()))
    """
    for old, new in MEASURES.items():
        if re.fullmatch(old, name, re.DOTALL):
            now = re.sub(old, new, name, flags=re.DOTALL)
            return now, (notice(name, now),)
    return name, ()


def as_first_named(content: Mapping[str, Any]) -> dict[str, Any]:
    """A checked job's content under its first names.

    These are what digests of jobs are made of: by them the noise of a release
    is keyed, and releases of earlier versions are known again. So they stay.

    Examples
    --------
    >>> as_first_named({"sensitive": None, "gates": {"homogeneity": 0.1}, "columns": {"a": {"role": "key"}}})
    {'classes': None, 'gates': {'homogeneous_share': 0.1}, 'columns': {'a': {'role': 'kept'}}}
    """
    first = {new: old for old, new in KEYS.items()}
    roles = {new: old for old, new in ROLES.items()}
    named: dict[str, Any] = {}
    for name, value in content.items():
        if name == "columns":
            value = {column: _with_role(each, roles) for column, each in value.items()}
        elif isinstance(value, Mapping):
            value = {_last(first.get(f"{name}.{key}", str(key))): each for key, each in value.items()}
        named[first.get(name, name)] = value
    return named


def _last(path: str) -> str:
    return path.rpartition(".")[2]


Schema = dict[str, Any]


def let_in(job: Schema, resolve: Callable[[Schema], Schema]) -> None:
    """Have a job's JSON schema let in the old names beside those of this version.

    Prefect holds the parameters of a deployment against the schema before the
    flow sees them. Old names are patterns there, which no form offers.

    Examples
    --------
    >>> job = {"properties": {"sensitive": {"type": "string"}, "columns": {"additionalProperties": {"properties": {}}}}}
    >>> let_in(job, lambda schema: schema)
    >>> job["patternProperties"]
    {'^classes$': {'type': 'string'}}
    """
    properties = job["properties"]
    for old, new in KEYS.items():
        *section, key = new.split(".")
        for told in _objects(properties.get(section[0], {}), resolve) if section else (job,):
            if key in told["properties"]:
                pattern = f"^{re.escape(_last(old))}$"
                told.setdefault("patternProperties", {})[pattern] = told["properties"][key]
    for column in _objects(properties["columns"]["additionalProperties"], resolve):
        if "role" in column["properties"]:
            role = column["properties"]["role"]
            column["properties"]["role"] = {**role, "anyOf": [_bare(role), {"enum": list(ROLES), "deprecated": True}]}
            column["properties"]["role"].pop("$ref", None)


def _bare(schema: Schema) -> Schema:
    return {name: value for name, value in schema.items() if name in ("$ref", "enum")}


def _objects(schema: Schema, resolve: Callable[[Schema], Schema]) -> Iterator[Schema]:
    """The objects that a schema stands for, each alternative of several."""
    told = resolve(schema)
    if "properties" in told:
        yield told
    for each in (*told.get("anyOf", ()), *told.get("oneOf", ())):
        yield from _objects(each, resolve)
