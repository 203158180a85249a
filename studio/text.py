"""Changes of a job's text that leave its comments and its order as they are."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import yaml

from anonpipe.columns import Column
from anonpipe.errors import JobError
from anonpipe.job.model import Job, read_content
from anonpipe.job.plain_yaml import load_yaml
from anonpipe.propose.names import quoted

Path = tuple[str, ...]
Changes = Mapping[Path, Mapping[str, Any]]  # Of each mapping, by its path, the new values; None removes a key

_ELSE = "the job is written in a way that cannot be changed here without loss; change it as text"
_SECTION = re.compile(rf"^(?:# ?)?({'|'.join(Job.model_fields)}):(?=\s|$)", re.MULTILINE)
_ANSWER = re.compile(r"(?i)((?:^|,)\s*)(yes|no|on|off)(?=\s*(?:,|$))")  # Categories, which YAML takes for truths
_NOTE = re.compile(r"(?:^|(?<=\s))# ?(.*)$")
_PLACEHOLDER = re.compile(rf"({'|'.join(Column.model_fields)}):")


def flow(value: Any) -> str:
    """A value on one line of YAML."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(flow, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{flow(key)}: {flow(each)}' for key, each in value.items())}}}"
    if isinstance(value, str) and not value.isprintable():
        return quoted(value)
    text = yaml.safe_dump([value], default_flow_style=True, width=10**9, allow_unicode=True)
    return text.strip()[1:-1]


def read_value(text: str, a_list: bool) -> Any:
    """What a field says: nothing (None), a value, or a list without its brackets; what is no YAML is a text."""
    inner = text.strip()
    if not inner:
        return None
    if not a_list:
        found = _value(f"[{inner}]", [inner])
        return found[0] if len(found) == 1 else inner
    inner = _ANSWER.sub(r'\1"\2"', inner.removeprefix("[").removesuffix("]"))
    return _value(f"[{inner}]", [part.strip() for part in inner.split(",")])


def _value(text: str, otherwise: list[Any]) -> Any:
    try:
        return load_yaml(text)
    except yaml.YAMLError:
        return otherwise


def changed(text: str, changes: Changes) -> str:
    """The text with other values; an error where any other value would change with them."""
    expected = copy.deepcopy(load_yaml(text))
    for path, values in changes.items():
        place = expected
        for key in path:
            place = place[key]
        for key, value in values.items():
            place.pop(key, None) if value is None else place.update({key: value})
    edits = [edit for path, values in changes.items() for edit in _edits(text, _find(text, path), values)]
    for start, end, new in sorted(edits, key=lambda edit: edit[:2], reverse=True):
        text = text[:start] + new + text[end:]
    try:
        same = load_yaml(text) == expected
    except yaml.YAMLError:
        same = False
    if not same:
        raise JobError(_ELSE)
    return text


@lru_cache(maxsize=4)
def _compose(text: str) -> Any:
    """The nodes of a text, which a page asks for once for each of its columns."""
    return yaml.compose(text)


def _find(text: str, path: Path) -> yaml.MappingNode:
    node = _compose(text)
    for key in path:
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        node = next((value for name, value in pairs if name.value == key), None)
    if not isinstance(node, yaml.MappingNode) or not node.value:
        raise JobError(_ELSE)
    return node


