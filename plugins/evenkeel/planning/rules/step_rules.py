"""Finds what is wrong with a single step, whatever the others do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from evenkeel.model.bundles import is_system_namespace
from evenkeel.model.plan import Step, StepKind
from evenkeel.model.service_unit import ServiceUnitState
from evenkeel.model.snapshot import Broker
from evenkeel.planning.problem import EMPTIED_STATES
from evenkeel.planning.rules.receiving import Receivers
from evenkeel.planning.rules.units import Units
from evenkeel.planning.rules.violation import Violation


class StepRules:
    """The rules of a step: its bundle is as the snapshot says, and its destination may receive it."""

    def __init__(
        self, units: Units, brokers: Mapping[str, Broker], receivers: Receivers, excluded: frozenset[str]
    ) -> None:
        self._units, self._brokers, self._receivers, self._excluded = units, brokers, receivers, excluded

    def check(self, step: Step) -> Iterator[Violation]:
        """Every rule that a step breaks."""
        if step.kind not in set(StepKind):
            yield Violation("unknown-kind", step.order, f"{step.kind!r} is no kind of step")
        row = self._units.rows.get(step.bundle)
        if row is None:
            yield Violation("unknown-bundle", step.order, f"{step.bundle} is not in the snapshot")
            return
        yield from self._check_bundle(step, row)
        if step.kind == StepKind.TRANSFER:
            yield from self._check_destination(step, self._units.namespace[row])
        elif step.kind == StepKind.UNLOAD and step.destination is not None:
            yield Violation("destination", step.order, "Pulsar decides where an unloaded bundle goes")

    def is_necessary(self, step: Step) -> bool:
        """Whether a bundle could not stay: its owner is not eligible, or has to be emptied."""
        namespace = self._units.namespace[self._units.rows[step.bundle]]
        is_emptied = self._brokers[step.source].state in EMPTIED_STATES
        return is_emptied or self._receivers.is_misplaced(namespace, step.source)

    def can_be_replayed(self, step: Step) -> bool:
        """Whether bundle and brokers of a step are known."""
        is_known = step.bundle in self._units.rows and step.source in self._brokers
        return is_known and (step.kind != StepKind.TRANSFER or step.destination in self._brokers)

    def _check_bundle(self, step: Step, row: int) -> Iterator[Violation]:
        units = self._units
        namespace, owner = units.namespace[row], units.owner[row]
        if owner != step.source:
            yield Violation("wrong-owner", step.order, f"{step.source} does not own {step.bundle}, {owner} does")
        yield from self._check_incarnation(step, self._brokers.get(step.source), step.source_incarnation)
        version = units.version_id[row]
        if version != step.expected_version_id:
            detail = f"the record of {step.bundle} has version {version}, not {step.expected_version_id}"
            yield Violation("version", step.order, detail)
        if units.state[row] != ServiceUnitState.OWNED:
            yield Violation("in-flight", step.order, f"{step.bundle} is {units.state[row]} in the snapshot")
        if is_system_namespace(namespace):
            yield Violation("system-namespace", step.order, f"{namespace} is pinned to its place by Pulsar")
        if namespace in self._excluded:
            yield Violation("excluded-namespace", step.order, f"{namespace} is excluded from changes")

    def _check_destination(self, step: Step, namespace: str) -> Iterator[Violation]:
        destination = self._brokers.get(str(step.destination))
        if destination is None:
            yield Violation("unknown-destination", step.order, f"{step.destination} is not a broker of the snapshot")
            return
        if step.destination == step.source:
            yield Violation("moves-to-itself", step.order, f"{step.bundle} goes where it comes from")
        yield from self._check_incarnation(step, destination, step.destination_incarnation)
        refusal = self._receivers.find_refusal(namespace, self._brokers.get(step.source), destination)
        if refusal is not None:
            rule, why = refusal
            yield Violation(rule, step.order, why)

    def _check_incarnation(self, step: Step, broker: Broker | None, stated: int | None) -> Iterator[Violation]:
        if broker is not None and broker.incarnation != stated:
            detail = f"the snapshot has {broker.broker_id} registered as {broker.incarnation}"
            yield Violation("incarnation", step.order, detail)
