"""The cluster built from a seed: reproducible, worth rebalancing, and possible to rebalance."""

from __future__ import annotations

from typing import Any

import pytest

from evenkeel.fleet.layout import BundleCatalogue, build_layout, list_bundles
from evenkeel.fleet.load_manager import find_eligible
from evenkeel.fleet.settings import FleetSettings
from evenkeel.fleet.traffic import TrafficModel
from evenkeel.model.bundles import BundleName, find_ring_fault, ranges_between
from evenkeel.model.errors import InputError

NOON_S = 1_700_000_000.0
HALF_DAY_S = 43_200.0
SIZES = [(3, 24), (6, 96), (12, 400)]


class Clock:
    def __init__(self) -> None:
        self.now_s = NOON_S

    def __call__(self) -> float:
        return self.now_s


def build_model(settings: FleetSettings) -> tuple[TrafficModel, BundleCatalogue, dict[str, str], Clock]:
    layout, clock = build_layout(settings), Clock()
    catalogue = BundleCatalogue(layout.topics, layout.boundaries)
    return TrafficModel(settings, catalogue, clock), catalogue, dict(layout.owners), clock


@pytest.mark.parametrize(("brokers", "bundles"), SIZES)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_load_is_skewed_but_no_bundle_is_too_big_to_move(brokers: int, bundles: int, seed: int) -> None:
    settings = FleetSettings(brokers=brokers, bundles=bundles, seed=seed)
    model, _, owners, _ = build_model(settings)
    loads = model.bundle_loads()
    by_broker = dict.fromkeys(settings.broker_ids, 0.0)
    for bundle, owner in owners.items():
        by_broker[owner] += loads[bundle].message_rate_in
    mean = sum(by_broker.values()) / brokers
    assert max(by_broker.values()) > 1.25 * mean
    assert max(load.message_rate_in for load in loads.values()) < 0.25 * mean
    mean_out = sum(load.throughput_out for load in loads.values()) / brokers
    assert max(load.throughput_out for load in loads.values()) < 0.35 * mean_out
    for broker, rate in by_broker.items():
        usage = model.broker_usage(broker, [bundle for bundle, owner in owners.items() if owner == broker])
        assert 0 < usage.cpu.percent < 100
        assert usage.load.message_rate_in == pytest.approx(rate)


@pytest.mark.parametrize(("brokers", "bundles"), SIZES)
def test_number_of_bundles_is_exact_and_they_tile_their_rings(brokers: int, bundles: int) -> None:
    layout = build_layout(FleetSettings(brokers=brokers, bundles=bundles))
    assert len(list_bundles(layout.boundaries)) == len(layout.owners) == bundles
    assert all(find_ring_fault(ranges_between(points)) is None for points in layout.boundaries.values())


def test_same_seed_same_cluster_and_traffic() -> None:
    settings = FleetSettings(seed=7)
    assert build_layout(settings) == build_layout(settings)
    assert build_model(settings)[0].bundle_loads() == build_model(settings)[0].bundle_loads()
    assert build_layout(settings) != build_layout(FleetSettings(seed=8))


def test_traffic_follows_the_time_of_day() -> None:
    model, _, _, clock = build_model(FleetSettings())
    now = sum(load.message_rate_in for load in model.bundle_loads().values())
    clock.now_s += HALF_DAY_S
    later = sum(load.message_rate_in for load in model.bundle_loads().values())
    assert abs(later - now) > 0.1 * now


def test_noise_is_small() -> None:
    model, _, _, clock = build_model(FleetSettings())
    before = model.bundle_loads()
    clock.now_s += 5
    after = model.bundle_loads()
    assert before != after
    changes = [abs(after[b].message_rate_in / before[b].message_rate_in - 1) for b in before]
    assert max(changes) < 0.15


