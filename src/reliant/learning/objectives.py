"""What is minimised: an objective is all that differs between the initialisation, local learning and refinement.

The loop asks an objective which images a batch of entries needs, and gives it φ of their views; the objective answers with
the loss, and re-assigns where it is told to. An *entry* is one (image, target) pair; its point is the only state it has.

* :class:`Regression` — Eq. 2: entries onto their points; with one entry an image this is the initialisation.
* :class:`Refinement` — Eq. 4: a Regression and the triplets of Eq. 3 in every batch.
* :class:`TripletRanking` — the ablation "Triplets only": distance-weighted sampling on the reliable relations alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ..randomness import derive, generator, uniforms
from ..records import Assignment, Targets, Triplets
from . import assignment
from .targets import TargetSpace

Ask = Callable[[NDArray[np.int32]], Tensor]
Losses = dict[str, Tensor]


class Objective(Protocol):
    """What the loop needs to know of an objective."""

    entries: int
    images_per_entry: int

    @property
    def churn(self) -> float:
        """The share of entries whose target changed in this epoch."""

    def reassigns(self, epoch: int) -> bool:
        """Whether targets are dealt anew in this epoch."""

    def images(self, entries: NDArray[np.int64], step: int) -> NDArray[np.int32]:
        """The images whose views the loss of these entries needs."""

    def before_epoch(self, epoch: int, ask: Ask) -> None:
        """Called at the start of an epoch; ``ask`` gives φ of clean images, and the loop counts them."""

    def loss(self, features: Tensor, entries: NDArray[np.int64], epoch: int) -> Losses:
        """Named terms summed over the batch; "loss" is what is minimised."""

    def state(self) -> dict[str, NDArray[Any]]:
        """What a checkpoint must hold besides the weights."""

    def load_state(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Put a state back."""


