"""Trunks (images → last convolutional map) by name, and the head that maps it to φ.

============== =========================================================== ==============================================
name           trunk                                                       for
============== =========================================================== ==============================================
small          strided stem, four 3×3 convolutions, 0.4M weights            28–64 px on a CPU (ours)
convnet        four 3×3 convolutions, 2.0M weights                          32–64 px on a GPU (ours)
alexnet        AlexNet with batch norm; fc6, fc7 in the head                224 px, D = 2048 (Sec. 4.1)
exemplar       ExemplarCNN's 64c5-128c5-256c5-512f                          STL-10, D = 128 (Sec. 4.2)
exemplar-small ExemplarCNN's 64c5-64c5-128f                                 its small network
exemplar-large ExemplarCNN's 92c5-256c5-512c5-1024f                         its large network
resnet18, 50   He et al.; a 3×3 stem without pooling up to 64 px            any size
============== =========================================================== ==============================================
"""

from __future__ import annotations

import difflib
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..errors import ConfigError
from ..randomness import uniforms


class CounterDropout(nn.Module):
    """Dropout whose mask is a function of ``key``, which the loop sets for every step; so a resumed run drops the same."""

    def __init__(self, share: float = 0.5) -> None:
        super().__init__()
        self.share = share
        self.key = 0

    def forward(self, values: Tensor) -> Tensor:
        if not self.training:
            return values
        rows = torch.arange(len(values), device=values.device)
        kept = uniforms(self.key, rows, values.shape[1]) >= self.share
        dropped: Tensor = values * kept / (1 - self.share)
        return dropped


def _convolution(inputs: int, outputs: int, kernel: int, stride: int = 1, norm: bool = True) -> list[nn.Module]:
    """Convolution, batch norm, ReLU. A bias before batch norm would be taken out again."""
    layers: list[nn.Module] = [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=not norm)]
    return [*layers, nn.BatchNorm2d(outputs), nn.ReLU()] if norm else [*layers, nn.ReLU()]


class _FourByFour(nn.Module):
    """Average larger maps down to about 4×4; by a fixed window: an adaptive pool's gradient has no fixed order on CUDA."""

    def forward(self, maps: Tensor) -> Tensor:
        window = maps.shape[-1] // 4
        return functional.avg_pool2d(maps, window) if window > 1 else maps


def small(channels: int, size: int) -> nn.Module:
    return nn.Sequential(
        *_convolution(channels, 32, 5, stride=2),
        *_convolution(32, 64, 3),
        nn.MaxPool2d(2, ceil_mode=True),
        *_convolution(64, 128, 3),
        *_convolution(128, 256, 3),
        nn.MaxPool2d(2, ceil_mode=True),
        _FourByFour(),
    )


def convnet(channels: int, size: int) -> nn.Module:
    stem = 2 if size > 48 else 1
    return nn.Sequential(
        *_convolution(channels, 96, 5, stride=stem),
        nn.MaxPool2d(2, ceil_mode=True),
        *_convolution(96, 256, 3),
        nn.MaxPool2d(2, ceil_mode=True),
        *_convolution(256, 384, 3),
        *_convolution(384, 256, 3),
        nn.MaxPool2d(2, ceil_mode=True),
        _FourByFour(),
    )


def alexnet(channels: int, size: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(channels, 96, 11, 4, 2, bias=False),
        nn.BatchNorm2d(96),
        nn.ReLU(),
        nn.MaxPool2d(3, 2),
        *_convolution(96, 256, 5),
        nn.MaxPool2d(3, 2),
        *_convolution(256, 384, 3),
        *_convolution(384, 384, 3),
        *_convolution(384, 256, 3),
        nn.MaxPool2d(3, 2),
    )


def _exemplar(widths: tuple[int, ...]) -> Callable[[int, int], nn.Module]:
    def build(channels: int, size: int) -> nn.Module:
        layers: list[nn.Module] = []
        for depth, width in enumerate(widths):
            layers += _convolution(channels, width, 5, norm=False)
            if depth < 2:
                layers.append(nn.MaxPool2d(2, ceil_mode=True))
            channels = width
        # Its images are 32 px; a larger one is averaged to the 8×8 map that its last layer expects.
        return nn.Sequential(*layers, _EightByEight())

    return build


