"""Judge a plan from the files alone: what it costs, whether it is legal, and how far it is from the best possible.

    python -m benchmarks.clusters.judge FOLDER STEPS [--tolerance 0.05] [--min-utilisation 0.05]

FOLDER holds brokers.csv, bundles.csv and policies.json. STEPS is a JSON list of steps in order, or an object with the
key `steps`; each step has `kind`, `bundle`, `source` and `destination`. Prints one JSON document.

The judge imports nothing from Evenkeel, so it cannot repeat the planner's mistakes. It carries out transfers only. It
counts splits and unloads, and takes steps on bundles that the files do not have for steps on the children of splits.

The band is (1 + tolerance) × the lowest peak utilisation that any placement could reach in a broker's pool if bundles
could be cut at will; it never ends below the least utilisation that is worth balancing. The lower bounds hold for every
plan that brings every broker into the band.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog
from scipy.sparse import coo_array

RESOURCES = ("cpu", "bandwidth_in", "bandwidth_out")
BYTES_PER_KBIT = 125
DEFAULT_TOLERANCE = 0.05
DEFAULT_MIN_UTILISATION = 0.05
LEAST_EXCESS = 1e-9
"""Below that a broker counts as inside the band: sums of floating-point numbers are not more precise."""
MOST_ILLEGAL_LISTED = 20
UTILISATION_DIGITS, SHARE_DIGITS, SESSIONS_DIGITS = 4, 5, 1
_PLAIN_NAME = re.compile(r"[-=:\w/]+")
"""Names without a character that means something in a regular expression."""

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Cluster:
    """The files of a cluster as arrays: brokers and bundles by their row, resources in the order of RESOURCES."""

    brokers: list[str]
    bundles: list[str]
    namespaces: list[str]
    """Namespace of each bundle."""
    limits: Floats
    loads: Floats
    """Load of each bundle, in the unit of the limits."""
    sessions: Floats
    owners: Integers
    eligible: dict[str, frozenset[int]]
    """Brokers that each namespace may use."""
    groups: dict[str, str]
    """Anti-affinity group of each namespace that has one."""

    def utilisation(self, owners: Integers) -> Floats:
        used = np.zeros_like(self.limits)
        np.add.at(used, owners, self.loads)
        return used / self.limits

    def is_misplaced(self, owners: Integers) -> npt.NDArray[np.bool_]:
        pairs = zip(self.namespaces, owners.tolist(), strict=True)
        return np.array([owner not in self.eligible[namespace] for namespace, owner in pairs], dtype=bool)

    def count_violations(self, owners: Integers) -> dict[str, int]:
        """Bundles where their policy forbids them, and the most bundles of one anti-affinity group on one broker."""
        crowds = Counter(
            (self.groups[namespace], owner)
            for namespace, owner in zip(self.namespaces, owners.tolist(), strict=True)
            if namespace in self.groups
        )
        return {
            "misplaced": int(self.is_misplaced(owners).sum()),
            "anti_affinity_peak": max(crowds.values(), default=0),
        }


def read_cluster(folder: Path) -> Cluster:
    brokers, bundles = _read_csv(folder / "brokers.csv"), _read_csv(folder / "bundles.csv")
    policies = json.loads((folder / "policies.json").read_text())
    broker_ids = [row["broker_id"] for row in brokers]
    row_of = {broker: row for row, broker in enumerate(broker_ids)}
    limits = np.stack([_numbers(brokers, f"{resource}_limit") for resource in RESOURCES], axis=1)
    if not (limits > 0).all():
        raise SystemExit(f"{folder / 'brokers.csv'}: every broker needs a positive limit of {', '.join(RESOURCES)}")
    # The brokers' measured cpu, shared out by message rate.
    rates = _numbers(bundles, "msg_rate_in") + _numbers(bundles, "msg_rate_out")
    cpu = rates * (_numbers(brokers, "cpu_usage").sum() / rates.sum())
    bandwidth = [_numbers(bundles, name) / BYTES_PER_KBIT for name in ("throughput_in", "throughput_out")]
    namespaces = [row["bundle"].rpartition("/")[0] for row in bundles]
    return Cluster(
        brokers=broker_ids,
        bundles=[row["bundle"] for row in bundles],
        namespaces=namespaces,
        limits=limits,
        loads=np.stack([cpu, *bandwidth], axis=1),
        sessions=_numbers(bundles, "producers") + _numbers(bundles, "consumers"),
        owners=np.array([row_of[row["owner"]] for row in bundles], dtype=np.int64),
        eligible=find_eligible_brokers(broker_ids, set(namespaces), policies.get("isolation") or {}),
        groups=policies.get("anti_affinity") or {},
    )


def _read_csv(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as handle:
        return list(csv.DictReader(handle))


def _numbers(rows: Sequence[Mapping[str, str]], column: str) -> Floats:
    return np.array([float(row[column]) for row in rows])


def find_eligible_brokers(
    brokers: Sequence[str], namespaces: Iterable[str], isolation: Mapping[str, Any]
) -> dict[str, frozenset[int]]:
    """The brokers that each namespace may use, by Pulsar's rule.

    The first policy that matches a namespace counts: it allows its primaries, and its secondaries while it has fewer
    primaries than `min_limit`. A namespace without a policy may use all brokers that are no policy's primaries.
    """
    hosts = [broker.rpartition(":")[0] for broker in brokers]
    policies, reserved = [], set()
    for policy in isolation.values():
        primaries = _find_matches(policy["primary"], hosts)
        secondaries = _find_matches(policy["secondary"], hosts)
        least = int(policy["auto_failover_policy"]["parameters"]["min_limit"])
        allowed = primaries | secondaries if len(primaries) < least else primaries
        policies.append((_make_matcher(policy["namespaces"]), frozenset(allowed)))
        reserved |= primaries
    shared = frozenset(range(len(hosts))) - reserved
    return {
        namespace: next((allowed for matches, allowed in policies if matches(namespace)), shared)
        for namespace in namespaces
    }


def _find_matches(patterns: Sequence[str], hosts: Sequence[str]) -> set[int]:
    matches = _make_matcher(patterns)
    return {row for row, host in enumerate(hosts) if matches(host)}


def _make_matcher(patterns: Sequence[str]) -> Callable[[str], bool]:
    """A test for a full match with any of the patterns; plain names are looked up, because policies list many."""
    plain = frozenset(pattern for pattern in patterns if _PLAIN_NAME.fullmatch(pattern))
    others = [pattern for pattern in patterns if pattern not in plain]
    if not others:
        return plain.__contains__
    expression = re.compile("|".join(f"(?:{pattern})" for pattern in others))
    return lambda name: name in plain or expression.fullmatch(name) is not None


@dataclass(slots=True)
class Replay:
    """The steps of a plan, carried out one after the other."""

    owners: Integers
    illegal: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    steps_of: Counter[str] = field(default_factory=Counter)
    """Transfers and unloads of each bundle."""
    children: set[str] = field(default_factory=set)


def replay_steps(cluster: Cluster, steps: Iterable[Mapping[str, Any]]) -> Replay:
    """Carry out the transfers, and record every illegal step."""
    broker_row = {broker: row for row, broker in enumerate(cluster.brokers)}
    bundle_row = {bundle: row for row, bundle in enumerate(cluster.bundles)}
    replay = Replay(cluster.owners.copy())
    for step in steps:
        kind, bundle = step["kind"], step["bundle"]
        replay.kinds[kind] += 1
        if kind == "split":
            continue
        if bundle not in bundle_row:
            replay.children.add(bundle)
            continue
        replay.steps_of[bundle] += 1
        if kind != "transfer":
            continue
        row, destination = bundle_row[bundle], broker_row.get(step["destination"])
        if destination is None:
            replay.illegal.append(f"{bundle}: there is no broker {step['destination']}")
            continue
        owner = int(replay.owners[row])
        if step.get("source") and broker_row.get(step["source"]) != owner:
            replay.illegal.append(f"{bundle}: {step['source']} does not own it")
        if destination not in cluster.eligible[cluster.namespaces[row]]:
            replay.illegal.append(f"{bundle}: {step['destination']} is not eligible")
        if destination == owner:
            replay.illegal.append(f"{bundle}: {step['destination']} owns it already")
        replay.owners[row] = destination
    return replay


def find_lowest_peaks(cluster: Cluster) -> Floats:
    """For each broker and resource, the lowest peak utilisation that any placement could reach in the broker's pool.

    Brokers that share no namespace, directly or through other brokers, are in separate pools. A broker that no
    namespace may use is measured against its own limit: load on it breaks a rule, and is not a matter of balance.
    """
    classes: dict[frozenset[int], int] = {}
    class_of = np.array([classes.setdefault(cluster.eligible[name], len(classes)) for name in cluster.namespaces])
    class_loads = np.zeros((len(classes), len(RESOURCES)))
    np.add.at(class_loads, class_of, cluster.loads)
    peaks = np.ones_like(cluster.limits)
    for pool in _join_classes(classes):
        members = sorted(frozenset().union(*pool))
        numbers = [classes[eligible] for eligible in pool]
        places = [[members.index(broker) for broker in sorted(eligible)] for eligible in pool]
        for resource in range(len(RESOURCES)):
            peaks[members, resource] = lowest_peak(
                class_loads[numbers, resource], places, cluster.limits[members, resource]
            )
    return peaks


def _join_classes(classes: Iterable[frozenset[int]]) -> list[list[frozenset[int]]]:
    """Sets of eligible brokers that share a broker, directly or through others, together."""
    pools: list[tuple[frozenset[int], list[frozenset[int]]]] = []
    for eligible in classes:
        if not eligible:
            continue
        touched = [pool for pool in pools if pool[0] & eligible]
        pools = [pool for pool in pools if not pool[0] & eligible]
        brokers = eligible.union(*(pool[0] for pool in touched))
        pools.append((brokers, [*(each for pool in touched for each in pool[1]), eligible]))
    return [pool[1] for pool in pools]


def lowest_peak(loads: Floats, eligible: Sequence[Sequence[int]], limits: Floats) -> float:
    """The least possible highest utilisation when load `k` may be spread at will over the brokers `eligible[k]`."""
    if all(len(brokers) == len(limits) for brokers in eligible):
        return float(loads.sum() / limits.sum())
    # The first variable is the peak; each other one is the load of one class that one broker carries.
    carriers = [(number, broker) for number, brokers in enumerate(eligible) for broker in brokers]
    of_class, on_broker = np.array(carriers).T
    variables = 1 + np.arange(len(carriers))
    every_broker = np.arange(len(limits))
    # Utilisations instead of loads, so that the solver sees numbers near 1.
    scale = limits.mean()
    at_most_peak = coo_array(
        (
            np.concatenate((scale / limits[on_broker], -np.ones(len(limits)))),
            (np.concatenate((on_broker, every_broker)), np.concatenate((variables, np.zeros(len(limits), int)))),
        ),
        shape=(len(limits), 1 + len(carriers)),
    )
    all_carried = coo_array((np.ones(len(carriers)), (of_class, variables)), shape=(len(eligible), 1 + len(carriers)))
    objective = np.zeros(1 + len(carriers))
    objective[0] = 1.0
    solved = linprog(
        objective,
        A_ub=at_most_peak.tocsr(),
        b_ub=np.zeros(len(limits)),
        A_eq=all_carried.tocsr(),
        b_eq=loads / scale,
        method="highs",
    )
    if not solved.success:
        raise SystemExit(f"no lowest peak was found: {solved.message}")
    return float(solved.fun)


@dataclass(frozen=True, slots=True)
class LowerBounds:
    """What every plan into the band costs at least."""

    moves: int
    sessions: float
    loads: Floats
    """Moved load of each resource."""


def raise_peaks(peaks: Floats, tolerance: float, min_utilisation: float) -> Floats:
    """The peaks to measure against: so high that no band ends below the least utilisation that counts."""
    return np.where(peaks > 0, np.maximum(peaks, min_utilisation / (1 + tolerance)), peaks)


def find_lower_bounds(cluster: Cluster, peaks: Floats, tolerance: float) -> LowerBounds:
    """Each broker must lose its misplaced bundles, and enough load of each resource; the costliest need counts."""
    excess = (cluster.utilisation(cluster.owners) - (1 + tolerance) * peaks) * cluster.limits
    excess[excess <= LEAST_EXCESS] = 0.0
    misplaced = cluster.is_misplaced(cluster.owners)
    rows_by_owner = np.split(
        np.argsort(cluster.owners, kind="stable"),
        np.cumsum(np.bincount(cluster.owners, minlength=len(cluster.brokers)))[:-1],
    )
    moves, sessions = 0, 0.0
    for broker, rows in enumerate(rows_by_owner):
        must_leave = rows[misplaced[rows]]
        fewest, cheapest = len(must_leave), float(cluster.sessions[must_leave].sum())
        for resource in np.flatnonzero(excess[broker]):
            loads = cluster.loads[rows, resource]
            fewest = max(fewest, _fewest_bundles(loads, excess[broker, resource]))
            cheapest = max(cheapest, _fewest_sessions(loads, cluster.sessions[rows], excess[broker, resource]))
        moves += fewest
        sessions += cheapest
    return LowerBounds(moves, sessions, excess.sum(axis=0))


def _fewest_bundles(loads: Floats, excess: float) -> int:
    """How many of the largest bundles it takes to shed the excess."""
    return int(np.searchsorted(np.cumsum(np.sort(loads)[::-1]), excess)) + 1


def _fewest_sessions(loads: Floats, sessions: Floats, excess: float) -> float:
    """The fewest sessions that shed the excess if bundles could be cut: those with most load per session first."""
    carrying = loads > 0
    loads, sessions = loads[carrying], sessions[carrying]
    order = np.argsort(sessions / loads)
    shed, cost = np.cumsum(loads[order]), np.cumsum(sessions[order])
    last = min(int(np.searchsorted(shed, excess)), len(shed) - 1)
    surplus = max(shed[last] - excess, 0.0) / loads[order[last]]
    return float(cost[last] - surplus * sessions[order[last]])


def judge(
    cluster: Cluster,
    steps: Sequence[Mapping[str, Any]],
    tolerance: float,
    min_utilisation: float = DEFAULT_MIN_UTILISATION,
) -> dict[str, Any]:
    """The verdict on a plan; lists have one number for each of RESOURCES."""
    peaks = raise_peaks(find_lowest_peaks(cluster), tolerance, min_utilisation)
    bounds = find_lower_bounds(cluster, peaks, tolerance)
    replay = replay_steps(cluster, steps)
    moved = replay.owners != cluster.owners
    totals = cluster.loads.sum(axis=0)
    return {
        "moves": sum(replay.steps_of.values()),
        "moves_lower_bound": bounds.moves,
        "bundles_moved": int(moved.sum()),
        "moved_twice": sum(count > 1 for count in replay.steps_of.values()),
        "moved_share": _rounded(cluster.loads[moved].sum(axis=0) / totals, SHARE_DIGITS),
        "moved_share_lower_bound": _rounded(bounds.loads / totals, SHARE_DIGITS),
        "sessions_moved": int(cluster.sessions[moved].sum()),
        "sessions_lower_bound": round(bounds.sessions, SESSIONS_DIGITS),
        **_describe_balance(cluster, cluster.owners, peaks, "before"),
        **_describe_balance(cluster, replay.owners, peaks, "after"),
        "kinds": dict(replay.kinds),
        "steps_on_children": len(replay.children),
        "illegal": replay.illegal[:MOST_ILLEGAL_LISTED],
        "illegal_count": len(replay.illegal),
    }


def _describe_balance(cluster: Cluster, owners: Integers, peaks: Floats, when: str) -> dict[str, Any]:
    used = cluster.utilisation(owners)
    over_peak = np.divide(used, peaks, out=np.ones_like(used), where=peaks > 0)
    mean = cluster.loads.sum(axis=0) / cluster.limits.sum(axis=0)
    return {
        f"worst_{when}": round(float(over_peak.max()), UTILISATION_DIGITS),
        f"peak_over_bound_{when}": _rounded(over_peak.max(axis=0), UTILISATION_DIGITS),
        f"max_over_mean_{when}": _rounded(used.max(axis=0) / mean, UTILISATION_DIGITS),
        f"std_{when}": _rounded(used.std(axis=0), SHARE_DIGITS),
        f"violations_{when}": cluster.count_violations(owners),
    }


def _rounded(values: Floats, digits: int) -> list[float]:
    return [round(float(value), digits) for value in values]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("steps", type=Path)
    parser.add_argument("--tolerance", type=float, default=DEFAULT_TOLERANCE)
    parser.add_argument("--min-utilisation", type=float, default=DEFAULT_MIN_UTILISATION)
    given = parser.parse_args()
    document = json.loads(given.steps.read_text())
    steps = document["steps"] if isinstance(document, dict) else document
    print(json.dumps(judge(read_cluster(given.folder), steps, given.tolerance, given.min_utilisation)))


if __name__ == "__main__":
    main()
