"""A stage that is stopped after any step and taken up again ends with the bits of one that was not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from training_parts import Stopped, StoppingSlot, counted, drawn, initial, local, ranked, refinement, work

from reliant.learning.loop import train
from reliant.learning.network import Network, snapshot

CASES: dict[str, tuple[Callable[[], Network], Callable[[], Any]]] = {
    "images to points, dropout": (counted, initial),
    "groups to hubs, from clean views": (counted, local),
    "members alone, from clean views": (counted, lambda: local(unit="image")),
    "refinement with triplets": (counted, refinement),
    "triplets only": (counted, ranked),
    "a user's dropout": (drawn, initial),
}
BUDGET = 70.0


def outcome(phi: Network, objective: Any, history: Any) -> tuple[Any, ...]:
    """Everything that a stage leaves, but the seconds."""
    weights = {name: array.tobytes() for name, array in snapshot(phi).arrays.items()}
    state = {name: np.asarray(array).tobytes() for name, array in objective.state().items()}
    rows = [{name: value for name, value in row.items() if name != "seconds"} for row in history.rows()]
    return weights, state, rows, history.images, history.steps


@pytest.mark.parametrize("case", CASES)
def test_stopped_after_any_step(case: str, tmp_path: Path) -> None:
    build, make = CASES[case]
    phi, objective = build(), make()
    whole = train(phi, objective, work(BUDGET))
    expected = outcome(phi, objective, whole)
    assert whole.steps >= 10
    for step in range(1, whole.steps + 1):
        place = tmp_path / str(step)
        with pytest.raises(Stopped):
            train(build(), make(), work(BUDGET, slot=StoppingSlot(place, step)))
        torch.rand(step)  # another process has another state of torch's generator
        phi, objective = build(), make()
        history = train(phi, objective, work(BUDGET, slot=StoppingSlot(place, 0)))
        assert outcome(phi, objective, history) == expected, f"stopped after step {step}"


def test_stopped_again_and_again(tmp_path: Path) -> None:
    phi, objective = counted(), refinement()
    expected = outcome(phi, objective, train(phi, objective, work(BUDGET)))
    place, steps = tmp_path / "checkpoint", 0
    while True:
        phi, objective = counted(), refinement()
        slot = StoppingSlot(place, 3)
        loaded = slot.load()
        place = tmp_path / f"checkpoint-{steps}"
        slot.folder, slot.load = place, lambda loaded=loaded: loaded  # type: ignore[method-assign]
        try:
            history = train(phi, objective, work(BUDGET, slot=slot))
        except Stopped:
            steps += 3
            continue
        break
    assert steps >= 9
    assert outcome(phi, objective, history) == expected


def test_a_checkpoint_does_not_change_what_follows(tmp_path: Path) -> None:
    class Keeping(StoppingSlot):
        def due(self) -> bool:
            return True

        def save(self, snapshot: Any) -> None:
            assert snapshot.meta["steps"] > 0

    phi, objective = counted(), local()
    expected = outcome(phi, objective, train(phi, objective, work(BUDGET)))
    phi, objective = counted(), local()
    assert outcome(phi, objective, train(phi, objective, work(BUDGET, slot=Keeping(tmp_path / "none", 0)))) == expected


def test_what_was_done_is_not_done_again(tmp_path: Path) -> None:
    steps: list[float] = []
    place = tmp_path / "checkpoint"
    with pytest.raises(Stopped):
        train(counted(), initial(), work(BUDGET, slot=StoppingSlot(place, 6)))
    train(counted(), initial(), work(BUDGET, slot=StoppingSlot(place, 0), watch=lambda event: steps.append(event["images"])))
    assert steps[0] == 7 * 5
