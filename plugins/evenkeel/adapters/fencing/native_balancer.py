"""Pulsar's own balancer, paused while Evenkeel moves bundles: two switches in `/admin/configuration`.

The values found there are kept in the plan's status, in the same transaction that changes them, so whoever takes the
fence next can restore them. A switch that somebody else has set meanwhile is theirs, whatever the value, and is left as
it is. The node's version tells how often others have written it since the pause; Pulsar writes one key at a time:

    no write by others                                  ──▶ restored
    as many writes as there are keys that differ now    ──▶ the writes are explained: ours are restored
    more writes than keys that differ                   ──▶ one of them may have set a switch to the same value: left
    the node was deleted and made again                 ──▶ every key in it is somebody else's: left
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from evenkeel.adapters.fencing.plan_status import PlanStatuses
from evenkeel.adapters.zookeeper.nodes import Operation, TransactionRefusedError, ZNode, create, delete, set_data
from evenkeel.adapters.zookeeper.paths import PulsarPaths
from evenkeel.adapters.zookeeper.session import ZooKeeperSession
from evenkeel.model.errors import RefusedError
from evenkeel.model.outside_json import parse_json
from evenkeel.model.run import NativeSwitches, PlanStatus

OFF = "false"
SWITCHES = ("loadBalancerSheddingEnabled", "loadBalancerAutoBundleSplitEnabled")
MOST_ATTEMPTS = 5
DIGEST_LENGTH = 16
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Restoration:
    """A status after its switches were restored: what each went back to (None: removed), and why others were left."""

    status: PlanStatus
    restored: Mapping[str, str | None] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of the configuration, and the status that records it."""

    status: PlanStatus
    operations: tuple[Operation, ...]
    restored: Mapping[str, str | None] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


_Prepare = Callable[[PlanStatus, ZNode | None], _Change]


