"""All settings with meaning and default; keys are PIP-192's names in snake case where it has one."""

from __future__ import annotations

import dataclasses
import math
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from evenkeel.model.broker_states import HeartbeatTimeouts
from evenkeel.model.errors import InputError
from evenkeel.model.pulsar_settings import PulsarSettings
from evenkeel.model.setting_fields import SettingUse, budget_setting, choice_setting, setting


@dataclass(frozen=True, slots=True)
class Capacity:
    """The capacity of the brokers on some hosts, for clusters that report percentages only."""

    hosts: str
    cores: float
    nic_gbps: float

    def __post_init__(self) -> None:
        _require_pattern("capacity: hosts", self.hosts)
        if not (0 < self.cores < math.inf and 0 < self.nic_gbps < math.inf):
            raise InputError(f"capacity of {self.hosts!r} is not positive", "give cores and nic_gbps above zero")

    def matches(self, broker_id: str) -> bool:
        return re.fullmatch(self.hosts, broker_id.rpartition(":")[0]) is not None


def _require_pattern(name: str, pattern: str | None) -> None:
    try:
        re.compile(pattern or "")
    except re.error as error:
        raise InputError(
            f"{name} = {pattern!r} is not a regular expression ({error})", "correct the pattern"
        ) from error


def _require_web_address(name: str, url: str | None) -> None:
    """Refuse an address that is none, and one that holds a password: settings are part of every plan."""
    parts = urlsplit(url or "http://none")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"{name} = {url!r} is not a web address", "write it as http://host:port")
    if parts.username is not None or parts.query:
        raise InputError(f"{name} holds a user, a password or a query", "leave them out: settings are in every plan")


def _convert_capacities(entries: Any, origin: str) -> tuple[Capacity, ...]:
    return tuple(_convert_capacity(entry, origin) for entry in entries)


def _convert_capacity(entry: Any, origin: str) -> Capacity:
    try:
        return Capacity(str(entry["hosts"]), float(entry["cores"]), float(entry["nic_gbps"]))
    except (TypeError, KeyError, ValueError) as error:
        raise InputError(
            f"{origin}: capacity entry {entry!r} is not complete", "give each [[capacity]] hosts, cores and nic_gbps"
        ) from error


