from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reliant.config import Augment, Machine
from reliant.config import Network as Shape
from reliant.learning import features
from reliant.learning.augment import augmented, clean
from reliant.learning.device import Device
from reliant.learning.network import Aggregate, Network, build
from reliant.learning.pixels import Pixels
from reliant.records import Features
from tiny_runs import Trunk, pictures

DEVICE = Device(Machine(device="cpu", threads=1, precision="fp32"))


def network(seed: int = 0) -> Network:
    return build(Shape(dimension=6, size=12, input="rgb"), 1, seed, Trunk(seed))


def pixels(count: int = 5) -> Pixels:
    return Pixels(pictures(count, size=14), DEVICE.torch)


def by_hand(phi: Network, images: Pixels, layer: str) -> np.ndarray:
    """One image at a time, from the clean view."""
    phi.eval()
    rows = []
    with torch.no_grad():
        for row in range(len(images)):
            view = clean(images[np.array([row])], 12)
            rows.append((phi(view) if layer == "final" else phi.conv(view))[0].numpy())
    values = np.stack(rows)
    return np.asarray(values / np.linalg.norm(values, axis=1, keepdims=True))


@pytest.mark.parametrize("layer", ["final", "conv"])
def test_features_are_those_of_each_image_alone(layer: str) -> None:
    phi, images = network(), pixels()
    found = features.extract(phi.train(), images, DEVICE, layer, learner=3)
    np.testing.assert_allclose(found.values, by_hand(phi, images, layer), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(found.values, axis=1), 1, atol=1e-5)
    assert (found.layer, found.learner, found.view) == (layer, 3, 0)


@pytest.mark.parametrize("count", [1, 512, 513])
def test_every_image_has_its_row_in_order(count: int) -> None:
    images = Pixels(np.resize(pictures(7), (count, 12, 12, 1)), DEVICE.torch)
    values = features.extract(network(), images, DEVICE).values
    assert values.shape == (count, 6)
    np.testing.assert_allclose(values, np.resize(values[:7], (count, 6)), atol=1e-5)


def test_no_images_have_no_features() -> None:
    assert len(features.extract(network(), Pixels(pictures(0), DEVICE.torch), DEVICE)) == 0


def test_the_same_images_give_the_same_bits() -> None:
    first, second = (features.extract(network(), pixels(), DEVICE).values for _ in range(2))
    assert first.tobytes() == second.tobytes()


def test_a_view_is_drawn_by_the_number_of_the_image() -> None:
    phi, images, how = network().eval(), pixels(), Augment(recipe="resized-crop")
    found = features.extract(phi, images, DEVICE, view=2, augment=how, key=9)
    with torch.no_grad():
        views = augmented(images[np.arange(5)], torch.arange(5), 9, how, 12)
        np.testing.assert_allclose(found.values, phi(views).numpy(), atol=1e-5)
    assert found.view == 2
    other = features.extract(phi, images, DEVICE, view=2, augment=how, key=10)
    assert np.abs(other.values - found.values).max() > 1e-3


def test_a_view_beyond_the_first_batch_is_drawn_by_its_number_too() -> None:
    phi, how = network().eval(), Augment(recipe="resized-crop")
    images = Pixels(np.resize(pictures(7), (515, 12, 12, 1)), DEVICE.torch)
    found = features.extract(phi, images, DEVICE, view=1, augment=how, key=9).values
    with torch.no_grad():
        last = phi(augmented(images[np.array([514])], torch.tensor([514]), 9, how, 12))
    np.testing.assert_allclose(found[514:], last.numpy(), atol=1e-5)


def test_view_0_is_clean_whatever_is_augmented() -> None:
    phi, images = network(), pixels()
    found = features.extract(phi, images, DEVICE, augment=Augment(recipe="resized-crop"), key=9)
    assert found.values.tobytes() == features.extract(phi, images, DEVICE).values.tobytes()


