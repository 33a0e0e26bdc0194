"""The steps of the plan, wave by wave, each with its reason; splits with the children that they make."""

from __future__ import annotations

from collections.abc import Sequence

from evenkeel.model.bundles import BundleName
from evenkeel.model.errors import InputError
from evenkeel.model.load import MILLI
from evenkeel.model.plan import Step, StepKind
from evenkeel.planning.report.markup import (
    card,
    cell,
    code,
    count,
    figure,
    fold,
    lead,
    megabytes,
    number,
    section,
    sentence,
    shown,
    table,
)

SHOWN_STEPS = 1_000
_HEADS = ("Bundle and reason", "Step", "From, to", "In, MB/s", "Out, MB/s", "Cpu, %", "Sessions", "Client-s")


def render_steps(steps: Sequence[Step]) -> str:
    """Every step with its reason, folded by wave; the canary lies open."""
    if not steps:
        return section("steps", "Steps", "The plan has no steps.", "")
    waves: dict[int, list[Step]] = {}
    for step in steps[:SHOWN_STEPS]:
        waves.setdefault(step.wave, []).append(step)
    # A plan of few steps is read at once; a long one is opened wave by wave.
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
        end = "wherever Pulsar puts it"
    return [
        lead(f'{code(step.bundle)}<span class="why">{sentence(step.reason)}</span>'),
        number(figure(step.order)),
        cell(f'<span class="route">{code(step.source)} →<br>{end}</span>'),
        number(megabytes(step.throughput_in_bytes_per_s)),
        number(megabytes(step.throughput_out_bytes_per_s)),
        number(figure(step.cpu_millipercent / MILLI, 1)),
        number(figure(step.sessions)),
        number(figure(step.disruption_client_ms / MILLI, 1)),
    ]


def render_splits(steps: Sequence[Step]) -> str:
    """The bundles that are cut in two, where, and which of their children move on."""
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
            cell("<br>".join(_child(child, moved.get(child)) for child in _children(step))),
        ]
        for step in splits
    ]
    body = card(table("Splits", ("Bundle and reason", "Step", "Wave", "Cut at", "Children"), rows))
    return section("splits", "Splits", f"{count(len(splits), 'bundle')} cut in two.", body)


NO_BOUNDARY = "Pulsar's own choice"


def _children(step: Step) -> list[str]:
    """The names of the two halves; none where the name or the boundary does not give them."""
    if step.split_boundary is None:
        return []
    try:
        name = BundleName.parse(step.bundle)
        halves = name.range.split_at(step.split_boundary)
    except InputError:
        return []
    return [str(BundleName(name.tenant, name.local_namespace, half)) for half in halves]


def _child(child: str, move: Step | None) -> str:
    goes = f" → {code(move.destination)}" if move is not None and move.destination else " stays"
    return f"{code(child.rpartition('/')[2])}{goes}"
