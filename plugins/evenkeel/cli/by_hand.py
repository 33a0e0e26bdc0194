"""`evenkeel move`, `unload`, `split` and `rollback`: plans that a person asks for, and the one way that all of them go.

fresh snapshot ──▶ plan ──▶ gate ──▶ a person's yes ──▶ apply ──▶ verify
"""

from __future__ import annotations

from typing import Annotated

import typer

from evenkeel.adapters.lake import Lake
from evenkeel.cli.options import (
    DEFAULT_MASTER,
    AsJson,
    Cluster,
    ConfigurationStore,
    LakeUri,
    Master,
    MaybeLakeUri,
    PulsarRoot,
    SettingsFile,
    Yes,
    ZooKeeper,
    connect,
    current_user,
    load_settings,
    locate,
)
from evenkeel.cli.output import fail, reporting, working
from evenkeel.cli.way import Way
from evenkeel.model.plan import StepKind

BundleOrTopic = Annotated[
    str, typer.Argument(metavar="BUNDLE|TOPIC", help="A bundle, or a topic, which stands for its whole bundle.")
]


def move(
    target: BundleOrTopic,
    to: Annotated[str, typer.Option("--to", help="The broker that is to own it, host:port.")],
    zookeeper: ZooKeeper,
    cluster: Cluster,
    lake: LakeUri,
    pulsar_root: PulsarRoot = "",
    configuration_zookeeper: ConfigurationStore = None,
    settings: SettingsFile = None,
    master: Master = DEFAULT_MASTER,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Move one bundle to a broker of your choice, past the same gate and guards as any plan."""
    with reporting(as_json):
        connection = connect(cluster, zookeeper, pulsar_root, configuration_zookeeper)
        way = Way(Lake(lake), connection, load_settings(settings), master, yes, as_json)
        _do_as_wished(way, StepKind.TRANSFER, target, destination=to)


def unload(
    bundle: BundleOrTopic,
    zookeeper: ZooKeeper,
    cluster: Cluster,
    lake: LakeUri,
    pulsar_root: PulsarRoot = "",
    configuration_zookeeper: ConfigurationStore = None,
    settings: SettingsFile = None,
    master: Master = DEFAULT_MASTER,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Take one bundle from its broker; Pulsar chooses the next owner."""
    with reporting(as_json):
        connection = connect(cluster, zookeeper, pulsar_root, configuration_zookeeper)
        way = Way(Lake(lake), connection, load_settings(settings), master, yes, as_json)
        _do_as_wished(way, StepKind.UNLOAD, bundle)


def split(
    bundle: BundleOrTopic,
    zookeeper: ZooKeeper,
    cluster: Cluster,
    lake: LakeUri,
    at: Annotated[
        str | None, typer.Option("--at", help="Hash at which to cut, such as 0x20000000; default where load is halved.")
    ] = None,
    pulsar_root: PulsarRoot = "",
    configuration_zookeeper: ConfigurationStore = None,
    settings: SettingsFile = None,
    master: Master = DEFAULT_MASTER,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Split one bundle in two; both halves stay with its broker. A split cannot be undone."""
    with reporting(as_json):
        connection = connect(cluster, zookeeper, pulsar_root, configuration_zookeeper)
        way = Way(Lake(lake), connection, load_settings(settings), master, yes, as_json)
        _do_as_wished(way, StepKind.SPLIT, bundle, boundary=at)


def rollback(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's id, a beginning of it, or its URI.")],
    zookeeper: ZooKeeper,
    cluster: Cluster,
    lake: MaybeLakeUri = None,
    pulsar_root: PulsarRoot = "",
    configuration_zookeeper: ConfigurationStore = None,
    settings: SettingsFile = None,
    master: Master = DEFAULT_MASTER,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Undo what the journal says a run's plan has done: every bundle that is still where it was put goes back."""
    from evenkeel.stages.rollback import plan_rollback

    with reporting(as_json):
        place, reference = locate("runs", run, lake)
        connection = connect(cluster, zookeeper, pulsar_root, configuration_zookeeper)
        way = Way(place, connection, load_settings(settings), master, yes, as_json)
        with working("reading journal and cluster"):
            stored = plan_rollback(way.lake, reference, connection, way.settings)
        way.show_left(stored.rejections)
        if not stored.steps:
            fail(as_json, way.told(stored), "nothing of it can go back: see the reasons above, or in `left`")
        way.carry_out(stored)


def _do_as_wished(
    way: Way, kind: StepKind, target: str, destination: str | None = None, boundary: str | None = None
) -> None:
    from evenkeel.planning.manual import Wish
    from evenkeel.stages.manual import plan_by_hand

    wish = Wish(kind, target, current_user(), destination, boundary)
    with working("reading the cluster"):
        stored = plan_by_hand(way.lake, way.connection, way.settings, wish)
    way.carry_out(stored)
