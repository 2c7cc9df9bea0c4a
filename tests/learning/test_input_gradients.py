from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from reliant.learning.gradients import Colour, Sobel, grey, input_stage

KERNEL = [[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]


def sobel_by_hand(image: NDArray[np.float32]) -> NDArray[np.float64]:
    """Horizontal and vertical gradients of a grey image (H, W), the border repeated, as plain loops."""
    height, width = image.shape
    gradients = np.zeros((2, height, width))
    for row in range(height):
        for column in range(width):
            for down in (-1, 0, 1):
                for right in (-1, 0, 1):
                    y, x = min(max(row + down, 0), height - 1), min(max(column + right, 0), width - 1)
                    gradients[0, row, column] += KERNEL[down + 1][right + 1] * image[y, x]
                    gradients[1, row, column] += KERNEL[right + 1][down + 1] * image[y, x]
    return gradients / (4 * 0.225)


@given(st.integers(1, 7), st.integers(1, 7), st.integers(0, 99))
@settings(deadline=None, max_examples=30)
def test_sobel_is_that_of_plain_loops(height: int, width: int, seed: int) -> None:
    images = np.random.default_rng(seed).random((2, 1, height, width), dtype=np.float32)
    found = Sobel()(torch.from_numpy(images)).numpy()
    assert found.shape == (2, 2, height, width)
    np.testing.assert_allclose(found, [sobel_by_hand(image[0]) for image in images], atol=1e-5)


def test_a_ramp_has_one_gradient_and_no_edge_at_its_border() -> None:
    ramp = torch.arange(5.0).expand(1, 1, 4, 5) * 0.1
    across, down = Sobel()(ramp)[0]
    torch.testing.assert_close(across[:, 1:-1], torch.full((4, 3), 8 * 0.1 / 0.9))
    torch.testing.assert_close(across[:, 0], torch.full((4,), 4 * 0.1 / 0.9))
    torch.testing.assert_close(down, torch.zeros(4, 5), rtol=0, atol=1e-6)


def test_a_constant_image_has_no_gradient() -> None:
    assert Sobel()(torch.full((1, 3, 4, 4), 0.5)).abs().max() < 1e-6


def test_sobel_looks_at_light_alone() -> None:
    images = torch.rand(2, 3, 5, 5, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(Sobel()(images), Sobel()(grey(images)))


def test_grey_is_the_weighted_sum_of_colours() -> None:
    pixel = torch.tensor([0.2, 0.4, 0.6])[None, :, None, None]
    assert float(grey(pixel)) == pytest.approx(0.299 * 0.2 + 0.587 * 0.4 + 0.114 * 0.6)
    one = torch.rand(2, 1, 3, 3)
    assert grey(one) is one


def test_colour_is_centred_and_scaled() -> None:
    pixel = torch.tensor([0.45, 0.675, 0.225])[None, :, None, None]
    torch.testing.assert_close(Colour()(pixel).flatten(), torch.tensor([0.0, 1.0, -1.0]))


def test_a_grey_image_is_repeated_over_the_channels() -> None:
    image = torch.rand(2, 1, 4, 4)
    found = Colour()(image)
    assert found.shape == (2, 3, 4, 4)
    assert torch.equal(found[:, 0], found[:, 2])


def test_the_stages_by_name_say_their_channels() -> None:
    for name, kind, channels in (("sobel", Sobel, 2), ("rgb", Colour, 3)):
        stage = input_stage(name)
        assert isinstance(stage, kind)
        assert stage.channels == channels == stage(torch.rand(1, 3, 4, 4)).shape[1]
        assert not list(stage.parameters())
