"""``killed_at_every_step.py SCENARIO FOLDER``: runs a scenario in forked processes that die before their 1st, 2nd, 3rd … change
of the disk, looks at what each one left, and prints how many there were, and after how many the old and the new state stood."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from run_folders import SOURCE, Counter, hidden, numbers, settings, snapshot

from reliant.records import Snapshot
from reliant.store import CheckpointSlot, Run

CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod"}


def die_before(step: int, folder: Path) -> None:
    left = step

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        opens = event == "open" and str(arguments[0]).startswith(str(folder)) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if event in CHANGES or event == "fsync" or opens:
            left -= 1
            if left < 0:
                os._exit(9)

    os.fsync = lambda descriptor: count("fsync", ())
    sys.addaudithook(count)


def open_run(folder: Path) -> Run:
    return Run.open(folder / "run", config=settings(), source=SOURCE)


def nothing(folder: Path) -> None:
    pass


def make(folder: Path, number: int, inputs: str) -> bool:
    """Whether the stage had to be computed."""

    def compute(slot: CheckpointSlot) -> Snapshot:
        slot.load()
        slot.save(snapshot(number))
        return snapshot(number, number)

    with open_run(folder) as run:
        stored = run.stage("rounds/00/a", compute, keys={}, inputs=[inputs])
        assert numbers(stored.value) == [number, number]
        return not run.skipped


def first(folder: Path) -> None:
    make(folder, 1, "old")


def second(folder: Path) -> None:
    make(folder, 2, "new")


def drop(folder: Path) -> None:
    with open_run(folder) as run:
        run.stage("rounds/00/a", Counter(None), keys={}, inputs=["old"])
        run.drop("rounds/00/a")


def checkpoints(folder: Path, *states: int) -> None:
    def compute(slot: CheckpointSlot) -> Snapshot:
        for state in states:
            slot.save(snapshot(state))
        os._exit(0)

    open_run(folder).stage("a", compute, keys={})


def one_checkpoint(folder: Path) -> None:
    in_a_process(lambda: checkpoints(folder, 1))


def another_checkpoint(folder: Path) -> None:
    checkpoints(folder, 2)


def made(folder: Path) -> bool:
    """Where the stage was there, it is not computed again; where not, the same command ends with it."""
    return not make(folder, 1, "old")


def replaced(folder: Path) -> bool:
    with open_run(folder) as run:
        state = numbers(run.stored("rounds/00/a").value)
    assert state in ([1, 1], [2, 2])
    assert make(folder, 2, "new") == (state == [1, 1])
    return state == [2, 2]


def saved(folder: Path) -> bool:
    found = []
    with open_run(folder) as run:
        run.stage("a", lambda slot: found.append(slot.load()) or snapshot(), keys={})
    assert numbers(found[0]) in ([1], [2])
    return numbers(found[0]) == [2]


def dropped(folder: Path) -> bool:
    computed = Counter(snapshot(1, 1))
    with open_run(folder) as run:
        stored = run.stage("rounds/00/a", computed, keys={}, inputs=["old"])
        assert run.skipped
        assert numbers(stored.value) == [1, 1]
    return computed.calls == 1


SCENARIOS = {
    "create": (nothing, first, made),
    "replace": (first, second, replaced),
    "checkpoint": (one_checkpoint, another_checkpoint, saved),
    "drop": (first, drop, dropped),
}


def in_a_process(do: Callable[[], Any]) -> int:
    child = os.fork()
    if child == 0:
        try:
            do()
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(scenario: str, folder: Path) -> None:
    before, kill, look = SCENARIOS[scenario]
    os.fsync = lambda descriptor: None  # a killed process loses nothing that the system holds
    seen = {False: 0, True: 0}
    before(folder / "template")
    for step in range(1000):
        work = folder / str(step)
        shutil.copytree(folder / "template", work) if (folder / "template").exists() else work.mkdir()

        def killed(work: Path = work, step: int = step) -> None:
            die_before(step, work)
            kill(work)

        code = in_a_process(killed)
        assert code in (0, 9), f"step {step}: {code}"
        seen[look(work)] += 1
        assert hidden(work) == [], hidden(work)
        assert not list(work.rglob("*.checkpoint"))
        if code == 0:
            break
    print(sum(seen.values()), seen[False], seen[True])


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
