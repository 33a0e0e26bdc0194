"""Every setting, with its meaning and default; keys carry PIP-192's names in snake case where it has one."""

from __future__ import annotations

import dataclasses
import math
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from evenkeel.model.broker_states import HeartbeatTimeouts
from evenkeel.model.errors import InputError
from evenkeel.model.pulsar_settings import PulsarSettings
from evenkeel.model.setting_fields import budget_setting, choice_setting, setting


@dataclass(frozen=True, slots=True)
class Capacity:
    """What the brokers of some hosts can carry, for clusters that report percentages only."""

    hosts: str
    cores: float
    nic_gbps: float

    def __post_init__(self) -> None:
        try:
            re.compile(self.hosts)
        except re.error as error:
            raise InputError(
                f"capacity: hosts = {self.hosts!r} is not a regular expression ({error})", "correct the pattern"
            ) from error
        if not (0 < self.cores < math.inf and 0 < self.nic_gbps < math.inf):
            raise InputError(f"capacity of {self.hosts!r} is not positive", "give cores and nic_gbps above zero")

    def matches(self, broker_id: str) -> bool:
        return re.fullmatch(self.hosts, broker_id.rpartition(":")[0]) is not None


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
    objective: Literal["moves", "disruption", "balanced"] = choice_setting(
        "balanced", "what is least on the way into the band: moves, disruption (client-seconds), or both in proportion"
    )
    planning_load: Literal["now", "p95", "peak"] = choice_setting(
        "now", "load that is planned for: now, the 95th percentile, or the peak of the hours until the plan expires"
    )
    bandwidth_model: Literal["bundles", "scaled"] = choice_setting(
        "bundles", "a broker's bandwidth is the sum of its bundles, or `scaled` up to the measured NIC traffic"
    )

    search_deadline_s: float | None = budget_setting(
        "seconds after which the search for a pool's plan ends with the best so far; not set, it ends by itself"
    )

    # budgets, all hard; one that is not set is no limit
    max_steps: int = setting(5_000, "most steps that a plan may have", 0)
    max_moved_bytes_per_s: float | None = budget_setting("most bytes per second, in and out, that a plan may move")
    max_moved_sessions: float | None = budget_setting("most producers and consumers that a plan may disturb")
    max_client_seconds: float | None = budget_setting("most client-seconds that a plan may cost")
    tenant_max_steps: float | None = budget_setting("most steps that a plan may ask of one tenant")
    tenant_max_moved_bytes_per_s: float | None = budget_setting("most bytes per second of one tenant that may move")
    tenant_max_sessions: float | None = budget_setting("most sessions of one tenant that a plan may disturb")
    tenant_max_client_seconds: float | None = budget_setting("most client-seconds that a plan may cost one tenant")
    canary_steps: int = setting(1, "steps in the first wave", 1)
    wave_steps: int = setting(50, "most steps in any later wave", 1)
    wave_broker_share: float = setting(
        0.2, "share of a wave's steps that one broker may give or take; more where it has more of all moves", 0.0, 1.0
    )
    wave_max_moved_bytes_per_s: float | None = budget_setting("most bytes per second that one wave may move")
    wave_max_sessions: float | None = budget_setting("most sessions that one wave may disturb")
    wave_max_client_seconds: float | None = budget_setting("most client-seconds that one wave may cost")

    # what counts as knowing the load
    history_days: float = setting(7.0, "how far back load profiles look", 0.0, 3_650.0)
    capacity: tuple[Capacity, ...] = setting(
        (), "cores and NIC speed by host pattern, where Pulsar gives percentages", convert=_convert_capacities
    )

    report_broker_timeout_s: float = setting(
        3_600.0,
        "a broker that has not reported for so long takes nothing new any more; more than "
        "broker_load_data_ttl_in_seconds, after which it counts as Inactive",
        1.0,
    )

    # what a move costs its clients; first guesses, to be calibrated by what runs measure
    transfer_hand_over_ms: int = setting(
        500, "expected time from the cut of a transfer until the new owner serves; calibrate it from runs", 1
    )
    unload_hand_over_ms: int = setting(
        2_000, "expected time from the cut of an unload until a new owner serves; calibrate it from runs", 1
    )
    transfer_aware_clients_share: float = setting(
        0.5,
        "share of clients that know transfers; for others, and on modular clusters, one is an unload",
        0.0,
        1.0,
    )
    consumer_sessions_share: float = setting(
        0.5, "share of sessions that are consumers, who have to catch up; calibrate it from runs", 0.0, 1.0
    )
    catch_up_read_factor: float = setting(
        3.0, "how many times faster than its stream a consumer reads to catch up; calibrate it from runs", 1.1
    )
    unacknowledged_ms: int = setting(
        1_000,
        "stream that a consumer has not acknowledged and is sent again after an unload; calibrate it from runs",
        0,
    )

    # what a plan is compared with
    counterfactual_max_bundles: int = setting(
        1_000_000, "a plan for more bundles does without the comparison with Pulsar's own strategies", 0
    )

    # how long a plan may be applied
    plan_expires_after_s: int = setting(14_400, "seconds after the snapshot at which a plan expires", 1)

    # the guarded writer
    session_timeout_s: float = setting(30.0, "time-out of the writer's ZooKeeper session", 1.0)
    session_expired_policy: Literal["shutdown", "reconnect"] = choice_setting(
        "shutdown", "what a run does whose ZooKeeper session has expired: end, resumable, or go on with a new session"
    )
    session_expired_retries: int = setting(2, "how often a run takes a new session before it ends all the same", 0)
    safe_mode_wait_s: float = setting(
        150.0, "how long ZooKeeper must have been back, all brokers registered, before anything is applied again", 0.0
    )
    safe_mode_deadline_s: float = setting(
        900.0,
        "how long a run waits for that before it ends, resumable; "
        "and how long one that has lost its session tries to give Pulsar's balancer back",
        0.0,
    )
    pause_native_balancer: bool = setting(
        True, "whether Pulsar's own shedding and splitting are switched off while a plan is applied"
    )
    health_load_error: float | None = budget_setting(
        "part of a broker's limit by which its load may differ from the plan after a wave; not set, it is not looked at"
    )
    stop_wait_s: float = setting(10.0, "how long a run that is told to stop waits for steps under way", 0.0)
    journal_kept_days: float = setting(30.0, "days after which the journal of a plan that has ended is removed", 0.0)
    in_flight_steps: int = setting(8, "most steps under way at a time", 1)
    step_deadline_s: float = setting(100.0, "time within which a step must reach its end state", 1.0)
    clock_offset_limit_s: float = setting(
        5.0, "largest offset from ZooKeeper's clock with which the writer writes", 0.1
    )
    verify_wait_s: float = setting(
        20.0, "how long verification waits for load reports that are newer than the run", 0.0
    )
    admin_call_timeout_s: float = setting(60.0, "time-out of a call to a broker's admin API", 1.0)

    # how brokers let Evenkeel in; files, never secrets, since settings are written into every plan
    broker_token_file: str | None = setting(None, "file with a super-user's token for brokers that ask for one")
    broker_ca_file: str | None = setting(
        None, "file with the authorities that signed the brokers' certificates, where the machine does not know them"
    )
    broker_certificate_file: str | None = setting(None, "file with Evenkeel's own certificate for brokers, as PEM")
    broker_key_file: str | None = setting(None, "file with the key of that certificate, if it is not in the same file")

    def __post_init__(self) -> None:
        PulsarSettings.__post_init__(self)
        _ = self.heartbeat_timeouts

    @property
    def heartbeat_timeouts(self) -> HeartbeatTimeouts:
        """After how long without a report a broker is Inactive, and fenced; refused unless in that order."""
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
    """What `evenkeel settings` prints of a setting."""

    key: str
    default: Any
    meaning: str


def describe_settings() -> list[SettingDescription]:
    """All settings with default and meaning: Evenkeel's own first, then those that Pulsar has too."""
    shared = {field.name for field in dataclasses.fields(PulsarSettings)}
    own_first = sorted(dataclasses.fields(Settings), key=lambda field: field.name in shared)
    return [SettingDescription(field.name, field.default, field.metadata["meaning"]) for field in own_first]
