"""Random legal plans, each spoilt in one place: the verifier names the rule that the change breaks, every time."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from evenkeel.model.bundles import tenant_of
from evenkeel.model.plan import Step
from evenkeel.model.settings import Settings
from evenkeel.planning.verifier.verifier import find_violations
from support.clusters import Cluster, plan, random_cluster

SEEDS = range(6)


@dataclasses.dataclass(frozen=True)
class Case:
    """A plan and all that it is judged by."""

    cluster: Cluster
    steps: Sequence[Step]
    settings: Settings = dataclasses.field(default_factory=Settings)

    def broken_rules(self) -> set[str]:
        cluster = self.cluster
        found = find_violations(self.steps, cluster.brokers, cluster.bundles, cluster.policies, self.settings)
        return {violation.rule for violation in found}

    def with_step(self, place: int, **changes: Any) -> Case:
        steps = [dataclasses.replace(s, **changes) if n == place else s for n, s in enumerate(self.steps)]
        return dataclasses.replace(self, steps=steps)

    def with_settings(self, **changes: Any) -> Case:
        return dataclasses.replace(self, settings=dataclasses.replace(self.settings, **changes))

    def with_bundles(self, **changes: Any) -> Case:
        bundles = dataclasses.replace(self.cluster.bundles, **changes)
        return dataclasses.replace(self, cluster=dataclasses.replace(self.cluster, bundles=bundles))

    def with_broker(self, broker_id: str | None, **changes: Any) -> Case:
        brokers = tuple(
            dataclasses.replace(row, **changes) if row.broker_id == broker_id else row for row in self.cluster.brokers
        )
        return dataclasses.replace(self, cluster=dataclasses.replace(self.cluster, brokers=brokers))

    def row_of(self, step: Step) -> int:
        return int(np.flatnonzero(self.cluster.bundles.bundle == step.bundle)[0])


def make_case(seed: int) -> Case:
    """A legal plan of ten steps or more."""
    cluster = random_cluster(seed, n_brokers=10, n_bundles=200)
    case = Case(cluster, plan(cluster).steps)
    assert len(case.steps) >= 10, f"seed {seed}"
    assert case.broken_rules() == set(), f"seed {seed}"
    return case


def swap_two(case: Case, place: int, step: Step) -> Case:
    steps = list(case.steps)
    steps[place], steps[place - 1] = steps[place - 1], steps[place]
    return dataclasses.replace(case, steps=steps)


def repeat(case: Case, place: int, step: Step) -> Case:
    again = dataclasses.replace(step, order=len(case.steps), wave=case.steps[-1].wave)
    return dataclasses.replace(case, steps=[*case.steps, again])


def make_heavy(case: Case, place: int, step: Step) -> Case:
    # Of all resources: not every limit of a destination is known.
    names = ("cpu_millipercent", "throughput_in", "throughput_out")
    loads = {name: getattr(case.cluster.bundles, name).copy() for name in names}
    for load in loads.values():
        load[case.row_of(step)] = 10**9
    return case.with_bundles(**loads)


def make_busy(case: Case, place: int, step: Step) -> Case:
    state = case.cluster.bundles.state.copy()
    state[case.row_of(step)] = "Assigning"
    return case.with_bundles(state=state)


def crowd(case: Case, place: int, step: Step) -> Case:
    """Give the step's bundle a group with one other, which sits at its destination and stays there."""
    bundles, namespace = case.cluster.bundles, "t/grouped"
    moved = {other.bundle for other in case.steps}
    staying = next(row for row, name in enumerate(bundles.bundle) if name not in moved)
    namespaces, owners = bundles.namespace.copy(), bundles.owner.copy()
    namespaces[[case.row_of(step), staying]] = namespace
    owners[staying] = step.destination
    policies = dataclasses.replace(case.cluster.policies, anti_affinity={namespace: "g"})
    cluster = dataclasses.replace(case.cluster, policies=policies)
    return dataclasses.replace(case, cluster=cluster).with_bundles(namespace=namespaces, owner=owners)


def forbid(case: Case, place: int, step: Step) -> Case:
    host = str(step.destination).partition(":")[0]
    namespace = step.bundle.rpartition("/")[0]
    others = tuple(b.broker_id.partition(":")[0] for b in case.cluster.brokers if not b.broker_id.startswith(host))
    policy = dataclasses.replace(case.cluster.policies.isolation[0], namespaces=(namespace,), primary=others)
    policies = dataclasses.replace(case.cluster.policies, isolation=(policy,))
    return dataclasses.replace(case, cluster=dataclasses.replace(case.cluster, policies=policies))


def spent(case: Case, kind: str, tenant: str = "", wave: int | None = None) -> int:
    """What the steps of a tenant or wave move, by the snapshot; the tenant is a part of every name here."""
    bundles = case.cluster.bundles
    rows = [case.row_of(s) for s in case.steps if tenant_of(s.bundle).startswith(tenant) and wave in (None, s.wave)]
    if kind == "sessions":
        return int(bundles.sessions[rows].sum())
    return int((bundles.throughput_in[rows] + bundles.throughput_out[rows]).sum())


Mutation = Callable[[Case, int, Step], Case]

