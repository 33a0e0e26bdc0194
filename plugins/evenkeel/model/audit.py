"""An audit: what plans predicted against what happened, who moved which bundle, and what an operator should look at.

The tables are declared here once. `AuditRecord` is `audit.json`, which commits an audit's files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from evenkeel.model.errors import InputError
from evenkeel.model.outside_json import check_schema_version, decoding, read_record
from evenkeel.model.tables import column
from evenkeel.model.timestamps import format_time
from evenkeel.model.verdict import Severity

AUDIT_SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class LoadPrediction:
    """A row of `predictions.parquet`: one resource of one broker, some time after a run.

    Where the load was measured, realised − predicted is the sum of the three errors, to the last unit.
    """

    run_id: str = column("run that applied the plan")
    plan_id: str = column("plan that predicted the load")
    horizon_s: int = column("how long after the run's end the load was to be looked at, seconds")
    snapshot_id: str = column("snapshot that the realised load was taken from")
    broker_id: str = column("broker")
    resource: str = column("cpu, bandwidth_in or bandwidth_out")
    limit: int = column("capacity in the resource's integer unit; 0 is unknown")
    before: int = column("load before the run, which the naive prediction expects to stay")
    predicted: int = column("load that the plan predicted for after it")
    realised: int | None = column("load that was measured; null if the broker has not reported since the run")
    placement_error: int | None = column("part of the error due to bundles that are not where the plan puts them")
    load_error: int | None = column("part of the error due to load that changed after the plan's snapshot")
    cpu_model_error: int | None = column("part of the error due to how cpu is shared out over bundles; 0 for traffic")


@dataclass(frozen=True, slots=True)
class PredictionFigures:
    """A row of `figures.parquet`: how good the prediction of a plan was for one resource, over all its brokers."""

    run_id: str = column("run that applied the plan")
    horizon_s: int = column("how long after the run's end, seconds")
    resource: str = column("cpu, bandwidth_in or bandwidth_out")
    snapshot_id: str | None = column("snapshot that the realised load was taken from; null if there is none")
    note: str = column("why there are no figures; empty where there are some")
    brokers: int = column("brokers whose load was measured")
    silent_brokers: int = column("brokers of the plan that have not reported since the run")
    bias_ratio: float | None = column("sum of realised − predicted over the sum of realised; above 0: too low")
    mape_ratio: float | None = column("mean of |realised − predicted| ÷ realised over brokers that are not nearly idle")
    wape_ratio: float | None = column("sum of |realised − predicted| over the sum of realised")
    mase: float | None = column("mean |error| over that of the naive prediction, the load before; below 1 is better")
    placement_ratio: float | None = column("sum of |placement_error| over the sum of realised")
    load_ratio: float | None = column("sum of |load_error| over the sum of realised")
    cpu_model_ratio: float | None = column("sum of |cpu_model_error| over the sum of realised")


class Mover(StrEnum):
    """Who changed a bundle's owner, as far as the lake can tell."""

    EVENKEEL = "evenkeel"
    DEAD_BROKER = "dead broker"
    BALANCER = "pulsar balancer"
    PERSON = "person"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class OwnerChange:
    """A bundle that had another owner in the snapshot before; made by Spark from the history."""

    namespace: str = column("namespace with its tenant")
    bundle: str = column("Pulsar's name of the bundle")
    source: str = column("owner in the earlier snapshot")
    destination: str = column("owner in the later snapshot")
    earlier_snapshot_id: str = column("last snapshot with the old owner")
    snapshot_id: str = column("first snapshot with the new owner")
    earlier_at: datetime = column("when the old owner was last seen")
    seen_at: datetime = column("when the new owner was first seen")
    moved_bytes_per_s: int = column("traffic of the bundle, in and out, with its new owner")
    version_steps: int | None = column("changes of the bundle's record between the two snapshots; null if unknown")
    is_return: bool = column("whether the change before it, at most a day ago, took the bundle away from here")


@dataclass(frozen=True, slots=True)
class BundleMove:
    """A row of `moves.parquet`: a change of owner with its mover and the evidence for that."""

    bundle: str = column("Pulsar's name of the bundle")
    source: str = column("owner before")
    destination: str = column("owner after")
    earlier_at: datetime = column("when the old owner was last seen")
    seen_at: datetime = column("when the new owner was first seen")
    moved_bytes_per_s: int = column("traffic of the bundle, in and out")
    is_return: bool = column("whether it went back where it had left at most a day ago")
    mover: str = column("evenkeel, dead broker, pulsar balancer, person or unknown")
    run_id: str | None = column("run that moved it; null if none did")
    evidence: str = column("what the mover was concluded from")


