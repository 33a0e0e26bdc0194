"""`python -m evenkeel.fleet`: run a fleet of simulated brokers until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from evenkeel.fleet.fleet import Fleet
from evenkeel.fleet.settings import FleetSettings, LoadManagerKind, SessionExpiredPolicy
from evenkeel.model.errors import EvenkeelError

CHECK_INTERVAL_S = 0.5


def build_parser() -> argparse.ArgumentParser:
    """Build the command line; defaults come from FleetSettings."""
    defaults = FleetSettings()
    parser = argparse.ArgumentParser(prog="python -m evenkeel.fleet", description="Run simulated Pulsar brokers.")
    parser.add_argument("--zookeeper", required=True, help="ZooKeeper hosts, such as 127.0.0.1:2181")
    parser.add_argument("--ready-file", type=Path, help="JSON file to write when every broker is up")
    parser.add_argument("--cluster", default=defaults.cluster)
    parser.add_argument("--load-manager", choices=[kind.value for kind in LoadManagerKind], default="extensible")
    parser.add_argument("--root", default=defaults.root, help="Pulsar's root path in ZooKeeper")
    parser.add_argument(
        "--configuration-zookeeper",
        default=defaults.configuration_zookeeper,
        help="hosts of a separate configuration store; each broker then has a second session",
    )
    parser.add_argument(
        "--configuration-root", default=defaults.configuration_root, help="Pulsar's root path in that store"
    )
    parser.add_argument(
        "--session-expired-policy",
        choices=[policy.value for policy in SessionExpiredPolicy],
        default=defaults.session_expired_policy.value,
        help="what a broker does when its session is lost (PIP-57)",
    )
    parser.add_argument("--unequal-capacity", action="store_true", help="give every second broker twice the capacity")
    for name in ("brokers", "bundles", "seed", "idle_bundles", "http_port", "session_retries"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=getattr(defaults, name))
    for name in (
        "session_timeout_s",
        "new_session_delay_s",
        "stable_session_s",
        "hand_over_delay_s",
        "clients_look_up_after_s",
        "report_interval_s",
        "report_max_interval_s",
        "report_decider_timeout_s",
        "report_broker_timeout_s",
        "monitor_interval_s",
        "in_flight_limit_s",
        "admin_timeout_s",
        "skew",
        "mean_cpu_share",
    ):
        parser.add_argument(f"--{name.replace('_', '-')}", type=float, default=getattr(defaults, name))
    return parser


def read_settings(options: argparse.Namespace) -> FleetSettings:
    """Return the settings given on the command line."""
    given = vars(options)
    fields = {name: given[name] for name in FleetSettings.__dataclass_fields__ if name in given}
    return FleetSettings(**fields, has_unequal_capacity=options.unequal_capacity)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a fleet; returns 0 after a clean stop, 1 after a failure, with one sentence on standard error."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("kazoo").setLevel(logging.ERROR)
    options = build_parser().parse_args(arguments)
    should_stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: should_stop.set())
    try:
        run(read_settings(options), options.zookeeper, options.ready_file, should_stop)
    except (EvenkeelError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


def run(settings: FleetSettings, zookeeper_hosts: str, ready_file: Path | None, should_stop: threading.Event) -> None:
    """Start the fleet, write the ready file, and wait until it should stop."""
    started = time.monotonic()
    with Fleet(settings, zookeeper_hosts) as fleet:
        if ready_file is not None:
            _write_ready_file(ready_file, fleet, zookeeper_hosts, time.monotonic() - started)
        try:
            while not should_stop.wait(CHECK_INTERVAL_S):
                if fleet.failed.is_set():
                    raise EvenkeelError(
                        "every broker lost its ZooKeeper session and shut down",
                        "check ZooKeeper and start the fleet again",
                    )
        finally:
            if ready_file is not None:
                ready_file.unlink(missing_ok=True)


def _write_ready_file(path: Path, fleet: Fleet, zookeeper_hosts: str, seconds: float) -> None:
    document = {
        "pid": os.getpid(),
        "zookeeper": zookeeper_hosts,
        "cluster": fleet.settings.cluster,
        "root": fleet.settings.root,
        "load_manager": fleet.settings.load_manager.value,
        "seed": fleet.settings.seed,
        "bundles": fleet.settings.bundles,
        "control": fleet.control_url,
        "brokers": {broker_id: fleet.web_url(broker_id) for broker_id in fleet.broker_ids},
        "start_s": round(seconds, 3),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(document, indent=1) + "\n")
    # Readers see the whole file or none of it.
    draft.replace(path)


if __name__ == "__main__":
    sys.exit(main())