MUTATIONS: dict[str, tuple[str, Mutation]] = {
    "bundle unknown": ("unknown-bundle", lambda c, n, s: c.with_step(n, bundle="t/no/0x00000000_0x00000001")),
    "kind unknown": ("unknown-kind", lambda c, n, s: c.with_step(n, kind="copy")),
    "source": ("wrong-owner", lambda c, n, s: c.with_step(n, source=s.destination, destination=s.source)),
    "goes nowhere": ("unknown-destination", lambda c, n, s: c.with_step(n, destination=None)),
    "goes home": ("moves-to-itself", lambda c, n, s: c.with_step(n, destination=s.source)),
    "source restarted": ("incarnation", lambda c, n, s: c.with_step(n, source_incarnation=8)),
    "destination restarted": ("incarnation", lambda c, n, s: c.with_step(n, destination_incarnation=8)),
    "record changed": ("version", lambda c, n, s: c.with_step(n, expected_version_id=9)),
    "destination stops": ("not-active", lambda c, n, s: c.with_broker(s.destination, state="Stopping")),
    "another manager": ("load-manager", lambda c, n, s: c.with_broker(s.destination, load_manager="modular")),
    "excluded": (
        "excluded-namespace",
        lambda c, n, s: c.with_settings(shedding_excluded_namespaces=(s.bundle.rpartition("/")[0],)),
    ),
    "isolated": ("not-eligible", forbid),
    "in flight": ("in-flight", make_busy),
    "too heavy": ("overload", make_heavy),
    "too many topics": ("topic-limit", lambda c, n, s: c.with_settings(broker_max_topics=1)),
    "crowded": ("anti-affinity", crowd),
    "order": ("order", swap_two),
    "gap": ("waves", lambda c, n, s: c.with_step(len(c.steps) - 1, wave=c.steps[-1].wave + 2)),
    "twice": ("moved-twice", repeat),
    "large wave": ("wave-size", lambda c, n, s: c.with_settings(wave_steps=1)),
    "steps": ("step-budget", lambda c, n, s: c.with_settings(max_steps=len(c.steps) - 1)),
    "bytes": ("bytes-budget", lambda c, n, s: c.with_settings(max_moved_bytes_per_s=spent(c, "bytes") - 1)),
    "sessions": ("sessions-budget", lambda c, n, s: c.with_settings(max_moved_sessions=spent(c, "sessions") - 1)),
    "tenant's steps": ("tenant-step-budget", lambda c, n, s: c.with_settings(tenant_max_steps=len(c.steps) - 1)),
    "tenant's bytes": (
        "tenant-bytes-budget",
        lambda c, n, s: c.with_settings(tenant_max_moved_bytes_per_s=spent(c, "bytes", "t") - 1),
    ),
    "tenant's sessions": (
        "tenant-sessions-budget",
        lambda c, n, s: c.with_settings(tenant_max_sessions=spent(c, "sessions", "t") - 1),
    ),
    "wave's bytes": (
        "wave-bytes-budget",
        lambda c, n, s: c.with_settings(wave_max_moved_bytes_per_s=spent(c, "bytes", wave=s.wave) - 1),
    ),
    "wave's sessions": (
        "wave-sessions-budget",
        lambda c, n, s: c.with_settings(wave_max_sessions=spent(c, "sessions", wave=s.wave) - 1),
    ),
    "client-seconds": ("disruption-budget", lambda c, n, s: c.with_settings(max_client_seconds=0.001)),
    "split without a boundary": ("boundary", lambda c, n, s: c.with_step(n, kind="split")),
}


@pytest.fixture(scope="module", params=SEEDS)
def case(request: pytest.FixtureRequest) -> tuple[int, Case]:
    return request.param, make_case(request.param)


@pytest.mark.parametrize("name", MUTATIONS)
def test_every_change_for_the_worse_is_found(case: tuple[int, Case], name: str) -> None:
    seed, legal = case
    chance = random.Random(f"{seed} {name}")
    rule, mutate = MUTATIONS[name]
    for place in chance.sample(range(1, len(legal.steps)), 5):
        spoilt = mutate(legal, place, legal.steps[place])
        assert rule in spoilt.broken_rules(), f"seed {seed}, step {place}"


def test_budgets_that_just_suffice_are_kept(case: tuple[int, Case]) -> None:
    seed, legal = case
    just = legal.with_settings(
        max_steps=len(legal.steps),
        max_moved_bytes_per_s=spent(legal, "bytes"),
        max_moved_sessions=spent(legal, "sessions"),
        tenant_max_steps=len(legal.steps),
        tenant_max_moved_bytes_per_s=spent(legal, "bytes", "t"),
        tenant_max_sessions=spent(legal, "sessions", "t"),
    )
    assert just.broken_rules() == set(), f"seed {seed}"


def test_waves_may_lose_any_of_their_steps(case: tuple[int, Case]) -> None:
    """Any subset of the first wave that is larger than the canary is legal, if nothing follows."""
    seed, legal = case
    chance = random.Random(seed)
    first, second = ([s for s in legal.steps if s.wave == wave] for wave in (0, 1))
    assert second, f"seed {seed}"
    for _ in range(5):
        some = [*first, *sorted(chance.sample(second, chance.randint(1, len(second))), key=lambda s: s.order)]
        steps = [dataclasses.replace(s, order=order) for order, s in enumerate(some)]
        rules = dataclasses.replace(legal, steps=steps).broken_rules()
        # a part of a plan need not be good, but it is legal
        assert rules <= {"worse-peak"}, f"seed {seed}"
