"""The client of Airflow's REST API against an API server that stays silent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

import pytest

from evenkeel.local.airflow_client import READ_ATTEMPTS, AirflowClient
from evenkeel.model.errors import UnavailableError
from support.waiting import scaled

TIMEOUT_S = 0.5


@contextmanager
def serve(silent_requests: int) -> Iterator[tuple[str, list[str]]]:
    """An HTTP server that leaves its first requests without a response; yields its URL and the methods received."""
    received: list[str] = []
    is_over = Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            received.append(self.command)
            if len(received) <= silent_requests:
                is_over.wait()
                return
            body = b'{"state": "success"}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", received
        finally:
            is_over.set()
            server.shutdown()
            thread.join()


def test_read_that_timed_out_is_repeated() -> None:
    with serve(silent_requests=READ_ATTEMPTS - 1) as (url, received):
        client = AirflowClient(url, "operator", scaled(TIMEOUT_S))
        assert client.run_state("rebalance_window", "r") == "success"
        client.close()
    assert received == ["GET"] * READ_ATTEMPTS


def test_reads_end_after_a_few_attempts() -> None:
    with serve(silent_requests=READ_ATTEMPTS) as (url, received):
        client = AirflowClient(url, "operator", scaled(TIMEOUT_S))
        with pytest.raises(UnavailableError, match="did not respond to GET"):
            client.run_state("rebalance_window", "r")
        client.close()
    assert len(received) == READ_ATTEMPTS


def test_trigger_that_timed_out_is_not_repeated() -> None:
    with serve(silent_requests=1) as (url, received):
        client = AirflowClient(url, "operator", scaled(TIMEOUT_S))
        with pytest.raises(UnavailableError, match="did not respond to POST"):
            client.trigger("rebalance_window")
        client.close()
    assert received == ["POST"]
