from __future__ import annotations

import os
import secrets
import stat
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anonpipe import rng
from anonpipe.errors import JobError
from anonpipe.rng import generator, keyed, number_keys, private_home, secret_withheld, steward_secret

KEY = bytes(range(32))
FEWEST_BYTES = rng.FEWEST_BYTES


@pytest.fixture(autouse=True)
def real_limit(private_folders, monkeypatch):
    """The limit that users have."""
    monkeypatch.setattr(rng, "FEWEST_BYTES", FEWEST_BYTES)


def test_secret_is_made_once_and_private(tmp_path):
    first = steward_secret()
    assert steward_secret() == first and len(first) >= 16
    assert stat.S_IMODE((private_home() / "secret").stat().st_mode) == 0o600
    assert stat.S_IMODE(private_home().stat().st_mode) == 0o700


def test_secret_from_environment_and_file(tmp_path, monkeypatch):
    monkeypatch.setenv("ANONPIPE_SECRET", "ab01cd23ef456789" * 2)
    assert steward_secret() == bytes.fromhex("ab01cd23ef456789" * 2)
    monkeypatch.delenv("ANONPIPE_SECRET")
    path = tmp_path / "my-secret"
    path.write_text("cd01ab23ef456789" * 3 + "\n")
    path.chmod(0o600)
    monkeypatch.setenv("ANONPIPE_SECRET_FILE", str(path))
    assert steward_secret() == bytes.fromhex("cd01ab23ef456789" * 3)


@pytest.mark.parametrize(
    "text", ["42", "ab" * 15, "not hexadecimal at all, but long enough!", "00" * 32, "5e" * 32, "0123456789abcd" * 9]
)
def test_weak_secrets_are_refused_without_being_quoted(monkeypatch, text):
    monkeypatch.setenv("ANONPIPE_SECRET", text)
    with pytest.raises(JobError) as caught:
        steward_secret()
    assert text not in str(caught.value).replace("128", "")
    assert "secrets.token_hex(32)" in str(caught.value) or "hexadecimal" in str(caught.value)


def test_random_secrets_are_accepted(monkeypatch):
    for _ in range(500):
        monkeypatch.setenv("ANONPIPE_SECRET", secrets.token_hex(16))
        assert len(steward_secret()) == 16


@pytest.mark.parametrize("as_file", [False, True])
def test_a_withheld_secret_is_known_here_and_not_to_children(tmp_path, monkeypatch, as_file):
    text = secrets.token_hex(32)
    path = tmp_path / "key"
    path.write_text(text)
    path.chmod(0o600)
    monkeypatch.setenv("ANONPIPE_SECRET_FILE" if as_file else "ANONPIPE_SECRET", str(path) if as_file else text)
    code = "import os; print([name for name in os.environ if name.startswith('ANONPIPE_SECRET')])"
    with secret_withheld():
        assert steward_secret().hex() == text
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "[]"
    assert steward_secret().hex() == text and len({"ANONPIPE_SECRET", "ANONPIPE_SECRET_FILE"} & set(os.environ)) == 1


def test_secret_readable_by_others_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "open-secret"
    path.write_text("ab01cd23ef456789" * 2)
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


def test_number_keys_look_uniform_and_follow_the_number():
    numbers = np.arange(10, 100_010)
    keys = number_keys(KEY, numbers)
    assert np.array_equal(keys[7:20], number_keys(KEY, numbers[7:20]))
    assert len(np.unique(keys)) == len(keys)
    shares = np.bincount((keys >> np.uint64(60)).astype(int), minlength=16) / len(keys)
    # 16 cells of 100,000: standard error 0.00077; 7 standard errors fail once in 1e10
    assert np.abs(shares - 1 / 16).max() < 7 * 0.00077
    assert not np.array_equal(keys, number_keys(KEY[::-1], numbers))