@dataclass(frozen=True, slots=True)
class Settings(PulsarSettings):
    """All settings of snapshot, plan and apply: Evenkeel's own, and those that Pulsar has too."""

    # what a good placement is
    tolerance: float = setting(
        0.05, "width of the band: a broker may carry (1 + tolerance) × the lowest reachable peak", 0.0, 10.0
    )
    min_utilisation: float = setting(
        0.05,
        "share of its limit up to which a resource counts as nearly idle: the band never ends below it, "
        "so that loads below it cause no moves",
        0.0,
        1.0,
    )
    objective: Literal["moves", "disruption", "balanced"] = choice_setting(
        "balanced", 'what to minimise: "moves", "disruption" (client-seconds), or "balanced": both in proportion'
    )
    planning_load: Literal["now", "p95", "peak"] = choice_setting(
        "now", 'load to plan for: "now", "p95" (95th percentile), or "peak" (of the hours until the plan expires)'
    )
    bandwidth_model: Literal["bundles", "scaled"] = choice_setting(
        "bundles", 'bandwidth of a broker: "bundles", their sum, or "scaled" up to the measured NIC traffic'
    )

    # what a plan does not touch, beside shedding_excluded_namespaces
    pinned_bundles: tuple[str, ...] = setting((), "bundles that stay where they are")
    brokers_left_alone: tuple[str, ...] = setting((), "brokers that keep what they have and receive nothing")

    search_deadline_s: float | None = budget_setting(
        "seconds after which the search for a pool's plan ends with the best plan so far; not set: no time limit"
    )

    # budgets, all hard; one that is not set does not limit
    max_steps: int = setting(5_000, "most steps that a plan may have", 0)
    max_moved_bytes_per_s: float | None = budget_setting("most bytes per second, in and out, that a plan may move")
    max_moved_sessions: float | None = budget_setting("most producers and consumers that a plan may disconnect")
    max_client_seconds: float | None = budget_setting("most client-seconds that a plan may cost")
    tenant_max_steps: float | None = budget_setting("most steps of a plan on the bundles of one tenant")
    tenant_max_moved_bytes_per_s: float | None = budget_setting(
        "most bytes per second of one tenant that a plan may move"
    )
    tenant_max_sessions: float | None = budget_setting("most sessions of one tenant that a plan may disconnect")
    tenant_max_client_seconds: float | None = budget_setting("most client-seconds that a plan may cost one tenant")
    canary_steps: int = setting(1, "steps in the first wave", 1)
    wave_steps: int = setting(50, "most steps in any later wave", 1)
    wave_broker_share: float = setting(
        0.2,
        "share of a wave's steps that one broker may give or receive; more if its part of all moves is larger",
        0.0,
        1.0,
    )
    wave_max_moved_bytes_per_s: float | None = budget_setting("most bytes per second that one wave may move")
    wave_max_sessions: float | None = budget_setting("most sessions that one wave may disconnect")
    wave_max_client_seconds: float | None = budget_setting("most client-seconds that one wave may cost")

    # what counts as knowing the load
    history_days: float = setting(7.0, "days of history in a load profile", 0.0, 3_650.0)
    capacity: tuple[Capacity, ...] = setting(
        (),
        "cores and NIC speed by host pattern, for clusters that report percentages only",
        convert=_convert_capacities,
    )

    report_broker_timeout_s: float = setting(
        3_600.0,
        "age of the last report at which a broker is taken to accept no more bundles; "
        "must be above broker_load_data_ttl_in_seconds",
        1.0,
    )

    # what a move costs its clients; first estimates, to be calibrated from runs
    transfer_hand_over_ms: int = setting(
        500, "expected time from the disconnect until the new owner serves, for a transfer; calibrate it from runs", 1
    )
    unload_hand_over_ms: int = setting(
        2_000, "expected time from the disconnect until a new owner serves, for an unload; calibrate it from runs", 1
    )
    use_learnt_costs: bool = setting(
        True,
        "whether plans use what audits have learnt: cpu weights of namespaces, and hand-over times in place of the two "
        "defaults above; values that you set yourself stay",
    )
    transfer_aware_clients_share: float = setting(
        0.5,
        "share of clients that support transfers; for others, and on modular clusters, a transfer is like an unload",
        0.0,
        1.0,
    )
    consumer_sessions_share: float = setting(
        0.5, "share of sessions that are consumers, which have to catch up; calibrate it from runs", 0.0, 1.0
    )
    catch_up_read_factor: float = setting(
        3.0, "how many times faster than messages arrive a consumer reads to catch up; calibrate it from runs", 1.1
    )
    unacknowledged_ms: int = setting(
        1_000,
        "milliseconds of unacknowledged messages that are redelivered after an unload; calibrate it from runs",
        0,
    )

    # what a plan is compared with
    counterfactual_max_bundles: int = setting(
        1_000_000, "most bundles for which a plan is compared with Pulsar's own strategies", 0
    )

    # what a plan is made from, and how long it may be applied
    max_snapshot_age_s: float = setting(
        600.0, "oldest snapshot from which a Dag plans, if it is newer than the last run; else it takes a new one", 0.0
    )
    max_stale_steps_share: float = setting(
        0.2, "share of a plan's steps that may no longer hold when it is approved; beyond, it is refused", 0.0, 1.0
    )
    plan_expires_after_s: int = setting(14_400, "seconds after the snapshot at which a plan expires", 1)

    # the guarded writer
    session_timeout_s: float = setting(30.0, "timeout of the writer's ZooKeeper session", 1.0)
    session_expired_policy: Literal["shutdown", "reconnect"] = choice_setting(
        "shutdown", 'when the session of a run expires: "shutdown" (resumable), or "reconnect" and continue'
    )
    session_expired_retries: int = setting(2, "how many new sessions a run may take before it ends", 0)
    safe_mode_wait_s: float = setting(
        150.0, "safe mode: how long ZooKeeper must be back, with all brokers registered, before a run goes on", 0.0
    )
    safe_mode_deadline_s: float = setting(
        900.0,
        "how long a run waits in safe mode before it ends, resumable; "
        "also how long a run without a session tries to switch Pulsar's balancer back on",
        0.0,
    )
    pause_native_balancer: bool = setting(
        True, "whether Pulsar's own shedding and splitting are switched off while a plan is applied"
    )
    health_load_error: float | None = budget_setting(
        "share of a broker's limit by which its load may exceed the prediction after a wave; not set: not checked"
    )
    stop_wait_s: float = setting(
        3.0, "how long a stopping run waits for steps in flight; Airflow kills a task 5 s after it asks it to stop", 0.0
    )
    journal_kept_days: float = setting(30.0, "days after which the journal of a finished plan is removed", 0.0)
    in_flight_steps: int = setting(8, "most steps in flight at a time", 1)
    step_deadline_s: float = setting(100.0, "time within which a step must reach its end state", 1.0)
    clock_offset_limit_s: float = setting(
        5.0, "largest clock offset from ZooKeeper with which the writer still writes", 0.1
    )
    broker_answer_timeout_s: float = setting(
        10.0,
        "how long a snapshot or a run waits for a broker's answer; a broker that takes longer counts as silent",
        0.1,
    )
    verify_wait_s: float = setting(20.0, "how long verification waits for load reports newer than the run", 0.0)
    admin_call_timeout_s: float = setting(60.0, "timeout of a call to a broker's admin API", 1.0)
    unload_again_after_s: float = setting(
        10.0,
        "on modular clusters: time for clients to reconnect before a bundle that went elsewhere is unloaded again",
        1.0,
    )

    # where metrics go
    metrics_push_url: str | None = setting(
        None, "address of a Prometheus push gateway that gets the metrics of each run; not set: metrics.prom only"
    )
    metrics_push_timeout_s: float = setting(5.0, "time within which the push gateway must take the metrics", 0.1)

    # how Evenkeel authenticates with brokers; files, never secrets, since settings are part of every plan
    broker_token_file: str | None = setting(None, "file with a superuser token, for brokers that require one")
    broker_token_over_plain_http: bool = setting(
        False, "whether the token may also be sent over plain HTTP, where anybody on the network can read it"
    )
    broker_token_hosts: str | None = setting(
        None,
        "regular expression of the hosts to which the token may be sent; not set: the host in each broker's own id",
    )
    broker_ca_file: str | None = setting(
        None, "file with the CA certificates of the brokers, if the system does not trust them already"
    )
    broker_certificate_file: str | None = setting(None, "file with Evenkeel's client certificate for brokers, in PEM")
    broker_key_file: str | None = setting(
        None, "file with the key of that certificate, if it is not in the certificate file"
    )

    def __post_init__(self) -> None:
        PulsarSettings.__post_init__(self)
        _require_pattern("broker_token_hosts", self.broker_token_hosts)
        _require_web_address("metrics_push_url", self.metrics_push_url)
        _ = self.heartbeat_timeouts

    @property
    def heartbeat_timeouts(self) -> HeartbeatTimeouts:
        """After how long without a report a broker is Inactive, and after how long it fences itself."""
        return HeartbeatTimeouts(
            self.broker_load_data_ttl_in_seconds,
            self.report_broker_timeout_s,
            decider_key="broker_load_data_ttl_in_seconds",
        )

    @classmethod
    def load(cls, file: Path) -> Settings:
        try:
            values = tomllib.loads(file.read_text())
        except OSError as error:
            raise InputError(f"cannot read the settings {file} ({error.strerror})", "check the path") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{file} is not TOML ({error})", "correct the file") from error
        return cls.from_json(values, str(file))


@dataclass(frozen=True, slots=True)
class SettingDescription:
    """What `evenkeel settings` and the reference show of a setting."""

    key: str
    default: Any
    meaning: str
    used_by: SettingUse


def describe_settings() -> list[SettingDescription]:
    """All settings with default and meaning: Evenkeel's own first, then those that Pulsar has too."""
    shared = {field.name for field in dataclasses.fields(PulsarSettings)}
    own_first = sorted(dataclasses.fields(Settings), key=lambda field: field.name in shared)
    return [
        SettingDescription(field.name, field.default, field.metadata["meaning"], field.metadata["used_by"])
        for field in own_first
    ]
