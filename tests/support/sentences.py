"""Reads the sentences of a plan and recomputes every figure in them from the plan's own tables and its cluster.

A sentence that is not recognised, or whose figure is not what the tables give, is returned as a fault.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

import numpy as np

from evenkeel.model.load import RESOURCES
from evenkeel.model.plan import BrokerBalance, Rejection, Step, StepKind
from evenkeel.model.settings import Settings
from evenkeel.planning.cluster.assembly import PlannedCluster
from evenkeel.planning.problem.budgets import PLAN_BUDGETS, TENANT_BUDGETS, WAVE_BUDGETS
from evenkeel.planning.problem.disruption import client_milliseconds, pricing_of
from evenkeel.planning.problem.problem import PoolProblem, pool_problems
from support.clusters import Cluster

BUDGETS = {budget.setting: budget for budget in (*PLAN_BUDGETS, *TENANT_BUDGETS, *WAVE_BUDGETS)}
NUMBER = r"[\d,]+(?:\.\d+)?"
RESOURCE = "cpu|bandwidth in|bandwidth out"
PRESSURE = re.compile(
    rf"(?P<source>\S+) uses (?P<before>{NUMBER}) % of its (?P<resource>{RESOURCE}) limit, "
    rf"(?:above the overload line \((?P<line>{NUMBER}) %\))?(?: and )?"
    rf"(?:(?P<points>{NUMBER}) points above the end of its band \((?P<band>{NUMBER}) %\))?, "
    rf"and (?P<after>{NUMBER}) % after this plan"
)
BUNDLE = re.compile(
    rf"this bundle uses (?P<part>{NUMBER}) % of that limit and has (?P<sessions>{NUMBER}) sessions?(?:: (?P<rank>.+))?"
)
ROOM = re.compile(rf"makes room on (?P<source>\S+) for (?P<arrivals>{NUMBER}) bundles? that this plan brings there")
MUST = (
    re.compile(r"(?P<source>\S+) is (?:Stopping|Inactive) and is being emptied"),
    re.compile(r"(?P<source>\S+) is reserved by an isolation policy that does not name \S+"),
    re.compile(r"isolation policy \S+ does not allow \S+ on (?P<source>\S+)"),
)
THERE = re.compile(
    rf"(?:(?P<only>\S+) is the only other eligible broker|(?P<eligible>{NUMBER}) brokers are eligible, "
    rf"(?:only (?P<single>\S+) has room|(?P<open>{NUMBER}) have room; (?P<best>\S+) "
    rf"(?P<least>ends up least loaded|is one of them)|(?P<few>none|{NUMBER}) (?:has|have) room inside (?:its|their) "
    r"band; (?P<taker>\S+) takes it))"
    rf"(?:; its (?P<unknown>{RESOURCE}) limit is unknown|: from (?P<before>{NUMBER}) % to (?P<after>{NUMBER}) % of its "
    rf"(?P<resource>{RESOURCE}) limit(?:, where the band ends at (?P<band>{NUMBER}) %)?"
    rf"(?: and the overload line is (?P<line>{NUMBER}) %)?)"
)
RANKS = (
    re.compile(r"the only one there that may move"),
    re.compile(rf"none of the (?P<others>{NUMBER}) there that may move is (?P<larger>larger)"),
    re.compile(rf"none of the (?P<others>{NUMBER}) there that may move has (?P<cheaper>fewer) sessions for its load"),
    re.compile(
        rf"only (?P<rank>{NUMBER}) of the (?P<others>{NUMBER}) there that may move (?:is|are) (?P<larger>larger)"
    ),
    re.compile(
        rf"only (?P<rank>{NUMBER}) of the (?P<others>{NUMBER}) there that may move (?:has|have) (?P<cheaper>fewer) "
        "sessions for (?:its|their) load"
    ),
    re.compile(
        rf"one of the (?P<others>{NUMBER}) there that may move"
        r"(?P<needed>, and the broker would end above its band without its move)?"
    ),
)
STRATEGY = re.compile(
    rf"(?P<name>[\w-]+): (?:(?P<hot>\S+) is hotter than (?P<cool>\S+) by (?P<points>{NUMBER}) points|a swap or a later "
    rf"cycle, for (?P<hot2>\S+) is not hotter than (?P<cool2>\S+)), (?P<before>{NUMBER}) % of its "
    rf"(?P<resource>{RESOURCE}) limit against (?P<other>{NUMBER}) % of its (?P<other_resource>{RESOURCE}) limit"
)
TOO_BIG = re.compile(
    rf"too big for any broker that may own it: it uses (?P<part>{NUMBER}) % of (?P<broker>\S+)'s "
    rf"(?P<resource>{RESOURCE}) limit, where (?P<what>the band ends|the overload line is) at "
    rf"(?P<most>{NUMBER}) %; cut at 0x[0-9a-f]+ by .+"
)
ENDS = re.compile(
    rf"ends at (?P<after>{NUMBER}) % of its (?P<resource>{RESOURCE}) limit \(before: (?P<before>{NUMBER}) %\), "
    rf"where the band ends at (?P<band>{NUMBER}) %: (?P<why>.+)"
)
LEFT_OFF = re.compile(rf"(?P<many>{NUMBER}) moves? off it (?:is|are) left out")
FOREIGN = re.compile(rf"bundles of other pools use (?P<part>{NUMBER}) % of it")
STAYS = re.compile(
    rf"uses (?P<part>{NUMBER}) % of (?P<broker>\S+)'s (?P<resource>{RESOURCE}) limit, and (?P<again>\S+) stays "
    "above its band: (?P<why>.+)"
)
NEEDS = re.compile(
    rf"it needs (?P<part>{NUMBER}) % of (?P<broker>\S+)'s (?P<resource>{RESOURCE}) limit, and that broker may be "
    rf"filled to (?P<most>{NUMBER}) % at most: split the bundle"
)
LEFT_OUT = re.compile(
    rf"its move from (?P<source>\S+) to (?P<destination>\S+) is left out: (?:it takes (?P<amount>{NUMBER}) "
    rf"(?P<unit>\S+), and the budget (?P<setting>\w+) = (?P<budget>{NUMBER}) has no room for it or for a step that it "
    r"needs|(?P<other>[^\d]+))"
)
BINDS = re.compile(
    rf"the budget (?P<setting>\w+) = (?P<budget>{NUMBER}) leaves out (?P<many>{NUMBER}) moves?: (?P<needs>.+)"
)
CONTENTED = re.compile(
    rf"nothing: every broker is inside its band; the fullest is (?P<broker>\S+), at (?P<after>{NUMBER}) % of its "
    rf"(?P<resource>{RESOURCE}) limit, and the load may grow by (?P<growth>{NUMBER}) % before it reaches the overload "
    rf"line of (?P<line>{NUMBER}) %"
)
WIDER = re.compile(
    rf"wider budgets: they, or the order of the steps, leave out (?P<many>{NUMBER}) moves? of the (?P<all>{NUMBER}) of "
    "this pool"
)
COUNTS = re.compile(r"\b(?:\d[\d,]*) (?:other brokers?|bundles?|topics?|more|would|have|Stopping|Inactive|Initial)\b")


def find_false_sentences(planned: PlannedCluster, cluster: Cluster, settings: Settings) -> list[str]:
    """Every sentence of a plan that says something else than its tables, with what is wrong about it."""
    reader = _Reader(planned, cluster, settings)
    return [
        *(f"{step.bundle}: {fault}: {step.reason}" for step in planned.steps for fault in reader.check_step(step)),
        *(f"{row.rule}: {fault}: {row.detail}" for row in planned.rejections for fault in reader.check_row(row)),
        *reader.check_pools(),
    ]


def _as_number(text: str) -> float:
    return float(text.replace(",", ""))


class _Reader:
    def __init__(self, planned: PlannedCluster, cluster: Cluster, settings: Settings) -> None:
        self._planned, self._cluster, self._settings = planned, cluster, settings
        self._rows = {(row.broker_id, row.resource.replace("_", " ")): row for row in planned.brokers}
        self._line = settings.broker_overloaded_threshold_percentage
        self._place = {name: row for row, name in enumerate(cluster.bundles.bundle.tolist())}
        self._loads = cluster.bundles.loads()
        self._split_sources = {step.source for step in planned.steps if step.kind == StepKind.SPLIT}

    @cached_property
    def _problems(self) -> list[PoolProblem]:
        return list(pool_problems(self._cluster.brokers, self._cluster.bundles, self._cluster.policies, self._settings))

    # figures of the tables

    def _row(self, broker: str, resource: str) -> BrokerBalance:
        return self._rows[broker, resource]

    def _is(self, said: str | None, load: float, limit: int, what: str) -> Iterator[str]:
        if said is not None and said != f"{100 * load / limit:,.1f}":
            yield f"{what} is {100 * load / limit:.1f} %, not {said} %"

    def _equals(self, said: str | None, value: float, what: str) -> Iterator[str]:
        if said is not None and _as_number(said) != value:
            yield f"{what} is {value}, not {said}"

    def _holds(self, is_true: bool, what: str) -> Iterator[str]:
        if not is_true:
            yield what

    def _loads_of(self, broker: str, field: str) -> tuple[int, ...]:
        return tuple(getattr(self._row(broker, name.replace("_", " ")), field) for name in RESOURCES)

    def _is_above_band(self, broker: str) -> bool:
        bands, after = self._loads_of(broker, "band_limit"), self._loads_of(broker, "used_after")
        return any(band and load > band for band, load in zip(bands, after, strict=True))

    # steps

    def check_step(self, step: Step) -> Iterator[str]:
        if step.kind == StepKind.SPLIT:
            yield from self._check_split(step.reason, step.bundle)
        elif found := STRATEGY.fullmatch(step.reason):
            yield from self._check_strategy(step, found)
        else:
            yield from self._check_move(step)

    def _check_move(self, step: Step) -> Iterator[str]:
        *why_it, why_there = step.reason.split("; ")
        # The last clauses may have a semicolon of their own.
        while not THERE.fullmatch(why_there) and why_it:
            why_there = f"{why_it.pop()}; {why_there}"
        there = THERE.fullmatch(why_there)
        if there is None:
            yield "the new owner is not explained"
            return
        yield from self._check_there(step, there)
        first = why_it[0] if why_it else ""
        if pressure := PRESSURE.fullmatch(first):
            yield from self._check_pressure(step, pressure)
            bundle = BUNDLE.fullmatch("; ".join(why_it[1:]))
            if bundle is None:
                yield "the bundle is not explained"
            else:
                yield from self._check_bundle(step, bundle, pressure["resource"])
        elif room := ROOM.fullmatch(first):
            yield from self._holds(room["source"] == step.source, "another source")
            arrivals = sum(other.destination == step.source for other in self._planned.steps)
            yield from self._equals(room["arrivals"], arrivals, "arrivals")
            yield from self._holds(arrivals > 0, "nothing arrives there")
        else:
            must = [found for pattern in MUST if (found := pattern.fullmatch(first))]
            yield from self._holds(bool(must), "the move is not explained")
            yield from self._holds(all(found["source"] == step.source for found in must), "another source")

    def _check_pressure(self, step: Step, said: re.Match[str]) -> Iterator[str]:
        row = self._row(said["source"], said["resource"])
        yield from self._holds(said["source"] == step.source, "another source")
        yield from self._is(said["before"], row.used_before, row.limit, "the source before")
        yield from self._is(said["after"], row.used_after, row.limit, "the source after")
        yield from self._is(said["band"], row.band_limit, row.limit, "the band of the source")
        yield from self._is(said["points"], row.used_before - row.band_limit, row.limit, "the excess")
        yield from self._equals(said["line"], self._line, "the overload line")
        is_above = 100 * row.used_before > self._line * row.limit
        yield from self._holds((said["line"] is not None) == is_above, "above the line or not")
        yield from self._holds((said["band"] is not None) == (0 < row.band_limit < row.used_before), "above the band")

    def _check_bundle(self, step: Step, said: re.Match[str], resource: str) -> Iterator[str]:
        index = [name.replace("_", " ") for name in RESOURCES].index(resource)
        row = self._row(step.source, resource)
        yield from self._is(said["part"], step.load[index], row.limit, "the bundle's part")
        yield from self._equals(said["sessions"], step.sessions, "sessions")
        if said["rank"] is None:
            return
        rank = next((found for pattern in RANKS if (found := pattern.fullmatch(said["rank"]))), None)
        if rank is None:
            yield "the rank is not recognised"
        elif step.source not in self._split_sources:
            yield from self._check_rank(step, rank, index)

    def _check_rank(self, step: Step, said: re.Match[str], index: int) -> Iterator[str]:
        problem = next(each for each in self._problems if step.bundle in each.bundles)
        own = int(np.flatnonzero(problem.bundles == step.bundle)[0])
        mine = [row for row in np.flatnonzero(problem.owner == problem.owner[own]) if problem.mobility[row] == 0]
        load, sessions = problem.load[:, index], problem.sessions
        groups = said.groupdict()
        yield from self._equals(groups.get("others"), len(mine), "bundles that may move")
        if groups.get("larger"):
            larger = sum(load[row] > load[own] for row in mine)
            yield from self._equals(groups.get("rank") or "0", larger, "larger ones")
        if groups.get("cheaper"):
            price = sessions[own] / max(load[own], 1)
            cheaper = sum(load[row] > 0 and sessions[row] / load[row] < price for row in mine)
            yield from self._equals(groups.get("rank") or "0", cheaper, "cheaper ones")
        if groups.get("needed"):
            bands, after = self._loads_of(step.source, "band_limit"), self._loads_of(step.source, "used_after")
            stays = zip(bands, after, step.load, strict=True)
            yield from self._holds(any(0 < band < old + new for band, old, new in stays), "not needed")

    def _check_there(self, step: Step, said: re.Match[str]) -> Iterator[str]:
        named = said["only"] or said["single"] or said["best"] or said["taker"]
        yield from self._holds(named == step.destination, f"the plan moves it to {step.destination}")
        if said["unknown"]:
            yield from self._holds(not self._row(named, said["unknown"]).limit, "the limit is known")
        else:
            row = self._row(named, said["resource"])
            yield from self._is(said["before"], row.used_before, row.limit, "the new owner before")
            yield from self._is(said["after"], row.used_after, row.limit, "the new owner after")
            yield from self._is(said["band"], row.band_limit, row.limit, "the band of the new owner")
            yield from self._equals(said["line"], self._line, "the overload line")
        yield from self._check_homes(step, said)

    def _check_homes(self, step: Step, said: re.Match[str]) -> Iterator[str]:
        eligible = self._eligible(step)
        if eligible is None:
            return
        eligible = (eligible | {str(step.destination)}) - {step.source}
        open_brokers = {name for name in eligible if self._has_room(step, name)}
        yield from self._equals("1" if said["only"] else said["eligible"], len(eligible), "eligible brokers")
        few = "0" if said["few"] == "none" else said["few"]
        if not said["only"]:
            yield from self._equals("1" if said["single"] else said["open"] or few, len(open_brokers), "with room")
        if said["least"] == "ends up least loaded":
            own = self._fullness(str(step.destination), (0, 0, 0))
            emptier = [
                name
                for name in open_brokers - {step.destination}
                if self._fullness(name, step.load) < own * (1 - 1e-12)
            ]
            yield from self._holds(not emptier, f"{emptier} would end up less loaded")

    def _eligible(self, step: Step) -> set[str] | None:
        """The brokers that may receive the bundle; None for the child of a split, which the snapshot does not have."""
        problem = next((each for each in self._problems if step.bundle in each.bundles), None)
        if problem is None:
            return None
        own = np.flatnonzero(problem.bundles == step.bundle)
        return {problem.broker_ids[row] for row in np.flatnonzero(problem.destinations(own)[0]).tolist()}

    def _has_room(self, step: Step, broker: str) -> bool:
        load = (0, 0, 0) if broker == step.destination else step.load
        fields = ("limit", "band_limit", "used_before", "used_after")
        limits, bands, before, after = (self._loads_of(broker, field) for field in fields)
        if not any(limits):
            return False
        for limit, band, old, new, own in zip(limits, bands, before, after, load, strict=True):
            line = limit * round(self._line * 10_000) // 1_000_000
            if limit and (new + own > max(line, old) or (band and new + own > band)):
                return False
        return broker == step.destination or (self._has_topic_room(step, broker) and self._keeps_groups(step, broker))

    def _has_topic_room(self, step: Step, broker: str) -> bool:
        topics = self._cluster.bundles.topics[self._cluster.bundles.owner == broker].sum()
        arriving = sum(other.topics for other in self._planned.steps if other.destination == broker)
        return bool(topics + arriving + step.topics < self._settings.broker_max_topics)

    def _keeps_groups(self, step: Step, broker: str) -> bool:
        policies = self._cluster.policies
        of = {name: group.lower() for name, group in policies.anti_affinity.items()}
        group = of.get(step.bundle.rpartition("/")[0])
        if group is None:
            return True
        domain = {each.broker_id: each.failure_domain or "default" for each in self._cluster.brokers}
        domain |= {name: zone for zone, names in policies.failure_domains.items() for name in names}
        columns = zip(self._cluster.bundles.namespace, self._cluster.bundles.owner, strict=True)
        owners = [str(owner) for namespace, owner in columns if of.get(namespace) == group]
        arrivals = [
            (other.source, str(other.destination))
            for other in self._planned.steps
            if other.kind == StepKind.TRANSFER and of.get(other.bundle.rpartition("/")[0]) == group
        ]
        on_broker = owners.count(broker) + sum(to == broker for _, to in arrivals)
        most = max(owners.count(name) for name in set(owners))
        domains = [domain[owner] for owner in owners]
        in_domain = domains.count(domain[broker]) + sum(
            domain[to] == domain[broker] != domain[source] for source, to in arrivals
        )
        most_in_domain = max(domains.count(name) for name in set(domains))
        return on_broker < most and (domain[step.source] == domain[broker] or in_domain < most_in_domain)

    def _fullness(self, broker: str, load: tuple[int, ...]) -> float:
        bands, after = self._loads_of(broker, "band_limit"), self._loads_of(broker, "used_after")
        return max((new + own) / band if band else 0.0 for band, new, own in zip(bands, after, load, strict=True))

    def _check_strategy(self, step: Step, said: re.Match[str]) -> Iterator[str]:
        hot, cool = said["hot"] or said["hot2"], said["cool"] or said["cool2"]
        yield from self._holds((hot, cool) == (step.source, step.destination), "other brokers")
        one, other = self._row(hot, said["resource"]), self._row(cool, said["other_resource"])
        yield from self._is(said["before"], one.used_before, one.limit or 1, "the source")
        yield from self._is(said["other"], other.used_before, other.limit or 1, "the destination")

    def _check_split(self, words: str, bundle: str) -> Iterator[str]:
        said = TOO_BIG.fullmatch(words)
        if said is None:
            yield from self._holds(words.startswith("met the condition "), "not recognised")
            return
        yield from self._check_part(said, bundle)
        row = self._row(said["broker"], said["resource"])
        most = row.band_limit if said["what"] == "the band ends" else row.limit * self._line / 100
        yield from self._is(said["most"], most, row.limit, said["what"])

    def _check_part(self, said: re.Match[str], bundle: str) -> Iterator[str]:
        row = self._row(said["broker"], said["resource"])
        index = [name.replace("_", " ") for name in RESOURCES].index(said["resource"])
        if bundle in self._place:
            yield from self._is(said["part"], int(self._loads[self._place[bundle]][index]), row.limit, "its part")

    # rejections

    def check_row(self, row: Rejection) -> Iterator[str]:
        detail = row.detail
        if said := ENDS.fullmatch(detail):
            yield from self._check_hot_broker(row, said)
        elif said := STAYS.fullmatch(detail):
            yield from self._check_part(said, str(row.bundle))
            yield from self._holds(self._is_above_band(said["broker"]), "the broker ends inside its band")
            yield from self._holds(self._final_owner(str(row.bundle)) in (None, row.broker), "it is not there")
            yield from self._check_needs(said["why"], row)
        elif said := LEFT_OUT.fullmatch(detail):
            yield from self._holds(all(step.bundle != row.bundle for step in self._planned.steps), "it is moved")
            yield from self._check_left_out(row, said)
        elif said := BINDS.fullmatch(detail):
            yield from self._check_budget(row, said)
        elif detail.startswith("not split, because "):
            yield from self._check_split(detail.partition("; ")[2], str(row.bundle))
            yield from self._holds(all(step.bundle != row.bundle for step in self._planned.steps), "it is split")
        elif " may not keep the bundle, " in detail:
            yield from self._holds(all(step.bundle != row.bundle for step in self._planned.steps), "it is moved")
            yield from self._check_needs(detail.partition(", ")[2], row)
        elif not detail.startswith(("transfer-shedder", "threshold-shedder")):
            yield from self._check_no_figures(detail)

    def _final_owner(self, bundle: str) -> str | None:
        for step in self._planned.steps:
            if step.bundle == bundle:
                return step.destination
        return str(self._cluster.bundles.owner[self._place[bundle]]) if bundle in self._place else None

    def _check_hot_broker(self, row: Rejection, said: re.Match[str]) -> Iterator[str]:
        own = self._row(str(row.broker), said["resource"])
        yield from self._is(said["after"], own.used_after, own.limit, "after")
        yield from self._is(said["before"], own.used_before, own.limit, "before")
        yield from self._is(said["band"], own.band_limit, own.limit, "the band")
        yield from self._holds(own.used_after > own.band_limit > 0, "the broker ends inside its band")
        left_out = [
            other
            for other in self._planned.rejections
            if (found := LEFT_OUT.fullmatch(other.detail)) and found["source"] == row.broker
        ]
        if off := LEFT_OFF.fullmatch(said["why"]):
            yield from self._equals(off["many"], len(left_out), "moves that are left out")
        elif not FOREIGN.fullmatch(said["why"]):
            yield from self._holds(not left_out, "moves off it are left out")

    def _check_needs(self, why: str, row: Rejection) -> Iterator[str]:
        if said := NEEDS.search(why):
            yield from self._check_part(said, str(row.bundle))
        else:
            yield from self._check_no_figures(why)

    def _check_left_out(self, row: Rejection, said: re.Match[str]) -> Iterator[str]:
        if said["amount"] is None:
            return
        yield from self._equals(said["budget"], getattr(self._settings, said["setting"]), said["setting"])
        if (place := self._place.get(str(row.bundle))) is not None:
            yield from self._equals(said["amount"], self._cost(place, said["setting"]), "its cost")

    def _cost(self, place: int, setting: str) -> float:
        bundles = self._cluster.bundles
        sessions, out = int(bundles.sessions[place]), int(bundles.throughput_out[place])
        pricing = pricing_of(self._planned.plan.load_manager, self._settings)
        costs = {
            "steps": 1,
            "bytes_per_s": int(bundles.throughput_in[place]) + out,
            "sessions": sessions,
            "client_ms": client_milliseconds(StepKind.TRANSFER.value, sessions, out, pricing),
        }
        budget = BUDGETS[setting]
        return round(costs[budget.field] / budget.per_unit, 3)

    def _check_budget(self, row: Rejection, said: re.Match[str]) -> Iterator[str]:
        yield from self._equals(said["budget"], getattr(self._settings, said["setting"]), said["setting"])
        left_out = [other for other in self._planned.rejections if other.scope == "bundle" and other.rule == row.rule]
        moves = [other for other in left_out if LEFT_OUT.fullmatch(other.detail)]
        yield from self._equals(said["many"], len(moves), "moves that are left out")
        if found := re.fullmatch(rf"all moves would take (?P<steps>{NUMBER}) steps?", said["needs"]):
            everything = sum(LEFT_OUT.fullmatch(other.detail) is not None for other in self._planned.rejections) + len(
                self._planned.steps
            )
            yield from self._equals(found["steps"], everything, "all moves")

    def _check_no_figures(self, words: str) -> Iterator[str]:
        """A sentence of another kind may count things, but gives no share of anything."""
        for name in self._names:
            words = words.replace(name, "")
        left = COUNTS.sub("", words)
        yield from self._holds(not re.search(r"\d", left), "a figure that nobody checks")

    @cached_property
    def _names(self) -> list[str]:
        policies = self._cluster.policies
        names = {each.broker_id for each in self._cluster.brokers}
        names |= {str(name) for column in ("bundle", "namespace") for name in getattr(self._cluster.bundles, column)}
        names |= {policy.name for policy in policies.isolation} | {g.lower() for g in policies.anti_affinity.values()}
        names |= set(policies.failure_domains)
        return sorted(names, key=len, reverse=True)

    # pools

    def check_pools(self) -> Iterator[str]:
        for pool in self._planned.plan.pools:
            members = {row.broker_id for row in self._planned.brokers if row.pool == pool.pool and pool.pool}
            left_out = [
                row for row in self._planned.rejections if row.pool == pool.pool and LEFT_OUT.fullmatch(row.detail)
            ]
            for advice in pool.advice:
                yield from (f"pool {pool.pool}: {fault}: {advice}" for fault in self._check_advice(advice, members))
                if said := WIDER.fullmatch(advice):
                    yield from self._equals(said["many"], len(left_out), f"pool {pool.pool}: moves that are left out")
                    yield from self._equals(said["all"], len(left_out) + pool.moves, f"pool {pool.pool}: all moves")
            if pool.reaches_band:
                outside = [name for name in members if self._is_above_band(name) and not self._is_emptied(name)]
                yield from self._holds(not outside, f"pool {pool.pool} is said to reach its band, but not {outside}")
            yield from self._check_peaks(pool.peak_before, "used_before", members)
            yield from self._check_peaks(pool.peak_after, "used_after", members)

    def _is_emptied(self, broker: str) -> bool:
        return any(
            each.broker_id == broker and each.state in ("Stopping", "Inactive") for each in self._cluster.brokers
        )

    def _check_peaks(self, said: object, field: str, members: set[str]) -> Iterator[str]:
        assert isinstance(said, dict)
        for resource, peak in said.items():
            rows = [self._row(name, resource.replace("_", " ")) for name in members if not self._is_emptied(name)]
            real = max((getattr(row, field) / row.limit for row in rows if row.limit), default=0.0)
            yield from self._holds(abs(real - peak) < 1e-6, f"peak {field} of {resource}: {peak} instead of {real}")

    def _check_advice(self, advice: str, members: set[str]) -> Iterator[str]:
        if said := CONTENTED.fullmatch(advice):
            row = self._row(said["broker"], said["resource"])
            yield from self._is(said["after"], row.used_after, row.limit, "the fullest")
            yield from self._equals(said["line"], self._line, "the overload line")
            growth = max(0, int(100 * (self._line / 100 / (row.used_after / row.limit) - 1)))
            yield from self._equals(said["growth"], growth, "the growth")
            rows = [r for r in self._planned.brokers if r.broker_id in members and r.limit]
            top = max(r.used_after / r.limit for r in rows if not self._is_emptied(r.broker_id))
            yield from self._holds(row.used_after / row.limit == top, "another broker is fuller")
        elif said := re.search(rf"(\S+)'s ({RESOURCE}) limit, where the band ends at ({NUMBER}) %", advice):
            row = self._row(said[1].removeprefix("of "), said[2])
            yield from self._is(said[3], row.band_limit, row.limit, "the band")
