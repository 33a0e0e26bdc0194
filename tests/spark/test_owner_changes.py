"""Changes of owner and returns, against a count by brute force."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from itertools import pairwise

from pyspark.sql import SparkSession

from evenkeel.adapters.lake.snapshots import SnapshotStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.model.audit import Oscillation
from evenkeel_spark.audits import find_owner_changes
from support.lakes import CLUSTER, TAKEN_AT, make_bundle, write_snapshot

BROKERS = ("b1:8080", "b2:8080", "b3:8080")
DAY = timedelta(days=1)


def brute_force(histories: dict[str, list[tuple[datetime, str | None]]], bytes_per_s: int) -> Oscillation:
    """Count moves and returns bundle by bundle."""
    moves = returns = moved_bundles = most = net = 0
    for history in histories.values():
        owned = [(at, owner) for at, owner in history if owner is not None]
        changed: list[tuple[datetime, str, str]] = []
        for (_, before), (at, after) in pairwise(owned):
            if before != after:
                if changed and changed[-1][1] == after and at - changed[-1][0] <= DAY:
                    returns += 1
                changed.append((at, before, after))
        moves += len(changed)
        moved_bundles += bool(changed)
        days = [at.date() for at, _, _ in changed]
        most = max([most, *(days.count(day) for day in days)])
        net += bytes_per_s if changed and changed[0][1] != changed[-1][2] else 0
    return Oscillation(moves, returns, moved_bundles, most, moves * bytes_per_s, net)


def test_oscillation_is_what_brute_force_counts(spark: SparkSession, lake: Lake) -> None:
    seed = 7
    print(f"seed {seed}")
    source = random.Random(seed)
    names = [f"acme/n{place:02}/0x00000000_0xffffffff" for place in range(30)]
    histories: dict[str, list[tuple[datetime, str | None]]] = {name: [] for name in names}
    at = TAKEN_AT
    for _ in range(9):
        at += timedelta(hours=source.choice((1, 5, 11, 25)))
        rows = []
        for name in names:
            last = histories[name][-1][1] if histories[name] else None
            owner = source.choice([*BROKERS, last, last, None])
            histories[name].append((at, owner))
            rows.append(make_bundle(name, owner, throughput_in_bytes_per_s=100.0))
        write_snapshot(lake, rows, taken_at=at)
    store = SnapshotStore(lake)
    manifests = [store.load(CLUSTER, name) for name in store.ids(CLUSTER)]
    changes, figures = find_owner_changes(spark, lake, manifests)
    expected = brute_force(histories, 100)
    assert figures == expected
    assert expected.returns > 5
    assert len(changes) == expected.moves
    assert sum(change.is_return for change in changes) == expected.returns


def test_one_snapshot_shows_no_change(spark: SparkSession, lake: Lake) -> None:
    manifest = write_snapshot(lake, [make_bundle("acme/n/0x00000000_0xffffffff")])
    assert find_owner_changes(spark, lake, [manifest]) == ([], Oscillation(0, 0, 0, 0, 0, 0))
