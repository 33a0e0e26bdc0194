"""Exit codes, sentences and JSON of single commands."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evenkeel.adapters.lake.store import Lake
from evenkeel.cli.app import app
from evenkeel.model.errors import RefusedError
from evenkeel.model.settings import Settings
from support.commands import UNSIGNED, evenkeel
from support.lakes import make_broker, make_bundle, write_snapshot
from support.plans import make_transfers, store_plan

BUNDLES_CSV = "bundle,owner\nt/n/0x00000000_0x80000000,b1:8080\nt/n/0x80000000_0xffffffff,b1:8080\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "brokers.csv").write_text("broker_id\nb1:8080\n")
    (tmp_path / "bundles.csv").write_text(BUNDLES_CSV)
    return tmp_path


def run_import(folder: Path, *more: object) -> tuple[int, str, str]:
    answer = evenkeel(
        *("import", "--brokers", folder / "brokers.csv", "--bundles", folder / "bundles.csv"),
        *("--cluster", "lab", "--lake", folder / "lake", "--taken-at", "2026-01-31T03:00:00Z", *more),
    )
    return answer.code, answer.out, answer.err


def make_plan(folder: Path, **wishes: object) -> str:
    lake = Lake(str(folder / "lake"))
    bundles = [
        make_bundle("t/n/0x00000000_0x80000000", "b1:8080"),
        make_bundle("t/n/0x80000000_0xffffffff", "b2:8080"),
    ]
    manifest = write_snapshot(lake, bundles, [make_broker("b1:8080"), make_broker("b2:8080")])
    return store_plan(lake, manifest, make_transfers(lake, manifest, 1), **wishes)  # type: ignore[arg-type]


def test_import_prints_the_manifest_and_is_repeatable(folder: Path) -> None:
    first, second = run_import(folder, "--json"), run_import(folder, "--json")
    assert first[0] == 0
    assert first == second, "the same files give the same snapshot"
    assert '"rows": 2' in first[1]


def test_unknown_column_is_named_and_nothing_is_written(folder: Path) -> None:
    (folder / "bundles.csv").write_text(
        BUNDLES_CSV.replace("owner", "owner,colour", 1).replace("b1:8080", "b1:8080,red")
    )
    code, out, err = run_import(folder)
    assert (code, out) == (1, "")
    assert "colour" in err
    assert err.count("\n") == 1, "one sentence"
    assert not (folder / "lake").exists()


def test_error_is_a_json_document_too_when_asked(folder: Path) -> None:
    (folder / "bundles.csv").write_text("bundle,owner\nt/n/0x00000000_0x80000000,b1:8080\n")
    answer = evenkeel(
        *("import", "--brokers", folder / "brokers.csv", "--bundles", folder / "bundles.csv"),
        *("--cluster", "lab", "--lake", folder / "lake", "--json"),
    )
    assert answer.code == 1
    assert "a gap from 0x80000000 to 0xffffffff" in answer.document["error"]["cause"]
    assert answer.document["error"]["remedy"]


@pytest.mark.parametrize(
    "arguments", [["snapshot"], ["plan", "--no-such-option"], ["no-such-command"], ["local", "sideways"]]
)
def test_wrong_usage_is_exit_code_2(arguments: list[str]) -> None:
    assert evenkeel(*arguments).code == 2


def test_unreachable_zookeeper_is_one_sentence_and_nothing_is_written(tmp_path: Path) -> None:
    answer = evenkeel("snapshot", "--zookeeper", "127.0.0.1:1", "--cluster", "lab", "--lake", tmp_path / "lake")
    assert (answer.code, answer.out) == (1, "")
    assert "ZooKeeper at 127.0.0.1:1 did not answer" in answer.err
    assert not (tmp_path / "lake").exists()


def test_chroot_in_the_hosts_is_explained(tmp_path: Path) -> None:
    answer = evenkeel("snapshot", "--zookeeper", "zk:2181/pulsar", "--cluster", "lab", "--lake", tmp_path)
    assert answer.code == 1
    assert "give a chroot as Pulsar's root instead" in answer.err


def test_settings_prints_every_key_with_default_and_meaning() -> None:
    answer = evenkeel("settings", "--json")
    assert {each["key"] for each in answer.document} == set(Settings().to_json())
    assert "tolerance" in evenkeel("settings").out


def test_show_prints_the_steps(folder: Path) -> None:
    plan_id = make_plan(folder)
    answer = evenkeel("show", plan_id[:10], "--lake", folder / "lake", "--steps", "--json")
    (step,) = answer.document["steps"]
    assert answer.code == 0
    assert {"order", "wave", "kind", "bundle", "source", "destination", "reason"} <= set(step)
    lines = [line.strip() for line in evenkeel("show", plan_id, "--lake", folder / "lake", "--steps").out.splitlines()]
    assert f"0  move {step['bundle']} from {step['source']} to {step['destination']}" in lines, "names can be copied"


def test_plan_may_be_named_by_its_directory(folder: Path) -> None:
    plan_id = make_plan(folder)
    uri = f"{(folder / 'lake').as_uri()}/plans/{plan_id}"
    assert evenkeel("show", uri, "--json").document["plan_id"] == plan_id
    assert "give --lake" in evenkeel("show", plan_id).err


def test_plan_whose_bytes_were_changed_is_refused(folder: Path) -> None:
    plan_id = make_plan(folder)
    file = folder / "lake" / "plans" / plan_id / "plan.json"
    file.write_bytes(file.read_bytes() + b" ")
    answer = evenkeel("show", plan_id, "--lake", folder / "lake")
    assert (answer.code, answer.out) == (1, "")
    assert f"the plan id {plan_id} does not match the bytes" in answer.err


def test_approval_is_bound_to_the_plan_id(folder: Path) -> None:
    plan_id = make_plan(folder, is_approved=False)
    answer = evenkeel("approve", plan_id, "--lake", folder / "lake", "--by", "grace", "--json", "--config", UNSIGNED)
    assert answer.document["plan_id"] == plan_id
    again = evenkeel("approve", plan_id, "--lake", folder / "lake", "--config", UNSIGNED, "--json")
    assert again.document["approved_by"] == "grace", "the first approval stands"


def test_plan_that_is_unjudged_blocked_or_expired_cannot_be_approved(folder: Path) -> None:
    unjudged = make_plan(folder, is_approved=False, is_passed=None)
    blocked = make_plan(folder, is_approved=False, is_passed=False)
    expired = make_plan(folder, is_approved=False, expires_at=datetime.now(UTC) - timedelta(seconds=1))
    sentences = {unjudged: "has not passed the gate", blocked: "the gate blocks plan", expired: "expired at"}
    for plan_id, sentence in sentences.items():
        answer = evenkeel("approve", plan_id, "--lake", folder / "lake", "--config", UNSIGNED)
        assert answer.code == 1
        assert sentence in answer.err
        assert not (folder / "lake" / "plans" / plan_id / "approval.json").exists()


def test_lake_without_a_snapshot_says_what_to_do(tmp_path: Path) -> None:
    answer = evenkeel("plan", "--lake", tmp_path, "--cluster", "lab")
    assert answer.code == 1
    assert "no snapshots of cluster 'lab' in" in answer.err
    assert "take one with `evenkeel snapshot`" in answer.err


def test_help_of_every_command_is_there() -> None:
    listed = evenkeel("--help").out
    for command in ("demo", "local", "snapshot", "import", "plan", "show", "check", "approve", "apply", "verify"):
        assert command in listed


def test_help_of_plan_names_the_strategies() -> None:
    listed = " ".join(evenkeel("plan", "--help").out.split())
    assert "certified, transfer-shedder, threshold-shedder" in listed


def test_deadline_of_plan_is_that_of_its_search(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_import(folder)
    asked: list[float | None] = []

    def stop_here(*arguments: object) -> None:
        asked.append(next(each for each in arguments if isinstance(each, Settings)).search_deadline_s)
        raise RefusedError("this test", "ends before Spark begins")

    monkeypatch.setattr("evenkeel.stages.plan.make_plan", stop_here)
    command = ["plan", "--lake", str(folder / "lake"), "--cluster", "lab"]
    for more in ([], ["--deadline", "2.5"]):
        assert CliRunner().invoke(app, [*command, *more]).exit_code == 1
    assert asked == [None, 2.5]


def test_command_line_starts_without_the_heavy_libraries() -> None:
    heavy = ("pyspark", "great_expectations", "scipy", "airflow")
    script = f"import sys, evenkeel.cli.app; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
