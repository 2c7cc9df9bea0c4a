"""What speaks for a relation without a label: groups and neighbours → Evidence, pairs → a table of columns.

Chance is Sec. 3.3's own. Shared neighbours, survival under augmentation (as in Fig. 4) and the agreement of other layers or
learners are ours: evidence counts for more the less it shares the mistakes of the features that were mined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, must
from ..records import ChanceThresholds, Evidence, Floats, Groups, Neighbours
from .chance import chance_of
from .distances import BLOCK
from .groups import by_size
from .neighbours import jaccard

Measure = Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]


def evidence(
    groups: Groups,
    neighbours: Neighbours,
    thresholds: ChanceThresholds,
    views: Sequence[Neighbours] = (),
    others: Sequence[Neighbours] = (),
) -> Evidence:
    """One row a group; NaN where something was not measured. A pair is two members of a group.

    * ``chance``: the fraction of random groups of its size that are at least as compact; 1 for a single image.
    * ``shared``: the mean over its pairs of the Jaccard overlap of their neighbour lists.
    * ``survival``: the fraction of its pairs of which one is among the k neighbours of the other, mean over ``views``.
    * ``agreement``: the same over ``others``, the neighbours in other layers or learners.
    * ``reliability``: the mean of those of 1 − chance, shared, survival and agreement that were measured. Each is in [0, 1] and
      the mean rises with each. Ours: an absolute number that can be compared between runs, unlike a rank.
    """
    for one in (neighbours, *views, *others):
        _check_images(len(one), groups.images)
    chance = chance_of(groups, thresholds)
    measured = {
        "shared": _mean_over_pairs(groups, lambda a, b: jaccard(neighbours, a, b)) if neighbours.k else _unmeasured(groups),
        "survival": _mean_over_lists(groups, views),
        "agreement": _mean_over_lists(groups, others),
    }
    parts = np.stack([1 - chance, *measured.values()]).astype(np.float64)
    known = np.isfinite(parts)
    reliability = np.where(known, parts, 0).sum(axis=0) / known.sum(axis=0)
    return Evidence(chance=chance, reliability=reliability.astype(np.float32), **measured)


def _check_images(lists: int, images: int) -> None:
    must(lists == images, DataError, f"evidence needs neighbours of the same {images} images, got lists of {lists}")


def _unmeasured(groups: Groups) -> Floats:
    return np.full(len(groups), np.nan, dtype=np.float32)


def _mean_over_lists(groups: Groups, lists: Sequence[Neighbours]) -> Floats:
    if not lists:
        return _unmeasured(groups)
    each = [_mean_over_pairs(groups, lambda a, b, one=one: linked(one, a, b)) for one in lists]  # type: ignore[misc]
    return np.asarray(np.mean(each, axis=0, dtype=np.float64), dtype=np.float32)


def _mean_over_pairs(groups: Groups, measure: Measure) -> Floats:
    """The mean of a measure over the pairs of every group, NaN for a group of one image."""
    result = _unmeasured(groups)
    for chosen, rows in by_size(groups):
        first, second = np.triu_indices(rows.shape[1], 1)
        if not len(first):
            continue
        step = max(1, 4 * BLOCK // len(first))
        for start in range(0, len(rows), step):
            block = rows[start : start + step]
            values = measure(block[:, first].ravel(), block[:, second].ravel())
            result[chosen[start : start + step]] = values.reshape(len(block), -1).mean(axis=1, dtype=np.float64)
    return result


def linked(neighbours: Neighbours, left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether one image of each pair is among the k neighbours of the other, (P,)."""
    return (ranks(neighbours, left, right) <= neighbours.k) | (ranks(neighbours, right, left) <= neighbours.k)


def ranks(neighbours: Neighbours, left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.int32]:
    """The place of right[p] in the list of left[p], 1 … k, and k + 1 where it is not in it, (P,)."""
    result = np.full(len(left), neighbours.k + 1, dtype=np.int32)
    step = max(1, BLOCK // max(neighbours.k, 1))
    for start in range(0, len(left) if neighbours.k else 0, step):
        hits = neighbours.ids[left[start : start + step]] == right[start : start + step, None]
        result[start : start + step] = np.where(hits.any(axis=1), hits.argmax(axis=1) + 1, neighbours.k + 1)
    return result


def pair_evidence(
    pairs: NDArray[Any], neighbours: Neighbours, views: Sequence[Neighbours] = (), others: Sequence[Neighbours] = ()
) -> dict[str, NDArray[Any]]:
    """The same for single pairs (P, 2): columns of length P.

    ``rank`` and ``rank_back``: the place of the second image in the list of the first and the other way round, from 1, k + 1
    where it is not in it. ``mutual``: in both. ``shared``: Jaccard overlap of the lists. ``survival`` and ``agreement``: the
    fraction of ``views`` and of ``others`` in which one is a neighbour of the other, NaN where there are none.
    """
    left, right = pairs[:, 0], pairs[:, 1]
    rank, back = ranks(neighbours, left, right), ranks(neighbours, right, left)
    return {
        "rank": rank,
        "rank_back": back,
        "mutual": (rank <= neighbours.k) & (back <= neighbours.k),
        "shared": jaccard(neighbours, left, right),
        "survival": _fraction(views, left, right),
        "agreement": _fraction(others, left, right),
    }


def _fraction(lists: Sequence[Neighbours], left: NDArray[Any], right: NDArray[Any]) -> Floats:
    if not lists:
        return np.full(len(left), np.nan, dtype=np.float32)
    found = [linked(one, left, right) for one in lists]
    return np.asarray(np.mean(found, axis=0, dtype=np.float64), dtype=np.float32)
