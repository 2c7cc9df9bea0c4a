"""Small parts to train with: a network with dropout, objectives of every kind, a slot that stops a stage at a step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from reliant.config import Augment, Local, Machine
from reliant.learning.backbones import CounterDropout
from reliant.learning.device import Device
from reliant.learning.gradients import Colour
from reliant.learning.loop import Work
from reliant.learning.network import Network
from reliant.learning.objectives import Refinement, Regression, TripletRanking
from reliant.learning.pixels import Pixels
from reliant.learning.targets import around_hubs, one_each
from reliant.records import Snapshot, Triplets
from reliant.store.codec import read_value, settled, write_value
from tiny_runs import SIZE, pictures

IMAGES, DIMENSION = 20, 6
CPU = torch.device("cpu")


def convolutions(dropout: nn.Module) -> Network:
    """Two layers, batch norm and dropout, drawn from one seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        trunk = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.AvgPool2d(2))
        head = nn.Sequential(nn.Flatten(), dropout, nn.Linear(72, DIMENSION))
    phi = Network(Colour(), trunk, head, DIMENSION, SIZE)
    return phi.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]


def counted() -> Network:
    return convolutions(CounterDropout(0.3))


def drawn() -> Network:
    """As a user's network may be: its dropout draws from torch's own generator."""
    return convolutions(nn.Dropout(0.3))


def initial() -> Regression:
    return Regression(
        image_of_entry=np.arange(IMAGES, dtype=np.int32),
        group_of_entry=None,
        targets=one_each(IMAGES, DIMENSION, 1),
        device=CPU,
        key=(0, "initial"),
        reassign_every=2,
    )


def local(view: str = "clean", unit: str = "group") -> Regression:
    owners = np.repeat(np.arange(8, dtype=np.int32), [4, 3, 3, 2, 2, 1, 1, 1])
    return Regression(
        image_of_entry=np.random.default_rng(3).permutation(IMAGES)[: len(owners)].astype(np.int32),
        group_of_entry=owners,
        targets=around_hubs(owners, DIMENSION, 2, 0.4, projected=True),
        device=CPU,
        key=(0, "local"),
        loss="softmax",
        unit=unit,
        view=view,
        reassign_every=2,
        block=5,
    )


def refinement() -> Refinement:
    random = np.random.default_rng(5)
    columns = {name: random.integers(0, IMAGES, 30).astype(np.int32) for name in ("anchor", "similar", "dissimilar")}
    filler = np.zeros(30, np.int32)
    triplets = Triplets(**columns, group=filler, subset=filler, kind=filler)
    return Refinement(local(), triplets, margin=0.2, weight=1.0, squared=False, key=(0, "refine"))


def ranked() -> TripletRanking:
    owners = np.repeat(np.arange(6, dtype=np.int32), 3)
    return TripletRanking(
        image_of_entry=np.random.default_rng(3).permutation(IMAGES)[: len(owners)].astype(np.int32),
        group_of_entry=owners,
        subset_of_group=np.array([0, 1, 0, 1, 0, 1], np.int32),
        margin=0.5,
        squared=False,
        device=CPU,
        key=(0, "ranking"),
    )


def work(images: float, *, pixels: NDArray[np.uint8] | None = None, recipe: str = "resized-crop-colour", **keys: Any) -> Work:
    """``keys`` of Work are its own, the others the optimiser's."""
    own = {name: keys.pop(name) for name in ("slot", "watch", "key", "advice") if name in keys}
    precision = keys.pop("precision", "auto")
    optimiser = {"batch": 5, "rate": 0.1, "schedule": "one-cycle", "warmup": 0.3, "weight_decay": 1e-3, "reduction": "mean"}
    return Work(
        pixels=Pixels(pictures(IMAGES, channels=3) if pixels is None else pixels, CPU),
        device=Device(Machine(device="cpu", threads=1, precision=precision)),
        augment=Augment(recipe=recipe),
        optimiser=Local(**{**optimiser, **keys}),
        images=images,
        **{"key": (0, "work"), **own},
    )


class Stopped(Exception):
    """The stage was interrupted."""


class StoppingSlot:
    """A checkpoint on disk, written after ``steps`` steps, at which the stage stops; with 0 it never does."""

    def __init__(self, folder: Path, steps: int) -> None:
        self.folder, self.steps = folder, steps

    def due(self) -> bool:
        self.steps -= 1
        return self.steps == 0

    def save(self, snapshot: Snapshot) -> None:
        self.folder.mkdir()
        write_value(self.folder, settled(snapshot))
        raise Stopped

    def load(self) -> Snapshot | None:
        found = read_value(self.folder, "snapshot") if self.folder.exists() else None
        assert found is None or isinstance(found, Snapshot)
        return found


class Plain(nn.Module):
    """Features (B, 1) that are one weight, whatever the image; views and batches are noted."""

    size = SIZE

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.seen: list[torch.Tensor] = []

    def forward(self, views: torch.Tensor) -> torch.Tensor:
        self.seen.append(views)
        return self.weight.expand(len(views), 1)


class Summed:
    """An objective that sums what it is given, and notes what it is asked."""

    def __init__(self, entries: int, images_per_entry: int = 1, asks: int = 0) -> None:
        self.entries, self.images_per_entry, self.asks = entries, images_per_entry, asks
        self.batches: list[tuple[int, list[int]]] = []
        self.epochs: list[int] = []
        self.scale: Callable[[int], float] = lambda step: 1.0
        self.churn = 0.0

    def reassigns(self, epoch: int) -> bool:
        return False

    def images(self, entries: NDArray[np.int64], step: int) -> NDArray[np.int32]:
        return np.tile(entries % IMAGES, self.images_per_entry).astype(np.int32)

    def before_epoch(self, epoch: int, ask: Any) -> None:
        self.epochs.append(epoch)
        if self.asks:
            assert ask(np.arange(self.asks, dtype=np.int32) % IMAGES).shape == (self.asks, 1)

    def loss(self, features: torch.Tensor, entries: NDArray[np.int64], epoch: int) -> dict[str, torch.Tensor]:
        step = len(self.batches)
        self.batches.append((epoch, entries.tolist()))
        return {"loss": features[: len(entries)].sum() * self.scale(step), "step": torch.tensor(float(step)) * len(entries)}

    def state(self) -> dict[str, NDArray[Any]]:
        return {}

    def load_state(self, arrays: dict[str, NDArray[Any]]) -> None:
        return None
