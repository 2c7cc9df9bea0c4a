from __future__ import annotations

import pytest
import torch
from torch import nn

from reliant.config import Network as Shape
from reliant.errors import ConfigError
from reliant.learning import network
from reliant.learning.backbones import TRUNKS, CounterDropout, builders
from reliant.randomness import uniforms

# Name, side of its images, shape of its last map.
MAPS = {
    "small": [(12, (256, 2, 2)), (28, (256, 4, 4)), (64, (256, 4, 4))],
    "convnet": [(8, (256, 1, 1)), (32, (256, 4, 4)), (64, (256, 4, 4))],
    "alexnet": [(224, (256, 6, 6))],
    "exemplar": [(16, (256, 4, 4)), (32, (256, 8, 8)), (64, (256, 8, 8))],
    "exemplar-small": [(16, (64, 4, 4)), (32, (64, 8, 8))],
    "exemplar-large": [(16, (512, 4, 4))],
    "resnet18": [(16, (512, 2, 2))],
    "resnet50": [(16, (2048, 2, 2))],
}
CASES = [(name, size, shape) for name, cases in MAPS.items() for size, shape in cases]


def test_every_network_is_tried_here() -> None:
    assert set(MAPS) == set(TRUNKS)


@pytest.mark.parametrize(("name", "size", "shape"), CASES)
def test_the_last_map_has_its_shape(name: str, size: int, shape: tuple[int, ...]) -> None:
    trunk = builders(name)[0](2, size).eval()
    with torch.no_grad():
        assert trunk(torch.zeros(1, 2, size, size)).shape == (1, *shape)


@pytest.mark.parametrize(("name", "head"), [*((name, "linear") for name in MAPS), ("small", "mlp")])
def test_every_network_learns_something_in_all_its_weights(name: str, head: str) -> None:
    size = MAPS[name][0][0]
    phi = network.build(Shape(name=name, head=head, dimension=6, size=size), 1, 0)
    images = torch.rand(2, 1, size, size, generator=torch.Generator().manual_seed(0))
    values = phi.train()(images)
    assert values.shape == (2, 6)
    assert values.dtype == torch.float32
    torch.testing.assert_close(values.norm(dim=1), torch.ones(2))
    values[0, 0].backward()
    gradients = {name: weight.grad for name, weight in phi.named_parameters()}
    assert all(gradient is not None and gradient.isfinite().all() for gradient in gradients.values())
    weights = [gradient for name, gradient in gradients.items() if name.endswith("weight") and gradient is not None]
    assert sum(bool(gradient.abs().sum() > 0) for gradient in weights) == len(weights)


def test_the_number_of_weights_is_that_of_the_table() -> None:
    counts = {name: sum(one.numel() for one in builders(name)[0](3, 32).parameters()) for name in ("small", "convnet")}
    assert counts["small"] == pytest.approx(0.4e6, rel=0.1)
    assert counts["convnet"] == pytest.approx(2.0e6, rel=0.1)


def test_a_misspelt_network_names_the_nearest() -> None:
    with pytest.raises(ConfigError) as caught:
        builders("alexnt")
    assert str(caught.value) == "unknown network.name 'alexnt'; did you mean 'alexnet'?"


def test_an_unknown_network_lists_all() -> None:
    with pytest.raises(ConfigError) as caught:
        builders("zzz")
    assert str(caught.value) == (
        "unknown network.name 'zzz'; allowed: small, convnet, alexnet, exemplar, exemplar-small, exemplar-large, "
        "resnet18, resnet50"
    )


def test_dropout_drops_what_its_key_says() -> None:
    dropout, values = CounterDropout(0.5), torch.ones(4, 50)
    dropout.key = 7
    kept = uniforms(7, torch.arange(4), 50) >= 0.5
    assert torch.equal(dropout.train()(values), kept * 2.0)
    assert torch.equal(dropout(values), dropout(values))
    first = dropout(values)
    dropout.key = 8
    assert not torch.equal(dropout(values), first)


def test_dropout_keeps_the_mean_and_lets_all_through_in_evaluation() -> None:
    dropout, values = CounterDropout(0.25), torch.ones(40, 250)
    assert dropout.train()(values).mean() == pytest.approx(1, abs=0.03)
    assert dropout.eval()(values) is values


def test_dropouts_of_a_network_have_keys_of_their_own() -> None:
    layers = nn.Sequential(CounterDropout(), nn.Linear(3, 3), CounterDropout())
    network.key_dropout(layers, 3, "step", 1)
    first = [layers[0].key, layers[2].key]
    network.key_dropout(layers, 3, "step", 2)
    assert len({*first, layers[0].key, layers[2].key}) == 4
    network.key_dropout(layers, 3, "step", 1)
    assert [layers[0].key, layers[2].key] == first


def test_dropout_leaves_torchs_generator_alone() -> None:
    before = torch.random.get_rng_state()
    CounterDropout().train()(torch.ones(2, 3))
    assert torch.equal(before, torch.random.get_rng_state())
