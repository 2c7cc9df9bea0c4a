"""Training here: our step against eager float32 NCHW and against the bf16 product rate; the share of assignment.

All ratios are taken within one process, interleaved and repeated; the median and the spread are given.

    python -m benchmarks.training
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from reliant import config
from reliant.learning import loop, network, objectives, targets
from reliant.learning.device import Device
from reliant.learning.pixels import Pixels
from reliant.randomness import generator

_REPEATS = 5


def main() -> dict[str, Any]:
    """One JSON-able table for the networks that a CPU trains."""
    return {
        "small": _measure("small", 28, 1, batch=256, images=4096),
        "convnet": _measure("convnet", 32, 3, batch=256, images=1024),
        "assignment": _assignment_share(),
    }


def _measure(name: str, size: int, channels: int, batch: int, images: int) -> dict[str, Any]:
    device = Device(config.Machine())
    shape = config.Network(name=name, dimension=128, size=size)
    pixels = Pixels(generator(0, "benchmark").integers(0, 256, (images, size, size, channels), dtype=np.uint8), device.torch)
    ours, plain = _ours(shape, pixels, device, batch), _eager(shape, pixels, batch)
    ratios, rates = [], []
    ours(), plain()
    for _ in range(_REPEATS):
        fast, slow = ours(), plain()
        ratios.append(slow / fast)
        rates.append(images / fast)
    flops = _flops(shape, channels)
    products = _bf16_rate()
    return {
        "images_per_second": round(float(np.median(rates)), 1),
        "ratio_to_eager_fp32_nchw": round(float(np.median(ratios)), 2),
        "ratio_spread": [round(min(ratios), 2), round(max(ratios), 2)],
        "gflop_per_image": round(flops / 1e9, 4),
        "bf16_product_gflops": round(products / 1e9, 1),
        "share_of_bf16_products": round(float(np.median(rates)) * flops / products, 3),
        "n": _REPEATS,
    }


def _ours(shape: config.Network, pixels: Pixels, device: Device, batch: int) -> Callable[[], float]:
    phi = network.build(shape, pixels.channels, 0)

    def epoch() -> float:
        objective = _objective(len(pixels), shape.dimension, device, reassign_every=0)
        optimiser = config.Initial(batch=batch, rate=1e-3, reduction="mean")
        work = loop.Work(
            pixels=pixels,
            device=device,
            augment=config.Augment(recipe="resized-crop"),
            optimiser=optimiser,
            images=len(pixels),
            key=(0, "benchmark"),
        )
        begun = time.perf_counter()
        loop.train(phi, objective, work)
        return time.perf_counter() - begun

    return epoch


def _eager(shape: config.Network, pixels: Pixels, batch: int) -> Callable[[], float]:
    """The same network, loss and optimiser as one would write them first: float32, NCHW, the same views."""
    from reliant.learning.augment import augmented

    phi = network.build(shape, pixels.channels, 0).to(memory_format=torch.contiguous_format)

    def maps(images: torch.Tensor) -> torch.Tensor:
        return phi.trunk(phi.entry(images).contiguous())

    optimiser = torch.optim.SGD(phi.parameters(), lr=1e-3, momentum=0.9)
    aims = functional.normalize(torch.randn(len(pixels), shape.dimension), dim=1)

    def epoch() -> float:
        begun = time.perf_counter()
        phi.train()
        order = np.random.permutation(len(pixels))  # noqa: NPY002  (timing only)
        for start in range(0, len(order), batch):
            rows = order[start : start + batch]
            recipe = config.Augment(recipe="resized-crop")
            views = augmented(pixels[rows], torch.arange(len(rows)), start, recipe, shape.size)
            loss = (phi.project(maps(views)) - aims[rows]).square().sum(1).mean()
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            float(loss.detach())
        return time.perf_counter() - begun

    return epoch


def _assignment_share() -> dict[str, Any]:
    """What re-assignment in blocks of 256 costs of training time, averaged over the cycle of three epochs."""
    device = Device(config.Machine())
    shape = config.Network(name="small", dimension=128, size=28)
    pixels = Pixels(generator(0, "benchmark").integers(0, 256, (4096, 28, 28, 1), dtype=np.uint8), device.torch)
    phi = network.build(shape, 1, 0)
    times: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(_REPEATS):
        for assigning in (True, False):
            objective = _objective(len(pixels), 128, device, reassign_every=1 if assigning else 0)
            optimiser = config.Initial(batch=256, rate=1e-3, reduction="mean")
            work = loop.Work(
                pixels=pixels, device=device, augment=config.Augment(), optimiser=optimiser, images=4096, key=(0, "benchmark")
            )
            begun = time.perf_counter()
            loop.train(phi, objective, work)
            times[assigning].append(time.perf_counter() - begun)
    with_, without = float(np.median(times[True])), float(np.median(times[False]))
    return {
        "share_of_an_assigning_epoch": round(1 - without / with_, 4),
        "share_of_the_cycle": round(max(0.0, with_ - without) / (with_ + 2 * without), 4),
        "block": 256,
        "n": _REPEATS,
    }


def _objective(images: int, dimension: int, device: Device, reassign_every: int) -> objectives.Regression:
    return objectives.Regression(
        image_of_entry=np.arange(images, dtype=np.int32),
        group_of_entry=None,
        targets=targets.one_each(images, dimension, 0),
        device=device.torch,
        key=(0, "benchmark"),
        reassign_every=reassign_every,
    )


def _flops(shape: config.Network, channels: int) -> float:
    """Of forward and backward: three times the forward's multiply-adds × 2, of convolutions and linear layers alone."""
    phi = network.build(shape, channels, 0)
    counted = 0.0

    def count(module: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        nonlocal counted
        if isinstance(module, nn.Conv2d):
            counted += 2 * output.numel() * module.weight[0].numel()
        if isinstance(module, nn.Linear):
            counted += 2 * output.numel() * module.in_features

    for module in phi.modules():
        module.register_forward_hook(count)
    phi.eval()(torch.zeros(1, channels, shape.size, shape.size))
    return 3 * counted


def _bf16_rate(side: int = 2048) -> float:
    table = torch.rand(side, side).bfloat16()
    rates = []
    for _ in range(_REPEATS):
        begun = time.perf_counter()
        table @ table
        rates.append(2 * side**3 / (time.perf_counter() - begun))
    return float(np.median(rates))


if __name__ == "__main__":
    import json

    print(json.dumps(main(), indent=1))
