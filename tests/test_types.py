"""Whatever the type of a column, it is released as it came, or refused with its name and a remedy."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tests import small
from tests.test_bad_input import LOOSE

ROWS = 60
NUMBERS = [at * 7 % 12 for at in range(ROWS)]  # each of five records: no gate on rare values speaks


def few(*values):
    """Three values in turn, each often enough for k."""
    return [values[at * 7 % len(values)] for at in range(ROWS)]


def stored(kind, values):
    """Whole numbers as another type stores them."""
    return pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)


def days(unit):
    """Days, counted in a unit of time."""
    return [n * 86_400 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit] for n in NUMBERS]


def number_types():
    whole = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
    for kind in [*whole, pa.float32(), pa.float64()]:
        yield str(kind), pa.array(NUMBERS, kind)
    yield "float16", pa.array(np.array(NUMBERS, dtype=np.float16))
    yield "uint64 beyond int64", pa.array([2**63 + 2**57 * n for n in NUMBERS], pa.uint64())
    yield "int64 at its end", pa.array([-(2**63) + 2**57 * n for n in NUMBERS], pa.int64())
    for kind in (pa.decimal32(7, 2), pa.decimal64(12, 2), pa.decimal128(20, 2), pa.decimal256(50, 2)):
        yield str(kind), pa.array([Decimal(n) for n in NUMBERS], kind)


def time_types():
    for unit in ("s", "ms", "us", "ns"):
        yield f"timestamp {unit}", stored(pa.timestamp(unit), days(unit))
        yield f"duration {unit}", stored(pa.duration(unit), NUMBERS)
    yield "date32", stored(pa.date32(), NUMBERS)
    yield "date64", stored(pa.date64(), [86_400_000 * n for n in NUMBERS])
    yield "date32 at its end", stored(pa.date32(), [2**31 - 100 + n for n in NUMBERS])
    yield "timestamp with a zone", stored(pa.timestamp("s", tz="Europe/London"), days("s"))
    yield "timestamp with an offset", stored(pa.timestamp("ns", tz="+02:00"), days("ns"))
    yield "timestamp with an unknown zone", stored(pa.timestamp("ms", tz="Nowhere/Land"), days("ms"))
    yield "timestamp beyond nanoseconds", stored(pa.timestamp("us"), [2**62 + 10**12 * n for n in NUMBERS])
    yield "time32", stored(pa.time32("ms"), NUMBERS)
    yield "time64", stored(pa.time64("us"), NUMBERS)


def text_types():
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        yield str(kind), pa.array(few("a", "b", None), kind)
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(1)):
        yield str(kind), pa.array(few(b"a", b"b", None), kind)
    yield "bool", pa.array(few(True, False, None))
    yield "null", pa.nulls(ROWS)


def nested_types():
    yield "struct", pa.array([{"a": n} for n in NUMBERS])
    for kind in (pa.list_(pa.int64()), pa.large_list(pa.int64()), pa.list_(pa.int64(), 1), pa.list_view(pa.int64())):
        yield str(kind).split("<")[0] + str(kind)[-3:], pa.array([[n] for n in NUMBERS], kind)
    yield "map", pa.array([[("a", n)] for n in NUMBERS], pa.map_(pa.string(), pa.int64()))
    yield "uuid", pa.ExtensionArray.from_storage(pa.uuid(), pa.array(few(b"a" * 16, b"b" * 16), pa.binary(16)))
    yield "json", pa.ExtensionArray.from_storage(pa.json_(), pa.array(few("1", "2")))
    yield "bool8", pa.ExtensionArray.from_storage(pa.bool8(), pa.array(few(0, 1), pa.int8()))


def dictionary_types():
    dates = few(date(2020, 1, 1), date(2020, 1, 2), date(2020, 1, 3))
    values = {
        "string": pa.array(few("a", "b", None)),
        "large_string": pa.array(few("a", "b", "c"), pa.large_string()),
        "int": pa.array(few(1, 2, 3)),
        "uint64": pa.array(few(2**64 - 1, 1, 2), pa.uint64()),
        "float32": pa.array(few(1.5, 2.5, None), pa.float32()),
        "bool": pa.array(few(True, False)),
        "date": pa.array(dates),
        "timestamp": pa.array(few(datetime(2020, 1, 1), datetime(2020, 1, 2))),
        "decimal": pa.array(few(Decimal(1), Decimal(2))),
        "binary": pa.array(few(b"a", b"b")),
        "time": pa.array(few(time(1), time(2))),
        "duration": pa.array(few(timedelta(1), timedelta(2))),
    }
    for name, array in values.items():
        yield f"dictionary of {name}", array.dictionary_encode()
    codes = [n % 3 for n in range(ROWS)]
    for kind in (pa.int8(), pa.uint64()):
        yield (
            f"dictionary by {kind}",
            pa.DictionaryArray.from_arrays(pa.array(codes, kind), pa.array(["a", "b", "c"]), ordered=kind == pa.int8()),
        )


ARRAYS = {
    "numbers": dict(number_types()),
    "times": dict(time_types()),
    "texts and nested": dict([*text_types(), *nested_types()]),
    "dictionaries": dict(dictionary_types()),
}


@pytest.mark.parametrize("group", ARRAYS)
def test_columns_of_any_type_are_released_in_it_or_refused(tmp_path, call, group):
    """What init proposes is released; what it drops because of its type is refused by plan and run if asked for."""
    rng = np.random.default_rng(5)
    data = small.write_table(tmp_path, pa.table({"pay": pa.array(rng.normal(size=ROWS)), **ARRAYS[group]}))
    kinds = {field.name: field.type for field in pq.read_schema(data)}
    code, text, _ = call("init", data, "--output", tmp_path / "out")
    assert code == 0
    proposed = {name: told for name, told in yaml.safe_load(text).items() if name != "mask"}
    job = proposed | {"measure": small.OFF, "gates": LOOSE, "synthesize": {"method": "centroid"}}
    file = tmp_path / "job.yaml"
    roles = [line for line in text.splitlines() if line.startswith("    role:")]
    refused = {name for name, role in zip(job["columns"], roles, strict=True) if "this type" in role or name == "null"}
    for name, column in job["columns"].items():
        column["role"] = "dropped" if name in refused else "masked"  # others are dropped as copies of each other
        if pa.types.is_dictionary(kinds[name]) and kinds[name].ordered:
            column["levels"] = ["a", "b", "c"]
    file.write_text(yaml.safe_dump(job))
    code, _, said = call("run", file)
    assert code == 0, said
    [version] = (tmp_path / "out" / "versions").iterdir()
    [part] = version.glob("*.parquet")
    released = {field.name: field.type for field in pq.read_schema(part)}
    assert released == {name: kind for name, kind in kinds.items() if name not in refused}
    for name in refused:
        job["columns"][name] = {"kind": "categorical", "role": "masked"}
    file.write_text(yaml.safe_dump(job))
    for command in ("plan", "run") if refused else ():
        code, _, said = call(command, file)
        assert code == 2
        assert all(f"column {name!r} holds" in said for name in refused) and said.count("role: dropped") == len(refused)
