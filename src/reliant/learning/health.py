"""Whether a representation is alive, without labels.

Features (N, D) and a History → measures and a Verdict. Flat loss and silent collapse are named, with what to change.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ..randomness import generator
from ..records import Features, Neighbours, Verdict
from .loop import Epoch

if TYPE_CHECKING:
    from .. import config

# Images that are looked at: the spectrum of a sample costs the cube of its size.
_SAMPLE = 1024


def measures(features: Features, neighbours: Neighbours | None, seed: int) -> dict[str, float]:
    """Spread and effective rank of the features, and how well neighbours are told apart (Fig. 2)."""
    rng = generator(seed, "health")
    count = len(features)
    rows = np.sort(rng.choice(count, min(count, _SAMPLE), replace=False))
    values = features.values[rows].astype(np.float64)
    partner = values[rng.permutation(len(values))]
    spread = float(np.linalg.norm(values - partner, axis=1).mean() / math.sqrt(2))
    centred = values - values.mean(axis=0)
    # The same spectrum from the smaller of the two products.
    product = centred.T @ centred if centred.shape[1] <= len(centred) else centred @ centred.T
    spectrum = np.linalg.eigvalsh(product).clip(min=0)
    total = spectrum.sum()
    shares = spectrum[spectrum > 0] / total if total > 0 else np.ones(1)
    result = {"spread": spread, "effective_rank": float(np.exp(-(shares * np.log(shares)).sum()))}
    if neighbours is not None and neighbours.k > 1:
        near, next_near = neighbours.distances[:, 0], neighbours.distances[:, 1]
        told = next_near > 0
        result["neighbour_ratio"] = float((near[told] / next_near[told]).mean()) if told.any() else 1.0
    return result


def verdict(
    measured: dict[str, float], dimension: int, epochs: list[dict[str, Any]] | list[Epoch], config: config.Health
) -> Verdict:
    """What the measures amount to."""
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
    losses = [(row if isinstance(row, dict) else vars(row))["terms"].get("loss", 0.0) for row in epochs]
    if len(losses) >= 6 and min(losses[1:]) > 0.995 * losses[0]:
        return Verdict(
            state="flat",
            reason=f"the loss did not fall: {losses[0]:.4f} in the first epoch, {min(losses[1:]):.4f} at best after it",
            advice="raise the rate (initial.rate, local.rate) or train longer (initial.passes, local.passes)",
        )
    return Verdict()
