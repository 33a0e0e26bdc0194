"""The cluster a fleet starts with: namespaces, bundles, topics, and who owns what. Same settings, same layout."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from evenkeel.fleet.settings import FleetSettings
from evenkeel.model.bundles import RING_END, BundleName, BundleRange, ranges_between
from evenkeel.pulsar.topic_hash import find_range, hash_topic

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
"""By message rate, averaged over the day; sizes, fan-out and the hour bring it up to about a quarter."""
MESSAGE_RATE_PER_BROKER = 24_000.0
MEAN_MESSAGE_BYTES = (700, 1300)
PEAK_HOURS = (12.0, 16.0)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic with its steady traffic; rates are the average of a day."""

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
    """Everything that a fleet writes before its brokers begin to act."""

    boundaries: Mapping[str, tuple[int, ...]]
    topics: tuple[Topic, ...]
    owners: Mapping[str, str]
    reserved_namespace: str | None
    reserved_brokers: tuple[str, ...]
    failure_domains: Mapping[str, tuple[str, ...]]


def build_layout(settings: FleetSettings) -> Layout:
    """Draw a cluster from the settings' seed."""
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
    """The boundaries that Pulsar gives a new namespace of so many bundles."""
    return (*(index * (RING_END + 1) // bundles for index in range(bundles)), RING_END)


def list_bundles(boundaries: Mapping[str, Sequence[int]]) -> list[str]:
    """The names of all bundles between the boundaries of some namespaces."""
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
    """Shares of the cluster's load that sum to 1, none too large to move where there are bundles enough."""
    weights = [draw.lognormvariate(0.0, WEIGHT_SIGMA) for _ in range(count)]
    ceiling = max(LARGEST_SHARE_OF_BROKER / brokers, 1.0 / max(count, 1))
    # Capping raises everybody else's share, so it is done a few times over.
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
    """Number topics upwards and keep those that fall where one is still wanted, until every bundle has its own."""
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
    """Give every bundle an owner that its namespace allows, more to the first brokers than to the last."""
    shared = [broker for broker in settings.broker_ids if broker not in reserved]
    steps = max(len(shared) - 1, 1)
    appetite = {
        broker: 1.0 + settings.skew * (1.0 - 2.0 * index / steps) if len(shared) > 1 else 1.0
        for index, broker in enumerate(shared)
    }
    load = dict.fromkeys(settings.broker_ids, 0.0)
    owners = {}
    order = sorted(rate_by_bundle, key=lambda bundle: (draw.random(), bundle))
    for bundle in order:
        is_reserved = BundleName.parse(bundle).namespace == reserved_namespace
        candidates = reserved if is_reserved else shared
        owner = min(candidates, key=lambda broker: (load[broker] / appetite.get(broker, 1.0), broker))
        load[owner] += rate_by_bundle[bundle]
        owners[bundle] = owner
    return owners


def parse_boundaries(texts: Sequence[str]) -> tuple[int, ...]:
    """Read boundaries as Pulsar writes them."""
    return tuple(int(text, 16) for text in texts)


def format_boundaries(points: Sequence[int]) -> list[str]:
    """Write boundaries as Pulsar does."""
    return [f"0x{point:08x}" for point in points]


def child_names(bundle: BundleName, cuts: Sequence[int]) -> list[BundleName]:
    """The bundles that cuts strictly inside a bundle leave behind."""
    points = [bundle.range.lower, *cuts, bundle.range.upper]
    return [
        BundleName(bundle.tenant, bundle.local_namespace, BundleRange(lower, upper))
        for lower, upper in pairwise(points)
    ]
