"""The brokers that are registered under /loadbalance/brokers, and how they present themselves."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from evenkeel.adapters.cluster_source import ClusterSource
from evenkeel.adapters.json_documents import JsonObject
from evenkeel.adapters.zookeeper_reading import ZNode
from evenkeel.model.errors import InputError

BROKERS_PATH = "/loadbalance/brokers"
_WEB_URL_FIELDS = ("webServiceUrl", "webServiceUrlTls")
_PERSISTENT = "persistentTopicsEnabled"
_URL_FIELDS = (*_WEB_URL_FIELDS, "pulsarServiceUrl", "pulsarServiceUrlTls")


@dataclass(frozen=True, slots=True)
class Registration:
    """A registered broker; its incarnation is the change that created the node."""

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
    base = source.path(BROKERS_PATH)
    (listed,) = source.tree.children([base])
    names = listed.names if listed else ()
    nodes = source.tree.get([f"{base}/{name}" for name in names])
    # A broker that left between the two reads is simply not there any more.
    present = [(name, node) for name, node in zip(names, nodes, strict=True) if node is not None]
    found = [_parse(name, node, source.prefers_tls) for name, node in present]
    if not found:
        raise InputError(
            f"no broker is registered under {base}", "check Pulsar's root path and that the brokers are running"
        )
    return found


def _parse(broker_id: str, node: ZNode, prefers_tls: bool) -> Registration:
    document = JsonObject.decode(node.data, node.path)
    web_urls = [url for url in map(document.optional_text, _WEB_URL_FIELDS) if url is not None]
    if not web_urls:
        raise InputError(f"{node.path}: the broker names no webServiceUrl", "restart the broker")
    return Registration(
        broker_id=broker_id,
        incarnation=node.czxid,
        mzxid=node.mzxid,
        load_manager_class=document.text("loadManagerClassName"),
        version=document.optional_text("brokerVersion") or document.optional_text("brokerVersionString"),
        takes_persistent_topics=not document.has(_PERSISTENT) or document.flag(_PERSISTENT),
        web_url=_require_http(web_urls[-1 if prefers_tls else 0], node.path),
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
