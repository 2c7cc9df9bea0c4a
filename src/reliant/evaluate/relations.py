"""``relations``: how many of the mined relations are right, and how much of the data they reach (Figs 5a, 8 and 9).

groups, labels (N,) and, where there are any, subsets → :class:`RelationScores`.

A relation is a pair of images of one group, right where both have the same label; an image without label (−1) is in no pair
but counts for coverage. Every figure is a count over all groups divided by another, in time linear in the members up to
sorting: pairs of equal label are Σ n(n − 1)/2 over the labels of a group. A figure with nothing to count is NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, must
from ..records import Groups, Subsets

Reals = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class SizeScores:
    """One row a group size: pair-wise correctness, distinct images in groups of this size / N, how many groups."""

    sizes: Counts
    correctness: Reals
    correctness_members: Reals
    coverage: Reals
    groups: Counts


@dataclass(frozen=True, kw_only=True)
class SubsetScores:
    """One row a subset: distinct images / N, and of its pairs across groups the share whose labels do differ."""

    coverage: Reals
    dissimilarity: Reals


@dataclass(frozen=True, kw_only=True)
class RelationScores:
    """``named`` are the headline figures, ``of_group`` each group's own pair-wise correctness (NaN without a labelled pair)."""

    named: dict[str, float]
    by_size: SizeScores
    by_subset: SubsetScores | None
    of_group: NDArray[np.float32]

    @property
    def measures(self) -> dict[str, float]:
        """Everything but ``of_group`` as named numbers: ``correctness_size4``, ``coverage_subset0`` and so on."""
        flat = dict(self.named)
        for row, size in enumerate(self.by_size.sizes):
            for name in ("correctness", "correctness_members", "coverage", "groups"):
                flat[f"{name}_size{size}"] = float(getattr(self.by_size, name)[row])
        if self.by_subset is not None:
            for subset in range(len(self.by_subset.coverage)):
                flat[f"coverage_subset{subset}"] = float(self.by_subset.coverage[subset])
                flat[f"dissimilarity_subset{subset}"] = float(self.by_subset.dissimilarity[subset])
        return flat


def relations(
    groups: Groups, labels: NDArray[Any], subsets: Subsets | None = None, *, seed: int = 0, budget: str = "full"
) -> dict[str, float]:
    """The protocol: :func:`score_relations` as named numbers. Neither seed nor budget plays a part."""
    return score_relations(groups, labels, subsets).measures


def score_relations(groups: Groups, labels: NDArray[Any], subsets: Subsets | None = None) -> RelationScores:
    """Correctness by pairs (the headline), by seed and member, by majority; coverage; the same by size and by subset."""
    labels = np.asarray(labels, dtype=np.int64)
    must(
        len(labels) == groups.images,
        DataError,
        f"the groups are of {groups.images} images but there are {len(labels)} labels; give one label an image, −1 for none",
    )
    must(
        subsets is None or len(subsets.of_group) == len(groups),
        DataError,
        f"the subsets are not of these {len(groups)} groups; give the subsets that were mined from them",
    )
    counts = _LabelCounts.of(groups, labels)
    equal, pairs = counts.equal_pairs, counts.pairs
    named = {
        "correctness": _share(equal.sum(), pairs.sum()),
        "correctness_seed": _seed_correctness(groups, labels),
        "correctness_members": _share(counts.majority.sum(), counts.labelled.sum()),
        "coverage": groups.coverage,
        "groups": float(len(groups)),
    }
    by_subset = None
    if subsets is not None:
        by_subset, across, unlike, union = _score_subsets(groups, labels, subsets, counts)
        named["coverage_subsets"] = _share(union, groups.images)
        named["coverage_subsets_mean"] = float(by_subset.coverage.mean()) if subsets.count else float("nan")
        named["dissimilarity"] = _share(unlike, across)
    return RelationScores(
        named=named,
        by_size=_score_sizes(groups, counts),
        by_subset=by_subset,
        of_group=_shares(equal, pairs).astype(np.float32),
    )


