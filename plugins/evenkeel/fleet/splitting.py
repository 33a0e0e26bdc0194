"""The boundaries of a namespace, cut by a broker as Pulsar does: local-policies first, then policies, each by CAS."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError

from evenkeel.fleet.broker import SimulatedBroker
from evenkeel.fleet.catalogue import BundleCatalogue
from evenkeel.fleet.documents import bundles_data, encode
from evenkeel.fleet.layout import parse_boundaries
from evenkeel.fleet.paths import PulsarPaths
from evenkeel.model.errors import UnavailableError

RETRY_LIMIT = 7
RETRY_WAIT_S = 0.1

_log = logging.getLogger(__name__)


def add_boundaries(
    broker: SimulatedBroker, paths: PulsarPaths, catalogue: BundleCatalogue, namespace: str, cuts: Sequence[int]
) -> None:
    """Let a broker cut a namespace at more positions, in both stores; repeating it changes nothing."""
    points = _add_to_node(broker.client, paths.local_policies(namespace), cuts)
    catalogue.set_boundaries(namespace, points)
    _add_to_node(broker.configuration_client, paths.policies(namespace), cuts)


def _add_to_node(client: KazooClient, path: str, cuts: Sequence[int]) -> tuple[int, ...]:
    for _ in range(RETRY_LIMIT):
        data, stat = client.get(path)
        document = json.loads(data)
        points = tuple(sorted({*parse_boundaries(document["bundles"]["boundaries"]), *cuts}))
        document["bundles"] = bundles_data(points)
        try:
            client.set(path, encode(document), version=stat.version)
        except BadVersionError:
            _log.debug("%s changed meanwhile", path)
            time.sleep(RETRY_WAIT_S)
            continue
        return points
    raise UnavailableError(f"{path} changed {RETRY_LIMIT} times in a row", "find out who keeps writing it")
