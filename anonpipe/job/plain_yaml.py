"""YAML of a bounded size, without surprises: for jobs and analyses, which others may have written."""

from __future__ import annotations

from typing import Any

import yaml

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
