"""The settings of Pulsar's own balancers: PIP-192's table, and those of its shedders, placement and splits.

A key is Pulsar's name in snake case without the prefix `loadBalancer`; the defaults are Pulsar's. Many of them only
matter to Pulsar itself: `used_by` says so. They stay because settings are part of every plan, and so of its id.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeVar

from evenkeel.model.errors import InputError
from evenkeel.model.setting_fields import Auto, SettingUse, auto_setting, check_range, convert_values, setting

Number = TypeVar("Number", int, float)
REPLAY, NOTHING = SettingUse.REPLAY, SettingUse.NOTHING


@dataclass(frozen=True, slots=True)
class SplitThresholds:
    """The four thresholds above which a bundle is too big, as plain numbers."""

    topics: int
    sessions: int
    msg_rate: float
    bandwidth_mbytes: float


@dataclass(frozen=True, slots=True)
class PulsarSettings:
    """The settings of a Pulsar cluster, with Pulsar's names and defaults."""

    # how loaded a broker counts
    cpu_resource_weight: float = setting(1.0, "weight of CPU in a broker's load; 0 ignores it", 0.0)
    memory_resource_weight: float = setting(
        0.0, "weight of heap in a broker's load (extensible manager only)", 0.0, used_by=REPLAY
    )
    direct_memory_resource_weight: float = setting(
        0.0, "weight of direct memory in a broker's load", 0.0, used_by=REPLAY
    )
    bandwidth_in_resource_weight: float = setting(1.0, "weight of inbound bandwidth in a broker's load", 0.0)
    bandwidth_out_resource_weight: float = setting(1.0, "weight of outbound bandwidth in a broker's load", 0.0)
    history_resource_percentage: float = setting(
        0.9, "share of the past in a broker's smoothed load; 0 = only the present", 0.0, 1.0, used_by=REPLAY
    )
    broker_load_data_ttl_in_seconds: float = setting(
        1800.0,
        "age at which a broker's load report is stale; a stale report makes the broker Inactive and blocks planning",
        0.0,
    )
    max_number_of_bundles_in_bundle_load_report: int = setting(
        10, "how many of its largest bundles a broker reports to the leader", used_by=REPLAY
    )

    # when and what to shed
    broker_overloaded_threshold_percentage: float = setting(
        85.0, "overload line: a broker above it is relieved first, in percent of its limit", 1.0, 100.0
    )
    shedding_excluded_namespaces: tuple[str, ...] = setting((), "namespaces whose bundles are never moved")
    shedding_bundles_with_policies_enabled: bool = setting(
        False, "let Pulsar's strategies shed bundles under isolation or anti-affinity policies", used_by=REPLAY
    )
    shedding_interval_minutes: int = setting(1, "minutes between two cycles of Pulsar's shedder", 0, used_by=NOTHING)
    shedding_grace_period_minutes: int = setting(
        30, "minutes for which Pulsar's shedders leave a bundle alone after its unload", 0, used_by=NOTHING
    )
    shedding_delay_in_seconds: float = setting(
        180.0, "seconds for which a broker is left alone after an unload", 0.0, used_by=REPLAY
    )

    # TransferShedder
    broker_load_target_std: float | Literal["auto"] = auto_setting(
        0.25,
        'spread of load that TransferShedder aims at (1 = full); "auto" = a tenth of the mean load, '
        "within 0.02 and 0.25",
        0.0,
        used_by=REPLAY,
    )
    shedding_condition_hit_count_threshold: int = setting(
        3, "TransferShedder acts after its condition held more than this many times in a row", 0, used_by=REPLAY
    )
    transfer_enabled: bool = setting(
        True, "TransferShedder names the new owner; off: Pulsar places the bundle anew", used_by=REPLAY
    )
    max_number_of_broker_shedding_per_cycle: int = setting(
        3, "most brokers that TransferShedder relieves per cycle", 0, used_by=REPLAY
    )
    debug_mode_enabled: bool = setting(
        False, "Pulsar's debug mode; it also makes TransferShedder count what a swap brings back", used_by=REPLAY
    )

    # ThresholdShedder
    broker_threshold_shedder_percentage: float = setting(
        10.0, "percentage points above the mean load from which ThresholdShedder sheds", 0.0, used_by=REPLAY
    )
    bundle_unload_min_throughput_threshold: float = setting(
        10.0, "MiB per second below which ThresholdShedder leaves a broker alone", 0.0, used_by=REPLAY
    )
    lower_boundary_shedding_enabled: bool = setting(
        False, "ThresholdShedder also relieves the fullest broker when another is far below the mean", used_by=REPLAY
    )

    # UniformLoadShedder and AvgShedder
    msg_rate_difference_shedder_threshold: float = setting(
        50.0, "percent by which message rates must differ for UniformLoadShedder to act; 0 = never", used_by=NOTHING
    )
    msg_throughput_multiplier_difference_shedder_threshold: float = setting(
        4.0, "factor by which throughputs must differ for UniformLoadShedder to act; 0 = never", used_by=NOTHING
    )
    max_unload_percentage: float = setting(
        0.2, "share of the difference that UniformLoadShedder and AvgShedder move per cycle", 0.0, used_by=NOTHING
    )
    min_unload_message: int = setting(
        1_000, "messages per second below which UniformLoadShedder and AvgShedder move nothing", 0, used_by=NOTHING
    )
    min_unload_message_throughput: int = setting(
        1_048_576, "bytes per second below which UniformLoadShedder and AvgShedder move nothing", 0, used_by=NOTHING
    )
    max_unload_bundle_num_per_shedding: int = setting(
        -1, "most bundles that UniformLoadShedder moves per cycle; -1 = no limit", -1, used_by=NOTHING
    )
    avg_shedder_low_threshold: float = setting(
        15.0, "AvgShedder counts pairs of brokers that differ by this much", 0.0, used_by=NOTHING
    )
    avg_shedder_high_threshold: float = setting(
        40.0, "AvgShedder counts pairs that differ by this much as urgent", 0.0, used_by=NOTHING
    )
    avg_shedder_hit_count_low_threshold: int = setting(
        8, "counts in a row before AvgShedder acts on a pair", 0, used_by=NOTHING
    )
    avg_shedder_hit_count_high_threshold: int = setting(
        2, "urgent counts in a row before AvgShedder acts", 0, used_by=NOTHING
    )

    # where a bundle may go
    average_resource_usage_difference_threshold_percentage: float = setting(
        10.0, "placement by usage chooses among brokers this many points below the mean", 0.0, used_by=REPLAY
    )
    broker_max_topics: int = setting(50_000, "a broker with this many topics receives no more bundles", 0)
    prefer_later_versions: bool = setting(False, "only brokers of the newest version receive bundles")
    failure_domains_enabled: bool = setting(
        False,
        "whether Pulsar spreads anti-affinity groups over failure domains first; Evenkeel's own plans always do",
        used_by=REPLAY,
    )
    distribute_bundles_evenly_enabled: bool = setting(
        True, "spread a namespace's bundles evenly when they are placed (modular manager)", used_by=REPLAY
    )

    # when a bundle is split
    namespace_bundle_max_topics: int | Literal["auto"] = auto_setting(
        1_000, 'split a bundle with more topics; "auto" = a quarter of an average broker\'s', 0
    )
    namespace_bundle_max_sessions: int | Literal["auto"] = auto_setting(
        1_000, 'split a bundle with more producers and consumers; 0 = never; "auto" as for topics', 0
    )
    namespace_bundle_max_msg_rate: float | Literal["auto"] = auto_setting(
        30_000.0, 'split a bundle with more messages per second; "auto" as for topics', 0.0
    )
    namespace_bundle_max_bandwidth_mbytes: float | Literal["auto"] = auto_setting(
        100.0, 'split a bundle with more MiB per second; "auto" as for topics', 0.0
    )
    namespace_bundle_split_condition_hit_count_threshold: int = setting(
        3, "a bundle is split after it met a condition in more than this many snapshots in a row", 0
    )
    max_number_of_bundles_to_split_per_cycle: int = setting(10, "most splits in a plan", 0)
    namespace_maximum_bundles: int = setting(128, "most bundles that a namespace may have after splits", 0)
    split_interval_minutes: int = setting(
        1, "minutes between two searches of a broker for bundles to split", 0, used_by=NOTHING
    )
    flow_or_qps_difference_threshold_percentage: float = setting(
        10.0, "percent above the thresholds at which flow_or_qps_equally_divide cuts", 0.0, used_by=NOTHING
    )

    # how brokers keep their state channel in order
    service_unit_state_tombstone_delay_time_in_seconds: int = setting(
        3_600, "age at which Pulsar's leader removes the record of a free or deleted bundle", 30, used_by=NOTHING
    )
    in_flight_service_unit_state_waiting_time_in_millis: int = setting(
        30_000, "time after which Pulsar's leader repairs a bundle that is stuck in flight", 0, used_by=NOTHING
    )
    service_unit_state_monitor_interval_in_seconds: int = setting(
        60, "seconds between two searches of Pulsar's leader for stuck or orphaned bundles", 0, used_by=NOTHING
    )

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            check_range(field, getattr(self, field.name))

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any], origin: str = "settings") -> Self:
        """Build settings from plain values; an unknown key or a wrong value is refused by name."""
        return cls(**convert_values(cls, values, origin))

    @property
    def split_thresholds(self) -> SplitThresholds:
        """The split thresholds as plain numbers; refused while one is on auto."""
        return SplitThresholds(
            topics=plain_number("namespace_bundle_max_topics", self.namespace_bundle_max_topics),
            sessions=plain_number("namespace_bundle_max_sessions", self.namespace_bundle_max_sessions),
            msg_rate=plain_number("namespace_bundle_max_msg_rate", self.namespace_bundle_max_msg_rate),
            bandwidth_mbytes=plain_number(
                "namespace_bundle_max_bandwidth_mbytes", self.namespace_bundle_max_bandwidth_mbytes
            ),
        )

    @property
    def target_std(self) -> float:
        """The spread that TransferShedder aims at, as a plain number; refused while on auto."""
        return plain_number("broker_load_target_std", self.broker_load_target_std)


def plain_number(key: str, value: Number | Auto) -> Number:
    """A threshold as a number, once it was resolved against a cluster."""
    if isinstance(value, str):
        raise InputError(f"{key} is on auto and has no number yet", "resolve it against a cluster first")
    return value
