"""The dashboard and the alert rules ask for metrics and labels that exist, and for all that matter."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from evenkeel.model.metrics import PLAN_METRICS, RUN_METRICS, Metric
from evenkeel.model.run import RunState, StepState

MONITORING = Path(__file__).resolve().parents[2] / "infra" / "monitoring"
METRICS: dict[str, Metric] = {metric.name: metric for metric in (*RUN_METRICS, *PLAN_METRICS)}
SELECTOR = re.compile(r"(evenkeel_\w+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"')
VALUES = {"state": {*RunState}, "outcome": {*StepState}, "when": {"before", "after"}}


def dashboard() -> dict[str, object]:
    document: dict[str, object] = json.loads((MONITORING / "grafana-dashboard.json").read_text())
    return document


def panels() -> list[dict[str, object]]:
    return dashboard()["panels"]  # type: ignore[return-value]


def alerts() -> list[dict[str, object]]:
    (group,) = yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"]
    return group["rules"]  # type: ignore[no-any-return]


def expressions() -> list[str]:
    queries = [target["expr"] for panel in panels() for target in panel["targets"]]  # type: ignore[attr-defined]
    return [*queries, *(str(alert["expr"]) for alert in alerts())]


@pytest.mark.parametrize("expression", expressions())
def test_expression_uses_metrics_labels_and_values_that_exist(expression: str) -> None:
    selectors = SELECTOR.findall(expression)
    assert selectors
    for name, matchers in selectors:
        assert name in METRICS
        for label, value in MATCHER.findall(matchers):
            assert label in METRICS[name].labels
            assert set(value.split("|")) <= VALUES.get(label, {value})


def test_every_metric_is_on_the_dashboard() -> None:
    text = (MONITORING / "grafana-dashboard.json").read_text()
    assert {name for name, _ in SELECTOR.findall(text)} == set(METRICS)


def test_legends_and_messages_use_labels_that_exist() -> None:
    for panel in panels():
        for target in panel["targets"]:  # type: ignore[attr-defined]
            ((name, _),) = SELECTOR.findall(target["expr"])
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= set(METRICS[name].labels)
    for alert in alerts():
        name = SELECTOR.findall(str(alert["expr"]))[0][0]
        assert set(re.findall(r"\$labels\.(\w+)", json.dumps(alert))) <= set(METRICS[name].labels)
        assert {"summary", "action"} == set(alert["annotations"])  # type: ignore[call-overload]


def test_panels_do_not_overlap_and_have_their_own_ids() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        at: dict[str, int] = panel["gridPos"]  # type: ignore[assignment]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells
    assert len({panel["id"] for panel in panels()}) == len(panels())
