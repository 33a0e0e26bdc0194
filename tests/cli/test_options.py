"""Where commands find their values: option, variable, configuration file, default; and what is said where none is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer

from evenkeel.adapters.fencing.directives import PulledSwitch
from evenkeel.adapters.lake.plans import PlanStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.cli.app import Commands, run
from evenkeel.cli.options import InteractiveOptions, command
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.directives import Directive
from evenkeel.model.errors import InputError
from evenkeel.model.run_events import name_run
from evenkeel.model.settings import Settings
from evenkeel.stages.kill_switch import Stop, StoppedRoot
from support import small_plan

TWO_CLUSTERS = """
default_cluster = "prod"

[settings]
tolerance = 0.1

[clusters.prod]
zookeeper = "zk1:2181"
pulsar_root = "/pulsar"
lake = "prod-lake"
spark_master = "local[3]"

[clusters.prod.settings]
wave_steps = 7

[clusters.lab]
zookeeper = "lab:2181"
lake = "lab-lake"
"""
HEAVY = ("numpy", "pyarrow", "pandas", "pyspark", "scipy", "airflow", "great_expectations")


@dataclass(frozen=True)
class Shell:
    """A user's shell in an empty folder, with a home of its own."""

    folder: Path
    captured: pytest.CaptureFixture[str]

    def write(self, text: str = TWO_CLUSTERS, name: str = "evenkeel.toml") -> Path:
        file = self.folder / name
        file.write_text(text)
        return file

    def run(self, *arguments: object) -> tuple[int, str, str]:
        code = run([str(each) for each in arguments])
        shown = self.captured.readouterr()
        return code, shown.out, shown.err


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    for name in list(os.environ):
        if name.startswith("EVENKEEL_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("evenkeel.configuration.SYSTEM_FOLDER", tmp_path / "etc")
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return Shell(folder, capsys)


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[ClusterConnection]:
    """The connections with which `stop` was called, which here stops nothing."""
    seen: list[ClusterConnection] = []

    def remember(connection: ClusterConnection, who: str, reason: str, settings: Settings, wait_s: float) -> Stop:
        seen.append(connection)
        pulled = PulledSwitch(Directive(who, "2026-01-31T03:00:00Z", reason), True, None, 0, 1)
        return Stop((StoppedRoot(connection.evenkeel_root, pulled, None, (), ()),), (), ())

    monkeypatch.setattr("evenkeel.stages.kill_switch.stop_writing", remember)
    return seen


def test_default_cluster_of_the_file_needs_no_options(shell: Shell, connections: list[ClusterConnection]) -> None:
    shell.write()
    code, out, err = shell.run("stop")
    assert (code, err) == (0, "")
    assert connections == [ClusterConnection("prod", "zk1:2181", pulsar_root="/pulsar")]
    assert out.endswith("next: evenkeel resume\n")


def test_option_is_before_variable_is_before_file(
    shell: Shell, connections: list[ClusterConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.write()
    monkeypatch.setenv("EVENKEEL_ZOOKEEPER", "variable:2181")
    monkeypatch.setenv("EVENKEEL_PULSAR_ROOT", "/variable")
    shell.run("stop", "--zookeeper", "option:2181")
    shell.run("stop", "--pulsar-root", "/")
    assert connections[0] == ClusterConnection("prod", "option:2181", pulsar_root="/variable")
    assert connections[1] == ClusterConnection("prod", "variable:2181", pulsar_root="")


def test_config_may_stand_before_or_after_the_command_or_in_the_environment(
    shell: Shell, connections: list[ClusterConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = shell.write(name="mine.toml"), shell.write(TWO_CLUSTERS.replace("zk1", "other"), "other.toml")
    monkeypatch.setenv("EVENKEEL_CONFIG", str(other))
    for arguments in (("stop", "--config", mine), ("--config", mine, "stop"), ("stop",)):
        assert shell.run(*arguments)[0] == 0
    assert [each.zookeeper for each in connections] == ["zk1:2181", "zk1:2181", "other:2181"]


def test_next_command_repeats_what_was_typed_and_nothing_else(
    shell: Shell, connections: list[ClusterConnection]
) -> None:
    shell.write(name="mine.toml")
    out = shell.run("stop", "--config", "mine.toml", "--pulsar-root", "/$pulsar")[1]
    assert out.endswith("next: evenkeel resume --config mine.toml --pulsar-root '/$pulsar'\n")
    out = shell.run("stop", "--config", "mine.toml", "--cluster", "lab")[1]
    assert out.endswith("next: evenkeel resume --config mine.toml --cluster lab\n"), "its lake is not the default one"


def test_settings_file_is_over_the_configuration_file(shell: Shell) -> None:
    shell.write()
    shell.write("wave_steps = 3\n", "settings.toml")
    seen: list[Settings] = []
    probe(lambda where: seen.append(where.settings), "--settings", "settings.toml")
    probe(lambda where: seen.append(where.settings))
    probe(lambda where: seen.append(where.settings), "--cluster", "lab")
    assert [(each.tolerance, each.wave_steps) for each in seen] == [(0.1, 3), (0.1, 7), (0.1, Settings().wave_steps)]


def test_master_and_lake_come_from_the_cluster(shell: Shell) -> None:
    shell.write()
    (shell.folder / "prod-lake").mkdir()
    seen: list[Any] = []
    probe(lambda where: seen.append((where.lake.uri, where.master)))
    probe(lambda where: seen.append((where.lake_to_write.uri, where.master)), "--cluster", "lab")
    prod, lab = (shell.folder / name for name in ("prod-lake", "lab-lake"))
    assert seen == [(prod.as_uri(), "local[3]"), (lab.as_uri(), "local[*]")]


def test_plan_or_run_may_be_a_uri_and_needs_no_lake_then(shell: Shell) -> None:
    (shell.folder / "lake" / "plans").mkdir(parents=True)
    seen: list[Any] = []
    probe(lambda where: seen.append(where.locate("plans", f"{shell.folder}/lake/plans/73c5")))
    assert (seen[0][0].uri, seen[0][1]) == ((shell.folder / "lake").as_uri(), "73c5")


@pytest.mark.parametrize("arguments", [["stop"], ["runs"], ["snapshot"], ["plan"], ["show", "latest"]])
def test_unknown_key_is_one_sentence_whatever_the_command(shell: Shell, arguments: list[str]) -> None:
    file = shell.write(TWO_CLUSTERS + "lakee = 'x'\n")
    assert shell.run(*arguments) == (
        1,
        "",
        f"error: {file}: unknown key clusters.lab.lakee: did you mean lake?\n",
    )


@pytest.mark.parametrize("arguments", [["stop"], ["runs"], ["snapshot"], ["plan"], ["show", "latest"]])
def test_cluster_that_is_not_in_the_file_is_one_sentence(shell: Shell, arguments: list[str]) -> None:
    file = shell.write()
    code, out, err = shell.run(*arguments, "--cluster", "pord")
    assert (code, out) == (1, "")
    assert err == f"error: cluster 'pord' is not in {file}: did you mean prod?\n"
    assert sorted(path.name for path in shell.folder.iterdir()) == ["evenkeel.toml"], "nothing is written"


def test_cluster_that_is_not_in_the_file_works_where_all_is_typed(
    shell: Shell, connections: list[ClusterConnection]
) -> None:
    shell.write()
    assert shell.run("stop", "--cluster", "elsewhere", "--zookeeper", "zk:2181")[0] == 0
    assert connections == [ClusterConnection("elsewhere", "zk:2181")]


def test_two_files_in_reach_are_one_sentence(shell: Shell, connections: list[ClusterConnection]) -> None:
    here = shell.write()
    of_user = Path.home() / ".config" / "evenkeel"
    of_user.mkdir(parents=True)
    (of_user / "evenkeel.toml").write_text(TWO_CLUSTERS)
    code, out, err = shell.run("stop")
    assert (code, out, connections) == (1, "", [])
    assert err == (
        f"error: found more than one configuration file ({here} and {of_user / 'evenkeel.toml'}): "
        "choose one with --config or EVENKEEL_CONFIG\n"
    )
    assert shell.run("stop", "--config", here)[0] == 0


def test_several_clusters_without_a_default_have_to_be_named(shell: Shell) -> None:
    shell.write(TWO_CLUSTERS.replace('default_cluster = "prod"', ""))
    code, _, err = shell.run("plan")
    assert (code, "has several clusters (prod, lab) and no default_cluster: name one with --cluster" in err) == (
        1,
        True,
    )


READERS = (
    *(
        ("runs",),
        ("plan",),
        ("show", "latest"),
        ("check", "latest"),
        ("diff", "latest", "latest"),
        ("approve", "latest"),
    ),
    *(("apply", "latest"), ("verify", "latest"), ("rollback", "latest")),
)


@pytest.mark.parametrize("arguments", READERS, ids=" ".join)
def test_lake_that_does_not_exist_is_one_sentence_and_is_not_made(shell: Shell, arguments: tuple[str, ...]) -> None:
    shell.write()
    code, out, err = shell.run(*arguments)
    lake = shell.folder / "prod-lake"
    assert (code, out) == (1, "")
    assert err.startswith(f"error: the lake {lake.as_uri()} does not exist: ")
    assert err.count("\n") == 1
    assert not lake.exists()


def test_missing_values_are_wrong_usage_and_say_where_to_put_them(shell: Shell) -> None:
    code, out, err = shell.run("snapshot")
    assert (code, out) == (2, "")
    assert "Missing option '--cluster'. Give it, set EVENKEEL_CLUSTER, or write a [clusters.NAME] section" in err
    code, _, err = shell.run("snapshot", "--cluster", "lab")
    assert (code, "Missing option '--zookeeper'" in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "cause", "remedy"),
    [
        (["--json", "plan"], "No such option: --json", "see `evenkeel --help`"),
        (["plan", "--no-such-option", "--json"], "No such option: --no-such-option", "see `evenkeel plan --help`"),
        (["plann", "--json"], "No such command 'plann'. Did you mean plan", "see `evenkeel --help`"),
        (["move", "a/b/c", "--json"], "Missing option '--to'", "see `evenkeel move --help`"),
        (["plan", "--deadline", "soon", "--json"], "Invalid value for '--deadline'", "see `evenkeel plan --help`"),
        (
            ["local", "up", "--brokers", "1", "--json"],
            "Invalid value for '--brokers'",
            "see `evenkeel local up --help`",
        ),
        (["snapshot", "--json"], "Missing option '--cluster'", "see `evenkeel snapshot --help`"),
    ],
)
def test_wrong_usage_is_a_json_document_too(shell: Shell, arguments: list[str], cause: str, remedy: str) -> None:
    code, out, err = shell.run(*arguments)
    assert code == 2
    error = json.loads(out)["error"]
    assert set(error) == {"cause", "remedy"}
    assert cause in error["cause"]
    assert error["remedy"] == remedy
    assert error["cause"] in err


def test_summaries_are_the_first_lines_of_the_commands() -> None:
    for name, lazy in Commands.lazy_commands.items():
        first = (lazy.load(name).help or "").split("\n\n")[0]
        assert first.replace("\n", " ") == lazy.summary, name


def test_every_option_that_says_where_has_its_variable() -> None:
    checked = set()
    for name, lazy in Commands.lazy_commands.items():
        loaded: Any = lazy.load(name)
        for each in [loaded, *getattr(loaded, "commands", {}).values()]:
            for parameter in each.params:
                if getattr(parameter, "rich_help_panel", None) == "Where" or parameter.name in ("home", "logs"):
                    assert str(parameter.envvar).startswith("EVENKEEL_"), (name, parameter.name)
                    checked.add(parameter.envvar)
    assert {"EVENKEEL_CONFIG", "EVENKEEL_CLUSTER", "EVENKEEL_LAKE", "EVENKEEL_ZOOKEEPER", "EVENKEEL_MASTER"} < checked


def modules_after(arguments: list[str], folder: Path) -> set[str]:
    """What a fresh process has imported after a command."""
    listing = folder / "modules.json"
    program = (
        "import json, pathlib, sys\n"
        "from evenkeel.cli.app import run\n"
        f"run({arguments!r})\n"
        f"pathlib.Path({str(listing)!r}).write_text(json.dumps(sorted(sys.modules)))\n"
    )
    subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=120, cwd=folder, check=True)
    return set(json.loads(listing.read_text()))


@pytest.mark.parametrize(
    "arguments", [["--help"], ["stop", "--zookeeper", "127.0.0.1:1", "--cluster", "lab"], ["runs", "--lake", "."]]
)
def test_help_stop_and_runs_import_nothing_heavy(tmp_path: Path, arguments: list[str]) -> None:
    assert modules_after(arguments, tmp_path).isdisjoint(HEAVY)


def test_help_imports_no_command_and_no_rich(tmp_path: Path) -> None:
    imported = modules_after(["--help"], tmp_path)
    assert "rich" not in imported
    assert {name for name in imported if name.startswith("evenkeel")} == {
        *("evenkeel", "evenkeel.cli", "evenkeel.cli.app", "evenkeel.cli.lazy_group")
    }


def probe(look: Callable[[InteractiveOptions], object], *arguments: str) -> None:
    """Run a command that has every option, and look at the values that it gets."""

    @command
    def probing(where: InteractiveOptions) -> None:
        look(where)

    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(probing)
    assert not typer.main.get_command(app).main(list(arguments), standalone_mode=False)


def test_run_that_was_interrupted_is_rolled_back_although_it_has_no_record(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, stored = Lake(str(shell.folder / "lake")), small_plan.stored()
    PlanStore(lake).write(stored.plan, stored.steps, stored.rejections, stored.brokers)
    asked: list[tuple[str, str]] = []

    def plan_rollback(lake: Lake, run: str, connection: ClusterConnection, settings: Settings) -> None:
        asked.append((run, connection.cluster))
        raise InputError("seen", "nothing to do")

    monkeypatch.setattr("evenkeel.stages.rollback.plan_rollback", plan_rollback)
    # There is no ZooKeeper to look for switches in.
    monkeypatch.setattr("evenkeel.stages.restore_balancer.restore_first", lambda connection, settings: None)
    run_id = name_run(stored.plan_id, 7)
    _, _, err = shell.run("rollback", run_id, "--lake", lake.uri, "--zookeeper", "zk1:2181")
    assert (err, asked) == ("error: seen: nothing to do\n", [(run_id, stored.plan.cluster)])
