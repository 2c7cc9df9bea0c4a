from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from reliant.store import read_events
from reliant.store.events import EventLog, readable


def log(folder: Path) -> EventLog:
    opened = EventLog(folder / "events.jsonl")
    opened.release()
    return opened


def test_an_event_is_a_line_with_its_time_and_kind(tmp_path: Path) -> None:
    log(tmp_path).append("epoch", loss=0.5, stage="initial")
    [line] = (tmp_path / "events.jsonl").read_text().splitlines()
    event = json.loads(line)
    assert datetime.fromisoformat(event.pop("time")).utcoffset() is not None
    assert event == {"kind": "epoch", "loss": 0.5, "stage": "initial"}


def test_events_wait_until_they_are_released(tmp_path: Path) -> None:
    heard: list[dict[str, Any]] = []
    waiting = EventLog(tmp_path / "events.jsonl", heard.append)
    waiting.append("first")
    assert not (tmp_path / "events.jsonl").exists()
    waiting.release()
    waiting.append("second")
    assert [event["kind"] for event in read_events(tmp_path)] == ["first", "second"]
    assert heard == read_events(tmp_path)


def test_no_event_is_no_file(tmp_path: Path) -> None:
    log(tmp_path)
    assert read_events(tmp_path) == []


def test_a_torn_line_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log(tmp_path).append("whole")
    with path.open("ab") as file:
        file.write('{"kind": "torn", "name": "é'.encode()[:-1])
    assert [event["kind"] for event in read_events(tmp_path)] == ["whole"]
    log(tmp_path).append("after")
    assert [event["kind"] for event in read_events(tmp_path)] == ["whole", "after"]
    assert len(path.read_bytes().splitlines()) == 3


def test_what_is_no_event_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_bytes(b'\n3\n\0\0\0\n{"kind": "one"}\n')
    assert read_events(tmp_path) == [{"kind": "one"}]


def test_every_value_becomes_json_that_every_reader_takes() -> None:
    value = {
        "nan": float("nan"),
        1: (np.float32(0.5), np.inf),
        "array": np.array([1, 2]),
        "path": Path("a/b"),
        "yes": True,
        "no": None,
    }
    expected = {"nan": None, "1": [0.5, None], "array": [1, 2], "path": "a/b", "yes": True, "no": None}
    assert readable(value) == expected
    assert json.dumps(readable(value), allow_nan=False)
