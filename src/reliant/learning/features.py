"""φ of every image: a network and pixels → Features (N, D), in the source's order.

The network is in evaluation mode and sees the clean view, or a random view where one is asked for. A batch has a fixed
size, so that the same images in the same order give the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..randomness import derive, normals
from ..records import Features, Floats
from .augment import augmented, clean
from .device import Device, memory_advice
from .pixels import Pixels

if TYPE_CHECKING:
    from .. import config

_BATCH = 512


def extract(
    network: nn.Module,
    pixels: Pixels,
    device: Device,
    layer: str = "final",
    *,
    learner: int | None = None,
    view: int = 0,
    augment: config.Augment | None = None,
    key: int = 0,
    projection: int = 0,
) -> Features:
    """Features of one layer; ``view`` > 0 is the number of a random view, drawn under ``key``."""
    parts = []
    for batch in _batches(len(pixels)):
        views = _view(pixels, batch, network, augment if view else None, key)
        parts.append(_projected(_forward(network, views, device, layer).cpu().numpy(), projection))
    values = np.concatenate(parts) if parts else np.zeros((0, 1), np.float32)
    return Features(values=unit_rows(values), layer=layer, learner=learner, view=view)


def extract_layers(network: nn.Module, pixels: Pixels, device: Device) -> dict[str, Floats]:
    """Both layers that the probes read, from one pass: "conv" as it is, "final" on the sphere."""
    parts: dict[str, list[Floats]] = {"conv": [], "final": []}
    for batch in _batches(len(pixels)):
        views = _view(pixels, batch, network, None, 0)
        with _evaluation(network), device.autocast():
            for layer, values in both_layers(network, views).items():
                parts[layer].append(values.float().cpu().numpy())
    return {layer: np.concatenate(values) for layer, values in parts.items()}


def both_layers(network: nn.Module, views: Tensor) -> dict[str, Tensor]:
    """conv and final of a batch; a single network runs its trunk once."""
    from .network import Network, flat_map

    if isinstance(network, Network):
        maps = network.maps(views)
        return {"conv": flat_map(maps), "final": network.project(maps)}
    return {"conv": network.conv(views), "final": network(views)}  # type: ignore[operator]


def forward_clean(network: nn.Module, pixels: Pixels, images: NDArray[np.int32], device: Device) -> Tensor:
    """φ of some images on the device, for an assignment. Leaves the network in evaluation mode."""
    parts = []
    for batch in _batches(len(images)):
        views = _view(pixels, images[batch], network, None, 0)
        parts.append(_forward(network, views, device, "final"))
    return torch.cat(parts)


def _projected(part: Floats, dimensions: int) -> Floats:
    """Wide features of a batch (B, D) on a random Gaussian map to ``dimensions`` values (ours).

    Distances stay as they were up to a few percent (Johnson and Lindenstrauss); N×D is never held, and mining costs a
    fraction. The map is the same in every run, so that views, layers and rounds can be compared.
    """
    width = part.shape[1]
    if not 0 < dimensions < width:
        return part
    directions = normals(derive("projection", width), np.arange(width, dtype=np.int64), dimensions)
    product: Floats = unit_rows(part) @ directions
    return product


def unit_rows(values: Floats) -> Floats:
    """Rows on the unit sphere; a zero row stays zero."""
    norms = np.linalg.norm(values, axis=1, keepdims=True)
    unit: Floats = np.divide(values, norms, out=np.zeros_like(values), where=norms > 0)
    return unit


def side_by_side(features: list[Features]) -> Features:
    """The features of several learners next to each other, normalised again (ours)."""
    if len(features) == 1:
        return features[0]
    values = unit_rows(np.concatenate([one.values for one in features], axis=1))
    return Features(values=values, layer=features[0].layer, view=features[0].view)


def _view(
    pixels: Pixels, batch: NDArray[np.int64] | NDArray[np.int32], network: nn.Module, augment: config.Augment | None, key: int
) -> Tensor:
    size: int = network.size  # type: ignore[assignment]
    if augment is None:
        return clean(pixels[batch], size)
    counters = torch.from_numpy(batch.astype(np.int64)).to(pixels.device)
    return augmented(pixels[batch], counters, key, augment, size)


def _forward(network: nn.Module, views: Tensor, device: Device, layer: str) -> Tensor:
    with _evaluation(network), device.autocast(), memory_advice("network.size"):
        values: Tensor = network(views) if layer == "final" else network.conv(views)  # type: ignore[operator]
    return values.float()


@contextmanager
def _evaluation(network: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients."""
    network.eval()
    with torch.inference_mode():
        yield


def _batches(count: int) -> Iterator[NDArray[np.int64]]:
    for start in range(0, count, _BATCH):
        yield np.arange(start, min(count, start + _BATCH))
