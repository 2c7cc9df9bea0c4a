from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tiny_runs import fit


@pytest.fixture(autouse=True, scope="module")
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache of its own, one thread, and no waiting for the disk (what a kill leaves there is tests/store's affair)."""
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RELIANT_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.delenv("RELIANT_DATA", raising=False)
        patch.setattr("reliant.store.atomic.os.fsync", lambda handle: None)
        yield


@pytest.fixture(scope="module")
def base(surroundings: None, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The tiny run, two rounds of two learners; only to look at."""
    return fit(tmp_path_factory.mktemp("base") / "run")


class Events(list[dict[str, Any]]):
    """A listener; with ``stop`` it raises after so many stages are finished, with ``steps`` after so many steps."""

    def __init__(self, *, stop: int = 0, steps: int = 0) -> None:
        self.stop, self.steps = stop, steps

    def __call__(self, event: dict[str, Any]) -> None:
        self.append(event)
        step = "images" in event and "epoch" not in event
        self.stop -= event.get("kind") == "stage-finished"
        self.steps -= step
        if (event.get("kind") == "stage-finished" and self.stop == 0) or (step and self.steps == 0):
            raise Killed

    def of(self, kind: str) -> list[str]:
        return [event["stage"] for event in self if event.get("kind") == kind]


class Killed(Exception):
    """Where a run was stopped."""


@pytest.fixture
def events() -> type[Events]:
    return Events


@pytest.fixture
def killed() -> type[Killed]:
    return Killed


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Any]:
    """A run in a folder of its own, ``out`` to say which."""

    def fitted(images: Any = None, out: str = "run", **keys: Any) -> Any:
        return fit(tmp_path / out, images, **keys)

    return fitted
