"""What an operator leaves under /evenkeel for every writer to see: the order to stop, and brokers to be drained."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from evenkeel.model.canonical import canonical_json

UNKNOWN = "somebody"


@dataclass(frozen=True, slots=True)
class Order:
    """Who gave an order, when, and why; the content of `stop` and of `draining/<broker>`."""

    who: str
    when: str
    reason: str = ""

    def encode(self) -> bytes:
        return canonical_json(asdict(self))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def decode(cls, data: bytes) -> Order:
        """Read an order; a node that was made by other means counts as one all the same, whatever it says."""
        try:
            fields = json.loads(data)
        except ValueError:
            fields = None
        if not isinstance(fields, dict):
            return cls(UNKNOWN, "", data.decode(errors="replace").strip())
        return cls(str(fields.get("who") or UNKNOWN), str(fields.get("when") or ""), str(fields.get("reason") or ""))

    def __str__(self) -> str:
        when = f" at {self.when}" if self.when else ""
        return f"{self.who}{when}" + (f" ({self.reason})" if self.reason else "")
