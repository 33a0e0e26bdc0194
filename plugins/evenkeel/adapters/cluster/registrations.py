"""The brokers that are registered under /loadbalance/brokers, and what they say about themselves."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from evenkeel.adapters.brokers.access import BrokerAccess
from evenkeel.adapters.cluster.json_documents import JsonObject
from evenkeel.adapters.cluster.source import ClusterSource
from evenkeel.adapters.zookeeper.nodes import ZNode
from evenkeel.model.errors import InputError

_WEB_URL_FIELDS = ("webServiceUrl", "webServiceUrlTls")
_PERSISTENT = "persistentTopicsEnabled"
_URL_FIELDS = (*_WEB_URL_FIELDS, "pulsarServiceUrl", "pulsarServiceUrlTls")


MODULAR_CLASS = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"


@dataclass(frozen=True, slots=True)
class Registration:
    """A registered broker; its incarnation is the change by which it registered."""

    broker_id: str
    incarnation: int
    mzxid: int
    load_manager_class: str
    version: str | None
    takes_persistent_topics: bool
    web_url: str
    urls: frozenset[str]
    document: JsonObject
    session_id: int
    """The ZooKeeper session that the registration ends with: what else the broker owns ends with it too."""


def read_registrations(source: ClusterSource) -> list[Registration]:
    """All registered brokers, by name; a cluster without any is refused."""
    (listed,) = source.tree.children([source.pulsar.brokers])
    names = listed.names if listed else ()
    nodes = source.tree.get([source.pulsar.broker(name) for name in names])
    # A broker that left between the two reads is simply gone.
    present = [(name, node) for name, node in zip(names, nodes, strict=True) if node is not None]
    found = [_parse(name, node, source.access) for name, node in present]
    if not found:
        raise InputError(
            f"no broker is registered under {source.pulsar.brokers}",
            "check Pulsar's root path and that the brokers are running",
        )
    return found


def incarnation_of(node: ZNode, is_modular: bool) -> int:
    """The change by which a broker registered.

    A modular broker rewrites its node with every load report, so only the node's creation tells. An extensible one
    writes it when it registers and never else; one that is back within its session time-out writes the old node again.
    """
    return node.czxid if is_modular else node.mzxid


def web_urls_of(node: ZNode) -> list[str]:
    """The addresses of a registered broker's web service."""
    document = JsonObject.decode(node.data, node.path)
    return [url for url in map(document.optional_text, _WEB_URL_FIELDS) if url is not None]


def _parse(broker_id: str, node: ZNode, access: BrokerAccess) -> Registration:
    document = JsonObject.decode(node.data, node.path)
    load_manager = document.text("loadManagerClassName")
    web_urls = web_urls_of(node)
    if not web_urls:
        raise InputError(f"{node.path}: the broker has no webServiceUrl", "restart the broker")
    web_url = _require_http(web_urls[-1 if access.prefers_tls else 0], node.path)
    access.require_proved(broker_id, web_url, is_ephemeral=node.ephemeral_owner != 0)
    return Registration(
        broker_id=broker_id,
        incarnation=incarnation_of(node, is_modular=load_manager == MODULAR_CLASS),
        mzxid=node.mzxid,
        load_manager_class=load_manager,
        version=document.optional_text("brokerVersion") or document.optional_text("brokerVersionString"),
        takes_persistent_topics=not document.has(_PERSISTENT) or document.flag(_PERSISTENT),
        web_url=web_url,
        urls=frozenset(url for url in map(document.optional_text, _URL_FIELDS) if url is not None),
        document=document,
        session_id=node.ephemeral_owner,
    )


def _require_http(url: str, path: str) -> str:
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise InputError(f"{path}: webServiceUrl = {url!r} is not an HTTP address", "restart the broker")
    return url.rstrip("/")
