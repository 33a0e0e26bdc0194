"""Simulated Pulsar brokers on a real ZooKeeper, for demonstrations and tests.

`evenkeel.fleet.fleet.Fleet` is the fleet, `evenkeel.fleet.settings.FleetSettings` what can be set about it,
`evenkeel.fleet.embedded_zookeeper.EmbeddedZooKeeper` a server to run it on. Nothing is imported here, so that
the supervisor of child processes (`python -m evenkeel.fleet.supervised`) starts at once.
"""
