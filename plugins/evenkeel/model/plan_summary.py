"""A plan in the few sentences and figures that a person needs to decide about it.

The command line, the approval in Airflow and the report all show this summary, so that they say the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from evenkeel.model.canonical import short_id
from evenkeel.model.figures import PoolFigures, PoolLimit, StepCounts
from evenkeel.model.load import Resource
from evenkeel.model.plan import BY_HAND_STRATEGIES, BrokerBalance, Plan, Rejection
from evenkeel.model.timestamps import format_time

BUDGET_SETTINGS = {
    "step-budget": "max_steps",
    "bytes-budget": "max_moved_bytes_per_s",
    "sessions-budget": "max_moved_sessions",
    "disruption-budget": "max_client_seconds",
    "tenant-step-budget": "tenant_max_steps",
    "tenant-bytes-budget": "tenant_max_moved_bytes_per_s",
    "tenant-sessions-budget": "tenant_max_sessions",
    "tenant-disruption-budget": "tenant_max_client_seconds",
    "wave-bytes-budget": "wave_max_moved_bytes_per_s",
    "wave-sessions-budget": "wave_max_sessions",
    "wave-disruption-budget": "wave_max_client_seconds",
}
"""The setting behind each rule of the rejections that is a budget."""

NOTHING_TO_DO = "nothing-to-do"
"""The rule of the rejection that says why a plan has no steps."""

RESOURCE_NAMES = {
    Resource.CPU: "CPU",
    Resource.BANDWIDTH_IN: "bandwidth in",
    Resource.BANDWIDTH_OUT: "bandwidth out",
}

_LIMITS = {
    PoolLimit.NOTHING: "nothing",
    PoolLimit.NO_BROKER: "no broker may receive bundles",
    PoolLimit.NO_LOAD: "there is no load",
    PoolLimit.NO_REPORT: "a broker gave no load report",
    PoolLimit.ONE_BROKER: "only one broker may receive bundles",
    PoolLimit.BUDGET: "a budget or the order of the steps leaves moves out",
    PoolLimit.CAPACITY: "the brokers are too small",
    PoolLimit.POLICIES: "policies allow no other broker",
    PoolLimit.GIANT_BUNDLE: "a bundle is too big for any broker",
    PoolLimit.LEFT_ALONE: "the settings leave its bundles or brokers alone",
    PoolLimit.EXCLUDED_NAMESPACES: "its namespaces are excluded from moves",
    PoolLimit.IN_FLIGHT: "bundles were changing owners",
    PoolLimit.ANTI_AFFINITY: "anti-affinity groups would become more crowded",
    PoolLimit.TOPIC_LIMIT: "brokers would reach the topic limit",
    PoolLimit.BUNDLE_SIZES: "no remaining bundle fits on another broker",
    PoolLimit.FOREIGN_LOAD: "bundles of other pools use the capacity of its brokers",
}
_RATE_UNITS = ((1_000_000_000, "GB/s"), (1_000_000, "MB/s"), (1_000, "kB/s"))


@dataclass(frozen=True, slots=True)
class PeakChange:
    """One resource: the broker that is busiest before the plan, before and after it, and the one that is busiest after.

    A resource that is nearly idle before and after is shown, but nothing is said about its balance.
    """

    resource: Resource
    broker: str
    before: float
    after: float
    busiest_after: str
    peak_after: float
    max_over_mean_before: float
    max_over_mean_after: float
    is_idle: bool


@dataclass(frozen=True, slots=True)
class PlanSummary:
    """What a plan does, how close it is to the best possible, and what it costs.

    `moves_sentence` compares the moves with their bound. `sentences` has all sentences, this one first.
    """

    plan_id: str
    cluster: str
    snapshot_id: str
    strategy: str
    expires_at: str
    step_counts: StepCounts
    waves: int
    headline: str
    moves_sentence: str
    sentences: tuple[str, ...]
    peaks: tuple[PeakChange, ...]

    @property
    def short_id(self) -> str:
        return short_id(self.plan_id)


def summarise(plan: Plan, rejections: Sequence[Rejection], brokers: Sequence[BrokerBalance]) -> PlanSummary:
    """Summarise a plan; the rejections say which budgets bind, the brokers which of them are busiest."""
    counts, waves = plan.step_counts, len(plan.disruption.waves)
    peaks = tuple(_find_peaks(plan, brokers))
    moves_sentence = _compare_moves(plan, rejections)
    sentences = [
        moves_sentence,
        *_describe_splits(counts),
        *_describe_peak(peaks, plan, brokers),
        *_describe_costs(plan),
    ]
    sentences += _describe_repairs(plan)
    if outside := describe_outside_pools(plan.pools):
        sentences.append(f"{outside}.")
    if plan.truncated:
        sentences.append("The search hit its deadline; this is the best plan it found.")
    return PlanSummary(
        plan_id=plan.plan_id,
        cluster=plan.cluster,
        snapshot_id=plan.snapshot_id,
        strategy=plan.strategy,
        expires_at=format_time(plan.expires_at),
        step_counts=counts,
        waves=waves,
        headline=f"{count(counts.total, 'step')} in {count(waves, 'wave')}" if counts.total else "nothing to change",
        moves_sentence=moves_sentence,
        sentences=tuple(sentences),
        peaks=peaks,
    )


def find_binding_budgets(rejections: Iterable[Rejection]) -> tuple[str, ...]:
    """The settings of the budgets that leave moves out."""
    rules = (row.rule for row in rejections if row.scope == "plan")
    return tuple(BUDGET_SETTINGS[rule] for rule in rules if rule in BUDGET_SETTINGS)


def describe_outside_pools(pools: Sequence[PoolFigures]) -> str:
    """How many pools the plan leaves outside the band, and why, most frequent cause first; empty if there are none."""
    causes = Counter(pool.limited_by for pool in pools if not pool.reaches_band).most_common()
    if not causes:
        return ""
    many = sum(number for _, number in causes)
    why = "; ".join(f"{_LIMITS[cause]}{f' ({number:,})' if len(causes) > 1 else ''}" for cause, number in causes)
    return f"{many:,} of {count(len(pools), 'pool')} {'stays' if many == 1 else 'stay'} outside the band: {why}"


def name_pool(pool: PoolFigures) -> str:
    """A pool by the isolation policies that make it one; the shared brokers have none."""
    if not pool.pool:
        return "namespaces without a broker"
    if not pool.policies:
        return f"shared brokers, from {pool.pool}"
    noun = "isolation policy" if len(pool.policies) == 1 else "isolation policies"
    return f"{noun} {', '.join(pool.policies)}"


def count(many: float, noun: str) -> str:
    """A number with its noun, in the plural where needed."""
    return f"{many:,} {noun}{'' if many == 1 else 's'}"


def format_rate(bytes_per_s: float) -> str:
    """A rate in the largest unit that leaves a number above 1, with three digits."""
    for size, unit in _RATE_UNITS:
        if bytes_per_s >= size:
            value = bytes_per_s / size
            digits = 0 if value >= 100 else 1 if value >= 10 else 2
            return f"{value:,.{digits}f} {unit}"
    return f"{bytes_per_s:,.0f} B/s"


def format_client_seconds(client_seconds: float) -> str:
    """Client-seconds rounded to what matters."""
    return f"{client_seconds:,.{0 if client_seconds >= 10 or client_seconds == 0 else 1}f} client-seconds"


def _compare_moves(plan: Plan, rejections: Sequence[Rejection]) -> str:
    counts, moves = plan.step_counts, count(plan.step_counts.moves, "move")
    if not counts.total:
        reasons = [row.detail for row in rejections if row.rule == NOTHING_TO_DO]
        return f"Nothing to do: {reasons[0]}." if reasons else "No steps."
    if plan.bounds is None or plan.strategy in BY_HAND_STRATEGIES:
        return f"{count(counts.total, 'step')}, chosen by hand."
    bound = plan.bounds.moves
    budgets = find_binding_budgets(rejections)
    if budgets or any(not pool.reaches_band for pool in plan.pools):
        # The bound is for plans that reach the band, so it says nothing about one that takes more and does not.
        end = f"; stopped by {' and '.join(budgets)}" if budgets else ""
        taken = f"{counts.moves:,} of at least {count(bound, 'move')}" if counts.moves < bound else moves
        return f"{taken}{end}."
    if counts.moves == bound > 0:
        return f"{moves}: the provable minimum."
    return f"{moves}; any plan needs at least {bound:,}." if bound else f"{moves}."


def _describe_splits(counts: StepCounts) -> list[str]:
    return [f"{count(counts.splits, 'bundle')} {'is' if counts.splits == 1 else 'are'} split."] if counts.splits else []


def _find_peaks(plan: Plan, brokers: Sequence[BrokerBalance]) -> Iterator[PeakChange]:
    """Each resource of which a limit is known; of brokers that are equally busy, the first by name is taken."""
    for resource in plan.balance.resources:
        rows = sorted((row for row in brokers if row.resource == resource and row.limit), key=lambda row: row.broker_id)
        if not rows:
            continue
        first = max(rows, key=lambda row: row.used_before / row.limit)
        last = max(rows, key=lambda row: row.used_after / row.limit)
        before, after = first.used_before / first.limit, last.used_after / last.limit
        yield PeakChange(
            resource,
            broker=first.broker_id,
            before=before,
            after=first.used_after / first.limit,
            busiest_after=last.broker_id,
            peak_after=after,
            max_over_mean_before=plan.balance.before[resource].max_over_mean,
            max_over_mean_after=plan.balance.after[resource].max_over_mean,
            is_idle=max(before, after) <= _min_utilisation(plan),
        )


def _min_utilisation(plan: Plan) -> float:
    return float(plan.settings.get("min_utilisation", 0.0))


def _describe_peak(peaks: Sequence[PeakChange], plan: Plan, brokers: Sequence[BrokerBalance]) -> list[str]:
    """What happens to the broker that is busiest before the plan, and which one is busiest after it."""
    if not peaks:
        return []
    busy = [peak for peak in peaks if not peak.is_idle]
    if not busy:
        return [f"The cluster is nearly idle: no broker uses more than {_percent(_min_utilisation(plan))} of a limit."]
    hottest = max(busy, key=lambda peak: peak.before)
    of_limit = f"of its {RESOURCE_NAMES[hottest.resource]} limit"
    if hottest.before == hottest.after:
        sentence = f"{hottest.broker} is the busiest broker and stays at {_percent(hottest.after)} {of_limit}"
        sentence += _explain_lone_broker(hottest.broker, plan, brokers)
    else:
        change = f"from {_percent(hottest.before)} to {_percent(hottest.after)} {of_limit}"
        sentence = f"{hottest.broker}, the busiest broker, goes {change}"
    if hottest.busiest_after != hottest.broker and hottest.peak_after > hottest.after:
        sentence += f"; afterwards {hottest.busiest_after} is the busiest, at {_percent(hottest.peak_after)}"
    return [f"{sentence}.", *(_describe_relief(brokers) if hottest.before == hottest.after else [])]


def _explain_lone_broker(name: str, plan: Plan, brokers: Sequence[BrokerBalance]) -> str:
    """Why nothing can relieve a broker that is alone in its pool."""
    pool_of = {row.broker_id: row.pool for row in brokers}
    alone = [pool for pool in plan.pools if pool.pool and pool.pool == pool_of[name] and pool.brokers == 1]
    return f", for it is in a pool of its own ({name_pool(alone[0])})" if alone else ""


def _describe_relief(brokers: Sequence[BrokerBalance]) -> list[str]:
    """The busiest broker among those whose load the plan lowers, by its busiest resource."""
    lowered = [row for row in brokers if row.limit and row.used_after < row.used_before]
    if not lowered:
        return []
    row = max(sorted(lowered, key=lambda row: row.broker_id), key=lambda row: row.used_before / row.limit)
    change = f"from {_percent(row.used_before / row.limit)} to {_percent(row.used_after / row.limit)}"
    name = RESOURCE_NAMES[Resource(row.resource)]
    return [f"{row.broker_id}, the busiest broker that the plan relieves, goes {change} of its {name} limit."]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _describe_costs(plan: Plan) -> list[str]:
    costs = plan.disruption
    if not costs.sessions and not costs.moved_bytes_per_s:
        return []
    sessions = f"{count(costs.sessions, 'session')} {'reconnects' if costs.sessions == 1 else 'reconnect'}"
    seconds, traffic = format_client_seconds(costs.client_seconds), format_rate(costs.moved_bytes_per_s)
    return [f"Disruption: {seconds}; {sessions}, {traffic} of traffic moves."]


def _describe_repairs(plan: Plan) -> list[str]:
    if plan.violations is None or not plan.violations.before.bundles_to_move:
        return []
    before, after = plan.violations.before.bundles_to_move, plan.violations.after.bundles_to_move
    return [f"Bundles on brokers that they must leave: {before:,} before, {after:,} after."]
