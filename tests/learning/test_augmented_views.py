from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from reliant.config import Augment
from reliant.learning import augment
from reliant.learning.augment import augmented, clean
from reliant.randomness import uniforms

RECIPES = ["none", "nat", "resized-crop", "resized-crop-contrast", "resized-crop-colour"]
Draws = NDArray[np.float32]


def pixels(count: int = 3, height: int = 9, width: int = 8, channels: int = 1, seed: int = 0) -> torch.Tensor:
    shape = (count, height, width, channels)
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8))


def counters(*numbers: int) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.int64)


def draws_of(key: int, counter: int) -> Draws:
    return np.asarray(uniforms(key, np.array([counter], dtype=np.int64), 12)[0])


def with_draws(monkeypatch: pytest.MonkeyPatch, *values: float) -> None:
    """The numbers that every image draws, 0.5 where none is given."""
    row = torch.tensor([*values, *[0.5] * (12 - len(values))])
    monkeypatch.setattr(augment, "uniforms", lambda key, images, count: row.expand(len(images), -1))


def cropped_by_hand(image: NDArray[np.uint8], draws: Draws, scale: float, size: int, flip: bool) -> NDArray[np.float64]:
    """A resized crop of one image (H, W, C), as plain loops over a tent that is widened where pixels are merged."""
    height, width, channels = image.shape
    area = scale + (1 - scale) * float(draws[0])
    aspect = math.exp((2 * float(draws[1]) - 1) * math.log(4 / 3) / 2)
    weights = []
    for side, share, draw in (
        (height, min(1.0, math.sqrt(area) * aspect), float(draws[2])),
        (width, min(1.0, math.sqrt(area) / aspect), float(draws[3])),
    ):
        start = draw * (1 - share)
        places = [(start + share * (step + 0.5) / size) * side - 0.5 for step in range(size)]
        places = [min(max(place, 0.0), side - 1.0) for place in places]
        reach = max(1.0, (places[-1] - places[0]) / (size - 1))
        rows = [[max(0.0, 1 - abs(place - source) / reach) for source in range(side)] for place in places]
        weights.append([[one / sum(row) for one in row] for row in rows])
    down, across = weights
    across = across[::-1] if flip else across
    view = np.zeros((channels, size, size))
    for channel in range(channels):
        for row in range(size):
            for column in range(size):
                for y in range(height):
                    for x in range(width):
                        view[channel, row, column] += down[row][y] * across[column][x] * image[y, x, channel] / 255
    return view


def test_the_clean_view_is_the_centre() -> None:
    images = pixels(2, 9, 8, 3)
    view = clean(images, 4)
    assert view.shape == (2, 3, 4, 4)
    assert torch.equal(view, images[:, 2:6, 2:6].permute(0, 3, 1, 2) / 255)


def test_a_clean_view_larger_than_the_image_repeats_its_border() -> None:
    images = pixels(1, 3, 2)
    rows = [0, 0, 1, 2, 2]
    columns = [0, 0, 0, 1, 1]
    assert torch.equal(clean(images, 5)[0, 0], images[0][rows][:, columns, 0] / 255)


def test_without_a_recipe_the_view_is_clean() -> None:
    images = pixels()
    assert torch.equal(augmented(images, counters(0, 1, 2), 5, Augment(recipe="none"), 6), clean(images, 6))


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [1, 6, 8, 13])
def test_a_view_is_of_the_size_asked_for_and_in_range(recipe: str, channels: int, size: int) -> None:
    view = augmented(pixels(4, channels=channels), counters(0, 1, 2, 3), 5, Augment(recipe=recipe), size)
    assert view.shape == (4, channels, size, size)
    assert view.dtype == torch.float32
    assert view.min() >= 0
    assert view.max() <= (1 if recipe.endswith(("contrast", "colour")) else 1 + 1e-6)


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_view_depends_on_key_and_counter_alone(recipe: str) -> None:
    images, how = pixels(5, channels=3), Augment(recipe=recipe)
    together = augmented(images, counters(7, 1, 40, 2, 9), 5, how, 6)
    alone = augmented(images[2:3], counters(40), 5, how, 6)
    other_order = augmented(images[[4, 2]], counters(9, 40), 5, how, 6)
    torch.testing.assert_close(together[2:3], alone, rtol=0, atol=1e-6)
    torch.testing.assert_close(together[[4, 2]], other_order, rtol=0, atol=1e-6)


