"""A person's approval of exactly one plan, and what the configuration says about whose approvals count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from evenkeel.model.canonical import canonical_json
from evenkeel.model.errors import RefusedError
from evenkeel.model.outside_json import check_schema_version, decoding, require_types

APPROVAL_SCHEMA_VERSION = 2
REVOCATION_SCHEMA_VERSION = 1
REFUSAL_SCHEMA_VERSION = 1
APPROVAL_KEYS = ("approvers", "revoked_keys", "signing_key", "unsigned", "mode", "people")
"""The keys of the section `approval` of evenkeel.toml, and of `approval` in an Airflow connection's extra."""


@dataclass(frozen=True, slots=True)
class Person:
    """Who decides: a name, the account that proves it (of the operating system or of Airflow), and the machine."""

    name: str
    account: str
    host: str


@dataclass(frozen=True, slots=True)
class Approval:
    """Who approved which plan, when and how, over which verdict; the signature covers everything but itself.

    `gate_sha256` is the digest of the verdict that the approver had, so that no other verdict can take its place.
    """

    plan_id: str
    cluster: str
    gate_sha256: str
    approved_by: str
    account: str
    host: str
    approved_at: str
    how: str
    key_id: str | None = None
    signature: str | None = None
    schema_version: int = APPROVAL_SCHEMA_VERSION

    @property
    def is_signed(self) -> bool:
        return self.signature is not None

    @property
    def signed_bytes(self) -> bytes:
        """What the signature is over: the canonical JSON of all other fields."""
        return canonical_json({name: value for name, value in asdict(self).items() if name != "signature"})

    def describe(self) -> str:
        """The approval in words, with whether it was signed."""
        seal = f"signed with key {self.key_id}" if self.is_signed else "unsigned"
        return f"approved by {self.approved_by} ({self.account} on {self.host}), {seal}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any], uri: str) -> Approval:
        check_schema_version(fields, APPROVAL_SCHEMA_VERSION, uri)
        with decoding("an approval", uri):
            require_types(cls, fields)
            return cls(**fields)


@dataclass(frozen=True, slots=True)
class Revocation:
    """Who took back a plan, when and why. It is not signed: a forged one can only stop a plan, never start one."""

    plan_id: str
    revoked_by: str
    account: str
    host: str
    revoked_at: str
    reason: str
    schema_version: int = REVOCATION_SCHEMA_VERSION

    def describe(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"revoked by {self.revoked_by} ({self.account} on {self.host}) at {self.revoked_at}{why}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any], uri: str) -> Revocation:
        check_schema_version(fields, REVOCATION_SCHEMA_VERSION, uri)
        with decoding("a revocation", uri):
            require_types(cls, fields)
            return cls(**fields)


class ApprovalMode(StrEnum):
    """Who has to agree to a plan that is made in Airflow."""

    PERSON = "person"
    FOUR_EYES = "four-eyes"
    """Not the person who triggered the run."""


class Answer(StrEnum):
    """How a question about a plan ended, if not with an approval."""

    REJECTED = "rejected"
    TIMED_OUT = "timed out"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Who said no to a plan, when, how and why; or that nobody answered in time.

    It is not signed: a forged one can keep nobody from approving the plan.
    """

    plan_id: str
    cluster: str
    answer: Answer
    answered_by: str
    account: str
    host: str
    answered_at: str
    how: str
    reason: str = ""
    schema_version: int = REFUSAL_SCHEMA_VERSION

    def describe(self) -> str:
        """The refusal in words."""
        if self.answer is Answer.TIMED_OUT:
            return f"nobody answered until {self.answered_at}"
        why = f": {self.reason}" if self.reason else ", without a reason"
        return f"rejected by {self.answered_by} ({self.account}) at {self.answered_at}{why}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any], uri: str) -> Refusal:
        check_schema_version(fields, REFUSAL_SCHEMA_VERSION, uri)
        with decoding("a refusal", uri):
            require_types(cls, fields)
            return cls(**{**fields, "answer": Answer(fields["answer"])})


@dataclass(frozen=True, slots=True)
class ApprovalRules:
    """What the configuration says about approvals: where the keys are, or that nobody has to sign."""

    approvers: tuple[Path, ...] = ()
    revoked_keys: tuple[str, ...] = ()
    signing_key: Path | None = None
    unsigned: bool = False
    mode: ApprovalMode = ApprovalMode.PERSON
    people: tuple[str, ...] = ()
    """The Airflow users who may approve; empty: everyone whom Airflow lets answer."""

    def require_may_approve(self, user: str, requested_by: str | None) -> None:
        """Refuse an answer in Airflow by somebody who may not give it."""
        if self.people and user not in self.people:
            raise RefusedError(
                f"{user} may not approve plans of this cluster, only {' and '.join(self.people)} may",
                "clear the task approve and have one of them answer",
            )
        if self.mode is ApprovalMode.FOUR_EYES and user == requested_by:
            raise RefusedError(
                f"{user} has asked for this plan and may not approve it too (four eyes)",
                "clear the task approve and have somebody else answer",
            )

    def describe(self) -> str:
        """Which approvals count, in words."""
        if self.unsigned:
            return "unsigned: nobody has to sign for this cluster"
        if not self.approvers:
            return "none counts yet: the configuration names no approvers"
        count = len(self.approvers)
        return f"signed with the key of {'the approver' if count == 1 else f'one of {count} approvers'}"
