"""Nearest neighbours, the ground of Sec. 3.3: features (N, D) → Neighbours (N, k).

The search is exact and its answer is defined by :mod:`.distances` alone: by float32 distance, then by index. A quick float32
product (FAISS where it is installed, NumPy elsewhere) proposes candidates; an error bound tells the rows whose list is proven
complete from those that are searched again in float64. Equal rows are searched once. So every back end gives the same bits.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import MissingExtraError, UsageError, must
from ..records import Features, Floats, Neighbours
from .distances import BLOCK, apart, between, from_keys, sort_keys, unit_frame
from .duplicates import Distinct, distinct_rows

METHODS = ("auto", "faiss", "numpy")

# Entries of one block of a table (rows × images): 64 MB of float32.
_TABLE = 1 << 24
_NONE = np.iinfo(np.int64).max

Indices = NDArray[np.int64]
Propose = Callable[[Floats, int], tuple[Indices, Floats]]


def nearest(features: Features, k: int, *, method: str = "auto") -> Neighbours:
    """The k nearest other images of every image; at most N − 1 of them."""
    return nearest_of(features, np.arange(len(features)), k, method=method)


def nearest_of(features: Features, queries: NDArray[Any], k: int, *, method: str = "auto") -> Neighbours:
    """The k nearest other images of the images ``queries`` alone, (Q, k)."""
    must(k >= 1, UsageError, f"neighbours.k must be at least 1, got {k}")
    must(method in METHODS, UsageError, f"unknown neighbour search '{method}'; allowed: {', '.join(METHODS)}")
    library = _library(method)
    queries = np.asarray(queries, dtype=np.int64)
    k = max(min(k, len(features) - 1), 0)
    if not k or not len(queries):
        shape = (len(queries), k)
        return Neighbours(ids=np.empty(shape, np.int32), distances=np.empty(shape, np.float32))
    classes = distinct_rows(features.values)
    if len(classes) == len(features):
        ids, distances = from_keys(_search(features.values, queries, k, library))
        return Neighbours(ids=ids, distances=distances)
    rows, row_of_query = np.unique(classes.of_row[queries], return_inverse=True)
    keys = _search(features.values[classes.firsts], rows, min(k, len(classes) - 1), library)
    ids, distances = from_keys(_expand(keys, rows, row_of_query, queries, classes, k))
    return Neighbours(ids=ids, distances=distances)


def _library(method: str) -> Any:
    """The faiss module, or None for NumPy."""
    if method == "numpy":
        return None
    try:
        with warnings.catch_warnings():
            # FAISS's generated bindings warn on import under newer Pythons.
            warnings.simplefilter("ignore", DeprecationWarning)
            import faiss
    except ImportError:
        must(method == "auto", MissingExtraError, "neighbour search 'faiss' needs faiss: pip install faiss-cpu, or use 'numpy'")
        return None
    return faiss


def _search(values: Floats, queries: Indices, k: int, library: Any) -> Indices:
    """The sort keys (Q, k) of the k nearest other rows; k < N."""
    total, width = values.shape
    result = np.empty((len(queries), k), dtype=np.int64)
    if not k:
        return result
    shift, scale = unit_frame(values)
    propose = _propose_faiss(library, values, shift, scale) if library else _propose_numpy(values, shift, scale)
    proposed = min(total, k + 1 + max(16, k // 2))
    # Twice the worst rounding of (|a| + |b|)² in the unit frame, for any order of summation.
    slack = 2 * (width + 24) * 2.0**-24
    unproven = np.zeros(len(queries), dtype=bool)
    step = max(1, min(4096, _TABLE // total))
    for start in range(0, len(queries), step):
        rows = queries[start : start + step]
        points = _framed(values[rows], shift, scale)
        candidates, squared = propose(points, proposed)
        keys = _ranked(values, rows, candidates, k)
        result[start : start + step] = keys
        if proposed < total:
            reach = from_keys(keys[:, -1])[1].astype(np.float64) / scale
            lengths = np.sqrt((points.astype(np.float64) ** 2).sum(axis=1))
            beyond = squared.max(axis=1) - slack * (lengths + 1) ** 2
            unproven[start : start + step] = ~(beyond > reach**2 * (1 + 2.0**-20))
    if unproven.any():
        result[unproven] = _searched_again(values, queries[unproven], result[unproven], (shift, scale))
    return result


def _framed(block: Floats, shift: NDArray[np.float64], scale: float) -> Floats:
    return ((block - shift) / scale).astype(np.float32)


def _propose_faiss(faiss: Any, values: Floats, shift: NDArray[np.float64], scale: float) -> Propose:
    index = faiss.IndexFlatL2(values.shape[1])
    step = max(1, BLOCK // values.shape[1])
    for start in range(0, len(values), step):
        index.add(_framed(values[start : start + step], shift, scale))

    def propose(points: Floats, count: int) -> tuple[Indices, Floats]:
        squared, ids = index.search(points, count)
        return ids, squared

    return propose


def _propose_numpy(values: Floats, shift: NDArray[np.float64], scale: float) -> Propose:
    framed = np.empty_like(values)
    step = max(1, BLOCK // values.shape[1])
    for start in range(0, len(values), step):
        framed[start : start + step] = _framed(values[start : start + step], shift, scale)
    norms = np.einsum("nd,nd->n", framed, framed)

    def propose(points: Floats, count: int) -> tuple[Indices, Floats]:
        squared = points @ framed.T
        squared *= -2
        squared += norms
        squared += np.einsum("nd,nd->n", points, points)[:, None]
        ids = np.argpartition(squared, count - 1, axis=1)[:, :count]
        return ids, np.take_along_axis(squared, ids, axis=1)

    return propose


def _ranked(values: Floats, rows: Indices, candidates: Indices, k: int) -> Indices:
    """The sort keys of the k best of each row's candidates, measured exactly; a row is no neighbour of itself."""
    result = np.empty((len(rows), k), dtype=np.int64)
    step = max(1, BLOCK // (candidates.shape[1] * values.shape[1]))
    for start in range(0, len(rows), step):
        row, ids = rows[start : start + step, None], candidates[start : start + step]
        keys = sort_keys(apart(values[row], values[ids]), ids)
        keys[ids == row] = _NONE
        result[start : start + step] = np.sort(keys, axis=1)[:, :k]
    return result


def _searched_again(values: Floats, rows: Indices, found: Indices, frame: tuple[NDArray[np.float64], float]) -> Indices:
    """Every row that may lie within the reach of the list found so far is measured: exact for any number of ties."""
    shift, scale = frame
    total, width = values.shape
    k = found.shape[1]
    slack = 2 * (width + 24) * 2.0**-52
    step, columns = max(1, _TABLE // 4 // total), max(1, 8 * BLOCK // width)
    result = np.empty_like(found)
    for start in range(0, len(rows), step):
        row = rows[start : start + step]
        points = (values[row] - shift) / scale
        lengths = (points * points).sum(axis=1)
        reach = from_keys(found[start : start + step, -1])[1].astype(np.float64) / scale
        limit = reach**2 * (1 + 2.0**-20) + slack * (np.sqrt(lengths) + 1) ** 2
        keys = np.full((len(row), total), _NONE, dtype=np.int64)
        for first in range(0, total, columns):
            others = (values[first : first + columns] - shift) / scale
            squared = lengths[:, None] + (others * others).sum(axis=1) - 2 * (points @ others.T)
            at, column = np.nonzero(squared <= limit[:, None])
            column += first
            keys[at, column] = sort_keys(between(values, row[at], column), column)
        keys[np.arange(len(row)), row] = _NONE
        result[start : start + step] = np.sort(np.partition(keys, k - 1, axis=1)[:, :k], axis=1)
    return result


def _expand(keys: Indices, rows: Indices, row_of_query: Indices, queries: Indices, classes: Distinct, k: int) -> Indices:
    """From distinct rows back to images: keys (R, k') of other rows → (Q, k) of other images.

    The k + 1 lowest images of a row are enough, and so are the k nearest other rows: each brings at least one image, and
    rows are numbered by their lowest image.
    """
    wide = np.empty((len(rows), k + 1), dtype=np.int64)
    step = max(1, BLOCK // ((keys.shape[1] + 1) * min(k + 1, int(classes.counts.max()))))
    for start in range(0, len(rows), step):
        row = rows[start : start + step, None]
        ids, distances = from_keys(keys[start : start + step])
        ids = np.concatenate([row, ids], axis=1).ravel()
        distances = np.concatenate([np.zeros(row.shape, np.float32), distances], axis=1).ravel()
        copies = np.minimum(classes.counts[ids], k + 1)
        begins = np.cumsum(copies) - copies
        within = np.arange(copies.sum()) - np.repeat(begins, copies)
        images = classes.images[np.repeat(classes.starts[ids], copies) + within]
        owner = np.repeat(np.arange(len(ids)) // (keys.shape[1] + 1), copies)
        order = np.lexsort((sort_keys(np.repeat(distances, copies), images), owner))
        place = np.searchsorted(owner[order], np.arange(len(row)))[:, None] + np.arange(k + 1)
        chosen = order[place]
        wide[start : start + step] = sort_keys(np.repeat(distances, copies)[chosen], images[chosen])
    result = wide[row_of_query]
    itself = from_keys(result)[0] == queries[:, None]
    # An image that is not among the lowest of its own copies makes room at the end of its list.
    itself[:, -1] |= ~itself.any(axis=1)
    return np.asarray(result[~itself].reshape(len(queries), k))


def shared_overlap(lists: NDArray[Any], left: NDArray[Any], right: NDArray[Any], images: int) -> NDArray[np.int64]:
    """How many entries the lists of left[p] and right[p] share, (P,). Lists (L, k) name images; −1 fills a short one."""
    counts = np.empty(len(left), dtype=np.int64)
    order = np.argsort(left, kind="stable")
    fresh = np.ones(len(left), dtype=bool)
    fresh[1:] = left[order][1:] != left[order][:-1]
    heads = np.flatnonzero(fresh)
    run = np.cumsum(fresh) - 1
    # A table with a row a list and a column an image. A −1 in a list falls on the last column, which stays false: that of
    # its own row when the row is written, that of the row before when the flat table is read.
    height = max(1, min(len(heads), _TABLE // (images + 1)))
    table = np.zeros((height, images + 1), dtype=bool)
    width = max(1, BLOCK // max(lists.shape[1], 1))
    bounds = np.append(heads, len(left))
    for first in range(0, len(heads), height):
        held = lists[left[order[heads[first : first + height]]]]
        at = np.arange(len(held))[:, None]
        table[at, held] = True
        table[:, -1] = False
        stop = bounds[min(first + height, len(heads))]
        for start in range(bounds[first], stop, width):
            part = order[start : min(start + width, stop)]
            cells = (run[start : start + len(part), None] - first) * (images + 1) + lists[right[part]]
            counts[part] = table.ravel().take(cells).sum(axis=1)
        table[at, held] = False
    return counts


def jaccard(neighbours: Neighbours, left: NDArray[Any], right: NDArray[Any]) -> Floats:
    """|L_a ∩ L_b| / |L_a ∪ L_b| of the neighbour lists of the pairs (left[p], right[p]), (P,)."""
    shared = shared_overlap(neighbours.ids, left, right, len(neighbours))
    return (shared / np.maximum(2 * neighbours.k - shared, 1)).astype(np.float32)


def rerank_shared(neighbours: Neighbours) -> Neighbours:
    """Each list by the Jaccard overlap with its owner's list, descending; ties by distance, then index. Ours.

    An image is no member of its own list. The distances stay the L2 ones of the reordered ids, so they are ascending no more.
    """
    total, k = neighbours.ids.shape
    if not k:
        return neighbours
    step = max(1, BLOCK // k)
    ids, distances = np.empty_like(neighbours.ids), np.empty_like(neighbours.distances)
    for start in range(0, total, step):
        part = slice(start, min(start + step, total))
        left = np.repeat(np.arange(part.start, part.stop), k)
        shared = shared_overlap(neighbours.ids, left, neighbours.ids[part].ravel(), total).reshape(-1, k)
        # All lists are equally long: the overlap orders as the number of shared images does.
        order = np.lexsort((sort_keys(neighbours.distances[part], neighbours.ids[part]), -shared), axis=1)
        ids[part] = np.take_along_axis(neighbours.ids[part], order, axis=1)
        distances[part] = np.take_along_axis(neighbours.distances[part], order, axis=1)
    return Neighbours(ids=ids, distances=distances)
