"""What an operator should look at: every finding is one sentence with its severity and a remedy."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from evenkeel.auditing.cpu_weights import LearntWeights
from evenkeel.auditing.movers import last_move
from evenkeel.model.audit import AuditFinding, BundleMove, FindingKind, Oscillation, PredictionFigures
from evenkeel.model.directives import Directive
from evenkeel.model.errors import InputError
from evenkeel.model.load import HandOverTime
from evenkeel.model.plan import Rejection
from evenkeel.model.policies import Policies
from evenkeel.model.run import RunRecord, StepState
from evenkeel.model.snapshot import SnapshotManifest
from evenkeel.model.timestamps import format_time, parse_time
from evenkeel.model.verdict import Severity
from evenkeel.planning.explaining.policy_findings import explain_policies
from evenkeel.planning.explaining.words import list_some
from evenkeel.pulsar_rules.eligibility import Eligibility

LARGE_ERROR, LARGEST_ERROR = 0.25, 0.5
"""Prediction errors, as a share of the realised load, that are a warning and that are critical."""
RETURN_RATE, HIGHEST_RETURN_RATE = 0.1, 0.5
FEWEST_RETURNS = 3
MOVES_PER_DAY = 4
"""More moves of one bundle in a day than this are too many."""
DRIFTED_SHARE, MOST_DRIFTED_SHARE = 0.05, 0.5
MARK_KEPT = timedelta(hours=24)
COLLECTION_GAP, LONGEST_COLLECTION_GAP = timedelta(hours=1), timedelta(hours=24)
MOST_NAMED_BUNDLES = 20
_UNOWNABLE = ("policy-without-brokers", "no-shared-broker")


def _find(severity: Severity, kind: FindingKind, subject: str, sentence: str, remedy: str = "") -> AuditFinding:
    return AuditFinding(str(severity), str(kind), subject, sentence, remedy)


def judge_predictions(figures: Sequence[PredictionFigures]) -> Iterator[AuditFinding]:
    """Predictions of the newest compared run that were far off, and what could not be compared."""
    measured = [row for row in figures if row.wape_ratio is not None]
    newest = measured[-1].run_id if measured else None
    for row in measured:
        error = row.wape_ratio or 0.0
        if row.run_id != newest or error <= LARGE_ERROR:
            continue
        severity = Severity.CRITICAL if error > LARGEST_ERROR else Severity.WARNING
        parts = {
            "bundles not where the plan put them": row.placement_ratio or 0.0,
            "load that changed": row.load_ratio or 0.0,
            "the cpu model": row.cpu_model_ratio or 0.0,
        }
        cause = max(parts, key=lambda name: parts[name])
        yield _find(
            severity,
            FindingKind.PREDICTION,
            row.run_id,
            f"{row.horizon_s / 60:g} min after run {row.run_id}, {row.resource} was {100 * error:.0f} % off the "
            f"prediction, most of it due to {cause}",
            _PREDICTION_REMEDIES[cause],
        )
    for row in figures:
        if row.note and row.resource == "cpu":
            when = f"{row.horizon_s / 60:g} min after its end"
            yield _find(
                Severity.INFO,
                FindingKind.PREDICTION,
                row.run_id,
                f"run {row.run_id} is not compared {when}: {row.note}",
            )
        elif row.silent_brokers and row.resource == "cpu":
            sentence = (
                f"{row.silent_brokers} brokers had not reported {row.horizon_s / 60:g} min after run {row.run_id}"
            )
            yield _find(Severity.INFO, FindingKind.PREDICTION, row.run_id, sentence)


_PREDICTION_REMEDIES = {
    "bundles not where the plan put them": "see the findings on drift, and `evenkeel blame BUNDLE`",
    "load that changed": "plan closer to the window, or with planning_load = p95 or peak",
    "the cpu model": "let a few more windows be audited: the weights of messages are still being learnt",
}


def judge_learning(learnt: LearntWeights, hand_overs: Sequence[HandOverTime]) -> Iterator[AuditFinding]:
    """What was learnt from the period, or why nothing was."""
    if learnt.note:
        yield _find(Severity.INFO, FindingKind.LEARNING, "cpu", f"no new cpu weights: {learnt.note}")
    else:
        yield _find(
            Severity.INFO,
            FindingKind.LEARNING,
            "cpu",
            f"cpu weights of {len(learnt.rows)} namespaces and bundles leave {100 * learnt.error_after:.1f} % of a "
            f"broker's cpu unexplained, {100 * learnt.error_before:.1f} % before ({learnt.samples} samples)",
        )
    for row in hand_overs:
        sentence = f"a {row.kind} takes {row.hand_over_ms} ms to hand over, by {row.samples} steps"
        yield _find(Severity.INFO, FindingKind.LEARNING, row.kind, sentence)


def judge_oscillation(cluster: str, figures: Oscillation, moves: Sequence[BundleMove]) -> Iterator[AuditFinding]:
    """Bundles that go to and fro."""
    if figures.returns >= FEWEST_RETURNS and figures.return_rate > RETURN_RATE:
        severity = Severity.CRITICAL if figures.return_rate > HIGHEST_RETURN_RATE else Severity.WARNING
        movers = Counter(move.mover for move in moves if move.is_return)
        by = ", ".join(f"{count} by {mover}" for mover, count in movers.most_common())
        net = 100 * (figures.net_over_gross or 0.0)
        yield _find(
            severity,
            FindingKind.OSCILLATION,
            cluster,
            f"{figures.returns} of {figures.moves} moves took a bundle back within a day ({by}); {net:.0f} % of the "
            "moved load ended elsewhere",
            "let one balancer work at a time: raise tolerance or min_distance, or switch Pulsar's shedding off",
        )
    per_day = Counter((move.bundle, move.seen_at.date()) for move in moves)
    for (bundle, day), count in per_day.most_common(MOST_NAMED_BUNDLES):
        if count > MOVES_PER_DAY:
            sentence = f"{bundle} moved {count} times on {day}"
            yield _find(
                Severity.WARNING,
                FindingKind.OSCILLATION,
                bundle,
                sentence,
                f"see `evenkeel blame {bundle}`; pin or split it",
            )


def judge_drift(
    run: RunRecord | None, owners: Mapping[str, str | None], moves: Sequence[BundleMove]
) -> Iterator[AuditFinding]:
    """Bundles that are not where the last applied plan put them; `owners` are of the newest snapshot."""
    if run is None:
        return
    settled = [r for r in run.results if r.state is StepState.SETTLED and r.destination and r.bundle in owners]
    drifted = [r for r in settled if owners[r.bundle] != r.destination]
    if not drifted:
        return
    ended_at = parse_time(run.ended_at)
    last = {r.bundle: last_move(moves, r.bundle, ended_at) for r in drifted}
    movers = Counter("nobody known" if move is None else move.mover for move in last.values())
    share = len(drifted) / len(settled)
    severity = Severity.WARNING if share > DRIFTED_SHARE else Severity.INFO
    if share > MOST_DRIFTED_SHARE and len(drifted) >= FEWEST_RETURNS:
        severity = Severity.CRITICAL
    by = ", ".join(f"{count} by {mover}" for mover, count in movers.most_common())
    yield _find(
        severity,
        FindingKind.DRIFT,
        run.run_id,
        f"{len(drifted)} of {len(settled)} bundles are no longer where run {run.run_id} put them: moved {by}",
        "plan again; if it was Pulsar's balancer, let it or Evenkeel work, not both",
    )
    for result in drifted[:MOST_NAMED_BUNDLES]:
        move = last[result.bundle]
        who = "nobody knows by whom" if move is None else f"moved by {move.mover} ({move.evidence})"
        now = owners[result.bundle] or "nobody"
        sentence = f"{result.bundle} is owned by {now}, the plan put it on {result.destination}: {who}"
        yield _find(Severity.INFO, FindingKind.DRIFT, result.bundle, sentence)


@dataclass(frozen=True, slots=True)
class PolicyState:
    """What is needed of a snapshot to judge its policies: live brokers, and which brokers own which namespaces."""

    manifest: SnapshotManifest
    policies: Policies
    live: Sequence[str]
    owned: Sequence[tuple[str, str | None]]

    @property
    def violations(self) -> set[tuple[str, str]]:
        """Namespaces with bundles on brokers that may not own them."""
        eligibility = Eligibility(self.live, self.policies)
        return {
            (namespace, owner)
            for namespace, owner in self.owned
            if owner is not None and owner not in eligibility.brokers_for(namespace)
        }


def judge_policies(states: Sequence[PolicyState]) -> Iterator[AuditFinding]:
    """Violations that were opened and closed between the first and the last of these snapshots, and traps."""
    if not states:
        return
    yield from _judge_violations(states)
    last = states[-1]
    for row in explain_policies(last.policies, last.live, (namespace for namespace, _ in last.owned)):
        yield _tell_trap(row)
    yield from _find_anti_affinity_trap(last)


def _judge_violations(states: Sequence[PolicyState]) -> Iterator[AuditFinding]:
    opened: dict[tuple[str, str], datetime] = {}
    for state in states:
        violations = state.violations
        for pair in violations - opened.keys():
            opened[pair] = state.manifest.taken_at
        for pair in sorted(opened.keys() - violations):
            namespace, broker = pair
            sentence = (
                f"{namespace} has left {broker}, where isolation does not allow it, since {_time(opened.pop(pair))}"
            )
            yield _find(Severity.INFO, FindingKind.POLICY, namespace, sentence)
    for (namespace, broker), since in sorted(opened.items()):
        yield _find(
            Severity.WARNING,
            FindingKind.POLICY,
            namespace,
            f"bundles of {namespace} have been on {broker} since {_time(since)} or longer, against its isolation",
            "plan again: a plan repairs what it can, and its rejections tell what it cannot",
        )


def _tell_trap(row: Rejection) -> AuditFinding:
    if row.rule in _UNOWNABLE and ("no broker may own" in row.detail or "none may own" in row.detail):
        remedy = "correct the isolation policy, or start a broker that it matches: topics there cannot be served"
        return _find(Severity.CRITICAL, FindingKind.POLICY, row.rule, row.detail, remedy)
    return _find(Severity.WARNING, FindingKind.POLICY, row.rule, row.detail, "make the policies unambiguous")


def _find_anti_affinity_trap(state: PolicyState) -> Iterator[AuditFinding]:
    """Groups whose emptiest brokers may not own them: extensible brokers look there first, and then find nobody."""
    eligibility = Eligibility(state.live, state.policies)
    groups: dict[str, list[str]] = defaultdict(list)
    for namespace, group in sorted(state.policies.anti_affinity.items()):
        groups[group.lower()].append(namespace)
    for group, namespaces in groups.items():
        members = set(namespaces)
        held = Counter(owner for namespace, owner in state.owned if namespace in members and owner is not None)
        fewest = min((held[broker] for broker in state.live), default=0)
        emptiest = {broker for broker in state.live if held[broker] == fewest}
        stuck = [
            name
            for name in namespaces
            if eligibility.brokers_for(name) and not emptiest & eligibility.brokers_for(name)
        ]
        # Pairs of a namespace and a broker do not tell how many bundles there are, but whether there is one.
        if stuck and fewest == 0:
            yield _find(
                Severity.WARNING,
                FindingKind.POLICY,
                group,
                f"anti-affinity group {group} would go to {list_some(sorted(emptiest))}, which isolation keeps from "
                f"{list_some(stuck)}: on extensible brokers a bundle that is unloaded finds no owner",
                "take the namespaces out of the group, or give the group brokers that it may use",
            )


def judge_collection(cluster: str, manifests: Sequence[SnapshotManifest], now: datetime) -> Iterator[AuditFinding]:
    """Snapshots that are missing, and brokers that report nothing or late; manifests are the oldest first."""
    if not manifests:
        yield _find(
            Severity.CRITICAL,
            FindingKind.COLLECTION,
            cluster,
            "no snapshot was taken in the audited period",
            "let collect_load run, or take one with `evenkeel snapshot`",
        )
        return
    age = now - manifests[-1].taken_at
    if age > COLLECTION_GAP:
        yield _find(
            Severity.CRITICAL if age > LONGEST_COLLECTION_GAP else Severity.WARNING,
            FindingKind.COLLECTION,
            cluster,
            f"the newest snapshot is {age.total_seconds() / 3600:.1f} hours old",
            "see why collect_load does not run",
        )
    silent = Counter(broker for m in manifests for broker in m.brokers_without_report)
    stale = Counter(broker for m in manifests for broker in m.brokers_with_stale_report)
    for broker in sorted(silent.keys() | stale.keys()):
        last = manifests[-1]
        is_now = broker in (*last.brokers_without_report, *last.brokers_with_stale_report)
        sentence = (
            f"{broker} had no load report in {silent[broker]} and an old one in {stale[broker]} of {len(manifests)} "
            f"snapshots{', and still has none that is fresh' if is_now else ''}"
        )
        remedy = "see whether the broker is well and Evenkeel may ask it; its pool is not planned until it reports"
        yield _find(Severity.WARNING if is_now else Severity.INFO, FindingKind.REPORTS, broker, sentence, remedy)


def judge_marks(
    marks: Mapping[str, Directive | None], since: Mapping[str, datetime], now: datetime
) -> Iterator[AuditFinding]:
    """Brokers that are marked to be drained for longer than a day; `since` is when a snapshot first showed it."""
    for broker, directive in sorted(marks.items()):
        marked_at = _marked_at(directive) or since.get(broker)
        who = "" if directive is None else f" by {directive}"
        if marked_at is None or now - marked_at <= MARK_KEPT:
            yield _find(Severity.INFO, FindingKind.MARKS, broker, f"{broker} is marked to be drained{who}")
            continue
        days = (now - marked_at).total_seconds() / 86_400
        yield _find(
            Severity.WARNING,
            FindingKind.MARKS,
            broker,
            f"{broker} has been marked to be drained for {days:.1f} days{who}: it receives no bundles",
            f"after the maintenance: `evenkeel drain --undo --broker {broker}`",
        )


def judge_switches(cluster: str, left_off: Iterable[str], switched_off: Sequence[str]) -> Iterator[AuditFinding]:
    """Switches of Pulsar's balancer that a dead writer left off, or that are off for another reason."""
    told = list(left_off)
    for sentence in told:
        yield _find(Severity.CRITICAL, FindingKind.SWITCHES, cluster, sentence, "run `evenkeel restore-balancer`")
    if switched_off and not told:
        yield _find(
            Severity.INFO,
            FindingKind.SWITCHES,
            cluster,
            f"Pulsar's dynamic configuration switches {list_some(list(switched_off))} off, and no run of Evenkeel did",
        )


def most_severe_first(findings: Iterable[AuditFinding]) -> tuple[AuditFinding, ...]:
    """Critical findings first, then in the order in which they were made."""
    ranks = {str(severity): rank for rank, severity in enumerate(Severity)}
    return tuple(sorted(findings, key=lambda finding: ranks[finding.severity]))


def _marked_at(directive: Directive | None) -> datetime | None:
    if directive is None or not directive.when:
        return None
    try:
        return parse_time(directive.when)
    except InputError:
        return None


def _time(moment: datetime) -> str:
    return format_time(moment).replace("T", " ")[:16]
