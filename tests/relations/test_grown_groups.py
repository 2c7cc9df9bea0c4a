from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from relation_oracles import KINDS, diameter, distance, feature_sets, features_of, random_groups

from reliant.config import Chance, Grouping
from reliant.errors import DataError, UsageError
from reliant.records import ChanceThresholds, Features, Groups
from reliant.relations import distances, groups
from reliant.relations.chance import thresholds
from reliant.relations.groups import controlled, distinct_pairs, grow
from reliant.relations.neighbours import nearest


def limits_of(*values: float) -> ChanceThresholds:
    limits = np.float32([values])
    return ChanceThresholds(limits=limits, samples=np.sort(limits.T, axis=1), percentile=3.0, null="random")


def grown_by_loops(features, lists, limits, config) -> list[tuple[list[int], np.float32]]:
    cap = max(1, min(config.cap, limits.cap, len(features)))
    kept, seen = [], set()
    for seed in range(len(features)):
        members, sizes = [seed], []
        while len(members) < cap:
            taken = (
                _next_of_seed(lists, members) if config.neighbours_of == "seed" else _next_of_group(features, lists, members)
            )
            if taken is None:
                break
            members.append(taken)
            if diameter(features, members) < limits.limit(seed, len(members)):
                sizes.append(len(members))
            elif config.stop == "first":
                break
        final = members[: max(sizes, default=1)]
        if len(final) >= config.minimum and frozenset(final) not in seen:
            seen.add(frozenset(final))
            kept.append((final, diameter(features, final)))
    return kept


def _next_of_seed(lists, members):
    listed = lists.ids[members[0]].tolist()
    return listed[len(members) - 1] if len(members) <= len(listed) else None


def _next_of_group(features, lists, members):
    candidates = {int(one) for member in members for one in lists.ids[member]} - set(members)
    reach = [(max(distance(features, one, member) for member in members), one) for one in candidates]
    return min(reach)[1] if reach else None


def test_a_group_ends_at_its_first_limit_or_after_its_last() -> None:
    features = Features(values=np.float32([[0], [1], [3], [3.5], [40]]), normalised=False)
    lists, limits = nearest(features, 4), limits_of(2, 2.5, 4, 4)
    first = grow(features, lists, limits, Grouping(cap=5))
    assert [group.tolist() for group in first] == [[0, 1], [2, 3]]
    assert first.diameters.tolist() == [1, 0.5]
    last = grow(features, lists, limits, Grouping(cap=5, stop="last"))
    assert [group.tolist() for group in last] == [[0, 1, 2, 3]]
    assert last.diameters.tolist() == [3.5]


def test_a_limit_that_is_just_reached_is_not_kept() -> None:
    features = Features(values=np.float32([[0], [1]]), normalised=False)
    assert len(grow(features, nearest(features, 1), limits_of(1), Grouping(cap=2))) == 0
    assert len(grow(features, nearest(features, 1), limits_of(1.001), Grouping(cap=2))) == 1


def test_the_neighbour_of_the_group_is_not_always_that_of_the_seed() -> None:
    features = Features(values=np.float32([[0], [2], [-2.1], [3]]), normalised=False)
    lists, limits = nearest(features, 3), limits_of(9, 9)
    assert grow(features, lists, limits, Grouping(cap=3))[0].tolist() == [0, 1, 2]
    assert grow(features, lists, limits, Grouping(cap=3, neighbours_of="group"))[0].tolist() == [0, 1, 3]


def test_of_groups_with_the_same_images_the_one_of_the_lowest_seed_stays() -> None:
    features = Features(values=np.float32([[5], [0], [1], [5.5]]), normalised=False)
    found = grow(features, nearest(features, 1), limits_of(2), Grouping(cap=2))
    assert [group.tolist() for group in found] == [[0, 3], [1, 2]]


@settings(deadline=None, max_examples=50)
@given(
    feature_sets(most=40),
    st.integers(1, 9),
    st.sampled_from(["seed", "group"]),
    st.sampled_from(["first", "last"]),
    st.sampled_from(["random", "pairs", "local"]),
    st.integers(2, 4),
)
def test_groups_are_those_of_loops_and_keep_their_limits(features, k, source, stop, null, minimum) -> None:
    lists = nearest(features, k)
    limits = thresholds(features, lists, Chance(null=null, groups=40, percentile=40, pool=8), 6, 1)
    config = Grouping(neighbours_of=source, stop=stop, cap=6, minimum=minimum)
    found = grow(features, lists, limits, config)
    expected = grown_by_loops(features, lists, limits, config)
    assert [group.tolist() for group in found] == [members for members, _ in expected]
    assert found.diameters.tolist() == [size for _, size in expected]
    assert len({frozenset(group.tolist()) for group in found}) == len(found)
    for group in found:
        sizes = range(2, len(group) + 1) if stop == "first" else [len(group)]
        for size in sizes:
            limit = limits.limit(int(group[0]), size)
            assert all(distance(features, a, b) < limit for a, b in combinations(group[:size], 2))


