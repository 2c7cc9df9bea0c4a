from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from run_folders import Clock, numbers, settings, snapshot

from reliant.records import Snapshot
from reliant.store import CheckpointSlot, Run

Open = Callable[..., Run]
CHECKPOINT = "learners/3/local.checkpoint"


class Killed(Exception):
    pass


def run_stage(open_run: Open, compute: Callable[[CheckpointSlot], Snapshot], **options: object) -> None:
    inputs = options.pop("inputs", [])
    with open_run(**options) as run:
        run.stage("learners/3/local", compute, keys={}, inputs=inputs)  # type: ignore[arg-type]


def interrupted(*saved: Snapshot, passes: float = 0.0) -> Callable[[CheckpointSlot], Snapshot]:
    def compute(slot: CheckpointSlot) -> Snapshot:
        slot.spend(passes=passes, peak_bytes=10)
        for one in saved:
            slot.save(one)
        raise Killed

    return compute


def resumed(found: list[Snapshot | None]) -> Callable[[CheckpointSlot], Snapshot]:
    def compute(slot: CheckpointSlot) -> Snapshot:
        found.append(slot.load())
        return snapshot(0)

    return compute


def test_a_stage_starts_without_a_checkpoint_and_leaves_none(path: Path, open_run: Open) -> None:
    found: list[Snapshot | None] = []

    def compute(slot: CheckpointSlot) -> Snapshot:
        found.append(slot.load())
        slot.save(snapshot(1))
        assert (path / CHECKPOINT).is_dir()
        return snapshot(2)

    run_stage(open_run, compute)
    assert found == [None]
    assert not (path / CHECKPOINT).exists()


def test_the_last_state_comes_back(open_run: Open) -> None:
    found: list[Snapshot | None] = []
    with pytest.raises(Killed):
        run_stage(open_run, interrupted(snapshot(1, epoch=1), snapshot(2, 3, epoch=2)))
    run_stage(open_run, resumed(found))
    assert found[0] is not None
    assert numbers(found[0]) == [2, 3]
    assert found[0].meta == {"epoch": 2}


def test_a_checkpoint_of_other_inputs_is_not_seen(open_run: Open) -> None:
    found: list[Snapshot | None] = []
    with pytest.raises(Killed):
        run_stage(open_run, interrupted(snapshot(1)), inputs=["a"])
    run_stage(open_run, resumed(found), inputs=["b"])
    assert found == [None]


@pytest.mark.parametrize("file", ["stage.json", "arrays.safetensors", "meta.json"])
@pytest.mark.parametrize("damage", ["deleted", "truncated", "altered"])
def test_a_damaged_checkpoint_is_ignored_with_a_warning(
    path: Path, open_run: Open, caplog: pytest.LogCaptureFixture, file: str, damage: str
) -> None:
    found: list[Snapshot | None] = []
    with pytest.raises(Killed):
        run_stage(open_run, interrupted(snapshot(1, epoch=1)))
    victim = path / CHECKPOINT / file
    whole = victim.read_bytes()
    victim.write_bytes(whole[:-4] if damage == "truncated" else whole[:-4] + bytes([whole[-4] ^ 1]) + whole[-3:])
    if damage == "deleted":
        victim.unlink()
    with caplog.at_level(logging.WARNING):
        run_stage(open_run, resumed(found))
    assert found == [None]
    assert caplog.messages == ["a checkpoint of stage 'learners/3/local' is damaged and not used: the stage starts again"]
    [event] = [event for event in Run.read(path).events() if event["kind"] == "checkpoint-ignored"]
    assert str(victim) in event["reason"]


def test_a_checkpoint_is_due_when_its_time_has_come(open_run: Open) -> None:
    clock = Clock()

    def compute(slot: CheckpointSlot) -> Snapshot:
        assert not slot.due()
        clock.now += 59
        assert not slot.due()
        clock.now += 1
        assert slot.due()
        slot.save(snapshot())
        assert not slot.due()
        return snapshot()

    run_stage(open_run, compute, clock=clock)


def test_at_zero_seconds_a_checkpoint_is_always_due(open_run: Open) -> None:
    def compute(slot: CheckpointSlot) -> Snapshot:
        assert slot.due()
        return snapshot()

    run_stage(open_run, compute, clock=Clock(), config=settings(store={"checkpoint_seconds": 0}))


def test_the_budget_adds_up_over_interruptions(path: Path, open_run: Open) -> None:
    clock = Clock()

    def first(slot: CheckpointSlot) -> Snapshot:
        clock.now += 10
        slot.spend(passes=1.5, peak_bytes=700)
        slot.save(snapshot(1))
        clock.now += 1000  # lost by the kill, and so done again
        slot.spend(passes=99)
        raise Killed

    def second(slot: CheckpointSlot) -> Snapshot:
        slot.load()
        assert slot.load() is not None  # to look twice costs nothing
        clock.now += 5
        slot.spend(passes=0.5, peak_bytes=300)
        return snapshot(2)

    with pytest.raises(Killed):
        run_stage(open_run, first, clock=clock)
    run_stage(open_run, second, clock=clock)
    budget = Run.read(path).stored("learners/3/local").budget
    assert (budget.passes, budget.seconds, budget.peak_bytes) == (2.0, 15.0, 700)


def test_what_a_stage_says_stands_in_the_events(path: Path, open_run: Open) -> None:
    def compute(slot: CheckpointSlot) -> Snapshot:
        slot.event("epoch", loss=0.5)
        return snapshot()

    run_stage(open_run, compute)
    [event] = [event for event in Run.read(path).events() if event["kind"] == "epoch"]
    assert (event["stage"], event["loss"]) == ("learners/3/local", 0.5)
