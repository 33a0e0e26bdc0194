"""A plan of many transfers for a running fleet, judged and approved, without planning."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from evenkeel import __version__
from evenkeel.adapters.lake import Lake, from_arrow
from evenkeel.adapters.plans import PlanStore
from evenkeel.adapters.snapshots import SnapshotStore
from evenkeel.model.approval import Approval
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import RefusedError
from evenkeel.model.moments import format_time
from evenkeel.model.plan import Plan, Step, StepKind, digest_rows, invert
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker, Bundle, PolicyDocument, SnapshotManifest
from evenkeel.model.verdict import Check, Verdict
from evenkeel.stages.snapshot import take_snapshot


def store_plan(
    lake: Lake, connection: ClusterConnection, settings: Settings, count: int, wave_steps: int
) -> tuple[str, list[Step]]:
    """Plan the first bundles of the cluster away, each to the next broker; answers the plan's id and its steps."""
    manifest = take_snapshot(lake, connection, settings)
    steps = _make_steps(lake, manifest, count, wave_steps)
    policies: list[PolicyDocument] = _rows(lake, manifest, "policies", PolicyDocument)
    plan = Plan(
        cluster=manifest.cluster,
        load_manager=str(manifest.load_manager),
        snapshot_id=manifest.snapshot_id,
        profile_id="",
        candidates_id="",
        strategy="bench",
        strategy_version=1,
        settings=settings.to_json(),
        policy_versions={p.path: p.znode_version for p in policies if p.path},
        expires_at=datetime.now(UTC) + timedelta(hours=1),
        step_counts={"transfers": len(steps), "splits": 0, "unloads": 0},
        steps_sha256=digest_rows(steps),
        rejections_sha256=digest_rows([]),
        brokers_sha256=digest_rows([]),
        inverse_sha256=digest_rows(invert(steps)),
        balance={"before": {}, "after": {}},
        bounds={"moves": 0},
        gap={},
        disruption={"client_seconds": 0, "sessions": 0},
        violations={},
        curve=[],
        pools=[],
        counterfactual=[],
        truncated=False,
        library_version=__version__,
    )
    plans = PlanStore(lake)
    plans.write(plan, steps, [], [])
    check = Check("plan_steps", "made_by_the_bench", "critical", True, "a check", "nothing is judged here")
    plans.write_verdict(plan.plan_id, Verdict(f"plan {plan.plan_id[:12]}", (check,), __version__))
    plans.write_approval(Approval(plan.plan_id, "bench", format_time(datetime.now(UTC)), "bench"))
    return plan.plan_id, steps


def _make_steps(lake: Lake, manifest: SnapshotManifest, count: int, wave_steps: int) -> list[Step]:
    brokers: list[Broker] = _rows(lake, manifest, "brokers", Broker)
    bundles: list[Bundle] = _rows(lake, manifest, "bundles", Bundle)
    incarnations = {broker.broker_id: broker.incarnation for broker in brokers}
    names = sorted(incarnations)
    movable = [bundle for bundle in bundles if bundle.owner in incarnations and bundle.tenant != "pulsar"][:count]
    if len(movable) < count:
        raise RefusedError(f"the fleet has {len(movable)} bundles to move, not {count}", "give it more bundles")
    steps = []
    for order, bundle in enumerate(movable):
        assert bundle.owner is not None
        destination = names[(names.index(bundle.owner) + 1) % len(names)]
        steps.append(
            Step(
                order=order,
                wave=0 if order == 0 else 1 + (order - 1) // wave_steps,
                kind=StepKind.TRANSFER,
                bundle=bundle.bundle,
                source=bundle.owner,
                source_incarnation=incarnations[bundle.owner],
                destination=destination,
                destination_incarnation=incarnations[destination],
                expected_version_id=bundle.version_id,
                throughput_in_bytes_per_s=0,
                throughput_out_bytes_per_s=0,
                cpu_millipercent=0,
                topics=bundle.topics,
                sessions=bundle.producers + bundle.consumers,
                disruption_client_ms=0,
                reason="the bench moves it",
            )
        )
    return steps


def _rows(lake: Lake, manifest: SnapshotManifest, name: str, table: type) -> list[Any]:
    return from_arrow(table, SnapshotStore(lake).read_table(manifest, name), name)
