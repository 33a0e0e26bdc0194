"""Thresholds on auto follow the load; fixed ones do not move."""

from __future__ import annotations

import dataclasses

import pytest

from evenkeel.model.errors import InputError
from evenkeel.model.pulsar_settings import PulsarSettings, SplitThresholds
from evenkeel.model.settings import Settings
from evenkeel.pulsar_rules.auto_thresholds import MIB, ClusterTotals, resolve_auto

ALL_ON_AUTO = Settings(
    tolerance=0.2,
    broker_load_target_std="auto",
    namespace_bundle_max_topics="auto",
    namespace_bundle_max_sessions="auto",
    namespace_bundle_max_msg_rate="auto",
    namespace_bundle_max_bandwidth_mbytes="auto",
)
# 10 brokers; each carries 4,000 topics, 8,000 sessions, 40,000 msg/s and 400 MiB/s in 100 bundles.
BUSY = ClusterTotals(
    brokers=10,
    bundles=1_000,
    topics=40_000,
    sessions=80_000,
    msg_rate_per_s=400_000.0,
    throughput_bytes_per_s=4_000.0 * MIB,
    mean_weighted_usage=0.6,
)
EMPTY = ClusterTotals(0, 0, 0, 0, 0.0, 0.0, 0.0)


def test_bundle_may_carry_a_quarter_of_an_average_broker() -> None:
    settings = resolve_auto(ALL_ON_AUTO, BUSY)
    assert settings.split_thresholds == SplitThresholds(1_000, 2_000, 10_000.0, 100.0)
    assert isinstance(settings, Settings)
    assert settings.tolerance == 0.2


def test_thresholds_grow_with_the_load() -> None:
    doubled = dataclasses.replace(BUSY, msg_rate_per_s=800_000.0)
    assert resolve_auto(ALL_ON_AUTO, doubled).split_thresholds.msg_rate == 20_000.0


def test_quiet_cluster_keeps_the_floors() -> None:
    settings = resolve_auto(ALL_ON_AUTO, EMPTY)
    assert settings.split_thresholds == SplitThresholds(100, 100, 1_000.0, 10.0)
    assert settings.target_std == 0.02


def test_equal_bundles_are_never_all_too_big() -> None:
    few = dataclasses.replace(BUSY, bundles=10)
    assert resolve_auto(ALL_ON_AUTO, few).split_thresholds == SplitThresholds(4_000, 8_000, 40_000.0, 400.0)


@pytest.mark.parametrize(("mean_usage", "target_std"), [(0.05, 0.02), (0.6, 0.06), (9.0, 0.25)])
def test_target_std_is_a_tenth_of_the_mean_within_limits(mean_usage: float, target_std: float) -> None:
    cluster = dataclasses.replace(BUSY, mean_weighted_usage=mean_usage)
    assert resolve_auto(ALL_ON_AUTO, cluster).target_std == pytest.approx(target_std)


def test_fixed_thresholds_stay() -> None:
    assert resolve_auto(PulsarSettings(), BUSY) == PulsarSettings()


def test_threshold_on_auto_has_no_number_before_it_is_resolved() -> None:
    with pytest.raises(InputError, match="namespace_bundle_max_topics is on auto"):
        _ = ALL_ON_AUTO.split_thresholds
    with pytest.raises(InputError, match="broker_load_target_std is on auto"):
        _ = ALL_ON_AUTO.target_std
