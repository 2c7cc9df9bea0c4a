"""How compact a group is by chance (Sec. 3.3): features (N, D) → ChanceThresholds for the sizes 2 … cap.

The null "random" is the paper's: groups of images drawn at random from the whole set. "pairs" and "local" are ours and
stricter: with the paper's null a group of nearest neighbours hardly ever stops growing.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, UsageError, must
from ..randomness import generator
from ..records import ChanceThresholds, Features, Floats, Groups, Neighbours
from .distances import prefix_diameters
from .neighbours import nearest_of

if TYPE_CHECKING:
    from ..config import Chance

# Images whose surroundings are looked at for the local null.
_REFERENCES = 256


def thresholds(features: Features, neighbours: Neighbours | None, config: Chance, cap: int, seed: int) -> ChanceThresholds:
    """The limit of every size h is the p-th percentile of the diameters of ``config.groups`` random groups of h images.

    A random group of ``cap`` distinct images gives one sample of every size: its first h images are a random group of h.
    Where there are fewer images than ``cap``, the cap shrinks to N.

    * ``random``: the images are drawn from the whole set; one limit a size.
    * ``pairs``: as ``random``, but the limit of two images holds for every size.
    * ``local``: see :func:`_local`; limits (N, cap − 1).
    """
    cap = max(1, min(cap, len(features)))
    if config.null == "local" and cap > 1:
        if neighbours is None:
            raise UsageError(_NEEDS_NEIGHBOURS)
        return _local(features, neighbours, config, cap, seed)
    drawn = distinct_draws(generator(seed, "chance"), len(features), config.groups, cap)
    samples = np.sort(prefix_diameters(features.values, drawn).T, axis=1)
    limits = percentile_of(samples, config.percentile)[None]
    if config.null == "pairs":
        limits = np.repeat(limits[:, :1], limits.shape[1], axis=1)
    return ChanceThresholds(limits=limits, samples=samples, percentile=config.percentile, null=config.null)


_NEEDS_NEIGHBOURS = "chance.null = 'local' needs the neighbours of every image, got none; pass them or use 'random' or 'pairs'"


def percentile_of(samples: Floats, percentile: float) -> Floats:
    """The smallest sample of each sorted row with at least p % of the row at or below it (the inverse of its distribution).

    It is a sample, never a value between two, so fewer than p % of the random groups lie strictly below the limit.
    """
    count = samples.shape[1]
    place = math.ceil(Fraction(str(percentile)) * count / 100)
    return np.asarray(samples[:, min(max(place, 1), count) - 1])


def distinct_draws(random: np.random.Generator, total: int, rows: int, size: int) -> NDArray[np.int64]:
    """(rows, size) numbers of 0 … total − 1, no two of a row equal, every such row equally likely; size ≤ total."""
    drawn = np.empty((rows, size), dtype=np.int64)
    for column in range(size):
        # The n-th of the numbers that the row does not hold yet: each smaller one that it holds pushes n up by one.
        fresh = random.integers(total - column, size=rows) if rows and total else np.zeros(rows, dtype=np.int64)
        for held in np.sort(drawn[:, :column], axis=1).T:
            fresh += fresh >= held
        drawn[:, column] = fresh
    return drawn


def _local(features: Features, neighbours: Neighbours, config: Chance, cap: int, seed: int) -> ChanceThresholds:
    """The null of a seed's wider neighbourhood, without looking at all of them.

    1. Up to 256 reference images are drawn. Random group g is drawn from the ``pool`` images nearest to reference
       g mod 256 (itself among them), which gives its diameters ν_g(h).
    2. A scale for every image, s(r) = α + β·r with r the distance to its k-th neighbour: the least-squares line (β ≥ 0) through
       the groups' mean diameters. r is cut to what the references span, and s is never below a hundredth of its mean there.
    3. ν_g(h) / s(reference of g) is taken to be distributed alike everywhere. So the limit of size h for seed i is s(i) times
       its p-th percentile. ``samples`` are these ratios times the mean scale of all images.
    """
    random, total = generator(seed, "chance", "local"), len(features)
    references = np.sort(distinct_draws(random, total, 1, min(_REFERENCES, total))[0])
    pool = min(max(config.pool, cap), total)
    pools = references[:, None]
    if pool > 1:
        pools = np.concatenate([pools, nearest_of(features, references, pool - 1).ids], axis=1)
    reference = np.arange(config.groups) % max(len(references), 1)
    drawn = distinct_draws(random, pool, config.groups, cap)
    diameters = prefix_diameters(features.values, pools[reference[:, None], drawn])
    reach = neighbours.distances.max(axis=1, initial=0).astype(np.float64)
    scales = _fitted_scales(reach, reach[references[reference]], diameters)
    ratios = diameters / scales[references[reference]][:, None]
    samples = np.sort((ratios * scales.mean()).T, axis=1).astype(np.float32)
    limits = scales[:, None] / scales.mean() * percentile_of(samples, config.percentile)
    return ChanceThresholds(limits=limits.astype(np.float32), samples=samples, percentile=config.percentile, null=config.null)


def _fitted_scales(reach: NDArray[np.float64], measured: NDArray[np.float64], diameters: Floats) -> NDArray[np.float64]:
    """s of every image from the k-th neighbour distances (N,), those of the groups' references (G,) and their diameters."""
    if not diameters.size:
        return np.ones(len(reach))
    mean = diameters.mean(axis=1, dtype=np.float64)
    centred = measured - measured.mean()
    spread = float((centred * centred).sum())
    slope = max(float((centred * mean).sum()) / spread, 0.0) if spread > 0 else 0.0
    inside = np.clip(reach, measured.min(), measured.max())
    scales = np.maximum(mean.mean() + slope * (inside - measured.mean()), mean.mean() / 100)
    # Where all sampled diameters are 0, so is every limit, whatever the scale.
    return np.where(scales > 0, scales, 1.0)


def chance_of(groups: Groups, limits: ChanceThresholds) -> Floats:
    """The fraction of random groups of equal size that are at least as compact, (G,); 1 for a group of one image.

    Under the local null a diameter is first brought from its seed's scale to the mean one of the samples.
    """
    chance = np.ones(len(groups), dtype=np.float32)
    sizes, seeds = groups.sizes, groups.seeds
    largest = int(sizes.max(initial=0))
    must(largest <= limits.cap, DataError, f"chance thresholds reach groups of {limits.cap}, got a group of {largest} images")
    reference = percentile_of(limits.samples, limits.percentile)
    for size in range(2, largest + 1):
        chosen = np.flatnonzero(sizes == size)
        diameters: NDArray[Any] = groups.diameters[chosen]
        if limits.null == "local":
            own = limits.limits[seeds[chosen], size - 2].astype(np.float64)
            diameters = np.divide(diameters * reference[size - 2], own, out=diameters.astype(np.float64), where=own > 0)
        samples = limits.samples[size - 2]
        chance[chosen] = np.searchsorted(samples, diameters, side="right") / len(samples)
    return chance
