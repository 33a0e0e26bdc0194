"""The judge: figures worked out by hand, Pulsar's isolation rule, and bounds that no placement undercuts."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.clusters import judge as judge_module
from benchmarks.clusters.judge import (
    Cluster,
    find_eligible_brokers,
    find_lower_bounds,
    find_lowest_peaks,
    judge,
    lowest_peak,
    read_cluster,
)

BROKERS = ("b1.example.com:8080", "b2.example.com:8080")


def write_cluster(
    folder: Path,
    bundles: list[tuple[str, str, float, int]],
    brokers: tuple[str, ...] = BROKERS,
    policies: dict[str, Any] | None = None,
) -> Cluster:
    """Bundles are name, owner, load and sessions; 1 of load uses a tenth of each resource of a broker."""
    header = (
        "broker_id,cpu_usage,cpu_limit,bandwidth_in_usage,bandwidth_in_limit,bandwidth_out_usage,bandwidth_out_limit"
    )
    total = sum(load for _, _, load, _ in bundles)
    rows = [f"{broker},{total / len(brokers)},10,0,10,0,10" for broker in brokers]
    (folder / "brokers.csv").write_text("\n".join([header, *rows]) + "\n")
    header = "bundle,owner,msg_rate_in,msg_rate_out,throughput_in,throughput_out,topics,producers,consumers"
    rows = [
        f"{name},{owner},{load},{load},{load * 125},{load * 125},1,{sessions},0"
        for name, owner, load, sessions in bundles
    ]
    (folder / "bundles.csv").write_text("\n".join([header, *rows]) + "\n")
    (folder / "policies.json").write_text(json.dumps(policies or {}))
    return read_cluster(folder)


def policy(namespaces: list[str], primary: list[str], secondary: list[str] | None = None, least: int = 1) -> Any:
    parameters = {"min_limit": str(least), "usage_threshold": "80"}
    failover = {"policy_type": "min_available", "parameters": parameters}
    return {
        "namespaces": namespaces,
        "primary": primary,
        "secondary": secondary or [],
        "auto_failover_policy": failover,
    }


def transfer(bundle: str, source: str | None, destination: str) -> dict[str, Any]:
    return {"kind": "transfer", "bundle": bundle, "source": source, "destination": destination}


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """b1: 4 3 2 1    b2: –    with 8, 3, 1 and 5 sessions."""
    loads = [("t/n/a", 4, 8), ("t/n/b", 3, 3), ("t/n/c", 2, 1), ("t/n/d", 1, 5)]
    return write_cluster(tmp_path, [(name, BROKERS[0], load, sessions) for name, load, sessions in loads])


def test_figures_of_a_plan_that_balances_two_brokers(cluster: Cluster) -> None:
    """b1: 3 2    b2: 4 1    The best peak is 5 of 10; without tolerance b1 must lose 5 of its 10."""
    verdict = judge(cluster, [transfer("t/n/a", *BROKERS), transfer("t/n/d", *BROKERS)], 0.0)
    assert (verdict["moves"], verdict["bundles_moved"], verdict["moved_twice"]) == (2, 2, 0)
    assert (verdict["worst_before"], verdict["worst_after"]) == (2.0, 1.0)
    assert (verdict["max_over_mean_before"], verdict["max_over_mean_after"]) == ([2.0] * 3, [1.0] * 3)
    assert (verdict["std_before"], verdict["std_after"]) == ([0.5] * 3, [0.0] * 3)
    assert (verdict["moved_share"], verdict["moved_share_lower_bound"]) == ([0.5] * 3, [0.5] * 3)
    assert verdict["moves_lower_bound"] == 2, "the largest bundle alone sheds 4 of 5"
    assert verdict["sessions_moved"] == 13
    assert verdict["sessions_lower_bound"] == 4.0, "bundles c and b shed exactly 5 with 1 + 3 sessions"
    assert (verdict["illegal"], verdict["illegal_count"]) == ([], 0)


def test_tolerance_widens_the_band_that_the_bounds_are_for(cluster: Cluster) -> None:
    """b1 may keep 6 of 10, so it must shed 4: bundle a, or c and two thirds of b."""
    verdict = judge(cluster, [], 0.2)
    assert verdict["moves_lower_bound"] == 1
    assert verdict["sessions_lower_bound"] == 3.0
    assert verdict["moved_share_lower_bound"] == [0.4] * 3
    assert verdict["worst_after"] == verdict["worst_before"] == 2.0


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        (transfer("t/n/a", BROKERS[0], "b9:8080"), "t/n/a: there is no broker b9:8080"),
        (transfer("t/n/a", BROKERS[1], BROKERS[1]), f"t/n/a: {BROKERS[1]} does not own it"),
        (transfer("t/n/a", BROKERS[0], BROKERS[0]), f"t/n/a: {BROKERS[0]} owns it already"),
    ],
)
def test_illegal_step_is_found(cluster: Cluster, step: dict[str, Any], sentence: str) -> None:
    verdict = judge(cluster, [step], 0.05)
    assert (verdict["illegal"], verdict["illegal_count"]) == ([sentence], 1)


def test_bundle_that_moves_twice_is_counted_once_as_moved_twice(cluster: Cluster) -> None:
    steps = [transfer("t/n/a", *BROKERS), transfer("t/n/a", BROKERS[1], BROKERS[0])]
    verdict = judge(cluster, steps, 0.05)
    assert (verdict["moves"], verdict["bundles_moved"], verdict["moved_twice"]) == (2, 0, 1)
    assert verdict["illegal_count"] == 0


def test_splits_unloads_and_steps_on_children_are_counted_and_move_nothing(cluster: Cluster) -> None:
    steps = [
        {"kind": "split", "bundle": "t/n/a", "source": BROKERS[0], "destination": None},
        transfer("t/n/a-lower", *BROKERS),
        {"kind": "unload", "bundle": "t/n/b", "source": BROKERS[0], "destination": None},
    ]
    verdict = judge(cluster, steps, 0.05)
    assert verdict["kinds"] == {"split": 1, "transfer": 1, "unload": 1}
    assert (verdict["steps_on_children"], verdict["moves"], verdict["bundles_moved"]) == (1, 1, 0)


def test_misplaced_bundles_must_move_and_are_counted_before_and_after(tmp_path: Path) -> None:
    """b1 is reserved for t/vip; its bundle x sits on b2, and the bundle y of t/other sits on b1."""
    bundles = [("t/vip/x", BROKERS[1], 1.0, 7), ("t/other/y", BROKERS[0], 1.0, 2), ("t/other/z", BROKERS[1], 1.0, 3)]
    isolation = {"isolation": {"p": policy(["t/vip"], [r"b1\..*"])}}
    cluster = write_cluster(tmp_path, bundles, policies=isolation)
    verdict = judge(cluster, [transfer("t/vip/x", BROKERS[1], BROKERS[0])], 10.0)
    assert (verdict["violations_before"]["misplaced"], verdict["violations_after"]["misplaced"]) == (2, 1)
    assert (verdict["moves_lower_bound"], verdict["sessions_lower_bound"]) == (2, 9.0)
    wrong = judge(cluster, [transfer("t/other/z", BROKERS[1], BROKERS[0])], 10.0)
    assert wrong["illegal"] == [f"t/other/z: {BROKERS[0]} is not eligible"]


def test_anti_affinity_peak_is_the_largest_crowd_of_one_group_on_one_broker(tmp_path: Path) -> None:
    bundles = [(f"t/{name}/a", BROKERS[0], 1.0, 1) for name in ("x", "y", "z")] + [("t/x/b", BROKERS[1], 1.0, 1)]
    cluster = write_cluster(tmp_path, bundles, policies={"anti_affinity": {"t/x": "g", "t/y": "g", "t/z": "other"}})
    verdict = judge(cluster, [transfer("t/x/a", *BROKERS), transfer("t/y/a", *BROKERS)], 0.05)
    assert verdict["violations_before"]["anti_affinity_peak"] == 2
    assert verdict["violations_after"]["anti_affinity_peak"] == 3


def test_first_matching_policy_decides_and_primaries_are_reserved() -> None:
    brokers = [f"b{number}:8080" for number in range(6)]
    isolation = {
        "first": policy(["t/a.*"], ["b0", "b1"]),
        "second": policy(["t/ab", "t/c"], ["b2"], ["b3"], least=2),
        "third": policy(["t/d"], ["b[24]"], ["b5"], least=2),
    }
    eligible = find_eligible_brokers(brokers, ["t/ab", "t/c", "t/d", "t/free"], isolation)
    assert eligible == {
        "t/ab": {0, 1},  # the literal name in the second policy does not precede the first policy's expression
        "t/c": {2, 3},  # one primary is fewer than two: secondaries too
        "t/d": {2, 4},  # two primaries are enough
        "t/free": {3, 5},  # secondaries are not reserved
    }


def test_broker_that_serves_a_reserved_class_only_may_set_the_peak() -> None:
    limits = np.array([4.0, 4.0])
    assert lowest_peak(np.array([6.0, 2.0]), [[0], [0, 1]], limits) == pytest.approx(1.5)
    assert lowest_peak(np.array([2.0, 6.0]), [[0], [0, 1]], limits) == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(20))
def test_lowest_peak_equals_its_dual(seed: int) -> None:
    """The peak is that of the set of loads with the least capacity for its size, found here by trying all sets."""
    chance = np.random.default_rng(seed)
    limits = chance.uniform(1.0, 8.0, 5)
    loads = chance.uniform(0.0, 9.0, 4)
    eligible = [sorted(chance.choice(5, chance.integers(1, 6), replace=False).tolist()) for _ in loads]
    densest = max(
        loads[list(some)].sum() / limits[sorted({broker for number in some for broker in eligible[number]})].sum()
        for count in range(1, 5)
        for some in itertools.combinations(range(4), count)
    )
    assert lowest_peak(loads, eligible, limits) == pytest.approx(densest, rel=1e-9), f"seed {seed}"


@pytest.mark.parametrize("seed", range(6))
def test_no_placement_inside_the_band_undercuts_a_bound(seed: int, tmp_path: Path) -> None:
    """Tries every placement of 6 bundles on 3 brokers, one of them reserved for one namespace."""
    chance = np.random.default_rng(seed)
    brokers = tuple(f"b{number}:8080" for number in range(3))
    bundles = [
        (f"t/{'vip' if row < 2 else 'n'}/{row}", brokers[chance.integers(0, 2)], float(chance.uniform(1, 2)), row + 1)
        for row in range(6)
    ]
    cluster = write_cluster(tmp_path, bundles, brokers, {"isolation": {"p": policy(["t/vip"], ["b0"])}})
    peaks, tolerance = find_lowest_peaks(cluster), 0.3
    bounds = find_lower_bounds(cluster, peaks, tolerance)
    inside = 0
    for placement in itertools.product(range(3), repeat=6):
        owners = np.array(placement)
        if cluster.is_misplaced(owners).any() or (cluster.utilisation(owners) > (1 + tolerance) * peaks).any():
            continue
        inside += 1
        moved = owners != cluster.owners
        assert moved.sum() >= bounds.moves, f"seed {seed}"
        assert cluster.sessions[moved].sum() >= bounds.sessions - 1e-9, f"seed {seed}"
        assert (cluster.loads[moved].sum(axis=0) >= bounds.loads - 1e-9).all(), f"seed {seed}"
    assert inside > 0, f"seed {seed}: the band is empty, so that nothing was tested"


def test_program_reads_lists_and_objects_of_steps(cluster: Cluster, tmp_path: Path) -> None:
    steps = [transfer("t/n/a", *BROKERS)]
    verdicts = []
    for document in (steps, {"plan_id": "x", "steps": steps}):
        (tmp_path / "steps.json").write_text(json.dumps(document))
        command = [sys.executable, judge_module.__file__, str(tmp_path), str(tmp_path / "steps.json")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        verdicts.append(json.loads(done.stdout))
    assert verdicts[0] == verdicts[1] == judge(cluster, steps, 0.05)


def test_broker_without_a_limit_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "brokers.csv"
    file.write_text(file.read_text().replace(",10,0,10,0,10", ",10,0,-1000,0,10", 1))
    with pytest.raises(SystemExit, match="every broker needs a positive limit of cpu, bandwidth_in, bandwidth_out"):
        read_cluster(tmp_path)
