"""Pushes metrics to a Prometheus push gateway: a run is over before Prometheus would come by to scrape it."""

from __future__ import annotations

import logging
import time
from urllib.parse import quote

import httpx

from evenkeel.adapters.brokers.access import BrokerAccess
from evenkeel.adapters.brokers.broker_http import BoundedHttp

JOB = "evenkeel"
log = logging.getLogger(__name__)


def push_metrics(url: str, cluster: str, text: str, timeout_s: float) -> None:
    """Replace the metrics of a cluster at the gateway; a failure is only a warning, since the run is over by then.

    POST replaces metrics of the same name and keeps the others, so the time of the last success outlives a failed run.
    """
    address = f"{url.rstrip('/')}/metrics/job/{JOB}/cluster/{quote(cluster, safe='')}"
    http = BoundedHttp(BrokerAccess())
    try:
        with http.open("POST", address, time.monotonic() + timeout_s, content=text.encode()) as response:
            if not response.is_success:
                log.warning("the push gateway %s refused the metrics (HTTP %d)", url, response.status_code)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        log.warning("the push gateway %s did not take the metrics (%s)", url, str(error) or type(error).__name__)
    finally:
        http.close()
