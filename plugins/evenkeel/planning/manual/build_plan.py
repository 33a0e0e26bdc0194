"""Builds plans whose steps a person chose: one step by hand, or the rollback of a run.

Nothing is searched, so such a plan has no bounds and no curve. Like any other it says what Pulsar would have done with
the same snapshot, and it keeps every hard rule. Rules about balance alone (`GOALS`) are left to the person, who sees
them as warnings before approving.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

import numpy as np

from evenkeel.model.bundles import is_system_namespace
from evenkeel.model.load import RESOURCES
from evenkeel.model.plan import BrokerBalance, Plan, Rejection, Step, StepKind, digest_rows, invert
from evenkeel.model.policies import Policies, policy_versions
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker, Bundle, PolicyDocument, Topic
from evenkeel.planning.cluster.assembly import PlannedCluster
from evenkeel.planning.cluster.figures import count_steps, describe_balance, describe_disruption
from evenkeel.planning.problem.columns import BundleColumns, Ints, Vector, vector
from evenkeel.planning.problem.disruption import client_milliseconds, pricing_of
from evenkeel.planning.problem.loads import loads_now
from evenkeel.planning.problem.pools import assign_pools, live_broker_ids
from evenkeel.planning.problem.problem import limits_of
from evenkeel.planning.pulsar_strategies.comparison import describe_counterfactuals
from evenkeel.planning.verifier.units import GOALS, Violation
from evenkeel.planning.verifier.verifier import find_violations

STRATEGY_VERSION = 1


@dataclass(frozen=True)
class LoadedSnapshot:
    """A snapshot with its tables, and the settings to plan with."""

    cluster: str
    load_manager: str
    snapshot_id: str
    taken_at: datetime
    brokers: Sequence[Broker]
    bundles: Sequence[Bundle]
    topics: Sequence[Topic]
    documents: Sequence[PolicyDocument]
    settings: Settings
    library_version: str

    @cached_property
    def policies(self) -> Policies:
        return Policies.from_documents(self.documents)

    @cached_property
    def broker_by_id(self) -> Mapping[str, Broker]:
        return {broker.broker_id: broker for broker in self.brokers}

    @cached_property
    def row_by_bundle(self) -> Mapping[str, int]:
        return {bundle.bundle: row for row, bundle in enumerate(self.bundles)}

    @cached_property
    def loads(self) -> BundleColumns:
        return loads_now(self.bundles, self.brokers, self.settings)

    @cached_property
    def plannable(self) -> BundleColumns:
        """The bundles on known brokers, except those that Pulsar pins to their place."""
        rows = [
            row
            for row, bundle in enumerate(self.bundles)
            if bundle.owner in self.broker_by_id and not is_system_namespace(bundle.namespace)
        ]
        return self.loads.take(np.array(rows, dtype=np.intp))

    def bundle(self, name: str) -> Bundle | None:
        row = self.row_by_bundle.get(name)
        return None if row is None else self.bundles[row]

    def find_violations(self, steps: Sequence[Step]) -> list[Violation]:
        """The hard rules that steps break; rules about balance alone are left out."""
        named = {step.bundle for step in steps}
        counted = [
            row
            for row, bundle in enumerate(self.bundles)
            if bundle.bundle in named or not is_system_namespace(bundle.namespace)
        ]
        bundles = self.loads.take(np.array(counted, dtype=np.intp))
        found = find_violations(steps, self.brokers, bundles, self.policies, self.settings)
        return [violation for violation in found if violation.rule not in GOALS]


def make_step(
    known: LoadedSnapshot,
    kind: StepKind,
    bundle: Bundle,
    reason: str,
    destination: str | None = None,
    split_boundary: int | None = None,
    order: int = 0,
    wave: int = 0,
) -> Step:
    """A step on an owned bundle, with owner, version, incarnations, load and cost from the snapshot."""
    row = known.row_by_bundle[bundle.bundle]
    moves = kind is not StepKind.SPLIT
    cpu, throughput_in, throughput_out = map(int, known.loads.loads()[row] if moves else (0, 0, 0))
    sessions = bundle.producers + bundle.consumers if moves else 0
    pricing = pricing_of(known.load_manager, known.settings)
    assert bundle.owner is not None
    return Step(
        order=order,
        wave=wave,
        kind=kind.value,
        bundle=bundle.bundle,
        source=bundle.owner,
        source_incarnation=_incarnation(known, bundle.owner),
        destination=destination,
        destination_incarnation=None if destination is None else _incarnation(known, destination),
        expected_version_id=bundle.version_id,
        throughput_in_bytes_per_s=throughput_in,
        throughput_out_bytes_per_s=throughput_out,
        cpu_millipercent=cpu,
        topics=bundle.topics if moves else 0,
        sessions=sessions,
        disruption_client_ms=client_milliseconds(kind.value, sessions, throughput_out, pricing),
        reason=reason,
        split_boundary=split_boundary,
    )


def build_plan(
    known: LoadedSnapshot, steps: Sequence[Step], strategy: str, rejections: Sequence[Rejection] = ()
) -> PlannedCluster:
    """The document and the tables of a plan with these steps."""
    pool_of = assign_pools(
        {bundle.namespace for bundle in known.bundles}, live_broker_ids(known.brokers), known.policies
    ).pool_of_broker
    limit, before = limits_of(known.brokers, known.settings), _used(known)
    after = before + _moved(known, steps)
    rows = [
        BrokerBalance(broker.broker_id, pool_of.get(broker.broker_id, ""), str(resource), *figures, band_limit=0)
        for place, broker in enumerate(known.brokers)
        for resource, figures in zip(RESOURCES, _figures(limit, before, after, place), strict=True)
    ]
    limits = {b.broker_id: vector(limit[place]) for place, b in enumerate(known.brokers)}
    plan = Plan(
        cluster=known.cluster,
        load_manager=known.load_manager,
        snapshot_id=known.snapshot_id,
        profile_id="",
        candidates_id="",
        strategy=strategy,
        strategy_version=STRATEGY_VERSION,
        settings=known.settings.to_json(),
        policy_versions=policy_versions(known.documents),
        anti_affinity=dict(known.policies.anti_affinity),
        expires_at=known.taken_at + timedelta(seconds=known.settings.plan_expires_after_s),
        step_counts=count_steps(steps),
        steps_sha256=digest_rows(steps),
        rejections_sha256=digest_rows(rejections),
        brokers_sha256=digest_rows(rows),
        inverse_sha256=digest_rows(invert(steps)),
        balance=describe_balance(limits, _by_broker(known, before), _by_broker(known, after)),
        bounds=None,
        gap=None,
        disruption=describe_disruption(steps),
        violations=None,
        curve=(),
        pools=(),
        counterfactual=describe_counterfactuals(known.brokers, known.plannable, known.policies, known.settings),
        truncated=False,
        library_version=known.library_version,
    )
    return PlannedCluster(plan, list(steps), list(rejections), rows)


def _incarnation(known: LoadedSnapshot, broker: str) -> int | None:
    found = known.broker_by_id.get(broker)
    return None if found is None else found.incarnation


def _used(known: LoadedSnapshot) -> Ints:
    """The load on each broker from the bundles that can be planned."""
    place = {broker.broker_id: row for row, broker in enumerate(known.brokers)}
    used = np.zeros((len(known.brokers), len(RESOURCES)), dtype=np.int64)
    owners = np.array([place[owner] for owner in known.plannable.owner.tolist()], dtype=np.intp)
    np.add.at(used, owners, known.plannable.loads())
    return used


def _moved(known: LoadedSnapshot, steps: Sequence[Step]) -> Ints:
    """The load that the steps take from and bring to each broker; after an unload, Pulsar chooses where it goes."""
    place = {broker.broker_id: row for row, broker in enumerate(known.brokers)}
    moved = np.zeros((len(known.brokers), len(RESOURCES)), dtype=np.int64)
    for step in steps:
        moved[place[step.source]] -= step.load
        if step.destination is not None:
            moved[place[step.destination]] += step.load
    return moved


def _figures(limit: Ints, before: Ints, after: Ints, place: int) -> list[tuple[int, int, int]]:
    return list(zip(limit[place].tolist(), before[place].tolist(), after[place].tolist(), strict=True))


def _by_broker(known: LoadedSnapshot, used: Ints) -> dict[str, Vector]:
    return {broker.broker_id: vector(used[place]) for place, broker in enumerate(known.brokers)}
