"""The named business rules; importing this package makes them known to Great Expectations."""

from evenkeel.gates.rules import balance_rules, broker_rules, bundle_rules, plan_rules, policy_rules

__all__ = ["balance_rules", "broker_rules", "bundle_rules", "plan_rules", "policy_rules"]
