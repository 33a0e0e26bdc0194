"""What an operator tells every writer through nodes under /evenkeel: stop, or drain a broker."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from evenkeel.model.canonical import canonical_json
from evenkeel.model.outside_json import parse_json, show

UNKNOWN = "somebody"


@dataclass(frozen=True, slots=True)
class Directive:
    """Who gave the order, when and why; the content of `stop` and of `draining/<broker>`."""

    who: str
    when: str
    reason: str = ""

    def encode(self) -> bytes:
        return canonical_json(asdict(self))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def decode(cls, data: bytes) -> Directive:
        """Read a directive; a node that was created by other means counts too, whatever its content."""
        try:
            fields = parse_json(data)
        except ValueError:
            fields = None
        if not isinstance(fields, dict):
            return cls(UNKNOWN, "", data.decode(errors="replace").strip())
        return cls(_text(fields.get("who")) or UNKNOWN, _text(fields.get("when")), _text(fields.get("reason")))

    def __str__(self) -> str:
        when = f" at {self.when}" if self.when else ""
        return f"{self.who}{when}" + (f" ({self.reason})" if self.reason else "")


def _text(value: Any) -> str:
    if not value:
        return ""
    # Half a surrogate pair is JSON, but could be neither printed nor written back.
    return value.encode(errors="replace").decode() if isinstance(value, str) else show(value)
