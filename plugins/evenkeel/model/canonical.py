"""One spelling for every value, so that equal content has equal bytes and an equal digest."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def canonical_json(value: Any) -> bytes:
    """Encode a JSON value in its only spelling: sorted keys, no spaces, UTF-8, no NaN."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


def sha256_hex(data: bytes) -> str:
    """The SHA-256 of some bytes in lower-case hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def digest(value: Any) -> str:
    """The SHA-256 of a JSON value in canonical form."""
    return sha256_hex(canonical_json(value))
