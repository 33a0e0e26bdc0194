"""The routes of the page, as an app that Airflow mounts below `/evenkeel`.

Every route but the app's own files asks who is calling (see `guards`). Nothing here decides anything: routes read
through views and call stages. What a route refuses has a sentence and a remedy, as on the command line.
"""

# No postponed annotations here: FastAPI reads the dependencies from the annotations of the routes.

import logging
import os
import socket
from typing import Annotated, Any

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import FastAPI, HTTPException, Path, Query, Request, Response, status
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import BaseModel, Field, field_validator

from evenkeel.model.errors import EvenkeelError, InputError, UnavailableError
from evenkeel.model.visible_text import make_visible
from evenkeel.stages.kill_switch import resume_writing, stop_writing
from evenkeel.web.access import dag_of, list_clusters, open_access
from evenkeel.web.app_files import AppFiles
from evenkeel.web.cluster_views import describe_cluster
from evenkeel.web.guards import EditableCluster, ReadableCluster, may_edit, may_read
from evenkeel.web.live_state import forget_live
from evenkeel.web.picture import draw_balance
from evenkeel.web.plan_views import describe_plan, describe_rejections, describe_steps, list_plans, load_plan
from evenkeel.web.run_views import describe_rollback, describe_run, list_all_runs

URL_PREFIX = "/evenkeel"
MOST_OFFSET = 100_000
MOST_ROWS = 100
LONGEST_REASON = 500
SMALLEST_ZIPPED_BYTES = 1_024
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'"
PICTURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'"
SAFE_HEADERS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}
log = logging.getLogger(__name__)

PlanId = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$", description="Plan id.")]
RunId = Annotated[str, Path(pattern=r"^[0-9a-f]{12}-[0-9]{6,12}$", description="Run id.")]
Offset = Annotated[int, Query(ge=0, le=MOST_OFFSET, description="How many to leave out.")]
Limit = Annotated[int, Query(ge=1, le=MOST_ROWS, description="How many to return at most.")]

app_files = AppFiles()
# The documentation of the routes would be open to everybody.
app = FastAPI(title="Evenkeel", docs_url=None, redoc_url=None, openapi_url=None)
app.add_middleware(GZipMiddleware, minimum_size=SMALLEST_ZIPPED_BYTES)


class Order(BaseModel):
    """What an operator orders, and why."""

    reason: str = Field(min_length=1, max_length=LONGEST_REASON, description="Why; shown to everybody who looks.")

    @field_validator("reason")
    @classmethod
    def require_words(cls, value: str) -> str:
        # Half a surrogate pair is JSON, but cannot be stored.
        words = make_visible(value.encode(errors="replace").decode()).strip()
        if not words:
            raise ValueError("the reason is empty")
        return words


@app.exception_handler(EvenkeelError)
def tell(request: Request, error: EvenkeelError) -> JSONResponse:
    """An error in one sentence with its remedy; what is not there is 404, what was refused 409."""
    code = status.HTTP_409_CONFLICT
    if isinstance(error, InputError):
        code = status.HTTP_404_NOT_FOUND
    elif isinstance(error, UnavailableError):
        code = status.HTTP_503_SERVICE_UNAVAILABLE
    return JSONResponse({"detail": error.cause, "remedy": error.remedy}, code, SAFE_HEADERS)


@app.middleware("http")
async def add_headers(request: Request, call_next: Any) -> Response:
    response: Response = await call_next(request)
    for name, value in SAFE_HEADERS.items():
        response.headers.setdefault(name, value)
    return response


@app.get("/static/{version}/{name}", include_in_schema=False)
def get_file(version: str, name: str) -> Response:
    """A file of the app itself, which holds no data and is the same for everybody."""
    found = app_files.find(name)
    if found is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "no such file")
    content, kind = found
    # While a deployment is upgraded, a browser may ask for a version that this server does not have.
    caching = "public, max-age=31536000, immutable" if version == app_files.version else "no-store"
    return Response(content, media_type=kind, headers={"Cache-Control": caching})


@app.get("/api/clusters")
def get_clusters(request: Request, user: GetUserDep) -> dict[str, Any]:
    """The clusters that the user may see, each with its balance now; one that cannot be opened says why."""
    readable = [cluster for cluster in list_clusters() if may_read(request, user, cluster)]
    if not readable:
        raise HTTPException(status.HTTP_403_FORBIDDEN, "you may not read the Dags of any cluster")
    return {"clusters": [_describe(request, user, cluster) for cluster in readable]}


@app.get("/api/clusters/{cluster}")
def get_cluster(cluster: ReadableCluster, request: Request, user: GetUserDep) -> dict[str, Any]:
    """One cluster: balance now, drain marks, switches, kill switch, next windows."""
    return describe_cluster(open_access(cluster), may_edit(request, user, cluster), dag_of(cluster))


