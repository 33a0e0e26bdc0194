"""What an operator does by hand, as commands on a running fleet: stop, resume, move, rollback, runs, drain."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl

from evenkeel.adapters.lake.store import Lake
from evenkeel.fleet.fleet import Fleet
from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
from evenkeel.model.connection import ClusterConnection
from support.commands import Answer, converse, evenkeel, evenkeel_here
from support.fleets import first_bundle, owned_bundles, running_fleet
from support.scenes import SWITCHES_OF_FLEET, Scene, die_in_mid_wave
from support.waiting import eventually, scaled, wait_for

B1, B2, B3 = (f"b0{n}.fleet:8080" for n in (1, 2, 3))
# Each gate and each job starts a Spark of its own.
SPARK_TIMEOUT_S = 900
COMMANDS = ("move", "unload", "split", "rollback", "drain", "stop", "resume", "restore-balancer", "runs")


@dataclass(frozen=True)
class Desk:
    """An operator's desk: a fleet, and the options that lead to it."""

    fleet: Fleet
    folder: Path
    cluster: str
    zookeeper: str
    pulsar_root: str

    @property
    def options(self) -> tuple[object, ...]:
        live = ("--zookeeper", self.zookeeper, "--cluster", self.cluster, "--pulsar-root", self.pulsar_root)
        return (*live, "--lake", self.folder / "lake", "--settings", self.folder / "settings.toml")

    def run(self, command: str, *arguments: object) -> Answer:
        return evenkeel(command, *arguments, *self.options, cwd=self.folder)

    def converse(self, answer: str, *arguments: object) -> tuple[int, str]:
        """Run a command at a terminal, and answer when it asks whether to apply."""
        return converse([*arguments, *self.options], "apply this plan?", answer, self.folder)

    def switch(self, command: str, *arguments: object) -> Answer:
        live = ("--zookeeper", self.zookeeper, "--cluster", self.cluster, "--pulsar-root", self.pulsar_root)
        return evenkeel(command, *live, *arguments)

    def runs(self, *arguments: object) -> Any:
        options = ("--lake", self.folder / "lake", "--cluster", self.cluster, "--zookeeper", self.zookeeper)
        return evenkeel("runs", *options, "--json", *arguments).document["runs"]


@pytest.fixture
def desk(zookeeper: EmbeddedZooKeeper, pulsar_root: str, tmp_path: Path) -> Iterator[Desk]:
    # A name of its own, since all tests share Evenkeel's root in ZooKeeper.
    cluster = f"hands-{secrets.token_hex(3)}"
    (tmp_path / "settings.toml").write_text(f"verify_wait_s = {scaled(5.0)}\nsession_timeout_s = {scaled(6.0)}\n")
    (tmp_path / "evenkeel.toml").write_text("[approval]\nunsigned = true\n")
    with running_fleet(zookeeper, pulsar_root, cluster=cluster, brokers=3, bundles=24) as fleet:
        yield Desk(fleet, tmp_path, cluster, zookeeper.connect_string, pulsar_root)


def test_every_command_explains_itself_and_refuses_wrong_usage() -> None:
    for command in COMMANDS:
        assert "--json" in evenkeel_here(command, "--help").out, command
        assert evenkeel_here(command, "--no-such-option").code == 2, command


def test_kill_switch_is_pulled_once_and_named(zookeeper: EmbeddedZooKeeper, client: KazooClient) -> None:
    cluster = f"hands-{secrets.token_hex(3)}"
    client.ensure_path(f"/admin/clusters/{cluster}")
    live = ("--zookeeper", zookeeper.connect_string, "--cluster", cluster)
    first = evenkeel("stop", *live, "--reason", "consumers lag", "--json")
    second = evenkeel("stop", *live, "--reason", "me too")
    assert (first.code, first.document["is_new"]) == (0, True), first.err
    assert second.code == 0
    assert f"writes to {cluster} were already stopped by {first.document['order']['who']} at" in second.out
    assert "(consumers lag)" in second.out
    assert client.exists(f"/evenkeel/{cluster}/stop")
    resumed = evenkeel("resume", *live)
    assert (resumed.code, "are allowed again" in resumed.out) == (0, True)
    assert client.exists(f"/evenkeel/{cluster}/stop") is None
    assert f"writes to {cluster} were not stopped" in evenkeel("resume", *live).out
    client.delete(f"/admin/clusters/{cluster}")


