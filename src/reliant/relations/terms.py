"""Every term of Eq. 1 (Sec. 3.4) for a partition: Groups, Subsets and Features → named numbers.

S_kl is the mean distance of the images of group k to those of group l. The paper minimises tr(AᵀSA) although it wants groups
that are far apart; here the distance enters the objective with a minus, so that smaller is better.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..randomness import generator
from ..records import Features, Floats, Groups, Subsets
from .centres import centres
from .distances import between, unit_frame
from .neighbours import nearest_of

if TYPE_CHECKING:
    from ..config import Partition

Numbers = NDArray[np.float64]

# Up to so many groups, and so many products of numbers, S is summed in full; beyond, it is sampled.
_GROUPS, _WORK = 5_000, 1 << 39
_SAMPLES = 1 << 18
_NEAREST = 4096
_TILE = 1024


def terms(groups: Groups, subsets: Subsets, features: Features, config: Partition, seed: int) -> dict[str, float]:
    """The terms of Eq. 1 and what to compare them with. A subset of a single group has no distance and is left out of means.

    * ``distance``: the mean of S_kl over the pairs of groups of a subset (plain L2), then over the subsets; in full up to 5,000
      groups, beyond from an unbiased sample of 262,144 pairs of images, with ``distance_standard_error``.
    * ``distance_squared``: the same with squared L2, in full in linear time: |m_k − m_l|² + v_k + v_l.
    * ``distance_random``: ``distance`` of groups drawn from all groups into subsets of the same sizes.
    * ``nearest``: the mean distance of a group's mean to the nearest other mean of its subset (up to 4,096 groups a subset).
    * ``overlap``: Σ_k distinct images of X̄_k, the λ1 term with p → 0. ``coverage``: distinct images of the union, the λ2 term.
    * ``objective``: −Σ_k Σ_{g ≠ h ∈ X̄_k} S_gh − λ1·overlap − λ2·coverage.
    """
    parts = [subsets.groups_of(subset) for subset in range(subsets.count)]
    random = generator(seed, "subsets", "terms")
    chosen = random.permutation(len(groups))[: sum(map(len, parts))]
    drawn = np.split(chosen, np.cumsum([len(part) for part in parts])[:-1]) if parts else []
    in_full = _affordable(groups, parts, features)
    distances, errors = _distances(groups, parts, features, in_full, random)
    shuffled, _ = _distances(groups, drawn, features, in_full, random)
    images = [np.unique(groups.select(part).members) for part in parts]
    overlap = sum(map(len, images))
    coverage = len(np.unique(np.concatenate(images))) if images else 0
    pairs = sum(len(part) * (len(part) - 1) * value for part, value in zip(parts, distances) if len(part) > 1)
    result = {
        "distance": _mean(distances),
        "distance_squared": _mean(np.asarray([_squared(groups.select(part), features) for part in parts])),
        "distance_random": _mean(shuffled),
        "nearest": _mean_nearest(groups, parts, features, random),
        "overlap": float(overlap),
        "coverage": float(coverage),
        "objective": float(-pairs - config.overlap * overlap - config.coverage * coverage),
    }
    if not in_full:
        result["distance_standard_error"] = float(np.sqrt(np.nansum(errors**2)) / max(1, np.isfinite(errors).sum()))
    return result


def _mean(values: Numbers) -> float:
    """The mean of what was measured, 0 where nothing was."""
    measured = values[np.isfinite(values)]
    return float(measured.mean()) if len(measured) else 0.0


def _affordable(groups: Groups, parts: list[NDArray[np.int64]], features: Features) -> bool:
    work = sum(int(groups.sizes[part].sum()) ** 2 for part in parts) * features.values.shape[1]
    return sum(map(len, parts)) <= _GROUPS and work <= _WORK


def _distances(
    groups: Groups, parts: list[NDArray[np.int64]], features: Features, in_full: bool, random: np.random.Generator
) -> tuple[Numbers, Numbers]:
    """The mean of S over the pairs of every subset (K,), NaN where there is no pair, and the standard errors (K,)."""
    values, errors = np.full(len(parts), np.nan), np.full(len(parts), np.nan)
    for place, part in enumerate(parts):
        if len(part) < 2:
            continue
        if in_full:
            values[place], errors[place] = _distance_in_full(groups.select(part), features), 0.0
        else:
            count = max(2, _SAMPLES // len(parts))
            sample = _sampled_distances(groups, part, features, count, random)
            values[place], errors[place] = sample.mean(), sample.std(ddof=1) / np.sqrt(count)
    return values, errors


def _distance_in_full(groups: Groups, features: Features) -> float:
    """The mean of S over all pairs of these groups, in tiles of images by images; features in float32, sums in float64."""
    shift, scale = unit_frame(features.values)
    owners, weights = groups.owners, (1.0 / np.repeat(groups.sizes, groups.sizes)).astype(np.float32)
    starts = range(0, len(groups.members), _TILE)
    total = 0.0
    for start in starts:
        rows = slice(start, start + _TILE)
        left = ((features.values[groups.members[rows]] - shift) / scale).astype(np.float32)
        # |a|² + |b|² − 2ab as one product: (−2a, |a|², 1) · (b, 1, |b|²).
        left = _with_columns(-2 * left, np.einsum("nd,nd->n", left, left), np.ones(len(left), np.float32))
        for other in starts[start // _TILE :]:
            columns = slice(other, other + _TILE)
            right = ((features.values[groups.members[columns]] - shift) / scale).astype(np.float32)
            right = _with_columns(right, np.ones(len(right), np.float32), np.einsum("nd,nd->n", right, right))
            distances = left @ right.T
            np.sqrt(np.maximum(distances, 0, out=distances), out=distances)
            if owners[rows][-1] >= owners[columns][0]:
                distances[owners[rows, None] == owners[columns]] = 0
            part = float(weights[rows].astype(np.float64) @ (distances @ weights[columns]))
            total += part if other == start else 2 * part
    return total * scale / (len(groups) * (len(groups) - 1))


def _with_columns(rows: Floats, first: Floats, second: Floats) -> Floats:
    return np.concatenate([rows, first[:, None], second[:, None]], axis=1)


def _sampled_distances(
    groups: Groups, part: NDArray[np.int64], features: Features, count: int, random: np.random.Generator
) -> Numbers:
    """Distances of images drawn uniformly from two different groups, themselves drawn uniformly: their mean is that of S."""
    first = random.integers(len(part), size=count)
    second = random.integers(len(part) - 1, size=count)
    second += second >= first
    images = []
    for drawn in (part[first], part[second]):
        within = random.integers(groups.sizes[drawn])
        images.append(groups.members[groups.offsets[drawn] + within])
    return between(features.values, images[0], images[1]).astype(np.float64)


def _squared(groups: Groups, features: Features) -> float:
    """The mean of the squared-L2 S over the pairs of these groups: Σ_{k≠l} |m_k − m_l|² = 2n Σ|m|² − 2|Σm|²."""
    count = len(groups)
    if count < 2:
        return float("nan")
    means, spreads = centres(groups, features)
    centred = means - means.mean(axis=0, dtype=np.float64)
    between_means = 2 * count * (centred * centred).sum() - 2 * (centred.sum(axis=0) ** 2).sum()
    return float((between_means + 2 * (count - 1) * spreads.sum()) / (count * (count - 1)))


def _mean_nearest(groups: Groups, parts: list[NDArray[np.int64]], features: Features, random: np.random.Generator) -> float:
    """Over the groups that have another in their subset, at most 4,096 a subset; each subset weighs by its number of groups."""
    sums, count = 0.0, 0
    for part in parts:
        if len(part) < 2:
            continue
        means = Features(values=centres(groups.select(part), features)[0], normalised=False)
        asked = np.arange(len(part))
        if len(part) > _NEAREST:
            asked = np.sort(random.permutation(len(part))[:_NEAREST])
        sums += float(nearest_of(means, asked, 1).distances.mean(dtype=np.float64)) * len(part)
        count += len(part)
    return sums / count if count else 0.0
