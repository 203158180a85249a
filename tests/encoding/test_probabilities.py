"""Categories as columns of probabilities: the calibration law, sums, rounding, names, and the way back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.columns import Column
from anonpipe.encoding.categories import calibrated_probabilities, probabilities, rounded
from anonpipe.encoding.cells import ColumnEncoder
from anonpipe.encoding.features import FeatureEncoder, Groups
from anonpipe.encoding.probabilities import ProbabilityDecoder, column_name
from anonpipe.encoding.scan import scan_batch
from anonpipe.errors import JobError
from anonpipe.kernels.points import sort_groups
from tests.naive import encoder as naive

COLUMNS = {
    "x": Column(kind="continuous"),
    "two": Column(kind="binary"),
    "many": Column(kind="categorical"),
    "one": Column(kind="categorical"),
    "kept": Column(kind="categorical", role="key"),
}


def table(rows=400, seed=0):
    rng = np.random.default_rng(seed)
    many = rng.choice(["a", "b", "<5 mm"], rows, p=[0.6, 0.3, 0.1])
    return pa.record_batch(
        {
            "x": rng.normal(size=rows),
            "two": pa.array(rng.random(rows) < 0.2),
            "many": pa.array(many, mask=np.arange(rows) % 10 == 3),
            "one": pa.array(["same"] * rows),
            "kept": pa.array(many),
        }
    )


def encoders(batch, columns=COLUMNS, step=0.001, taken=()):
    scan = scan_batch(batch, columns, 0, [])
    cells = ColumnEncoder.fit(batch.schema, columns, scan)
    features = FeatureEncoder.fit(cells, scan)
    return cells, features, ProbabilityDecoder.fit(cells, features, step, taken)


def one_group(rows):
    return Groups(np.arange(rows), np.array([0, rows]), False)


@st.composite
def tables_of_chances(draw):
    """Distributions over up to six categories, how many records each stands for, and wanted shares."""
    rows, size = draw(st.integers(1, 12)), draw(st.integers(2, 6))
    seed, spread = draw(st.integers(0, 2**32)), draw(st.floats(0.0, 4.0))
    rng = np.random.default_rng(seed)
    features = spread * rng.normal(size=(rows, size))
    counts = rng.integers(0, 20, size)
    counts[draw(st.integers(0, size - 1))] += 1
    return probabilities(features), counts / counts.sum(), rng.integers(1, 9, rows)


@settings(deadline=None, max_examples=25)
@given(tables_of_chances())
def test_means_are_the_shares_and_the_twin_agrees(case):
    chances, shares, sizes = case
    made = calibrated_probabilities(chances, shares, sizes)
    assert made.min() >= 0 and np.allclose(made.sum(axis=1), 1.0, atol=1e-12)
    assert np.abs(sizes @ made / sizes.sum() - shares).max() < 1e-8
    assert (made[:, shares == 0] == 0).all()
    assert np.allclose(
        made, naive.calibrated_probabilities(chances.tolist(), shares.tolist(), sizes.tolist()), atol=1e-7
    )


def test_a_size_stands_for_as_many_rows():
    rng = np.random.default_rng(1)
    chances, sizes, shares = probabilities(rng.normal(size=(6, 3))), np.arange(1, 7), np.array([0.2, 0.1, 0.7])
    whole = calibrated_probabilities(np.repeat(chances, sizes, axis=0), shares)
    assert np.allclose(np.repeat(calibrated_probabilities(chances, shares, sizes), sizes, axis=0), whole, atol=1e-8)


def test_of_two_categories_all_logits_move_by_one_number():
    rng = np.random.default_rng(2)
    features = rng.normal(size=(500, 1))
    made = calibrated_probabilities(probabilities(features), np.array([0.9, 0.1]))
    moved = np.log(made[:, 1] / made[:, 0]) - features[:, 0]
    assert np.ptp(moved) < 1e-9 and moved[0] < -1


def test_five_per_cent_stay_five_per_cent():
    """Design of the release: the logit of unmasked dummies tells 29 % of a category of 5 %; calibration tells 5 %."""
    dummy = np.where(np.arange(2_000) % 20 == 0, 1.0, -1.0)[:, None]
    plain = probabilities(dummy)
    assert plain[:, 1].mean() == pytest.approx(0.05 * 0.731 + 0.95 * 0.269, abs=1e-3) and plain[:, 1].mean() > 0.29
    made = calibrated_probabilities(plain, np.array([0.95, 0.05]))
    assert made[:, 1].mean() == pytest.approx(0.05, abs=1e-9)
    assert made[0, 1] == made[:, 1].max()  # who has it is still the likeliest


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 7), st.integers(2, 1_000), st.integers(0, 2**32))
def test_rounding_keeps_sums_neighbours_and_certainty(size, units, seed):
    rng = np.random.default_rng(seed)
    chances = np.vstack([rng.dirichlet(np.full(size, 0.4), 30), np.eye(size)])
    made = rounded(chances, units, np.random.default_rng(seed))
    assert (made.sum(axis=1) == units).all() and (np.abs(made - chances * units) < 1 + 1e-6).all()
    assert (made[chances == 0] == 0).all() and (made[30:] == units * np.eye(size)).all()
    shifts = np.random.default_rng(seed).random(len(chances))
    assert made.tolist() == naive.rounded_chances(chances.tolist(), units, shifts.tolist())


def test_rounding_shifts_no_mean():
    """A category of 0.0004 everywhere stays in the table; the largest remainders would lose it."""
    chances = np.tile([0.0004, 0.2997, 0.6999], (50_000, 1))
    means = rounded(chances, 1_000, np.random.default_rng(3)).mean(axis=0) / 1_000
    # six standard errors: at most half a step a record
    assert np.abs(means - chances[0]).max() < 6 * 0.0005 / np.sqrt(50_000)


@pytest.mark.parametrize("identical", [False, True])
def test_decoded_probabilities(identical):
    batch = table()
    cells, features, encoder = encoders(batch)
    values = cells.to_cells(batch)
    order, starts = sort_groups(np.random.default_rng(4).permutation(np.arange(400) // 5))
    made = features.encode(values) + 0.5 * np.random.default_rng(5).normal(size=(400, features.width))
    if identical:
        means = np.add.reduceat(made[order], starts[:-1]) / 5
        made[order] = np.repeat(means, 5, axis=0)
    before = made.copy(), values.copy()
    shares = encoder.decode(made, values, Groups(order, starts, identical), rng=np.random.default_rng(6))
    assert (made == before[0]).all() and np.array_equal(values, before[1], equal_nan=True)
    assert [field.name for field in encoder.fields] == [
        "two_False", "two_True", "many_%3C5%20mm", "many_a", "many_b", "many_null", "one_same",
    ]  # fmt: skip
    wanted = [0.0] * 7
    two, many = np.array(batch["two"].to_pylist()), batch["many"].to_pylist()
    wanted[:2] = (~two).mean(), two.mean()
    wanted[2:6] = (sum(each == category for each in many) / 400 for category in ("<5 mm", "a", "b", None))
    wanted[6] = 1.0
    assert np.allclose(shares.mean(axis=0), wanted, atol=3e-4)
    assert encoder.beyond_limits(shares) == 0 and (shares[:, 6] == 1).all()
    if identical:
        assert (shares[order] == np.repeat(shares[order][::5], 5, axis=0)).all()
    again = encoder.decode(made, values, Groups(order, starts, identical), rng=np.random.default_rng(6))
    assert (again == shares).all()


def test_written_columns_stand_in_place_and_are_read_again():
    batch = table()
    cells, features, encoder = encoders(batch)
    values = cells.to_cells(batch)
    shares = encoder.decode(features.encode(values), values, one_group(400), rng=np.random.default_rng(0))
    released = encoder.put_most_probable(values, shares)
    schema = encoder.schema(cells.schema)
    assert schema.names == ["x", *(field.name for field in encoder.fields), "kept"]
    written = pa.RecordBatch.from_arrays(encoder.in_place(cells.from_cells(released).columns, shares), schema=schema)
    back, told = encoder.read(cells, written)
    assert np.array_equal(back, released, equal_nan=True) and (told == shares).all()
    dense = encoder.by_code(told)[2]
    assert (dense[:, 3] == written["many_null"].to_numpy()).all()
    for bad in (0.5, -0.001, np.nan, 0.0005):
        broken = shares.copy()
        broken[7, 0] += bad
        assert encoder.beyond_limits(broken) >= 1


def test_a_reader_gets_unmasked_dummies_back():
    """Of two categories to rounding; of more, those of a category are apart from the others."""
    batch = table()
    cells, features, encoder = encoders(batch, step=1e-6)
    values = cells.to_cells(batch)
    dummies = features.encode(values)
    shares = encoder.decode(dummies, values, one_group(400), rng=np.random.default_rng(0))
    read = np.zeros_like(dummies)
    encoder.put_dummies(read, shares)
    two, many = features.categories[0], features.categories[1]
    assert np.allclose(read[:, two.start], dummies[:, two.start], atol=1e-4)
    inside = slice(many.start, many.stop)
    assert (read[:, inside].argmax(axis=1) == dummies[:, inside].argmax(axis=1)).all()
    for column in range(many.start, many.stop):
        assert read[dummies[:, column] == 1, column].mean() == pytest.approx(1.0, abs=1e-3)
        assert read[dummies[:, column] == -1, column].mean() == pytest.approx(-1.0, abs=1e-3)


@given(st.text(max_size=6), st.text(max_size=6))
def test_names_are_safe_and_tell_categories_apart(one, other):
    assert (column_name("c", one) == column_name("c", other)) == (one == other)
    assert not set(column_name("c", one)) & set(" .,;{}()\n\t=\0/\"'`")


@pytest.mark.parametrize(
    ("extra", "taken"),
    [
        ({"two_x": pa.array([1.0, 2.0, 3.0])}, ()),
        ({}, ("two_x",)),
        ({"two_x": pa.array(["y", "z", "y"]), "two": pa.array(["x", "x_y", "x"])}, ()),
        ({"two": pa.array(["null", "x", None])}, ()),
    ],
)
def test_columns_of_one_name_are_refused(extra, taken):
    batch = pa.record_batch({"two": pa.array(["x", "y", "x"]), "z": pa.array([1.0, 2.0, 3.0])} | extra)
    kinds = {name: "categorical" if batch[name].type == pa.string() else "continuous" for name in batch.schema.names}
    with pytest.raises(JobError, match=r"called alike.*rename") as caught:
        encoders(batch, {name: Column(kind=kind) for name, kind in kinds.items()}, taken=taken)
    assert "x_y" not in str(caught.value)
