"""The cluster's policies as they are found, each with its node and version."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from evenkeel.adapters.cluster.namespaces_reader import Namespace
from evenkeel.adapters.cluster.source import ClusterSource
from evenkeel.adapters.zookeeper.nodes import ZNode, ZNodeTree
from evenkeel.adapters.zookeeper.paths import PulsarPaths
from evenkeel.model.errors import InputError
from evenkeel.model.policies import Policies
from evenkeel.model.snapshot import PolicyDocument, absent_policy

# Pulsar keeps an entry of this name beside the real clusters.
GLOBAL_CLUSTER = "global"


def list_clusters(configuration: ZNodeTree, paths: PulsarPaths) -> list[str]:
    """The clusters of a configuration store."""
    (known,) = configuration.children([paths.clusters])
    return [name for name in (known.names if known else ()) if name != GLOBAL_CLUSTER]


def require_cluster(configuration: ZNodeTree, paths: PulsarPaths, cluster: str) -> None:
    """Refuse a cluster name that is not in the configuration store, since its policies would seem empty."""
    real = list_clusters(configuration, paths)
    if cluster in real:
        return
    if not real:
        raise InputError(
            f"no clusters under {paths.clusters}",
            "is --pulsar-root right, and --configuration-root if the configuration store has a root of its own?",
        )
    raise InputError(f"no cluster {cluster!r} under {paths.clusters}", f"the clusters there are {', '.join(real)}")


def read_policies(source: ClusterSource, cluster: str) -> list[PolicyDocument]:
    """Isolation, failure domains and dynamic configuration.

    Of the first and the last, absence is a finding too: whoever applies a plan must notice when one appears.
    """
    paths = source.pulsar
    (domains,) = source.configuration_tree.children([paths.failure_domains(cluster)])
    names = domains.names if domains else ()
    isolation, *members = source.configuration_tree.get(
        [paths.isolation(cluster), *(paths.failure_domain(cluster, name) for name in names)]
    )
    (configuration,) = source.tree.get([paths.configuration])
    return [
        _to_row("isolation", "", isolation) if isolation else absent_policy("isolation", paths.isolation(cluster)),
        *(_to_row("failure_domain", n, m) for n, m in zip(names, members, strict=True) if m is not None and m.data),
        _to_row("dynamic_configuration", "", configuration)
        if configuration
        else absent_policy("dynamic_configuration", paths.configuration),
    ]


def anti_affinity_documents(namespaces: Iterable[Namespace]) -> list[PolicyDocument]:
    """One row for each namespace that belongs to an anti-affinity group."""
    return [
        PolicyDocument("anti_affinity", n.name, json.dumps(b.anti_affinity_group), b.path, b.znode_version, b.czxid)
        for n in namespaces
        if (b := n.boundaries) is not None and b.anti_affinity_group is not None
    ]


def domains_by_broker(documents: Iterable[PolicyDocument]) -> Mapping[str, str]:
    """The failure domain of each broker; a malformed document is refused by name."""
    found: dict[str, str] = {}
    for domain, brokers in sorted(Policies.from_documents(documents).failure_domains.items()):
        for broker in brokers:
            other = found.setdefault(broker, domain)
            if other != domain:
                raise InputError(
                    f"broker {broker} is in two failure domains, {other} and {domain}", "take it out of one of them"
                )
    return found


def _to_row(kind: str, name: str, node: ZNode) -> PolicyDocument:
    try:
        # Kept as it is: among isolation policies the first match wins, so their order matters.
        text = node.data.decode() or "{}"
    except UnicodeDecodeError as error:
        raise InputError(f"{node.path} is not text ({error.reason})", "repair the policy in Pulsar") from error
    return PolicyDocument(kind, name, text, node.path, node.version, node.czxid)
