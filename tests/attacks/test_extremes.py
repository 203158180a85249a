"""The attack on extremes on a small table: who stands out is found more often, and by local synthesis not at all."""

from __future__ import annotations

from tests.attacks import extremes


def test_extremes_are_found_in_groups_and_not_by_local_synthesis(tmp_path, monkeypatch):
    monkeypatch.setenv("ANONPIPE_SECRET", "5e" * 32)
    table = extremes.incomes(1_500)
    plain = extremes.attack(
        extremes.setting(tmp_path / "a", table, "none", synthesize={"method": "micro_perturbation"})
    )
    assert max(plain.outer, plain.furthest) > plain.everyone > 0.01 and plain.known_off > 0.01
    drawn = extremes.attack(extremes.setting(tmp_path / "b", table, mask={"method": "local_synthesis"}))
    assert drawn.outer < 0.01 and drawn.furthest < 0.01 and drawn.known_off > 0.9


def test_the_sum_of_three_alike_is_told_by_normal_scores_no_more(tmp_path, monkeypatch):
    monkeypatch.setenv("ANONPIPE_SECRET", "5e" * 32)
    table = extremes.incomes(1_500, known=extremes.ALIKE)
    job = extremes.setting(tmp_path, table, synthesize={"method": "micro_perturbation"})
    assert extremes.together(job) > 0.9
