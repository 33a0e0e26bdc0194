"""A short cycle on real brokers of the older lines; `make matrix` runs the full one on every version and kind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from evenkeel.model.snapshot import LoadManager
from support import real_stories
from support.real_scene import RealScene, real_scene

PRODUCERS, CONSUMERS = 36, 9
pytestmark = [pytest.mark.pulsar, pytest.mark.timeout(1_200)]


@pytest.fixture(
    scope="module",
    params=[("3.0.7", LoadManager.MODULAR), ("4.0.7", LoadManager.EXTENSIBLE)],
    ids=lambda p: "-".join(p),
)
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealScene]:
    version, kind = request.param
    with real_scene(kind, tmp_path_factory.mktemp(f"{kind}-{version}"), version) as running:
        yield running


def test_every_bundle_moves_at_once_and_no_producer_stays_silent(scene: RealScene) -> None:
    real_stories.keeps_every_message_under_steady_load(scene, PRODUCERS, CONSUMERS)


def test_rollback_puts_every_bundle_back(scene: RealScene) -> None:
    real_stories.rolls_back(scene)


def test_split_and_transfer_of_a_child(scene: RealScene) -> None:
    real_stories.splits_a_bundle_and_moves_a_child(scene)


def test_balancer_is_given_back_inside_every_broker(scene: RealScene) -> None:
    real_stories.gives_the_balancer_back(scene)
