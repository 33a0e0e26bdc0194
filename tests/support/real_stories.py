"""What must hold on real brokers of every kind, told once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from kazoo.client import KazooClient

from evenkeel.adapters.lake.snapshots import SnapshotStore
from evenkeel.adapters.zookeeper.session import ZooKeeperSession
from evenkeel.model.bundles import BundleName, is_system_namespace
from evenkeel.model.errors import UnavailableError
from evenkeel.model.plan import Step, StepKind
from evenkeel.model.run import RunRecord, RunState, StepResult, StepState
from evenkeel.model.snapshot import Broker, Bundle, LoadManager
from evenkeel.pulsar_rules.ring import hash_topic
from evenkeel.stages.verify import verify_run
from support.plans import make_step, store_plan
from support.pulsar_traffic import Traffic, name_topics, running_traffic
from support.real_scene import BUNDLES, NAMESPACES, RealScene, shown
from support.waiting import eventually

RECOVERY_S = 300.0
LOAD_TOLD_S = 90.0
GO_ON_S = 120.0
# Brokers hear of a changed setting, and of a bundle's new owner, by a watch.
SWITCHED_S = 30.0
AGREED_S = 30.0
MESSAGES_AFTERWARDS = 20


@contextmanager
def busy_clients(
    scene: RealScene, producers: int = 24, consumers: int = 6, may_time_out: bool = False
) -> Iterator[Traffic]:
    """Real clients at work on so many topics while the block runs; none of their messages may be refused or lost.

    Where a broker dies, a client's own request to it may go unanswered for so long that sends time out: the producer is
    told so and could send again. That is printed, and the rule about acknowledged messages holds all the same.
    """
    topics = name_topics(NAMESPACES, producers)
    with running_traffic(scene.cluster.service_url, topics, consumers, scene.home / "clients.log") as traffic:
        traffic.await_first_messages()
        yield traffic
        if not may_time_out:
            traffic.require_all_going()
        account = traffic.settle()
    print(account.tell())
    scene.figures.append(account.figures())
    assert account.sent > 0
    assert account.refused == 0 or may_time_out, "messages were refused"
    assert account.open == 0, "messages have no answer"
    assert account.missing() == {}, "acknowledged messages were lost"


def goes_the_whole_way(scene: RealScene) -> None:
    """Snapshot, plan, check, approve, apply and verify by command, under traffic."""
    scene.skew()
    cluster = ("--cluster", scene.connection.cluster)
    with busy_clients(scene):
        snapshot = take_loaded_snapshot(scene)
        assert snapshot["load_manager"] == scene.kind
        plan = scene.run("plan", *cluster, "--snapshot", snapshot["snapshot_id"])
        plan_id, planned = plan["plan_id"], sum(plan["steps"].values())
        assert plan["steps"]["transfers"] > 0, plan
        assert scene.run("check", plan_id)["passed"] is True
        scene.run("approve", plan_id)
        run = scene.run("apply", plan_id, *cluster, live=True)
        assert (run["state"], run["settled"]) == ("done", planned), run
        assert_placed(scene, shown(scene.run("show", plan_id, "--steps")["steps"]))
        verified = scene.run("verify", run["run_id"], live=True)
        assert verified["passed"] is True, verified


def take_loaded_snapshot(scene: RealScene) -> dict[str, Any]:
    """Take snapshots by command until one reports load that can be planned; `pulsar/system` always has some.

    Brokers count once in a few seconds, and on a busy machine their clients may pause for longer than that.
    """
    taken: list[dict[str, Any]] = []
    store, cluster = SnapshotStore(scene.lake), scene.connection.cluster

    def has_load() -> bool:
        taken.append(scene.run("snapshot", "--cluster", cluster, live=True))
        bundles = store.read_table(store.load(cluster, taken[-1]["snapshot_id"]), "bundles")
        rates = zip(bundles["namespace"].to_pylist(), bundles["msg_rate_in_per_s"].to_pylist(), strict=True)
        return any(rate for namespace, rate in rates if not is_system_namespace(namespace))

    assert eventually(has_load, LOAD_TOLD_S), "the brokers tell of no load"
    return taken[-1]


def keeps_every_message_under_steady_load(scene: RealScene, producers: int, consumers: int) -> None:
    """Every bundle moves once while clients are busy: no message is lost, and the placement is the plan's."""
    scene.skew()
    with busy_clients(scene, producers, consumers) as traffic:
        run = scene.apply(scene.plan_transfers(BUNDLES))
        assert_settled(scene, run, BUNDLES)
        # The moves are over in a second or two; the clients must get on well afterwards too.
        wanted = traffic.account.sent + MESSAGES_AFTERWARDS * producers
        assert eventually(lambda: traffic.account.sent >= wanted, GO_ON_S), "the clients do not get on"
        # While the clients are there: it compares the producers of each topic with those before the run.
        verification = verify_run(scene.lake, run.run_id, scene.connection, scene.settings)
        assert verification.passed, verification.deviations


