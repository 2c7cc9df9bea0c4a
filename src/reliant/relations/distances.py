"""The L2 distance between rows of features: one definition for every stage, the same bits in any block.

(…, D) and (…, D) float32 → (…) float32. A difference is taken and summed in float64 and the root is rounded to float32, so
that equal rows are at distance 0, d(a, b) = d(b, a), and a diameter can be compared with a neighbour's distance to the bit.
Where a matrix product is quicker it only says which pairs matter: they are then measured by this definition.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..records import Floats

# Numbers of one block of differences: 2 MB of float64, which stays in the cache.
BLOCK = 1 << 18


def apart(left: Floats, right: Floats) -> Floats:
    """The distances of rows that broadcast against each other, (…, D) → (…)."""
    # C order and a sum over the last axis: a row's sum depends on D alone, never on how many rows there are.
    difference = np.subtract(left, right, dtype=np.float64, order="C")
    difference *= difference
    return np.asarray(np.sqrt(difference.sum(axis=-1)), dtype=np.float32)


def between(values: Floats, left: NDArray[Any], right: NDArray[Any]) -> Floats:
    """The distances of the pairs of rows (left[p], right[p]), (P,) → (P,)."""
    result = np.empty(len(left), dtype=np.float32)
    step = max(1, BLOCK // values.shape[1])
    for start in range(0, len(left), step):
        part = slice(start, start + step)
        result[part] = apart(values[left[part]], values[right[part]])
    return result


def prefix_diameters(values: Floats, members: NDArray[Any]) -> Floats:
    """The diameters of every prefix of every row of members, (B, h) → (B, h − 1) for the sizes 2 … h."""
    rows, size = members.shape
    result = np.zeros((rows, max(size - 1, 0)), dtype=np.float32)
    if size < 2:
        return result
    step = max(1, 2 * BLOCK // (size * (values.shape[1] + size)))
    for start in range(0, rows, step):
        result[start : start + step] = _prefix_block(values, members[start : start + step])
    return result


def _prefix_block(values: Floats, members: NDArray[Any]) -> Floats:
    """Measure only the pairs that may set a prefix's diameter; a float32 product with its error bound says which."""
    rows, size = members.shape
    width = values.shape[1]
    with np.errstate(over="ignore", invalid="ignore"):
        # Seen from the seed, the product's error is relative to the group's own radius.
        points = values[members] - values[members[:, :1]]
        products = points @ points.transpose(0, 2, 1)
        norms = np.ascontiguousarray(products.diagonal(axis1=1, axis2=2))
        squared = norms[:, :, None] + norms[:, None, :] - 2 * products
        # The last term covers what underflows.
        error = np.float32(4 * (width + 24) * 2.0**-23) * norms.max(axis=1) + np.float32(1e-36)
        later, earlier = np.tril_indices(size, -1)
        squared = squared[:, later, earlier]
        # Pairs are ordered by their later member: the running maximum at a pair is that of a part of its prefix.
        least = np.maximum.accumulate(squared, axis=1) - error[:, None]
        # NaN (an overflow) compares as false: such a pair is measured.
        matters = ~(squared + error[:, None] < least)
    row, pair = np.nonzero(matters)
    exact = np.zeros((rows, len(later)), dtype=np.float32)
    exact[row, pair] = between(values, members[row, later[pair]], members[row, earlier[pair]])
    ends = np.cumsum(np.arange(1, size)) - 1
    return np.asarray(np.maximum.accumulate(exact, axis=1)[:, ends])


def sort_keys(distances: Floats, ids: NDArray[Any]) -> NDArray[np.int64]:
    """One integer that orders by distance, then by id: a float32 ≥ 0 is ordered as its bits are."""
    return np.asarray((distances.view(np.int32).astype(np.int64) << 32) | ids, dtype=np.int64)


def from_keys(keys: NDArray[np.int64]) -> tuple[NDArray[np.int32], Floats]:
    """The ids and the distances of :func:`sort_keys`."""
    ids = (keys & 0xFFFFFFFF).astype(np.int32)
    return ids, (keys >> 32).astype(np.int32).view(np.float32)


def unit_frame(values: Floats) -> tuple[NDArray[np.float64], float]:
    """A shift (D,) and a scale that bring all rows into the unit ball, where float32 products are at their best."""
    shift = values.mean(axis=0, dtype=np.float64) if len(values) else np.zeros(values.shape[1])
    longest = 0.0
    step = max(1, BLOCK // values.shape[1])
    for start in range(0, len(values), step):
        centred = values[start : start + step] - shift
        longest = max(longest, float((centred * centred).sum(axis=1).max()))
    return shift, float(np.sqrt(longest)) or 1.0
