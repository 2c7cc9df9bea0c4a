from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from run_folders import Counter, numbers, snapshot

from reliant.errors import StateError
from reliant.store import Run

Open = Callable[..., Run]


def test_a_dropped_stage_counts_as_done(path: Path, open_run: Open) -> None:
    compute = Counter(snapshot(1, 2))
    with open_run() as run:
        run.stage("features", compute, keys={})
        run.drop("features")
        assert [file.name for file in (path / "features").iterdir()] == ["stage.json"]
    with open_run() as run:
        stored = run.stage("features", compute, keys={})
        assert (compute.calls, run.skipped) == (1, ["features"])
        assert numbers(stored.value) == [1, 2]
        assert compute.calls == 2
    with open_run() as run:
        assert numbers(run.stage("features", compute, keys={}).value) == [1, 2]
    assert compute.calls == 2


def test_a_stage_dropped_after_it_was_handed_out_is_computed_again(open_run: Open) -> None:
    compute = Counter(snapshot(1))
    open_run().close()
    with open_run() as run:
        run.stage("features", compute, keys={})
        again = run.stage("features", compute, keys={})
        run.drop("features")
        assert numbers(again.value) == [1]
    assert compute.calls == 2


def test_a_dropped_stage_cannot_be_looked_at(path: Path, open_run: Open) -> None:
    with open_run() as run:
        run.stage("features", Counter(snapshot(1)), keys={})
        run.drop("features")
    with pytest.raises(
        StateError, match=r"^stage 'features' of .* was dropped to save space; keep it with store.features=all$"
    ):
        assert Run.read(path).stored("features").value
    with pytest.raises(StateError, match="has no stage 'labels'"), open_run() as run:
        run.drop("labels")
