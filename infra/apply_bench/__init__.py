"""Holds the guarded writer's speed against a bare loop of writes without any guard."""
