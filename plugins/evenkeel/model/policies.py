"""A cluster's policies as Pulsar stores them: isolation, failure domains, anti-affinity groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from evenkeel.model.errors import InputError
from evenkeel.model.outside_json import MALFORMED, parse_json, show
from evenkeel.model.snapshot import PolicyDocument

_REMEDY = "correct the policy in Pulsar, or in the file that was imported"
EXCLUDED_NAMESPACES_KEY = "loadBalancerSheddingExcludedNamespaces"


@dataclass(frozen=True, slots=True)
class PolicyVersion:
    """What tells one state of a policy's node from every other: a node that is made again starts at version 0 again."""

    czxid: int
    version: int


def policy_versions(documents: Iterable[PolicyDocument]) -> dict[str, PolicyVersion | None]:
    """The versions of the nodes that hold policies, by path; None where a node was absent.

    Anti-affinity groups are left out: their nodes also hold the boundaries, which change with every split.
    """
    return {
        d.path: None
        if d.znode_version is None or d.znode_czxid is None
        else PolicyVersion(d.znode_czxid, d.znode_version)
        for d in documents
        if d.path is not None and d.kind != "anti_affinity"
    }


@dataclass(frozen=True, slots=True)
class IsolationPolicy:
    """Which brokers the namespaces of a policy may use; all names are Java regular expressions that match in full."""

    name: str
    namespaces: tuple[str, ...]
    primary: tuple[str, ...]
    secondary: tuple[str, ...]
    min_limit: int

    @classmethod
    def from_json(cls, name: str, fields: Mapping[str, Any]) -> IsolationPolicy:
        try:
            return cls(
                name,
                _strings(fields["namespaces"]),
                _strings(fields["primary"]),
                _strings(fields.get("secondary") or []),
                int(fields["auto_failover_policy"]["parameters"]["min_limit"]),
            )
        except MALFORMED as error:
            raise InputError(f"isolation policy {name!r} is malformed ({error!r})", _REMEDY) from error


@dataclass(frozen=True, slots=True)
class Policies:
    """All policies of a cluster; isolation policies are in the order in which Pulsar evaluates them."""

    isolation: tuple[IsolationPolicy, ...] = ()
    failure_domains: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    anti_affinity: Mapping[str, str] = field(default_factory=dict)
    excluded_namespaces: frozenset[str] = frozenset()

    @classmethod
    def from_documents(cls, documents: Iterable[PolicyDocument]) -> Policies:
        """Read the rows of a snapshot's table `policies`."""
        isolation: tuple[IsolationPolicy, ...] = ()
        domains: dict[str, tuple[str, ...]] = {}
        groups: dict[str, str] = {}
        excluded: frozenset[str] = frozenset()
        for row in documents:
            body = _decode(row)
            try:
                if row.kind == "isolation":
                    isolation = tuple(IsolationPolicy.from_json(name, fields) for name, fields in body.items())
                elif row.kind == "failure_domain":
                    domains[row.name] = _strings(body["brokers"])
                elif row.kind == "anti_affinity":
                    groups[row.name] = str(body)
                elif row.kind == "dynamic_configuration":
                    listed = str(body.get(EXCLUDED_NAMESPACES_KEY, "")).split(",")
                    excluded = frozenset(name.strip() for name in listed if name.strip())
            except MALFORMED as error:
                raise InputError(f"{row.kind} {row.name or row.path} is malformed ({error!r})", _REMEDY) from error
        return cls(isolation, domains, groups, excluded)


def _decode(row: PolicyDocument) -> Any:
    try:
        return parse_json(row.document)
    except ValueError as error:
        raise InputError(f"{row.kind} {row.name or row.path} is not JSON ({error})", _REMEDY) from error


def _strings(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise TypeError(f"{show(values)} is not a list of strings")
    return tuple(values)
