"""What all stages of a run share: its folder, its images on the device, its configuration, and how a network is saved.

A stage of training saves a Snapshot: ``network.*`` weights; ``assignment`` where the control goes on from it; ``present``,
the target of every image, where the next stage inherits hubs; and a description from which the network is built again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from .. import config as configuration
from ..learning import loop, network, objectives
from ..learning.device import Device
from ..learning.pixels import Pixels
from ..randomness import derive
from ..records import Images, Snapshot
from ..store import CheckpointSlot, Run, Stored

Watch = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Representation:
    """φ of one round: the weights of the chosen learner or of the aggregate, and all learners that it was taken from.

    ``starts`` is what the next round goes on from: the chosen learner, or each of the learners of an aggregate.
    """

    stored: Stored
    learners: Sequence[Stored]
    starts: Sequence[Stored]


@dataclass(frozen=True)
class Mined:
    """What was mined from one φ, and from which features."""

    features: Stored
    neighbours: Stored
    relations: Stored


class Bench:
    """The place where stages are worked on."""

    def __init__(
        self,
        run: Run,
        images: Images,
        config: configuration.Config,
        *,
        trunk: nn.Module | None = None,
        init: Snapshot | None = None,
        watch: Watch | None = None,
    ) -> None:
        self.run, self.images, self.config = run, images, config
        self.trunk, self.init, self.watch = trunk, init, watch
        self.device = Device(config.machine)
        self.pixels = Pixels(images.pixels, self.device.torch)
        self.seed = config.seed
        # What every training stage depends on besides its own inputs.
        self.source = [images.digest, *([] if trunk is None else [digest_of(network.snapshot(trunk).arrays)])]

    def stage(
        self, place: str, compute: Callable[[CheckpointSlot], Any], keys: dict[str, Any], inputs: Sequence[str]
    ) -> Stored:
        return self.run.stage(place, compute, keys=keys, inputs=list(inputs), version=1)

    def keys(self, *names: str) -> dict[str, Any]:
        """The parts of the configuration that a stage reads: whole tables, or single keys."""
        rows = configuration.flat(self.config)
        return {name: value for name, value in rows.items() if name in names or name.partition(".")[0] in names}

    def build(self, *key: int | str) -> network.Network:
        """A fresh network."""
        seed = derive(self.seed, "network", *key)
        return network.build(self.config.network, self.pixels.channels, seed, self.trunk).to(self.device.torch)

    def load(self, saved: Snapshot) -> nn.Module:
        """The network that a stage saved."""
        return network.load(saved, self.trunk).to(self.device.torch)

    def train(
        self,
        phi: nn.Module,
        objective: objectives.Objective,
        optimiser: configuration.Optimiser,
        images: float,
        key: tuple[int | str, ...],
        slot: CheckpointSlot,
    ) -> list[dict[str, Any]]:
        """Spend a budget of images on an objective; the rows of its history."""
        work = loop.Work(
            pixels=self.pixels,
            device=self.device,
            augment=self.config.augment,
            optimiser=optimiser,
            images=images,
            key=key,
            slot=slot,
            watch=self.watch,
            advice=f"{type(optimiser).__name__.lower()}.batch",
        )
        history = loop.train(phi, objective, work)
        slot.spend(passes=history.images / len(self.images), peak_bytes=self.device.peak_bytes())
        return history.rows()

    def trained(
        self,
        phi: nn.Module,
        epochs: list[dict[str, Any]],
        assignment: NDArray[np.int32] | None = None,
        present: NDArray[np.float32] | None = None,
    ) -> Snapshot:
        """What a stage of training saves."""
        saved = network.snapshot(phi)
        arrays: dict[str, NDArray[Any]] = {f"network.{name}": array for name, array in saved.arrays.items()}
        if assignment is not None:
            arrays["assignment"] = assignment
        if present is not None:
            arrays["present"] = present
        description = network.describe(self.config.network, self.pixels.channels, own_trunk=self.trunk is not None)
        return Snapshot(arrays=arrays, meta={**description, "epochs": epochs})

    def present(self, objective: objectives.Regression, before: NDArray[np.float32] | None) -> NDArray[np.float32] | None:
        """(N, D): the target that an image has now; where it has none in this subset, the one that it had before.

        Without decomposition an image has several; the last of them is kept.
        """
        if self.config.targets.hubs != "inherited":
            return None
        shape = (len(self.images), self.config.network.dimension)
        present = np.full(shape, np.nan, np.float32) if before is None else before.copy()
        present[objective.image_of_entry] = objective.present_targets()
        return present


def digest_of(arrays: dict[str, NDArray[Any]]) -> str:
    """A digest of named arrays, for weights that come from outside a run."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype} {array.shape} ".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
