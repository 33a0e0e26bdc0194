"""Real producers and consumers at a steady rate, who keep account of every message."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pulsar

from support.waiting import scaled

SEND_INTERVAL_S = 0.5
SEND_TIMEOUT_MS = int(scaled(120_000))
# Well below the time that a message may take: a request that a dying broker swallowed is made again in time.
OPERATION_TIMEOUT_S = int(scaled(40))
SUBSCRIPTION = "evenkeel-test"
# Longer than a message may be on its way.
DRAIN_DEADLINE_S = scaled(150.0)
# A client tries to reconnect after 100 ms, 300 ms … 25.5 s; one that is not back by then never comes.
GO_ON_S = scaled(60.0)
PAYLOAD_PADDING = b"." * 400


@dataclass(frozen=True, slots=True)
class TrafficFigures:
    """What clients saw while a story ran; `received` are different messages, not deliveries."""

    producers: int
    sent: int
    acknowledged: int
    received: int
    longest_gap_s: float


@dataclass
class Account:
    """What was acknowledged and what was consumed, by topic; filled from the client's own threads."""

    acknowledged: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    consumed: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    begun: int = 0
    last_sent_at_s: float = 0.0
    refusals: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How many sends ended without an acknowledgement, by topic and by what the client says of them."""
    acknowledged_at_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def sent(self) -> int:
        with self.lock:
            return sum(map(len, self.acknowledged.values()))

    @property
    def refused(self) -> int:
        return self.refusals.total()

    @property
    def open(self) -> int:
        """Messages that are neither acknowledged nor refused yet."""
        return self.begun - self.refused - self.sent

    def missing(self) -> dict[str, set[int]]:
        """Acknowledged messages that nobody has consumed."""
        with self.lock:
            gaps = {topic: numbers - self.consumed[topic] for topic, numbers in self.acknowledged.items()}
        return {topic: numbers for topic, numbers in gaps.items() if numbers}

    def longest_gaps_s(self) -> dict[str, float]:
        """The longest time without an acknowledgement, by topic, up to the moment when the last message was sent."""
        with self.lock:
            moments = {topic: sorted(times) for topic, times in self.acknowledged_at_s.items()}
        # A topic that was never served again has its gap at the end.
        ends = {topic: max(times[-1], self.last_sent_at_s) for topic, times in moments.items()}
        return {
            topic: max(later - earlier for earlier, later in pairwise([*times, ends[topic]]))
            for topic, times in moments.items()
        }

    def silent_since(self, moment_s: float, topics: Sequence[str]) -> list[str]:
        """The topics that have had no message acknowledged since a moment."""
        with self.lock:
            last = {topic: max(times) for topic, times in self.acknowledged_at_s.items()}
        return [topic for topic in topics if last.get(topic, 0.0) < moment_s]

    def figures(self) -> TrafficFigures:
        with self.lock:
            received = sum(map(len, self.consumed.values()))
        gaps = self.longest_gaps_s()
        return TrafficFigures(len(gaps), self.begun, self.sent, received, round(max(gaps.values()), 2))

    def tell(self) -> str:
        gaps = sorted(self.longest_gaps_s().items(), key=lambda item: -item[1])
        lines = [f"{count} messages to {topic} refused: {why}" for (topic, why), count in self.refusals.items()]
        lines += [f"{self.sent} messages acknowledged, {self.refused} refused; longest publish gap by topic:"]
        return "\n".join([*lines, *(f"  {gap:6.2f} s  {topic}" for topic, gap in gaps)])


class Traffic:
    """Producers, one a topic, and consumers that share the topics among them."""

    def __init__(self, service_url: str, topics: Sequence[str], consumers: int, log: Path) -> None:
        self.account = Account()
        self.topics = tuple(topics)
        self._ended = threading.Event()
        logger = pulsar.FileLogger(pulsar.LoggerLevel.Info, str(log))
        self._client = pulsar.Client(
            service_url,
            operation_timeout_seconds=OPERATION_TIMEOUT_S,
            io_threads=2,
            message_listener_threads=2,
            logger=logger,
        )
        shares = [list(self.topics[place::consumers]) for place in range(consumers)]
        self._consumers = [self._subscribe(share) for share in shares if share]
        self._producers = {topic: self._produce_to(topic) for topic in self.topics}
        self._sender = threading.Thread(target=self._send_steadily, daemon=True)
        self._sender.start()

    def _subscribe(self, topics: list[str]) -> pulsar.Consumer:
        return self._client.subscribe(
            topics,
            SUBSCRIPTION,
            consumer_type=pulsar.ConsumerType.Shared,
            initial_position=pulsar.InitialPosition.Earliest,
            message_listener=self._take,
        )

    def _produce_to(self, topic: str) -> pulsar.Producer:
        return self._client.create_producer(
            topic, send_timeout_millis=SEND_TIMEOUT_MS, batching_enabled=False, block_if_queue_full=False
        )

    def _take(self, consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        topic, _, number = message.data().rstrip(b".").decode().rpartition(" ")
        with self.account.lock:
            self.account.consumed[topic].add(int(number))
        consumer.acknowledge(message)

    def _send_steadily(self) -> None:
        number = 0
        while not self._ended.wait(SEND_INTERVAL_S):
            for topic, producer in self._producers.items():
                payload = f"{topic} {number}".encode() + PAYLOAD_PADDING
                with self.account.lock:
                    self.account.begun += 1
                    self.account.last_sent_at_s = time.monotonic()
                producer.send_async(payload, self._note(topic, number))
            number += 1

    def _note(self, topic: str, number: int):  # type: ignore[no-untyped-def]
        def answered(result: pulsar.Result, _id: object) -> None:
            with self.account.lock:
                if result == pulsar.Result.Ok:
                    self.account.acknowledged[topic].add(number)
                    self.account.acknowledged_at_s[topic].append(time.monotonic())
                else:
                    self.account.refusals[topic, str(result)] += 1

        return answered

    def await_first_messages(self) -> None:
        """Wait until every topic has had a message through; its brokers then have something to tell of."""
        deadline_s = time.monotonic() + DRAIN_DEADLINE_S
        while len(self.account.consumed) < len(self.topics):
            assert time.monotonic() < deadline_s, f"{len(self.account.consumed)} of {len(self.topics)} topics work"
            time.sleep(0.2)

    def require_all_going(self) -> None:
        """Wait until every producer has had another message through; one that stays silent is an error."""
        since_s, deadline_s = time.monotonic(), time.monotonic() + GO_ON_S
        while silent := self.account.silent_since(since_s, self.topics):
            assert time.monotonic() < deadline_s, f"{len(silent)} producers stay silent, such as the one of {silent[0]}"
            time.sleep(0.2)

    def settle(self) -> Account:
        """Stop sending, and wait until every message has its answer and was consumed, or the deadline has passed."""
        self._ended.set()
        self._sender.join()
        deadline_s = time.monotonic() + DRAIN_DEADLINE_S
        while (self.account.open > 0 or self.account.missing()) and time.monotonic() < deadline_s:
            time.sleep(0.2)
        return self.account

    def close(self) -> None:
        self._ended.set()
        self._sender.join()
        self._client.close()


@contextmanager
def running_traffic(service_url: str, topics: Sequence[str], consumers: int, log: Path) -> Iterator[Traffic]:
    """Traffic that ends with the block; the client tells in the log how it got on with the brokers."""
    traffic = Traffic(service_url, topics, consumers, log)
    try:
        yield traffic
    finally:
        traffic.close()


def name_topics(namespaces: Sequence[str], count: int) -> list[str]:
    """So many topics, in each namespace in turn."""
    return [f"persistent://{namespaces[n % len(namespaces)]}/topic-{n:03}" for n in range(count)]
