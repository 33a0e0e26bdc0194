"""Who owns which bundle, by the kind of cluster: service-unit records, ephemeral nodes, or each broker's own list.

Snapshots and the writer's views decode ownership here, so that both always see the same owner.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from evenkeel.adapters.brokers.broker_http import BrokerHttp
from evenkeel.adapters.cluster.json_documents import JsonObject
from evenkeel.adapters.cluster.load_reports import Change, parse_range
from evenkeel.adapters.cluster.registrations import Registration
from evenkeel.adapters.cluster.source import ClusterSource
from evenkeel.adapters.zookeeper.nodes import ZNode, ZNodeTree
from evenkeel.adapters.zookeeper.paths import PulsarPaths
from evenkeel.model.bundles import BundleRange, is_system_namespace, is_v1_namespace
from evenkeel.model.errors import InputError
from evenkeel.model.service_unit import ServiceUnitRecord, ServiceUnitState
from evenkeel.model.snapshot import LoadManager

SYSTEM_NAMESPACE = "pulsar/system"
# What Pulsar itself takes for a bundle; it ignores any other name.
_RANGE_NAME = re.compile(r"0x[0-9a-fA-F]{8}_0x[0-9a-fA-F]{8}")


@dataclass(frozen=True, slots=True)
class Claim:
    """What is known of a bundle's owner.

    `parties` may all report its load, since it may be changing hands; a `rival` says that it owns it too. `session_id`
    is the ZooKeeper session that the claim ends with, 0 where it ends with none.
    """

    origin: str
    state: ServiceUnitState
    owner: str | None
    parties: frozenset[str]
    change: Change
    version_id: int | None = None
    znode_version: int | None = None
    rival: str | None = None
    session_id: int = 0
    record: ServiceUnitRecord | None = None


@dataclass(frozen=True, slots=True)
class NamespaceClaims:
    """The claims of a namespace; `change` is the last time that one came or went."""

    claims: Mapping[BundleRange, Claim]
    change: Change
    ignored: tuple[str, ...] = ()


class OwnershipSource(Protocol):
    """Where the claims of a cluster are found."""

    def namespaces(self) -> list[str]:
        """Namespaces that have claims."""
        ...

    def claims(self, namespaces: Sequence[str]) -> list[NamespaceClaims]: ...


def ownership_source(
    source: ClusterSource, kind: LoadManager, cluster: str, registrations: Sequence[Registration]
) -> OwnershipSource:
    """Where a cluster of this kind keeps its claims."""
    if kind is LoadManager.EXTENSIBLE_SYSTEM_TOPIC:
        return HttpOwnership(source.http, cluster, registrations)
    return NodeOwnership(source.tree, ownership_nodes(source.pulsar, kind, registrations))


@dataclass(frozen=True, slots=True)
class OwnershipNodes:
    """Ownership that is kept as one node a bundle: where the nodes are, and what one says."""

    base: str
    decode: Callable[[ZNode], Claim]

    def path(self, bundle: str) -> str:
        return f"{self.base}/{bundle}"


def ownership_nodes(paths: PulsarPaths, kind: LoadManager, registrations: Sequence[Registration]) -> OwnershipNodes:
    """The ownership nodes of a kind of cluster."""
    if kind is not LoadManager.MODULAR:
        return OwnershipNodes(paths.owners(kind), decode_record)
    brokers = {url: r.broker_id for r in registrations for url in r.urls}
    return OwnershipNodes(paths.owners(kind), lambda node: decode_ephemeral(node, brokers))


def fetch_owned(http: BrokerHttp, cluster: str, registrations: Sequence[Registration]) -> list[JsonObject | None]:
    """The bundles that each broker lists as its own, in the order of the brokers; None for one that does not answer."""
    path = f"/admin/v2/brokers/{cluster}/{{}}/ownedNamespaces"
    answers = http.fetch([r.web_url + path.format(r.broker_id) for r in registrations])
    return [
        None
        if answer.body is None
        else JsonObject.decode(answer.body, f"broker {r.broker_id}: {path.format(r.broker_id)}")
        for r, answer in zip(registrations, answers, strict=True)
    ]


def is_pinned(namespace: str) -> bool:
    """Whether a namespace belongs to one broker's heartbeat or SLA monitor, and so is no load to speak of."""
    return is_system_namespace(namespace) and namespace != SYSTEM_NAMESPACE


def is_heartbeat(path: str) -> bool:
    """Whether a path ends in the V1 name of a broker's heartbeat or SLA monitor: tenant/cluster/broker id."""
    return is_pinned("/".join(path.split("/")[-3:]))


