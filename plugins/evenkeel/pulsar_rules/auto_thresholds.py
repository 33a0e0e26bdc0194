"""Thresholds set to "auto": derived from the cluster's load, so that nobody has to tune them (a goal of PIP-192)."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, TypeVar

from evenkeel.model.pulsar_settings import PulsarSettings
from evenkeel.model.setting_fields import AUTO

MIB = 1 << 20

# A broker with a few bundles of this size can still be brought close to the mean by moving whole bundles.
LARGEST_SHARE_OF_A_BROKER = 1 / 4
# Below these, a split is not worth the disconnection of its clients.
FEWEST_TOPICS = 100
FEWEST_SESSIONS = 100
LOWEST_MSG_RATE = 1_000.0
LOWEST_BANDWIDTH_MBYTES = 10.0

# A standard deviation of a tenth of the mean is balanced at any load. The minimum keeps an idle cluster from shuffling
# noise; the maximum is Pulsar's default, above which its shedder would leave a full broker next to an empty one.
TARGET_STD_SHARE_OF_MEAN = 1 / 10
LOWEST_TARGET_STD = 0.02
HIGHEST_TARGET_STD = 0.25

AnySettings = TypeVar("AnySettings", bound=PulsarSettings)


@dataclass(frozen=True, slots=True)
class ClusterTotals:
    """The total load of a cluster's bundles, and the average utilisation of its brokers."""

    brokers: int
    bundles: int
    topics: int
    sessions: int
    msg_rate_per_s: float
    throughput_bytes_per_s: float
    mean_weighted_usage: float


def resolve_auto(settings: AnySettings, cluster: ClusterTotals) -> AnySettings:
    """Replace each threshold set to "auto" by a number; fixed numbers stay as they are.

    A bundle is too big if it carries more than a quarter of what an average broker carries. But a threshold is never
    lower than a fixed minimum, nor than the average bundle; otherwise a cluster of equal bundles would split all.
    """
    resolved: dict[str, Any] = {
        "namespace_bundle_max_topics": math.ceil(_largest_bundle(cluster, cluster.topics, FEWEST_TOPICS)),
        "namespace_bundle_max_sessions": math.ceil(_largest_bundle(cluster, cluster.sessions, FEWEST_SESSIONS)),
        "namespace_bundle_max_msg_rate": _largest_bundle(cluster, cluster.msg_rate_per_s, LOWEST_MSG_RATE),
        "namespace_bundle_max_bandwidth_mbytes": _largest_bundle(
            cluster, cluster.throughput_bytes_per_s / MIB, LOWEST_BANDWIDTH_MBYTES
        ),
        "broker_load_target_std": _target_std(cluster),
    }
    on_auto = {key: value for key, value in resolved.items() if getattr(settings, key) == AUTO}
    return dataclasses.replace(settings, **on_auto)


def _largest_bundle(cluster: ClusterTotals, total: float, floor: float) -> float:
    share_of_a_broker = total / max(1, cluster.brokers) * LARGEST_SHARE_OF_A_BROKER
    average_bundle = total / max(1, cluster.bundles)
    return max(floor, share_of_a_broker, average_bundle)


def _target_std(cluster: ClusterTotals) -> float:
    wanted = cluster.mean_weighted_usage * TARGET_STD_SHARE_OF_MEAN
    return min(HIGHEST_TARGET_STD, max(LOWEST_TARGET_STD, wanted))
