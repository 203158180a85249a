from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.kernels.groups import sort_groups
from anonpipe.verify.unchanged import unchanged_records


def naive(original, released, labels, k):
    rows = [tuple("null" if np.isnan(v) else v for v in row) for row in original]
    new = [tuple("null" if np.isnan(v) else v for v in row) for row in released]
    return sum(
        any(labels[j] == labels[i] and rows[j] == new[i] and rows.count(rows[j]) < k for j in range(len(rows)))
        for i in range(len(rows))
    )


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_like_the_naive_twin(data):
    n = data.draw(st.integers(1, 30))
    cell = st.sampled_from([0.0, -0.0, 1.0, 2.0, float("nan")])
    table = st.lists(st.tuples(cell, cell), min_size=n, max_size=n)
    original, released = np.array(data.draw(table)), np.array(data.draw(table))
    labels = np.unique(data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)), return_inverse=True)[1]
    k = data.draw(st.integers(2, 6))
    order, starts = sort_groups(labels.astype(np.int64))
    assert unchanged_records(original, released, order, starts, k) == naive(original, released, labels, k)
