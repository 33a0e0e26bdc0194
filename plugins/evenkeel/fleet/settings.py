"""The settings of a fleet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from evenkeel.model.broker_states import HeartbeatTimeouts
from evenkeel.model.errors import InputError

MAX_BROKERS = 999
EXTENSIBLE_CLASS = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
MODULAR_CLASS = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"
_CHANNEL = "org.apache.pulsar.broker.loadbalance.extensions.channel"
METADATA_STORE_VIEW_CLASS = f"{_CHANNEL}.ServiceUnitStateMetadataStoreTableViewImpl"
SYSTEM_TOPIC_VIEW_CLASS = f"{_CHANNEL}.ServiceUnitStateTableViewImpl"


class SessionExpiredPolicy(StrEnum):
    """What a broker does when its session is lost: PIP-57's `zookeeperSessionExpiredPolicy`."""

    RECONNECT = "reconnect"
    SHUTDOWN = "shutdown"


class LoadManagerKind(StrEnum):
    """The load manager that the brokers run."""

    EXTENSIBLE = "extensible"
    MODULAR = "modular"

    @property
    def class_name(self) -> str:
        return EXTENSIBLE_CLASS if self is LoadManagerKind.EXTENSIBLE else MODULAR_CLASS


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """A simulated cluster: its size, its seed, and the timing of its brokers and clients."""

    cluster: str = "fleet"
    load_manager: LoadManagerKind = LoadManagerKind.EXTENSIBLE
    has_system_topic_view: bool = False
    """Let extensible brokers say that they keep owners in a system topic, as is Pulsar's default. The simulation keeps
    them in ZooKeeper all the same."""
    brokers: int = 6
    bundles: int = 96
    seed: int = 1
    root: str = ""
    """Pulsar's root path in ZooKeeper, such as /pulsar; empty for none."""

    idle_bundles: int = 0
    """How many bundles have no topics, no clients and no owner."""
    mean_cpu_share: float = 0.4
    """The mean cpu utilisation over all brokers and the day."""
    cpu_costs: Mapping[str, float] = field(default_factory=dict)
    """What a message costs in cpu by namespace, against one of any other namespace."""
    skew: float = 0.6
    """How unbalanced the cluster starts: the first broker gets 1 + skew times the mean load, the last 1 − skew."""
    has_unequal_capacity: bool = False
    """Give every second broker twice the cores and network of the others."""

    session_timeout_s: float = 10.0
    session_expired_policy: SessionExpiredPolicy = SessionExpiredPolicy.RECONNECT
    """What a broker does when its session is lost. The default is Pulsar 4's."""
    session_retries: int = 2
    """How often a broker tries again to replace a lost session before it shuts down."""
    new_session_delay_s: float = 0.0
    """How long a broker waits before it replaces a lost session."""
    stable_session_s: float = 180.0
    """How long after replacing its session the leader leaves the bundles of absent brokers alone."""
    broker_version: str = "4.2.4"
    """Pulsar's version as brokers state it; up to 3.0.4 they keep a dynamic value whose key is removed."""
    configuration_zookeeper: str = ""
    """Hosts of a separate configuration store; empty if one ensemble and one session serve both."""
    configuration_root: str = ""
    """Pulsar's root path in the configuration store; empty if it is the same as in the local store."""
    hand_over_delay_s: float = 0.02
    """How long a broker takes to close the topics of a bundle."""
    stale_lookup_s: float = 0.0
    """For how long after an unload modular brokers still name the old owner: their caches hear of it later."""
    remembers_ranges_only: bool = False
    """The leader keeps destinations by range, without the namespace, as modular ones did before 4.0.10 and 4.2.1."""
    names_leader_by_url: bool = False
    """The leader's node has a `serviceUrl` and no `brokerId`, as in 3.0.0 to 3.0.2."""
    clients_look_up_after_s: float = 0.5
    """How long after losing their broker the clients of a bundle look it up again."""
    report_interval_s: float = 5.0
    report_max_interval_s: float = 900.0
    report_threshold_percent: float = 10.0
    report_decider_timeout_s: float = 1800.0
    """Other brokers assign no bundles to a broker that has not reported for this long."""
    report_broker_timeout_s: float = 3600.0
    """A broker that has not reported for this long accepts no bundles from anyone."""
    traffic_step_s: float = 5.0
    """How often the traffic changes."""
    monitor_interval_s: float = 60.0
    in_flight_limit_s: float = 30.0
    tombstone_delay_s: float = 3600.0
    admin_timeout_s: float = 60.0
    """How long an unload or split call waits for its result."""
    http_port: int = 0
    """The port of the HTTP server; 0 picks a free one."""

    def __post_init__(self) -> None:
        kinds = [kind.value for kind in LoadManagerKind]
        _require(self.load_manager in kinds, "load_manager", self.load_manager, " or ".join(kinds))
        object.__setattr__(self, "load_manager", LoadManagerKind(self.load_manager))
        policies = [policy.value for policy in SessionExpiredPolicy]
        _require(
            self.session_expired_policy in policies,
            "session_expired_policy",
            self.session_expired_policy,
            " or ".join(policies),
        )
        object.__setattr__(self, "session_expired_policy", SessionExpiredPolicy(self.session_expired_policy))
        _require(self.session_retries >= 0, "session_retries", self.session_retries, "0 or more")
        _ = self.heartbeat_timeouts
        _require(1 <= self.brokers <= MAX_BROKERS, "brokers", self.brokers, f"1 to {MAX_BROKERS}")
        _require(self.bundles >= 1, "bundles", self.bundles, "1 or more")
        _require(0 <= self.idle_bundles <= self.bundles, "idle_bundles", self.idle_bundles, "0 to bundles")
        _require(0 <= self.skew < 1, "skew", self.skew, "0 or more and less than 1")
        _require(0 < self.mean_cpu_share < 1, "mean_cpu_share", self.mean_cpu_share, "between 0 and 1")
        for namespace, cost in self.cpu_costs.items():
            _require(cost > 0, f"cpu_costs of {namespace}", cost, "more than 0")
        is_path = self.root == "" or (self.root.startswith("/") and not self.root.endswith("/"))
        _require(is_path, "root", self.root, "empty, or a path such as /pulsar")
        for name in ("session_timeout_s", "report_interval_s", "traffic_step_s", "monitor_interval_s"):
            _require(getattr(self, name) > 0, name, getattr(self, name), "more than 0")
        for name in (
            "hand_over_delay_s",
            "stale_lookup_s",
            "clients_look_up_after_s",
            "in_flight_limit_s",
            "tombstone_delay_s",
            "new_session_delay_s",
            "stable_session_s",
        ):
            _require(getattr(self, name) >= 0, name, getattr(self, name), "0 or more")

    @property
    def heartbeat_timeouts(self) -> HeartbeatTimeouts:
        """The two heartbeat time-outs of KIP-343; the decider's must be the shorter one."""
        return HeartbeatTimeouts(self.report_decider_timeout_s, self.report_broker_timeout_s)

    @property
    def table_view_class_name(self) -> str:
        # A modular broker does not use the view and shows Pulsar's default.
        has_metadata_store_view = self.load_manager is LoadManagerKind.EXTENSIBLE and not self.has_system_topic_view
        return METADATA_STORE_VIEW_CLASS if has_metadata_store_view else SYSTEM_TOPIC_VIEW_CLASS

    @property
    def broker_ids(self) -> tuple[str, ...]:
        """The ids of the brokers, such as b01.fleet:8080."""
        width = max(2, len(str(self.brokers)))
        return tuple(f"b{number:0{width}}.fleet:8080" for number in range(1, self.brokers + 1))


def _require(is_met: bool, name: str, value: object, wanted: str) -> None:
    if not is_met:
        raise InputError(f"fleet setting {name} = {value!r} is not valid", f"use {wanted}")
