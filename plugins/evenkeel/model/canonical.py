"""Canonical JSON and digests: equal content has equal bytes, and so an equal id."""

from __future__ import annotations

import hashlib
import json
from typing import Any

SHORT_ID_LENGTH = 12


def canonical_json(value: Any) -> bytes:
    """Encode a JSON value canonically: sorted keys, no spaces, UTF-8, no NaN."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


def sha256_hex(data: bytes) -> str:
    """The SHA-256 of some bytes in lower-case hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def digest(value: Any) -> str:
    """The SHA-256 of a JSON value in canonical form."""
    return sha256_hex(canonical_json(value))


def short_id(identifier: str) -> str:
    """The beginning of a digest: what messages show, and enough to name a plan or a run on the command line."""
    return identifier[:SHORT_ID_LENGTH]
