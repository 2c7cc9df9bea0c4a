"""The images of a source where the network can reach them: (N, H, W, C) uint8, gathered batch by batch.

On a GPU the whole set lives in its memory where it fits, else each batch passes through pinned memory. On a CPU a batch is
read from the memory map.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# The share of free GPU memory that the images may take; the rest is the network's.
_SHARE = 0.6


class Pixels:
    """Images on a device: ``pixels[indices]`` is a uint8 batch (B, H, W, C) there."""

    def __init__(self, array: NDArray[np.uint8], device: torch.device) -> None:
        self.array = array
        self.device = device
        self._resident: Tensor | None = None
        if device.type == "cuda" and array.nbytes < _SHARE * torch.cuda.mem_get_info(device)[0]:
            self._resident = torch.from_numpy(np.ascontiguousarray(array)).to(device)

    def __len__(self) -> int:
        return len(self.array)

    @property
    def channels(self) -> int:
        return int(self.array.shape[3])

    def __getitem__(self, indices: NDArray[Any] | Tensor) -> Tensor:
        if self._resident is not None:
            return self._resident[torch.as_tensor(indices, device=self.device)]
        rows = np.asarray(indices.cpu() if isinstance(indices, Tensor) else indices)
        batch = torch.from_numpy(self.array[rows])
        if self.device.type == "cuda":
            batch = batch.pin_memory().to(self.device, non_blocking=True)
        return batch
