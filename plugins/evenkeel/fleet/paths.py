"""Where Pulsar keeps what in ZooKeeper, under a root path."""

from __future__ import annotations

from dataclasses import dataclass

from evenkeel.fleet.settings import LoadManagerKind


@dataclass(frozen=True, slots=True)
class PulsarPaths:
    """Pulsar's node paths for one cluster."""

    root: str
    cluster: str

    @property
    def brokers(self) -> str:
        return f"{self.root}/loadbalance/brokers"

    @property
    def configuration(self) -> str:
        return f"{self.root}/admin/configuration"

    @property
    def cluster_node(self) -> str:
        return f"{self.root}/admin/clusters/{self.cluster}"

    @property
    def isolation(self) -> str:
        return f"{self.cluster_node}/namespaceIsolationPolicies"

    @property
    def failure_domains(self) -> str:
        return f"{self.cluster_node}/failureDomain"

    def broker(self, broker_id: str) -> str:
        return f"{self.brokers}/{broker_id}"

    def time_average(self, broker_id: str) -> str:
        return f"{self.root}/loadbalance/broker-time-average/{broker_id}"

    def failure_domain(self, domain: str) -> str:
        return f"{self.failure_domains}/{domain}"

    def policies(self, namespace_or_tenant: str) -> str:
        return f"{self.root}/admin/policies/{namespace_or_tenant}"

    def local_policies(self, namespace: str) -> str:
        return f"{self.root}/admin/local-policies/{namespace}"

    def leader(self, kind: LoadManagerKind) -> str:
        is_extensible = kind is LoadManagerKind.EXTENSIBLE
        return f"{self.root}/loadbalance/{'extension/leader' if is_extensible else 'leader'}"

    def ownership_base(self, kind: LoadManagerKind) -> str:
        return f"{self.root}/{'service_unit_state' if kind is LoadManagerKind.EXTENSIBLE else 'namespace'}"

    def ownership(self, kind: LoadManagerKind, bundle: str) -> str:
        return f"{self.ownership_base(kind)}/{bundle}"
