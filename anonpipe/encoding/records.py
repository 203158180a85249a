"""Records of arrays as bytes and back, without pickle: what a file says is built only of the kinds that are allowed."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

_STRUCTURE = "structure"


def to_bytes(value: Any) -> bytes:
    """A value as an npz file: arrays as they are, all else as JSON.

    Parameters
    ----------
    value
        A dataclass, an array, a tuple, a list, a number, a text or None, in
        any nesting.

    Raises
    ------
    TypeError
        Another type.

    Examples
    --------
    >>> from_bytes(to_bytes((1, None, np.array([0.1 + 0.2]))), {})
    (1, None, array([0.3]))
    """
    arrays: list[npt.NDArray[Any]] = []
    structure = json.dumps(_packed(value, arrays)).encode()
    out = io.BytesIO()
    named = {str(at): array for at, array in enumerate(arrays)}
    np.savez(out, **{_STRUCTURE: np.frombuffer(structure, dtype=np.uint8)}, **named)  # type: ignore[arg-type]
    return out.getvalue()


def from_bytes(content: bytes, kinds: Mapping[str, type]) -> Any:
    """Read what `to_bytes` gave.

    Parameters
    ----------
    content
        The file.
    kinds
        The dataclasses that it may hold, by name.

    Raises
    ------
    TypeError
        It holds another one.
    """
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        return _unpacked(json.loads(file[_STRUCTURE].tobytes()), file, kinds)


def _packed(value: Any, arrays: list[npt.NDArray[Any]]) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, tuple | list):
        return {type(value).__name__: [_packed(part, arrays) for part in value]}
    if is_dataclass(value):
        content = {field.name: _packed(getattr(value, field.name), arrays) for field in fields(value)}
        return {"record": type(value).__name__, "fields": content}
    raise TypeError(f"a {type(value).__name__} cannot be saved; give dataclasses, arrays, lists and plain values")


def _unpacked(structure: Any, file: Mapping[str, npt.NDArray[Any]], kinds: Mapping[str, type]) -> Any:
    if not isinstance(structure, dict):
        return structure
    if "array" in structure:
        return file[str(structure["array"])]
    if "record" in structure:
        if structure["record"] not in kinds:
            raise TypeError(f"the file holds a {structure['record']}, which is not among the kinds that are allowed")
        content = {name: _unpacked(part, file, kinds) for name, part in structure["fields"].items()}
        return kinds[structure["record"]](**content)
    if "tuple" in structure:
        return tuple(_unpacked(part, file, kinds) for part in structure["tuple"])
    return [_unpacked(part, file, kinds) for part in structure["list"]]
