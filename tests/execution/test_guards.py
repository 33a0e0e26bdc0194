"""What must not change under a plan: policies, failure domains, groups, namespaces, bundles and incarnations."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pytest

from evenkeel.adapters.fencing.journal import FencedWrite, Journal
from evenkeel.adapters.lake.plans import PlanStore
from evenkeel.adapters.zookeeper.nodes import Operation
from evenkeel.model.bundles import BundleName
from evenkeel.model.plan import Step
from evenkeel.model.run import JournalEntry, RunState, StepState
from support.fleets import read_json
from support.scenes import Scene

CLUSTER_NODE = "admin/clusters/fleet"


def first_step(scene: Scene, plan_id: str) -> Step:
    return PlanStore(scene.lake).load(plan_id).steps[0]


def path_of(scene: Scene, name: str) -> str:
    return f"{scene.connection.pulsar_root}/{name}"


def put(scene: Scene, name: str, document: object) -> None:
    """Write a node as Pulsar's admin API does, and make it if it is missing."""
    path, data = path_of(scene, name), json.dumps(document).encode()
    if scene.client.exists(path) is None:
        scene.client.create(path, data, makepath=True)
    else:
        scene.client.set(path, data)


def set_group(scene: Scene, namespace: str, group: str) -> None:
    name = f"admin/local-policies/{namespace}"
    put(scene, name, read_json(scene.client, path_of(scene, name)) | {"namespaceAntiAffinityGroup": group})


def namespaces(scene: Scene) -> list[str]:
    base = path_of(scene, "admin/local-policies/acme")
    return [f"acme/{name}" for name in sorted(scene.client.get_children(base))]


def require_stopped(scene: Scene, plan_id: str, why: str) -> None:
    """Applying the plan is refused before its first step."""
    state, results, told = scene.apply(plan_id)
    assert (state, results) == (RunState.STOPPED, []), told
    assert why in told


def test_policy_that_was_deleted_and_made_again_at_the_same_version_stops_the_plan(stage: Callable[..., Scene]) -> None:
    scene = stage()
    put(scene, f"{CLUSTER_NODE}/namespaceIsolationPolicies", {})
    plan_id = scene.plan(2)
    path = path_of(scene, f"{CLUSTER_NODE}/namespaceIsolationPolicies")
    version = scene.client.exists(path).version
    scene.client.delete(path)
    scene.client.create(path, b"{}")
    for _ in range(version):
        scene.client.set(path, b"{}")
    assert scene.client.exists(path).version == version
    require_stopped(scene, plan_id, "namespaceIsolationPolicies has changed since the snapshot")


@pytest.mark.parametrize("kind", ["extensible", "modular"])
def test_failure_domain_that_is_new_or_gone_stops_the_plan(stage: Callable[..., Scene], kind: str) -> None:
    scene = stage(kind)
    put(scene, f"{CLUSTER_NODE}/failureDomain/zone-1", {"brokers": []})
    plan_id = scene.plan(2)
    put(scene, f"{CLUSTER_NODE}/failureDomain/zone-2", {"brokers": []})
    require_stopped(scene, plan_id, "failureDomain/zone-2 has changed since the snapshot")
    scene.client.delete(path_of(scene, f"{CLUSTER_NODE}/failureDomain/zone-2"))
    scene.client.delete(path_of(scene, f"{CLUSTER_NODE}/failureDomain/zone-1"))
    require_stopped(scene, plan_id, "failureDomain/zone-1 has changed since the snapshot")


def test_group_that_a_moved_namespace_got_meanwhile_stops_the_plan(stage: Callable[..., Scene]) -> None:
    scene = stage()
    plan_id = scene.plan(1)
    moved = BundleName.parse(first_step(scene, plan_id).bundle).namespace
    other = next(name for name in namespaces(scene) if name != moved)
    set_group(scene, other, "apart")
    set_group(scene, moved, "apart")
    require_stopped(scene, plan_id, f"the anti-affinity group of namespace {moved} has changed since the snapshot")


