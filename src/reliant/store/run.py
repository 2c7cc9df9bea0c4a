"""A run folder: stages under their inputs' digests, one writer, resumed by skipping what is there.

::

    RUN/manifest.json   what it is, its status, source, machine, rounds and verdict
    RUN/config.toml     every key
    RUN/events.jsonl    what happened
    RUN/.lock           held by the one process that writes
    RUN/STAGE/          a stage: stage.json and the files of its value; STAGE is any relative POSIX path
    RUN/STAGE.checkpoint/   the state of a stage under way

Every path inside is relative, so the folder can be moved. On a finished run nothing is written unless something is computed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from filelock import FileLock, Timeout

from ..errors import RunInUseError, StateError, StorageError, UsageError, must
from .atomic import make_folder, recover, refusals, remove_folder, write_bytes, write_json
from .checkpoint import CheckpointSlot
from .codec import Value, settled
from .digest import stage_digest
from .events import EVENTS, EventLog, Listener, now, read_events, readable
from .interruption import Interruption
from .manifest import CONFIG, LOCK, MANIFEST, check_same, is_run, merged, new_manifest, read_config, read_manifest
from .stage import RECORD, StageRecord, Stored, check_sizes, drop_files, load_value, read_stage, save_stage

if TYPE_CHECKING:
    from ..config import Config

log = logging.getLogger(__name__)

Compute = Callable[[CheckpointSlot], Value]


class Run:
    """A run folder, open for writing (:meth:`open`) or for reading (:meth:`read`)."""

    def __init__(
        self,
        path: Path,
        manifest: dict[str, Any],
        config: Config,
        *,
        lock: FileLock | None = None,
        listener: Listener | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = path
        self.config = config
        self.skipped: list[str] = []
        self._manifest = manifest
        self._machine: dict[str, Any] = manifest["machine"]
        self._lock = lock
        self._clock = clock
        self._events = EventLog(path / EVENTS, listener)
        self._touched = False
        self._interruption = Interruption()

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        config: Config,
        source: Mapping[str, Any],
        preset: str = "",
        machine: Mapping[str, Any] | None = None,
        listener: Listener | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> Run:
        """Makes the run, or resumes it. ``source``: name, digest, images; ``machine``: device, threads and the like.

        ``listener`` is called with every event, those of skipped stages included.
        """
        path = Path(path)
        is_run(path)
        make_folder(path)
        lock = _acquire(path)
        try:
            if is_run(path):
                run = cls(path, read_manifest(path), config, lock=lock, listener=listener, clock=clock)
                run._resume(source, dict(machine or {}))
                recover(path)
            else:
                recover(path)
                manifest = new_manifest(config, source, preset, machine or {})
                run = cls(path, manifest, config, lock=lock, listener=listener, clock=clock)
                run._begin()
                run.event("created")
            return run
        except BaseException:
            lock.release()
            raise

    @classmethod
    def read(cls, path: str | Path) -> Run:
        """Opens a run folder to look at, without a lock: a change is a StateError, an event is not kept."""
        path = Path(path)
        return cls(path, read_manifest(path), read_config(path))

    def _resume(self, source: Mapping[str, Any], machine: dict[str, Any]) -> None:
        if not (self.path / CONFIG).exists() and not self.stages():
            self._begin()  # killed between the first two files
        stored = read_config(self.path)
        check_same(self.path, self._manifest, stored, self.config, source)
        self.config = merged(stored, self.config)
        self.event("resumed")
        self._compare_machines(machine)

    def _compare_machines(self, machine: dict[str, Any]) -> None:
        before = self._machine
        changes = [
            key
            for key in ("device", "threads", "precision")
            if key in before and key in machine and before[key] != machine[key]
        ]
        for key in changes:
            text = "%s was made with %s = %s, now it is %s: the result is the same up to rounding, not to the bit"
            log.warning(text, self.path, key, before[key], machine[key])
            self.event("machine-changed", key=key, before=before[key], now=machine[key])
        self._machine = {**before, **readable(machine)}

    def stage(
        self, name: str, compute: Compute, *, keys: Mapping[str, Any], inputs: Iterable[str] = (), version: int = 1
    ) -> Stored:
        """The stage's value from its folder if version, keys and inputs are those it was made with, else from ``compute``."""
        folder, inputs = self._folder(name), list(inputs)
        draft = StageRecord(
            name=name, digest=stage_digest(version, keys, inputs), version=version, keys=readable(keys), inputs=inputs
        )
        found = read_stage(folder, name)
        if found is None or found.digest != draft.digest:
            if found is not None:
                self.event("stage-stale", stage=name)
            return self._make(draft, compute)
        check_sizes(folder, found)
        if self._lock is not None:
            remove_folder(self._checkpoint(name))  # left where a kill came right after publishing
        self.skipped.append(name)
        self.event("stage-skipped", stage=name)
        return Stored(folder, found, lambda: self._value(draft, compute))

    def _value(self, draft: StageRecord, compute: Compute) -> Value:
        folder = self._folder(draft.name)
        found = read_stage(folder, draft.name)
        if found is None or found.dropped or found.digest != draft.digest:
            return self._make(draft, compute).value  # type: ignore[no-any-return]
        return load_value(folder, found)

    def _make(self, draft: StageRecord, compute: Compute) -> Stored:
        self._must_write(f"stage '{draft.name}' is not there")
        self._begin()
        folder = self._folder(draft.name)
        slot = CheckpointSlot(
            self._checkpoint(draft.name),
            draft,
            seconds=self.config.store.checkpoint_seconds,
            emit=self.event,
            clock=self._clock,
            interruption=self._interruption,
        )
        self.event("stage-started", stage=draft.name)
        try:
            value = settled(compute(slot))
        finally:
            self._interruption.no_checkpoint_to_come()
        record = save_stage(folder, draft, value, budget=slot.budget, finished=now())
        slot.discard()
        cost = record.budget
        self.event("stage-finished", stage=draft.name, seconds=cost.seconds, passes=cost.passes, peak_bytes=cost.peak_bytes)
        self._interruption.stop_if_pending()
        return Stored(folder, record, lambda: value)

    def drop(self, name: str) -> None:
        """Deletes the files of a stage that stays done; who asks for its value nevertheless has it computed again."""
        self._must_write(f"stage '{name}' cannot be dropped")
        folder = self._folder(name)
        record = self._known(name)
        if record.dropped and not any((folder / file).exists() for file in record.files):
            return
        self._begin()
        drop_files(folder, record)
        self.event("stage-dropped", stage=name)

    def stored(self, name: str) -> Stored:
        """A stage that is there, to look at."""
        folder, record = self._folder(name), self._known(name)
        check_sizes(folder, record)

        def load() -> Value:
            advice = "keep it with store.features=all"
            must(not record.dropped, StateError, f"stage '{name}' of {self.path} was dropped to save space; {advice}")
            return load_value(folder, record)

        return Stored(folder, record, load)

    def stages(self) -> list[str]:
        """The names of the stages that are done."""
        folders = (record.parent for record in self.path.rglob(RECORD))
        names = (folder.relative_to(self.path) for folder in folders if folder.suffix != ".checkpoint")
        return sorted(name.as_posix() for name in names if not any(part.startswith(".") for part in name.parts))

    def event(self, kind: str, /, **fields: Any) -> None:
        self._events.append(kind, **fields)

    def events(self) -> list[dict[str, Any]]:
        return read_events(self.path)

    @property
    def manifest(self) -> dict[str, Any]:
        return dict(self._manifest)

    def update_manifest(self, **fields: Any) -> None:
        """Sets fields; what is there already is not written again."""
        self._must_write("its manifest cannot change")
        news = readable(fields)
        if any(name not in self._manifest or self._manifest[name] != value for name, value in news.items()):
            self._begin()
            self._manifest |= news
            write_json(self.path / MANIFEST, self._manifest)

    def _begin(self) -> None:
        """The first change: until now the folder was only read."""
        if self._touched:
            return
        self._touched = True
        from ..config import to_toml

        # The manifest first: a folder with config.toml alone could be another tool's.
        self._manifest = {**self._manifest, "status": "running", "machine": self._machine}
        self._manifest.pop("error", None)
        write_json(self.path / MANIFEST, self._manifest)
        write_bytes(self.path / CONFIG, to_toml(self.config).encode())
        self._events.release()

    def _finish(self, error: BaseException | None) -> None:
        if not self._touched and self._manifest["status"] == "finished":
            return
        if error is None:
            status, fields = "finished", {}
        elif isinstance(error, Exception):
            status, fields = "failed", {"error": f"{type(error).__name__}: {error}"}
        else:
            status, fields = "interrupted", {}
        self.update_manifest(status=status, **fields)
        self.event(status, **fields)

    def __enter__(self) -> Self:
        if self._lock is not None:
            self._interruption.watch()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._lock is None:
            return
        try:
            self._finish(error)
        except StorageError:
            if error is None:  # else the error that ended the run matters more than a disk that is still full
                raise
        finally:
            self._interruption.unwatch()
            self._events.hold()
            self._lock.release()

    def close(self) -> None:
        """Ends a run that was opened without ``with``, as finished."""
        self.__exit__(None, None, None)

    def _must_write(self, what: str) -> None:
        writes = self._lock is not None and self._lock.is_locked
        must(writes, StateError, f"{self.path} is not open for writing and {what}; run 'reliant fit' on it")

    def _known(self, name: str) -> StageRecord:
        record = read_stage(self._folder(name), name)
        if record is None:
            raise StateError(f"{self.path} has no stage '{name}'; it was not reached, run the command that made the run again")
        return record

    def _checkpoint(self, name: str) -> Path:
        return self.path / f"{name}.checkpoint"

    def _folder(self, name: str) -> Path:
        parts = PurePosixPath(name).parts
        plain = "/".join(parts) == name and "\\" not in name and not any(part.startswith((".", "/")) for part in parts)
        allowed = "a stage's name is a relative POSIX path such as 'rounds/01/learners/3/local'"
        plain = plain and not any(part.endswith(".checkpoint") for part in parts)
        must(plain and bool(parts), UsageError, f"{allowed}, got '{name}'")
        folder = self.path / name
        nested = not (folder / RECORD).exists() and folder.is_dir() and next(folder.rglob(RECORD), None) is not None
        inside = any((self.path / parent / RECORD).exists() for parent in PurePosixPath(name).parents)
        must(not nested and not inside, UsageError, f"a stage does not lie inside another one, but '{name}' would")
        return folder


def _acquire(path: Path) -> FileLock:
    # Not thread-local: a run may be opened in one thread and closed in another.
    lock = FileLock(path / LOCK, timeout=0, thread_local=False)
    try:
        with refusals(path / LOCK):
            lock.acquire()
    except Timeout:
        raise RunInUseError(f"{path} is in use by another process; wait until it ends, or use another --out") from None
    return lock
