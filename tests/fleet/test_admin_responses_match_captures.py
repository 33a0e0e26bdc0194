"""Simulated brokers respond to admin calls and lookups as captured from real 4.2.4 brokers, situation by situation.

Compared are the status, where a redirect leads and what it asks there, and the body: a reason word for word, names
and figures of other bodies by their type. The order of a query's parts is free, and real brokers add a stack trace to
some reasons, which was not written down and is not simulated. One difference is kept: simulated brokers cannot split by
`flow_or_qps_equally_divide`, which they name among the algorithms that they know, and say so with status 501.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

import httpx
import pytest

from evenkeel.adapters.brokers.admin_api import name_topic_inside
from evenkeel.fleet.documents import service_url
from evenkeel.fleet.fleet import Fleet
from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
from evenkeel.model.bundles import BundleName, is_system_namespace
from support.fleets import first_bundle, running_fleet
from support.shapes import load_capture, shape_of
from support.waiting import scaled

B1, B2, B3 = (f"b0{number}.fleet:8080" for number in (1, 2, 3))
UNKNOWN_BROKER = "b09.fleet:8080"
# The names in the recording that a situation gives other names to.
BUNDLE, BUNDLE_TO_SPLIT = "probe/ns/0x00000000_0x40000000", "probe/ns/0x80000000_0xc0000000"
NAMED_MAPS = frozenset({".topicHashPositions"})
# Nobody but the test looks a bundle up.
NEVER_S = 3600.0
CALL_TIMEOUT_S = scaled(20.0)
KINDS = ("extensible", "modular")
_, *RECORDED = load_capture("admin-answers")


@dataclass(frozen=True)
class Question:
    """Which broker to call, what the recorded names are in this fleet, and the request's body."""

    asked: str
    brokers: Mapping[int, str]
    """Return a broker for each last digit of the recorded addresses."""
    names: Mapping[str, str]
    positions: tuple[int, ...] = ()

    def translate(self, text: str, fleet: Fleet) -> str:
        known = dict(self.names)
        for digit, broker in {**self.brokers, 9: UNKNOWN_BROKER}.items():
            recorded = f"127.0.0.{digit}:8080"
            known |= {recorded: broker, quote(recorded): quote(broker)}
            known[f"pulsar://127.0.0.{digit}:6650"] = service_url(broker)
            if broker in fleet.broker_ids:
                known[f"http://{recorded}"] = fleet.web_url(broker)
        pattern = "|".join(map(re.escape, sorted(known, key=len, reverse=True)))
        return re.sub(pattern, lambda found: known[found[0]], text)


def owned_by(fleet: Fleet, owner: str, asked: str, recorded: str = BUNDLE, **brokers: str) -> Question:
    """A request about a bundle with an owner; `b1="…"` maps a recorded address to a broker."""
    numbered = {int(name.removeprefix("b")): broker for name, broker in brokers.items()}
    return Question(asked, numbered, {recorded: first_bundle(fleet, owner)})


def others(fleet: Fleet) -> list[str]:
    """Return the brokers that are not the leader."""
    return [broker for broker in fleet.broker_ids if broker != leader(fleet)]


def leader(fleet: Fleet) -> str:
    found = fleet.leader()
    assert found is not None
    return found


def idle_bundle(fleet: Fleet) -> str:
    """A bundle without topics or an owner."""
    owners = fleet.owners()
    for namespace in sorted({bundle.rpartition("/")[0] for bundle in owners}):
        points = call(fleet, B1, "GET", f"/admin/v2/namespaces/{namespace}/bundles").json()["boundaries"]
        for lower, upper in pairwise(points):
            if (bundle := f"{namespace}/{lower}_{upper}") not in owners:
                return bundle
    raise AssertionError("every bundle has an owner")


def call(
    fleet: Fleet, broker: str, method: str, path: str, *, follow: bool = False, json: Any = None
) -> httpx.Response:
    url = fleet.web_url(broker) + path
    return httpx.request(method, url, json=json, follow_redirects=follow, timeout=CALL_TIMEOUT_S)


def look_up_path(bundle: str) -> str:
    name = BundleName.parse(bundle)
    return f"/lookup/v2/topic/non-persistent/{name.namespace}/{name_topic_inside(name)}"


def bundle_of_one_namespace(fleet: Fleet) -> Question:
    return Question(B1, {}, {"probe/ns2": first_bundle(fleet, B1).rpartition("/")[0]})


def lookup_of_an_owned_bundle(fleet: Fleet) -> Question:
    path = look_up_path(first_bundle(fleet, B3))
    recorded = ("non-persistent/probe/ns/x-0", "persistent/probe/ns/x-3")
    return Question(B1, {3: B3}, dict.fromkeys(recorded, path.removeprefix("/lookup/v2/topic/")))


