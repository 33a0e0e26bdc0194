"""A plan of one step that a person asks for: move, unload or split one bundle, named itself or by one of its topics."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from evenkeel.model.bundles import BundleName, BundleRange, is_system_namespace
from evenkeel.model.errors import InputError, RefusedError
from evenkeel.model.load import MILLI
from evenkeel.model.plan import MANUAL, Step, StepKind
from evenkeel.model.service_unit import ServiceUnitState
from evenkeel.model.snapshot import Bundle, Topic
from evenkeel.planning.assembly import PlannedCluster
from evenkeel.planning.by_hand import KnownCluster, draw_up, make_step
from evenkeel.planning.splitting.boundaries import TopicColumns, find_cut
from evenkeel.pulsar.topic_hash import find_range, hash_topic

MOST_NAMED = 8
_RANGE = re.compile(r"0x[0-9a-fA-F]{8}_0x[0-9a-fA-F]{8}")
_TOPIC = re.compile(r"(?:(?P<domain>persistent|non-persistent)://)?(?P<namespace>[^/]+/[^/]+)/(?P<name>.+)")
_BOUNDARY = re.compile(r"0[xX][0-9a-fA-F]{1,8}|[0-9]+")
_PLANNING_RULES = "choose another bundle or broker; `evenkeel plan` finds moves that keep every rule"


@dataclass(frozen=True, slots=True)
class Wish:
    """What a person wants done with one bundle; `target` is a bundle's name or a topic's."""

    kind: StepKind
    target: str
    by: str
    destination: str | None = None
    boundary: str | None = None


def plan_wish(known: KnownCluster, wish: Wish) -> PlannedCluster:
    """The plan of one step that does as wished; refused by a sentence where a rule is against it."""
    bundle = find_bundle(known, wish.target)
    _require_movable(known, bundle)
    step = _step(known, wish, bundle)
    for violation in known.find_violations([step]):
        raise RefusedError(violation.detail, _PLANNING_RULES)
    return draw_up(known, [step], MANUAL)


def find_bundle(known: KnownCluster, target: str) -> Bundle:
    """The bundle of this name, or the one that the topic of this name falls into."""
    if _RANGE.fullmatch(target.rpartition("/")[2]) and "://" not in target:
        name = BundleName.parse(target)
        found = known.bundle(str(name))
        if found is None:
            raise RefusedError(f"there is no bundle {name}", _name_bundles(known, name.namespace))
        return found
    return _find_bundle_of_topic(known, target)


def _find_bundle_of_topic(known: KnownCluster, target: str) -> Bundle:
    match = _TOPIC.fullmatch(target)
    if match is None:
        raise InputError(
            f"{target!r} is neither a bundle nor a topic",
            "write tenant/namespace/0x00000000_0x40000000, or persistent://tenant/namespace/topic",
        )
    topic = f"{match['domain'] or 'persistent'}://{match['namespace']}/{match['name']}"
    _require_one_partition(known, topic)
    bundles = [bundle for bundle in known.bundles if bundle.namespace == match["namespace"]]
    if not bundles:
        raise RefusedError(
            f"there is no namespace {match['namespace']} with bundles in cluster {known.cluster}", "check the name"
        )
    edges = sorted({edge for bundle in bundles for edge in (bundle.range_lower, bundle.range_upper)})
    part = find_range(edges, hash_topic(topic))
    (found,) = [b for b in bundles if BundleRange(b.range_lower, b.range_upper) == part]
    return found


def _require_one_partition(known: KnownCluster, topic: str) -> None:
    """A partitioned topic is as many topics as it has partitions, each in a bundle of its own."""
    partitions = sorted(row.topic for row in known.topics if row.topic.startswith(f"{topic}-partition-"))
    if partitions:
        raise RefusedError(
            f"{topic} has {len(partitions)} partitions, which are in different bundles",
            f"name one of them, such as {partitions[0]}",
        )


def _name_bundles(known: KnownCluster, namespace: str) -> str:
    names = sorted(bundle.bundle for bundle in known.bundles if bundle.namespace == namespace)
    if not names:
        return f"check the name; {known.cluster} has no bundle of {namespace}"
    return f"choose one of {', '.join(names[:MOST_NAMED])}{' …' if len(names) > MOST_NAMED else ''}"


def _require_movable(known: KnownCluster, bundle: Bundle) -> None:
    if is_system_namespace(bundle.namespace):
        raise RefusedError(f"{bundle.namespace} is pinned to its place by Pulsar", "leave its bundles alone")
    if ServiceUnitState(bundle.state).is_in_flight:
        raise RefusedError(f"{bundle.bundle} is in flight ({bundle.state})", "wait until it has settled")
    if bundle.owner is None or bundle.state != ServiceUnitState.OWNED:
        raise RefusedError(
            f"{bundle.bundle} is idle: no broker owns it", "nothing need be done; its first client gets it an owner"
        )
    if bundle.owner not in known.broker_by_id or known.broker_by_id[bundle.owner].incarnation is None:
        raise RefusedError(
            f"the owner of {bundle.bundle}, {bundle.owner}, is not registered",
            "wait until Pulsar's leader has given the bundle another owner",
        )


def _step(known: KnownCluster, wish: Wish, bundle: Bundle) -> Step:
    reason = f"{wish.by} asked for it"
    if wish.kind is StepKind.TRANSFER:
        return make_step(known, wish.kind, bundle, reason, destination=_destination(known, wish, bundle))
    if wish.kind is StepKind.SPLIT:
        boundary, by = _boundary(known, wish, bundle)
        return make_step(known, wish.kind, bundle, f"{reason}; cut by {by}", split_boundary=boundary)
    return make_step(known, wish.kind, bundle, f"{reason}; Pulsar chooses the new owner")


def _destination(known: KnownCluster, wish: Wish, bundle: Bundle) -> str:
    names = sorted(known.broker_by_id)
    if wish.destination not in known.broker_by_id:
        listed = f"{', '.join(names[:MOST_NAMED])}{' …' if len(names) > MOST_NAMED else ''}"
        raise RefusedError(f"there is no broker {wish.destination} in cluster {known.cluster}", f"choose of {listed}")
    if wish.destination == bundle.owner:
        raise RefusedError(f"{bundle.bundle} is with {bundle.owner} already", "nothing need be done")
    return str(wish.destination)


def _boundary(known: KnownCluster, wish: Wish, bundle: Bundle) -> tuple[int, str]:
    """Where to cut, and by what that was chosen."""
    part = BundleRange(bundle.range_lower, bundle.range_upper)
    if wish.boundary is None:
        cut = find_cut(part, _columns([topic for topic in known.topics if topic.bundle == bundle.bundle]))
        if cut is None:
            raise RefusedError(f"{bundle.bundle} is too narrow to be split", "choose another bundle")
        return cut.boundary, cut.boundary_by
    if not _BOUNDARY.fullmatch(wish.boundary):
        raise InputError(f"{wish.boundary!r} is not a boundary", "write a hash such as 0x20000000")
    boundary = int(wish.boundary, 0 if wish.boundary[:2].lower() == "0x" else 10)
    if not part.lower < boundary < part.upper:
        raise RefusedError(
            f"the boundary {boundary:#010x} is not inside {bundle.bundle}",
            f"choose one above {part.lower:#010x} and below {part.upper:#010x}",
        )
    return boundary, "the boundary given"


def _columns(topics: list[Topic]) -> TopicColumns:
    def whole(values: list[float]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array([round(value) for value in values], dtype=np.int64)

    return TopicColumns(
        hash=np.array([topic.hash for topic in topics], dtype=np.int64),
        msg_rate_millis=whole([(t.msg_rate_in_per_s + t.msg_rate_out_per_s) * MILLI for t in topics]),
        throughput_in=whole([t.throughput_in_bytes_per_s for t in topics]),
        throughput_out=whole([t.throughput_out_bytes_per_s for t in topics]),
        sessions=np.array([t.producers + t.consumers for t in topics], dtype=np.int64),
    )
