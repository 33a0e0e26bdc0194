"""Mutants of the guarded writer: each leaves out one thing that keeps it safe, and each must be caught.

A mutant is one or more replacements of text in the package. One whose text is not there exactly once is an error of
this list, which names it: a mutant that changes nothing would be caught by nothing.

It is caught by a run of the fault campaign whose history breaks an invariant, or by a test of its own that fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FENCE, JOURNAL = "adapters/fencing/fence.py", "adapters/fencing/journal.py"
STEP_WRITERS, NATIVE = "adapters/fencing/step_writers.py", "adapters/fencing/native_balancer.py"
SESSIONS = "adapters/zookeeper/session_states.py"
RUN, STEPS, TEARDOWN = "execution/run.py", "execution/steps.py", "execution/teardown.py"
STOP_CONDITIONS, IN_FLIGHT = "execution/stop_conditions.py", "execution/in_flight_steps.py"
RESUMPTION, PREFLIGHT, HEALTH = "execution/resumption.py", "execution/preflight.py", "execution/health.py"
APPLYING, GUARDED = "tests/execution/test_applying.py", "tests/adapters/test_guarded_writer.py"
LOST_ANSWERS, SESSION_STATES = "tests/adapters/test_lost_answers.py", "tests/adapters/test_session_states.py"
TIME, BAD_INPUT = "tests/execution/test_time.py", "tests/execution/test_bad_input.py"
WITHOUT_EFFECT = "tests/execution/test_calls_without_effect.py"


@dataclass(frozen=True, slots=True)
class Edit:
    """One replacement in one module of the package."""

    module: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class ByCase:
    """Caught by a run of the campaign that breaks one of these invariants, or in which the harness finds that word."""

    case: str
    breaks: Sequence[str]

    def __str__(self) -> str:
        return f"{'/'.join(self.breaks)} in {self.case}"


@dataclass(frozen=True, slots=True)
class ByTest:
    """Caught by a test that fails."""

    test: str

    def __str__(self) -> str:
        return self.test


@dataclass(frozen=True, slots=True)
class Mutant:
    """A writer that lacks something."""

    name: str
    edits: Sequence[Edit]
    caught_by: ByCase | ByTest


def _one(name: str, module: str, old: str, new: str, caught_by: ByCase | ByTest) -> Mutant:
    return Mutant(name, (Edit(module, old, new),), caught_by)


_FENCE_CHECK = 'check("fence", self._paths.fence, self._epoch),\n            check("writer"'
_NO_FENCE_CHECK = 'check("fence", self._paths.fence),\n            check("writer"'
_HOLDER_CHECK = '            check("holder", self._own_node),\n'
NO_FAULT = "no fault | extensible | - | 1"

MUTANTS = (
    _one(
        "fence is checked for existence only",
        FENCE,
        _FENCE_CHECK,
        _NO_FENCE_CHECK,
        ByCase("kill switch | extensible | before, step, 5 | 1", ["I10"]),
    ),
    Mutant(
        "neither the fence's version nor its holder is checked",
        (Edit(FENCE, _FENCE_CHECK, _NO_FENCE_CHECK), Edit(FENCE, _HOLDER_CHECK, "")),
        ByCase("late write, fence alone | extensible | before, step, 3 | 1", ["I2"]),
    ),
    _one(
        "holder of the fence is not checked",
        FENCE,
        _HOLDER_CHECK,
        "",
        ByTest(f"{GUARDED}::test_overtaken_writer_is_refused_although_the_root_was_made_again"),
    ),
    _one(
        "fence is released without a proof",
        FENCE,
        '[proof, delete("holder", self._own_node), delete("writer", self._paths.writer)]',
        '[delete("writer", self._paths.writer)]',
        ByCase("late write, fence alone | extensible | before, release, 1 | 1", ["I2"]),
    ),
    _one(
        "kill switch is ignored",
        STOP_CONDITIONS,
        "if stopped_by is not None:",
        "if False:",
        ByCase("kill switch | extensible | before, rehearsal, 1 | 1", ["I10"]),
    ),
    _one(
        "clock is not compared with ZooKeeper's when the fence is taken",
        FENCE,
        "self._require_good_clock(before)\n",
        "pass\n",
        ByTest(f"{GUARDED}::test_clock_that_is_off_must_not_write"),
    ),
    _one(
        "clock is not measured with each batch",
        STEP_WRITERS,
        "        if written:\n            fence.measure_clock(before, written[-1])\n",
        "",
        ByTest(f"{TIME}::test_clock_of_zookeeper_that_moves_in_mid_run_stops_the_line"),
    ),
    _one(
        "clock that is set in mid-run is not noticed",
        "adapters/fencing/cluster_clock.py",
        'self._require_small(abs(shift_s), "what it showed before")',
        "del shift_s",
        ByTest("tests/adapters/test_cluster_clock.py::test_clock_that_was_set_is_noticed_before_anything_is_written"),
    ),
    Mutant(
        "incarnations are not compared",
        (
            Edit(STEPS, "if found != planned:", "if False:"),
            Edit(
                STEP_WRITERS,
                "incarnation_of(node, self._is_modular) != step.destination_incarnation",
                "False",
            ),
        ),
        ByTest(f"{APPLYING}::test_restarted_broker_is_refused_by_name"),
    ),
    _one(
        "destination is not checked in the step's transaction",
        STEP_WRITERS,
        "return [[] if step.destination is None else [self._check(step, nodes[step.destination])] for step in steps]",
        "return [[] for step in steps]",
        ByCase("broker death | extensible | before, step, 4 | 4", ["I6"]),
    ),
    _one(
        "bundle is written at whatever version it has",
        STEP_WRITERS,
        "start.record.encode(), view.znode_version)",
        "start.record.encode())",
        ByCase("foreign writer | extensible | before, step, 3 | 1", ["I3"]),
    ),
    _one(
        "owner of a bundle is not compared before a step",
        STEPS,
        "if view.owner != step.source:\n        return f",
        "if False:\n        return f",
        ByTest(f"{APPLYING}::test_bundle_that_another_hand_moved_is_skipped_with_the_reason"),
    ),
    _one(
        "marks of draining are ignored",
        STEPS,
        "if step.destination in draining:",
        "if False:",
        ByTest(f"{APPLYING}::test_broker_that_was_marked_for_draining_since_the_plan_receives_nothing"),
    ),
    _one(
        "policies are not read again before a wave",
        RUN,
        "        self._require_same_policies()\n",
        "",
        ByTest(f"{APPLYING}::test_policy_that_changed_since_the_snapshot_stops_the_run"),
    ),
    _one(
        "health is not checked after a wave",
        HEALTH,
        "if self._context.task.is_dry_run:\n            return",
        "if True:\n            return",
        ByTest("tests/execution/test_health.py::test_broker_that_restarts_during_the_run_stops_the_line"),
    ),
    _one(
        "end of the window is ignored",
        STOP_CONDITIONS,
        "if until is not None and now >= until:",
        "if False:",
        ByCase("end by the caller | extensible | - | 3", ["I10"]),
    ),
    _one(
        "signal is ignored",
        STOP_CONDITIONS,
        "if self._context.options.should_stop():",
        "if False:",
        ByTest("tests/execution/test_native_balancer.py::test_signal_ends_a_run_in_order"),
    ),
    _one(
        "deadline of a step is ignored",
        IN_FLIGHT,
        "if now_s > pending.deadline_s]",
        "if False]",
        ByTest(f"{APPLYING}::test_deadline_stops_the_line_and_leaves_the_bundle_alone"),
    ),
    _one(
        "more steps are in flight than allowed",
        RUN,
        "free = self.context.settings.in_flight_steps - len(in_flight)",
        "free = len(waiting)",
        ByCase(NO_FAULT, ["I7"]),
    ),
    _one(
        "journal entry is not in the step's transaction",
        JOURNAL,
        "return FencedWrite((*effects, self._record(entry)), self._path(entry), entry.encode())",
        "return FencedWrite(tuple(effects) or (self._record(entry),), self._path(entry), entry.encode())",
        ByCase(NO_FAULT, ["I8"]),
    ),
    _one(
        "write whose reply got lost is taken for done",
        JOURNAL,
        'return WriteOutcome.NOT_DONE, ""',
        'return WriteOutcome.DONE, ""',
        ByTest(
            "tests/adapters/test_lost_answers.py::test_step_that_never_arrived_is_to_be_proved_anew_on_the_same_session"
        ),
    ),
    _one(
        "write whose reply got lost is taken for not done",
        JOURNAL,
        "if witness is not None and witness.data == write.proof:",
        "if False:",
        ByTest(f"{LOST_ANSWERS}::test_step_whose_answer_got_lost_is_found_done_and_not_done_twice"),
    ),
    _one(
        "kazoo's next session goes on for a lost one",
        SESSIONS,
        "**{(_S.LOST, event): _S.LOST for event in SessionEvent},",
        "**{(_S.LOST, event): _S.LOST for event in SessionEvent},\n    (_S.LOST, _E.CONNECTED): _S.CONNECTED,",
        ByTest(f"{SESSION_STATES}::test_lost_session_stays_lost_although_kazoo_connects_again"),
    ),
    _one(
        "step that a dead run has left in flight is taken for settled",
        RESUMPTION,
        "in_flight.add(step, settings.step_deadline_s)\n    elif",
        'results.put(step, StepState.SETTLED, "")\n    elif',
        ByCase("SIGKILL | extensible | done, step, 4 | 1", ["I8"]),
    ),
    _one(
        "failed step of an earlier run is forgotten",
        RESUMPTION,
        "    if failed:\n",
        "    if False:\n",
        ByCase("broker session expiry | extensible | after, step, 7 | 533", ["I9"]),
    ),
    _one(
        "admin call that had no effect is not made again",
        RESUMPTION,
        "elif end is None and context.writer.opening_state is StepState.INTENDED:",
        "elif False:",
        ByTest(f"{WITHOUT_EFFECT}::test_call_that_a_broker_answered_with_an_error_is_made_again_by_the_next_run"),
    ),
    _one(
        "switches are changed before they are noted",
        NATIVE,
        "self._statuses.write(change.status, change.operations)",
        "(self._session.commit(change.operations), self._statuses.write(change.status))",
        ByCase(NO_FAULT, ["I2"]),
    ),
    _one(
        "switch that somebody else has set is undone",
        NATIVE,
        "if _has_unexplained_write(status, node, len(changed), values):",
        "if False:",
        ByCase("switch set to the same | extensible | after, step, 3 | 1", ["I11"]),
    ),
    _one(
        "run does not tear down",
        TEARDOWN,
        "            _close(context, unfinished)\n",
        "",
        ByCase(NO_FAULT, ["I11"]),
    ),
    _one(
        "run that lost its session does not tear down",
        RUN,
        "if outcome.unfinished is not None and not task.is_dry_run:",
        "if False:",
        ByCase("session expiry | extensible | before, step, 4 | 2", ["switches"]),
    ),
    _one(
        "rights are not tried out before the fence",
        RUN,
        "        writer.rehearse(task.steps)\n",
        "",
        ByTest(f"{BAD_INPUT}::test_record_that_must_not_be_written_is_refused_before_anything_is_written"),
    ),
    _one(
        "approval counts whoever has signed it",
        PREFLIGHT,
        "    approvals.require_counts(approval)\n",
        "",
        ByTest("tests/cli/test_approvals.py::test_approval_signed_with_an_unknown_key_is_refused"),
    ),
    _one(
        "expired plan is applied",
        PREFLIGHT,
        "if now >= plan.expires_at:",
        "if False:",
        ByTest(f"{APPLYING}::test_expired_plan_is_refused_and_nothing_is_written"),
    ),
    _one(
        "admin call is made without a look at the fence",
        STEP_WRITERS,
        "        self._guards.fence.require_held()\n        match step.kind:",
        "        match step.kind:",
        ByTest(f"{TIME}::test_no_call_is_made_once_the_fence_is_gone"),
    ),
)
