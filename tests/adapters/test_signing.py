"""Keys that approvals are signed with: made once, private, and refused by name where they are something else."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from evenkeel.adapters.signing import read_public_key, read_signing_key, write_key_pair
from evenkeel.model.errors import InputError, RefusedError


@pytest.fixture
def base(tmp_path: Path) -> Path:
    base = tmp_path / "keys" / "on-call"
    write_key_pair(base)
    return base


def private(base: Path) -> Path:
    return base.with_suffix(".key")


def public(base: Path) -> Path:
    return base.with_suffix(".pub")


def test_signature_is_for_these_bytes_and_this_key_only(base: Path, tmp_path: Path) -> None:
    key, other = read_signing_key(private(base)), write_key_pair(tmp_path / "other")
    signature = key.sign(b"a plan")
    known = read_public_key(public(base))
    assert known == key.public
    assert known.verifies(b"a plan", signature)
    assert not known.verifies(b"a plaN", signature)
    assert not other.verifies(b"a plan", signature)
    assert not known.verifies(b"a plan", "not hexadecimal")
    assert not known.verifies(b"a plan", signature[:-2])


def test_private_key_is_its_owners_alone_and_never_shown(base: Path) -> None:
    assert private(base).stat().st_mode & 0o777 == 0o600
    assert "PRIVATE" not in repr(read_signing_key(private(base)))
    assert private(base).read_text().splitlines()[1] not in repr(read_signing_key(private(base)))


def test_keys_are_never_overwritten(base: Path) -> None:
    before = (private(base).read_bytes(), public(base).read_bytes())
    with pytest.raises(RefusedError, match="exists already: keys are never overwritten"):
        write_key_pair(base)
    assert (private(base).read_bytes(), public(base).read_bytes()) == before


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_private_key_that_others_can_read_is_refused(base: Path, mode: int) -> None:
    private(base).chmod(mode)
    with pytest.raises(RefusedError, match="others than its owner can read the signing key .*: run `chmod 600"):
        read_signing_key(private(base))


def test_what_is_no_key_is_one_sentence(base: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a private key in PEM"):
        read_signing_key(_with_mode_600(public(base)))
    with pytest.raises(InputError, match="is not a public key in PEM"):
        read_public_key(private(base))
    with pytest.raises(InputError, match=r"cannot read the approver's key .*absent\.pub \(No such file"):
        read_public_key(tmp_path / "absent.pub")
    os.mkfifo(tmp_path / "pipe.pub")
    with pytest.raises(InputError, match=r"pipe\.pub is not a regular file"):
        read_public_key(tmp_path / "pipe.pub")


def test_key_of_another_algorithm_is_refused(tmp_path: Path) -> None:
    key, pub = tmp_path / "rsa.key", tmp_path / "rsa.pub"
    subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
    subprocess.run(["openssl", "rsa", "-in", str(key), "-pubout", "-out", str(pub)], check=True, capture_output=True)
    with pytest.raises(InputError, match=r"rsa\.key is not an Ed25519 key"):
        read_signing_key(_with_mode_600(key))
    with pytest.raises(InputError, match=r"rsa\.pub is not an Ed25519 key"):
        read_public_key(pub)


def test_pair_made_by_openssl_is_accepted(tmp_path: Path) -> None:
    key, pub = tmp_path / "own.key", tmp_path / "own.pub"
    make = ["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(key)]
    subprocess.run(make, check=True, capture_output=True)
    subprocess.run(["openssl", "pkey", "-in", str(key), "-pubout", "-out", str(pub)], check=True, capture_output=True)
    signing = read_signing_key(_with_mode_600(key))
    assert read_public_key(pub).verifies(b"x", signing.sign(b"x"))


def _with_mode_600(file: Path) -> Path:
    file.chmod(0o600)
    return file
