"""The doctor finds what is wrong with a set-up, says what to do, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from evenkeel.adapters.fencing.native_balancer import SWITCHES
from evenkeel.adapters.lake.store import Lake
from evenkeel.adapters.zookeeper.session import open_session
from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import InputError
from evenkeel.model.run import NativeSwitches, PlanStatus, RunState
from evenkeel.model.settings import Settings
from evenkeel.stages.doctor import AREAS, Finding, Health, Patient, examine
from evenkeel.stages.doctor.findings import Probe, Told, ok, problem, run_probes
from evenkeel.stages.doctor.this_machine import look_at_airflow, look_at_java, look_at_spark
from evenkeel.stages.drain import mark_brokers
from evenkeel.stages.kill_switch import stop_writing
from support.commands import evenkeel
from support.fleets import running_fleet
from support.waiting import scaled

DEADLINE_S = scaled(30.0)
# A folder in which even root can create nothing.
UNWRITABLE = "/proc/self"
PLUGINS = Path(__file__).resolve().parents[2] / "plugins"
CLUSTER_AREAS = ("zookeeper", "brokers", "pulsar", "leftovers")


def nodes_of(client: KazooClient, path: str = "/") -> dict[str, tuple[bytes, int, int]]:
    """All nodes with their data, versions and creations."""
    data, stat = client.get(path)
    found = {path: (data, stat.version, stat.czxid)}
    for name in client.get_children(path):
        found |= nodes_of(client, f"{path.rstrip('/')}/{name}")
    return found


def by_check(findings: Iterable[Finding]) -> dict[str, Finding]:
    return {finding.check: finding for finding in findings}


def connect(zookeeper: EmbeddedZooKeeper, root: str) -> ClusterConnection:
    # An own root below the test's, so that nothing of another test is found.
    return ClusterConnection("fleet", zookeeper.connect_string, root, f"{root}/evenkeel", timeout_s=scaled(10.0))


@pytest.mark.parametrize("kind", ["extensible", "modular"])
def test_healthy_cluster_has_no_problem_and_stays_as_it_is(
    zookeeper: EmbeddedZooKeeper, client: KazooClient, pulsar_root: str, tmp_path: Path, kind: str
) -> None:
    # Reports would change nodes by themselves.
    with running_fleet(zookeeper, pulsar_root, load_manager=kind, report_interval_s=3600.0):
        before = nodes_of(client, pulsar_root)
        patient = Patient(connect(zookeeper, pulsar_root), Lake(str(tmp_path)))
        findings = examine(patient, DEADLINE_S, (*CLUSTER_AREAS, "lake"))
        assert nodes_of(client, pulsar_root) == before
    assert [finding for finding in findings if finding.health is Health.PROBLEM] == []
    told = by_check(findings)
    assert told["brokers"].told == "3 brokers are registered and answer"
    assert told["cluster name and kind"].told == f"the brokers belong to fleet; load manager {kind}"
    assert told["lake put-if-absent"].health is Health.OK
    assert "3.9" in told["ZooKeeper version"].told or "unknown" in told["ZooKeeper version"].told
    assert ("rights to move bundles" in told) == (kind == "extensible")
    assert list(tmp_path.iterdir()) == []


def test_broken_set_up_is_told_line_by_line(
    zookeeper: EmbeddedZooKeeper, client: KazooClient, pulsar_root: str, tmp_path: Path
) -> None:
    connection = connect(zookeeper, pulsar_root)
    with running_fleet(zookeeper, pulsar_root, load_manager="modular") as fleet:
        broker = fleet.broker_ids[0]
        stop_writing(connection, "ann", "disk is full")
        mark_brokers(connection, [broker], "bob", "new kernel")
        switches = NativeSwitches(dict.fromkeys(SWITCHES), dict.fromkeys(SWITCHES, "false"), made_node=True)
        status = PlanStatus("p" * 64, "me", 3, RunState.RUNNING, 1_700_000_000_000, {}, "", switches)
        client.create(f"{connection.home}/plans/{status.plan_id}", status.encode(), makepath=True)
        client.set(f"{pulsar_root}/admin/configuration", json.dumps(dict.fromkeys(SWITCHES, "false")).encode())
        client.create(f"{pulsar_root}/admin/flags/policies-readonly", b"", makepath=True)
        (tmp_path / "token").write_text("abc")
        settings = Settings(broker_token_file=str(tmp_path / "token"))
        findings = examine(Patient(connection, Lake(UNWRITABLE), settings, "mesos://x"), DEADLINE_S)
    told = by_check(findings)
    expected = {
        "kill switch": (Health.PROBLEM, "evenkeel resume"),
        "draining marks": (Health.WARNING, f"evenkeel drain --undo --broker {broker}"),
        "paused balancer": (Health.PROBLEM, "evenkeel restore-balancer"),
        "runs": (Health.WARNING, "evenkeel apply pppppppppppp"),
        "read-only policies": (Health.PROBLEM, "remove the node"),
        "brokers": (Health.PROBLEM, "broker_token_hosts"),
        "Spark master": (Health.PROBLEM, "local[*]"),
        "lake writing": (Health.PROBLEM, "permissions"),
    }
    for check, (health, remedy) in expected.items():
        assert (told[check].health, remedy in told[check].remedy) == (health, True), told[check]
    assert "disk is full" in told["kill switch"].told
    assert {finding.area for finding in findings} == set(AREAS)


def test_servers_that_are_gone_are_one_problem(tmp_path: Path) -> None:
    connection = ClusterConnection("lab", "127.0.0.1:1", timeout_s=0.5)
    findings = examine(Patient(connection, Lake(str(tmp_path))), DEADLINE_S, (*CLUSTER_AREAS, "lake"))
    problems = [finding for finding in findings if finding.health is Health.PROBLEM]
    assert [finding.told for finding in problems] == ["ZooKeeper at 127.0.0.1:1 did not answer within 0.5 s"]
    assert {finding.told for finding in findings if finding.health is Health.WARNING} == {"not checked"}
    assert by_check(findings)["lake writing"].health is Health.OK, "the lake was examined all the same"


def test_broker_that_does_not_answer_is_named(
    zookeeper: EmbeddedZooKeeper, client: KazooClient, pulsar_root: str
) -> None:
    with running_fleet(zookeeper, pulsar_root, load_manager="modular") as fleet:
        path = f"{pulsar_root}/loadbalance/brokers/gone.fleet:8080"
        like = json.loads(client.get(f"{pulsar_root}/loadbalance/brokers/{fleet.broker_ids[0]}")[0])
        client.create(path, json.dumps(like | {"webServiceUrl": "http://127.0.0.1:1"}).encode(), ephemeral=True)
        findings = examine(Patient(connect(zookeeper, pulsar_root)), DEADLINE_S, ("brokers",))
    found = by_check(findings)
    assert found["brokers"].health is Health.PROBLEM
    assert "1 of 4 brokers do not answer: gone.fleet:8080" in found["brokers"].told
    assert found["cluster name and kind"].health is Health.OK, "the others are examined all the same"


def test_two_roots_on_one_cluster_are_noticed(
    zookeeper: EmbeddedZooKeeper, client: KazooClient, pulsar_root: str
) -> None:
    with running_fleet(zookeeper, pulsar_root):
        client.create(f"{pulsar_root}/fleet/fence", makepath=True)
        connection = replace(connect(zookeeper, pulsar_root), evenkeel_root="/evenkeel-of-this-test")
        found = by_check(examine(Patient(connection), DEADLINE_S, ("leftovers",)))
    assert found["Evenkeel's root"].health is Health.WARNING
    assert pulsar_root in found["Evenkeel's root"].told


def test_probe_that_hangs_or_breaks_hides_no_other() -> None:
    hanging = threading.Event()

    def hang() -> Iterable[Told]:
        hanging.wait()
        yield ok("late", "never")

    def break_down() -> Iterable[Told]:
        yield ok("first", "found before")
        raise ZeroDivisionError("by accident")

    def refuse() -> Iterable[Told]:
        raise InputError("no cake", "bake one")

    probes = [
        Probe("a", "hanging", hang),
        Probe("a", "breaking", break_down),
        Probe("b", "refusing", refuse),
        Probe("b", "depending", lambda: [problem("never", "told", "nothing")], ("refusing", "not selected")),
        Probe("c", "healthy", lambda: [ok("healthy", "fine")], ("not selected",)),
    ]
    findings = run_probes(probes, 0.5)
    hanging.set()
    assert [(finding.check, finding.health.value, finding.told) for finding in findings] == [
        ("hanging", "problem", "no result within 0.5 s"),
        ("first", "ok", "found before"),
        ("breaking", "problem", "the probe itself failed (ZeroDivisionError: by accident)"),
        ("refusing", "problem", "no cake"),
        ("depending", "warning", "not checked"),
        ("healthy", "ok", "fine"),
    ]


def test_java_that_is_too_old_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    for script, told in (
        ("echo 'openjdk version \"11.0.2\"' >&2", "is Java 11, Spark needs 17"),
        ("exit 3", "does not start"),
    ):
        java.write_text(f"#!/bin/sh\n{script}\n")
        java.chmod(0o755)
        (found,) = look_at_java()
        assert found.health is Health.PROBLEM
        assert told in found.told


@pytest.mark.parametrize(
    ("master", "health"),
    [
        ("local[*]", Health.OK),
        ("local[4,2]", Health.OK),
        ("k8s://https://x:6443", Health.OK),
        ("local[", Health.PROBLEM),
        ("spark://127.0.0.1:1", Health.PROBLEM),
    ],
)
def test_spark_master_is_judged(master: str, health: Health) -> None:
    found = {told.check: told for told in look_at_spark(master)}
    assert found["Spark master"].health is health


def test_airflow_is_examined_only_where_it_is_configured(tmp_path: Path) -> None:
    (alone,) = look_at_airflow({"AIRFLOW_HOME": str(tmp_path)})
    assert "not configured" in alone.told


@pytest.mark.airflow
def test_airflow_is_asked_for_connection_and_pool(tmp_path: Path) -> None:
    # A connection in the environment needs no database, and there is none, so there is no pool either.
    environment = os.environ | {
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(PLUGINS),
        "AIRFLOW_CONN_EVENKEEL_DEFAULT": json.dumps({"conn_type": "evenkeel", "host": "zk1:2181"}),
    }
    found = {told.check: told for told in look_at_airflow(environment)}
    assert found["Airflow connection"].told == "evenkeel_default exists"
    assert found["Airflow plugin"].health is Health.OK
    assert found["Airflow pool"].health is Health.PROBLEM
    assert "OperationalError" in found["Airflow pool"].told
    assert "migrate Airflow's database" in found["Airflow pool"].remedy


def test_command_prints_one_document_and_fails_on_a_problem(tmp_path: Path) -> None:
    done = evenkeel("doctor", "--lake", tmp_path, "--only", "lake", "--only", "spark", "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    assert done.document["healthy"] is True
    assert {row["area"] for row in done.document["findings"]} == {"lake", "spark"}
    assert set(done.document["findings"][0]) == {"area", "check", "status", "told", "remedy"}
    broken = evenkeel("doctor", "--only", "spark", "--master", "nonsense", cwd=tmp_path)
    assert broken.code == 1
    assert "→ use local[*], spark://host:port" in broken.out
    assert broken.out.splitlines()[-1] == "1 problem, 0 warnings, 1 ok"
    wrong = evenkeel("doctor", "--only", "weather", cwd=tmp_path)
    assert (wrong.code, "there is no area 'weather'" in wrong.err) == (1, True)


def test_wrong_configuration_is_a_finding_beside_the_others(tmp_path: Path) -> None:
    security = ("--zookeeper-security", tmp_path / "none.toml")
    where = ("--zookeeper", "127.0.0.1:1", "--cluster", "lab", "--lake", tmp_path)
    done = evenkeel("doctor", *where, *security, "--only", "lake", "--json", cwd=tmp_path)
    assert done.code == 1
    found = {row["check"]: row["status"] for row in done.document["findings"]}
    assert (found["configuration"], found["lake writing"]) == ("problem", "ok")


def test_rights_are_tried_out_without_writing(
    zookeeper: EmbeddedZooKeeper, client: KazooClient, pulsar_root: str
) -> None:
    from evenkeel.adapters.zookeeper.nodes import create, set_data
    from evenkeel.adapters.zookeeper.rights import find_forbidden

    client.create(f"{pulsar_root}/node", b"as it was", makepath=True)
    before = nodes_of(client, pulsar_root)
    with open_session(connect(zookeeper, pulsar_root)) as session:
        operations = [create("create", f"{pulsar_root}/new", b""), set_data("write", f"{pulsar_root}/node", b"new")]
        assert find_forbidden(session, operations) is None
    assert nodes_of(client, pulsar_root) == before
