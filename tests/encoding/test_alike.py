from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from anonpipe.encoding.identifiers import copied_rows, repeated_rows, warn_of_repeats

ROWS = 4_000


def _panel(rng, rows_each=16):
    """Rows of the same units: five columns that stay, three that change, and the month."""
    unit = np.repeat(np.arange(ROWS // rows_each), rows_each)
    stays, changes = rng.integers(0, 200, (len(unit), 5))[unit], rng.integers(0, 100_000, (len(unit), 3))
    return np.column_stack([stays, changes, np.arange(len(unit)) % rows_each])


def _survey(rng, items, answers, attitude):
    """Answers that follow one attitude, more or less."""
    noise = rng.normal(size=(ROWS, items)) * np.sqrt(1 - attitude**2)
    leaning = attitude * rng.normal(size=(ROWS, 1)) + noise
    return np.clip(np.floor((leaning / 4 + 0.5) * answers), 0, answers - 1).astype(np.int64)


def test_several_rows_of_a_unit_are_found():
    rng = np.random.default_rng(2)
    assert repeated_rows(_panel(rng), rng) > 0.9 * ROWS


@pytest.mark.parametrize(("items", "answers"), [(8, 2), (20, 2), (20, 5), (60, 2), (60, 5)])
@pytest.mark.parametrize("attitude", [0.0, 0.8])
def test_surveys_of_few_categories_raise_no_alarm(items, answers, attitude):
    rng = np.random.default_rng(3)
    assert repeated_rows(_survey(rng, items, answers, attitude), rng) < 0.05 * ROWS


def test_numbers_of_persons_raise_no_alarm():
    rng = np.random.default_rng(4)
    age, days = rng.integers(0, 100, ROWS), rng.integers(0, 7_000, ROWS)
    table = np.column_stack([age, age // 10, days, days // 365, days * 2, rng.integers(0, 2, (ROWS, 3))])
    assert repeated_rows(table, rng) < 20


def test_the_warning_counts_and_shows_no_value():
    columns = {f"c{at}": column for at, column in enumerate(_panel(np.random.default_rng(2)).T)}
    [warning] = warn_of_repeats([pa.record_batch(columns)], ROWS, b"k" * 16)
    assert "4,000 sampled rows" in warning and "role unit" in warning
    assert warn_of_repeats([pa.record_batch({"a": [1] * 100, "b": [2] * 100})], 100, b"k" * 16) == []


def test_copies_are_counted_where_chance_has_none():
    rng = np.random.default_rng(4)
    columns = [rng.integers(0, 70, 1_500), rng.permutation(1_500), rng.integers(0, 2, 1_500), rng.integers(0, 8, 1_500)]
    assert copied_rows(columns) == 0
    assert copied_rows([np.append(column, column) for column in columns]) == 1_500  # a table pasted twice
    assert copied_rows([np.append(column, column[:150]) for column in columns]) == 150
    alike = [np.clip(columns[0] // 9 + rng.integers(0, 2, 1_500), 0, 6) for _ in range(5)]
    assert copied_rows(alike) == 0  # many rows are equal as answers go together