def repeats_nothing(scene: RealScene) -> None:
    """A second run of a plan looks, and writes nothing."""
    scene.skew()
    plan_id = scene.plan_transfers(3)
    first = scene.apply(plan_id)
    assert_settled(scene, first, 3)
    owners = scene.operator.owners()
    second = scene.apply(plan_id)
    assert (second.epoch, second.count(StepState.SETTLED)) == (first.epoch, 3), second
    assert "already applied by run" in second.detail
    assert scene.operator.owners() == owners


def splits_a_bundle_and_moves_a_child(scene: RealScene) -> None:
    """A bundle is cut between its topics, and one half goes to another broker; its clients go on."""
    scene.skew()
    with busy_clients(scene) as traffic:
        steps = split_and_transfer(scene, traffic.topics)
        parent, child = steps[0].bundle, steps[1].bundle
        run = scene.apply(store_plan(scene.lake, scene.snapshot(), steps))
        assert (run.state, run.count(StepState.SETTLED)) == (RunState.DONE, 2), run
        assert parent not in scene.bundles()
        assert child in scene.bundles()
        sibling = next(b for b in halves(steps[0]) if b != child)
        assert steps[1].destination is not None
        assert_placed(scene, {child: steps[1].destination, sibling: steps[0].source})


def split_and_transfer(scene: RealScene, topics: Sequence[str]) -> list[Step]:
    """The steps that cut the bundle with most topics in their middle, and move the upper half."""
    manifest = scene.snapshot()
    brokers: list[Broker] = scene.rows(manifest, "brokers", Broker)
    incarnations = {broker.broker_id: broker.incarnation for broker in brokers}
    bundles: list[Bundle] = [b for b in scene.rows(manifest, "bundles", Bundle) if b.namespace in NAMESPACES]
    hashes = {b.bundle: sorted(hash_topic(topic) for topic in topics if is_in(topic, b.bundle)) for b in bundles}
    chosen = max(bundles, key=lambda bundle: len(hashes[bundle.bundle]))
    found = hashes[chosen.bundle]
    boundary = (found[len(found) // 2 - 1] + found[len(found) // 2]) // 2 + 1
    destination = next(broker for broker in scene.brokers if broker != chosen.owner)
    template = make_step(0, chosen, destination, incarnations)
    split = replace(
        template, kind=StepKind.SPLIT, destination=None, destination_incarnation=None, split_boundary=boundary
    )
    # Pulsar begins a child's record at version 1; the other kinds keep no record.
    version = None if chosen.version_id is None else 1
    child = replace(template, order=1, wave=1, bundle=halves(split)[1], expected_version_id=version)
    return [split, child]


def halves(split: Step) -> tuple[str, str]:
    parent = BundleName.parse(split.bundle)
    assert split.split_boundary is not None
    lower, upper = parent.range.split_at(split.split_boundary)
    return str(replace(parent, range=lower)), str(replace(parent, range=upper))


def drains_a_broker(scene: RealScene) -> None:
    """`evenkeel drain` marks a broker as Stopping and moves all that it has past the gate; `--undo` ends that."""
    scene.skew()
    leaving = scene.brokers[0]
    words = ("drain", "--broker", leaving, "--cluster", scene.connection.cluster)
    with busy_clients(scene):
        try:
            drained = scene.run(*words, "--reason", "maintenance", "--yes", live=True)
            assert drained["gate"]["passed"] is True
            assert drained["run"]["state"] == "done"
            assert drained["run"]["settled"] == len(drained["steps"]) > 0, drained
            assert drained["leftovers"] == []
            assert eventually(lambda: leaving not in scene.operator.owners().values(), AGREED_S)
            brokers: list[Broker] = scene.rows(scene.snapshot(), "brokers", Broker)
            assert {broker.broker_id: broker.state for broker in brokers}[leaving] == "Stopping"
        finally:
            undone = scene.run(*words, "--undo", live=True)
        assert undone["unmarked"] == [leaving]


def rolls_back(scene: RealScene) -> None:
    """`evenkeel rollback` moves what a run moved back by a plan made from the journal, past the gate."""
    before = scene.skew()
    with busy_clients(scene):
        run = scene.apply(scene.plan_transfers(4))
        assert_settled(scene, run, 4)
        cluster = ("--cluster", scene.connection.cluster)
        way_back = scene.run("rollback", run.run_id, *cluster, "--yes", live=True)
        assert way_back["gate"]["passed"] is True
        assert (way_back["run"]["state"], way_back["run"]["settled"]) == ("done", 4), way_back
        assert way_back["verification"]["passed"] is True
        assert_placed(scene, before)


def gives_the_balancer_back(scene: RealScene) -> None:
    """Pulsar's own shedding and splitting are off in every broker while bundles move, and on again afterwards."""
    scene.skew()
    were_off: list[bool] = []
    run = scene.apply(
        scene.plan_transfers(2),
        on_progress=once_settled(
            1, lambda: were_off.append(eventually(lambda: switches(scene) == {"false"}, SWITCHED_S))
        ),
    )
    assert_settled(scene, run, 2)
    assert were_off == [True]
    assert eventually(lambda: switches(scene) == {"true"}, SWITCHED_S), "a switch stayed off inside a broker"


def switches(scene: RealScene) -> set[str]:
    """The values of Pulsar's two switches in all brokers."""
    keys = ("loadBalancerSheddingEnabled", "loadBalancerAutoBundleSplitEnabled")
    return {value for key in keys for value in scene.operator.settings_of_brokers(key).values()}


def resumes_after_its_session_expired(scene: RealScene, sessions: Sequence[ZooKeeperSession]) -> None:
    """The writer's session ends in mid-wave: it stops at once; the next run goes on and repeats nothing."""
    scene.skew()
    with busy_clients(scene):
        plan_id = scene.plan_transfers(6)
        # One at a time, so that something is left to do when the session ends.
        slow = replace(scene, settings=replace(scene.settings, in_flight_steps=1))
        run = slow.apply(plan_id, on_progress=once_settled(2, lambda: expire(scene, sessions[-1])))
        assert run.state in (RunState.LOST, RunState.STOPPED), run
        assert run.count(StepState.SETTLED) < 6
        again = scene.apply(plan_id)
        assert again.epoch > run.epoch
        assert_settled(scene, again, 6)


def survives_the_death_of_a_broker(scene: RealScene) -> None:
    """A broker dies in mid-wave: the run stops, says why, and once all is served again no message is missing."""
    scene.skew()
    with busy_clients(scene, may_time_out=True) as traffic:
        plan_id = scene.plan_transfers(BUNDLES)
        victim = scene.brokers[1]
        run = scene.apply(plan_id, on_progress=once_settled(1, lambda: scene.cluster.kill(victim)))
        print(run.detail)
        assert run.state is RunState.STOPPED, run
        assert run.detail
        living = {address.broker_id for address in scene.cluster.serving}
        assert eventually(lambda: is_served_by(scene, traffic.topics, living), RECOVERY_S), scene.operator.owners()
        free_waiting_clients(scene, run, victim)
    scene.cluster.start(victim)


def free_waiting_clients(scene: RealScene, run: RunRecord, victim: str) -> None:
    """Unload what was on its way to a dead broker and came back, as an operator has to: its clients wait for ever.

    A broker that hands a bundle over closes its topics but keeps the clients, to send them on to the new owner. Where
    that one dies on the way, Pulsar's leader may give the bundle back, and nobody tells the clients: they stay with
    topics that take nothing any more, and each message to them ends with the client's send time-out. Seen on 4.2.4
    with `loadBalancerMultiPhaseBundleUnload` on, its default. An unload cuts the clients off, so that they come again.
    Modular brokers cut them off at once, so there nothing needs to be done.
    """
    if scene.kind is LoadManager.MODULAR:
        return
    owners = scene.operator.owners()
    for result in run.results:
        was_begun = result.state in (StepState.INTENDED, StepState.APPLIED, StepState.FAILED)
        if was_begun and result.destination == victim and owners.get(result.bundle) == result.source:
            print(f"{result.bundle} came back to {result.source} and is unloaded ({result.state})")
            scene.operator.unload(result.bundle)


def is_served_by(scene: RealScene, topics: Sequence[str], living: set[str]) -> bool:
    """Whether living brokers own every bundle that a client asks for; of others nobody makes them take any.

    A broker that is taking over bundles of a dead one may let a question wait until it has them.
    """
    try:
        owners = scene.operator.owners()
    except UnavailableError:
        return False
    asked_for = [bundle for bundle in scene.bundles() if any(is_in(topic, bundle) for topic in topics)]
    return all(owners.get(bundle) in living for bundle in asked_for)


def is_in(topic: str, bundle: str) -> bool:
    """Whether a topic belongs to a bundle."""
    name = BundleName.parse(bundle)
    return f"://{name.namespace}/" in topic and hash_topic(topic) in name.range


def once_settled(count: int, act: Callable[[], None]) -> Callable[[StepResult], None]:
    """Act once, as soon as so many steps have settled."""
    seen: list[StepResult] = []

    def on_progress(result: StepResult) -> None:
        if result.state is StepState.SETTLED:
            seen.append(result)
            if len(seen) == count:
                act()

    return on_progress


def expire(scene: RealScene, session: ZooKeeperSession) -> None:
    """End a session as ZooKeeper does after a long silence: another connection takes it and closes it."""
    thief = KazooClient(scene.connection.zookeeper, client_id=session._client.client_id, timeout=10.0)
    thief.start(timeout=30.0)
    thief.stop()
    thief.close()


def assert_settled(scene: RealScene, run: RunRecord, count: int) -> None:
    assert (run.state, run.count(StepState.SETTLED)) == (RunState.DONE, count), run
    assert_placed(scene, {result.bundle: result.destination for result in run.results})


def assert_placed(scene: RealScene, wanted: Mapping[str, str | None]) -> None:
    """The brokers agree on the owners. Each of them hears by a watch that it has got or lost a bundle."""

    def placed() -> Mapping[str, str | None]:
        owners = scene.operator.owners()
        return {bundle: owners.get(bundle) for bundle in wanted}

    assert eventually(lambda: placed() == wanted, AGREED_S), f"{placed()} is not the plan's placement"