def lookup_at_the_leader_of_a_bundle_that_is_to_go_elsewhere(fleet: Fleet) -> Question:
    """Give the leader a hint, so that it chooses a broker other than itself."""
    chosen = others(fleet)[0]
    bundle = first_bundle(fleet, leader(fleet))
    unload = f"/admin/v2/namespaces/{bundle}/unload?destinationBroker={chosen}"
    assert call(fleet, chosen, "PUT", unload, follow=True).status_code == 204
    path = look_up_path(bundle).removeprefix("/lookup/v2/topic/")
    return Question(leader(fleet), {2: chosen}, {"non-persistent/probe/ns/x-0": path})


def lookup_of_a_bundle_that_nobody_owns(fleet: Fleet) -> Question:
    path = look_up_path(idle_bundle(fleet)).removeprefix("/lookup/v2/topic/")
    return Question(others(fleet)[0], {1: leader(fleet)}, {"non-persistent/probe/ns/x-0": path})


def bundle_that_is_not_there(fleet: Fleet) -> Question:
    bundle = BundleName.parse(first_bundle(fleet, B1))
    wrong = f"{bundle.namespace}/0x{bundle.range.lower:08x}_0x{bundle.range.lower + 1:08x}"
    return Question(B2, {}, {BUNDLE: str(bundle), "probe/ns/0x00000000_0x12345678": wrong})


def bundle_without_an_owner(fleet: Fleet) -> Question:
    return Question(B1, {}, {BUNDLE: idle_bundle(fleet)})


def middle_of(name: BundleName) -> int:
    return (name.range.lower + name.range.upper) // 2


def split_in_the_middle(fleet: Fleet, owner: str = B1) -> Question:
    name = BundleName.parse(first_bundle(fleet, owner))
    return Question(B1, {3: owner}, {BUNDLE_TO_SPLIT: str(name)}, (middle_of(name),))


def split_once_more(fleet: Fleet) -> Question:
    question = split_in_the_middle(fleet)
    bundle, (middle,) = question.names[BUNDLE_TO_SPLIT], question.positions
    split = f"/admin/v2/namespaces/{bundle}/split?unload=false&splitAlgorithmName=specified_positions_divide"
    assert call(fleet, B1, "PUT", split, json=[middle]).status_code == 204
    child = f"{bundle.rpartition('_')[0]}_0x{middle:08x}"
    return Question(B1, {}, {**question.names, "probe/ns/0x80000000_0x90000000": child}, (middle,))


def split_outside(fleet: Fleet) -> Question:
    name = BundleName.parse(first_bundle(fleet, B1))
    outside = name.range.upper + 1 if name.range.lower == 0 else name.range.lower - 1
    return Question(B1, {}, {BUNDLE_TO_SPLIT: str(name)}, (outside,))


def split_without_topics(fleet: Fleet) -> Question:
    bundle = idle_bundle(fleet)
    assert call(fleet, B1, "GET", look_up_path(bundle), follow=True).status_code == 200
    owner = fleet.owner_of(bundle)
    assert owner is not None
    return Question(owner, {}, {BUNDLE_TO_SPLIT: bundle}, (middle_of(BundleName.parse(bundle)),))


SITUATIONS: Mapping[str, tuple[Callable[[Fleet], Question], ...]] = {
    "namespace made with boundaries of its own": (bundle_of_one_namespace,),
    "lookup of a topic that does not exist, asked of any broker": (lookup_of_an_owned_bundle,),
    "the same of a bundle without an owner, asked of the leader, which chooses another broker": (
        lookup_at_the_leader_of_a_bundle_that_is_to_go_elsewhere,
    ),
    "the same of a bundle without an owner, asked of a broker that does not lead": (
        lookup_of_a_bundle_that_nobody_owns,
    ),
    "the same of a bundle with an owner, asked of any broker": (lookup_of_an_owned_bundle,),
    "what a broker owns": (lambda fleet: owned_by(fleet, B1, B1, b1=B1),),
    "what a broker owns: its heartbeat, and no SLA monitor until somebody asks for it": (
        lambda fleet: owned_by(fleet, B1, B1, b1=B1),
    ),
    "what another broker owns": (lambda fleet: owned_by(fleet, B2, B1, b2=B2),),
    "what an unknown broker owns": (lambda fleet: owned_by(fleet, B1, B1),),
    "leader": (lambda fleet: owned_by(fleet, B1, B1, b3=leader(fleet)),),
    "hashes, asked of the owner": (lambda fleet: owned_by(fleet, B3, B3),),
    "hashes, asked of another broker": (lambda fleet: owned_by(fleet, B3, B1, b3=B3),),
    "transfer, asked of the owner": (lambda fleet: owned_by(fleet, B3, B3, b1=B1),),
    "transfer, asked of another broker": (lambda fleet: owned_by(fleet, B3, B2, b1=B1, b3=B3),),
    "transfer to the owner itself": (lambda fleet: owned_by(fleet, B1, B1, b1=B1),),
    "transfer, asked of a broker that does not lead": (
        lambda fleet: owned_by(fleet, others(fleet)[0], others(fleet)[0], b1=leader(fleet)),
    ),
    "transfer, asked of the leader, which does not own the bundle": (
        lambda fleet: owned_by(fleet, others(fleet)[0], leader(fleet), b1=leader(fleet), b2=others(fleet)[0]),
    ),
    "transfer to the owner itself, which leads: unloaded once more": (
        lambda fleet: owned_by(fleet, leader(fleet), leader(fleet), b1=leader(fleet)),
    ),
    "transfer to an unknown broker": (
        lambda fleet: owned_by(fleet, B1, leader(fleet)),
        lambda fleet: owned_by(fleet, B1, others(fleet)[0]),
    ),
    "unload of a bundle that is not there": (bundle_that_is_not_there,),
    "unload in a namespace that is not there": (lambda fleet: owned_by(fleet, B1, B1),),
    "unload of a bundle without an owner": (bundle_without_an_owner,),
    "split at a position, asked of another broker": (lambda fleet: split_in_the_middle(fleet, B3),),
    "split at a position, body [2415919104], bundle of two topics or more, asked of the owner": (split_in_the_middle,),
    "the same once more": (split_once_more,),
    "split of a bundle with fewer than two topics, or at a position outside it": (split_outside, split_without_topics),
    "split at a position outside the bundle: nothing happens": (split_outside,),
    "split at no position, asked of any broker": (
        lambda fleet: owned_by(fleet, B1, B1, BUNDLE_TO_SPLIT),
        lambda fleet: owned_by(fleet, B1, B2, BUNDLE_TO_SPLIT),
    ),
    "split by an unknown algorithm": (lambda fleet: owned_by(fleet, B1, B1, BUNDLE_TO_SPLIT),),
    "load report": (lambda fleet: owned_by(fleet, B1, B1),),
    "health": (lambda fleet: owned_by(fleet, B1, B1),),
}
CASES = [
    pytest.param(kind, entry, question, id=f"{kind}-{entry['situation']}-{number}")
    for kind in KINDS
    for entry in RECORDED
    if kind in entry["kinds"]
    for number, question in enumerate(SITUATIONS[entry["situation"]])
]


