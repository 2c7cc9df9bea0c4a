"""What a run will cost, before it runs: passes, seconds, disk, memory.

A configuration, the number and channels of the images → a Cost. Passes are fixed by the configuration alone; seconds come from
a few timed steps of the real network on this machine, and from the rate of its matrix products for the search of neighbours.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from .learning import loop, network, objectives, targets
from .learning.device import Device
from .learning.pixels import Pixels
from .records import Images

if TYPE_CHECKING:
    from .config import Config

# Steps that are timed at most, after one that is not (it compiles kernels), and about how long that may take.
_STEPS, _PATIENCE = 12, 4.0
# What a search of neighbours costs beyond its matrix products: the selection.
_SELECTION = 2.0
# Mining beyond the neighbours: random groups, growing, evidence, subsets, triplets, seconds an image (measured, docs/log.md).
_MINING = 2e-4


@dataclass(frozen=True, kw_only=True)
class Cost:
    """``passes``: images drawn / N, over all learners; ``parts``: the passes of each kind of stage."""

    passes: float
    seconds: float
    disk_bytes: int
    memory_bytes: int
    images_per_second: float
    parts: dict[str, float]


def estimate(config: Config, images: Images, started: bool = False) -> Cost:
    """Times a few steps and adds up; ``started``: the run begins with given weights instead of an initialisation."""
    device = Device(config.machine)
    rate, weights = _training_rate(config, images, device)
    parts = passes_of(config, started)
    count, rounds = len(images), config.rounds.count
    dimension = config.network.dimension
    search = (rounds + 1) * (1 + config.features.views) * _SELECTION * 2 * count**2 * dimension / _product_rate(device)
    seconds = sum(parts.values()) * count / rate + search + (rounds + 1) * count * _MINING
    learners = _learners(config)
    stages = 2 + rounds * (1 + learners * (2 if config.refine.passes else 1))
    mined = count * (4 * dimension + 8 * config.neighbours.k)
    kept = mined * (rounds + 1 if config.store.features == "all" else 2) + (rounds + 1) * count * 8 * config.groups.cap
    activations = config.local.batch * 4 * 60 * config.network.size**2
    return Cost(
        passes=sum(parts.values()),
        seconds=seconds,
        disk_bytes=int(stages * weights + kept),
        memory_bytes=int(images.pixels.nbytes + 3 * weights + 3 * mined + activations + 400e6),
        images_per_second=rate,
        parts=parts,
    )


def nothing() -> Cost:
    """Of a run that is finished."""
    return Cost(passes=0.0, seconds=0.0, disk_bytes=0, memory_bytes=0, images_per_second=0.0, parts={})


def passes_of(config: Config, started: bool = False) -> dict[str, float]:
    """The passes of a whole run, fixed before anything is mined."""
    rounds = config.rounds.count
    learners = _learners(config)
    mined = learners if config.features.learners == "all" else 1
    forward = (rounds + 1) * (mined + config.features.views + config.features.agreement)
    forward += rounds * learners * (config.rounds.choice == "best")
    return {
        "initial": 0.0 if started else config.initial.passes,
        "local": rounds * config.local.passes,
        "refine": rounds * config.refine.passes,
        "features": forward * loop.FORWARD_SHARE,
    }


def _learners(config: Config) -> int:
    """How many networks a round trains; mining may find fewer subsets."""
    one = config.rounds.control or config.rounds.objective == "triplets" or config.subsets.mode == "whole"
    return 1 if one else config.subsets.count


def _training_rate(config: Config, images: Images, device: Device) -> tuple[float, int]:
    """Images a second of training, and the bytes of the weights."""
    phi = network.build(config.network, images.pixels.shape[3], 0).to(device.torch)
    size = sum(value.numel() * value.element_size() for value in phi.state_dict().values())
    batch = min(config.local.batch, len(images), max(8, int(4e6 / config.network.size**2)))
    rows = np.arange(batch, dtype=np.int32)
    objective = objectives.Regression(
        image_of_entry=rows,
        group_of_entry=None,
        targets=targets.one_each(batch, config.network.dimension, 0),
        device=device.torch,
        key=(0, "cost"),
        reassign_every=0,
    )
    optimiser = config.local.model_copy(update={"batch": batch, "schedule": "constant", "rate": 1e-6})
    pixels = Pixels(images.pixels[:batch], device.torch)

    def steps(number: int) -> float:
        work = loop.Work(
            pixels=pixels, device=device, augment=config.augment, optimiser=optimiser, images=number * batch, key=(0, "cost")
        )
        begun = time.perf_counter()
        loop.train(phi, objective, work)
        if device.torch.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - begun

    first = steps(1)
    number = max(1, min(_STEPS, math.floor(_PATIENCE / max(first, 1e-3))))
    return number * batch / steps(number), size


def _product_rate(device: Device) -> float:
    """Multiply-adds × 2 a second of float32 products on the host, where neighbours are sought."""
    table = torch.rand(512, 512)
    table @ table
    begun = time.perf_counter()
    for _ in range(8):
        table @ table
    return 8 * 2 * 512**3 / max(time.perf_counter() - begun, 1e-6)


def readable(cost: Cost) -> dict[str, Any]:
    """For ``--json``."""
    return {
        "passes": round(cost.passes, 2),
        "seconds": round(cost.seconds, 1),
        "disk_bytes": cost.disk_bytes,
        "memory_bytes": cost.memory_bytes,
        "images_per_second": round(cost.images_per_second, 1),
        "parts": {name: round(value, 2) for name, value in cost.parts.items()},
    }
