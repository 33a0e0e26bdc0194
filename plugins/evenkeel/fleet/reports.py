"""Load reports of the modular load manager: written when the load changed enough, or the last report is old."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from evenkeel.fleet.broker import SimulatedBroker
from evenkeel.fleet.cluster import Cluster
from evenkeel.fleet.documents import encode, local_broker_data
from evenkeel.fleet.traffic import BrokerUsage
from evenkeel.model.errors import UnavailableError

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Sent:
    """The parts of the last report that decide whether the next one is due."""

    at_s: float
    message_rate: float
    throughput: float
    highest_share: float
    bundles: frozenset[str]


class LoadReports:
    """Writes every broker's LocalBrokerData by Pulsar's rules of change and age."""

    def __init__(self, cluster: Cluster, owners: Callable[[], Mapping[str, str]]) -> None:
        self._cluster = cluster
        self._owners = owners
        self._sent: dict[str, _Sent] = {}
        self._lock = threading.Lock()

    def report_all(self, *, must_write: bool = False) -> None:
        """Write the reports that are due."""
        owned: dict[str, list[str]] = {}
        for bundle, owner in self._owners().items():
            owned.setdefault(owner, []).append(bundle)
        with self._lock:
            for broker in self._cluster.alive_brokers():
                if broker.is_registered and not broker.is_frozen:
                    try:
                        self._report(broker, owned.get(broker.id, []), must_write)
                    except (KazooException, KazooTimeoutError, UnavailableError) as error:
                        _log.debug("%s did not report: %r", broker.id, error)

    def report(self, broker: SimulatedBroker) -> None:
        """Write a broker's report now, due or not."""
        with self._lock:
            if broker.is_registered and not broker.is_frozen:
                owned = [bundle for bundle, owner in self._owners().items() if owner == broker.id]
                self._report(broker, owned, must_write=True)

    def build(self, broker: SimulatedBroker) -> dict[str, Any]:
        """Return the report that a broker would write now."""
        bundles = [bundle for bundle, owner in self._owners().items() if owner == broker.id]
        return self._build(broker, self._planned(bundles))

    def forget(self, broker_id: str) -> None:
        """Forget the last report of a broker, so that the next one is due at once."""
        self._sent.pop(broker_id, None)

    def _planned(self, bundles: list[str]) -> list[str]:
        # The heartbeat bundle has no load and is not reported.
        return sorted(bundle for bundle in bundles if self._cluster.catalogue.has(bundle))

    def _report(self, broker: SimulatedBroker, owned: list[str], must_write: bool) -> None:
        bundles = self._planned(owned)
        usage = self._cluster.traffic.broker_usage(broker.id, bundles)
        if must_write or self._is_due(broker.id, usage, len(bundles)):
            document = self._build(broker, bundles)
            broker.client.set(self._cluster.paths.broker(broker.id), encode(document))
            broker.reported_s = self._cluster.clock()
            self._sent[broker.id] = _Sent(
                self._cluster.clock(),
                usage.load.message_rate_in + usage.load.message_rate_out,
                usage.load.throughput_in + usage.load.throughput_out,
                usage.highest_share,
                frozenset(bundles),
            )

    def _is_due(self, broker_id: str, usage: BrokerUsage, bundles: int) -> bool:
        sent = self._sent.get(broker_id)
        if sent is None or self._cluster.clock() - sent.at_s > self._cluster.settings.report_max_interval_s:
            return True
        load = usage.load
        change = max(
            _percent_change(sent.message_rate, load.message_rate_in + load.message_rate_out),
            _percent_change(sent.throughput, load.throughput_in + load.throughput_out),
            _percent_change(len(sent.bundles), bundles),
            100.0 * abs(usage.highest_share - sent.highest_share),
        )
        return change > self._cluster.settings.report_threshold_percent

    def _build(self, broker: SimulatedBroker, bundles: list[str]) -> dict[str, Any]:
        loads = self._cluster.traffic.bundle_loads()
        sent = self._sent.get(broker.id)
        before = sent.bundles if sent else frozenset()
        return local_broker_data(
            broker.id,
            broker.web_url,
            broker.started_ms,
            self._cluster.now_ms,
            self._cluster.traffic.broker_usage(broker.id, bundles),
            {bundle: loads[bundle] for bundle in bundles if bundle in loads},
            gains=sorted(set(bundles) - before),
            losses=sorted(before - set(bundles)),
            version=self._cluster.settings.broker_version,
        )


def _percent_change(before: float, now: float) -> float:
    if before == 0:
        return 0.0 if now == 0 else math.inf
    return 100.0 * abs(now - before) / before