class FindingKind(StrEnum):
    """What a finding is about."""

    PREDICTION = "prediction"
    LEARNING = "learning"
    OSCILLATION = "oscillation"
    DRIFT = "drift"
    POLICY = "policy"
    REPORTS = "reports"
    COLLECTION = "collection"
    MARKS = "marks"
    SWITCHES = "switches"


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """A row of `findings.parquet`: something that an operator should know, in one sentence, and what to do."""

    severity: str = column("critical, warning or info")
    kind: str = column("prediction, learning, oscillation, drift, policy, reports, collection, marks or switches")
    subject: str = column("broker, bundle, namespace, run or cluster that it is about")
    sentence: str = column("what was found")
    remedy: str = column("what to do about it; empty if nothing")

    def __post_init__(self) -> None:
        if self.severity != Severity.INFO and not self.remedy:
            raise InputError(f"the finding {self.sentence!r} has no remedy", "say what the operator should do")


AUDIT_TABLES: Mapping[str, type] = {
    "findings": AuditFinding,
    "figures": PredictionFigures,
    "predictions": LoadPrediction,
    "moves": BundleMove,
}


@dataclass(frozen=True, slots=True)
class Oscillation:
    """How much of the moving was to and fro, over the period of an audit."""

    moves: int
    returns: int
    bundles: int
    most_moves_of_a_bundle_per_day: int
    gross_bytes_per_s: int
    net_bytes_per_s: int

    @property
    def return_rate(self) -> float:
        """The share of moves that took a bundle back where it had left at most a day ago."""
        return self.returns / self.moves if self.moves else 0.0

    @property
    def net_over_gross(self) -> float | None:
        """Moved load that ended elsewhere, over all moved load; None if nothing moved."""
        return self.net_bytes_per_s / self.gross_bytes_per_s if self.gross_bytes_per_s else None

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"return_rate": self.return_rate, "net_over_gross": self.net_over_gross}


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """The content of `audit.json`: what was looked at, what was learnt, and the digests of the tables."""

    cluster: str
    audited_at: datetime
    since: datetime
    snapshots: int
    runs: tuple[str, ...]
    counts: Mapping[str, int]
    oscillation: Oscillation
    cpu_calibration_id: str | None
    hand_over_id: str | None
    tables: Mapping[str, str]
    library_version: str
    schema_version: int = AUDIT_SCHEMA_VERSION

    def to_json(self) -> dict[str, Any]:
        times = {"audited_at": format_time(self.audited_at), "since": format_time(self.since)}
        return asdict(self) | times

    @classmethod
    def from_json(cls, fields: Mapping[str, Any], uri: str) -> AuditRecord:
        check_schema_version(fields, AUDIT_SCHEMA_VERSION, uri)
        with decoding("an audit", uri):
            return read_record(cls, fields)


@dataclass(frozen=True, slots=True)
class Audit:
    """An audit with its tables."""

    audit_id: str
    uri: str
    record: AuditRecord
    findings: tuple[AuditFinding, ...]
    figures: tuple[PredictionFigures, ...]
    predictions: tuple[LoadPrediction, ...]
    moves: tuple[BundleMove, ...]

    def of(self, severity: Severity) -> tuple[AuditFinding, ...]:
        """The findings of a severity."""
        return tuple(finding for finding in self.findings if finding.severity == severity)

    def to_json(self) -> dict[str, Any]:
        """What `evenkeel audit --json` prints; the predictions and moves are in the lake."""
        record = self.record.to_json()
        record["oscillation"] = self.record.oscillation.to_json()
        return {
            "audit_id": self.audit_id,
            "audit_uri": self.uri,
            **record,
            "findings": [asdict(finding) for finding in self.findings],
            "figures": [asdict(row) for row in self.figures],
        }


def count_severities(findings: tuple[AuditFinding, ...]) -> dict[str, int]:
    """How many findings there are of each severity, the worst first."""
    found = Counter(finding.severity for finding in findings)
    return {str(severity): found[severity] for severity in Severity}
