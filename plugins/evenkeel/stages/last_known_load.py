"""What the bundles of a sick broker carry: a broker that is being drained needs no load report to be emptied.

Its bundles carry what the newest snapshot that knows them says. One that no snapshot knows carries the mean of all
bundles that were reported: as nothing, all of them would go to one broker. The snapshot's notes tell which is which.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from statistics import fmean
from typing import Any

from evenkeel.adapters.lake.snapshots import SnapshotContent, SnapshotStore
from evenkeel.adapters.lake.store import Lake, from_arrow, to_arrow
from evenkeel.model.errors import InputError
from evenkeel.model.snapshot import Broker, BrokerState, Bundle

# At one snapshot every five minutes, half a day: what is older says little about now.
MOST_SNAPSHOTS_READ = 144
RATES = ("msg_rate_in_per_s", "msg_rate_out_per_s", "throughput_in_bytes_per_s", "throughput_out_bytes_per_s")
COUNTS = ("topics", "producers", "consumers")
FIGURES = tuple(
    column.name for column in dataclasses.fields(Broker) if column.name.endswith(("_percent", "_mib", "_kbps"))
)
log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Known:
    """What earlier snapshots say of some brokers and bundles, and the newest snapshot that was used."""

    bundles: dict[str, Bundle] = field(default_factory=dict)
    brokers: dict[str, Broker] = field(default_factory=dict)
    newest: str = ""


def with_last_known_load(lake: Lake, content: SnapshotContent) -> SnapshotContent:
    """The content with loads for the bundles of brokers that are drained without a load report."""
    brokers: list[Broker] = from_arrow(Broker, content.tables["brokers"], "brokers")
    drained = {b.broker_id for b in brokers if b.state == BrokerState.STOPPING and b.reported_at is None}
    if not drained:
        return content
    bundles: list[Bundle] = from_arrow(Bundle, content.tables["bundles"], "bundles")
    wanted = {b.bundle for b in bundles if b.owner in drained}
    known = _look_back(lake, content.cluster, wanted, drained)
    mean = _mean([b for b in bundles if b.owner is not None and b.reported_at is not None])
    tables = {
        **content.tables,
        "bundles": to_arrow(Bundle, [_fill(b, known, mean) if b.bundle in wanted else b for b in bundles]),
        "brokers": to_arrow(Broker, [_with_figures(b, known.brokers.get(b.broker_id)) for b in brokers]),
    }
    return dataclasses.replace(content, tables=tables, notes=(*content.notes, _tell(drained, wanted, known)))


def _look_back(lake: Lake, cluster: str, bundles: set[str], brokers: set[str]) -> _Known:
    known = _Known()
    for snapshot_id, found_bundles, found_brokers in _read_back(lake, cluster):
        fresh = {b.bundle: b for b in found_bundles if b.bundle in bundles and b.reported_at is not None}
        known.newest = known.newest or (snapshot_id if fresh else "")
        known.bundles = fresh | known.bundles
        reported = {b.broker_id: b for b in found_brokers if b.broker_id in brokers and b.reported_at is not None}
        known.brokers = reported | known.brokers
        if bundles <= known.bundles.keys():
            break
    return known


def _read_back(lake: Lake, cluster: str) -> Iterator[tuple[str, list[Bundle], list[Broker]]]:
    """Earlier snapshots, newest first; one that cannot be read is passed over."""
    store = SnapshotStore(lake)
    for snapshot_id in islice(store.newest_first(cluster), MOST_SNAPSHOTS_READ):
        try:
            manifest = store.load(cluster, snapshot_id)
            tables = (
                from_arrow(table, store.read_table(manifest, name), lake.uri_of(manifest.tables[name].path))
                for name, table in (("bundles", Bundle), ("brokers", Broker))
            )
            bundles, brokers = tables
        except InputError as error:
            log.warning("snapshot %s is passed over: %s", snapshot_id, error)
            continue
        yield snapshot_id, bundles, brokers


def _mean(reported: list[Bundle]) -> Mapping[str, float]:
    return {name: fmean(getattr(b, name) for b in reported) if reported else 0.0 for name in (*RATES, *COUNTS)}


def _fill(bundle: Bundle, known: _Known, mean: Mapping[str, float]) -> Bundle:
    last = known.bundles.get(bundle.bundle)
    if last is not None:
        figures: dict[str, Any] = {name: getattr(last, name) for name in (*RATES, *COUNTS)}
        return dataclasses.replace(bundle, **figures, reported_at=last.reported_at)
    guess: dict[str, Any] = {name: mean[name] for name in RATES} | {name: round(mean[name]) for name in COUNTS}
    return dataclasses.replace(bundle, **guess)


def _with_figures(broker: Broker, last: Broker | None) -> Broker:
    return broker if last is None else dataclasses.replace(broker, **{name: getattr(last, name) for name in FIGURES})


def _tell(drained: set[str], wanted: set[str], known: _Known) -> str:
    who = f"broker {min(drained)} is" if len(drained) == 1 else f"{len(drained)} brokers, such as {min(drained)}, are"
    from_history, guessed = len(known.bundles), len(wanted) - len(known.bundles)
    parts = [f"that of {from_history} bundles is taken from snapshot {known.newest} or an earlier one"] * bool(
        from_history
    )
    parts += [f"that of {guessed} bundles is taken as the mean of all reported ones"] * bool(guessed)
    return f"{who} drained without a load report: of the load there, {' and '.join(parts) or 'there is none'}"
