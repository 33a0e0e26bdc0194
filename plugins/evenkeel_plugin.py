"""Makes Evenkeel known to Airflow; registers and does nothing else."""

from airflow.plugins_manager import AirflowPlugin


class EvenkeelPlugin(AirflowPlugin):
    """Evenkeel in the list of plugins; it adds no page and no route yet."""

    name = "evenkeel"
