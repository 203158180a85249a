"""The attack on extremes on a small table: who stands out is found more often, and by local synthesis not at all."""

from __future__ import annotations

import re

import pytest

from anonpipe.pipeline.preview import preview
from tests import small
from tests.attacks import extremes


@pytest.mark.secret("5e" * 32)
def test_extremes_are_found_in_groups_and_not_by_local_synthesis(tmp_path):
    table = extremes.incomes(1_500)
    plain = extremes.attack(
        extremes.setting(tmp_path / "a", table, "none", synthesize={"method": "micro_perturbation"})
    )
    assert max(plain.outer, plain.furthest) > plain.everyone > 0.01 and plain.known_off > 0.9
    drawn = extremes.attack(extremes.setting(tmp_path / "b", table, mask={"method": "local_synthesis"}))
    assert drawn.outer < 0.03 and drawn.furthest < 0.03 and drawn.known_off > 0.9


@pytest.mark.secret("5e" * 32)
def test_sum_of_three_alike_is_told_if_extremes_kept_alone(tmp_path):
    table = extremes.incomes(1_500, known=extremes.ALIKE)
    for at, transform in enumerate((None, "none", "none keep")):
        method = "micro_perturbation" if transform is None else "centroid"
        job = extremes.setting(tmp_path / str(at), table, transform, synthesize={"method": method}, measure=small.OFF)
        assert (extremes.together(job) > 0.9) == (transform != "none keep")
        told = " ".join(preview(job).warnings)
        apart = re.search(r"'income'[^;:]*: values of fewer than 5 records that stand apart are top-coded", told)
        assert (apart is not None) == (transform == "none")
        kept = re.search(r"'income'[^;:]*: extremes: keep", told)
        assert (kept is not None) == (transform == "none keep")
