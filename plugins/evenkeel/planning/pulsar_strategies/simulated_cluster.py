"""The cluster on which Pulsar's own strategies are simulated: reported load follows at once when a bundle moves.

Sums are kept in the planner's integers and converted to Pulsar's percentages, with the same 32-bit rounding. Brokers
are the live ones, sorted by name; bundles without a live owner are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from evenkeel.model.load import BYTES_PER_KILOBIT, MILLI
from evenkeel.model.policies import Policies
from evenkeel.model.pulsar_settings import PulsarSettings
from evenkeel.model.service_unit import ServiceUnitState
from evenkeel.model.snapshot import Broker
from evenkeel.planning.problem.anti_affinity import DEFAULT_DOMAIN, domains_of, group_of
from evenkeel.planning.problem.columns import Bools, BundleColumns, Floats, Ints
from evenkeel.planning.problem.pools import is_live
from evenkeel.pulsar_rules.auto_thresholds import ClusterTotals
from evenkeel.pulsar_rules.eligibility import Eligibility

NOBODY = -1


class SimulatedCluster:
    """Who owns what at the moment, and what the brokers carry; rows are those of the given bundles."""

    def __init__(self, brokers: Sequence[Broker], bundles: BundleColumns, policies: Policies) -> None:
        order = sorted(
            (row for row, each in enumerate(brokers) if is_live(each)), key=lambda row: brokers[row].broker_id
        )
        self.broker_rows = np.array(order, dtype=np.int64)
        self.brokers = [brokers[row] for row in order]
        self.broker_ids = [broker.broker_id for broker in self.brokers]
        self.policies = policies
        self.eligibility = Eligibility(self.broker_ids, policies)
        self.bundles = bundles
        index = {broker: row for row, broker in enumerate(self.broker_ids)}
        self.owner: Ints = np.array([index.get(owner, NOBODY) for owner in bundles.owner], dtype=np.int64)
        self.first_owner = self.owner.copy()
        self.throughput: Ints = bundles.throughput_in + bundles.throughput_out
        self.times_moved = np.zeros(len(bundles), dtype=np.int64)
        # cpu in millipercent, bytes in, bytes out, thousandths of a message, topics, bundles
        self._loads = np.column_stack(
            [bundles.loads(), bundles.msg_rate_millis, bundles.topics, np.ones(len(bundles), dtype=np.int64)]
        ).reshape(len(bundles), 6)
        self._sums = np.zeros((len(self.brokers), 6), dtype=np.int64)
        owned = self.owner >= 0
        np.add.at(self._sums, self.owner[owned], self._loads[owned])
        self._limits = _limits_of(self.brokers)
        self._memory = _memory_of(self.brokers)

    def move(self, row: int, destination: int) -> None:
        """Give a bundle to another broker."""
        self._sums[self.owner[row]] -= self._loads[row]
        self._sums[destination] += self._loads[row]
        self.owner[row] = destination
        self.times_moved[row] += 1

    def throughputs(self) -> Floats:
        """Bytes per second of each broker, in and out together."""
        return (self._sums[:, 1] + self._sums[:, 2]).astype(np.float64)

    def msg_rates(self) -> Floats:
        """Messages per second of each broker, in and out together."""
        return self._sums[:, 3] / MILLI

    def topics(self) -> Ints:
        return self._sums[:, 4].copy()

    def bundle_counts(self) -> Ints:
        return self._sums[:, 5].copy()

    def weighted_usage(self, settings: PulsarSettings, counts_heap: bool) -> Floats:
        """Weighted usage of each broker, 1 being full: the modular manager's, or with heap the extensible one's."""
        usage = self._sums[:, :3] / np.array([MILLI, BYTES_PER_KILOBIT, BYTES_PER_KILOBIT])
        percents = np.column_stack([_percent(usage, self._limits), self._memory])
        weights = [
            settings.cpu_resource_weight,
            settings.bandwidth_in_resource_weight,
            settings.bandwidth_out_resource_weight,
            settings.direct_memory_resource_weight,
            settings.memory_resource_weight if counts_heap else 0.0,
        ]
        weighted: Floats = (percents * np.array(weights)).max(axis=1, initial=0.0) / 100
        return weighted

    def owned_rows(self, broker: int, position: Ints, movable: Bools) -> Ints:
        """A broker's movable bundles, sorted by the given position of each bundle."""
        rows = np.flatnonzero((self.owner == broker) & movable)
        ordered: Ints = rows[np.argsort(position[rows], kind="stable")]
        return ordered

    def totals(self, settings: PulsarSettings) -> ClusterTotals:
        """The totals that automatic thresholds are derived from."""
        owned = self.owner >= 0
        usage = self.weighted_usage(settings, counts_heap=True)
        return ClusterTotals(
            brokers=len(self.brokers),
            bundles=int(owned.sum()),
            topics=int(self.bundles.topics[owned].sum()),
            sessions=int(self.bundles.sessions[owned].sum()),
            msg_rate_per_s=float(self.bundles.msg_rate_millis[owned].sum()) / MILLI,
            throughput_bytes_per_s=float(self.throughput[owned].sum()),
            mean_weighted_usage=float(usage.mean()) if len(usage) else 0.0,
        )

    @cached_property
    def name_position(self) -> Ints:
        """Each bundle's position in the order of names, which breaks every tie."""
        position = np.empty(len(self.bundles), dtype=np.int64)
        position[np.argsort(self.bundles.bundle.astype(str), kind="stable")] = np.arange(len(self.bundles))
        return position

    @cached_property
    def is_at_rest(self) -> Bools:
        """Bundles that a live broker owns and that are not in flight; only these can be shed."""
        is_owned: Bools = np.asarray(self.bundles.state == ServiceUnitState.OWNED, dtype=bool)
        return (self.owner >= 0) & is_owned

    @cached_property
    def groups(self) -> dict[str, str]:
        """The anti-affinity group of each namespace that has one."""
        found = {name: group_of(name, self.policies) for name in self.policies.anti_affinity}
        return {name: group for name, group in found.items() if group is not None}

    @cached_property
    def domains(self) -> dict[str, str]:
        """The failure domain of each broker that has one."""
        named = zip(self.broker_ids, domains_of(self.brokers, self.policies), strict=True)
        return {broker: domain for broker, domain in named if domain != DEFAULT_DOMAIN}

    @cached_property
    def rows_by_namespace(self) -> dict[str, list[int]]:
        rows: dict[str, list[int]] = {}
        for row, name in enumerate(self.bundles.namespace):
            rows.setdefault(str(name), []).append(row)
        return rows

    def rows_where(self, holds: Callable[[str], bool]) -> Bools:
        """The bundles of the namespaces that satisfy a predicate."""
        chosen = np.zeros(len(self.bundles), dtype=bool)
        for namespace, rows in self.rows_by_namespace.items():
            chosen[rows] = holds(namespace)
        return chosen


def _limits_of(brokers: Sequence[Broker]) -> Floats:
    limits = [(each.cpu_limit_percent, each.bandwidth_in_limit_kbps, each.bandwidth_out_limit_kbps) for each in brokers]
    return np.array([[limit or 0.0 for limit in row] for row in limits], dtype=np.float64).reshape(len(brokers), 3)


def _memory_of(brokers: Sequence[Broker]) -> Floats:
    """Direct and heap memory in percent. They stay as measured, because their use is not known per bundle."""
    usage = [(each.direct_memory_usage_mib or 0.0, each.memory_usage_mib or 0.0) for each in brokers]
    limit = [(each.direct_memory_limit_mib or 0.0, each.memory_limit_mib or 0.0) for each in brokers]
    shape = (len(brokers), 2)
    return _percent(np.array(usage).reshape(shape), np.array(limit).reshape(shape))


def _percent(usage: Floats, limit: Floats) -> Floats:
    """Usage in percent as Pulsar computes it, in 32 bits; 0 if the limit is unknown."""
    known = limit > 0
    divisor = np.where(known, limit, 1.0).astype(np.float32)
    percent = usage.astype(np.float32) / divisor * np.float32(100)
    return np.where(known, percent, np.float32(0)).astype(np.float64)
