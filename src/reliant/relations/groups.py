"""Compact groups (Sec. 3.3, BuildMaximalReliableGroup for every seed): Neighbours (N, k) and limits → Groups.

A group starts with a seed and takes its nearest neighbours as long as its diameter stays strictly below the limit of its
size. Every image is a seed; of groups with the same members one is kept. Growing is blocked over seeds, and no bit of the
result depends on the blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, UsageError, must
from ..randomness import generator
from ..records import ChanceThresholds, Features, Floats, Groups, Ints, Neighbours
from .distances import BLOCK, apart, from_keys, prefix_diameters, sort_keys

if TYPE_CHECKING:
    from ..config import Grouping

_NONE = np.iinfo(np.int64).max


def grow(features: Features, neighbours: Neighbours, thresholds: ChanceThresholds, config: Grouping) -> Groups:
    """The maximal compact group of every seed, each set of members once, by seed; members in the order they were added.

    ``stop`` "first": growth ends at the first size whose limit is not kept, so every prefix keeps its own. "last": the largest
    size up to the cap whose prefix keeps its limit. ``neighbours_of`` "seed": candidates come in the order of the seed's
    list. "group" (ours): the next image is the one of the members' lists whose largest distance to the members is smallest.
    Groups below ``minimum`` are no groups. Of equal sets that of the lowest seed stays.
    """
    total = len(features)
    must(
        len(neighbours) == total and len(thresholds.limits) in (1, total),
        DataError,
        f"groups: {total} features, {len(neighbours)} neighbour lists and {len(thresholds.limits)} rows of limits do not match",
    )
    cap = max(1, min(config.cap, thresholds.cap, total))
    if config.neighbours_of == "seed":
        cap = min(cap, neighbours.k + 1)
        members = np.concatenate([np.arange(total, dtype=np.int32)[:, None], neighbours.ids[:, : cap - 1]], axis=1)
        diameters = prefix_diameters(features.values, members)
    else:
        ends_early = config.stop == "first"
        members, diameters = _grown_by_group(features.values, neighbours, thresholds.limits, cap, ends_early)
    sizes = _final_sizes(diameters, thresholds.limits[:, : cap - 1], config.stop)
    kept = np.flatnonzero(sizes >= config.minimum)
    kept = kept[_first_of_each_set(members[kept], sizes[kept])]
    return _as_groups(members[kept], sizes[kept], diameters[kept], total)


def _final_sizes(diameters: Floats, limits: Floats, stop: str) -> NDArray[np.int64]:
    """(N, cap − 1) diameters of the sizes 2 … cap → the size at which each seed's group ends, 1 for the seed alone."""
    below = diameters < limits
    if stop == "first":
        return np.asarray(1 + np.logical_and.accumulate(below, axis=1).sum(axis=1))
    if not below.shape[1]:
        return np.ones(len(below), dtype=np.int64)
    last = below.shape[1] - np.argmax(below[:, ::-1], axis=1)
    return np.where(below.any(axis=1), last + 1, 1)


