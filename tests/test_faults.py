"""Faults between and inside the stages: the bytes of an undisturbed run, or a refusal; never other bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from anonpipe.errors import InputError
from anonpipe.pipeline import execute
from tests import small
from tests.faults import inputs


@pytest.mark.parametrize("change", inputs.CHANGES.values(), ids=inputs.CHANGES)
def test_an_input_that_is_rewritten_between_the_passes_is_refused(tmp_path, change):
    """As many rows, other content: the routed rows are no longer those that were scanned."""
    table = small.plain_table(300)
    given = small.job(tmp_path, table, partition={"rows": 1_000, "sample_rows": 500})
    changed = []

    def on_progress(news):
        if news.stage == "route" and news.done == 0 and not changed:
            inputs.rewrite(Path(given.input), change, np.random.default_rng(1))
            changed.append(change)

    with pytest.raises(InputError, match=r"the input changed while it was read: .* other rows than in the first pass"):
        execute(given, cluster=False, on_progress=on_progress)
    assert changed and small.left_behind(tmp_path) == []
