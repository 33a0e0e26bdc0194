"""Whose approvals count, by the command line: signed, unsigned where the configuration says so, and every forgery."""

from __future__ import annotations

import dataclasses
import json
import os
import pwd
import socket
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from evenkeel.adapters.lake.plans import PlanStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.adapters.signing import read_signing_key, write_key_pair
from evenkeel.model.approval import Approval
from support.approvals import approve, judge, make_approval
from support.commands import UNSIGNED, Answer, evenkeel, evenkeel_here
from support.lakes import make_broker, make_bundle, write_snapshot
from support.plans import make_transfers, store_plan

NOBODY = "127.0.0.1:1"
"""An address at which no ZooKeeper answers: whoever gets that far says so."""


@dataclasses.dataclass
class Office:
    """A lake with a snapshot, and the keys of those who may approve plans for it."""

    folder: Path

    @property
    def lake(self) -> Lake:
        return Lake(str(self.folder / "lake"))

    @property
    def config(self) -> Path:
        return self.folder / "evenkeel.toml"

    def configure(self, *lines: str) -> None:
        self.config.write_text("\n".join(["[clusters.fleet.approval]", *lines, ""]))

    def plan(self, **wishes: Any) -> str:
        ranges = {"0x00000000_0x80000000": "b1:8080", "0x80000000_0xffffffff": "b2:8080"}
        bundles = [make_bundle(f"t/n/{name}", owner) for name, owner in ranges.items()]
        manifest = write_snapshot(
            self.lake, bundles, [make_broker(owner) for owner in ranges.values()], cluster="fleet"
        )
        wishes = {"is_approved": False} | wishes
        return store_plan(self.lake, manifest, make_transfers(self.lake, manifest, 1), **wishes)

    def sign(self, approval: Approval, key: str = "on-call") -> Approval:
        """An approval with the signature of a key."""
        signing = read_signing_key(self.folder / "keys" / f"{key}.key")
        named = dataclasses.replace(approval, key_id=signing.public.key_id)
        return dataclasses.replace(named, signature=signing.sign(named.signed_bytes))

    def put_approval(self, plan_id: str, approval: Approval | dict[str, Any]) -> None:
        """Put a file in place of a plan's approval, as someone with access to the lake would."""
        fields = approval.to_json() if isinstance(approval, Approval) else approval
        (self.folder / "lake" / "plans" / plan_id / "approval.json").write_text(json.dumps(fields))

    def files(self) -> dict[str, bytes]:
        root = self.folder / "lake"
        return {str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*") if file.is_file()}

    def approve(self, plan_id: str, **env: object) -> Answer:
        return evenkeel_here("approve", plan_id, "--lake", self.lake.uri, "--json", "--config", self.config, env=env)

    def apply(self, plan_id: str) -> Answer:
        where = ("--lake", self.lake.uri, "--zookeeper", NOBODY, "--config", self.config)
        return evenkeel_here("apply", plan_id, *where, "--cluster", "fleet")

    def assert_refused(self, plan_id: str, sentence: str) -> None:
        """Applying is refused with one sentence before any ZooKeeper is asked, and nothing is written."""
        before = self.files()
        answer = self.apply(plan_id)
        assert (answer.code, answer.out) == (1, "")
        told = " ".join(answer.err.split())
        assert sentence in told, told
        assert told.startswith("error: "), told
        assert "Traceback" not in told
        assert self.files() == before


@pytest.fixture(autouse=True)
def no_restoring(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal restores Pulsar's balancer first; where no ZooKeeper answers, that only takes time."""
    monkeypatch.setattr("evenkeel.stages.apply.restore_before_refusal", lambda *_: None)


@pytest.fixture
def office(tmp_path: Path) -> Office:
    for name in ("on-call", "stranger"):
        write_key_pair(tmp_path / "keys" / name)
    office = Office(tmp_path)
    office.configure('approvers = ["keys/on-call.pub"]', 'signing_key = "keys/on-call.key"')
    return office


def test_signed_approval_counts_and_says_who(office: Office) -> None:
    plan_id = office.plan()
    answer = office.approve(plan_id)
    assert answer.code == 0, answer.err
    told = answer.document
    assert told["account"] == f"OS user {pwd.getpwuid(os.geteuid()).pw_name}"
    assert (told["host"], told["cluster"], told["how"]) == (socket.gethostname(), "fleet", "command line")
    assert told["key_id"] == read_signing_key(office.folder / "keys" / "on-call.key").public.key_id
    applied = office.apply(plan_id)
    assert (applied.code, "ZooKeeper at 127.0.0.1:1 did not answer" in applied.err) == (1, True), "it got that far"
    shown = evenkeel_here("show", plan_id, "--lake", office.lake.uri)
    assert f"signed with key {told['key_id']}" in " ".join(shown.out.split())


def test_signing_key_may_come_from_the_environment(office: Office) -> None:
    office.configure('approvers = ["keys/on-call.pub"]')
    plan_id = office.plan()
    refused = office.approve(plan_id)
    assert (refused.code, "there is no signing key here" in refused.err) == (1, True)
    assert office.approve(plan_id, EVENKEEL_SIGNING_KEY=office.folder / "keys" / "on-call.key").code == 0


def test_key_that_would_not_count_is_refused_before_it_signs(office: Office) -> None:
    plan_id = office.plan()
    answer = office.approve(plan_id, EVENKEEL_SIGNING_KEY=office.folder / "keys" / "stranger.key")
    assert (answer.code, "is not one of the approvers' keys" in answer.err) == (1, True)
    (office.folder / "keys" / "on-call.key").chmod(0o644)
    answer = office.approve(plan_id)
    assert (answer.code, "others than its owner can read the signing key" in answer.err) == (1, True)
    assert PlanStore(office.lake).read_approval(plan_id) is None


def test_without_a_word_in_the_configuration_nothing_is_approved_or_applied(office: Office) -> None:
    office.config.write_text("")
    plan_id = office.plan()
    answer = office.approve(plan_id)
    assert answer.code == 1
    for told in (answer.err, office.apply(office.plan(is_approved=True)).err):
        sentence = " ".join(told.split())
        assert "does not say whose approvals count for cluster 'fleet'" in sentence
        assert "list approvers' public keys under [clusters.fleet.approval]" in sentence
        assert "or write unsigned = true there" in sentence


def test_unsigned_approval_counts_where_the_configuration_says_so_and_is_called_unsigned(office: Office) -> None:
    plan_id = office.plan()
    answer = evenkeel_here("approve", plan_id, "--lake", office.lake.uri, "--config", UNSIGNED)
    assert (answer.code, "unsigned" in answer.out) == (0, True)
    shown = evenkeel_here("show", plan_id, "--lake", office.lake.uri)
    assert "unsigned" in shown.out
    office.assert_refused(plan_id, f"the approval of plan {plan_id[:12]} is not signed")


def test_approval_signed_with_an_unknown_key_is_refused(office: Office) -> None:
    plan_id = office.plan()
    office.put_approval(plan_id, office.sign(make_approval(office.lake, plan_id), "stranger"))
    office.assert_refused(plan_id, f"the approval of plan {plan_id[:12]} is signed with an unknown key")


def test_approval_signed_with_a_revoked_key_is_refused(office: Office) -> None:
    plan_id = office.plan()
    key_id = office.approve(plan_id).document["key_id"]
    office.configure('approvers = ["keys/on-call.pub"]', f'revoked_keys = ["{key_id}"]')
    office.assert_refused(plan_id, f"is signed with a revoked key, {key_id}")


def test_approval_of_a_removed_approver_is_refused(office: Office) -> None:
    plan_id = office.plan()
    assert office.approve(plan_id).code == 0
    office.configure('approvers = ["keys/stranger.pub"]')
    office.assert_refused(plan_id, "is signed with an unknown key")


@pytest.mark.parametrize(
    "change",
    [
        {"approved_by": "someone else"},
        {"how": "changed"},
        {"host": "elsewhere"},
        {"approved_at": "2026-01-01T00:00:00Z"},
    ],
)
def test_signature_over_other_bytes_is_refused(office: Office, change: dict[str, str]) -> None:
    plan_id = office.plan()
    signed = office.sign(make_approval(office.lake, plan_id))
    office.put_approval(plan_id, dataclasses.replace(signed, **change))  # type: ignore[arg-type]
    office.assert_refused(plan_id, "the signature of on-call is not for this approval")


def test_approval_of_the_same_steps_with_another_expiry_is_refused(office: Office) -> None:
    now = datetime.now(UTC)
    shorter, longer = (office.plan(expires_at=now + timedelta(hours=hours)) for hours in (1, 9))
    plans = PlanStore(office.lake)
    assert plans.load(shorter).steps == plans.load(longer).steps
    assert office.approve(shorter).code == 0
    approval = plans.read_approval(shorter)
    assert approval is not None
    office.put_approval(longer, approval)
    office.assert_refused(longer, "approves another plan")
    # Renamed to the other plan, its signature is over other bytes.
    other = longer
    (office.folder / "lake" / "plans" / other / "approval.json").unlink()
    office.put_approval(other, dataclasses.replace(approval, plan_id=other))
    office.assert_refused(other, "the signature of on-call is not for this approval")


def test_approval_for_another_cluster_is_refused(office: Office) -> None:
    plan_id = office.plan()
    foreign = dataclasses.replace(make_approval(office.lake, plan_id), cluster="elsewhere")
    office.put_approval(plan_id, office.sign(foreign))
    office.assert_refused(plan_id, "of cluster 'elsewhere', not for plan")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is not JSON"),
        (b"[]", "is not a JSON object"),
        (b'{"schema_version": 1}', "has schema version 1, this version of Evenkeel reads 2"),
        (b'{"schema_version": 2, "plan_id": "x"}', "is not an approval"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_forged_approval_is_one_sentence(office: Office, content: bytes, sentence: str) -> None:
    plan_id = office.plan()
    (office.folder / "lake" / "plans" / plan_id / "approval.json").write_bytes(content)
    office.assert_refused(plan_id, sentence)


def without_last(fields: dict[str, Any]) -> dict[str, Any]:
    return fields | {"checks": fields["checks"][:-1]}


def lowered(fields: dict[str, Any]) -> dict[str, Any]:
    checks = [check | {"severity": "info", "passed": False} for check in fields["checks"]]
    return fields | {"checks": checks}


def with_another_digest(fields: dict[str, Any]) -> dict[str, Any]:
    return fields | {"suites": fields["suites"] | {"plan_steps": "0" * 64}}


@pytest.mark.parametrize(
    ("forge", "sentence"),
    [
        (lambda fields: fields | {"checks": []}, "checks missing: "),
        (without_last, "checks missing: "),
        (lambda fields: fields | {"subject_id": "f" * 64}, "it is on plan ffffffffffff"),
        (lambda fields: fields | {"kind": "snapshot"}, "it is on snapshot"),
        (with_another_digest, "it was made by another version of the suite plan_steps"),
        (lowered, "was lowered"),
        (lambda fields: fields | {"checks": [*fields["checks"], fields["checks"][0]]}, "unknown checks: "),
        (
            lambda fields: {"schema_version": 1, "passed": True},
            "has schema version 1, this version of Evenkeel reads 2",
        ),
        (lambda fields: fields | {"checks": "all"}, "is not a verdict"),
    ],
)
def test_forged_or_foreign_verdict_is_refused(
    office: Office, forge: Callable[[dict[str, Any]], dict[str, Any]], sentence: str
) -> None:
    plan_id = office.plan()
    assert office.approve(plan_id).code == 0
    file = office.folder / "lake" / "plans" / plan_id / "gate.json"
    file.write_text(json.dumps(forge(json.loads(file.read_text()))))
    office.assert_refused(plan_id, sentence)
    for command in ("check", "approve"):
        answer = evenkeel_here(command, plan_id, "--lake", office.lake.uri, "--config", office.config)
        assert (answer.code, sentence in " ".join(answer.err.split())) == (1, True), answer.err


def test_verdict_that_replaces_the_approved_one_is_refused(office: Office) -> None:
    plan_id = office.plan(is_passed=None)
    verdict = judge(office.lake, plan_id)
    assert office.approve(plan_id).code == 0
    kinder = dataclasses.replace(verdict, checks=tuple(dataclasses.replace(c, detail="fine") for c in verdict.checks))
    (office.folder / "lake" / "plans" / plan_id / "gate.json").write_text(json.dumps(kinder.to_json()))
    office.assert_refused(plan_id, f"the verdict on plan {plan_id[:12]} is not the one that was approved")


def test_foreign_approval_blocks_its_plan_only(office: Office) -> None:
    blocked, free = office.plan(), office.plan(expires_at=datetime.now(UTC) + timedelta(hours=2))
    approve(office.lake, blocked)
    assert office.approve(blocked).code == 1, "the first approval stands, even one that does not count"
    assert office.approve(free).code == 0


def test_keygen_writes_a_pair_that_approves(tmp_path: Path) -> None:
    made = evenkeel("keygen", tmp_path / "mine", "--json")
    assert made.code == 0, made.err
    office = Office(tmp_path)
    office.configure('approvers = ["mine.pub"]', 'signing_key = "mine.key"')
    answer = office.approve(office.plan())
    assert answer.document["key_id"] == made.document["key_id"]
    again = evenkeel("keygen", tmp_path / "mine")
    assert (again.code, "exists already" in again.err) == (1, True)


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (['approver = ["a.pub"]'], "unknown key approver: did you mean approvers"),
        (['approvers = "a.pub"'], "approvers = 'a.pub' is not a list of texts"),
        (["unsigned = 1"], "unsigned = 1 is not true or false"),
        (['approvers = ["a.pub"]', "unsigned = true"], "has approvers and unsigned = true: leave one of them out"),
        (["signing_key = 5"], "signing_key = 5 is not a path"),
        (['approvers = ["absent.pub"]'], "cannot read the approver's key"),
    ],
)
def test_wrong_section_is_refused_by_its_key(office: Office, lines: list[str], sentence: str) -> None:
    office.configure(*lines)
    answer = office.approve(office.plan())
    assert (answer.code, answer.out) == (1, answer.out)
    assert sentence in " ".join(answer.err.split())
