"""The policies of an imported cluster: one JSON file in Pulsar's own formats."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from evenkeel.model.errors import InputError
from evenkeel.model.policies import IsolationPolicy
from evenkeel.model.snapshot import PolicyDocument

_KEYS = ("isolation", "failure_domains", "anti_affinity")
_NAMESPACE = re.compile(r"[-=:.\w]+/[-=:.\w]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class PlainPolicies:
    """The three parts of the file; isolation policies keep their order, because the first match wins."""

    isolation: Mapping[str, Any]
    failure_domains: Mapping[str, list[str]]
    anti_affinity: Mapping[str, str]

    def domain_of(self) -> dict[str, str]:
        return {broker: domain for domain, brokers in self.failure_domains.items() for broker in brokers}

    def documents(self, domain_of: Mapping[str, str]) -> list[PolicyDocument]:
        """Rows of the table `policies`; `domain_of` includes the domains from the brokers' file."""
        domains: dict[str, list[str]] = {domain: [] for domain in (*self.failure_domains, *domain_of.values())}
        for broker in sorted(domain_of):
            domains[domain_of[broker]].append(broker)
        rows = [PolicyDocument("isolation", "", json.dumps(self.isolation))] if self.isolation else []
        rows += [PolicyDocument("failure_domain", d, json.dumps({"brokers": domains[d]})) for d in sorted(domains)]
        rows += [
            PolicyDocument("anti_affinity", n, json.dumps(self.anti_affinity[n])) for n in sorted(self.anti_affinity)
        ]
        return rows


def read_policies_file(path: Path | None, broker_ids: Collection[str]) -> PlainPolicies:
    """The policies of a file, each checked to be well formed; no file means no policies."""
    if path is None:
        return PlainPolicies({}, {}, {})
    parts = _read_object(path)
    unknown = [key for key in parts if key not in _KEYS]
    if unknown:
        _refuse(path, f"unknown key {unknown[0]!r}", f"the keys are {', '.join(_KEYS)}")
    isolation, domains, groups = (_require_map(path, key, parts.get(key, {})) for key in _KEYS)
    _check_isolation(path, isolation)
    _check_domains(path, domains, frozenset(broker_ids))
    _check_groups(path, groups)
    return PlainPolicies(isolation, domains, groups)


def _read_object(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes(), object_pairs_hook=lambda pairs: _unique(path, pairs))
    except OSError as error:
        raise InputError(f"cannot read {path} ({error.strerror})", "check the path and its permissions") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON ({error})", "correct the file and import it again") from error
    return _require_map(path, "the document", value)


def _unique(path: Path, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        _refuse(path, f"the key {twice!r} appears twice", "keep one of them")
    return found


def _check_isolation(path: Path, isolation: Mapping[str, Any]) -> None:
    for name, fields in isolation.items():
        try:
            IsolationPolicy.from_json(name, fields)
        except InputError as error:
            _refuse(path, error.cause, "write it as Pulsar's namespaceIsolationPolicies")


def _check_domains(path: Path, domains: Mapping[str, Any], broker_ids: frozenset[str]) -> None:
    seen: dict[str, str] = {}
    for domain, brokers in domains.items():
        if not isinstance(brokers, list) or not all(isinstance(broker, str) for broker in brokers):
            _refuse(path, f"failure domain {domain!r} is not a list of broker ids", 'write it as ["b1:8080"]')
        for broker in brokers:
            if broker not in broker_ids:
                _refuse(path, f"failure domain {domain!r} names the unknown broker {broker!r}", "add it to the brokers")
            if seen.setdefault(broker, domain) != domain:
                _refuse(
                    path, f"broker {broker!r} is in {seen[broker]!r} and {domain!r}", "keep it in one failure domain"
                )


def _check_groups(path: Path, groups: Mapping[str, Any]) -> None:
    for namespace, group in groups.items():
        if not _NAMESPACE.fullmatch(namespace):
            _refuse(path, f"anti_affinity: {namespace!r} is not a namespace", "write it as tenant/namespace")
        if not isinstance(group, str) or not group:
            _refuse(path, f"anti_affinity: the group of {namespace!r} is {group!r}", "give the group a name")


def _require_map(path: Path, what: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        _refuse(path, f"{what} is not an object", "see the guide on plain files for its form")
    return value


def _refuse(path: Path, problem: str, remedy: str) -> NoReturn:
    raise InputError(f"{path}: {problem}", remedy)
