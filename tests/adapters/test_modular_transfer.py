"""Transfers on modular clusters: what the owner's node says counts, and unloads are few and far between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from evenkeel.adapters.brokers.admin_api import name_topic_inside
from evenkeel.adapters.brokers.modular_transfer import (
    MOST_TOPICS_WITHOUT_NOTE,
    MOST_UNLOADS,
    ModularTransfer,
    OwnerNode,
)
from evenkeel.adapters.machine import monotonic_s
from evenkeel.model.bundles import BundleName
from evenkeel.model.errors import FencedOutError, RefusedError
from support.answering_brokers import BUNDLE, TIMEOUT_S, UNLOAD, Broker, Start, admin, found_at

OLD = OwnerNode("s", 1)
SETTLING_S = 0.3
LOOKUP = f"/lookup/v2/topic/non-persistent/shop/orders/{name_topic_inside(BundleName.parse(BUNDLE))}"


@dataclass
class Nodes:
    """Owner nodes as they are read, one after the other; the last one for ever."""

    script: list[OwnerNode | None]
    reads: int = 0
    unloads: list[int] = field(default_factory=list)

    def read(self, bundle: str) -> OwnerNode | None:
        self.reads += 1
        return self.script.pop(0) if len(self.script) > 1 else self.script[0]

    def count(self) -> None:
        self.unloads.append(self.reads)


def transfer(
    brokers: dict[str, Broker],
    nodes: Nodes,
    may_go_on: Callable[[], None] = lambda: None,
    within_s: float = TIMEOUT_S,
    topics: int = 1,
) -> None:
    with admin({name: broker.url for name, broker in brokers.items()}) as calls:
        modular = ModularTransfer(calls, nodes.read, SETTLING_S, may_go_on)
        modular.transfer(BUNDLE, "s", "d", topics, monotonic_s() + within_s, nodes.count)


def unloads_of(broker: Broker) -> int:
    return sum(method == "PUT" for method, _, _ in broker.seen)


def paths_seen(broker: Broker) -> list[str]:
    return [path for _, path, _ in broker.seen]


def test_destination_takes_a_bundle_with_few_topics_and_the_leader_has_nothing_to_remember(start: Start) -> None:
    source, destination = start((204, "")), start((204, ""))
    destination.replies[:] = [found_at(destination)]
    nodes = Nodes([OLD, OwnerNode("d", 2)])
    transfer({"s": source, "d": destination}, nodes, topics=MOST_TOPICS_WITHOUT_NOTE)
    assert paths_seen(source) == [UNLOAD]
    assert paths_seen(destination) == [f"{LOOKUP}?authoritative=true"]


def test_leader_gets_to_know_where_a_bundle_with_many_topics_goes(start: Start) -> None:
    source, destination = start((204, "")), start((204, ""))
    destination.replies[:] = [found_at(destination)]
    nodes = Nodes([OLD, OwnerNode("d", 2)])
    transfer({"s": source, "d": destination}, nodes, topics=MOST_TOPICS_WITHOUT_NOTE + 1)
    assert paths_seen(source) == [f"{UNLOAD}?destinationBroker=d"]
    assert paths_seen(destination) == [LOOKUP]


def test_lookup_that_names_the_old_owner_leads_to_no_second_unload(start: Start) -> None:
    source, destination = start((204, "")), start((204, ""))
    destination.replies[:] = [found_at(source)]
    nodes = Nodes([OLD, None, None, None, OwnerNode("d", 2)])
    transfer({"s": source, "d": destination}, nodes)
    assert (unloads_of(source), unloads_of(destination), len(nodes.unloads)) == (1, 0, 1)


def test_bundle_that_went_elsewhere_is_unloaded_there_after_a_while(start: Start) -> None:
    source, destination, third = start((204, "")), start((204, "")), start((204, ""))
    destination.replies[:] = [found_at(third)]
    astray = OwnerNode("x", 2)
    nodes = Nodes([OLD, None, *[astray] * 3, OwnerNode("d", 3)])
    began_s = monotonic_s()
    transfer({"s": source, "d": destination, "x": third}, nodes)
    assert (unloads_of(source), unloads_of(third), unloads_of(destination)) == (1, 1, 0)
    assert nodes.unloads == [1, 5], "clients get time, and the node is read again, before the second unload"
    assert monotonic_s() - began_s >= SETTLING_S


def test_bundle_that_arrives_while_clients_settle_is_left_there(start: Start) -> None:
    source, destination, third = start((204, "")), start((204, "")), start((204, ""))
    destination.replies[:] = [found_at(third)]
    nodes = Nodes([OLD, OwnerNode("x", 2), OwnerNode("d", 3)])
    transfer({"s": source, "d": destination, "x": third}, nodes)
    assert (unloads_of(source), unloads_of(third), unloads_of(destination)) == (1, 0, 0)


def test_bundle_that_keeps_going_elsewhere_is_given_up_after_a_few_unloads(start: Start) -> None:
    source, destination = start((204, "")), start((204, ""))
    destination.replies[:] = [found_at(source)]
    born = iter(range(1, 1_000))
    nodes = Nodes([OLD])
    with admin({"s": source.url, "d": destination.url}) as calls:
        last = [OLD]

        def read(bundle: str) -> OwnerNode:
            return last[0]

        def count() -> None:
            nodes.count()
            last[0] = OwnerNode("s", 1 + next(born))

        ModularTransfer(calls, read, SETTLING_S).transfer(BUNDLE, "s", "d", 1, monotonic_s() + TIMEOUT_S, count)
    assert len(nodes.unloads) == unloads_of(source) == MOST_UNLOADS


def test_no_second_unload_without_time_for_it(start: Start) -> None:
    source, destination = start((204, "")), start((204, ""))
    destination.replies[:] = [found_at(source)]
    nodes = Nodes([OLD, OwnerNode("s", 2)])
    transfer({"s": source, "d": destination}, nodes, within_s=SETTLING_S)
    assert unloads_of(source) == 1


def test_writer_that_was_overtaken_unloads_no_second_time(start: Start) -> None:
    def overtaken() -> None:
        raise FencedOutError("another writer has taken over", "let it finish")

    source, destination = start((204, "")), start((204, ""))
    destination.replies[:] = [found_at(source)]
    with pytest.raises(FencedOutError):
        transfer({"s": source, "d": destination}, Nodes([OLD, OwnerNode("s", 2)]), overtaken)
    assert unloads_of(source) == 1


def test_refusal_of_the_first_call_says_that_nothing_has_changed(start: Start) -> None:
    source, destination = start((412, "no")), start((204, ""))
    with pytest.raises(RefusedError, match="refused to unload"):
        transfer({"s": source, "d": destination}, Nodes([OLD]))
    assert destination.seen == [], "a bundle that stays is not looked up"


def test_refusal_of_a_later_call_does_not_say_that_nothing_has_changed(start: Start) -> None:
    source, destination, third = start((204, "")), start((204, "")), start((412, "no"))
    destination.replies[:] = [found_at(third)]
    nodes = Nodes([OLD, OwnerNode("x", 2)])
    transfer({"s": source, "d": destination, "x": third}, nodes)
    assert (unloads_of(source), unloads_of(third), len(nodes.unloads)) == (1, 1, 1)
