"""The input of a network: grey gradients (Sobel) or colour (Sec. 4.1).

Images (B, C, H, W) float in [0, 1] → (B, 2, H, W) gradients, or (B, 3, H, W) normalised colour.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

# ImageNet's grey mean and deviation: they fix the scale of the input, which a first batch norm would take out again.
_MEAN, _DEVIATION = 0.45, 0.225
_LUMA = (0.299, 0.587, 0.114)


def grey(images: Tensor) -> Tensor:
    """(B, 1 | 3, H, W) → (B, 1, H, W)."""
    if images.shape[1] == 1:
        return images
    weights = torch.tensor(_LUMA, dtype=images.dtype, device=images.device)
    return (images * weights[:, None, None]).sum(dim=1, keepdim=True)


class Sobel(nn.Module):
    """Horizontal and vertical gradients of the grey image; colour is gone, so that it cannot be a trivial solution."""

    channels = 2

    def forward(self, images: Tensor) -> Tensor:
        # The border is repeated: padding with zeros would itself be an edge (ours, not the paper's).
        padded = functional.pad(grey(images), (1, 1, 1, 1), mode="replicate")
        smooth_rows = padded[:, :, :-2] + 2 * padded[:, :, 1:-1] + padded[:, :, 2:]
        smooth_columns = padded[..., :-2] + 2 * padded[..., 1:-1] + padded[..., 2:]
        across = smooth_rows[..., 2:] - smooth_rows[..., :-2]
        down = smooth_columns[:, :, 2:] - smooth_columns[:, :, :-2]
        return torch.cat([across, down], dim=1) / (4 * _DEVIATION)


class Colour(nn.Module):
    """RGB as it is, centred and scaled; a grey image is repeated over the three channels."""

    channels = 3

    def forward(self, images: Tensor) -> Tensor:
        return (images.expand(-1, 3, -1, -1) - _MEAN) / _DEVIATION


def input_stage(name: str) -> Sobel | Colour:
    return Sobel() if name == "sobel" else Colour()
