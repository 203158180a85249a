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


def to_bytes(value: Any) -> bytes:
    """A value as an npz file: arrays as they are, all else as JSON, which keeps every bit of a float.

    Parameters
    ----------
    value
        A dataclass, a named tuple, a model of pydantic, an enumeration's
        member, an array of numpy or Arrow, an Arrow schema, a tuple, a list, a
        mapping, a number, a text or None, in any nesting. Equal values give equal bytes.

    Raises
    ------
    TypeError
        Another type.

    Examples
    --------
    >>> from_bytes(to_bytes((1, None, {2: np.array([0.1 + 0.2])})), {})
    (1, None, {2: array([0.3])})
    """
    arrays: Arrays = []
    structure = json.dumps(_packed(value, arrays)).encode()
    out = io.BytesIO()
    named = {str(at): array for at, array in enumerate(arrays)}
    np.savez(out, **{_STRUCTURE: np.frombuffer(structure, dtype=np.uint8)}, **named)  # type: ignore[arg-type]
    return out.getvalue()


def from_bytes(content: bytes | memoryview, kinds: Mapping[str, type]) -> Any:
    """Read what `to_bytes` gave.

    Parameters
    ----------
    content
        The file.
    kinds
        The dataclasses, named tuples, models and enumerations that it may hold, by name.

    Raises
    ------
    TypeError
        It holds another one.
    """
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        return _unpacked(json.loads(file[_STRUCTURE].tobytes()), file, kinds)


def named(*kinds: type) -> dict[str, type]:
    """Kinds by their names, as `from_bytes` takes them."""
    return {kind.__name__: kind for kind in kinds}


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
        return {type(value).__name__: [_packed(part, arrays) for part in value]}
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


def _unpacked(structure: Any, file: Mapping[str, npt.NDArray[Any]], kinds: Mapping[str, type]) -> Any:
    if not isinstance(structure, dict):
        return structure
    (what, content), *_ = structure.items()
    if what == "record":
        return _record(structure, file, kinds)
    if what == "dict":
        return {_unpacked(key, file, kinds): _unpacked(part, file, kinds) for key, part in content}
    if what in ("tuple", "list"):
        parts = [_unpacked(part, file, kinds) for part in content]
        return tuple(parts) if what == "tuple" else parts
    array = file[str(content)]
    if what == "column":
        return pa.ipc.open_stream(pa.py_buffer(array)).read_next_batch().column(0)
    return pa.ipc.read_schema(pa.py_buffer(array)) if what == "schema" else array


def _record(structure: dict[str, Any], file: Mapping[str, npt.NDArray[Any]], kinds: Mapping[str, type]) -> Any:
    name, content = structure["record"], structure["fields"]
    if name not in kinds:
        raise TypeError(f"the file holds a {name}, which is not among the kinds that are allowed")
    if structure.get("built") == "model":
        return kinds[name].model_validate(content)  # type: ignore[attr-defined]
    if structure.get("built") == "enum":
        return kinds[name](content)
    return kinds[name](**{each: _unpacked(part, file, kinds) for each, part in content.items()})
