"""The bundles of a fleet: the layout it starts with, and the catalogue of the bundles that exist now.

`build_layout` draws namespaces, bundles, topics and owners from a seed; the same settings give the same layout.
`BundleCatalogue` starts from the layout's topics and follows the splits while the fleet runs.
"""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from evenkeel.fleet.settings import FleetSettings
from evenkeel.model.bundles import RING_END, BundleName, BundleRange, ranges_between
from evenkeel.pulsar_rules.ring import find_range, hash_topic

TENANTS = ("acme", "globex", "initech", "hooli")
SUBJECTS = ("orders", "clicks", "billing", "audit", "metrics", "events", "search", "stock")
SYSTEM_NAMESPACE = "pulsar/system"
SYSTEM_BUNDLES = 16
MAX_BUNDLES_PER_NAMESPACE = 64
FEWEST_NAMESPACES = 6
FEWEST_BUNDLES_PER_NAMESPACE = 4
FEWEST_BROKERS_FOR_ISOLATION = 6
BROKERS_FOR_SECOND_RESERVED = 20
FAILURE_DOMAINS = 3
TOPICS_PER_BUNDLE = (2, 4)
WEIGHT_SIGMA = 0.8
LARGEST_SHARE_OF_BROKER = 0.18
"""Of a broker's message rate, averaged over the day. Message size, fan-out and the hour raise it to about 0.25."""
MESSAGE_RATE_PER_BROKER = 24_000.0
MEAN_MESSAGE_BYTES = (700, 1300)
PEAK_HOURS = (12.0, 16.0)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic with its traffic; rates are daily averages."""

    name: str
    hash: int
    bundle: str
    message_rate_in: float
    message_bytes: float
    subscriptions: int
    producers: int
    consumers_per_subscription: int
    peak_hour: float


@dataclass(frozen=True, slots=True)
class Layout:
    """What a fleet writes before its brokers start."""

    boundaries: Mapping[str, tuple[int, ...]]
    topics: tuple[Topic, ...]
    owners: Mapping[str, str]
    reserved_namespace: str | None
    reserved_brokers: tuple[str, ...]
    failure_domains: Mapping[str, tuple[str, ...]]


def build_layout(settings: FleetSettings) -> Layout:
    """Build a random cluster from the seed in the settings."""
    draw = random.Random(settings.seed)
    boundaries = _cut_namespaces(settings.bundles)
    bundles = list_bundles(boundaries)
    active = bundles[: len(bundles) - settings.idle_bundles]
    weights = _draw_weights(len(active), settings.brokers, draw)
    total_rate = MESSAGE_RATE_PER_BROKER * settings.brokers
    rate_by_bundle = {bundle: weight * total_rate for bundle, weight in zip(active, weights, strict=True)}
    reserved = _choose_reserved(settings.broker_ids)
    reserved_namespace = next(iter(boundaries)) if reserved else None
    return Layout(
        boundaries=boundaries,
        topics=tuple(_draw_topics(boundaries, rate_by_bundle, draw)),
        owners=_place(rate_by_bundle, settings, reserved_namespace, reserved, draw),
        reserved_namespace=reserved_namespace,
        reserved_brokers=reserved,
        failure_domains={
            f"zone-{number + 1}": settings.broker_ids[number::FAILURE_DOMAINS]
            for number in range(min(FAILURE_DOMAINS, settings.brokers))
        },
    )


def even_boundaries(bundles: int) -> tuple[int, ...]:
    """Return the boundaries that Pulsar gives a new namespace with this number of bundles."""
    return (*(index * (RING_END + 1) // bundles for index in range(bundles)), RING_END)


def list_bundles(boundaries: Mapping[str, Sequence[int]]) -> list[str]:
    """Return the names of all bundles of the given namespaces."""
    return [f"{namespace}/{part}" for namespace, points in boundaries.items() for part in ranges_between(points)]


def _cut_namespaces(bundles: int) -> dict[str, tuple[int, ...]]:
    wanted = max(math.ceil(bundles / MAX_BUNDLES_PER_NAMESPACE), FEWEST_NAMESPACES)
    count = max(1, min(wanted, bundles // FEWEST_BUNDLES_PER_NAMESPACE))
    boundaries = {}
    for number in range(count):
        tenant = TENANTS[number % len(TENANTS)]
        turn, subject = divmod(number, len(SUBJECTS))
        name = f"{tenant}/{SUBJECTS[subject]}" + (f"-{turn}" if turn else "")
        share = bundles // count + (1 if number < bundles % count else 0)
        boundaries[name] = even_boundaries(share)
    return boundaries


def _draw_weights(count: int, brokers: int, draw: random.Random) -> list[float]:
    """Return shares of the cluster's load that sum to 1; with enough bundles, none is too large to move."""
    weights = [draw.lognormvariate(0.0, WEIGHT_SIGMA) for _ in range(count)]
    ceiling = max(LARGEST_SHARE_OF_BROKER / brokers, 1.0 / max(count, 1))
    # Capping some shares raises the others, so it takes a few passes.
    for _ in range(8):
        total = sum(weights)
        weights = [min(weight / total, ceiling) for weight in weights]
    total = sum(weights)
    return [weight / total for weight in weights]


