"""Clusters of the extensible load manager: load comes from each broker's statistics over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from evenkeel.adapters.broker_http import HttpAnswer
from evenkeel.adapters.cluster_source import ClusterSource
from evenkeel.adapters.json_documents import JsonObject, decode_json, refuse
from evenkeel.adapters.load_reports import BrokerReport, TopicLoad, parse_topics
from evenkeel.adapters.registrations import Registration
from evenkeel.model.settings import Settings

TOPICS_PATH = "/admin/v2/broker-stats/topics"
METRICS_PATH = "/admin/v2/broker-stats/metrics"
# Taken where the settings tell nothing of a broker: all brokers are equal, and shares come out right.
NOMINAL_CPU_LIMIT_PERCENT = 100.0
NOMINAL_NIC_KBPS = 10_000_000.0
CPU_PERCENT_PER_CORE = 100.0
KBPS_PER_GBPS = 1_000_000.0
_USAGE_METRIC = "brk_lb_cpu_usage"


@dataclass(frozen=True, slots=True)
class BrokerStatistics:
    """What brokers answered: their reports, and why some have none."""

    reports: dict[str, BrokerReport]
    problems: dict[str, str]


def fetch_reports(
    source: ClusterSource,
    registrations: Sequence[Registration],
    settings: Settings,
    now: datetime,
    stats_period_s: float,
) -> BrokerStatistics:
    """Ask every broker for its topics and its resources; who does not answer both has no report."""
    # All in one go, so that a broker that hangs costs its time-out once.
    answers = source.http.fetch([r.web_url + path for path in (TOPICS_PATH, METRICS_PATH) for r in registrations])
    topics = _parse_all_topics(registrations, answers[: len(registrations)])
    reports, problems = {}, dict(topics.problems)
    for registration, answer in zip(registrations, answers[len(registrations) :], strict=True):
        broker_id = registration.broker_id
        percentages = _parse_metrics(answer, broker_id)
        if percentages is None:
            problems.setdefault(broker_id, answer.problem or f"{METRICS_PATH} has no {_USAGE_METRIC} yet")
        elif broker_id in topics.found:
            reports[broker_id] = BrokerReport(
                broker_id=broker_id,
                made_at=now,
                resources=_to_resources(percentages, broker_id, settings),
                topics=topics.found[broker_id],
                stats_period_s=stats_period_s,
            )
    return BrokerStatistics(reports, problems)


@dataclass(frozen=True, slots=True)
class TopicStatistics:
    """Topics by broker and namespace, and why some brokers gave none."""

    found: dict[str, dict[str, tuple[TopicLoad, ...]]]
    problems: dict[str, str]


def fetch_topics(source: ClusterSource, registrations: Sequence[Registration]) -> TopicStatistics:
    """Ask every broker for the topics that it serves."""
    answers = source.http.fetch([r.web_url + TOPICS_PATH for r in registrations])
    return _parse_all_topics(registrations, answers)


def _parse_all_topics(registrations: Sequence[Registration], answers: Sequence[HttpAnswer]) -> TopicStatistics:
    found, problems = {}, {}
    for registration, answer in zip(registrations, answers, strict=True):
        if answer.body is None:
            problems[registration.broker_id] = answer.problem or "no answer"
        else:
            origin = f"broker {registration.broker_id}: {TOPICS_PATH}"
            found[registration.broker_id] = parse_topics(JsonObject.decode(answer.body, origin))
    return TopicStatistics(found, problems)


def find_brokers_without_capacity(broker_ids: Sequence[str], settings: Settings) -> list[str]:
    """Brokers of which the settings do not tell what they can carry."""
    return [b for b in broker_ids if not any(entry.matches(b) for entry in settings.capacity)]


def _parse_metrics(answer: HttpAnswer, broker_id: str) -> JsonObject | None:
    """The entry with the broker's own percentages; None before the load manager has measured any."""
    if answer.body is None:
        return None
    origin = f"broker {broker_id}: {METRICS_PATH}"
    entries = decode_json(answer.body, origin)
    if not isinstance(entries, list):
        refuse(f"{origin} holds no list")
    for entry in entries:
        metrics = JsonObject(entry, origin).object("metrics")
        if metrics.has(_USAGE_METRIC):
            return metrics
    return None


def _to_resources(percentages: JsonObject, broker_id: str, settings: Settings) -> dict[str, float | None]:
    """Usage and limit of what can be balanced; memory, known in percent of an unknown amount, stays unknown."""
    capacity = next((entry for entry in settings.capacity if entry.matches(broker_id)), None)
    cpu_limit = capacity.cores * CPU_PERCENT_PER_CORE if capacity else NOMINAL_CPU_LIMIT_PERCENT
    nic_limit = capacity.nic_gbps * KBPS_PER_GBPS if capacity else NOMINAL_NIC_KBPS
    limits = {
        "cpu": ("percent", cpu_limit, "brk_lb_cpu_usage"),
        "bandwidth_in": ("kbps", nic_limit, "brk_lb_bandwidth_in_usage"),
        "bandwidth_out": ("kbps", nic_limit, "brk_lb_bandwidth_out_usage"),
    }
    resources: dict[str, float | None] = {}
    for name, (unit, limit, metric) in limits.items():
        resources[f"{name}_usage_{unit}"] = percentages.figure(metric) / 100.0 * limit
        resources[f"{name}_limit_{unit}"] = limit
    if capacity is None:
        # A share of a network whose speed nobody knows is no traffic; what bundles carry is known in bytes anyway.
        resources |= {"bandwidth_in_usage_kbps": None, "bandwidth_out_usage_kbps": None}
    return resources
