"""The nodes that a cluster has before its brokers own anything: tenants, policies, boundaries, failure domains."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError

from evenkeel.fleet import documents
from evenkeel.fleet.layout import SYSTEM_BUNDLES, SYSTEM_NAMESPACE, Layout, even_boundaries, parse_boundaries
from evenkeel.fleet.paths import PulsarPaths
from evenkeel.fleet.settings import FleetSettings

CREATE_TIMEOUT_S = 60.0
DEFAULT_NAMESPACE = "public/default"


@dataclass(frozen=True, slots=True)
class Stores:
    """The two stores of a cluster, which may be one."""

    local: KazooClient
    configuration: KazooClient


def write_world(
    stores: Stores, paths: PulsarPaths, settings: FleetSettings, layout: Layout, web_url: str, broker_url: str
) -> dict[str, tuple[int, ...]]:
    """Make what is missing, keep what is there, and return the boundaries that hold."""
    client = stores.local
    nodes: dict[str, documents.Json | None] = {paths.failure_domains: None}
    local: dict[str, documents.Json | None] = {}
    system = even_boundaries(SYSTEM_BUNDLES)
    everywhere = {**layout.boundaries, SYSTEM_NAMESPACE: system}
    for namespace, points in {**everywhere, DEFAULT_NAMESPACE: system}.items():
        nodes[paths.policies(namespace.partition("/")[0])] = documents.tenant(settings.cluster)
        nodes[paths.policies(namespace)] = documents.policies(settings.cluster, points)
    for namespace, points in everywhere.items():
        local[paths.local_policies(namespace)] = documents.local_policies(points)
    nodes[paths.cluster_node] = documents.cluster_data(web_url, broker_url)
    local[paths.configuration] = {"loadBalancerSheddingEnabled": "true"}
    for domain, brokers in layout.failure_domains.items():
        nodes[paths.failure_domain(domain)] = documents.failure_domain(brokers)
    if layout.reserved_namespace is not None:
        shared = [broker for broker in settings.broker_ids if broker not in layout.reserved_brokers]
        nodes[paths.isolation] = documents.isolation_policies(
            layout.reserved_namespace, layout.reserved_brokers, shared[-1:]
        )
    base = paths.ownership_base(settings.load_manager)
    # Parents of bundle nodes are made now, so that 5,000 creations can be sent without waiting for each.
    ensure_paths(client, [base, *(f"{base}/{namespace}" for namespace in layout.boundaries)])
    _create_missing(client, local)
    _create_missing(stores.configuration, nodes)
    return _read_boundaries(client, paths, everywhere)


def ensure_paths(client: KazooClient, wanted: Iterable[str]) -> None:
    """Make empty nodes where there are none, parents first."""
    for path in wanted:
        client.ensure_path(path)


def _create_missing(client: KazooClient, nodes: dict[str, documents.Json | None]) -> None:
    ensure_paths(client, sorted({path.rpartition("/")[0] for path in nodes if path.rpartition("/")[0] not in nodes}))
    # Sorted, a parent comes before its children, and ZooKeeper keeps the order of one session.
    pending = []
    for path in sorted(nodes):
        document = nodes[path]
        pending.append(client.create_async(path, b"" if document is None else documents.encode(document)))
    for result in pending:
        try:
            result.get(timeout=CREATE_TIMEOUT_S)
        except NodeExistsError:
            continue


def _read_boundaries(client: KazooClient, paths: PulsarPaths, namespaces: Iterable[str]) -> dict[str, tuple[int, ...]]:
    pending = {namespace: client.get_async(paths.local_policies(namespace)) for namespace in namespaces}
    return {
        namespace: parse_boundaries(json.loads(result.get(timeout=CREATE_TIMEOUT_S)[0])["bundles"]["boundaries"])
        for namespace, result in pending.items()
    }
