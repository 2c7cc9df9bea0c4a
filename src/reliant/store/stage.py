"""A stage in its folder: the files of its value, and ``stage.json`` that says what made them and how they must look.

``stage.json`` holds name, digest, version, keys, inputs, kind, files (bytes and digest of each), budget, the time at which it
was finished (empty for a checkpoint), whether the files were dropped, and a seal over all of this.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ..errors import DamagedError
from ..records import Budget
from .atomic import publishing, write_json
from .codec import Value, read_value, write_value
from .digest import digest, file_digest

RECORD = "stage.json"


@dataclass(frozen=True, kw_only=True)
class StageRecord:
    """What is known of a stage; before it has run, only the first five fields."""

    name: str
    digest: str
    version: int
    keys: dict[str, Any]
    inputs: list[str]
    kind: str = ""
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)
    finished: str = ""
    dropped: bool = False


class Stored:
    """A stage that is done. Its value is read when it is first asked for, and then kept as long as this object lives."""

    def __init__(self, folder: Path, record: StageRecord, load: Callable[[], Value]) -> None:
        self.folder = folder
        self.name = record.name
        self.digest = record.digest
        self.budget = record.budget
        self._load = load

    @cached_property
    def value(self) -> Any:
        return self._load()


def save_stage(folder: Path, draft: StageRecord, value: Value, *, budget: Budget, finished: str = "") -> StageRecord:
    """Publishes a value that is settled; what stood there before is replaced."""
    with publishing(folder) as temporary:
        kind = write_value(temporary, value)
        files = {path.name: {"bytes": path.stat().st_size, "digest": file_digest(path)} for path in sorted(temporary.iterdir())}
        record = replace(draft, kind=kind, files=files, budget=budget, finished=finished, dropped=False)
        _write_record(temporary, record)
    return record


def read_stage(folder: Path, name: str) -> StageRecord | None:
    """None where there is none; a DamagedError where it cannot be read."""
    if not folder.is_dir() or not any(folder.iterdir()):
        return None
    try:
        table = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        seal = table.pop("seal")
        record = StageRecord(**{**table, "budget": Budget(**table["budget"])})
    except FileNotFoundError:
        raise _damaged(folder, name, RECORD, "is missing") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise _damaged(folder, name, RECORD, "cannot be read") from None
    if seal != digest(table):
        raise _damaged(folder, name, RECORD, "was altered")
    return record


def check_sizes(folder: Path, record: StageRecord) -> None:
    for name, expected in {} if record.dropped else record.files.items():
        path = folder / name
        if not path.is_file():
            raise _damaged(folder, record.name, name, "is missing")
        size = path.stat().st_size
        if size != expected["bytes"]:
            raise _damaged(folder, record.name, name, f"has {size} bytes instead of {expected['bytes']}")


def load_value(folder: Path, record: StageRecord) -> Value:
    check_sizes(folder, record)
    for name, expected in record.files.items():
        if file_digest(folder / name) != expected["digest"]:
            raise _damaged(folder, record.name, name, "was altered")
    return read_value(folder, record.kind)


def drop_files(folder: Path, record: StageRecord) -> None:
    """Deletes the value's files. The record says so first, so that a kill in between does not look like damage."""
    if not record.dropped:
        _write_record(folder, replace(record, dropped=True))
    for name in record.files:
        (folder / name).unlink(missing_ok=True)


def _write_record(folder: Path, record: StageRecord) -> None:
    table = asdict(record)
    write_json(folder / RECORD, {**table, "seal": digest(table)})


def _damaged(folder: Path, name: str, file: str, what: str) -> DamagedError:
    advice = f"delete the folder {folder} and run the same command again, which redoes this stage"
    return DamagedError(f"{folder / file} of stage '{name}' {what}; {advice}")
