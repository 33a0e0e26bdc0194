"""Read an expectation suite and judge tables by it in this process, without a JVM and without Great Expectations.

The suites are those of Great Expectations, whose own run on Spark (`spark_suites`) has to give the same checks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from evenkeel.gates.rules import Finding, apply_rule, load_rules
from evenkeel.model.errors import InputError
from evenkeel.model.verdict import Check, Severity
from evenkeel.resources import find_resource

if TYPE_CHECKING:
    import pyarrow as pa

HOLDS = "holds"
UNJUDGED = "{} could not be judged"


def read_suite(name: str) -> Mapping[str, Any]:
    """The plain JSON of a suite."""
    file = find_resource(f"expectations/suites/{name}.json")
    try:
        suite = json.loads(file.read_text())
    except OSError as error:
        raise InputError(f"cannot read the suite {file} ({error.strerror})", "install Evenkeel again") from error
    except ValueError as error:
        raise InputError(f"the suite {file} is not JSON ({error})", "correct the file") from error
    if not isinstance(suite, dict):
        raise InputError(f"the suite {file} is not a JSON object", "correct the file")
    return suite


def judge_tables(name: str, tables: Mapping[str, pa.Table], parameters: Mapping[str, Any]) -> list[Check]:
    """Judge tables by the suite of that name; `$PARAMETER` entries of the suite are looked up in `parameters`."""
    rules = load_rules()
    checks = []
    for entry in read_suite(name)["expectations"]:
        rule = rules[entry["type"]]
        finding = apply_rule(rule, tables[rule.table], resolve_parameters(entry["kwargs"], parameters))
        checks.append(make_check(name, rule.name, rule.description, entry["severity"], finding))
    return checks


def resolve_parameters(kwargs: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a rule, with what is only known when the suite runs filled in."""
    return {
        name: parameters[value["$PARAMETER"]] if isinstance(value, Mapping) else value for name, value in kwargs.items()
    }


def make_check(suite: str, name: str, description: str, severity: str, finding: Finding) -> Check:
    """The check that a finding leads to."""
    if finding.error is not None:
        # What could not be judged must not pass, however little a breach of it would matter.
        detail = f"{UNJUDGED.format(name)} ({finding.error})"
        return Check(suite, name, Severity.CRITICAL, False, description, detail)
    passed = finding.count == 0
    return Check(suite, name, Severity(severity), passed, description, HOLDS if passed else finding.detail)
