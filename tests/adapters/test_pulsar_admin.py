"""Admin calls: what is asked, where redirects may lead, what is repeated, and how a broker's refusal is told."""

from __future__ import annotations

import json
import socket
import threading
import time

import pytest

from evenkeel.adapters.broker_access import BrokerAccess
from evenkeel.adapters.json_documents import JsonObject
from evenkeel.adapters.pulsar_admin import (
    MOST_ATTEMPTS,
    MOST_TRANSFERS,
    PulsarAdmin,
    name_topic_inside,
)
from evenkeel.adapters.registrations import Registration
from evenkeel.model.bundles import BundleName
from evenkeel.model.errors import FencedOutError, RefusedError, UnavailableError
from support.answering_brokers import BUNDLE, TIMEOUT_S, UNLOAD, Start, admin, found_at


def test_transfer_follows_the_redirects_of_a_modular_cluster_and_is_driven_home_by_a_lookup(start: Start) -> None:
    source, leader, destination = start((204, "")), start((204, "")), start((204, ""))
    source.replies[:] = [(307, f"{leader.url}{UNLOAD}?destinationBroker=d%3A1&authoritative=false"), (204, "")]
    leader.replies[:] = [(307, f"{source.url}{UNLOAD}?authoritative=true")]
    destination.replies[:] = [found_at(destination)]
    with admin({"s": source.url, "l": leader.url, "d:1": destination.url}) as calls:
        calls.transfer(BUNDLE, "s", "d:1")
    assert [path for _, path, _ in source.seen] == [
        f"{UNLOAD}?destinationBroker=d:1",
        f"{UNLOAD}?authoritative=true",
    ]
    (lookup,) = destination.seen
    topic = name_topic_inside(BundleName.parse(BUNDLE))
    assert lookup[:2] == ("GET", f"/lookup/v2/topic/non-persistent/shop/orders/{topic}")


def test_bundle_that_came_back_to_its_owner_is_asked_to_go_again_a_few_times(start: Start) -> None:
    source, destination = start((204, "")), start((204, ""))
    destination.replies[:] = [found_at(source), found_at(destination)]
    with admin({"s": source.url, "d:1": destination.url}) as calls:
        calls.transfer(BUNDLE, "s", "d:1")
    assert len(source.seen) == 2
    destination.replies[:] = [found_at(source)]
    with admin({"s": source.url, "d:1": destination.url}) as calls:
        calls.transfer(BUNDLE, "s", "d:1")
    assert len(source.seen) == 2 + MOST_TRANSFERS


def test_bundle_that_went_to_a_third_broker_is_asked_for_there(start: Start) -> None:
    source, destination, third = start((204, "")), start((204, "")), start((204, ""))
    destination.replies[:] = [found_at(third), found_at(destination)]
    with admin({"s": source.url, "d:1": destination.url, "x": third.url}) as calls:
        calls.transfer(BUNDLE, "s", "d:1")
    assert [path for _, path, _ in source.seen + third.seen] == 2 * [f"{UNLOAD}?destinationBroker=d:1"]


def test_refusal_of_a_later_call_does_not_say_that_nothing_has_changed(start: Start) -> None:
    source, destination, third = start((204, "")), start((204, "")), start((412, "no"))
    destination.replies[:] = [found_at(third)]
    with admin({"s": source.url, "d:1": destination.url, "x": third.url}) as calls:
        calls.transfer(BUNDLE, "s", "d:1")
    assert (len(source.seen), len(third.seen)) == (1, 1)


def test_writer_that_was_overtaken_makes_no_further_call(start: Start) -> None:
    def overtaken() -> None:
        raise FencedOutError("another writer has taken over", "let it finish")

    source, destination, busy = start((204, "")), start((204, "")), start((503, ""))
    destination.replies[:] = [found_at(source)]
    brokers = {"s": source.url, "d:1": destination.url, "b": busy.url}
    with admin(brokers, may_go_on=overtaken) as calls:
        with pytest.raises(FencedOutError):
            calls.transfer(BUNDLE, "s", "d:1")
        with pytest.raises(FencedOutError):
            calls.unload(BUNDLE, "b")
    assert (len(source.seen), len(busy.seen)) == (1, 1)


def test_no_call_begins_after_the_time_out(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]
    monkeypatch.setattr("evenkeel.adapters.pulsar_admin.time.monotonic", lambda: now_s[0])

    def sleep(seconds: float) -> None:
        now_s[0] += TIMEOUT_S

    busy = start((503, ""))
    with (
        PulsarAdmin({"a": busy.url}, TIMEOUT_S, sleep=sleep) as calls,
        pytest.raises(UnavailableError, match="could not be begun within 5 s"),
    ):
        calls.unload(BUNDLE, "a")
    assert len(busy.seen) == 1


def test_intent_that_is_too_old_leads_to_no_call(start: Start) -> None:
    owner = start((204, ""))
    late_s = time.monotonic() - 0.1
    with admin({"a": owner.url, "b": owner.url}) as calls:
        for call in (
            lambda: calls.transfer(BUNDLE, "a", "b", late_s),
            lambda: calls.unload(BUNDLE, "a", late_s),
            lambda: calls.split(BUNDLE, "a", 0x50000000, late_s),
        ):
            with pytest.raises(UnavailableError, match="could not be begun within 5 s, and was left"):
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
    with admin({"a": owner.url}) as calls, pytest.raises(RefusedError, match="0x80000000 does not lie inside"):
        calls.split(BUNDLE, "a", 0x80000000)
    assert owner.seen == []


@pytest.mark.parametrize("location", ["http://127.0.0.1:1/x", "//127.0.0.1:1/x", "ftp://h/x", "", "http://["])
def test_redirect_to_an_address_that_is_not_registered_is_refused(start: Start, location: str) -> None:
    owner = start((307, location))
    with admin({"a": owner.url}) as calls, pytest.raises(RefusedError, match="which is not registered"):
        calls.unload(BUNDLE, "a")


def test_redirect_that_carries_a_user_name_is_refused(start: Start) -> None:
    owner = start((204, ""))
    owner.replies[:] = [(307, owner.url.replace("http://", "http://user@") + UNLOAD)]
    with admin({"a": owner.url}) as calls, pytest.raises(RefusedError, match="which is not registered"):
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
    server.replies[:] = [(204, ""), (200, json.dumps({"httpUrl": f"{server.url}/one/"}))]
    admin = PulsarAdmin({"one": f"{server.url}/one", "two": f"{server.url}/two"}, TIMEOUT_S)
    with admin:
        admin.transfer(BUNDLE, "two", "one")
    assert [method for method, _, _ in server.seen] == ["PUT", "GET"], (
        "the bundle has arrived, so it is not asked again"
    )


def test_lookup_without_an_owner_says_so(start: Start) -> None:
    one = start((404, json.dumps({"reason": "Namespace not found"})))
    with admin({"one": one.url}) as calls, pytest.raises(UnavailableError, match="found no owner of"):
        calls.lookup(BUNDLE, "one")


def test_token_goes_with_every_call(start: Start) -> None:
    owner, other = start((204, "")), start((204, ""))
    owner.replies[:] = [(307, other.url + UNLOAD)]
    with admin({"a": owner.url, "b": other.url}, access=BrokerAccess(token="secret")) as calls:
        calls.unload(BUNDLE, "a")
    assert owner.tokens + other.tokens == ["Bearer secret"] * 2
    assert "secret" not in repr(BrokerAccess(token="secret"))


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
        pytest.raises(RefusedError, match="which is not registered"),
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
