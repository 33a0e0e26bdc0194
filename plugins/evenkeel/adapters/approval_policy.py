"""Whose approvals count for a cluster: the approvers' public keys, which are never kept in the lake.

approvers = [...]   an approval counts if one of these keys has signed it
unsigned = true     every approval counts, for clusters where nobody needs to sign
neither             no approval counts
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from evenkeel.adapters.signing import PublicKey, read_public_key, read_signing_key
from evenkeel.model.approval import Approval, ApprovalRules
from evenkeel.model.canonical import short_id
from evenkeel.model.errors import InputError, RefusedError

SIGNING_KEY_VARIABLE = "EVENKEEL_SIGNING_KEY"


@dataclass(frozen=True, slots=True)
class ApprovalPolicy:
    """Whose approvals count for a cluster, and the key to sign with, if there is one here."""

    approvers: tuple[PublicKey, ...] = ()
    revoked: frozenset[str] = frozenset()
    is_unsigned: bool = False
    signing_key_file: Path | None = None
    """Read only to approve: who applies needs no private key."""

    @classmethod
    def unsigned(cls) -> Self:
        """The policy of a cluster for which nobody has to sign."""
        return cls(is_unsigned=True)

    @classmethod
    def load(cls, rules: ApprovalRules, environment: Mapping[str, str]) -> Self:
        """Read the approvers' keys that the configuration names; the environment may name the private key's file."""
        given = environment.get(SIGNING_KEY_VARIABLE)
        approvers = tuple(map(read_public_key, rules.approvers))
        file = Path(given) if given else rules.signing_key
        return cls(approvers, frozenset(rules.revoked_keys), rules.unsigned, file)

    def require_can_approve(self, cluster: str) -> None:
        """Refuse to approve where the approval would not count."""
        if self.is_unsigned:
            return
        if self.signing_key_file is None:
            if not self.approvers:
                raise _nothing_said(cluster)
            raise RefusedError(
                f"approvals for cluster {cluster!r} have to be signed, and there is no signing key here",
                f"name the file of one of the approvers' keys by signing_key or {SIGNING_KEY_VARIABLE}",
            )
        key = read_signing_key(self.signing_key_file).public
        if key.key_id in self.revoked:
            raise RefusedError(f"the signing key {key.key_id} is revoked", "sign with another key")
        if self.approvers and key.key_id not in {each.key_id for each in self.approvers}:
            raise RefusedError(
                f"the signing key {key.key_id} is not one of the approvers' keys", "add its .pub file to approvers"
            )

    def seal(self, approval: Approval) -> Approval:
        """The approval with this policy's signature; unchanged where nobody has to sign."""
        if self.is_unsigned or self.signing_key_file is None:
            return approval
        key = read_signing_key(self.signing_key_file)
        named = replace(approval, key_id=key.public.key_id)
        return replace(named, signature=key.sign(named.signed_bytes))

    def require_counts(self, approval: Approval) -> None:
        """Refuse an approval that nobody signed whose key counts here."""
        plan = short_id(approval.plan_id)
        again = "plan again, and have one of the approvers approve the new plan"
        if self.is_unsigned:
            return
        if not self.approvers:
            raise _nothing_said(approval.cluster)
        if approval.signature is None or approval.key_id is None:
            raise RefusedError(f"the approval of plan {plan} is not signed", again)
        if approval.key_id in self.revoked:
            raise RefusedError(f"the approval of plan {plan} is signed with a revoked key, {approval.key_id}", again)
        key = next((each for each in self.approvers if each.key_id == approval.key_id), None)
        if key is None:
            raise RefusedError(f"the approval of plan {plan} is signed with an unknown key, {approval.key_id}", again)
        if not key.verifies(approval.signed_bytes, approval.signature):
            raise RefusedError(f"the signature of {key.name} is not for this approval of plan {plan}", again)


def _nothing_said(cluster: str) -> InputError:
    return InputError(
        f"the configuration does not say whose approvals count for cluster {cluster!r}",
        f"list approvers' public keys under [clusters.{cluster}.approval] in evenkeel.toml (`evenkeel keygen` makes "
        "a pair), or write unsigned = true there if nobody has to sign",
    )
