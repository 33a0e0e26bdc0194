"""Single cycles of Pulsar's shedders on a simulated cluster, policies included."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from evenkeel.model.load import MILLI
from evenkeel.model.pulsar_settings import PulsarSettings
from evenkeel.planning.problem.columns import Bools, Floats, Ints
from evenkeel.planning.pulsar_strategies.simulated_cluster import SimulatedCluster
from evenkeel.planning.pulsar_strategies.simulated_placement import SimulatedPlacement
from evenkeel.pulsar_rules.eligibility import is_pinned, is_system, namespace_of
from evenkeel.pulsar_rules.placement import (
    BrokerFacts,
    FilteredBrokers,
    PlacementRequest,
    can_transfer,
    choose_with,
    filter_extensible,
    least_resource_usage_extensible,
)
from evenkeel.pulsar_rules.threshold_shedder import ThresholdView, shed_by_threshold
from evenkeel.pulsar_rules.transfer_shedder import (
    MSG_RATE_STEP,
    THROUGHPUT_STEP,
    TOPICS_AND_SESSIONS_STEP,
    BrokerLoad,
    LeaderView,
    Reason,
    ReportedBundle,
    ShedOutcome,
    Unload,
    shed_transfers,
)

Number = TypeVar("Number", int, float)

NO_TIME_MS = 0


class _Rule(NamedTuple):
    """What decides where a bundle may go: the isolation policy and anti-affinity group of its namespace."""

    policy: str | None
    group: str | None


class SimulatedTransferShedder:
    """TransferShedder with the reports that the simulated brokers would send."""

    name = "TransferShedder"

    def __init__(self, cluster: SimulatedCluster, settings: PulsarSettings, seed: int) -> None:
        self._cluster = cluster
        self._settings = settings
        self._choose = choose_with(seed)
        self._broker_index = {broker: row for row, broker in enumerate(cluster.broker_ids)}
        self._bundle_row = {str(name): row for row, name in enumerate(cluster.bundles.bundle)}
        self._position = _report_order(cluster)
        self._reported = [
            ReportedBundle(str(name), float(size))
            for name, size in zip(cluster.bundles.bundle, cluster.throughput.tolist(), strict=True)
        ]
        rules = {
            name: _Rule(cluster.eligibility.policy_of(name), cluster.groups.get(name))
            for name in cluster.rows_by_namespace
        }
        self._rules = {each.name: rules[namespace_of(each.name)] for each in self._reported}
        # Caches of one cycle.
        self._reports: dict[str, list[ReportedBundle]] = {}
        self._filtered: dict[_Rule, FilteredBrokers] = {}
        self._transferable: dict[tuple[_Rule, str, str], bool] = {}
        self._is_reported = cluster.is_at_rest & (cluster.throughput > 0) & cluster.rows_where(self._may_be_reported)

    def run_cycle(self) -> str | None:
        """Decide and carry out one cycle; return None, or why nothing moved."""
        cluster = self._cluster
        load = cluster.weighted_usage(self._settings, counts_heap=True).tolist()
        carried = cluster.throughputs().tolist()
        loads = {
            broker: BrokerLoad(load[row], carried[row], carried[row], NO_TIME_MS)
            for broker, row in self._broker_index.items()
        }
        self._reports.clear()
        self._filtered.clear()
        self._transferable.clear()
        view = LeaderView(
            live_brokers=cluster.broker_ids,
            loads=loads,
            top_bundles=self._report,
            can_transfer=self._can_transfer,
        )
        # As if the condition had already held long enough.
        hits = self._settings.shedding_condition_hit_count_threshold
        outcome = shed_transfers(view, hits, self._settings, NO_TIME_MS)
        averages = {broker: each.load for broker, each in loads.items()}
        moved = [self._carry_out(unload, averages) for unload in outcome.unloads]
        if any(moved):
            return None
        return self._say_why_idle(outcome, min(loads, key=lambda broker: loads[broker].load))

    def _say_why_idle(self, outcome: ShedOutcome, emptiest: str) -> str:
        if outcome.unloads:
            return "placement would put each bundle back where it was"
        if outcome.reason is Reason.HIT_COUNT:
            return "the load is even enough for it"
        # TransferShedder pairs every full broker with the same empty one until something moves.
        return f"no bundle that a full broker reports can go to the emptiest one, {emptiest}"

    def explain(self) -> list[str]:
        left_out = int((self._cluster.is_at_rest & self._cluster.rows_where(self._is_ruled)).sum())
        if not left_out or self._settings.shedding_bundles_with_policies_enabled:
            return []
        return [f"It leaves {left_out} bundles under policies alone (shedding_bundles_with_policies_enabled is off)."]

    def _report(self, broker: str) -> list[ReportedBundle]:
        """A broker's largest bundles, smallest first."""
        if broker not in self._reports:
            rows = self._cluster.owned_rows(self._broker_index[broker], self._position, self._is_reported)
            top = rows[: max(0, self._settings.max_number_of_bundles_in_bundle_load_report)][::-1].tolist()
            self._reports[broker] = [self._reported[row] for row in top]
        return self._reports[broker]

    def _carry_out(self, unload: Unload, averages: Mapping[str, float]) -> bool:
        destination = unload.destination
        if destination is None:
            candidates = self._filter(namespace_of(unload.bundle), self._rules[unload.bundle]).brokers
            best = least_resource_usage_extensible(candidates, averages, self._settings)
            destination = self._choose(best) if best else unload.source
        if destination == unload.source:
            return False
        self._cluster.move(self._bundle_row[unload.bundle], self._broker_index[destination])
        return True

    def _can_transfer(self, bundle: str, source: str, destination: str) -> bool:
        rule = self._rules[bundle]
        move = (rule, source, destination)
        if move not in self._transferable:
            left = self._filter(namespace_of(bundle), rule)
            has_isolation, has_group = rule.policy is not None, rule.group is not None
            self._transferable[move] = can_transfer(source, destination, left, has_isolation, has_group, self._settings)
        return self._transferable[move]

    def _filter(self, namespace: str, rule: _Rule) -> FilteredBrokers:
        """The brokers that may own a namespace; within a cycle the same for all namespaces under the same rule."""
        if rule not in self._filtered:
            topics = self._cluster.topics().tolist()
            facts = {
                each.broker_id: BrokerFacts(
                    version=each.version, topics=count, takes_persistent=each.takes_persistent_topics is not False
                )
                for each, count in zip(self._cluster.brokers, topics, strict=True)
            }
            owned = None if rule.group is None else self._group_owned(rule.group)
            request = PlacementRequest(namespace, group_owned=owned, domains=self._cluster.domains)
            self._filtered[rule] = filter_extensible(facts, self._cluster.eligibility, request, self._settings)
        return self._filtered[rule]

    def _group_owned(self, group: str) -> dict[str, int]:
        """How many bundles of an anti-affinity group each broker owns."""
        members = [name for name, its in self._cluster.groups.items() if its == group]
        rows = [row for name in members for row in self._cluster.rows_by_namespace.get(name, ())]
        owners = self._cluster.owner[rows]
        counts = np.bincount(owners[owners >= 0], minlength=len(self._cluster.broker_ids)).tolist()
        return dict(zip(self._cluster.broker_ids, counts, strict=True))

    def _is_ruled(self, namespace: str) -> bool:
        return namespace in self._cluster.groups or self._cluster.eligibility.policy_of(namespace) is not None

    def _may_be_reported(self, namespace: str) -> bool:
        if is_system(namespace) or namespace in self._settings.shedding_excluded_namespaces:
            return False
        return self._settings.shedding_bundles_with_policies_enabled or not self._is_ruled(namespace)


