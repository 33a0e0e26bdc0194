"""The verifier catches each kind of bad plan."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from evenkeel.model.plan import Step, invert
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.planning.verifier.verifier import find_violations
from support.clusters import Cluster, broker, bundles, isolation, plan

# b1 (z1): t/a t/s t/x t/g pulsar/system | b2 (z2): t/b t/u t/g | b3 Stopping | b4 (z2): t/h | r1 for t/r only
CLUSTER = Cluster(
    (
        broker("b1", domain="z1"),
        broker("b2", domain="z2"),
        broker("b3", state="Stopping"),
        broker("b4", domain="z2"),
        broker("r1"),
    ),
    bundles(
        {
            "b1": [("t/a", 300), ("t/s", 5), ("t/x", 10), ("t/g", 10), ("pulsar/system", 10)],
            "b2": [("t/b", 300), ("t/u", 5), ("t/g", 10)],
            "b4": [("t/h", 300)],
        }
    ),
    Policies(
        isolation=(isolation("reserved", ["t/r"], ["r1"]),),
        anti_affinity={"t/g": "g"},
        excluded_namespaces=frozenset({"t/x"}),
    ),
)
NAMES = {(str(ns), str(owner)[:2]): str(name) for name, ns, owner in zip(
    CLUSTER.bundles.bundle, CLUSTER.bundles.namespace, CLUSTER.bundles.owner, strict=True
)}  # fmt: skip


def step(
    namespace: str, source: str, destination: str | None, order: int = 0, wave: int = 0, **changes: object
) -> Step:
    made = Step(
        order=order,
        wave=wave,
        kind="transfer",
        bundle=NAMES.get((namespace, source), namespace),
        source=f"{source}:8080",
        source_incarnation=7,
        destination=destination and f"{destination}:8080",
        destination_incarnation=7,
        expected_version_id=2,
        throughput_in_bytes_per_s=0,
        throughput_out_bytes_per_s=0,
        cpu_millipercent=0,
        topics=1,
        sessions=10,
        disruption_client_ms=0,
        reason="",
    )
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def broken_rules(*steps: Step, settings: Settings | None = None, cluster: Cluster = CLUSTER) -> set[str]:
    found = find_violations(
        steps, cluster.brokers, cluster.bundles, cluster.policies, settings or Settings(wave_steps=2)
    )
    return {violation.rule for violation in found}


def test_a_legal_step_passes() -> None:
    assert broken_rules(step("t/s", "b1", "b4")) == set()
    assert broken_rules() == set()


@pytest.mark.parametrize(
    ("bad", "rule"),
    [
        (step("t/unknown/0x00000000_0x00000001", "b1", "b2"), "unknown-bundle"),
        (step(NAMES["t/a", "b1"], "b2", "b4"), "wrong-owner"),
        (step("t/a", "b1", "nobody"), "unknown-destination"),
        (step("t/a", "b1", None), "unknown-destination"),
        (step("t/a", "b1", "b1"), "moves-to-itself"),
        (step("t/a", "b1", "b3"), "not-active"),
        (step("t/a", "b1", "r1"), "not-eligible"),
        (step("t/a", "b1", "b2", source_incarnation=6), "incarnation"),
        (step("t/a", "b1", "b2", destination_incarnation=8), "incarnation"),
        (step("t/a", "b1", "b2", expected_version_id=5), "version"),
        (step("t/x", "b1", "b2"), "excluded-namespace"),
        (step("pulsar/system", "b1", "b2"), "system-namespace"),
        (step("t/g", "b1", "b2"), "anti-affinity"),
        (step("t/g", "b1", "b4"), "anti-affinity"),  # the broker has none, but its failure domain has
        (step("t/a", "b1", "b2", kind="copy"), "unknown-kind"),
        (step("t/a", "b1", "b2", kind="unload"), "destination"),
        (step("t/a", "b1", "b2", order=1), "order"),
        (step("t/a", "b1", "b2", wave=1), "waves"),
    ],
)
def test_each_kind_of_bad_step_is_caught(bad: Step, rule: str) -> None:
    assert rule in broken_rules(bad)


def test_a_bundle_may_move_only_once() -> None:
    again = step("t/a", "b1", "b4", order=1, wave=1)
    assert "moved-twice" in broken_rules(step("t/a", "b1", "b2"), again)


def test_budget_and_wave_sizes_are_kept() -> None:
    two = (step("t/s", "b1", "b4"), step("t/u", "b2", "b4", order=1))
    assert broken_rules(*two) == {"wave-size"}
    assert broken_rules(*two, settings=Settings(max_steps=1, canary_steps=2)) == {"step-budget"}
    assert broken_rules(two[0], dataclasses.replace(two[1], wave=1)) == set()


def test_wave_must_be_legal_even_if_nothing_leaves_the_destination_first() -> None:
    # b2 and b4 exchange bundles of 30 %: in one wave either may have 60 % for a while
    there, back = step("t/b", "b2", "b4"), step("t/h", "b4", "b2", order=1)
    assert broken_rules(there, back, settings=Settings(canary_steps=2)) == set()
    strict = Settings(canary_steps=2, broker_overloaded_threshold_percentage=50.0)
    found = find_violations((there, back), CLUSTER.brokers, CLUSTER.bundles, CLUSTER.policies, strict)
    assert [(violation.rule, violation.order) for violation in found] == [("overload", 1), ("overload", 0)]


def test_peak_may_not_rise_above_the_band() -> None:
    assert broken_rules(step("t/a", "b1", "b2")) == {"worse-peak"}


def test_peak_may_rise_where_a_broker_has_to_be_emptied() -> None:
    cluster = Cluster(
        (broker("b1"), broker("b2", state="Stopping")), bundles({"b1": [("t/a", 100)], "b2": [("t/b", 100)]})
    )
    planned = plan(cluster)
    assert len(planned.steps) == 1
    assert find_violations(planned.steps, cluster.brokers, cluster.bundles, cluster.policies, Settings()) == []


def test_inverse_of_a_plan_is_not_taken_for_a_plan_of_the_same_snapshot() -> None:
    rules = broken_rules(*invert([step("t/b", "b2", "b4")]))
    assert {"wrong-owner", "version"} <= rules


@pytest.mark.parametrize(
    ("budget", "rule"),
    [
        ({"max_steps": 0}, "step-budget"),
        ({"max_moved_bytes_per_s": 9}, "bytes-budget"),
        ({"max_moved_sessions": 9}, "sessions-budget"),
        ({"max_client_seconds": 0.1}, "disruption-budget"),
        ({"tenant_max_steps": 0}, "tenant-step-budget"),
        ({"tenant_max_moved_bytes_per_s": 9}, "tenant-bytes-budget"),
        ({"tenant_max_sessions": 9}, "tenant-sessions-budget"),
        ({"tenant_max_client_seconds": 0.1}, "tenant-disruption-budget"),
        ({"wave_max_moved_bytes_per_s": 9}, "wave-bytes-budget"),
        ({"wave_max_sessions": 9}, "wave-sessions-budget"),
        ({"wave_max_client_seconds": 0.1}, "wave-disruption-budget"),
    ],
)
def test_every_budget_is_hard_whatever_the_step_says_of_itself(budget: dict[str, float], rule: str) -> None:
    # 5 bytes/s in and out, 10 sessions; the step itself claims to move nothing
    small = step("t/s", "b1", "b4", sessions=0)
    assert broken_rules(small, settings=Settings(**budget)) == {rule}  # type: ignore[arg-type]
    enough = dict.fromkeys(budget, 1000)
    assert broken_rules(small, settings=Settings(**enough)) == set()  # type: ignore[arg-type]


def test_broker_at_its_topic_limit_takes_no_more() -> None:
    # b4 has one topic, a second one would reach the limit
    assert broken_rules(step("t/s", "b1", "b4"), settings=Settings(broker_max_topics=2)) == {"topic-limit"}
    assert broken_rules(step("t/s", "b1", "b4"), settings=Settings(broker_max_topics=3)) == set()


def test_bundle_in_flight_is_left_alone() -> None:
    states = np.where(CLUSTER.bundles.bundle == NAMES["t/s", "b1"], "Releasing", "Owned").astype(object)
    busy = dataclasses.replace(CLUSTER, bundles=dataclasses.replace(CLUSTER.bundles, state=states))
    assert broken_rules(step("t/s", "b1", "b4"), cluster=busy) == {"in-flight"}


def with_broker(name: str, **changes: object) -> Cluster:
    """The cluster with something changed about one broker."""
    brokers = tuple(
        dataclasses.replace(row, **changes) if row.broker_id == f"{name}:8080" else row  # type: ignore[arg-type]
        for row in CLUSTER.brokers
    )
    return dataclasses.replace(CLUSTER, brokers=brokers)


def test_destination_must_run_the_load_manager_of_the_source() -> None:
    assert broken_rules(step("t/s", "b1", "b4"), cluster=with_broker("b4", load_manager="modular")) == {"load-manager"}


def versions(**of_broker: str | None) -> Cluster:
    """The cluster with these versions, and 4.0.0 elsewhere."""
    brokers = tuple(
        dataclasses.replace(row, version=of_broker.get(row.broker_id[:2], "4.0.0")) for row in CLUSTER.brokers
    )
    return dataclasses.replace(CLUSTER, brokers=brokers)


def test_only_brokers_of_the_latest_version_receive_where_they_are_preferred() -> None:
    prefer = Settings(prefer_later_versions=True)
    small = step("t/s", "b1", "b4")
    assert broken_rules(small, settings=prefer, cluster=versions(b2="4.1.0")) == {"version-filter"}
    assert broken_rules(small, cluster=versions(b2="4.1.0")) == set()
    assert broken_rules(small, settings=prefer, cluster=versions(b4="4.1.0")) == set()
    # b3 is being emptied and counts for nothing; one that has no version makes Pulsar pass over the filter
    assert broken_rules(small, settings=prefer, cluster=versions(b3="4.1.0")) == set()
    assert broken_rules(small, settings=prefer, cluster=versions(b2="4.1.0", b1=None)) == set()


def test_secondaries_may_own_what_no_primary_of_the_latest_version_is_left_for() -> None:
    # t/s: primary b2, secondary b4; the extensible manager looks at versions first
    policies = dataclasses.replace(CLUSTER.policies, isolation=(isolation("p", ["t/s"], ["b2"], ["b4"]),))
    cluster = dataclasses.replace(versions(b4="4.1.0"), policies=policies)
    small = step("t/s", "b1", "b4")
    assert broken_rules(small, cluster=cluster) == {"not-eligible"}
    assert broken_rules(small, settings=Settings(prefer_later_versions=True), cluster=cluster) == set()


def test_what_an_unload_lets_go_leaves_its_broker() -> None:
    # b2: 300 leaves, then 300 come from b4: never more than 60 %
    unload = step("t/b", "b2", None, kind="unload", destination_incarnation=None)
    strict = Settings(broker_overloaded_threshold_percentage=50.0)
    come = step("t/h", "b4", "b2", order=1, wave=1)
    assert broken_rules(unload, come, settings=strict) == set()
    assert "overload" in broken_rules(dataclasses.replace(come, order=0, wave=0), settings=strict)


def test_idle_bundles_are_no_load() -> None:
    idle = dataclasses.replace(CLUSTER.bundles, owner=np.array([None] * len(CLUSTER.bundles), dtype=object))
    assert find_violations([], CLUSTER.brokers, idle, CLUSTER.policies, Settings()) == []
