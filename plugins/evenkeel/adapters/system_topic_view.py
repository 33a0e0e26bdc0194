"""The writer's view of a cluster that keeps ownership in a topic: brokers tell themselves what they own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from evenkeel.adapters.broker_http import BrokerHttp
from evenkeel.adapters.cluster_view import ServiceUnitOwnership, ZooKeeperClusterView
from evenkeel.adapters.json_documents import JsonObject
from evenkeel.adapters.native_balancer import NativeBalancer
from evenkeel.adapters.registrations import Registration
from evenkeel.adapters.zookeeper import ZooKeeperSession
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import UnavailableError
from evenkeel.model.observation import BundleView
from evenkeel.model.service_unit import ServiceUnitState

ATTEMPTS = 10
RETRY_DELAY_S = 1.0
POLL_INTERVAL_S = 0.5


class SystemTopicClusterView(ZooKeeperClusterView):
    """Registrations, policies and the kill switch from ZooKeeper; owners from every broker's own list.

    A list cannot be watched, so the bundles that were looked at count as changed at every poll. A bundle that two
    brokers list is on its way between them. One that nobody lists is without an owner only if everybody answered.
    """

    def __init__(
        self,
        session: ZooKeeperSession,
        configuration: ZooKeeperSession,
        connection: ClusterConnection,
        http: BrokerHttp,
        registrations: Callable[[], Sequence[Registration]],
        sleep: Callable[[float], None] = time.sleep,
        native: NativeBalancer | None = None,
    ) -> None:
        super().__init__(session, configuration, connection, ServiceUnitOwnership(connection.pulsar_root), native)
        self._cluster = connection.cluster
        self._http = http
        self._registrations = registrations
        self._sleep = sleep
        self._watched: set[str] = set()

    def look(self, bundles: Sequence[str]) -> Mapping[str, BundleView]:
        if not bundles:
            return {}
        owners = self._read_owners(frozenset(bundles))
        self._watched.update(bundles)
        return {bundle: _view(bundle, owners.get(bundle, [])) for bundle in bundles}

    def next_changes(self, timeout_s: float) -> frozenset[str]:
        self._sleep(min(timeout_s, POLL_INTERVAL_S))
        return frozenset(self._watched)

    def _read_owners(self, wanted: frozenset[str]) -> dict[str, list[str]]:
        """Who lists which of the bundles; a broker that does not answer may be about to be deregistered."""
        silent: list[str] = []
        for attempt in range(ATTEMPTS):
            if attempt:
                self._sleep(RETRY_DELAY_S)
            owners, silent = self._ask(wanted)
            if not silent or wanted <= owners.keys():
                return owners
        raise UnavailableError(
            f"broker {silent[0]} does not tell which bundles it owns", "see that it answers, then apply the plan again"
        )

    def _ask(self, wanted: frozenset[str]) -> tuple[dict[str, list[str]], list[str]]:
        brokers = self._registrations()
        path = f"/admin/v2/brokers/{self._cluster}/{{}}/ownedNamespaces"
        answers = self._http.fetch([broker.web_url + path.format(broker.broker_id) for broker in brokers])
        owners: dict[str, list[str]] = {}
        silent = []
        for broker, answer in zip(brokers, answers, strict=True):
            if answer.body is None:
                silent.append(broker.broker_id)
                continue
            listed = JsonObject.decode(answer.body, f"broker {broker.broker_id}: ownedNamespaces")
            for bundle in wanted.intersection(listed.names()):
                owners.setdefault(bundle, []).append(broker.broker_id)
        return owners, silent


def _view(bundle: str, owners: Sequence[str]) -> BundleView:
    match owners:
        case []:
            return BundleView(bundle, ServiceUnitState.INIT, None)
        case [owner]:
            return BundleView(bundle, ServiceUnitState.OWNED, owner)
        case _:
            return BundleView(bundle, ServiceUnitState.RELEASING, None)
