"""All probes of a set-up, in the order in which the report shows them."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import partial

from evenkeel.adapters.lake.store import Lake
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.settings import Settings
from evenkeel.stages.doctor import cluster, lake, this_machine, zookeeper
from evenkeel.stages.doctor.findings import Finding, Probe, run_probes

AREAS = ("machine", "zookeeper", "brokers", "pulsar", "leftovers", "lake", "spark", "airflow")
_REACHED, _ANSWERING = "ZooKeeper servers", "brokers"
# Airflow's command line alone takes ten seconds to start.
AIRFLOW_TIME_FACTOR = 8.0


@dataclass(frozen=True, slots=True)
class Patient:
    """What is to be examined; areas of which nothing is known are left out."""

    connection: ClusterConnection | None = None
    lake: Lake | None = None
    settings: Settings = field(default_factory=Settings)
    master: str = "local[*]"


def examine(patient: Patient, deadline_s: float, only: Collection[str] = AREAS) -> list[Finding]:
    """Run every probe of the areas; nothing that a probe creates stays behind."""
    if patient.connection is not None:
        # A probe may wait for two stores, and should then say which of them did not answer.
        timeout_s = min(patient.connection.timeout_s, deadline_s / 3)
        patient = replace(patient, connection=replace(patient.connection, timeout_s=timeout_s))
    return run_probes([probe for probe in _probes(patient) if probe.area in only], deadline_s)


def _probes(patient: Patient) -> list[Probe]:
    probes = [
        Probe("machine", "Python", this_machine.look_at_python),
        Probe("machine", "Java", this_machine.look_at_java),
    ]
    if patient.connection is not None:
        probes += _cluster_probes(patient.connection, patient.settings)
    if patient.lake is not None:
        probes.append(Probe("lake", "lake", partial(lake.look_at_lake, patient.lake)))
    probes.append(Probe("spark", "Spark", partial(this_machine.look_at_spark, patient.master)))
    airflow = partial(this_machine.look_at_airflow, os.environ)
    probes.append(Probe("airflow", "Airflow", airflow, time_factor=AIRFLOW_TIME_FACTOR))
    return probes


def _cluster_probes(connection: ClusterConnection, settings: Settings) -> list[Probe]:
    reached = (_REACHED,)
    return [
        Probe("zookeeper", _REACHED, partial(zookeeper.look_at_servers, connection)),
        Probe("zookeeper", "rights to read", partial(zookeeper.look_at_reading, connection), reached),
        Probe("zookeeper", "rights to write", partial(zookeeper.look_at_writing, connection), reached),
        Probe("brokers", _ANSWERING, partial(cluster.look_at_brokers, connection, settings), reached),
        Probe("pulsar", "Pulsar's settings", partial(cluster.look_at_pulsar_settings, connection, settings), reached),
        Probe("leftovers", "leftovers", partial(cluster.look_at_leftovers, connection), reached),
    ]
