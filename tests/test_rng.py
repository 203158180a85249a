from __future__ import annotations

import os
import stat

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anonpipe.errors import JobError
from anonpipe.rng import generator, keyed, private_home, row_keys, steward_secret

KEY = bytes(range(32))


def test_secret_is_made_once_and_private(tmp_path):
    first = steward_secret()
    assert steward_secret() == first and len(first) >= 16
    assert stat.S_IMODE((private_home() / "secret").stat().st_mode) == 0o600
    assert stat.S_IMODE(private_home().stat().st_mode) == 0o700


def test_secret_from_environment_and_file(tmp_path, monkeypatch):
    monkeypatch.setenv("ANONPIPE_SECRET", "ab" * 16)
    assert steward_secret() == bytes.fromhex("ab" * 16)
    monkeypatch.delenv("ANONPIPE_SECRET")
    path = tmp_path / "my-secret"
    path.write_text("cd" * 20 + "\n")
    path.chmod(0o600)
    monkeypatch.setenv("ANONPIPE_SECRET_FILE", str(path))
    assert steward_secret() == bytes.fromhex("cd" * 20)


@pytest.mark.parametrize("text", ["42", "ab" * 15, "not hexadecimal at all, but long enough!"])
def test_weak_secrets_are_refused_without_being_quoted(monkeypatch, text):
    monkeypatch.setenv("ANONPIPE_SECRET", text)
    with pytest.raises(JobError) as caught:
        steward_secret()
    assert text not in str(caught.value).replace("128", "")


def test_secret_readable_by_others_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "open-secret"
    path.write_text("ab" * 16)
    path.chmod(0o644)
    monkeypatch.setenv("ANONPIPE_SECRET_FILE", str(path))
    with pytest.raises(JobError, match="chmod 600"):
        steward_secret()


def test_missing_named_secret_is_not_invented(tmp_path, monkeypatch):
    monkeypatch.setenv("ANONPIPE_SECRET_FILE", str(tmp_path / "nowhere"))
    with pytest.raises(JobError, match="cannot be read"):
        steward_secret()
    assert os.listdir(tmp_path) == []


def test_streams_differ_by_stage_partition_and_key():
    draws = {
        generator(key, stage, part).integers(0, 2**62)
        for key in (KEY, KEY[::-1])
        for stage in ("noise", "shuffle")
        for part in range(50)
    }
    assert len(draws) == 200


@given(st.lists(st.text(max_size=5), max_size=4), st.lists(st.text(max_size=5), max_size=4))
def test_keyed_tells_all_part_lists_apart(a, b):
    assert (keyed(KEY, *a) == keyed(KEY, *b)) == (a == b)


def test_row_keys_look_uniform_and_follow_the_row():
    keys = row_keys(KEY, 10, 100_000)
    assert np.array_equal(keys[7:20], row_keys(KEY, 17, 13))
    assert len(np.unique(keys)) == len(keys)
    shares = np.bincount((keys >> np.uint64(60)).astype(int), minlength=16) / len(keys)
    # 16 cells of 100,000: standard error 0.00077; 7 standard errors fail once in 1e10
    assert np.abs(shares - 1 / 16).max() < 7 * 0.00077
    assert not np.array_equal(keys, row_keys(KEY[::-1], 10, 100_000))
