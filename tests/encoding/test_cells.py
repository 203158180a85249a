import datetime as dt
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.columns import Column
from anonpipe.encoding.cells import ColumnEncoder
from anonpipe.encoding.scan import scan_batch
from anonpipe.encoding.values import cut_to_days, from_numbers, numbers
from anonpipe.errors import InputError
from anonpipe.storage.records import from_bytes, to_bytes
from tests.encoding.tables import CODED, NUMERIC, array


def fitted(batch, columns):
    return ColumnEncoder.fit(batch.schema, columns, scan_batch(batch, columns, 0, []))


def assert_round_trip(batch, columns):
    encoder = fitted(batch, columns)
    cells = encoder.to_cells(batch)
    assert cells.shape == (batch.num_rows, len(encoder.names))
    before = cells.copy()
    back = encoder.from_cells(cells)
    back.validate(full=True)
    assert np.array_equal(cells, before, equal_nan=True)
    assert back.schema.equals(batch.schema, check_metadata=True)
    assert back.to_pylist() == batch.to_pylist()


@pytest.mark.parametrize("name", NUMERIC)
@settings(deadline=None, max_examples=20)
@given(data=st.data())
def test_numbers_come_back_exactly(name, data):
    values, kind, column = NUMERIC[name]
    nullable = data.draw(st.booleans())
    rows = data.draw(st.lists(st.none() | values if nullable else values, min_size=1, max_size=20))
    schema = pa.schema([pa.field("x", kind, nullable)])
    assert_round_trip(pa.RecordBatch.from_arrays([array(rows, kind)], schema=schema), {"x": column})


@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", "America/New_York", "Pacific/Auckland", "+05:30", "America/Sao_Paulo"]
)
def test_days_are_those_of_the_zone(zone):
    """Evenings in Berlin came out a day late, and midnights in New York on the day before."""
    clock = dt.timezone(dt.timedelta(hours=5.5)) if zone.startswith("+") else ZoneInfo(zone)
    hours = np.random.default_rng(0).integers(
        0, 15_000 * 24, 400
    )  # before 2037, after which Arrow knows no summer time
    times = [dt.datetime(1995, 1, 1, tzinfo=clock) + dt.timedelta(hours=int(hour)) for hour in hours]
    stored = pa.array(times, pa.timestamp("ms", zone))
    days = numbers(cut_to_days(stored, None))
    assert days.tolist() == [(time.date() - dt.date(1970, 1, 1)).days for time in times]
    released = from_numbers(days, pa.field("x", stored.type, nullable=False), None)
    assert [time.date() for time in released.to_pylist()] == [time.date() for time in times]
    assert numbers(cut_to_days(released, None)).tolist() == days.tolist()


def test_times_of_an_unknown_zone_are_those_of_utc():
    stored = pa.array([0, 86_399, None], pa.timestamp("s", "Nowhere/Land"))
    assert numbers(cut_to_days(stored, None)).tolist()[:2] == [0.0, 0.0]
    assert from_numbers(np.array([1.0]), pa.field("x", stored.type), None).cast(pa.int64()).to_pylist() == [86_400]


@pytest.mark.parametrize("name", CODED)
@pytest.mark.parametrize("role", ["masked", "key"])
@settings(deadline=None, max_examples=12)
@given(data=st.data())
def test_categories_come_back_exactly(name, role, data):
    values, kind = CODED[name]
    rows = data.draw(st.lists(st.none() | values, min_size=1, max_size=20))
    batch = pa.record_batch([array(rows, kind)], names=["x"])
    assert_round_trip(batch, {"x": Column(kind="categorical", role=role)})


@pytest.mark.parametrize("name", NUMERIC)
@settings(deadline=None, max_examples=10)
@given(data=st.data())
def test_unchanged_numbers_come_back_exactly_off_their_steps_too(name, data):
    values, kind, column = NUMERIC[name]
    rows = data.draw(st.lists(st.none() | values, min_size=1, max_size=20))
    kept = Column(kind=column.kind, role="key", step=1000 if column.kind != "date" else None)
    assert_round_trip(pa.record_batch([array(rows, kind)], names=["x"]), {"x": kept})


