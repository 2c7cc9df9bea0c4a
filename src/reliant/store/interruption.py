"""Ctrl-C and SIGTERM. They end a run at once, except in a stage that makes checkpoints: there at the next one.

A second signal never waits. Handlers that somebody else installed stay in place.
"""

from __future__ import annotations

import logging
import signal
import threading
from types import FrameType
from typing import Any

log = logging.getLogger(__name__)


class Interruption:
    def __init__(self) -> None:
        self._received = 0
        self._patient = False
        self._replaced: dict[int, Any] = {}

    def watch(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # only the main thread may handle signals
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                self._replaced[number] = signal.signal(number, self._receive)

    def unwatch(self) -> None:
        for number, handler in self._replaced.items():
            signal.signal(number, handler)
        self._replaced.clear()

    def pending(self) -> bool:
        """Whether a signal waits for a checkpoint. To ask is to promise one: from now on signals wait."""
        self._patient = True
        return self._received != 0

    def stop_if_pending(self) -> None:
        if self._received:
            self._stop()

    def no_checkpoint_to_come(self) -> None:
        """A new signal no longer waits."""
        self._patient = False

    def _receive(self, number: int, frame: FrameType | None) -> None:
        waits = self._patient and not self._received
        self._received = number
        if not waits:
            self._stop()
        log.warning("stopping at the next checkpoint; once more to stop at once")

    def _stop(self) -> None:
        number, self._received, self._patient = self._received, 0, False
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)
