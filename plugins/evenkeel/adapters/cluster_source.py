"""Where a cluster is read from: ZooKeeper nodes and broker HTTP, live or recorded."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from evenkeel.adapters.broker_access import BrokerAccess
from evenkeel.adapters.broker_http import BrokerHttp, PooledBrokerHttp
from evenkeel.adapters.zookeeper_reading import KazooTree, ZNodeTree, connect, disconnect
from evenkeel.model.connection import ClusterConnection


@dataclass(frozen=True, slots=True)
class ClusterSource:
    """The two stores of a cluster and its brokers; the configuration store may be another ensemble."""

    tree: ZNodeTree
    configuration_tree: ZNodeTree
    http: BrokerHttp
    pulsar_root: str = ""
    evenkeel_root: str = "/evenkeel"
    sleep: Callable[[float], None] = time.sleep
    prefers_tls: bool = False

    def path(self, pulsar_path: str) -> str:
        """The full path of a node that Pulsar knows by a path below its own root."""
        return f"{self.pulsar_root}{pulsar_path}"


@contextmanager
def open_cluster(connection: ClusterConnection, access: BrokerAccess | None = None) -> Iterator[ClusterSource]:
    """Connect to a running cluster for reading; `access` is what its brokers ask for, if they ask for anything."""
    access = access or BrokerAccess()
    with ExitStack() as stack:
        client = connect(connection.zookeeper, connection.timeout_s, connection.security)
        stack.callback(disconnect, client)
        tree = configuration_tree = KazooTree(client)
        if connection.configuration_zookeeper is not None:
            configuration_client = connect(
                connection.configuration_zookeeper, connection.timeout_s, connection.security
            )
            stack.callback(disconnect, configuration_client)
            configuration_tree = KazooTree(configuration_client)
        http = stack.enter_context(PooledBrokerHttp(connection.timeout_s, access))
        yield ClusterSource(
            tree,
            configuration_tree,
            http,
            connection.pulsar_root,
            connection.evenkeel_root,
            prefers_tls=access.prefers_tls,
        )
