"""Probes of the brokers, of Pulsar's settings that matter for Evenkeel, and of what earlier runs left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from evenkeel.adapters.brokers.access import BrokerAccess
from evenkeel.adapters.brokers.broker_http import HttpAnswer, clock_offsets
from evenkeel.adapters.cluster.broker_clocks import require_good_clock
from evenkeel.adapters.cluster.findings import name_first
from evenkeel.adapters.cluster.json_documents import JsonObject
from evenkeel.adapters.cluster.kind import recognise_kind
from evenkeel.adapters.cluster.migration import require_no_migration
from evenkeel.adapters.cluster.registrations import Registration, read_registrations
from evenkeel.adapters.cluster.runtime_configuration import RUNTIME_PATH, find_syncer
from evenkeel.adapters.cluster.source import ClusterSource, open_cluster
from evenkeel.adapters.fencing.directives import Draining, KillSwitch
from evenkeel.adapters.fencing.journal import JournalReader
from evenkeel.adapters.fencing.left_switches import describe_left_off, find_left_off
from evenkeel.adapters.fencing.native_balancer import OFF, SWITCHES
from evenkeel.adapters.fencing.roots import EvenkeelRoots
from evenkeel.adapters.zookeeper.paths import EvenkeelPaths, PulsarPaths
from evenkeel.adapters.zookeeper.session import ZooKeeperSession, open_session
from evenkeel.model.canonical import short_id
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import EvenkeelError
from evenkeel.model.outside_json import parse_json
from evenkeel.model.pulsar_versions import tell_untested
from evenkeel.model.run import RunState
from evenkeel.model.settings import Settings
from evenkeel.stages.doctor.findings import Told, ok, problem, warning

UNAUTHORISED = (401, 403)
_SUPER_USER = "set broker_token_file to a file with a super-user's token, or give its role the rights"


def look_at_brokers(connection: ClusterConnection, settings: Settings) -> Iterable[Told]:
    """Ask every registered broker for its configuration, as a snapshot does."""
    access = BrokerAccess.from_settings(settings)
    with open_cluster(connection, access) as source:
        registrations = read_registrations(source)
        answers = source.http.fetch([r.web_url + RUNTIME_PATH for r in registrations])
        yield from _tell_answers(registrations, answers)
        yield _tell_security(registrations, access)
        yield from _tell_versions(registrations)
        yield from _try("clocks", lambda: _tell_clock(answers, settings))
        if any(answer.body is not None for answer in answers):
            yield from _try("cluster name and kind", lambda: _tell_kind(source, connection.cluster, registrations))


def _tell_answers(registrations: Sequence[Registration], answers: Sequence[HttpAnswer]) -> Iterator[Told]:
    silent = [(r, a) for r, a in zip(registrations, answers, strict=True) if a.body is None]
    refused = [r.broker_id for r, answer in silent if answer.status in UNAUTHORISED]
    others = [f"{r.broker_id} ({a.problem})" for r, a in silent if a.status not in UNAUTHORISED]
    if refused:
        told = f"{len(refused)} of {len(registrations)} brokers refuse this user: {name_first(refused)}"
        yield problem("broker access", told, _SUPER_USER)
    if others:
        told = f"{len(others)} of {len(registrations)} brokers do not answer: {name_first(others)}"
        remedy = "check that this machine reaches their web service, its certificate and its name"
        yield problem("brokers", told, remedy)
    if not silent:
        yield ok("brokers", f"{len(registrations)} brokers are registered and answer")


def _tell_security(registrations: Sequence[Registration], access: BrokerAccess) -> Told:
    plain = [r.broker_id for r in registrations if not r.web_url.startswith("https://")]
    way = "over TLS" if not plain else f"over plain HTTP to {name_first(plain)}"
    if access.token is None:
        return ok("broker token and TLS", f"no token is sent; {way}")
    if plain:
        told = f"the token goes {way}, where anybody on the network can read it"
        return warning("broker token and TLS", told, "enable TLS, then remove broker_token_over_plain_http")
    return ok("broker token and TLS", f"the token is sent {way}")


def _tell_versions(registrations: Sequence[Registration]) -> Iterator[Told]:
    versions = {r.broker_id: r.version for r in registrations}
    known = sorted({version or "unknown" for version in versions.values()})
    untested = tell_untested(versions)
    if len(known) > 1:
        remedy = "finish the upgrade before you apply plans"
        yield warning("Pulsar version", f"brokers run different versions: {', '.join(known)}", remedy)
    for sentence in untested:
        yield warning("Pulsar version", sentence, "try a small plan with `apply --dry-run` first")
    if len(known) == 1 and not untested:
        yield ok("Pulsar version", f"all brokers run {known[0]}")


def _tell_clock(answers: Sequence[HttpAnswer], settings: Settings) -> Told:
    offsets_s = clock_offsets(answers)
    require_good_clock(offsets_s, settings.clock_offset_limit_s)
    if not offsets_s:
        return warning("clocks", "no broker told its time", "check that they answer, and that clocks are synchronised")
    return ok("clocks", f"this machine agrees with {len(offsets_s)} brokers, to the second")


def _tell_kind(source: ClusterSource, cluster: str, registrations: Sequence[Registration]) -> Told:
    kind = recognise_kind(source, cluster, registrations)
    return ok("cluster name and kind", f"the brokers belong to {cluster}; load manager {kind.load_manager}")


def look_at_pulsar_settings(connection: ClusterConnection, settings: Settings) -> Iterable[Told]:
    """Look for settings of Pulsar that work against Evenkeel's plans or keep it from applying them."""
    pulsar = PulsarPaths.of(connection)
    with open_cluster(connection, BrokerAccess.from_settings(settings)) as source:
        yield from _try("metadata migration", lambda: _tell_migration(source, pulsar))
        (flag,) = source.configuration_tree.get([pulsar.policies_read_only])
        if flag is not None:
            told = f"{flag.path} exists: brokers refuse to unload and split bundles"
            yield problem("read-only policies", told, "remove the node once its reason is resolved")
        configurations = _read_configurations(source)
        yield from _tell_load_balancer(configurations)
        syncer = find_syncer(configurations)
        if syncer is not None:
            yield warning("table view", syncer, "finish the change before you apply plans")
        yield _tell_switches(source, connection, configurations)


