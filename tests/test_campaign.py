"""A small part of the campaign of faults: every quick kind, with fixed seeds."""

from __future__ import annotations

import pytest

from tests.campaign.__main__ import BAD, campaign
from tests.campaign.faults import KINDS


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Each kind once; `python -m tests.campaign` goes on for longer."""
    return campaign(7, 5.0, list(KINDS), len(KINDS), tmp_path_factory.mktemp("campaign"))


def test_no_outcome_is_bad(told):
    assert [each for each in told if each[1] in BAD] == []


def test_every_kind_was_tried(told):
    assert {kind for kind, _, _ in told} == set(KINDS)


def test_faults_are_felt(told):
    """A campaign whose faults change nothing would prove nothing."""
    assert any(outcome == "refused" for _, outcome, _ in told)
