"""A one-step plan that a person asks for: move, unload or split a bundle, named directly or by one of its topics."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from evenkeel.model.bundles import BundleName, BundleRange, is_system_namespace
from evenkeel.model.errors import InputError, RefusedError
from evenkeel.model.load import MILLI
from evenkeel.model.names import is_path_segment, require_broker_id
from evenkeel.model.outside_json import show
from evenkeel.model.plan import MANUAL, Step, StepKind
from evenkeel.model.service_unit import ServiceUnitState
from evenkeel.model.snapshot import Bundle, Topic
from evenkeel.planning.cluster.assembly import PlannedCluster
from evenkeel.planning.manual.build_plan import LoadedSnapshot, build_plan, make_step
from evenkeel.planning.splitting.cuts import TopicColumns, find_cut
from evenkeel.pulsar_rules.ring import find_range, hash_topic

MOST_NAMED = 8
LONGEST_TARGET = 1_000
_HOW_TO_NAME = "write tenant/namespace/0x00000000_0x40000000, or persistent://tenant/namespace/topic"
_RANGE = re.compile(r"0x[0-9a-fA-F]{8}_0x[0-9a-fA-F]{8}")
_TOPIC = re.compile(r"(?:(?P<domain>persistent|non-persistent)://)?(?P<namespace>[^/]+/[^/]+)/(?P<name>.+)")
_BOUNDARY = re.compile(r"0[xX][0-9a-fA-F]{1,8}|[0-9]+")
_PLANNING_RULES = "choose another bundle or broker; `evenkeel plan` finds moves that keep every rule"


@dataclass(frozen=True, slots=True)
class ManualRequest:
    """What a person wants to do with one bundle; `target` is the name of a bundle or of a topic."""

    kind: StepKind
    target: str
    by: str
    destination: str | None = None
    boundary: str | None = None

    def require_names(self) -> None:
        """Refuse what cannot be the name of a bundle, a topic or a broker in any cluster."""
        match = _TOPIC.fullmatch(self.target) if len(self.target) <= LONGEST_TARGET else None
        if (
            match is None
            or not self.target.isprintable()
            or not all(map(is_path_segment, match["namespace"].split("/")))
        ):
            raise InputError(f"{show(self.target)} is neither a bundle nor a topic", _HOW_TO_NAME)
        if self.destination is not None:
            require_broker_id(self.destination)


def build_manual_plan(known: LoadedSnapshot, request: ManualRequest) -> PlannedCluster:
    """Build the plan of one step that does what was asked; refused where it would break a rule."""
    bundle = find_bundle(known, request.target)
    _require_movable(known, bundle)
    step = _step(known, request, bundle)
    for violation in known.find_violations([step]):
        raise RefusedError(violation.detail, _PLANNING_RULES)
    return build_plan(known, [step], MANUAL)


def find_bundle(known: LoadedSnapshot, target: str) -> Bundle:
    """Find a bundle by its name, or by the name of a topic in it."""
    if _RANGE.fullmatch(target.rpartition("/")[2]) and "://" not in target:
        name = BundleName.parse(target)
        found = known.bundle(str(name))
        if found is None:
            raise RefusedError(f"there is no bundle {name}", _name_bundles(known, name.namespace))
        return found
    return _find_bundle_of_topic(known, target)


def _find_bundle_of_topic(known: LoadedSnapshot, target: str) -> Bundle:
    match = _TOPIC.fullmatch(target)
    if match is None:
        raise InputError(
            f"{show(target)} is neither a bundle nor a topic",
            _HOW_TO_NAME,
        )
    topic = f"{match['domain'] or 'persistent'}://{match['namespace']}/{match['name']}"
    _require_one_partition(known, topic)
    bundles = [bundle for bundle in known.bundles if bundle.namespace == match["namespace"]]
    if not bundles:
        raise RefusedError(
            f"cluster {known.cluster} has no bundles of namespace {match['namespace']}", "check the name of the topic"
        )
    edges = sorted({edge for bundle in bundles for edge in (bundle.range_lower, bundle.range_upper)})
    part = find_range(edges, hash_topic(topic))
    (found,) = [b for b in bundles if BundleRange(b.range_lower, b.range_upper) == part]
    return found


def _require_one_partition(known: LoadedSnapshot, topic: str) -> None:
    """Refuse a partitioned topic: each of its partitions is a topic of its own, and may be in another bundle."""
    partitions = sorted(row.topic for row in known.topics if row.topic.startswith(f"{topic}-partition-"))
    if partitions:
        raise RefusedError(
            f"{topic} has {len(partitions)} partitions, each in a bundle of its own",
            f"name one partition, such as {partitions[0]}",
        )


def _name_bundles(known: LoadedSnapshot, namespace: str) -> str:
    names = sorted(bundle.bundle for bundle in known.bundles if bundle.namespace == namespace)
    if not names:
        return f"check the name; cluster {known.cluster} has no bundles of {namespace}"
    return f"choose one of {', '.join(names[:MOST_NAMED])}{' …' if len(names) > MOST_NAMED else ''}"


def _require_movable(known: LoadedSnapshot, bundle: Bundle) -> None:
    if is_system_namespace(bundle.namespace):
        raise RefusedError(
            f"Pulsar pins the bundles of {bundle.namespace} to their brokers", "choose a bundle of another namespace"
        )
    if ServiceUnitState(bundle.state).is_in_flight:
        raise RefusedError(f"{bundle.bundle} is in flight ({bundle.state})", "try again once it has an owner")
    if bundle.owner is None or bundle.state != ServiceUnitState.OWNED:
        raise RefusedError(
            f"{bundle.bundle} is idle: no broker owns it",
            "nothing to do; Pulsar assigns an owner when the first client connects",
        )
    if bundle.owner not in known.broker_by_id or known.broker_by_id[bundle.owner].incarnation is None:
        raise RefusedError(
            f"{bundle.owner}, the owner of {bundle.bundle}, is not registered",
            "wait until Pulsar's leader assigns another owner",
        )


def _step(known: LoadedSnapshot, request: ManualRequest, bundle: Bundle) -> Step:
    reason = f"{request.by} asked for it"
    if request.kind is StepKind.TRANSFER:
        return make_step(known, request.kind, bundle, reason, destination=_destination(known, request, bundle))
    if request.kind is StepKind.SPLIT:
        boundary, by = _boundary(known, request, bundle)
        return make_step(known, request.kind, bundle, f"{reason}; cut by {by}", split_boundary=boundary)
    return make_step(known, request.kind, bundle, f"{reason}; Pulsar chooses the new owner")


def _destination(known: LoadedSnapshot, request: ManualRequest, bundle: Bundle) -> str:
    names = sorted(known.broker_by_id)
    if request.destination not in known.broker_by_id:
        listed = f"{', '.join(names[:MOST_NAMED])}{' …' if len(names) > MOST_NAMED else ''}"
        raise RefusedError(f"cluster {known.cluster} has no broker {request.destination}", f"choose one of {listed}")
    if request.destination == bundle.owner:
        raise RefusedError(f"{bundle.owner} already owns {bundle.bundle}", "nothing to do")
    return str(request.destination)


def _boundary(known: LoadedSnapshot, request: ManualRequest, bundle: Bundle) -> tuple[int, str]:
    """Where to cut, and how that was chosen."""
    part = BundleRange(bundle.range_lower, bundle.range_upper)
    if request.boundary is None:
        cut = find_cut(part, _columns([topic for topic in known.topics if topic.bundle == bundle.bundle]))
        if cut is None:
            raise RefusedError(f"{bundle.bundle} is too narrow to be split", "choose another bundle")
        return cut.boundary, cut.boundary_by
    if not _BOUNDARY.fullmatch(request.boundary):
        raise InputError(f"{request.boundary!r} is not a boundary", "write a hash such as 0x20000000")
    boundary = int(request.boundary, 0 if request.boundary[:2].lower() == "0x" else 10)
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
