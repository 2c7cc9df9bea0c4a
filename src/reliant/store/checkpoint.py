"""The one slot in which a stage under way keeps its state, ``STAGE.checkpoint/`` beside ``STAGE/``.

It is written like a stage and replaces the one before when it is complete. It belongs to one digest: that of another one is
not seen. When the stage is published, it is removed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from ..errors import DamagedError
from ..records import Budget, Snapshot
from .atomic import remove_folder
from .codec import settled
from .interruption import Interruption
from .stage import StageRecord, load_value, read_stage, save_stage

log = logging.getLogger(__name__)


class Emit(Protocol):
    def __call__(self, kind: str, /, **fields: Any) -> None: ...


class CheckpointSlot:
    """What a running stage may use of the run: save and load its state, report what it costs and what happens."""

    def __init__(
        self,
        folder: Path,
        draft: StageRecord,
        *,
        seconds: float,
        emit: Emit,
        clock: Callable[[], float],
        interruption: Interruption,
    ) -> None:
        self._folder = folder
        self._draft = draft
        self._seconds = seconds
        self._emit = emit
        self._clock = clock
        self._interruption = interruption
        self._before = Budget()
        self._spent = Budget()
        self._started = self._saved = clock()

    @property
    def interrupted(self) -> bool:
        """Whether the run was asked to stop. Who asks promises to save soon; the signal waits for that."""
        return self._interruption.pending()

    def due(self) -> bool:
        """Whether to save now: the time has come, or the run was asked to stop."""
        return self.interrupted or self._clock() - self._saved >= self._seconds

    def save(self, snapshot: Snapshot) -> None:
        """Keeps the state; where the run was asked to stop, this is where it stops."""
        save_stage(self._folder, self._draft, settled(snapshot), budget=self.budget)
        self._saved = self._clock()
        self.event("checkpoint", seconds=self.budget.seconds, passes=self.budget.passes)
        self._interruption.stop_if_pending()

    def load(self) -> Snapshot | None:
        """The state that was saved last by this very stage, with what it had cost; None to start from the beginning."""
        try:
            record = read_stage(self._folder, self._draft.name)
            if record is None or record.digest != self._draft.digest:
                return None
            value = load_value(self._folder, record)
        except DamagedError as error:
            log.warning("a checkpoint of stage '%s' is damaged and not used: the stage starts again", self._draft.name)
            self.event("checkpoint-ignored", reason=str(error))
            return None
        assert isinstance(value, Snapshot)
        self._before = record.budget
        self.event("checkpoint-restored", seconds=record.budget.seconds, passes=record.budget.passes)
        return value

    def spend(self, *, passes: float = 0.0, peak_bytes: int = 0) -> None:
        """Adds to the stage's budget; its seconds are measured without being told."""
        self._spent = self._spent + Budget(passes=passes, peak_bytes=peak_bytes)

    def event(self, kind: str, /, **fields: Any) -> None:
        self._emit(kind, stage=self._draft.name, **fields)

    @property
    def budget(self) -> Budget:
        """Spent so far, over all interruptions."""
        return self._before + self._spent + Budget(seconds=self._clock() - self._started)

    def discard(self) -> None:
        remove_folder(self._folder)
