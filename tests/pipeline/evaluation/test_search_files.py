"""What searches found in the partitions is read one file after the other: memory does not grow with the partitions."""

from __future__ import annotations

import weakref
from types import SimpleNamespace

import numpy as np
import pytest

from anonpipe.pipeline.evaluation import search

PARTITIONS = 40


class File(dict):
    """Arrays of one partition."""


@pytest.fixture
def most_alive(monkeypatch):
    """How many files were held at once; each has two queries, met by one record of every partition or of none."""
    made, most = [], [0]

    def files(work, cut):
        for index in range(PARTITIONS):
            file = File(
                {"release.one.counts": np.array([1, 0]), "release.one.rows": np.array([index, 0])}
                | {
                    "scenario_0.squared": np.array([float(PARTITIONS - index), 1.0]),
                    "scenario_0.ties": np.array([1, 1]),
                }
                | {"scenario_0.own": np.array([1.0, 0.0]), "half_0.rows": np.array([[index], [-1]])}
                | {"half_0.squared": np.array([[float(index)], [np.inf]])}
            )
            made.append(weakref.ref(file))
            yield file
            most[0] = max(most[0], sum(each() is not None for each in made))

    monkeypatch.setattr(search, "_files", files)
    return most


def test_files_of_partitions_are_not_held_together(most_alive):
    work = SimpleNamespace()
    work.copies = [work]
    found = search.matches_in(work, None, "release", "one")
    assert found.counts.tolist() == [PARTITIONS, 0]
    fitted = SimpleNamespace(unit="person")
    assert search.found_by_keys(work, fitted, None, 0).tolist() == [1.0, 0.0]
    assert search.found_in(work, None, "half_0").nearest.rows[0, 0] == 0
    assert 1 <= most_alive[0] <= 3
