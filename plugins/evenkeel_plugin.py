"""Registers Evenkeel with Airflow and does nothing else."""

import sys
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from evenkeel.orchestration.pools import create_missing_pools
from evenkeel.orchestration.timetable import MaintenanceWindow

FASTAPI_APPS: list[dict[str, Any]] = []
REACT_APPS: list[dict[str, Any]] = []
# Every process of Airflow loads its plugins; only the API server serves pages, and they take a while to import.
if "api-server" in sys.argv:
    from evenkeel.web.registration import FASTAPI_APPS, REACT_APPS


class EvenkeelPlugin(AirflowPlugin):
    """The schedule of maintenance windows and each cluster's pool; on the API server also the page and its routes."""

    name = "evenkeel"
    timetables = [MaintenanceWindow]  # noqa: RUF012
    fastapi_apps = FASTAPI_APPS
    react_apps = REACT_APPS

    @classmethod
    def on_load(cls, *args: Any, **kwargs: Any) -> None:
        create_missing_pools()
