import itertools
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.columns import Column
from anonpipe.encoding.cells import ColumnEncoder
from anonpipe.encoding.columns import MOST_CATEGORIES
from anonpipe.encoding.row_hash import value_words
from anonpipe.encoding.scan import SCAN_RECORDS, check_scan, merge_scans, scan_batch
from anonpipe.errors import InputError
from anonpipe.pipeline.resolve import rows_together
from anonpipe.storage.records import from_bytes, to_bytes
from tests.encoding.tables import CODED, NUMERIC, array
from tests.naive import encoder as naive

COLUMNS = {
    "n": Column(kind="continuous", bounds=(-50, 50)),
    "i": Column(kind="integer"),
    "s": Column(kind="categorical", role="key"),
    "o": Column(kind="ordinal", levels=(3, 1, 2)),
    "b": Column(kind="binary", role="survival_status", event=(True,)),
    "secret": Column(kind="categorical", role="identifier"),
}

SCHEMA = pa.schema(
    {"n": pa.float64(), "i": pa.int64(), "s": pa.string(), "o": pa.int64(), "b": pa.bool_(), "secret": pa.string()}
)


def table(rows, seed=0):
    rng = np.random.default_rng(seed)
    holes = lambda values: [None if hole else value for value, hole in zip(values, rng.random(rows) < 0.1, strict=True)]  # noqa: E731
    return pa.table(
        {
            "n": holes((rng.normal(size=rows) * 40).tolist()),
            "i": holes(rng.integers(-5, 5, rows).tolist()),
            "s": holes(rng.choice(["a", "b", "cé", ""], rows).tolist()),
            "o": holes(rng.choice([1, 2, 3], rows).tolist()),
            "b": holes((rng.random(rows) < 0.3).tolist()),
            "secret": [f"CANARY{n}" for n in range(rows)],
        },
        schema=SCHEMA,
    )


def scanned(parts, columns=COLUMNS, by=("b", "s")):
    found, at = [], 0
    for part in parts:
        found.append(scan_batch(part, columns, at, by))
        at += part.num_rows
    return merge_scans(found)


def cut(whole, borders):
    edges = sorted({0, whole.num_rows, *(border % whole.num_rows for border in borders)})
    return [batch_of(whole.slice(a, b - a)) for a, b in itertools.pairwise(edges)]


def batch_of(whole):
    return whole.combine_chunks().to_batches()[0]


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 60), st.lists(st.integers(0, 1000), max_size=5), st.integers(0, 1000))
def test_any_cut_merges_to_the_whole(rows, borders, seed):
    whole = table(rows, seed)
    one, many = scanned([batch_of(whole)]), scanned(cut(whole, borders))
    assert (one.rows, one.fingerprint, one.counted_by) == (many.rows, many.fingerprint, many.counted_by)
    encoder = ColumnEncoder.fit(whole.schema, COLUMNS, one)
    assert np.array_equal(one.combination_counts(encoder, ["b", "s"]), many.combination_counts(encoder, ["b", "s"]))
    for name in one.columns:
        a, b = one.columns[name], many.columns[name]
        assert (a.rows, a.nulls, a.infinite, a.constant, a.outside) == (
            b.rows,
            b.nulls,
            b.infinite,
            b.constant,
            b.outside,
        )
        assert a.mean == pytest.approx(b.mean, abs=1e-9) and a.m2 == pytest.approx(b.m2, abs=1e-6)
        assert (a.categories is None) == (b.categories is None)
        if a.categories is not None:
            assert a.categories.equals(b.categories) and np.array_equal(a.counts, b.counts)


def test_moments_and_counts_are_those_of_numpy():
    whole = table(500)
    scan = scanned(cut(whole, [100, 333]))
    values = np.array([v for v in whole["n"].to_pylist() if v is not None])
    column = scan.columns["n"]
    assert column.mean == pytest.approx(values.mean()) and column.sd == pytest.approx(values.std(ddof=1))
    assert column.outside == (np.abs(values) > 50).sum() and column.nulls == 500 - len(values)
    texts = whole["s"].to_pylist()
    assert scan.columns["s"].categories.to_pylist() == sorted({t for t in texts if t is not None})
    assert scan.code_counts("s").tolist() == [
        texts.count(t) for t in [*sorted({t for t in texts if t is not None}), None]
    ]
    assert scan.columns["o"].categories.to_pylist() == [3, 1, 2]
    assert "secret" not in scan.columns


