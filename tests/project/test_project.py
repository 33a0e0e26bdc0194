"""What must hold of the project as a whole."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]


def test_reference_pages_are_what_the_code_says(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(PROJECT / "docs" / "generate.py"), str(tmp_path)], check=True)
    for page in tmp_path.iterdir():
        assert page.read_text() == (PROJECT / "docs" / "reference" / page.name).read_text(), "run make docs"


def test_links_of_the_documents_lead_somewhere() -> None:
    pages = [*PROJECT.glob("*.md"), *(PROJECT / "docs").rglob("*.md")]
    broken = [
        f"{page.name}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []


def test_lock_file_holds_versions_and_hashes_only() -> None:
    lines = (PROJECT / "requirements.lock").read_text().splitlines()
    allowed = re.compile(r"[\w.\[\]-]+==[\w.!+]+( ; .*)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?")
    assert [line for line in lines if not allowed.fullmatch(line)] == []


def test_only_one_distribution_owns_pyspark() -> None:
    owners = {
        dist.metadata["Name"]
        for dist in distributions()
        for file in dist.files or ()
        if str(file) == "pyspark/__init__.py"
    }
    assert owners == {"pyspark"}


def test_ci_calls_the_readmes_test_command() -> None:
    assert "make test" in (PROJECT / ".ci" / "run").read_text()
    assert "make test" in (PROJECT / "README.md").read_text()
    assert "make demo" in (PROJECT / "README.md").read_text()


def test_makefile_lists_its_commands() -> None:
    listed = subprocess.run(["make", "help"], cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    assert {"setup", "demo", "test", "lint", "types", "contracts"} <= set(re.findall(r"make (\S+)", listed))
