"""A plan: the difference between two placements as ordered steps, and the document that a person approves.

The plan id is the SHA-256 of `plan.json` in canonical form. That document has the digests of the steps and the
rejections, so approving the id approves every byte of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from evenkeel.model.canonical import canonical_json, digest, sha256_hex
from evenkeel.model.figures import (
    Balance,
    Bounds,
    CurvePoint,
    Disruption,
    Gap,
    PoolFigures,
    StepCounts,
    StrategyReplay,
    Violations,
)
from evenkeel.model.outside_json import check_schema_version, decoding, read_record
from evenkeel.model.policies import PolicyVersion
from evenkeel.model.tables import column
from evenkeel.model.timestamps import format_time

PLAN_SCHEMA_VERSION = 3
MANUAL, ROLLBACK = "manual", "rollback"
BY_HAND_STRATEGIES = frozenset({MANUAL, ROLLBACK})
"""The strategies of plans whose steps a person chose, not a planner."""


class StepKind(StrEnum):
    """What a step does to its bundle."""

    SPLIT = "split"
    TRANSFER = "transfer"
    UNLOAD = "unload"


@dataclass(frozen=True, slots=True)
class Step:
    """A row of `steps.parquet`."""

    order: int = column("place in the total order, from 0")
    wave: int = column("wave that the step belongs to; wave 0 is the canary")
    kind: str = column("split, transfer or unload")
    bundle: str = column("bundle that the step changes")
    source: str = column("broker that owns the bundle before the step")
    source_incarnation: int | None = column("incarnation of the source that the plan was made for")
    destination: str | None = column("broker that owns it afterwards; null for an unload or a split")
    destination_incarnation: int | None = column("incarnation of the destination that the plan was made for")
    expected_version_id: int | None = column("versionId that the bundle's record must still have")
    throughput_in_bytes_per_s: int = column("bytes per second in that move with the bundle")
    throughput_out_bytes_per_s: int = column("bytes per second out that move with the bundle")
    cpu_millipercent: int = column("thousandths of a percent of a core that move with the bundle")
    topics: int = column("topics that move with the bundle")
    sessions: int = column("producers and consumers that have to reconnect")
    disruption_client_ms: int = column("expected disruption, client-milliseconds")
    reason: str = column("why this bundle, and why there")
    split_boundary: int | None = column("hash at which a split cuts the range; null for other steps", None)

    @property
    def load(self) -> tuple[int, int, int]:
        """The load that moves with the bundle, in the order of `RESOURCES`."""
        return self.cpu_millipercent, self.throughput_in_bytes_per_s, self.throughput_out_bytes_per_s

    @property
    def moved_bytes_per_s(self) -> int:
        """The traffic in and out that moves with the bundle."""
        return self.throughput_in_bytes_per_s + self.throughput_out_bytes_per_s


@dataclass(frozen=True, slots=True)
class Rejection:
    """A row of `rejections.parquet`: something that is not done, and the rule that refused it."""

    pool: str = column("pool in which the rule spoke")
    scope: str = column("what the rule spoke about: bundle, broker, pool or plan")
    bundle: str | None = column("bundle that was left alone")
    broker: str | None = column("broker that stays hot, or destination that was refused")
    rule: str = column("name of the rule")
    detail: str = column("the rule in words, with its figures")


@dataclass(frozen=True, slots=True)
class BrokerBalance:
    """A row of `brokers.parquet`: one resource of one broker before and after the plan."""

    broker_id: str = column("broker")
    pool: str = column("pool that the broker belongs to")
    resource: str = column("cpu, bandwidth_in or bandwidth_out")
    limit: int = column("capacity in the resource's integer unit")
    used_before: int = column("planning load before, in the resource's integer unit")
    used_after: int = column("planning load after, in the resource's integer unit")
    band_limit: int = column("most load inside the band, in the resource's integer unit")


PLAN_TABLES: Mapping[str, type] = {"steps": Step, "rejections": Rejection, "brokers": BrokerBalance}


_EMPTY_IF_ABSENT = ("bounds", "gap", "violations")


@dataclass(frozen=True, slots=True)
class Plan:
    """The content of `plan.json`; every field is part of what is approved.

    `bounds`, `gap` and `violations` are None where a person chose the steps, because nothing was searched.
    `anti_affinity` has the group of each namespace that is in one.
    """

    cluster: str
    load_manager: str
    snapshot_id: str
    profile_id: str
    candidates_id: str
    strategy: str
    strategy_version: int
    settings: Mapping[str, Any]
    policy_versions: Mapping[str, PolicyVersion | None]
    anti_affinity: Mapping[str, str]
    expires_at: datetime
    step_counts: StepCounts
    steps_sha256: str
    rejections_sha256: str
    brokers_sha256: str
    inverse_sha256: str
    balance: Balance
    bounds: Bounds | None
    gap: Gap | None
    disruption: Disruption
    violations: Violations | None
    curve: tuple[CurvePoint, ...]
    pools: tuple[PoolFigures, ...]
    counterfactual: tuple[StrategyReplay, ...]
    truncated: bool
    library_version: str
    window: Mapping[str, Any] | None = None
    schema_version: int = PLAN_SCHEMA_VERSION

    def to_json(self) -> dict[str, Any]:
        """The document as JSON values; figures that a plan does not have are empty objects."""
        absent: dict[str, Any] = {name: {} for name in _EMPTY_IF_ABSENT if getattr(self, name) is None}
        return dataclasses.asdict(self) | {"expires_at": format_time(self.expires_at)} | absent

    def encode(self) -> bytes:
        return canonical_json(self.to_json())

    @property
    def plan_id(self) -> str:
        return sha256_hex(self.encode())

    @classmethod
    def from_json(cls, fields: Mapping[str, Any], uri: str) -> Plan:
        check_schema_version(fields, PLAN_SCHEMA_VERSION, uri)
        absent = {name: None for name in _EMPTY_IF_ABSENT if fields.get(name) == {}}
        with decoding("a plan", uri):
            return read_record(cls, {**fields, **absent})


def digest_rows(rows: Iterable[Any]) -> str:
    """The SHA-256 of table rows in canonical form, independent of how Parquet stores them."""
    listed = list(rows)
    # Rows are flat, so the slow `asdict` is not needed.
    names = [field.name for field in dataclasses.fields(listed[0])] if listed else []
    return digest([{name: getattr(row, name) for name in names} for row in listed])


def invert(steps: Sequence[Step]) -> list[Step]:
    """The inverse plan: the transfers in reverse order and direction, wave by wave.

    The plan names its digest, and a rollback checks it before it undoes what the journal says was done.
    """
    last_wave = max((step.wave for step in steps), default=0)
    inverse = []
    for order, step in enumerate(s for s in reversed(steps) if s.kind == StepKind.TRANSFER):
        assert step.destination is not None
        inverse.append(
            dataclasses.replace(
                step,
                order=order,
                wave=last_wave - step.wave,
                source=step.destination,
                source_incarnation=step.destination_incarnation,
                destination=step.source,
                destination_incarnation=step.source_incarnation,
                # A transfer changes the record three times: Releasing, Assigning, Owned.
                expected_version_id=None if step.expected_version_id is None else step.expected_version_id + 3,
                reason=f"undoes step {step.order}",
            )
        )
    return inverse
