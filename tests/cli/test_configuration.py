"""evenkeel.toml: what is in it, which of several files applies, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenkeel.configuration import Configuration, find_configuration, load_configuration
from evenkeel.model.errors import InputError
from evenkeel.model.settings import Settings

COMPLETE = """
default_cluster = "prod"

[settings]
tolerance = 0.1
wave_steps = 9

[clusters.prod]
zookeeper = "zk1:2181,zk2:2181"
pulsar_root = "/"
evenkeel_root = "/keel"
configuration_zookeeper = "zk9:2181"
configuration_root = "/"
zookeeper_security = "secrets/zookeeper.toml"
lake = "lake"
spark_master = "local[2]"

[clusters.prod.settings]
tolerance = 0.2
broker_token_file = "token"

[clusters.lab]
zookeeper = "lab:2181"
pulsar_root = "/pulsar"
lake = "file:///lake"
"""


def write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "evenkeel.toml"
    file.write_text(text)
    return file


def test_whole_file_is_read_and_paths_start_at_its_folder(tmp_path: Path) -> None:
    found = load_configuration(write(tmp_path, COMPLETE))
    prod, lab = found.require("prod"), found.require("lab")
    assert found.default_cluster == "prod"
    assert (prod.zookeeper, prod.configuration_zookeeper) == ("zk1:2181,zk2:2181", "zk9:2181")
    assert (prod.pulsar_root, prod.evenkeel_root, lab.pulsar_root) == ("", "/keel", "/pulsar")
    assert (prod.configuration_root, lab.configuration_root) == ("", None)
    assert (prod.lake, lab.lake) == (str(tmp_path / "lake"), "file:///lake")
    assert prod.zookeeper_security == tmp_path / "secrets" / "zookeeper.toml"
    assert prod.spark_master == "local[2]"


def test_settings_of_a_cluster_are_over_those_of_all(tmp_path: Path) -> None:
    found = load_configuration(write(tmp_path, COMPLETE))
    prod = Settings.from_json(found.require("prod").settings)
    lab = Settings.from_json(found.require("lab").settings)
    assert (prod.tolerance, prod.wave_steps) == (0.2, 9)
    assert (lab.tolerance, lab.wave_steps) == (0.1, 9)
    assert prod.broker_token_file == str(tmp_path / "token")


def test_only_cluster_is_the_default(tmp_path: Path) -> None:
    assert load_configuration(write(tmp_path, '[clusters.lab]\nlake = "x"\n')).default_cluster == "lab"
    two = '[clusters.lab]\nlake = "x"\n[clusters.prod]\nlake = "y"\n'
    assert load_configuration(write(tmp_path, two)).default_cluster is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("default_clutser = 'x'\n", "unknown key default_clutser: did you mean default_cluster?"),
        (
            "[clusters.lab]\nzoo = 'x'\n",
            "unknown key clusters.lab.zoo: use one of airflow_connection, approval, blackouts, configuration_root",
        ),
        ("[clusters.lab]\nzookeper = 'x:1'\n", "unknown key clusters.lab.zookeper: did you mean zookeeper"),
        ("tolerance = 0.1\n", "unknown key tolerance: it is a setting, so write it under [settings]"),
        ("lake = 'x'\n", "unknown key lake: write it under [clusters.NAME]"),
        ("[clusters.lab]\ndefault_cluster = 'lab'\n", "write it above all sections"),
        (
            "[clusters.lab.windows]\nstart = '02:00'\n",
            "clusters.lab.windows is not a list of tables: begin each window with [[clusters.lab.windows]]",
        ),
        ("[settings]\ntolerence = 0.1\n", "tolerence"),
        ("[settings]\ntolerance = -1\n", "tolerance = -1"),
        ("[clusters.lab.settings]\nwave_steps = 'many'\n", "wave_steps = 'many'"),
        ("[clusters.lab]\nzookeeper = 2181\n", "clusters.lab.zookeeper = 2181 is not text: write it in quotes"),
        ("[clusters.lab]\nlake = ''\n", "clusters.lab.lake = '' is not text"),
        ("[clusters.lab]\nzookeeper = 'zk:2181/pulsar'\n", "clusters.lab.zookeeper: 'zk:2181/pulsar' is not a list"),
        (
            "[clusters.lab]\nconfiguration_zookeeper = 'zk:2181/conf'\n",
            "clusters.lab.configuration_zookeeper: 'zk:2181/conf' is not a list of ZooKeeper hosts",
        ),
        ("[clusters.'my lab']\nzookeeper = 'zk:2181'\n", "clusters.my lab: 'my lab' is not a cluster name"),
        ("[clusters.lab]\npulsar_root = 'pulsar/'\n", "clusters.lab.pulsar_root: 'pulsar/' is not a root path"),
        ("[clusters.lab]\nconfiguration_root = 'conf'\n", "clusters.lab.configuration_root: 'conf' is not a root path"),
        ("clusters = 'lab'\n", "clusters = 'lab' is not a table: write it as [clusters]"),
        ("[clusters]\nlab = 'zk:2181'\n", "clusters.lab = 'zk:2181' is not a table"),
        (
            "default_cluster = 'prd'\n[clusters.prod]\n",
            "default_cluster = 'prd' is not one of its clusters: did you mean prod?",
        ),
        ("zookeeper = \n", "is not TOML"),
    ],
)
def test_wrong_file_is_refused_with_its_key(tmp_path: Path, text: str, sentence: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(InputError) as caught:
        load_configuration(file)
    assert sentence in str(caught.value)
    assert str(file) in str(caught.value), "the file is named"


def test_cluster_that_is_not_in_the_file_lists_the_nearest(tmp_path: Path) -> None:
    found = load_configuration(write(tmp_path, COMPLETE))
    with pytest.raises(InputError, match="cluster 'prdo' is not in .*evenkeel.toml: did you mean prod?"):
        found.require("prdo")
    with pytest.raises(InputError, match="use one of lab, prod"):
        found.require("elsewhere")


def test_places_are_searched_and_two_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, home, system = tmp_path / "work", tmp_path / "home", tmp_path / "etc"
    monkeypatch.setattr("evenkeel.configuration.SYSTEM_FOLDER", system)
    folder.mkdir()
    assert find_configuration(None, folder, home) == Configuration()
    of_system = write(system, '[clusters.system]\nlake = "x"\n')
    assert find_configuration(None, folder, home).file == of_system
    of_user = write(home / ".config" / "evenkeel", '[clusters.user]\nlake = "x"\n')
    with pytest.raises(InputError) as caught:
        find_configuration(None, folder, home)
    assert f"{of_user} and {of_system}" in caught.value.cause
    assert caught.value.remedy == "choose one with --config or EVENKEEL_CONFIG"
    assert find_configuration(of_user, folder, home).default_cluster == "user", "a choice settles it"


def test_one_file_seen_by_two_ways_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenkeel.configuration.SYSTEM_FOLDER", tmp_path / "etc")
    home = tmp_path / "home"
    file = write(home / ".config" / "evenkeel", '[clusters.user]\nlake = "x"\n')
    assert find_configuration(None, file.parent, home).default_cluster == "user"


def test_file_that_was_chosen_and_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the configuration file .*nowhere.toml"):
        find_configuration(tmp_path / "nowhere.toml", tmp_path, tmp_path)
