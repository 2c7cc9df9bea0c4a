from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import reliant
from reliant.errors import ConfigError, DataError, TrainingError
from tiny_runs import SIZE, Trunk, arrays, pictures, same_bits, tiny

Make = Callable[..., Any]
# Of 780 pairs 20,000 draws find the nearest, and a group must be nearer than it.
NONE = {"chance__percentile": 0.001, "chance__groups": 20_000}


def test_equal_images_end_with_a_verdict(make: Make) -> None:
    run = make(np.full((20, SIZE, SIZE, 1), 90, np.uint8))
    assert run.verdict.state == "collapsed"
    assert run.verdict.reason.startswith("all images have nearly the same features")
    assert [row["round"] for row in run.rounds] == [0]
    assert (run.round, run.manifest["status"]) == (0, "finished")
    assert run.embed(pictures(3)).shape == (3, 8)


@pytest.mark.parametrize("count", [2, 3, 5, 9])
def test_fewer_images_than_neighbours_or_a_batch(make: Make, count: int) -> None:
    run = make(pictures(count), initial__passes=6)
    assert run.verdict.state in ("ok", "empty", "collapsed", "flat")
    assert run.manifest["status"] == "finished"
    assert run.folder.stored("rounds/00/initial").budget.passes == pytest.approx(6)
    last = run.rounds[-1]["round"]
    assert run.folder.stored(f"rounds/{last:02d}/neighbours").value.meta["k"] == min(12, count - 1)


def test_a_run_of_few_images_can_be_resumed_and_is_the_same(make: Make) -> None:
    first, second = make(pictures(7)), make(pictures(7), out="other")
    assert same_bits(arrays(first), arrays(second))
    assert make(pictures(7)).rounds == first.rounds


def test_one_image_is_refused(make: Make) -> None:
    with pytest.raises(DataError, match="1 usable image, at least 2 are needed"):
        make(pictures(1))


def test_no_groups_end_the_rounds_with_the_last_phi(make: Make) -> None:
    run = make(pictures(40), **NONE)
    assert run.verdict.state == "empty"
    assert run.verdict.reason == "no group of images is more compact than chance explains"
    assert [row["groups"] for row in run.rounds] == [0]
    assert run.relations().summary["subsets"] == 0
    assert run.embed(pictures(3)).shape == (3, 8)


def test_a_control_needs_no_groups(make: Make) -> None:
    run = make(pictures(40), rounds__control=True, rounds__count=1, **NONE)
    assert [row["groups"] for row in run.rounds] == [0, 0]
    assert run.round == 1


def test_a_control_that_has_collapsed_ends(make: Make) -> None:
    run = make(np.full((20, SIZE, SIZE, 1), 90, np.uint8), rounds__control=True)
    assert (run.verdict.state, len(run.rounds)) == ("collapsed", 1)


def test_a_representation_that_collapses_is_not_the_result(make: Make) -> None:
    run = make(local__weight_decay=9.0, local__schedule="constant", local__passes=8, refine__passes=0)
    assert run.verdict.state == "collapsed"
    assert [row["round"] for row in run.rounds] == [0, 1]
    assert run.round == 0
    collapsed = run.folder.stored("rounds/01/representation").value.arrays
    healthy = run.folder.stored("rounds/00/representation").value.arrays
    kept = dict(run.network.state_dict())
    assert all(np.array_equal(kept[name.removeprefix("network.")], array) for name, array in healthy.items())
    assert not all(np.array_equal(collapsed[name], healthy[name]) for name in healthy)


def test_a_rate_that_is_far_too_high_fails_and_says_so(make: Make, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="the loss became nan in epoch 0"):
        make(initial__rate=1e30, initial__schedule="constant")
    assert '"status": "failed"' in (tmp_path / "run/manifest.json").read_text(encoding="utf-8")


def test_a_larger_crop_than_the_image_has(make: Make) -> None:
    run = make(pictures(16, size=8), data__size=8, augment__recipe="nat", rounds__count=0)
    assert run.embed(pictures(2, size=8)).shape == (2, 8)


def test_another_network_of_ones_own_gives_other_bits(make: Make, tmp_path: Path) -> None:
    run = make(rounds__count=0)
    other = make(rounds__count=0, network=Trunk(seed=1), out="other")
    assert not same_bits(arrays(run), arrays(other))


class Dropping(Trunk):
    """A network that draws from torch's own generator."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(super().forward(images), 0.3, self.training)


def test_a_network_that_draws_from_torch_resumes_with_the_same_bits(make: Make, events: Any, killed: Any) -> None:
    whole = make(network=Dropping(), rounds__count=1)
    with pytest.raises(killed):
        make(out="again", network=Dropping(), rounds__count=1, store__checkpoint_seconds=0.0, progress=events(steps=5))
    torch.rand(9)
    again = make(out="again", network=Dropping(), rounds__count=1, store__checkpoint_seconds=0.0)
    assert same_bits(arrays(whole), arrays(again))
    assert not same_bits(arrays(whole, "rounds/00/initial"), arrays(make(out="plain", rounds__count=0), "rounds/00/initial"))


def test_a_named_network_learns_like_ones_own(tmp_path: Path) -> None:
    run = reliant.fit(pictures(24), out=tmp_path / "named", config=tiny(rounds__count=1, initial__passes=2))
    assert run.embed(pictures(2)).shape == (2, 8)
    assert reliant.load(tmp_path / "named").rounds == run.rounds


def test_a_network_too_large_for_the_images(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="network 'alexnet' does not take images of 12 px"):
        reliant.fit(pictures(8), out=tmp_path / "named", config=tiny(network__name="alexnet"))
