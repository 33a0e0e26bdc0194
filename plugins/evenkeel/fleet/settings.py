"""What can be set about a fleet."""

from __future__ import annotations

from dataclasses import dataclass
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
    """PIP-57's `zookeeperSessionExpiredPolicy`: what a broker does when its session is lost."""

    RECONNECT = "reconnect"
    SHUTDOWN = "shutdown"


class LoadManagerKind(StrEnum):
    """Which of Pulsar's load managers the brokers run."""

    EXTENSIBLE = "extensible"
    MODULAR = "modular"

    @property
    def class_name(self) -> str:
        return EXTENSIBLE_CLASS if self is LoadManagerKind.EXTENSIBLE else MODULAR_CLASS

    @property
    def table_view_class_name(self) -> str:
        # A modular broker does not use the view; the setting then has Pulsar's default.
        return METADATA_STORE_VIEW_CLASS if self is LoadManagerKind.EXTENSIBLE else SYSTEM_TOPIC_VIEW_CLASS


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """A simulated cluster: its size, its seed, and how fast its brokers and clients act."""

    cluster: str = "fleet"
    load_manager: LoadManagerKind = LoadManagerKind.EXTENSIBLE
    brokers: int = 6
    bundles: int = 96
    seed: int = 1
    root: str = ""
    """Pulsar's root path in ZooKeeper, such as /pulsar; empty for none."""

    idle_bundles: int = 0
    """How many of the bundles have no topics, no clients and no owner."""
    mean_cpu_share: float = 0.4
    """The share of its cores that an average broker uses, averaged over the day."""
    skew: float = 0.6
    """How uneven the brokers start: an average broker's load times 1 ± skew at the ends of the list."""
    has_unequal_capacity: bool = False
    """Give every second broker twice the cores and network of the others."""

    session_timeout_s: float = 10.0
    session_expired_policy: SessionExpiredPolicy = SessionExpiredPolicy.RECONNECT
    """What a broker does when its session is lost; Pulsar 4's default."""
    session_retries: int = 2
    """How often a session that does not start in place of a lost one is tried again before the broker shuts down."""
    new_session_delay_s: float = 0.0
    """How long a broker that lost its session takes to start another."""
    stable_session_s: float = 180.0
    """How long after a new session the leader leaves the bundles of absent brokers alone."""
    configuration_zookeeper: str = ""
    """Hosts of a configuration store of its own; empty where ZooKeeper holds both, in one session."""
    hand_over_delay_s: float = 0.02
    """How long a broker takes to close the topics of a bundle."""
    clients_look_up_after_s: float = 0.5
    """How long after the cut the clients of a bundle look it up again."""
    report_interval_s: float = 5.0
    report_max_interval_s: float = 900.0
    report_threshold_percent: float = 10.0
    report_decider_timeout_s: float = 1800.0
    """A broker that has not reported for so long is given no bundles by others."""
    report_broker_timeout_s: float = 3600.0
    """A broker that could not report for so long takes none any more, whoever gives them."""
    traffic_step_s: float = 5.0
    """How often the noise of the traffic changes."""
    monitor_interval_s: float = 60.0
    in_flight_limit_s: float = 30.0
    tombstone_delay_s: float = 3600.0
    admin_timeout_s: float = 60.0
    """How long an unload or split call waits for its end."""
    http_port: int = 0
    """The port of the HTTP server; 0 takes a free one."""

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
        is_path = self.root == "" or (self.root.startswith("/") and not self.root.endswith("/"))
        _require(is_path, "root", self.root, "empty, or a path such as /pulsar")
        for name in ("session_timeout_s", "report_interval_s", "traffic_step_s", "monitor_interval_s"):
            _require(getattr(self, name) > 0, name, getattr(self, name), "more than 0")
        for name in (
            "hand_over_delay_s",
            "clients_look_up_after_s",
            "in_flight_limit_s",
            "tombstone_delay_s",
            "new_session_delay_s",
            "stable_session_s",
        ):
            _require(getattr(self, name) >= 0, name, getattr(self, name), "0 or more")

    @property
    def heartbeat_timeouts(self) -> HeartbeatTimeouts:
        """KIP-343's two time-outs; refused unless the decider's is the shorter."""
        return HeartbeatTimeouts(self.report_decider_timeout_s, self.report_broker_timeout_s)

    @property
    def broker_ids(self) -> tuple[str, ...]:
        """The names of the brokers, such as b01.fleet:8080."""
        width = max(2, len(str(self.brokers)))
        return tuple(f"b{number:0{width}}.fleet:8080" for number in range(1, self.brokers + 1))


def _require(is_met: bool, name: str, value: object, wanted: str) -> None:
    if not is_met:
        raise InputError(f"the fleet setting {name} is {value!r}", f"give {wanted}")
