"""An Airflow connection becomes a cluster, a lake and settings, or one sentence that names the wrong field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Connection

from evenkeel.model.errors import InputError
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
        "settings": {"tolerance": 0.1},
    }
    access = read_connection(connection(extra))
    assert access.lake.uri == "file:///lake"
    assert access.connection.zookeeper == "zk1:2181,zk2:2181"
    assert access.connection.pulsar_root == "/pulsar"
    assert access.connection.configuration_zookeeper == "zk9:2181"
    assert access.connection.home == "/keel/east"
    assert access.settings.tolerance == 0.1


def test_port_beside_a_single_host_is_joined() -> None:
    assert read_connection(connection(host="zk1", port=2181)).connection.zookeeper == "zk1:2181"


def test_settings_may_be_a_file(tmp_path: Path) -> None:
    file = tmp_path / "evenkeel.toml"
    file.write_text("wave_steps = 7\n")
    assert read_connection(connection(COMPLETE | {"settings": str(file)})).settings.wave_steps == 7


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
        (connection({"cluster": "east"}), "lake is missing"),
        (connection(host=None), "host is missing"),
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
        (connection(COMPLETE | {"settings": {"tolerence": 1}}), "unknown key 'tolerence'"),
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
