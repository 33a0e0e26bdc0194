"""Settings: unknown keys and wrong values are refused by name."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from evenkeel.model.errors import InputError
from evenkeel.model.setting_fields import SettingUse
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
        ("tolerence = 0.1", "unknown setting 'tolerence': did you mean 'tolerance'?"),
        ("max_step = 3", "unknown setting 'max_step': did you mean 'max_steps'?"),
        ("colour = 'blue'", "unknown setting 'colour': `evenkeel settings` lists all settings"),
        ("objective = 'speed'", "objective = 'speed' is not a choice: choose one of moves, disruption, balanced"),
        ('tolerance = "wide"', "tolerance = 'wide' has the wrong type"),
        ("tolerance = true", "tolerance = True has the wrong type"),
        ("tolerance = -0.1", "tolerance = -0.1 is below 0.0"),
        ("tolerance = nan", "tolerance = nan is not a finite number"),
        ("broker_load_data_ttl_in_seconds = inf", "broker_load_data_ttl_in_seconds = inf is not a finite number"),
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


REPLAYING = ("pulsar_rules", "planning/pulsar_strategies")
ROOT = Path(__file__).parents[2]


def read_names() -> dict[str, set[str]]:
    """The names and texts that each product module uses, and those of the gates' suites; by path below its root."""
    used = {}
    for root in ("plugins/evenkeel", "spark/evenkeel_spark", "spark/jobs"):
        for file in sorted((ROOT / root).rglob("*.py")):
            path = file.relative_to(ROOT / root).as_posix()
            if not path.startswith(("model/settings", "model/pulsar_settings", "fleet/")):
                nodes = list(ast.walk(ast.parse(file.read_text())))
                used[path] = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
                used[path] |= {str(node.value) for node in nodes if isinstance(node, ast.Constant)}
    for file in (ROOT / "expectations" / "suites").glob("*.json"):
        used[file.name] = set(re.findall(r"\w+", file.read_text()))
    return used


def test_settings_that_only_pulsars_replay_reads_or_nobody_are_marked_as_such() -> None:
    names = read_names()
    own = {name for path, used in names.items() if not path.startswith(REPLAYING) for name in used}
    replayed = {name for path, used in names.items() if path.startswith(REPLAYING) for name in used}
    # `split_thresholds`, `target_std` and `heartbeat_timeouts` stand for the settings that they are made of.
    own |= {"report_broker_timeout_s"} if "heartbeat_timeouts" in own else set()
    for each in describe_settings():
        if each.used_by is SettingUse.EVENKEEL:
            assert each.key in own, f"{each.key}: nothing of Evenkeel reads it"
        else:
            assert each.key not in own, f"{each.key} is read, but marked as used by {each.used_by}"
        if each.used_by is SettingUse.REPLAY:
            assert each.key in replayed, f"{each.key}: the replay does not read it"


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
