"""Plans of one step by hand: what they say, and what is refused in which words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from evenkeel.model.errors import EvenkeelError, RefusedError
from evenkeel.model.figures import StepCounts
from evenkeel.model.plan import MANUAL, Step, StepKind
from evenkeel.model.policies import PolicyVersion
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Bundle, PolicyDocument, Topic
from evenkeel.planning.manual.build_plan import LoadedSnapshot
from evenkeel.planning.manual.requests import ManualRequest, build_manual_plan, find_bundle
from evenkeel.planning.pulsar_strategies.counterfactual import STRATEGIES
from evenkeel.pulsar_rules.ring import hash_topic
from support import small_cluster
from support.by_hand import known, pinned_to
from support.small_cluster import B01, B02, B03, MEGABYTE, TAKEN_AT, change

FIRST, LAST = "shop/orders/0x00000000_0x40000000", "shop/orders/0xc0000000_0xffffffff"


def wish(kind: StepKind, target: str = FIRST, **more: Any) -> ManualRequest:
    return ManualRequest(kind, target, "ada", **more)


def planned(cluster: LoadedSnapshot, wanted: ManualRequest) -> Step:
    (step,) = build_manual_plan(cluster, wanted).steps
    return step


def refusal(wanted: ManualRequest, cluster: LoadedSnapshot | None = None) -> str:
    with pytest.raises(EvenkeelError) as caught:
        build_manual_plan(cluster or known(), wanted)
    return str(caught.value)


def with_first(**changes: Any) -> list[Bundle]:
    return change(small_cluster.bundles(), "bundle", FIRST, **changes)


def topic(name: str, bundle: str, megabytes: float = 1.0) -> Topic:
    return Topic(name, bundle, hash_topic(name), throughput_in_bytes_per_s=megabytes * MEGABYTE)


def test_move_carries_what_the_guards_have_to_prove() -> None:
    made = build_manual_plan(known(), wish(StepKind.TRANSFER, destination=B03))
    (step,) = made.steps
    assert (step.kind, step.bundle, step.source, step.destination) == ("transfer", FIRST, B01, B03)
    assert (step.source_incarnation, step.destination_incarnation, step.expected_version_id) == (101, 103, 7)
    assert (step.throughput_in_bytes_per_s, step.cpu_millipercent, step.sessions) == (20 * MEGABYTE, 20_000, 10)
    assert step.disruption_client_ms > 0
    assert step.reason == "ada asked for it"
    plan = made.plan
    assert (plan.strategy, plan.step_counts) == (MANUAL, StepCounts(transfers=1))
    assert (plan.expires_at - TAKEN_AT).total_seconds() == 14_400
    after = {row.broker_id: row.used_after for row in made.brokers if row.resource == "bandwidth_in"}
    assert after == {B01: 40 * MEGABYTE, B02: 20 * MEGABYTE, B03: 30 * MEGABYTE}


def test_policy_versions_of_the_snapshot_are_in_the_plan() -> None:
    cluster = known(documents=[PolicyDocument("isolation", "", "{}", "/admin/clusters/fleet/x", 4, 17)])
    assert build_manual_plan(cluster, wish(StepKind.UNLOAD)).plan.policy_versions == {
        "/admin/clusters/fleet/x": PolicyVersion(17, 4)
    }


def test_move_that_makes_the_balance_worse_is_left_to_the_person() -> None:
    assert planned(known(), wish(StepKind.TRANSFER, LAST, destination=B01)).destination == B01


@pytest.mark.parametrize("name", ["persistent://shop/orders/cart", "shop/orders/cart"])
def test_topic_stands_for_its_bundle(name: str) -> None:
    found = find_bundle(known(), name)
    assert found.range_lower <= hash_topic("persistent://shop/orders/cart") < found.range_upper


def test_partition_is_found_by_its_own_name_and_the_whole_topic_is_refused() -> None:
    partitions = [f"persistent://shop/orders/cart-partition-{n}" for n in range(3)]
    cluster = known(topics=[topic(name, FIRST) for name in partitions])
    found = find_bundle(cluster, partitions[2])
    assert found.range_lower <= hash_topic(partitions[2]) < found.range_upper
    told = refusal(wish(StepKind.UNLOAD, "persistent://shop/orders/cart"), cluster)
    assert told.startswith("persistent://shop/orders/cart has 3 partitions, each in a bundle of its own: name one")


def test_unload_leaves_the_next_owner_open() -> None:
    made = build_manual_plan(known(), wish(StepKind.UNLOAD))
    (step,) = made.steps
    assert (step.kind, step.destination, step.sessions) == ("unload", None, 10)
    after = {row.broker_id: row.used_after for row in made.brokers if row.resource == "cpu"}
    assert after == {B01: 40_000, B02: 20_000, B03: 10_000}


def test_split_is_cut_at_the_boundary_given_and_costs_nobody_anything() -> None:
    step = planned(known(), wish(StepKind.SPLIT, boundary="0x10000000"))
    assert (step.split_boundary, step.destination, step.disruption_client_ms) == (0x10000000, None, 0)


def test_split_without_a_boundary_halves_the_load_of_the_topics() -> None:
    names = sorted(
        (name for n in range(60) if hash_topic(name := f"persistent://shop/orders/t{n}") < 0x40000000), key=hash_topic
    )
    loads = [100.0, *[1.0] * (len(names) - 1)]
    cluster = known(topics=[topic(name, FIRST, load) for name, load in zip(names, loads, strict=True)])
    step = planned(cluster, wish(StepKind.SPLIT))
    assert hash_topic(names[0]) < (step.split_boundary or 0) <= hash_topic(names[1]), "the heavy topic stands alone"
    assert "topic load" in step.reason


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        (wish(StepKind.TRANSFER, destination="b9:8080"), "cluster fleet has no broker b9:8080: choose one of"),
        (wish(StepKind.TRANSFER, destination=B01), f"{B01} already owns {FIRST}: nothing to do"),
        (wish(StepKind.UNLOAD, "shop/orders/0x00000000_0x10000000"), "there is no bundle shop/orders/0x00000000_0x1"),
        (wish(StepKind.UNLOAD, "shop/nowhere/0x00000000_0x10000000"), "cluster fleet has no bundles of shop/nowhere"),
        (wish(StepKind.UNLOAD, "persistent://shop/nowhere/t"), "fleet has no bundles of namespace shop/nowhere"),
        (wish(StepKind.UNLOAD, "orders"), "'orders' is neither a bundle nor a topic"),
        (wish(StepKind.SPLIT, boundary="0x40000000"), "the boundary 0x40000000 is not inside"),
        (wish(StepKind.SPLIT, boundary="0x00000000"), "choose one above 0x00000000 and below 0x40000000"),
        (wish(StepKind.SPLIT, boundary="half"), "'half' is not a boundary"),
    ],
)
def test_wish_that_cannot_be_is_refused(wanted: ManualRequest, sentence: str) -> None:
    assert sentence in refusal(wanted)


@pytest.mark.parametrize(
    ("bundles", "sentence"),
    [
        (with_first(owner=None, state="Init"), "is idle: no broker owns it"),
        (with_first(owner=None, state="Free"), "is idle: no broker owns it"),
        (with_first(state="Releasing"), "is in flight (Releasing): try again once it has an owner"),
        (with_first(owner="gone:8080"), f"gone:8080, the owner of {FIRST}, is not registered"),
    ],
)
def test_bundle_that_nobody_can_hand_over_is_refused(bundles: Sequence[Bundle], sentence: str) -> None:
    assert sentence in refusal(wish(StepKind.TRANSFER, destination=B03), known(bundles=bundles))


def test_system_namespace_is_refused() -> None:
    bundles = with_first(namespace="pulsar/system")
    assert "Pulsar pins the bundles of pulsar/system" in refusal(wish(StepKind.UNLOAD), known(bundles=bundles))


def test_broker_that_policy_forbids_is_refused() -> None:
    cluster = known(documents=[pinned_to("b01.fleet", "b02.fleet")])
    told = refusal(wish(StepKind.TRANSFER, destination=B03), cluster)
    assert told.startswith(f"{B03} may not own shop/orders by isolation policy pinned: ")
    assert planned(cluster, wish(StepKind.TRANSFER, destination=B02)).destination == B02


@pytest.mark.parametrize("state", ["Stopping", "Inactive", "Initial"])
def test_broker_that_is_not_active_is_refused(state: str) -> None:
    cluster = known(brokers=change(small_cluster.brokers(), "broker_id", B03, state=state))
    with pytest.raises(RefusedError, match=f"{B03} is {state} and may not receive"):
        build_manual_plan(cluster, wish(StepKind.TRANSFER, destination=B03))


def test_anti_affinity_is_never_made_worse_by_hand() -> None:
    # shop/audit has one bundle on b02 and one on b03; both on one broker would be worse
    cluster = known(documents=[PolicyDocument("anti_affinity", "shop/audit", '"apart"')])
    told = refusal(wish(StepKind.TRANSFER, "shop/audit/0x00000000_0x80000000", destination=B03), cluster)
    assert "could own 2 bundles of group apart" in told


def test_split_of_a_single_topic_is_refused() -> None:
    assert "has fewer than 2 topics" in refusal(wish(StepKind.SPLIT), known(bundles=with_first(topics=1)))


def test_report_can_tell_what_pulsar_would_have_done_instead() -> None:
    # A bundle whose owner is gone takes no part, and must not keep a person from moving another.
    orphaned = change(small_cluster.bundles(), "bundle", LAST, owner="gone:8080")
    rows = build_manual_plan(known(bundles=orphaned), wish(StepKind.TRANSFER, destination=B03)).plan.counterfactual
    assert [row.strategy for row in rows] == list(STRATEGIES)
    assert all(row.worst_before > 1.0 for row in rows)
    assert all(row.explanation for row in rows)


def test_comparison_with_pulsar_is_left_out_of_a_plan_by_hand_for_too_many_bundles() -> None:
    cluster = known(settings=Settings(counterfactual_max_bundles=1))
    rows = build_manual_plan(cluster, wish(StepKind.UNLOAD)).plan.counterfactual
    assert [row.unloads for row in rows] == [None, None]
    assert "more than 1 (setting counterfactual_max_bundles)" in rows[0].stopped_because
