"""Producers per topic before and after a run: a topic whose producers did not come back is named."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from evenkeel.model.snapshot import Topic

# A verification names this many topics one by one.
NAMED_TOPICS = 20


@dataclass(frozen=True, slots=True)
class ProducerChanges:
    """Topics of moved bundles that have no producers left, and those that have fewer than before, as sentences."""

    silenced: tuple[str, ...] = ()
    fewer: tuple[str, ...] = ()


def compare_producers(before: Iterable[Topic], after: Iterable[Topic], moved: Collection[str]) -> ProducerChanges:
    """Compare the topics of these bundles; a snapshot without topics of a cluster tells nothing about them.

    Producers come and go, so fewer of them are told but are no deviation. A topic with none left is one.
    """
    now = {topic.topic: topic for topic in after}
    if not now:
        return ProducerChanges()
    silenced, fewer = [], []
    for topic in sorted(before, key=lambda topic: topic.topic):
        found = now.get(topic.topic)
        if not topic.producers or not ({topic.bundle, found.bundle if found else topic.bundle} & set(moved)):
            continue
        left = found.producers if found else 0
        if not left:
            silenced.append(f"topic {topic.topic} had {_count(topic.producers)} before the run and has none now")
        elif left < topic.producers:
            fewer.append(f"Topic {topic.topic} has {_count(left)}; before the run it had {topic.producers}.")
    return ProducerChanges(_first(silenced, "topics without producers"), _first(fewer, "topics with fewer producers"))


def _first(sentences: list[str], what: str) -> tuple[str, ...]:
    more = len(sentences) - NAMED_TOPICS
    return (*sentences[:NAMED_TOPICS], *([f"and {more:,} more {what}"] if more > 0 else []))


def _count(producers: int) -> str:
    return f"{producers:,} producer{'' if producers == 1 else 's'}"
