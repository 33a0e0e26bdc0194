"""The one way that every plan goes which a person asks for: gate, a person's yes, apply, verify."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NoReturn

import typer

from evenkeel.adapters.lake import Lake
from evenkeel.adapters.plans import StoredPlan
from evenkeel.cli.options import current_user
from evenkeel.cli.output import err, escape, fail, out, print_json, working
from evenkeel.cli.pictures import print_steps
from evenkeel.cli.progress import following
from evenkeel.cli.runs import MOST_SENTENCES_SHOWN, NOT_AS_PLANNED, print_run, print_verification, summarise_run
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.plan import Rejection, Step, StepKind
from evenkeel.model.run import RunRecord, RunState, StepState
from evenkeel.model.settings import Settings
from evenkeel.model.verdict import Verdict


@dataclass(slots=True)
class Way:
    """Gate, approval, apply and verify for a plan that a person is waiting for; tells each stage as it comes."""

    lake: Lake
    connection: ClusterConnection
    settings: Settings
    master: str
    is_approved: bool
    as_json: bool
    _told: dict[str, Any] = field(default_factory=dict)

    def carry_out(self, stored: StoredPlan) -> None:
        """Go all the way, or end with the sentence that says why not; nothing is changed before the yes."""
        self.check(stored)
        self.get_approval(stored)
        run = self.apply(stored)
        self.verify(stored, run)
        if self.as_json:
            print_json(self.told(stored))

    def check(self, stored: StoredPlan) -> None:
        from evenkeel.stages.check import check_plan

        with working("judging the plan"):
            verdict = check_plan(self.lake, stored.plan_id, self.master)
        warnings = [check.detail for check in verdict.warnings]
        self._told["gate"] = {"passed": verdict.passed, "warnings": warnings}
        if not self.as_json:
            self._show(stored, warnings)
        if not verdict.passed:
            self._fail(stored, _tell_block(verdict))

    def get_approval(self, stored: StoredPlan) -> None:
        """A yes by --yes or on the terminal; where nobody can be asked, the plan waits in the lake for one."""
        from evenkeel.stages.approve import approve_plan

        if self.is_approved:
            how = "command line, --yes"
        elif self.as_json or not (sys.stdin.isatty() and err.is_terminal):
            self._fail(stored, f"nobody has approved it: {self._how_to_go_on(stored)}")
        elif typer.confirm("apply it?", err=True):
            how = "command line, asked"
        else:
            self._fail(stored, f"not approved, so nothing was changed: {self._how_to_go_on(stored)}")
        approval = approve_plan(self.lake, stored.plan_id, current_user(), how)
        self._told["approved_by"] = approval.approved_by

    def apply(self, stored: StoredPlan) -> RunRecord:
        from evenkeel.stages.apply import apply_plan

        with following(stored.steps, self.as_json) as report:
            run = apply_plan(
                self.lake, stored.plan_id, self.connection, self.settings, dry_run=False, on_progress=report
            )
        self._told["run"] = summarise_run(run)
        if not self.as_json:
            print_run(run)
        if run.state is not RunState.DONE:
            self._fail(stored, run.detail)
        if not run.count(StepState.SETTLED):
            why = run.results[0].detail if run.results else "it has no steps"
            self._fail(stored, f"nothing was changed ({why}): run the same command again")
        return run

    def verify(self, stored: StoredPlan, run: RunRecord) -> str:
        """Compare with a new snapshot, and answer its id."""
        from evenkeel.stages.verify import verify_run

        with working("reading the cluster again"):
            result = verify_run(self.lake, run.run_id, self.connection, self.settings)
        self._told["verification"] = {"passed": result.passed, "deviations": list(result.deviations)}
        if not self.as_json:
            print_verification(result)
        if not result.passed:
            self._fail(stored, NOT_AS_PLANNED)
        return result.snapshot_id

    def show_left(self, rejections: Sequence[Rejection]) -> None:
        """What the plan leaves alone, with the reason."""
        if self.as_json:
            return
        for row in rejections[:MOST_SENTENCES_SHOWN]:
            out.print(f"[yellow]stays:[/] {escape(str(row.bundle))}: {escape(row.detail)}")
        if len(rejections) > MOST_SENTENCES_SHOWN:
            out.print(f"… and {len(rejections) - MOST_SENTENCES_SHOWN} more stay; --json prints all")

    def note(self, name: str, value: Any) -> None:
        """Put something more into what is told."""
        self._told[name] = value

    def told(self, stored: StoredPlan) -> dict[str, Any]:
        """All that there is to tell so far, as the one JSON document."""
        return {
            "plan_id": stored.plan_id,
            "plan_uri": stored.uri,
            "strategy": stored.plan.strategy,
            "snapshot_id": stored.plan.snapshot_id,
            "steps": [asdict(step) for step in stored.steps],
            "left": [asdict(row) for row in stored.rejections],
            "disruption": stored.plan.disruption,
            **self._told,
        }

    def _fail(self, stored: StoredPlan, sentence: str) -> NoReturn:
        fail(self.as_json, self.told(stored), sentence)

    def _how_to_go_on(self, stored: StoredPlan) -> str:
        where = f"--lake {self.lake.uri}"
        live = f"--zookeeper {self.connection.zookeeper} --cluster {self.connection.cluster}"
        root = f" --pulsar-root {self.connection.pulsar_root}" if self.connection.pulsar_root else ""
        short = stored.plan_id[:12]
        commands = f"`evenkeel approve {short} {where}`, then `evenkeel apply {short} {where} {live}{root}`"
        return f"the plan is stored; {commands}"

    def _show(self, stored: StoredPlan, warnings: Sequence[str]) -> None:
        cost = stored.plan.disruption
        out.print(f"plan [bold]{stored.plan_id}[/] ({stored.plan.strategy})")
        if len(stored.steps) <= MOST_SENTENCES_SHOWN:
            for step in stored.steps:
                out.print(f"  {escape(describe_step(step))}")
        else:
            print_steps(stored.steps)
        out.print(f"  costs {cost['client_seconds']:,} client-seconds; {cost['sessions']:,} clients have to reconnect")
        for warning in warnings:
            out.print(f"  [yellow]warning:[/] {escape(warning)}")


def describe_step(step: Step) -> str:
    """A step as a sentence would say it."""
    if step.kind == StepKind.SPLIT:
        return f"split {step.bundle} at {step.split_boundary:#010x}; both halves stay with {step.source}"
    if step.kind == StepKind.UNLOAD:
        return f"unload {step.bundle} from {step.source}; Pulsar chooses the next owner"
    return f"move {step.bundle} from {step.source} to {step.destination}"


def _tell_block(verdict: Verdict) -> str:
    return f"the gate blocks the plan ({verdict.blocking[0].detail}): mend the cause, then run the same command again"
