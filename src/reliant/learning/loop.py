"""The one training loop: the order of the data, the rate, checkpoints, health and the counting of images.

objective, network, pixels → trained weights in place, and a History. What is minimised is the objective's affair.

A stage may spend a fixed number of images, stated before anything is mined; it ends with the last whole batch that fits.
An image that is only run forward counts a third.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..errors import ConfigError, TrainingError, must
from ..randomness import derive, generator
from ..records import Snapshot
from .augment import augmented
from .device import Device, memory_advice
from .features import forward_clean
from .network import key_dropout, restore
from .objectives import Objective
from .pixels import Pixels

if TYPE_CHECKING:
    from .. import config

log = logging.getLogger(__name__)

FORWARD_SHARE = 1 / 3
# On a GPU a look at the loss waits for the device; it is taken every so many steps and before every checkpoint.
_LOOK_EVERY = {"cpu": 1, "cuda": 50}


class Slot(Protocol):
    """Where a stage keeps its checkpoint; the store's CheckpointSlot, or nothing."""

    def save(self, snapshot: Snapshot) -> None: ...
    def load(self) -> Snapshot | None: ...
    def due(self) -> bool: ...


class _Spent(Exception):
    """The budget does not hold what an objective asks for before an epoch."""


@dataclass
class Epoch:
    """One row of a History; ``terms`` are means per entry."""

    epoch: int
    images: float
    terms: dict[str, float]
    churn: float
    reassigned: bool
    seconds: float


