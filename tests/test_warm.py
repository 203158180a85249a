"""What is compiled ahead is what every method needs, and nothing else comes of it."""

from __future__ import annotations

import pytest

from anonpipe import warm
from anonpipe.errors import OutputError
from anonpipe.kernels import compiled
from anonpipe.methods.grouping import METHODS
from anonpipe.methods.masking import MASKERS
from anonpipe.methods.record import in_jobs
from anonpipe.methods.synthesis import METHODS as SYNTHESIZERS
from tests import small


def test_every_method_has_its_turn(tmp_path):
    jobs = dict(warm._jobs(tmp_path))
    assert {*in_jobs(SYNTHESIZERS), *MASKERS} <= set(jobs)
    assert {job.mask.method for job in jobs.values() if job.mask} == set(MASKERS)
    assert {job.synthesize.method for job in jobs.values() if job.synthesize} == set(in_jobs(SYNTHESIZERS))
    assert jobs["measures"].measure.utility and jobs["measures"].measure.risk and jobs["measures"].measure.hold_out


def test_it_tells_what_it_does_and_leaves_nothing_but_code(tmp_path, monkeypatch):
    jobs = warm._jobs
    monkeypatch.setattr(warm, "_jobs", lambda folder: list(jobs(folder))[2:3])
    told = []
    assert warm.warm(told.append) == compiled.lasting()
    assert told == [*METHODS, "most_probable"]
    assert small.stagings() == [] and not (tmp_path / "home").exists()


def test_without_a_lasting_folder_it_says_so(monkeypatch):
    monkeypatch.setattr(compiled, "lasting", lambda: None)
    with pytest.raises(OutputError, match="set NUMBA_CACHE_DIR"):
        warm.warm()
