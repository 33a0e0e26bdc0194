"""How to connect to a cluster: ZooKeeper with authentication and TLS, the roots of Pulsar's and Evenkeel's nodes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

from evenkeel.model.errors import InputError
from evenkeel.model.names import require_cluster_name

DEFAULT_EVENKEEL_ROOT = "/evenkeel"
_ROOT = re.compile(r"(/[^/\s]+)*")


class ZooKeeperScheme(StrEnum):
    """How a client authenticates with ZooKeeper."""

    NONE = "none"
    DIGEST = "digest"
    SASL = "sasl"


@dataclass(frozen=True, slots=True)
class ZooKeeperSecurity:
    """Authentication and TLS for a cluster's ZooKeeper; the default is none. The password is never shown."""

    scheme: ZooKeeperScheme = ZooKeeperScheme.NONE
    user: str = ""
    password: str = field(default="", repr=False)
    has_tls: bool = False
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    checks_host_name: bool = True
    has_open_nodes: bool = False
    """Leave Evenkeel's own nodes readable and writable for everybody, although the client authenticates."""

    def __post_init__(self) -> None:
        has_name = self.scheme is not ZooKeeperScheme.NONE
        if has_name and not (self.user and self.password):
            raise InputError(
                f"the ZooKeeper scheme {self.scheme} needs a user and a password",
                "give user, and password_file or password_variable",
            )
        if not has_name and (self.user or self.password):
            raise InputError("a ZooKeeper user is given without a scheme", 'give scheme = "digest" or "sasl"')
        if ":" in self.user:
            raise InputError(f"the ZooKeeper user {self.user!r} contains a colon", "give the user name only")
        if (self.certificate_file is None) != (self.key_file is None):
            raise InputError(
                "only one of ZooKeeper's certificate_file and key_file is given",
                "give both, the key without a password",
            )
        if not self.has_tls and (self.ca_file or self.certificate_file):
            raise InputError("TLS files for ZooKeeper are given, but TLS is off", "set tls = true")

    @property
    def owns_its_nodes(self) -> bool:
        """Whether only Evenkeel may access the nodes that it creates for itself."""
        return self.scheme is not ZooKeeperScheme.NONE and not self.has_open_nodes


NO_SECURITY = ZooKeeperSecurity()


@dataclass(frozen=True, slots=True)
class ClusterConnection:
    """How to reach one cluster; roots are prefixes, never chroots, so that one multi can reach both."""

    cluster: str
    zookeeper: str
    pulsar_root: str = ""
    evenkeel_root: str = DEFAULT_EVENKEEL_ROOT
    configuration_zookeeper: str | None = None
    configuration_root: str | None = None
    """Pulsar's root in the configuration store; None where it is the same as in the cluster's own store."""
    timeout_s: float = 10.0
    security: ZooKeeperSecurity = NO_SECURITY
    """How to authenticate; a configuration store on another ensemble uses the same."""

    def __post_init__(self) -> None:
        require_cluster_name(self.cluster)
        for hosts in (self.zookeeper, self.configuration_zookeeper):
            if hosts is not None and ("/" in hosts or not hosts):
                raise InputError(
                    f"{hosts!r} is not a list of ZooKeeper hosts",
                    "write host:port,host:port; give a chroot as Pulsar's root instead",
                )
        for root in (self.pulsar_root, self.evenkeel_root, self.configuration_root):
            if root is not None and not _ROOT.fullmatch(root):
                raise InputError(f"{root!r} is not a root path", "write it as /pulsar, without a slash at the end")

    @property
    def home(self) -> str:
        """The node that holds all of Evenkeel's nodes for this cluster."""
        return f"{self.evenkeel_root}/{self.cluster}"
