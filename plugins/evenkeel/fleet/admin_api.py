"""How a simulated broker handles Pulsar's admin and lookup requests."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from evenkeel.fleet import documents, http_documents
from evenkeel.fleet.broker import SimulatedBroker
from evenkeel.fleet.cluster import Cluster
from evenkeel.fleet.load_manager import HttpError, LoadManager, UnexpectedServerError
from evenkeel.fleet.modular import WHOLE_RING, ModularLoadManager
from evenkeel.fleet.settings import LoadManagerKind
from evenkeel.model.bundles import BundleName, ranges_between
from evenkeel.model.errors import EvenkeelError, InputError
from evenkeel.pulsar_rules.ring import (
    find_range,
    hash_topic,
    range_equally_divide,
    specified_positions_divide,
    topic_count_equally_divide,
)

NAMESPACE_OWNERSHIP = {"broker_assignment": "shared", "is_controlled": False, "is_active": True}
RANGE_EQUALLY, TOPIC_COUNT_EQUALLY = "range_equally_divide", "topic_count_equally_divide"
SPECIFIED_POSITIONS, FLOW_OR_QPS_EQUALLY = "specified_positions_divide", "flow_or_qps_equally_divide"
SPLIT_ALGORITHMS = (RANGE_EQUALLY, TOPIC_COUNT_EQUALLY, SPECIFIED_POSITIONS, FLOW_OR_QPS_EQUALLY)
# A redirect is authoritative if the redirecting broker has decided which broker handles the request.
AUTHORITATIVE = {"authoritative": "true"}
NOT_AUTHORITATIVE = {"authoritative": "false"}
_TOPIC = "(?P<domain>persistent|non-persistent)/(?P<tenant>[^/]+)/(?P<local>[^/]+)/(?P<topic>.+)"
_BUNDLE = r"(?P<tenant>[^/]+)/(?P<local>[^/]+)/(?P<range>0x[0-9a-fA-F]{8}_0x[0-9a-fA-F]{8})"


@dataclass(frozen=True, slots=True)
class Request:
    """One request to one broker."""

    method: str
    broker: SimulatedBroker
    path: str
    query: Mapping[str, str]
    body: bytes = b""
    groups: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Response:
    """A status with a body (plain text or JSON) or a redirect."""

    status: int
    body: Any = None
    location: str | None = None


class AdminApi:
    """Routes requests to their handlers."""

    def __init__(self, cluster: Cluster, manager: LoadManager) -> None:
        self._cluster = cluster
        self._manager = manager
        routes: Sequence[tuple[str, str, Callable[[Request], Response]]] = (
            ("GET", "/admin/v2/broker-stats/topics", self._topics),
            ("GET", "/admin/v2/broker-stats/metrics", self._metrics),
            ("GET", "/admin/v2/broker-stats/load-report", self._load_report),
            ("GET", "/admin/v2/brokers/configuration/runtime", self._runtime_configuration),
            ("GET", "/admin/v2/brokers/configuration/values", self._configuration_values),
            ("GET", "/admin/v2/brokers/leaderBroker", self._leader),
            ("GET", "/admin/v2/brokers/health", lambda _: Response(200, "ok")),
            ("GET", "/admin/v2/brokers(/[^/]+)?", self._brokers),
            ("GET", "/admin/v2/brokers/[^/]+/(?P<broker>[^/]+)/ownedNamespaces", self._owned_namespaces),
            ("GET", "/admin/v2/namespaces/(?P<tenant>[^/]+)/(?P<local>[^/]+)/bundles", self._bundles),
            ("GET", f"/admin/v2/namespaces/{_BUNDLE}/topicHashPositions", self._topic_hash_positions),
            ("PUT", f"/admin/v2/namespaces/{_BUNDLE}/unload", self._unload),
            ("PUT", f"/admin/v2/namespaces/{_BUNDLE}/split", self._split),
            ("GET", f"/lookup/v2/topic/{_TOPIC}", self._look_up),
        )
        self._routes = [(method, re.compile(pattern), handle) for method, pattern, handle in routes]

    def handle(self, request: Request) -> Response:
        """Return the response to a request; mistakes of the caller become error responses, never exceptions."""
        try:
            for method, pattern, handle in self._routes:
                match = pattern.fullmatch(request.path)
                if match and method == request.method:
                    groups = {name: value for name, value in match.groupdict().items() if value is not None}
                    return handle(
                        Request(request.method, request.broker, request.path, request.query, request.body, groups)
                    )
        except HttpError as error:
            return Response(error.status, {"reason": error.reason})
        except (KazooException, KazooTimeoutError, EvenkeelError) as error:
            return Response(500, {"reason": str(error) or type(error).__name__})
        return Response(404, {"reason": f"HTTP 404 Not Found: {request.method} {request.path}"})

    def _topics(self, request: Request) -> Response:
        broker = request.broker
        owned = self._manager.served_by(broker)
        return Response(
            200, http_documents.broker_topics(owned, self._cluster.catalogue, self._cluster.traffic, broker.started_s)
        )

    def _metrics(self, request: Request) -> Response:
        broker = request.broker
        usage = self._cluster.traffic.broker_usage(broker.id, self._manager.served_by(broker))
        kind = self._cluster.settings.load_manager
        return Response(200, http_documents.metrics(broker.id, usage, kind, broker.assignments))

    def _load_report(self, request: Request) -> Response:
        if not isinstance(self._manager, ModularLoadManager):
            raise UnexpectedServerError("null\n\nStacktrace:\n\njava.lang.UnsupportedOperationException")
        return Response(200, self._manager.reports.build(request.broker))

    def _runtime_configuration(self, request: Request) -> Response:
        settings, dynamic = self._cluster.settings, self._cluster.configuration
        return Response(200, http_documents.runtime_configuration(settings, dynamic, request.broker.policy))

    def _configuration_values(self, _request: Request) -> Response:
        return Response(200, dict(self._cluster.configuration))

    def _leader(self, _request: Request) -> Response:
        leader = self._cluster.leader
        if leader is None:
            raise HttpError(404, "Couldn't find leader broker")
        return Response(200, documents.leader(leader.id, leader.web_url))

    def _brokers(self, _request: Request) -> Response:
        return Response(200, sorted(self._cluster.registered))

    def _owned_namespaces(self, request: Request) -> Response:
        wanted = self._cluster.alive(request.groups["broker"])
        if wanted is None:
            raise HttpError(404, f"Broker id '{request.groups['broker']}' not found in available brokers.")
        if wanted.id != request.broker.id:
            return _redirect(request, wanted, request.query)
        # A modular broker owns its SLA monitor only after a client has asked for it, which never happens here.
        pinned = ("pulsar",) if self._is_modular else ("pulsar", "sla-monitor")
        owned = {*self._manager.served_by(wanted), *(f"{tenant}/{wanted.id}/{WHOLE_RING}" for tenant in pinned)}
        return Response(200, {bundle: dict(NAMESPACE_OWNERSHIP) for bundle in sorted(owned)})

    def _bundles(self, request: Request) -> Response:
        points = self._boundaries(f"{request.groups['tenant']}/{request.groups['local']}")
        return Response(200, documents.bundles_data(points))

    def _topic_hash_positions(self, request: Request) -> Response:
        bundle = self._bundle(request)
        owner = self._cluster.alive(self._manager.responsible_for(str(bundle)))
        if owner is not None and owner.id != request.broker.id:
            return _redirect(request, owner, {**request.query, **AUTHORITATIVE})
        positions = {topic.name: topic.hash for topic in self._cluster.catalogue.topics_of(str(bundle))}
        body = {"namespace": bundle.namespace, "bundle": str(bundle.range), "topicHashPositions": positions}
        return Response(200, body)

    def _look_up(self, request: Request) -> Response:
        _require_session(request.broker)
        namespace = f"{request.groups['tenant']}/{request.groups['local']}"
        topic = f"{request.groups['domain']}://{namespace}/{request.groups['topic']}"
        bundle = f"{namespace}/{find_range(self._boundaries(namespace), hash_topic(topic))}"
        if isinstance(self._manager, ModularLoadManager) and self._manager.owner_of(bundle) is None:
            former = self._manager.stale_owner(request.broker, bundle)
            if former is not None:
                return _found_at(self._cluster.brokers[former])
            elsewhere = self._choose_owner(self._manager, request, bundle)
            if elsewhere is not None:
                return elsewhere
        owner = self._cluster.brokers.get(self._manager.look_up(request.broker, bundle) or "")
        if owner is None:
            raise HttpError(503, f"No broker was available to own {bundle}")
        return _found_at(owner)

    def _choose_owner(self, manager: ModularLoadManager, request: Request, bundle: str) -> Response | None:
        """Redirect a lookup to the leader, which chooses an owner, then to the owner; None if this broker owns it."""
        asked = request.broker
        if request.query.get("authoritative") == "true":
            manager.take(asked, bundle)
            return None
        leader = self._cluster.leader or asked
        if leader.id != asked.id:
            return _redirect(request, leader, NOT_AUTHORITATIVE)
        chosen = manager.choose(asked, bundle)
        if chosen is not None and chosen.id != asked.id:
            return _redirect(request, chosen, AUTHORITATIVE)
        if chosen is not None:
            manager.take(asked, bundle)
        return None

    def _unload(self, request: Request) -> Response:
        _require_session(request.broker)
        destination = request.query.get("destinationBroker") or None
        if destination and destination not in self._cluster.registered:
            raise HttpError(409, "Not allowed unload namespace bundle to inactive destination broker")
        if destination and self._is_modular:
            leader = self._cluster.leader
            if leader is None:
                raise HttpError(503, "there is no leader now; try again")
            if leader.id != request.broker.id:
                return _redirect(request, leader, {**request.query, **NOT_AUTHORITATIVE})
        bundle = str(self._bundle(request))
        onward = {**request.query, **AUTHORITATIVE}
        if destination and isinstance(self._manager, ModularLoadManager):
            # The leader remembers the destination; the owner gets a plain unload.
            self._manager.hint(bundle, destination)
            destination = None
            del onward["destinationBroker"]
        owner = self._cluster.alive(self._manager.responsible_for(bundle))
        if owner is not None and owner.id != request.broker.id:
            return _redirect(request, owner, onward)
        if owner is not None:
            self._manager.unload(owner, bundle, destination)
        return Response(204)

    def _split(self, request: Request) -> Response:
        _require_session(request.broker)
        algorithm = request.query.get("splitAlgorithmName") or RANGE_EQUALLY
        if algorithm not in SPLIT_ALGORITHMS:
            known = ", ".join(SPLIT_ALGORITHMS)
            raise HttpError(412, f"Unsupported namespace bundle split algorithm, supported algorithms are [{known}]")
        positions = _read_positions(request.body)
        if algorithm == SPECIFIED_POSITIONS and not positions:
            raise HttpError(412, f"With {algorithm} split algorithm, splitBoundaries must not be empty")
        bundle = self._bundle(request)
        owner = self._cluster.alive(self._manager.responsible_for(str(bundle)))
        if owner is None:
            raise HttpError(412, f"Failed to find ownership for {bundle}")
        if owner.id != request.broker.id:
            return _redirect(request, owner, {**request.query, **AUTHORITATIVE})
        cuts = self._find_cuts(bundle, algorithm, positions)
        if cuts:
            self._manager.split(owner, str(bundle), cuts, request.query.get("unload") == "true")
        elif not self._is_modular:
            raise UnexpectedServerError(f"Bundle {bundle} not found under namespace")
        # A modular broker that finds no position to cut at does nothing and reports success.
        return Response(204)

    def _find_cuts(self, bundle: BundleName, algorithm: str, positions: Sequence[int]) -> list[int]:
        hashes = [topic.hash for topic in self._cluster.catalogue.topics_of(str(bundle))]
        if algorithm == RANGE_EQUALLY:
            return range_equally_divide(bundle.range)
        if algorithm == TOPIC_COUNT_EQUALLY:
            return topic_count_equally_divide(hashes)
        if algorithm == SPECIFIED_POSITIONS:
            return specified_positions_divide(bundle.range, positions, len(hashes))
        raise HttpError(501, f"simulated brokers do not support {algorithm}")

    def _bundle(self, request: Request) -> BundleName:
        groups = request.groups
        namespace = f"{groups['tenant']}/{groups['local']}"
        self._boundaries(namespace)
        text = f"{namespace}/{groups['range']}"
        try:
            bundle = BundleName.parse(text)
        except InputError as error:
            raise HttpError(412, str(error)) from error
        if not self._cluster.catalogue.has(text):
            raise HttpError(412, self._explain_unknown_bundle(bundle))
        return bundle

    def _explain_unknown_bundle(self, bundle: BundleName) -> str:
        points = self._boundaries(bundle.namespace)
        meant = next((part for part in ranges_between(points) if part.lower == bundle.range.lower), None)
        if meant is None:
            return f"Cannot find bundle {bundle} in the bundles list"
        return f"Invalid upper boundary for bundle {bundle}. Expected upper boundary of {bundle.namespace}/{meant}"

    @property
    def _is_modular(self) -> bool:
        return self._cluster.settings.load_manager is LoadManagerKind.MODULAR

    def _boundaries(self, namespace: str) -> tuple[int, ...]:
        points = self._cluster.catalogue.boundaries(namespace)
        if points is None:
            raise HttpError(404, "Namespace not found")
        return points


def _redirect(request: Request, broker: SimulatedBroker, query: Mapping[str, str]) -> Response:
    return Response(307, location=broker.web_url + request.path + (f"?{urlencode(query)}" if query else ""))


def _found_at(owner: SimulatedBroker) -> Response:
    body = {"brokerUrl": owner.service_url, "httpUrl": owner.web_url, "nativeUrl": owner.service_url}
    return Response(200, {**body, "brokerUrlSsl": ""})


def _require_session(broker: SimulatedBroker) -> None:
    if not broker.is_alive:
        raise HttpError(503, f"{broker.id} has no ZooKeeper session now; try again")


def _read_positions(body: bytes) -> list[int]:
    try:
        positions = json.loads(body or b"[]")
    except ValueError as error:
        raise HttpError(400, "the body is not a JSON array of positions") from error
    if not isinstance(positions, list) or not all(type(position) is int for position in positions):
        raise HttpError(400, "the body is not a JSON array of positions")
    return positions
