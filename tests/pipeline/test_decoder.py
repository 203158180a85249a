"""Which records keep counts together in decoding."""

from types import SimpleNamespace

import numpy as np
import pytest

from anonpipe.pipeline.procedure.record import Decoder


@pytest.mark.parametrize(
    ("sizes", "found"), [([401, 401], [401, 401]), ([400, 400], [800]), ([90, 810], [90, 810]), ([350], [350])]
)
def test_groups_of_over_400_rows_on_average_keep_counts(sizes, found):
    """The last channel numbers groups, and a part may lack some numbers."""
    seen, rows = [], sum(sizes)

    def put(cells, channels, groups, *others):
        seen.append(groups.sizes.tolist())
        return cells

    def decode(features, cells, groups, **others):
        seen.append(groups.sizes.tolist())
        return cells

    given = {"conditioning": 0, "how": "calibrated", "groups": "one", "by_group": True}
    decoder = Decoder(features=SimpleNamespace(width=1, decode=decode), shares=SimpleNamespace(put=put), **given)
    channels = np.c_[np.zeros(rows), np.repeat([3.0, 8.0][: len(sizes)], sizes)]
    made = decoder.decode(channels, np.zeros((rows, 1)), None, 0, lambda stage: np.random.default_rng(0))
    assert seen == [found, found] and [groups.sizes.tolist() for groups in made.groupings] == [[rows]]