def _tell_migration(source: ClusterSource, pulsar: PulsarPaths) -> Told:
    note = require_no_migration(source.tree, pulsar)
    if note is not None:
        return warning("metadata migration", note, "do not apply plans while a migration may begin")
    return ok("metadata migration", "none")


def _read_configurations(source: ClusterSource) -> dict[str, JsonObject]:
    registrations = read_registrations(source)
    answers = source.http.fetch([r.web_url + RUNTIME_PATH for r in registrations])
    return {
        r.broker_id: JsonObject.decode(answer.body, f"broker {r.broker_id}")
        for r, answer in zip(registrations, answers, strict=True)
        if answer.body is not None
    }


def _tell_load_balancer(configurations: Mapping[str, JsonObject]) -> Iterator[Told]:
    off = [broker for broker, c in configurations.items() if c.optional_text("loadBalancerEnabled") == OFF]
    if off:
        told = f"loadBalancerEnabled is false on {name_first(off)}: they report no load"
        yield problem("Pulsar's load balancer", told, "set it to true in broker.conf and restart these brokers")
    elif configurations:
        yield ok("Pulsar's load balancer", "enabled on every broker that answered")


def _tell_switches(
    source: ClusterSource, connection: ClusterConnection, configurations: Mapping[str, JsonObject]
) -> Told:
    """Shedding and splitting may be on: a run pauses them. Off without a run is somebody's decision, or a leftover."""
    (node,) = source.tree.get([PulsarPaths.of(connection).configuration])
    values: Any = parse_json(node.data) if node is not None and node.data else {}
    dynamic = values if isinstance(values, dict) else {}
    usual = next(iter(configurations.values()), None)
    off = [key for key in SWITCHES if dynamic.get(key, usual and usual.optional_text(key)) == OFF]
    if not off:
        return ok("shedding and splitting", "on; a run pauses them and switches them back on")
    (writer,) = source.tree.get([EvenkeelPaths(connection.home).writer])
    if writer is not None:
        return ok("shedding and splitting", f"{' and '.join(off)} off while a run is in progress")
    told = f"{' and '.join(off)} off, and no run is in progress"
    return warning("shedding and splitting", told, "see what was left behind below; otherwise somebody wants it so")


def look_at_leftovers(connection: ClusterConnection) -> Iterable[Told]:
    """Look for what stops or changes the next run: the kill switch, marks, paused switches, interrupted runs."""
    paths = EvenkeelPaths(connection.home)
    with open_session(connection) as session:
        stop = KillSwitch(session, connection).read()
        if stop is not None:
            yield problem(
                "kill switch", f"writes are stopped by {stop}", "once the reason is resolved: `evenkeel resume`"
            )
        else:
            yield ok("kill switch", "not pulled")
        marks = Draining(session, connection).marked()
        for broker, directive in marks.items():
            told = f"{broker} is marked by {directive}: it receives no bundles"
            yield warning("draining marks", told, f"after the maintenance: `evenkeel drain --undo --broker {broker}`")
        if not marks:
            yield ok("draining marks", "none")
        for status in find_left_off(session, paths):
            yield problem("paused balancer", describe_left_off(status), "run `evenkeel restore-balancer`")
        yield from _tell_runs(session, paths)
        yield from _tell_other_roots(session, connection)


def _tell_runs(session: ZooKeeperSession, paths: EvenkeelPaths) -> Iterator[Told]:
    reader = JournalReader(session, paths)
    writer = reader.writer()
    if writer is not None:
        yield ok("runs", f"plan {short_id(writer.plan_id)} is being applied by {writer.holder}, epoch {writer.epoch}")
        return
    statuses = [status for status in reader.statuses().values() if status is not None]
    interrupted = [short_id(status.plan_id) for status in statuses if status.state is RunState.RUNNING]
    for plan_id in interrupted:
        told = f"the writer of plan {plan_id} died in the middle of a run"
        yield warning("runs", told, f"`evenkeel apply {plan_id}` continues it, unless the plan has expired")
    if not interrupted:
        yield ok("runs", "no run is in progress or was interrupted")


def _tell_other_roots(session: ZooKeeperSession, connection: ClusterConnection) -> Iterator[Told]:
    """A writer with another root has another fence and does not see this kill switch."""
    others = [root or "/" for root in EvenkeelRoots(session, connection).find_others()]
    if others:
        told = f"nodes of Evenkeel for {connection.cluster} are also below {name_first(others)}"
        yield warning("Evenkeel's root", told, "use one evenkeel_root for a cluster everywhere, and remove the other")
    else:
        yield ok("Evenkeel's root", f"only {connection.evenkeel_root}")


def _try(check: str, tell: Callable[[], Told]) -> Iterator[Told]:
    """What a function tells; an error that it raises is a problem of this check alone."""
    try:
        yield tell()
    except EvenkeelError as error:
        yield problem(check, error.cause, error.remedy)
