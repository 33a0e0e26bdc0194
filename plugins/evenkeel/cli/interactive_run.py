"""What happens to every plan that a person asks for by hand: gate, approval, apply, verify."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NoReturn, Self

import typer

from evenkeel.adapters.approval_policy import ApprovalPolicy
from evenkeel.adapters.lake.plans import StoredPlan
from evenkeel.adapters.lake.store import Lake
from evenkeel.cli.options import InteractiveOptions, current_person
from evenkeel.cli.output import err, escape, fail, out, print_json, print_next, working
from evenkeel.cli.pictures import describe_step, print_steps
from evenkeel.cli.progress import following
from evenkeel.cli.runs import MOST_SENTENCES_SHOWN, NOT_AS_PLANNED, print_run, print_verification, summarise_run
from evenkeel.model.canonical import short_id
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.plan import ROLLBACK, Rejection, StepKind
from evenkeel.model.plan_summary import summarise
from evenkeel.model.run import RunRecord, RunState, StepState
from evenkeel.model.settings import Settings
from evenkeel.model.verdict import Verdict


@dataclass(slots=True)
class InteractiveRun:
    """Takes a plan through gate, approval, apply and verification while a person waits, and reports each stage."""

    options: InteractiveOptions
    lake: Lake
    connection: ClusterConnection
    settings: Settings
    master: str
    approvals: ApprovalPolicy
    _facts: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_options(cls, options: InteractiveOptions, lake: Lake, cluster: str) -> Self:
        from evenkeel.stages.restore_balancer import restore_first

        approvals = options.approvals_for(cluster)
        if options.is_approved:
            # Before brokers are marked or anything is planned for an approval that would be refused.
            approvals.require_can_approve(cluster)
        connection, settings = options.connection_to(cluster), options.settings_for(cluster)
        with working("looking for switches that were left off"):
            restore_first(connection, settings)
        return cls(options, lake, connection, settings, options.master, approvals)

    @property
    def as_json(self) -> bool:
        return self.options.as_json

    def carry_out(self, stored: StoredPlan) -> None:
        """Go through all stages, or exit with a sentence that says why not; nothing is changed before the approval."""
        self.check(stored)
        self.get_approval(stored)
        run = self.apply(stored)
        self.verify(stored, run)
        if self.as_json:
            print_json(self.document(stored))
        elif stored.plan.strategy != ROLLBACK and any(step.kind == StepKind.TRANSFER for step in stored.steps):
            print_next(self.options.next_command(f"rollback {run.run_id}", is_live=True) + "  (to undo it)")

    def check(self, stored: StoredPlan) -> None:
        from evenkeel.stages.check import check_plan

        with working("running the plan's gate"):
            verdict = check_plan(
                self.lake, stored.plan_id, self.master, self.options.approval_rules_for(stored.plan.cluster)
            )
        warnings = [check.detail for check in verdict.warnings]
        self._facts["gate"] = {"passed": verdict.passed, "warnings": warnings}
        if not self.as_json:
            self._show(stored, warnings)
        if not verdict.passed:
            self._fail(stored, _tell_block(verdict))

    def get_approval(self, stored: StoredPlan) -> None:
        """Take --yes, or ask at the terminal; where nobody can be asked, the plan stays in the lake unapproved."""
        from evenkeel.stages.approve import approve_plan

        if self.options.is_approved:
            how = "command line, --yes"
        elif self.as_json or not (sys.stdin.isatty() and err.is_terminal):
            self._fail(stored, f"the plan is not approved: {self._how_to_go_on(stored)}")
        elif typer.confirm("apply this plan?", err=True):
            how = "command line, asked"
        else:
            self._fail(stored, f"not approved, nothing was changed: {self._how_to_go_on(stored)}")
        approval = approve_plan(self.lake, stored.plan_id, current_person(), how, self.approvals)
        self._facts["approved_by"] = approval.approved_by
        self._facts["approval"] = approval.describe()
        if not self.as_json:
            out.print(escape(approval.describe()))

    def apply(self, stored: StoredPlan) -> RunRecord:
        from evenkeel.stages.apply import apply_plan

        with following(stored.steps, self.as_json) as report:
            run = apply_plan(
                self.lake,
                stored.plan_id,
                self.connection,
                self.settings,
                on_progress=report,
                approvals=self.approvals,
            )
        self._facts["run"] = summarise_run(run)
        if not self.as_json:
            print_run(run)
        if run.state is not RunState.DONE:
            self._fail(stored, run.detail)
        if not run.count(StepState.SETTLED):
            why = run.results[0].detail if run.results else "the plan has no steps"
            self._fail(stored, f"nothing was changed ({why}): run the same command again")
        return run

    def verify(self, stored: StoredPlan, run: RunRecord) -> str:
        """Compare the cluster with a new snapshot, and return its id."""
        from evenkeel.stages.verify import verify_run

        with working("reading the cluster again"):
            result = verify_run(self.lake, run.run_id, self.connection, self.settings)
        self._facts["verification"] = {"passed": result.passed, "deviations": list(result.deviations)}
        if not self.as_json:
            print_verification(result)
        if not result.passed:
            self._fail(stored, NOT_AS_PLANNED)
        return result.snapshot_id

    def show_left(self, rejections: Sequence[Rejection]) -> None:
        """Print which bundles the plan leaves where they are, and why."""
        if self.as_json:
            return
        for row in rejections[:MOST_SENTENCES_SHOWN]:
            out.print(f"[yellow]stays:[/] {escape(str(row.bundle))}: {escape(row.detail)}")
        if len(rejections) > MOST_SENTENCES_SHOWN:
            out.print(f"… and {len(rejections) - MOST_SENTENCES_SHOWN} more stay; --json prints all")

    def note(self, name: str, value: Any) -> None:
        """Add something to the JSON document."""
        self._facts[name] = value

    def document(self, stored: StoredPlan) -> dict[str, Any]:
        """The JSON document: the plan, and the result of every stage so far."""
        return {
            "plan_id": stored.plan_id,
            "plan_uri": stored.uri,
            "strategy": stored.plan.strategy,
            "snapshot_id": stored.plan.snapshot_id,
            "steps": [asdict(step) for step in stored.steps],
            "left": [asdict(row) for row in stored.rejections],
            "disruption": stored.plan.to_json()["disruption"],
            **self._facts,
        }

    def _fail(self, stored: StoredPlan, sentence: str) -> NoReturn:
        fail(self.as_json, self.document(stored), sentence)

    def _how_to_go_on(self, stored: StoredPlan) -> str:
        short = short_id(stored.plan_id)
        approve = self.options.next_command(f"approve {short}")
        apply = self.options.next_command(f"apply {short}", is_live=True)
        return f"it is stored; run `{approve}`, then `{apply}`"

    def _show(self, stored: StoredPlan, warnings: Sequence[str]) -> None:
        summary = summarise(stored.plan, stored.rejections, stored.brokers)
        out.print(f"plan [bold]{stored.plan_id}[/] ({escape(stored.plan.strategy)})")
        if len(stored.steps) <= MOST_SENTENCES_SHOWN:
            for step in stored.steps:
                out.print(f"  {escape(describe_step(step))}")
        else:
            print_steps(stored.steps)
        for sentence in summary.sentences:
            out.print(f"  {escape(sentence)}")
        for warning in warnings:
            out.print(f"  [yellow]warning:[/] {escape(warning)}")


def _tell_block(verdict: Verdict) -> str:
    return f"the gate blocks the plan ({verdict.blocking[0].detail}): fix the cause, then run the same command again"
