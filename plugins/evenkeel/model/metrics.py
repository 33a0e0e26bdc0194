"""Every metric that Evenkeel gives to Prometheus: name, type, labels and meaning, and the text format.

The reference page, the dashboard and the alert rules are tested against this list. No label holds the name of a bundle,
topic or broker: a series for each would be more than a Prometheus wants to keep.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class MetricType(StrEnum):
    """Prometheus' types, as far as they are used."""

    COUNTER = "counter"
    GAUGE = "gauge"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric; every one has the label `cluster` before its own."""

    name: str
    type: MetricType
    meaning: str
    own_labels: tuple[str, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        return ("cluster", *self.own_labels)


def _gauge(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(f"evenkeel_{name}", MetricType.GAUGE, meaning, labels)


RUN_INFO = _gauge("run_info", "1, with the ids of the last run and its plan.", "run", "plan")
RUN_STATE = _gauge("run_state", "1 for the state in which the last run ended, 0 for the others.", "state")
RUN_STEPS = _gauge("run_steps", "Steps of the last run by outcome.", "outcome")
RUN_PLANNED_STEPS = _gauge("run_planned_steps", "Steps of the plan that the last run applied.")
RUN_SECONDS = _gauge("run_seconds", "How long the last run took.")
RUN_SLOWEST_STEP = _gauge("run_slowest_step_seconds", "The longest time that a step of the last run took to settle.")
RUN_MOVED_BYTES = _gauge(
    "run_moved_bytes_per_second", "Traffic, in and out, of the bundles that the last run moved, as planned."
)
RUN_MOVED_SESSIONS = _gauge("run_moved_sessions", "Producers and consumers of the bundles that the last run moved.")
RUN_EPOCH = _gauge("run_epoch", "Epoch of the fence in the last run.")
RUN_WARNINGS = _gauge("run_warnings", "Warnings of the last run.")
RUN_ENDED = _gauge("run_ended_timestamp_seconds", "When the last run ended, whatever its state.")
RUN_SUCCEEDED = _gauge("run_last_success_timestamp_seconds", "When the last successful run ended.")
DECISIONS = Metric(
    "evenkeel_decisions_total",
    MetricType.COUNTER,
    "Decisions of the guarded writer in the last run, by kind of step.",
    ("decision", "kind"),
)
RUN_METRICS = (
    *(RUN_INFO, RUN_STATE, RUN_STEPS, RUN_PLANNED_STEPS, RUN_SECONDS, RUN_SLOWEST_STEP, RUN_MOVED_BYTES),
    *(RUN_MOVED_SESSIONS, RUN_EPOCH, RUN_WARNINGS, RUN_ENDED, RUN_SUCCEEDED, DECISIONS),
)

PLAN_INFO = _gauge("plan_info", "1, with the plan's id and strategy.", "plan", "strategy")
PLAN_STEPS = _gauge("plan_steps", "Steps of the plan by kind.", "kind")
PLAN_BOUND_MOVES = _gauge("plan_bound_moves", "The fewest moves that any plan needs for the same band.")
PLAN_UTILISATION = _gauge(
    "plan_busiest_broker_ratio",
    "Use of a resource by its busiest broker, as a share of the limit, before the plan and as predicted after it.",
    *("resource", "when"),
)
PLAN_IMBALANCE = _gauge(
    "plan_max_over_mean_ratio", "Use by the busiest broker over the mean, before and after.", "resource", "when"
)
PLAN_SESSIONS = _gauge("plan_moved_sessions", "Producers and consumers that the plan disconnects.")
PLAN_CLIENT_SECONDS = _gauge("plan_client_seconds", "Disruption by the plan: sessions × seconds until each is back.")
PLAN_REJECTIONS = _gauge("plan_rejections", "How often each rule refused something.", "rule")
PLAN_TRUNCATED = _gauge("plan_truncated", "1 if a deadline cut the search short, else 0.")
PLAN_EXPIRES = _gauge("plan_expires_timestamp_seconds", "When the plan expires.")
PLAN_GATE_PASSED = _gauge("plan_gate_passed", "1 if the plan passed its gate, else 0.")
PLAN_GATE_WARNINGS = _gauge("plan_gate_warnings", "Warnings of the plan's gate.")
PLAN_METRICS = (
    *(PLAN_INFO, PLAN_STEPS, PLAN_BOUND_MOVES, PLAN_UTILISATION, PLAN_IMBALANCE, PLAN_SESSIONS, PLAN_CLIENT_SECONDS),
    *(PLAN_REJECTIONS, PLAN_TRUNCATED, PLAN_EXPIRES, PLAN_GATE_PASSED, PLAN_GATE_WARNINGS),
)


AUDIT_INFO = _gauge("audit_info", "1, with the id of the last audit.", "audit")
AUDIT_TIME = _gauge("audit_timestamp_seconds", "When the last audit was made.")
AUDIT_FINDINGS = _gauge("audit_findings", "Findings of the last audit by severity.", "severity")
AUDIT_ERROR = _gauge(
    "audit_prediction_error_ratio",
    "Sum of |realised − predicted| over the sum of realised, of the newest run that could be compared.",
    *("resource", "horizon"),
)
AUDIT_BIAS = _gauge(
    "audit_prediction_bias_ratio", "The same with its sign: above 0 the prediction was too low.", "resource", "horizon"
)
AUDIT_RETURN_RATE = _gauge("audit_return_ratio", "Share of moves that took a bundle back within a day.")
AUDIT_MOVES = _gauge("audit_moves", "Changes of owner in the audited period, by mover.", "mover")
AUDIT_METRICS = (AUDIT_INFO, AUDIT_TIME, AUDIT_FINDINGS, AUDIT_ERROR, AUDIT_BIAS, AUDIT_RETURN_RATE, AUDIT_MOVES)


@dataclass(frozen=True, slots=True)
class Sample:
    """A value of a metric; `labels` are its own, without the cluster."""

    metric: Metric
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if tuple(self.labels) != self.metric.own_labels:
            raise ValueError(f"{self.metric.name} has the labels {self.metric.own_labels}, not {tuple(self.labels)}")


def render_metrics(cluster: str, samples: Iterable[Sample]) -> str:
    """Samples in Prometheus' text format, each metric once, in the order of its first sample."""
    by_metric: dict[Metric, list[Sample]] = {}
    for sample in samples:
        by_metric.setdefault(sample.metric, []).append(sample)
    lines = []
    for metric, found in by_metric.items():
        lines += [f"# HELP {metric.name} {metric.meaning}", f"# TYPE {metric.name} {metric.type}"]
        lines += [f"{metric.name}{{{_labels(cluster, sample)}}} {_number(sample.value)}" for sample in found]
    return "\n".join(lines) + "\n"


def _labels(cluster: str, sample: Sample) -> str:
    return ",".join(f'{name}="{_escape(value)}"' for name, value in {"cluster": cluster, **sample.labels}.items())


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
