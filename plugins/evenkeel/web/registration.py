"""What the plugin registers: the routes, an entry in Airflow's menu, and a tab on every Dag run."""

from __future__ import annotations

from typing import Any

from evenkeel.web.app import URL_PREFIX, app, app_files

# Relative, so that a deployment below a path of its own finds them: the browser resolves them against its base.
_ROOT = URL_PREFIX.removeprefix("/")

FASTAPI_APPS: list[dict[str, Any]] = [{"app": app, "url_prefix": URL_PREFIX, "name": "Evenkeel"}]
REACT_APPS: list[dict[str, Any]] = [
    {
        "name": "Evenkeel",
        "bundle_url": f"{_ROOT}/{app_files.url_of('page.js')}",
        "destination": "nav",
        "url_route": "evenkeel",
        "icon": f"{_ROOT}/{app_files.url_of('icon.svg')}",
    },
    {
        "name": "Plan",
        "bundle_url": f"{_ROOT}/{app_files.url_of('tab.js')}",
        "destination": "dag_run",
        "url_route": "evenkeel-plan",
    },
]
