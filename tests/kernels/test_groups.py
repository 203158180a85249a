import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.kernels.points import sort_groups


@settings(deadline=None)
@given(st.lists(st.integers(0, 9), max_size=60))
def test_like_a_stable_sort(labels):
    labels = np.array(labels, dtype=np.int64)
    order, starts = sort_groups(labels)
    assert order.dtype == starts.dtype == np.int64
    assert (order == np.argsort(labels, kind="stable")).all()
    assert (np.diff(starts) == np.bincount(labels)).all()
    assert starts[0] == 0
    assert starts[-1] == len(labels)
