"""Switches of Pulsar's balancer that a writer left off when it died: finding them, and saying so."""

from __future__ import annotations

from datetime import UTC, datetime

from evenkeel.adapters.zookeeper.nodes import ZNodeTree
from evenkeel.adapters.zookeeper.paths import EvenkeelPaths
from evenkeel.model.canonical import short_id
from evenkeel.model.errors import InputError
from evenkeel.model.run import PlanStatus
from evenkeel.model.timestamps import format_time


def find_left_off(tree: ZNodeTree, paths: EvenkeelPaths) -> list[PlanStatus]:
    """The statuses that hold switches although no writer lives; a status that cannot be read holds none."""
    (before,) = tree.get([paths.writer])
    (listed,) = tree.children([paths.plans])
    plan_ids = listed.names if listed else ()
    found = []
    for node in tree.get([paths.plan(plan_id) for plan_id in plan_ids]):
        try:
            status = PlanStatus.decode(node.data, node.path) if node is not None and node.data else None
        except InputError:
            # Written by another version: whoever applies a plan is told.
            continue
        if status is not None and status.switches is not None:
            found.append(status)
    # Read before and after: one that ends or starts meanwhile is no dead writer.
    (after,) = tree.get([paths.writer])
    return found if before is None and after is None else []


def describe_left_off(status: PlanStatus) -> str:
    """Since when Pulsar's balancer is off, and by which plan."""
    since = format_time(datetime.fromtimestamp(status.paused_since_ms / 1000, UTC))
    return (
        f"Pulsar's shedding and splitting have been off since {since}: plan {short_id(status.plan_id)} switched them "
        "off, and its writer is gone"
    )
