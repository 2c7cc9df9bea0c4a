from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reliant.errors import DataError
from reliant.records import (
    Assignment,
    Budget,
    ChanceThresholds,
    Evidence,
    Features,
    Groups,
    Images,
    Labels,
    Neighbours,
    Quarantine,
    Snapshot,
    Subsets,
    Targets,
    Triplets,
    Verdict,
)

lists = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=5), max_size=6)


def refused(record: Any, **fields: Any) -> str:
    with pytest.raises(DataError) as caught:
        record(**fields)
    return str(caught.value)


def zeros(*shape: int, kind: Any = np.float32) -> np.ndarray:
    return np.zeros(shape, dtype=kind)


def test_images_have_four_dimensions_of_bytes_and_an_id_each() -> None:
    images = Images(pixels=zeros(2, 4, 4, 1, kind=np.uint8), ids=["a", "b"])
    assert len(images) == 2
    assert refused(Images, pixels=zeros(2, 4, 4, 1), ids=["a", "b"]) == "pixels must be uint8, got float32"
    assert (
        refused(Images, pixels=zeros(2, 4, 4, kind=np.uint8), ids=["a", "b"])
        == "pixels must have 4 dimension(s), got shape (2, 4, 4)"
    )
    assert refused(Images, pixels=[1], ids=[]) == "pixels must be a NumPy array, got list"
    assert (
        refused(Images, pixels=zeros(2, 4, 4, 1, kind=np.uint8), ids=["a"]) == "Images: lengths differ: {'pixels': 2, 'ids': 1}"
    )


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_features_are_finite(bad: float) -> None:
    values = zeros(3, 2)
    values[2, 1] = bad
    message = refused(Features, values=values, layer="conv")
    assert message == "features (conv) hold NaN or infinite values; every row must be finite"


def test_features_beyond_the_first_block_are_looked_at() -> None:
    values = zeros(65537, 1)
    values[-1] = np.nan
    assert refused(Features, values=values).startswith("features (final) hold NaN")


def test_features_have_a_dimension() -> None:
    assert refused(Features, values=zeros(3, 0)) == "features have no dimension"
    assert refused(Features, values=zeros(3)) == "features must have 2 dimension(s), got shape (3,)"
    assert len(Features(values=zeros(0, 4))) == 0


def test_neighbours_have_a_distance_each() -> None:
    near = Neighbours(ids=zeros(3, 2, kind=np.int32), distances=zeros(3, 2))
    assert (len(near), near.k) == (3, 2)
    message = refused(Neighbours, ids=zeros(3, 2, kind=np.int32), distances=zeros(3, 1))
    assert message == "neighbour ids and distances differ in shape"


def test_a_limit_by_seed_and_size() -> None:
    limits = np.array([[0.2, 0.3, 0.4]], dtype=np.float32)
    shared = ChanceThresholds(limits=limits, samples=zeros(3, 5), percentile=3, null="random")
    own = ChanceThresholds(limits=np.vstack([limits, limits * 2]), samples=zeros(3, 5), percentile=3, null="local")
    assert shared.cap == own.cap == 4
    assert shared.limit(1, 2) == pytest.approx(0.2)
    assert own.limit(1, 4) == pytest.approx(0.8)
    message = refused(ChanceThresholds, limits=limits, samples=zeros(2, 5), percentile=3, null="random")
    assert message == "limits and samples name different sizes"


def test_groups_by_hand() -> None:
    groups = Groups.of([[4, 1], [0, 2, 3]], images=6, diameters=[0.5, 0.25])
    assert len(groups) == 2
    assert [group.tolist() for group in groups] == [[4, 1], [0, 2, 3]]
    assert groups.sizes.tolist() == [2, 3]
    assert groups.seeds.tolist() == [4, 0]
    assert groups.owners.tolist() == [0, 0, 1, 1, 1]
    assert groups.coverage == pytest.approx(5 / 6)
    assert groups.diameters.tolist() == [0.5, 0.25]


def test_groups_that_share_images_cover_them_once() -> None:
    assert Groups.of([[0, 1], [1, 2]], images=4).coverage == 0.75


def test_no_groups() -> None:
    none = Groups.of([], images=3)
    assert (len(none), none.coverage, list(none)) == (0, 0.0, [])
    assert none.owners.shape == none.sizes.shape == none.seeds.shape == (0,)
    assert len(none.select(np.array([]))) == 0
    assert Groups.of([], images=0).coverage == 0.0


@given(lists, st.data())
@settings(deadline=None, max_examples=50)
def test_chosen_groups_are_those_of_the_list(members: list[list[int]], data: st.DataObject) -> None:
    groups = Groups.of(members, images=10, diameters=np.arange(len(members)))
    chosen = data.draw(st.lists(st.integers(0, len(members) - 1), max_size=8)) if members else []
    picked = groups.select(np.array(chosen, dtype=np.int64))
    assert [group.tolist() for group in picked] == [members[one] for one in chosen]
    assert picked.diameters.tolist() == chosen
    assert picked.images == 10