@app.get("/api/clusters/{cluster}/plans")
def get_plans(cluster: ReadableCluster, offset: Offset = 0, limit: Limit = 25) -> dict[str, Any]:
    """Plans, those stored last first, each with its state."""
    return list_plans(open_access(cluster), offset, limit)


@app.get("/api/clusters/{cluster}/plans/{plan_id}")
def get_plan(cluster: ReadableCluster, plan_id: PlanId) -> dict[str, Any]:
    """One plan without its steps."""
    return describe_plan(open_access(cluster), plan_id)


@app.get("/api/clusters/{cluster}/plans/{plan_id}/steps")
def get_steps(cluster: ReadableCluster, plan_id: PlanId) -> JSONResponse:
    """The steps of a plan, by columns."""
    # Straight to JSON: checking every one of 150,000 values against a schema takes longer than reading them.
    return JSONResponse(describe_steps(open_access(cluster), plan_id))


@app.get("/api/clusters/{cluster}/plans/{plan_id}/rejections")
def get_rejections(cluster: ReadableCluster, plan_id: PlanId) -> JSONResponse:
    """What the plan leaves alone, and why, by columns."""
    return JSONResponse(describe_rejections(open_access(cluster), plan_id))


@app.get("/api/clusters/{cluster}/plans/{plan_id}/report", response_class=HTMLResponse)
def get_report(cluster: ReadableCluster, plan_id: PlanId) -> HTMLResponse:
    """The stored report; no script in it runs and nothing is loaded, whatever is written there."""
    access = open_access(cluster)
    load_plan(access, plan_id)
    html = access.lake.read(f"plans/{plan_id}/report.html")
    return HTMLResponse(html, headers={"Content-Security-Policy": REPORT_POLICY})


@app.get("/api/clusters/{cluster}/plans/{plan_id}/balance.svg")
def get_picture(cluster: ReadableCluster, plan_id: PlanId) -> Response:
    """Balance before and after as a picture, for the body of an approval."""
    picture = draw_balance(load_plan(open_access(cluster), plan_id))
    return Response(picture, media_type="image/svg+xml", headers={"Content-Security-Policy": PICTURE_POLICY})


@app.get("/api/clusters/{cluster}/runs")
def get_runs(cluster: ReadableCluster, offset: Offset = 0, limit: Limit = 25) -> dict[str, Any]:
    """Runs, the last first."""
    return list_all_runs(open_access(cluster), offset, limit)


@app.get("/api/clusters/{cluster}/runs/{run_id}")
def get_run(cluster: ReadableCluster, run_id: RunId) -> dict[str, Any]:
    """One run with its progress by wave."""
    return describe_run(open_access(cluster), run_id)


@app.get("/api/clusters/{cluster}/runs/{run_id}/rollback")
def get_rollback(cluster: ReadableCluster, run_id: RunId) -> dict[str, Any]:
    """What a rollback of the run would do now; nothing is written."""
    access = open_access(cluster)
    describe_run(access, run_id)
    return describe_rollback(access, run_id)


@app.post("/api/clusters/{cluster}/stop")
def post_stop(cluster: EditableCluster, order: Order, user: GetUserDep) -> dict[str, Any]:
    """Stop all writing to the cluster, as `evenkeel stop` does; a run that is under way can be resumed later."""
    access = open_access(cluster)
    try:
        stop = stop_writing(access.connection, _name(user), order.reason, access.settings)
    finally:
        forget_live(access.connection)
    log.warning("%s has stopped all writing to cluster %s: %s", _name(user), cluster, order.reason)
    return {
        "stopped": [root.to_json() for root in stop.stopped],
        "not_stopped": [{"root": root, "why": why} for root, why in stop.not_stopped],
        "left_off": list(stop.left_off),
    }


@app.post("/api/clusters/{cluster}/resume")
def post_resume(cluster: EditableCluster, order: Order, user: GetUserDep) -> dict[str, Any]:
    """Allow writing again, as `evenkeel resume` does; no run is started by that."""
    access = open_access(cluster)
    try:
        resumption = resume_writing(access.connection)
    finally:
        forget_live(access.connection)
    log.warning("%s has allowed writing to cluster %s again: %s", _name(user), cluster, order.reason)
    return {
        "released": None if resumption.directive is None else resumption.directive.to_json(),
        "still_stopped": [{"root": root, **directive.to_json()} for root, directive in resumption.still_stopped],
    }


def _describe(request: Request, user: Any, cluster: str) -> dict[str, Any]:
    try:
        return describe_cluster(open_access(cluster), may_edit(request, user, cluster), dag_of(cluster))
    except EvenkeelError as error:
        return {"cluster": cluster, "error": error.cause, "remedy": error.remedy}


def _name(user: Any) -> str:
    """Who gives the order, as every later reader of the kill switch sees it."""
    return make_visible(f"Airflow user {user.get_name()} on {os.environ.get('HOSTNAME') or socket.gethostname()}")
