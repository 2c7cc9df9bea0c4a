"""Triplets by transitivity (Sec. 3.5.3): Groups and Subsets → Triplets T_m of one learner m.

(x_i, x_j, x_k) asks for d_m(x_i, x_j) < d_m(x_i, x_k). x_i and x_j are linked through a group; x_j and x_k lie in different
groups of another subset X̄_n and are therefore dissimilar. Two kinds of link:

* 0, ``links`` "group": x_i ∈ X̄_m ∖ X̄_n, x_j ∈ X̄_n ∖ X̄_m, and some group G of *all* that were extracted holds both (such a G can
  lie in neither of the two subsets).
* 1, ``links`` "shared": x_i ∈ X̄_m ∩ X̄_n, x_j ∈ X̄_n ∖ X̄_m, and the group of X̄_n that holds x_i holds x_j.

Always x_k ∈ X̄_n ∖ X̄_m, in another group of X̄_n than x_j. Links are counted, never listed: there can be tens of millions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, UsageError, must
from ..randomness import generator
from ..records import Features, Floats, Groups, Ints, Subsets, Triplets
from .centres import centres
from .distances import between

if TYPE_CHECKING:
    from ..config import Transfer

Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]

_COLUMNS = ("anchor", "similar", "dissimilar", "group", "subset", "kind")
_KINDS = {"group": (0,), "shared": (1,), "both": (0, 1)}

# Groups among which the farthest or the nearest one is taken, for ``dissimilar`` "far" and "near".
_CANDIDATES = 16
# Draws of ``count`` triplets before too few different ones count as all there are.
_DRAWS = 8


def transitive(
    groups: Groups, subsets: Subsets, learner: int, features: Features | None, config: Transfer, seed: int
) -> Triplets:
    """At most ``config.count`` different triplets of learner m, empty where there are none.

    Links are drawn uniformly over all other subsets n and both kinds that are asked for, with replacement; each draw gets
    an x_k, uniform over the images of a group of X̄_n that is, by ``dissimilar``,

    * "any": uniform over the groups that have one outside X̄_m and do not hold x_j;
    * "far" / "near": of 16 such groups drawn at random (all, where there are no more) the one whose mean is farthest from /
      nearest to that of x_j's group; ties by index.

    A triplet that was drawn before, whatever its group or subset, is dropped, and drawing goes on up to eight times ``count``.
    """
    must(
        0 <= learner < max(subsets.count, 1),
        UsageError,
        f"learner must be 0 … {subsets.count - 1}, one of the {subsets.count} subsets, got {learner}",
    )
    must(
        config.dissimilar == "any" or features is not None,
        UsageError,
        f"triplets.dissimilar = '{config.dissimilar}' needs the features, got none; pass them or use 'any'",
    )
    random = generator(seed, "triplets", learner)
    pools = _link_pools(groups, subsets, learner, config)
    totals = np.asarray([pool.total for pool in pools], dtype=np.int64)
    found = np.empty((0, len(_COLUMNS)), dtype=np.int32)
    for _ in range(_DRAWS if totals.sum() else 0):
        drawn = np.sort(random.integers(totals.sum(), size=config.count))
        bounds = np.searchsorted(drawn, np.concatenate([[0], np.cumsum(totals)]))
        starts = np.cumsum(totals) - totals
        fresh = [
            _resolved(groups, subsets, pool, drawn[low:high] - start, features, config, random)
            for pool, start, low, high in zip(pools, starts, bounds, bounds[1:])
            if high > low
        ]
        # Sorted draws are quick to resolve; the permutation takes the order out again.
        found = _different(np.concatenate([found, random.permutation(np.concatenate(fresh))]))
        if len(found) >= config.count:
            break
    columns = {name: np.ascontiguousarray(column) for name, column in zip(_COLUMNS, found[: config.count].T)}
    return Triplets(**columns)


@dataclass(frozen=True, kw_only=True)
class _Pool:
    """The links of one kind from learner m into subset n: a group of a anchors and b similar images holds a · b of them."""

    subset: int
    kind: int
    anchors: Flags
    similars: Flags
    through: Flags
    total: int


def _link_pools(groups: Groups, subsets: Subsets, learner: int, config: Transfer) -> list[_Pool]:
    pools = []
    own = _images_of(groups, subsets.of_group == learner)
    for subset in range(subsets.count):
        inside = subsets.of_group == subset
        if subset == learner or not inside.any():
            continue
        other = _images_of(groups, inside)
        must(
            other.sum() == groups.sizes[inside].sum(),
            DataError,
            f"triplets need subsets whose groups share no image; those of subset {subset} do; use subsets.mode = 'divided'",
        )
        similars = other & ~own
        # With all of X̄_n ∖ X̄_m in one group there is no x_k.
        if np.count_nonzero(_count_in(groups, similars)[inside]) < 2:
            continue
        for kind in _KINDS[config.links]:
            anchors = own & ~other if kind == 0 else own & other
            through = np.ones(len(groups), dtype=bool) if kind == 0 else inside
            links = _links(groups, anchors, similars, through)
            pools.append(
                _Pool(subset=subset, kind=kind, anchors=anchors, similars=similars, through=through, total=int(links.sum()))
            )
    return pools


def _images_of(groups: Groups, chosen: Flags) -> Flags:
    """Which images the chosen groups hold, (N,)."""
    inside = np.zeros(groups.images, dtype=bool)
    inside[groups.members[np.repeat(chosen, groups.sizes)]] = True
    return inside


def _count_in(groups: Groups, flags: Flags) -> Indices:
    """How many members of each group are flagged, (G,)."""
    if not len(groups):
        return np.empty(0, dtype=np.int64)
    return np.add.reduceat(flags[groups.members].astype(np.int64), groups.offsets[:-1])


def _links(groups: Groups, anchors: Flags, similars: Flags, through: Flags) -> Indices:
    return _count_in(groups, anchors) * _count_in(groups, similars) * through


def _resolved(
    groups: Groups,
    subsets: Subsets,
    pool: _Pool,
    drawn: Indices,
    features: Features | None,
    config: Transfer,
    random: np.random.Generator,
) -> Ints:
    """The links with these numbers of a pool, each with an x_k: (T, 6) in the order of the columns."""
    ends = np.cumsum(_links(groups, pool.anchors, pool.similars, pool.through))
    bridge = np.searchsorted(ends, drawn, side="right")
    per_anchor = _count_in(groups, pool.similars)[bridge]
    place = drawn - (ends[bridge] - _count_in(groups, pool.anchors)[bridge] * per_anchor)
    anchor = _flagged_member(groups, pool.anchors, bridge, place // per_anchor)
    similar = _flagged_member(groups, pool.similars, bridge, place % per_anchor)
    dissimilar = _dissimilar(groups, subsets, pool, similar, features, config, random)
    rows = np.empty((len(drawn), len(_COLUMNS)), dtype=np.int32)
    rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 3] = anchor, similar, dissimilar, bridge
    rows[:, 4], rows[:, 5] = pool.subset, pool.kind
    return rows


def _flagged_member(groups: Groups, flags: Flags, group: Indices, place: Indices) -> Ints:
    """The place-th flagged member of each group."""
    counts = _count_in(groups, flags)
    return np.asarray(groups.members[flags[groups.members]][(np.cumsum(counts) - counts)[group] + place])


def _dissimilar(
    groups: Groups,
    subsets: Subsets,
    pool: _Pool,
    similar: Ints,
    features: Features | None,
    config: Transfer,
    random: np.random.Generator,
) -> Ints:
    """An x_k for every x_j: a group of X̄_n that does not hold x_j, then an image of it outside X̄_m."""
    inside = np.flatnonzero(subsets.of_group == pool.subset)
    counts = _count_in(groups, pool.similars)
    eligible = inside[counts[inside] > 0]
    home_of_image = np.full(groups.images, -1, dtype=np.int64)
    for_members = groups.select(eligible)
    home_of_image[for_members.members] = for_members.owners
    home = home_of_image[similar]
    if config.dissimilar == "any" or features is None:
        chosen = random.integers(len(eligible) - 1, size=len(similar))
        chosen += chosen >= home
    else:
        means = centres(for_members, features)[0]
        chosen = _extreme_of_few(means, home, config.dissimilar == "far", random)
    other = eligible[chosen]
    return _flagged_member(groups, pool.similars, other, random.integers(counts[other]))


def _extreme_of_few(means: Floats, home: Indices, farthest: bool, random: np.random.Generator) -> Indices:
    """Of some rows other than ``home``, the one whose mean is farthest from, or nearest to, that of ``home``."""
    others = len(means) - 1
    if others <= _CANDIDATES:
        candidates: NDArray[Any] = np.repeat(np.arange(others)[None], len(home), axis=0)
    else:
        candidates = np.sort(random.integers(others, size=(len(home), _CANDIDATES)), axis=1)
    candidates = candidates + (candidates >= home[:, None])
    distances = between(means, np.repeat(home, candidates.shape[1]), candidates.ravel()).reshape(candidates.shape)
    # argmax and argmin take the first of equals, and the candidates are ascending.
    best = distances.argmax(axis=1) if farthest else distances.argmin(axis=1)
    return np.asarray(candidates[np.arange(len(home)), best])


def _different(rows: Ints) -> Ints:
    """The rows whose (anchor, similar, dissimilar) no earlier row has, in their order."""
    order = np.lexsort((rows[:, 2], rows[:, 1], rows[:, 0]))
    fresh = np.ones(len(rows), dtype=bool)
    fresh[1:] = (rows[order][1:, :3] != rows[order][:-1, :3]).any(axis=1)
    return rows[np.sort(order[fresh])]
