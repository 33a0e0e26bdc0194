"""Admin calls: what is asked, where redirects may lead, what is repeated, and how a broker's refusal is told."""

from __future__ import annotations

import json
import socket
import threading

import pytest

from evenkeel.adapters.brokers.access import BrokerAccess
from evenkeel.adapters.brokers.admin_api import (
    MOST_ATTEMPTS,
    PulsarAdmin,
    name_topic_inside,
)
from evenkeel.adapters.cluster.json_documents import JsonObject
from evenkeel.adapters.cluster.registrations import Registration
from evenkeel.adapters.machine import monotonic_s
from evenkeel.model.bundles import BundleName
from evenkeel.model.errors import FencedOutError, RefusedError, UnavailableError
from support.answering_brokers import BUNDLE, TIMEOUT_S, UNLOAD, Start, admin, found_at


def test_transfer_follows_the_redirects_of_a_modular_cluster(start: Start) -> None:
    source, leader, destination = start((204, "")), start((204, "")), start((204, ""))
    source.replies[:] = [(307, f"{leader.url}{UNLOAD}?destinationBroker=d%3A1&authoritative=false"), (204, "")]
    leader.replies[:] = [(307, f"{source.url}{UNLOAD}?authoritative=true")]
    with admin({"s": source.url, "l": leader.url, "d:1": destination.url}) as calls:
        calls.transfer(BUNDLE, "s", "d:1")
    assert [path for _, path, _ in source.seen] == [
        f"{UNLOAD}?destinationBroker=d:1",
        f"{UNLOAD}?authoritative=true",
    ]
    assert destination.seen == []


def test_destination_is_enforced_by_a_lookup_whose_failure_is_no_error(start: Start) -> None:
    destination, broken = start((204, "")), start((404, "no"))
    destination.replies[:] = [found_at(destination)]
    with admin({"d:1": destination.url, "x": broken.url}) as calls:
        calls.enforce_destination(BUNDLE, "d:1")
        calls.enforce_destination(BUNDLE, "x")
    (lookup,) = destination.seen
    topic = name_topic_inside(BundleName.parse(BUNDLE))
    assert lookup[:2] == ("GET", f"/lookup/v2/topic/non-persistent/shop/orders/{topic}")
    assert len(broken.seen) == 1


def test_destination_takes_the_bundle_where_the_leader_has_chosen_another_broker(start: Start) -> None:
    destination, leader, other = start((204, "")), start((204, "")), start((204, ""))
    path = f"/lookup/v2/topic/non-persistent/shop/orders/{name_topic_inside(BundleName.parse(BUNDLE))}"
    destination.replies[:] = [(307, f"{leader.url}{path}?authoritative=false"), found_at(destination)]
    leader.replies[:] = [(307, f"{other.url}{path}?authoritative=true")]
    with admin({"d:1": destination.url, "l": leader.url, "o": other.url}) as calls:
        calls.enforce_destination(BUNDLE, "d:1")
    assert [seen for _, seen, _ in destination.seen] == [path, f"{path}?authoritative=true"]
    assert other.seen == []


def test_lookup_goes_where_the_leader_sends_it(start: Start) -> None:
    asked, chosen = start((204, "")), start((204, ""))
    path = f"/lookup/v2/topic/non-persistent/shop/orders/{name_topic_inside(BundleName.parse(BUNDLE))}"
    asked.replies[:] = [(307, f"{chosen.url}{path}?authoritative=true")]
    chosen.replies[:] = [found_at(chosen)]
    with admin({"a": asked.url, "c": chosen.url}) as calls:
        assert calls.lookup(BUNDLE, "a") == "c"


def test_writer_that_was_overtaken_makes_no_further_call(start: Start) -> None:
    def overtaken() -> None:
        raise FencedOutError("another writer has taken over", "let it finish")

    busy = start((503, ""))
    with admin({"b": busy.url}, may_go_on=overtaken) as calls, pytest.raises(FencedOutError):
        calls.unload(BUNDLE, "b")
    assert len(busy.seen) == 1


def test_no_call_begins_after_the_time_out(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]
    for module in ("admin_api", "broker_http"):
        monkeypatch.setattr(f"evenkeel.adapters.brokers.{module}.monotonic_s", lambda: now_s[0])

    def sleep(seconds: float) -> None:
        now_s[0] += TIMEOUT_S

    busy = start((503, ""))
    with (
        PulsarAdmin({"a": busy.url}, TIMEOUT_S, sleep=sleep) as calls,
        pytest.raises(UnavailableError, match=f"was not sent: the {TIMEOUT_S:g} s for its step are over"),
    ):
        calls.unload(BUNDLE, "a")
    assert len(busy.seen) == 1


