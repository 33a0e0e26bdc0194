"""What the plan costs the clients: wave by wave, tenant by tenant, and against the budgets."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

from evenkeel.model.plan import Step
from evenkeel.planning.report.charts import CANVAS, Scale, grid, plot, round_scale, share_bar
from evenkeel.planning.report.markup import (
    card,
    cell,
    code,
    count,
    figure,
    fold,
    is_figure,
    lead,
    number,
    section,
    table,
    text,
    words,
)
from evenkeel.planning.step_costs import Cost, cost_of

SHOWN_TENANTS = 10
_Key = TypeVar("_Key", bound=Hashable)


def render_disruption(steps: Sequence[Step], settings: Mapping[str, Any]) -> str:
    """The waves and the tenants that they touch, with what each of them has to bear."""
    if not steps:
        return ""
    waves = _costs_by(steps, lambda step: step.wave)
    tenants = _costs_by(steps, lambda step: step.bundle.partition("/")[0])
    note = (
        "A wave has to settle as predicted before the next one starts; the first is the canary. A client-second is one "
        "client cut off for one second."
    )
    chart = card(_wave_chart(waves) + _wave_table(waves), "Waves", "client-seconds a wave")
    bearing = card(_tenant_table(tenants), "Tenants", f"{len(tenants):,} in all")
    pair = f'<div class="pair">{bearing}{_budgets(steps, waves, tenants, settings)}</div>'
    return section("waves", "Waves and disruption", note, chart + pair)


def _costs_by(steps: Sequence[Step], key_of: Callable[[Step], _Key]) -> dict[_Key, Cost]:
    members: dict[_Key, list[Step]] = {}
    for step in steps:
        members.setdefault(key_of(step), []).append(step)
    return {key: cost_of(group) for key, group in members.items()}


def _wave_chart(waves: Mapping[int, Cost]) -> str:
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
    description = f"{count(len(order), 'wave')}; the dearest is wave {worst}."
    y_labels = [(scale.percent(mark), figure(mark)) for mark in scale.ticks() if mark == int(mark)]
    return plot(grid(scale) + bars, x_labels, y_labels, "Client-seconds of each wave", description)


def _wave_bar(wave: int, cost: Cost, scale: Scale, left: float, width: float) -> str:
    height = scale.place(cost.client_seconds)
    told = f"wave {wave}: {count(cost.steps, 'step')}, {figure(cost.client_seconds, 1)} client-seconds"
    return (
        f'<rect class="{"canary" if wave == 0 else "after"}" x="{left + 0.1 * width:.1f}" width="{0.8 * width:.1f}" '
        f'y="{CANVAS - height:.1f}" height="{height:.1f}"><title>{told}</title></rect>'
    )


def _wave_table(waves: Mapping[int, Cost]) -> str:
    rows = [
        [lead(f"{wave}{' <span class=soft>canary</span>' if wave == 0 else ''}"), *_cost_cells(waves[wave])]
        for wave in sorted(waves)
    ]
    return fold("Waves as a table", table("Waves", ("Wave", *_COST_HEADS), rows))


_COST_HEADS = ("Steps", "Sessions", "Client-seconds")


def _cost_cells(cost: Cost) -> list[str]:
    return [number(figure(cost.steps)), number(figure(cost.sessions)), number(figure(cost.client_seconds, 1))]


def _tenant_table(tenants: Mapping[str, Cost]) -> str:
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
            number(figure(sum(cost.client_seconds for cost in rest), 1)),
        ]
        rows.append([lead(f'<span class="soft">{count(len(rest), "other")}</span>'), *others, cell("")])
    return table("Tenants by client-seconds", ("Tenant", *_COST_HEADS, "Share"), rows)


def _budgets(
    steps: Sequence[Step], waves: Mapping[int, Cost], tenants: Mapping[str, Cost], settings: Mapping[str, Any]
) -> str:
    """What the plan takes of each budget that is set; a budget of a wave or a tenant shows its dearest one."""
    whole = cost_of(steps)
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
            lead(f"{text(words(key).capitalize())}"),
            number(figure(used)),
            number(figure(settings[key])),
            cell(share_bar(used, settings[key])),
        ]
        for key, used in taken.items()
        if is_figure(settings.get(key))
    ]
    if not rows:
        return ""
    body = table("Budgets", ("Budget", "Taken", "Of", "Share"), rows)
    return card(body, "Budgets", "of a wave or a tenant, the dearest one")