class _EightByEight(nn.Module):
    def forward(self, maps: Tensor) -> Tensor:
        window = maps.shape[-1] // 8
        return functional.avg_pool2d(maps, window) if window > 1 else maps


class _Residual(nn.Module):
    """A basic (3×3, 3×3) or a bottleneck (1×1, 3×3, 1×1) block."""

    def __init__(self, inputs: int, width: int, stride: int, expansion: int) -> None:
        super().__init__()
        outputs = width * expansion
        if expansion == 1:
            layers = [*_convolution(inputs, width, 3, stride), *_convolution(width, outputs, 3)[:-1]]
        else:
            layers = [
                *_convolution(inputs, width, 1),
                *_convolution(width, width, 3, stride),
                *_convolution(width, outputs, 1)[:-1],
            ]
        self.branch = nn.Sequential(*layers)
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else nn.Sequential(*_convolution(inputs, outputs, 1, stride)[:-1])

    def forward(self, maps: Tensor) -> Tensor:
        return functional.relu(self.branch(maps) + self.shortcut(maps))


def _resnet(depths: tuple[int, ...], expansion: int) -> Callable[[int, int], nn.Module]:
    def build(channels: int, size: int) -> nn.Module:
        layers = _convolution(channels, 64, 3) if size <= 64 else [*_convolution(channels, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
        inputs = 64
        for stage, depth in enumerate(depths):
            width = 64 * 2**stage
            for block in range(depth):
                layers.append(_Residual(inputs, width, 2 if stage and not block else 1, expansion))
                inputs = width * expansion
        return nn.Sequential(*layers)

    return build


def linear_head(values: int, dimension: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(values, dimension))


def _mlp_head(values: int, dimension: int) -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(values, 1024, bias=False), nn.BatchNorm1d(1024), nn.ReLU(), nn.Linear(1024, dimension)
    )


def _alexnet_head(values: int, dimension: int) -> nn.Module:
    return nn.Sequential(
        nn.Flatten(),
        CounterDropout(),
        nn.Linear(values, 4096),
        nn.ReLU(),
        CounterDropout(),
        nn.Linear(4096, 4096),
        nn.ReLU(),
        nn.Linear(4096, dimension),
    )


def _exemplar_head(hidden: int) -> Callable[[int, int], nn.Module]:
    def build(values: int, dimension: int) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(values, hidden), nn.ReLU(), CounterDropout(), nn.Linear(hidden, dimension))

    return build


_Builder = Callable[[int, int], nn.Module]

TRUNKS: dict[str, tuple[_Builder, _Builder]] = {
    "small": (small, linear_head),
    "convnet": (convnet, linear_head),
    "alexnet": (alexnet, _alexnet_head),
    "exemplar": (_exemplar((64, 128, 256)), _exemplar_head(512)),
    "exemplar-small": (_exemplar((64, 64)), _exemplar_head(128)),
    "exemplar-large": (_exemplar((92, 256, 512)), _exemplar_head(1024)),
    "resnet18": (_resnet((2, 2, 2, 2), 1), linear_head),
    "resnet50": (_resnet((3, 4, 6, 3), 4), linear_head),
}


def builders(name: str, head: str = "linear") -> tuple[_Builder, _Builder]:
    """The trunk's and the head's builder of a named network; ``head = "mlp"`` replaces the network's own."""
    if name not in TRUNKS:
        near = difflib.get_close_matches(name, TRUNKS, n=1, cutoff=0.5)
        hint = f"did you mean '{near[0]}'?" if near else f"allowed: {', '.join(TRUNKS)}"
        raise ConfigError(f"unknown network.name '{name}'; {hint}")
    trunk, own = TRUNKS[name]
    return trunk, _mlp_head if head == "mlp" else own
