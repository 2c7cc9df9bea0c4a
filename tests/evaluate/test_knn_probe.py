"""The nearest-neighbour probe against votes counted by hand and against plain loops."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reliant.errors import DataError, UsageError
from reliant.evaluate import knn as module
from reliant.evaluate.knn import knn, neighbours, vote


def test_votes_of_three_neighbours_by_hand():
    train = np.array([[2, 0], [0, 1], [0.6, 0.8]], dtype=np.float32)
    labels = np.array([4, 7, 7])
    query = np.array([[5, 0]], dtype=np.float32)
    ((start, ids, similarities),) = neighbours(train, query, 3)
    assert start == 0
    assert ids.tolist() == [[0, 2, 1]]
    assert similarities[0] == pytest.approx([1.0, 0.6, 0.0])
    votes = vote(np.array([[0, 1, 1]]), similarities, classes=2, temperature=1.0)
    assert votes[0] == pytest.approx([1.0, math.exp(-0.4) + math.exp(-1.0)])
    # At temperature 1 the two of class 7 outvote the nearest (1.038 > 1), at 0.07 the nearest decides.
    assert knn(train, labels, query, np.array([7]), temperature=1.0) == {"accuracy": 1.0}
    assert knn(train, labels, query, np.array([4])) == {"accuracy": 1.0}


def accuracy_by_loops(train, train_labels, test, test_labels, k, temperature):
    right = 0
    for query, truth in zip(test, test_labels, strict=True):
        ranked = []
        for index, image in enumerate(train):
            lengths = math.sqrt(sum(float(v) ** 2 for v in image)) * math.sqrt(sum(float(v) ** 2 for v in query))
            product = sum(float(a) * float(b) for a, b in zip(image, query, strict=True))
            ranked.append((-(product / lengths if lengths else 0.0), index))
        votes = {}
        for negative, index in sorted(ranked)[:k]:
            votes[train_labels[index]] = votes.get(train_labels[index], 0.0) + math.exp(-negative / temperature)
        best = max(votes.values())
        right += min(label for label, count in votes.items() if count == best) == truth
    return right / len(test)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10**6), count=st.integers(2, 40), k=st.integers(1, 45), dimension=st.integers(1, 6))
def test_equals_plain_loops(seed, count, k, dimension):
    random = np.random.default_rng(seed)
    train, test = random.normal(size=(count, dimension)), random.normal(size=(7, dimension))
    train_labels, test_labels = np.arange(count) % 2 + 3, random.integers(0, 2, 7) + 3
    if dimension == 1:  # every cosine is −1 or 1: the loops' rounding would decide the ties
        train, test = np.sign(train), np.sign(test)
    found = knn(train, train_labels, test, test_labels, k=k, temperature=0.5)["accuracy"]
    assert found == accuracy_by_loops(train, train_labels, test, test_labels, k, 0.5)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), blocks=st.tuples(st.integers(1, 9), st.integers(1, 40), st.integers(1, 400)))
def test_blocks_do_not_matter(seed, blocks):
    random = np.random.default_rng(seed)
    train = random.integers(-2, 3, size=(60, 4)).astype(np.float32)  # many exact duplicates
    test = random.integers(-2, 3, size=(23, 4)).astype(np.float32)
    whole = [(ids, values) for _, ids, values in neighbours(train, test, 5)]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in zip(("TEST_BLOCK", "TRAIN_BLOCK", "GATHERED"), blocks, strict=True):
            patch.setattr(module, name, value)
        parts = [(ids, values) for _, ids, values in neighbours(train, test, 5)]
    assert np.array_equal(whole[0][0], np.concatenate([ids for ids, _ in parts]))
    assert np.array_equal(whole[0][1], np.concatenate([values for _, values in parts]))


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6))
def test_length_and_order_of_the_features_do_not_matter(seed):
    random = np.random.default_rng(seed)
    train, test = random.normal(size=(50, 5)).astype(np.float32), random.normal(size=(20, 5)).astype(np.float32)
    train_labels, test_labels = np.arange(50) % 3, random.integers(0, 3, 20)
    expected = knn(train, train_labels, test, test_labels)
    lengths = 2.0 ** random.integers(-60, 60, size=(50, 1))
    assert knn((train * lengths).astype(np.float32), train_labels, test * np.float32(1e30), test_labels) == expected
    order = random.permutation(50)
    assert knn(train[order], train_labels[order], test, test_labels) == expected


def test_k_is_capped_at_the_training_size(blobs):
    train, train_labels, test, test_labels = blobs
    assert knn(train[:30], train_labels[:30], test, test_labels, k=500) == knn(
        train[:30], train_labels[:30], test, test_labels, k=30
    )


def test_of_equally_similar_images_the_first_are_the_neighbours(monkeypatch):
    monkeypatch.setattr(module, "TRAIN_BLOCK", 16)
    same = np.full((100, 7), 0.3, dtype=np.float32)
    ((_, ids, similarities),) = neighbours(same, same[:4], 3)
    assert ids.tolist() == [[0, 1, 2]] * 4
    assert len(np.unique(similarities)) == 1
    labels = np.array([1, 1, 0] + [0] * 97)
    assert knn(same, labels, same[:4], np.ones(4), k=3) == {"accuracy": 1.0}


def test_among_unlike_images_the_least_unlike_are_the_neighbours():
    angles = np.radians(np.linspace(100, 260, 33))  # every cosine with the query is negative
    train = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    ((_, ids, similarities),) = neighbours(train, np.array([[1.0, 0.01]]), 4)
    assert ids.tolist() == [[0, 32, 1, 31]]
    assert (similarities < 0).all()


def test_of_classes_with_equal_votes_the_lowest_wins():
    same = np.ones((6, 3), dtype=np.float32)
    labels = np.array([9, 5, 9, 5, 9, 5])
    assert knn(same, labels, same, np.full(6, 5)) == {"accuracy": 1.0}


def test_a_row_of_zeros_is_equally_unlike_everything():
    train = np.array([[1, 0], [0, 1], [0, 1]], dtype=np.float32)
    ((_, ids, similarities),) = neighbours(train, np.zeros((1, 2), dtype=np.float32), 3)
    assert ids.tolist() == [[0, 1, 2]]
    assert similarities.tolist() == [[0, 0, 0]]


def test_images_without_label_take_no_part(blobs):
    train, train_labels, test, test_labels = blobs
    expected = knn(train, train_labels, test, test_labels)
    poisoned = np.concatenate([test, np.full((5, 12), np.nan, dtype=np.float32), train])
    labels = np.concatenate([np.full(205, -1), train_labels])
    assert knn(poisoned, labels, poisoned, np.concatenate([test_labels, np.full(305, -1)])) == expected


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_other_float_types_are_taken(dtype):
    train = np.array([[1, 0], [0, 1], [3, 4]], dtype=dtype)
    assert knn(train, np.array([0, 1, 1]), train, np.array([0, 1, 1]), k=1) == {"accuracy": 1.0}


def test_works_without_torch(blobs, monkeypatch):
    expected = knn(*blobs)
    monkeypatch.setitem(sys.modules, "torch", None)
    assert knn(*blobs) == expected
    assert 0.4 < expected["accuracy"] < 1.0


def test_bad_arguments_are_named(blobs):
    with pytest.raises(UsageError, match=r"^knn takes a k of at least 1, got 0$"):
        knn(*blobs, k=0)
    with pytest.raises(UsageError, match=r"^knn takes a temperature above 0, got 0$"):
        knn(*blobs, temperature=0)


def test_features_that_are_not_finite_are_named(blobs):
    train, train_labels, test, test_labels = blobs
    broken = test.copy()
    broken[17, 3] = np.inf
    with pytest.raises(DataError, match=r"^the features of the test split hold NaN or infinite values \(first in row 17 "):
        knn(train, train_labels, broken, test_labels)
