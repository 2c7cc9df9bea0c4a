"""Relation stages: features → neighbours → groups, subsets and triplets of one round (Sec. 3.3, 3.4, 3.5.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..learning import features as extraction
from ..learning import loop, targets
from ..randomness import derive
from ..records import Features, Groups, Neighbours, Relations, Snapshot
from ..relations import mining, neighbours
from ..store import CheckpointSlot, Stored
from .bench import Bench, Mined, Representation


def extract_relations(bench: Bench, turn: int, phi: Representation) -> Mined:
    """𝒢, X̄_1 … X̄_K and T_1 … T_K from φ."""
    config = bench.config
    features = _features(bench, turn, phi)
    near = _search(bench, f"rounds/{turn:02d}/neighbours", features, config.neighbours.rerank)
    views = [_neighbours_in_view(bench, turn, phi, view) for view in range(1, config.features.views + 1)]
    layers = [_neighbours_in_other_layer(bench, turn, phi)] if config.features.agreement else []

    def spread(groups: Groups) -> float:
        return targets.measured_spread(features.value.values, groups, config.targets.shrink, bench.seed)

    def compute(slot: CheckpointSlot) -> Relations:
        return mining.mine(
            features.value,
            as_neighbours(near),
            chance=config.chance,
            grouping=config.groups,
            partition=config.subsets,
            transfer=config.triplets,
            spread=spread,
            seed=derive(bench.seed, "relations", turn),
            views=[as_neighbours(view) for view in views],
            others=[as_neighbours(layer) for layer in layers],
        )

    keys = bench.keys("seed", "chance", "groups", "subsets", "triplets", "targets.shrink") | {"round": turn}
    inputs = [stored.digest for stored in (features, near, *views, *layers)]
    return Mined(features, near, bench.stage(f"rounds/{turn:02d}/relations", compute, keys, inputs))


def _features(bench: Bench, turn: int, phi: Representation) -> Stored:
    """The features that are mined."""
    several = bench.config.features.learners == "all" and len(phi.learners) > 1
    sources: Sequence[Stored] = phi.learners if several else [phi.stored]

    def compute(slot: CheckpointSlot) -> Features:
        parts = [
            _extract(bench, stored, bench.config.features.layer, learner=place if several else None)
            for place, stored in enumerate(sources)
        ]
        slot.spend(passes=len(parts) * loop.FORWARD_SHARE, peak_bytes=bench.device.peak_bytes())
        return extraction.side_by_side(parts)

    keys = bench.keys("features.layer", "features.learners", "features.projection", "network")
    inputs = [*bench.source, *(stored.digest for stored in sources)]
    return bench.stage(f"rounds/{turn:02d}/features", compute, keys, inputs)


def _neighbours_in_view(bench: Bench, turn: int, phi: Representation, view: int) -> Stored:
    """Neighbours again in a random view of the images: what survives there is reliable (as Fig. 4 asks, with noise)."""
    layer, key = bench.config.features.layer, derive(bench.seed, "evidence view", turn, view)

    def compute(slot: CheckpointSlot) -> Features:
        slot.spend(passes=loop.FORWARD_SHARE, peak_bytes=bench.device.peak_bytes())
        return _extract(bench, phi.stored, layer, view=view, augment=bench.config.augment, key=key)

    keys = bench.keys("seed", "features.layer", "features.projection", "network", "augment") | {"view": view}
    stored = bench.stage(f"rounds/{turn:02d}/view-{view}/features", compute, keys, [*bench.source, phi.stored.digest])
    return _search(bench, f"rounds/{turn:02d}/view-{view}/neighbours", stored)


def _neighbours_in_other_layer(bench: Bench, turn: int, phi: Representation) -> Stored:
    """Neighbours in the layer that is not mined: do the layers agree?"""
    layer = "conv" if bench.config.features.layer == "final" else "final"

    def compute(slot: CheckpointSlot) -> Features:
        slot.spend(passes=loop.FORWARD_SHARE, peak_bytes=bench.device.peak_bytes())
        return _extract(bench, phi.stored, layer)

    keys = bench.keys("features.projection", "network") | {"layer": layer}
    stored = bench.stage(f"rounds/{turn:02d}/other-layer/features", compute, keys, [*bench.source, phi.stored.digest])
    return _search(bench, f"rounds/{turn:02d}/other-layer/neighbours", stored)


def _extract(bench: Bench, stored: Stored, layer: str, **view: Any) -> Features:
    """Features of a saved network, as narrow as they are mined."""
    projection = bench.config.features.projection
    return extraction.extract(bench.load(stored.value), bench.pixels, bench.device, layer, projection=projection, **view)


def _search(bench: Bench, place: str, features: Stored, rerank: str = "none") -> Stored:
    def compute(slot: CheckpointSlot) -> Snapshot:
        found = neighbours.nearest(features.value, bench.config.neighbours.k)
        if rerank == "shared":
            found = neighbours.rerank_shared(found)
        return Snapshot(arrays={"ids": found.ids, "distances": found.distances}, meta={"k": found.k})

    return bench.stage(place, compute, bench.keys("neighbours.k") | {"rerank": rerank}, [features.digest])


def as_neighbours(stored: Stored) -> Neighbours:
    snapshot: Snapshot = stored.value
    return Neighbours(ids=snapshot.arrays["ids"], distances=snapshot.arrays["distances"])
