"""The commands of README.md, run as a reader types them: in order, in one shell, in a fresh folder and home."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.waiting import scaled

PROJECT = Path(__file__).resolve().parents[2]
DEADLINE_S = 800.0
SHOWN_CHARACTERS = 4_000
RUN_TAGS, SHOWN_TAGS = ("console", "bash"), ("text", "toml", "json")
PROMPT = "$ "
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What another test or CI itself runs, and why it is not run again here. A command is matched by how it begins.
RUN_ELSEWHERE = {
    "git clone": "the scratch folder stands for the clone",
    "cd evenkeel": "the scratch folder stands for the clone",
    "make setup": "CI runs it before any test; the scratch folder uses that .venv",
    "make demo": "tests/cli/test_demo.py runs the demo with both load managers",
    "make check": "CI runs all of it as part of make test",
    "make test": "it runs this test",
}
NOT_INHERITED = ("EVENKEEL_", "AIRFLOW", "SPARK_", "PYSPARK_", "VIRTUAL_ENV")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of the README; `line` is where it begins."""

    line: int
    tag: str
    text: str

    @property
    def commands(self) -> list[str]:
        """The commands in it: the lines after a prompt, or every line where there is no prompt."""
        lines = self.text.replace("\\\n", " ").splitlines()
        prompted = [line.removeprefix(PROMPT) for line in lines if line.startswith(PROMPT)]
        return [line.strip() for line in prompted or lines if line.strip() and not line.lstrip().startswith("#")]


def read_blocks(page: str) -> list[Block]:
    return [Block(page.count("\n", 0, found.start()) + 1, found[1], found[2]) for found in FENCED.finditer(page)]


def is_run_elsewhere(command: str) -> bool:
    return command.startswith(tuple(RUN_ELSEWHERE))


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """A folder that looks like a clone after `make setup`; a local cluster that was left running is stopped."""
    folder = tmp_path / "evenkeel"
    folder.mkdir()
    (tmp_path / "home").mkdir()
    (folder / ".venv").symlink_to(Path(sys.executable).parents[1])
    for name in ("README.md", "dags", "spark", "expectations", "plugins"):
        (folder / name).symlink_to(PROJECT / name)
    yield folder
    if (folder / ".evenkeel").exists():
        evenkeel = str(folder / ".venv" / "bin" / "evenkeel")
        subprocess.run([evenkeel, "local", "down"], cwd=folder, env=fresh_environment(folder), check=False)


def fresh_environment(folder: Path) -> dict[str, str]:
    """What a reader's shell has: none of this test run's variables, and no evenkeel on the path yet."""
    usual = {name: value for name, value in os.environ.items() if not name.startswith(NOT_INHERITED)}
    own = str(Path(sys.executable).parent)
    path = os.pathsep.join(part for part in usual["PATH"].split(os.pathsep) if part != own)
    return usual | {"HOME": str(folder.parent / "home"), "PATH": path}


def run_script(script: str, folder: Path) -> tuple[int, str]:
    """Run a script until its first failure; returns the exit code and everything shown, and leaves nothing running."""
    with subprocess.Popen(
        [shutil.which("bash") or "bash", "-e", "-o", "pipefail", "-c", script],
        cwd=folder,
        env=fresh_environment(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as shell:
        try:
            shown, _ = shell.communicate(timeout=scaled(DEADLINE_S))
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, signal.SIGKILL)
            shown, _ = shell.communicate()
    return shell.returncode, shown


@pytest.mark.zookeeper
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_commands_of_the_readme_run_in_order(scratch: Path) -> None:
    blocks = read_blocks((PROJECT / "README.md").read_text())
    commands = [(block.line, line) for block in blocks if block.tag in RUN_TAGS for line in block.commands]
    wanted = [(line, command) for line, command in commands if not is_run_elsewhere(command)]
    assert wanted, "README.md has no command to run"
    # The shell says how far it came, since commands print what they like.
    script = "".join(f"echo 'README.md:{line}' >> progress\n{command}\n" for line, command in wanted)
    code, shown = run_script(script, scratch)
    came = (scratch / "progress").read_text().splitlines()
    line, command = wanted[len(came) - 1]
    assert code == 0, f"README.md, block at line {line}: {command}\n{shown[-SHOWN_CHARACTERS:]}"
    assert len(came) == len(wanted)


@pytest.mark.parametrize(
    ("page", "commands"),
    [
        ("```console\n$ evenkeel runs\nno runs yet\n```\n", ["evenkeel runs"]),
        (
            "```bash\n# first\nevenkeel plan \\\n  --json\n\nevenkeel runs\n```\n",
            ["evenkeel plan    --json", "evenkeel runs"],
        ),
    ],
)
def test_prompts_comments_and_continued_lines_are_understood(page: str, commands: list[str]) -> None:
    (block,) = read_blocks(page)
    assert block.commands == commands


def test_every_block_of_the_readme_says_whether_it_is_run() -> None:
    blocks = read_blocks((PROJECT / "README.md").read_text())
    assert [block.line for block in blocks if block.tag not in (*RUN_TAGS, *SHOWN_TAGS)] == []
