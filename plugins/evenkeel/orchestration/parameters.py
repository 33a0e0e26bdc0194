"""What a person may ask of a Dag run: the fields of the trigger form, and how their values are read.

The form checks types and choices. It does not check times, and whoever triggers by the API may send keys that no form
has. So every value is read here once more, by the first task of each Dag.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from airflow.sdk import Param

from evenkeel.model.bundles import BundleName
from evenkeel.model.errors import InputError
from evenkeel.model.names import require_broker_id, suggest
from evenkeel.model.outside_json import show
from evenkeel.model.request import STRATEGIES
from evenkeel.model.settings import Settings
from evenkeel.model.timestamps import format_time, parse_time

# How long to wait for an answer.
APPROVAL_TIMEOUT = "approval_timeout_minutes"
DEFAULT_TIMEOUT_MINUTES = 60
LONGEST_TIMEOUT_MINUTES = 7 * 24 * 60
DEADLINE = "deadline"
BREAK_GLASS = "break_glass"
BROKERS = "brokers"
REASON = "reason"
RUN = "run"
KEEP_MARKS = "keep_marks"
SNAPSHOT = "snapshot"
STRATEGY = "strategy"
PLAN_ONLY = "plan_only"
RELIEF_ONLY = "relief_only"
CHOICES = {"objective": ["moves", "disruption", "balanced"], "planning_load": ["now", "p95", "peak"]}
# Parameters that stand for a setting of the same name; empty means as configured.
NUMBERS = {
    "tolerance": "How far a broker may be from the mean of its pool, as a share of it.",
    "max_steps": "Most steps of the plan.",
    "max_client_seconds": "Most client-seconds that the plan may cost.",
    "max_moved_sessions": "Most producers and consumers that the plan may disconnect.",
    "max_moved_bytes_per_s": "Most bytes per second, in and out, that the plan may move.",
}
LEFT_ALONE = {
    "brokers_left_alone": "Brokers that keep what they have and get nothing, as host:port.",
    "shedding_excluded_namespaces": "Namespaces whose bundles stay, as tenant/namespace.",
    "pinned_bundles": "Bundles that stay, as tenant/namespace/0x00000000_0x40000000.",
}
LONGEST_REASON = 500


def approval_params() -> dict[str, Param]:
    """The parameters of a Dag that asks for an approval."""
    return {
        APPROVAL_TIMEOUT: Param(
            DEFAULT_TIMEOUT_MINUTES,
            type="number",
            exclusiveMinimum=0,
            maximum=LONGEST_TIMEOUT_MINUTES,
            title="Minutes to wait for the approval",
            description="No answer counts as a rejection.",
            section="Approval",
        )
    }


def time_params() -> dict[str, Param]:
    """The parameters of a Dag whose run may have to end by a certain time."""
    return {
        DEADLINE: Param(
            None,
            type=["null", "string"],
            format="date-time",
            title="Deadline",
            description="No step starts after this time, such as 2026-01-31T03:00:00Z.",
            section="When",
        )
    }


def window_params() -> dict[str, Param]:
    """The parameter of a Dag that keeps to maintenance windows."""
    return {
        BREAK_GLASS: Param(
            None,
            type=["null", "string"],
            maxLength=LONGEST_REASON,
            title="Break glass: reason to run now, outside every window",
            description="Empty: the run keeps to the cluster's windows. The reason is recorded with the plan.",
            section="When",
        )
    }


def plan_params() -> dict[str, Param]:
    """The parameters that steer a plan; empty ones are as configured."""
    what, budgets, alone = "What to plan", "Budgets", "Leave alone"
    return {
        SNAPSHOT: _text("Snapshot", "Id of a snapshot that passed its gate. Empty: a fresh one is taken.", what),
        STRATEGY: Param(STRATEGIES[0], type="string", enum=list(STRATEGIES), title="Strategy", section=what),
        **{
            name: Param(
                None, type=["null", "string"], enum=[None, *values], title=_title(name), section=what,
                description="Empty: as configured.",
            )
            for name, values in CHOICES.items()
        },
        **{name: _number(name, what if name == "tolerance" else budgets) for name in NUMBERS},
        RELIEF_ONLY: Param(
            False,
            type="boolean",
            title="Relief only",
            description="Move only what is above the overload line, must leave its broker, or breaks a rule.",
            section=what,
        ),
        PLAN_ONLY: Param(
            False, type="boolean", title="Plan only", description="Nobody is asked; nothing is applied.", section=what
        ),
        **{name: _list(_title(name), text, alone) for name, text in LEFT_ALONE.items()},
    }  # fmt: skip


def undrain_params() -> dict[str, Param]:
    """The parameter of a Dag that is about certain brokers."""
    return {
        BROKERS: Param(
            [],
            type="array",
            items={"type": "string", "minLength": 3},
            title="Brokers",
            description="Broker ids, host:port, one a line.",
            section="Brokers",
        )
    }


def drain_params() -> dict[str, Param]:
    """The parameters of a Dag that marks brokers."""
    return undrain_params() | {
        REASON: _text("Reason", "Why; stored with the mark, and shown with every plan meanwhile.", "Brokers"),
    }


def keep_params() -> dict[str, Param]:
    return {
        KEEP_MARKS: Param(
            False,
            type="boolean",
            title="Keep the marks if nothing is applied",
            description="Otherwise a rejected or empty plan takes the brokers' marks away again.",
            section="Brokers",
        )
    }


def rollback_params() -> dict[str, Param]:
    return {RUN: Param("", type="string", title="Run", description="Id of the run to undo.", section="What to undo")}


@dataclass(frozen=True, slots=True)
class PlanWishes:
    """What a person asks of one plan, over what is configured."""

    strategy: str
    settings: Mapping[str, Any]
    snapshot: str | None = None
    is_relief_only: bool = False
    is_plan_only: bool = False

    @property
    def brokers(self) -> tuple[str, ...]:
        return tuple(self.settings.get("brokers_left_alone", ()))

    @property
    def namespaces(self) -> tuple[str, ...]:
        return tuple(self.settings.get("shedding_excluded_namespaces", ()))

    @property
    def bundles(self) -> tuple[str, ...]:
        return tuple(self.settings.get("pinned_bundles", ()))

    def over(self, settings: Settings) -> Settings:
        """The settings to plan with: lists are added to the configured ones, all else replaces them."""
        changes: dict[str, Any] = {
            name: (*getattr(settings, name), *value) if name in LEFT_ALONE else value
            for name, value in self.settings.items()
        }
        return replace(settings, **changes)


def refuse_unknown(given: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuse a parameter that the Dag does not have, which Airflow would ignore."""
    for name in given:
        if name not in known:
            raise InputError(f"there is no parameter {show(name)}", suggest(str(name), known) or "see the Dag's form")


