"""A configuration store with a root of its own, on the same ensemble and on another one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from evenkeel.adapters.lake.snapshots import SnapshotStore
from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
from evenkeel.model.errors import InputError
from evenkeel.model.run import RunState
from evenkeel.stages.kill_switch import stop_writing
from evenkeel.stages.snapshot import take_snapshot
from support.scenes import SETTINGS, Scene

KINDS = ("extensible", "modular")


@contextmanager
def connected(hosts: str) -> Iterator[KazooClient]:
    client = KazooClient(hosts)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def with_own_root(scene: Scene, hosts: str | None, root: str) -> Scene:
    return replace(scene, connection=replace(scene.connection, configuration_zookeeper=hosts, configuration_root=root))


def reserve_first_broker(client: KazooClient, scene: Scene, root: str) -> str:
    """Write an isolation policy into the configuration store; returns its node."""
    policy = {
        "namespaces": ["no/such"],
        "primary": ["no.such.host"],
        "secondary": [],
        "auto_failover_policy": {"policy_type": "min_available", "parameters": {"min_limit": "1"}},
    }
    path = f"{root}/admin/clusters/{scene.connection.cluster}/namespaceIsolationPolicies"
    client.create(path, json.dumps({"reserved": policy}).encode())
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_policies_are_read_below_the_configuration_stores_own_root(
    stage: Callable[..., Scene], pulsar_root: str, kind: str
) -> None:
    root = f"{pulsar_root}/conf"
    scene = with_own_root(stage(kind, configuration_root=root), None, root)
    assert scene.client.exists(f"{pulsar_root}/admin/clusters") is None
    path = reserve_first_broker(scene.client, scene, root)
    manifest = take_snapshot(scene.lake, scene.connection, SETTINGS)
    rows = SnapshotStore(scene.lake).read_table(manifest, "policies").to_pylist()
    assert [row["path"] for row in rows if row["kind"] == "isolation" and "reserved" in row["document"]] == [path]
    run = scene.run(scene.plan(2))
    assert run.state is RunState.DONE, run.detail


def test_edit_in_a_configuration_store_with_its_own_root_stops_the_run(
    stage: Callable[..., Scene], tmp_path: Path
) -> None:
    with EmbeddedZooKeeper(tmp_path / "configuration") as store:
        hosts = store.connect_string
        scene = with_own_root(stage(configuration_zookeeper=hosts, configuration_root="/conf"), hosts, "/conf")
        plan_id = scene.plan(2)
        with connected(hosts) as client:
            path = reserve_first_broker(client, scene, "/conf")
        run = scene.run(plan_id)
        assert (run.state, run.detail) == (
            RunState.STOPPED,
            f"the policy {path} has changed since the snapshot: plan again",
        )
        stop_writing(scene.connection, "ada", "a test")


def test_store_without_its_root_is_refused_with_the_option_to_give(
    stage: Callable[..., Scene], pulsar_root: str
) -> None:
    root = f"{pulsar_root}/conf"
    scene = stage(configuration_root=root)
    with pytest.raises(InputError, match=f"no clusters under {pulsar_root}/admin/clusters: .*--configuration-root"):
        take_snapshot(scene.lake, scene.connection, SETTINGS)
