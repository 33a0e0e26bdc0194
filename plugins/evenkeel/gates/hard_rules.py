"""The hard rules of a plan, looked at by the planner's verifier on a summary of the snapshot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evenkeel.model.bundles import is_system_namespace
from evenkeel.model.load import Resource
from evenkeel.model.plan import Step
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from evenkeel.planning.rules.verifier import Violation
    from evenkeel.planning.splitting.boundaries import Cut

_OF_RESOURCE = {
    Resource.CPU: "cpu_millipercent",
    Resource.BANDWIDTH_IN: "throughput_in",
    Resource.BANDWIDTH_OUT: "throughput_out",
}


class PlacedLoads:
    """The load of a snapshot: bundles at stake one by one, the others added up per broker and namespace."""

    def __init__(self, rows: Sequence[dict[str, Any]], cuts: Mapping[str, Cut]) -> None:
        self._rows, self._cuts = rows, cuts
        self._by_bundle = {row["bundle"]: row for row in rows}
        self._used: Counter[tuple[str, str]] = Counter()
        for row in rows:
            if not is_system_namespace(row["namespace"]):
                for resource, name in _OF_RESOURCE.items():
                    self._used[row["owner"], str(resource)] += row[name]

    @classmethod
    def collect(cls, loads: DataFrame, topics: DataFrame, steps: Sequence[Step], policies: Policies) -> PlacedLoads:
        """Let Spark add up a snapshot (`bundle_loads`) for these steps, and look where its topics would be cut."""
        from evenkeel_spark.cuts import cuts_of
        from evenkeel_spark.placed_loads import collect_placed_loads

        return cls(collect_placed_loads(loads, steps, policies), cuts_of(topics, steps))

    def knows(self, bundle: str) -> bool:
        return bundle in self._by_bundle

    def owner_of(self, bundle: str) -> str | None:
        """The owner of a bundle at stake; None where it has none, or the snapshot does not know it."""
        row = self._by_bundle.get(bundle)
        return None if row is None else row["owner"]

    def used(self, broker_id: str, resource: str) -> int:
        """What all bundles put on a broker, those apart that are never planned."""
        return self._used[broker_id, resource]

    def find_violations(
        self, steps: Sequence[Step], brokers: Sequence[Broker], policies: Policies, settings: Settings
    ) -> list[Violation]:
        """Every hard rule that the steps break."""
        from evenkeel.planning.rules.verifier import find_violations
        from evenkeel_spark.placed_loads import as_columns

        return find_violations(steps, brokers, as_columns(self._rows), policies, settings, self._cuts)
