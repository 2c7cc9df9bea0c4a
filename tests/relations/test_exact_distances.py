from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from relation_oracles import KINDS, diameter, distance, feature_sets, features_of

from reliant.relations import distances, duplicates
from reliant.relations.distances import apart, between, from_keys, prefix_diameters, sort_keys


def test_the_distance_of_a_three_four_five_triangle_is_five() -> None:
    left, right = np.float32([[1, 1]]), np.float32([[4, 5]])
    assert apart(left, right).tolist() == [5.0]


@settings(deadline=None, max_examples=40)
@given(feature_sets(least=2), st.integers(0, 1000))
def test_pairs_and_prefixes_are_measured_as_by_loops(features, seed) -> None:
    random = np.random.default_rng(seed)
    members = random.integers(len(features), size=(20, 6))
    pairs = between(features.values, members[:, 0], members[:, 1])
    assert pairs.tolist() == [distance(features, a, b) for a, b in members[:, :2]]
    expected = [[diameter(features, row[:size].tolist()) for size in range(2, 7)] for row in members]
    assert prefix_diameters(features.values, members).tolist() == expected


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_change_no_bit(kind, monkeypatch) -> None:
    features = features_of(kind, 50, 9, 3)
    members = np.random.default_rng(0).integers(50, size=(40, 8))
    whole = prefix_diameters(features.values, members), between(features.values, members[:, 0], members[:, 1])
    monkeypatch.setattr(distances, "BLOCK", 1)
    assert np.array_equal(prefix_diameters(features.values, members), whole[0])
    assert np.array_equal(between(features.values, members[:, 0], members[:, 1]), whole[1])


def test_prefixes_of_single_images_have_no_diameter() -> None:
    assert prefix_diameters(np.ones((3, 2), np.float32), np.zeros((3, 1), int)).shape == (3, 0)


@given(st.lists(st.tuples(st.floats(0, 2.0**100, width=32), st.integers(0, 2**31 - 1)), min_size=1))
def test_sort_keys_order_by_distance_then_id_and_come_back(rows) -> None:
    gaps, ids = np.float32([gap for gap, _ in rows]), np.int64([one for _, one in rows])
    ordered = from_keys(np.sort(sort_keys(gaps, ids)))
    expected = sorted(zip(gaps.tolist(), ids.tolist()))
    assert list(zip(ordered[1].tolist(), ordered[0].tolist())) == expected


def test_distinct_rows_name_the_copies_of_each_row_and_take_both_zeros_as_one() -> None:
    values = np.float32([[2, 0], [1, 1], [2, -0.0], [1, 1], [3, 3]])
    rows = duplicates.distinct_rows(values)
    assert rows.of_row.tolist() == [0, 1, 0, 1, 2]
    assert rows.firsts.tolist() == [0, 1, 4]
    assert rows.images.tolist() == [0, 2, 1, 3, 4]
    assert (rows.starts.tolist(), rows.counts.tolist()) == ([0, 2, 4], [2, 2, 1])


def test_rows_that_collide_under_one_hash_are_told_apart_by_the_next(monkeypatch) -> None:
    values = features_of("duplicated", 40, 3, 0).values
    expected = duplicates.distinct_rows(values).of_row
    hashed = duplicates.hashes

    def poor(values, attempt):
        return np.zeros(len(values), np.uint64) if attempt == 0 else hashed(values, attempt)

    monkeypatch.setattr(duplicates, "hashes", poor)
    assert np.array_equal(duplicates.distinct_rows(values).of_row, expected)
