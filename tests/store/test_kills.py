"""A run that is killed at any instant, by a signal, or by a full disk."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from run_folders import Counter, hidden, numbers, snapshot

from reliant.errors import RunInUseError, StorageError
from reliant.records import Snapshot
from reliant.store import CheckpointSlot, Run

Open = Callable[..., Run]
HERE = Path(__file__).parent


@pytest.mark.parametrize("scenario", ["create", "replace", "checkpoint", "drop"])
def test_a_kill_between_any_two_steps_leaves_the_old_or_the_new_state(scenario: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "killed_at_every_step.py", scenario, str(tmp_path)],
        cwd=HERE,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    steps, old, new = map(int, done.stdout.split())
    assert steps == old + new
    assert old > 3
    assert new > 3


def test_the_lock_goes_with_its_process(path: Path, open_run: Open) -> None:
    code = """if True:
        import sys, time
        from run_folders import SOURCE, settings
        from reliant.store import Run
        run = Run.open(sys.argv[1], config=settings(), source=SOURCE)
        print("held", flush=True)
        time.sleep(60)
    """
    with subprocess.Popen([sys.executable, "-c", code, str(path)], cwd=HERE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(RunInUseError) as caught:
            open_run()
        other.kill()
    assert caught.value.exit_code == 1
    assert str(path) in str(caught.value)
    assert Run.read(path).manifest["status"] == "running"
    open_run().close()


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_the_last_checkpoint(path: Path, open_run: Open) -> None:
    def fills_the_disk(slot: CheckpointSlot) -> Snapshot:
        slot.save(snapshot(1, 2, epoch=7))
        with largest_file(20_000):
            slot.save(Snapshot(arrays={"weights": np.zeros(10_000)}))
        raise AssertionError("the disk should have been full")

    with pytest.raises(StorageError) as caught, open_run() as run:
        run.stage("rounds/01/local", fills_the_disk, keys={})
    assert "arrays.safetensors: File too large; what was saved before it is intact" in str(caught.value)
    assert str(path / "rounds" / "01") in str(caught.value)
    assert hidden(path) == []
    assert Run.read(path).manifest["status"] == "failed"

    found = []
    with open_run() as run:
        run.stage("rounds/01/local", lambda slot: found.append(slot.load()) or snapshot(), keys={})
    assert (numbers(found[0]), found[0].meta) == ([1, 2], {"epoch": 7})


@pytest.mark.parametrize("value", [snapshot(*range(5000)), {"curve": list(range(10_000))}], ids=["snapshot", "table"])
def test_a_full_disk_leaves_no_half_stage(path: Path, open_run: Open, value: object) -> None:
    with pytest.raises(StorageError, match="File too large"), open_run() as run, largest_file(20_000):
        run.stage("a", Counter(value), keys={})
    assert not (path / "a").exists()
    assert hidden(path) == []
    with open_run() as run:
        run.stage("a", Counter(value), keys={})
    assert Run.read(path).stages() == ["a"]


def test_a_disk_that_stays_full_does_not_hide_why_the_run_ended(path: Path, open_run: Open) -> None:
    run = open_run()
    with largest_file(1), pytest.raises(ValueError, match="the cause"), run:
        raise ValueError("the cause")
    assert Run.read(path).manifest["status"] == "running"
    open_run().close()
    assert Run.read(path).manifest["status"] == "finished"


def test_a_full_disk_at_the_very_end_is_said(path: Path, open_run: Open) -> None:
    run = open_run()
    with largest_file(1), pytest.raises(StorageError, match=r"manifest\.json: File too large"), run:
        pass
    open_run().close()
    assert Run.read(path).manifest["status"] == "finished"


def test_a_full_disk_at_the_very_beginning_is_said(path: Path, open_run: Open) -> None:
    with largest_file(1), pytest.raises(StorageError, match=r"manifest\.json: File too large"):
        open_run()
    open_run().close()
    assert Run.read(path).manifest["status"] == "finished"


def stop_in(open_run: Open, compute: Callable[[CheckpointSlot], Snapshot]) -> int | str | None:
    """The exit code of a run that a signal ends in this stage."""
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises((SystemExit, KeyboardInterrupt)) as caught, open_run() as run:
        run.stage("a", compute, keys={})
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert run.manifest["status"] == "interrupted"
    return caught.value.code if isinstance(caught.value, SystemExit) else 130


def test_a_signal_ends_a_stage_without_checkpoints_at_once(open_run: Open) -> None:
    def compute(slot: CheckpointSlot) -> Snapshot:
        signal.raise_signal(signal.SIGTERM)
        raise AssertionError("not reached")

    assert stop_in(open_run, compute) == 143


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_waits_for_the_checkpoint_of_a_stage_that_makes_them(
    path: Path, open_run: Open, number: int, code: int
) -> None:
    def compute(slot: CheckpointSlot) -> Snapshot:
        assert not slot.due()
        signal.raise_signal(number)
        assert slot.interrupted
        assert slot.due()
        slot.save(snapshot(4))
        raise AssertionError("not reached")

    assert stop_in(open_run, compute) == code
    found = []
    with open_run() as run:
        run.stage("a", lambda slot: found.append(slot.load()) or snapshot(), keys={})
    assert numbers(found[0]) == [4]


def test_a_second_signal_does_not_wait(path: Path, open_run: Open) -> None:
    def compute(slot: CheckpointSlot) -> Snapshot:
        assert not slot.interrupted
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("not reached")

    assert stop_in(open_run, compute) == 130
    assert not (path / "a.checkpoint").exists()


def test_a_stage_that_ends_before_its_next_checkpoint_is_kept(path: Path, open_run: Open) -> None:
    def compute(slot: CheckpointSlot) -> Snapshot:
        assert not slot.due()
        signal.raise_signal(signal.SIGTERM)
        return snapshot(6)

    assert stop_in(open_run, compute) == 143
    assert numbers(Run.read(path).stored("a").value) == [6]


def test_after_a_stage_that_fails_signals_no_longer_wait(open_run: Open) -> None:
    def fails(slot: CheckpointSlot) -> Snapshot:
        assert not slot.due()
        raise ValueError

    with pytest.raises(SystemExit), open_run() as run:
        end_after(run, fails)


def end_after(run: Run, compute: Callable[[CheckpointSlot], Snapshot]) -> None:
    with suppress(ValueError):
        run.stage("a", compute, keys={})
    signal.raise_signal(signal.SIGTERM)
    raise AssertionError("not reached")


def test_handlers_of_others_stay(open_run: Open) -> None:
    def mine(number: int, frame: object) -> None:
        raise SystemExit(99)

    before = signal.signal(signal.SIGTERM, mine)
    try:
        with pytest.raises(SystemExit, match="99"), open_run():
            signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is mine
    finally:
        signal.signal(signal.SIGTERM, before)


def test_reading_a_run_takes_no_signals(path: Path, open_run: Open) -> None:
    open_run().close()
    before = signal.getsignal(signal.SIGTERM)
    with Run.read(path):
        assert signal.getsignal(signal.SIGTERM) == before


def test_a_run_in_a_thread_leaves_signals_alone(path: Path, open_run: Open) -> None:
    seen = []

    def work() -> None:
        with open_run() as run:
            run.stage("a", Counter({}), keys={})
            seen.append(signal.getsignal(signal.SIGTERM))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
    assert Run.read(path).manifest["status"] == "finished"
