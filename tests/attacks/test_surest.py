"""The attack of the careful: what the surest guesses give away is the figure that is reported and held."""

from __future__ import annotations

from tests.attacks import surest


def test_surest_guesses_are_reported_where_they_reveal_more(tmp_path, monkeypatch):
    monkeypatch.setenv("ANONPIPE_SECRET", "5e" * 32)
    plain = surest.attack(surest.setting(tmp_path / "a", surest.registry(6_000), synthesize={"method": "centroid"}))
    assert plain.reported >= plain.surest > plain.every > 0.05
    usual = surest.attack(surest.setting(tmp_path / "c", surest.registry(4_000)))
    assert usual.surest_links > usual.links  # of centroids, who are all as near, the surest link no more than others
    drawn = surest.attack(surest.setting(tmp_path / "b", surest.registry(3_000), mask={"method": "local_synthesis"}))
    assert drawn.reported <= drawn.every < 0.15
