"""A cluster's metadata in ZooKeeper: tenants, policies, boundaries, failure domains.

The fleet writes what is missing before its brokers start. A split adds boundaries as Pulsar does: first to the local
policies, then to the policies, each with compare-and-set.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NodeExistsError

from evenkeel.adapters.zookeeper.paths import PulsarPaths
from evenkeel.fleet import documents
from evenkeel.fleet.layout import (
    SYSTEM_BUNDLES,
    SYSTEM_NAMESPACE,
    BundleCatalogue,
    Layout,
    even_boundaries,
    parse_boundaries,
)
from evenkeel.fleet.settings import FleetSettings
from evenkeel.model.errors import UnavailableError

CREATE_TIMEOUT_S = 60.0
DEFAULT_NAMESPACE = "public/default"
CAS_ATTEMPTS = 7
CAS_RETRY_S = 0.1

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Stores:
    """Sessions with the local and the configuration store; often the same session."""

    local: KazooClient
    configuration: KazooClient


def write_metadata(
    stores: Stores, paths: PulsarPaths, settings: FleetSettings, layout: Layout, web_url: str, broker_url: str
) -> dict[str, tuple[int, ...]]:
    """Create the nodes that are missing, leave the others alone, and return the boundaries in force."""
    client = stores.local
    nodes: dict[str, documents.Json | None] = {paths.failure_domains(settings.cluster): None}
    local: dict[str, documents.Json | None] = {}
    system = even_boundaries(SYSTEM_BUNDLES)
    everywhere = {**layout.boundaries, SYSTEM_NAMESPACE: system}
    for namespace, points in {**everywhere, DEFAULT_NAMESPACE: system}.items():
        nodes[paths.policies(namespace.partition("/")[0])] = documents.tenant(settings.cluster)
        nodes[paths.policies(namespace)] = documents.policies(settings.cluster, points)
    for namespace, points in everywhere.items():
        local[paths.local_policies(namespace)] = documents.local_policies(points)
    nodes[paths.cluster(settings.cluster)] = documents.cluster_data(web_url, broker_url)
    local[paths.configuration] = {"loadBalancerSheddingEnabled": "true"}
    for domain, brokers in layout.failure_domains.items():
        nodes[paths.failure_domain(settings.cluster, domain)] = documents.failure_domain(brokers)
    if layout.reserved_namespace is not None:
        shared = [broker for broker in settings.broker_ids if broker not in layout.reserved_brokers]
        nodes[paths.isolation(settings.cluster)] = documents.isolation_policies(
            layout.reserved_namespace, layout.reserved_brokers, shared[-1:]
        )
    base = paths.owners(settings.load_manager)
    # With the parents in place, the 5,000 ownership nodes of a large fleet can be created without waiting for each.
    ensure_paths(client, [base, *(f"{base}/{namespace}" for namespace in layout.boundaries)])
    _create_missing(client, local)
    _create_missing(stores.configuration, nodes)
    return _read_boundaries(client, paths, everywhere)


def ensure_paths(client: KazooClient, wanted: Iterable[str]) -> None:
    """Create empty nodes where they are missing, parents first."""
    for path in wanted:
        client.ensure_path(path)


def _create_missing(client: KazooClient, nodes: dict[str, documents.Json | None]) -> None:
    ensure_paths(client, sorted({path.rpartition("/")[0] for path in nodes if path.rpartition("/")[0] not in nodes}))
    # Sorting puts parents before their children, and ZooKeeper keeps the order within a session.
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


def add_boundaries(
    stores: Stores, paths: PulsarPaths, catalogue: BundleCatalogue, namespace: str, cuts: Sequence[int]
) -> None:
    """Add boundaries to a namespace in both stores. Idempotent."""
    points = _add_to_node(stores.local, paths.local_policies(namespace), cuts)
    catalogue.set_boundaries(namespace, points)
    _add_to_node(stores.configuration, paths.policies(namespace), cuts)


def _add_to_node(client: KazooClient, path: str, cuts: Sequence[int]) -> tuple[int, ...]:
    for _ in range(CAS_ATTEMPTS):
        data, stat = client.get(path)
        document = json.loads(data)
        points = tuple(sorted({*parse_boundaries(document["bundles"]["boundaries"]), *cuts}))
        document["bundles"] = documents.bundles_data(points)
        try:
            client.set(path, documents.encode(document), version=stat.version)
        except BadVersionError:
            _log.debug("%s changed concurrently; trying again", path)
            time.sleep(CAS_RETRY_S)
            continue
        return points
    raise UnavailableError(f"{path} changed {CAS_ATTEMPTS} times in a row", "find out which process keeps writing it")
