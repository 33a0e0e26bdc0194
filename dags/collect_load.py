"""Every five minutes: what does the cluster carry, and can it be trusted?

1. `take_snapshot` reads brokers, bundles, topics and policies and stores them as one snapshot.
2. `check_snapshot` judges it. A critical finding ends the run as failed, and the snapshot stays unused.
3. The asset `load_snapshot` is updated, so that whoever plans on fresh load may follow it.

Nothing here writes to the cluster. A missed run is not made up for: the load of the past cannot be read.
"""

from datetime import UTC, datetime, timedelta

from airflow.sdk import dag

from evenkeel.orchestration.collecting import check_snapshot, take_snapshot


@dag(
    schedule="*/5 * * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=timedelta(minutes=30),
    doc_md=__doc__,
    tags=["evenkeel"],
)
def collect_load() -> None:
    check_snapshot(take_snapshot())


collect_load()