def read_plan_wishes(params: Mapping[str, Any]) -> PlanWishes:
    """Read the parameters of `plan_params`; a wrong one is refused by its name."""
    if params[STRATEGY] not in STRATEGIES:
        raise _wrong(STRATEGY, params[STRATEGY], f"choose one of {', '.join(STRATEGIES)}")
    settings: dict[str, Any] = {name: params[name] for name in (*CHOICES, *NUMBERS) if params.get(name) is not None}
    settings |= {name: _read_list(name, params.get(name)) for name in LEFT_ALONE}
    for broker in settings["brokers_left_alone"]:
        require_broker_id(broker)
    for bundle in settings["pinned_bundles"]:
        BundleName.parse(bundle)
    # Ranges and types are those of the settings themselves.
    judged = Settings.from_json(settings, "the parameters")
    return PlanWishes(
        params[STRATEGY],
        {name: getattr(judged, name) for name, value in settings.items() if value != ()},
        _read_text(SNAPSHOT, params.get(SNAPSHOT)),
        _read_flag(RELIEF_ONLY, params),
        _read_flag(PLAN_ONLY, params),
    )


def read_brokers(params: Mapping[str, Any]) -> list[str]:
    """The brokers to mark, sorted; an empty list is refused."""
    brokers = _read_list(BROKERS, params[BROKERS])
    if not brokers:
        raise InputError(f"the parameter {BROKERS} is empty", "set it to at least one broker id, host:port")
    return sorted({require_broker_id(broker) for broker in brokers})


def read_reason(name: str, params: Mapping[str, Any]) -> str:
    """A reason in words, without line breaks; empty where none is given."""
    text = " ".join((_read_text(name, params.get(name)) or "").split())
    if len(text) > LONGEST_REASON:
        raise _wrong(name, text[:40] + "…", f"write at most {LONGEST_REASON} characters")
    return text


def read_deadline(params: Mapping[str, Any], now: datetime) -> datetime | None:
    """The deadline, which lies ahead; None where none is given."""
    value = _read_text(DEADLINE, params.get(DEADLINE))
    if value is None:
        return None
    try:
        deadline = parse_time(value)
    except InputError as error:
        raise _wrong(DEADLINE, value, "write it as 2026-01-31T03:00:00Z") from error
    if deadline <= now:
        raise _wrong(DEADLINE, value, f"choose a time after {format_time(now)}", "has passed already")
    return deadline


def read_timeout(params: Mapping[str, Any]) -> timedelta:
    """How long to wait for an answer."""
    value = params.get(APPROVAL_TIMEOUT, DEFAULT_TIMEOUT_MINUTES)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LONGEST_TIMEOUT_MINUTES:
        raise _wrong(APPROVAL_TIMEOUT, value, f"use a number of minutes, up to {LONGEST_TIMEOUT_MINUTES:,}")
    return timedelta(minutes=value)


def read_run(params: Mapping[str, Any]) -> str:
    """The run to undo."""
    run = _read_text(RUN, params[RUN])
    if run is None:
        raise InputError(f"the parameter {RUN} is empty", "set it to the id of a run; `evenkeel runs` lists them")
    return run


def _read_list(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | None) or not all(isinstance(each, str) for each in value or ()):
        raise _wrong(name, value, "give a list of texts", "is no list of texts")
    found = tuple(sorted({each.strip() for each in value or ()}))
    if "" in found:
        raise _wrong(name, value, "leave the empty entry out", "has an empty entry")
    return found


def _read_text(name: str, value: Any) -> str | None:
    if not isinstance(value, str | None):
        raise _wrong(name, value, "write it in quotes", "is no text")
    return (value or "").strip() or None


def _read_flag(name: str, params: Mapping[str, Any]) -> bool:
    value = params.get(name, False)
    if not isinstance(value, bool):
        raise _wrong(name, value, "use true or false", "is neither true nor false")
    return value


def _wrong(name: str, value: Any, remedy: str, what: str = "is not usable") -> InputError:
    return InputError(f"the parameter {name} = {show(value)} {what}", remedy)


def _title(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _text(title: str, description: str, section: str) -> Param:
    return Param(None, type=["null", "string"], title=title, description=description, section=section)


def _number(name: str, section: str) -> Param:
    kind = "integer" if name == "max_steps" else "number"
    return Param(
        None, type=["null", kind], minimum=0, title=_title(name), section=section,
        description=f"{NUMBERS[name]} Empty: as configured.",
    )  # fmt: skip


def _list(title: str, description: str, section: str) -> Param:
    return Param(
        None,
        type=["null", "array"],
        items={"type": "string", "minLength": 3},
        title=title,
        description=description,
        section=section,
    )
