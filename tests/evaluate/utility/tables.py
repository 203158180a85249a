"""Pairs of tables to compare."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st


@st.composite
def pairs(draw, least_rows=12, most_rows=30, widths=(1, 2, 3)):
    """(original, released): correlated columns with means well off zero, and a disturbed copy of other length."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    width = draw(st.sampled_from(widths))
    rows, others = (draw(st.integers(least_rows, most_rows)) for _ in range(2))
    mixing = np.eye(width) + 0.6 * rng.random((width, width))
    original = 3 + rng.normal(size=(rows, width)) @ mixing
    released = 3.2 + 1.2 * rng.normal(size=(others, width)) @ mixing
    if draw(st.booleans()):
        original, released = np.round(original, 1), np.round(released, 1)
    return original, released
