"""Equal rows: features (N, D) → the distinct rows, numbered by their first image.

Copies of an image tie with each other everywhere; whoever searches distinct rows once has no ties among copies to resolve.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray

from ..randomness import generator
from ..records import Floats
from .distances import BLOCK


@dataclass(frozen=True, kw_only=True)
class Distinct:
    """Row r occurs as images[starts[r] : starts[r] + counts[r]], ascending; its first is firsts[r]."""

    of_row: NDArray[np.int64]
    firsts: NDArray[np.int64]
    images: NDArray[np.int64]
    starts: NDArray[np.int64]
    counts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.firsts)


def distinct_rows(values: Floats) -> Distinct:
    """The distinct rows of values, 0.0 and −0.0 being equal. Linear but for one sort of N numbers."""
    for attempt in count():
        order, begins, collided = _by_hash(values, attempt)
        # Two different rows with one hash: another hash tells them apart.
        if not collided:
            break
    firsts = order[begins]
    renumbered = np.empty(len(firsts), dtype=np.int64)
    renumbered[np.argsort(firsts)] = np.arange(len(firsts))
    of_row = np.empty(len(values), dtype=np.int64)
    of_row[order] = renumbered[np.cumsum(begins) - 1]
    counts = np.bincount(of_row, minlength=len(firsts)).astype(np.int64)
    return Distinct(
        of_row=of_row,
        firsts=np.sort(firsts),
        images=np.argsort(of_row, kind="stable"),
        starts=np.cumsum(counts) - counts,
        counts=counts,
    )


def _by_hash(values: Floats, attempt: int) -> tuple[NDArray[np.int64], NDArray[np.bool_], bool]:
    """The rows by hash then index, where a run of equal rows begins in that order, and whether two unequal ones collided."""
    keys = hashes(values, attempt)
    order = np.argsort(keys, kind="stable")
    begins = np.ones(len(values), dtype=bool)
    begins[1:] = keys[order][1:] != keys[order][:-1]
    again = np.flatnonzero(~begins)
    step = max(1, BLOCK // values.shape[1])
    for start in range(0, len(again), step):
        at = again[start : start + step]
        if not (values[order[at]] == values[order[at - 1]]).all():
            return order, begins, True
    return order, begins, False


def hashes(values: Floats, attempt: int) -> NDArray[np.uint64]:
    """A 64-bit hash of every row: the product of its bits with odd random numbers, modulo 2⁶⁴."""
    factors = np.uint64(1) + np.uint64(2) * generator(attempt, "row hashes").integers(
        2**63, size=values.shape[1], dtype=np.uint64
    )
    result = np.empty(len(values), dtype=np.uint64)
    step = max(1, BLOCK // values.shape[1])
    for start in range(0, len(values), step):
        # + 0.0 turns −0.0 into 0.0.
        bits = (values[start : start + step] + np.float32(0)).view(np.uint32).astype(np.uint64)
        result[start : start + step] = (bits * factors).sum(axis=1, dtype=np.uint64)
    return result
