"""Simulated Pulsar brokers on a real ZooKeeper, for demonstrations and tests.

fleet              Fleet: starts and stops everything, injects faults; `python -m evenkeel.fleet` runs one
settings           FleetSettings
layout, traffic    the bundles and topics of the simulated cluster, and their load
metadata           its policies and boundaries in ZooKeeper
documents          Pulsar's JSON in ZooKeeper; http_documents: Pulsar's JSON over HTTP
broker, sessions   one broker and its ZooKeeper sessions; session_recovery: after it lost one
cluster, timers    the state that all parts share; background work
load_manager       what both load managers share
extensible         the extensible load manager and the leader's monitor
modular, reports   the modular load manager and its load reports
ownership          the observer of all ownership nodes
admin_api          Pulsar's admin and lookup requests; http_server: the server, and the fault injection API
"""