class SimulatedThresholdShedder:
    """ThresholdShedder and the placement that goes with it by default, LeastLongTermMessageRate."""

    name = "ThresholdShedder"

    def __init__(self, cluster: SimulatedCluster, settings: PulsarSettings, seed: int) -> None:
        self._cluster = cluster
        self._settings = settings
        self._placement = SimulatedPlacement(cluster, settings, choose_with(seed))
        self._bundle_row = {str(name): row for row, name in enumerate(cluster.bundles.bundle)}
        self._broker_index = {broker: row for row, broker in enumerate(cluster.broker_ids)}
        largest_first = np.lexsort([cluster.name_position, -cluster.throughput])
        self._position = _position_of(largest_first)
        self._is_movable: Bools = cluster.is_at_rest & ~cluster.rows_where(is_pinned)
        self._excluded = frozenset(settings.shedding_excluded_namespaces)
        self._smoothed: Mapping[str, float] = {}

    def run_cycle(self) -> str | None:
        """Decide and carry out one cycle; return None, or why nothing moved."""
        cluster = self._cluster
        view = ThresholdView(
            usages=self._by_name(cluster.weighted_usage(self._settings, counts_heap=False).tolist()),
            throughputs=self._by_name(cluster.throughputs().tolist()),
            bundle_counts=self._by_name(cluster.bundle_counts().tolist()),
            rank_bundles=self._rank,
        )
        outcome = shed_by_threshold(view, self._smoothed, self._settings)
        self._smoothed = outcome.usages
        self._placement.begin_cycle()
        moved = [self._unload(bundle) for chosen in outcome.unloads.values() for bundle in chosen]
        if any(moved):
            return None
        return (
            "no bundle that it would unload has a better place" if moved else "no broker is far enough above the mean"
        )

    def explain(self) -> list[str]:
        return []

    def _unload(self, bundle: str) -> bool:
        if namespace_of(bundle) in self._excluded:
            return False
        row = self._bundle_row[bundle]
        destination = self._placement.select(row)
        if destination is None:
            return False
        self._placement.place(row, destination)
        return True

    def _rank(self, broker: str) -> Iterator[tuple[str, float]]:
        """A broker's bundles, largest first; the caller looks at only a few."""
        rows = self._cluster.owned_rows(self._broker_index[broker], self._position, self._is_movable)
        names, sizes = self._cluster.bundles.bundle, self._cluster.throughput
        return ((str(names[row]), float(sizes[row])) for row in rows)

    def _by_name(self, values: list[Number]) -> dict[str, Number]:
        return dict(zip(self._cluster.broker_ids, values, strict=True))


def _report_order(cluster: SimulatedCluster) -> Ints:
    """Each bundle's position in Pulsar's order of top bundles: largest first, ties by name."""
    bundles = cluster.bundles
    keys = [
        _round_half_up(bundles.throughput_in / THROUGHPUT_STEP),
        _round_half_up(bundles.throughput_out / THROUGHPUT_STEP),
        _round_half_up(bundles.msg_rate_millis / MILLI / MSG_RATE_STEP),
        (bundles.topics + bundles.sessions) // TOPICS_AND_SESSIONS_STEP,
    ]
    # lexsort sorts by its last key first.
    return _position_of(np.lexsort([cluster.name_position, *(-key for key in reversed(keys))]))


def _round_half_up(values: Floats) -> Ints:
    return np.floor(values + 0.5).astype(np.int64)


def _position_of(order: npt.NDArray[np.intp]) -> Ints:
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    return position
