"""Reliable dissimilarity by partitioning groups (Sec. 3.4, Eq. 1): Groups → Subsets, a subset or none for every group.

S of Eq. 1 is never built. Its near field, the only part that a partition can do much about, is a sparse graph of conflicts: two
groups of a subset share no image and do not have near means. The sample counts of Eq. 1 (p → 0) are a table of which subsets
hold an image. A group goes to at most one subset. The solver is ours: the paper's reference solves a relaxation of a dense S.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, UsageError, must
from ..records import Features, Groups, Ints, Neighbours, Subsets
from .centres import centres, near_groups
from .terms import terms as terms

if TYPE_CHECKING:
    from ..config import Partition

# Shares of the largest possible gain that a group must bring in each sweep; one more sweep takes whatever fits.
_SWEEPS = (1.0, 0.75, 0.5, 0.25)


def partition(
    groups: Groups,
    features: Features,
    neighbours: Neighbours,
    config: Partition,
    seed: int,
    order: NDArray[Any] | None = None,
) -> Subsets:
    """X̄_1 … X̄_K with equally many groups each, and the terms of Eq. 1 that they reach.

    ``order`` names all groups, the best first; without it they come by diameter relative to the mean diameter of their size.
    Groups are placed greedily in this order, in sweeps that ask for less and less gain, where the gain of Eq. 1 is λ1 per image
    that is new to the subset and λ2 per image that is new to the union, minus 1 per near group of the subset that lists the
    group or is listed by it. Groups that list *each other* as near never share a subset, nor do groups that share an image. A
    group goes to the subset of the highest gain, then to the one with the fewest groups, then to the first. When nothing more
    fits, each subset keeps the ``fraction`` of the smallest subset's number of groups, at least one, that were placed first.
    So the subsets are always equal. If there are fewer groups than subsets, ``count`` is smaller than asked for.

    ``mode`` "whole" (the ablation): one subset with all groups, which may share images.
    """
    total = len(groups)
    must(
        len(features) == groups.images and len(neighbours) == groups.images,
        DataError,
        f"subsets: {groups.images} images in groups, {len(features)} features, {len(neighbours)} neighbour lists do not match",
    )
    if not total:
        return Subsets(of_group=np.empty(0, dtype=np.int32), count=0)
    if config.mode == "whole":
        subsets = Subsets(of_group=np.zeros(total, dtype=np.int32), count=1)
    else:
        ranked = compact_first(groups) if order is None else _checked_order(order, total)
        both, either = _near_pairs(near_groups(groups, centres(groups, features)[0], neighbours, config.near))
        subsets = _equalised(_packed(groups, ranked, both, either, config), total, config.fraction)
    return replace(subsets, terms=terms(groups, subsets, features, config, seed))


def compact_first(groups: Groups) -> NDArray[np.int64]:
    """The groups by diameter over the mean diameter of the groups of their size, ties by index."""
    sizes = groups.sizes
    sums = np.bincount(sizes, weights=groups.diameters.astype(np.float64))
    mean = sums / np.maximum(np.bincount(sizes), 1)
    relative = groups.diameters / np.where(mean > 0, mean, 1.0)[sizes]
    return np.argsort(relative, kind="stable")


def _checked_order(order: NDArray[Any], total: int) -> NDArray[np.int64]:
    order = np.asarray(order)
    fits = order.shape == (total,) and np.array_equal(np.sort(order), np.arange(total))
    must(fits, UsageError, f"order must name each of the {total} groups once, got an array of shape {order.shape}")
    return order.astype(np.int64)


class _Edges:
    """Undirected edges between groups, as a list of lists in CSR form."""

    def __init__(self, total: int, ends: NDArray[np.int64], others: NDArray[np.int64]) -> None:
        order = np.lexsort((others, ends))
        self.others = others[order]
        self.offsets: list[int] = np.searchsorted(ends[order], np.arange(total + 1)).tolist()

    def of(self, group: int) -> list[int]:
        start, stop = self.offsets[group], self.offsets[group + 1]
        return self.others[start:stop].tolist() if stop > start else []


def _near_pairs(near: Ints) -> tuple[_Edges, _Edges]:
    """The pairs of groups that list each other, and those of which one lists the other; each pair in both directions."""
    total = len(near)
    row, column = np.nonzero(near >= 0)
    listed = near[row, column].astype(np.int64)
    back = np.isin(row * total + listed, listed * total + row)
    mutual = _Edges(total, row[back], listed[back])
    one, other = row[~back], listed[~back]
    return mutual, _Edges(total, np.concatenate([one, other]), np.concatenate([other, one]))


def _packed(groups: Groups, order: NDArray[np.int64], both: _Edges, either: _Edges, config: Partition) -> list[list[int]]:
    """The groups of every subset in the order in which they were placed."""
    packing = _Packing(groups, config)
    waiting: list[int] = order.tolist()
    unit = config.overlap + config.coverage
    for least in (*(share * unit for share in _SWEEPS if unit > 0), -math.inf):
        left = []
        for group in waiting:
            members = groups[group].tolist()
            fits = packing.place(group, members, both.of(group), either.of(group), least)
            if fits is None:
                left.append(group)
        waiting = left
    return packing.placed


class _Packing:
    """Which subsets hold an image (a bit a subset) and where every group went."""

    def __init__(self, groups: Groups, config: Partition) -> None:
        self.subset_of = [-1] * len(groups)
        self.holders = [0] * groups.images
        self.placed: list[list[int]] = [[] for _ in range(config.count)]
        self.all = (1 << config.count) - 1
        self.overlap, self.coverage = config.overlap, config.coverage

    def place(self, group: int, members: list[int], both: list[int], either: list[int], least: float) -> bool | None:
        """True: placed. False: no subset will ever take it. None: its gain an image is below this sweep's."""
        barred = fresh = 0
        for image in members:
            held = self.holders[image]
            barred |= held
            fresh += not held
        for other in both:
            subset = self.subset_of[other]
            if subset >= 0:
                barred |= 1 << subset
        if barred == self.all:
            return False
        near: dict[int, int] = {}
        for other in either:
            subset = self.subset_of[other]
            if subset >= 0:
                near[subset] = near.get(subset, 0) + 1
        # The images are all new to any subset that is not barred: the gain differs by the near groups alone.
        conflicts, _, subset = min(
            (near.get(subset, 0), len(placed), subset) for subset, placed in enumerate(self.placed) if not barred >> subset & 1
        )
        gain = self.overlap * len(members) + self.coverage * fresh - conflicts
        if gain < least * len(members):
            return None
        self.subset_of[group] = subset
        self.placed[subset].append(group)
        for image in members:
            self.holders[image] |= 1 << subset
        return True


def _equalised(placed: list[list[int]], total: int, fraction: float) -> Subsets:
    """Every subset that has groups cut to the same number of those placed first."""
    placed = [groups for groups in placed if groups]
    # The tiny term undoes the rounding of, say, 0.29 · 100.
    size = max(1, math.floor(fraction * min(map(len, placed)) + 1e-9))
    of_group = np.full(total, -1, dtype=np.int32)
    for subset, groups in enumerate(placed):
        of_group[groups[:size]] = subset
    return Subsets(of_group=of_group, count=len(placed))
