"""Synthetic clusters: repeatable, importable, and each scenario with what its name promises."""

from __future__ import annotations

import ast
import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.clusters import generate, judge
from benchmarks.clusters.generate import BUNDLES_PER_NAMESPACE, MEAN_UTILISATION, SCENARIOS, generate_cluster
from benchmarks.clusters.judge import Cluster
from benchmarks.plan import cases

BROKERS, BUNDLES = 30, 960
FILES = ("brokers.csv", "bundles.csv", "policies.json")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One cluster of each scenario."""
    home = tmp_path_factory.mktemp("clusters")
    for scenario in SCENARIOS:
        generate_cluster(scenario, BROKERS, BUNDLES, 1, home / scenario)
    return {scenario: home / scenario for scenario in SCENARIOS}


def read(folder: Path) -> Cluster:
    return judge.read_cluster(folder)


def brokers_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "brokers.csv").open(newline="") as handle:
        return list(csv.DictReader(handle))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_same_arguments_give_the_same_files_and_another_seed_does_not(
    scenario: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    generate_cluster(scenario, BROKERS, BUNDLES, 1, tmp_path / "again")
    generate_cluster(scenario, BROKERS, BUNDLES, 2, tmp_path / "other")
    for name in FILES:
        assert (tmp_path / "again" / name).read_bytes() == (folders[scenario] / name).read_bytes()
    assert (tmp_path / "other" / "bundles.csv").read_bytes() != (folders[scenario] / "bundles.csv").read_bytes()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_evenkeel_imports_every_scenario(scenario: str, folders: dict[str, Path]) -> None:
    """The import refuses rings with gaps, unknown owners and contradicting policies."""
    cluster = cases.read_cluster(folders[scenario])
    assert (len(cluster.brokers), len(cluster.bundles)) == (BROKERS, BUNDLES)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_brokers_report_the_sum_of_their_bundles_and_the_cluster_has_room(
    scenario: str, folders: dict[str, Path]
) -> None:
    cluster, rows = read(folders[scenario]), brokers_of(folders[scenario])
    reported = np.array([[float(row[f"{name}_usage"]) for name in judge.RESOURCES] for row in rows])
    used = cluster.utilisation(cluster.owners) * cluster.limits
    np.testing.assert_allclose(reported, used, rtol=1e-6, atol=1e-3)
    mean = used.sum(axis=0) / cluster.limits.sum(axis=0)
    # Bandwidth out follows its own distribution where the mix varies.
    followed = 2 if SCENARIOS[scenario].has_varied_mix else 3
    np.testing.assert_allclose(mean[:followed], MEAN_UTILISATION, rtol=1e-4)
    assert mean.max() < 0.6


def test_number_of_bundles_is_rounded_down_to_whole_namespaces(tmp_path: Path) -> None:
    generate_cluster("skew", 4, 3 * BUNDLES_PER_NAMESPACE + 5, 1, tmp_path)
    assert len(read(tmp_path).bundles) == 3 * BUNDLES_PER_NAMESPACE


def test_skew_is_unbalanced(folders: dict[str, Path]) -> None:
    cluster = read(folders["skew"])
    used = cluster.utilisation(cluster.owners)[:, 0]
    assert used.max() > 1.5 * used.mean()


def test_every_fifth_broker_of_a_scale_out_owns_nothing(folders: dict[str, Path]) -> None:
    owned = np.bincount(read(folders["scaleout"]).owners, minlength=BROKERS)
    assert [row for row, count in enumerate(owned) if count == 0] == list(range(0, BROKERS, 5))


@pytest.mark.parametrize("scenario", ["hetero", "multi", "policy"])
def test_capacities_are_one_two_and_four(scenario: str, folders: dict[str, Path]) -> None:
    limits = read(folders[scenario]).limits
    assert sorted(set((limits[:, 1] / limits[:, 1].min()).tolist())) == [1.0, 2.0, 4.0]
    np.testing.assert_allclose(limits[:, 0] / limits[:, 0].min(), limits[:, 1] / limits[:, 1].min(), rtol=1e-6)


@pytest.mark.parametrize(("scenario", "share"), [("skew", 0.25), ("heavy", 0.45)])
def test_largest_bundle_is_a_limited_part_of_a_brokers_load(
    scenario: str, share: float, folders: dict[str, Path]
) -> None:
    loads = read(folders[scenario]).loads[:, 1]
    assert loads.max() / (loads.sum() / BROKERS) == pytest.approx(share, rel=1e-3)


def test_mix_of_resources_varies_only_where_it_should(folders: dict[str, Path]) -> None:
    spread = {scenario: read(folders[scenario]).loads for scenario in ("skew", "multi")}
    out_over_in = {scenario: loads[:, 2] / loads[:, 1] for scenario, loads in spread.items()}
    cpu_over_in = {scenario: loads[:, 0] / loads[:, 1] for scenario, loads in spread.items()}
    for ratios in (out_over_in, cpu_over_in):
        assert np.std(ratios["skew"]) < 1e-3 * np.mean(ratios["skew"])
        assert np.std(ratios["multi"]) > 0.5 * np.mean(ratios["multi"])


def test_policies_isolate_spread_and_group(folders: dict[str, Path]) -> None:
    cluster = read(folders["policy"])
    policies = json.loads((folders["policy"] / "policies.json").read_text())
    isolated = {name for policy in policies["isolation"].values() for name in policy["namespaces"]}
    assert len(isolated) == len(set(cluster.namespaces)) // 10
    shared = next(cluster.eligible[name] for name in cluster.namespaces if name not in isolated)
    assert all(cluster.eligible[name].isdisjoint(shared) for name in isolated)
    assert sorted(broker for zone in policies["failure_domains"].values() for broker in zone) == cluster.brokers
    assert len(policies["failure_domains"]) == 3
    assert set(policies["anti_affinity"]).isdisjoint(isolated)
    assert len(set(policies["anti_affinity"].values())) == 2
    misplaced = cluster.is_misplaced(cluster.owners)
    assert {cluster.namespaces[row] for row in np.flatnonzero(misplaced)} <= isolated
    assert misplaced.sum() >= 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("calm", "4", "64", "1"), "invalid choice: 'calm'"),
        (("skew", "1", "64", "1"), "1 brokers: a cluster to rebalance has at least 2"),
        (("skew", "4", "15", "1"), "15 bundles: a namespace has 16, so give at least that many"),
    ],
)
def test_impossible_cluster_is_refused(arguments: tuple[str, ...], sentence: str, tmp_path: Path) -> None:
    command = [sys.executable, generate.__file__, *arguments, str(tmp_path / "cluster")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert not (tmp_path / "cluster").exists()


@pytest.mark.parametrize("module", [generate, judge])
def test_generator_and_judge_share_no_code_with_evenkeel(module: object) -> None:
    tree = ast.parse(Path(str(getattr(module, "__file__", ""))).read_text())
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names | {"numpy", "scipy"}
