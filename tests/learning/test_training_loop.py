from __future__ import annotations

import logging
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from training_parts import IMAGES, Plain, Summed, counted, initial, local, refinement, work

from reliant.config import Augment, Optimiser
from reliant.errors import ConfigError, TrainingError
from reliant.learning.augment import augmented
from reliant.learning.backbones import CounterDropout
from reliant.learning.loop import FORWARD_SHARE, rate_at, train
from reliant.learning.network import snapshot
from reliant.randomness import derive, generator
from tiny_runs import pictures


def steady(images: float, **keys: Any) -> Any:
    return work(images, **{"schedule": "constant", "momentum": 0.0, "weight_decay": 0.0, **keys})


@given(st.integers(1, 14), st.integers(1, 16), st.integers(1, 3), st.integers(0, 12), st.floats(0.5, 60, allow_nan=False))
@settings(deadline=None, max_examples=50)
def test_a_budget_is_never_exceeded_and_missed_by_less_than_a_batch_and_what_precedes_it(
    entries: int, batch: int, per_entry: int, asks: int, budget: float
) -> None:
    objective = Summed(entries, per_entry, asks)
    history = train(Plain(), objective, steady(budget, batch=batch, recipe="none"))
    step = max(1, min(batch // per_entry, entries)) * per_entry
    assert history.images <= budget + 0.5
    assert history.images > budget - step - asks * FORWARD_SHARE
    assert history.steps == len(objective.batches)


def test_whole_batches_spend_a_budget_to_the_last_image() -> None:
    history = train(Plain(), Summed(9), steady(27.0, batch=3))
    assert (history.images, history.steps, len(history.epochs)) == (27, 9, 3)


def test_images_that_are_only_run_forward_count_a_third() -> None:
    history = train(Plain(), Summed(6, asks=6), steady(16.0, batch=3))
    assert (history.images, history.steps) == (2 + 6 + 2 + 6, 4)


def test_no_features_are_asked_for_that_no_batch_could_use() -> None:
    objective = Summed(6, asks=9)
    history = train(Plain(), objective, steady(14.0, batch=3))
    assert history.images == 3 + 6
    assert len(history.epochs) == 1
    assert objective.epochs == [0, 1]


def test_an_epoch_draws_every_entry_once_and_skips_the_last_partial_batch() -> None:
    objective = Summed(11)
    train(Plain(), objective, steady(27.0, batch=3))
    for epoch in range(3):
        drawn = [entry for one, batch in objective.batches if one == epoch for entry in batch]
        assert len(drawn) == len(set(drawn)) == 9
        order = generator(0, "work", "order", epoch).permutation(11)
        assert drawn == order[:9].tolist()


def test_the_order_is_another_in_every_epoch_and_under_every_key() -> None:
    first, other = Summed(12), Summed(12)
    train(Plain(), first, steady(24.0, batch=4))
    train(Plain(), other, steady(24.0, batch=4, key=(1, "work")))
    assert first.batches[0][1] != first.batches[3][1] != other.batches[3][1]
    assert first.batches[0][1] != other.batches[0][1]


def test_a_batch_shrinks_to_the_entries_there_are() -> None:
    objective = Summed(4)
    train(Plain(), objective, steady(8.0, batch=64))
    assert [sorted(batch) for _, batch in objective.batches] == [[0, 1, 2, 3]] * 2


def test_a_batch_holds_as_many_images_as_are_asked_for() -> None:
    objective = Summed(20, images_per_entry=3)
    train(Plain(), objective, steady(30.0, batch=10))
    assert [len(batch) for _, batch in objective.batches] == [3, 3, 3]


def test_no_entries_are_no_training() -> None:
    history = train(Plain(), Summed(0), steady(30.0))
    assert (history.images, history.steps, history.epochs) == (0, 0, [])


def test_a_budget_below_a_batch_trains_nothing_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        history = train(Plain(), Summed(9), steady(3.0, batch=4, advice="refine.batch"))
    assert (history.steps, history.epochs) == (0, [])
    assert caplog.messages == [
        "nothing was trained: a budget of 3 images does not reach the first batch of 4; raise the passes or lower refine.batch"
    ]


def test_a_batch_of_one_is_refused_where_the_head_is_normalised() -> None:
    class Normalised(Plain):
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(2)

    with pytest.raises(ConfigError) as caught:
        train(Normalised(), Summed(1), steady(8.0, batch=4, advice="local.batch"))
    assert str(caught.value) == (
        "this network has a batch norm in its head, which a batch of one image does not allow; "
        "raise local.batch, use more images, or set network.head=linear"
    )


def test_a_step_by_hand() -> None:
    phi = Plain()
    train(phi, Summed(6), steady(12.0, batch=3, rate=0.25, reduction="mean"))
    assert float(phi.weight.detach()) == pytest.approx(-4 * 0.25)
    phi = Plain()
    train(phi, Summed(6), steady(12.0, batch=3, rate=0.25, reduction="sum"))
    assert float(phi.weight.detach()) == pytest.approx(-4 * 3 * 0.25)


def test_momentum_and_decay_by_hand() -> None:
    phi = Plain()
    train(phi, Summed(3), steady(9.0, batch=3, rate=0.5, momentum=0.5, weight_decay=0.1))
    weight, speed = 0.0, 0.0
    for _ in range(3):
        speed = 0.5 * speed + (1 + 0.1 * weight)
        weight -= 0.5 * speed
    assert float(phi.weight.detach()) == pytest.approx(weight)


def test_the_rate_follows_its_schedule_through_the_budget() -> None:
    phi = Plain()
    steps = [rate_at(Optimiser(rate=0.3, schedule="cosine"), done) for done in (0, 0.25, 0.5, 0.75)]
    train(phi, Summed(3), steady(12.0, batch=3, rate=0.3, schedule="cosine"))
    assert float(phi.weight.detach()) == pytest.approx(-sum(steps))


@pytest.mark.parametrize(
    ("schedule", "warmup", "done", "share"),
    [
        ("constant", 0.0, 0.0, 1),
        ("constant", 0.0, 1.0, 1),
        ("cosine", 0.0, 0.0, 1),
        ("cosine", 0.5, 0.25, 0.5 * (1 + math.sqrt(0.5))),
        ("cosine", 0.0, 0.5, 0.5),
        ("cosine", 0.0, 1.0, 0),
        ("one-cycle", 0.2, 0.0, 0.04),
        ("one-cycle", 0.2, 0.1, 0.52),
        ("one-cycle", 0.2, 0.2, 1),
        ("one-cycle", 0.2, 0.6, 0.5),
        ("one-cycle", 0.2, 1.0, 0),
        ("one-cycle", 0.0, 0.0, 1),
    ],
)
def test_the_rate_by_hand(schedule: Any, warmup: float, done: float, share: float) -> None:
    config = Optimiser(rate=0.4, schedule=schedule, warmup=warmup)
    assert rate_at(config, done) == pytest.approx(0.4 * share, abs=1e-12)


@given(st.sampled_from(["constant", "cosine", "one-cycle"]), st.floats(0, 0.9), st.floats(0, 1.2))
@settings(deadline=None, max_examples=50)
def test_the_rate_never_leaves_its_range(schedule: Any, warmup: float, done: float) -> None:
    assert 0 <= rate_at(Optimiser(rate=0.4, schedule=schedule, warmup=warmup), done) <= 0.4


def test_every_step_sees_views_of_its_own() -> None:
    phi, objective = Plain(), Summed(6)
    train(phi, objective, steady(12.0, batch=3, recipe="nat"))
    images = torch.from_numpy(pictures(IMAGES, channels=3))
    for step, ((_, batch), views) in enumerate(zip(objective.batches, phi.seen, strict=True)):
        key = derive(0, "work", "view", step)
        assert torch.equal(views, augmented(images[batch], torch.arange(3), key, Augment(recipe="nat"), 12))


def test_every_step_drops_out_by_a_key_of_its_own() -> None:
    class Dropping(Plain):
        def __init__(self) -> None:
            super().__init__()
            self.dropout, self.keys = CounterDropout(), []

        def forward(self, views: torch.Tensor) -> torch.Tensor:
            self.keys.append(self.dropout.key)
            return super().forward(views)

    phi = Dropping()
    train(phi, Summed(6), steady(15.0, batch=3))
    assert phi.keys == [derive(0, "work", step, "dropout", 0) for step in range(5)]


def test_the_history_holds_means_per_entry() -> None:
    phi, told = Plain(), []
    objective = Summed(6)
    objective.scale = lambda step: 0.0
    history = train(phi, objective, steady(15.0, batch=3, watch=told.append))
    rows = [(row.epoch, row.images, row.terms, row.churn, row.reassigned) for row in history.epochs]
    assert rows == [
        (0, 6, {"loss": 0, "step": 0.5}, 0, False),
        (1, 12, {"loss": 0, "step": 2.5}, 0, False),
        (2, 15, {"loss": 0, "step": 4}, 0, False),
    ]
    assert history.rows() == [vars(row) for row in history.epochs]
    assert [event["images"] for event in told if "epoch" not in event] == [3, 6, 9, 12, 15]
    assert [event["epoch"]["epoch"] for event in told if "epoch" in event] == [0, 1, 2]
    assert all(event["of"] == 15 for event in told)


def test_epochs_of_re_assignment_are_marked_and_churn_there() -> None:
    for objective, marks in ((initial(), [True, False, True]), (local(), [True, False, True]), (refinement(), [True, False])):
        history = train(counted(), objective, work(80.0))
        assert [row.reassigned for row in history.epochs][: len(marks)] == marks
        assert all(row.churn == 0 for row in history.epochs if not row.reassigned)
        assert history.epochs[0].churn > 0


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("step", [0, 4])
def test_a_loss_that_is_no_number_is_caught_in_its_step(bad: float, step: int) -> None:
    phi, objective = Plain(), Summed(9)
    objective.scale = lambda one: bad if one == step else 1.0
    phi.weight.data.fill_(1.0)
    with pytest.raises(TrainingError) as caught:
        train(phi, objective, steady(30.0, batch=3, rate=0.125))
    assert str(caught.value) == (
        f"the loss became {bad} in epoch {step // 3} after {step} steps; the state before it is kept. "
        "Lower the rate (now 0.125) or set machine.precision=fp32"
    )
    assert float(phi.weight.detach()) == pytest.approx(1 - step * 0.125)
    assert len(objective.batches) == step + 1


def test_a_rate_that_is_far_too_high_ends_in_that_error() -> None:
    for objective in (initial(), local(), refinement()):
        with pytest.raises(TrainingError, match=r"the loss became (nan|inf) in epoch \d+ after \d+ steps"):
            train(counted(), objective, work(400.0, rate=1e30, schedule="constant"))


def test_training_lowers_the_loss_and_leaves_the_network_in_training_mode() -> None:
    for make in (initial, local, refinement):
        phi = counted()
        history = train(phi, make(), work(600.0, rate=0.05))
        losses = [row.terms["loss"] for row in history.epochs]
        assert min(losses[-3:]) < 0.9 * losses[0]
        assert phi.training


@pytest.mark.parametrize("make", [initial, local, refinement])
def test_the_same_key_gives_the_same_bits_and_another_key_others(make: Any) -> None:
    def bits(key: int) -> bytes:
        phi = counted()
        train(phi, make(), work(40.0, key=(key, "work")))
        return b"".join(array.tobytes() for array in snapshot(phi).arrays.values())

    torch.manual_seed(1)
    first = bits(0)
    torch.manual_seed(2)
    assert bits(0) == first
    assert bits(1) != first


def test_bf16_and_fp32_agree_up_to_rounding() -> None:
    weights = []
    for precision in ("fp32", "bf16"):
        phi = counted()
        train(phi, initial(), work(20.0, precision=precision, rate=0.01))
        weights.append(np.concatenate([one.detach().numpy().ravel() for one in phi.parameters()]))
    assert 0 < np.abs(weights[0] - weights[1]).max() < 0.02


def test_training_leaves_global_generators_alone() -> None:
    before = torch.random.get_rng_state()
    train(counted(), initial(), work(20.0))
    assert torch.equal(before, torch.random.get_rng_state())
