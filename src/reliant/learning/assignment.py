"""π: which image regresses onto which point (Sec. 3.5.2, step i).

A global solver costs O(N³), so NAT's stochastic update is used: within a block the points that its images hold are dealt
out anew by the exact Hungarian method, and the rest stays. The cost of an assignment therefore never rises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from ..records import Floats


def solve(costs: NDArray[np.floating]) -> NDArray[np.int64]:
    """(n, n) costs → the column of every row with the least total; the present one where it is as good (ties stay)."""
    # NaN and infinity have no best order: nothing moves, and the loop names them when it looks at the loss.
    if not np.isfinite(costs).all():
        return np.arange(len(costs))
    _, columns = linear_sum_assignment(costs)
    present = float(np.trace(costs, dtype=np.float64))
    found = float(costs[np.arange(len(costs)), columns].sum(dtype=np.float64))
    return columns if found < present else np.arange(len(costs))


def costs(features: Tensor, points: Tensor, plain: bool) -> Tensor:
    """(n, D) features, (n, D) points → (n, n) distances, squared or plain, up to a constant a row or column."""
    products = features @ points.T
    if not plain:
        # |z − t|² = |z|² + |t|² − 2⟨z, t⟩: each z and each t is used once, so only the product decides.
        return -2 * products
    squares = features.square().sum(1)[:, None] + points.square().sum(1)[None, :] - 2 * products
    return squares.clamp(min=0).sqrt()


def reassign_block(features: Tensor, points: Tensor, plain: bool) -> NDArray[np.int64]:
    """One NAT step: the order in which the block's own points go to the block's images."""
    with torch.no_grad():
        table = costs(features.float(), points.float(), plain).cpu().numpy()
    return solve(table)


def reassign_entries(
    point: NDArray[np.int32],
    features: Tensor,
    points_of: Callable[[Tensor], Tensor],
    order: NDArray[np.int64],
    block: int,
    plain: bool,
) -> NDArray[np.int32]:
    """All entries in blocks, from features computed beforehand. ``points_of`` maps point numbers to points (B, D)."""
    fresh = point.copy()
    for chosen in blocks(order, block):
        held = torch.from_numpy(point[chosen]).long().to(features.device)
        dealt = reassign_block(features[torch.from_numpy(chosen).to(features.device)], points_of(held), plain)
        fresh[chosen] = point[chosen][dealt]
    return fresh


def groups_to_hubs(
    sums: Floats, hubs: Floats, hub_of_group: NDArray[np.int32], order: NDArray[np.int64], block: int
) -> NDArray[np.int32]:
    """Whole groups to hubs (ours): (G, D) sums of φ over each group, (L, D) hubs → the hub of every group, in blocks.

    The sum, not the mean: Σ over a group's images of ⟨φ(x), μ⟩ is what Eq. 2 counts, so that its value at the hubs never
    rises whatever the sizes.
    """
    fresh = hub_of_group.copy()
    for chosen in blocks(order, block):
        held = hub_of_group[chosen]
        fresh[chosen] = held[solve(-(sums[chosen].astype(np.float64) @ hubs[held].astype(np.float64).T))]
    return fresh


def members_to_points(values: Floats, points: Floats) -> NDArray[np.int64]:
    """Within one group (h, D) and the points of its hub (h, D): the point of every member."""
    return solve(-(values.astype(np.float64) @ points.astype(np.float64).T))


def blocks(order: NDArray[np.int64], block: int) -> Iterator[NDArray[np.int64]]:
    """Consecutive blocks of an order; a last block of one cannot trade and is left out."""
    for start in range(0, len(order), block):
        chosen = order[start : start + block]
        if len(chosen) > 1:
            yield chosen
