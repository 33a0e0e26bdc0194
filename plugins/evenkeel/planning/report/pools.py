"""The pools of the cluster: what binds each of them, and what would help most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evenkeel.planning.report.markup import (
    badge,
    card,
    cell,
    code,
    count,
    figure,
    fold,
    lead,
    percent,
    section,
    sentence,
    table,
    text,
    words,
)

# More pools than this are folded away if there is nothing to say about them.
MOST_OPEN_POOLS = 12
_HEADS = ("Pool and advice", "Size", "Moves", "What binds", "Band")


def render_pools(pools: Sequence[Mapping[str, Any]]) -> str:
    """Every pool with the resource that binds it; those outside their band first."""
    if not pools:
        return ""
    ranked = sorted(pools, key=lambda pool: (bool(pool.get("reaches_band", True)), str(pool.get("pool", ""))))
    open_pools = [pool for pool in ranked if not pool.get("reaches_band", True)]
    quiet = [pool for pool in ranked if pool.get("reaches_band", True)]
    if len(ranked) <= MOST_OPEN_POOLS:
        open_pools, quiet = ranked, []
    body = card(_table("Pools", open_pools)) if open_pools else ""
    if quiet:
        body += fold(f"{count(len(quiet), 'pool')} inside the band", _table("Pools inside the band", quiet))
    note = (
        "Namespaces and brokers that share no broker are planned apart from each other. The resource that binds is the "
        "one whose lowest reachable peak is highest."
    )
    return section("pools", "Pools and what would help", note, body)


def _table(caption: str, pools: Sequence[Mapping[str, Any]]) -> str:
    return table(caption, _HEADS, map(_row, pools))


def _row(pool: Mapping[str, Any]) -> list[str]:
    advice = "".join(f'<span class="why">{sentence(said)}</span>' for said in pool.get("advice") or ())
    reaches = pool.get("reaches_band", True)
    limited = pool.get("limited_by")
    state = badge("good", "inside") if reaches else badge("warn", f"outside: {words(str(limited))}")
    return [
        lead(f"{code(pool['pool']) if pool.get('pool') else 'namespaces without a broker'}{advice}"),
        _tight(f"{figure(pool.get('brokers'))} brokers<br>{figure(pool.get('bundles'))} bundles"),
        _tight(f"{figure(pool.get('moves'))}<br>{_soft('at least ' + figure(pool.get('bound_moves')))}"),
        _tight(_binding(pool)),
        cell(state),
    ]


def _binding(pool: Mapping[str, Any]) -> str:
    resource = pool.get("binding_resource")
    if not resource:
        return "–"
    lowest, before, after = (
        percent(_of(pool.get(key), resource)) for key in ("lowest_peak", "peak_before", "peak_after")
    )
    return f"{text(words(str(resource)))} {before} → {after}<br>{_soft(f'lowest possible {lowest}')}"


def _tight(html: str) -> str:
    return cell(f'<span class="tight">{html}</span>')


def _soft(html: str) -> str:
    return f'<span class="soft">{html}</span>'


def _of(figures: Any, resource: Any) -> Any:
    return figures.get(resource) if isinstance(figures, Mapping) else None
