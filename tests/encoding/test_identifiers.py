from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from anonpipe.encoding import identifiers
from anonpipe.encoding.identifiers import Repeats, check_repeats, digest_writers, digests, keep_in, repeats_in, runs_in
from anonpipe.errors import InputError

KEY = b"k" * 16


def _counted(folder, units, name="id"):
    counted = []
    for at, chunks in enumerate(units):
        writers = digest_writers(keep_in(folder), [name], KEY, at)
        for chunk in chunks:
            writers[name].add(chunk)
        counted.append([writer.close() for writer in writers.values()])
    return repeats_in(runs_in(folder, [name]), counted)[0]


@pytest.mark.parametrize("text", [True, False])
def test_the_count_is_that_of_a_dictionary_in_any_cut(tmp_path, monkeypatch, text):
    monkeypatch.setattr(identifiers, "RUN_ROWS", 64)
    monkeypatch.setattr(identifiers, "RANGE_ROWS", 50)
    numbers = np.random.default_rng(1).integers(0, 900, 1_000).tolist()
    values = [None if n % 90 == 0 else f"p{n}" if text else n for n in numbers]
    units = [[pa.array(values[at : at + 70]) for at in range(begin, begin + 500, 70)] for begin in (0, 500)]
    values = [value for unit in units for chunk in unit for value in chunk.to_pylist()]
    found, expected = _counted(tmp_path, units), Counter(value for value in values if value is not None)
    assert (found.rows, found.nulls) == (len(values), values.count(None))
    assert (found.distinct, found.most) == (len(expected), max(expected.values()))


def test_one_repeat_among_many_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(identifiers, "RUN_ROWS", 1_000)
    monkeypatch.setattr(identifiers, "RANGE_ROWS", 1_500)
    values = np.arange(20_000)
    values[19_999] = 3
    found = _counted(tmp_path, [[pa.array(values[:7_000]), pa.array(values[7_000:])]])
    assert (found.distinct, found.most) == (19_999, 2)


def test_a_value_of_all_rows_takes_one_entry_a_run(tmp_path, monkeypatch):
    monkeypatch.setattr(identifiers, "RUN_ROWS", 10)
    found = _counted(tmp_path, [[pa.array(["x"] * 50)] * 30])
    assert (found.distinct, found.most) == (1, 1_500)
    assert sum(len(np.load(path)) for path in tmp_path.rglob("*.npy")) <= 30


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, 2, 1, None], pa.uint64()),
        pa.array(["a", "b", "a", None]).dictionary_encode(),
        pa.array([0.0, 1.5, -0.0, float("nan")]),
        pa.array([1, 2, 1, None], pa.date32()),
        pa.array([1, 2, 1, None], pa.timestamp("us", "UTC")),
        pa.array([1, 2, 1, None], pa.time32("s")),
        pa.array([b"x" * 16, b"y" * 16, b"x" * 16, None], pa.binary(16)),
        pa.array([True, False, True, None]),
        pa.array([1, 2, 1, None], pa.decimal128(5, 0)),
        pa.array(["a", "b", "a", None], pa.large_string()),
    ],
)
def test_values_of_every_type_are_told_apart(values):
    found, nulls = digests("id", values, KEY)
    assert sorted(found["rows"].tolist()) == [1, 2] and nulls == 1


def test_nested_values_are_refused():
    with pytest.raises(InputError, match="'id' has role identifier"):
        digests("id", pa.array([[1], [2]]), KEY)


def test_texts_have_digests_of_128_bits_that_the_key_decides():
    one, other = (digests("id", pa.array(["a"]), key)[0][0] for key in (KEY, b"l" * 16))
    assert len({int(one["high"]), int(one["low"]), int(other["high"]), int(other["low"])}) == 4


def test_each_identifier_has_to_hold_alone():
    row, person = Repeats("row", 90, 0, 90, 1), Repeats("person", 90, 2, 40, 3)
    with pytest.raises(InputError, match=r"'person' .*88 rows with a value hold 40 distinct .* has 3 rows") as caught:
        check_repeats([row, person], 5, "one")
    assert "'row'" not in str(caught.value) and "rows_per_unit: many" in str(caught.value)
    nulls, meaning, counts = check_repeats([row, person], 5, "many")
    assert "2 rows without a value" in nulls and "k=5 counts rows" in meaning and "40 distinct" in counts
    assert check_repeats([row], 5, "one") == []
