"""Pulsar's own balancer, paused while Evenkeel moves bundles: two switches in `/admin/configuration`.

What was found there is kept in the plan's standing, in the same transaction that changes it, so whoever takes the fence
next can put it back. A switch that another hand has changed meanwhile is that hand's, and is left as it is.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from evenkeel.adapters.plan_standings import PlanStandings
from evenkeel.adapters.zookeeper import (
    Node,
    Operation,
    TransactionRefusedError,
    ZooKeeperSession,
    create,
    delete,
    set_data,
)
from evenkeel.model.errors import RefusedError
from evenkeel.model.outside_json import parse_json
from evenkeel.model.run import NativeSwitches, PlanStanding

OFF = "false"
SWITCHES = ("loadBalancerSheddingEnabled", "loadBalancerAutoBundleSplitEnabled")
MOST_ATTEMPTS = 5
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of the configuration, and the standing that tells of it."""

    standing: PlanStanding
    operations: tuple[Operation, ...]
    warnings: tuple[str, ...] = ()


_Prepare = Callable[[PlanStanding, Node | None], _Change]


class NativeBalancer:
    """The two switches of one cluster."""

    def __init__(self, session: ZooKeeperSession, pulsar_root: str, standings: PlanStandings) -> None:
        self._session = session
        self.path = f"{pulsar_root}/admin/configuration"
        self._standings = standings
        self._own_changes: set[tuple[int, int]] = set()
        self._own_node: int | None = None

    def learn(self, standings: Iterable[PlanStanding]) -> None:
        """Know which changes of the configuration were Evenkeel's own."""
        for standing in standings:
            self._own_changes |= set(standing.own_changes)

    def equal_versions(self, node: Node | None) -> frozenset[int | None]:
        """The versions of the configuration that differ from the one now by Evenkeel's own changes alone."""
        if node is None:
            return frozenset({None})
        version = int(node.stat.version)
        versions: set[int | None] = {version}
        while (node.stat.czxid, version) in self._own_changes:
            version -= 1
            versions.add(version)
        if version == 0 and node.stat.czxid == self._own_node:
            versions.add(None)
        return frozenset(versions)

    def pause(self, standing: PlanStanding) -> PlanStanding:
        """Switch Pulsar's shedding and splitting off; answers the standing that remembers how they were."""
        if standing.switches is not None:
            return standing
        paused, _ = self._change(standing, self._pause)
        if paused.switches is not None and paused.switches.made_node:
            (node,) = self._session.read([self.path])
            self._own_node = None if node is None else int(node.stat.czxid)
        return paused

    def restore(self, standing: PlanStanding) -> tuple[PlanStanding, tuple[str, ...]]:
        """Put the switches back as they were found, and say which ones another hand has changed since."""
        return (standing, ()) if standing.switches is None else self._change(standing, self._restore)

    def _change(self, standing: PlanStanding, prepare: _Prepare) -> tuple[PlanStanding, tuple[str, ...]]:
        for _ in range(MOST_ATTEMPTS):
            (node,) = self._session.read([self.path])
            change = prepare(standing, node)
            if change.standing == standing and not change.operations:
                return standing, change.warnings
            try:
                self._standings.write(change.standing, change.operations)
            except TransactionRefusedError as refusal:
                if isinstance(refusal.error, BadVersionError | NodeExistsError | NoNodeError):
                    continue
                raise RefusedError(f"{self.path} cannot be changed ({refusal})", "see who may write it") from refusal
            self._own_changes |= set(change.standing.own_changes)
            for warning in change.warnings:
                log.warning("%s", warning)
            return change.standing, change.warnings
        raise RefusedError(f"{self.path} is being changed by another hand all the time", "try again later")

    def _pause(self, standing: PlanStanding, node: Node | None) -> _Change:
        put = dict.fromkeys(SWITCHES, OFF)
        if node is None:
            switches = NativeSwitches(dict.fromkeys(SWITCHES), put, made_node=True)
            return _Change(
                replace(standing, switches=switches), (create("switches", self.path, _encode(put), is_pulsars=True),)
            )
        values = self._decode(node)
        missing = {key: value for key, value in put.items() if values.get(key) != value}
        if not missing:
            return _Change(standing, ())
        switches = NativeSwitches({key: values.get(key) for key in missing}, missing, made_node=False)
        return self._set(replace(standing, switches=switches), node, {**values, **missing})

    def _restore(self, standing: PlanStanding, node: Node | None) -> _Change:
        switches = standing.switches
        assert switches is not None
        restored = replace(standing, switches=None)
        if node is None:
            return _Change(restored, (), ("Pulsar's dynamic configuration was removed meanwhile, and is left so",))
        values = self._decode(node)
        warnings = []
        for key, put in switches.put.items():
            if values.get(key) != put:
                now = values.get(key, "not set")
                warnings.append(f"{key} was changed to {now} by another hand meanwhile, and is left so")
            elif (found := switches.found[key]) is None:
                del values[key]
            else:
                values[key] = found
        if switches.made_node and not values:
            return _Change(restored, (delete("switches", self.path, node.stat.version),), tuple(warnings))
        if len(warnings) == len(switches.put):
            return _Change(restored, (), tuple(warnings))
        return replace(self._set(restored, node, values), warnings=tuple(warnings))

    def _set(self, standing: PlanStanding, node: Node, values: Mapping[str, str]) -> _Change:
        own_change = (int(node.stat.czxid), int(node.stat.version) + 1)
        return _Change(
            replace(standing, own_changes=(*standing.own_changes, own_change)),
            (set_data("switches", self.path, _encode(values), node.stat.version),),
        )

    def _decode(self, node: Node) -> dict[str, str]:
        try:
            values = parse_json(node.data or b"{}")
        except ValueError:
            values = None
        if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
            raise RefusedError(f"{self.path} is no JSON map of strings", "repair Pulsar's dynamic configuration")
        return values


def _encode(values: Mapping[str, str]) -> bytes:
    return json.dumps(dict(values), separators=(",", ":")).encode()
