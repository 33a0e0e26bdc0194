"""Faults by request: what a test or an operator can do to a running fleet from another process.

    GET  URL                                     every broker's state, and who leads
    POST URL/kill?broker=ID                      end a broker at once
    POST URL/restart?broker=ID                   a new incarnation
    POST URL/expire-session?broker=ID            its session with the local store, seen by the broker when it returns
    POST URL/expire-configuration-session?broker=ID
    POST URL/session-policy?broker=ID&policy=reconnect|shutdown
    POST URL/freeze?broker=ID    POST URL/thaw?broker=ID
    POST URL/hand-over-delay?seconds=0

URL is `control` in the ready file. `FleetControl` is the client.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, Protocol
from urllib.parse import urlencode

from evenkeel.model.errors import EvenkeelError, InputError, UnavailableError

CONTROL_NAME = "fleet"
CALL_TIMEOUT_S = 150.0
BAD_REQUEST = 400
CONFLICT = 409


class Faults(Protocol):
    """What can be done to a fleet, in this process or in another."""

    def state(self) -> dict[str, Any]:
        """Every broker's state, and who leads."""

    def kill_broker(self, broker_id: str) -> None:
        """End a broker at once: its session is closed, nothing is handed over or cleaned up."""

    def restart_broker(self, broker_id: str) -> None:
        """Start a new incarnation of a broker; one that still runs is killed first."""

    def expire_session(self, broker_id: str) -> None:
        """Let ZooKeeper expire a broker's session; returns when the broker knows."""

    def expire_configuration_session(self, broker_id: str) -> None:
        """Let the configuration store expire a broker's session; returns when the broker knows."""

    def set_session_policy(self, broker_id: str, policy: str) -> None:
        """Choose what a broker does the next time it loses its session: reconnect or shutdown."""

    def freeze_reports(self, broker_id: str) -> None:
        """Let a broker's load become stale."""

    def thaw_reports(self, broker_id: str) -> None:
        """Let a frozen broker report and answer again."""

    def set_hand_over_delay(self, seconds: float) -> None:
        """Choose how long brokers take to close a bundle from now on; 0 is at once."""


def answer_control(fleet: Faults, method: str, verb: str, query: Mapping[str, str]) -> tuple[int, Any]:
    """Do what a request asks for: its status, and what to say."""
    on_broker: dict[str, Callable[[str], None]] = {
        "kill": fleet.kill_broker,
        "restart": fleet.restart_broker,
        "expire-session": fleet.expire_session,
        "expire-configuration-session": fleet.expire_configuration_session,
        "freeze": fleet.freeze_reports,
        "thaw": fleet.thaw_reports,
    }
    try:
        if method == "GET" and not verb:
            return 200, fleet.state()
        if method == "POST" and verb in on_broker:
            on_broker[verb](_required(query, "broker"))
        elif method == "POST" and verb == "session-policy":
            fleet.set_session_policy(_required(query, "broker"), _required(query, "policy"))
        elif method == "POST" and verb == "hand-over-delay":
            fleet.set_hand_over_delay(_seconds(_required(query, "seconds")))
        else:
            return 404, {"reason": f"the fleet does not know {method} {verb}"}
    except InputError as error:
        return BAD_REQUEST, {"reason": str(error)}
    except EvenkeelError as error:
        return CONFLICT, {"reason": str(error)}
    return 200, fleet.state()


def _required(query: Mapping[str, str], name: str) -> str:
    if name not in query:
        raise InputError(f"the request names no {name}", f"add ?{name}=…")
    return query[name]


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InputError(f"seconds = {text!r} is no number", "give seconds, such as 0.05") from error


class FleetControl:
    """A fleet in another process, by the `control` address of its ready file."""

    def __init__(self, url: str) -> None:
        self._url = url

    def state(self) -> dict[str, Any]:
        return self._call("GET", "")

    def kill_broker(self, broker_id: str) -> None:
        self._call("POST", "kill", broker=broker_id)

    def restart_broker(self, broker_id: str) -> None:
        self._call("POST", "restart", broker=broker_id)

    def expire_session(self, broker_id: str) -> None:
        self._call("POST", "expire-session", broker=broker_id)

    def expire_configuration_session(self, broker_id: str) -> None:
        self._call("POST", "expire-configuration-session", broker=broker_id)

    def set_session_policy(self, broker_id: str, policy: str) -> None:
        self._call("POST", "session-policy", broker=broker_id, policy=policy)

    def freeze_reports(self, broker_id: str) -> None:
        self._call("POST", "freeze", broker=broker_id)

    def thaw_reports(self, broker_id: str) -> None:
        self._call("POST", "thaw", broker=broker_id)

    def set_hand_over_delay(self, seconds: float) -> None:
        self._call("POST", "hand-over-delay", seconds=repr(seconds))

    def _call(self, method: str, verb: str, **query: str) -> dict[str, Any]:
        url = f"{self._url}/{verb}?{urlencode(query)}" if verb else self._url
        request = urllib.request.Request(url, method=method)
        try:
            with urllib.request.urlopen(request, timeout=CALL_TIMEOUT_S) as answer:
                document: dict[str, Any] = json.load(answer)
                return document
        except urllib.error.HTTPError as error:
            reason = json.load(error).get("reason", error.reason)
            raise InputError(f"the fleet refused {verb}: {reason}", "correct the request") from error
        except OSError as error:
            raise UnavailableError(f"the fleet at {self._url} did not answer ({error})", "see that it runs") from error
