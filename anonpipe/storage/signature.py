"""Signatures of manifests: that a release is the steward's, and that nobody has changed it since.

A manifest lists the checksums of all files of its version, and its version's
name; one Ed25519 signature of its bytes (RFC 8032) binds them all. The private
key follows from the steward's secret, so that there is no second thing to
keep; the public key is for recipients, who must have it from the steward and
not from the place of the release. The signature is 64 raw bytes, the key PEM:
other tools check them, too:

    openssl pkeyutl -verify -pubin -inkey steward.pub -rawin -in _manifest.json -sigfile _manifest.json.sig
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from anonpipe.errors import InputError
from anonpipe.rng import keyed


def signing_key(secret: bytes) -> Ed25519PrivateKey:
    """The private key that belongs to a steward's secret.

    Examples
    --------
    >>> manifest, key = b"{}", signing_key(b"s" * 16)
    >>> is_signed(manifest, key.sign(manifest), key.public_key())
    True
    >>> is_signed(b"{ }", key.sign(manifest), key.public_key())
    False
    """
    return Ed25519PrivateKey.from_private_bytes(keyed(secret, "signing key")[:32])


def public_pem(key: Ed25519PublicKey) -> bytes:
    """The public key as a PEM file."""
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def fingerprint(key: Ed25519PublicKey) -> str:
    """SHA-256 of the 32 bytes of a public key, hexadecimal: what persons compare."""
    return hashlib.sha256(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()


def read_public_key(path: str | Path) -> Ed25519PublicKey:
    """A public key from a PEM file."""
    found = None
    try:
        found = load_pem_public_key(Path(path).read_bytes())
    except (OSError, ValueError):
        pass
    if not isinstance(found, Ed25519PublicKey):
        raise InputError(f"{path} is no public key of a steward; ask the steward for the output of: anonpipe key")
    return found


def is_signed(content: bytes, signature: bytes, key: Ed25519PublicKey) -> bool:
    """Whether the owner of a key has signed these bytes."""
    try:
        key.verify(signature, content)
    except InvalidSignature:
        return False
    return True
