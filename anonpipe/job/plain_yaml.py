"""YAML of a bounded size, without surprises, and settings that replace its values (`--set`)."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Mapping
from typing import Any

import yaml

from anonpipe.columns import NOT_RELEASED
from anonpipe.errors import JobError

LARGEST = 5_000_000  # Characters of a text, and of what it stands for once all aliases are written out


def load_yaml(text: str) -> Any:
    r"""What a YAML text says: numbers, texts, truths, lists and mappings; dates stay text."""
    if len(text) > LARGEST:
        raise _refused(f"it has {len(text):,} characters, and {LARGEST:,} are allowed")
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _measure(node, {})
        return loader.construct_document(node)
    except RecursionError:
        raise _refused("it is nested too deeply") from None
    finally:
        loader.dispose()


def _measure(node: yaml.Node, known: dict[int, int]) -> int:
    """Characters of a node with all its aliases written out."""
    size = known.get(id(node))
    if size is None:
        known[id(node)] = LARGEST + 1  # met again before it is known, it holds itself
        if isinstance(node, yaml.MappingNode):
            size = 1 + sum(_measure(key, known) + _measure(value, known) for key, value in node.value)
        elif isinstance(node, yaml.SequenceNode):
            size = 1 + sum(_measure(each, known) for each in node.value)
        else:
            size = 1 + len(node.value)
        known[id(node)] = size
    if size > LARGEST:
        raise _refused(f"its aliases stand for more than {LARGEST:,} characters; write out what is meant", node)
    return size


def _refused(why: str, node: yaml.Node | None = None) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, why, None if node is None else node.start_mark)


class _Loader(yaml.SafeLoader):
    """YAML that refuses a key given twice, which the standard loader silently drops, and leaves dates as text."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key is no plain word", key_node.start_mark)
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is given twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


_Loader.yaml_constructors = {**_Loader.yaml_constructors, "tag:yaml.org,2002:timestamp": _Loader.construct_yaml_str}


# --- Values that replace those of a job file: dotted keys, as `--set` takes them --------------------------------------


# A part of a dotted key: in quotes, where a quote of that kind is doubled, or without dots
_PART = r"""(?:"(?:[^"]|"")+"|'(?:[^']|'')+'|[^.="'][^.=]*)"""
_SETTING = re.compile(rf"(?P<key>{_PART}(?:\.{_PART})*)=(?P<value>.*)", re.DOTALL)


def overridden(content: Any, overrides: dict[str, Any]) -> Any:
    """The content with other values."""
    if not overrides or not isinstance(content, dict):
        return content
    columns = content.get("columns")
    before = tuple(columns) if isinstance(columns, dict) else ()
    settings = {tuple(_parts(dotted)): dotted for dotted in overrides}
    if isinstance(content.get("input"), str) and any(parts[0] == "input" and len(parts) > 1 for parts in settings):
        content["input"] = {"path": content["input"]}
    for dotted, value in overrides.items():
        _put(content, dotted, _parts(dotted), value)
    _refuse_new_columns(content, before, settings)
    return content


def parse_setting(setting: str) -> tuple[str, Any]:
    """The dotted key and the value of a `key=value`, the value read as in a job file."""
    if found := _SETTING.fullmatch(setting):
        with contextlib.suppress(yaml.YAMLError):
            return found["key"], load_yaml(found["value"])
    raise JobError(
        "--set takes key=value, such as --set k=10 or --set cluster.method=kmeans, and a name that holds a dot or "
        f"= in quotes, such as --set 'columns.\"blood.pressure\".step=5', not {setting!r}"
    )


def _parts(dotted: str) -> list[str]:
    """The parts of a dotted key without their quotes."""
    parts = re.findall(_PART, dotted)
    return [part[1:-1].replace(part[0] * 2, part[0]) if part[0] in "\"'" else part for part in parts]


def _put(content: Any, dotted: str, parts: list[str], value: Any) -> None:
    *path, last = parts
    for at, part in enumerate(path):
        if not isinstance(content, dict):
            break
        _refuse_cut_name(content, dotted, parts[at:])
        content = content.setdefault(part, {})
    if not isinstance(content, dict):
        raise JobError(f"cannot set {dotted}: {'.'.join(path)} is not a mapping in the job")
    content[last] = value


def _refuse_new_columns(
    content: dict[str, Any], before: Collection[str], settings: Mapping[tuple[str, ...], str]
) -> None:
    """Stop where an option was set of a column that the job does not have, and that all settings did not make one."""
    columns = content.get("columns")
    for parts, dotted in settings.items():
        column = columns.get(parts[1]) if isinstance(columns, dict) and len(parts) == 3 else None
        if parts[0] != "columns" or not isinstance(column, dict) or parts[1] in before:
            continue
        if "kind" not in column and column.get("role") not in NOT_RELEASED:
            named = ", ".join(map(repr, before))
            raise JobError(f"cannot set {dotted}: the job has no column {parts[1]!r}; it has {named}")


def _refuse_cut_name(content: dict[str, Any], dotted: str, parts: list[str]) -> None:
    """Stop where the parts that follow are the name of one key, which holds dots."""
    joined = (".".join(parts[:count]) for count in range(2, len(parts) + 1))
    meant = next((name for name in joined if name in content), None) if parts[0] not in content else None
    if meant is not None:
        raise JobError(f'cannot set {dotted}: the name {meant!r} holds a dot; put it in quotes: "{meant}"')
