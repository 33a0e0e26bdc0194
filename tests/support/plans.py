"""Hand-made plans in a lake, judged and approved, so that applying can be tested without planning."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from evenkeel import __version__
from evenkeel.adapters.lake import Lake, from_arrow
from evenkeel.adapters.plans import PlanStore
from evenkeel.adapters.snapshots import SnapshotStore
from evenkeel.model.approval import Approval
from evenkeel.model.moments import format_time
from evenkeel.model.plan import BrokerBalance, Plan, Step, StepKind, digest_rows, invert
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker, Bundle, PolicyDocument, SnapshotManifest
from evenkeel.model.verdict import Check, Verdict


def rows(lake: Lake, manifest: SnapshotManifest, name: str, table: type) -> list[Any]:
    """A table of a snapshot as rows."""
    return from_arrow(table, SnapshotStore(lake).read_table(manifest, name), name)


def make_transfers(lake: Lake, manifest: SnapshotManifest, count: int) -> list[Step]:
    """The first movable bundles of a snapshot, each to the next broker that has a report."""
    brokers = [broker for broker in rows(lake, manifest, "brokers", Broker) if broker.reported_at]
    incarnations = {broker.broker_id: broker.incarnation for broker in brokers}
    names = sorted(incarnations)
    bundles: list[Bundle] = [
        bundle
        for bundle in rows(lake, manifest, "bundles", Bundle)
        if bundle.owner in incarnations and bundle.tenant != "pulsar"
    ]
    steps = []
    for order, bundle in enumerate(bundles[:count]):
        assert bundle.owner is not None
        destination = names[(names.index(bundle.owner) + 1) % len(names)]
        steps.append(make_step(order, bundle, destination, incarnations))
    return steps


def make_step(order: int, bundle: Bundle, destination: str, incarnations: dict[str, int | None]) -> Step:
    assert bundle.owner is not None
    return Step(
        order=order,
        wave=0 if order == 0 else 1,
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
        reason="the test moves it",
    )


def store_plan(
    lake: Lake,
    manifest: SnapshotManifest,
    steps: Sequence[Step],
    expires_at: datetime | None = None,
    is_passed: bool | None = True,
    is_approved: bool = True,
    balances: Sequence[BrokerBalance] = (),
) -> str:
    """Store a plan with its verdict (None: not judged) and its approval; answers the plan id."""
    policies: list[PolicyDocument] = rows(lake, manifest, "policies", PolicyDocument)
    plan = Plan(
        cluster=manifest.cluster,
        load_manager=str(manifest.load_manager),
        snapshot_id=manifest.snapshot_id,
        profile_id="",
        candidates_id="",
        strategy="certified",
        strategy_version=1,
        settings=Settings().to_json(),
        policy_versions={p.path: p.znode_version for p in policies if p.path},
        expires_at=expires_at or datetime.now(UTC) + timedelta(hours=1),
        step_counts={"transfers": len(steps), "splits": 0, "unloads": 0},
        steps_sha256=digest_rows(steps),
        rejections_sha256=digest_rows([]),
        brokers_sha256=digest_rows(balances),
        inverse_sha256=digest_rows(invert(list(steps))),
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
    plans.write(plan, steps, [], balances)
    if is_passed is not None:
        check = Check("plan_steps", "made_by_hand", "critical", is_passed, "a check", "the test says so")
        plans.write_verdict(plan.plan_id, Verdict(f"plan {plan.plan_id[:12]}", (check,), __version__))
    if is_approved:
        plans.write_approval(Approval(plan.plan_id, "ada", format_time(datetime.now(UTC)), "test"))
    return plan.plan_id
