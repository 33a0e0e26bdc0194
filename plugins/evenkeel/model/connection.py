"""Where a cluster is, and where Evenkeel keeps its own nodes beside it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from evenkeel.model.errors import InputError
from evenkeel.model.zookeeper_security import NO_SECURITY, ZooKeeperSecurity

_CLUSTER = re.compile(r"[-=:.\w]+")
_ROOT = re.compile(r"(/[^/\s]+)*")


@dataclass(frozen=True, slots=True)
class ClusterConnection:
    """How to reach one cluster; roots are prefixes, never chroots, so that one multi reaches both."""

    cluster: str
    zookeeper: str
    pulsar_root: str = ""
    evenkeel_root: str = "/evenkeel"
    configuration_zookeeper: str | None = None
    timeout_s: float = 10.0
    security: ZooKeeperSecurity = NO_SECURITY
    """What ZooKeeper asks for; the configuration store, if it is another ensemble, asks for the same."""

    def __post_init__(self) -> None:
        if not _CLUSTER.fullmatch(self.cluster):
            raise InputError(f"{self.cluster!r} is not a cluster name", "use letters, digits, - = : . and _ only")
        if "/" in self.zookeeper or not self.zookeeper:
            raise InputError(
                f"{self.zookeeper!r} is not a list of ZooKeeper hosts",
                "write host:port,host:port; a chroot goes into the setting for Pulsar's root",
            )
        for root in (self.pulsar_root, self.evenkeel_root):
            if not _ROOT.fullmatch(root):
                raise InputError(f"{root!r} is not a root path", "write it as /pulsar, without a slash at the end")

    @property
    def home(self) -> str:
        """The node that holds everything of Evenkeel for this cluster."""
        return f"{self.evenkeel_root}/{self.cluster}"