def test_split_keeps_every_topic_and_the_sum_of_the_load() -> None:
    model, catalogue, owners, _ = build_model(FleetSettings())
    bundle = BundleName.parse(next(iter(owners)))
    before = model.bundle_loads()[str(bundle)]
    points = catalogue.boundaries(bundle.namespace)
    assert points is not None
    middle = (bundle.range.lower + bundle.range.upper) // 2
    catalogue.set_boundaries(bundle.namespace, sorted((*points, middle)))
    children = [f"{bundle.namespace}/{part}" for part in bundle.range.split_at(middle)]
    loads = model.bundle_loads()
    assert str(bundle) not in loads
    assert sum(loads[child].topics for child in children) == before.topics
    assert sum(loads[child].message_rate_in for child in children) == pytest.approx(before.message_rate_in)


def test_idle_bundles_have_no_topics_and_no_owner() -> None:
    model, catalogue, owners, _ = build_model(FleetSettings(idle_bundles=5))
    idle = [bundle for bundle in catalogue.bundles() if bundle not in owners]
    assert len(idle) == 5
    assert not any(model.has_clients(bundle) for bundle in idle)


def test_reserved_brokers_serve_only_their_namespace() -> None:
    layout = build_layout(FleetSettings(brokers=6))
    assert layout.reserved_brokers == ("b06.fleet:8080",)
    for bundle, owner in layout.owners.items():
        is_reserved = BundleName.parse(bundle).namespace == layout.reserved_namespace
        assert (owner in layout.reserved_brokers) is is_reserved


def test_unequal_capacity_halves_the_usage_of_every_second_broker() -> None:
    model, _, owners, _ = build_model(FleetSettings(has_unequal_capacity=True))
    bundles = list(owners)[:5]
    small, large = (model.broker_usage(f"b0{number}.fleet:8080", bundles).cpu for number in (1, 2))
    assert large.limit == 2 * small.limit


@pytest.mark.parametrize(
    ("live", "namespace", "expected"),
    [
        (["a:1", "b:1", "c:1"], "t/reserved", ["a:1"]),
        (["b:1", "c:1"], "t/reserved", ["b:1"]),
        (["a:1", "b:1", "c:1"], "t/other", ["b:1", "c:1"]),
        (["a:1"], "t/other", []),
    ],
)
def test_isolation_is_pulsars_rule(live: list[str], namespace: str, expected: list[str]) -> None:
    policy: dict[str, Any] = {
        "namespaces": ["t/reserved"],
        "primary": ["a"],
        "secondary": ["b"],
        "auto_failover_policy": {"policy_type": "min_available", "parameters": {"min_limit": "1"}},
    }
    assert find_eligible(namespace, live, {"p": policy}) == expected


@pytest.mark.parametrize(
    "wrong",
    [
        {"load_manager": "simple"},
        {"brokers": 0},
        {"bundles": 0},
        {"root": "pulsar"},
        {"skew": 1.0},
        {"session_timeout_s": 0},
    ],
)
def test_wrong_settings_are_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        FleetSettings(**wrong)


def test_messages_of_a_namespace_cost_the_cpu_that_the_settings_say() -> None:
    plain, catalogue, owners, _ = build_model(FleetSettings(mean_cpu_share=0.1))
    namespace = next(iter(owners)).rpartition("/")[0]
    dear, *_ = build_model(FleetSettings(mean_cpu_share=0.1, cpu_costs={namespace: 3.0}))
    mine = [bundle for bundle in owners if bundle.startswith(f"{namespace}/")]
    others = [bundle for bundle in owners if not bundle.startswith(f"{namespace}/")][:10]
    broker = FleetSettings().broker_ids[0]
    idle = plain.broker_usage(broker, []).cpu.usage
    cheap, costly = (model.broker_usage(broker, mine[:2]).cpu.usage for model in (plain, dear))
    assert costly - idle == pytest.approx(3.0 * (cheap - idle))
    assert dear.broker_usage(broker, others).cpu == plain.broker_usage(broker, others).cpu
    assert catalogue.topics
