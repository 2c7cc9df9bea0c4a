"""SIGTERM: outside a run it ends a command with exit code 143; a run itself ends at its next checkpoint."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


def exit_on_termination() -> None:
    signal.signal(signal.SIGTERM, _exit)


@contextmanager
def left_to_the_run() -> Iterator[None]:
    """A run installs its own handler, but only where nobody else did."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _exit(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)
