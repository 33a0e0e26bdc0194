"""Compares two plans of a cluster: where they come from, what they do differently, and what each is worth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from evenkeel.model.errors import RefusedError
from evenkeel.model.load import RESOURCES
from evenkeel.model.plan import Plan, Step, StepKind
from evenkeel.planning.step_costs import cost_of

_ORIGINS = (
    "snapshot_id",
    "profile_id",
    "candidates_id",
    "strategy",
    "strategy_version",
    "load_manager",
    "policy_versions",
    "expires_at",
    "window",
    "truncated",
    "library_version",
)


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that both plans have a value for; the values differ unless it is a figure."""

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
    """A wave by its number in both plans; a plan with fewer waves has nothing in the later ones."""

    wave: int
    first_steps: int
    second_steps: int
    first_client_seconds: float
    second_client_seconds: float


@dataclass(frozen=True, slots=True)
class PlanDifference:
    """All that differs between two plans of a cluster.

    `same_steps` counts what both do with the same bundle in the same way, `rescheduled` those of them that are in
    another wave. `elsewhere` are bundles that both touch, but in different ways.
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
        """Whether both plans do the same, if not in the same waves."""
        return not (self.only_first or self.only_second or self.elsewhere)

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"has_same_steps": self.has_same_steps}


def compare_plans(
    first: Plan, first_steps: Sequence[Step], second: Plan, second_steps: Sequence[Step]
) -> PlanDifference:
    """Compare two plans; those of different clusters have nothing in common and are refused."""
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
    """What a step does, as one would write it down."""
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
    """The figures by which plans are compared, in the order in which one reads them."""
    total = cost_of(steps)
    after = plan.balance.get("after", {})
    figures: dict[str, Any] = {
        "moves": total.moves,
        "splits": total.steps - total.moves,
        "waves": len({step.wave for step in steps}),
        "sessions": total.sessions,
        "client_seconds": total.client_seconds,
        "moved_bytes_per_s": total.moved_bytes_per_s,
        "worst_after": plan.curve[-1].get("worst") if plan.curve else None,
    }
    for resource in map(str, RESOURCES):
        for measure in ("max", "max_over_mean"):
            figures[f"{resource}_{measure}_after"] = after.get(resource, {}).get(measure)
    return figures | {
        "least_moves": plan.bounds.get("moves"),
        "least_sessions": plan.bounds.get("sessions"),
        "gap_moves": plan.gap.get("moves"),
        "gap_sessions": plan.gap.get("sessions"),
        "misplaced_after": plan.violations.get("after", {}).get("misplaced"),
        "pools_outside_band": sum(not pool.get("reaches_band", True) for pool in plan.pools),
    }


def _compare_figures(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[Difference]:
    for name, value in first.items():
        yield Difference(name, value, second[name])


def _compare_waves(first: Sequence[Step], second: Sequence[Step]) -> Iterator[WaveDifference]:
    for wave in sorted({step.wave for step in (*first, *second)}):
        mine, theirs = ([step for step in steps if step.wave == wave] for steps in (first, second))
        first_cost, second_cost = cost_of(mine), cost_of(theirs)
        yield WaveDifference(
            wave, first_cost.steps, second_cost.steps, first_cost.client_seconds, second_cost.client_seconds
        )