def test_intent_that_is_too_old_leads_to_no_call(start: Start) -> None:
    owner = start((204, ""))
    late_s = monotonic_s() - 0.1
    with admin({"a": owner.url, "b": owner.url}) as calls:
        for call in (
            lambda: calls.transfer(BUNDLE, "a", "b", late_s),
            lambda: calls.unload(BUNDLE, "a", late_s),
            lambda: calls.split(BUNDLE, "a", 0x50000000, late_s),
        ):
            with pytest.raises(UnavailableError, match=f"was not sent: the {TIMEOUT_S:g} s for its step are over"):
                call()
    assert owner.seen == []


def test_split_sends_its_boundary_again_after_a_redirect(start: Start) -> None:
    other, owner = start((204, "")), start((204, ""))
    other.replies[:] = [(307, f"{owner.url}/admin/v2/namespaces/{BUNDLE}/split?authoritative=true")]
    with admin({"a": other.url, "b": owner.url}) as calls:
        calls.split(BUNDLE, "a", 0x50000000)
    assert [json.loads(body) for _, _, body in (*other.seen, *owner.seen)] == [[0x50000000]] * 2
    assert "splitAlgorithmName=specified_positions_divide" in other.seen[0][1]


def test_boundary_outside_the_range_is_refused_without_a_call(start: Start) -> None:
    owner = start((204, ""))
    with admin({"a": owner.url}) as calls, pytest.raises(RefusedError, match="0x80000000 is not inside"):
        calls.split(BUNDLE, "a", 0x80000000)
    assert owner.seen == []


@pytest.mark.parametrize("location", ["http://127.0.0.1:1/x", "//127.0.0.1:1/x", "ftp://h/x", "", "http://["])
def test_redirect_to_an_address_that_is_not_registered_is_refused(start: Start, location: str) -> None:
    owner = start((307, location))
    with admin({"a": owner.url}) as calls, pytest.raises(RefusedError, match="which is not a registered broker"):
        calls.unload(BUNDLE, "a")


def test_redirect_that_carries_a_user_name_is_refused(start: Start) -> None:
    owner = start((204, ""))
    owner.replies[:] = [(307, owner.url.replace("http://", "http://user@") + UNLOAD)]
    with admin({"a": owner.url}) as calls, pytest.raises(RefusedError, match="which is not a registered broker"):
        calls.unload(BUNDLE, "a")


def test_brokers_that_send_each_other_in_circles_are_told(start: Start) -> None:
    owner = start((204, ""))
    owner.replies[:] = [(307, owner.url + UNLOAD)]
    with admin({"a": owner.url}) as calls, pytest.raises(UnavailableError, match="redirected 5 times"):
        calls.unload(BUNDLE, "a")


def test_broker_that_says_not_now_is_asked_again_a_few_times(start: Start) -> None:
    owner = start((503, ""), (503, ""), (204, ""))
    with admin({"a": owner.url}) as calls:
        calls.unload(BUNDLE, "a")
    assert len(owner.seen) == 3
    never = start((503, "{}"))
    with admin({"a": never.url}) as calls:
        calls.unload(BUNDLE, "a")
    assert len(never.seen) == MOST_ATTEMPTS, "an answer that is no refusal leaves the outcome to be read"


def test_unload_that_may_have_happened_is_never_repeated(start: Start) -> None:
    owner = start((500, json.dumps({"reason": "\n --- An unexpected error ---\n\nMessage: cannot\n"})))
    with admin({"a": owner.url}) as calls:
        calls.unload(BUNDLE, "a")
    assert len(owner.seen) == 1


def test_call_without_an_answer_is_not_repeated_once_it_was_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        accepted: list[socket.socket] = []

        def hang_up() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                accepted.append(connection)
                connection.recv(65536)
                connection.close()

        threading.Thread(target=hang_up, daemon=True).start()
        with (
            admin({"a": f"http://127.0.0.1:{server.getsockname()[1]}"}) as calls,
            pytest.raises(UnavailableError, match="RemoteProtocolError|ReadError"),
        ):
            calls.unload(BUNDLE, "a")
    assert len(accepted) == 1


