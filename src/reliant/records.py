"""The checked arrays that flow between the stages.

``images → Features → Neighbours → ChanceThresholds → Groups → Evidence → Subsets → Targets ⇄ Assignment → Triplets``

A record is frozen and checks its shapes, types and ranges when it is made, so that a stage may trust what it is given.
Image indices are int32 rows of the source, offsets are int64. Nothing here is N×N, |G|×|G| or N×D but the features.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import DataError, must

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]


def _check(name: str, array: Any, dtype: Any, ndim: int) -> None:
    must(isinstance(array, np.ndarray), DataError, f"{name} must be a NumPy array, got {type(array).__name__}")
    must(array.dtype == dtype, DataError, f"{name} must be {np.dtype(dtype).name}, got {array.dtype.name}")
    must(array.ndim == ndim, DataError, f"{name} must have {ndim} dimension(s), got shape {array.shape}")


def _check_same_length(record: str, **arrays: NDArray[Any]) -> None:
    lengths = {name: len(array) for name, array in arrays.items()}
    must(len(set(lengths.values())) <= 1, DataError, f"{record}: lengths differ: {lengths}")


@dataclass(frozen=True, kw_only=True)
class Images:
    """What a source yields after decoding: pixels (N, H, W, C) uint8 (a memory map when large) and stable ids."""

    pixels: NDArray[np.uint8]
    ids: list[str]
    name: str = "images"
    digest: str = ""

    def __post_init__(self) -> None:
        _check("pixels", self.pixels, np.uint8, 4)
        _check_same_length("Images", pixels=self.pixels, ids=np.empty(len(self.ids)))

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, kw_only=True)
class Features:
    """φ(x) of every image: values (N, D) float32, all finite; L2-normalised rows unless ``normalised`` is False."""

    values: Floats
    layer: str = "final"
    learner: int | None = None
    view: int = 0
    normalised: bool = True

    def __post_init__(self) -> None:
        _check("features", self.values, np.float32, 2)
        must(self.values.shape[1] > 0, DataError, "features have no dimension")
        finite = True
        for start in range(0, len(self.values), 65536):
            finite = finite and bool(np.isfinite(self.values[start : start + 65536]).all())
        must(finite, DataError, f"features ({self.layer}) hold NaN or infinite values; every row must be finite")

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True, kw_only=True)
class Neighbours:
    """The k nearest other images of every image: ids (N, k) int32, L2 distances (N, k) float32 ascending, ties by id.

    After re-ranking by shared neighbours the order is another one, and the distances are those of the ids as they stand.
    """

    ids: Ints
    distances: Floats

    def __post_init__(self) -> None:
        _check("neighbour ids", self.ids, np.int32, 2)
        _check("neighbour distances", self.distances, np.float32, 2)
        must(self.ids.shape == self.distances.shape, DataError, "neighbour ids and distances differ in shape")

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def k(self) -> int:
        return int(self.ids.shape[1])


@dataclass(frozen=True, kw_only=True)
class ChanceThresholds:
    """The largest diameter that chance does not explain, for every group size h = 2 … cap (Sec. 3.3).

    ``limits`` is (1, cap − 1) where one null serves all seeds, (N, cap − 1) where each seed has its own (local null).
    ``samples`` (cap − 1, groups) are the sorted diameters of the random groups, from which a group's chance is read.
    """

    limits: Floats
    samples: Floats
    percentile: float
    null: str

    def __post_init__(self) -> None:
        _check("limits", self.limits, np.float32, 2)
        _check("samples", self.samples, np.float32, 2)
        must(self.limits.shape[1] == len(self.samples), DataError, "limits and samples name different sizes")

    @property
    def cap(self) -> int:
        return int(self.limits.shape[1]) + 1

    def limit(self, seed: int, size: int) -> float:
        return float(self.limits[0 if len(self.limits) == 1 else seed, size - 2])


@dataclass(frozen=True, kw_only=True)
class Groups:
    """Compact groups G in CSR form: members[offsets[g]:offsets[g + 1]] are the images of group g, its seed first."""

    offsets: NDArray[np.int64]
    members: Ints
    diameters: Floats
    images: int

    def __post_init__(self) -> None:
        _check("offsets", self.offsets, np.int64, 1)
        _check("members", self.members, np.int32, 1)
        _check("diameters", self.diameters, np.float32, 1)
        must(len(self.offsets) == len(self.diameters) + 1, DataError, "groups: offsets and diameters do not match")
        must(
            self.offsets[0] == 0 and self.offsets[-1] == len(self.members) and bool((np.diff(self.offsets) > 0).all()),
            DataError,
            "groups: offsets must rise from 0 to the number of members",
        )
        if len(self.members):
            low, high = int(self.members.min()), int(self.members.max())
            must(low >= 0 and high < self.images, DataError, f"groups: members {low}…{high} of {self.images} images")

    def __len__(self) -> int:
        return len(self.diameters)

    def __getitem__(self, group: int) -> Ints:
        return self.members[self.offsets[group] : self.offsets[group + 1]]

    def __iter__(self) -> Iterator[Ints]:
        return (self[group] for group in range(len(self)))

    @property
    def sizes(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)

    @property
    def seeds(self) -> Ints:
        return self.members[self.offsets[:-1]]

    @property
    def owners(self) -> Ints:
        """The group of every entry of ``members``."""
        return np.repeat(np.arange(len(self), dtype=np.int32), self.sizes)

    @property
    def coverage(self) -> float:
        """Distinct images in groups / N."""
        return len(np.unique(self.members)) / self.images if self.images else 0.0

    def select(self, chosen: NDArray[Any]) -> Groups:
        """The groups with these indices, in this order."""
        chosen = np.asarray(chosen, dtype=np.int64)
        sizes = self.sizes[chosen]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], sizes)
        members = self.members[np.repeat(self.offsets[chosen], sizes) + within]
        return Groups(offsets=offsets, members=members, diameters=self.diameters[chosen], images=self.images)

    @classmethod
    def of(cls, groups: list[Any], images: int, diameters: Any = None) -> Groups:
        """From a list of member lists, seed first."""
        sizes = [len(group) for group in groups]
        return cls(
            offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            members=np.asarray([member for group in groups for member in group], dtype=np.int32),
            diameters=np.asarray(np.zeros(len(groups)) if diameters is None else diameters, dtype=np.float32),
            images=images,
        )


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What speaks for each group without a label; NaN where it was not measured.

    ``chance``: fraction of random groups of its size at least as compact. ``shared``: mean Jaccard overlap of its members'
    neighbour lists. ``survival``: fraction of its pairs that are neighbours again under augmentation. ``agreement``: the
    same in the features of other layers or learners. ``reliability``: the one number in [0, 1] that they amount to.
    """

    chance: Floats
    shared: Floats
    survival: Floats
    agreement: Floats
    reliability: Floats

    def __post_init__(self) -> None:
        columns = {name: getattr(self, name) for name in self.__dataclass_fields__}
        for name, column in columns.items():
            _check(f"evidence {name}", column, np.float32, 1)
        _check_same_length("Evidence", **columns)

    def __len__(self) -> int:
        return len(self.reliability)


