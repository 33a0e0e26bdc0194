"""Settings: unknown keys and wrong values are refused by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evenkeel.model.errors import InputError
from evenkeel.model.settings import Capacity, Settings, describe_settings


def test_toml_file_changes_what_it_names(tmp_path: Path) -> None:
    file = tmp_path / "evenkeel.toml"
    file.write_text('tolerance = 0.1\nmax_steps = 7\n[[capacity]]\nhosts = "b.*"\ncores = 8\nnic_gbps = 10\n')
    settings = Settings.load(file)
    assert (settings.tolerance, settings.max_steps) == (0.1, 7)
    assert settings.capacity == (Capacity("b.*", 8.0, 10.0),)
    assert settings.wave_steps == Settings().wave_steps


def test_settings_survive_json() -> None:
    settings = Settings(
        capacity=(Capacity("b.*", 8.0, 10.0),),
        shedding_excluded_namespaces=("t/n",),
        broker_load_target_std="auto",
        transfer_enabled=False,
    )
    assert Settings.from_json(json.loads(json.dumps(settings.to_json()))) == settings


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("tolerence = 0.1", "unknown key 'tolerence': see `evenkeel settings`"),
        ('tolerance = "wide"', "tolerance = 'wide' has the wrong type"),
        ("tolerance = true", "tolerance = True has the wrong type"),
        ("tolerance = -0.1", "tolerance = -0.1 is below 0.0"),
        ("tolerance = nan", "tolerance = nan is no number"),
        ("broker_load_data_ttl_in_seconds = inf", "broker_load_data_ttl_in_seconds = inf is no number"),
        ("max_steps = 1.5", "max_steps = 1.5 has the wrong type"),
        ("transfer_enabled = 1", "transfer_enabled = 1 has the wrong type"),
        ('tolerance = "auto"', "tolerance = 'auto' has the wrong type"),
        ('broker_load_target_std = "low"', "broker_load_target_std = 'low' has the wrong type"),
        ("broker_load_target_std = -1", "broker_load_target_std = -1.0 is below 0.0"),
        ("capacity = [{hosts = 'b'}]", "is not complete"),
        ("capacity = [{hosts = '(', cores = 1, nic_gbps = 1}]", "is not a regular expression"),
        ("capacity = [{hosts = 'b', cores = 0, nic_gbps = 1}]", "is not positive"),
        ("tolerance", "is not TOML"),
    ],
)
def test_wrong_setting_is_named(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "evenkeel.toml"
    file.write_text(text)
    with pytest.raises(InputError) as error:
        Settings.load(file)
    assert sentence in str(error.value)


def test_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the settings"):
        Settings.load(tmp_path / "none.toml")


def test_every_setting_is_described() -> None:
    described = describe_settings()
    assert {each.key for each in described} == set(Settings().to_json())
    assert all(each.meaning for each in described)


def test_own_settings_are_described_before_those_of_pulsar() -> None:
    keys = [each.key for each in describe_settings()]
    assert keys[0] == "tolerance"
    assert keys.index("admin_call_timeout_s") < keys.index("cpu_resource_weight")


def test_pip_192_defaults_are_kept() -> None:
    table = {
        "debug_mode_enabled": False,
        "broker_load_target_std": 0.25,
        "shedding_condition_hit_count_threshold": 3,
        "transfer_enabled": True,
        "max_number_of_broker_shedding_per_cycle": 3,
        "shedding_delay_in_seconds": 180,
        "broker_load_data_ttl_in_seconds": 1800,
        "max_number_of_bundles_in_bundle_load_report": 10,
        "split_interval_minutes": 1,
        "max_number_of_bundles_to_split_per_cycle": 10,
        "namespace_bundle_split_condition_hit_count_threshold": 3,
        "service_unit_state_tombstone_delay_time_in_seconds": 3600,
        "shedding_bundles_with_policies_enabled": False,
        "in_flight_service_unit_state_waiting_time_in_millis": 30000,
        "service_unit_state_monitor_interval_in_seconds": 60,
    }
    assert {key: Settings().to_json()[key] for key in table} == table


def test_threshold_may_follow_the_load(tmp_path: Path) -> None:
    file = tmp_path / "evenkeel.toml"
    file.write_text('namespace_bundle_max_topics = "auto"\nbroker_load_target_std = "auto"\n')
    settings = Settings.load(file)
    assert settings.namespace_bundle_max_topics == settings.broker_load_target_std == "auto"
