"""Where bundles are cut, what their children carry, and which bundles are split at all."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from evenkeel.model.bundles import RING_END, BundleRange
from evenkeel.model.figures import StepCounts
from evenkeel.model.load import SplitCandidate
from evenkeel.model.plan import invert
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.planning.cluster.assembly import PlannedCluster
from evenkeel.planning.problem.band import find_band
from evenkeel.planning.problem.problem import build_problem
from evenkeel.planning.splitting.choice import SplitChoice, choose_splits
from evenkeel.planning.splitting.cuts import (
    PPB,
    CutBasis,
    PlannedSplit,
    TopicColumns,
    apply_splits,
    children_of,
    divide,
    find_cut,
)
from evenkeel.planning.verifier.verifier import find_violations
from support.clusters import Cluster, broker, isolation, plan
from support.splits import MIDDLE, WHOLE, cuts_of, split_bundles, split_candidate

RANGE = BundleRange(0, 0x1000)


def topics(*rows: tuple[int, int, int, int]) -> TopicColumns:
    """Topics as (hash, messages, bytes in, bytes out); each has two sessions."""
    columns = np.array(rows, dtype=np.int64).reshape(len(rows), 4).T
    return TopicColumns(*columns, np.full(len(rows), 2))


def test_cut_halves_the_load_not_the_topics() -> None:
    # 100 | 10 10 10 70: four topics above the boundary carry as much as one below it
    cut = find_cut(
        RANGE, topics((0x100, 100, 100, 100), *((0x200 + n, 10, 10, 10) for n in range(3)), (0x300, 70, 70, 70))
    )
    assert cut is not None
    assert cut.boundary_by is CutBasis.TOPIC_LOAD
    assert cut.boundary == 0x100 + 0x100 // 2 + 1
    assert (cut.lower_msg_rate_ppb, cut.lower_throughput_in_ppb) == (PPB // 2, PPB // 2)
    assert (cut.lower_topics_ppb, cut.lower_sessions_ppb) == (PPB // 5, PPB // 5)


def test_cut_is_judged_by_the_resource_that_it_divides_worst() -> None:
    # messages 90 5 5 | bytes 30 30 40: after the first topic 90 % of the messages, after the second 95 %
    cut = find_cut(RANGE, topics((0x100, 90, 30, 30), (0x200, 5, 30, 30), (0x300, 5, 40, 40)))
    assert cut is not None
    assert 0x100 < cut.boundary <= 0x200
    assert cut.lower_throughput_in_ppb == 300_000_000


def test_idle_topics_are_halved_by_number() -> None:
    cut = find_cut(RANGE, topics((0x100, 0, 0, 0), (0x200, 0, 0, 0), (0x300, 0, 0, 0), (0x800, 0, 0, 0)))
    assert cut is not None
    assert cut.boundary_by is CutBasis.TOPIC_COUNT
    assert 0x200 < cut.boundary <= 0x300
    assert cut.lower_throughput_out_ppb == PPB // 2


@pytest.mark.parametrize(
    "known",
    [topics(), topics((0x10, 5, 5, 5)), topics((0x10, 5, 5, 5), (0x10, 7, 7, 7))],
    ids=["none", "one", "one hash"],
)
def test_range_is_halved_where_topics_cannot_be_parted(known: TopicColumns) -> None:
    cut = find_cut(RANGE, known)
    assert cut is not None
    assert (cut.boundary, cut.boundary_by) == (0x800, CutBasis.RANGE)


def test_neighbouring_hashes_are_parted() -> None:
    cut = find_cut(RANGE, topics((7, 1, 1, 1), (8, 1, 1, 1)))
    assert cut is not None
    assert cut.boundary == 8


def test_boundary_is_never_the_end_of_the_ring() -> None:
    last = BundleRange(RING_END - 4, RING_END)
    cut = find_cut(last, topics((RING_END - 1, 1, 1, 1), (RING_END, 1, 1, 1)))
    assert cut is not None
    assert last.lower < cut.boundary < last.upper


def test_range_of_one_hash_has_no_cut() -> None:
    assert find_cut(BundleRange(5, 6), topics()) is None


def test_odd_unit_goes_to_the_lower_child() -> None:
    assert divide(7, PPB // 2) == (4, 3)
    assert divide(3, 2 * PPB // 3) == (2, 1)
    assert divide(0, PPB // 2) == (0, 0)


def test_children_replace_their_parent_and_carry_its_load() -> None:
    bundles = split_bundles({"b1": [("t/a", 101, 5)], "b2": [("t/b", 40, 3)]})
    candidate = split_candidate("t/a", lower_msg_rate_ppb=250_000_000, boundary=0x40000000)
    after = apply_splits(bundles, [PlannedSplit(candidate, "because")])
    rows = {name: row for row, name in enumerate(after.bundle)}
    lower, upper = (rows[f"t/a/0x{ends}"] for ends in ("00000000_0x40000000", "40000000_0xffffffff"))
    assert sorted(after.bundle) == sorted(["t/b/0x00000000_0xffffffff", *children_of(candidate.bundle, 0x40000000)])
    assert after.cpu_millipercent[[lower, upper]].tolist() == [26, 75]
    assert after.throughput_in[[lower, upper]].tolist() == [51, 50]
    assert after.topics[[lower, upper]].tolist() == [3, 2]
    assert after.sessions[[lower, upper]].tolist() == [5, 5]
    assert after.owner[lower] == after.owner[upper] == "b1:8080"
    assert after.version_id[[lower, upper]].tolist() == [1, 1]
    assert after.loads().sum(axis=0).tolist() == bundles.loads().sum(axis=0).tolist()


def test_children_have_no_version_where_their_parent_has_none() -> None:
    bundles = split_bundles({"b1": [("t/a", 10, 2)]})
    imported = dataclasses.replace(bundles, version_id=np.array([None], dtype=object))
    after = apply_splits(imported, [PlannedSplit(split_candidate("t/a"), "because")])
    assert after.version_id.tolist() == [None, None]


def choose(cluster: Cluster, *candidates: SplitCandidate, settings: Settings | None = None) -> SplitChoice:
    settings = settings or Settings()
    problem = build_problem("b1:8080", cluster.brokers, cluster.bundles, cluster.policies, settings)
    return choose_splits(problem, find_band(problem, settings), candidates, settings)


def chosen(choice: SplitChoice) -> list[str]:
    return [split.bundle.rpartition("/")[0] for split in choice.splits]


PAIR = (broker("b1"), broker("b2"))
HUGE = Cluster(PAIR, split_bundles({"b1": [("t/huge", 500, 8), ("t/a", 30, 2)], "b2": [("t/b", 10, 2)]}))


def test_only_what_is_too_big_for_every_broker_is_split_without_hits() -> None:
    # b1: 500 30 | b2: 10 -> the band ends at 283
    asked = [split_candidate(name, reason="TooBig") for name in ("t/huge", "t/a", "t/b")]
    choice = choose(HUGE, *asked)
    assert chosen(choice) == ["t/huge"]
    assert choice.rejections == ()
    assert choice.splits[0].reason == (
        "too big for any broker that may own it: it uses 50.0 % of b1:8080's cpu limit, where the band ends at 28.3 %; "
        "cut at 0x7fffffff by middle of the range"
    )


def test_bundle_is_not_too_big_where_one_broker_is_large_enough() -> None:
    large = Cluster((broker("b1"), broker("b2", 8)), HUGE.bundles)
    assert chosen(choose(large, split_candidate("t/huge", reason="TooBig"))) == []


def test_split_that_leaves_all_load_with_one_child_is_no_help() -> None:
    lopsided = {"lower_msg_rate_ppb": PPB, "lower_throughput_in_ppb": PPB, "lower_throughput_out_ppb": PPB}
    assert chosen(choose(HUGE, split_candidate("t/huge", reason="TooBig", **lopsided))) == []


def test_candidates_of_pip_192_come_first_and_both_caps_hold() -> None:
    one = Settings(max_number_of_bundles_to_split_per_cycle=1)
    asked = [
        split_candidate("t/huge", reason="TooBig"),
        split_candidate("t/b", rank=2),
        split_candidate("t/a", rank=1),
    ]
    assert chosen(choose(HUGE, *asked)) == ["t/a", "t/b", "t/huge"]
    few = choose(HUGE, *asked, settings=one)
    assert chosen(few) == ["t/a"]
    assert [(row.bundle, row.rule) for row in few.rejections] == [
        (f"t/{name}/{WHOLE}", "split-candidate") for name in ("b", "huge")
    ]
    assert "a plan has room for 1 splits" in few.rejections[0].detail
    full = choose(HUGE, split_candidate("t/a", namespace_bundles=128))
    assert chosen(full) == []
    assert "its namespace has room for 128 bundles" in full.rejections[0].detail


@pytest.mark.parametrize(
    ("cluster", "why"),
    [
        (Cluster(PAIR, split_bundles({"b1": [("t/a", 10, 1)]})), "fewer than two topics"),
        (Cluster(PAIR, HUGE.bundles, Policies(excluded_namespaces=frozenset({"t/a"}))), "not be touched (excluded)"),
        (Cluster(PAIR, HUGE.bundles, Policies(anti_affinity={"t/a": "g"})), "anti-affinity group"),
        (Cluster((broker("b1", state="Stopping"), broker("b2")), HUGE.bundles), "its owner b1:8080 is Stopping"),
        (
            Cluster(PAIR, HUGE.bundles, Policies(isolation=(isolation("p", ["t/a"], ["nobody"], ["b2"]),))),
            "has to leave its owner first",
        ),
    ],
)  # fmt: skip
def test_candidate_that_may_not_be_split_is_rejected_with_the_reason(cluster: Cluster, why: str) -> None:
    choice = choose(cluster, split_candidate("t/a"))
    assert choice.splits == ()
    assert [row.bundle for row in choice.rejections] == [f"t/a/{WHOLE}"]
    assert why in choice.rejections[0].detail
    assert "met the condition MsgRate of PIP-192 in 4 snapshots in a row" in choice.rejections[0].detail


def test_candidates_of_other_pools_are_passed_over() -> None:
    assert choose(HUGE, split_candidate("t/elsewhere")) == SplitChoice()


def legal_plan(cluster: Cluster, settings: Settings, *candidates: SplitCandidate) -> PlannedCluster:
    planned = plan(cluster, settings, candidates)
    cuts = cuts_of(*candidates)
    assert find_violations(planned.steps, cluster.brokers, cluster.bundles, cluster.policies, settings, cuts) == []
    return planned


def story(planned: PlannedCluster) -> list[tuple[int, str, str, str | None]]:
    return [(step.wave, step.kind, step.bundle, step.destination) for step in planned.steps]


def test_bundle_too_big_for_any_broker_is_split_and_its_child_moved_in_one_plan() -> None:
    # b1: 1200 of 1000 | b2: 10 -> 600 each, one half moves
    cluster = Cluster(PAIR, split_bundles({"b1": [("t/huge", 1200, 8)], "b2": [("t/b", 10, 2)]}))
    planned = legal_plan(cluster, Settings(), split_candidate("t/huge", reason="TooBig"))
    (_, _, parent, _), (_, _, child, _) = story(planned)
    assert parent == f"t/huge/{WHOLE}"
    assert child in children_of(parent, MIDDLE)
    assert story(planned) == [(0, "split", parent, None), (1, "transfer", child, "b2:8080")]
    assert planned.plan.step_counts == StepCounts(1, 1, 0)
    split, transfer = planned.steps
    assert (split.split_boundary, split.expected_version_id, split.sessions) == (MIDDLE, 2, 0)
    assert (transfer.expected_version_id, transfer.cpu_millipercent, transfer.sessions) == (1, 600, 5)
    assert planned.plan.balance.after["cpu"].max == 0.61
    # a split is not undone, its child goes back
    assert [(step.bundle, step.destination, step.expected_version_id) for step in invert(planned.steps)] == [
        (child, "b1:8080", 4)
    ]


def test_candidate_is_split_even_if_no_child_moves() -> None:
    # b1: 100 | b2: 100
    cluster = Cluster(PAIR, split_bundles({"b1": [("t/a", 100, 8)], "b2": [("t/b", 100, 2)]}))
    assert story(legal_plan(cluster, Settings(), split_candidate("t/a"))) == [(0, "split", f"t/a/{WHOLE}", None)]


def huge_bundles(count: int) -> tuple[Cluster, list[SplitCandidate]]:
    """As many oversized bundles on one broker of each pair, and as many idle brokers."""
    names = [f"t/huge-{number}" for number in range(count)]
    brokers = tuple(broker(f"b{number}") for number in range(1, 2 * count + 1))
    placed = {f"b{number + 1}": [(name, 900, 8)] for number, name in enumerate(names)}
    return Cluster(brokers, split_bundles(placed)), [split_candidate(name, reason="TooBig") for name in names]


def test_children_of_a_split_beyond_the_cap_stay() -> None:
    cluster, asked = huge_bundles(3)
    planned = legal_plan(cluster, Settings(max_number_of_bundles_to_split_per_cycle=2), *asked)
    assert planned.plan.step_counts == StepCounts(2, 2, 0)
    assert [row.bundle for row in planned.rejections if row.rule == "split-candidate"] == [asked[2].bundle]


def test_split_is_left_out_with_the_moves_that_it_was_for() -> None:
    cluster, asked = huge_bundles(2)
    planned = legal_plan(cluster, Settings(max_steps=3), *asked)
    assert planned.plan.step_counts == StepCounts(1, 1, 0)
    assert {(row.rule, row.scope) for row in planned.rejections if row.bundle == asked[1].bundle} == {
        ("no-gain", "bundle")
    }
    none = legal_plan(cluster, Settings(max_steps=1), *asked)
    assert none.steps == []


def test_pools_share_one_cap_of_splits() -> None:
    # p1 for t/p only: p1 p2 | b1 b2; a candidate in each pool, and room for one split
    policies = Policies(isolation=(isolation("p", ["t/p"], ["p."]),))
    brokers = (*PAIR, broker("p1"), broker("p2"))
    cluster = Cluster(brokers, split_bundles({"b1": [("t/a", 900, 8)], "p1": [("t/p", 900, 8)]}), policies)
    asked = [split_candidate("t/a", reason="TooBig"), split_candidate("t/p", reason="TooBig")]
    both = legal_plan(cluster, Settings(), *asked)
    assert both.plan.step_counts == StepCounts(2, 2, 0)
    one = legal_plan(cluster, Settings(max_number_of_bundles_to_split_per_cycle=1), *asked)
    assert one.plan.step_counts == StepCounts(1, 1, 0)
    assert ("split-budget", asked[1].bundle) in {(row.rule, row.bundle) for row in one.rejections}


def test_splits_fill_the_canary_and_the_waves_before_the_first_move() -> None:
    cluster, asked = huge_bundles(4)
    planned = legal_plan(cluster, Settings(canary_steps=2, wave_steps=1), *asked)
    assert [step.kind for step in planned.steps] == ["split"] * 4 + ["transfer"] * 4
    assert [step.wave for step in planned.steps] == [0, 0, 1, 2, 3, 4, 5, 6]


def test_plan_with_splits_does_not_depend_on_the_order_of_the_rows() -> None:
    cluster, asked = huge_bundles(4)
    assert plan(cluster, None, asked) == plan(cluster.shuffled(3), None, asked[::-1])


def test_bundle_that_nobody_can_carry_below_the_overload_line_is_split_however_wide_the_band_is() -> None:
    # b1: 900 of 1000 in one bundle | b2: 10; the band ends far above the limits
    placed = split_bundles({"b1": [("t/huge", 900, 8)], "b2": [("t/b", 10, 2)]})
    cluster = Cluster((broker("b1"), broker("b2")), placed)
    planned = legal_plan(cluster, Settings(tolerance=3.0), split_candidate("t/huge", reason="TooBig"))
    split, move = planned.steps
    assert (split.kind, move.kind, move.destination) == ("split", "transfer", "b2:8080")
    assert "it uses 90.0 % of b1:8080's cpu limit, where the overload line is at 85.0 %" in split.reason
