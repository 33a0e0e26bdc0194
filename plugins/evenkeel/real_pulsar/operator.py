"""What an operator does to real brokers by hand: namespaces, and bundles put where they are wanted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import cycle, pairwise
from typing import Any

import httpx

from evenkeel.adapters.pulsar_admin import PulsarAdmin
from evenkeel.model.bundles import is_system_namespace
from evenkeel.model.errors import EvenkeelError, UnavailableError
from evenkeel.real_pulsar.cluster import RealCluster

CALL_TIMEOUT_S = 60.0
PLACE_DEADLINE_S = 90.0
POLL_S = 0.25
HTTP_CONFLICT = 409


class Operator:
    """The admin calls of a person at the terminal; knows nothing of plans."""

    def __init__(self, cluster: RealCluster, client: httpx.Client, admin: PulsarAdmin) -> None:
        self._cluster = cluster
        self._client = client
        self._admin = admin

    def make_namespace(self, namespace: str, bundles: int) -> list[str]:
        """Make a namespace, and its tenant if need be; answers its bundles."""
        tenant = namespace.partition("/")[0]
        self._put(f"/admin/v2/tenants/{tenant}", {"allowedClusters": [self._cluster.shape.cluster]})
        self._put(f"/admin/v2/namespaces/{namespace}", {"bundles": {"numBundles": bundles}})
        return self.bundles(namespace)

    def bundles(self, namespace: str) -> list[str]:
        points = self._get(self._anyone, f"/admin/v2/namespaces/{namespace}/bundles")["boundaries"]
        return [f"{namespace}/{lower}_{upper}" for lower, upper in pairwise(points)]

    def owners(self) -> Mapping[str, str]:
        """Who owns which bundle by the brokers' own word; heartbeats and the like left out."""
        found: dict[str, str] = {}
        for address in self._cluster.serving:
            path = f"/admin/v2/brokers/{self._cluster.shape.cluster}/{address.broker_id}/ownedNamespaces"
            listed = self._get(address.web_url, path)
            found |= {b: address.broker_id for b in listed if not is_system_namespace(b.rpartition("/")[0])}
        return found

    def place(self, bundles: Sequence[str], brokers: Sequence[str]) -> None:
        """Put bundles on brokers in turn, and wait until they are served there."""
        wanted = dict(zip(bundles, cycle(brokers), strict=False))
        for bundle, broker in wanted.items():
            self._eventually(partial(self._send, bundle, broker), f"{bundle} is not on {broker}")

    def unload(self, bundle: str) -> None:
        """Cut a bundle's clients off; whoever looks it up next makes the cluster choose an owner."""
        self._admin.unload(bundle, self.owners()[bundle])

    def _send(self, bundle: str, broker: str) -> bool:
        """Whether a bundle is where it should be; if not, it is asked to go there."""
        try:
            owner = self._admin.lookup(bundle, broker)
            if owner is not None and owner != broker:
                self._admin.transfer(bundle, owner, broker)
        except EvenkeelError:
            # Brokers that have just begun to serve refuse some calls for a moment.
            return False
        return self.owners().get(bundle) == broker

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
            raise UnavailableError(f"GET {path} was not answered ({error})", "see the broker's log") from error
        if not answer.is_success:
            raise UnavailableError(f"GET {path} answered {answer.status_code}", "see the broker's log")
        return answer.json()

    def _eventually(self, is_done: Callable[[], bool], complaint: str) -> None:
        deadline_s = time.monotonic() + PLACE_DEADLINE_S
        while not is_done():
            if time.monotonic() > deadline_s:
                raise UnavailableError(f"{complaint} within {PLACE_DEADLINE_S:.0f} s", "see the brokers' logs")
            time.sleep(POLL_S)


@contextmanager
def operating(cluster: RealCluster) -> Iterator[Operator]:
    """An operator at a running cluster."""
    urls = {address.broker_id: address.web_url for address in cluster.brokers}
    with (
        httpx.Client(timeout=CALL_TIMEOUT_S, trust_env=False) as client,
        PulsarAdmin(urls, CALL_TIMEOUT_S) as admin,
    ):
        yield Operator(cluster, client, admin)
