"""Mining on a synthetic set of 20,000 × 64: one JSON line of ratios taken within one process.

    python benchmarks/relations.py

``grow_speedup``: CPU time of the plain Python rule over that of ``grow``, per seed; ``grow_identical`` says whether the groups
of those seeds are the same. ``partition_us_per_group``: CPU-microseconds, the terms of Eq. 1 included. ``clique_share``: how
often two of a clique of planted near-duplicate groups share a subset, of those pairs that were both placed; chance is 1/K.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from reliant.config import Chance, Grouping, Partition
from reliant.records import ChanceThresholds, Features, Groups, Neighbours
from reliant.relations.chance import thresholds
from reliant.relations.groups import grow
from reliant.relations.neighbours import nearest
from reliant.relations.subsets import partition

IMAGES, WIDTH, COMPARED, CAP, SUBSETS = 20_000, 64, 300, 16, 5


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def clustered(images: int, width: int, clusters: int, spread: float, seed: int) -> Features:
    random = np.random.default_rng(seed)
    values = random.standard_normal((clusters, width))[np.arange(images) % clusters]
    values = values + spread * random.standard_normal((images, width))
    return Features(values=(values / np.linalg.norm(values, axis=1, keepdims=True)).astype(np.float32))


def grown_plainly(features: Features, lists: Neighbours, limits: ChanceThresholds, seeds: range) -> list[list[int]]:
    """The rule of Sec. 3.3 as it is read: one seed, one neighbour, one pair at a time."""
    grown = []
    for seed in seeds:
        members, diameter = [seed], 0.0
        for image in lists.ids[seed, : CAP - 1].tolist():
            for member in members:
                gap = features.values[image].astype(np.float64) - features.values[member]
                diameter = max(diameter, float(np.float32(np.sqrt((gap * gap).sum()))))
            if diameter >= limits.limit(seed, len(members) + 1):
                break
            members.append(image)
        grown.append(members)
    return grown


def clique_share(fraction: float) -> tuple[float, int]:
    """3,000 groups of 4 images, ten near-duplicates of each; the share of placed pairs of a clique in one subset."""
    cliques, copies, size = 300, 10, 4
    features = clustered(cliques * copies * size, WIDTH, cliques, 0.3, 1)
    images = np.arange(len(features)).reshape(copies * size, cliques).T.reshape(-1, size)
    groups = Groups.of(images.tolist(), len(features))
    subsets = partition(groups, features, nearest(features, 64), Partition(count=SUBSETS, fraction=fraction), 0)
    placed = subsets.of_group.reshape(cliques, copies)
    together = total = 0
    for row in placed:
        inside = row[row >= 0]
        total += len(inside) * (len(inside) - 1) // 2
        together += sum(int(count * (count - 1) // 2) for count in np.bincount(inside, minlength=SUBSETS))
    return together / max(total, 1), int((placed >= 0).sum())


def main() -> None:
    features = clustered(IMAGES, WIDTH, 400, 0.8, 0)
    lists, search = timed(lambda: nearest(features, 64))
    limits = thresholds(features, lists, Chance(), CAP, 0)
    groups, growing = timed(lambda: grow(features, lists, limits, Grouping(cap=CAP)))
    plain, plainly = timed(lambda: grown_plainly(features, lists, limits, range(COMPARED)))
    by_seed = {int(group[0]): group.tolist() for group in groups}
    compared = [members for members in plain if members[0] in by_seed]
    subsets, dividing = timed(lambda: partition(groups, features, lists, Partition(count=SUBSETS), 0))
    share, placed = clique_share(1.0)
    result = {
        "images": IMAGES,
        "width": WIDTH,
        "groups": len(groups),
        "neighbours_cpu_seconds": round(search, 3),
        "grow_cpu_seconds": round(growing, 3),
        "grow_speedup": round((plainly / COMPARED) / (growing / IMAGES), 1),
        "grow_identical": all(by_seed[members[0]] == members for members in compared),
        "grow_compared": len(compared),
        "partition_us_per_group": round(1e6 * dividing / len(groups), 1),
        "subset_sizes": [len(subsets.groups_of(subset)) for subset in range(subsets.count)],
        "terms": {name: round(value, 5) for name, value in subsets.terms.items()},
        "clique_share": round(share, 4),
        "clique_groups_placed": placed,
        "clique_chance": 1 / SUBSETS,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
