"""Cpu weights are learnt from what brokers measured, held back where the samples say little, and not by outliers."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from evenkeel.auditing.cpu_weights import CpuSamples, learn_cpu_weights
from evenkeel.model.load import CpuCalibration

NOW = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
NAMES = ("acme/a", "acme/b", "acme/c")


def make_samples(costs: dict[str, float], rows: int, seed: int, idle: float = 0.02, noise: float = 0.002) -> CpuSamples:
    """Brokers with random messages of each namespace; `costs` is the cpu share of a million messages on 800 %."""
    draw = np.random.default_rng(seed)
    rates = draw.uniform(0, 1e6, (rows, len(costs)))
    cpu = idle + rates @ np.array(list(costs.values())) / 1e6 + draw.normal(0, noise, rows)
    return CpuSamples(
        cpu_share=cpu,
        limit_percent=np.full(rows, 800.0),
        row=np.repeat(np.arange(rows), len(costs)),
        namespace=[name for _ in range(rows) for name in costs],
        msg_rate_millis=rates.ravel(),
    )


@pytest.mark.parametrize("seed", range(10))
def test_weights_find_the_true_costs(seed: int) -> None:
    costs = dict(zip(NAMES, (0.05, 0.1, 0.3), strict=True))
    learnt = learn_cpu_weights(make_samples(costs, 40, seed), {}, NOW)
    weight = {row.key: row.weight_millis for row in learnt.rows}
    assert weight["acme/c"] / weight["acme/b"] == pytest.approx(3.0, rel=0.15)
    assert weight["acme/b"] / weight["acme/a"] == pytest.approx(2.0, rel=0.15)
    assert learnt.error_after < 0.2 * learnt.error_before
    assert learnt.idle_share == pytest.approx(0.02, abs=0.01)


def test_outliers_hardly_move_the_weights() -> None:
    costs = dict(zip(NAMES, (0.05, 0.1, 0.3), strict=True))
    samples = make_samples(costs, 60, 3)
    samples.cpu_share[:4] = 0.95
    weight = {row.key: row.weight_millis for row in learn_cpu_weights(samples, {}, NOW).rows}
    assert weight["acme/c"] / weight["acme/b"] == pytest.approx(3.0, rel=0.25)


def test_namespace_that_says_nothing_keeps_its_weight_against_the_others() -> None:
    costs = {"acme/a": 0.2, "acme/b": 0.1}
    samples = make_samples(costs, 30, 5)
    present = {"acme/quiet": CpuCalibration("acme/quiet", 1700, 9, NOW)}
    rows = {row.key: row for row in learn_cpu_weights(samples, present, NOW).rows}
    assert rows["acme/quiet"] == present["acme/quiet"]
    assert rows["acme/a"].weight_millis > 1.5 * rows["acme/b"].weight_millis


def test_right_weights_are_not_learnt_again() -> None:
    costs = dict(zip(NAMES, (0.1, 0.1, 0.1), strict=True))
    learnt = learn_cpu_weights(make_samples(costs, 40, 1), {}, NOW)
    assert learnt.rows == ()
    assert learnt.note == "the present weights explain the measured cpu as well"


def test_few_samples_teach_nothing() -> None:
    learnt = learn_cpu_weights(make_samples({"acme/a": 0.1}, 3, 1), {}, NOW)
    assert learnt.note == "3 samples of brokers' cpu are too few to learn from"


@pytest.mark.parametrize("seed", range(20))
def test_weights_are_positive_and_the_average_message_weighs_a_thousand(seed: int) -> None:
    print(f"seed {seed}")
    draw = np.random.default_rng(seed)
    costs = {f"acme/n{place}": float(draw.lognormal(-2.5, 1.0)) for place in range(draw.integers(2, 9))}
    samples = make_samples(costs, 50, seed)
    rows = learn_cpu_weights(samples, {}, NOW).rows
    if rows:
        weight = {row.key: row.weight_millis for row in rows}
        assert min(weight.values()) >= 1
        rates = dict.fromkeys(costs, 0.0)
        for name, rate in zip(samples.namespace, samples.msg_rate_millis, strict=True):
            rates[name] += rate
        mean = sum(weight[name] * rates[name] for name in costs) / sum(rates.values())
        assert mean == pytest.approx(1000, rel=0.01)