def _choose_reserved(broker_ids: Sequence[str]) -> tuple[str, ...]:
    if len(broker_ids) < FEWEST_BROKERS_FOR_ISOLATION:
        return ()
    return tuple(broker_ids[-2:] if len(broker_ids) >= BROKERS_FOR_SECOND_RESERVED else broker_ids[-1:])


def _draw_topics(
    boundaries: Mapping[str, Sequence[int]], rate_by_bundle: Mapping[str, float], draw: random.Random
) -> list[Topic]:
    topics: list[Topic] = []
    for namespace, points in boundaries.items():
        peak_hour = draw.uniform(*PEAK_HOURS)
        names = _name_topics(namespace, points, rate_by_bundle, draw)
        for bundle, members in names.items():
            shares = [draw.uniform(0.5, 1.5) for _ in members]
            for (name, position), share in zip(members, shares, strict=True):
                rate = rate_by_bundle[bundle] * share / sum(shares)
                topics.append(_draw_topic(name, position, bundle, rate, peak_hour, draw))
    return topics


def _name_topics(
    namespace: str, points: Sequence[int], rate_by_bundle: Mapping[str, float], draw: random.Random
) -> dict[str, list[tuple[str, int]]]:
    """Number topics upwards and keep those whose bundle still needs one, until every bundle has enough topics."""
    wanted = {
        bundle: draw.randint(*TOPICS_PER_BUNDLE)
        for bundle in list_bundles({namespace: points})
        if bundle in rate_by_bundle
    }
    found: dict[str, list[tuple[str, int]]] = {bundle: [] for bundle in wanted}
    missing, number = sum(wanted.values()), 0
    while missing:
        number += 1
        name = f"persistent://{namespace}/t{number}"
        position = hash_topic(name)
        bundle = f"{namespace}/{find_range(points, position)}"
        if bundle in wanted and len(found[bundle]) < wanted[bundle]:
            found[bundle].append((name, position))
            missing -= 1
    return found


def _draw_topic(name: str, position: int, bundle: str, rate: float, peak_hour: float, draw: random.Random) -> Topic:
    return Topic(
        name=name,
        hash=position,
        bundle=bundle,
        message_rate_in=rate,
        message_bytes=draw.uniform(*MEAN_MESSAGE_BYTES),
        subscriptions=draw.choice((1, 1, 1, 2)),
        producers=draw.randint(1, 4),
        consumers_per_subscription=draw.randint(1, 3),
        peak_hour=peak_hour + draw.uniform(-1.0, 1.0),
    )


