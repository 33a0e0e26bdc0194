"""The cluster's name is proved by its brokers: being listed in the configuration store is not enough."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from evenkeel.adapters.cluster.connect import LiveCluster
from evenkeel.model.errors import InputError
from evenkeel.model.snapshot import LoadManager
from evenkeel.stages.snapshot import take_snapshot
from support.scenes import SETTINGS, Scene

KINDS = (LoadManager.EXTENSIBLE, LoadManager.MODULAR)


def under_a_sisters_name(scene: Scene) -> Scene:
    """The same cluster by the name of another one that its configuration store lists."""
    scene.client.create(f"{scene.connection.pulsar_root}/admin/clusters/sister", b"{}")
    return replace(scene, connection=replace(scene.connection, cluster="sister"))


@pytest.mark.parametrize("kind", KINDS)
def test_snapshot_under_another_clusters_name_is_refused(stage: Callable[..., Scene], kind: LoadManager) -> None:
    scene = under_a_sisters_name(stage(str(kind)))
    with pytest.raises(InputError, match="belongs to cluster 'fleet', not 'sister'"):
        take_snapshot(scene.lake, scene.connection, SETTINGS)
    assert scene.lake.names("snapshots") == []


@pytest.mark.parametrize("kind", KINDS)
def test_writer_under_another_clusters_name_is_refused_before_the_fence(
    stage: Callable[..., Scene], kind: LoadManager
) -> None:
    scene = under_a_sisters_name(stage(str(kind)))
    with (
        pytest.raises(InputError, match="belongs to cluster 'fleet', not 'sister'"),
        LiveCluster(scene.connection, kind, SETTINGS).connect(),
    ):
        pass
    assert scene.is_untouched
