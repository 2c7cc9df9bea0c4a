"""The centre of a group (Sec. 3.4): groups and features → means (G, D), spreads (G,), and the groups that lie near each other.

With means m and spreads v the mean squared distance of two groups is |m_k − m_l|² + v_k + v_l exactly, and the groups with
near means are those whose dissimilarity cannot be relied on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..records import Features, Floats, Groups, Ints, Neighbours
from .distances import BLOCK, between, from_keys, sort_keys
from .groups import by_size
from .neighbours import shared_overlap

_NONE = np.iinfo(np.int64).max


def centres(groups: Groups, features: Features) -> tuple[Floats, NDArray[np.float64]]:
    """The mean of each group's features (G, D) and the mean squared distance of its members to it (G,)."""
    values, width = features.values, features.values.shape[1]
    means = np.empty((len(groups), width), dtype=np.float32)
    spreads = np.empty(len(groups), dtype=np.float64)
    for chosen, rows in by_size(groups):
        step = max(1, BLOCK // (width * rows.shape[1]))
        for start in range(0, len(rows), step):
            block = values[rows[start : start + step]].astype(np.float64)
            mean = block.mean(axis=1)
            block -= mean[:, None]
            means[chosen[start : start + step]] = mean
            spreads[chosen[start : start + step]] = (block * block).sum(axis=2).mean(axis=1)
    return means, spreads


def near_groups(groups: Groups, means: Floats, neighbours: Neighbours, near: int) -> Ints:
    """The up to ``near`` groups with the nearest means that share no image with a group, (G, near), −1 where there are fewer.

    Candidates are the groups whose seeds are in the list of the group's own seed, the first 4·near of them, so that the work is
    linear in the groups. Groups that share an image are left out: they are apart already. Ties by index.
    """
    total = len(groups)
    result = np.full((total, near), -1, dtype=np.int32)
    if not near or not neighbours.k:
        return result
    group_of_seed = np.full(groups.images, -1, dtype=np.int64)
    group_of_seed[groups.seeds[::-1]] = np.arange(total)[::-1]
    lists = padded(groups)
    step = max(1, 4 * BLOCK // neighbours.k)
    for start in range(0, total, step):
        own = np.arange(start, min(start + step, total))
        others = group_of_seed[neighbours.ids[groups.seeds[own]]]
        row, column = np.nonzero((others >= 0) & (others != own[:, None]))
        apart = shared_overlap(lists, own[row], lists_of := others[row, column], groups.images) == 0
        row, lists_of = row[apart], lists_of[apart]
        early = _place_in_run(row) < 4 * near
        row, lists_of = row[early], lists_of[early]
        keys = np.full((len(own), 4 * near), _NONE, dtype=np.int64)
        keys[row, _place_in_run(row)] = sort_keys(between(means, own[row], lists_of), lists_of)
        keys = np.sort(keys, axis=1)[:, :near]
        result[own] = np.where(keys == _NONE, -1, from_keys(keys)[0])
    return result


def padded(groups: Groups) -> Ints:
    """The members as a table (G, largest size), −1 after the last."""
    table = np.full((len(groups), int(groups.sizes.max(initial=0))), -1, dtype=np.int32)
    table[np.arange(table.shape[1]) < groups.sizes[:, None]] = groups.members
    return table


def _place_in_run(sorted_rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """0, 1, 2 … within every run of equal numbers."""
    return np.arange(len(sorted_rows)) - np.searchsorted(sorted_rows, sorted_rows)
