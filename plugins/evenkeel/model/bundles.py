"""Bundle names and the hash ring that the bundles of a namespace share."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from evenkeel.model.errors import InputError
from evenkeel.model.outside_json import show

RING_END = 0xFFFFFFFF
_RANGE = re.compile(r"0x([0-9a-f]{8})_0x([0-9a-f]{8})")
_NAME = re.compile(r"[-=:.\w]+")


@dataclass(frozen=True, slots=True, order=True)
class BundleRange:
    """A range of the ring: lower bound inclusive, upper bound exclusive except at the end of the ring."""

    lower: int
    upper: int

    def __post_init__(self) -> None:
        if not 0 <= self.lower < self.upper <= RING_END:
            raise InputError(
                f"the range {self.lower:#010x}_{self.upper:#010x} is empty or outside the ring",
                "choose a range between 0x00000000 and 0xffffffff",
            )

    @classmethod
    def parse(cls, text: str) -> BundleRange:
        match = _RANGE.fullmatch(text)
        if match is None:
            raise InputError(
                f"{show(text)} is not a bundle range",
                "write it like 0x00000000_0x40000000, in lower case",
            )
        return cls(int(match[1], 16), int(match[2], 16))

    def __str__(self) -> str:
        return f"0x{self.lower:08x}_0x{self.upper:08x}"

    def __contains__(self, topic_hash: object) -> bool:
        if not isinstance(topic_hash, int):
            return False
        return self.lower <= topic_hash < self.upper or topic_hash == self.upper == RING_END

    def split_at(self, boundary: int) -> tuple[BundleRange, BundleRange]:
        """The two adjacent halves after a split at a boundary strictly inside."""
        return BundleRange(self.lower, boundary), BundleRange(boundary, self.upper)


@dataclass(frozen=True, slots=True, order=True)
class BundleName:
    """A bundle's name: tenant, local namespace and range."""

    tenant: str
    local_namespace: str
    range: BundleRange

    @classmethod
    def parse(cls, text: str) -> BundleName:
        parts = text.split("/")
        if len(parts) != 3 or not all(_NAME.fullmatch(part) for part in parts[:2]):
            raise InputError(f"{show(text)} is not a bundle", "write it as tenant/namespace/0x00000000_0x40000000")
        return cls(parts[0], parts[1], BundleRange.parse(parts[2]))

    @property
    def namespace(self) -> str:
        """The namespace with its tenant, as Pulsar writes it."""
        return f"{self.tenant}/{self.local_namespace}"

    def __str__(self) -> str:
        return f"{self.tenant}/{self.local_namespace}/{self.range}"


def ranges_between(boundaries: Iterable[int]) -> list[BundleRange]:
    """The ranges between a namespace's boundaries."""
    return [BundleRange(lower, upper) for lower, upper in pairwise(boundaries)]


def find_ring_fault(ranges: Iterable[BundleRange]) -> str | None:
    """Where ranges overlap or leave a gap in the ring; None if they tile it."""
    end = 0
    for part in sorted(ranges):
        if part.lower > end:
            return f"a gap from {end:#010x} to {part.lower:#010x}"
        if part.lower < end:
            return f"an overlap at {part}"
        end = part.upper
    return None if end == RING_END else f"a gap from {end:#010x} to {RING_END:#010x}"


def tenant_of(bundle: str) -> str:
    """The tenant in the name of a bundle or a namespace."""
    return bundle.partition("/")[0]


def is_system_namespace(namespace: str) -> bool:
    """Whether Pulsar pins a namespace to its brokers: heartbeat, SLA monitor and pulsar/system are never planned."""
    tenant, _, local = namespace.partition("/")
    is_heartbeat = tenant == "pulsar" and ":" in local
    return is_heartbeat or tenant == "sla-monitor" or namespace == "pulsar/system"


def is_v1_namespace(namespace: str) -> bool:
    """Whether a namespace has the old form tenant/cluster/namespace, which 5.0 removes; such ones are never planned."""
    return namespace.count("/") > 1
