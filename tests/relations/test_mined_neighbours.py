from __future__ import annotations

import sys
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from relation_oracles import KINDS, feature_sets, features_of, jaccard_by_sets, nearest_by_loops

from reliant.errors import MissingExtraError, UsageError
from reliant.records import Features, Neighbours
from reliant.relations import distances, neighbours
from reliant.relations.neighbours import jaccard, nearest, nearest_of, rerank_shared, shared_overlap

METHODS = ("numpy", "faiss")


@pytest.fixture(params=METHODS)
def method(request) -> str:
    if request.param == "faiss":
        pytest.importorskip("faiss")
    return request.param


def test_three_points_on_a_line(method) -> None:
    features = Features(values=np.float32([[0], [1], [3]]), normalised=False)
    found = nearest(features, 2, method=method)
    assert found.ids.tolist() == [[1, 2], [0, 2], [1, 0]]
    assert found.distances.tolist() == [[1, 3], [1, 2], [2, 3]]


@settings(deadline=None, max_examples=50)
@given(feature_sets(), st.integers(1, 70))
def test_both_back_ends_answer_as_loops_do(features, k) -> None:
    ids, gaps = nearest_by_loops(features, k)
    for method in METHODS if neighbours._library("auto") else METHODS[:1]:
        found = nearest(features, k, method=method)
        assert found.ids.tolist() == ids
        assert found.distances.tolist() == gaps


@pytest.mark.parametrize("kind", KINDS)
def test_a_set_larger_than_the_proposals_is_searched_exactly(kind, method) -> None:
    features = features_of(kind, 150, 5, 1)
    found = nearest(features, 4, method=method)
    ids, gaps = nearest_by_loops(features, 4)
    assert found.ids.tolist() == ids
    assert found.distances.tolist() == gaps


def test_images_that_are_all_equally_far_come_by_index(method) -> None:
    found = nearest(Features(values=np.eye(120, dtype=np.float32)), 5, method=method)
    assert found.ids[0].tolist() == [1, 2, 3, 4, 5]
    assert found.ids[3].tolist() == [0, 1, 2, 4, 5]
    assert found.ids[119].tolist() == [0, 1, 2, 3, 4]


def test_corners_of_a_cube_tie_beyond_the_proposals(method) -> None:
    corners = np.float32(list(product([0, 1], repeat=8)))
    found = nearest(Features(values=corners, normalised=False), 12, method=method)
    ids, _ = nearest_by_loops(Features(values=corners, normalised=False), 12)
    assert found.ids.tolist() == ids


def test_of_equal_images_the_lowest_indices_are_nearest_and_none_is_its_own(method) -> None:
    found = nearest(Features(values=np.ones((3000, 4), np.float32)), 3, method=method)
    assert found.ids[0].tolist() == [1, 2, 3]
    assert found.ids[2].tolist() == [0, 1, 3]
    assert (found.ids[4:] == [0, 1, 2]).all()
    assert not found.distances.any()


@pytest.mark.parametrize("kind", ["random", "duplicated", "integer", "tight"])
def test_blocks_of_any_size_give_the_same_lists(kind, method, monkeypatch) -> None:
    features = features_of(kind, 130, 4, 5)
    whole = nearest(features, 6, method=method)
    for module in (distances, neighbours):
        monkeypatch.setattr(module, "BLOCK", 40)
    monkeypatch.setattr(neighbours, "_TABLE", 900)
    small = nearest(features, 6, method=method)
    assert np.array_equal(small.ids, whole.ids)
    assert np.array_equal(small.distances, whole.distances)


def test_one_image_has_no_neighbour_and_k_stops_at_the_others(method) -> None:
    one = nearest(features_of("random", 1, 3, 0), 5, method=method)
    assert one.ids.shape == one.distances.shape == (1, 0)
    assert nearest(features_of("random", 4, 3, 0), 50, method=method).k == 3


def test_a_part_of_the_images_gets_its_rows_of_the_whole(method) -> None:
    features = features_of("duplicated", 80, 3, 2)
    asked = np.array([5, 70, 5, 0])
    assert np.array_equal(nearest_of(features, asked, 7, method=method).ids, nearest(features, 7).ids[asked])
    assert nearest_of(features, np.array([], int), 7, method=method).ids.shape == (0, 7)


def test_bad_calls_say_what_is_allowed(monkeypatch) -> None:
    features = features_of("random", 5, 2, 0)
    with pytest.raises(UsageError, match=r"^neighbours\.k must be at least 1, got 0$"):
        nearest(features, 0)
    with pytest.raises(UsageError, match=r"^unknown neighbour search 'annoy'; allowed: auto, faiss, numpy$"):
        nearest(features, 2, method="annoy")
    monkeypatch.setitem(sys.modules, "faiss", None)
    assert nearest(features, 2).k == 2
    with pytest.raises(
        MissingExtraError, match=r"^neighbour search 'faiss' needs faiss: pip install faiss-cpu, or use 'numpy'$"
    ):
        nearest(features, 2, method="faiss")


def test_overlap_counts_what_two_lists_share_and_skips_the_filling() -> None:
    lists = np.int32([[1, 2, 3], [3, 2, -1], [0, -1, -1]])
    shared = shared_overlap(lists, np.array([0, 0, 1, 2]), np.array([0, 1, 2, 2]), 4)
    assert shared.tolist() == [3, 2, 0, 1]


@settings(deadline=None, max_examples=30)
@given(feature_sets(least=3), st.integers(1, 10), st.integers(0, 100))
def test_jaccard_is_that_of_the_sets(features, k, seed) -> None:
    lists = nearest(features, k)
    pairs = np.random.default_rng(seed).integers(len(features), size=(30, 2))
    expected = [jaccard_by_sets(lists, a, b) for a, b in pairs]
    assert jaccard(lists, pairs[:, 0], pairs[:, 1]).tolist() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("table", [1, 100, 1 << 24])
def test_reranked_lists_come_by_overlap_then_distance_then_index(table, monkeypatch) -> None:
    monkeypatch.setattr(neighbours, "_TABLE", table)
    monkeypatch.setattr(neighbours, "BLOCK", table)
    lists = nearest(features_of("integer", 60, 4, 1), 9)
    reranked = rerank_shared(lists)
    for image in range(60):
        rows = zip(lists.ids[image].tolist(), lists.distances[image].tolist())
        expected = sorted((-jaccard_by_sets(lists, image, other), gap, other) for other, gap in rows)
        assert reranked.ids[image].tolist() == [other for _, _, other in expected]
        assert reranked.distances[image].tolist() == [gap for _, gap, _ in expected]


def test_lists_without_entries_are_reranked_to_themselves() -> None:
    empty = Neighbours(ids=np.empty((1, 0), np.int32), distances=np.empty((1, 0), np.float32))
    assert rerank_shared(empty).ids.shape == (1, 0)
