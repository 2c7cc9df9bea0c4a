"""Features brought to mean 0 and standard deviation 1 of the training images, column by column (ours, not the paper's).

features (N, D) of any float type → mean (D,), scale (D,) float64 → standardised float32 rows. A constant column becomes 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

BLOCK = 1 << 22  # entries of one block of rows
# A column that varies by less than this share of its mean holds float32's rounding and nothing else.
CONSTANT = 1e-6


@dataclass(frozen=True, kw_only=True)
class Standardisation:
    """The mean of every column, and 1 / its standard deviation, 0 where it is constant."""

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]

    @classmethod
    def of(cls, features: NDArray[Any], rows: NDArray[np.int64] | None = None) -> Standardisation:
        """Measured in two passes in float64, so that a large mean costs no digits of a small deviation."""
        count = len(features) if rows is None else len(rows)
        total = np.zeros(features.shape[1])
        for block in _blocks(features, rows):
            total += block.sum(axis=0)
        mean = total / count
        squares = np.zeros(features.shape[1])
        for block in _blocks(features, rows):
            block -= mean
            squares += np.einsum("nd,nd->d", block, block)
        deviation = np.sqrt(squares / count)
        varies = deviation > CONSTANT * np.abs(mean)
        scale = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=varies)
        return cls(mean=mean, scale=scale)

    def blocks(self, features: NDArray[Any], rows: NDArray[np.int64] | None = None) -> Iterator[NDArray[np.float32]]:
        """The standardised rows, a block at a time."""
        for block in _blocks(features, rows):
            block -= self.mean
            block *= self.scale
            yield block.astype(np.float32)

    def tensor(self, features: NDArray[Any], rows: NDArray[np.int64] | None = None, device: str = "cpu") -> Tensor:
        """All standardised rows on a device: the only copy of the features that a fit holds."""
        import torch

        count = len(features) if rows is None else len(rows)
        whole = torch.empty(count, features.shape[1], dtype=torch.float32, device=device)
        start = 0
        for block in self.blocks(features, rows):
            whole[start : start + len(block)] = torch.from_numpy(block)
            start += len(block)
        return whole


def _blocks(features: NDArray[Any], rows: NDArray[np.int64] | None) -> Iterator[NDArray[np.float64]]:
    """Fresh float64 copies of the rows, in blocks of bounded size."""
    size = max(1, BLOCK // features.shape[1])
    count = len(features) if rows is None else len(rows)
    for start in range(0, count, size):
        chosen = slice(start, start + size) if rows is None else rows[start : start + size]
        yield np.array(features[chosen], dtype=np.float64)
