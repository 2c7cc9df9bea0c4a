"""Which of several representations the others confirm, without labels.

Neighbours (N, k) of every learner → the learner that agrees most with the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..records import Neighbours


def overlap(first: Neighbours, second: Neighbours) -> float:
    """The mean share of an image's neighbours that both lists hold."""
    shared = (first.ids[:, :, None] == second.ids[:, None, :]).any(axis=2)
    return float(shared.mean()) if shared.size else 0.0


def agreement(lists: Sequence[Neighbours]) -> NDArray[np.float64]:
    """The mean overlap of each learner with the others."""
    count = len(lists)
    table = np.zeros((count, count))
    for first in range(count):
        for second in range(first):
            table[first, second] = table[second, first] = overlap(lists[first], lists[second])
    means: NDArray[np.float64] = table.sum(axis=1) / max(1, count - 1)
    return means


def most_agreeing(lists: Sequence[Neighbours]) -> int:
    """The learner whose neighbours the others confirm most; the lowest where several are equal."""
    return int(np.argmax(agreement(lists)))