@dataclass(frozen=True, kw_only=True)
class Subsets:
    """X̄_1 … X̄_K: the subset of every group, −1 for a group in none, and the terms of Eq. 1 that it reaches.

    In the ablation without decomposition one subset holds all groups, overlapping ones too.
    """

    of_group: Ints
    count: int
    terms: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check("subsets", self.of_group, np.int32, 1)
        if len(self.of_group):
            low, high = int(self.of_group.min()), int(self.of_group.max())
            must(low >= -1 and high < self.count, DataError, f"subsets {low}…{high} of {self.count}")

    def groups_of(self, subset: int) -> NDArray[np.int64]:
        """The indices of the groups of X̄_k, ascending."""
        return np.flatnonzero(self.of_group == subset)


@dataclass(frozen=True, kw_only=True)
class Targets:
    """Where a learner's points lie: point t = project(hub + spread/√D · ε_t), ε_t drawn by counter from ``key``.

    ``hubs`` (L, D) or None (then hub l itself is drawn by counter, uniform on the sphere: NAT's N targets need no storage);
    ``hub_of_point`` (points,) int32 or None (point t is hub t).
    """

    key: int
    points: int
    dimension: int
    spread: float
    hubs: Floats | None = None
    hub_of_point: Ints | None = None
    projected: bool = True

    def __post_init__(self) -> None:
        must(self.spread >= 0, DataError, f"targets: spread must be ≥ 0, got {self.spread}")
        if self.hubs is not None:
            _check("hubs", self.hubs, np.float32, 2)
            must(self.hubs.shape[1] == self.dimension, DataError, "hubs have another dimension than the targets")
        if self.hub_of_point is not None:
            _check("hub_of_point", self.hub_of_point, np.int32, 1)
            must(len(self.hub_of_point) == self.points, DataError, "hub_of_point must name a hub for every point")


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """π: the point of every entry, a permutation (int32). The only state that an image has."""

    point: Ints

    def __post_init__(self) -> None:
        _check("assignment", self.point, np.int32, 1)
        seen = np.zeros(len(self.point), dtype=bool)
        inside = (self.point >= 0) & (self.point < len(self.point))
        seen[self.point[inside]] = True
        must(bool(seen.all()), DataError, "an assignment must be a permutation of its points")

    def __len__(self) -> int:
        return len(self.point)