def test_namespace_that_joins_the_group_of_a_moved_one_stops_the_plan(stage: Callable[..., Scene]) -> None:
    scene = stage()
    moved = BundleName.parse(first_step(scene, scene.plan(1)).bundle).namespace
    other = next(name for name in namespaces(scene) if name != moved)
    set_group(scene, moved, "apart")
    plan_id = scene.plan(1)
    set_group(scene, other, "APART")
    require_stopped(scene, plan_id, f"the anti-affinity group of namespace {other} has changed since the snapshot")


def test_group_of_a_namespace_that_has_nothing_to_do_with_the_plan_is_no_reason_to_stop(
    stage: Callable[..., Scene],
) -> None:
    scene = stage()
    plan_id = scene.plan(1)
    moved = BundleName.parse(first_step(scene, plan_id).bundle).namespace
    set_group(scene, next(name for name in namespaces(scene) if name != moved), "apart")
    state, _, told = scene.apply(plan_id)
    assert state is RunState.DONE, told


@pytest.mark.parametrize("kind", ["extensible", "modular"])
def test_namespace_that_was_deleted_is_named_as_the_reason(stage: Callable[..., Scene], kind: str) -> None:
    scene = stage(kind)
    plan_id = scene.plan(1)
    moved = BundleName.parse(first_step(scene, plan_id).bundle).namespace
    scene.client.delete(path_of(scene, f"admin/local-policies/{moved}"))
    _, (result,), _ = scene.apply(plan_id)
    assert (result.state, result.detail) == (StepState.SKIPPED, f"namespace {moved} was deleted")


@pytest.mark.parametrize("kind", ["extensible", "modular"])
def test_bundle_that_pulsar_has_split_is_skipped_with_the_boundary(stage: Callable[..., Scene], kind: str) -> None:
    scene = stage(kind)
    plan_id = scene.plan(1)
    bundle = BundleName.parse(first_step(scene, plan_id).bundle)
    middle = (bundle.range.lower + bundle.range.upper) // 2
    name = f"admin/local-policies/{bundle.namespace}"
    document = read_json(scene.client, path_of(scene, name))
    edges = sorted({*document["bundles"]["boundaries"], f"0x{middle:08x}"})
    put(scene, name, document | {"bundles": {"boundaries": edges, "numBundles": len(edges) - 1}})
    _, (result,), _ = scene.apply(plan_id)
    assert (result.state, result.detail) == (StepState.SKIPPED, f"the bundle was split at 0x{middle:08x}")


def test_broker_that_registered_again_on_its_old_node_is_another_incarnation(stage: Callable[..., Scene]) -> None:
    """Killed and back within its session time-out, a broker writes its old node: the czxid stays."""
    scene = stage()
    plan_id = scene.plan(1)
    destination = first_step(scene, plan_id).destination
    register_again(scene, str(destination))
    _, (result,), _ = scene.apply(plan_id)
    assert result.state is StepState.SKIPPED
    assert f"broker {destination} has restarted" in result.detail


def test_broker_that_registers_again_between_proof_and_write_is_noticed_by_zookeeper(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = stage()
    plan_id = scene.plan(1)
    step = first_step(scene, plan_id)
    prepare = Journal.prepare

    def restart_then_prepare(journal: Journal, entry: JournalEntry, effects: Sequence[Operation] = ()) -> FencedWrite:
        register_again(scene, str(step.destination))
        return prepare(journal, entry, effects)

    monkeypatch.setattr(Journal, "prepare", restart_then_prepare)
    _, (result,), _ = scene.apply(plan_id)
    assert result.state is StepState.SKIPPED
    assert result.detail == f"broker {step.destination} has restarted since the plan was made"
    assert scene.fleet.owner_of(step.bundle) == step.source


def test_modular_broker_that_only_reports_its_load_is_the_same_incarnation(stage: Callable[..., Scene]) -> None:
    scene = stage("modular")
    plan_id = scene.plan(1)
    register_again(scene, str(first_step(scene, plan_id).destination))
    state, (result,), told = scene.apply(plan_id)
    assert (state, result.state) == (RunState.DONE, StepState.SETTLED), told


def register_again(scene: Scene, broker: str) -> None:
    path = path_of(scene, f"loadbalance/brokers/{broker}")
    scene.client.set(path, scene.client.get(path)[0])
