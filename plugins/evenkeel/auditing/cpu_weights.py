"""Learn what messages cost: cpu weights per namespace from what brokers measured while they carried them.

A broker's cpu, as a share of its limit, is taken to be

    idle  +  Σ over namespaces  θ × (messages × present weight × mean cost of a message) ÷ limit

θ = 1 for every namespace is what is believed now. The θ that explain the measured cpu are found by least squares with
bounds; a ridge pulls each towards 1, as strongly as one expects noise against change (a maximum a posteriori estimate),
so a namespace about which the samples say little keeps its weight. Samples that fit badly count less (Huber), and are
looked at again with the new weights. What does not explain the samples better than before is not learnt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import numpy.typing as npt

from evenkeel.model.load import AVERAGE_WEIGHT_MILLIS, HIGHEST_WEIGHT_MILLIS, CpuCalibration

FEWEST_SAMPLES = 6
"""Fewer measured brokers than this tell nothing about namespaces."""
MOST_NAMESPACES = 1_000
"""The rest, which carries the least, is taken together and keeps its weights."""
NOISE_SHARE = 0.01
"""Expected noise of a measured cpu, as a share of the limit."""
PRIOR_SPREAD = 1.0
"""Expected relative change of a weight: how far the ridge lets it go for a reason."""
LOWEST_CHANGE, HIGHEST_CHANGE = 0.05, 20.0
HUBER_NOISES = 2.0
ROUNDS = 8
NEEDED_IMPROVEMENT = 0.98
"""What the new weights leave unexplained, at most, of what the present ones do."""
EXPLAINED_SHARE = 0.005
"""What the present weights may leave unexplained, as a share of the limit, without being changed: it is noise."""

_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CpuSamples:
    """Samples as arrays: one row a broker and hour, and the messages of namespaces on it as triplets."""

    cpu_share: _Floats
    limit_percent: _Floats
    row: npt.NDArray[np.int64]
    namespace: Sequence[str]
    msg_rate_millis: _Floats


@dataclass(frozen=True, slots=True)
class LearntWeights:
    """New weights of namespaces, and how much of the measured cpu they leave unexplained (RMS share of the limit)."""

    rows: tuple[CpuCalibration, ...]
    samples: int
    error_before: float
    error_after: float
    note: str = ""
    idle_share: float = field(default=0.0)


def learn_cpu_weights(samples: CpuSamples, present: Mapping[str, CpuCalibration], learnt_at: datetime) -> LearntWeights:
    """Learn weights of namespaces from samples; those without a sample, and rows of bundles, stay as they are."""
    count = len(samples.cpu_share)
    if count < FEWEST_SAMPLES:
        return LearntWeights((), count, 0.0, 0.0, f"{count} samples of brokers' cpu are too few to learn from")
    names, columns = _contributions(samples, present)
    if not names:
        return LearntWeights((), count, 0.0, 0.0, "no broker carried messages while its cpu was measured")
    believed = np.ones(len(names))
    design = np.column_stack([np.ones(count), columns])
    scale = _mean_cost(columns, samples.cpu_share)
    design[:, 1:] *= scale
    idle, change = _fit(design, samples.cpu_share)
    before = _rms(samples.cpu_share - _best_idle(design, samples.cpu_share, believed) - design[:, 1:] @ believed)
    after = _rms(samples.cpu_share - idle - design[:, 1:] @ change)
    if before <= EXPLAINED_SHARE or after > NEEDED_IMPROVEMENT * before:
        return LearntWeights((), count, before, after, "the present weights explain the measured cpu as well", idle)
    rows = _calibrate(names, change, columns, present, samples, learnt_at)
    return LearntWeights(rows, count, before, after, "", idle)


def _contributions(samples: CpuSamples, present: Mapping[str, CpuCalibration]) -> tuple[list[str], _Floats]:
    """The weighted messages of each namespace over each row's limit; the busiest namespaces have a column."""
    names, place = np.unique(np.array(samples.namespace, dtype=object), return_inverse=True)
    totals = np.bincount(place, weights=samples.msg_rate_millis, minlength=len(names))
    busiest = [int(each) for each in np.argsort(-totals, kind="stable")[:MOST_NAMESPACES] if totals[each] > 0]
    column_of = np.full(len(names), len(busiest))
    column_of[busiest] = np.arange(len(busiest))
    weights = np.array([_weight(str(name), present) for name in names]) / AVERAGE_WEIGHT_MILLIS
    columns = np.zeros((len(samples.cpu_share), len(busiest) + 1))
    np.add.at(columns, (samples.row, column_of[place]), samples.msg_rate_millis * weights[place])
    columns /= samples.limit_percent[:, None]
    chosen = [str(names[each]) for each in busiest]
    # Without a name, the rest keeps its weights; the last column is dropped if there is no rest.
    return (chosen, columns[:, :-1]) if not columns[:, -1].any() else ([*chosen, ""], columns)


