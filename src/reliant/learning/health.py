"""Whether a representation is alive, without labels.

φ of a sample of images and the epochs of a stage → measures and a Verdict. Flat loss and silent collapse are named, with
what to change.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ..randomness import generator
from ..records import Floats, Ints, Neighbours, Verdict

if TYPE_CHECKING:
    from .. import config

# Images that are looked at: the spectrum of a sample costs the cube of its size.
_SAMPLE = 1024


def sample(images: int, seed: int) -> Ints:
    """The images whose φ is looked at, ascending."""
    rows = generator(seed, "health").choice(images, min(images, _SAMPLE), replace=False)
    return np.sort(rows).astype(np.int32)


def measures(final: Floats, neighbours: Neighbours | None, seed: int) -> dict[str, float]:
    """Spread and effective rank of φ on a sample (S, D), and how well the nearest neighbour is told from the next (Fig. 2)."""
    values = final.astype(np.float64)
    partner = values[generator(seed, "health partners").permutation(len(values))]
    spread = float(np.linalg.norm(values - partner, axis=1).mean() / math.sqrt(2))
    centred = values - values.mean(axis=0)
    # The same spectrum from the smaller of the two products.
    product = centred.T @ centred if centred.shape[1] <= len(centred) else centred @ centred.T
    spectrum = np.linalg.eigvalsh(product).clip(min=0)
    total = spectrum.sum()
    shares = spectrum[spectrum > 0] / total if total > 0 else np.ones(1)
    result = {"spread": spread, "effective_rank": float(np.exp(-(shares * np.log(shares)).sum()))}
    if neighbours is not None and neighbours.k > 1:
        # Sorted, as re-ranked lists are in another order.
        near, next_near = np.sort(neighbours.distances, axis=1)[:, :2].T
        told = next_near > 0
        result["neighbour_ratio"] = float((near[told] / next_near[told]).mean()) if told.any() else 1.0
    return result


def verdict(
    measured: dict[str, float], dimension: int, epochs: list[dict[str, Any]], config: config.Health, from_scratch: bool = True
) -> Verdict:
    """What the measures amount to. A loss that does not fall is a fault only of a network that starts from scratch."""
    if measured["spread"] < config.spread:
        return Verdict(
            state="collapsed",
            reason=f"all images have nearly the same features: mean distance {measured['spread']:.4f} of random points' 1.0",
            advice="lower the rate (initial.rate, local.rate) or the weight decay, or use a larger batch",
        )
    if measured["effective_rank"] < max(1.5, config.rank * dimension):
        return Verdict(
            state="collapsed",
            reason=f"the features fill {measured['effective_rank']:.1f} of {dimension} dimensions",
            advice="train the initialisation longer (initial.passes) or lower the rate",
        )
    # In an epoch that re-assigns, targets are dealt to suit the features, so its loss is not comparable with the others'.
    losses = [row["terms"].get("loss", 0.0) for row in epochs if not row["reassigned"]]
    if from_scratch and len(losses) >= 6 and min(losses[1:]) > 0.995 * losses[0]:
        return Verdict(
            state="flat",
            reason=f"the loss did not fall: {losses[0]:.4f} in the first epoch, {min(losses[1:]):.4f} at best after it",
            advice="raise the rate (initial.rate, local.rate) or train longer (initial.passes, local.passes)",
        )
    return Verdict()