def test_strata_counts_are_those_of_a_plain_count():
    whole = table(400)
    scan = scanned(cut(whole, [7, 250]))
    encoder = ColumnEncoder.fit(whole.schema, COLUMNS, scan)
    cells = encoder.to_cells(batch_of(whole))
    sizes = [encoder.code_count(name) for name in ("b", "s")]
    index = np.ravel_multi_index([cells[:, encoder.names.index(n)].astype(int) for n in ("b", "s")], sizes)
    assert np.array_equal(scan.combination_counts(encoder, ["b", "s"]), np.bincount(index, minlength=math.prod(sizes)))
    single = np.bincount(cells[:, encoder.names.index("s")].astype(int), minlength=sizes[1])
    assert np.array_equal(scan.combination_counts(encoder, ["s"]), single)
    assert np.array_equal(
        scan.combination_counts(encoder, ["s", "b"]).reshape(sizes[::-1]).T.ravel(),
        scan.combination_counts(encoder, ["b", "s"]),
    )
    with pytest.raises(ValueError, match="did not count"):
        scan.combination_counts(encoder, ["n"])


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 20), st.integers(0, 100), st.integers(0, 10**6))
def test_fingerprint_equals_its_twin(rows, seed, first_row):
    whole = table(rows, seed)
    names = [name for name, column in COLUMNS.items() if column.role.released]
    content = {name: whole[name].to_pylist() for name in names}
    assert scan_batch(batch_of(whole), COLUMNS, first_row, []).fingerprint == naive.fingerprint(content, first_row)


def test_fingerprint_does_not_depend_on_layout():
    whole = table(300)
    encoded = whole
    for name, kind in (("s", pa.large_string()), ("b", None), ("o", None), ("i", None)):
        values = whole[name].cast(kind) if kind else whole[name]
        if name != "s":
            values = values.dictionary_encode()
        encoded = encoded.set_column(encoded.schema.get_field_index(name), name, values)
    labels = pa.array(["unused", *sorted(set(whole["s"].to_pylist()) - {None}), "twice", "twice"])
    index = pa.array([None if v is None else labels.to_pylist().index(v) for v in whole["s"].to_pylist()], pa.int8())
    odd = whole.set_column(2, "s", pa.DictionaryArray.from_arrays(index, labels))
    digests = {
        scanned(parts).digest
        for parts in (cut(whole, []), cut(whole, [1, 50, 299]), cut(encoded, [10]), cut(odd, [77]))
    }
    assert len(digests) == 1


def test_fingerprint_tells_content_order_and_columns_apart():
    whole = table(50)
    plain = scanned([batch_of(whole)])
    swapped = whole.take([1, 0, *range(2, 50)])
    renamed = whole.rename_columns(["i", "n", "s", "o", "b", "secret"])
    shorter = whole.slice(0, 49)
    assert scanned([batch_of(swapped)]).fingerprint != plain.fingerprint
    others = [
        scanned([batch_of(shorter)]).digest,
        scanned([batch_of(renamed)], {**COLUMNS, "i": COLUMNS["n"], "n": COLUMNS["i"]}).digest,
        scanned([batch_of(pa.concat_tables([shorter, whole.slice(0, 1)]))]).digest,
    ]
    assert len({plain.digest, *others}) == 4


def test_the_digest_is_of_the_records_and_not_of_the_file():
    whole = table(200, seed=3)
    n = pa.array([None if v is None else float(np.float32(v)) for v in whole["n"].to_pylist()])
    whole = whole.set_column(0, "n", n)
    plain = scanned([batch_of(whole)])
    order = np.random.default_rng(0).permutation(200)
    narrow = whole.set_column(1, "i", whole["i"].cast(pa.int16())).set_column(0, "n", n.cast(pa.float32()))
    others = [
        whole.take(order),
        narrow,
        whole.set_column(1, "i", whole["i"].cast(pa.float64())),
        whole.set_column(1, "i", whole["i"].cast(pa.decimal128(22, 2))),
        whole.select(whole.column_names[::-1]),
    ]
    for other in others:
        found = scanned(cut(other, [3, 77]))
        assert found.digest == plain.digest
        assert (found.columns["n"].mean, found.columns["n"].m2) == (plain.columns["n"].mean, plain.columns["n"].m2)
    assert scanned([batch_of(others[0])]).fingerprint != plain.fingerprint


