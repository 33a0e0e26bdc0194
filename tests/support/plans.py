"""Hand-made plans in a lake, judged and approved, so that applying can be tested without planning."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from evenkeel import __version__
from evenkeel.adapters.lake.plans import PlanStore
from evenkeel.adapters.lake.snapshots import SnapshotStore
from evenkeel.adapters.lake.store import Lake, from_arrow
from evenkeel.model.bundles import BundleName
from evenkeel.model.figures import Balance
from evenkeel.model.plan import BrokerBalance, Plan, Step, StepKind, digest_rows, invert
from evenkeel.model.policies import Policies, policy_versions
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker, Bundle, PolicyDocument, SnapshotManifest
from evenkeel.planning.cluster.figures import count_steps, describe_disruption
from support.approvals import approve, judge


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
    """Store a plan with its verdict (None: not judged) and its approval; returns the plan id."""
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
        policy_versions=policy_versions(policies),
        anti_affinity=dict(Policies.from_documents(policies).anti_affinity),
        expires_at=expires_at or datetime.now(UTC) + timedelta(hours=1),
        step_counts=count_steps(steps),
        steps_sha256=digest_rows(steps),
        rejections_sha256=digest_rows([]),
        brokers_sha256=digest_rows(balances),
        inverse_sha256=digest_rows(invert(list(steps))),
        balance=Balance({}, {}),
        bounds=None,
        gap=None,
        disruption=describe_disruption(steps),
        violations=None,
        curve=(),
        pools=(),
        counterfactual=(),
        truncated=False,
        library_version=__version__,
    )
    plans = PlanStore(lake)
    plans.write(plan, steps, [], balances)
    if is_passed is not None:
        judge(lake, plan.plan_id, is_passed)
    if is_approved:
        approve(lake, plan.plan_id)
    return plan.plan_id


def make_split(step: Step) -> Step:
    """A split of the bundle that a transfer would move."""
    part = BundleName.parse(step.bundle).range
    return dataclasses.replace(
        step,
        kind=StepKind.SPLIT,
        destination=None,
        destination_incarnation=None,
        split_boundary=(part.lower + part.upper) // 2,
    )


def make_unload(step: Step) -> Step:
    """An unload of the bundle that a transfer would move."""
    return dataclasses.replace(step, kind=StepKind.UNLOAD, destination=None, destination_incarnation=None)
