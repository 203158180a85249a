"""The methods of a job that names none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anonpipe.columns import Column, Kind, Role
from anonpipe.methods.options import Options

_DEFAULT_METHODS: dict[str, dict[str, str]] = {
    "cluster": {"method": "mdav"},
    "sensitive": {},
    "synthesize": {"method": "micro_perturbation"},
}

_UNCHANGED = [role for role in Role if role.unchanged]


def with_methods(content: dict[str, Any]) -> dict[str, Any]:
    """A job's content with one way of replacing records: a mask, or the three methods of groups."""
    given = [name for name in _DEFAULT_METHODS if content.get(name) is not None]
    if content.get("mask") is not None:
        if given:
            raise ValueError(
                f"mask works on the whole table and forms no groups: {', '.join(given)} would mean nothing; "
                f"leave out either mask or {' and '.join(given)}"
            )
        return content
    if not given and not _needs_groups(content):
        method = "local_synthesis" if _masks_numbers(content) else "spectral_swap"  # as `anonpipe init` proposes
        return content | {"mask": {"method": method}}
    return content | {name: _with_method(content.get(name), default) for name, default in _DEFAULT_METHODS.items()}


def _needs_groups(content: Mapping[str, Any]) -> bool:
    """Whether a job that names no method asks for what only groups have."""
    decode, strata = (_entries(content.get(name)) for name in ("decode", "strata"))
    by = strata.get("by") if isinstance(strata.get("by"), list | tuple) else ()
    roles = {name: column.get("role", Role.MASKED) for name, column in _columns(content).items()}
    unchanged = any(role in _UNCHANGED and name not in (by or ()) for name, role in roles.items())
    units_of_categories = Role.UNIT in roles.values() and not _masks_numbers(content)
    restored = decode.get("restore_survival_times") or decode.get("categories") == "histogram"
    return bool(unchanged or units_of_categories or restored)


def _masks_numbers(content: Mapping[str, Any]) -> bool:
    """Whether some masked column is a number or a date."""
    return any(
        column.get("role", Role.MASKED) in (Role.MASKED, Role.SURVIVAL_TIME)
        and column.get("kind") in (Kind.CONTINUOUS, Kind.INTEGER, Kind.DATE)
        for column in _columns(content).values()
    )


def _columns(content: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {name: _entries(column) for name, column in _entries(content.get("columns")).items()}


def _entries(section: Any) -> Mapping[str, Any]:
    """What a section says; nothing where it is none, which other checks tell."""
    if isinstance(section, Options | Column):
        return section.model_dump()
    return section if isinstance(section, Mapping) else {}


def _with_method(options: Any, default: dict[str, str]) -> Any:
    """The options of a section, with what is default where they do not say it."""
    if options is None:
        return default
    return {**default, **options} if isinstance(options, dict) else options