def _end(node: yaml.Node) -> int:
    """Where a value ends; PyYAML has the comments that follow in what is written on lines of its own."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    return int(node.end_mark.index)


def _edits(text: str, node: yaml.MappingNode, values: Mapping[str, Any]) -> Iterator[tuple[int, int, str]]:
    """Begin, end and new text of each part that changes."""
    if node.flow_style:
        written = load_yaml(text[node.start_mark.index : node.end_mark.index])
        kept = {key: value for key, value in (written | dict(values)).items() if value is not None}
        yield node.start_mark.index, node.end_mark.index, flow(kept)
        return
    at = {key.value: (key, value) for key, value in node.value}
    line_end = _line_end(text, max(_end(node), node.value[-1][0].end_mark.index))
    indent = " " * node.value[0][0].start_mark.column
    for key, value in values.items():
        if key in at:
            name, old = at[key]
            end = max(_end(old), text.index(":", name.end_mark.index) + 1)
            if value is None:
                yield name.start_mark.index - name.start_mark.column, _line_end(text, end) + 1, ""
            else:
                yield name.end_mark.index, end, f": {flow(value)}"
        elif value is not None:
            # a line that `init` proposes as a comment, such as `# bounds: [low, high]  # from the code book`
            proposed = re.compile(rf"{indent}# {key}: [^\n]*?(  # [^\n]*)?(?=\n|$)")
            found, place = None, line_end + 1
            while found is None and (comment := re.compile(rf"{indent}#[^\n]*\n?").match(text, place)):
                found, place = proposed.match(text, place), comment.end()
            if found:
                yield found.start(), found.end(), f"{indent}{key}: {flow(value)}{found[1] or ''}"
            else:
                yield line_end, line_end, f"\n{indent}{key}: {flow(value)}"


def _line_end(text: str, place: int) -> int:
    found = text.find("\n", place)
    return len(text) if found < 0 else found


def notes(text: str, path: Path) -> list[str]:
    """What comments say of each part of a mapping, without lines that only show how an option is written."""
    pairs = [(key, value) for key, value in _find(text, path).value if isinstance(value, yaml.MappingNode)]
    starts = [key.start_mark.index for key, _ in pairs]
    ends = [*starts[1:], _after(text, _line_end(text, _end(pairs[-1][1])))] if pairs else []
    return [_of_lines(text[start:end]) for start, end in zip(starts, ends, strict=True)]


def _after(text: str, place: int) -> int:
    """The end of the indented lines that follow."""
    found = re.compile(r"(\n[ \t]+[^\n]*)*").match(text, place)
    return found.end() if found else place


def _of_lines(text: str) -> str:
    found = [match[1] for line in text.splitlines() if (match := _NOTE.search(line))]
    return " ".join(each for each in found if not _PLACEHOLDER.match(each))


@dataclass(frozen=True)
class Section:
    """A key of the job with its lines, the comments above it among them."""

    key: str
    start: int
    end: int
    text: str

    @property
    def given(self) -> bool:
        """Whether it is more than a comment."""
        return re.search(rf"^{self.key}:", self.text, re.MULTILINE) is not None


def sections(text: str) -> dict[str, Section]:
    """The sections of a job by their keys; those that are comments only where there is no other."""
    starts: list[tuple[int, str]] = []
    for found in _SECTION.finditer(text):
        start = found.start()
        while start and text[(before := text.rfind("\n", 0, start - 1) + 1) : start].startswith("#"):
            if starts and before <= starts[-1][0]:
                break
            start = before
        starts.append((start, found[1]))
    parts: dict[str, Section] = {}
    for (start, key), (end, _) in pairwise([*starts, (len(text), "")]):
        part = Section(key, start, end, text[start:end])
        if key not in parts or part.given:
            parts[key] = part
    return parts


def question(text: str, key: str) -> str:
    """The comment right above a key of a section."""
    found = re.search(rf"((?:^[ \t]+#[^\n]*\n)+)[ \t]+{key}:", text, re.MULTILINE)
    return "" if found is None else " ".join(line.strip(" \t#") for line in found[1].splitlines())


def with_section(text: str, key: str, new: str) -> str:
    """The text with other lines for a section, or with a new one at the end."""
    new, part = new.strip("\n"), sections(text).get(key)
    if part is None:
        return f"{text.rstrip()}\n\n{new}\n"
    rest = part.text[len(part.text.rstrip("\n")) :]
    return text[: part.start] + (new + rest if new else "") + text[part.end :]


def content_of(text: str, path: str) -> dict[str, Any]:
    """What a text says; an error, with the words of the command line, where it is no job file."""
    content = read_content(text, path)
    if not isinstance(content, dict):
        raise JobError("the job is not a mapping of keys to values; start from: anonpipe init data.parquet > job.yaml")
    return content