def test_broker_that_nobody_can_reach_is_tried_a_few_times_and_named() -> None:
    pauses: list[float] = []
    with (
        PulsarAdmin({"a": "http://127.0.0.1:1"}, TIMEOUT_S, sleep=pauses.append) as calls,
        pytest.raises(UnavailableError, match="ConnectError"),
    ):
        calls.unload(BUNDLE, "a")
    assert len(pauses) == MOST_ATTEMPTS - 1
    assert pauses == sorted(pauses)


def test_refusal_is_told_in_the_brokers_own_words(start: Start) -> None:
    owner = start((412, json.dumps({"reason": "Invalid upper boundary for bundle"})))
    sentence = r"broker a refused to unload shop/orders/.* \(412 Invalid upper boundary for bundle\)"
    with admin({"a": owner.url}) as calls, pytest.raises(RefusedError, match=sentence):
        calls.transfer(BUNDLE, "a", "a")
    assert len(owner.seen) == 1, "a bundle that stays is not looked up"


def test_lookup_names_the_broker_that_serves(start: Start) -> None:
    one, two = start((204, "")), start((204, ""))
    one.replies[:] = [(500, ""), found_at(two)]
    with admin({"one": one.url, "two": two.url}) as calls:
        assert calls.lookup(BUNDLE, "one") == "two"
    assert len(one.seen) == 2, "a lookup changes nothing, so it is repeated"
    one.replies[:] = [(200, json.dumps({"httpUrl": "http://elsewhere:8080"}))]
    with admin({"one": one.url}) as calls:
        assert calls.lookup(BUNDLE, "one") is None


def test_brokers_that_share_a_server_are_told_apart_by_their_paths(start: Start) -> None:
    server = start((204, ""))
    server.replies[:] = [(200, json.dumps({"httpUrl": f"{server.url}/one/"}))]
    with PulsarAdmin({"one": f"{server.url}/one", "two": f"{server.url}/two"}, TIMEOUT_S) as calls:
        assert calls.lookup(BUNDLE, "two") == "one"


def test_lookup_without_an_owner_says_so(start: Start) -> None:
    one = start((404, json.dumps({"reason": "Namespace not found"})))
    with admin({"one": one.url}) as calls, pytest.raises(UnavailableError, match="found no owner of"):
        calls.lookup(BUNDLE, "one")


def test_token_goes_with_every_call(start: Start) -> None:
    owner, other = start((204, "")), start((204, ""))
    owner.replies[:] = [(307, other.url + UNLOAD)]
    access = BrokerAccess(token="secret", token_over_plain_http=True)
    with admin({"a": owner.url, "b": other.url}, access=access) as calls:
        calls.unload(BUNDLE, "a")
    assert owner.tokens + other.tokens == ["Bearer secret"] * 2
    assert "secret" not in repr(access)


def test_broker_that_is_not_registered_is_refused() -> None:
    with admin({}) as calls, pytest.raises(RefusedError, match="broker a is not registered"):
        calls.unload(BUNDLE, "a")


def test_redirect_to_a_broker_that_came_later_is_followed(start: Start) -> None:
    owner, newcomer = start((204, "")), start((204, ""))
    owner.replies[:] = [(307, newcomer.url + UNLOAD)]
    early = [registration("a", owner.url)]
    later = [*early, registration("b", newcomer.url)]
    with PulsarAdmin.of(early, TIMEOUT_S, BrokerAccess(), lambda: later) as calls:
        calls.unload(BUNDLE, "a")
    assert len(newcomer.seen) == 1


def test_token_does_not_follow_a_redirect_out_of_tls(start: Start) -> None:
    plain = start((204, ""))
    broker = registration("a", "https://127.0.0.1:1", plain.url)
    owner = start((204, ""))
    owner.replies[:] = [(307, plain.url + UNLOAD)]
    brokers = [broker, registration("b", owner.url)]
    with (
        PulsarAdmin.of(brokers, TIMEOUT_S, BrokerAccess(token="secret")) as calls,
        pytest.raises(RefusedError, match="which is not a registered broker"),
    ):
        calls.unload(BUNDLE, "b")
    assert plain.seen == []


def registration(broker: str, web_url: str, *more: str) -> Registration:
    return Registration(
        broker_id=broker,
        incarnation=1,
        session_id=1,
        mzxid=1,
        load_manager_class="x",
        version=None,
        takes_persistent_topics=True,
        web_url=web_url,
        urls=frozenset({web_url, *more}),
        document=JsonObject.decode(b"{}", "test"),
    )
