from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reliant.config import Chance, Grouping, Partition, Transfer
from reliant.learning.features import unit_rows
from reliant.randomness import generator
from reliant.records import Evidence, Features, Groups, Neighbours, Relations, Subsets
from reliant.relations import chance, consensus, groups, mining, reliability, subsets, triplets
from reliant.relations.neighbours import nearest


def clustered(count: int = 60, seed: int = 0) -> Features:
    """Points of ten directions with noise."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(10, 6))
    values = centres[np.arange(count) % 10] + 0.15 * random.normal(size=(count, 6))
    return Features(values=unit_rows(values.astype(np.float32)))


def mine(features: Features, near: Neighbours | None = None, *, spread: Any = None, **keys: Any) -> Relations:
    stages = {
        "chance": Chance(groups=100, null="pairs"),
        "grouping": Grouping(cap=4),
        "partition": Partition(count=2, fraction=1.0),
        "transfer": Transfer(count=50, links="both"),
    }
    return mining.mine(features, near or nearest(features, 8), seed=3, spread=spread, **{**stages, **keys})


def test_the_parts_are_mined_in_the_papers_order_from_each_other() -> None:
    features = clustered()
    near = nearest(features, 8)
    found = mine(features, near)
    limits = chance.thresholds(features, near, Chance(groups=100, null="pairs"), 4, 3)
    grown = groups.grow(features, near, limits, Grouping(cap=4))
    evidence = reliability.evidence(grown, near, limits)
    order = generator(3, "order of groups").permutation(len(grown))
    divided = subsets.partition(grown, features, near, Partition(count=2, fraction=1.0), 3, order)
    assert found.groups.members.tolist() == grown.members.tolist()
    assert found.evidence.reliability.tobytes() == evidence.reliability.tobytes()
    assert found.subsets.of_group.tolist() == divided.of_group.tolist()
    for learner in range(divided.count):
        expected = triplets.transitive(grown, divided, learner, features, Transfer(count=50, links="both"), 3)
        assert found.triplets[learner].anchor.tolist() == expected.anchor.tolist()
    assert found.summary["limits"] == [round(float(limit), 6) for limit in limits.limits[0]]


def test_the_most_reliable_groups_may_be_placed_first() -> None:
    features = clustered()
    found = mine(features, partition=Partition(count=2, fraction=0.2, order="reliable"))
    chosen = found.evidence.reliability[found.subsets.of_group >= 0]
    left = found.evidence.reliability[found.subsets.of_group < 0]
    assert chosen.mean() > left.mean()


def test_the_same_seed_mines_the_same() -> None:
    first, second = mine(clustered()), mine(clustered())
    assert first.groups.members.tobytes() == second.groups.members.tobytes()
    assert first.subsets.of_group.tobytes() == second.subsets.of_group.tobytes()
    strip = {"cpu_seconds"}
    assert {k: v for k, v in first.summary.items() if k not in strip} == {
        k: v for k, v in second.summary.items() if k not in strip
    }


def test_every_part_is_timed() -> None:
    assert list(mine(clustered()).summary["cpu_seconds"]) == ["chance", "groups", "reliability", "subsets", "triplets"]


def test_the_spread_is_measured_on_the_mined_groups_whatever_the_arm() -> None:
    seen: list[Groups] = []

    def spread(found: Groups) -> float:
        seen.append(found)
        return 0.25

    mined = mine(clustered(), spread=spread)
    single = mine(clustered(), spread=spread, grouping=Grouping(cap=4, members="singletons"))
    assert mined.summary["spread"] == single.summary["spread"] == 0.25
    assert seen[0].members.tolist() == seen[1].members.tolist()
    assert mine(clustered()).summary["spread"] is None


@pytest.mark.parametrize("arm", ["singletons", "shuffled"])
def test_an_arm_changes_who_is_in_a_group_and_nothing_else(arm: str) -> None:
    mined = mine(clustered())
    other = mine(clustered(), grouping=Grouping(cap=4, members=arm))  # type: ignore[arg-type]
    assert other.summary["members"] == arm
    assert len(other.groups) == len(mined.groups)
    assert other.subsets.of_group.tolist() == mined.subsets.of_group.tolist()
    assert other.evidence.reliability.tobytes() == mined.evidence.reliability.tobytes()
    assert other.groups.members.tolist() != mined.groups.members.tolist()


@pytest.mark.parametrize("count", [2, 3, 4])
def test_fewer_images_than_the_largest_group(count: int) -> None:
    found = mine(clustered(count), grouping=Grouping(cap=16))
    assert found.groups.images == count
    assert found.groups.sizes.max(initial=0) <= count


def test_equal_images_have_no_reliable_relation() -> None:
    found = mine(Features(values=np.ones((20, 3), np.float32)))
    assert (len(found.groups), found.subsets.count, found.triplets) == (0, 0, [])
    assert found.summary["coverage"] == found.summary["reliability"] == 0


def summary_of(members: list[list[int]], of_group: list[int], images: int, count: int) -> dict[str, Any]:
    column = np.full(len(members), 0.5, np.float32)
    evidence = Evidence(chance=column, shared=column, survival=column, agreement=column, reliability=column)
    divided = Subsets(of_group=np.array(of_group, np.int32), count=count, terms={"objective": -1.0})
    return mining.summarise(Groups.of(members, images=images), evidence, divided)


def test_a_summary_by_hand() -> None:
    found = summary_of([[0, 1], [1, 2, 3], [4, 5], [6, 0]], [0, 1, 0, -1], images=8, count=2)
    assert found == {
        "images": 8,
        "groups": 4,
        "sizes": {"2": 3, "3": 1},
        "coverage": 7 / 8,
        "reliability": 0.5,
        "subsets": 2,
        "subset_groups": [2, 1],
        "subset_coverage": [4 / 8, 3 / 8],
        "union_coverage": 6 / 8,
        "terms": {"objective": -1.0},
    }


@given(st.lists(st.lists(st.integers(0, 7), min_size=1, max_size=4, unique=True), max_size=6), st.data())
@settings(deadline=None, max_examples=30)
def test_a_summary_is_that_of_plain_loops(members: list[list[int]], data: st.DataObject) -> None:
    of_group = [data.draw(st.integers(-1, 1)) for _ in members]
    found = summary_of(members, of_group, images=8, count=2)
    inside = [{image for group, one in zip(members, of_group) if one == subset for image in group} for subset in (0, 1)]
    assert found["coverage"] == len({image for group in members for image in group}) / 8
    assert found["subset_groups"] == [of_group.count(0), of_group.count(1)]
    assert found["subset_coverage"] == [len(one) / 8 for one in inside]
    assert found["union_coverage"] == len(inside[0] | inside[1]) / 8
    assert sum(found["sizes"].values()) == found["groups"] == len(members)


def lists(*rows: list[int]) -> Neighbours:
    ids = np.array(rows, dtype=np.int32)
    return Neighbours(ids=ids, distances=np.zeros(ids.shape, np.float32))


def test_the_overlap_by_hand() -> None:
    first, second = lists([1, 2], [0, 2], [0, 1]), lists([2, 3], [2, 0], [3, 4])
    assert consensus.overlap(first, second) == pytest.approx((1 + 2 + 0) / 6)
    assert consensus.overlap(first, first) == 1
    nobody = Neighbours(ids=np.zeros((3, 0), np.int32), distances=np.zeros((3, 0), np.float32))
    assert consensus.overlap(nobody, nobody) == 0


def test_the_one_that_the_others_confirm_most() -> None:
    odd, first, second = lists([7, 8], [7, 8]), lists([1, 2], [3, 4]), lists([1, 2], [3, 5])
    assert consensus.agreement([odd, first, second]).tolist() == [0, 0.375, 0.375]
    assert consensus.most_agreeing([odd, first, second]) == 1
    assert consensus.most_agreeing([first, odd]) == 0
    assert consensus.most_agreeing([odd]) == 0


@given(st.integers(1, 5), st.integers(1, 6), st.integers(1, 4), st.integers(0, 99))
@settings(deadline=None, max_examples=30)
def test_agreement_is_that_of_plain_loops(learners: int, images: int, k: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    near = [lists(*[random.permutation(9)[:k].tolist() for _ in range(images)]) for _ in range(learners)]

    def shared(one: Neighbours, other: Neighbours) -> float:
        return sum(len(set(a) & set(b)) for a, b in zip(one.ids.tolist(), other.ids.tolist())) / (images * k)

    expected = [sum(shared(one, other) for other in near if other is not one) / max(1, learners - 1) for one in near]
    np.testing.assert_allclose(consensus.agreement(near), expected, atol=1e-12)
