"""The harness of Pulsar's shedders, with Pulsar's real classes."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from benchmarks.clusters.generate import generate_cluster
from benchmarks.clusters.judge import judge, read_cluster
from benchmarks.plan.cache import Cache
from benchmarks.plan.pulsar import CONFIGURATIONS, POM, PulsarShedders, ShedderRun
from evenkeel.local.real_pulsar import jars as real_pulsar
from evenkeel.model.errors import UnavailableError

pytestmark = pytest.mark.pulsar

BROKERS, BUNDLES = 6, 96


@pytest.fixture(scope="module")
def shedders(tmp_path_factory: pytest.TempPathFactory) -> PulsarShedders:
    """Compiled against the jars of the real brokers, which other tests need as well."""
    if shutil.which("javac") is None:
        pytest.fail("the harness needs a JDK: javac was not found")
    return PulsarShedders(Cache(tmp_path_factory.mktemp("bench")), real_pulsar.resolve_jars())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("skew")
    generate_cluster("skew", BROKERS, BUNDLES, 1, folder)
    return folder


@pytest.fixture(scope="module")
def runs(shedders: PulsarShedders, folder: Path) -> dict[str, ShedderRun]:
    return {run.configuration: run for run in shedders.run_all(folder)}


def test_harness_runs_on_the_same_version_as_the_real_brokers() -> None:
    versions = [re.search(r"<pulsar.version>(.+)</pulsar.version>", pom.read_text()) for pom in (POM, real_pulsar.POM)]
    assert versions[0] is not None
    assert versions[1] is not None
    assert versions[0][1] == versions[1][1]


def test_every_configuration_runs_until_it_comes_to_rest(runs: dict[str, ShedderRun]) -> None:
    assert list(runs) == list(CONFIGURATIONS)
    for run in runs.values():
        assert 12 <= run.cycles <= 480
        assert run.decide_ms > 0


def test_steps_lead_from_the_files_to_where_the_bundles_ended(runs: dict[str, ShedderRun], folder: Path) -> None:
    cluster = read_cluster(folder)
    for run in runs.values():
        verdict = judge(cluster, run.steps, 0.05)
        assert (verdict["illegal_count"], verdict["moved_twice"]) == (0, 0)
        # A bundle may be unloaded again, and may return to where it began.
        assert len(run.steps) <= run.unloads - run.repeat_unloads


@pytest.mark.parametrize("configuration", ["TransferShedder-tuned", "AvgShedder"])
def test_shedders_that_act_leave_the_cluster_more_balanced(
    configuration: str, runs: dict[str, ShedderRun], folder: Path
) -> None:
    run = runs[configuration]
    verdict = judge(read_cluster(folder), run.steps, 0.05)
    assert run.unloads > 0
    assert max(verdict["std_after"]) < max(verdict["std_before"])


def test_nothing_is_unloaded_where_all_brokers_carry_the_same(shedders: PulsarShedders, tmp_path: Path) -> None:
    brokers = [f"b{number}:8080" for number in range(4)]
    limits = "cpu_usage,cpu_limit,bandwidth_in_limit,bandwidth_out_limit"
    (tmp_path / "brokers.csv").write_text(
        "\n".join([f"broker_id,{limits}", *(f"{broker},40,100,8000,8000" for broker in brokers)]) + "\n"
    )
    header = "bundle,owner,msg_rate_in,msg_rate_out,throughput_in,throughput_out,topics,producers,consumers"
    rows = [f"t/n{number}/0x00000000_0xffffffff,{brokers[number % 4]},9,9,90,90,1,1,1" for number in range(16)]
    (tmp_path / "bundles.csv").write_text("\n".join([header, *rows]) + "\n")
    (tmp_path / "policies.json").write_text("{}")
    assert [(run.unloads, run.steps) for run in shedders.run_all(tmp_path)] == [(0, [])] * len(CONFIGURATIONS)


def test_every_repetition_is_timed_anew(shedders: PulsarShedders, folder: Path) -> None:
    times_ms = shedders.decide_ms(folder, 3)
    assert len(times_ms) == 3
    assert min(times_ms) > 0


def test_unknown_owner_is_an_error_with_its_name(shedders: PulsarShedders, folder: Path, tmp_path: Path) -> None:
    for name in ("brokers.csv", "bundles.csv", "policies.json"):
        shutil.copyfile(folder / name, tmp_path / name)
    file = tmp_path / "bundles.csv"
    file.write_text(file.read_text().replace("broker-00000.example.com", "nobody"))
    with pytest.raises(UnavailableError, match=r"exit code 1 \(there is no broker 'nobody:8080'"):
        shedders.run_all(tmp_path)


def test_folder_without_pulsars_jars_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="has no pulsar-broker jar"):
        PulsarShedders(Cache(tmp_path / "cache"), tmp_path)
