"""Synthetic clusters to plan, and a judge of plans that shares no code with the planner."""
