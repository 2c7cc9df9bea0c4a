"""What whole runs are tested with: a few images of 12 px in four kinds, a network of two layers, and settings to match."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

import reliant
from reliant.config import Config, build, merge
from reliant.records import Relations

SIZE = 12
SGD = {"rate": 0.1, "batch": 16, "nesterov": True, "schedule": "one-cycle", "warmup": 0.2, "reduction": "mean"}
SETTINGS: dict[str, Any] = {
    "data": {"size": SIZE, "workers": 1},
    "network": {"name": "small", "size": SIZE, "dimension": 8, "input": "rgb"},
    "augment": {"recipe": "resized-crop"},
    "initial": {**SGD, "passes": 3, "loss": "softmax"},
    "features": {"layer": "conv"},
    "neighbours": {"k": 12},
    "chance": {"groups": 64, "null": "pairs"},
    "groups": {"cap": 4},
    "subsets": {"count": 2, "fraction": 1.0},
    "targets": {"hubs": "inherited", "spread": 0.3},
    "local": {**SGD, "passes": 3, "loss": "softmax", "unit": "group", "view": "clean", "uncovered": "singletons"},
    "triplets": {"count": 32, "links": "both"},
    "refine": {**SGD, "passes": 2},
    "rounds": {"count": 2},
    "store": {"checkpoint_seconds": 1e6},
    "machine": {"threads": 1, "device": "cpu"},
}


def tiny(**keys: Any) -> Config:
    """The settings with ``stage__key=value`` over them."""
    table = SETTINGS
    for name, value in keys.items():
        stage, _, key = name.partition("__")
        table = merge(table, {stage: {key: value} if key else value})
    return build(table)


def kinds(count: int) -> NDArray[np.int64]:
    """Which of the four kinds each picture is."""
    return np.arange(count) % 4


def pictures(count: int = 48, size: int = SIZE, channels: int = 1, seed: int = 0, noise: float = 25) -> NDArray[np.uint8]:
    """Stripes down, stripes across, a blob and diagonals, with noise."""
    grain = np.random.default_rng(seed).normal(0, noise, (count, size, size, channels))
    row, column = np.mgrid[:size, :size]
    blob = np.exp(-((column - size / 2) ** 2 + (row - size / 2) ** 2) / 8)
    shapes = np.stack([column // 2 % 2, row // 2 % 2, blob, (column + row) // 3 % 2]) * 160.0 + 40
    return np.clip(shapes[kinds(count), ..., None] + grain, 0, 255).astype(np.uint8)


class Trunk(nn.Module):
    """A user's own network of two layers: (B, 3, 12, 12) → (B, 16, 3, 3)."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.layers = nn.Sequential(
                nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False),
                nn.BatchNorm2d(8),
                nn.ReLU(),
                nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False),
                nn.BatchNorm2d(16),
                nn.ReLU(),
            )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        maps: torch.Tensor = self.layers(images)
        return maps


def fit(out: Path, images: Any = None, *, network: nn.Module | None = None, progress: Any = None, **keys: Any) -> Any:
    """A run of the tiny settings with ``keys`` over them, on the tiny network unless another is given."""
    source = pictures() if images is None else images
    trunk = Trunk() if network is None else network
    return reliant.fit(source, out=out, config=tiny(**keys), network=trunk, progress=progress)


def arrays(run: Any, *stages: str) -> dict[str, NDArray[Any]]:
    """Every array that the training stages (all of them, or those named) of a run have saved."""
    found = {}
    for stage in run.folder.stages():
        parts = stage.split("/")
        trains = parts[-1] in ("initial", "representation", "local", "refined", "refine", "ranking")
        if trains and (not stages or stage in stages):
            found |= {f"{stage}: {name}": array for name, array in run.folder.stored(stage).value.arrays.items()}
    return found


def same_bits(first: dict[str, NDArray[Any]], second: dict[str, NDArray[Any]]) -> bool:
    return first.keys() == second.keys() and all(first[name].tobytes() == second[name].tobytes() for name in first)


def same_relations(first: Relations, second: Relations) -> bool:
    groups = np.array_equal(first.groups.members, second.groups.members)
    offsets = np.array_equal(first.groups.offsets, second.groups.offsets)
    subsets = np.array_equal(first.subsets.of_group, second.subsets.of_group)
    triplets = all(
        np.array_equal(one.anchor, other.anchor) and np.array_equal(one.dissimilar, other.dissimilar)
        for one, other in zip(first.triplets, second.triplets, strict=True)
    )
    return groups and offsets and subsets and triplets
