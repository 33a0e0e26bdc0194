"""The load that a plan was made for, computed by Spark exactly as for the planner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evenkeel.gates.frames import SnapshotFrames
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def bundle_loads(
    frames: SnapshotFrames, brokers: Sequence[Broker], hours: Sequence[int], settings: Settings
) -> DataFrame:
    """Each bundle of a snapshot with its planning load; `hours` are those of the plan's horizon.

    Who owns a bundle is said by the snapshot. What it carries is said by the profile that the plan names; a plan
    that names none is judged by the load of now.
    """
    from evenkeel_spark.transforms.planned_rates import IDENTITY_COLUMNS, planned_rates, rates_now
    from evenkeel_spark.transforms.planning_loads import planning_loads

    now = frames.bundles.transform(rates_now)
    if frames.profile is None:
        return now.transform(planning_loads, brokers, settings)
    planned = planned_rates(frames.profile, hours, settings).drop(*(set(IDENTITY_COLUMNS) - {"bundle"}))
    # A bundle that the profile does not know shows up as load that differs from the plan's.
    figures = [name for name in planned.columns if name != "bundle"]
    rates = now.select(*IDENTITY_COLUMNS).join(planned, on="bundle", how="left").fillna(0, figures)
    return rates.transform(planning_loads, brokers, settings)