@pytest.mark.parametrize(
    ("offsets", "members", "message"),
    [
        ([0, 1], [0, 1], "groups: offsets must rise from 0 to the number of members"),
        ([1, 2], [0, 1], "groups: offsets must rise from 0 to the number of members"),
        ([0, 2], [0, 3], "groups: members 0…3 of 3 images"),
        ([0, 2], [-1, 0], "groups: members -1…0 of 3 images"),
        ([0, 1, 2], [0, 1], "groups: offsets and diameters do not match"),
    ],
)
def test_groups_that_are_none(offsets: list[int], members: list[int], message: str) -> None:
    fields = {"offsets": np.array(offsets), "members": np.array(members, dtype=np.int32), "diameters": zeros(1), "images": 3}
    assert refused(Groups, **fields) == message


def test_a_group_has_members() -> None:
    fields = {"offsets": np.array([0, 0, 2]), "members": zeros(2, kind=np.int32), "diameters": zeros(2), "images": 3}
    assert refused(Groups, **fields) == "groups: offsets must rise from 0 to the number of members"


def test_evidence_is_a_row_a_group() -> None:
    columns = dict.fromkeys(("chance", "shared", "survival", "agreement"), zeros(2))
    assert len(Evidence(**columns, reliability=zeros(2))) == 2
    assert refused(Evidence, **columns, reliability=zeros(3)).startswith("Evidence: lengths differ: ")


def test_subsets_name_the_groups_of_each() -> None:
    subsets = Subsets(of_group=np.array([1, -1, 0, 1], dtype=np.int32), count=2)
    assert subsets.groups_of(1).tolist() == [0, 3]
    assert subsets.groups_of(0).tolist() == [2]
    assert refused(Subsets, of_group=np.array([2], dtype=np.int32), count=2) == "subsets 2…2 of 2"
    assert refused(Subsets, of_group=np.array([-2], dtype=np.int32), count=2) == "subsets -2…-2 of 2"


def test_targets_have_a_hub_for_every_point_and_a_spread() -> None:
    fields = {"key": 1, "points": 3, "dimension": 4}
    assert refused(Targets, **fields, spread=-0.5) == "targets: spread must be ≥ 0, got -0.5"
    assert refused(Targets, **fields, spread=0.0, hubs=zeros(2, 5)) == "hubs have another dimension than the targets"
    message = refused(Targets, **fields, spread=0.0, hub_of_point=zeros(2, kind=np.int32))
    assert message == "hub_of_point must name a hub for every point"


@given(st.lists(st.integers(-1, 6), max_size=6))
@settings(deadline=None, max_examples=50)
def test_an_assignment_is_a_permutation(points: list[int]) -> None:
    array = np.array(points, dtype=np.int32)
    if sorted(points) == list(range(len(points))):
        assert len(Assignment(point=array)) == len(points)
    else:
        assert refused(Assignment, point=array) == "an assignment must be a permutation of its points"


def test_triplets_have_columns_of_one_length() -> None:
    columns = dict.fromkeys(("anchor", "similar", "dissimilar", "group", "subset"), zeros(2, kind=np.int32))
    assert len(Triplets(**columns, kind=zeros(2, kind=np.int32))) == 2
    assert refused(Triplets, **columns, kind=zeros(1, kind=np.int32)).startswith("Triplets: lengths differ: ")
    assert refused(Triplets, **columns, kind=zeros(2)) == "triplets kind must be int32, got float32"


def test_labels_and_quarantine_have_lengths() -> None:
    labels = Labels(values=np.array([0, -1, 1], dtype=np.int32), names=["cat", "dog"])
    assert (len(labels), labels.classes) == (3, 2)
    assert len(Quarantine(ids=["a"], reasons=["truncated"])) == 1


def test_a_snapshot_holds_plain_numbers_and_json() -> None:
    assert Snapshot(arrays={"w": zeros(2), "n": np.array(3)}, meta={"a": [1, None]}).meta == {"a": [1, None]}
    assert refused(Snapshot, arrays={"w": [1]}) == "snapshot: w must be a NumPy array, got list"
    assert refused(Snapshot, arrays={"w": np.array(["a"])}) == "snapshot: w must hold booleans, integers or floats, got <U1"
    assert refused(Snapshot, arrays={"w": np.zeros(1, dtype=">f4")}).startswith("snapshot: w must hold booleans")
    assert refused(Snapshot, arrays={"__metadata__": zeros(1)}).startswith("snapshot: '__metadata__' is no name")
    assert refused(Snapshot, arrays={}, meta={"a": {1, 2}}).startswith("snapshot: meta must be JSON")


def test_budgets_add_up_and_peaks_do_not() -> None:
    total = Budget(passes=1.5, seconds=2, peak_bytes=10) + Budget(passes=2, seconds=3, peak_bytes=7)
    assert total == Budget(passes=3.5, seconds=5, peak_bytes=10)


def test_a_verdict_is_healthy_or_not() -> None:
    assert Verdict().healthy
    assert not Verdict(state="flat").healthy


def test_records_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Budget().passes = 3  # type: ignore[misc]
