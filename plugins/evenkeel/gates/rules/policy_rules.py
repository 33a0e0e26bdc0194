"""What the table `policies` of a snapshot must keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenkeel.gates.frames import rows_of
from evenkeel.gates.rules.base import Rule, sentences
from evenkeel.model.errors import InputError
from evenkeel.model.policies import Policies
from evenkeel.model.snapshot import PolicyDocument

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KINDS = frozenset({"isolation", "failure_domain", "anti_affinity", "dynamic_configuration"})


class PoliciesAreReadable(Rule):
    """A policy that cannot be read might forbid anything."""

    description: str | None = "Every policy can be read as Pulsar reads it"

    def find_breaches(self, rows: DataFrame) -> DataFrame:
        # Few documents, and only Python reads them as the planner does: one at a time, to tell every fault.
        faults = []
        for document in rows_of(PolicyDocument, rows):
            if document.kind not in KINDS:
                faults.append(f"a policy is of the unknown kind {document.kind!r}")
            try:
                Policies.from_documents([document])
            except InputError as error:
                faults.append(error.cause)
        return sentences(rows.sparkSession, faults)
