from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from relation_oracles import distance, features_of, random_groups

from reliant.config import Partition
from reliant.errors import DataError, UsageError
from reliant.records import Features, Groups
from reliant.relations import centres as centre_stage
from reliant.relations.centres import centres, near_groups
from reliant.relations.neighbours import nearest
from reliant.relations.subsets import compact_first, partition


def near_by_loops(groups, features, lists, near) -> list[list[int]]:
    means = Features(values=centres(groups, features)[0], normalised=False)
    result = []
    for group in range(len(groups)):
        candidates = []
        for image in lists.ids[groups.seeds[group]].tolist():
            for other in range(len(groups)):
                if groups.seeds[other] == image and not set(groups[group].tolist()) & set(groups[other].tolist()):
                    candidates.append(other)
        ranked = sorted((distance(means, group, other), other) for other in candidates[: 4 * near])
        result.append([other for _, other in ranked[:near]])
    return result


def divided_by_loops(groups, features, lists, config, order) -> tuple[list[int], int]:
    """The placement rule with sets, every count taken anew."""
    near = near_by_loops(groups, features, lists, config.near)
    placed: list[list[int]] = [[] for _ in range(config.count)]
    waiting = list(order)
    unit = config.overlap + config.coverage
    for least in [share * unit for share in (1.0, 0.75, 0.5, 0.25) if unit] + [-math.inf]:
        for group in list(waiting):
            members = set(groups[group].tolist())
            union = {image for subset in placed for other in subset for image in groups[other].tolist()}
            best = None
            for place, subset in enumerate(placed):
                held = {image for other in subset for image in groups[other].tolist()}
                if held & members or any(other in near[group] and group in near[other] for other in subset):
                    continue
                conflicts = sum((other in near[group]) != (group in near[other]) for other in subset)
                gain = config.overlap * len(members - held) + config.coverage * len(members - union) - conflicts
                if best is None or (gain, -len(subset)) > best[:2]:
                    best = (gain, -len(subset), place)
            if best is None:
                waiting.remove(group)
            elif best[0] >= least * len(members):
                placed[best[2]].append(group)
                waiting.remove(group)
    placed = [subset for subset in placed if subset]
    size = max(1, int(config.fraction * min(map(len, placed)) + 1e-9))
    of_group = [-1] * len(groups)
    for place, subset in enumerate(placed):
        for group in subset[:size]:
            of_group[group] = place
    return of_group, len(placed)


def plain(**keys) -> Partition:
    return Partition(**{"near": 0, "fraction": 1.0, **keys})


def divided(groups, config, order=None, seed=0):
    features = features_of("random", groups.images, 3, 0)
    return partition(groups, features, nearest(features, 4), config, seed, None if order is None else np.array(order))


def test_coverage_lets_a_group_of_new_images_pass_before_one_that_overlaps() -> None:
    groups = Groups.of([[0, 1], [0, 2], [3, 4]], 5)
    assert divided(groups, plain(count=2), [0, 1, 2]).of_group.tolist() == [0, -1, 1]
    assert divided(groups, plain(count=2, coverage=0.0), [0, 1, 2]).of_group.tolist() == [0, 1, -1]


def test_the_order_decides_who_gets_in() -> None:
    groups = Groups.of([[0, 1], [1, 2], [2, 3]], 4)
    assert divided(groups, plain(count=1), [0, 1, 2]).of_group.tolist() == [0, -1, 0]
    assert divided(groups, plain(count=1), [1, 0, 2]).of_group.tolist() == [-1, 0, -1]


def test_without_an_order_the_most_compact_of_its_size_comes_first() -> None:
    groups = Groups.of([[0, 1], [1, 2], [2, 3, 4], [5, 6, 7]], 8, [1.0, 3.0, 8.0, 2.0])
    assert compact_first(groups).tolist() == [3, 0, 1, 2]
    assert divided(groups, plain(count=1)).of_group.tolist() == [0, -1, 0, 0]


def test_a_fraction_of_the_largest_equal_size_is_kept() -> None:
    groups = Groups.of([[2 * one, 2 * one + 1] for one in range(201)], 402)
    for fraction, size in ((1.0, 100), (0.5, 50), (0.29, 29), (0.001, 1)):
        found = divided(groups, plain(count=2, fraction=fraction), range(201))
        assert np.bincount(found.of_group[found.of_group >= 0]).tolist() == [size, size]
        assert (found.of_group[: 2 * size] >= 0).all()


def test_fewer_groups_than_subsets_make_fewer_subsets_and_none_makes_none() -> None:
    found = divided(Groups.of([[0, 1], [2, 3], [4, 5]], 6), plain(count=5), [2, 1, 0])
    assert (found.of_group.tolist(), found.count) == ([2, 1, 0], 3)
    nothing = divided(Groups.of([], 6), plain(count=5))
    assert (nothing.of_group.tolist(), nothing.count) == ([], 0)


def test_whole_is_one_subset_with_every_group() -> None:
    groups = Groups.of([[0, 1], [1, 2], [2, 3]], 4)
    found = divided(groups, plain(count=3, mode="whole"))
    assert (found.of_group.tolist(), found.count) == ([0, 0, 0], 1)


