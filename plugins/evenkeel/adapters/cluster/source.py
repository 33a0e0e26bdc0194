"""Where a cluster is read from: ZooKeeper nodes and broker HTTP, live or recorded."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from evenkeel.adapters.brokers.access import BrokerAccess
from evenkeel.adapters.brokers.broker_http import BrokerHttp, GivesUp, PooledBrokerHttp
from evenkeel.adapters.zookeeper.nodes import ZNodeTree
from evenkeel.adapters.zookeeper.paths import EvenkeelPaths, PulsarPaths
from evenkeel.adapters.zookeeper.session import ZooKeeperSession, open_stores
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import SessionLostError, UnavailableError


@dataclass(frozen=True, slots=True)
class ClusterSource:
    """The two stores of a cluster and its brokers; the configuration store may be another ensemble."""

    tree: ZNodeTree
    configuration_tree: ZNodeTree
    http: BrokerHttp
    pulsar: PulsarPaths
    evenkeel: EvenkeelPaths
    sleep: Callable[[float], None] = time.sleep
    access: BrokerAccess = field(default_factory=BrokerAccess)


@contextmanager
def open_cluster(connection: ClusterConnection, access: BrokerAccess | None = None) -> Iterator[ClusterSource]:
    """Connect to a running cluster for reading; `access` is what its brokers ask for, if they ask for anything."""
    with (
        only_reading(),
        open_stores(connection) as (session, configuration),
        open_source(connection, session, configuration, access or BrokerAccess()) as source,
    ):
        yield source


@contextmanager
def only_reading() -> Iterator[None]:
    """Turn the loss of a session that held nothing yet into an UnavailableError: trying again may help."""
    try:
        yield
    except SessionLostError as error:
        raise UnavailableError(error.cause, "check that ZooKeeper is healthy, then try again") from error


@contextmanager
def open_source(
    connection: ClusterConnection,
    session: ZooKeeperSession,
    configuration: ZooKeeperSession,
    access: BrokerAccess,
    gives_up: GivesUp = lambda: False,
) -> Iterator[ClusterSource]:
    """A cluster's source over sessions that somebody else opens and closes; `gives_up` ends all waiting for brokers."""
    with PooledBrokerHttp(access.answer_timeout_s or connection.timeout_s, access, gives_up) as http:
        yield ClusterSource(
            session,
            configuration,
            http,
            PulsarPaths.of(connection),
            EvenkeelPaths(connection.home),
            access=access,
        )
