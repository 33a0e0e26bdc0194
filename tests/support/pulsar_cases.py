"""Runs cases of Pulsar's behaviour through Evenkeel's rules: `python tests/support/pulsar_cases.py FILE`.

Prints a line for each case that does not agree and ends with a line that counts; exits with 1 if any did not.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

# As a command this file is not inside the package that it imports.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support import case_extensible, case_modular, case_placement, case_ring, case_transfers
from support.case_reading import Case, Comparison

ADAPTERS: Mapping[str, Callable[[Case], Comparison]] = {
    **case_ring.ADAPTERS,
    **case_extensible.ADAPTERS,
    **case_transfers.ADAPTERS,
    **case_modular.ADAPTERS,
    **case_placement.ADAPTERS,
}


def load_cases(file: Path) -> list[tuple[str, Any, Mapping[str, Any]]]:
    """The cases of a file as (id, case, defaults); a file that holds none is a ValueError."""
    document = json.loads(file.read_text(encoding="utf-8"))
    cases = document["cases"] if isinstance(document, dict) else document
    defaults = document.get("defaults", {}) if isinstance(document, dict) else {}
    if not isinstance(cases, list) or not cases or not isinstance(defaults, dict):
        raise ValueError("it holds no list of cases")
    return [(_id_of(case, number), case, defaults) for number, case in enumerate(cases, start=1)]


def run_case(case: Any, defaults: Mapping[str, Any]) -> list[str]:
    """Where a case does not agree, a sentence each; empty where it does. Never raises."""
    try:
        adapter = ADAPTERS.get(case["algorithm"])
        if adapter is None:
            return [f"the algorithm {case['algorithm']!r} is not known"]
        config = {**defaults, **(case.get("config") or {})}
        comparison = adapter(Case(str(case.get("id")), case["algorithm"], config, case["input"], case["expected"]))
    except Exception as error:  # whatever a malformed case leads to is that case's failure
        return [f"the case cannot be run ({type(error).__name__}: {error})"]
    if not comparison.compared:
        return ["the case states nothing that is known how to compare"]
    return comparison.differences


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("give one file of cases: python tests/support/pulsar_cases.py FILE")
        return 2
    try:
        cases = load_cases(Path(arguments[0]))
    except (OSError, ValueError, KeyError) as error:
        print(f"{arguments[0]} is no file of cases ({type(error).__name__}: {error})")
        print("0 passed, 1 failed")
        return 1
    failed = 0
    for case_id, case, defaults in cases:
        differences = run_case(case, defaults)
        if differences:
            failed += 1
            print(f"{case_id}: {'; '.join(differences)}")
    print(f"{len(cases) - failed} passed, {failed} failed")
    return 1 if failed else 0


def _id_of(case: Any, number: int) -> str:
    return str(case.get("id", f"case {number}")) if isinstance(case, dict) else f"case {number}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
