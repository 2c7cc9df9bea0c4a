from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from reliant.learning.assignment import reassign_entries
from reliant.learning.objectives import Regression
from reliant.learning.targets import around_hubs, one_each
from reliant.randomness import generator
from reliant.records import Assignment

CPU = torch.device("cpu")
DIMENSION = 4


def onto_own_targets(images: int, **keys: Any) -> Regression:
    """The initialisation's objective."""
    fields = {"targets": one_each(images, DIMENSION, 1), "device": CPU, "key": (0, "test")}
    return Regression(image_of_entry=np.arange(images, dtype=np.int32), group_of_entry=None, **{**fields, **keys})


def onto_hubs(*sizes: int, spread: float = 0.5, **keys: Any) -> Regression:
    """A local objective: groups of these sizes, whose images are numbered backwards."""
    owners = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    images = np.arange(len(owners), dtype=np.int32)[::-1].copy()
    targets = around_hubs(owners, DIMENSION, 2, spread, projected=True)
    fields = {"targets": targets, "device": CPU, "key": (0, "test"), "unit": "group", "view": "clean"}
    return Regression(image_of_entry=images, group_of_entry=owners, **{**fields, **keys})


def features(count: int, seed: int = 0) -> torch.Tensor:
    drawn = torch.randn(count, DIMENSION, generator=torch.Generator().manual_seed(seed))
    return functional.normalize(drawn, dim=1)


def some(*entries: int) -> np.ndarray:
    return np.array(entries, dtype=np.int64)


def refuse(images: np.ndarray) -> torch.Tensor:
    raise AssertionError("features were asked for")


def held_points(objective: Regression, entries: np.ndarray) -> torch.Tensor:
    return objective.space.points(torch.from_numpy(objective.point[entries]).long())


def test_the_images_of_entries() -> None:
    assert onto_hubs(2, 1).images(some(0, 2), step=5).tolist() == [2, 0]


@pytest.mark.parametrize("measure", ["squared", "plain", "softmax"])
def test_the_loss_by_hand(measure: str) -> None:
    objective = onto_own_targets(6, loss=measure, temperature=0.25, reassign_every=0)
    entries, values = some(4, 1, 2), features(3)
    points = held_points(objective, entries)
    squares = [sum(float(z - t) ** 2 for z, t in zip(one, point)) for one, point in zip(values, points)]
    expected = {"squared": sum(squares), "plain": sum(math.sqrt(one) for one in squares), "softmax": 0.0}
    for row in range(3):
        logits = [float(values[row] @ points[column]) / 0.25 for column in range(3)]
        expected["softmax"] -= logits[row] - math.log(sum(math.exp(one) for one in logits))
    losses = objective.loss(values, entries, epoch=0)
    assert float(losses["loss"]) == pytest.approx(expected[measure], rel=1e-4)
    assert float(losses["distance"]) == pytest.approx(sum(squares), rel=1e-4)


def test_points_of_an_images_own_hub_are_no_wrong_answer() -> None:
    objective = onto_hubs(2, 2, 1, loss="softmax", temperature=0.5, reassign_every=0)
    entries, values = some(0, 1, 2, 4), features(4)
    points, hubs = held_points(objective, entries), [0, 0, 1, 2]
    expected = 0.0
    for row in range(4):
        logits = [
            float(values[row] @ points[column]) / 0.5 for column in range(4) if column == row or hubs[column] != hubs[row]
        ]
        own = float(values[row] @ points[row]) / 0.5
        expected -= own - math.log(sum(math.exp(one) for one in logits))
    assert float(objective.loss(values, entries, epoch=0)["loss"]) == pytest.approx(expected, rel=1e-4)


def test_a_softmax_over_one_hub_alone_is_no_loss() -> None:
    objective = onto_hubs(3, loss="softmax", reassign_every=0)
    assert float(objective.loss(features(3), some(0, 1, 2), epoch=0)["loss"]) == 0


@pytest.mark.parametrize("measure", ["squared", "plain", "softmax"])
def test_features_that_reach_their_targets_have_finite_gradients(measure: str) -> None:
    objective = onto_own_targets(3, loss=measure, reassign_every=0)
    values = held_points(objective, some(0, 1, 2)).clone().requires_grad_()
    losses = objective.loss(values, some(0, 1, 2), epoch=0)
    losses["loss"].backward()
    assert values.grad is not None
    assert bool(values.grad.isfinite().all())
    assert float(losses["distance"]) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("measure", ["squared", "plain", "softmax"])
