"""Two moves become one where a larger bundle does the same."""

from __future__ import annotations

from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.planning.floors import find_band
from evenkeel.planning.merging import merge
from evenkeel.planning.placement import Placement
from evenkeel.planning.problem import build_problem
from evenkeel.planning.pruning import prune
from support.clusters import broker, bundles

# b1: a 100, b 100, c 200 | b2: nothing
PROBLEM = build_problem(
    "b1:8080",
    [broker("b1"), broker("b2")],
    bundles({"b1": [("t/a", 100), ("t/b", 100), ("t/c", 200)]}),
    Policies(),
    Settings(),
)


def placement() -> Placement:
    return Placement(PROBLEM, find_band(PROBLEM, Settings()), Settings())


def test_two_moves_are_merged_into_one() -> None:
    state = placement()
    state.move(0, 1)
    state.move(1, 1)
    merge(state)
    assert state.owner.tolist() == [0, 0, 1]


def test_a_move_that_is_not_needed_is_taken_back() -> None:
    state = placement()
    state.move(2, 1)
    state.move(0, 1)
    state.cap[0, :] = 200
    prune(state)
    assert state.owner.tolist() == [0, 0, 1]
