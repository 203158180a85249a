"""Trials that take no time, with a known secret."""

from __future__ import annotations

import pytest

from anonpipe.compare import _study
from anonpipe.evaluate.measurement import Measurement
from anonpipe.rng import steward_secret
from anonpipe.source import open_source, read_batches
from anonpipe.verify.catalogue import held
from anonpipe.verify.verdict import Assessment, Verdict


@pytest.fixture(autouse=True)
def known_secret(monkeypatch):
    """The same draws at every run of the tests."""
    monkeypatch.setenv("ANONPIPE_SECRET", "5e" * 32)


@pytest.fixture
def quick(monkeypatch):
    """Trials that take no time: what they were asked, and the figures that they gave."""
    asked = []

    def assess_only(job):
        source = open_source(job.input, job.columns)
        rows = sum(batch.num_rows for unit in source.units for _, batch in read_batches(source, unit))
        asked.append((job, steward_secret(), rows))
        value = int.from_bytes(steward_secret()[:2], "big") / 2**16
        found = [
            Measurement(name, name, value, "share", "lower", "-", 9, 9) for name in ("overlap", "reidentification_rate")
        ]
        return Verdict((held("mean", 0, 1),)), Assessment((found[0],), (found[1],), (), ())

    monkeypatch.setattr(_study, "assess_only", assess_only)
    return asked