class Regression:
    """Eq. 2: Σ d(φ(x_i), φ_π(i)) over the entries of a subset (or over all images at the initialisation).

    π starts as Algorithm 1 draws the points: a point "∀ x_i ∈ G" around G's own hub; at the initialisation this is random.
    """

    images_per_entry = 1

    def __init__(
        self,
        *,
        image_of_entry: NDArray[np.int32],
        group_of_entry: NDArray[np.int32] | None,
        targets: Targets,
        device: torch.device,
        key: tuple[int | str, ...],
        loss: str = "squared",
        temperature: float = 0.1,
        unit: str = "image",
        view: str = "augmented",
        reassign_every: int = 3,
        block: int = 256,
        start: Assignment | None = None,
    ) -> None:
        self.entries = len(image_of_entry)
        self.image_of_entry, self.group_of_entry = image_of_entry, group_of_entry
        self.space = TargetSpace(targets, device)
        self.device, self.key = device, key
        self.measure, self.temperature = loss, temperature
        self.unit, self.view = unit, view
        self.reassign_every, self.block = reassign_every, block
        self.point = np.arange(self.entries, dtype=np.int32) if start is None else start.point.copy()
        self._first_point = self.point.copy()
        self._hub_of_group: NDArray[np.int32] | None = None
        if unit == "group":
            assert group_of_entry is not None
            self._hub_of_group = np.arange(int(group_of_entry.max()) + 1, dtype=np.int32)

    def images(self, entries: NDArray[np.int64], step: int) -> NDArray[np.int32]:
        return self.image_of_entry[entries]

    def reassigns(self, epoch: int) -> bool:
        return self.reassign_every > 0 and epoch % self.reassign_every == 0

    def before_epoch(self, epoch: int, ask: Ask) -> None:
        """Assignment from clean images happens here; from the batch's own views it happens in :meth:`loss`."""
        self._first_point = self._held().copy()
        if not self.reassigns(epoch) or self.view != "clean":
            return
        rng = generator(*self.key, "assignment", epoch)
        features = ask(self.image_of_entry)
        if self.unit == "group":
            self._reassign_groups(features.cpu().numpy(), rng)
        else:
            order = rng.permutation(self.entries)
            plain = self.measure == "plain"
            self.point = assignment.reassign_entries(self.point, features, self.space.points, order, self.block, plain)

    def _reassign_groups(self, features: NDArray[np.float32], rng: np.random.Generator) -> None:
        """Groups to hubs, then the members of each group to the points of its hub."""
        assert self.group_of_entry is not None
        assert self._hub_of_group is not None
        assert self.space.hubs is not None
        count = len(self._hub_of_group)
        sums = np.zeros((count, features.shape[1]), dtype=np.float64)
        np.add.at(sums, self.group_of_entry, features)
        sizes = np.bincount(self.group_of_entry, minlength=count)
        hubs = self.space.hubs.cpu().numpy()
        order = rng.permutation(count)
        self._hub_of_group = assignment.groups_to_hubs(sums.astype(np.float32), hubs, self._hub_of_group, order, self.block)
        self._place_hubs()
        by_group = np.argsort(self.group_of_entry, kind="stable")
        for members in np.split(by_group, np.cumsum(sizes)[:-1]):
            if len(members) > 1:
                held = np.sort(self.point[members])
                points = self.space.points(torch.from_numpy(held).to(self.device)).cpu().numpy()
                self.point[members] = held[assignment.members_to_points(features[members], points)]

    def _place_hubs(self) -> None:
        """Point p belongs to the group of entry p; where that group now has another hub, its points move there."""
        assert self.group_of_entry is not None
        assert self._hub_of_group is not None
        hub_of_point = self._hub_of_group[self.group_of_entry]
        self.space.hub_of_point = torch.from_numpy(hub_of_point).long().to(self.device)

    def loss(self, features: Tensor, entries: NDArray[np.int64], epoch: int) -> Losses:
        held = torch.from_numpy(self.point[entries]).long().to(self.device)
        points = self.space.points(held)
        if self.reassigns(epoch) and self.view == "augmented":
            dealt = assignment.reassign_block(features, points, self.measure == "plain")
            self.point[entries] = self.point[entries][dealt]
            order = torch.from_numpy(dealt).to(self.device)
            held, points = held[order], points[order]
        squares = (features - points).square().sum(dim=1)
        if self.measure == "softmax":
            value = self._softmax(features, points, self.space.hub(held))
        else:
            value = squares.sum() if self.measure == "squared" else squares.clamp(min=1e-12).sqrt().sum()
        return {"loss": value, "distance": squares.detach().sum()}

    def _softmax(self, features: Tensor, points: Tensor, hubs: Tensor) -> Tensor:
        """Cross-entropy over the batch's targets (ours); points of an image's own hub are no wrong answer to it."""
        logits = features @ points.T / self.temperature
        same = hubs[:, None] == hubs[None, :]
        same.fill_diagonal_(False)
        logits = logits.masked_fill(same, float("-inf"))
        return functional.cross_entropy(logits, torch.arange(len(logits), device=self.device), reduction="sum")

    def _held(self) -> NDArray[np.int32]:
        """What an entry is assigned to: its hub where groups move, else its point."""
        if self._hub_of_group is not None and self.group_of_entry is not None:
            return self._hub_of_group[self.group_of_entry]
        return self.point

    @property
    def churn(self) -> float:
        """The share of entries whose target changed in this epoch."""
        return float((self._held() != self._first_point).mean()) if self.entries else 0.0

    def state(self) -> dict[str, NDArray[Any]]:
        state: dict[str, NDArray[Any]] = {"point": self.point, "first_point": self._first_point}
        if self._hub_of_group is not None:
            state["hub_of_group"] = self._hub_of_group
        return state

    def load_state(self, arrays: dict[str, NDArray[Any]]) -> None:
        self.point = Assignment(point=arrays["point"].astype(np.int32)).point.copy()
        self._first_point = arrays["first_point"].astype(np.int32)
        if self._hub_of_group is not None:
            self._hub_of_group = arrays["hub_of_group"].astype(np.int32)
            self._place_hubs()

    def present_targets(self) -> NDArray[np.float32]:
        """(E, D): the point that every entry holds now."""
        parts = []
        for start in range(0, self.entries, 8192):
            held = torch.from_numpy(self.point[start : start + 8192]).long().to(self.device)
            parts.append(self.space.points(held).cpu().numpy())
        return np.concatenate(parts) if parts else np.zeros((0, self.space.targets.dimension), np.float32)


