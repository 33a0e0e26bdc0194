"""What a plan's document, steps and broken rules must keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from evenkeel.gates.rules.base import Parameter, Rule
from evenkeel.model.plan import StepKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class PlanExpiresAfterItsSnapshot(Rule):
    """A plan that was never valid cannot be approved in time."""

    description: str | None = "The plan expires after the snapshot that it was made from"

    def find_breaches(self, rows: DataFrame) -> DataFrame:
        sentence = F.format_string("the plan expires at %s, its snapshot is of %s", "expires_at", "taken_at")
        return rows.filter(F.col("lifetime_s") <= 0).select(sentence.alias("detail"))


class PlanHasSteps(Rule):
    """An empty plan is no fault, but whoever waits for a change should know."""

    description: str | None = "The plan changes something"

    def find_breaches(self, rows: DataFrame) -> DataFrame:
        return rows.filter(F.col("steps") == 0).select(F.lit("the plan has no steps").alias("detail"))


class PlanIsComplete(Rule):
    """A search that a clock cut short may give another plan next time."""

    description: str | None = "The plan was not cut short by a deadline"

    def find_breaches(self, rows: DataFrame) -> DataFrame:
        sentence = F.lit("a deadline cut the search for the plan short, so a better one may exist")
        return rows.filter("truncated").select(sentence.alias("detail"))


class HardRulesHold(Rule):
    """Reads one row a broken rule, in the verifier's order; destinations, groups, domains and limits are among them."""

    description: str | None = "Destinations are eligible and every hard rule holds, in any order within a wave"

    def find_breaches(self, rows: DataFrame) -> DataFrame:
        step = F.format_string("step %d: %s", "order", "detail")
        sentence = F.when(F.col("order").isNull(), F.col("detail")).otherwise(step)
        return rows.select((-F.col("place")).alias("excess"), sentence.alias("detail"))


class StepsStartAtTheOwner(Rule):
    """A step is legal only from where the bundle is.

    Reads the steps with `is_in_snapshot` and `snapshot_owner`.
    """

    description: str | None = "Every step starts at the owner that the snapshot names"

    def find_breaches(self, rows: DataFrame) -> DataFrame:
        unknown = F.format_string("step %d: bundle %s is not in the snapshot", "order", "bundle")
        idle = F.format_string("step %d: bundle %s has no owner in the snapshot", "order", "bundle")
        other = F.format_string(
            "step %d: bundle %s is owned by %s, the plan says %s", "order", "bundle", "snapshot_owner", "source"
        )
        sentence = (
            F.when(~F.col("is_in_snapshot"), unknown).when(F.col("snapshot_owner").isNull(), idle).otherwise(other)
        )
        is_wrong = F.col("snapshot_owner").isNull() | (F.col("snapshot_owner") != F.col("source"))
        return rows.filter(is_wrong).select((-F.col("order")).alias("excess"), sentence.alias("detail"))


class BudgetsAreKept(Rule):
    """Budgets are hard: they limit what can go wrong before somebody notices."""

    description: str | None = "The plan keeps its budgets of steps, splits and steps a wave"
    max_steps: int | Parameter
    max_splits: int | Parameter
    canary_steps: int | Parameter
    wave_steps: int | Parameter

    def find_breaches(self, rows: DataFrame) -> DataFrame:
        # A plan is small: one partition spares the shuffles.
        steps = rows.coalesce(1)
        waves = steps.groupBy("wave").agg(
            F.format_string("wave %d", F.first("wave")).alias("what"),
            F.count("*").alias("found"),
            F.lit("steps").alias("noun"),
            F.when(F.first("wave") == 0, F.lit(self.canary_steps)).otherwise(F.lit(self.wave_steps)).alias("budget"),
        )
        totals = steps.agg(
            F.count("*").alias("steps"), F.count_if(F.col("kind") == str(StepKind.SPLIT)).alias("splits")
        )
        of_plan = totals.select(F.lit("the plan").alias("what"), "steps", "splits")
        budgets = (
            of_plan.select("what", F.col("steps").alias("found"), F.lit("steps"), F.lit(self.max_steps))
            .union(of_plan.select("what", F.col("splits").alias("found"), F.lit("splits"), F.lit(self.max_splits)))
            .union(waves.drop("wave"))
            .toDF("what", "found", "noun", "budget")
        )
        sentence = F.format_string("%s has %,d %s, the budget is %,d", "what", "found", "noun", "budget")
        over = budgets.filter(F.col("found") > F.col("budget"))
        return over.select((F.col("found") - F.col("budget")).alias("excess"), sentence.alias("detail"))
