"""Checks the locked packages against the advisories that pip-audit can reach: `make audit`.

pip-audit ends well if the service does not know a package, so an unreachable service, or a mirror without advisories,
would look like a clean bill of health. Here a package that could not be checked is a failure.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PIP_AUDIT = "pip-audit==2.10.1"
SERVICES = ("pypi", "osv")
TIMEOUT_S = 300
EXCEPTIONS = Path(__file__).with_name("exceptions.toml")
LOCK = Path(__file__).parents[2] / "requirements.lock"
MOST_NAMED = 5


def judge(dependencies: Sequence[Mapping[str, Any]], exceptions: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return what is wrong, one sentence each; an empty list means that every package was checked and is clean."""
    found: list[str] = []
    used: set[str] = set()
    for package in dependencies:
        for vulnerability in package.get("vulns", ()):
            names = {vulnerability["id"], *vulnerability.get("aliases", ())}
            excepted = [name for name in names & exceptions.keys() if exceptions[name]["package"] == package["name"]]
            used.update(excepted)
            if not excepted:
                fixed = ", ".join(vulnerability.get("fix_versions", ())) or "no release yet"
                found.append(f"{package['name']} {package['version']}: {vulnerability['id']}, fixed in {fixed}")
    found += [f"{name} in exceptions.toml no longer applies: remove it" for name in sorted(exceptions.keys() - used)]
    unchecked = [package["name"] for package in dependencies if "skip_reason" in package]
    if unchecked:
        some = ", ".join(unchecked[:MOST_NAMED])
        found.append(f"{len(unchecked)} of {len(dependencies)} packages could not be checked ({some}, …)")
    return found


def load_exceptions(file: Path) -> dict[str, dict[str, str]]:
    """Read the exceptions; one without a package or a reason is an error."""
    exceptions = tomllib.loads(file.read_text())
    for name, entry in exceptions.items():
        if set(entry) != {"package", "reason"} or not entry["reason"].strip():
            raise SystemExit(f"error: {file.name}: {name} needs a package and a reason, and nothing else")
    return exceptions


def ask(service: str) -> list[dict[str, Any]] | None:
    """Return what one service says about each locked package; None where it gave no answer."""
    command = ["uv", "tool", "run", "--from", PIP_AUDIT, "pip-audit", "--requirement", str(LOCK), "--disable-pip"]
    command += ["--no-deps", "--format", "json", "--progress-spinner", "off", "--vulnerability-service", service]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        dependencies: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError):
        return None
    return None if all("skip_reason" in package for package in dependencies) else dependencies


def main() -> int:
    exceptions = load_exceptions(EXCEPTIONS)
    for service in SERVICES:
        dependencies = ask(service)
        if dependencies is None:
            print(f"the advisory service {service} cannot be reached from here, or has no advisories", file=sys.stderr)
            continue
        problems = judge(dependencies, exceptions)
        for problem in problems:
            print(f"error: {problem}", file=sys.stderr)
        if not problems:
            excepted = f"{len(exceptions)} excepted"
            print(f"{len(dependencies)} packages checked with {service}: no known vulnerability, {excepted}")
        return 1 if problems else 0
    print("error: nothing was checked: run this where PyPI or OSV can be reached", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
