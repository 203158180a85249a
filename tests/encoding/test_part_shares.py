"""Categories and nulls shared out among parts: counted as cells are, none lost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anonpipe.encoding.cells import ColumnEncoder
from anonpipe.encoding.features import FeatureEncoder, NumberBlock
from anonpipe.encoding.scan import scan_batch
from anonpipe.encoding.shares import PartShares
from anonpipe.errors import InputError
from tests.encoding.test_features import COLUMNS, table


def fitted(rows, seed):
    batch = table(rows, seed)
    scan = scan_batch(batch, COLUMNS, 0, [])
    cells = ColumnEncoder.fit(batch.schema, COLUMNS, scan)
    features = FeatureEncoder.fit(cells, scan)
    return PartShares.fit(cells, features, features.width), cells, features, cells.to_cells(batch)


def counted(shares, cells):
    """Records of each code, nulls last, by a loop over the cells."""
    found = []
    for block, size in zip(shares.blocks, shares.categories, strict=True):
        counts = np.zeros(size + 1, dtype=int)
        plain = isinstance(block, NumberBlock) and not block.ordinal
        for value in cells[:, block.position]:
            counts[size if np.isnan(value) else 0 if plain else int(value)] += 1
        found.append(counts)
    return found


@settings(max_examples=30, deadline=None)
@given(st.integers(20, 120), st.integers(0, 10**6), st.integers(1, 19))
def test_parts_get_what_the_table_has(rows, seed, edge):
    shares, _, features, cells = fitted(rows, seed)
    parts = [cells[:edge], cells[edge:]]
    original = [features.encode(part) for part in parts]
    masked = [np.random.default_rng(seed).normal(size=part.shape) for part in original]
    calls = [shares.count(new, params=None, original=old) for new, old in zip(masked, original, strict=True)]
    for call, part in zip(calls, parts, strict=True):
        for codes, wanted in zip(call.codes, counted(shares, part), strict=True):
            assert codes[0].tolist() == wanted.tolist()
    found = shares.share(calls[0].merge(calls[1]), params=None, rng=None, guaranteed=lambda moments: None)
    given_cells = [shares.put(part, found, at) for at, part in enumerate(parts)]
    totals = [sum(counts) for counts in zip(*(counted(shares, part) for part in given_cells), strict=True)]
    assert [total.tolist() for total in totals] == [total.tolist() for total in counted(shares, cells)]
    untouched = [at for at in range(cells.shape[1]) if at not in [block.position for block in shares.blocks]]
    assert np.array_equal(given_cells[0][:, untouched], parts[0][:, untouched], equal_nan=True)
    lack = np.cov(np.concatenate(original).T) - np.cov(np.concatenate(masked).T)
    assert np.allclose(found.residual, lack, atol=1e-9)


def test_what_is_promised_is_not_made_up_for():
    shares, _, features, cells = fitted(60, 1)
    points = features.encode(cells)
    call = shares.count(points, params=None, original=points)
    assert shares.share(call, params=None, rng=None, guaranteed=lambda moments: moments).residual is None


def test_a_part_of_another_length_is_refused():
    shares, _, features, cells = fitted(60, 1)
    points = features.encode(cells)
    found = shares.share(
        shares.count(points, params=None, original=points), params=None, rng=None, guaranteed=lambda moments: None
    )
    with pytest.raises(InputError, match="changed while it was masked"):
        shares.put(cells[1:], found, 0)
