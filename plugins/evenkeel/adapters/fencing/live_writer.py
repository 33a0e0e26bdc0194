"""The writer that is at work, as its node `writer` describes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evenkeel.adapters.zookeeper.nodes import ZNode
from evenkeel.model.canonical import short_id
from evenkeel.model.outside_json import is_whole, parse_json


@dataclass(frozen=True, slots=True)
class LiveWriter:
    """Who writes, on which host and in which process, for which plan and at which epoch; empty where it is not said."""

    user: str
    host: str
    process: str
    plan_id: str
    epoch: int | None
    czxid: int
    """Tells this writer's node from one that another writer makes later."""

    @classmethod
    def decode(cls, node: ZNode) -> LiveWriter:
        """Read the node, whatever is in it: whoever made it counts as a writer."""
        try:
            fields = parse_json(node.data)
        except ValueError:
            fields = None
        found: dict[str, Any] = fields if isinstance(fields, dict) else {}
        host, process = (f"{_text(found.get('holder'))}::".split(":"))[:2]
        epoch = found.get("epoch")
        return cls(
            _text(found.get("user")),
            host,
            process,
            _text(found.get("plan_id")),
            epoch if is_whole(epoch) else None,
            node.czxid,
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "user": self.user,
            "host": self.host,
            "process": self.process,
            "plan_id": self.plan_id,
            "epoch": self.epoch,
        }

    def __str__(self) -> str:
        where = f" on {self.host}" if self.host else ""
        process = f" (process {self.process})" if self.process else ""
        plan = f", plan {short_id(self.plan_id)}" if self.plan_id else ""
        epoch = "" if self.epoch is None else f", epoch {self.epoch}"
        return f"{self.user or 'somebody'}{where}{process}{plan}{epoch}"


def _text(value: Any) -> str:
    # Half a surrogate pair is JSON, but could not be printed.
    return value.encode(errors="replace").decode() if isinstance(value, str) else ""
