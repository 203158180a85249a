"""The tables of methods name every method that a job can ask for, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from anonpipe.methods.grouping import METHODS as GROUPINGS
from anonpipe.methods.masking import MASKERS
from anonpipe.methods.record import in_jobs
from anonpipe.methods.synthesis import METHODS as SYNTHESIZERS

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "methods.md").read_text(encoding="utf-8")


def first_cells(heading):
    """First cells of the rows of the table below a heading."""
    lines = PAGE.split(f"| `{heading}` |", 1)[1].splitlines()[2:]
    return [line.split("|")[1] for line in lines[: next(at for at, line in enumerate(lines) if not line.strip())]]


@pytest.mark.parametrize(
    ("heading", "records"),
    [("cluster.method", GROUPINGS), ("synthesize.method", SYNTHESIZERS), ("mask.method", MASKERS)],
)
def test_every_method_has_a_row(heading, records):
    named = {name for cell in first_cells(heading) for name in re.findall(r"`([a-z_0-9]+)`", cell)}
    assert named == set(in_jobs(records))
