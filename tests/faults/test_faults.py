"""Runs that are broken on purpose: whatever happens to the writer, its history keeps I1 to I11.

`make faults N=1000` runs any number of them; these are fixed seeds that strike with every kind of fault.
"""

from __future__ import annotations

import os

import pytest
from rich.console import Console

from faults.campaign import run_campaign
from faults.cases import Case, all_pairs, case_of, core_pairs, parse_case, seeds_for
from faults.kinds import ALL_MANAGERS, KINDS
from faults.mutants import MUTANTS, ByCase
from faults.run import Result
from faults.tables import build_coverage, count_strikes

BROKE_ONCE = (
    "stall past session | extensible | before, close, 1 | 2089",
    "server restart | extensible | done, conclude, 2 | 2413",
)
"""What once broke an invariant: the session lost before Pulsar's switches were put back, and a server restarted in
mid-wave, so that a step missed its deadline and the next run went on beside it."""
CATCH_MUTANTS = sorted({mutant.caught_by.case for mutant in MUTANTS if isinstance(mutant.caught_by, ByCase)})
"""What catches mutants of the writer must let the writer itself pass."""
CASES = [*map(case_of, seeds_for(core_pairs())), *map(parse_case, (*BROKE_ONCE, *CATCH_MUTANTS))]
WIDE = 240


@pytest.fixture(scope="module")
def results() -> list[Result]:
    def tell(result: Result) -> None:
        print(result)

    return run_campaign(CASES, workers=(os.cpu_count() or 2) * 2, on_result=tell)


@pytest.mark.faults
@pytest.mark.timeout(1_800)
def test_no_invariant_is_broken(results: list[Result]) -> None:
    assert len(results) == len(CASES)
    assert [(r.case, r.kind, r.manager, r.moment, r.violations) for r in results if r.violations] == []


@pytest.mark.faults
@pytest.mark.timeout(1_800)
def test_every_fault_has_struck_where_it_must(results: list[Result]) -> None:
    Console(width=WIDE).print(build_coverage(results))
    struck = count_strikes(results)
    assert [pair for pair in core_pairs() if not struck[pair]] == []
    assert {result.kind for result in results if result.has_fired} == {kind.name for kind in KINDS}
    assert {result.manager for result in results} == set(map(str, ALL_MANAGERS))


def test_seeds_in_a_row_cover_every_fault_at_every_request() -> None:
    seeds = seeds_for(all_pairs())
    assert max(seeds) < len(KINDS) * max(len(kind.at) for kind in KINDS)
    assert {(case.kind.name, case.request) for case in map(case_of, seeds)} >= set(all_pairs())


def test_every_request_of_a_run_is_struck_by_the_tests() -> None:
    assert {request for _, request in core_pairs()} >= {request for _, request in all_pairs()}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_run_is_known_by_its_name(case: Case) -> None:
    assert parse_case(str(case)) == case