def ranking(anchor: Tensor, similar: Tensor, dissimilar: Tensor, margin: float, squared: bool) -> tuple[Tensor, Tensor]:
    """Eq. 3: (T, D) each → the hinge of every triplet (T,), and whether it is active (T,)."""

    def distance(first: Tensor, second: Tensor) -> Tensor:
        gaps = (first - second).square().sum(dim=1)
        return gaps if squared else gaps.clamp(min=1e-12).sqrt()

    hinge = (distance(anchor, similar) - distance(anchor, dissimilar) + margin).clamp(min=0)
    return hinge, hinge.detach() > 0


class Refinement:
    """Eq. 4: L_refine = L_local + weight · L_transfer. A batch draws three images of a triplet for every three entries.

    L_transfer is the mean hinge times the number of entries (ours): with weight 1 both terms count equally however many
    triplets there are. A batch is half entries, half images of triplets, so the blocks of assignment are half as large.
    """

    def __init__(
        self, local: Regression, triplets: Triplets, *, margin: float, weight: float, squared: bool, key: tuple[int | str, ...]
    ) -> None:
        self.local, self.triplets = local, triplets
        self.margin, self.weight, self.squared, self.key = margin, weight, squared, key
        self.entries = local.entries
        # Half of the images of a batch are the local entries', half the triplets'.
        self.images_per_entry = 2 if len(triplets) else 1

    def _chosen(self, entries: NDArray[np.int64], step: int) -> NDArray[np.int64]:
        count = max(1, len(entries) // 3)
        rows = np.arange(count, dtype=np.int64) + step * count
        drawn = uniforms(derive(*self.key, "triplets"), rows, 1)[:, 0]
        rows = (drawn.astype(np.float64) * len(self.triplets)).astype(np.int64)
        return np.asarray(np.minimum(rows, len(self.triplets) - 1), dtype=np.int64)

    def images(self, entries: NDArray[np.int64], step: int) -> NDArray[np.int32]:
        local = self.local.images(entries, step)
        if not len(self.triplets):
            return local
        rows = self._chosen(entries, step)
        return np.concatenate([local, self.triplets.anchor[rows], self.triplets.similar[rows], self.triplets.dissimilar[rows]])

    def before_epoch(self, epoch: int, ask: Ask) -> None:
        self.local.before_epoch(epoch, ask)

    def loss(self, features: Tensor, entries: NDArray[np.int64], epoch: int) -> Losses:
        losses = self.local.loss(features[: len(entries)], entries, epoch)
        if not len(self.triplets):
            return losses
        anchor, similar, dissimilar = features[len(entries) :].chunk(3)
        hinge, active = ranking(anchor, similar, dissimilar, self.margin, self.squared)
        # Scaled to the entries of the batch, so that a weight of 1 means one triplet for one entry.
        transfer = hinge.mean() * len(entries)
        share = active.float().mean() * len(entries)
        losses |= {"local": losses["loss"].detach(), "transfer": transfer.detach(), "active": share}
        return losses | {"loss": losses["loss"] + self.weight * transfer}

    @property
    def churn(self) -> float:
        return self.local.churn

    def reassigns(self, epoch: int) -> bool:
        return self.local.reassigns(epoch)

    def state(self) -> dict[str, NDArray[Any]]:
        return self.local.state()

    def load_state(self, arrays: dict[str, NDArray[Any]]) -> None:
        self.local.load_state(arrays)


class TripletRanking:
    """The ablation "Triplets only" (Sec. 4.2): a ranking loss on reliable relations, negatives weighted by distance.

    Every batch holds pairs of images of one group; a negative of an anchor is an image of the batch from another group of
    the same subset, drawn with the weight q(d)⁻¹ of Wu et al., where q is the density of distances on the sphere.
    """

    images_per_entry = 2
    churn = 0.0

    def __init__(
        self,
        *,
        image_of_entry: NDArray[np.int32],
        group_of_entry: NDArray[np.int32],
        subset_of_group: NDArray[np.int32],
        margin: float,
        squared: bool,
        device: torch.device,
        key: tuple[int | str, ...],
    ) -> None:
        self.entries = len(image_of_entry)
        self.image_of_entry, self.group_of_entry = image_of_entry, group_of_entry
        self.subset_of_group = subset_of_group
        self.margin, self.squared, self.device, self.key = margin, squared, device, key
        # Entries come group by group, so that a partner is a shift within the group.
        self._sizes = np.bincount(group_of_entry)
        self._starts = np.concatenate([[0], np.cumsum(self._sizes)[:-1]])
        self._step = 0

    def images(self, entries: NDArray[np.int64], step: int) -> NDArray[np.int32]:
        self._step = step
        groups = self.group_of_entry[entries]
        sizes, starts = self._sizes[groups], self._starts[groups]
        drawn = uniforms(derive(*self.key, "partners", step), entries, 1)[:, 0]
        shift = 1 + np.floor(drawn * np.maximum(sizes - 1, 1)).astype(np.int64)
        partners = starts + (entries - starts + shift) % sizes
        return np.concatenate([self.image_of_entry[entries], self.image_of_entry[partners]])

    def reassigns(self, epoch: int) -> bool:
        return False

    def before_epoch(self, epoch: int, ask: Ask) -> None:
        return None

    def loss(self, features: Tensor, entries: NDArray[np.int64], epoch: int) -> Losses:
        anchors, similar = features.chunk(2)
        groups = torch.from_numpy(self.group_of_entry[entries].astype(np.int64)).to(self.device)
        subsets = torch.from_numpy(self.subset_of_group.astype(np.int64)).to(self.device)[groups]
        allowed = (groups[:, None] != groups[None, :]) & (subsets[:, None] == subsets[None, :])
        usable = allowed.any(dim=1)
        chosen = self._negatives(anchors.detach(), allowed)
        hinge, active = ranking(anchors, similar, anchors[chosen], self.margin, self.squared)
        hinge = hinge * usable
        return {"loss": hinge.sum(), "active": (active & usable).float().sum()}

    def _negatives(self, anchors: Tensor, allowed: Tensor) -> Tensor:
        dimension = anchors.shape[1]
        distance = (2 - 2 * anchors @ anchors.T).clamp(min=0.25, max=3.9).sqrt()
        density = (dimension - 2) * distance.log() + (dimension - 3) / 2 * (1 - distance.square() / 4).log()
        weights = torch.where(allowed, -density, torch.full_like(density, -torch.inf))
        weights = (weights - weights.amax(dim=1, keepdim=True).nan_to_num(neginf=0.0)).exp() * allowed
        cumulative = weights.cumsum(dim=1)
        rows = torch.arange(len(anchors), device=self.device)
        draw = uniforms(derive(*self.key, "negatives", self._step), rows, 1) * cumulative[:, -1:]
        return torch.searchsorted(cumulative, draw, right=True)[:, 0].clamp(max=len(anchors) - 1)

    def state(self) -> dict[str, NDArray[Any]]:
        return {}

    def load_state(self, arrays: dict[str, NDArray[Any]]) -> None:
        return None
