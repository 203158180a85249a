"""Groups that span partitions: what the gate counts again."""

from __future__ import annotations

import numpy as np

from anonpipe.methods.masking import RecordsAndDraws
from anonpipe.verify.catalogue import Outcome
from anonpipe.verify.expectations import KeptGroups


def stratum(rng, spoilt=False):
    """Two groups of ten records in two partitions, kept as they were."""
    parts = []
    for _ in range(2):
        records, labels = rng.normal(size=(10, 2)), np.repeat([0, 1], 5)
        draws = records.copy()
        if spoilt:
            draws[0, 0] = np.nan
        parts.append(RecordsAndDraws.of(records, draws, labels))
    return parts


def test_a_missing_number_fails_in_whichever_stratum():
    rng = np.random.default_rng(0)
    good = KeptGroups.of([stratum(rng), stratum(rng)])
    assert good.sizes == (10,) * 4
    assert all(check.outcome is Outcome.PASSED for check in good.checks(10, 3))
    for at in range(2):
        found = KeptGroups.of([stratum(rng, spoilt=at == place) for place in range(2)])
        outcomes = [check.outcome for check in found.checks(10, 3)]
        assert outcomes == [Outcome.PASSED, Outcome.FAILED, Outcome.FAILED]
