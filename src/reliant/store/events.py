"""``events.jsonl``: what happened in a run, a JSON object a line with ``time`` (UTC) and ``kind``.

A line is appended at once and never changed. A kill may tear the last one; whoever reads skips what is no whole line. After a
resume the steps since the last checkpoint happen, and stand here, twice: the later line counts.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from .atomic import refusals

EVENTS = "events.jsonl"
Listener = Callable[[dict[str, Any]], None]


class EventLog:
    """Appends events, once :meth:`release` was called; until then they wait in memory."""

    def __init__(self, path: Path, listener: Listener | None = None) -> None:
        self._path = path
        self._listener = listener
        self._waiting: list[dict[str, Any]] | None = []

    def append(self, kind: str, **fields: Any) -> None:
        event = readable({"time": now(), "kind": kind, **fields})
        if self._waiting is None:
            self._write([event])
        else:
            self._waiting.append(event)
        if self._listener is not None:
            self._listener(event)

    def hold(self) -> None:
        """From now on events are not kept."""
        self._waiting = []

    def release(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting:
            self._write(waiting)

    def _write(self, events: list[dict[str, Any]]) -> None:
        text = "".join(json.dumps(event) + "\n" for event in events)
        with refusals(self._path), open(self._path, "ab+") as file:
            if file.seek(0, os.SEEK_END):
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":  # a torn line ends here
                    text = "\n" + text
            file.write(text.encode())


def read_events(folder: Path) -> list[dict[str, Any]]:
    """The events of a run folder, oldest first."""
    path = folder / EVENTS
    events = []
    for line in path.read_bytes().splitlines() if path.exists() else []:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            events.append(event)
    return events


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def readable(value: Any) -> Any:
    """JSON that every reader takes: NaN and infinity become null, NumPy's numbers plain ones, the rest text."""
    if isinstance(value, np.ndarray | np.generic):
        return readable(value.tolist())
    if isinstance(value, Mapping):
        return {str(name): readable(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [readable(one) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
