"""φ: input stage → trunk → head, a plain ``nn.Module``.

images (B, C, size, size) float in [0, 1] → φ(x) (B, D) float32, L2-normalised; ``conv`` → the last convolutional map, flat.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ..errors import ConfigError, DataError, must
from ..randomness import derive
from ..records import Snapshot
from . import backbones
from .gradients import input_stage

if TYPE_CHECKING:
    from .. import config

# DeepCluster's bound on the values of a pooled convolutional map.
_CONV_VALUES = 10_000


class Network(nn.Module):
    """One φ_k."""

    def __init__(self, entry: nn.Module, trunk: nn.Module, head: nn.Module, dimension: int, size: int) -> None:
        super().__init__()
        self.entry, self.trunk, self.head = entry, trunk, head
        self.dimension, self.size = dimension, size

    def forward(self, images: Tensor) -> Tensor:
        return self.project(self.maps(images))

    def maps(self, images: Tensor) -> Tensor:
        """The output of the trunk."""
        entry = self.entry(images)
        maps = self.trunk(entry.contiguous(memory_format=torch.channels_last))
        return maps if isinstance(maps, Tensor) else maps[-1]

    def project(self, maps: Tensor) -> Tensor:
        """The head, and the sphere; in float32, as a norm of bf16 values is off by a percent."""
        return functional.normalize(self.head(maps).float(), dim=1)

    def conv(self, images: Tensor) -> Tensor:
        """The last convolutional map, averaged down to at most 10,000 values, flat."""
        return flat_map(self.maps(images))


def flat_map(maps: Tensor) -> Tensor:
    """(B, C, h, w) → (B, ≤ 10,000), by average pooling where it is larger; (B, C) as it is."""
    if maps.dim() == 4 and maps[0].numel() > _CONV_VALUES:
        side = max(1, int((_CONV_VALUES / maps.shape[1]) ** 0.5))
        maps = functional.adaptive_avg_pool2d(maps.float(), side)
    return maps.flatten(1).float()


class Aggregate(nn.Module):
    """φ from all K learners (Sec. 3.5.3, "aggregation strategies"): their mean, or their outputs side by side."""

    def __init__(self, learners: list[Network], mode: str) -> None:
        super().__init__()
        self.learners = nn.ModuleList(learners)
        self.mode = mode
        self.size = learners[0].size
        self.dimension = learners[0].dimension * (len(learners) if mode == "concatenate" else 1)

    def _merged(self, parts: list[Tensor]) -> Tensor:
        return torch.cat(parts, dim=1) if self.mode == "concatenate" else torch.stack(parts).mean(dim=0)

    def forward(self, images: Tensor) -> Tensor:
        return functional.normalize(self._merged([learner(images) for learner in self.learners]), dim=1)

    def conv(self, images: Tensor) -> Tensor:
        return self._merged([learner.conv(images) for learner in self.learners])  # type: ignore[operator]


def build(config: config.Network, channels: int, seed: int, trunk: nn.Module | None = None) -> Network:
    """A network with weights drawn from the seed; ``trunk`` is a user's own module in the place of the named one.

    A user's trunk keeps the weights that it came with; only the head is drawn.
    """
    make_trunk, make_head = backbones.builders("small" if trunk is not None else config.name, config.head)
    entry = input_stage(config.input)
    # Weights are drawn on the CPU under a seed of their own, and the caller's global generator is left as it was.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(seed, "weights") % 2**63)
        body = make_trunk(entry.channels, config.size) if trunk is None else copy.deepcopy(trunk)
        example = torch.zeros(2, channels, config.size, config.size)
        try:
            with torch.no_grad():
                maps = body.eval()(entry(example))
                maps = maps if isinstance(maps, Tensor) else maps[-1]
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            raise ConfigError(
                f"network '{config.name}' does not take images of {config.size} px ({reason}); set network.size"
            ) from None
        must(
            maps.dim() in (2, 4) and maps[0].numel() > 0,
            ConfigError,
            f"a trunk must give (B, C) or (B, C, h, w), got {tuple(maps.shape)}",
        )
        head = make_head(maps[0].numel(), config.dimension)
    network = Network(entry, body, head, config.dimension, config.size)
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]


def snapshot(network: nn.Module, **meta: Any) -> Snapshot:
    """The weights as a record."""
    arrays = {name: value.detach().cpu().contiguous().numpy().copy() for name, value in network.state_dict().items()}
    return Snapshot(arrays=arrays, meta=meta)


def restore(network: nn.Module, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Put saved weights into a network of the same shape."""
    own = network.state_dict()
    missing, extra = sorted(own.keys() - arrays.keys()), sorted(arrays.keys() - own.keys())
    shapes = sorted(name for name in own.keys() & arrays.keys() if tuple(own[name].shape) != tuple(arrays[name].shape))
    what = f"missing {missing[:3]}, extra {extra[:3]}, of another shape {shapes[:3]}"
    must(not (missing or extra or shapes), DataError, f"these weights belong to another network: {what}")
    network.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in arrays.items()})


def key_dropout(network: nn.Module, *key: int | str) -> None:
    """Give every dropout of the network the key of this step."""
    for place, module in enumerate(module for module in network.modules() if isinstance(module, backbones.CounterDropout)):
        module.key = derive(*key, "dropout", place)


def describe(config: config.Network, channels: int, own_trunk: bool) -> dict[str, Any]:
    """From what :func:`load` builds the same network again."""
    return {"network": config.model_dump(), "channels": channels, "own_trunk": own_trunk}


def load(saved: Snapshot, trunk: nn.Module | None = None) -> nn.Module:
    """The network, or the aggregate of learners, that a stage saved."""
    from ..config import Network as Shape

    meta = saved.meta
    must(
        trunk is not None or not meta.get("own_trunk"),
        DataError,
        "these weights belong to a network of your own; pass it again: reliant.load(path, network=module)",
    )
    shape = Shape.model_validate(meta["network"])
    own = trunk if meta.get("own_trunk") else None
    network: nn.Module = build(shape, meta["channels"], 0, own)
    if "aggregate" in meta:
        learners = [build(shape, meta["channels"], 0, own) for _ in range(meta["learners"])]
        network = Aggregate(learners, meta["aggregate"])
    restore(network, weights_of(saved))
    return network


def aggregate(learners: list[Snapshot], mode: str) -> Snapshot:
    """The weights of several learners as one φ."""
    arrays = {
        f"network.learners.{place}.{name}": array
        for place, one in enumerate(learners)
        for name, array in weights_of(one).items()
    }
    return Snapshot(arrays=arrays, meta={**learners[0].meta, "aggregate": mode, "learners": len(learners)})


def weights_of(saved: Snapshot) -> dict[str, np.ndarray[Any, Any]]:
    """The weights among the arrays of a stage."""
    return {name.removeprefix("network."): array for name, array in saved.arrays.items() if name.startswith("network.")}
