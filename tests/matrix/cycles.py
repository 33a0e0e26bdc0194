"""One full cycle on real brokers of a version and kind, under traffic, and the record that it leaves."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evenkeel.model.pulsar_versions import TESTED, has_metadata_store_view
from evenkeel.model.snapshot import LoadManager
from support import real_stories
from support.pulsar_traffic import TrafficFigures
from support.real_scene import RealScene, real_scene

PRODUCERS, CONSUMERS = 36, 9
STORIES: dict[str, Callable[[RealScene], None]] = {
    "every bundle moves at once": lambda scene: real_stories.keeps_every_message_under_steady_load(
        scene, PRODUCERS, CONSUMERS
    ),
    "snapshot, plan, apply, verify": real_stories.goes_the_whole_way,
    "rollback": real_stories.rolls_back,
    "drain": real_stories.drains_a_broker,
    "split, and move a child": real_stories.splits_a_bundle_and_moves_a_child,
}


@dataclass(frozen=True, slots=True)
class Cycle:
    """A version and a kind that it has."""

    version: str
    kind: LoadManager

    def __str__(self) -> str:
        return f"{self.version}:{self.kind}"


@dataclass(frozen=True, slots=True)
class StoryRecord:
    """What became of a story, and what its clients saw; `problem` is empty where all went well."""

    story: str
    problem: str
    seconds: float
    traffic: TrafficFigures | None


def supported_cycles() -> list[Cycle]:
    """Every supported version with every kind that it has; the kinds of a version follow each other."""
    kinds = (LoadManager.MODULAR, LoadManager.EXTENSIBLE, LoadManager.EXTENSIBLE_SYSTEM_TOPIC)
    return [Cycle(version, kind) for version in TESTED for kind in kinds if has_kind(version, kind)]


def has_kind(version: str, kind: LoadManager) -> bool:
    return kind is not LoadManager.EXTENSIBLE or has_metadata_store_view(version)


def run_cycle(cycle: Cycle, home: Path) -> list[StoryRecord]:
    """Go through every story on one cluster; one that fails does not keep the others from running."""
    try:
        with real_scene(cycle.kind, home, cycle.version) as scene:
            return [_run_story(scene, story) for story in STORIES]
    except Exception as error:
        traceback.print_exc()
        return [StoryRecord("start of the cluster", _tell(error), 0.0, None)]


def _run_story(scene: RealScene, story: str) -> StoryRecord:
    began_s, before = time.monotonic(), len(scene.figures)
    problem = ""
    try:
        STORIES[story](scene)
    except Exception as error:
        traceback.print_exc()
        problem = _tell(error)
    figures = scene.figures[before:]
    return StoryRecord(story, problem, round(time.monotonic() - began_s, 1), figures[-1] if figures else None)


def _tell(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:300]


def read_records(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text())) if path.exists() else {}


def write_record(path: Path, cycle: Cycle, stories: Sequence[StoryRecord], when: str) -> None:
    """Replace the record of a cycle; those of others stay."""
    records = read_records(path)
    records[str(cycle)] = {"run_on": when, "stories": [asdict(story) for story in stories]}
    path.write_text(json.dumps(dict(sorted(records.items())), indent=1) + "\n")
