"""Which producers a verification compares: those of moved bundles whose owner has reported since the run."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from evenkeel.adapters.lake.store import to_arrow
from evenkeel.model.plan import Step, StepKind
from evenkeel.model.snapshot import Broker, Bundle, Topic
from evenkeel.stages.verify import compare_moved_producers
from support.lakes import TAKEN_AT, make_broker, make_bundle

BUNDLE, UPPER_HALF = "t/n/0x00000000_0xffffffff", "t/n/0x80000000_0xffffffff"
FROM, TO = "b1:8080", "b2:8080"
RUN_ENDED = TAKEN_AT + timedelta(minutes=1)
BEFORE, AFTER = RUN_ENDED - timedelta(seconds=1), RUN_ENDED + timedelta(seconds=1)


def silenced(kind: StepKind, bundle: str, owner: str, reported_at: datetime) -> tuple[str, ...]:
    """What is said about a topic that had producers, and that the owner of its bundle does not list any more."""
    destination = TO if kind is StepKind.TRANSFER else None
    step = Step(0, 0, kind, BUNDLE, FROM, 1, destination, None, 1, 0, 0, 0, 1, 2, 0, "a test")
    tables = {
        "brokers": to_arrow(Broker, [make_broker(owner, reported_at=reported_at)]),
        "bundles": to_arrow(Bundle, [make_bundle(bundle, owner)]),
        "topics": to_arrow(Topic, [Topic("persistent://t/n/other", bundle, 2, producers=1)]),
    }
    before = [Topic("persistent://t/n/orders", BUNDLE, 1, producers=2)]
    return compare_moved_producers(before, [step], RUN_ENDED, tables).silenced


CASES = [(StepKind.TRANSFER, BUNDLE, TO), (StepKind.SPLIT, UPPER_HALF, FROM)]


@pytest.mark.parametrize(("kind", "bundle", "owner"), CASES)
def test_topic_that_lost_its_producers_is_named(kind: StepKind, bundle: str, owner: str) -> None:
    (sentence,) = silenced(kind, bundle, owner, AFTER)
    assert sentence == "topic persistent://t/n/orders had 2 producers before the run and has none now"


@pytest.mark.parametrize(("kind", "bundle", "owner"), CASES)
def test_owner_that_has_not_reported_since_the_run_tells_nothing(kind: StepKind, bundle: str, owner: str) -> None:
    assert silenced(kind, bundle, owner, BEFORE) == ()