@given(st.permutations(range(8)), st.integers(1, 6), st.integers(0, 99))
@settings(deadline=None, max_examples=25)
def test_a_batch_deals_out_its_own_points_as_well_as_can_be(measure: str, order: list[int], batch: int, seed: int) -> None:
    objective = onto_own_targets(8, loss=measure, reassign_every=1, start=Assignment(point=np.array(order, np.int32)))
    entries, values = np.random.default_rng(seed).permutation(8)[:batch], features(batch, seed)
    before = objective.point.copy()
    losses = objective.loss(values, entries, epoch=0)
    rest = np.setdiff1d(np.arange(8), entries)
    assert objective.point[rest].tolist() == before[rest].tolist()
    assert sorted(objective.point) == list(range(8))
    assert sorted(objective.point[entries]) == sorted(before[entries])
    # What is back-propagated is the distance to the new points, and no other permutation has a smaller one.
    own = objective.space.points(torch.from_numpy(before[entries]).long())
    table = torch.cdist(values, own).double()
    table = table if measure == "plain" else table.square()
    least = min(
        float(sum(table[row, column] for row, column in enumerate(one))) for one in itertools.permutations(range(batch))
    )
    now = (values - held_points(objective, entries)).norm(dim=1)
    assert float(now.sum() if measure == "plain" else now.square().sum()) == pytest.approx(least, abs=1e-4)
    assert float(losses["distance"]) == pytest.approx(float(now.square().sum()), abs=1e-4)


def test_points_move_in_every_third_epoch_alone() -> None:
    objective = onto_own_targets(6, reassign_every=3)
    moved = []
    for epoch in range(7):
        objective.before_epoch(epoch, refuse)
        objective.loss(features(6, seed=epoch), np.arange(6), epoch)
        moved.append(objective.churn > 0)
    assert moved == [True, False, False, True, False, False, True]
    assert [objective.reassigns(epoch) for epoch in range(7)] == moved
    assert not onto_own_targets(6, reassign_every=0).reassigns(0)


def test_churn_is_the_share_of_entries_with_another_point() -> None:
    objective = onto_own_targets(4)
    objective.before_epoch(1, refuse)
    assert objective.churn == 0
    objective.point = np.array([1, 0, 2, 3], np.int32)
    assert objective.churn == 0.5
    objective.before_epoch(2, refuse)
    assert objective.churn == 0


def test_an_assignment_to_start_from_is_copied() -> None:
    start = Assignment(point=np.array([2, 0, 1], np.int32))
    objective = onto_own_targets(3, reassign_every=1, start=start)
    objective.loss(features(3, seed=3), np.arange(3), epoch=0)
    assert start.point.tolist() == [2, 0, 1]
    assert objective.point.tolist() != [2, 0, 1]


def test_clean_features_are_asked_for_before_an_epoch_of_re_assignment() -> None:
    objective = onto_own_targets(7, view="clean", reassign_every=2, block=4)
    values = features(7)
    asked = []

    def ask(images: np.ndarray) -> torch.Tensor:
        asked.append(images.tolist())
        return values

    before = objective.point.copy()
    objective.before_epoch(2, ask)
    order = generator(0, "test", "assignment", 2).permutation(7)
    expected = reassign_entries(before, values, objective.space.points, order, 4, plain=False)
    assert objective.point.tolist() == expected.tolist() != before.tolist()
    after = objective.point.copy()
    objective.before_epoch(3, ask)
    objective.loss(values, np.arange(7), epoch=2)
    assert objective.point.tolist() == after.tolist()
    assert asked == [list(range(7))]


def test_groups_get_the_hubs_and_members_the_points_that_suit_them_best() -> None:
    objective = onto_hubs(3, 1, 2, reassign_every=1)
    values = features(6)
    hubs = objective.space.hubs.numpy()  # type: ignore[union-attr]
    owners, sizes = np.array([0, 0, 0, 1, 2, 2]), [3, 1, 2]
    means = np.stack([values[owners == group].mean(dim=0).numpy() for group in range(3)])
    best = min(itertools.permutations(range(3)), key=lambda one: ((means - hubs[list(one)]) ** 2).sum(axis=1) @ sizes)
    objective.before_epoch(0, lambda images: values)
    assert objective._hub_of_group is not None
    assert objective._hub_of_group.tolist() == list(best)
    for group, size in enumerate(sizes):
        members = np.flatnonzero(owners == group)
        points = objective.space.points(torch.from_numpy(members))

        def distance(order: Any, values: Any = values[members], points: Any = points) -> float:
            return float((values - points[list(order)]).square().sum())

        chosen = objective.point[members] - members[0]
        assert distance(chosen) == pytest.approx(min(map(distance, itertools.permutations(range(size)))), abs=1e-5)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.integers(2, 4), st.integers(0, 99))
