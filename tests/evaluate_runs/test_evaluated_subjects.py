from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from reliant.errors import DataError, UsageError
from reliant.evaluate.subjects import open_subject
from reliant.learning.network import Network
from tiny_runs import Trunk, fit, pictures


@pytest.mark.parametrize(
    ("keys", "method"),
    [
        ({}, "default"),
        ({"rounds__control": True}, "control"),
        ({"groups__members": "singletons"}, "singletons"),
        ({"groups__members": "shuffled"}, "shuffled"),
    ],
)
def test_the_arm_of_a_run_is_its_method(tmp_path: Any, keys: dict[str, Any], method: str) -> None:
    subject = open_subject(fit(tmp_path / "run", pictures(16), rounds__count=0, **keys))
    assert (subject.method, subject.channels, subject.preset) == (method, "1", "")
    assert subject.rounds("all") == [0]


def test_the_last_round_is_that_of_the_result(run: Any) -> None:
    subject = open_subject(run)
    assert subject.rounds("last") == [run.round]
    assert subject.rounds("all") == [0, 1, 2]


def test_passes_grow_with_the_rounds(run: Any) -> None:
    subject = open_subject(run)
    spent = [subject.passes(round) for round in (0, 1, 2)]
    assert 6 < spent[0] < spent[1] < spent[2]


@pytest.mark.parametrize(("name", "size"), [("small", 32), ("exemplar-small", 32), ("alexnet", 224)])
def test_a_random_network_has_the_size_that_it_is_built_for(name: str, size: int) -> None:
    subject = open_subject(f"random:{name}")
    assert (subject.method, subject.config.data.size, subject.config.network.size) == ("random", size, size)
    assert subject.rounds("all") == [0]
    assert subject.passes(0) == 0


def test_a_random_network_depends_on_its_seed() -> None:
    first, again, other = (open_subject("random:small", seed).network_of(0) for seed in (0, 0, 1))
    weights = [phi.head[1].weight for phi in (first, again, other)]  # type: ignore[union-attr,index]
    assert torch.equal(weights[0], weights[1])  # type: ignore[arg-type]
    assert not torch.equal(weights[0], weights[2])  # type: ignore[arg-type]


def test_a_module_is_wrapped_with_the_weights_that_it_has() -> None:
    trunk = Trunk(seed=4)
    subject = open_subject(trunk)
    assert (subject.method, subject.channels, subject.config.data.channels) == ("module", "3", "3")
    phi = subject.network_of(0)
    assert isinstance(phi, Network)
    assert all(torch.equal(value, phi.trunk.state_dict()[name]) for name, value in trunk.state_dict().items())


def test_a_network_of_reliants_is_taken_as_it_is(run: Any) -> None:
    phi = run.network
    subject = open_subject(phi)
    assert subject.network_of(0) is phi
    assert subject.config.data.size == phi.size == 12


def test_what_is_no_subject() -> None:
    with pytest.raises(UsageError, match=r"evaluate takes a run, a path or an nn\.Module, got list"):
        open_subject([nn.Linear(2, 2)])  # type: ignore[arg-type]


def test_weights_of_a_network_of_ones_own_need_it(run: Any) -> None:
    with pytest.raises(DataError, match="these weights belong to a network of your own"):
        open_subject(run.path / "rounds/00/representation/arrays.safetensors")
