from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from reliant.config import Config, build, merge
from reliant.records import Evidence, Groups, Relations, Snapshot, Subsets, Triplets

SOURCE = {"name": "photos", "digest": "d1", "images": 7}


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Counter:
    """A compute function that counts its calls."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.calls = 0

    def __call__(self, slot: Any) -> Any:
        self.calls += 1
        return self.value


def snapshot(*numbers: float, **meta: Any) -> Snapshot:
    return Snapshot(arrays={"numbers": np.array(numbers)}, meta=meta)


def numbers(value: Snapshot) -> list[float]:
    return list(value.arrays["numbers"])


def relations() -> Relations:
    """Two groups of six images, the first one in subset 1 of 2, one triplet for the second of two learners."""
    column = np.array([0.5, 0.25], np.float32)
    one = np.array([3], np.int32)
    none = np.empty(0, np.int32)
    return Relations(
        groups=Groups.of([[4, 1], [0, 2, 3]], images=6, diameters=[0.1, 0.2]),
        evidence=Evidence(
            chance=column, shared=column * 2, survival=column * np.nan, agreement=-column, reliability=column / 2
        ),
        subsets=Subsets(of_group=np.array([1, -1], np.int32), count=2, terms={"coverage": 0.5}),
        triplets=[
            Triplets(anchor=none, similar=none, dissimilar=none, group=none, subset=none, kind=none),
            Triplets(anchor=one, similar=one + 1, dissimilar=one - 1, group=one - 2, subset=one - 3, kind=one - 2),
        ],
        summary={"coverage": 5 / 6},
    )


def settings(**tables: Any) -> Config:
    return build(merge({"seed": 3}, tables))


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file with its bytes and the time of its last change."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def hidden(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob(".*") if path.name != ".lock"]
