"""Owners by the brokers' own lists: one, none, two, and brokers that do not answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from evenkeel.adapters.brokers.broker_http import HttpAnswer
from evenkeel.adapters.cluster.json_documents import JsonObject
from evenkeel.adapters.cluster.registrations import Registration
from evenkeel.adapters.cluster.views import OWNERS_ATTEMPTS, SystemTopicClusterView
from evenkeel.adapters.zookeeper.session import ZooKeeperSession
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import UnavailableError
from evenkeel.model.service_unit import ServiceUnitState

CONNECTION = ClusterConnection("real", "127.0.0.1:1")
X, Y = "t/n/0x00000000_0x80000000", "t/n/0x80000000_0xffffffff"


@dataclass
class Brokers:
    """Brokers by what they list; None for one that does not answer."""

    lists: dict[str, list[str] | None]
    asked: list[str] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)

    def fetch(self, urls: Sequence[str]) -> list[HttpAnswer]:
        self.asked.extend(urls)
        return [self._answer(url) for url in urls]

    def _answer(self, url: str) -> HttpAnswer:
        listed = self.lists[url.removeprefix("http://").partition("/")[0]]
        if listed is None:
            return HttpAnswer(url, None, "late")
        return HttpAnswer(url, json.dumps({bundle: {"is_active": True} for bundle in listed}).encode())

    def registered(self) -> list[Registration]:
        document = JsonObject.decode(b"{}", "test")
        return [
            Registration(
                broker_id=broker,
                incarnation=1,
                session_id=1,
                mzxid=1,
                load_manager_class="x",
                version=None,
                takes_persistent_topics=True,
                web_url=f"http://{broker}",
                urls=frozenset(),
                document=document,
            )
            for broker in self.lists
        ]

    def view(self) -> SystemTopicClusterView:
        session = ZooKeeperSession(CONNECTION.zookeeper, 10.0, 10.0)
        return SystemTopicClusterView(session, session, CONNECTION, self, self.registered, self.pauses.append)


def test_broker_that_lists_a_bundle_owns_it() -> None:
    brokers = Brokers({"a:1": [X], "b:2": []})
    found = brokers.view().look([X, Y])
    assert (found[X].state, found[X].owner) == (ServiceUnitState.OWNED, "a:1")
    assert (found[Y].state, found[Y].owner) == (ServiceUnitState.INIT, None)
    assert found[X].version_id is None
    assert brokers.asked[0] == "http://a:1/admin/v2/brokers/real/a:1/ownedNamespaces"


def test_bundle_that_two_list_is_on_its_way() -> None:
    found = Brokers({"a:1": [X], "b:2": [X]}).view().look([X])
    assert (found[X].state, found[X].owner) == (ServiceUnitState.RELEASING, None)


def test_silent_broker_matters_only_where_it_might_own_the_bundle() -> None:
    brokers = Brokers({"a:1": [X], "b:2": None})
    assert brokers.view().look([X])[X].owner == "a:1"
    assert brokers.pauses == []
    with pytest.raises(UnavailableError, match="broker b:2 does not list the bundles it owns"):
        brokers.view().look([X, Y])
    assert len(brokers.pauses) == OWNERS_ATTEMPTS - 1


def test_broker_that_is_deregistered_meanwhile_is_asked_no_more() -> None:
    brokers = Brokers({"a:1": [X], "b:2": None})
    view = brokers.view()

    def leave(seconds: float) -> None:
        brokers.lists.pop("b:2", None)

    view._sleep = leave
    assert view.look([Y])[Y].owner is None


def test_every_bundle_that_was_looked_at_counts_as_changed() -> None:
    brokers = Brokers({"a:1": [X, Y]})
    view = brokers.view()
    view.look([X])
    view.look([Y])
    assert view.next_changes(0.1) == {X, Y}
    assert view.look([]) == {}
