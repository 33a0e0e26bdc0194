"""The guarded writer's speed, compared with a bare loop of writes without guards."""