def _place(
    rate_by_bundle: Mapping[str, float],
    settings: FleetSettings,
    reserved_namespace: str | None,
    reserved: Sequence[str],
    draw: random.Random,
) -> dict[str, str]:
    """Give every bundle an eligible owner; the first brokers get more load than the last."""
    shared = [broker for broker in settings.broker_ids if broker not in reserved]
    steps = max(len(shared) - 1, 1)
    load_factor = {
        broker: 1.0 + settings.skew * (1.0 - 2.0 * index / steps) if len(shared) > 1 else 1.0
        for index, broker in enumerate(shared)
    }
    load = dict.fromkeys(settings.broker_ids, 0.0)
    owners = {}
    order = sorted(rate_by_bundle, key=lambda bundle: (draw.random(), bundle))
    for bundle in order:
        is_reserved = BundleName.parse(bundle).namespace == reserved_namespace
        candidates = reserved if is_reserved else shared
        owner = min(candidates, key=lambda broker: (load[broker] / load_factor.get(broker, 1.0), broker))
        load[owner] += rate_by_bundle[bundle]
        owners[bundle] = owner
    return owners


def parse_boundaries(texts: Sequence[str]) -> tuple[int, ...]:
    """Parse boundaries in Pulsar's notation."""
    return tuple(int(text, 16) for text in texts)


def format_boundaries(points: Sequence[int]) -> list[str]:
    """Format boundaries in Pulsar's notation."""
    return [f"0x{point:08x}" for point in points]


def child_names(bundle: BundleName, cuts: Sequence[int]) -> list[BundleName]:
    """Return the bundles that result from cutting a bundle at positions strictly inside it."""
    points = [bundle.range.lower, *cuts, bundle.range.upper]
    return [
        BundleName(bundle.tenant, bundle.local_namespace, BundleRange(lower, upper))
        for lower, upper in pairwise(points)
    ]


class BundleCatalogue:
    """The bundles that exist now, with their topics. Thread-safe."""

    def __init__(self, topics: Sequence[Topic], boundaries: Mapping[str, Sequence[int]]) -> None:
        self._lock = threading.Lock()
        self.topics = tuple(topics)
        self._topics_by_namespace: dict[str, list[int]] = {}
        for index, topic in enumerate(self.topics):
            self._topics_by_namespace.setdefault(BundleName.parse(topic.bundle).namespace, []).append(index)
        self._boundaries: dict[str, tuple[int, ...]] = {}
        self._topics_by_bundle: dict[str, tuple[int, ...]] = {}
        self.generation = 0
        for namespace, points in boundaries.items():
            self.set_boundaries(namespace, points)

    def set_boundaries(self, namespace: str, points: Sequence[int]) -> None:
        """Replace the boundaries of a namespace and assign its topics to the new bundles by hash."""
        with self._lock:
            if self._boundaries.get(namespace) == tuple(points):
                return
            for part in ranges_between(self._boundaries.get(namespace, ())):
                self._topics_by_bundle.pop(f"{namespace}/{part}", None)
            members: dict[str, list[int]] = {f"{namespace}/{part}": [] for part in ranges_between(points)}
            for index in self._topics_by_namespace.get(namespace, ()):
                members[f"{namespace}/{find_range(points, self.topics[index].hash)}"].append(index)
            self._topics_by_bundle |= {bundle: tuple(indexes) for bundle, indexes in members.items()}
            self._boundaries[namespace] = tuple(points)
            self.generation += 1

    def boundaries(self, namespace: str) -> tuple[int, ...] | None:
        """Return the boundaries of a namespace, or None if it does not exist."""
        with self._lock:
            return self._boundaries.get(namespace)

    def bundles(self) -> dict[str, tuple[int, ...]]:
        """Return all bundles, each with the indexes of its topics."""
        with self._lock:
            return dict(self._topics_by_bundle)

    def topics_of(self, bundle: str) -> tuple[Topic, ...]:
        """Return the topics of a bundle; empty if the bundle does not exist."""
        return tuple(self.topics[index] for index in self.topic_indexes_of(bundle))

    def topic_indexes_of(self, bundle: str) -> tuple[int, ...]:
        with self._lock:
            return self._topics_by_bundle.get(bundle, ())

    def has(self, bundle: str) -> bool:
        with self._lock:
            return bundle in self._topics_by_bundle
