"""What an operator does with real brokers by hand: create namespaces, place and unload bundles."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import cycle, pairwise
from typing import Any

import httpx

from evenkeel.adapters.brokers.admin_api import PulsarAdmin
from evenkeel.local.real_pulsar.cluster import RealCluster
from evenkeel.model.bundles import is_system_namespace
from evenkeel.model.errors import EvenkeelError, UnavailableError

CALL_TIMEOUT_S = 60.0
PLACE_DEADLINE_S = 90.0
POLL_S = 0.25
ARRIVAL_S = 5.0
HTTP_CONFLICT = 409


class Operator:
    """The admin calls of an operator; plans play no part here."""

    def __init__(self, cluster: RealCluster, client: httpx.Client, admin: PulsarAdmin) -> None:
        self._cluster = cluster
        self._client = client
        self._admin = admin

    def make_namespace(self, namespace: str, bundles: int) -> list[str]:
        """Create a namespace, and its tenant if needed, and return its bundles."""
        tenant = namespace.partition("/")[0]
        self._put(f"/admin/v2/tenants/{tenant}", {"allowedClusters": [self._cluster.shape.cluster]})
        self._put(f"/admin/v2/namespaces/{namespace}", {"bundles": {"numBundles": bundles}})
        return self.bundles(namespace)

    def bundles(self, namespace: str) -> list[str]:
        points = self._get(self._anyone, f"/admin/v2/namespaces/{namespace}/bundles")["boundaries"]
        return [f"{namespace}/{lower}_{upper}" for lower, upper in pairwise(points)]

    def owners(self) -> Mapping[str, str]:
        """Which broker owns each bundle, as the brokers report it; system namespaces are left out."""
        found: dict[str, str] = {}
        for address in self._cluster.serving:
            path = f"/admin/v2/brokers/{self._cluster.shape.cluster}/{address.broker_id}/ownedNamespaces"
            listed = self._get(address.web_url, path)
            found |= {b: address.broker_id for b in listed if not is_system_namespace(b.rpartition("/")[0])}
        return found

    def settings_of_brokers(self, key: str) -> Mapping[str, str]:
        """What each broker says that a setting is at this moment."""
        path = "/admin/v2/brokers/configuration/runtime"
        return {address.broker_id: self._get(address.web_url, path)[key] for address in self._cluster.serving}

    def place(self, bundles: Sequence[str], brokers: Sequence[str]) -> None:
        """Place bundles on brokers in turn, and wait until they are served there."""
        wanted = dict(zip(bundles, cycle(brokers), strict=False))
        for bundle, broker in wanted.items():
            self._eventually(partial(self._send, bundle, broker), f"{bundle} is not on {broker}")

    def unload(self, bundle: str) -> None:
        """Unload a bundle; the next lookup makes the cluster choose an owner."""
        self._admin.unload(bundle, self.owners()[bundle])

    def _send(self, bundle: str, broker: str) -> bool:
        """Whether a bundle is where it should be; if not, request its transfer and give it time to arrive."""
        owner = self.owners().get(bundle)
        if owner == broker:
            return True
        try:
            if owner is not None:
                self._admin.transfer(bundle, owner, broker)
            deadline_s = time.monotonic() + ARRIVAL_S
            while owner != broker and time.monotonic() < deadline_s:
                # On modular clusters a lookup completes the transfer; what it answers may be out of date.
                self._admin.enforce_destination(bundle, broker)
                time.sleep(POLL_S)
                owner = self.owners().get(bundle)
        except EvenkeelError:
            # Brokers refuse some calls for a moment after they have started.
            return False
        return owner == broker

    @property
    def _anyone(self) -> str:
        return self._cluster.serving[0].web_url

    def _put(self, path: str, body: Mapping[str, Any]) -> None:
        def is_there() -> bool:
            answer = self._client.put(self._anyone + path, json=body)
            return answer.is_success or answer.status_code == HTTP_CONFLICT

        self._eventually(is_there, f"PUT {path} was refused")

    def _get(self, url: str, path: str) -> Any:
        try:
            answer = self._client.get(url + path)
        except httpx.HTTPError as error:
            raise UnavailableError(f"no response to GET {path} ({error})", "read the broker's log") from error
        if not answer.is_success:
            raise UnavailableError(f"GET {path} failed with status {answer.status_code}", "read the broker's log")
        return answer.json()

    def _eventually(self, is_done: Callable[[], bool], complaint: str) -> None:
        deadline_s = time.monotonic() + PLACE_DEADLINE_S
        while not is_done():
            if time.monotonic() > deadline_s:
                raise UnavailableError(f"{complaint} within {PLACE_DEADLINE_S:.0f} s", "read the brokers' logs")
            time.sleep(POLL_S)


@contextmanager
def operating(cluster: RealCluster) -> Iterator[Operator]:
    """Open an operator's connections to a running cluster."""
    urls = {address.broker_id: address.web_url for address in cluster.brokers}
    with (
        httpx.Client(timeout=CALL_TIMEOUT_S, trust_env=False) as client,
        PulsarAdmin(urls, CALL_TIMEOUT_S) as admin,
    ):
        yield Operator(cluster, client, admin)
