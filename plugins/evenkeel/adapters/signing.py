"""Ed25519 keys: making a pair, reading one from its file, signing and verifying.

Keys are PEM files, as OpenSSL writes them. A private key must be readable by its owner only; it is never printed.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from evenkeel.model.canonical import sha256_hex
from evenkeel.model.errors import InputError, RefusedError

PRIVATE_SUFFIX, PUBLIC_SUFFIX = ".key", ".pub"
KEY_ID_LENGTH = 16
OWNER_ONLY, FOR_EVERYBODY = 0o600, 0o644
MOST_BYTES = 10_000
_RAW = (serialization.Encoding.Raw, serialization.PublicFormat.Raw)


@dataclass(frozen=True, slots=True)
class PublicKey:
    """The key of an approver; `name` is that of its file."""

    name: str
    raw: bytes

    @property
    def key_id(self) -> str:
        """The beginning of the SHA-256 of the key: how approvals and revocations name it."""
        return sha256_hex(self.raw)[:KEY_ID_LENGTH]

    def verifies(self, data: bytes, signature: str) -> bool:
        """Whether this key made a signature, given in hexadecimal, over exactly these bytes."""
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(bytes.fromhex(signature), data)
        except (InvalidSignature, ValueError):
            return False
        return True


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key; it never shows itself."""

    public: PublicKey
    _private: Ed25519PrivateKey = field(repr=False)

    def sign(self, data: bytes) -> str:
        """A signature over some bytes, in hexadecimal."""
        return self._private.sign(data).hex()


def write_key_pair(base: Path) -> PublicKey:
    """Make a pair and write it as BASE.key, readable by its owner only, and BASE.pub; existing files are refused."""
    private = Ed25519PrivateKey.generate()
    private_pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public_pem = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    files = {PUBLIC_SUFFIX: (public_pem, FOR_EVERYBODY), PRIVATE_SUFFIX: (private_pem, OWNER_ONLY)}
    paths = [base.with_name(base.name + suffix) for suffix in files]
    for path in paths:
        if path.exists():
            raise RefusedError(f"{path} exists already", "keys are never overwritten; choose another name")
    try:
        base.parent.mkdir(parents=True, exist_ok=True)
        for path, (pem, mode) in zip(paths, files.values(), strict=True):
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.write(pem)
    except OSError as error:
        raise RefusedError(f"cannot write {error.filename} ({error.strerror})", "check the folder") from error
    return PublicKey(base.name, private.public_key().public_bytes(*_RAW))


def read_public_key(file: Path) -> PublicKey:
    """Read an approver's public key from its PEM file."""
    data = _read(file, "the approver's key")
    try:
        key = serialization.load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InputError(f"{file} is not a public key in PEM", "give the .pub file of `evenkeel keygen`") from error
    if not isinstance(key, Ed25519PublicKey):
        raise InputError(f"{file} is not an Ed25519 key", "give the .pub file of `evenkeel keygen`")
    return PublicKey(file.name.removesuffix(PUBLIC_SUFFIX), key.public_bytes(*_RAW))


def read_signing_key(file: Path) -> SigningKey:
    """Read a private key from its PEM file; one that others can read is refused."""
    data = _read(file, "the signing key", is_secret=True)
    try:
        key = serialization.load_pem_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise InputError(
            f"{file} is not a private key in PEM without a password", "give the .key file of `evenkeel keygen`"
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"{file} is not an Ed25519 key", "give the .key file of `evenkeel keygen`")
    return SigningKey(PublicKey(file.name.removesuffix(PRIVATE_SUFFIX), key.public_key().public_bytes(*_RAW)), key)


def _read(file: Path, what: str, is_secret: bool = False) -> bytes:
    try:
        # Without waiting, because a FIFO would wait for a writer.
        with os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK), "rb") as stream:
            found = os.fstat(stream.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise InputError(f"{what} {file} is not a regular file", "give the path of a PEM file")
            if is_secret and found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise RefusedError(f"others than its owner can read {what} {file}", f"run `chmod 600 {file}`")
            return stream.read(MOST_BYTES)
    except OSError as error:
        raise InputError(f"cannot read {what} {file} ({error.strerror})", "check the path") from error
