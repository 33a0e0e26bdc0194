"""docs/reference/permissions.md holds: with exactly its rights every command works, with one less it says which.

The simulated brokers and Evenkeel have names of their own here, and no node is open to everybody.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.security import ACL, make_digest_acl

from conftest import remove_tree
from evenkeel.adapters.lake.store import Lake
from evenkeel.cli.app import Commands
from evenkeel.fleet import sessions
from evenkeel.fleet.fleet import Fleet
from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
from evenkeel.model.connection import ClusterConnection, ZooKeeperScheme, ZooKeeperSecurity
from evenkeel.model.errors import EvenkeelError
from evenkeel.model.run import RunState
from evenkeel.stages.doctor import Health, Patient, examine
from evenkeel.stages.drain import mark_brokers, unmark_brokers
from evenkeel.stages.kill_switch import resume_writing, stop_writing
from evenkeel.stages.restore_balancer import restore_balancer
from evenkeel.stages.runs import list_runs
from evenkeel.stages.snapshot import take_snapshot
from support.approvals import apply_plan
from support.fleets import running_fleet
from support.scenes import SETTINGS, Scene
from support.waiting import scaled

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "permissions.md"
PASSWORD = "correct-horse"
BROKERS, EVENKEEL = (("digest", f"{user}:{PASSWORD}") for user in ("brokers", "evenkeel"))
ALL_FOR_BROKERS = make_digest_acl("brokers", PASSWORD, all=True)
GRANT = re.compile(r"^\| `(?P<path>/[^`]+)` \| (?P<kinds>[^|]+) \| (?P<rights>[^|]+) \|", re.MULTILINE)
KINDS = ("extensible", "modular")


@dataclass(frozen=True)
class Grant:
    """A row of the page: a node or, with /**, all that is below one too; and what Evenkeel may do there."""

    path: str
    kinds: str
    rights: frozenset[str]

    def holds_for(self, kind: str) -> bool:
        return self.kinds.strip() in ("all", kind)

    def acls(self, without: str | None = None) -> list[ACL]:
        allowed = {right: right in self.rights and right != without for right in ("read", "write", "create", "delete")}
        return [ALL_FOR_BROKERS, *([make_digest_acl("evenkeel", PASSWORD, **allowed)] if any(allowed.values()) else [])]


def read_page() -> list[Grant]:
    return [
        Grant(row["path"], row["kinds"], frozenset(re.findall(r"\w+", row["rights"])))
        for row in GRANT.finditer(PAGE.read_text())
    ]


@dataclass
class Secured:
    """A cluster on which Evenkeel has the page's rights, and nothing else."""

    scene: Scene
    root: str
    operator: KazooClient
    kind: str

    @property
    def connection(self) -> ClusterConnection:
        return self.scene.connection

    def grant_all(self) -> None:
        for path in self._nodes_below(self.root):
            self.operator.set_acls(path, [ALL_FOR_BROKERS])
        for grant in read_page():
            if grant.holds_for(self.kind):
                self.set(grant)

    def set(self, grant: Grant, without: str | None = None) -> None:
        for path in self._nodes_of(grant):
            self.operator.set_acls(path, grant.acls(without))

    def _nodes_of(self, grant: Grant) -> list[str]:
        path = grant.path.replace("CLUSTER", self.connection.cluster).removesuffix("/**")
        base = f"{self.root}{path}"
        if not self.operator.exists(base):
            return []
        return self._nodes_below(base) if grant.path.endswith("/**") else [base]

    def _nodes_below(self, path: str) -> list[str]:
        names = self.operator.get_children(path)
        return [path, *(found for name in names for found in self._nodes_below(f"{path}/{name}"))]


@pytest.fixture
def secure(
    zookeeper: EmbeddedZooKeeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Secured]]:
    """Starts a fleet whose brokers authenticate, and grants Evenkeel what the page says."""
    root = f"/secured-{secrets.token_hex(4)}"
    named = partial(KazooClient, auth_data=[BROKERS], default_acl=[ALL_FOR_BROKERS, READ_FOR_EVENKEEL])
    monkeypatch.setattr(sessions, "KazooClient", named)
    operator = KazooClient(zookeeper.connect_string, auth_data=[BROKERS, EVENKEEL])
    operator.start(timeout=scaled(10.0))

    @contextmanager
    def started(kind: str) -> Iterator[Fleet]:
        with running_fleet(zookeeper, root, load_manager=kind, report_max_interval_s=0.5) as fleet:
            yield fleet

    managers = []

    def build(kind: str) -> Secured:
        manager = started(kind)
        managers.append(manager)
        fleet = manager.__enter__()
        operator.create(f"{root}/evenkeel", acl=[ALL_FOR_BROKERS])
        security = ZooKeeperSecurity(ZooKeeperScheme.DIGEST, "evenkeel", PASSWORD)
        connection = ClusterConnection(
            fleet.settings.cluster, zookeeper.connect_string, root, f"{root}/evenkeel", security=security
        )
        secured = Secured(Scene(fleet, Lake(str(tmp_path / "lake")), connection, operator), root, operator, kind)
        secured.grant_all()
        return secured

    yield build
    for manager in managers:
        manager.__exit__(None, None, None)
    remove_tree(operator, root)
    operator.stop()
    operator.close()


READ_FOR_EVENKEEL = make_digest_acl("evenkeel", PASSWORD, read=True)


def apply_a_plan(secured: Secured) -> None:
    plan_id = secured.scene.plan(2)
    run = apply_plan(secured.scene.lake, plan_id, secured.connection, SETTINGS)
    if run.state is not RunState.DONE:
        cause, _, remedy = run.detail.rpartition(": ")
        raise EvenkeelError(cause, remedy)


def stop_and_resume(secured: Secured) -> None:
    stop_writing(secured.connection, "ann", "test")
    resume_writing(secured.connection)


def mark_and_unmark(secured: Secured) -> None:
    brokers = secured.scene.fleet.broker_ids[:1]
    mark_brokers(secured.connection, brokers, "ann", "test")
    assert unmark_brokers(secured.connection, brokers) == list(brokers)


def examine_rights(secured: Secured) -> None:
    findings = examine(Patient(secured.connection), scaled(30.0), ("zookeeper",))
    for finding in findings:
        if finding.health is Health.PROBLEM:
            raise EvenkeelError(finding.told, finding.remedy)


COMMANDS: dict[str, Callable[[Secured], object]] = {
    "snapshot": lambda secured: take_snapshot(secured.scene.lake, secured.connection, SETTINGS),
    "apply": apply_a_plan,
    "stop": stop_and_resume,
    "drain": mark_and_unmark,
    "runs": lambda secured: list_runs(secured.scene.lake, None, secured.connection),
    "restore-balancer": lambda secured: restore_balancer(secured.connection, SETTINGS),
    "doctor": examine_rights,
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_command_works_with_exactly_the_rights_of_the_page(secure: Callable[..., Secured], kind: str) -> None:
    secured = secure(kind)
    for name, run in COMMANDS.items():
        print(name)
        run(secured)
    apply_a_plan(secured)


LESS = [
    ("extensible", "/loadbalance/brokers/**", "read", "snapshot"),
    ("extensible", "/admin/local-policies/**", "read", "snapshot"),
    ("extensible", "/service_unit_state/**", "read", "snapshot"),
    ("modular", "/namespace/**", "read", "snapshot"),
    ("modular", "/admin/clusters/**", "read", "snapshot"),
    ("modular", "/loadbalance/leader", "read", "apply"),
    ("extensible", "/loadbalance/extension/leader", "read", "apply"),
    ("modular", "/admin/configuration", "read", "apply"),
    ("modular", "/admin/configuration", "write", "apply"),
    ("extensible", "/service_unit_state/**", "write", "apply"),
    ("extensible", "/evenkeel", "create", "stop"),
    ("modular", "/evenkeel", "create", "apply"),
    ("modular", "/evenkeel", "create", "drain"),
    ("modular", "/evenkeel", "read", "apply"),
    ("modular", "/admin/configuration", "write", "doctor"),
    ("extensible", "/service_unit_state/**", "write", "doctor"),
    ("modular", "/evenkeel", "create", "doctor"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_one_right_less_is_one_sentence(secure: Callable[..., Secured], kind: str) -> None:
    secured = secure(kind)
    grants = {grant.path: grant for grant in read_page()}
    for _, path, right, command in (case for case in LESS if case[0] == kind):
        assert right in grants[path].rights
        # Once it has nodes for the cluster, they are its own.
        remove_tree(secured.operator, secured.connection.home)
        secured.set(grants[path], without=right)
        print(f"without the right to {right} {path}: {command}")
        with pytest.raises(EvenkeelError) as caught:
            COMMANDS[command](secured)
        told = str(caught.value)
        assert path.removesuffix("/**") in told, (path, right, command, told)
        assert "\n" not in told
        assert caught.value.remedy
        secured.set(grants[path])
    COMMANDS["snapshot"](secured)


def test_page_names_every_command_and_no_right_that_is_not_needed() -> None:
    page = PAGE.read_text()
    assert {name for name in Commands.lazy_commands if f"`{name}`" not in page} == set()
    assert set(COMMANDS) <= set(Commands.lazy_commands)
    assert {kind for grant in read_page() for kind in grant.kinds.split()} <= {"all", *KINDS}
    granted = {(grant.path, right) for grant in read_page() for right in grant.rights}
    assert granted == {(path, right) for _, path, right, _ in LESS}, "each right of the page is taken away once"