def _first_of_each_set(members: Ints, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows, ascending, whose set of members (the first sizes[r] of the row) is that of no earlier row. Exact."""
    kept = []
    for size in np.unique(sizes):
        rows = np.flatnonzero(sizes == size)
        sets = np.sort(members[rows, :size], axis=1)
        # A stable sort: the first of a run of equal sets is the lowest row.
        order = np.lexsort(sets.T)
        fresh = np.ones(len(rows), dtype=bool)
        fresh[1:] = (sets[order][1:] != sets[order][:-1]).any(axis=1)
        kept.append(rows[order[fresh]])
    return np.sort(np.concatenate(kept)) if kept else np.empty(0, dtype=np.int64)


def _as_groups(members: Ints, sizes: NDArray[np.int64], diameters: Floats, images: int) -> Groups:
    inside = np.arange(members.shape[1]) < sizes[:, None]
    final = np.take_along_axis(diameters, sizes[:, None] - 2, axis=1)[:, 0] if len(sizes) else np.empty(0, np.float32)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Groups(offsets=offsets, members=members[inside], diameters=final, images=images)


def _grown_by_group(values: Floats, neighbours: Neighbours, limits: Floats, cap: int, ends_early: bool) -> tuple[Ints, Floats]:
    """Members (N, cap) and the diameters of the prefixes (N, cap − 1), infinite where a group did not get so far."""
    total = len(neighbours)
    members = np.full((total, cap), -1, dtype=np.int32)
    diameters = np.full((total, cap - 1), np.inf, dtype=np.float32)
    step = max(1, 4 * BLOCK // max(cap * max(neighbours.k, values.shape[1]), total // 4))
    for start in range(0, total, step):
        part = slice(start, min(start + step, total))
        front = _Front(values, neighbours, np.arange(part.start, part.stop, dtype=np.int32), cap)
        allowed = limits if len(limits) == 1 else limits[part]
        for size in range(2, cap + 1):
            front.extend(size)
            if ends_early:
                front.alive &= front.diameters[:, size - 2] < allowed[:, size - 2]
        members[part], diameters[part] = front.members, front.diameters
    return members, diameters


class _Front:
    """A block of groups that grow by the image nearest to the group, and their candidates.

    A candidate's key holds the largest of its distances to those members in whose lists it is, which cannot exceed its largest
    distance to all members. Only the least key is measured in full, until the least is a measured one: so few candidates are.
    """

    def __init__(self, values: Floats, neighbours: Neighbours, seeds: Ints, cap: int) -> None:
        self.values, self.neighbours = values, neighbours
        # A column for every entry of every list. The last one, which −1 names too, stands for what is no candidate.
        shape = (len(seeds), (cap - 1) * neighbours.k + 1)
        self.keys = np.full(shape, _NONE, dtype=np.int64)
        self.measured_at = np.zeros(shape, dtype=np.int32)
        self.column_of = np.full((len(seeds), len(neighbours)), -1, dtype=np.int32)
        self.members = np.full((len(seeds), cap), -1, dtype=np.int32)
        self.members[:, 0] = seeds
        self.diameters = np.full((len(seeds), cap - 1), np.inf, dtype=np.float32)
        self.alive = np.ones(len(seeds), dtype=bool)

    def extend(self, size: int) -> None:
        """Bring every living group to ``size`` images; one without a candidate dies."""
        rows = np.flatnonzero(self.alive)
        self._take_in_lists(rows, size)
        width = (size - 1) * self.neighbours.k
        while len(rows):
            best = self.keys[rows, :width].argmin(axis=1) if width else np.full(len(rows), -1)
            keys = self.keys[rows, best]
            nothing = keys == _NONE
            final = (self.measured_at[rows, best] == size) & ~nothing
            self._add(rows[final], keys[final], size)
            self.alive[rows[nothing]] = False
            waiting = ~final & ~nothing
            rows, best = rows[waiting], best[waiting]
            self._measure(rows, best, from_keys(keys[waiting])[0], size)

    def _take_in_lists(self, rows: NDArray[Any], size: int) -> None:
        """The list of the latest member joins the candidates, and that member leaves them."""
        k = self.neighbours.k
        latest = self.members[rows, size - 2]
        self.keys[rows, self.column_of[rows, latest]] = _NONE
        self.column_of[rows, latest] = self.keys.shape[1] - 1
        ids = self.neighbours.ids[latest]
        known = self.column_of[rows[:, None], ids]
        column = np.where(known < 0, (size - 2) * k + np.arange(k), known)
        held = np.where(known < 0, -1, self.keys[rows[:, None], column])
        self.keys[rows[:, None], column] = np.maximum(held, sort_keys(self.neighbours.distances[latest], ids))
        self.column_of[rows[:, None], ids] = column

    def _measure(self, rows: NDArray[Any], column: NDArray[Any], images: Ints, size: int) -> None:
        members = self.members[rows, : size - 1]
        farthest = apart(self.values[images][:, None], self.values[members]).max(axis=1, initial=0)
        self.keys[rows, column] = sort_keys(farthest, images)
        self.measured_at[rows, column] = size

    def _add(self, rows: NDArray[Any], keys: NDArray[np.int64], size: int) -> None:
        ids, farthest = from_keys(keys)
        self.members[rows, size - 1] = ids
        before = self.diameters[rows, size - 3] if size > 2 else np.zeros(len(rows), dtype=np.float32)
        self.diameters[rows, size - 2] = np.maximum(before, farthest)


def controlled(groups: Groups, members: str, seed: int, features: Features | None = None) -> Groups:
    """The control arms: "mined" as they are; "singletons": every group cut to its seed; "shuffled": members at random.

    Shuffled groups pass all members through one random permutation of the images. Sizes, overlaps and coverage are therefore
    exactly the mined ones, and no group holds an image twice. Diameters are measured where features are given, else 0.
    """
    if members == "mined":
        return groups
    if members == "singletons":
        return Groups(
            offsets=np.arange(len(groups) + 1, dtype=np.int64),
            members=groups.seeds,
            diameters=np.zeros(len(groups), dtype=np.float32),
            images=groups.images,
        )
    must(members == "shuffled", UsageError, f"unknown groups.members '{members}'; allowed: mined, singletons, shuffled")
    permutation = generator(seed, "groups", "shuffled").permutation(groups.images).astype(np.int32)
    shuffled = Groups(
        offsets=groups.offsets,
        members=permutation[groups.members],
        diameters=np.zeros(len(groups), dtype=np.float32),
        images=groups.images,
    )
    if features is None:
        return shuffled
    measured = np.zeros(len(groups), dtype=np.float32)
    for chosen, rows in by_size(shuffled):
        if rows.shape[1] > 1:
            measured[chosen] = prefix_diameters(features.values, rows)[:, -1]
    return Groups(offsets=shuffled.offsets, members=shuffled.members, diameters=measured, images=groups.images)


def by_size(groups: Groups) -> list[tuple[NDArray[np.int64], Ints]]:
    """For every size that occurs: the groups of that size (G_h,) and their members (G_h, h)."""
    sizes = groups.sizes
    tables = []
    for size in np.unique(sizes):
        chosen = np.flatnonzero(sizes == size)
        tables.append((chosen, groups.members[groups.offsets[chosen][:, None] + np.arange(size)]))
    return tables


def distinct_pairs(groups: Groups) -> tuple[Ints, Ints]:
    """The related pairs (P, 2), each once, lower image first, ascending; and how many groups hold each, (P,)."""
    keys, counts = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    fresh: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    for _, rows in by_size(groups):
        first, second = np.triu_indices(rows.shape[1], 1)
        step = max(1, 16 * BLOCK // max(1, len(first)))
        for start in range(0, len(rows), step):
            left, right = rows[start : start + step, first], rows[start : start + step, second]
            block = np.minimum(left, right).astype(np.int64) * groups.images + np.maximum(left, right)
            fresh.append(np.unique(block, return_counts=True))
            # Merging when the new outweigh the old keeps the work at a few sorts of all pairs.
            if sum(len(one) for one, _ in fresh) > len(keys):
                keys, counts = _merged([(keys, counts), *fresh])
                fresh = []
    keys, counts = _merged([(keys, counts), *fresh])
    pairs = np.stack(np.divmod(keys, max(groups.images, 1)), axis=1)
    return pairs.astype(np.int32), counts.astype(np.int32)


def _merged(parts: list[tuple[NDArray[np.int64], NDArray[np.int64]]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Keys and counts of several tables as one, keys ascending."""
    keys, place = np.unique(np.concatenate([one for one, _ in parts]), return_inverse=True)
    counts = np.zeros(len(keys), dtype=np.int64)
    np.add.at(counts, place, np.concatenate([times for _, times in parts]))
    return keys, counts
