"""The Spark application of one command: started when it is needed, or ahead of that in the background.

Importing this module imports no Spark, so a command that turns out to need none pays nothing for it.
"""

from __future__ import annotations

import contextlib
import logging
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from evenkeel.model.errors import EvenkeelError, UnavailableError
from evenkeel_spark.submission import build_packages, deadline_exceeded, is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Result = TypeVar("Result")

# How long a run that is cancelled may take to stop.
STOP_GRACE_S = 10.0


class SparkApplication:
    """A session on a master; calling the application returns it. Leaving the context stops it.

    What Java prints goes into the log, if one is given, and never to the user. Executors of another machine get
    Evenkeel's packages from here.
    """

    def __init__(self, name: str, master: str, log: Path | None = None) -> None:
        self._name, self._master, self._log = name, master, log
        self._session: SparkSession | None = None
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._packages = contextlib.ExitStack()

    def start(self) -> None:
        """Start in the background, so that the caller can import and read in the meantime."""
        if self._thread is None:
            # Its modules import each other: two threads that import it at once find it half initialised.
            import pyspark.sql  # noqa: F401

            self._thread = threading.Thread(target=self._open, name="spark-start", daemon=True)
            self._thread.start()

    def __call__(self) -> SparkSession:
        self.start()
        assert self._thread is not None
        self._thread.join()
        if self._session is None:
            assert self._error is not None
            raise self._error
        return self._session

    def __enter__(self) -> SparkApplication:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is None:
            return
        # After a failure, a start that hangs must not keep the error from the user.
        self._thread.join(None if error is None else STOP_GRACE_S)
        if self._session is not None:
            # A JVM that died is stopped already.
            with contextlib.suppress(Exception):
                self._session.stop()
        self._packages.close()

    def cancel(self) -> None:
        """Cancel whatever Spark is computing; who waits for it gets an error."""
        if self._session is not None:
            with contextlib.suppress(Exception):
                self._session.sparkContext.cancelAllJobs()

    def run(self, work: Callable[[], Result], log: Path, deadline_s: float) -> Result:
        """Do work on the session within a deadline, with what Evenkeel logs in a file; failures are one sentence.

        At the deadline Spark's jobs are cancelled. What the work computes in Python ends with this process; it has
        written nothing but whole artifacts.
        """
        outcome: list[Result] = []
        failure: list[BaseException] = []

        def do() -> None:
            try:
                with _logging_to(log):
                    outcome.append(work())
            except BaseException as error:
                failure.append(error)

        worker = threading.Thread(target=do, name="spark-work", daemon=True)
        worker.start()
        worker.join(deadline_s)
        if worker.is_alive():
            self.cancel()
            worker.join(STOP_GRACE_S)
            raise deadline_exceeded(deadline_s, log)
        if failure:
            raise _stated(failure[0], log)
        return outcome[0]

    def _open(self) -> None:
        try:
            from evenkeel_spark.session import open_session

            session = open_session(self._name, self._master, self._log)
            if not is_local(self._master):
                # The driver serves the file for as long as the session lives.
                folder = self._packages.enter_context(tempfile.TemporaryDirectory(prefix="evenkeel-packages-"))
                session.sparkContext.addPyFile(str(build_packages(Path(folder))))
            self._session = session
        except BaseException as error:
            self._error = error


def _stated(error: BaseException, log: Path) -> BaseException:
    """An error of Spark as one sentence; its trace goes into the log."""
    from evenkeel_spark.session import SPARK_ERRORS, first_line

    if isinstance(error, EvenkeelError) or not isinstance(error, SPARK_ERRORS):
        return error
    with open(log, "a") as file:
        traceback.print_exception(error, file=file)
    return UnavailableError(f"Spark failed ({first_line(error)})", f"read {log}")


@contextmanager
def _logging_to(log: Path) -> Iterator[None]:
    log.parent.mkdir(parents=True, exist_ok=True)
    logger, handler = logging.getLogger("evenkeel"), logging.FileHandler(log)
    level: Any = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        handler.close()
