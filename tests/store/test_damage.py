"""What is damaged by hand is named, with the stage that can be redone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_folders import Counter, numbers, relations, snapshot

from reliant.errors import DamagedError
from reliant.store import Run

NAME = "rounds/00/initial"


@pytest.fixture
def made(open_run: Callable[..., Run]) -> Run:
    with open_run() as run:
        run.stage(NAME, Counter(snapshot(1, 2, epoch=3)), keys={})
    return run


def complaint(open_run: Callable[..., Run]) -> str:
    with pytest.raises(DamagedError) as caught, open_run() as run:
        assert run.stage(NAME, Counter(None), keys={}).value
    return str(caught.value)


def advice(path: Path) -> str:
    return f"delete the folder {path / NAME} and run the same command again, which redoes this stage"


def test_a_missing_file(made: Run, path: Path, open_run: Callable[..., Run]) -> None:
    file = path / NAME / "arrays.safetensors"
    file.unlink()
    assert complaint(open_run) == f"{file} of stage '{NAME}' is missing; {advice(path)}"


def test_a_truncated_file(made: Run, path: Path, open_run: Callable[..., Run]) -> None:
    file = path / NAME / "meta.json"
    assert file.read_bytes() == b'{"epoch": 3}\n'
    file.write_bytes(b'{"epo')
    assert complaint(open_run) == f"{file} of stage '{NAME}' has 5 bytes instead of 13; {advice(path)}"


def test_a_flipped_byte_in_any_file(made: Run, path: Path, open_run: Callable[..., Run]) -> None:
    for file in (path / NAME / "arrays.safetensors", path / NAME / "meta.json"):
        whole = file.read_bytes()
        file.write_bytes(whole[:-3] + bytes([whole[-3] ^ 1]) + whole[-2:])
        assert complaint(open_run) == f"{file} of stage '{NAME}' was altered; {advice(path)}"
        file.write_bytes(whole)


def test_a_missing_record(made: Run, path: Path, open_run: Callable[..., Run]) -> None:
    (path / NAME / "stage.json").unlink()
    assert complaint(open_run) == f"{path / NAME / 'stage.json'} of stage '{NAME}' is missing; {advice(path)}"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff", b'{"seal": "", "budget": {}, "colour": 1}'])
def test_a_record_that_cannot_be_read(made: Run, path: Path, open_run: Callable[..., Run], content: bytes) -> None:
    (path / NAME / "stage.json").write_bytes(content)
    assert complaint(open_run) == f"{path / NAME / 'stage.json'} of stage '{NAME}' cannot be read; {advice(path)}"


def test_a_record_in_which_anything_was_changed(made: Run, path: Path, open_run: Callable[..., Run]) -> None:
    record = path / NAME / "stage.json"
    table: dict[str, Any] = json.loads(record.read_text())
    changes = {"name": "other", "digest": "0", "version": 2, "files": {}, "dropped": True, "seal": "0"}
    for name, value in changes.items():
        record.write_text(json.dumps({**table, name: value}))
        assert complaint(open_run) == f"{record} of stage '{NAME}' was altered; {advice(path)}"


def test_the_advice_works(made: Run, path: Path, open_run: Callable[..., Run]) -> None:
    again = Counter(snapshot(1, 2, epoch=3))
    shutil.rmtree(path / NAME)
    with open_run() as run:
        assert numbers(run.stage(NAME, again, keys={}).value) == [1, 2]
    for file in (path / NAME).iterdir():
        file.unlink()
    with open_run() as run:
        run.stage(NAME, again, keys={})
    assert again.calls == 2


def test_a_finished_run_with_damage_stays_finished(made: Run, path: Path, open_run: Callable[..., Run]) -> None:
    (path / NAME / "meta.json").unlink()
    complaint(open_run)
    assert Run.read(path).manifest["status"] == "finished"


def test_a_size_is_checked_before_anybody_asks_for_the_value(made: Run, path: Path, open_run: Callable[..., Run]) -> None:
    (path / NAME / "meta.json").write_bytes(b"")
    for look in (lambda run: run.stage(NAME, Counter(None), keys={}), lambda run: run.stored(NAME)):
        with pytest.raises(DamagedError, match="has 0 bytes instead of 13"), open_run() as run:
            look(run)


def test_a_stage_that_is_redone_anyway_may_be_damaged(made: Run, path: Path, open_run: Callable[..., Run]) -> None:
    (path / NAME / "meta.json").unlink()
    with open_run() as run:
        assert numbers(run.stage(NAME, Counter(snapshot(5)), keys={}, inputs=["other"]).value) == [5]


def test_tables_of_relations(path: Path, open_run: Callable[..., Run]) -> None:
    with open_run() as run:
        run.stage(NAME, Counter(relations()), keys={})
    (path / NAME / "triplets.parquet").unlink()
    assert complaint(open_run) == f"{path / NAME / 'triplets.parquet'} of stage '{NAME}' is missing; {advice(path)}"
