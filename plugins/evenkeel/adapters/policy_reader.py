"""The cluster's policies as they are found, each with its node and version."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from evenkeel.adapters.cluster_source import ClusterSource
from evenkeel.adapters.namespaces_reader import Namespace
from evenkeel.adapters.zookeeper_reading import ZNode
from evenkeel.model.errors import InputError
from evenkeel.model.policies import Policies
from evenkeel.model.snapshot import PolicyDocument, absent_policy

CLUSTERS_PATH = "/admin/clusters"
CONFIGURATION_PATH = "/admin/configuration"


def require_cluster(source: ClusterSource, cluster: str) -> None:
    """Refuse a cluster name that the configuration store does not know, since its policies would seem empty."""
    (known,) = source.configuration_tree.children([source.path(CLUSTERS_PATH)])
    names = known.names if known else ()
    if cluster not in names:
        listed = ", ".join(names) if names else "none at all"
        raise InputError(
            f"{source.path(CLUSTERS_PATH)} knows no cluster {cluster!r}, but {listed}",
            "check the cluster's name, Pulsar's root path and the configuration store",
        )


def read_policies(source: ClusterSource, cluster: str) -> list[PolicyDocument]:
    """Isolation, failure domains and dynamic configuration.

    Of the first and the last, absence is a finding too: whoever applies a plan must notice when one appears.
    """
    home = source.path(f"{CLUSTERS_PATH}/{cluster}")
    (domains,) = source.configuration_tree.children([f"{home}/failureDomain"])
    names = domains.names if domains else ()
    isolation_path, configuration_path = f"{home}/namespaceIsolationPolicies", source.path(CONFIGURATION_PATH)
    isolation, *members = source.configuration_tree.get(
        [isolation_path, *(f"{home}/failureDomain/{name}" for name in names)]
    )
    (configuration,) = source.tree.get([configuration_path])
    return [
        _to_row("isolation", "", isolation) if isolation else absent_policy("isolation", isolation_path),
        *(_to_row("failure_domain", n, m) for n, m in zip(names, members, strict=True) if m is not None and m.data),
        _to_row("dynamic_configuration", "", configuration)
        if configuration
        else absent_policy("dynamic_configuration", configuration_path),
    ]


def anti_affinity_documents(namespaces: Iterable[Namespace]) -> list[PolicyDocument]:
    """One row a namespace that belongs to an anti-affinity group."""
    return [
        PolicyDocument("anti_affinity", n.name, json.dumps(b.anti_affinity_group), b.path, b.znode_version)
        for n in namespaces
        if (b := n.boundaries) is not None and b.anti_affinity_group is not None
    ]


def domains_by_broker(documents: Iterable[PolicyDocument]) -> Mapping[str, str]:
    """The failure domain of each broker; reading all documents here refuses malformed ones by name."""
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
    return PolicyDocument(kind, name, text, node.path, node.version)