class NativeBalancer:
    """The two switches of one cluster."""

    def __init__(
        self,
        session: ZooKeeperSession,
        paths: PulsarPaths,
        statuses: PlanStatuses,
        write_back: Mapping[str, str] | None = None,
    ) -> None:
        """`write_back` has the runtime values of switches that brokers would not revert if they were only removed."""
        self._session = session
        self.path = paths.configuration
        self._statuses = statuses
        self._write_back = write_back or {}
        self._own_changes: set[tuple[int, int]] = set()
        self._own_node: int | None = None

    def learn(self, statuses: Iterable[PlanStatus]) -> None:
        """Remember which changes of the configuration were Evenkeel's own."""
        for status in statuses:
            self._own_changes |= set(status.own_changes)

    def equal_versions(self, node: ZNode | None) -> frozenset[int | None]:
        """The versions of the configuration that differ from the one now by Evenkeel's own changes alone."""
        if node is None:
            return frozenset({None})
        version = node.version
        versions: set[int | None] = {version}
        while (node.czxid, version) in self._own_changes:
            version -= 1
            versions.add(version)
        if version == 0 and node.czxid == self._own_node:
            versions.add(None)
        return frozenset(versions)

    def pause(self, status: PlanStatus) -> PlanStatus:
        """Switch Pulsar's shedding and splitting off; returns the status that remembers the former values."""
        if status.switches is not None and status.switches.put:
            return status
        # A node of its own first: only the version of a node that exists can tell later who has written it since.
        made = self._change(status, self._make_node).status
        paused = self._change(made, self._pause).status
        if paused.switches is not None and paused.switches.made_node:
            (node,) = self._session.get([self.path])
            self._own_node = None if node is None else node.czxid
        return paused

    def restore(self, status: PlanStatus) -> Restoration:
        """Restore the switches, except those that somebody else has set since; returns a warning for each of those."""
        if status.switches is None:
            return Restoration(status)
        change = self._change(status, self._restore)
        return Restoration(change.status, change.restored, change.warnings)

    def _change(self, status: PlanStatus, prepare: _Prepare) -> _Change:
        for _ in range(MOST_ATTEMPTS):
            (node,) = self._session.get([self.path])
            change = prepare(status, node)
            if change.status == status and not change.operations:
                return change
            try:
                self._statuses.write(change.status, change.operations)
            except TransactionRefusedError as refusal:
                if isinstance(refusal.error, BadVersionError | NodeExistsError | NoNodeError):
                    continue
                raise RefusedError(f"{self.path} cannot be changed ({refusal})", "check who may write it") from refusal
            self._own_changes |= set(change.status.own_changes)
            for warning in change.warnings:
                log.warning("%s", warning)
            return change
        raise RefusedError(f"{self.path} keeps being changed by somebody else", "try again later")

    def _make_node(self, status: PlanStatus, node: ZNode | None) -> _Change:
        if node is not None:
            return _Change(status, ())
        switches = NativeSwitches({}, {}, made_node=True, since_ms=_now_ms(), others={})
        made = create("switches", self.path, _encode({}), is_pulsars=True)
        return _Change(replace(status, switches=switches), (made,))

    def _pause(self, status: PlanStatus, node: ZNode | None) -> _Change:
        if node is None:
            raise RefusedError(f"{self.path} was removed just now", "try again later")
        values = self._decode(node)
        put = {key: OFF for key in SWITCHES if values.get(key) != OFF}
        if not put:
            return _Change(status, ())
        switches = NativeSwitches(
            {key: values.get(key, self._write_back.get(key)) for key in put},
            put,
            made_node=status.switches is not None and status.switches.made_node,
            since_ms=_now_ms(),
            others=_digests(values, put),
        )
        return self._set(replace(status, switches=switches), node, {**values, **put})

    def _restore(self, status: PlanStatus, node: ZNode | None) -> _Change:
        switches = status.switches
        assert switches is not None
        ended = replace(status, switches=None)
        if node is None:
            warnings = ["Pulsar's dynamic configuration was removed during the run; it stays removed"]
            return _Change(ended, (), warnings=tuple(warnings if switches.put else ()))
        values = self._decode(node)
        changed = [key for key, put in switches.put.items() if values.get(key) != put]
        warnings = [_tell_changed(key, values.get(key, "not set")) for key in changed]
        unchanged = [key for key in switches.put if key not in changed]
        if _has_unexplained_write(status, node, len(changed), values):
            warnings += [_tell_set_again(key, switches.found[key]) for key in unchanged]
            unchanged = []
        for key in unchanged:
            if (found := switches.found[key]) is None:
                del values[key]
            else:
                values[key] = found
        restored = {key: switches.found[key] for key in unchanged}
        if switches.made_node and not values:
            removed = delete("switches", self.path, node.version)
            return _Change(ended, (removed,), restored, tuple(warnings))
        if not restored:
            return _Change(ended, (), warnings=tuple(warnings))
        return replace(self._set(ended, node, values), restored=restored, warnings=tuple(warnings))

    def _set(self, status: PlanStatus, node: ZNode, values: Mapping[str, str]) -> _Change:
        own_change = (node.czxid, node.version + 1)
        return _Change(
            replace(status, own_changes=(*status.own_changes, own_change)),
            (set_data("switches", self.path, _encode(values), node.version),),
        )

    def _decode(self, node: ZNode) -> dict[str, str]:
        try:
            values = parse_json(node.data or b"{}")
        except ValueError:
            values = None
        if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
            raise RefusedError(f"{self.path} is not a JSON object of strings", "repair Pulsar's dynamic configuration")
        return values


def _has_unexplained_write(status: PlanStatus, node: ZNode, changed: int, values: Mapping[str, str]) -> bool:
    """Whether somebody else has written the configuration since the pause without anything to show for it."""
    switches = status.switches
    if switches is None or switches.others is None or not switches.put or not status.own_changes:
        return False
    czxid, version = status.own_changes[-1]
    if node.czxid != czxid:
        return True
    now = _digests(values, switches.put)
    others = sum(now.get(key) != switches.others.get(key) for key in now.keys() | switches.others.keys())
    return node.version - version > changed + others


def _digests(values: Mapping[str, str], without: Iterable[str]) -> dict[str, str]:
    """Digests, because a value may be a secret, and the status of a plan may be read by more people."""
    left_out = set(without)
    return {
        key: hashlib.sha256(value.encode()).hexdigest()[:DIGEST_LENGTH]
        for key, value in values.items()
        if key not in left_out
    }


def _tell_changed(key: str, now: str) -> str:
    return f"{key} was changed to {now} by somebody else during the run; it stays so"


def _tell_set_again(key: str, found: str | None) -> str:
    command = f"delete-dynamic-config --config {key}"
    if found is not None:
        command = f"update-dynamic-config --config {key} --value {found}"
    return (
        f"{key} may have been set to {OFF} by somebody else during the run, so it stays {OFF}; if nobody did, switch "
        f"it back with `pulsar-admin brokers {command}`"
    )


def _now_ms() -> int:
    return round(time.time() * 1000)


def _encode(values: Mapping[str, str]) -> bytes:
    return json.dumps(dict(values), separators=(",", ":")).encode()
