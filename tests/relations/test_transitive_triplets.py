from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from relation_oracles import distance, features_of, random_groups

from reliant.config import Partition, Transfer
from reliant.errors import DataError, UsageError
from reliant.records import Features, Groups, Subsets
from reliant.relations.centres import centres
from reliant.relations.neighbours import nearest
from reliant.relations.subsets import partition
from reliant.relations.triplets import transitive


def images_of(groups, subsets, subset) -> set[int]:
    return {image for group in subsets.groups_of(subset) for image in groups[group].tolist()}


def links_by_loops(groups, subsets, learner, kinds) -> list[tuple[int, int, int, int, int]]:
    """Every (anchor, similar, group, subset, kind) that Sec. 3.5.3 allows."""
    own, links = images_of(groups, subsets, learner), []
    for subset in range(subsets.count):
        if subset == learner:
            continue
        other = images_of(groups, subsets, subset)
        for group in range(len(groups)):
            for anchor in groups[group].tolist():
                for similar in groups[group].tolist():
                    if similar not in other - own:
                        continue
                    if 0 in kinds and anchor in own - other:
                        links.append((anchor, similar, group, subset, 0))
                    if 1 in kinds and anchor in own & other and subsets.of_group[group] == subset:
                        links.append((anchor, similar, group, subset, 1))
    return links


def dissimilar_by_loops(groups, subsets, learner, subset, similar) -> set[int]:
    own, found = images_of(groups, subsets, learner), set()
    for group in subsets.groups_of(subset):
        if similar not in groups[group].tolist():
            found |= set(groups[group].tolist()) - own
    return found


def mined(images: int, count: int, subsets: int, seed: int) -> tuple[Features, Groups, Subsets]:
    features = features_of("random", images, 3, seed)
    groups = random_groups(images, count, 4, seed)
    config = Partition(count=subsets, near=0, fraction=1.0)
    return features, groups, partition(groups, features, nearest(features, 4), config, seed)


def test_a_triplet_through_a_group_of_neither_subset_by_hand() -> None:
    groups = Groups.of([[0, 1], [2, 3], [4, 5], [0, 2]], 6)
    subsets = Subsets(of_group=np.int32([0, 1, 1, -1]), count=2)
    found = transitive(groups, subsets, 0, None, Transfer(count=100), 0)
    assert sorted(found.dissimilar.tolist()) == [4, 5]
    for column, value in (("anchor", 0), ("similar", 2), ("group", 3), ("subset", 1), ("kind", 0)):
        assert set(getattr(found, column).tolist()) == {value}
    assert len(transitive(groups, subsets, 0, None, Transfer(links="shared"), 0)) == 0


def test_a_triplet_through_a_shared_image_by_hand() -> None:
    groups = Groups.of([[0, 1], [0, 2], [3, 1], [4, 5]], 6)
    subsets = Subsets(of_group=np.int32([0, 1, -1, 1]), count=2)
    found = transitive(groups, subsets, 0, None, Transfer(links="shared", count=100), 0)
    rows = set(zip(found.anchor.tolist(), found.similar.tolist(), found.dissimilar.tolist()))
    assert rows == {(0, 2, 4), (0, 2, 5)}
    assert set(found.kind.tolist()) == {1}
    assert set(found.group.tolist()) == {1}


@settings(deadline=None, max_examples=40)
@given(
    st.integers(8, 40),
    st.integers(2, 30),
    st.integers(1, 4),
    st.integers(0, 1000),
    st.sampled_from(["group", "shared", "both"]),
    st.sampled_from(["any", "far", "near"]),
)
def test_every_triplet_meets_every_condition_of_membership(images, count, subsets, seed, links, dissimilar) -> None:
    features, groups, divided = mined(images, count, subsets, seed)
    kinds = {"group": (0,), "shared": (1,), "both": (0, 1)}[links]
    for learner in range(divided.count):
        config = Transfer(links=links, dissimilar=dissimilar, count=200)
        found = transitive(groups, divided, learner, features, config, seed)
        allowed = set(links_by_loops(groups, divided, learner, kinds))
        triplets = list(zip(found.anchor.tolist(), found.similar.tolist(), found.dissimilar.tolist()))
        bridges = zip(found.group.tolist(), found.subset.tolist(), found.kind.tolist())
        assert len(triplets) == len(set(triplets)) <= 200
        for (anchor, similar, other), (group, subset, kind) in zip(triplets, bridges):
            assert (anchor, similar, group, subset, kind) in allowed
            assert other in dissimilar_by_loops(groups, divided, learner, subset, similar)
        possible = [link for link in allowed if dissimilar_by_loops(groups, divided, learner, link[3], link[1])]
        assert bool(triplets) == bool(possible)


