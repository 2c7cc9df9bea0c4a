from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from reliant.learning.subproblem import entries, inherited_hubs
from reliant.learning.targets import uniform_hubs
from reliant.records import Evidence, Groups, Relations, Subsets


def mined(groups: list[list[int]], subsets: list[int], images: int, count: int = 2) -> Relations:
    column = np.zeros(len(groups), np.float32)
    return Relations(
        groups=Groups.of(groups, images=images),
        evidence=Evidence(chance=column, shared=column, survival=column, agreement=column, reliability=column),
        subsets=Subsets(of_group=np.array(subsets, dtype=np.int32), count=count),
        triplets=[],
    )


def test_the_entries_of_a_subset_by_hand() -> None:
    relations = mined([[4, 1], [0, 2, 3], [1, 5], [3, 0]], [1, 0, 0, -1], images=6)
    images, owners = entries(relations, 0)
    assert images.tolist() == [0, 2, 3, 1, 5]
    assert owners.tolist() == [0, 0, 0, 1, 1]
    assert images.dtype == owners.dtype == np.int32


def test_uncovered_images_take_part_alone() -> None:
    relations = mined([[4, 1], [0, 2, 3], [1, 5], [3, 0]], [1, 0, 0, -1], images=7)
    images, owners = entries(relations, 1, "singletons")
    assert images.tolist() == [4, 1, 0, 2, 3, 5, 6]
    assert owners.tolist() == [0, 0, 1, 2, 3, 4, 5]
    assert images.dtype == owners.dtype == np.int32


def test_an_image_of_several_groups_has_an_entry_in_each() -> None:
    relations = mined([[0, 1], [1, 2], [2, 0]], [0, 0, 0], images=3, count=1)
    images, owners = entries(relations, 0, "singletons")
    assert images.tolist() == [0, 1, 1, 2, 2, 0]
    assert owners.tolist() == [0, 0, 1, 1, 2, 2]


def test_a_subset_without_groups() -> None:
    relations = mined([[0, 1]], [0], images=3)
    images, owners = entries(relations, 1)
    assert images.shape == owners.shape == (0,)
    images, owners = entries(relations, 1, "singletons")
    assert images.tolist() == owners.tolist() == [0, 1, 2]


@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True), max_size=6), st.data())
@settings(deadline=None, max_examples=40)
def test_every_image_takes_part_where_singletons_do(groups: list[list[int]], data: st.DataObject) -> None:
    subsets = [data.draw(st.integers(-1, 1)) for _ in groups]
    relations = mined(groups, subsets, images=10)
    images, owners = entries(relations, 0, "singletons")
    assert set(images.tolist()) == set(range(10))
    assert (np.diff(owners) >= 0).all()
    assert set(owners.tolist()) == set(range(int(owners.max()) + 1))
    pairs = {(image, owner) for image, owner in zip(images.tolist(), owners.tolist())}
    inside = [group for group, subset in zip(groups, subsets) if subset == 0]
    assert {(image, place) for place, group in enumerate(inside) for image in group} <= pairs


def test_inherited_hubs_by_hand() -> None:
    present = np.array([[1, 0], [0, 1], [np.nan, np.nan], [0, 2]], dtype=np.float32)
    images, owners = np.array([0, 1, 2, 3], np.int32), np.array([0, 0, 1, 2], np.int32)
    hubs = inherited_hubs(present, images, owners, key=5)
    half = np.sqrt(0.5)
    np.testing.assert_allclose(hubs[0], [half, half], rtol=1e-6)
    np.testing.assert_allclose(hubs[1], uniform_hubs(5, np.arange(3), 2)[1], rtol=1e-6)
    np.testing.assert_allclose(hubs[2], [0, 1], rtol=1e-6)
    assert hubs.dtype == np.float32


def test_an_image_without_a_target_does_not_pull_its_group() -> None:
    present = np.array([[1, 0], [np.nan, np.nan]], dtype=np.float32)
    hubs = inherited_hubs(present, np.array([0, 1], np.int32), np.array([0, 0], np.int32), key=5)
    np.testing.assert_allclose(hubs, [[1, 0]])


def test_targets_that_cancel_give_a_fresh_hub() -> None:
    present = np.array([[1, 0], [-1, 0]], dtype=np.float32)
    hubs = inherited_hubs(present, np.array([0, 1], np.int32), np.array([0, 0], np.int32), key=5)
    np.testing.assert_allclose(hubs, uniform_hubs(5, np.arange(1), 2), rtol=1e-6)
    assert np.linalg.norm(hubs) > 0.99


def test_no_entries_have_no_hubs() -> None:
    nothing = np.empty(0, np.int32)
    assert inherited_hubs(np.zeros((3, 4), np.float32), nothing, nothing, key=5).shape == (0, 4)