def test_times_are_the_same_in_any_unit():
    days = pa.array([-3, 0, 12_345], pa.int32()).cast(pa.date32())
    kinds = (pa.date64(), pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns"))
    assert all(np.array_equal(value_words(days.cast(kind))[0], value_words(days)[0]) for kind in kinds)


@pytest.mark.parametrize("name", [*NUMERIC, *CODED])
@settings(deadline=None, max_examples=10)
@given(data=st.data())
def test_every_type_is_scanned_hashed_and_kept_in_files(name, data, tmp_path_factory):
    values, kind = (NUMERIC.get(name) or CODED[name])[:2]
    rows = data.draw(st.lists(st.none() | values, min_size=2, max_size=10))
    columns = {"x": NUMERIC[name][2] if name in NUMERIC else Column(kind="categorical")}
    whole = pa.table({"x": array(rows, kind)})
    one = scanned([batch_of(whole)], columns, ())
    parts = [pa.record_batch([array(part, kind)], names=["x"]) for part in (rows[:1], rows[1:])]
    assert scanned(parts, columns, ()).fingerprint == one.fingerprint
    changed = pa.table({"x": array([*rows[1:], None if rows[0] is not None else rows[1]], kind)})
    if changed["x"].to_pylist() != rows:
        assert scanned([batch_of(changed)], columns, ()).fingerprint != one.fingerprint
    again = from_bytes(to_bytes(one), SCAN_RECORDS).columns["x"]
    assert (again.rows, again.nulls, again.sd) == (one.columns["x"].rows, one.columns["x"].nulls, one.columns["x"].sd)
    if again.categories is not None:
        assert again.categories.equals(one.columns["x"].categories)


def test_to_bytes_and_back():
    scan = scanned(cut(table(100), [3]))
    again = from_bytes(to_bytes(scan), SCAN_RECORDS)
    assert (again.rows, again.fingerprint, again.counted_by) == (scan.rows, scan.fingerprint, scan.counted_by)
    assert np.array_equal(again.counted_codes, scan.counted_codes)
    assert np.array_equal(again.counted_rows, scan.counted_rows)
    assert again.digest == scan.digest


def test_a_constant_has_no_spread_however_its_parts_round():
    columns = {"x": Column(kind="continuous")}
    parts = [pa.record_batch({"x": pa.array([0.1] * n + [None])}) for n in (3, 7, 11)]
    scan = scanned(parts, columns, ()).columns["x"]
    assert scan.constant and scan.sd == 0.0
    other = scanned([*parts, pa.record_batch({"x": [0.2]})], columns, ()).columns["x"]
    assert not other.constant and other.sd > 0


def test_too_many_categories_are_refused_in_batch_and_merge():
    columns = {"x": Column(kind="categorical")}
    many = pa.record_batch({"x": [f"CANARY{n}" for n in range(MOST_CATEGORIES + 1)]})
    with pytest.raises(InputError, match="'x' has more than 10,000") as caught:
        scan_batch(many, columns, 0, [])
    assert "CANARY" not in str(caught.value)
    with pytest.raises(InputError, match="'x' has more than 10,000"):
        scanned([many.slice(0, MOST_CATEGORIES), many.slice(MOST_CATEGORIES)], columns, ())


def test_nothing_to_merge_is_refused():
    with pytest.raises(InputError, match="no rows"):
        merge_scans([])


def check(content, columns, k=2):
    batch = pa.record_batch(content)
    return check_scan(scan_batch(batch, columns, 0, []), columns, k)


@pytest.mark.parametrize("held_out", [0, 1, 2])
def test_infinite_values_are_refused_in_any_row(held_out):
    batch, columns = pa.record_batch({"x": [math.inf, 1.0, -math.inf, 2.0]}), {"x": Column(kind="continuous")}
    parts = [batch.slice(at, 2) for at in (0, 2)]
    kept = np.arange(4) != held_out
    scan = merge_scans(scan_batch(part, columns, 2 * at, [], kept[2 * at :][:2]) for at, part in enumerate(parts))
    assert scan.columns["x"].values == 2 - (held_out == 1)
    with pytest.raises(InputError, match="'x' holds 2 rows with a value that is infinite"):
        check_scan(scan, columns, 2)


@pytest.mark.parametrize("held_out", [0, 1, 2, 3])
@pytest.mark.parametrize(
    ("values", "column", "message"),
    [
        (["a", None, "a", None], Column(kind="categorical", missing="error"), "2 rows with a null"),
        ([1.0, None, 2.0, None], Column(kind="continuous", missing="error"), "2 rows with a null"),
        ([1, 2, 2**53 + 1, 2**53 + 3], Column(kind="integer"), "2 rows with a whole number of 2"),
        (["a", "x", "b", "y"], Column(kind="categorical", levels=("a", "b")), "2 rows whose value is not among"),
        ([1.0, 0.0, -1.0, None], Column(kind="continuous", role="sampling_weight"), "1 row with a null and 2 rows"),
    ],
)
def test_what_is_refused_is_refused_in_any_row(values, column, message, held_out):
    batch, kept = pa.record_batch({"x": values}), np.arange(4) != held_out
    parts = [scan_batch(batch.slice(at, 2), {"x": column}, at, [], kept[at:][:2]) for at in (0, 2)]
    with pytest.raises(InputError, match=message):
        check_scan(merge_scans(parts), {"x": column}, 1)


@pytest.mark.parametrize(
    ("values", "column", "message"),
    [
        ([1.0, math.inf, -math.inf], Column(kind="continuous"), "'x' holds 2 rows with a value that is infinite"),
        ([1.0, 1e200], Column(kind="continuous"), "'x' holds 1 row with a value that is infinite or beyond"),
        (pa.nulls(3, pa.float64()), Column(kind="continuous"), "nulls only"),
        (pa.nulls(3, pa.string()), Column(kind="categorical"), "nulls only"),
        ([1.0, None, None], Column(kind="continuous", missing="error"), "2 rows with a null"),
        (["a", "b", "CANARY"], Column(kind="categorical", levels=("a", "b")), "1 row whose value is not among"),
        (["a", "b", "CANARY"], Column(kind="binary"), "declared binary and holds 3"),
        ([str(at // 9) for at in range(4500)], Column(kind="categorical"), r"with most categories: 'x' \(\d+\)"),
    ],
)
def test_input_that_cannot_be_anonymised_is_refused(values, column, message):
    with pytest.raises(InputError, match=message) as caught:
        check({"x": values}, {"x": column})
    assert "CANARY" not in str(caught.value)


def test_all_problems_are_told_at_once_and_few_rows_too():
    with pytest.raises(InputError) as caught:
        check({"x": [math.inf], "y": pa.nulls(1, pa.int64())}, {n: Column(kind="continuous") for n in "xy"})
    assert len(str(caught.value).splitlines()) == 3 and "fewer than k=2" in str(caught.value)


def test_too_many_dummies_are_refused():
    content = {name: [f"{name}{n}" for n in range(150)] for name in "xyz"}
    with pytest.raises(InputError, match="450 feature columns"):
        check(content, {name: Column(kind="categorical") for name in "xyz"})
    kept = {name: Column(kind="categorical", role="key" if name == "z" else "masked") for name in "xyz"}
    check(content, kept)


@pytest.mark.parametrize(
    ("values", "column", "message"),
    [
        ([5, 5, 5], Column(kind="integer"), "one value only"),
        ([1, 99, 120], Column(kind="integer", bounds=(0, 90)), "(2 rows, 66.7%): values outside"),
        (["a", "a", "CANARY"], Column(kind="categorical", role="key"), "1 category with fewer than k=2"),
        (["a", "a", "CANARY"], Column(kind="categorical", role="key"), "gate"),
        (["a", "a", None], Column(kind="categorical", role="key"), "gate"),
        (["lo", "lo", "hi", "hi"], Column(kind="ordinal"), "alphabetical"),
    ],
)
def test_warnings(values, column, message):
    warnings = check({"x": values}, {"x": column})
    assert len(warnings) == 1 and message in warnings[0] and "CANARY" not in warnings[0]


@pytest.mark.parametrize(
    ("values", "event", "censored"),
    [
        (["Alive", "Dead", "Dead"], ["Dead"], True),
        (["Alive", "Dead", "Dead"], ["Dead", "Alive"], False),
        (["Alive", "Dead", None, None], ["Dead", "Alive", "Lost"], False),
        (pa.array([0, 1, 1, 2]), [1], True),
        (pa.array([0, 1, 1, 2]), [2, 1, 0], False),
        (pa.array([True, False, True]), [True, False], False),
        (pa.array(["Alive", "Dead"]).dictionary_encode(), ["Alive", "Dead"], False),
        (["Dead", "Dead", None], ["Dead"], True),  # one value only: there is none that could have been left out
    ],
)
def test_a_status_of_which_every_value_is_the_event_is_told(values, event, censored):
    status = Column(kind="categorical", role="survival_status", event=tuple(event))
    told = check({"x": values}, {"x": status}, k=1)
    assert ["nobody is censored" in line for line in told] == ([] if censored else [True])
    assert all("'x'" in line and not any(value in line for value in ("Alive", "Dead", "Lost")) for line in told)


@given(
    st.lists(st.lists(st.integers(0, 5), max_size=4), min_size=1, max_size=4),
    st.lists(st.sets(st.sampled_from("abcdef"), min_size=1), min_size=4, max_size=4),
)
def test_what_no_part_uses_of_its_dictionary_is_unused(parts, dictionaries):
    """A slow twin: of all entries of all dictionaries those that no record has, however the rows are cut."""
    columns, batches, entries, used = {"x": Column(kind="categorical")}, [], set(), set()
    for codes, dictionary in zip(parts, dictionaries, strict=False):
        labels = sorted(dictionary)
        index = pa.array([code % len(labels) for code in codes], pa.int8())
        entries |= dictionary
        used |= {labels[code % len(labels)] for code in codes}
        batches.append(pa.record_batch([pa.DictionaryArray.from_arrays(index, pa.array(labels))], names=["x"]))
    found = merge_scans([scan_batch(batch, columns, 0, []) for batch in batches]).columns["x"]
    assert set([] if found.unused is None else found.unused.to_pylist()) == entries - used


def test_texts_and_declared_levels_leave_nothing_unused():
    plain = pa.record_batch({"x": ["a", "b", "a"]})
    assert scan_batch(plain.slice(0, 1), {"x": Column(kind="categorical")}, 0, []).columns["x"].unused is None
    levels = {"x": Column(kind="categorical", levels=("a", "b"))}
    coded = pa.record_batch({"x": pa.DictionaryArray.from_arrays([0, 0], ["a", "b"])})
    assert scan_batch(coded, levels, 0, []).columns["x"].unused is None


def test_good_input_gives_no_warning():
    assert check({"x": [1, 2, 3], "y": ["a", "a", "a"]}, {"x": Column(kind="integer")}) == []


def test_levels_of_another_type_are_refused_with_the_remedy():
    with pytest.raises(InputError, match="quotes"):
        check({"x": ["yes", "no"]}, {"x": Column(kind="binary", levels=(True, False))})


def test_the_bytes_of_a_scan_hold_no_pickle():
    content = to_bytes(scanned([batch_of(table(5))]))
    assert b'"rows": 5' in content and not any(bytes([0x80, protocol, 0x95]) in content for protocol in (4, 5))


def test_many_strata_columns_are_counted_without_overflow():
    rng = np.random.default_rng(0)
    names = [f"c{n}" for n in range(8)]
    content = {name: [str(value) for value in rng.integers(0, 900, 1000)] for name in names}
    columns = {name: Column(kind="categorical", role="key") for name in names}
    whole = pa.record_batch(content)
    scan = scanned([whole.slice(0, 500), whole.slice(500), whole], columns, names)
    seen = {tuple(row) for row in zip(*content.values(), strict=True)}
    back = [
        tuple(scan.columns[name].categories[code].as_py() for name, code in zip(names, row, strict=True))
        for row in scan.counted_codes.tolist()
    ]
    assert set(back) == seen and len(back) == len(seen)
    assert scan.counted_rows.sum() == 2000 and scan.counted_rows.min() == 2


def test_rows_side_by_side_have_one_dictionary():
    """An entry is unused where no row of the units uses it, and is said once."""
    dictionary = pa.array(["a", "b", "c"])
    codes = {"x (row 1)": [0, 0], "x (row 2)": [1, None], "y": [2, 2], "z (row 1)": [0, 1], "z (row 2)": [2, 0]}
    values = [pa.DictionaryArray.from_arrays(pa.array(each, pa.int8()), dictionary) for each in codes.values()]
    columns = dict.fromkeys(codes, Column(kind="categorical"))
    found = rows_together(scan_batch(pa.record_batch(values, names=list(codes)), columns, 0, [])).columns
    assert {name: each.unused.to_pylist() for name, each in found.items() if each.unused is not None} == {
        "x (row 1)": ["c"],
        "y": ["a", "b"],
    }