@pytest.mark.parametrize("source", ["seed", "group"])
@pytest.mark.parametrize("kind", KINDS)
def test_blocks_change_no_group(kind, source, monkeypatch) -> None:
    features = features_of(kind, 90, 6, 4)
    lists = nearest(features, 8)
    limits = thresholds(features, lists, Chance(groups=100, percentile=60), 7, 0)
    config = Grouping(neighbours_of=source, cap=7)
    whole = grow(features, lists, limits, config)
    for module in (distances, groups):
        monkeypatch.setattr(module, "BLOCK", 1)
    small = grow(features, lists, limits, config)
    assert np.array_equal(whole.members, small.members)
    assert np.array_equal(whole.offsets, small.offsets)
    assert np.array_equal(whole.diameters, small.diameters)


@pytest.mark.parametrize("source", ["seed", "group"])
@pytest.mark.parametrize("stop", ["first", "last"])
def test_one_image_and_equal_images_give_no_group(source, stop) -> None:
    for features in (features_of("random", 1, 3, 0), features_of("equal", 12, 3, 0)):
        lists = nearest(features, 5)
        limits = thresholds(features, lists, Chance(groups=20), 4, 0)
        found = grow(features, lists, limits, Grouping(neighbours_of=source, stop=stop, cap=4))
        assert len(found) == 0
        assert found.images == len(features)


def test_records_of_different_sets_are_refused() -> None:
    features = features_of("random", 6, 2, 0)
    message = r"^groups: 6 features, 5 neighbour lists and 1 rows of limits do not match$"
    with pytest.raises(DataError, match=message):
        grow(features, nearest(features_of("random", 5, 2, 0), 2), limits_of(1), Grouping(cap=2))


def test_singletons_are_the_seeds_alone() -> None:
    mined = Groups.of([[4, 1, 2], [0, 3]], 6, [1.0, 2.0])
    cut = controlled(mined, "singletons", 0)
    assert [group.tolist() for group in cut] == [[4], [0]]
    assert cut.diameters.tolist() == [0, 0]
    assert controlled(mined, "mined", 0) is mined


@given(st.integers(2, 30), st.integers(0, 50))
def test_shuffled_groups_keep_sizes_overlaps_and_coverage(images, seed) -> None:
    mined = random_groups(images, 8, 5, seed)
    features = features_of("random", images, 3, seed)
    mixed = controlled(mined, "shuffled", seed, features)
    assert mixed.sizes.tolist() == mined.sizes.tolist()
    assert mixed.coverage == mined.coverage
    for a, b in combinations(range(len(mined)), 2):
        assert len({*mixed[a].tolist()} & {*mixed[b].tolist()}) == len({*mined[a].tolist()} & {*mined[b].tolist()})
    assert mixed.diameters.tolist() == [diameter(features, group.tolist()) for group in mixed]
    assert not controlled(mined, "shuffled", seed).diameters.any()


def test_an_unknown_control_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^unknown groups\.members 'none'; allowed: mined, singletons, shuffled$"):
        controlled(Groups.of([[0, 1]], 2), "none", 0)


@pytest.mark.parametrize("block", [1, 1 << 18])
def test_related_pairs_are_counted_once_a_group(block, monkeypatch) -> None:
    monkeypatch.setattr(groups, "BLOCK", block)
    mined = random_groups(25, 20, 6, 3, smallest=1)
    expected = Counter(pair for group in mined for pair in combinations(sorted(group.tolist()), 2))
    pairs, counts = distinct_pairs(mined)
    assert list(map(tuple, pairs.tolist())) == sorted(expected)
    assert counts.tolist() == [expected[pair] for pair in sorted(expected)]


def test_no_groups_have_no_pairs() -> None:
    pairs, counts = distinct_pairs(Groups.of([], 5))
    assert pairs.shape == (0, 2)
    assert counts.shape == (0,)
