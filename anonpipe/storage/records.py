"""Records to bytes and back, without pickle; a file can only build objects of allowed classes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import BaseModel

_LENGTH = np.dtype("<u8")
_ALIGNED = 64  # Bytes; arrays begin at multiples of it, for compiled loops

Arrays = list[npt.NDArray[Any]]

_PLAIN = {type(None), bool, int, float, str}


def to_bytes(value: Any) -> bytes:
    """A value as the length of a JSON text, that text, which keeps every bit of a float, and the arrays."""
    # A run reads thousands of small records: a container of members would cost more than what most records hold.
    arrays: Arrays = []
    content = _packed(value, arrays)
    if odd := [array.dtype for array in arrays if array.dtype.hasobject or array.dtype.fields]:
        raise TypeError(f"an array of {odd[0]} cannot be saved; give one of plain values")
    forms = [[array.dtype.str, array.shape, _order(array)] for array in arrays]
    structure = json.dumps({"value": content, "arrays": forms}).encode()
    head = len(structure).to_bytes(_LENGTH.itemsize, "little") + structure
    parts = (head, *(array.tobytes(_order(array)) for array in arrays))
    return b"".join(part.ljust(_room(len(part)), b"\0") for part in parts)


def _order(array: npt.NDArray[Any]) -> Literal["F", "C"]:
    """The memory order of an array."""
    return "F" if array.flags.fnc else "C"


def _room(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED


def _taken_apart(content: npt.NDArray[np.uint8], forms: Iterable[tuple[str, list[int], Any]]) -> Arrays:
    """The arrays, copied so that keeping one does not keep all."""
    arrays: Arrays = []
    at = 0
    for kind, shape, order in forms:
        dtype = np.dtype(kind)
        size = math.prod(shape) * dtype.itemsize
        flat = content[at : at + size].view(dtype) if size else np.empty(0, dtype)
        arrays.append(flat.reshape(shape, order=order).copy(order))
        at += _room(size)
    return arrays


def from_bytes(content: bytes | memoryview, kinds: Iterable[type] | None = None) -> Any:
    """Read what `to_bytes` gave."""
    named = None if kinds is None else {kind.__name__: kind for kind in kinds}
    packed = np.frombuffer(content, dtype=np.uint8)
    end = _LENGTH.itemsize + int(packed[: _LENGTH.itemsize].view(_LENGTH)[0])
    structure = json.loads(packed[_LENGTH.itemsize : end].tobytes())
    return _unpacked(structure["value"], _taken_apart(packed[_room(end) :], structure["arrays"]), named)


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
        names = value._fields if hasattr(value, "_fields") else [field.name for field in fields(value)]
        content = {name: _packed(getattr(value, name), arrays) for name in names}
        return {"record": type(value).__name__, "fields": content}
    if isinstance(value, tuple | list):
        parts = value if _PLAIN.issuperset(map(type, value)) else [_packed(part, arrays) for part in value]
        return {"tuple" if isinstance(value, tuple) else "list": parts}
    raise TypeError(f"a {type(value).__name__} cannot be saved; give dataclasses, arrays, lists and plain values")


def _kept(array: npt.NDArray[Any], arrays: Arrays) -> int:
    """Append an array; returns its number in the file."""
    arrays.append(array)
    return len(arrays) - 1


def _stream(batch: pa.RecordBatch) -> npt.NDArray[np.uint8]:
    """An Arrow batch as bytes."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batch.schema) as writer:
        writer.write_batch(batch)
    return np.frombuffer(out.getvalue(), dtype=np.uint8)


def _unpacked(structure: Any, arrays: Arrays, kinds: Mapping[str, type] | None) -> Any:
    if not isinstance(structure, dict):
        return structure
    (what, content), *_ = structure.items()
    if what == "record":
        return _record(structure, arrays, kinds)
    if what == "dict":
        return {_unpacked(key, arrays, kinds): _unpacked(part, arrays, kinds) for key, part in content}
    if what in ("tuple", "list"):
        parts = [_unpacked(part, arrays, kinds) if isinstance(part, dict) else part for part in content]
        return tuple(parts) if what == "tuple" else parts
    array = arrays[content]
    if what in ("column", "batch"):
        batch = pa.ipc.open_stream(pa.py_buffer(array)).read_next_batch()
        return batch.column(0) if what == "column" else batch
    return pa.ipc.read_schema(pa.py_buffer(array)) if what == "schema" else array


def _record(structure: dict[str, Any], arrays: Arrays, kinds: Mapping[str, type] | None) -> Any:
    name, content, built = structure["record"], structure["fields"], structure.get("built")
    if built is None:
        content = {field: _unpacked(part, arrays, kinds) for field, part in content.items()}
    if kinds is None:
        return content
    if name not in kinds:
        raise TypeError(f"the file holds a {name}, which is not among the kinds that are allowed")
    if built == "model":
        return kinds[name].model_validate(content)  # type: ignore[attr-defined]
    return kinds[name](content) if built == "enum" else kinds[name](**content)