@dataclass
class History:
    """What a stage went through."""

    epochs: list[Epoch] = field(default_factory=list)
    images: float = 0.0
    steps: int = 0

    def rows(self) -> list[dict[str, Any]]:
        return [vars(epoch) for epoch in self.epochs]


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a stage of training is given besides its objective."""

    pixels: Pixels
    device: Device
    augment: config.Augment
    optimiser: config.Optimiser
    images: float  # the budget
    key: tuple[int | str, ...]
    slot: Slot | None = None
    watch: Callable[[dict[str, Any]], None] | None = None
    advice: str = "local.batch"


class Training:
    """A training stage in progress: everything that a checkpoint holds."""

    def __init__(self, network: nn.Module, objective: Objective, work: Work) -> None:
        self.network, self.objective, self.work = network, objective, work
        self.history = History()
        self.epoch, self.step_in_epoch, self.looked = 0, 0, 0
        self.batch = max(1, min(work.optimiser.batch // objective.images_per_entry, objective.entries))
        flat_norm = any(isinstance(module, nn.BatchNorm1d) for module in network.modules())
        must(
            self.batch > 1 or not flat_norm or not objective.entries,
            ConfigError,
            "this network has a batch norm in its head, which a batch of one image does not allow; "
            f"raise {work.advice}, use more images, or set network.head=linear",
        )
        self.sums: dict[str, Tensor | float] = {}
        self.seconds = 0.0
        config = work.optimiser
        self.optimiser = torch.optim.SGD(
            network.parameters(),
            lr=config.rate,
            momentum=config.momentum,
            nesterov=config.nesterov,
            weight_decay=config.weight_decay,
        )

    def run(self) -> History:
        """Train until the budget of images is spent."""
        self._resume()
        self.network.train()
        if self.objective.entries:
            with memory_advice(self.work.advice):
                while self._epoch():
                    pass
        self._look()
        if self.objective.entries and not self.history.steps:
            batch, advice = self.batch * self.objective.images_per_entry, f"raise the passes or lower {self.work.advice}"
            text = "nothing was trained: a budget of %.0f images does not reach the first batch of %d; %s"
            log.warning(text, self.work.images, batch, advice)
        return self.history

    def _epoch(self) -> bool:
        """One epoch, or what is left of it; False once the budget is spent."""
        begun = time.perf_counter()
        if self.step_in_epoch == 0:
            try:
                self.objective.before_epoch(self.epoch, self._ask)
            except _Spent:
                return False
            self.network.train()
        order = generator(*self.work.key, "order", self.epoch).permutation(self.objective.entries)
        # The last partial batch is skipped, as NAT does.
        steps = self.objective.entries // self.batch
        while self.step_in_epoch < steps:
            start = self.step_in_epoch * self.batch
            if not self._step(order[start : start + self.batch]):
                self._close_epoch(begun)
                return False
            self.step_in_epoch += 1
            if self.work.slot is not None and self.work.slot.due():
                self.seconds += time.perf_counter() - begun
                begun = time.perf_counter()
                self._checkpoint()
        self._close_epoch(begun)
        self.epoch, self.step_in_epoch = self.epoch + 1, 0
        self.sums = {}
        return True

    def _step(self, entries: NDArray[np.int64]) -> bool:
        """One step of SGD; False where the budget does not hold its images."""
        work, history = self.work, self.history
        images = self.objective.images(entries, history.steps)
        # Half an image of slack, so that a budget of whole batches is not missed by rounding.
        if history.images + len(images) > work.images + 0.5:
            return False
        counters = torch.from_numpy(np.arange(len(images), dtype=np.int64)).to(work.device.torch)
        view_key = derive(*work.key, "view", history.steps)
        views = augmented(work.pixels[images], counters, view_key, work.augment, self.network.size)  # type: ignore[arg-type]
        key_dropout(self.network, *work.key, history.steps)
        for group in self.optimiser.param_groups:
            group["lr"] = rate_at(work.optimiser, history.images / work.images)
        with work.device.autocast(), work.device.drawing(derive(*work.key, "drawing", history.steps)):
            features = self.network(views)
        losses = self.objective.loss(features.float(), entries, self.epoch)
        loss = losses["loss"] / (1 if work.optimiser.reduction == "sum" else len(entries))
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self._add(losses, len(entries))
        if (history.steps - self.looked) >= _LOOK_EVERY[work.device.torch.type] - 1:
            self._look()
        self.optimiser.step()
        history.images += len(images)
        history.steps += 1
        if work.watch is not None and work.device.torch.type == "cpu":
            work.watch({"images": history.images, "of": work.images})
        return True

    def _add(self, losses: dict[str, Tensor], entries: int) -> None:
        for name, value in losses.items():
            self.sums[name] = self.sums.get(name, 0.0) + value.detach().double()
        self.sums["entries"] = self.sums.get("entries", 0.0) + float(entries)

    def _look(self) -> None:
        """NaN and infinity: on a CPU before the step that they would poison, on a GPU before a checkpoint at the latest."""
        self.looked = self.history.steps
        total = float(self.sums.get("loss", 0.0))
        if not math.isfinite(total):
            raise TrainingError(
                f"the loss became {total} in epoch {self.epoch} after {self.history.steps} steps; the state before it is kept. "
                f"Lower the rate (now {self.work.optimiser.rate}) or set machine.precision=fp32"
            )

    def _ask(self, images: NDArray[np.int32]) -> Tensor:
        """φ of clean images, for an assignment that is solved before an epoch."""
        cost, batch = len(images) * FORWARD_SHARE, self.batch * self.objective.images_per_entry
        # An assignment with which no batch is trained would be wasted.
        if self.history.images + cost + batch > self.work.images + 0.5:
            raise _Spent
        self.history.images += cost
        return forward_clean(self.network, self.work.pixels, images, self.work.device)

    def _close_epoch(self, begun: float) -> None:
        self.seconds += time.perf_counter() - begun
        entries = float(self.sums.get("entries", 0.0))
        if not entries:
            return
        terms = {name: float(value) / entries for name, value in self.sums.items() if name != "entries"}
        row = Epoch(
            epoch=self.epoch,
            images=self.history.images,
            terms=terms,
            churn=self.objective.churn,
            reassigned=self.objective.reassigns(self.epoch),
            seconds=round(self.seconds, 3),
        )
        self.history.epochs.append(row)
        self.seconds = 0.0
        if self.work.watch is not None:
            self.work.watch({"images": self.history.images, "of": self.work.images, "epoch": vars(row)})

    def _checkpoint(self) -> None:
        assert self.work.slot is not None
        self._look()
        arrays = {f"weights.{name}": value.detach().cpu().numpy().copy() for name, value in self.network.state_dict().items()}
        for place, parameter in enumerate(self.network.parameters()):
            momentum = self.optimiser.state[parameter].get("momentum_buffer")
            if momentum is not None:
                arrays[f"momentum.{place}"] = momentum.detach().cpu().contiguous().numpy().copy()
        arrays |= {f"objective.{name}": array for name, array in self.objective.state().items()}
        meta = {
            "epoch": self.epoch,
            "step_in_epoch": self.step_in_epoch,
            "steps": self.history.steps,
            "images": self.history.images,
            "seconds": self.seconds,
            "sums": {name: float(value) for name, value in self.sums.items()},
            "epochs": self.history.rows(),
        }
        self.work.slot.save(Snapshot(arrays=arrays, meta=meta))

    def _resume(self) -> None:
        found = self.work.slot.load() if self.work.slot is not None else None
        if found is None:
            return
        device = self.work.device.torch
        restore(self.network, _below(found.arrays, "weights."))
        momenta = _below(found.arrays, "momentum.")
        for place, parameter in enumerate(self.network.parameters()):
            if str(place) in momenta:
                buffer = torch.from_numpy(np.array(momenta[str(place)])).to(device)
                # In the parameter's own memory layout: a layout of its own would change the order of additions.
                self.optimiser.state[parameter]["momentum_buffer"] = torch.empty_like(parameter).copy_(buffer)
        self.objective.load_state(_below(found.arrays, "objective."))
        meta = found.meta
        self.epoch, self.step_in_epoch = meta["epoch"], meta["step_in_epoch"]
        self.history = History(epochs=[Epoch(**row) for row in meta["epochs"]], images=meta["images"], steps=meta["steps"])
        self.looked = self.history.steps
        self.seconds = meta["seconds"]
        self.sums = dict(meta["sums"])


def train(network: nn.Module, objective: Objective, work: Work) -> History:
    """Train ``network`` in place on ``objective`` until the budget of ``work`` is spent."""
    return Training(network, objective, work).run()


def rate_at(config: config.Optimiser, done: float) -> float:
    """The learning rate after a share of the budget."""
    if config.schedule == "constant":
        return config.rate
    if config.schedule == "one-cycle" and done < config.warmup:
        return config.rate * (0.04 + 0.96 * done / config.warmup)
    rising = config.warmup if config.schedule == "one-cycle" else 0.0
    falling = (done - rising) / (1 - rising)
    return config.rate * 0.5 * (1 + math.cos(math.pi * min(1.0, falling)))


def _below(arrays: dict[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
