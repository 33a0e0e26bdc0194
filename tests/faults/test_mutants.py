"""Every mutant of the writer is caught; `make mutants` prints by what."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
from faults.cases import parse_case
from faults.mutants import MUTANTS, ByCase, Edit, Mutant
from faults.mutation import PACKAGE, MutantError, hunt, make
from faults.writer import TESTS

FEWEST_MUTANTS = 25


@pytest.mark.zookeeper
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_mutant_is_caught(mutant: Mutant, zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> None:
    found = hunt(mutant, tmp_path / "mutant", zookeeper.connect_string, zookeeper._data_dir)
    print(found.evidence)
    assert found.is_caught, f"{mutant.caught_by} lets it pass: {found.evidence}"


def test_there_are_many_mutants_each_under_a_name_of_its_own() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= FEWEST_MUTANTS


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_text_of_a_mutant_is_in_the_package_once(mutant: Mutant) -> None:
    assert {edit: (PACKAGE / edit.module).read_text().count(edit.old) for edit in mutant.edits} == dict.fromkeys(
        mutant.edits, 1
    )


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_what_catches_a_mutant_is_there(mutant: Mutant) -> None:
    if isinstance(mutant.caught_by, ByCase):
        parse_case(mutant.caught_by.case)
        return
    module, _, name = mutant.caught_by.test.partition("::")
    assert f"def {name}(" in (TESTS.parent / module).read_text()


def test_mutant_that_would_change_nothing_is_an_error_that_names_it(tmp_path: Path) -> None:
    gone = Mutant("of yesterday", (Edit("ports.py", "a text that nobody has written", ""),), MUTANTS[0].caught_by)
    with pytest.raises(MutantError, match="'of yesterday': its text is 0 times in ports.py, not once"):
        make(gone, tmp_path / "mutant")