def test_stop_that_does_not_reach_every_root_fails_and_names_the_root(
    zookeeper: EmbeddedZooKeeper, client: KazooClient
) -> None:
    cluster, root = f"hands-{secrets.token_hex(3)}", f"/keel-{secrets.token_hex(3)}"
    client.ensure_path(f"/admin/clusters/{cluster}")
    client.ensure_path(f"{root}/{cluster}/fence")
    client.set_acls(f"{root}/{cluster}", [make_acl("world", "anyone", read=True, delete=True)])
    live = ("--zookeeper", zookeeper.connect_string, "--cluster", cluster)
    answer = evenkeel("stop", *live)
    assert answer.code == 1
    assert (
        f"all writes to {cluster} are stopped\nnobody was writing; the fence was raised from version 0 to 1"
        in answer.out
    )
    assert f"writers below the Evenkeel root {root} are not stopped" in answer.err
    listed = evenkeel("stop", *live, "--json")
    assert (listed.code, listed.document["stopped"]) == (1, False)
    assert [each["root"] for each in listed.document["not_stopped"]] == [root]
    client.delete(f"{root}/{cluster}", recursive=True)
    reached = evenkeel("stop", *live, "--evenkeel-root", root)
    assert reached.code == 0, reached.err
    assert f"all writes to {cluster} below the Evenkeel root {root} are stopped" in reached.out
    assert f"writes to {cluster} below the Evenkeel root /evenkeel were already stopped by" in reached.out
    client.delete(root, recursive=True)
    client.delete(f"/admin/clusters/{cluster}")


@pytest.mark.parametrize("command", ["stop", "resume"])
def test_kill_switch_of_a_cluster_that_zookeeper_does_not_know_is_refused(
    zookeeper: EmbeddedZooKeeper, client: KazooClient, command: str
) -> None:
    known, mistyped = (f"hands-{secrets.token_hex(3)}" for _ in range(2))
    client.ensure_path(f"/admin/clusters/{known}")
    answer = evenkeel(command, "--zookeeper", zookeeper.connect_string, "--cluster", mistyped)
    client.delete(f"/admin/clusters/{known}")
    assert (answer.code, answer.out) == (1, "")
    assert f"no cluster '{mistyped}' under /admin/clusters: the clusters there are" in answer.err
    assert client.exists(f"/evenkeel/{mistyped}") is None


def test_balancer_that_nobody_left_off_needs_nothing(desk: Desk) -> None:
    answer = desk.switch("restore-balancer")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == f"no writer of Evenkeel has left Pulsar's balancer of {desk.cluster} off\n"
    assert desk.switch("restore-balancer", "--json").document == {"cluster": desk.cluster, "restored": []}
    mistyped = desk.switch("restore-balancer", "--cluster", "nowhere")
    assert (mistyped.code, "no cluster 'nowhere' under" in mistyped.err) == (1, True)


def test_balancer_that_a_dead_writer_left_off_is_restored(desk: Desk, client: KazooClient) -> None:
    connection = ClusterConnection(desk.cluster, desk.zookeeper, pulsar_root=desk.pulsar_root)
    scene = Scene(desk.fleet, Lake(str(desk.folder / "lake")), connection, client)
    plan_id = scene.plan(2)
    die_in_mid_wave(scene, plan_id)
    answer = desk.switch("restore-balancer")
    assert answer.code == 0, answer.err
    assert f"plan {plan_id[:12]} switched them off, and its writer is gone\n" in answer.out
    assert "loadBalancerSheddingEnabled is true again\n" in answer.out
    assert scene.switches() == SWITCHES_OF_FLEET


def test_command_by_hand_restores_the_balancer_before_it_is_refused(desk: Desk, client: KazooClient) -> None:
    connection = ClusterConnection(desk.cluster, desk.zookeeper, pulsar_root=desk.pulsar_root)
    scene = Scene(desk.fleet, Lake(str(desk.folder / "lake")), connection, client)
    plan_id = scene.plan(2)
    die_in_mid_wave(scene, plan_id)
    wait_for(lambda: client.exists(f"{connection.home}/writer") is None, "the dead writer's session has ended")
    refused = desk.run("unload", "acme/nowhere/0x00000000_0x40000000")
    assert (refused.code, "there is no bundle" in refused.err) == (1, True)
    assert f"plan {plan_id[:12]} switched them off, and its writer is gone\n" in refused.err
    assert scene.switches() == SWITCHES_OF_FLEET


def test_stop_without_a_zookeeper_is_one_sentence() -> None:
    answer = evenkeel("stop", "--zookeeper", "127.0.0.1:1", "--cluster", "lab")
    assert (answer.code, answer.out) == (1, "")
    assert "ZooKeeper at 127.0.0.1:1 did not answer" in answer.err


