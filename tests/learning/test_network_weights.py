from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from reliant.config import Network as Shape
from reliant.errors import ConfigError, DataError
from reliant.learning import network
from reliant.learning.network import Aggregate, Network, build, flat_map, restore, snapshot
from reliant.records import Snapshot
from tiny_runs import Trunk

SMALL = Shape(name="small", dimension=6, size=12)


class Vectors(nn.Module):
    """A trunk that gives vectors."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.flatten(1)[:, :20]


class Pyramid(nn.Module):
    """A trunk that gives several maps, the last one last."""

    def forward(self, images: torch.Tensor) -> list[torch.Tensor]:
        return [images, functional.avg_pool2d(images, 4)]


class Wrong(nn.Module):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images[:, 0]


def images(count: int = 3, channels: int = 1, size: int = 12) -> torch.Tensor:
    return torch.rand(count, channels, size, size, generator=torch.Generator().manual_seed(1))


def saved(phi: Network, **meta: Any) -> Snapshot:
    """As a stage saves it."""
    arrays = {f"network.{name}": array for name, array in snapshot(phi).arrays.items()}
    return Snapshot(arrays=arrays, meta={**network.describe(SMALL, 1, own_trunk=False), **meta})


def bits(phi: nn.Module) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in snapshot(phi).arrays.items()}


def test_weights_are_drawn_from_the_seed_alone() -> None:
    torch.manual_seed(1)
    first = bits(build(SMALL, 1, 5))
    torch.manual_seed(2)
    assert bits(build(SMALL, 1, 5)) == first
    assert bits(build(SMALL, 1, 6)) != first


def test_building_leaves_torchs_generator_alone() -> None:
    before = torch.random.get_rng_state()
    build(SMALL, 1, 5)
    assert torch.equal(before, torch.random.get_rng_state())


def test_phi_lies_on_the_sphere_and_conv_is_the_flat_map() -> None:
    phi = build(SMALL, 1, 0).eval()
    torch.testing.assert_close(phi(images()).norm(dim=1), torch.ones(3))
    assert phi.conv(images()).shape == (3, 256 * 4)
    assert torch.equal(phi.conv(images()), phi.maps(images()).flatten(1).float())


@pytest.mark.parametrize(("trunk", "values"), [(Trunk(), 16 * 9), (Vectors(), 20), (Pyramid(), 3 * 9)])
def test_a_users_trunk_of_maps_or_vectors(trunk: nn.Module, values: int) -> None:
    phi = build(Shape(dimension=6, size=12, input="rgb"), 1, 0, trunk).eval()
    assert phi(images()).shape == (3, 6)
    assert phi.conv(images()).shape == (3, values)


def test_a_users_trunk_keeps_its_weights_and_is_not_touched() -> None:
    trunk = Trunk(seed=3)
    before = bits(trunk)
    phi = build(Shape(dimension=6, size=12, input="rgb"), 1, 0, trunk)
    assert bits(phi.trunk) == before
    phi.train()(images()).sum().backward()
    assert bits(trunk) == before
    assert all(weight.grad is None for weight in trunk.parameters())
    assert trunk.training


def test_the_same_seed_gives_a_users_trunk_the_same_head() -> None:
    shape = Shape(dimension=6, size=12, input="rgb")
    assert bits(build(shape, 1, 4, Trunk()).head) == bits(build(shape, 1, 4, Trunk()).head)
    assert bits(build(shape, 1, 4, Trunk()).head) != bits(build(shape, 1, 5, Trunk()).head)


def test_a_trunk_of_neither_maps_nor_vectors() -> None:
    with pytest.raises(ConfigError) as caught:
        build(Shape(dimension=6, size=12, input="rgb"), 1, 0, Wrong())
    assert str(caught.value) == "a trunk must give (B, C) or (B, C, h, w), got (2, 12, 12)"


def test_images_too_small_for_the_network() -> None:
    with pytest.raises(ConfigError) as caught:
        build(Shape(name="alexnet", dimension=6, size=12), 1, 0)
    assert str(caught.value).startswith("network 'alexnet' does not take images of 12 px (")
    assert str(caught.value).endswith("); set network.size")


def test_a_large_map_is_averaged_to_ten_thousand_values() -> None:
    maps = torch.rand(2, 64, 28, 28)
    flat = flat_map(maps)
    assert flat.shape == (2, 64 * 12 * 12)
    torch.testing.assert_close(flat, functional.adaptive_avg_pool2d(maps, 12).flatten(1))
    assert flat_map(torch.rand(2, 100, 10, 10)).shape == (2, 10_000)
    assert flat_map(torch.rand(2, 7)).shape == (2, 7)
    assert flat_map(torch.rand(2, 7).bfloat16()).dtype == torch.float32


def test_restored_weights_have_the_bits_of_the_snapshot() -> None:
    phi, other = build(SMALL, 1, 0), build(SMALL, 1, 1)
    phi.train()(images())
    restore(other, snapshot(phi).arrays)
    assert bits(other) == bits(phi)
    assert torch.equal(other.eval()(images()), phi.eval()(images()))


def test_a_snapshot_is_a_copy() -> None:
    phi = build(SMALL, 1, 0)
    before = snapshot(phi, epochs=3)
    with torch.no_grad():
        next(phi.parameters()).add_(1)
    assert bits(phi) != {name: array.tobytes() for name, array in before.arrays.items()}
    assert before.meta == {"epochs": 3}


def test_weights_of_another_network_are_refused() -> None:
    phi = build(SMALL, 1, 0)
    arrays = snapshot(phi).arrays
    wider = {**arrays, "head.1.bias": np.zeros(9, np.float32)}
    with pytest.raises(DataError) as caught:
        restore(phi, wider)
    assert str(caught.value) == (
        "these weights belong to another network: missing [], extra [], of another shape ['head.1.bias']"
    )
    renamed = {("other" if name == "head.1.bias" else name): array for name, array in arrays.items()}
    with pytest.raises(DataError) as caught:
        restore(phi, renamed)
    assert str(caught.value) == (
        "these weights belong to another network: missing ['head.1.bias'], extra ['other'], of another shape []"
    )


def test_a_saved_network_is_loaded_with_its_bits() -> None:
    phi = build(SMALL, 1, 7)
    loaded = network.load(saved(phi))
    assert isinstance(loaded, Network)
    assert bits(loaded) == bits(phi)


def test_what_is_saved_beside_the_weights_is_no_weight() -> None:
    phi = build(SMALL, 1, 7)
    arrays = {**saved(phi).arrays, "assignment": np.zeros(3, np.int32)}
    record = Snapshot(arrays=arrays, meta=saved(phi).meta)
    assert set(network.weights_of(record)) == set(phi.state_dict())
    assert bits(network.load(record)) == bits(phi)


def test_a_users_network_must_be_given_again() -> None:
    trunk = Trunk(seed=3)
    shape = Shape(dimension=6, size=12, input="rgb")
    phi = build(shape, 1, 0, trunk)
    arrays = {f"network.{name}": array for name, array in snapshot(phi).arrays.items()}
    record = Snapshot(arrays=arrays, meta=network.describe(shape, 1, own_trunk=True))
    assert bits(network.load(record, Trunk(seed=9))) == bits(phi)
    with pytest.raises(DataError) as caught:
        network.load(record)
    assert str(caught.value) == (
        "these weights belong to a network of your own; pass it again: reliant.load(path, network=module)"
    )


@pytest.mark.parametrize("mode", ["average", "concatenate"])
def test_an_aggregate_merges_what_its_learners_say(mode: str) -> None:
    learners = [build(SMALL, 1, seed).eval() for seed in range(3)]
    phi = Aggregate(learners, mode).eval()
    outputs, maps = [one(images()) for one in learners], [one.conv(images()) for one in learners]
    if mode == "average":
        merged, conv = sum(outputs) / 3, sum(maps) / 3  # type: ignore[arg-type]
    else:
        merged, conv = torch.cat(outputs, dim=1), torch.cat(maps, dim=1)
    assert (phi.size, phi.dimension) == (12, 6 if mode == "average" else 18)
    assert phi(images()).shape == (3, phi.dimension)
    torch.testing.assert_close(phi(images()), functional.normalize(merged, dim=1))
    torch.testing.assert_close(phi.conv(images()), conv)


@pytest.mark.parametrize("mode", ["average", "concatenate"])
def test_an_aggregate_is_saved_and_loaded(mode: str) -> None:
    learners = [build(SMALL, 1, seed) for seed in range(2)]
    record = network.aggregate([saved(one, epochs=[]) for one in learners], mode)
    loaded = network.load(record)
    assert isinstance(loaded, Aggregate)
    assert (record.meta["aggregate"], record.meta["learners"]) == (mode, 2)
    expected = Aggregate(learners, mode)
    assert bits(loaded) == bits(expected)
    assert torch.equal(loaded.eval()(images()), expected.eval()(images()))
