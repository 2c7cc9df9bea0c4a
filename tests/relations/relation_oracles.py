"""The stages of reliant.relations once more, as plain loops over plain lists, and the sets of features they are tried on."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import strategies as st

from reliant.records import Features, Groups, Neighbours

KINDS = ("random", "duplicated", "integer", "equal", "tight", "offset", "huge", "tiny", "faint", "outlier")


def features_of(kind: str, images: int, width: int, seed: int) -> Features:
    random = np.random.default_rng(seed)
    values = random.standard_normal((images, width))
    if kind == "duplicated":
        values = values[random.integers(max(1, images // 4), size=images)]
    elif kind == "integer":
        values = random.integers(-1, 2, size=(images, width)).astype(float)
    elif kind == "equal":
        values = np.repeat(values[:1], images, axis=0)
    elif kind == "tight":
        values = values[random.integers(3, size=images) % images] + 1e-6 * values
    elif kind == "offset":
        values = values + 300
    elif kind == "huge":
        values = values * 1e25
    elif kind == "tiny":
        values = values * 1e-25
    elif kind == "faint":
        values = values * 1e-22  # the squares are subnormal in float32
    elif kind == "outlier":
        values[0] *= 1e6
    return Features(values=values.astype(np.float32), normalised=False)


@st.composite
def feature_sets(draw: st.DrawFn, most: int = 60, least: int = 1) -> Features:
    kind = draw(st.sampled_from(KINDS))
    images, width = draw(st.integers(least, most)), draw(st.integers(1, 12))
    return features_of(kind, images, width, draw(st.integers(0, 10_000)))


def distance(features: Features, first: int, second: int) -> np.float32:
    gap = features.values[first].astype(np.float64) - features.values[second].astype(np.float64)
    return np.float32(np.sqrt((gap * gap).sum()))


def diameter(features: Features, members: list[int]) -> np.float32:
    return max((distance(features, a, b) for a, b in combinations(members, 2)), default=np.float32(0))


def nearest_by_loops(features: Features, k: int) -> tuple[list[list[int]], list[list[np.float32]]]:
    ids, distances = [], []
    for image in range(len(features)):
        others = sorted((distance(features, image, other), other) for other in range(len(features)) if other != image)
        ids.append([other for _, other in others[:k]])
        distances.append([gap for gap, _ in others[:k]])
    return ids, distances


def jaccard_by_sets(neighbours: Neighbours, first: int, second: int) -> float:
    a, b = set(neighbours.ids[first].tolist()), set(neighbours.ids[second].tolist())
    return len(a & b) / len(a | b) if a | b else 0.0


def random_groups(images: int, count: int, largest: int, seed: int, smallest: int = 2) -> Groups:
    """Groups of different seeds with members at random."""
    random = np.random.default_rng(seed)
    lists = []
    for first in np.sort(random.permutation(images)[:count]).tolist():
        size = int(random.integers(smallest, min(largest, images) + 1))
        others = [other for other in random.permutation(images).tolist() if other != first]
        lists.append([first, *others[: size - 1]])
    return Groups.of(lists, images, random.random(len(lists)))