@dataclass(frozen=True, kw_only=True)
class _LabelCounts:
    """How often a label stands in a group: entries (group, label, count) sorted by group, and their sums by group."""

    group: Counts
    label: Counts
    count: Counts
    labelled: Counts
    majority: Counts
    squares: Counts

    @classmethod
    def of(cls, groups: Groups, labels: Counts) -> _LabelCounts:
        label = labels[groups.members]
        has = label >= 0
        classes = int(labels.max(initial=0)) + 1
        cells, count = np.unique(groups.owners[has].astype(np.int64) * classes + label[has], return_counts=True)
        group = cells // classes
        majority = np.zeros(len(groups), dtype=np.int64)
        np.maximum.at(majority, group, count)
        return cls(
            group=group,
            label=cells % classes,
            count=count,
            labelled=_sums(group, count, len(groups)),
            majority=majority,
            squares=_sums(group, count * count, len(groups)),
        )

    @property
    def pairs(self) -> Counts:
        return self.labelled * (self.labelled - 1) // 2

    @property
    def equal_pairs(self) -> Counts:
        return (self.squares - self.labelled) // 2


def _seed_correctness(groups: Groups, labels: Counts) -> float:
    own = labels[groups.members]
    seed = np.repeat(labels[groups.seeds], groups.sizes)
    paired = (own >= 0) & (seed >= 0)
    paired[groups.offsets[:-1]] = False  # the seed is no pair with itself
    return _share((own == seed)[paired].sum(), paired.sum())


def _score_sizes(groups: Groups, counts: _LabelCounts) -> SizeScores:
    sizes, row, number = np.unique(groups.sizes, return_inverse=True, return_counts=True)
    reached = np.unique(np.repeat(row, groups.sizes) * groups.images + groups.members)
    return SizeScores(
        sizes=sizes,
        correctness=_shares(_sums(row, counts.equal_pairs, len(sizes)), _sums(row, counts.pairs, len(sizes))),
        correctness_members=_shares(_sums(row, counts.majority, len(sizes)), _sums(row, counts.labelled, len(sizes))),
        coverage=np.bincount(reached // max(groups.images, 1), minlength=len(sizes)) / max(groups.images, 1),
        groups=number,
    )


def _score_subsets(
    groups: Groups, labels: Counts, subsets: Subsets, counts: _LabelCounts
) -> tuple[SubsetScores, int, int, int]:
    """Also the pairs across groups, how many of them differ in label, and the distinct images of all subsets together.

    Pairs across groups are all pairs of a subset but those within groups; with T labelled members, of which T_c have label c,
    they are (T² − Σ_g n_g²)/2, of them equal (Σ_c T_c² − Σ_g Σ_c n_gc²)/2. An image that two groups of the subset share
    would pair with itself; such pairs are taken from both.
    """
    total = subsets.count
    of_member = subsets.of_group[groups.owners].astype(np.int64)
    inside = of_member >= 0
    images, times = np.unique(of_member[inside] * groups.images + groups.members[inside], return_counts=True)
    subset, image = images // max(groups.images, 1), images % max(groups.images, 1)
    itself = _sums(subset, np.where(labels[image] >= 0, times * (times - 1) // 2, 0), total)

    of_group = subsets.of_group.astype(np.int64)
    used = np.flatnonzero(of_group >= 0)
    members = _sums(of_group[used], counts.labelled[used], total)
    squares = _sums(of_group[used], counts.labelled[used] ** 2, total)
    across = (members**2 - squares) // 2 - itself

    classes = int(labels.max(initial=0)) + 1
    of_entry = of_group[counts.group]
    cells, cell = np.unique((of_entry * classes + counts.label)[of_entry >= 0], return_inverse=True)
    together = _sums(cell, counts.count[of_entry >= 0], len(cells))
    equal = _sums(cells // classes, together**2, total) - _sums(of_group[used], counts.squares[used], total)
    unlike = across - (equal // 2 - itself)

    scores = SubsetScores(
        coverage=np.bincount(subset, minlength=total) / max(groups.images, 1), dissimilarity=_shares(unlike, across)
    )
    return scores, int(across.sum()), int(unlike.sum()), len(np.unique(image))


def _sums(row: NDArray[Any], values: Counts, rows: int) -> Counts:
    """Exact integer sums by row: float64, which bincount would use, is exact up to 2⁵³ only."""
    sums = np.zeros(rows, dtype=np.int64)
    np.add.at(sums, row, values)
    return sums


def _share(part: Any, whole: Any) -> float:
    return float(part) / float(whole) if whole else float("nan")


def _shares(part: Counts, whole: Counts) -> Reals:
    shares: Reals = np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)
    return shares
