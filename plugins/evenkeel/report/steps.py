"""The steps of the plan: what they cost the clients by wave and tenant, the splits, and each step with its reason."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

from evenkeel.model.bundles import BundleName, tenant_of
from evenkeel.model.errors import InputError
from evenkeel.model.figures import StepCosts
from evenkeel.model.load import MILLI
from evenkeel.model.plan import Step, StepKind
from evenkeel.model.plan_summary import count
from evenkeel.planning.cluster.figures import add_costs
from evenkeel.report.markup import (
    CANVAS,
    Scale,
    card,
    cell,
    code,
    figure,
    fold,
    grid,
    lead,
    megabytes,
    number,
    plot,
    round_scale,
    section,
    sentence,
    share_bar,
    shown,
    table,
    text,
    words,
)

SHOWN_TENANTS = 10
SHOWN_STEPS = 1_000
_Key = TypeVar("_Key", bound=Hashable)
_HEADS = ("Bundle and reason", "Step", "From, to", "In, MB/s", "Out, MB/s", "CPU, %", "Sessions", "Client-s")


def render_disruption(steps: Sequence[Step], settings: Mapping[str, Any]) -> str:
    """What each wave and each tenant has to bear, and what is taken of the budgets."""
    if not steps:
        return ""
    waves = _costs_by(steps, lambda step: step.wave)
    tenants = _costs_by(steps, lambda step: tenant_of(step.bundle))
    note = (
        "Each wave must settle as predicted before the next one starts; the first is the canary. A client-second is "
        "one client disconnected for one second."
    )
    chart = card(_wave_chart(waves) + _wave_table(waves), "Waves", "client-seconds per wave")
    by_tenant = card(_tenant_table(tenants), "Tenants", f"{len(tenants):,} in all")
    pair = f'<div class="pair">{by_tenant}{_budgets(steps, waves, tenants, settings)}</div>'
    return section("waves", "Waves and disruption", note, chart + pair)


def _costs_by(steps: Sequence[Step], key_of: Callable[[Step], _Key]) -> dict[_Key, StepCosts]:
    members: dict[_Key, list[Step]] = {}
    for step in steps:
        members.setdefault(key_of(step), []).append(step)
    return {key: add_costs(group) for key, group in members.items()}


def _wave_chart(waves: Mapping[int, StepCosts]) -> str:
    order = sorted(waves)
    scale = round_scale(max(cost.client_seconds for cost in waves.values()))
    width = CANVAS / len(order)
    bars = "".join(_wave_bar(wave, waves[wave], scale, place * width, width) for place, wave in enumerate(order))
    every = -(-len(order) // 12)
    x_labels = [
        (f"{(place + 0.5) / len(order):.2%}", "canary" if wave == 0 else str(wave))
        for place, wave in enumerate(order)
        if place % every == 0
    ]
    worst = max(order, key=lambda wave: (waves[wave].client_seconds, -wave))
    description = f"{count(len(order), 'wave')}; wave {worst} costs most."
    y_labels = [(scale.percent(mark), figure(mark)) for mark in scale.ticks() if mark == int(mark)]
    return plot(grid(scale) + bars, x_labels, y_labels, "Client-seconds of each wave", description)


def _wave_bar(wave: int, cost: StepCosts, scale: Scale, left: float, width: float) -> str:
    height = scale.place(cost.client_seconds)
    title = f"wave {wave}: {count(cost.steps, 'step')}, {figure(cost.client_seconds)} client-seconds"
    return (
        f'<rect class="{"canary" if wave == 0 else "after"}" x="{left + 0.1 * width:.1f}" width="{0.8 * width:.1f}" '
        f'y="{CANVAS - height:.1f}" height="{height:.1f}"><title>{title}</title></rect>'
    )


def _wave_table(waves: Mapping[int, StepCosts]) -> str:
    rows = [
        [lead(f"{wave}{' <span class=soft>canary</span>' if wave == 0 else ''}"), *_cost_cells(waves[wave])]
        for wave in sorted(waves)
    ]
    return fold("Show as a table", table("Waves", ("Wave", *_COST_HEADS), rows))


_COST_HEADS = ("Steps", "Sessions", "Client-seconds")


def _cost_cells(cost: StepCosts) -> list[str]:
    return [number(figure(cost.steps)), number(figure(cost.sessions)), number(figure(cost.client_seconds))]


def _tenant_table(tenants: Mapping[str, StepCosts]) -> str:
    ranked = sorted(tenants, key=lambda name: (-tenants[name].client_seconds, name))
    most = tenants[ranked[0]].client_seconds
    rows = [
        [lead(code(name)), *_cost_cells(tenants[name]), cell(share_bar(tenants[name].client_seconds, most))]
        for name in ranked[:SHOWN_TENANTS]
    ]
    rest = [tenants[name] for name in ranked[SHOWN_TENANTS:]]
    if rest:
        others = [
            number(figure(sum(cost.steps for cost in rest))),
            number(figure(sum(cost.sessions for cost in rest))),
            number(figure(sum(cost.client_seconds for cost in rest))),
        ]
        rows.append([lead(f'<span class="soft">{count(len(rest), "other")}</span>'), *others, cell("")])
    return table("Tenants by client-seconds", ("Tenant", *_COST_HEADS, "Share"), rows)


def _budgets(
    steps: Sequence[Step], waves: Mapping[int, StepCosts], tenants: Mapping[str, StepCosts], settings: Mapping[str, Any]
) -> str:
    """How much of each configured budget is used; for budgets per wave or tenant, by the one that uses most."""
    whole = add_costs(steps)
    taken = {
        "max_steps": whole.steps,
        "max_moved_bytes_per_s": whole.moved_bytes_per_s,
        "max_moved_sessions": whole.sessions,
        "max_client_seconds": whole.client_seconds,
        "tenant_max_steps": max(cost.steps for cost in tenants.values()),
        "tenant_max_moved_bytes_per_s": max(cost.moved_bytes_per_s for cost in tenants.values()),
        "tenant_max_sessions": max(cost.sessions for cost in tenants.values()),
        "tenant_max_client_seconds": max(cost.client_seconds for cost in tenants.values()),
        "wave_steps": max(cost.steps for cost in waves.values()),
        "wave_max_moved_bytes_per_s": max(cost.moved_bytes_per_s for cost in waves.values()),
        "wave_max_sessions": max(cost.sessions for cost in waves.values()),
        "wave_max_client_seconds": max(cost.client_seconds for cost in waves.values()),
    }
    rows = [
        [
            lead(text(words(key).capitalize())),
            number(figure(used)),
            number(figure(settings[key])),
            cell(share_bar(used, settings[key])),
        ]
        for key, used in taken.items()
        if isinstance(settings.get(key), int | float)
    ]
    if not rows:
        return ""
    body = table("Budgets", ("Budget", "Used", "Of", "Share"), rows)
    return card(body, "Budgets", "per wave or tenant: the one that uses most")


def render_steps(steps: Sequence[Step]) -> str:
    """Every step with its reason, folded by wave; only the canary is open."""
    if not steps:
        return section("steps", "Steps", "The plan has no steps.", "")
    waves: dict[int, list[Step]] = {}
    for step in steps[:SHOWN_STEPS]:
        waves.setdefault(step.wave, []).append(step)
    # A short plan is shown at once; a long one is opened wave by wave.
    is_short = len(steps) <= 20
    folds = [_wave(wave, members, is_short or wave == 0) for wave, members in sorted(waves.items())]
    note = shown(len(steps), SHOWN_STEPS, "steps.parquet")
    return section("steps", "Steps", note, f'<div class="card">{"".join(folds)}</div>')


def _wave(wave: int, steps: Sequence[Step], is_open: bool) -> str:
    sessions = sum(step.sessions for step in steps)
    name = f"Wave {wave}{', the canary' if wave == 0 else ''}"
    summary = f'{name} <span class="soft">{count(len(steps), "step")}, {count(sessions, "session")}</span>'
    return fold(summary, table(name, _HEADS, map(_row, steps)), is_open)


def _row(step: Step) -> list[str]:
    if step.destination is not None:
        end = code(step.destination)
    elif step.kind == StepKind.SPLIT:
        end = "split in two"
    else:
        end = "Pulsar's choice"
    return [
        lead(f'{code(step.bundle)}<span class="why">{sentence(step.reason)}</span>'),
        number(figure(step.order)),
        cell(f'<span class="route">{code(step.source)} →<br>{end}</span>'),
        number(megabytes(step.throughput_in_bytes_per_s)),
        number(megabytes(step.throughput_out_bytes_per_s)),
        number(figure(step.cpu_millipercent / MILLI, 1)),
        number(figure(step.sessions)),
        number(figure(step.disruption_client_ms / MILLI)),
    ]


def render_splits(steps: Sequence[Step]) -> str:
    """The bundles to split, where they are cut, and which of the halves move on."""
    splits = [step for step in steps if step.kind == StepKind.SPLIT]
    if not splits:
        return ""
    moved = {step.bundle: step for step in steps if step.kind != StepKind.SPLIT}
    rows = [
        [
            lead(f'{code(step.bundle)}<span class="why">{sentence(step.reason)}</span>'),
            number(figure(step.order)),
            number(figure(step.wave)),
            cell(code(NO_BOUNDARY if step.split_boundary is None else f"0x{step.split_boundary:08x}")),
            cell("<br>".join(_half(half, moved.get(half)) for half in _halves(step))),
        ]
        for step in splits
    ]
    body = card(table("Splits", ("Bundle and reason", "Step", "Wave", "Boundary", "Halves"), rows))
    return section("splits", "Splits", f"{count(len(splits), 'bundle')} to split in two.", body)


NO_BOUNDARY = "Pulsar's choice"


def _halves(step: Step) -> list[str]:
    """The names of the two halves; none if the name or the boundary is unusable."""
    if step.split_boundary is None:
        return []
    try:
        name = BundleName.parse(step.bundle)
        ranges = name.range.split_at(step.split_boundary)
    except InputError:
        return []
    return [str(BundleName(name.tenant, name.local_namespace, part)) for part in ranges]


def _half(name: str, move: Step | None) -> str:
    goes = f" → {code(move.destination)}" if move is not None and move.destination else " stays"
    return f"{code(name.rpartition('/')[2])}{goes}"