@pytest.fixture(scope="module")
def fleets(zookeeper: EmbeddedZooKeeper) -> Iterator[Mapping[str, Fleet]]:
    """A fleet of each kind, shared by all situations."""
    with ExitStack() as running:
        wishes = {"idle_bundles": 6, "clients_look_up_after_s": NEVER_S}
        yield {
            kind: running.enter_context(running_fleet(zookeeper, f"/answers-{kind}", load_manager=kind, **wishes))
            for kind in KINDS
        }


def test_every_recorded_response_has_its_situation() -> None:
    assert {entry["situation"] for entry in RECORDED} == set(SITUATIONS)
    assert all(set(entry["kinds"]) & set(KINDS) for entry in RECORDED)


@pytest.mark.parametrize(("kind", "entry", "ask"), CASES)
def test_response_is_the_recorded_one(
    fleets: Mapping[str, Fleet], kind: str, entry: dict[str, Any], ask: Callable[[Fleet], Question]
) -> None:
    fleet = fleets[kind]
    question = ask(fleet)
    path = question.translate(entry["path"], fleet)
    body = list(question.positions) if "/split" in path else None
    answer = call(fleet, question.asked, entry["method"], path, json=body)
    assert answer.status_code == entry["status"], answer.text
    if "location" in entry:
        expected = question.translate(entry["location"], fleet)
        assert parts_of(answer.headers["Location"]) == parts_of(expected)
    if "body" in entry:
        compare_bodies(question, fleet, entry["body"], answer)
    else:
        assert answer.content == b""


def parts_of(url: str) -> tuple[str, dict[str, str]]:
    return url.partition("?")[0], dict(parse_qsl(urlsplit(url).query))


def compare_bodies(question: Question, fleet: Fleet, recorded: Any, answer: httpx.Response) -> None:
    if isinstance(recorded, str):
        assert answer.text == recorded
        return
    served = answer.json()
    if "reason" in recorded:
        assert served == {"reason": question.translate(recorded["reason"], fleet)}
    elif all(type(value) is str for value in recorded.values()):
        assert served == {key: question.translate(value, fleet) for key, value in recorded.items()}
    elif any(is_system_namespace(name.rpartition("/")[0]) for name in recorded):
        assert ownerships(served) == ownerships({question.translate(k, fleet): v for k, v in recorded.items()})
    else:
        assert shape_of(served, NAMED_MAPS) == shape_of(recorded, NAMED_MAPS)


def ownerships(listed: Mapping[str, Any]) -> tuple[set[str], list[Any]]:
    """The bundles that Pulsar pins to a broker by name, and how it describes every bundle."""
    pinned = {bundle for bundle in listed if is_system_namespace(bundle.rpartition("/")[0])}
    return pinned, [
        words for number, words in enumerate(listed.values()) if words not in list(listed.values())[:number]
    ]


def test_lookup_through_the_leader_ends_at_the_chosen_broker(fleets: Mapping[str, Fleet]) -> None:
    fleet = fleets["modular"]
    bundle = idle_bundle(fleet)
    found = call(fleet, others(fleet)[0], "GET", look_up_path(bundle), follow=True)
    owner = fleet.owner_of(bundle)
    assert owner is not None
    assert found.json()["httpUrl"] == fleet.web_url(owner)