def test_runs_of_an_empty_lake_are_none(tmp_path: Path) -> None:
    assert evenkeel("runs", "--lake", tmp_path).out == "no runs yet\n"
    assert evenkeel("runs", "--lake", tmp_path, "--json").document == {"runs": []}
    wrong = evenkeel("runs", "--lake", tmp_path, "--zookeeper", "127.0.0.1:1")
    assert (wrong.code, "give --cluster too" in wrong.err) == (1, True)


@pytest.mark.timeout(SPARK_TIMEOUT_S)
def test_bundle_is_moved_by_hand_and_brought_back(desk: Desk) -> None:
    bundle = first_bundle(desk.fleet, B1)
    unasked = desk.run("move", bundle, "--to", B3, "--json")
    assert unasked.code == 1
    assert "the plan is not approved: it is stored; run `evenkeel approve" in unasked.err
    assert desk.fleet.owner_of(bundle) == B1, "nothing is changed without a yes"
    moved = desk.run("move", bundle, "--to", B3, "--yes", "--json")
    assert moved.code == 0, moved.err
    told = moved.document
    assert (told["strategy"], told["run"]["state"], told["run"]["settled"]) == ("manual", "done", 1)
    assert (told["gate"]["passed"], told["verification"]["passed"]) == (True, True)
    assert eventually(lambda: desk.fleet.owner_of(bundle) == B3)
    desk.switch("stop", "--reason", "hands off")
    stopped = desk.run("rollback", told["run"]["run_id"], "--yes", "--json")
    assert stopped.code == 1
    assert desk.fleet.owner_of(bundle) == B3, "nothing is written while all writing is stopped"
    desk.switch("resume")
    back = desk.run("rollback", told["run"]["run_id"], "--yes")
    assert back.code == 0, back.err
    assert f"move {bundle} from {B3} to {B1}" in back.out
    assert eventually(lambda: desk.fleet.owner_of(bundle) == B1)
    again = desk.run("rollback", told["run"]["run_id"], "--yes")
    assert (again.code, "is rolled back already" in again.err) == (1, True)
    states = [(run["strategy"], run["state"]) for run in desk.runs()]
    assert states[0] == ("rollback", "done")
    assert states[-1] == ("manual", "done")


def test_wish_that_a_rule_forbids_is_one_sentence_and_leaves_no_plan(desk: Desk) -> None:
    bundle = first_bundle(desk.fleet, B1)
    for arguments, sentence in (
        (("move", bundle, "--to", "b9:8080"), "has no broker b9:8080"),
        (("move", bundle, "--to", B1), f"{B1} already owns {bundle}"),
        (("unload", "acme/nowhere/0x00000000_0x40000000"), "there is no bundle"),
        (("split", bundle, "--at", "0xffffffff"), "is not inside"),
    ):
        answer = desk.run(*arguments)
        assert (answer.code, answer.out, answer.err.count("\n")) == (1, "", 1), answer.err
        assert sentence in answer.err
    assert not (desk.folder / "lake" / "plans").exists()


@pytest.mark.timeout(SPARK_TIMEOUT_S)
def test_person_at_a_terminal_is_asked_and_sees_a_bar(desk: Desk) -> None:
    bundle = first_bundle(desk.fleet, B1)
    code, shown = desk.converse("n", "move", bundle, "--to", B2)
    assert code == 1, shown
    assert "not approved, nothing was changed" in shown
    assert bundle in owned_bundles(desk.fleet, B1)
    code, shown = desk.converse("y", "move", bundle, "--to", B2)
    assert code == 0, shown
    assert "applying" in shown
    assert "1/1" in shown
    assert bundle in owned_bundles(desk.fleet, B2)


@pytest.mark.timeout(SPARK_TIMEOUT_S)
def test_broker_is_drained_and_may_have_bundles_again(desk: Desk) -> None:
    unknown = desk.run("drain", "--broker", "b9:8080")
    assert (unknown.code, "broker b9:8080 is not registered" in unknown.err) == (1, True)
    others = {broker: set(owned_bundles(desk.fleet, broker)) for broker in (B1, B2)}
    drained = desk.run("drain", "--broker", B3, "--yes", "--json")
    assert drained.code == 0, drained.err
    assert drained.document["leftovers"] == []
    assert {step["source"] for step in drained.document["steps"]} == {B3}, "nothing moves for balance"
    assert eventually(lambda: owned_bundles(desk.fleet, B3) == [])
    assert all(owned <= set(owned_bundles(desk.fleet, broker)) for broker, owned in others.items())
    barred = desk.run("move", first_bundle(desk.fleet, B1), "--to", B3)
    assert (barred.code, f"{B3} is Stopping and may not receive" in barred.err) == (1, True)
    assert "may own bundles again" in desk.run("drain", "--broker", B3, "--undo").out
    assert "was not marked" in desk.run("drain", "--broker", B3, "--undo").out
