"""Compares two plans of a cluster: their origins, what they do differently, and their figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from evenkeel.model.errors import RefusedError
from evenkeel.model.load import RESOURCES
from evenkeel.model.plan import Plan, Step, StepKind
from evenkeel.planning.cluster.figures import add_costs, count_steps

_ORIGINS = (
    "snapshot_id",
    "profile_id",
    "candidates_id",
    "strategy",
    "strategy_version",
    "load_manager",
    "policy_versions",
    "anti_affinity",
    "expires_at",
    "window",
    "truncated",
    "library_version",
)


@dataclass(frozen=True, slots=True)
class Difference:
    """A value that both plans have; the two differ, except among the figures, which are all listed."""

    name: str
    first: Any
    second: Any


@dataclass(frozen=True, slots=True)
class StepDifference:
    """What happens to a bundle in the one plan and in the other; None where a plan leaves it alone."""

    bundle: str
    kind: str
    first: str | None
    second: str | None


@dataclass(frozen=True, slots=True)
class WaveDifference:
    """The wave of one number in both plans; where a plan has fewer waves, its side is zero."""

    wave: int
    first_steps: int
    second_steps: int
    first_client_seconds: float
    second_client_seconds: float


@dataclass(frozen=True, slots=True)
class PlanDifference:
    """All that differs between two plans of a cluster.

    `same_steps` counts the steps that both plans have, `rescheduled` those of them that are in another wave.
    `elsewhere` lists the bundles that both plans change, but in different ways.
    """

    cluster: str
    first: str
    second: str
    origins: tuple[Difference, ...]
    settings: tuple[Difference, ...]
    figures: tuple[Difference, ...]
    same_steps: int
    rescheduled: int
    only_first: tuple[StepDifference, ...]
    only_second: tuple[StepDifference, ...]
    elsewhere: tuple[StepDifference, ...]
    waves: tuple[WaveDifference, ...]

    @property
    def has_same_steps(self) -> bool:
        """Whether both plans have the same steps, maybe in other waves."""
        return not (self.only_first or self.only_second or self.elsewhere)

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"has_same_steps": self.has_same_steps}


def compare_plans(
    first: Plan, first_steps: Sequence[Step], second: Plan, second_steps: Sequence[Step]
) -> PlanDifference:
    """Compare two plans of one cluster; plans of different clusters are refused."""
    if first.cluster != second.cluster:
        raise RefusedError(
            f"the first plan is of cluster {first.cluster!r}, the second of cluster {second.cluster!r}",
            "compare plans of one cluster",
        )
    mine, theirs = _by_bundle(first_steps), _by_bundle(second_steps)
    both = sorted(mine.keys() & theirs.keys())
    is_same = {key: _route(mine[key]) == _route(theirs[key]) for key in both}
    return PlanDifference(
        cluster=first.cluster,
        first=first.plan_id,
        second=second.plan_id,
        origins=tuple(_differences({name: (getattr(first, name), getattr(second, name)) for name in _ORIGINS})),
        settings=tuple(_differences(_pair(first.settings, second.settings))),
        figures=tuple(_compare_figures(_figures(first, first_steps), _figures(second, second_steps))),
        same_steps=sum(is_same.values()),
        rescheduled=sum(mine[key].wave != theirs[key].wave for key in both if is_same[key]),
        only_first=tuple(_step(mine[key], None) for key in sorted(mine.keys() - theirs.keys())),
        only_second=tuple(_step(None, theirs[key]) for key in sorted(theirs.keys() - mine.keys())),
        elsewhere=tuple(_step(mine[key], theirs[key]) for key in both if not is_same[key]),
        waves=tuple(_compare_waves(first_steps, second_steps)),
    )


def _by_bundle(steps: Sequence[Step]) -> dict[tuple[str, bool], Step]:
    """A bundle is split at most once and moved at most once."""
    return {(step.bundle, step.kind == StepKind.SPLIT): step for step in steps}


def _route(step: Step) -> str:
    """What a step does, in short."""
    if step.kind == StepKind.SPLIT:
        where = "Pulsar's own boundary" if step.split_boundary is None else f"0x{step.split_boundary:08x}"
        return f"{step.source}, split at {where}"
    return f"{step.source} → {step.destination or 'wherever Pulsar puts it'}"


def _step(first: Step | None, second: Step | None) -> StepDifference:
    either = first or second
    assert either is not None
    routes = (None if step is None else _route(step) for step in (first, second))
    return StepDifference(either.bundle, either.kind, *routes)


def _pair(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {key: (first.get(key), second.get(key)) for key in sorted(first.keys() | second.keys())}


def _differences(pairs: Mapping[str, tuple[Any, Any]]) -> Iterator[Difference]:
    for name, (first, second) in pairs.items():
        if first != second:
            yield Difference(name, _plain(first), _plain(second))


def _plain(value: Any) -> Any:
    """A value that JSON can hold."""
    return value.isoformat() if hasattr(value, "isoformat") else value


def _figures(plan: Plan, steps: Sequence[Step]) -> dict[str, Any]:
    """The figures by which plans are compared, in reading order."""
    total, counts = add_costs(steps), count_steps(steps)
    figures: dict[str, Any] = {
        "moves": counts.moves,
        "splits": counts.splits,
        "waves": len({step.wave for step in steps}),
        "sessions": total.sessions,
        "client_seconds": total.client_seconds,
        "moved_bytes_per_s": total.moved_bytes_per_s,
        "worst_after": plan.curve[-1].worst if plan.curve else None,
    }
    for resource in RESOURCES:
        after = plan.balance.after.get(resource)
        figures[f"{resource}_max_after"] = after and after.max
        figures[f"{resource}_max_over_mean_after"] = after and after.max_over_mean
    return figures | {
        "least_moves": plan.bounds and plan.bounds.moves,
        "least_sessions": plan.bounds and plan.bounds.sessions,
        "gap_moves": plan.gap and plan.gap.moves,
        "gap_sessions": plan.gap and plan.gap.sessions,
        "misplaced_after": plan.violations and plan.violations.after.misplaced,
        "pools_outside_band": sum(not pool.reaches_band for pool in plan.pools),
    }


def _compare_figures(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[Difference]:
    for name, value in first.items():
        yield Difference(name, value, second[name])


def _compare_waves(first: Sequence[Step], second: Sequence[Step]) -> Iterator[WaveDifference]:
    for wave in sorted({step.wave for step in (*first, *second)}):
        mine, theirs = ([step for step in steps if step.wave == wave] for steps in (first, second))
        first_cost, second_cost = add_costs(mine), add_costs(theirs)
        yield WaveDifference(
            wave, first_cost.steps, second_cost.steps, first_cost.client_seconds, second_cost.client_seconds
        )
