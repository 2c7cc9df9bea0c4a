"""Relations from features in the paper's order: chance, groups, evidence, subsets, triplets (Sec. 3.3, 3.4, 3.5.3).

Features (N, D), Neighbours (N, k) → Relations. ``fit`` and ``mine`` call the same function.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..randomness import generator
from ..records import Evidence, Features, Groups, Neighbours, Relations, Subsets
from . import chance as null
from . import groups as grouping_stage
from . import reliability, subsets, triplets

if TYPE_CHECKING:
    from ..config import Chance, Grouping, Partition, Transfer


def mine(
    features: Features,
    neighbours: Neighbours,
    *,
    chance: Chance,
    grouping: Grouping,
    partition: Partition,
    transfer: Transfer,
    seed: int,
    views: Sequence[Neighbours] = (),
    others: Sequence[Neighbours] = (),
    spread: Callable[[Groups], float] | None = None,
) -> Relations:
    """All relations of one representation; ``spread`` measures Σ for the targets from the groups (Sec. 3.5.1)."""
    clock = _Clock()
    thresholds = null.thresholds(features, neighbours, chance, min(grouping.cap, max(2, len(features))), seed)
    clock.lap("chance")
    grown = grouping_stage.grow(features, neighbours, thresholds, grouping)
    clock.lap("groups")
    evidence = reliability.evidence(grown, neighbours, thresholds, views, others)
    clock.lap("reliability")
    if partition.order == "reliable":
        order = np.lexsort((np.arange(len(grown)), -evidence.reliability))
    else:
        order = generator(seed, "order of groups").permutation(len(grown))
    divided = subsets.partition(grown, features, neighbours, partition, seed, order)
    clock.lap("subsets")
    # The control arms change who is in a group, and nothing else: sizes, overlaps and subsets stay the mined ones.
    final = grouping_stage.controlled(grown, grouping.members, seed, features)
    learners = range(divided.count)
    found = [triplets.transitive(final, divided, learner, features, transfer, seed) for learner in learners]
    clock.lap("triplets")
    summary = summarise(final, evidence, divided) | {
        "members": grouping.members,
        "null": thresholds.null,
        "limits": [round(float(limit), 6) for limit in np.median(thresholds.limits, axis=0)],
        "triplets": [len(one) for one in found],
        "spread": spread(grown) if spread is not None else None,
        "cpu_seconds": clock.laps,
    }
    return Relations(groups=final, evidence=evidence, subsets=divided, triplets=found, summary=summary)


def summarise(groups: Groups, evidence: Evidence, divided: Subsets) -> dict[str, Any]:
    """Counts, sizes, coverage and the terms of Eq. 1."""
    sizes, counts = np.unique(groups.sizes, return_counts=True)
    chosen = groups.select(np.flatnonzero(divided.of_group >= 0))
    per_subset = [groups.select(divided.groups_of(subset)) for subset in range(divided.count)]
    return {
        "images": groups.images,
        "groups": len(groups),
        "sizes": {str(size): int(count) for size, count in zip(sizes, counts)},
        "coverage": groups.coverage,
        "reliability": float(evidence.reliability.mean()) if len(evidence) else 0.0,
        "subsets": divided.count,
        "subset_groups": [len(one) for one in per_subset],
        "subset_coverage": [one.coverage for one in per_subset],
        "union_coverage": chosen.coverage,
        "terms": divided.terms,
    }


class _Clock:
    """CPU-seconds of each part."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.process_time()

    def lap(self, name: str) -> None:
        now = time.process_time()
        self.laps[name] = round(now - self._last, 3)
        self._last = now