@dataclass(frozen=True, kw_only=True)
class Triplets:
    """T_m of one learner m: d(anchor, similar) < d(anchor, dissimilar) by transitivity through another subset (Sec. 3.5.3).

    ``group``: the bridge G that holds anchor and similar; ``subset``: the X̄_n of similar and dissimilar; ``kind``: 0 where
    anchor and similar lie in one subset each (x_i ∉ X̄_n, x_j ∉ X̄_m), 1 where the link is an image that both subsets share.
    """

    anchor: Ints
    similar: Ints
    dissimilar: Ints
    group: Ints
    subset: Ints
    kind: Ints

    def __post_init__(self) -> None:
        columns = {name: getattr(self, name) for name in self.__dataclass_fields__}
        for name, column in columns.items():
            _check(f"triplets {name}", column, np.int32, 1)
        _check_same_length("Triplets", **columns)

    def __len__(self) -> int:
        return len(self.anchor)


@dataclass(frozen=True, kw_only=True)
class Relations:
    """All that is mined from one representation: groups with their evidence, subsets, and triplets of every learner."""

    groups: Groups
    evidence: Evidence
    subsets: Subsets
    triplets: list[Triplets]
    summary: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Quarantine:
    """Files or rows that were left out, and why."""

    ids: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, kw_only=True)
class Labels:
    """The label of every image, −1 where it has none; ``names`` in the order of the values."""

    values: Ints
    names: list[str]

    def __post_init__(self) -> None:
        _check("labels", self.values, np.int32, 1)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def classes(self) -> int:
        return len(self.names)


@dataclass(frozen=True, kw_only=True)
class Score:
    """One tidy row of an evaluation."""

    dataset: str
    split: str
    method: str
    preset: str
    protocol: str
    version: int
    measure: str
    round: int
    learner: str
    layer: str
    fold: int
    seed: int
    value: float
    n: int
    passes: float
    budget: str
    run: str


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Arrays by name with JSON beside them: weights, or the state of a stage under way. All that a checkpoint can hold."""

    arrays: dict[str, NDArray[Any]]
    meta: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, array in self.arrays.items():
            kind = type(array).__name__
            must(isinstance(array, np.ndarray), DataError, f"snapshot: {name} must be a NumPy array, got {kind}")
            fits = array.dtype.kind in "biuf" and array.dtype.itemsize <= 8 and array.dtype.isnative
            must(fits, DataError, f"snapshot: {name} must hold booleans, integers or floats, got {array.dtype}")
        must("__metadata__" not in self.arrays, DataError, "snapshot: '__metadata__' is no name for an array; choose another")
        try:
            json.dumps(self.meta)
        except (TypeError, ValueError) as error:
            raise DataError(f"snapshot: meta must be JSON (text, numbers, lists, tables by text): {error}") from None


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What a stage cost. ``passes``: images drawn / N over all learners; an image that is only run forward counts a third."""

    passes: float = 0.0
    seconds: float = 0.0
    peak_bytes: int = 0

    def __add__(self, other: Budget) -> Budget:
        return Budget(
            passes=self.passes + other.passes,
            seconds=self.seconds + other.seconds,
            peak_bytes=max(self.peak_bytes, other.peak_bytes),
        )


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What health has to say of a stage, without labels: ``state`` is ok, flat, collapsed or empty."""

    state: str = "ok"
    reason: str = ""
    advice: str = ""

    @property
    def healthy(self) -> bool:
        return self.state == "ok"