@pytest.mark.parametrize("name", NUMERIC)
@settings(deadline=None, max_examples=20)
@given(cells=st.lists(st.floats(-1e30, 1e30), min_size=1, max_size=8))
def test_any_number_is_released_in_type_bounds_and_steps(name, cells):
    _, kind, column = NUMERIC[name]
    encoder = fitted(pa.record_batch([pa.nulls(1, kind)], names=["x"]), {"x": column})
    batch = encoder.from_cells(np.array(cells)[:, None])
    batch.validate(full=True)
    again = encoder.to_cells(batch)
    low, high = column.numeric_bounds
    assert batch.column(0).null_count == 0
    assert low is None or again.min() >= low
    assert high is None or again.max() <= high
    assert np.allclose(encoder.to_cells(encoder.from_cells(again)), again, rtol=1e-12, atol=0)


def test_steps_are_the_nearest_floats_and_lie_inside_bounds():
    columns = {"x": Column(kind="continuous", step=0.1, bounds=(0.05, 0.55))}
    encoder = fitted(pa.record_batch({"x": [0.1]}), columns)
    released = encoder.from_cells(np.array([[-9.0], [0.29], [0.31], [0.5], [9.0]]))
    assert released.column(0).to_pylist() == [0.1, 0.3, 0.3, 0.5, 0.5]


def test_metadata_is_stripped_and_the_order_is_the_inputs():
    fields = [
        pa.field("b", pa.int64(), metadata={"from": "/home/x"}),
        pa.field("id", pa.int64()),
        pa.field("a", pa.int8()),
    ]
    schema = pa.schema(fields, metadata={"pandas": "/home/x"})
    batch = pa.RecordBatch.from_arrays([pa.array([1, 2]), pa.array([7, 8]), pa.array([1, 1], pa.int8())], schema=schema)
    columns = {
        "a": Column(kind="integer"),
        "b": Column(kind="integer"),
        "id": Column(kind="integer", role="identifier"),
    }
    encoder = fitted(batch, columns)
    assert encoder.names == ("b", "a")
    assert encoder.schema.metadata is None and all(field.metadata is None for field in encoder.schema)


def test_labels_that_are_not_released_are_not_in_the_dictionary():
    index, labels = pa.array([0, 2, 0], pa.int8()), pa.array(["a", "never used", "c"])
    batch = pa.record_batch([pa.DictionaryArray.from_arrays(index, labels)], names=["x"])
    encoder = fitted(batch, {"x": Column(kind="categorical")})
    assert encoder.from_cells(encoder.to_cells(batch)).column(0).dictionary.to_pylist() == ["a", "c"]
    assert encoder.from_cells(encoder.to_cells(batch)[:1]).column(0).dictionary.to_pylist() == ["a"]


def test_declared_levels_are_all_in_dictionary_whatever_rows():
    index, labels = pa.array([0, 2, None], pa.int8()), pa.array(["a", "never used", "c"])
    batch = pa.record_batch([pa.DictionaryArray.from_arrays(index, labels)], names=["x"])
    encoder = fitted(batch, {"x": Column(kind="categorical", levels=("c", "b", "a"))})
    back = encoder.from_cells(encoder.to_cells(batch)).column(0)
    assert back.to_pylist() == ["a", "c", None] and back.type == batch.schema.field("x").type
    assert back.dictionary.to_pylist() == ["c", "b", "a"]
    assert encoder.from_cells(encoder.to_cells(batch)[:1]).column(0).dictionary.to_pylist() == ["c", "b", "a"]


def test_ordered_dictionaries_keep_all_declared_levels_in_order(tmp_path):
    kind = pa.dictionary(pa.int8(), pa.string(), ordered=True)
    levels = pa.array(["low", "mid", "high"])
    x = pa.DictionaryArray.from_arrays(pa.array([2, 0, 2], pa.int8()), levels, ordered=True)
    batch = pa.record_batch([x], names=["x"])
    encoder = fitted(batch, {"x": Column(kind="ordinal", levels=("low", "mid", "high"))})
    assert encoder.to_cells(batch)[:, 0].tolist() == [2.0, 0.0, 2.0]
    back = encoder.from_cells(encoder.to_cells(batch))
    assert back.column(0).type == kind and back.column(0).dictionary == levels


def test_an_index_too_narrow_for_all_categories_is_widened():
    kind = pa.dictionary(pa.int8(), pa.string())
    names = [f"c{n:03d}" for n in range(200)]
    parts = [pa.record_batch([array(names[at : at + 100], kind)], names=["x"]) for at in (0, 100)]
    columns = {"x": Column(kind="categorical")}
    from anonpipe.encoding.scan import merge_scans

    scan = merge_scans([scan_batch(part, columns, 100 * at, []) for at, part in enumerate(parts)])
    encoder = ColumnEncoder.fit(parts[0].schema, columns, scan)
    cells = np.concatenate([encoder.to_cells(part) for part in parts])
    assert encoder.from_cells(cells).column(0).to_pylist() == names
    assert encoder.schema.field("x").type.index_type == pa.int32()