@pytest.mark.parametrize("links", ["group", "shared", "both"])
def test_a_small_set_is_found_completely(links) -> None:
    features, groups, divided = mined(30, 20, 3, 4)
    kinds = {"group": (0,), "shared": (1,), "both": (0, 1)}[links]
    for learner in range(divided.count):
        expected = {
            (anchor, similar, other)
            for anchor, similar, _, subset, _ in links_by_loops(groups, divided, learner, kinds)
            for other in dissimilar_by_loops(groups, divided, learner, subset, similar)
        }
        found = transitive(groups, divided, learner, features, Transfer(links=links, count=20_000), 1)
        assert expected
        assert set(zip(found.anchor.tolist(), found.similar.tolist(), found.dissimilar.tolist())) == expected


@pytest.mark.parametrize("dissimilar", ["far", "near"])
def test_far_and_near_choose_by_the_means_of_the_groups(dissimilar) -> None:
    features, groups, divided = mined(60, 40, 3, 2)
    means = Features(values=centres(groups, features)[0], normalised=False)
    found = transitive(groups, divided, 0, features, Transfer(dissimilar=dissimilar, count=500), 0)
    own = images_of(groups, divided, 0)
    assert len(found)
    for similar, other, subset in zip(found.similar.tolist(), found.dissimilar.tolist(), found.subset.tolist()):
        part = divided.groups_of(subset).tolist()
        home = next(group for group in part if similar in groups[group].tolist())
        chosen = next(group for group in part if other in groups[group].tolist())
        rivals = [group for group in part if group != home and set(groups[group].tolist()) - own]
        assert len(rivals) <= 16
        gaps = {group: distance(means, home, group) for group in rivals}
        extreme = max(gaps.values()) if dissimilar == "far" else min(gaps.values())
        assert chosen == min(group for group in rivals if gaps[group] == extreme)


def test_of_many_groups_far_ones_are_farther_than_near_ones() -> None:
    places = np.random.default_rng(0).standard_normal((200, 3)).astype(np.float32)
    features = Features(values=np.repeat(places, 2, axis=0), normalised=False)
    groups = Groups.of([[2 * one, 2 * one + 1] for one in range(200)] + [[0, 3]], 400)
    subsets = Subsets(of_group=np.int32([0, *[1] * 199, -1]), count=2)
    gaps = {}
    for dissimilar in ("near", "any", "far"):
        found = transitive(groups, subsets, 0, features, Transfer(dissimilar=dissimilar, count=150), 0)
        pairs = zip(found.similar.tolist(), found.dissimilar.tolist())
        gaps[dissimilar] = np.mean([distance(features, a, b) for a, b in pairs])
    assert gaps["near"] * 1.3 < gaps["any"] < gaps["far"] / 1.3


def test_links_are_drawn_uniformly_whatever_the_sizes_of_their_groups() -> None:
    bridges = [[0, 2], [1, 4, 6, 8, 10, 12]]
    groups = Groups.of([[0, 1], *[[one, one + 1] for one in range(2, 3000, 2)], *bridges], 3000)
    subsets = Subsets(of_group=np.int32([0, *[1] * 1499, -1, -1]), count=2)
    found = transitive(groups, subsets, 0, None, Transfer(count=1200), 0)
    counts = Counter(zip(found.anchor.tolist(), found.similar.tolist()))
    assert set(counts) == {(0, 2), (1, 4), (1, 6), (1, 8), (1, 10), (1, 12)}
    assert all(160 < count < 240 for count in counts.values())


def test_a_seed_draws_the_same_triplets_and_never_more_than_asked_for() -> None:
    features, groups, divided = mined(60, 50, 3, 3)
    first, again, other = (transitive(groups, divided, 1, features, Transfer(count=40), seed) for seed in (1, 1, 2))
    assert len(first) == 40
    assert np.array_equal(first.dissimilar, again.dissimilar)
    assert not np.array_equal(first.dissimilar, other.dissimilar)


def test_one_subset_or_none_has_no_triplets() -> None:
    groups = Groups.of([[0, 1], [1, 2]], 3)
    assert len(transitive(groups, Subsets(of_group=np.int32([0, 0]), count=1), 0, None, Transfer(), 0)) == 0
    empty = Subsets(of_group=np.empty(0, np.int32), count=0)
    assert len(transitive(Groups.of([], 3), empty, 0, None, Transfer(), 0)) == 0


def test_bad_calls_say_what_is_needed() -> None:
    groups = Groups.of([[0, 1], [2, 3], [3, 4]], 5)
    subsets = Subsets(of_group=np.int32([0, 1, 1]), count=2)
    with pytest.raises(UsageError, match=r"^learner must be 0 … 1, one of the 2 subsets, got 2$"):
        transitive(groups, subsets, 2, None, Transfer(), 0)
    with pytest.raises(
        UsageError, match=r"^triplets\.dissimilar = 'far' needs the features, got none; pass them or use 'any'$"
    ):
        transitive(groups, subsets, 0, None, Transfer(dissimilar="far"), 0)
    message = r"^triplets need subsets whose groups share no image; those of subset 1 do; use subsets\.mode = 'divided'$"
    with pytest.raises(DataError, match=message):
        transitive(groups, subsets, 0, None, Transfer(), 0)
