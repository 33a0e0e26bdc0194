"""An Airflow connection becomes a cluster, a lake and settings, or one sentence that names the wrong field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Connection

from evenkeel.adapters.signing import write_key_pair
from evenkeel.model.approval import Approval
from evenkeel.model.errors import InputError, RefusedError
from evenkeel.orchestration.connection import read_connection

PROJECT = Path(__file__).resolve().parents[2]
COMPLETE = {"cluster": "east", "lake": "/lake"}


def connection(extra: Any = COMPLETE, host: str | None = "zk1:2181,zk2:2181", port: int | None = None) -> Connection:
    text = extra if isinstance(extra, str) else json.dumps(extra)
    return Connection(conn_id="evenkeel_default", conn_type="evenkeel", host=host, port=port, extra=text)


def test_complete_connection_is_read() -> None:
    extra = COMPLETE | {
        "pulsar_root": "/pulsar",
        "evenkeel_root": "/keel",
        "configuration_zookeeper": "zk9:2181",
        "configuration_root": "/",
        "settings": {"tolerance": 0.1},
    }
    access = read_connection(connection(extra))
    assert access.lake.uri == "file:///lake"
    assert access.connection.zookeeper == "zk1:2181,zk2:2181"
    assert access.connection.pulsar_root == "/pulsar"
    assert access.connection.configuration_zookeeper == "zk9:2181"
    assert access.connection.configuration_root == ""
    assert access.connection.home == "/keel/east"
    assert access.settings.tolerance == 0.1


def test_port_beside_a_single_host_is_joined() -> None:
    assert read_connection(connection(host="zk1", port=2181)).connection.zookeeper == "zk1:2181"


def test_root_of_zookeeper_itself_may_be_written_as_in_the_configuration_file() -> None:
    assert read_connection(connection(COMPLETE | {"pulsar_root": "/"})).connection.pulsar_root == ""


def test_settings_may_be_a_file(tmp_path: Path) -> None:
    file = tmp_path / "evenkeel.toml"
    file.write_text("wave_steps = 7\n")
    assert read_connection(connection(COMPLETE | {"settings": str(file)})).settings.wave_steps == 7


def test_configuration_file_fills_in_what_the_connection_leaves_out(tmp_path: Path) -> None:
    file = tmp_path / "evenkeel.toml"
    file.write_text(
        '[clusters.east]\nzookeeper = "zk7:2181"\npulsar_root = "/pulsar"\nlake = "lake"\n'
        "[clusters.east.settings]\nwave_steps = 7\ntolerance = 0.2\n"
    )
    from_file = read_connection(connection({"config": str(file)}, host=None))
    assert (from_file.cluster, from_file.connection.zookeeper) == ("east", "zk7:2181")
    assert (from_file.connection.pulsar_root, from_file.lake.uri) == ("/pulsar", (tmp_path / "lake").as_uri())
    assert (from_file.settings.wave_steps, from_file.settings.tolerance) == (7, 0.2)
    both = read_connection(connection({"config": str(file), "lake": "/mine", "settings": {"wave_steps": 9}}))
    assert (both.connection.zookeeper, both.lake.uri) == ("zk1:2181,zk2:2181", "file:///mine")
    assert (both.settings.wave_steps, both.settings.tolerance) == (9, 0.2)
    with pytest.raises(InputError, match="cluster 'west' is not in .*: did you mean east?"):
        read_connection(connection({"config": str(file), "cluster": "west"}))


def test_security_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "zookeeper.toml"
    file.write_text('scheme = "digest"\nuser = "evenkeel"\npassword_variable = "ZK_PASSWORD"\n')
    monkeypatch.setenv("ZK_PASSWORD", "hidden-word")
    access = read_connection(connection(COMPLETE | {"zookeeper_security": str(file)}))
    assert access.connection.security.password == "hidden-word"
    assert "hidden-word" not in repr(access)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (connection({"lake": "/lake"}), "cluster is missing"),
        (connection(COMPLETE | {"config": "evenkeel.toml"}), "config = 'evenkeel.toml' is not an absolute path"),
        (
            connection(COMPLETE | {"config": "/no/evenkeel.toml"}),
            "cannot read the configuration file /no/even",
        ),
        (connection({"cluster": "east"}), "lake is missing"),
        (connection(host=None), "the ZooKeeper hosts are missing"),
        (connection(host="zk1:2181", port=2181), "port is given beside host"),
        (connection(host="zk1:2181/pulsar"), "is not a list of ZooKeeper hosts"),
        (connection("not json"), "extra is not JSON"),
        (connection("[1]"), "extra is not a JSON object"),
        (connection(COMPLETE | {"clustre": "east"}), "unknown field 'clustre'"),
        (connection(COMPLETE | {"lake": 7}), "lake = 7 is not text"),
        (connection(COMPLETE | {"cluster": "ea st"}), "'ea st' is not a cluster name"),
        (connection(COMPLETE | {"pulsar_root": "pulsar/"}), "'pulsar/' is not a root path"),
        (connection(COMPLETE | {"settings": "evenkeel.toml"}), "settings = 'evenkeel.toml'"),
        (connection(COMPLETE | {"zookeeper_security": "/no/such.toml"}), "cannot read ZooKeeper's security file"),
        (connection(COMPLETE | {"settings": {"tolerence": 1}}), "unknown setting 'tolerence'"),
        (connection(COMPLETE | {"settings": "/no/such.toml"}), "cannot read the settings /no/such.toml"),
    ],
)
def test_wrong_field_is_named(wrong: Connection, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        read_connection(wrong)
    assert str(caught.value).startswith("connection 'evenkeel_default': ")
    assert sentence in str(caught.value)


def test_example_of_the_documentation_is_accepted() -> None:
    examples = json.loads((PROJECT / "infra/airflow/connections.example.json").read_text())
    fields = examples["evenkeel_default"]
    access = read_connection(connection(fields["extra"], fields["host"]))
    assert access.cluster == "pulsar-east"
    assert examples["spark_default"]["conn_type"] == "spark"


def test_approval_of_the_connection_is_signed_with_the_deployments_key(tmp_path: Path) -> None:
    key = write_key_pair(tmp_path / "airflow")
    files = {"approvers": [str(tmp_path / "airflow.pub")], "signing_key": str(tmp_path / "airflow.key")}
    approvals = read_connection(connection(COMPLETE | {"approval": files})).approvals
    anna = Approval("f" * 64, "east", "0" * 64, "anna", "Airflow user 1", "worker", "2026-01-01T00:00:00Z", "Airflow")
    sealed = approvals.seal(anna)
    assert (sealed.key_id, sealed.account) == (key.key_id, "Airflow user 1")
    approvals.require_counts(sealed)
    with pytest.raises(RefusedError, match="is not signed"):
        approvals.require_counts(anna)


def test_approval_of_the_connection_goes_before_that_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "evenkeel.toml"
    file.write_text("[clusters.east]\nlake = 'lake'\n[approval]\nunsigned = true\n")
    from_file = read_connection(connection({"config": str(file)}))
    assert from_file.approvals.is_unsigned
    own = read_connection(connection({"config": str(file), "approval": {}}))
    assert not own.approvals.is_unsigned
    with pytest.raises(InputError, match="does not say whose approvals count for cluster 'east'"):
        own.approvals.require_can_approve("east")


@pytest.mark.parametrize(
    ("approval", "sentence"),
    [
        ({"approvers": ["keys/on-call.pub"]}, "approval = 'keys/on-call.pub' is not an absolute path"),
        ({"signing_key": "on-call.key"}, "approval = 'on-call.key' is not an absolute path"),
        ({"approvers": "/a.pub"}, "approvers = '/a.pub' is not a list of texts"),
        (["unsigned"], "is not an object"),
    ],
)
def test_wrong_approval_is_refused_by_its_key(approval: object, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        read_connection(connection(COMPLETE | {"approval": approval}))


@pytest.mark.parametrize("name", ["..", "a/b", "a\nb", "a\x1b[2Jb", "x" * 10_000])
def test_hostile_cluster_name_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="cluster name") as caught:
        read_connection(connection(COMPLETE | {"cluster": name}))
    assert len(str(caught.value)) < 500
    assert str(caught.value).isprintable()
