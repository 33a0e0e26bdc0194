"""Make a plan: `spark-submit plan.py --lake URI --request ID` runs the three jobs of a request in one application.

A failure that a user can act on ends with exit code 1 and one line on standard error:
`evenkeel-error: {"cause": …, "error": …, "remedy": …}`.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

from evenkeel.model.errors import EvenkeelError
from evenkeel_spark.jobs import run_jobs
from evenkeel_spark.session import open_session
from evenkeel_spark.stated_errors import ERROR_PREFIX, encode_error
from evenkeel_spark.submission import APPLICATION_NAME


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all jobs of a request; returns the exit code."""
    parser = argparse.ArgumentParser(prog="plan", description="The Spark application that serves a request to plan.")
    parser.add_argument("--lake", required=True, metavar="URI", help="the lake that holds the request")
    parser.add_argument("--request", required=True, metavar="ID", help="the request to serve")
    options = parser.parse_args(arguments)
    # spark-submit and Airflow keep standard output as the application's log.
    logger = logging.getLogger("evenkeel")
    logger.addHandler(logging.StreamHandler(sys.stdout))
    logger.setLevel(logging.INFO)
    try:
        run_jobs(options.lake, options.request, lambda: open_session(APPLICATION_NAME), print)
    except EvenkeelError as error:
        print(f"{ERROR_PREFIX}{encode_error(error)}", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
