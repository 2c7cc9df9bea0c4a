"""Target spaces: hubs uniform on the sphere, Gaussian points around them (Sec. 3.5.1).

Targets (a record) and point numbers (B,) → points (B, D). Points are drawn for the batch that needs them, by counter; N×D
of them are stored only where the next stage inherits hubs (``targets.hubs``).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ..randomness import derive, generator, normals
from ..records import Floats, Groups, Targets


class TargetSpace:
    """A Targets record on a device."""

    def __init__(self, targets: Targets, device: torch.device) -> None:
        self.targets = targets
        self._key = derive(targets.key, "points")
        self.hub_of_point = None if targets.hub_of_point is None else torch.from_numpy(targets.hub_of_point).long().to(device)
        self.hubs = None if targets.hubs is None else torch.from_numpy(targets.hubs).to(device)

    def __len__(self) -> int:
        return self.targets.points

    def hub(self, points: Tensor) -> Tensor:
        """(B,) point numbers → (B,) hub numbers."""
        return points if self.hub_of_point is None else self.hub_of_point[points]

    def points(self, points: Tensor) -> Tensor:
        """(B,) point numbers → (B, D) targets φ_t."""
        spec = self.targets
        hubs = self.hub(points)
        centres = uniform_hubs(spec.key, hubs, spec.dimension) if self.hubs is None else self.hubs[hubs]
        if spec.spread == 0:
            return centres
        noise = normals(self._key, points.long(), spec.dimension)
        drawn = centres + noise * (spec.spread / math.sqrt(spec.dimension))
        return functional.normalize(drawn, dim=1) if spec.projected else drawn


def uniform_hubs(key: int, hubs: Any, dimension: int) -> Any:
    """μ_l uniform on the unit sphere: (L,) hub numbers → (L, D), NumPy or torch."""
    drawn = normals(derive(key, "hubs"), hubs, dimension)
    if isinstance(drawn, np.ndarray):
        return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return functional.normalize(drawn, dim=1)


def one_each(images: int, dimension: int, key: int) -> Targets:
    """The initialisation's space: a target of its own for every image, uniform on the sphere."""
    return Targets(key=key, points=images, dimension=dimension, spread=0.0)


def around_hubs(
    groups_of_entries: NDArray[np.int32], dimension: int, key: int, spread: float, projected: bool, hubs: Floats | None = None
) -> Targets:
    """A local space: hub l for group l, drawn from the sphere unless given, and a point for every entry of the subset."""
    count = int(groups_of_entries.max()) + 1 if len(groups_of_entries) else 0
    if hubs is None:
        hubs = uniform_hubs(key, np.arange(count, dtype=np.int64), dimension).astype(np.float32)
    return Targets(
        key=key,
        points=len(groups_of_entries),
        dimension=dimension,
        spread=spread,
        hubs=hubs,
        hub_of_point=groups_of_entries,
        projected=projected,
    )


def measured_spread(values: Floats, groups: Groups, shrink: float, seed: int, sample: int = 20_000) -> float:
    """σ√D for which points around a hub lie as far apart, relative to the hubs, as a group's images do (Fig. 5b).

    Two projected points of one hub lie at a mean squared distance of 2s²/(1 + s²) for s = σ√D, two hubs at 2. So with the
    measured ratio ρ = d²(within groups)/d²(between images) this gives s² = ρ/(1 − ρ). ``shrink`` multiplies the distance:
    groups are to become more compact than they are. No label is used.
    """
    rng = generator(seed, "measured spread")
    between = _mean_square(values, *rng.integers(0, len(values), (2, sample)))
    entries = np.flatnonzero(np.repeat(groups.sizes, groups.sizes) > 1)
    if not len(entries) or between <= 0:
        return 0.0
    first = rng.choice(entries, sample)
    owner = groups.owners[first]
    # A partner among the other members of the same group, by a shift within it.
    sizes = groups.sizes[owner]
    shift = 1 + np.floor(rng.random(sample) * (sizes - 1)).astype(np.int64)
    second = groups.offsets[owner] + (first - groups.offsets[owner] + shift) % sizes
    within = _mean_square(values, groups.members[first], groups.members[second])
    ratio = min(0.95, shrink**2 * within / between)
    return math.sqrt(ratio / (1 - ratio))


def _mean_square(values: Floats, first: NDArray[Any], second: NDArray[Any]) -> float:
    different = first != second
    gaps = values[first[different]] - values[second[different]]
    return float(np.square(gaps, dtype=np.float64).sum(axis=1).mean()) if len(gaps) else 0.0