def test_extraction_changes_no_weight_and_no_statistics() -> None:
    phi = network().train()
    before = {name: value.clone() for name, value in phi.state_dict().items()}
    features.extract(phi, pixels(), DEVICE)
    assert all(torch.equal(value, before[name]) for name, value in phi.state_dict().items())


def test_both_layers_of_one_pass_are_those_of_two() -> None:
    phi, images = network().eval(), pixels()
    both = features.extract_layers(phi, images, DEVICE)
    assert set(both) == {"conv", "final"}
    np.testing.assert_allclose(both["final"], features.extract(phi, images, DEVICE).values, atol=1e-6)
    with torch.no_grad():
        conv = phi.conv(clean(images[np.arange(5)], 12)).numpy()
    np.testing.assert_allclose(both["conv"], conv, atol=1e-5)


@pytest.mark.parametrize("mode", ["average", "concatenate"])
def test_both_layers_of_an_aggregate(mode: str) -> None:
    phi = Aggregate([network(0), network(1)], mode).eval()
    both = features.extract_layers(phi, pixels(), DEVICE)
    times = 2 if mode == "concatenate" else 1
    assert (both["conv"].shape, both["final"].shape) == ((5, 144 * times), (5, 6 * times))
    np.testing.assert_allclose(both["final"], features.extract(phi, pixels(), DEVICE).values, atol=1e-6)


def test_features_for_an_assignment_are_those_of_the_images_asked_for() -> None:
    phi, images = network().train(), pixels()
    chosen = np.array([4, 0, 0, 2], np.int32)
    found = features.forward_clean(phi, images, chosen, DEVICE)
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found.numpy(), features.extract(phi, images, DEVICE).values[chosen], atol=1e-6)
    assert not phi.training


def test_rows_come_to_the_sphere_and_zero_rows_stay() -> None:
    values = np.array([[3, 4], [0, 0], [0, -2]], dtype=np.float32)
    np.testing.assert_allclose(features.unit_rows(values), [[0.6, 0.8], [0, 0], [0, -1]], atol=1e-7)
    assert features.unit_rows(np.zeros((0, 3), np.float32)).shape == (0, 3)


@given(st.integers(1, 3), st.integers(1, 4), st.integers(0, 99))
@settings(deadline=None, max_examples=25)
def test_learners_side_by_side_weigh_alike(learners: int, count: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    parts = [features.unit_rows(random.normal(size=(count, 2 + place)).astype(np.float32)) for place in range(learners)]
    merged = features.side_by_side([Features(values=part, layer="conv", learner=place) for place, part in enumerate(parts)])
    assert merged.layer == "conv"
    np.testing.assert_allclose(merged.values, np.concatenate(parts, axis=1) / np.sqrt(learners), atol=1e-6)
    # The product of two images is the mean of the learners' products.
    products = np.mean([part @ part.T for part in parts], axis=0)
    np.testing.assert_allclose(merged.values @ merged.values.T, products, atol=1e-5)


def test_one_learner_beside_none_stays_as_it_is() -> None:
    alone = Features(values=np.ones((2, 3), np.float32), learner=4)
    assert features.side_by_side([alone]) is alone


def test_a_projection_keeps_distances_nearly_and_is_the_same_for_every_view() -> None:
    values = np.random.default_rng(3).normal(size=(24, 3000)).astype(np.float32)
    narrow = features._projected(values, 1000)
    assert narrow.shape == (24, 1000)
    np.testing.assert_allclose(narrow, features._projected(values * 7, 1000), rtol=1e-3, atol=1e-3)
    wide = features.unit_rows(values)
    before = np.linalg.norm(wide[:, None] - wide[None], axis=2)[np.triu_indices(24, 1)]
    after = np.linalg.norm(narrow[:, None] - narrow[None], axis=2)[np.triu_indices(24, 1)] / np.sqrt(1000)
    assert np.abs(after / before - 1).max() < 0.12


def test_narrow_features_are_not_projected() -> None:
    values = np.ones((2, 8), np.float32)
    assert features._projected(values, 8) is values
    assert features._projected(values, 0) is values
