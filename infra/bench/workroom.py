"""Where the bench keeps what is slow to make: clusters, jars, and answers under the digest of what they depend on."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evenkeel.model.canonical import digest
from evenkeel.model.errors import UnavailableError
from infra.bench.cases import Case
from infra.bench.divided_files import divide_bundles

CLUSTER_FILES = ("brokers.csv", "bundles.csv", "policies.json")


@dataclass(slots=True)
class Workroom:
    """A folder of answers that need not be computed twice; `reused` counts those that were not, by kind."""

    folder: Path
    is_fresh: bool = False
    reused: Counter[str] = field(default_factory=Counter)
    _digests: dict[Path, str] = field(default_factory=dict)
    _dividing: threading.Lock = field(default_factory=threading.Lock)

    def cluster(self, case: Case, generator: Path) -> Path:
        """The folder of a generated cluster; made once by this generator."""
        target = self.folder / "clusters" / self.digest_of(generator)[:12] / case.folder_name
        if all((target / name).is_file() for name in CLUSTER_FILES):
            self.reused["clusters"] += 1
            return target
        command = [sys.executable, generator, case.scenario, case.size.brokers, case.size.bundles, case.seed]
        self.make_folder(target, lambda folder: run_program([*command, folder], f"generating {case}"))
        return target

    def divided_cluster(self, folder: Path, boundaries: Mapping[str, int]) -> Path:
        """The folder of a cluster in which bundles are split at these boundaries; made once."""
        target = folder.with_name(f"{folder.name}-split-{digest(dict(boundaries))[:12]}")
        # Several plans of a cluster are judged at once, and may split alike.
        with self._dividing:
            if not target.is_dir():
                self.make_folder(target, lambda made: divide_bundles(folder, boundaries, made))
        return target

    def answer(self, kind: str, inputs: dict[str, Any], compute: Callable[[], Any]) -> Any:
        """A JSON answer that depends on nothing but these inputs."""
        file = self.folder / kind / f"{digest(inputs)}.json"
        if file.is_file() and not self.is_fresh:
            self.reused[kind] += 1
            return json.loads(file.read_text())
        value = compute()
        file.parent.mkdir(parents=True, exist_ok=True)
        # A bench that is interrupted must not leave half an answer.
        with tempfile.NamedTemporaryFile("w", dir=file.parent, suffix=".part", delete=False) as part:
            json.dump(value, part)
        os.replace(part.name, file)
        return value

    def make_folder(self, target: Path, fill: Callable[[Path], object]) -> None:
        """Fill a folder and only then give it its name."""
        target.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(dir=target.parent, suffix=".part"))
        try:
            fill(part)
            shutil.rmtree(target, ignore_errors=True)
            part.rename(target)
        finally:
            shutil.rmtree(part, ignore_errors=True)

    def digest_of(self, file: Path) -> str:
        if file not in self._digests:
            with file.open("rb") as handle:
                self._digests[file] = hashlib.file_digest(handle, "sha256").hexdigest()
        return self._digests[file]

    def digest_of_cluster(self, folder: Path) -> list[str]:
        return [self.digest_of(folder / name) for name in CLUSTER_FILES]


def run_program(command: Sequence[object], what: str, folder: Path | None = None) -> str:
    """Run a program and answer what it printed; a failure is one sentence with the program's last words."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise UnavailableError(f"{what}: there is no {words[0]}", "install it, or put it on the PATH") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["nothing was printed"]
        raise UnavailableError(
            f"{what} failed with exit code {done.returncode} ({said[-1]})", "run it by hand to see why"
        )
    return done.stdout
