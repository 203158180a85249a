"""Records as bytes and back, without pickle: what a file says is built only of the kinds that are allowed."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import BaseModel

_STRUCTURE = "structure"

Arrays = list[npt.NDArray[Any]]

_PLAIN = {type(None), bool, int, float, str}


def to_bytes(value: Any) -> bytes:
    """A value as an npz file: arrays as they are, all else as JSON, which keeps every bit of a float.

    Parameters
    ----------
    value
        A dataclass, a named tuple, a model of pydantic, an enumeration's
        member, an array of numpy or Arrow, an Arrow batch or schema, a tuple, a
        list, a mapping, a number, a text or None, in any nesting. Equal values give equal bytes.

    Raises
    ------
    TypeError
        Another type.

    Examples
    --------
    >>> from_bytes(to_bytes((1, None, {2: np.array([0.1 + 0.2])})))
    (1, None, {2: array([0.3])})
    """
    arrays: Arrays = []
    structure = json.dumps(_packed(value, arrays)).encode()
    out = io.BytesIO()
    named = {str(at): array for at, array in enumerate(arrays)}
    np.savez(out, **{_STRUCTURE: np.frombuffer(structure, dtype=np.uint8)}, **named)  # type: ignore[arg-type]
    return out.getvalue()


def from_bytes(content: bytes | memoryview, kinds: Iterable[type] | None = None) -> Any:
    """Read what `to_bytes` gave.

    Parameters
    ----------
    content
        The file.
    kinds
        The dataclasses, named tuples, models and enumerations that it may
        hold; None for readers that ask for none of them, who get what these
        hold as dictionaries.

    Raises
    ------
    TypeError
        It holds another one.
    """
    named = None if kinds is None else {kind.__name__: kind for kind in kinds}
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        return _unpacked(json.loads(file[_STRUCTURE].tobytes()), file, named)


def _packed(value: Any, arrays: Arrays) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Enum):
        return {"record": type(value).__name__, "fields": value.value, "built": "enum"}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray):
        return {"array": _kept(value, arrays)}
    if isinstance(value, pa.Array):
        return {"column": _kept(_stream(pa.record_batch([value], names=[""])), arrays)}
    if isinstance(value, pa.RecordBatch):
        return {"batch": _kept(_stream(value), arrays)}
    if isinstance(value, pa.Schema):
        return {"schema": _kept(np.frombuffer(value.serialize(), dtype=np.uint8), arrays)}
    if isinstance(value, Mapping):
        return {"dict": [[_packed(key, arrays), _packed(part, arrays)] for key, part in value.items()]}
    if isinstance(value, BaseModel):
        return {"record": type(value).__name__, "fields": value.model_dump(mode="json"), "built": "model"}
    if is_dataclass(value) or hasattr(value, "_fields"):
        content = {name: _packed(getattr(value, name), arrays) for name in _names(value)}
        return {"record": type(value).__name__, "fields": content}
    if isinstance(value, tuple | list):
        parts = value if _PLAIN.issuperset(map(type, value)) else [_packed(part, arrays) for part in value]
        return {"tuple" if isinstance(value, tuple) else "list": parts}
    raise TypeError(f"a {type(value).__name__} cannot be saved; give dataclasses, arrays, lists and plain values")


def _names(record: Any) -> Iterable[str]:
    """The fields of a dataclass or a named tuple."""
    return tuple(each.name for each in fields(record)) if is_dataclass(record) else record._fields


def _kept(array: npt.NDArray[Any], arrays: Arrays) -> int:
    """The number under which an array stands in the file."""
    arrays.append(array)
    return len(arrays) - 1


def _stream(batch: pa.RecordBatch) -> npt.NDArray[np.uint8]:
    """An Arrow batch as bytes."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batch.schema) as writer:
        writer.write_batch(batch)
    return np.frombuffer(out.getvalue(), dtype=np.uint8)


def _unpacked(structure: Any, file: Mapping[str, npt.NDArray[Any]], kinds: Mapping[str, type] | None) -> Any:
    if not isinstance(structure, dict):
        return structure
    (what, content), *_ = structure.items()
    if what == "record":
        return _record(structure, file, kinds)
    if what == "dict":
        return {_unpacked(key, file, kinds): _unpacked(part, file, kinds) for key, part in content}
    if what in ("tuple", "list"):
        parts = [_unpacked(part, file, kinds) if isinstance(part, dict) else part for part in content]
        return tuple(parts) if what == "tuple" else parts
    array = file[str(content)]
    if what in ("column", "batch"):
        batch = pa.ipc.open_stream(pa.py_buffer(array)).read_next_batch()
        return batch.column(0) if what == "column" else batch
    return pa.ipc.read_schema(pa.py_buffer(array)) if what == "schema" else array


def _record(structure: dict[str, Any], file: Mapping[str, npt.NDArray[Any]], kinds: Mapping[str, type] | None) -> Any:
    name, content, built = structure["record"], structure["fields"], structure.get("built")
    if built is None:
        content = {each: _unpacked(part, file, kinds) for each, part in content.items()}
    if kinds is None:
        return content
    if name not in kinds:
        raise TypeError(f"the file holds a {name}, which is not among the kinds that are allowed")
    if built == "model":
        return kinds[name].model_validate(content)  # type: ignore[attr-defined]
    return kinds[name](content) if built == "enum" else kinds[name](**content)
