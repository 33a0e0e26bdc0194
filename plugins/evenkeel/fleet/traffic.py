"""The traffic of every topic at any time: a daily curve with some noise, reproducible by seed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evenkeel.fleet.layout import MESSAGE_RATE_PER_BROKER, BundleCatalogue
from evenkeel.fleet.settings import FleetSettings

SECONDS_PER_HOUR = 3600.0
HOURS_PER_DAY = 24.0
DAILY_SWING = 0.35
NOISE_SIGMA = 0.02
CORES_PER_BROKER = 8
NIC_KBIT_PER_S = 1_000_000.0
HEAP_MIB = 4096.0
DIRECT_MEMORY_MIB = 4096.0
IDLE_CPU_SHARE = 0.02
BITS_PER_BYTE = 8
BITS_PER_KBIT = 1000.0

Rates = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TopicLoad:
    """The current load of one topic."""

    message_rate_in: float
    message_rate_out: float
    throughput_in: float
    throughput_out: float


@dataclass(frozen=True, slots=True)
class BundleLoad:
    """The current load of one bundle: the sum over its topics."""

    message_rate_in: float = 0.0
    message_rate_out: float = 0.0
    throughput_in: float = 0.0
    throughput_out: float = 0.0
    topics: int = 0
    producers: int = 0
    consumers: int = 0

    def __add__(self, other: BundleLoad) -> BundleLoad:
        return BundleLoad(
            self.message_rate_in + other.message_rate_in,
            self.message_rate_out + other.message_rate_out,
            self.throughput_in + other.throughput_in,
            self.throughput_out + other.throughput_out,
            self.topics + other.topics,
            self.producers + other.producers,
            self.consumers + other.consumers,
        )


@dataclass(frozen=True, slots=True)
class Resource:
    """Usage and limit of one of a broker's resources, in Pulsar's unit."""

    usage: float
    limit: float

    @property
    def percent(self) -> float:
        return 100.0 * self.usage / self.limit if self.limit > 0 else 0.0


@dataclass(frozen=True, slots=True)
class BrokerUsage:
    """The five resources of a broker, and its load."""

    cpu: Resource
    memory: Resource
    direct_memory: Resource
    bandwidth_in: Resource
    bandwidth_out: Resource
    load: BundleLoad

    @property
    def highest_share(self) -> float:
        """The highest utilisation of cpu, direct memory and bandwidth, as Pulsar computes it."""
        return max(r.percent for r in (self.cpu, self.direct_memory, self.bandwidth_in, self.bandwidth_out)) / 100.0


class TrafficModel:
    """Computes the current load of topics, bundles and brokers."""

    def __init__(self, settings: FleetSettings, catalogue: BundleCatalogue, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._catalogue = catalogue
        self._clock = clock
        self._lock = threading.Lock()
        topics = catalogue.topics
        self._rate_in = np.array([topic.message_rate_in for topic in topics], dtype=np.float64)
        self._bytes = np.array([topic.message_bytes for topic in topics], dtype=np.float64)
        self._fan_out = np.array([topic.subscriptions for topic in topics], dtype=np.float64)
        self._peak_hour = np.array([topic.peak_hour for topic in topics], dtype=np.float64)
        self._rates: Rates = self._rate_in
        self._bundle_loads: dict[str, BundleLoad] = {}
        self._computed_for: tuple[int, int] | None = None

    def bundle_loads(self) -> dict[str, BundleLoad]:
        """Return the current load of every bundle."""
        with self._lock:
            self._refresh()
            return self._bundle_loads

    def topic_loads(self, indexes: Iterable[int]) -> list[TopicLoad]:
        """Return the current load of topics, given by their index in the catalogue."""
        with self._lock:
            self._refresh()
            rates = self._rates
        loads = []
        for index in indexes:
            rate_in = float(rates[index])
            rate_out = rate_in * float(self._fan_out[index])
            size = float(self._bytes[index])
            loads.append(TopicLoad(rate_in, rate_out, rate_in * size, rate_out * size))
        return loads

    def broker_usage(self, broker_id: str, bundles: Iterable[str]) -> BrokerUsage:
        """Return the resource usage of a broker that owns these bundles; cpu follows the message rate."""
        loads = self.bundle_loads()
        owned = [bundle for bundle in bundles if bundle in loads]
        load = sum((loads[bundle] for bundle in owned), BundleLoad())
        capacity = self._capacity_factor(broker_id)
        cpu_limit = 100.0 * CORES_PER_BROKER * capacity
        full_rate = MESSAGE_RATE_PER_BROKER * capacity / self._settings.mean_cpu_share
        cpu_share = IDLE_CPU_SHARE + self._costly_rate(loads, owned, load) / full_rate
        sessions = load.producers + load.consumers
        nic = NIC_KBIT_PER_S * capacity
        return BrokerUsage(
            cpu=Resource(min(cpu_limit, cpu_limit * cpu_share), cpu_limit),
            memory=Resource(min(HEAP_MIB, 256.0 + 0.5 * sessions), HEAP_MIB),
            direct_memory=Resource(min(DIRECT_MEMORY_MIB, 64.0 + load.throughput_in / 2**20), DIRECT_MEMORY_MIB),
            bandwidth_in=Resource(load.throughput_in * BITS_PER_BYTE / BITS_PER_KBIT, nic),
            bandwidth_out=Resource(load.throughput_out * BITS_PER_BYTE / BITS_PER_KBIT, nic),
            load=load,
        )

    def _costly_rate(self, loads: Mapping[str, BundleLoad], owned: Iterable[str], load: BundleLoad) -> float:
        """The messages in, each counted by what it costs."""
        costs = self._settings.cpu_costs
        if not costs:
            return load.message_rate_in
        return sum(loads[bundle].message_rate_in * costs.get(bundle.rpartition("/")[0], 1.0) for bundle in owned)

    def has_clients(self, bundle: str) -> bool:
        """Whether a bundle has producers or subscriptions."""
        return any(topic.producers or topic.subscriptions for topic in self._catalogue.topics_of(bundle))

    def _capacity_factor(self, broker_id: str) -> float:
        is_large = self._settings.has_unequal_capacity and self._settings.broker_ids.index(broker_id) % 2 == 1
        return 2.0 if is_large else 1.0

    def _refresh(self) -> None:
        now = self._clock()
        step = int(now // self._settings.traffic_step_s)
        wanted = (step, self._catalogue.generation)
        if self._computed_for == wanted:
            return
        # The curve moves in the same steps as the noise, so that all figures within a step agree.
        hours = step * self._settings.traffic_step_s / SECONDS_PER_HOUR % HOURS_PER_DAY
        curve = 1.0 + DAILY_SWING * np.cos((hours - self._peak_hour) * (2.0 * np.pi / HOURS_PER_DAY))
        noise = np.random.default_rng([self._settings.seed, step]).normal(1.0, NOISE_SIGMA, len(self._rate_in))
        self._rates = self._rate_in * curve * np.clip(noise, 0.5, 1.5)
        self._bundle_loads = self._sum_by_bundle(self._rates)
        self._computed_for = wanted

    def _sum_by_bundle(self, rates: Rates) -> dict[str, BundleLoad]:
        rate_out = rates * self._fan_out
        throughput_in, throughput_out = rates * self._bytes, rate_out * self._bytes
        members = self._catalogue.bundles()
        number_of_topic = np.zeros(len(rates), dtype=np.int64)
        for number, indexes in enumerate(members.values()):
            number_of_topic[list(indexes)] = number
        sums = [
            np.bincount(number_of_topic, weights=values, minlength=len(members)).tolist()
            for values in (rates, rate_out, throughput_in, throughput_out)
        ]
        loads = {}
        for (bundle, indexes), rate_in, out, bytes_in, bytes_out in zip(members.items(), *sums, strict=True):
            topics = [self._catalogue.topics[index] for index in indexes]
            loads[bundle] = BundleLoad(
                rate_in if topics else 0.0,
                out if topics else 0.0,
                bytes_in if topics else 0.0,
                bytes_out if topics else 0.0,
                len(topics),
                sum(topic.producers for topic in topics),
                sum(topic.subscriptions * topic.consumers_per_subscription for topic in topics),
            )
        return loads
