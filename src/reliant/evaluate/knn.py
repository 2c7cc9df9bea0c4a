"""``knn``: a weighted k-nearest-neighbour classifier on frozen features (k = 20, cosine; ours, not the paper's).

train (N, D), labels (N,), test (M, D), labels (M,) → accuracy.

A neighbour of cosine similarity s votes with exp(s / temperature). Ties break by index: of equally similar training images
the first ones are the neighbours, of classes with equal votes the lowest one wins. Nothing is N×M: similarities exist in
blocks, in float32, and only the best of them are measured again in float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError, must
from .labels import labelled

K = 20
TEMPERATURE = 0.07
TEST_BLOCK, TRAIN_BLOCK = 512, 16384  # rows of one block of similarities
GATHERED = 1 << 23  # float64 entries that are measured again at a time


def knn(
    train: NDArray[Any],
    train_labels: NDArray[Any],
    test: NDArray[Any],
    test_labels: NDArray[Any],
    *,
    seed: int = 0,
    budget: str = "full",
    k: int = K,
    temperature: float = TEMPERATURE,
) -> dict[str, float]:
    """``accuracy``; k is capped at the number of training images. Neither seed nor budget plays a part."""
    must(k >= 1, UsageError, f"knn takes a k of at least 1, got {k}")
    must(temperature > 0, UsageError, f"knn takes a temperature above 0, got {temperature}")
    train, train_labels, test, test_labels = labelled(train, train_labels, test, test_labels)
    classes, targets = np.unique(train_labels, return_inverse=True)
    right = 0
    for start, ids, similarities in neighbours(train, test, min(k, len(train))):
        votes = vote(targets[ids], similarities, classes=len(classes), temperature=temperature)
        right += int((classes[votes.argmax(axis=1)] == test_labels[start : start + len(ids)]).sum())
    return {"accuracy": right / len(test)}


def vote(
    targets: NDArray[np.int64], similarities: NDArray[np.float64], *, classes: int, temperature: float
) -> NDArray[np.float64]:
    """Class (M, k) and similarity (M, k) of the neighbours → votes (M, classes), up to a factor a row."""
    # Relative to the best neighbour, so that no temperature overflows.
    weights = np.exp((similarities - similarities.max(axis=1, keepdims=True)) / temperature)
    cells = np.arange(len(targets))[:, None] * classes + targets
    votes = np.zeros(len(targets) * classes)
    np.add.at(votes, cells.ravel(), weights.ravel())
    return votes.reshape(-1, classes)


def neighbours(train: NDArray[Any], test: NDArray[Any], k: int) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.float64]]]:
    """Blocks of test rows: the first row, ids (B, k) of the most similar training rows, similarities (B, k) descending."""
    base = _normalised(train)
    candidates = min(len(base), 2 * k)  # twice as many as asked for, against float32's rounding
    for start in range(0, len(test), TEST_BLOCK):
        queries = _normalised(test[start : start + TEST_BLOCK])
        ids = _candidates(queries, base, candidates)
        similarities = _measured(queries, base, ids)
        order = np.lexsort((ids, -similarities), axis=1)[:, :k]
        yield start, np.take_along_axis(ids, order, 1), np.take_along_axis(similarities, order, 1)


def _candidates(queries: NDArray[np.float32], base: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """The ``count`` most similar rows of ``base`` for every query, in no order; ties by index."""
    best = np.empty((len(queries), 0), dtype=np.int64)
    for start in range(0, len(base), TRAIN_BLOCK):
        keys = _keys(queries @ base[start : start + TRAIN_BLOCK].T, start, len(base))
        best = _largest(np.concatenate([best, _largest(keys, count)], axis=1), count)
    return len(base) - 1 - (best & 0xFFFFFFFF)


def _keys(similarities: NDArray[np.float32], start: int, total: int) -> NDArray[np.int64]:
    """One integer that sorts by similarity, then by falling index: the bits of the float, made monotone, above the index."""
    bits = (similarities + np.float32(0.0)).view(np.int32)  # + 0 turns −0 into 0
    rising = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    falling = np.arange(total - 1 - start, total - 1 - start - similarities.shape[1], -1, dtype=np.int64)
    return (rising.astype(np.int64) << 32) | falling


def _largest(keys: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    width = keys.shape[1]
    return keys if width <= count else np.partition(keys, width - count, axis=1)[:, width - count :]


def _measured(queries: NDArray[np.float32], base: NDArray[np.float32], ids: NDArray[np.int64]) -> NDArray[np.float64]:
    """Cosine similarities in float64: equal rows get equal bits, whichever block they stand in."""
    similarities = np.empty(ids.shape)
    size = max(1, GATHERED // (ids.shape[1] * base.shape[1]))
    for start in range(0, len(ids), size):
        rows = slice(start, start + size)
        near = base[ids[rows]].astype(np.float64)
        similarities[rows] = np.einsum("bd,bkd->bk", queries[rows].astype(np.float64), near)
    return similarities


def _normalised(features: NDArray[Any]) -> NDArray[np.float32]:
    """Rows of length 1 in float32; a row of zeros stays, equally unlike everything."""
    result = np.empty(features.shape, dtype=np.float32)
    for start in range(0, len(features), 4096):
        rows = np.asarray(features[start : start + 4096], dtype=np.float64)
        largest = np.abs(rows).max(axis=1, keepdims=True)
        rows = np.divide(rows, largest, out=np.zeros_like(rows), where=largest > 0)  # no square overflows or vanishes
        lengths = np.sqrt(np.einsum("nd,nd->n", rows, rows))[:, None]
        result[start : start + 4096] = np.divide(rows, lengths, out=rows, where=lengths > 0)
    return result
