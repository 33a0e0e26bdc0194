"""SIGTERM and SIGINT as a wish to stop in order; a second one has its usual effect."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def listening_for_stop() -> Iterator[Callable[[], bool]]:
    """Answers whether someone has asked to stop since; only a process's main thread can be asked."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    former: dict[int, Any] = {number: signal.getsignal(number) or signal.SIG_DFL for number in SIGNALS}

    def ask(number: int, frame: FrameType | None) -> None:
        asked.set()
        signal.signal(number, former[number])

    for number in SIGNALS:
        signal.signal(number, ask)
    try:
        yield asked.is_set
    finally:
        for number in SIGNALS:
            signal.signal(number, former[number])
