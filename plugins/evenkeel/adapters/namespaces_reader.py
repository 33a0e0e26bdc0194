"""Every namespace of a cluster: where its bundles begin and end, and who claims them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from evenkeel.adapters.cluster_source import ClusterSource
from evenkeel.adapters.json_documents import JsonObject, refuse
from evenkeel.adapters.load_reports import Change
from evenkeel.adapters.ownership import Claim, OwnershipSource, list_namespaces
from evenkeel.adapters.zookeeper_reading import ZNode
from evenkeel.model.bundles import BundleRange, find_ring_fault, ranges_between
from evenkeel.model.errors import InputError

LOCAL_POLICIES_PATH = "/admin/local-policies"
_BOUNDARY = re.compile(r"0x[0-9a-fA-F]{1,8}")


@dataclass(frozen=True, slots=True)
class Boundaries:
    """A namespace's node under /admin/local-policies: the authority for its ranges, and its anti-affinity group."""

    path: str
    znode_version: int
    mzxid: int
    ranges: tuple[BundleRange, ...]
    anti_affinity_group: str | None


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace as ZooKeeper shows it; without boundaries it was deleted, or was never used."""

    name: str
    boundaries: Boundaries | None
    claims: Mapping[BundleRange, Claim]
    change: Change
    ignored: tuple[str, ...]


def read_namespaces(
    source: ClusterSource, ownership: OwnershipSource, only: Sequence[str] | None = None
) -> dict[str, Namespace]:
    """All namespaces, or some; boundaries are read before claims."""
    base = source.path(LOCAL_POLICIES_PATH)
    names = list(only) if only is not None else list_namespaces(source.tree, base)
    nodes = dict(zip(names, source.tree.get([f"{base}/{name}" for name in names]), strict=True))
    if only is None:
        names += [name for name in ownership.namespaces() if name not in nodes]
    found = {}
    for name, claims in zip(names, ownership.claims(names), strict=True):
        node = nodes.get(name)
        boundaries = None if node is None else parse_boundaries(name, node)
        found[name] = Namespace(name, boundaries, claims.claims, claims.change, claims.ignored)
    return found


def parse_boundaries(namespace: str, node: ZNode) -> Boundaries:
    """The ranges of a namespace, proved to tile the ring."""
    document = JsonObject.decode(node.data, node.path)
    points = []
    for text in document.object("bundles").items_of("boundaries"):
        if not isinstance(text, str) or not _BOUNDARY.fullmatch(text):
            refuse(f"{node.path}: {text!r} is not a boundary")
        points.append(int(text, 16))
    # Each range begins where the last one ends, so only the order and the two ends can be wrong.
    for lower, upper in pairwise(points):
        if lower >= upper:
            _refuse_ring(namespace, node.path, f"an overlap at 0x{lower:08x}_0x{upper:08x}")
    ranges = tuple(ranges_between(points))
    fault = find_ring_fault(ranges)
    if fault is not None:
        _refuse_ring(namespace, node.path, fault)
    group = document.optional_text("namespaceAntiAffinityGroup")
    return Boundaries(node.path, node.version, node.mzxid, ranges, group)


def _refuse_ring(namespace: str, path: str, fault: str) -> None:
    raise InputError(f"the bundles of namespace {namespace} have {fault} ({path})", "repair the namespace's boundaries")
