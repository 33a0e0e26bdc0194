"""Write a synthetic Pulsar cluster as plain files: brokers.csv, bundles.csv and policies.json.

    python -m benchmarks.clusters.generate SCENARIO BROKERS BUNDLES SEED FOLDER

The same arguments give the same files. `evenkeel import` reads them. Scenarios:

    skew      some brokers attract more bundles than others
    scaleout  as skew, and every fifth broker was just added and owns nothing
    hetero    as skew, with brokers of capacity 1, 2 and 4
    heavy     as skew, with a few giant bundles
    multi     as hetero, with bandwidth in, bandwidth out and message rate that vary independently
    policy    as multi, with isolation policies, failure domains, anti-affinity groups and misplaced bundles
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

BUNDLES_PER_NAMESPACE = 16
"""Every namespace has this many equal ranges, so that it tiles the hash ring."""
RING_SIZE, RING_END = 1 << 32, (1 << 32) - 1
TENANTS = 20

MEAN_UTILISATION = 0.45
"""The cluster's load over its capacity, for every resource: busy, with room to move."""
BANDWIDTH_KBPS = 8_000_000
"""Bandwidth of a broker of size 1, in either direction."""
CPU_PERCENT_PER_MSG = 0.001
BYTES_PER_KBIT = 125

BROKER_PULL_SIGMA, BUNDLE_SIZE_SIGMA, OUT_RATIO_SIGMA = 0.45, 1.3, 0.8
MEAN_OUT_RATIO = 0.75
"""Median of bytes out over bytes in, where the two vary independently."""
MESSAGE_BYTES = 1_000
VARIED_MESSAGE_BYTES = (200, 1_000, 4_000)
MEAN_EXTRA_TOPICS, MOST_PRODUCERS, MOST_CONSUMERS = 8.0, 3, 6
"""A bundle has one topic and some more, and producers and consumers in proportion to its topics."""

ZONES = 3
RESERVED_BROKERS_SHARE, BROKERS_PER_POOL = 0.2, 6
ISOLATED_EVERY, ISOLATED_OFFSET = 10, 3
"""Every tenth namespace is isolated, beginning with the fourth."""
MISPLACED_SHARE = 0.01
"""The share of the isolated bundles that sit on a shared broker."""
GROUP_EVERY, GROUP_NAMESPACES = 50, 5
"""The first five of every fifty namespaces without isolation form an anti-affinity group."""

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Scenario:
    """What sets one kind of cluster apart from an evenly sized cluster with skewed ownership."""

    broker_sizes: tuple[int, ...] = (1,)
    empty_every: int | None = None
    pareto_index: float | None = None
    """Bundle sizes follow a Pareto distribution of this index; None: a log-normal one."""
    largest_bundle: float = 0.25
    """The largest bundle, as a part of an average broker's load: larger ones would leave no legal balance."""
    has_varied_mix: bool = False
    has_policies: bool = False


SCENARIOS = {
    "skew": Scenario(),
    "scaleout": Scenario(empty_every=5),
    "hetero": Scenario(broker_sizes=(1, 2, 4)),
    "heavy": Scenario(pareto_index=1.1, largest_bundle=0.45),
    "multi": Scenario(broker_sizes=(1, 2, 4), has_varied_mix=True),
    "policy": Scenario(broker_sizes=(1, 2, 4), has_varied_mix=True, has_policies=True),
}


@dataclass(frozen=True, slots=True)
class Policies:
    """Which brokers each isolated namespace may use, and the document that says so."""

    document: dict[str, Any]
    pools: dict[str, list[int]] = field(default_factory=dict)
    """Brokers of each isolation policy."""
    pool_of: dict[str, str] = field(default_factory=dict)
    """Isolation policy of each isolated namespace."""


@dataclass(frozen=True, slots=True)
class Bundles:
    """The load of all bundles, one array a column; bundles of a namespace follow each other."""

    msg_rate_in: Floats
    msg_rate_out: Floats
    throughput_in: Floats
    throughput_out: Floats
    topics: Integers
    producers: Integers
    consumers: Integers

    def columns(self) -> list[list[Any]]:
        return [getattr(self, name).tolist() for name in LOAD_COLUMNS]


LOAD_COLUMNS = tuple(Bundles.__dataclass_fields__)


