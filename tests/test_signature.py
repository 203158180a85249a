"""Who published a release: what somebody who can write to its place, and has no secret, does not get past a key."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anonpipe.errors import InputError
from anonpipe.storage import release
from anonpipe.storage.release import fingerprint, public_pem, read_public_key, signing_key
from tests import small

STEWARD, OTHER = signing_key(b"s" * 16), signing_key(b"o" * 16)
KEY = STEWARD.public_key()


def publish(tmp_path, place, values=(1, 2, 3), signer=STEWARD):
    path = tmp_path / "part-00000.parquet"
    pq.write_table(pa.table({"a": list(values)}), path)
    files = [{"name": path.name, "rows": 3, "bytes": path.stat().st_size, "sha256": release.sha256(path)}]
    schema = release.describe_schema(pa.schema([("a", pa.int64())]))
    manifest = {"rows": 3, "schema": schema, "files": files}
    made = release.publish([path], manifest, place, {"_report.json": b"{}"}, signer=signer).path
    return made.rsplit("/", 1)[-1]


NOT_BY_KEY = f"_manifest.json.sig: {release.NOT_SIGNED}"


def in_version(place, version, name):
    return place.path("versions", version, name)


def edit(place, version, change):
    """Another manifest, whatever it takes."""
    path = in_version(place, version, "_manifest.json")
    manifest = json.loads(place.filesystem.cat_file(path))
    change(manifest)
    place.filesystem.pipe_file(path, json.dumps(manifest, indent=2).encode())


def test_a_release_is_of_the_steward_who_made_it_and_of_no_other(tmp_path, where):
    url, place = where
    version = publish(tmp_path, place)
    assert release.check(url) == release.check(url, KEY) == release.check(url, KEY, version) == []
    assert release.check(url, OTHER.public_key()) == [NOT_BY_KEY]
    manifest = json.loads(place.filesystem.cat_file(in_version(place, version, "_manifest.json")))
    assert manifest["version"] == version and manifest["signed_by"] == fingerprint(KEY)


def test_edited_data_under_agreeing_manifest_is_found_by_key(tmp_path, where):
    url, place = where
    version = publish(tmp_path, place)
    forged = tmp_path / "forged.parquet"
    pq.write_table(pa.table({"a": [7, 8, 9]}), forged)
    place.filesystem.pipe_file(in_version(place, version, "part-00000.parquet"), forged.read_bytes())
    digest = hashlib.sha256(forged.read_bytes()).hexdigest()
    edit(place, version, lambda manifest: manifest["files"][0].update(sha256=digest))
    assert release.check(url) == []  # it agrees with itself
    assert release.check(url, KEY) == [NOT_BY_KEY]


@pytest.mark.parametrize("forged", [b"[" * 100_000, b"{", b""])
def test_wrong_signature_is_told_before_parsing_or_hashing(tmp_path, where, forged, monkeypatch):
    url, place = where
    version = publish(tmp_path, place)
    place.filesystem.pipe_file(in_version(place, version, "_manifest.json"), forged)

    def never(*_):
        raise AssertionError

    for name in ("_parsed", "sha256", "_check_parquet"):
        monkeypatch.setattr(release, name, never)
    assert release.checked(url, KEY).problems == [NOT_BY_KEY]


def test_a_forger_who_signs_himself_is_found(tmp_path, where):
    url, place = where
    publish(tmp_path, place, signer=OTHER)
    assert release.check(url) == []
    assert release.check(url, KEY) == [NOT_BY_KEY]


def test_a_release_without_a_signature_is_found(tmp_path, where):
    url, place = where
    version = publish(tmp_path, place)
    place.filesystem.rm_file(in_version(place, version, "_manifest.json.sig"))
    assert release.check(url) == []
    assert release.check(url, KEY) == ["_manifest.json.sig: missing: the release is not signed"]
    publish(tmp_path, place, signer=None)
    assert release.check(url, KEY) == ["_manifest.json.sig: missing: the release is not signed"]


def test_an_old_version_under_the_name_of_a_new_one_is_found(tmp_path, where):
    url, place = where
    first, second = publish(tmp_path, place), publish(tmp_path, place, (4, 5, 6))
    place.filesystem.rm(place.path("versions", second), recursive=True)
    place.filesystem.cp(place.path("versions", first) + "/", place.path("versions", second) + "/", recursive=True)
    assert release.check(url, KEY) == [f"the folder is called {second}, and the manifest is of {first}"]


def test_step_back_to_older_version_is_found_by_newer_viewer(tmp_path, where):
    url, place = where
    first, second = publish(tmp_path, place), publish(tmp_path, place, (4, 5, 6))
    place.filesystem.pipe_file(place.path("CURRENT"), first.encode())
    if place.local:
        os.remove(place.path("release"))
        os.symlink(f"versions/{first}", place.path("release"))
    assert release.check(url, KEY) == []  # it is the steward's, and whole
    assert release.check(url, KEY, second) == [f"{first} is older than {second}, which was there before"]
    with pytest.raises(InputError, match="no name of a version"):
        release.check(url, KEY, "../../etc")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl")
def test_others_tools_check_it_too(tmp_path):
    place = release.place(str(tmp_path / "out"))
    release.check_writable(place)
    version = publish(tmp_path, place)
    (tmp_path / "steward.pub").write_bytes(public_pem(KEY))
    manifest = in_version(place, version, "_manifest.json")
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", str(tmp_path / "steward.pub"), "-rawin"]
    command += ["-in", manifest, "-sigfile", f"{manifest}.sig"]
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0
    edit(place, version, lambda manifest: manifest.update(rows=3.0))
    assert subprocess.run(command, check=False, capture_output=True).returncode != 0


def test_what_is_no_public_key_is_refused(tmp_path):
    for name, content in (
        ("text.pub", b"hello"),
        ("other.pub", b"-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=f"{name} is no public key of a steward"):
            read_public_key(tmp_path / name)
    with pytest.raises(InputError, match=r"missing\.pub does not exist; .* anonpipe key"):
        read_public_key(tmp_path / "missing.pub")


def test_by_the_commands(tmp_path, monkeypatch, capsys):
    """A run signs by the steward's secret, `key` tells the public key, and `verify --key` holds them together."""
    call = small.commands(capsys, monkeypatch)
    job = small.job(tmp_path, small.plain_table(200), measure={"utility": False, "risk": False})
    outcome = small.run(job)
    assert outcome.version is not None
    key = tmp_path / "steward.pub"
    key.write_text(call("key").out)
    good = call("verify", job.output, "--key", key)
    assert (good.code, "signed by the owner of" in good.out.replace("\n", " ")) == (0, True)
    assert "signature not checked" in call("verify", job.output).out.replace("\n", " ")
    told = json.loads(call("verify", job.output, "--key", key, "--json").out)
    assert told["intact"] and told["signature"] == "of this key"
    monkeypatch.setenv("ANONPIPE_SECRET", "6d" * 8 + "5e1f2a3b4c5d6e7f" * 2)
    key.write_text(call("key").out)
    bad = call("verify", job.output, "--key", key)
    assert bad.code == 2 and "is not by the key given" in bad.err.replace("\n", " ")
