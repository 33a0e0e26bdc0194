"""The clusters that plans are measured on: scenario, size and seed."""

from __future__ import annotations

from dataclasses import dataclass

SCENARIOS = ("skew", "scaleout", "hetero", "heavy", "multi", "policy")
OBJECTIVES = ("moves", "disruption", "balanced")
SEEDS = (1, 2, 3)


@dataclass(frozen=True, slots=True, order=True)
class Size:
    """How many brokers and bundles a cluster has."""

    brokers: int
    bundles: int

    def __str__(self) -> str:
        return f"{self.brokers:,}×{self.bundles:,}"

    @classmethod
    def parse(cls, text: str) -> Size:
        """A size such as 30x3000 or 200×40,000."""
        brokers, by, bundles = text.lower().replace("×", "x").replace(",", "").partition("x")
        if not (by and brokers.isdecimal() and bundles.isdecimal() and int(brokers) and int(bundles)):
            raise ValueError(f"{text!r} is not a size: write brokers and bundles, such as 30x3000")
        return cls(int(brokers), int(bundles))


SMALL = Size(30, 3_000)
LARGE = Size(200, 40_000)
HUGE = Size(1_000, 1_000_000)


@dataclass(frozen=True, slots=True, order=True)
class Case:
    """One generated cluster."""

    scenario: str
    size: Size
    seed: int

    def __str__(self) -> str:
        return f"{self.scenario} {self.size} seed {self.seed}"

    @property
    def folder_name(self) -> str:
        return f"{self.scenario}-{self.size.brokers}x{self.size.bundles}-{self.seed}"