class NodeOwnership:
    """Claims that are nodes, one a bundle, three levels below a base."""

    def __init__(self, tree: ZNodeTree, nodes: OwnershipNodes) -> None:
        self._tree = tree
        self._nodes = nodes

    def namespaces(self) -> list[str]:
        return list_namespaces(self._tree, self._nodes.base)

    def claims(self, namespaces: Sequence[str]) -> list[NamespaceClaims]:
        listed = self._tree.children([self._nodes.path(namespace) for namespace in namespaces])
        ranges = [[n for n in c.names if _RANGE_NAME.fullmatch(n)] if c else [] for c in listed]
        paths = [
            self._nodes.path(f"{namespace}/{name}")
            for namespace, names in zip(namespaces, ranges, strict=True)
            for name in names
        ]
        nodes = iter(self._tree.get(paths))
        found = []
        for namespace, names, children in zip(namespaces, ranges, listed, strict=True):
            path = self._nodes.path(namespace)
            # One answer for each name that was asked for; a node that has gone meanwhile is no claim.
            answers = [(name, next(nodes)) for name in names]
            claims = {parse_range(name, path): self._nodes.decode(node) for name, node in answers if node is not None}
            ignored = tuple(f"{path}/{n}" for n in (children.names if children else ()) if not _RANGE_NAME.fullmatch(n))
            found.append(NamespaceClaims(claims, Change(zxid=children.pzxid if children else None), ignored))
        return found


class HttpOwnership:
    """Claims as each broker states its own, where ownership is kept in a topic."""

    def __init__(self, http: BrokerHttp, cluster: str, registrations: Sequence[Registration]) -> None:
        self._claims: dict[str, dict[BundleRange, Claim]] = defaultdict(dict)
        for registration, owned in zip(registrations, fetch_owned(http, cluster, registrations), strict=True):
            if owned is not None:
                self._add(registration.broker_id, owned)

    def namespaces(self) -> list[str]:
        return sorted(name for name in self._claims if not is_pinned(name) and not is_v1_namespace(name))

    def claims(self, namespaces: Sequence[str]) -> list[NamespaceClaims]:
        return [NamespaceClaims(self._claims.get(namespace, {}), Change()) for namespace in namespaces]

    def _add(self, broker_id: str, document: JsonObject) -> None:
        for bundle in document.names():
            namespace, _, text = bundle.rpartition("/")
            claims, bundle_range = self._claims[namespace], parse_range(text, document.origin)
            claim = Claim(document.origin, ServiceUnitState.OWNED, broker_id, frozenset({broker_id}), Change())
            other = claims.get(bundle_range)
            claims[bundle_range] = claim if other is None else replace(other, rival=broker_id)


def list_namespaces(tree: ZNodeTree, base: str) -> list[str]:
    """Names two levels below a base, heartbeats and SLA monitors left out."""
    (tenants,) = tree.children([base])
    names = tenants.names if tenants else ()
    below = tree.children([f"{base}/{tenant}" for tenant in names])
    found = [f"{tenant}/{name}" for tenant, c in zip(names, below, strict=True) if c for name in c.names]
    return [namespace for namespace in found if not is_pinned(namespace)]


def decode_record(node: ZNode) -> Claim:
    """A service-unit record as a claim."""
    record = ServiceUnitRecord.decode(node.data, node.path)
    parties = {record.owner}
    if record.state.is_in_flight:
        parties |= {record.source, record.destination}
    return Claim(
        origin=node.path,
        state=record.state,
        owner=record.owner,
        parties=frozenset(party for party in parties if party is not None),
        change=Change(node.mzxid, node.mtime_ms),
        version_id=record.version_id,
        znode_version=node.version,
        record=record,
    )


def decode_ephemeral(node: ZNode, brokers: Mapping[str, str]) -> Claim:
    """A modular owner's node as a claim; `brokers` are broker ids by the addresses that they registered."""
    document = JsonObject.decode(node.data, node.path)
    fields = ("httpUrl", "httpUrlTls", "nativeUrl", "nativeUrlTls")
    urls = [url for url in map(document.optional_text, fields) if url is not None]
    owner = document.optional_text("brokerId") or next((brokers[url] for url in urls if url in brokers), None)
    if owner is None:
        owner = _name_unregistered(urls, node.path)
    # A disabled owner refuses lookups: it is about to unload the bundle.
    is_leaving = document.flag("disabled")
    return Claim(
        origin=node.path,
        state=ServiceUnitState.RELEASING if is_leaving else ServiceUnitState.OWNED,
        owner=owner,
        parties=frozenset({owner}),
        change=Change(node.mzxid, node.mtime_ms),
        znode_version=node.version,
        session_id=node.ephemeral_owner,
    )


def _name_unregistered(urls: Sequence[str], path: str) -> str:
    """The id of an owner that is no longer registered: its node outlives it by up to a session time-out."""
    for url in urls:
        scheme, _, address = url.partition("://")
        if scheme in ("http", "https") and address.rpartition(":")[0]:
            return address.rstrip("/")
    raise InputError(f"{path} names no owner", "repair the node, or unload the bundle")