def generate_cluster(scenario_name: str, broker_count: int, bundle_count: int, seed: int, folder: Path) -> None:
    """Write the three files of a cluster; the number of bundles is rounded down to whole namespaces."""
    scenario = SCENARIOS[scenario_name]
    chance = np.random.default_rng([seed, *scenario_name.encode()])
    brokers = [f"broker-{number:05d}.example.com:8080" for number in range(broker_count)]
    namespaces = [f"tenant-{number % TENANTS}/ns-{number}" for number in range(bundle_count // BUNDLES_PER_NAMESPACE)]
    sizes = chance.choice(scenario.broker_sizes, broker_count)
    policies = _make_policies(brokers, namespaces) if scenario.has_policies else _no_policies()
    bundles = _make_bundles(scenario, len(namespaces) * BUNDLES_PER_NAMESPACE, sizes, chance)
    owners = _place_bundles(scenario, sizes, namespaces, policies, chance)
    folder.mkdir(parents=True, exist_ok=True)
    _write_csv(folder / "brokers.csv", *_broker_table(brokers, sizes, bundles, owners))
    _write_csv(
        folder / "bundles.csv",
        ("bundle", "owner", *LOAD_COLUMNS),
        zip(_bundle_names(namespaces), [brokers[owner] for owner in owners], *bundles.columns(), strict=True),
    )
    (folder / "policies.json").write_text(json.dumps(policies.document, indent=1) + "\n")


def _no_policies() -> Policies:
    return Policies({"isolation": {}, "failure_domains": {}, "anti_affinity": {}})


def _make_policies(brokers: Sequence[str], namespaces: Sequence[str]) -> Policies:
    """Reserve a fifth of the brokers in pools of about six; spread brokers over zones; form anti-affinity groups."""
    isolated = namespaces[ISOLATED_OFFSET::ISOLATED_EVERY]
    reserved = range(int(len(brokers) * RESERVED_BROKERS_SHARE))
    pool_count = min(max(len(reserved) // BROKERS_PER_POOL, 1), len(isolated)) if reserved else 0
    pools = {f"pool-{number}": list(reserved[number::pool_count]) for number in range(pool_count)}
    pool_of = {name: f"pool-{number % pool_count}" for number, name in enumerate(isolated)} if pools else {}
    free = [name for name in namespaces if name not in pool_of]
    groups = {
        name: f"group-{start // GROUP_EVERY}"
        for start in range(0, len(free), GROUP_EVERY)
        for name in free[start : start + GROUP_NAMESPACES]
    }
    document = {
        "isolation": {
            pool: _isolation_policy(
                [name for name, its_pool in pool_of.items() if its_pool == pool],
                [brokers[member] for member in members],
            )
            for pool, members in pools.items()
        },
        "failure_domains": {
            f"zone-{zone}": list(brokers[zone::ZONES]) for zone in range(ZONES) if brokers[zone::ZONES]
        },
        "anti_affinity": groups,
    }
    return Policies(document, pools, pool_of)


def _isolation_policy(namespaces: list[str], brokers: list[str]) -> dict[str, Any]:
    """Pulsar's document: regular expressions over namespaces and over the hosts of brokers."""
    hosts = [broker.partition(":")[0] for broker in brokers]
    return {
        "namespaces": namespaces,
        "primary": [host.replace(".", r"\.") for host in hosts],
        "secondary": [],
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": "1", "usage_threshold": "80"},
        },
    }


def _make_bundles(scenario: Scenario, count: int, broker_sizes: Integers, chance: np.random.Generator) -> Bundles:
    weights = _bundle_weights(scenario, count, len(broker_sizes), chance)
    capacity_in = float(broker_sizes.sum()) * BANDWIDTH_KBPS * BYTES_PER_KBIT
    throughput_in = weights / weights.sum() * capacity_in * MEAN_UTILISATION
    if scenario.has_varied_mix:
        out_ratio = MEAN_OUT_RATIO * chance.lognormal(0.0, OUT_RATIO_SIGMA, count)
        msg_rate_in = throughput_in / chance.choice(VARIED_MESSAGE_BYTES, count)
    else:
        out_ratio = np.ones(count)
        msg_rate_in = throughput_in / MESSAGE_BYTES
    topics = 1 + chance.exponential(MEAN_EXTRA_TOPICS, count).astype(np.int64)
    return Bundles(
        msg_rate_in=np.round(msg_rate_in, 4),
        msg_rate_out=np.round(msg_rate_in * out_ratio, 4),
        throughput_in=np.round(throughput_in, 2),
        throughput_out=np.round(throughput_in * out_ratio, 2),
        topics=topics,
        producers=topics * chance.integers(1, MOST_PRODUCERS, count, endpoint=True),
        consumers=topics * chance.integers(0, MOST_CONSUMERS, count, endpoint=True),
    )


def _bundle_weights(scenario: Scenario, count: int, broker_count: int, chance: np.random.Generator) -> Floats:
    """Relative sizes, with the largest cut down to what a broker can reasonably carry."""
    if scenario.pareto_index is None:
        weights = chance.lognormal(0.0, BUNDLE_SIZE_SIGMA, count)
    else:
        weights = 1.0 + chance.pareto(scenario.pareto_index, count)
    # The largest bundle is never smaller than the average one, which matters for few bundles on many brokers.
    most = max(scenario.largest_bundle / broker_count, 1.0 / count)
    while weights.max() > most * weights.sum() * (1 + 1e-6):
        # Cutting lowers the sum as well, so that the next round cuts a little more.
        weights = np.minimum(weights, most * weights.sum())
    return weights


def _place_bundles(
    scenario: Scenario, sizes: Integers, namespaces: Sequence[str], policies: Policies, chance: np.random.Generator
) -> Integers:
    """Owners, drawn by how strongly each broker attracts bundles, within the brokers that a bundle may use."""
    pull = chance.lognormal(0.0, BROKER_PULL_SIGMA, len(sizes)) * sizes
    if scenario.empty_every:
        pull[:: scenario.empty_every] = 0.0
    reserved = {member for members in policies.pools.values() for member in members}
    shared = np.array([broker for broker in range(len(sizes)) if broker not in reserved])
    pools = {pool: np.array(members) for pool, members in policies.pools.items()}
    pool_of_bundle = np.repeat([policies.pool_of.get(name, "") for name in namespaces], BUNDLES_PER_NAMESPACE)
    owners = np.empty(len(pool_of_bundle), np.int64)
    for pool in sorted(set(pool_of_bundle.tolist())):
        rows = np.flatnonzero(pool_of_bundle == pool)
        owners[rows] = _draw(pools.get(pool, shared), pull, len(rows), chance)
    isolated = np.flatnonzero(pool_of_bundle != "")
    if len(isolated):
        misplaced = chance.choice(isolated, max(round(len(isolated) * MISPLACED_SHARE), 1), replace=False)
        owners[misplaced] = _draw(shared, pull, len(misplaced), chance)
    return owners


def _draw(brokers: Integers, pull: Floats, count: int, chance: np.random.Generator) -> Integers:
    return chance.choice(brokers, count, p=pull[brokers] / pull[brokers].sum())


def _bundle_names(namespaces: Iterable[str]) -> list[str]:
    step = RING_SIZE // BUNDLES_PER_NAMESPACE
    bounds = [min(number * step, RING_END) for number in range(BUNDLES_PER_NAMESPACE + 1)]
    ranges = [f"0x{low:08x}_0x{high:08x}" for low, high in pairwise(bounds)]
    return [f"{namespace}/{part}" for namespace in namespaces for part in ranges]


def _broker_table(
    brokers: Sequence[str], sizes: Integers, bundles: Bundles, owners: Integers
) -> tuple[Sequence[str], Iterable[Sequence[object]]]:
    """Usage is the sum of the bundles; cpu limits follow the load, so that cpu matters as much as bandwidth."""

    def on_brokers(load: Floats) -> Floats:
        return np.asarray(np.bincount(owners, load, len(brokers)), dtype=np.float64)

    cpu = on_brokers((bundles.msg_rate_in + bundles.msg_rate_out) * CPU_PERCENT_PER_MSG)
    columns = {
        "cpu_usage": np.round(cpu, 4),
        "cpu_limit": np.round(cpu.sum() / MEAN_UTILISATION * sizes / sizes.sum(), 4),
        "bandwidth_in_usage": np.round(on_brokers(bundles.throughput_in / BYTES_PER_KBIT), 3),
        "bandwidth_in_limit": sizes * BANDWIDTH_KBPS,
        "bandwidth_out_usage": np.round(on_brokers(bundles.throughput_out / BYTES_PER_KBIT), 3),
        "bandwidth_out_limit": sizes * BANDWIDTH_KBPS,
    }
    rows = zip(brokers, *(column.tolist() for column in columns.values()), strict=True)
    return ("broker_id", *columns), rows


def _write_csv(file: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with file.open("w", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("brokers", type=int)
    parser.add_argument("bundles", type=int)
    parser.add_argument("seed", type=int)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    if given.brokers < 2:
        parser.error(f"{given.brokers} brokers: a cluster to rebalance has at least 2")
    if given.bundles < BUNDLES_PER_NAMESPACE:
        parser.error(f"{given.bundles} bundles: a namespace has {BUNDLES_PER_NAMESPACE}, so give at least that many")
    generate_cluster(given.scenario, given.brokers, given.bundles, given.seed, given.folder)


if __name__ == "__main__":
    main()
