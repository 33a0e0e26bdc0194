"""The verifier catches each kind of bad plan."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from evenkeel.model.plan import Step, invert
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.planning.verifier import find_violations
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


def broken_rules(*steps: Step, settings: Settings | None = None) -> set[str]:
    found = find_violations(
        steps, CLUSTER.brokers, CLUSTER.bundles, CLUSTER.policies, settings or Settings(wave_steps=2)
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
    assert broken_rules(*two) == {"waves"}
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


def test_idle_bundles_are_no_load() -> None:
    idle = dataclasses.replace(CLUSTER.bundles, owner=np.array([None] * len(CLUSTER.bundles), dtype=object))
    assert find_violations([], CLUSTER.brokers, idle, CLUSTER.policies, Settings()) == []
