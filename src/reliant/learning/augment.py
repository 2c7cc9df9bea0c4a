"""Views of images, batched and drawn by counter: crops, flips, contrast and colour.

pixels (B, H, W, C) uint8 → (B, C, size, size) float in [0, 1].

A crop, its rescaling and a flip are one linear map a side, so that a view costs two small matrix products on any device
and no interpolation kernel. A number drawn for a view depends on the key and the view's counter alone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..randomness import uniforms
from .gradients import grey

if TYPE_CHECKING:
    from ..config import Augment

_GEOMETRY, _LIGHT, _COLOUR = 5, 3, 4
_DRAWS = _GEOMETRY + _LIGHT + _COLOUR
# Torchvision's and SimCLR's usual ranges for a resized crop and colour jitter.
_ASPECT = math.log(4 / 3)
_STRENGTH, _HUE, _JITTERED, _GREYED = 0.4, 0.1, 0.8, 0.2


def clean(pixels: Tensor, size: int) -> Tensor:
    """The view without chance: the centre of the image."""
    height, width = pixels.shape[1:3]
    top, left = (height - size) // 2, (width - size) // 2
    if min(top, left) < 0:
        return _warp(pixels, *_centre(pixels, size))
    centre = pixels[:, top : top + size, left : left + size]
    return centre.permute(0, 3, 1, 2).to(torch.float32) / 255


def augmented(pixels: Tensor, images: Tensor, key: int, config: Augment, size: int) -> Tensor:
    """One random view of each image; ``images`` (B,) int64 are the counters of the draw."""
    if config.recipe == "none":
        return clean(pixels, size)
    draws = uniforms(key, images, _DRAWS)
    if config.recipe == "nat":
        rows, columns = _shifted(pixels, draws, size)
    else:
        rows, columns = _resized(pixels, draws, config.scale, size)
    if config.flip:
        columns = torch.where(draws[:, 4:5] < 0.5, columns.flip(1), columns)
    views = _warp(pixels, rows, columns, stretch=config.recipe != "nat")
    if config.recipe == "resized-crop-contrast":
        views = _contrast(views, draws[:, _GEOMETRY:])
    if config.recipe == "resized-crop-colour":
        views = _colour(views, draws[:, _GEOMETRY:])
    return views


def _shifted(pixels: Tensor, draws: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """NAT's random crop. Where the image leaves no room for one, it is shifted by up to an eighth over its repeated border."""
    sides = []
    for side, draw in zip(pixels.shape[1:3], (draws[:, 0], draws[:, 1])):
        room = side - size
        low, high = (0, room) if room > 0 else (room // 2 - size // 8, room // 2 + size // 8)
        start = torch.floor(draw * (high - low + 1)) + low
        sides.append(start[:, None] + torch.arange(size, device=pixels.device))
    return sides[0], sides[1]


def _resized(pixels: Tensor, draws: Tensor, scale: float, size: int) -> tuple[Tensor, Tensor]:
    """A crop of random area, aspect and place, resized to ``size``."""
    height, width = pixels.shape[1:3]
    area = scale + (1 - scale) * draws[:, 0]
    stretch = torch.exp((2 * draws[:, 1] - 1) * _ASPECT / 2)
    steps = (torch.arange(size, device=pixels.device) + 0.5) / size
    sides = []
    for side, share, draw in (
        (height, torch.clamp(area.sqrt() * stretch, max=1.0), draws[:, 2]),
        (width, torch.clamp(area.sqrt() / stretch, max=1.0), draws[:, 3]),
    ):
        start = draw * (1 - share)
        sides.append((start[:, None] + share[:, None] * steps) * side - 0.5)
    return sides[0], sides[1]


def _centre(pixels: Tensor, size: int) -> tuple[Tensor, Tensor]:
    sides = [torch.arange(size, device=pixels.device) + (side - size) // 2 for side in pixels.shape[1:3]]
    rows, columns = (side.to(torch.float32).expand(len(pixels), -1) for side in sides)
    return rows, columns


def _warp(pixels: Tensor, rows: Tensor, columns: Tensor, stretch: bool = False) -> Tensor:
    """Sample at source coordinates rows (B, size) × columns (B, size), linearly, the border repeated."""
    batch, height, width, channels = pixels.shape
    size = rows.shape[1]
    planes = pixels.permute(0, 3, 1, 2).to(torch.float32) / 255
    down = _weights(rows, height, stretch)
    across = _weights(columns, width, stretch)
    planes = torch.bmm(planes.reshape(batch, channels * height, width), across.transpose(1, 2))
    planes = planes.reshape(batch, channels, height, size)
    return torch.matmul(down[:, None], planes)


def _weights(places: Tensor, side: int, stretch: bool) -> Tensor:
    """(B, size) source coordinates → (B, size, side) weights that sum to 1: a tent, widened where pixels are merged."""
    places = places.clamp(0, side - 1)
    width = torch.ones_like(places[:, :1])
    if stretch:
        width = (places[:, -1:] - places[:, :1]).abs().div(max(1, places.shape[1] - 1)).clamp(min=1.0)
    distance = (places[:, :, None] - torch.arange(side, device=places.device)).abs() / width[:, :, None]
    weights = (1 - distance).clamp(min=0)
    return weights / weights.sum(dim=2, keepdim=True)


def _factor(draw: Tensor, strength: float) -> Tensor:
    return (1 + (2 * draw - 1) * strength)[:, None, None, None]


def _contrast(views: Tensor, draws: Tensor) -> Tensor:
    mean = views.mean(dim=(1, 2, 3), keepdim=True)
    lifted = (views - mean) * _factor(draws[:, 0], _STRENGTH) + mean * _factor(draws[:, 1], _STRENGTH)
    return lifted.clamp(0, 1)


def _colour(views: Tensor, draws: Tensor) -> Tensor:
    """Brightness, contrast, saturation, hue (a turn in the YIQ plane), and now and then no colour at all."""
    jittered = _contrast(views, draws)
    if views.shape[1] == 3:
        light = grey(jittered)
        jittered = light + (jittered - light) * _factor(draws[:, 2], _STRENGTH)
        jittered = _turned(jittered, (2 * draws[:, 3] - 1) * _HUE * 2 * math.pi)
    views = torch.where((draws[:, 4] < _JITTERED)[:, None, None, None], jittered, views)
    greyed = grey(views).expand_as(views)
    return torch.where((draws[:, 5] < _GREYED)[:, None, None, None], greyed, views).clamp(0, 1)


def _turned(views: Tensor, angle: Tensor) -> Tensor:
    """Hue turned by an angle: RGB → YIQ, a rotation of (I, Q), and back."""
    to_yiq = torch.tensor([[0.299, 0.587, 0.114], [0.596, -0.274, -0.322], [0.211, -0.523, 0.312]], device=views.device)
    cosine, sine = torch.cos(angle), torch.sin(angle)
    turn = torch.zeros(len(views), 3, 3, device=views.device)
    turn[:, 0, 0] = 1
    turn[:, 1, 1], turn[:, 1, 2], turn[:, 2, 1], turn[:, 2, 2] = cosine, -sine, sine, cosine
    matrix = torch.linalg.inv(to_yiq) @ turn @ to_yiq
    return torch.matmul(matrix, views.flatten(2)).view_as(views)
