"""Every znode path, Pulsar's and Evenkeel's; nothing else in this project spells one out.

Names come from plans, files and people. One that would lead to another node than the one it stands for is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from evenkeel.model.connection import ClusterConnection
from evenkeel.model.names import require_path_segment
from evenkeel.model.snapshot import LoadManager


@dataclass(frozen=True, slots=True)
class PulsarPaths:
    """Where Pulsar keeps what, below the root of each store (empty unless the brokers are configured with one)."""

    root: str = ""
    configuration_root: str | None = None
    """The root of the configuration store, where it differs from that of the cluster's own store."""

    @classmethod
    def of(cls, connection: ClusterConnection) -> PulsarPaths:
        return cls(connection.pulsar_root, connection.configuration_root)

    @property
    def _shared(self) -> str:
        """The root of what all clusters of the configuration store share."""
        return self.root if self.configuration_root is None else self.configuration_root

    @property
    def brokers(self) -> str:
        """Registrations: one ephemeral node a broker."""
        return f"{self.root}/loadbalance/brokers"

    def broker(self, broker_id: str) -> str:
        return f"{self.brokers}/{require_path_segment(broker_id, 'a broker id')}"

    def time_average(self, broker_id: str) -> str:
        return f"{self.root}/loadbalance/broker-time-average/{require_path_segment(broker_id, 'a broker id')}"

    def leader(self, kind: str) -> str:
        """The leader's node by the kind of load manager, one of `LoadManager`'s values."""
        return f"{self.root}/loadbalance/{'leader' if kind == LoadManager.MODULAR else 'extension/leader'}"

    def owners(self, kind: str) -> str:
        """Ownership nodes, three levels below: /tenant/namespace/range."""
        return f"{self.root}/{'namespace' if kind == LoadManager.MODULAR else 'service_unit_state'}"

    def owner(self, kind: str, bundle: str) -> str:
        return f"{self.owners(kind)}/{_require_names(bundle, 'a bundle')}"

    @property
    def configuration(self) -> str:
        """The dynamic configuration, which holds the switches of Pulsar's own balancer."""
        return f"{self.root}/admin/configuration"

    @property
    def migration(self) -> str:
        """The phase of a migration to another metadata store; exists only where there was ever one."""
        return f"{self.root}/pulsar/migration-coordinator/migration"

    @property
    def policies_read_only(self) -> str:
        """A flag in the configuration store: while it exists, brokers refuse to unload and split."""
        return f"{self._shared}/admin/flags/policies-readonly"

    @property
    def all_local_policies(self) -> str:
        return f"{self.root}/admin/local-policies"

    def local_policies(self, namespace: str) -> str:
        """A namespace's bundle boundaries and anti-affinity group, in the cluster's own store."""
        return f"{self.all_local_policies}/{_require_names(namespace, 'a namespace')}"

    def policies(self, namespace_or_tenant: str) -> str:
        return f"{self._shared}/admin/policies/{_require_names(namespace_or_tenant, 'a namespace')}"

    @property
    def clusters(self) -> str:
        """All clusters of the configuration store."""
        return f"{self._shared}/admin/clusters"

    def cluster(self, cluster: str) -> str:
        return f"{self.clusters}/{require_path_segment(cluster, 'a cluster name')}"

    def isolation(self, cluster: str) -> str:
        return f"{self.cluster(cluster)}/namespaceIsolationPolicies"

    def failure_domains(self, cluster: str) -> str:
        return f"{self.cluster(cluster)}/failureDomain"

    def failure_domain(self, cluster: str, domain: str) -> str:
        return f"{self.failure_domains(cluster)}/{require_path_segment(domain, 'a failure domain')}"


@dataclass(frozen=True, slots=True)
class EvenkeelPaths:
    """Where Evenkeel keeps what for one cluster, below `ClusterConnection.home`."""

    home: str

    @property
    def fence(self) -> str:
        """Its version is the epoch."""
        return f"{self.home}/fence"

    @property
    def writer(self) -> str:
        """Ephemeral: who writes now, for which plan, at which epoch."""
        return f"{self.home}/writer"

    def holder(self, token: str) -> str:
        """Ephemeral: named after one acquisition of the fence, so that no other can ever have made it."""
        return f"{self.home}/holder-{token}"

    @property
    def pulsar_root(self) -> str:
        """Pulsar's root of the cluster that these nodes belong to."""
        return f"{self.home}/pulsar-root"

    @property
    def stop(self) -> str:
        """The kill switch."""
        return f"{self.home}/stop"

    @property
    def draining(self) -> str:
        return f"{self.home}/draining"

    def draining_broker(self, broker_id: str) -> str:
        return f"{self.draining}/{require_path_segment(broker_id, 'a broker id')}"

    @property
    def plans(self) -> str:
        return f"{self.home}/plans"

    def plan(self, plan_id: str) -> str:
        """A plan's status."""
        return f"{self.plans}/{require_path_segment(plan_id, 'a plan id')}"

    def steps(self, plan_id: str) -> str:
        """A plan's journal."""
        return f"{self.plan(plan_id)}/steps"

    def step(self, plan_id: str, order: int) -> str:
        """A journal entry; zero-padded, so that names sort in the order of the steps."""
        return f"{self.steps(plan_id)}/{order:06d}"


def _require_names(path: str, what: str) -> str:
    """Return the names of a bundle or namespace, such as tenant/namespace; each must be one step of the path."""
    for name in path.split("/"):
        require_path_segment(name, f"a name in {what}")
    return path