def test_groups_that_list_each_other_as_near_part() -> None:
    features = Features(values=np.float32([[0], [0.1], [1], [1.1], [50], [50.1]]), normalised=False)
    groups = Groups.of([[0, 1], [2, 3], [4, 5]], 6)
    lists = nearest(features, 5)
    assert near_groups(groups, centres(groups, features)[0], lists, 1).tolist() == [[1], [0], [1]]
    found = partition(groups, features, lists, plain(count=1, near=1), 0, np.arange(3))
    assert found.of_group.tolist() == [0, -1, 0]
    # The third lists the second, not the other way round: with a choice it avoids its subset.
    found = partition(groups, features, lists, plain(count=2, near=1, coverage=0.0), 0, np.array([1, 0, 2]))
    assert found.of_group.tolist() == [1, 0, -1]
    found = partition(groups, features, lists, plain(count=2, near=1), 0, np.array([1, 2, 0]))
    assert found.of_group.tolist() == [-1, 0, 1]


def test_a_group_beside_a_near_one_waits_for_a_later_sweep() -> None:
    features = Features(values=np.float32([[0], [0.1], [1], [1.1], [50], [50.1], [200], [200.1]]), normalised=False)
    groups, lists = Groups.of([[0, 1], [2, 3], [4, 5], [6, 7]], 8), nearest(features, 7)
    assert near_groups(groups, centres(groups, features)[0], lists, 1).tolist() == [[1], [0], [1], [2]]
    config = plain(count=1, near=1, fraction=0.67)
    found = partition(groups, features, lists, config, 0, np.array([1, 2, 3, 0]))
    assert found.of_group.tolist() == [-1, 0, -1, 0]


@settings(deadline=None, max_examples=40)
@given(
    st.integers(6, 30),
    st.integers(1, 20),
    st.integers(1, 6),
    st.integers(0, 3),
    st.sampled_from([0.2, 0.5, 1.0]),
    st.sampled_from([(1.0, 1.0), (1.0, 0.0), (0.0, 1.0), (0.0, 0.0), (0.2, 3.0)]),
    st.integers(0, 1000),
)
def test_subsets_are_those_of_loops_and_keep_every_promise(images, count, subsets, near, fraction, weights, seed) -> None:
    features = features_of("random", images, 3, seed)
    lists, groups = nearest(features, 8), random_groups(images, count, 4, seed, smallest=1)
    config = Partition(count=subsets, near=near, fraction=fraction, overlap=weights[0], coverage=weights[1])
    order = np.random.default_rng(seed).permutation(len(groups))
    found = partition(groups, features, lists, config, seed, order)
    expected, number = divided_by_loops(groups, features, lists, config, order.tolist())
    assert (found.of_group.tolist(), found.count) == (expected, number)
    sizes = {len(found.groups_of(subset)) for subset in range(found.count)}
    assert len(sizes) == 1
    assert min(sizes) >= 1
    listed = near_by_loops(groups, features, lists, near)
    for subset in range(found.count):
        for a, b in combinations(found.groups_of(subset).tolist(), 2):
            assert not set(groups[a].tolist()) & set(groups[b].tolist())
            assert not (a in listed[b] and b in listed[a])


@pytest.mark.parametrize("block", [1, 1 << 18])
def test_near_groups_and_centres_are_those_of_loops(block, monkeypatch) -> None:
    features = features_of("random", 60, 4, 1)
    groups, lists = random_groups(60, 50, 3, 2), nearest(features, 30)
    monkeypatch.setattr(centre_stage, "BLOCK", block)
    means, spreads = centres(groups, features)
    for place, group in enumerate(groups):
        values = features.values[group].astype(float)
        assert means[place] == pytest.approx(values.mean(axis=0), rel=1e-5, abs=1e-6)
        assert spreads[place] == pytest.approx(((values - values.mean(axis=0)) ** 2).sum(axis=1).mean())
    found = near_groups(groups, means, lists, 3).tolist()
    assert [[other for other in row if other >= 0] for row in found] == near_by_loops(groups, features, lists, 3)


def test_planted_near_copies_never_share_a_subset() -> None:
    random = np.random.default_rng(0)
    places = np.repeat(random.standard_normal((12, 8)), 20, axis=0)
    features = Features(values=(places + 0.05 * random.standard_normal((240, 8))).astype(np.float32), normalised=False)
    groups = Groups.of([list(range(4 * one, 4 * one + 4)) for one in range(60)], 240)
    found = partition(groups, features, nearest(features, 30), Partition(fraction=1.0), 0)
    for subset in range(found.count):
        cliques = found.groups_of(subset) // 5
        assert len(set(cliques.tolist())) == len(cliques) >= 10


def test_a_bad_order_and_other_sets_are_refused() -> None:
    groups = Groups.of([[0, 1], [2, 3]], 4)
    for order in ([0, 0], [0], [1, 2]):
        with pytest.raises(
            UsageError, match=rf"^order must name each of the 2 groups once, got an array of shape \({len(order)},\)$"
        ):
            divided(groups, plain(), order)
    features = features_of("random", 5, 2, 0)
    with pytest.raises(DataError, match=r"^subsets: 4 images in groups, 5 features, 5 neighbour lists do not match$"):
        partition(groups, features, nearest(features, 2), plain(), 0)