def test_nan_is_null_where_type_has_nulls_and_stays_where_not():
    values = pa.array([1.0, float("nan"), 3.0])
    columns = {"x": Column(kind="continuous")}
    for nullable in (True, False):
        schema = pa.schema([pa.field("x", pa.float64(), nullable)])
        batch = pa.RecordBatch.from_arrays([values], schema=schema)
        encoder = fitted(batch, columns)
        back = encoder.from_cells(encoder.to_cells(batch)).column(0)
        assert back.null_count == (1 if nullable else 0)
        assert nullable or np.isnan(back[1].as_py())


def test_ordinals_are_numbers_nulls_nan_only_where_replaced():
    batch = pa.record_batch({"x": ["b", None, "a"], "y": ["b", None, "a"]})
    columns = {"x": Column(kind="ordinal", levels=("a", "b")), "y": Column(kind="ordinal", role="key")}
    cells = fitted(batch, columns).to_cells(batch)
    assert np.array_equal(cells, [[1, 1], [np.nan, 2], [0, 0]], equal_nan=True)


def test_written_parquet_reads_back_with_the_same_schema(tmp_path):
    arrays = {name: array([], kind) for name, (_, kind) in CODED.items()}
    schema = pa.schema([pa.field(name, values.type) for name, values in arrays.items()])
    pq.write_table(pa.table(list(arrays.values()), schema=schema), tmp_path / "in.parquet")
    schema = pq.ParquetFile(tmp_path / "in.parquet").schema_arrow
    batch = pa.RecordBatch.from_arrays([pa.nulls(3, field.type) for field in schema], schema=schema)
    encoder = fitted(batch, {name: Column(kind="categorical") for name in schema.names})
    with pq.ParquetWriter(tmp_path / "out.parquet", encoder.schema) as writer:
        writer.write(encoder.from_cells(encoder.to_cells(batch)))
    assert pq.ParquetFile(tmp_path / "out.parquet").schema_arrow.equals(encoder.schema, check_metadata=True)


def test_to_bytes_and_back():
    batch = pa.record_batch({"x": ["b", None, "a"], "n": [1.5, 2.5, None]})
    columns = {"x": Column(kind="categorical"), "n": Column(kind="continuous", bounds=(0, None), weight=2)}
    encoder = fitted(batch, columns)
    loaded = from_bytes(to_bytes(encoder), [ColumnEncoder, Column])
    assert (loaded.names, loaded.columns, loaded.schema, loaded.has_nulls) == (
        encoder.names,
        encoder.columns,
        encoder.schema,
        encoder.has_nulls,
    )
    assert loaded.from_cells(loaded.to_cells(batch)).equals(batch)


def test_event_codes():
    batch = pa.record_batch({"s": ["alive", "dead", None, "lost"]})
    columns = {"s": Column(kind="categorical", role="survival_status", event=("dead", "gone"))}
    assert fitted(batch, columns).event_codes(0).tolist() == [0, 1, 0, 0]
    with pytest.raises(InputError, match="competing lists"):
        fitted(batch, {"s": columns["s"].model_copy(update={"competing": ("moved",)})}).event_codes(0)
    competing = columns["s"].model_copy(update={"competing": ("lost", "moved")})
    assert fitted(batch, {"s": competing}).event_codes(0).tolist() == [0, 1, 2, 0]
    with pytest.raises(InputError, match="event"):
        fitted(batch, {"s": columns["s"].model_copy(update={"event": ("Dead",)})}).event_codes(0)


def test_category_unseen_by_scan_is_refused_without_its_value():
    encoder = fitted(pa.record_batch({"x": ["a", "b"]}), {"x": Column(kind="categorical")})
    with pytest.raises(InputError, match="first pass") as caught:
        encoder.to_cells(pa.record_batch({"x": ["a", "CANARY"]}))
    assert "CANARY" not in str(caught.value)


def test_cells_of_another_width_are_refused():
    encoder = fitted(pa.record_batch({"x": ["a", "b"]}), {"x": Column(kind="categorical")})
    with pytest.raises(ValueError, match="shape"):
        encoder.from_cells(np.zeros((2, 3)))