def _mean_cost(columns: _Floats, cpu_share: _Floats) -> float:
    """The cost of an average message that explains the samples best, beside a constant part."""
    messages = columns.sum(axis=1)
    (_, slope), *_ = np.linalg.lstsq(np.column_stack([np.ones(len(messages)), messages]), cpu_share, rcond=None)
    # Brokers that all carry the same tell no slope from a constant.
    return float(slope) if slope > 0 else float(cpu_share.sum() / messages.sum())


def _fit(design: _Floats, cpu_share: _Floats) -> tuple[float, _Floats]:
    from scipy.optimize import lsq_linear

    names = design.shape[1] - 1
    ridge = np.zeros((names, names + 1))
    ridge[:, 1:] = np.eye(names) * (NOISE_SHARE / PRIOR_SPREAD)
    low = np.concatenate([[0.0], np.full(names, LOWEST_CHANGE)])
    high = np.concatenate([[1.0], np.full(names, HIGHEST_CHANGE)])
    weight = np.ones(len(cpu_share))
    solution = np.ones(names + 1)
    for _ in range(ROUNDS):
        matrix = np.vstack([design * weight[:, None], ridge])
        target = np.concatenate([cpu_share * weight, np.full(names, NOISE_SHARE / PRIOR_SPREAD)])
        solution = lsq_linear(matrix, target, bounds=(low, high), method="bvls").x
        residual = np.abs(cpu_share - design @ solution)
        weight = np.sqrt(np.minimum(1.0, HUBER_NOISES * NOISE_SHARE / np.maximum(residual, 1e-12)))
    return float(solution[0]), solution[1:]


def _best_idle(design: _Floats, cpu_share: _Floats, change: _Floats) -> float:
    return max(0.0, float(np.median(cpu_share - design[:, 1:] @ change)))


def _calibrate(
    names: Sequence[str],
    change: _Floats,
    columns: _Floats,
    present: Mapping[str, CpuCalibration],
    samples: CpuSamples,
    learnt_at: datetime,
) -> tuple[CpuCalibration, ...]:
    """Weights so that the average message of all samples weighs 1000."""
    carried = columns.sum(axis=0)
    mean_change = float(change @ carried / carried.sum())
    mean_weight = float(carried.sum() / (_unweighted(names, columns, present)))
    learnt = dict(present)
    seen = (columns > 0).sum(axis=0)
    for name, factor, rows in zip(names, change, seen, strict=True):
        if name:
            weight = _weight(name, present) * factor / (mean_change * mean_weight)
            millis = min(max(round(weight), 1), HIGHEST_WEIGHT_MILLIS)
            learnt[name] = CpuCalibration(name, millis, int(rows), learnt_at)
    return tuple(learnt[name] for name in sorted(learnt))


def _unweighted(names: Sequence[str], columns: _Floats, present: Mapping[str, CpuCalibration]) -> float:
    weights = np.array([_weight(name, present) for name in names]) / AVERAGE_WEIGHT_MILLIS
    return float((columns.sum(axis=0) / weights).sum())


def _weight(name: str, present: Mapping[str, CpuCalibration]) -> int:
    return present[name].weight_millis if name in present else AVERAGE_WEIGHT_MILLIS


def _rms(residual: _Floats) -> float:
    """The robust size of residuals: outliers beyond the Huber limit count only up to it."""
    limit = HUBER_NOISES * 10 * NOISE_SHARE
    return float(np.sqrt(np.mean(np.minimum(np.abs(residual), limit) ** 2)))
