"""How a client proves to ZooKeeper who it is, how the way there is protected, and whose its nodes are."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from evenkeel.model.errors import InputError


class ZooKeeperScheme(StrEnum):
    """How a client names itself."""

    NONE = "none"
    DIGEST = "digest"
    SASL = "sasl"


@dataclass(frozen=True, slots=True)
class ZooKeeperSecurity:
    """What a cluster's ZooKeeper asks for; the plain one asks for nothing. The password shows nowhere."""

    scheme: ZooKeeperScheme = ZooKeeperScheme.NONE
    user: str = ""
    password: str = field(default="", repr=False)
    has_tls: bool = False
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    checks_host_name: bool = True
    has_open_nodes: bool = False
    """Let everybody read and write Evenkeel's own nodes, although it has a name."""

    def __post_init__(self) -> None:
        has_name = self.scheme is not ZooKeeperScheme.NONE
        if has_name and not (self.user and self.password):
            raise InputError(
                f"ZooKeeper's scheme is {self.scheme}, but a user or a password is missing",
                "give user, and password_file or password_variable",
            )
        if not has_name and (self.user or self.password):
            raise InputError("a ZooKeeper user is given without a scheme", 'give scheme = "digest" or "sasl"')
        if ":" in self.user:
            raise InputError(f"the ZooKeeper user {self.user!r} has a colon", "give the name alone")
        if (self.certificate_file is None) != (self.key_file is None):
            raise InputError(
                "of ZooKeeper's certificate_file and key_file only one is given",
                "give both, the key without a password",
            )
        if not self.has_tls and (self.ca_file or self.certificate_file):
            raise InputError("TLS files for ZooKeeper are given, but tls is not on", "give tls = true")

    @property
    def owns_its_nodes(self) -> bool:
        """Whether nodes that Evenkeel makes for itself are for it alone."""
        return self.scheme is not ZooKeeperScheme.NONE and not self.has_open_nodes


NO_SECURITY = ZooKeeperSecurity()