@pytest.mark.parametrize("recipe", RECIPES[1:])
def test_another_key_or_counter_gives_another_view(recipe: str) -> None:
    images, how = pixels(1, channels=3), Augment(recipe=recipe)
    view = augmented(images, counters(0), 5, how, 6)
    others = [augmented(images, counters(0), 6 + key, how, 6) for key in range(4)]
    others += [augmented(images, counters(1 + counter), 5, how, 6) for counter in range(4)]
    assert sum(not torch.equal(view, other) for other in others) >= 7


@given(st.integers(0, 2**40), st.sampled_from([4, 6, 8, 9, 12]))
@settings(deadline=None, max_examples=40)
def test_a_shifted_crop_copies_pixels(key: int, size: int) -> None:
    image = pixels(1, 9, 9)
    view = augmented(image, counters(3), key, Augment(recipe="nat", flip=False), size)[0, 0]
    room = 9 - size
    shifts = range(room + 1) if room > 0 else range(room // 2 - size // 8, room // 2 + size // 8 + 1)
    source = image[0, :, :, 0] / 255
    places = [torch.arange(size).add(shift).clamp(0, 8) for shift in shifts]
    assert any(torch.equal(view, source[rows][:, columns]) for rows in places for columns in places)


def test_shifted_crops_reach_every_place_and_no_other() -> None:
    ramp = torch.arange(6 * 6).reshape(1, 6, 6, 1).to(torch.uint8).expand(400, -1, -1, -1)
    views = augmented(ramp, torch.arange(400), 5, Augment(recipe="nat", flip=False), 4)
    corners = (views[:, 0, 0, 0] * 255).round().int().tolist()
    assert set(corners) == {row * 6 + column for row in range(3) for column in range(3)}


def test_a_flip_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    image = pixels(1, 9, 9, 3)
    for recipe in ("nat", "resized-crop"):
        with_draws(monkeypatch, 0.3, 0.6, 0.2, 0.9, 0.5)
        straight = augmented(image, counters(0), 5, Augment(recipe=recipe), 6)
        with_draws(monkeypatch, 0.3, 0.6, 0.2, 0.9, 0.49)
        flipped = augmented(image, counters(0), 5, Augment(recipe=recipe), 6)
        assert torch.equal(flipped, straight.flip(3))
        assert torch.equal(augmented(image, counters(0), 5, Augment(recipe=recipe, flip=False), 6), straight)


def test_half_of_the_views_are_flipped() -> None:
    ramp = torch.arange(6).to(torch.uint8).reshape(1, 1, 6, 1).expand(1000, 6, 6, 1)
    views = augmented(ramp, torch.arange(1000), 5, Augment(recipe="nat"), 6)
    flipped = (views[:, 0, 0, 0] > views[:, 0, 0, -1]).float().mean()
    assert flipped == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize("size", [8, 6, 4])
def test_a_crop_of_the_whole_image_is_the_image_or_its_mean(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    with_draws(monkeypatch, 0.3)
    image = pixels(1, 8, 8, 3)
    view = augmented(image, counters(0), 5, Augment(recipe="resized-crop", scale=1.0), size)
    if size == 8:
        torch.testing.assert_close(view, image.permute(0, 3, 1, 2) / 255, rtol=0, atol=1e-6)
    # Merged pixels are averaged: the mean of the view stays near that of the image.
    assert view.mean() == pytest.approx(float((image / 255).mean()), abs=0.05)


@given(st.integers(0, 2**40), st.sampled_from([0.1, 0.25, 1.0]), st.sampled_from([2, 5, 9]), st.booleans())
@settings(deadline=None, max_examples=25)
def test_a_resized_crop_is_that_of_plain_loops(key: int, scale: float, size: int, flip: bool) -> None:
    images = pixels(2, 7, 6, 1)
    views = augmented(images, counters(4, 11), key, Augment(recipe="resized-crop", scale=scale, flip=flip), size)
    for row, counter in enumerate((4, 11)):
        draws = draws_of(key, counter)
        expected = cropped_by_hand(images[row].numpy(), draws, scale, size, flip and bool(draws[4] < 0.5))
        np.testing.assert_allclose(views[row].numpy(), expected, atol=1e-5)


def test_an_image_of_one_colour_stays_it_in_any_crop() -> None:
    grey_image = torch.full((4, 9, 8, 3), 51, dtype=torch.uint8)
    for recipe in ("nat", "resized-crop"):
        view = augmented(grey_image, counters(0, 1, 2, 3), 5, Augment(recipe=recipe), 6)
        torch.testing.assert_close(view, torch.full_like(view, 0.2), rtol=0, atol=1e-6)


def test_contrast_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    with_draws(monkeypatch, 0.5, 0.5, 0.5, 0.5, 0.5, 0.75, 0.25)
    image = pixels(1, 6, 6)
    plain = augmented(image, counters(0), 5, Augment(recipe="resized-crop", scale=1.0), 6)
    view = augmented(image, counters(0), 5, Augment(recipe="resized-crop-contrast", scale=1.0), 6)
    mean = plain.mean()
    torch.testing.assert_close(view, ((plain - mean) * 1.2 + mean * 0.8).clamp(0, 1))


def test_grey_stays_grey() -> None:
    shades = pixels(64, channels=1).expand(-1, -1, -1, 3)
    views = augmented(shades, torch.arange(64), 5, Augment(recipe="resized-crop-colour"), 6)
    torch.testing.assert_close(views[:, 0], views[:, 1], rtol=0, atol=2e-3)
    torch.testing.assert_close(views[:, 0], views[:, 2], rtol=0, atol=2e-3)


def test_a_fifth_of_the_colour_views_has_no_colour() -> None:
    coloured = torch.zeros(500, 6, 6, 3, dtype=torch.uint8)
    coloured[..., 0] = 200
    views = augmented(coloured, torch.arange(500), 5, Augment(recipe="resized-crop-colour"), 4)
    colourless = ((views.amax(dim=1) - views.amin(dim=1)).amax(dim=(1, 2)) < 1e-6).float().mean()
    assert colourless == pytest.approx(0.2, abs=0.06)


def test_colour_without_jitter_and_loss_is_the_plain_view(monkeypatch: pytest.MonkeyPatch) -> None:
    with_draws(monkeypatch, 0.5, 0.5, 0.5, 0.5, 0.5, 0.9, 0.9, 0.9, 0.9, 0.8, 0.2)
    image = pixels(1, 6, 6, 3)
    plain = augmented(image, counters(0), 5, Augment(recipe="resized-crop"), 6)
    assert torch.equal(augmented(image, counters(0), 5, Augment(recipe="resized-crop-colour"), 6), plain)


def test_saturation_and_hue_keep_the_light(monkeypatch: pytest.MonkeyPatch) -> None:
    with_draws(monkeypatch, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.7, 0.9, 0.0, 0.9)
    image = (pixels(1, 6, 6, 3) // 4) + 96
    plain = augmented(image, counters(0), 5, Augment(recipe="resized-crop"), 6)
    view = augmented(image, counters(0), 5, Augment(recipe="resized-crop-colour"), 6)
    luma = torch.tensor([0.299, 0.587, 0.114])[:, None, None]
    assert (view - plain).abs().max() > 0.01
    torch.testing.assert_close((view * luma).sum(1), (plain * luma).sum(1), rtol=0, atol=1e-3)
