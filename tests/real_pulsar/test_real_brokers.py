"""Real brokers of every kind, with real clients: each kind's cluster is started once and goes through every story."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from evenkeel.adapters.zookeeper.session import ZooKeeperSession
from evenkeel.model.snapshot import LoadManager
from support import real_stories
from support.real_scene import RealScene, real_scene

PRODUCERS, CONSUMERS = 100, 30
pytestmark = [pytest.mark.pulsar, pytest.mark.timeout(1_800)]


@pytest.fixture(
    scope="module",
    params=[LoadManager.EXTENSIBLE, LoadManager.EXTENSIBLE_SYSTEM_TOPIC, LoadManager.MODULAR],
    ids=str,
)
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealScene]:
    with real_scene(request.param, tmp_path_factory.mktemp(str(request.param))) as running:
        yield running


def test_steady_load_keeps_every_message_while_every_bundle_moves(scene: RealScene) -> None:
    real_stories.keeps_every_message_under_steady_load(scene, PRODUCERS, CONSUMERS)


def test_second_run_of_a_plan_repeats_nothing(scene: RealScene) -> None:
    real_stories.repeats_nothing(scene)


def test_rollback_puts_every_bundle_back(scene: RealScene) -> None:
    real_stories.rolls_back(scene)


def test_drained_broker_has_nothing_left(scene: RealScene) -> None:
    real_stories.drains_a_broker(scene)


def test_run_whose_session_expired_in_mid_wave_is_resumed(
    scene: RealScene, writer_sessions: list[ZooKeeperSession]
) -> None:
    real_stories.resumes_after_its_session_expired(scene, writer_sessions)


def test_split_and_transfer_of_a_child(scene: RealScene) -> None:
    real_stories.splits_a_bundle_and_moves_a_child(scene)


def test_whole_way_under_traffic_ends_where_the_plan_says(scene: RealScene) -> None:
    real_stories.goes_the_whole_way(scene)


def test_death_of_a_broker_in_mid_wave_stops_the_run_and_loses_nothing(scene: RealScene) -> None:
    real_stories.survives_the_death_of_a_broker(scene)
