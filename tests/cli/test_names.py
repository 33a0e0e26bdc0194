"""Names from outside that would become paths: one sentence, exit code 1, and nothing written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evenkeel.adapters.lake.store import Lake
from evenkeel.adapters.zookeeper.paths import EvenkeelPaths, PulsarPaths
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import EvenkeelError, InputError
from evenkeel.model.names import require_broker_id, require_cluster_name
from evenkeel.model.request import PlanRequest
from support.commands import UNSIGNED, evenkeel_here
from support.lakes import make_broker, make_bundle, write_snapshot
from support.plans import make_transfers, store_plan

HOSTILE = {
    "up": "..",
    "slash": "a/b",
    "far up": "../../../etc",
    "newline": "a\nb",
    "escape sequence": "a\x1b[2Jb",
    "long": "x" * 10_000,
}
LONGEST_SENTENCE = 1_000
NOBODY = ("--zookeeper", "127.0.0.1:1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a lake that holds a snapshot and an approved plan, and nothing beside it."""
    lake = Lake(str(tmp_path / "lake"))
    bundles = [make_bundle("t/n/0x00000000_0x80000000", "b1:8080"), make_bundle("t/n/0x80000000_0xffffffff", "b2:8080")]
    manifest = write_snapshot(lake, bundles, [make_broker("b1:8080"), make_broker("b2:8080")])
    store_plan(lake, manifest, make_transfers(lake, manifest, 1))
    return tmp_path


def files_of(folder: Path) -> set[str]:
    return {str(file.relative_to(folder.parent)) for file in folder.parent.rglob("*") if "pytest" not in file.name}


COMMANDS = {
    "cluster of snapshot": ("snapshot", *NOBODY, "--cluster", "{}", "--lake", "{lake}"),
    "cluster of plan": ("plan", "--cluster", "{}", "--lake", "{lake}"),
    "cluster of import": (
        *("import", "--brokers", "{folder}/brokers.csv", "--bundles", "{folder}/bundles.csv"),
        *("--cluster", "{}", "--lake", "{lake}"),
    ),
    "cluster of stop": ("stop", *NOBODY, "--cluster", "{}"),
    "cluster of runs": ("runs", "--cluster", "{}", "--lake", "{lake}"),
    "cluster of apply": ("apply", "latest", *NOBODY, "--cluster", "{}", "--lake", "{lake}"),
    "snapshot of plan": ("plan", "--cluster", "test", "--lake", "{lake}", "--snapshot", "{}"),
    "plan of show": ("show", "{}", "--lake", "{lake}"),
    "plan of check": ("check", "{}", "--lake", "{lake}"),
    "plan of approve": ("approve", "{}", "--lake", "{lake}"),
    "plan of apply": ("apply", "{}", *NOBODY, "--cluster", "test", "--lake", "{lake}"),
    "plan of diff": ("diff", "{}", "latest", "--lake", "{lake}"),
    "run of verify": ("verify", "{}", *NOBODY, "--cluster", "test", "--lake", "{lake}"),
    "run of rollback": ("rollback", "{}", *NOBODY, "--cluster", "test", "--lake", "{lake}"),
    "bundle of move": ("move", "{}", "--to", "b1:8080", *NOBODY, "--cluster", "test", "--lake", "{lake}"),
    "broker of move": (
        *("move", "t/n/0x00000000_0x80000000", "--to", "{}"),
        *(*NOBODY, "--cluster", "test", "--lake", "{lake}"),
    ),
    "broker of drain": ("drain", "--broker", "{}", *NOBODY, "--cluster", "test", "--lake", "{lake}"),
}


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_hostile_name_is_one_sentence_and_nothing_is_written(folder: Path, command: tuple[str, ...], name: str) -> None:
    (folder / "brokers.csv").write_text("broker_id\nb1:8080\n")
    (folder / "bundles.csv").write_text("bundle,owner\nt/n/0x00000000_0xffffffff,b1:8080\n")
    before = files_of(folder)
    words = [word.format(name, lake=folder / "lake", folder=folder) for word in command]
    answer = evenkeel_here(*words, "--config", UNSIGNED)
    assert (answer.code, answer.out) == (1, ""), answer.err
    assert "Traceback" not in answer.err
    assert "\x1b[2J" not in answer.err
    assert len(answer.err) < LONGEST_SENTENCE, answer.err[:LONGEST_SENTENCE]
    assert answer.err.count("\n") == 1, answer.err
    assert "did not answer" not in answer.err, "refused before anybody is asked"
    assert files_of(folder) == before


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_hostile_name_never_becomes_a_path(tmp_path: Path, name: str) -> None:
    lake = Lake(str(tmp_path / "lake"))
    for refused in (
        lambda: require_cluster_name(name),
        lambda: require_broker_id(name),
        lambda: ClusterConnection(name, "zk:2181"),
        lambda: PlanRequest(name, "east", "s", "certified", {}, "1"),
    ):
        with pytest.raises(InputError):
            refused()
    if "/" in name or name == ".." or not name.isprintable():
        pulsar, own = PulsarPaths(), EvenkeelPaths("/evenkeel/east")
        for path in (pulsar.broker, pulsar.cluster, own.plan, own.draining_broker):
            with pytest.raises(InputError):
                path(name)
    if name != "a/b":
        for use in (lake.read, lake.exists, lake.names, lambda path: lake.put_if_absent(path, b"x")):
            with pytest.raises(EvenkeelError):
                use(f"plans/{name}/plan.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("bundle", ["../admin/policies", "t/../../admin", "t/n/", "t//x", "t/n/\x00"])
def test_bundle_of_a_hostile_plan_never_becomes_a_path(bundle: str) -> None:
    with pytest.raises(InputError, match="is not a name in a bundle"):
        PulsarPaths("/pulsar").owner("extensible", bundle)


def test_manifest_that_names_a_file_outside_the_lake_is_refused(folder: Path) -> None:
    (manifest,) = (folder / "lake" / "snapshots" / "manifests" / "cluster=test").glob("*.json")
    fields = json.loads(manifest.read_text())
    fields["tables"]["bundles"]["path"] = "../../../../etc/passwd"
    manifest.write_text(json.dumps(fields))
    answer = evenkeel_here("plan", "--cluster", "test", "--lake", folder / "lake")
    assert (answer.code, answer.out) == (1, "")
    assert "'..' cannot be a name in the lake" in answer.err


def test_foreign_names_in_the_lake_are_ignored_with_a_warning(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("a\nb", "a\x1b[2Jb"):
        (folder / "lake" / "plans" / name).mkdir()
        (folder / "lake" / "plans" / name / "plan.json").write_text("{}")
    answer = evenkeel_here("show", "latest", "--lake", folder / "lake", "--json")
    assert answer.code == 0, answer.err
    assert "is not a name of Evenkeel's and is ignored" in caplog.text
    assert "\x1b" not in caplog.text
