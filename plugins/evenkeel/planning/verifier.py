"""Checks any plan, whoever made it, against the rules that no plan may break."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evenkeel.model.bundles import is_system_namespace
from evenkeel.model.plan import Step, StepKind
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker, BrokerState
from evenkeel.planning.columns import BundleColumns
from evenkeel.planning.pools import live_broker_ids
from evenkeel.planning.problem import EMPTIED_STATES
from evenkeel.planning.replay import find_load_faults
from evenkeel.planning.violation import Violation
from evenkeel.pulsar.eligibility import Eligibility

__all__ = ["Violation", "find_violations"]


@dataclass(frozen=True, slots=True)
class _Cluster:
    """What steps are checked against, by name."""

    brokers: dict[str, Broker]
    rows: dict[str, int]
    bundles: BundleColumns
    eligibility: Eligibility
    excluded: frozenset[str]


def find_violations(
    steps: Sequence[Step], brokers: Sequence[Broker], bundles: BundleColumns, policies: Policies, settings: Settings
) -> list[Violation]:
    """Everything that is wrong with a plan for this snapshot; an empty list is a legal plan.

    Splits and unloads are checked for their bundle and owner; where their load goes is not known, so it stays.
    """
    cluster = _Cluster(
        brokers={broker.broker_id: broker for broker in brokers},
        rows={str(name): row for row, name in enumerate(bundles.bundle)},
        bundles=bundles,
        eligibility=Eligibility(live_broker_ids(brokers), policies),
        excluded=policies.excluded_namespaces | frozenset(settings.shedding_excluded_namespaces),
    )
    found = [*_check_order(steps, settings), *_check_repeats(steps)]
    for step in steps:
        found += _check_step(step, cluster)
    transfers = [step for step in steps if _can_be_replayed(step, cluster)]
    found += find_load_faults(transfers, brokers, bundles, policies, settings, _necessary_orders(transfers, cluster))
    return found


def _necessary_orders(transfers: Sequence[Step], cluster: _Cluster) -> frozenset[int]:
    """The steps whose bundle could not stay: its owner is not eligible, or has to be emptied."""
    orders = set()
    for step in transfers:
        namespace = str(cluster.bundles.namespace[cluster.rows[step.bundle]])
        is_emptied = cluster.brokers[step.source].state in EMPTIED_STATES
        if is_emptied or step.source not in cluster.eligibility.brokers_for(namespace):
            orders.add(step.order)
    return frozenset(orders)


def _can_be_replayed(step: Step, cluster: _Cluster) -> bool:
    return (
        step.kind == StepKind.TRANSFER
        and step.bundle in cluster.rows
        and step.source in cluster.brokers
        and step.destination in cluster.brokers
    )


def _check_order(steps: Sequence[Step], settings: Settings) -> Iterator[Violation]:
    if len(steps) > settings.max_steps:
        yield Violation("step-budget", None, f"{len(steps)} steps, but the budget is {settings.max_steps}")
    if [step.order for step in steps] != list(range(len(steps))):
        yield Violation("order", None, "the steps are not numbered 0, 1, 2 … in their order")
    waves = [step.wave for step in steps]
    if waves != sorted(waves) or sorted(set(waves)) != list(range(len(set(waves)))):
        yield Violation("waves", None, "waves do not count up from 0 without a gap in the order of the steps")
    for wave, size in sorted(Counter(waves).items()):
        most = settings.wave_steps if wave else settings.canary_steps
        if size > most:
            yield Violation("waves", None, f"wave {wave} has {size} steps, but at most {most} are allowed")


def _check_repeats(steps: Sequence[Step]) -> Iterator[Violation]:
    seen: set[str] = set()
    for step in steps:
        if step.bundle in seen:
            yield Violation("moved-twice", step.order, f"{step.bundle} is changed by an earlier step already")
        seen.add(step.bundle)


def _check_step(step: Step, cluster: _Cluster) -> Iterator[Violation]:
    if step.kind not in set(StepKind):
        yield Violation("unknown-kind", step.order, f"{step.kind!r} is no kind of step")
    if step.bundle not in cluster.rows:
        yield Violation("unknown-bundle", step.order, f"{step.bundle} is not in the snapshot")
        return
    yield from _check_bundle(step, cluster)
    if step.kind == StepKind.TRANSFER:
        yield from _check_destination(step, cluster)


def _check_bundle(step: Step, cluster: _Cluster) -> Iterator[Violation]:
    row = cluster.rows[step.bundle]
    namespace, owner = str(cluster.bundles.namespace[row]), cluster.bundles.owner[row]
    if owner != step.source:
        yield Violation("wrong-owner", step.order, f"{step.source} does not own {step.bundle}, {owner} does")
    source = cluster.brokers.get(step.source)
    if source is not None and source.incarnation != step.source_incarnation:
        yield Violation("incarnation", step.order, f"the snapshot has {step.source} registered as {source.incarnation}")
    version = cluster.bundles.version_id[row]
    if version != step.expected_version_id:
        yield Violation("version", step.order, f"the record of {step.bundle} has version {version} in the snapshot")
    if is_system_namespace(namespace):
        yield Violation("system-namespace", step.order, f"{namespace} is pinned to its place by Pulsar")
    if namespace in cluster.excluded:
        yield Violation("excluded-namespace", step.order, f"{namespace} is excluded from moves")


def _check_destination(step: Step, cluster: _Cluster) -> Iterator[Violation]:
    if step.destination is None or step.destination not in cluster.brokers:
        yield Violation("unknown-destination", step.order, f"{step.destination} is not a broker of the snapshot")
        return
    destination = cluster.brokers[step.destination]
    namespace = str(cluster.bundles.namespace[cluster.rows[step.bundle]])
    if step.destination == step.source:
        yield Violation("moves-to-itself", step.order, f"{step.bundle} goes where it comes from")
    if destination.state != BrokerState.ACTIVE:
        yield Violation("not-active", step.order, f"{step.destination} is {destination.state} and may not receive")
    if destination.incarnation != step.destination_incarnation:
        yield Violation(
            "incarnation", step.order, f"the snapshot has {step.destination} registered as {destination.incarnation}"
        )
    if step.destination not in cluster.eligibility.brokers_for(namespace):
        policy = cluster.eligibility.policy_of(namespace)
        by = f"isolation policy {policy}" if policy else "the isolation policies of others"
        yield Violation("not-eligible", step.order, f"{step.destination} may not own {namespace} by {by}")
