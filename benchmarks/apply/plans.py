"""Writes a plan of many transfers for a running fleet, with gate verdict and approval, without planning."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from evenkeel import __version__
from evenkeel.adapters.approval_policy import ApprovalPolicy
from evenkeel.adapters.lake.plans import PlanStore
from evenkeel.adapters.lake.snapshots import SnapshotStore
from evenkeel.adapters.lake.store import Lake, from_arrow
from evenkeel.gates.expected_checks import expect_of_plan
from evenkeel.model.approval import Person
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import RefusedError
from evenkeel.model.figures import Balance, Disruption, StepCounts
from evenkeel.model.plan import Plan, Step, StepKind, digest_rows, invert
from evenkeel.model.policies import Policies, policy_versions
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker, Bundle, PolicyDocument, SnapshotManifest
from evenkeel.model.verdict import Check, Subject, Verdict
from evenkeel.stages.approve import approve_plan
from evenkeel.stages.snapshot import take_snapshot


def store_plan(
    lake: Lake, connection: ClusterConnection, settings: Settings, count: int, wave_steps: int
) -> tuple[str, list[Step]]:
    """Store a plan that moves bundles to the next broker each; returns its id and steps."""
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
        policy_versions=policy_versions(policies),
        anti_affinity=dict(Policies.from_documents(policies).anti_affinity),
        expires_at=datetime.now(UTC) + timedelta(hours=1),
        step_counts=StepCounts(transfers=len(steps)),
        steps_sha256=digest_rows(steps),
        rejections_sha256=digest_rows([]),
        brokers_sha256=digest_rows([]),
        inverse_sha256=digest_rows(invert(steps)),
        balance=Balance({}, {}),
        bounds=None,
        gap=None,
        disruption=Disruption(steps=len(steps)),
        violations=None,
        curve=(),
        pools=(),
        counterfactual=(),
        truncated=False,
        library_version=__version__,
    )
    plans = PlanStore(lake)
    plans.write(plan, steps, [], [])
    gate = expect_of_plan(plan.strategy)
    checks = (Check(each.suite, each.name, each.severity, True, "a check", "not judged here") for each in gate.checks)
    plans.write_verdict(plan.plan_id, Verdict(Subject.PLAN, plan.plan_id, gate.suites, tuple(checks), __version__))
    approve_plan(lake, plan.plan_id, Person("bench", "none", "bench"), "bench", ApprovalPolicy.unsigned())
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
