"""What learner k is given: the entries of its subset, and hubs where they are inherited (Sec. 3.5.1).

Relations and k → entries (image, group), ordered by group; present targets (N, D) → hubs (groups, D).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..records import Floats, Ints, Relations
from .targets import uniform_hubs


def entries(mined: Relations, learner: int, uncovered: str = "leave") -> tuple[Ints, Ints]:
    """image_of_entry, group_of_entry of X̄_k: one entry a (image, group); groups are numbered from 0 as hubs.

    ``uncovered = "singletons"`` (ours): an image in no group of X̄_k takes part as a group of its own, so that the local
    problem is not a fraction of the data that a network learns by heart.
    """
    groups = mined.groups.select(mined.subsets.groups_of(learner))
    images, owners = groups.members, groups.owners
    if uncovered == "singletons":
        alone = np.setdiff1d(np.arange(groups.images, dtype=np.int32), images)
        images = np.concatenate([images, alone])
        owners = np.concatenate([owners, len(groups) + np.arange(len(alone), dtype=np.int32)])
    return images, owners


def inherited_hubs(present: Floats, image_of_entry: Ints, group_of_entry: Ints, key: int) -> Floats:
    """The hub of a group as the mean of its members' present targets (ours); fresh where none of them has one."""
    count = int(group_of_entry.max()) + 1 if len(group_of_entry) else 0
    known = ~np.isnan(present[image_of_entry, 0])
    sums: NDArray[np.float64] = np.zeros((count, present.shape[1]))
    np.add.at(sums, group_of_entry[known], present[image_of_entry[known]])
    norms = np.linalg.norm(sums, axis=1, keepdims=True)
    fresh = uniform_hubs(key, np.arange(count, dtype=np.int64), present.shape[1])
    hubs: Floats = np.where(norms > 1e-6, sums / np.maximum(norms, 1e-6), fresh).astype(np.float32)
    return hubs