@settings(deadline=None, max_examples=40)
def test_a_group_stays_on_one_hub(sizes: list[int], block: int, seed: int) -> None:
    objective = onto_hubs(*sizes, reassign_every=1, block=block)
    owners = np.repeat(np.arange(len(sizes)), sizes)
    for epoch in range(3):
        objective.before_epoch(epoch, lambda images, epoch=epoch: features(len(owners), seed + epoch))
        assert sorted(objective.point) == list(range(len(owners)))
        hubs = objective.space.hub(torch.from_numpy(objective.point).long()).numpy()
        assert [len(set(hubs[owners == group])) for group in range(len(sizes))] == [1] * len(sizes)
        assert len(set(hubs)) == len(sizes)


def test_groups_of_equal_members_share_a_hub_with_their_points() -> None:
    objective = onto_hubs(3, 2, spread=0.1, reassign_every=1)
    objective.before_epoch(0, lambda images: features(5, 4))
    assert objective._hub_of_group is not None
    hubs = objective.space.hubs[objective._hub_of_group].numpy()  # type: ignore[index]
    away = np.linalg.norm(objective.present_targets() - hubs[[0, 0, 0, 1, 1]], axis=1)
    assert away.max() < 0.4


def test_the_churn_of_groups_is_that_of_their_hubs() -> None:
    objective = onto_hubs(3, 1, reassign_every=1)
    hubs = objective.space.hubs
    assert hubs is not None
    objective.before_epoch(0, lambda images: hubs[[1, 1, 1, 0]])
    assert objective.churn == 1
    objective.before_epoch(1, lambda images: hubs[[1, 1, 1, 0]])
    assert objective.churn == 0


@pytest.mark.parametrize("unit", ["image", "group"])
def test_a_state_put_back_goes_on_alike(unit: str) -> None:
    def fresh() -> Regression:
        return onto_hubs(3, 1, 2, 2, unit=unit, reassign_every=1)

    first, second = fresh(), fresh()
    first.before_epoch(0, lambda images: features(8))
    second.load_state({name: array.copy() for name, array in first.state().items()})
    assert second.churn == first.churn > 0
    for objective in (first, second):
        objective.before_epoch(1, lambda images: features(8, seed=5))
    values = features(8, seed=6)
    assert torch.equal(*(one.loss(values, np.arange(8), epoch=1)["loss"] for one in (first, second)))
    assert first.present_targets().tobytes() == second.present_targets().tobytes()
    assert first.state().keys() == second.state().keys()
    assert all(first.state()[name].tobytes() == second.state()[name].tobytes() for name in first.state())


def test_a_state_that_is_no_permutation_is_refused() -> None:
    broken = {"point": np.array([0, 0, 1], np.int32), "first_point": np.arange(3, dtype=np.int32)}
    with pytest.raises(Exception, match="an assignment must be a permutation of its points"):
        onto_own_targets(3).load_state(broken)


def test_present_targets_are_the_points_that_entries_hold() -> None:
    objective = onto_own_targets(5, start=Assignment(point=np.array([4, 2, 0, 1, 3], np.int32)))
    expected = objective.space.points(torch.tensor([4, 2, 0, 1, 3])).numpy()
    np.testing.assert_array_equal(objective.present_targets(), expected)
    assert onto_own_targets(0).present_targets().shape == (0, DIMENSION)


def test_nan_features_move_nothing_and_give_a_nan_loss() -> None:
    objective = onto_own_targets(4, reassign_every=1)
    losses = objective.loss(torch.full((4, DIMENSION), math.nan), np.arange(4), epoch=0)
    assert math.isnan(float(losses["loss"]))
    assert objective.point.tolist() == [0, 1, 2, 3]
    grouped = onto_hubs(2, 2, reassign_every=1)
    grouped.before_epoch(0, lambda images: torch.full((4, DIMENSION), math.nan))
    assert grouped.churn == 0
