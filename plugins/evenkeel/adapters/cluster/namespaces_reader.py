"""Every namespace of a cluster: its bundle boundaries, and who claims its bundles."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from evenkeel.adapters.cluster.json_documents import JsonObject, refuse
from evenkeel.adapters.cluster.load_reports import Change
from evenkeel.adapters.cluster.ownership import Claim, OwnershipSource, is_heartbeat, list_namespaces
from evenkeel.adapters.cluster.source import ClusterSource
from evenkeel.adapters.zookeeper.nodes import ZNode
from evenkeel.model.bundles import BundleRange, find_ring_fault, ranges_between
from evenkeel.model.errors import InputError

_BOUNDARY = re.compile(r"0x[0-9a-fA-F]{1,8}")


@dataclass(frozen=True, slots=True)
class Boundaries:
    """A namespace's node under /admin/local-policies: the authority for its ranges, and its anti-affinity group."""

    path: str
    znode_version: int
    czxid: int
    mzxid: int
    ranges: tuple[BundleRange, ...]
    anti_affinity_group: str | None


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace as ZooKeeper shows it; without boundaries it was deleted, or was never used.

    Where V1 namespaces (tenant/cluster/namespace) exist, their tenant and cluster look like one: `v1` are their names.
    """

    name: str
    boundaries: Boundaries | None
    claims: Mapping[BundleRange, Claim]
    change: Change
    ignored: tuple[str, ...]
    v1: tuple[str, ...] = ()


def read_namespaces(
    source: ClusterSource, ownership: OwnershipSource, only: Sequence[str] | None = None
) -> dict[str, Namespace]:
    """All namespaces, or some; boundaries are read before claims."""
    paths = source.pulsar
    names = list(only) if only is not None else list_namespaces(source.tree, paths.all_local_policies)
    nodes = dict(zip(names, source.tree.get([paths.local_policies(name) for name in names]), strict=True))
    if only is None:
        names += [name for name in ownership.namespaces() if name not in nodes]
    v1 = _find_v1_namespaces(source, [name for name, node in nodes.items() if node is not None and not node.data])
    found = {}
    for name, claims in zip(names, ownership.claims(names), strict=True):
        node, below = nodes.get(name), v1.get(name)
        boundaries = None if node is None or below is not None else parse_boundaries(name, node)
        # Below a V1 tenant and cluster there are namespaces, not bundles; heartbeats have such names too.
        ignored = () if below is not None else tuple(path for path in claims.ignored if not is_heartbeat(path))
        found[name] = Namespace(name, boundaries, claims.claims, claims.change, ignored, below or ())
    return found


def _find_v1_namespaces(source: ClusterSource, parents: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The V1 namespaces below each empty node of the local policies; V2 namespaces keep their boundaries there."""
    listed = source.tree.children([source.pulsar.local_policies(parent) for parent in parents])
    return {
        parent: tuple(f"{parent}/{name}" for name in (children.names if children else ()))
        for parent, children in zip(parents, listed, strict=True)
    }


def parse_boundaries(namespace: str, node: ZNode) -> Boundaries:
    """The ranges of a namespace, proved to tile the ring."""
    document = JsonObject.decode(node.data, node.path)
    points = []
    for text in document.object("bundles").items_of("boundaries"):
        if not isinstance(text, str) or not _BOUNDARY.fullmatch(text):
            refuse(f"{node.path}: {text!r} is not a boundary")
        points.append(int(text, 16))
    # Each range starts where the last one ends, so only the order and the two ends can be wrong.
    for lower, upper in pairwise(points):
        if lower >= upper:
            _refuse_ring(namespace, node.path, f"an overlap at 0x{lower:08x}_0x{upper:08x}")
    ranges = tuple(ranges_between(points))
    fault = find_ring_fault(ranges)
    if fault is not None:
        _refuse_ring(namespace, node.path, fault)
    group = document.optional_text("namespaceAntiAffinityGroup")
    return Boundaries(node.path, node.version, node.czxid, node.mzxid, ranges, group)


def _refuse_ring(namespace: str, path: str, fault: str) -> None:
    raise InputError(f"the bundles of namespace {namespace} have {fault} ({path})", "repair the namespace's boundaries")
